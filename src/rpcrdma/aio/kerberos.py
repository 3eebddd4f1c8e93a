"""Kerberos version 5 as the mechanism of RPCSEC_GSS, by the package `gssapi` and the Kerberos library of the system."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from rpcrdma.errors import UserAuthenticationFailed
from rpcrdma.rpc.auth import LocalUser
from rpcrdma.rpc.gss.mechanism import GssContext, GssFailure, GssMajor

__all__ = ["KerberosMechanism", "local_user"]

SERVICE: Final = "nfs"
_OID: Final = "1.2.840.113554.1.2.2"
_MISSING: Final = (
    "Kerberos needs the package gssapi, which is not installed; pip install gssapi (its build needs a C "
    "compiler and libkrb5-dev), or apt-get install python3-gssapi"
)
_ERRORS_FROM: Final = -1765328384
"""The error codes of Kerberos in the table of MIT's library begin here (KRB5KDC_ERR_NONE)."""
_CREDENTIAL_EXPIRED = 0xB0000
"""GSS_S_CREDENTIALS_EXPIRED (RFC 2744 section 3.9.1)."""
_SKEW = 37
_NO_TICKET: Final = "no ticket; run kinit"
_NO_KEY: Final = "the server has no key for nfs/{host}; add one to its keytab: kadmin -q 'ktadd nfs/{host}'"
_OLD_KEY: Final = (
    "the server's key for nfs/{host} is not the realm's present one; "
    "write its keytab anew: kadmin -q 'ktadd nfs/{host}'"
)
_WORDS: Final = {
    7: "the realm has no principal nfs/{host}; add it to the realm and to the server's keytab, or name the server as "
    "the realm does",
    32: "the ticket has expired; run kinit",
    35: _NO_KEY,
    _SKEW: "the clocks of this machine and of the server differ too much; set them",
    44: _OLD_KEY,
    45: _NO_KEY,
    141: _NO_TICKET,
    144: _NO_KEY,
    154: "the realm is not known; name its KDC in /etc/krb5.conf",
    156: "no KDC of the realm answers; check the network and /etc/krb5.conf",
    181: _NO_KEY,
    195: _NO_TICKET,
    230: _OLD_KEY,
}
"""By the code's distance from `_ERRORS_FROM`: the cause, and behind the semicolon the remedy."""
_TIME_OF_SERVER: Final = re.compile(rb"\xa4\x11\x18\x0f(\d{14})Z")
"""stime of KRB-ERROR (RFC 4120 section 5.9.1), the time of the server that refuses a ticket for its clock."""


def _gssapi() -> Any:
    try:
        import gssapi  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise UserAuthenticationFailed(_MISSING, cause="configuration") from None
    except Exception as error:  # noqa: BLE001 - it looks for the system's library when it is imported
        raise UserAuthenticationFailed(
            f"the package gssapi does not work here: {error}; install libgssapi-krb5-2", cause="configuration"
        ) from None
    return gssapi


