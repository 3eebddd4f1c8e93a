"""The access log of a server: a record in JSON for each call that mounts, changes names or attributes, or is refused.

A server with an access log has other handlers for these calls, which make a record after the call; without the log a
call costs nothing more. The records of both versions of NFS and of MOUNT have the same keys.
"""

from __future__ import annotations

import errno
import functools
import json
import os
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from rpcrdma.nfs.export.access_terms import ExportTerms
from rpcrdma.nfs.export.server_exports import LocalTree
from rpcrdma.nfs.export.tree import Refused, Tree
from rpcrdma.nfs.mount import MNTPATHLEN
from rpcrdma.nfs.server.services import NfsServices
from rpcrdma.rpc.auth import AuthNone, AuthSys
from rpcrdma.rpc.service import CallContext, CredentialTooWeak

__all__ = ["AUDIT_KINDS", "Audit", "NamedObject"]

AUDIT_KINDS: Final = ("mount", "refused", "create", "remove", "rename", "setattr")
"""The kinds of audit records, of which the administrator chooses some."""


class NamedObject(NamedTuple):
    """An object in an audit record: `name` in the directory with the handle `handle`, or the object with this handle.

    `name` is None if `handle` is the handle of the object itself; `handle` is None if it is not known.
    """

    handle: bytes | None
    name: str | None = None


def _named(where: Any) -> NamedObject:
    """Returns the directory and the name in `where`, a diropargs3 of NFS version 3, as a `NamedObject`."""
    return NamedObject(where.dir.data, where.name)


_VERSION_3: Final[dict[str, tuple[str, Callable[[Any], list[NamedObject]]]]] = {
    "setattr": ("setattr", lambda args: [NamedObject(args.object.data)]),
    "create": ("create", lambda args: [_named(args.where)]),
    "mkdir": ("create", lambda args: [_named(args.where)]),
    "symlink": ("create", lambda args: [_named(args.where)]),
    "mknod": ("create", lambda args: [_named(args.where)]),
    "link": ("create", lambda args: [NamedObject(args.file.data), _named(args.link)]),
    "remove": ("remove", lambda args: [_named(args.object)]),
    "rmdir": ("remove", lambda args: [_named(args.object)]),
    "rename": ("rename", lambda args: [_named(args.from_), _named(args.to)]),
}
"""For each method of the version 3 service: the kind of its records, and a function from its arguments to the objects
that they name."""


