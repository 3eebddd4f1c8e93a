"""What a responder's refusal becomes for the caller (RFC 8166 section 4.5)."""

from __future__ import annotations

from rpcrdma.errors import RpcError
from rpcrdma.transport.message import Cause, Refusal

__all__ = ["ChunkRefused", "VersionRefused", "error_of"]


class VersionRefused(RpcError):
    """The responder speaks versions `low` to `high` of RPC-over-RDMA, not the one of the call."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__(f"the server speaks RPC-over-RDMA versions {low} to {high} only")
        self.low = low
        self.high = high


class ChunkRefused(RpcError):
    """The responder could not read the call's chunks, or its reply fits none of them.

    The call must not be sent again as it was. `hint`: what the caller can do about it.
    """

    def __init__(self, hint: str = "") -> None:
        super().__init__(f"the server refused the call's chunks, or its reply does not fit them (ERR_CHUNK){hint}")


def error_of(refusal: Refusal) -> RpcError:
    """What the caller of a refused call is told."""
    if refusal.cause is Cause.VERSION:
        return VersionRefused(refusal.low, refusal.high)
    return ChunkRefused()