class KerberosMechanism:
    """Kerberos version 5 as a `GssMechanism`, with the system's Kerberos library.

    `principal` is the client's name in Kerberos, `ccache` the credential cache with its tickets, and `keytab` the file
    with a server's keys; None takes the system's default.

    Raises:
        UserAuthenticationFailed: the package `gssapi` is not installed, or does not work.
    """

    # RFC 4121 sections 4.2.4 and 4.2.6: header, confounder, copy of the header and checksum, 24 octets at most.
    mic_octets_max = 64
    wrap_octets_max = 128
    blocks = True

    def __init__(
        self, *, principal: str | None = None, ccache: Path | str | None = None, keytab: Path | str | None = None
    ) -> None:
        self._gssapi = _gssapi()
        self._principal = principal
        self._ccache = ccache
        self._keytab = keytab

    @cached_property
    def _oid(self) -> Any:
        return self._gssapi.OID.from_int_seq(_OID)

    def _credentials(self, usage: str) -> Any:
        """Returns credentials of `gssapi`: a client's tickets if `usage` is "initiate", a server's keys if "accept".

        Raises:
            GSSError: there are none in the places that the options or the system name.
        """
        gssapi = self._gssapi
        store = {"ccache": self._ccache} if usage == "initiate" else {"keytab": self._keytab}
        given = {key: os.fspath(value) for key, value in store.items() if value is not None}
        name = None
        if usage == "initiate" and self._principal is not None:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=name, usage=usage, mechs=[self._oid], store=given or None)

    def check_ticket(self) -> None:
        """Checks that the credential cache has a valid ticket. May block.

        Raises:
            GssFailure: there is none, or it has expired; the message has the remedy, if that is known.
        """
        errors = self._gssapi.exceptions.GSSError
        try:
            left_s = self._credentials("initiate").lifetime
        except errors as error:
            raise _failure(error, "") from None
        if left_s == 0:
            raise GssFailure(_WORDS[32])

    def check_keys(self) -> None:
        """Checks that the keytab has a key by which a server accepts clients. May block.

        Raises:
            GssFailure: there is none; the message has the remedy.
        """
        self.accept()

    def explained(self, major: int, minor: int, host: str) -> str:
        """Returns the cause of a server's refusal with gss_major `major` and gss_minor `minor`, in words.

        The remedy follows after "; " where it is known. `host` is the server's name in its principal nfs/HOST; "" if
        unknown.
        """
        known = _known(minor, host)
        if known is not None:
            return known
        # The library has words for the codes of the GSS-API alone: those of a mechanism are known where they arise.
        causes = self._gssapi.exceptions.GSSError(major, 0).get_all_statuses(major, True) if major else []
        causes += [f"code {minor:#x} of Kerberos"] if minor else []
        return f"the server refuses the ticket ({', '.join(causes)})" if causes else "the server refuses the ticket"

    def initiate(self, host: str) -> GssContext:
        """Returns the client's end of a new context with the service nfs@`host`. May block.

        `step(None)` of the context makes the first token.

        Raises:
            GssFailure: there is no valid ticket, or the library makes no context.
        """
        gssapi = self._gssapi
        flags = gssapi.RequirementFlag
        try:
            self.check_ticket()
            context = gssapi.SecurityContext(
                name=gssapi.Name(f"{SERVICE}@{host}", gssapi.NameType.hostbased_service),
                creds=self._credentials("initiate"),
                mech=self._oid,
                # Neither replay detection nor sequencing (OR-10).
                flags=flags.mutual_authentication | flags.integrity | flags.confidentiality,
                usage="initiate",
            )
        except gssapi.exceptions.GSSError as error:
            raise _failure(error, host) from None
        return _KerberosContext(gssapi, context, host)

    def accept(self) -> GssContext:
        """Returns the server's end of a new context, whose first `step` takes the client's first token. May block.

        Raises:
            GssFailure: the keytab has no key; the message has the remedy.
        """
        gssapi = self._gssapi
        try:
            context = gssapi.SecurityContext(creds=self._credentials("accept"), usage="accept")
        except gssapi.exceptions.GSSError as error:
            keytab = self._keytab or os.environ.get("KRB5_KTNAME") or "/etc/krb5.keytab"
            raise GssFailure(
                f"no key of Kerberos in {keytab} ({_text(error)}); "
                f"add one: kadmin -q 'ktadd -k {keytab} {SERVICE}/HOST'",
                major=error.maj_code,
                minor=error.min_code,
            ) from None
        return _KerberosContext(gssapi, context, "")


