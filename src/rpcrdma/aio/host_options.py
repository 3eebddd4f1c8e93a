"""The user's settings for certificates of hosts: `HostAuthentication`, for RPC-over-RDMA version 2 and for TLS."""

from __future__ import annotations

import contextlib
import functools
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Final, Literal, NoReturn

from rpcrdma.aio.drivers.tls_socket import ALPN
from rpcrdma.aio.misuse import check_word
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.rpc.host_identity import HostName, XprtSec, host_name
from rpcrdma.transport import Role, offered
from rpcrdma.transport.host_authentication import AuthenticatorSource, HostAuthenticator, prepare_context
from rpcrdma.transport.host_policy import HostPolicy

__all__ = ["NO_TLS_OVER_RDMA", "OTHER_AUTHORITIES", "AuthoritiesInUse", "HostAuthentication", "TlsSettings"]

NO_TLS_OVER_RDMA: Final = (
    "RPC over RDMA has no TLS; protect it with Kerberos (krb5p encrypts, krb5i keeps changes out), with IPsec or a "
    "network of its own, or write tcp:// for TLS"
)
"""Cause and remedy. Host authentication is not named: it proves hosts, and leaves octets unprotected."""

OTHER_AUTHORITIES: Final = "other authorities are to judge its host: it may connect again"
"""The reason for the end of connections whose host was verified by authorities that were replaced."""

