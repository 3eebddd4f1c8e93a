"""The exceptions of the library by the party at fault, except those that are an OSError, such as `NfsError`."""

from __future__ import annotations

import enum
from typing import Any

__all__ = [
    "AuthError",
    "CallTimeout",
    "ConnectFailed",
    "DecodeError",
    "GarbageArguments",
    "HostAuthenticationFailed",
    "HostNotFound",
    "InternalError",
    "LocalProtocolError",
    "MessageTooLong",
    "NoAnswer",
    "NoSuchProcedure",
    "NotPermitted",
    "OutOfMemory",
    "ProgramMismatch",
    "ProgramUnavailable",
    "RemoteAccessError",
    "RemoteProtocolError",
    "RemoteSystemError",
    "RpcError",
    "RpcRdmaError",
    "RpcVersionMismatch",
    "TransportClosed",
    "UserAuthenticationFailed",
]


class RpcRdmaError(Exception):
    """Base of the errors of this library, except those that derive from Python's own instead: `NfsError` is an OSError.

    Errors of all classes can be copied and pickled, with any arguments: worker processes exchange them.

    Args:
        args: the arguments of `Exception`; the first is the message.
    """

    url: str | None = None
    """The URL of the server, or of the object at the server, with which a call failed; None if unknown."""

    def found_at(self, url: str) -> None:
        """Sets the attribute `url`; a URL that is set already is replaced only if the new one begins with it.

        Args:
            url: the URL of the server, or of the object at the server.
        """
        if self.url is None or url.startswith(self.url):
            self.url = url

    @property
    def message(self) -> str:
        """The error's message without the URL that `str` of most classes puts before it."""
        return super().__str__()

    def __str__(self) -> str:
        return self.message if self.url is None else f"{self.url}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), self.__dict__


class LocalProtocolError(RpcRdmaError):
    """This side asked for what the protocol, this library or an RDMA device does not permit: mostly a caller's bug."""


class InternalError(RpcRdmaError):
    """This library has contradicted itself: a bug in it."""


class RemoteProtocolError(RpcRdmaError):
    """The peer broke the protocol.

    Args:
        message: the fault.
        rfc: number and section of the RFC with the broken rule ("8166 4.5.2"); "" if no single rule applies.
    """

    def __init__(self, message: str, *, rfc: str = "") -> None:
        super().__init__(message)
        self.rfc = rfc


class DecodeError(RemoteProtocolError):
    """Octets from the peer do not decode.

    Args:
        field: the name of the field.
        offset: its offset from the start of the decoded buffer, in octets.
        need: the values that are valid, in words.
        have: the value found, in words.
        rfc: number and section of the RFC with the broken rule ("8166 4.5.2"); "" if no single rule applies.
    """

    def __init__(self, field: str, offset: int, need: str, have: str, *, rfc: str = "") -> None:
        super().__init__(f"{field} at offset {offset}: need {need}, have {have}", rfc=rfc)
        self.field = field
        self.offset = offset
        self.need = need
        self.have = have


class RemoteAccessError(RpcRdmaError):
    """A peer's RDMA Read, Write or Send names memory of this side that the peer may not access.

    Args:
        reason: "invalid handle", "access rights", "bounds" or "wrap".
        handle: the steering tag (handle, rkey) that the peer named.
        offset: the offset (tagged offset, virtual address) that the peer named, in octets.
        length: octets that the peer wanted to access.
    """

    def __init__(self, reason: str, handle: int, offset: int = 0, length: int = 0) -> None:
        super().__init__(f"{reason}: handle {handle:#010x}, offset {offset:#x}, length {length}")
        self.reason = reason
        self.handle = handle
        self.offset = offset
        self.length = length