class _KerberosContext:
    """A `GssContext` by a security context of the package `gssapi`; `host` is the server's name at a client, or ""."""

    def __init__(self, gssapi: Any, context: Any, host: str) -> None:
        self._errors = gssapi.exceptions.GSSError
        # An error of a step is raised by the step, and not by the next use of the context.
        context.__DEFER_STEP_ERRORS__ = False
        self._context = context
        self._host = host

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    @cached_property
    def principal(self) -> str:
        return str(self._context.initiator_name)

    @property
    def user(self) -> LocalUser | None:
        return local_user(self.principal)

    @contextlib.contextmanager
    def _using(self, token: bytes = b"") -> Iterator[Any]:
        """Yields the library's context; a GSSError of the library in the `with` block is raised as a `GssFailure`.

        `token` is the peer's token that the block processes, which may state the reason; b"" for none.
        """
        try:
            yield self._context
        except self._errors as error:
            raise _failure(error, self._host, token) from None

    @property
    def lifetime_s(self) -> float | None:
        with self._using() as context:
            left_s: float | None = context.lifetime
        return left_s

    def step(self, token: bytes | None) -> bytes | None:
        with self._using(token or b"") as context:
            answer: bytes | None = context.step(token)
        return answer

    def mic(self, data: bytes) -> bytes:
        with self._using() as context:
            mic: bytes = context.get_signature(data)
        return mic

    def verify(self, data: bytes, mic: bytes) -> None:
        with self._using() as context:
            context.verify_signature(data, mic)

    def wrap(self, data: bytes) -> bytes:
        with self._using() as context:
            wrapped: bytes = context.wrap(data, True).message
        return wrapped

    def unwrap(self, data: bytes) -> bytes:
        message: bytes
        with self._using() as context:
            message, encrypted, _ = context.unwrap(data)
        if not encrypted:
            raise GssFailure("the data are not encrypted")
        return message


def _failure(error: Any, host: str, token: bytes = b"") -> GssFailure:
    """Returns the `GssFailure` for `error`, a GSSError of the library, with the cause in words, and any known remedy.

    `host` is the server's name, "" if unknown. `token` is the peer's token, which may state the server's time if the
    clocks differ; b"" for none.
    """
    major = int(error.maj_code) & 0xFFFF0000 or GssMajor.FAILURE
    words = _known(error.min_code, host) or (_WORDS[32] if major == _CREDENTIAL_EXPIRED else _text(error))
    if (error.min_code - _ERRORS_FROM) & 0xFFFFFFFF == _SKEW and (found := _TIME_OF_SERVER.search(token)):
        # The peer may tell a time that does not exist.
        with contextlib.suppress(ValueError):
            there = datetime.strptime(found[1].decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
            minutes = round(abs((datetime.now(UTC) - there).total_seconds()) / 60)
            words = f"the clocks of this machine and of the server differ by {minutes} minutes; set them"
    return GssFailure(words, major=major, minor=error.min_code, token=getattr(error, "token", None) or b"")


def _known(minor: int, host: str) -> str | None:
    words = _WORDS.get((minor - _ERRORS_FROM) & 0xFFFFFFFF)
    return None if words is None else words.format(host=host or "HOST")


def _text(error: Any) -> str:
    """Returns the message of a GSSError, in one line."""
    return str(error.gen_message()).replace("\n", " ")


def local_user(principal: str) -> LocalUser | None:
    """Returns the local user to whom the system's rules map a Kerberos principal, with the groups of its account.

    Returns None for a principal that no rule maps, such as that of a host or service, and if there is no such account.
    May block.
    """
    name = _local_name(principal)
    if name is None:
        return None
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return None
    gids = os.getgrouplist(name, account.pw_gid)
    return LocalUser(account.pw_uid, account.pw_gid, tuple(sorted(set(gids) - {account.pw_gid})))


_NAME_OCTETS_MAX: Final = 256


def _local_name(principal: str) -> str | None:
    """Returns the local user name to which auth_to_local in krb5.conf maps `principal`; None if no rule does.

    The mapping is that of krb5_aname_to_localname in libkrb5. Returns None, too, without that library.
    """
    try:
        library = ctypes.CDLL("libkrb5.so.3")
    except OSError:
        return None
    library.krb5_free_context.restype = library.krb5_free_principal.restype = None
    context, parsed = ctypes.c_void_p(), ctypes.c_void_p()
    if library.krb5_init_context(ctypes.byref(context)):
        return None
    try:
        if library.krb5_parse_name(context, principal.encode("utf-8", "surrogateescape"), ctypes.byref(parsed)):
            return None
        try:
            name = ctypes.create_string_buffer(_NAME_OCTETS_MAX)
            failed = library.krb5_aname_to_localname(context, parsed, ctypes.c_int(_NAME_OCTETS_MAX), name)
            return None if failed else name.value.decode("utf-8", "surrogateescape")
        finally:
            library.krb5_free_principal(context, parsed)
    finally:
        library.krb5_free_context(context)