_LOGGER = logging.getLogger("rpcrdma")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAuthentication:
    """Certificate and trust of this host: the identity that it proves, and the hosts that it accepts as peers.

    Used for TLS over TCP, and for host authentication in version 2 of RPC-over-RDMA, which has a `policy`
    (docs/tls.md). Files are in PEM; they are read at the start, and again for the first connection after they have
    changed. If they are unfit then, a warning is logged, and what was read before stays in use.

    Raises ValueError for an unknown `policy`.
    """

    policy: Literal["off", "optional", "required"] | None = None
    """The policy of host authentication over RDMA. None: "required" if anything else is set, else "off"."""
    certificate: str | PathLike[str] | None = None
    """The file with this host's certificate, followed by the intermediate certificates up to its authority."""
    key: str | PathLike[str] | None = None
    """The file with the certificate's private key; None: the certificate's file has it."""
    authorities: str | PathLike[str] | None = None
    """The file with the certificates of the authorities that may vouch for peers. None: a client uses the system's
    authorities for TLS."""
    context: ssl.SSLContext | None = None
    """An SSL context instead of the three files, over RDMA: made with PROTOCOL_TLS_CLIENT or PROTOCOL_TLS_SERVER,
    with certificate, key and authorities loaded. It gets the settings that host authentication needs: use it for
    nothing else."""
    names: Sequence[str] = ()
    """DNS names, IP addresses or URIs, of which the peer's certificate must have one. If empty, a client expects the
    host that it connects to, and a server accepts every host that its authorities vouch for. A server needs
    `authorities` for them."""

    def __post_init__(self) -> None:
        if self.policy is not None:
            check_word("policy", self.policy, [policy.value for policy in HostPolicy])

    @property
    def wanted(self) -> HostPolicy:
        """The effective policy of host authentication over RDMA.

        It is `policy`, or without it REQUIRED if another field is set, else OFF.
        """
        if self.policy is not None:
            return HostPolicy(self.policy)
        given = any(getattr(self, field.name) for field in fields(self))
        return HostPolicy.REQUIRED if given else HostPolicy.OFF

    def check_version(self, choice: str | int, setting: str) -> None:
        """Checks that a permitted version of RPC-over-RDMA has host authentication, if `wanted` is REQUIRED.

        Args:
            choice: the permitted version by name or number, or "auto" for all.
            setting: the name of the class with the option `rpcrdma_version`, for the message.

        Raises:
            HostAuthenticationFailed: host authentication is required, and no permitted version has it.
            ValueError: it is required, and the version `choice` is unknown.
        """
        if self.wanted is HostPolicy.REQUIRED and not any(dialect.introduces for dialect in offered(choice)):
            _unfit(
                f"it is required, and version {choice} of RPC-over-RDMA has none",
                f'choose another version ({setting}(rpcrdma_version="auto")), or make it optional '
                '(HostAuthentication(policy="optional"))',
            )

    def source(self, role: Role, host: str | None = None) -> AuthenticatorSource:
        """Returns a function without arguments that makes a new connection's authenticator; reads the files for it now.

        The function reads the files again if they have changed; if they are unfit then, it logs a warning and uses what
        was read before. If `wanted` is OFF, no file is read. If `context` is set, no file is read either, and the
        context gets the settings that host authentication needs: TLS 1.3 alone, and the peer must show a certificate.

        Args:
            role: client or server.
            host: the host that a client connects to, which the peer's certificate must name if `names` is empty; None
                at a server.

        Raises:
            HostAuthenticationFailed: a file, a name or `context` is unfit; the message names it, for a file with the
                remedy.
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
        files = _Files(self, functools.partial(self.load, role))
        return lambda: HostAuthenticator(files.context(), role, policy, names)

    def tls(self, role: Role, xprtsec: XprtSec, host: str | None = None) -> TlsSettings:
        """Returns the settings for TLS over TCP, and reads the files for them now.

        Args:
            role: client or server.
            xprtsec: the least protection. A client needs `certificate` with "mtls", or if `key` is set. A server always
                needs `certificate`, and `authorities` with "mtls" or if `names` is set.
            host: the host that a client connects to, which the server's certificate must name if `names` is empty; None
                at a server.

        Raises:
            HostAuthenticationFailed: a file, a name or `host` is unfit or missing, or `context` is set, which TLS over
                TCP cannot use; the message names the cause.
        """
        if self.context is not None:
            _unfit("a prepared SSL context serves over RDMA alone", "name the files for TLS")
        if role is Role.SERVER or xprtsec == "mtls" or self.key is not None:
            self._expect_certificate()
        if role is Role.SERVER and (xprtsec == "mtls" or self.names):
            # Nobody would vouch for a name, and clients without a certificate would get in.
            self._expect_authorities()
        try:
            names = [host_name(name) for name in self.names or ([] if host is None else [host])]
            server_name = None if host is None else _dns_name(host)
        except ValueError as error:
            raise HostAuthenticationFailed(f"host authentication: {error}", cause="configuration") from None
        load = functools.partial(self._load_for_tls, role, xprtsec)
        return TlsSettings(self, load, xprtsec, names, server_name)

    def load(self, role: Role) -> ssl.SSLContext:
        """Reads the files for host authentication over RDMA into a new SSL context and returns it.

        Args:
            role: client or server.

        Raises:
            HostAuthenticationFailed: certificate or authorities are not set, or a file cannot be read or used.
        """
        self._expect_certificate()
        self._expect_authorities()
        return prepare_context(self._context(role), role)

    def _load_for_tls(self, role: Role, xprtsec: XprtSec) -> ssl.SSLContext:
        context = prepare_context(self._context(role), role, ALPN)
        if self.authorities is None and role is Role.CLIENT:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        elif role is Role.SERVER and xprtsec != "mtls":
            context.verify_mode = ssl.CERT_NONE if self.authorities is None else ssl.CERT_OPTIONAL
        return context

    def _expect_certificate(self) -> None:
        if self.certificate is None:
            _unfit("there is no certificate of this host", "name its file (HostAuthentication(certificate=...))")

    def _expect_authorities(self) -> None:
        if self.authorities is None:
            _unfit(
                "there are no authorities that may vouch for peers",
                "name the file of theirs (HostAuthentication(authorities=...))",
            )

    def _context(self, role: Role) -> ssl.SSLContext:
        """Returns a new SSL context for `role`, with the certificate and the authorities whose files are set.

        Raises:
            HostAuthenticationFailed: a file cannot be read or used; the message names it and the remedy.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if role is Role.CLIENT else ssl.PROTOCOL_TLS_SERVER)
        if self.certificate is not None:
            self._load_certificate(context, self.certificate, self.key or self.certificate)
        if self.authorities is not None:
            _expect(self.authorities, "CERTIFICATE", "certificate", "authorities")
            try:
                context.load_verify_locations(self.authorities)
            except ssl.SSLError as error:
                _unfit(f"the certificates in {self.authorities} cannot be used ({_said(error)})", "export them as PEM")
        return context

    def _load_certificate(
        self, context: ssl.SSLContext, certificate: str | PathLike[str], key: str | PathLike[str]
    ) -> None:
        _expect(certificate, "CERTIFICATE", "certificate", "certificate")
        if "ENCRYPTED" in _expect(key, "PRIVATE KEY", "private key", "key"):
            _unfit(f"the key in {key} is encrypted", f"decrypt it with `openssl pkey -in {key} -out FILE`")
        try:
            # With a password OpenSSL never asks for one at the terminal.
            context.load_cert_chain(certificate, key, password="")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                _unfit(f"the key in {key} is not that of the certificate in {certificate}", "name its own")
            _unfit(f"{certificate} with the key in {key} cannot be used ({_said(error)})", "issue it anew")


