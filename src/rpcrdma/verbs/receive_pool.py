"""Memory for incoming Sends that many queue pairs share, as with a shared receive queue of RDMA hardware."""

from __future__ import annotations

from rpcrdma.limits import RECEIVE_BUFFERS_KEPT_MAX

__all__ = ["ReceivePool"]


class ReceivePool:
    """Gives buffers of `octets` each; at most `kept_max` of those that come back are kept for the next ones.

    The number of buffers in use is bounded by the receives posted: see `QueuePair.post_receives`.
    """

    __slots__ = ("_free", "_kept_max", "octets")

    def __init__(self, octets: int, *, kept_max: int = RECEIVE_BUFFERS_KEPT_MAX) -> None:
        self.octets = octets
        self._kept_max = kept_max
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        """A buffer with unspecified content; it is the caller's, who may keep it for good."""
        return self._free.pop() if self._free else memoryview(bytearray(self.octets))

    def give_back(self, buffer: memoryview) -> None:
        """Takes back a buffer from `take`; its holder may not use it any more."""
        if len(self._free) < self._kept_max:
            self._free.append(buffer)