class ConnectFailed(RpcRdmaError):
    """No connection could be made. `str` of it is the message alone, without the `url` that every RpcRdmaError has.

    Args:
        message: the address, the cause and the remedy.
        refused: whether the host answered that nothing listens at the port, or a local socket has no listener.
    """

    __str__ = Exception.__str__

    def __init__(self, message: str = "", *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class HostAuthenticationFailed(ConnectFailed):
    """A host did not prove its identity by its TLS certificate, or cannot.

    Args:
        message: the cause and the remedy.
        cause: the cause in a few words ("expired", "wrong name"); "" if unknown.
        alert: the TLS alert by which this side refuses, still to be sent to the peer; empty if there is none.
    """

    def __init__(self, message: str = "", *, cause: str = "", alert: bytes = b"") -> None:
        super().__init__(message)
        self.cause = cause
        self.alert = alert


class UserAuthenticationFailed(ConnectFailed):
    """A user or a server did not prove its identity by RPCSEC_GSS, or cannot.

    Args:
        message: the cause and the remedy.
        cause: "configuration" if the package for RPCSEC_GSS is missing or does not work on this machine, else "".
    """

    def __init__(self, message: str = "", *, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause


class HostNotFound(ConnectFailed):
    """The host name has no address, or no name server answers; no connection was tried."""


class NotPermitted(ConnectFailed):
    """This process may not bind the local port that the caller asked for; no connection was tried."""


class TransportClosed(RpcRdmaError):
    """The connection ended before the call was answered; whether the call ran is unknown.

    Args:
        reason: the cause.
        protocol_error: whether the connection ended because one side broke the protocol, as found here or stated by the
            peer.
    """

    def __init__(self, reason: str, *, protocol_error: bool = False) -> None:
        super().__init__(reason)
        self.protocol_error = protocol_error


class NoAnswer(TransportClosed, ConnectFailed):
    """The peer accepts connections and ends each before its first answer: probably another kind of server.

    Args:
        reason: the cause and the remedy.
        protocol_error: whether the connections ended because one side broke the protocol, as found here or stated by
            the peer.
    """

    def __init__(self, reason: str, *, protocol_error: bool = False) -> None:
        TransportClosed.__init__(self, reason, protocol_error=protocol_error)
        self.refused = False


class CallTimeout(RpcRdmaError):
    """No reply arrived within the call's time limit; whether the call ran is unknown."""


class MessageTooLong(RpcRdmaError):
    """A message over TCP is longer than this side permits; the connection and its other calls continue.

    Args:
        octets: the length of the message in octets; for a reply, the octets announced so far.
        limit: the longest message permitted, in octets.
        setting: the option that sets the limit.
        received: False for a call, which was not sent; True for a reply, whose call has run.
    """

    def __init__(self, octets: int, limit: int, setting: str, *, received: bool = False) -> None:
        size = f"{octets} octets or more" if received else f"{octets} octets"
        super().__init__(f"a message of {size} is over this side's limit of {limit}: {setting}")
        self.octets = octets
        self.limit = limit
        self.setting = setting
        self.received = received


class OutOfMemory(RpcRdmaError, MemoryError):
    """The requested data, or the data that the peer announces, does not fit in memory."""


class RpcError(RpcRdmaError):
    """The responder answered with an error (RFC 5531 section 9, RFC 8166 section 4.5)."""


def _restored(kind: type[RpcRdmaError], args: tuple[Any, ...]) -> RpcRdmaError:
    return Exception.__new__(kind, *args)


class ProgramUnavailable(RpcError):
    """PROG_UNAVAIL: the responder does not offer the program on this transport."""

    def __init__(self) -> None:
        super().__init__("the responder does not offer the program")


class ProgramMismatch(RpcError):
    """PROG_MISMATCH: the responder offers other versions of the program.

    Args:
        low: the lowest version offered.
        high: the highest version offered.
    """

    def __init__(self, low: int, high: int) -> None:
        versions = f"version {low}" if low == high else f"versions {low} to {high}"
        super().__init__(f"the responder offers {versions} of the program")
        self.low = low
        self.high = high


class NoSuchProcedure(RpcError):
    """PROC_UNAVAIL: the responder's program does not offer the procedure."""

    def __init__(self) -> None:
        super().__init__("the responder does not offer the procedure")


class GarbageArguments(RpcError):
    """GARBAGE_ARGS: the responder could not decode the arguments and has not run the call.

    Args:
        hint: text for the end of the message, which begins with its separator.
    """

    def __init__(self, hint: str = "") -> None:
        super().__init__(f"the responder could not decode the arguments{hint}")


class RemoteSystemError(RpcError):
    """SYSTEM_ERR: something failed at the responder; whether the call took effect is unknown."""

    def __init__(self) -> None:
        super().__init__(
            "the responder failed at the call, which may have taken effect (SYSTEM_ERR); its log may say why"
        )


class RpcVersionMismatch(RpcError):
    """RPC_MISMATCH: the responder speaks other versions of RPC.

    Args:
        low: the lowest version.
        high: the highest version.
    """

    def __init__(self, low: int, high: int) -> None:
        super().__init__(f"the responder speaks RPC versions {low} to {high}")
        self.low = low
        self.high = high


class AuthError(RpcError):
    """AUTH_ERROR: the responder refused the credential or the verifier.

    Args:
        stat: the reason: a `rpcrdma.rpc.AuthStat`, or a plain int for a code that RFC 5531 does not define.
    """

    def __init__(self, stat: int) -> None:
        name = stat.name if isinstance(stat, enum.IntEnum) else str(stat)
        if name == "AUTH_TOOWEAK":
            name += "; it asks for more protection"
        super().__init__(f"the responder refused the credential: {name}")
        self.stat = stat
