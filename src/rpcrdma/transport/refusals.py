"""The exceptions by which a caller learns of a refusal (RFC 8166 section 4.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rpcrdma.errors import RpcError
from rpcrdma.transport.message import Cause, Refusal

__all__ = ["CallRefused", "ChunkRefused", "VersionRefused", "error_of", "versions"]


def versions(low: int, high: int) -> str:
    """Formats a range of version numbers: "version 1" or "versions 1 to 2"."""
    return f"version {low}" if low == high else f"versions {low} to {high}"


class VersionRefused(RpcError):
    """Raised for a call whose version of RPC-over-RDMA the responder does not speak, but only `low` to `high`."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__(f"the server speaks RPC-over-RDMA {versions(low, high)} only")
        self.low = low
        self.high = high


_CHUNKS_REFUSED = Refusal(Cause.CHUNKS)


class ChunkRefused(RpcError):
    """Raised for a call whose chunks the responder could not read, or whose reply does not fit them.

    In version 1 also for any other reason than the version, such as a repeated call that has run before, and whose
    reply is not kept. The call must not be sent again unchanged. `hint`: the remedy, appended to the message.
    `refusal`: the reason.
    """

    def __init__(self, hint: str = "", refusal: Refusal = _CHUNKS_REFUSED) -> None:
        super().__init__(_WORDS[refusal.cause](refusal) + hint)
        self.refusal = refusal


class CallRefused(RpcError):
    """Raised for a call that the responder refused for another reason than its version or its chunks.

    The responder has run the call only if the header of the reply was too long (`Cause.HEADER`), or if there was no
    memory for the reply, or the call was repeated and its reply is not kept (`Cause.SYSTEM`). `refusal`: the reason.
    `hint`: words appended to the message, such as a possible cause.
    """

    def __init__(self, refusal: Refusal, hint: str = "") -> None:
        super().__init__(_WORDS[refusal.cause](refusal) + hint)
        self.refusal = refusal


_CHUNKS = "the server refused the call's chunks, or its reply does not fit them"

_WORDS: Mapping[Cause, Callable[[Refusal], str]] = {
    Cause.CHUNKS: lambda _: f"{_CHUNKS} (ERR_CHUNK)",
    Cause.READ_CHUNKS: lambda refusal: f"the server takes {refusal.limit} Read chunks of a call",
    Cause.WRITE_CHUNKS: lambda refusal: f"the server takes {refusal.limit} Write chunks of a call",
    Cause.SEGMENTS: lambda refusal: f"the server takes {refusal.limit} segments of a call",
    Cause.WRITE_RESOURCE: lambda refusal: (
        f"{_CHUNKS}: a result has {refusal.needed} octets, too many for Write chunk {refusal.chunk or 'of the call'}"
    ),
    Cause.REPLY_RESOURCE: lambda refusal: f"{_CHUNKS}: the reply has {refusal.needed} octets",
    Cause.HEADER: lambda _: (
        "the server could not read the call's transport header, or the reply needs too long a header"
    ),
    Cause.HEADER_TYPE: lambda _: "the server does not know the type of the call's transport header",
    Cause.FLAGS: lambda _: "the server does not take the flags, or the order, of the call's messages",
    Cause.PROPERTY: lambda _: "the server does not take a transport property",
    Cause.INELIGIBLE: lambda _: "an argument of the call may not be moved in a Read chunk",
    Cause.TOO_LARGE: lambda _: "the server has no memory for what the call's Read chunks hold",
    Cause.EXTENSION: lambda refusal: f"the server refused the call with error {refusal.code:#x} of an extension",
    Cause.SYSTEM: lambda _: (
        "the server could not run the call, or has run it and has no reply to send (a permanent error of its transport)"
    ),
}


def error_of(refusal: Refusal) -> VersionRefused | ChunkRefused | CallRefused:
    """Returns, without raising it, the exception that the caller of a refused call gets."""
    if refusal.cause is Cause.VERSION:
        return VersionRefused(refusal.low, refusal.high)
    if refusal.cause in _OF_CHUNKS:
        return ChunkRefused(refusal=refusal)
    return CallRefused(refusal)


_OF_CHUNKS = frozenset(
    {
        Cause.CHUNKS,
        Cause.READ_CHUNKS,
        Cause.WRITE_CHUNKS,
        Cause.SEGMENTS,
        Cause.WRITE_RESOURCE,
        Cause.REPLY_RESOURCE,
    }
)