class Audit:
    """Makes the audit records of a server: a line of JSON for each call of a wanted kind.

    Args:
        kinds: the wanted kinds: "mount", "refused", "create", "remove", "rename", "setattr" (`AUDIT_KINDS`).
        put: is called with each record, a line of JSON in UTF-8 without its end, in any thread; must not block.
        wall_clock_ns: returns the time in nanoseconds since 1970.
    """

    def __init__(self, kinds: Collection[str], put: Callable[[bytes], None], wall_clock_ns: Callable[[], int]) -> None:
        self.kinds = frozenset(kinds)
        self._put = put
        self._wall_clock_ns = wall_clock_ns
        self._services: NfsServices

    def watch(self, services: NfsServices) -> None:
        """Replaces the handlers of calls whose kind of record is in `kinds` by handlers that also write the record.

        The handlers of other kinds, if an earlier `Audit` has replaced them, become the services' own again. For a
        server that has been given the services already, call `Server.renew_handlers` afterwards. If "refused" is in
        `kinds`, calls of any version that the rules of an export refuse (AUTH_TOOWEAK or EACCES) are recorded as well,
        by `HostAdmission.watch`; else such records by an earlier `Audit` end.

        Args:
            services: the services of NFS version 3 and MOUNT; `watch_compounds` does the same for version 4.
        """
        self._services = services
        for method, (kind, places) in _VERSION_3.items():
            vars(services.nfs).pop(method, None)
            if kind in self.kinds:
                setattr(services.nfs, method, self._of_version_3(getattr(services.nfs, method), kind, places))
        vars(services.mount).pop("mnt", None)
        if "mount" in self.kinds:
            setattr(services.mount, "mnt", self._of_mount(services.mount.mnt))  # noqa: B010 - a method for mypy
        services.nfs.exports.parts.admission.watch(self._of_admission if "refused" in self.kinds else None)

    def _of_version_3(self, handler: Any, kind: str, places: Callable[[Any], list[NamedObject]]) -> Any:
        @functools.wraps(handler)
        def answer(args: Any, context: CallContext) -> Any:
            status = "SYSTEM_ERR"
            try:
                result = handler(args, context)
                status = result.status.name
            except CredentialTooWeak:
                status = "AUTH_TOOWEAK"
                raise
            finally:
                self.record(kind, handler.__name__.upper(), context, status, *places(args))
            return result

        return answer

    def _of_mount(self, handler: Any) -> Any:
        @functools.wraps(handler)
        def answer(args: str, context: CallContext) -> Any:
            status, root = "SYSTEM_ERR", None
            try:
                result = handler(args, context)
                status, root = result.fhs_status.name, None if result.value is None else result.value.fhandle
            finally:
                self.record("mount", "MNT", context, status, NamedObject(root), asked=args)
            return result

        return answer

    def _of_admission(self, check: Any) -> Any:
        @functools.wraps(check)
        def checked(export: ExportTerms, context: CallContext, *args: Any, **more: Any) -> Any:
            try:
                return check(export, context, *args, **more)
            except CredentialTooWeak:
                self.record("refused", None, context, "AUTH_TOOWEAK", export=export.name)
                raise
            except Refused as refusal:
                if refusal.errno == errno.EACCES:
                    self.record("refused", None, context, str(refusal), export=export.name)
                raise

        return checked

    def record(
        self,
        kind: str,
        operation: str | None,
        context: CallContext,
        status: str,
        *places: NamedObject,
        asked: str | None = None,
        export: str | None = None,
    ) -> None:
        """Passes the record of a call to `put` if its kind is wanted, else does nothing.

        Args:
            kind: one of `AUDIT_KINDS`.
            operation: the name of the procedure, or of the operation of version 4; None leaves it out of the record.
            context: the call.
            status: the name of the status with which the call or operation is answered.
            places: the objects that the call is about, at most two; the second is the new name of LINK or RENAME.
            asked: the path in the arguments of MNT; None leaves it out of the record.
            export: the name of the export, for a record without `places`, or whose first one has no handle of a served
                export; None if it is unknown.
        """
        if kind not in self.kinds:
            return
        credential = context.credential
        time = datetime.fromtimestamp(self._wall_clock_ns() / 1e9, UTC)
        found: dict[str, Any] = {"time": time.isoformat(timespec="microseconds"), "kind": kind}
        if operation is not None:
            found["operation"] = operation
        found["host"] = context.peer
        _put_text(found, "principal", credential.principal)
        found["uid"] = credential.uid if isinstance(credential, AuthSys) else None
        tree = self._services.nfs.exports.tree_of(places[0].handle) if places else None
        found["acting_uid"] = self._acting_uid(tree, context, mounts=kind == "mount")
        _put_text(found, "export", tree.export.name if tree is not None else export)
        _put_text(found, "asked", asked)
        for prefix, place in zip(("", "to_"), places, strict=False):
            _put_text(found, f"{prefix}path", self._path_of(place.handle))
            _put_text(found, f"{prefix}name", place.name)
        found |= {"status": status, "xid": context.xid}
        self._put(json.dumps(found, separators=(",", ":")).encode())

    def _acting_uid(self, tree: Tree | None, context: CallContext, *, mounts: bool) -> int | None:
        """Returns the UID as which the server acts for the call of `context` in the exported tree `tree`.

        Returns None if `tree` is None or no directory of this machine, or if no rule of its export admits the call; but
        always its own UID for such a directory if the server cannot act as other users. `mounts`: the call mounts the
        tree, which is admitted by `HostAdmission.check_mount` with any flavor.
        """
        if not isinstance(tree, LocalTree):
            return None
        if not tree.parts.callers.switches:
            return os.geteuid()
        origin, credential = context.client.origin, context.credential
        rule = tree.export.matching(origin, credential.principal)
        if rule is not None and not rule.denied and credential.flavor in rule.security:
            return rule.acting_as(credential)[0]
        rules = tree.export.admitting(origin) if mounts else []
        return rules[0].acting_as(AuthNone())[0] if rules else None

    def _path_of(self, handle: bytes | None) -> str | None:
        """Returns the local path of an object by its handle; None for no handle or an object that is not held open."""
        if handle is None:
            return None
        exports = self._services.nfs.exports
        node, tree = exports.parts.nodes.held.get(handle), exports.tree_of(handle)
        if node is None and isinstance(tree, LocalTree) and tree.root.handle == handle:
            node = tree.root
        try:
            return None if node is None else os.fsdecode(os.readlink(node.proc_path))
        except OSError:
            # It was dropped at this moment.
            return None


def _put_text(record: dict[str, Any], key: str, text: str | None) -> None:
    """Puts `text`, which a peer chooses, into `record[key]`, cut to `MNTPATHLEN` (1024) characters; no effect for None.

    Octets of `text` that are not UTF-8 (surrogate escapes) become U+FFFD there; then `record["<key>_octets"]` has all
    octets of the cut text in hexadecimal.
    """
    if text is None:
        return
    octets = text[:MNTPATHLEN].encode("utf-8", "surrogateescape")
    record[key] = octets.decode("utf-8", "replace")
    if record[key].encode() != octets:
        record[f"{key}_octets"] = octets.hex()
