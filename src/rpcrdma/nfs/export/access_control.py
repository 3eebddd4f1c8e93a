"""Decides which calls may use an export, and as which user, and logs the refusals."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.nfs.export.access_terms import AccessTerms, Export, ExportTerms, UserAndGroups
from rpcrdma.nfs.export.export_limits import NFS_DECISIONS_MAX
from rpcrdma.nfs.export.grant import CallerIdentity, Grant, ServingUser
from rpcrdma.nfs.export.tree import Refused
from rpcrdma.nfs.export.user_groups import UserGroups
from rpcrdma.rpc.auth import AuthNone, AuthSys, Credential, LocalUser
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.host_identity import CallOrigin, XprtSec, protects
from rpcrdma.rpc.service import CallContext, CredentialTooWeak
from rpcrdma.wire.peer_text import printable

__all__ = ["AdmittedTree", "HostAdmission"]

_LOGGER = logging.getLogger("rpcrdma.server")
_NETWORKS_SHOWN_MAX = 8


class _Decision(NamedTuple):
    """The rule that was found for the calls of one origin and principal to one export, kept for their next calls."""

    terms: ExportTerms
    """The terms of the export by which the rule was found."""
    rule: AccessTerms | None
    """The rule that the calls match; None: none matches, or it refuses all calls."""
    proofs: tuple[SecurityFlavor, ...]
    """For calls that are refused without a proof: the security flavors of the first rule that would admit calls of the
    host with certain proved principals; else empty."""


class HostAdmission:
    """Decides by the rules of an export which calls may use it, and as which user, and logs refusals. Thread-safe.

    Refusals of one host by one export for one cause are logged once a minute; the number of others follows later.

    Args:
        identity_of: returns the identity with which threads access files as a user.
        groups: the groups of users by this machine's database, for exports that ask for them; None: all threads act as
            the server's own user, so that groups have no effect.
    """

    def __init__(
        self, identity_of: Callable[[UserAndGroups], CallerIdentity], groups: UserGroups | None = None
    ) -> None:
        self._groups = groups
        self._identity_of = identity_of
        self._known: dict[tuple[str, CallOrigin, str | None], _Decision] = {}
        self._guard = threading.Lock()
        # Worker threads have no event loop for a timer: the number of refusals held back waits for the next one of
        # their kind after the minute, or for `flush`.
        self._log = LimitedLog(_LOGGER, later=lambda _delay_s, _callback: None)
        self.latest = Grant(ServingUser())
        """The newest grant. Calls of a connection follow each other, so callers of `check` try this grant first: it is
        valid for all calls with the same terms, origin and credential by a version that the export serves."""

    def watch(self, observer: Callable[[Any], Any] | None) -> None:
        """Replaces `check` and `check_mount` of this instance by functions that `observer` makes, such as for an audit.

        Args:
            observer: is called here with each of the class's own two methods, bound to this instance, and returns a
                function with its signature, which replaces that of an earlier observer; None puts the methods back.
        """
        for name in ("check", "check_mount"):
            method = getattr(type(self), name)
            if observer is not None:
                setattr(self, name, observer(method.__get__(self)))
            else:
                vars(self).pop(name, None)

    def forget(self) -> None:
        """Forgets the rules found for calls, as terms or groups have changed; sets `latest` to a grant for no call."""
        self._known = {}
        self.latest = Grant(ServingUser())

    def check(self, export: ExportTerms, context: CallContext, version: int = 3) -> Grant | None:
        """Returns the caller's rights if the rules of an export admit a call of NFS; else logs the refusal and raises.

        The first rule that matches the host, its certificate and the principal decides. The protection of the
        connection and the flavor of the call are checked against that rule. Returned rights become the attribute
        `latest`; None and errors leave `latest` as it was.

        Args:
            export: the terms of the export.
            context: the call.
            version: the version of NFS, 3 or 4.

        Returns:
            The rights; None in the event loop if the groups of the caller have to be looked up: the call is then
            checked again in a worker thread.

        Raises:
            Refused: EACCES: the export is closed to this host, caller, version, or to connections like this one;
                EAGAIN, which is not logged: the groups of the caller cannot be looked up now.
            CredentialTooWeak: the export asks for another flavor.
        """
        origin, credential = context.client.origin, context.credential
        self._check_version(export, origin, version)
        if origin.transport not in export.transports:
            self._refuse(export, origin, origin.transport, f"it is not served over {origin.transport}")
        if export.reserved_port and not _comes_from_root(origin, credential):
            self._refuse(export, origin, "port", "it asks for a port below 1024")
        _, rule, proofs = self._decide(export, origin, credential.principal)
        if rule is None:
            if proofs:
                self._refuse_flavor(export, origin, credential, proofs)
            self._refuse_host(export, origin, credential.principal)
        if rule.xprtsec != "none" and not protects(origin.xprtsec, rule.xprtsec):
            self._refuse_protection(export, origin, rule.xprtsec)
        if credential.flavor not in rule.security:
            self._refuse_flavor(export, origin, credential, rule.security)
        granted = self._granted(export, rule, context, credential)
        if granted is not None:
            self.latest = granted
        return granted

    def check_mount(self, export: ExportTerms, context: CallContext, version: int = 3) -> Grant | None:
        """Returns the rights of a MOUNT call's caller, over any transport, from any port; logs a refusal and raises it.

        Does not change `latest`.

        Args:
            export: the terms of the export.
            context: the call.
            version: the version of NFS whose clients make the call: 3 for MOUNT, 4 for SECINFO.

        Returns:
            The rights by the first rule that matches host and principal, if that rule admits the call's flavor; else,
            without a look at later rules, those of the anonymous user by the first rule that admits the host. None in
            the event loop if the groups of the caller have to be looked up.

        Raises:
            Refused: EACCES: no rule admits the host, the version is not served, or the connection is less protected
                than each rule for the host asks, and `export.mount_in_clear` is False; EAGAIN, which is not logged: the
                groups of the caller cannot be looked up now.
        """
        origin, credential = context.client.origin, context.credential
        self._check_version(export, origin, version)
        rules = export.admitting(origin)
        if not rules:
            self._refuse_host(export, origin, None)
        if not (export.mount_in_clear or any(protects(origin.xprtsec, rule.xprtsec) for rule in rules)):
            self._refuse_protection(export, origin, rules[0].xprtsec, mounts=True)
        rule = self._decide(export, origin, credential.principal).rule
        if rule is not None and credential.flavor in rule.security:
            return self._granted(export, rule, context, credential)
        return self._granted(export, rules[0], context, AuthNone())

    def flavors(self, export: ExportTerms, context: CallContext) -> list[SecurityFlavor]:
        """Returns the security flavors with which callers of the call's host may use an export, the preferred first.

        They are those of all rules that may admit a call of the host, each flavor once.

        Args:
            export: the terms of the export.
            context: the call.

        Raises:
            Refused: EACCES: the export is closed to this host; this is logged.
        """
        origin = context.client.origin
        rules = export.admitting(origin)
        if not rules:
            self._refuse_host(export, origin, None)
        return list(dict.fromkeys(flavor for rule in rules for flavor in rule.flavors))

    def _check_version(self, export: ExportTerms, origin: CallOrigin, version: int) -> None:
        if version not in export.versions:
            self._refuse(export, origin, f"version {version}", f"it is not served by NFS version {version}")

    def _decide(self, export: ExportTerms, origin: CallOrigin, principal: str | None) -> _Decision:
        """Returns the rule of an export for calls of `origin` and `principal`, with the terms by which it was found.

        In the result `rule` is None if the calls are refused. `principal` None: a call without a proof of its user.
        Returns a remembered result if it was found by the same `export`; else looks the rule up, and remembers the
        result.
        """
        key = export.name, origin, principal
        known = self._known
        found = known.get(key)
        # A thread may have noted a decision by terms that have changed meanwhile.
        if found is None or found.terms is not export:
            rule = export.matching(origin, principal)
            if rule is not None and rule.denied:
                rule = None
            unproved = rule is None and principal is None
            proofs = (each.flavors for each in export.admitting(origin) if unproved and each.principals)
            if len(known) >= NFS_DECISIONS_MAX:
                known.clear()
            known[key] = found = _Decision(export, rule, next(proofs, ()))
        return found

    def _granted(
        self, export: ExportTerms, rule: AccessTerms, context: CallContext, credential: Credential
    ) -> Grant | None:
        """Returns the rights that `rule`, one of `export`, gives to the caller with `credential`.

        Returns None in the event loop if the caller's groups have to be looked up. Raises Refused: EAGAIN: the groups
        cannot be looked up now.
        """
        user: Credential | LocalUser = credential
        # To the file system of a URL all users are one.
        has_users = not isinstance(export, Export) or export.url is None
        if export.groups == "server" and has_users and self._groups is not None and isinstance(credential, AuthSys):
            groups = self._groups.of(credential.uid, at_once=not context.may_block)
            if groups is None:
                return None
            user = LocalUser(credential.uid, credential.gid, groups)
        return Grant(
            self._identity_of(rule.acting_as(user)),
            read_only=rule.read_only,
            credential=credential,
            terms=export,
            origin=context.client.origin,
        )

    def _refuse_protection(
        self, export: ExportTerms, origin: CallOrigin, wanted: XprtSec, *, mounts: bool = False
    ) -> NoReturn:
        remedy = "; Linux asks MOUNT in the clear, which Export(mount_in_clear=True) allows" if mounts else ""
        reason = f"it asks for xprtsec={wanted}, the connection has {origin.xprtsec}{remedy}"
        self._refuse(export, origin, origin.xprtsec, reason, xprtsec=wanted)

    def _refuse_flavor(
        self, export: ExportTerms, origin: CallOrigin, credential: Credential, security: Sequence[SecurityFlavor]
    ) -> NoReturn:
        wanted = ", ".join(map(str, security))
        reason = f"it came with {credential.flavor}, and the export asks for {wanted}"
        self._tell(export, origin, "security", reason, security=[*map(str, security)])
        raise CredentialTooWeak(f"{export.name} asks for {wanted}")

    def _refuse_host(self, export: ExportTerms, origin: CallOrigin, principal: str | None) -> NoReturn:
        if export.rules or export.hosts is None:
            who = "callers of this host" if principal is None else printable(principal)
            self._refuse(export, origin, principal or "", f"no rule of it admits {who}")
        networks = [str(network) for network in export.hosts]
        more = len(networks) - _NETWORKS_SHOWN_MAX
        admitted = ", ".join(networks[:_NETWORKS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        self._refuse(export, origin, "", f"it admits {admitted or 'no host'} alone", admitted=networks)

    def _refuse(self, export: ExportTerms, origin: CallOrigin, kind: str, reason: str, **more: Any) -> NoReturn:
        self._tell(export, origin, kind, reason, **more)
        raise Refused(errno.EACCES)

    def _tell(self, export: ExportTerms, origin: CallOrigin, kind: str, reason: str, **more: Any) -> None:
        """Logs a refusal as a warning and a structured event, once a minute for each export, host and `kind`.

        All hosts of an IPv6 network of 64 bits count as one. Further ones of that minute are counted: the next such
        refusal after the minute logs their number and the last of them, unless `flush` does so before. `kind` is any
        text that tells causes apart, such as "security"; `reason` is the text of the log for people; `more` are further
        keys of the event, such as `admitted` or `security`, with JSON values.
        """
        event = {"event": "refused", "client": origin.host, "export": export.name, "reason": reason, **more}
        with self._guard:
            self._log.log(
                logging.WARNING,
                f"{export.name} {kind}",
                "refused %s the export %s: %s",
                origin.host,
                export.name,
                reason,
                extra={"event": event},
                host=origin.host,
            )

    def flush(self) -> None:
        """Logs, for each cause, the number and the last of the refusals held back by the limit of one a minute."""
        with self._guard:
            self._log.flush()


class AdmittedTree:
    """A base class with those methods of `tree.Tree` that check access; a subclass sets `export` and `admission`.

    All refusals but EAGAIN are logged.
    """

    export: Export
    admission: HostAdmission
    always_waits = False
    """Whether each system call on an object of the tree may wait for a server or a process that does not answer, as in
    NFS and FUSE: the event loop then makes none, as `admit` and `ServerExports.locate` always return None there."""

    def set_terms(self, export: Export) -> None:
        """Replaces the terms of the export by `export`, of the same name and directory; never waits."""
        self.export = export

    def admit(self, context: CallContext, version: int) -> Grant | None:
        granted = self.admission.check(self.export, context, version)
        return None if self.always_waits and not context.may_block else granted

    def admit_mount(self, context: CallContext, version: int) -> Grant | None:
        granted = self.admission.check_mount(self.export, context, version)
        return None if self.always_waits and not context.may_block else granted

    def flavors(self, context: CallContext) -> Sequence[SecurityFlavor]:
        return self.admission.flavors(self.export, context)


def _comes_from_root(origin: CallOrigin, credential: Credential) -> bool:
    """Returns whether a call has a source port below 1024, or needs none, since it uses RDMA or RPCSEC_GSS."""
    return origin.reserved_port or origin.transport == "rdma" or credential.flavor.service is not None