class AuthoritiesInUse:
    """The content of `options.authorities`, read by the constructor, by which a server notices a replaced file."""

    def __init__(self, options: HostAuthentication) -> None:
        self._path = options.authorities
        self._content = self.read()

    def replaced(self, content: bytes) -> bool:
        """Returns whether `content`, from `read`, differs from that of the last call, or else of the constructor."""
        before, self._content = self._content, content
        return content != before

    def read(self) -> bytes:
        """Returns the content of the file of authorities, b"" if there is none or it cannot be read; may block."""
        try:
            return b"" if self._path is None else Path(self._path).read_bytes()
        except OSError:
            return b""


class _Files:
    """An SSL context that is made of files, and made anew when the files have changed.

    Args:
        options: name the files: `certificate`, `key` and `authorities`.
        load: reads the files, and returns a new SSL context made of them; called by the constructor, too.

    Raises:
        HostAuthenticationFailed: a file is unfit, as `load` has found.
    """

    def __init__(self, options: HostAuthentication, load: Callable[[], ssl.SSLContext]) -> None:
        self._options = options
        self._load = load
        self._seen = self._state()
        self._context = load()

    def context(self) -> ssl.SSLContext:
        """Returns the SSL context for a new handshake, made anew if the files have changed.

        If the changed files are unfit, logs a warning and returns the context of the earlier files.
        """
        seen = self._state()
        if seen != self._seen:
            # Unfit files are reported once.
            self._seen = seen
            try:
                self.read()()
            except HostAuthenticationFailed as error:
                _LOGGER.warning("%s (what was read before stays in use)", error)
        return self._context

    def read(self) -> Callable[[], None]:
        """Reads the files, changed or not, into a new SSL context; may block.

        Returns a function that uses this context for later handshakes.

        Raises:
            HostAuthenticationFailed: a file is unfit.
        """
        seen = self._state()
        context = self._load()

        def use() -> None:
            self._seen, self._context = seen, context

        return use

    def _state(self) -> list[tuple[int, ...]]:
        options = self._options
        paths = (options.certificate, options.key, options.authorities)
        found: list[tuple[int, ...]] = []
        for path in (path for path in paths if path is not None):
            with contextlib.suppress(OSError):
                status = Path(path).stat()
                found.append((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        return found


class TlsSettings(_Files):
    """The settings of one side for the TLS handshakes of its connections; `HostAuthentication.tls` makes it.

    Args:
        options: name the files of the SSL context.
        load: reads the files, and returns a new SSL context made of them; called by the constructor, too.
        xprtsec: the least protection that a connection must have: "none", "tls" or "mtls" (both hosts proved).
        names: host names; the peer's certificate must have one of them. Empty: any names.
        server_name: the DNS name that a client sends in its handshake (SNI); None: it sends none, as for an IP address,
            and at a server.

    Raises:
        HostAuthenticationFailed: a file is unfit, as `load` has found.
    """

    def __init__(
        self,
        options: HostAuthentication,
        load: Callable[[], ssl.SSLContext],
        xprtsec: XprtSec,
        names: Sequence[HostName],
        server_name: str | None,
    ) -> None:
        super().__init__(options, load)
        self.xprtsec = xprtsec
        self.names = names
        self.server_name = server_name


def _dns_name(host: str) -> str | None:
    name = host_name(host)
    return name.name if name.kind == "DNS" else None


def _expect(path: str | PathLike[str], label: str, what: str, parameter: str) -> str:
    """Returns the content of a PEM file, and checks that it has a block whose label ends with `label`.

    Args:
        path: the file.
        label: the label, such as "PRIVATE KEY".
        what: the words for such a block, for messages.
        parameter: the parameter of `HostAuthentication` that names the file, for messages.

    Raises:
        HostAuthenticationFailed: the file cannot be read, or has no such block.
    """
    setting = f"HostAuthentication({parameter}=...)"
    try:
        text = Path(path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        _unfit(f"cannot read {path}: {cause}", f"name a file in PEM that this user may read ({setting})")
    if f"{label}-----" not in text:
        _unfit(f"{path} holds no {what} in PEM", f"name a file that does ({setting})")
    return text


def _unfit(message: str, remedy: str) -> NoReturn:
    raise HostAuthenticationFailed(f"host authentication: {message}; {remedy}", cause="configuration") from None


def _said(error: ssl.SSLError) -> str:
    return (error.reason or "unreadable").replace("_", " ").lower()
