"""The part that drivers of queue pairs in memory share: no socket, no waiting, and one close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.provider import Terms
from rpcrdma.verbs import SoftwareProtectionDomain
from rpcrdma.verbs.posting import PostingQueuePair

__all__ = ["MemoryDriver"]

Q = TypeVar("Q", bound=PostingQueuePair)


class MemoryDriver(ABC, Generic[Q]):
    """Base of drivers whose queue pairs are joined in memory, without a socket; implements `Driver`.

    Subclasses carry out posted work (`_move`) and end the connection for the peer (`_part`). `on_turn` is called when
    the queue pair may have completions or events, `on_closed` once, when everything is released.
    """

    __slots__ = ("_closed", "_on_closed", "_on_turn", "_timer", "protection_domain", "queue_pair")

    def __init__(
        self,
        queue_pair: Q,
        protection_domain: SoftwareProtectionDomain,
        timer: DeadlineTimer,
        on_turn: Callable[[], None],
        on_closed: Callable[[], None],
    ) -> None:
        self.queue_pair = queue_pair
        self.protection_domain = protection_domain
        self._timer = timer
        self._on_turn = on_turn
        self._on_closed = on_closed
        self._closed = False

    @property
    def terms(self) -> Terms:
        queue_pair = self.queue_pair
        return Terms(crc=False, inbound_reads=queue_pair.inbound_reads, outbound_reads=queue_pair.outbound_reads)

    @property
    def blocked(self) -> bool:
        return self._closed

    @property
    def round_trip_s(self) -> float | None:
        return None

    def turn(self) -> None:
        """Calls `on_turn`, if the driver is open and the queue pair has completions or events for its owner."""
        if self.queue_pair.has_news and not self._closed:
            self._on_turn()

    def flush(self) -> None:
        if self._closed:
            return
        self._move()
        if self.queue_pair.ended and not self.queue_pair.has_news:
            self.close()

    def expect_end(self) -> None:
        """Does nothing, since memory takes all data at once: a `flush` after the connection's end closes the driver."""

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._timer.stop()
        self._part()
        self._on_closed()

    @abstractmethod
    def _move(self) -> None:
        """Starts the work that was posted to the queue pair; its completions come in a later callback of the loop."""

    @abstractmethod
    def _part(self) -> None:
        """Lets the driver of the other end see the end of the connection; called once, when this driver closes."""
