"""The user's settings for the authentication of hosts: `HostAuthentication`."""

from __future__ import annotations

import contextlib
import functools
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Literal, NoReturn

from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.rpc.host_identity import host_name
from rpcrdma.transport import Role, offered
from rpcrdma.transport.authenticator import AuthenticatorSource, HostPolicy
from rpcrdma.transport.host_authentication import HostAuthenticator, prepare_context

__all__ = ["HostAuthentication"]

_LOGGER = logging.getLogger("rpcrdma")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAuthentication:
    """By which certificate this host proves which one it is, and which hosts it takes as peers.

    It needs version 2 of RPC-over-RDMA; docs/host-authentication.md describes the protection. Files are in PEM and are
    read at the start, and again for the first connection after they have changed.
    """

    policy: Literal["off", "optional", "required"] | None = None
    """None: required if anything else is set, else off."""
    certificate: str | PathLike[str] | None = None
    """The file with this host's certificate, and after it those between it and its authority."""
    key: str | PathLike[str] | None = None
    """The file with the certificate's private key; None: it is in the same file."""
    authorities: str | PathLike[str] | None = None
    """The file with the certificates of the authorities that issue those of peers."""
    context: ssl.SSLContext | None = None
    """Instead of the three files: made with PROTOCOL_TLS_CLIENT or PROTOCOL_TLS_SERVER, with certificate, key and
    authorities loaded. What host authentication relies on is set in it: it is for nothing else from then on."""
    names: Sequence[str] = ()
    """DNS names, IP addresses or URIs, of which the peer's certificate must have one. Without them a client asks for
    the host that it connects to, and a server takes every host that its authorities vouch for."""

    @property
    def wanted(self) -> HostPolicy:
        """The policy."""
        if self.policy is not None:
            return HostPolicy(self.policy)
        given = any(getattr(self, field.name) for field in fields(self))
        return HostPolicy.REQUIRED if given else HostPolicy.OFF

    def check_version(self, choice: str | int) -> None:
        """Checks that `choice`, one of `rpcrdma.transport.VERSION_CHOICES`, can authenticate hosts if that is required.

        Raises:
            HostAuthenticationFailed: it has no host authentication.
        """
        if self.wanted is HostPolicy.REQUIRED and not any(dialect.introduces for dialect in offered(choice)):
            _unfit(
                f"it is required, and version {choice} of RPC-over-RDMA has none",
                "choose another version (--rpcrdma-version auto), or make it optional (--host-auth optional)",
            )

    def source(self, role: Role, host: str | None = None) -> AuthenticatorSource:
        """Reads the files; the result makes the authenticator of each connection. `host`: that a client connects to.

        Raises:
            HostAuthenticationFailed: a file or a name is unfit; the message names it and the remedy.
        """
        policy = self.wanted
        if policy is HostPolicy.OFF:
            return functools.partial(HostAuthenticator, None, role, policy)
        context = self.context
        try:
            names = [host_name(name) for name in self.names or ([] if host is None else [host])]
            if context is not None:
                prepare_context(context, role)
        except ValueError as error:
            raise HostAuthenticationFailed(f"host authentication: {error}", cause="configuration") from None
        if context is not None:
            return functools.partial(HostAuthenticator, context, role, policy, names)
        files = _Files(self, role)
        return lambda: HostAuthenticator(files.context(), role, policy, names)

    def load(self, role: Role) -> ssl.SSLContext:
        """Reads the files.

        Raises:
            HostAuthenticationFailed: one is unfit.
        """
        if self.certificate is None:
            _unfit("there is no certificate of this host", "name its file (--host-cert)")
        if self.authorities is None:
            _unfit("there are no authorities that may vouch for peers", "name the file of theirs (--host-ca)")
        key = self.key or self.certificate
        _expect(self.certificate, "CERTIFICATE", "certificate", "--host-cert")
        if "ENCRYPTED" in _expect(key, "PRIVATE KEY", "private key", "--host-key"):
            _unfit(f"the key in {key} is encrypted", f"decrypt it with `openssl pkey -in {key} -out FILE`")
        _expect(self.authorities, "CERTIFICATE", "certificate", "--host-ca")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if role is Role.CLIENT else ssl.PROTOCOL_TLS_SERVER)
        try:
            # With a password OpenSSL never asks for one at the terminal.
            context.load_cert_chain(self.certificate, key, password="")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                _unfit(f"the key in {key} is not that of the certificate in {self.certificate}", "name its own")
            _unfit(f"{self.certificate} with the key in {key} cannot be used ({_said(error)})", "issue it anew")
        try:
            context.load_verify_locations(self.authorities)
        except ssl.SSLError as error:
            _unfit(f"the certificates in {self.authorities} cannot be used ({_said(error)})", "export them as PEM")
        return prepare_context(context, role)


class _Files:
    """The context that the files make, which may be renewed while a server runs."""

    def __init__(self, options: HostAuthentication, role: Role) -> None:
        self._options = options
        self._role = role
        self._seen = self._state()
        self._context = options.load(role)

    def context(self) -> ssl.SSLContext:
        """As the files are now, or were, if they cannot be used: perhaps not all of them are renewed yet."""
        seen = self._state()
        if seen != self._seen:
            self._seen = seen
            try:
                self._context = self._options.load(self._role)
            except HostAuthenticationFailed as error:
                _LOGGER.warning("%s (what was read before stays in use)", error)
        return self._context

    def _state(self) -> list[tuple[int, int, int]]:
        options = self._options
        paths = (options.certificate, options.key, options.authorities)
        found = []
        for path in (path for path in paths if path is not None):
            with contextlib.suppress(OSError):
                status = Path(path).stat()
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return found


def _expect(path: str | PathLike[str], label: str, what: str, option: str) -> str:
    """The content of the file, which must hold a PEM block of that label."""
    try:
        text = Path(path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        _unfit(f"cannot read {path}: {cause}", f"name a file in PEM that this user may read ({option})")
    if f"{label}-----" not in text:
        _unfit(f"{path} holds no {what} in PEM", f"name a file that does ({option})")
    return text


def _unfit(message: str, remedy: str) -> NoReturn:
    raise HostAuthenticationFailed(f"host authentication: {message}; {remedy}", cause="configuration") from None


def _said(error: ssl.SSLError) -> str:
    return (error.reason or "unreadable").replace("_", " ").lower()
