"""What a responder's RDMA_ERROR becomes for the caller (RFC 8166 section 4.5)."""

from __future__ import annotations

from rpcrdma.errors import RpcError

__all__ = ["ChunkRefused", "VersionRefused"]


class VersionRefused(RpcError):
    """ERR_VERS: the responder speaks versions `low` to `high` of RPC-over-RDMA, not the one of the call."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__(f"the server speaks RPC-over-RDMA versions {low} to {high} only")
        self.low = low
        self.high = high


class ChunkRefused(RpcError):
    """ERR_CHUNK: the responder could not read the call's chunks, or its reply fits none of them.

    The call must not be sent again as it was. `hint`: what the caller can do about it.
    """

    def __init__(self, hint: str = "") -> None:
        super().__init__(f"the server refused the call's chunks, or its reply does not fit them (ERR_CHUNK){hint}")
