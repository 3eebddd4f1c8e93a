"""Checks that no end sends more messages than the other end has posted receives for, and that these are bounded."""

from __future__ import annotations

from collections.abc import Callable

from rpcrdma_lab.simulation.worlds.history import Violation
from rpcrdma_lab.simulation.worlds.watched_provider import WatchedEnd, Watcher

__all__ = ["CreditWatcher"]


class CreditWatcher(Watcher):
    """Reports Sends for which the other end has posted no receive, and ends that post too many receives.

    Args:
        now_s: returns the virtual time in seconds.
        found: is called with each violation.
        receives_max: the largest allowed number of receives of one end that wait for messages.
    """

    def __init__(self, now_s: Callable[[], float], found: Callable[[Violation], None], *, receives_max: int) -> None:
        self._now_s = now_s
        self._found = found
        self._receives_max = receives_max
        self._sent: dict[WatchedEnd, int] = {}
        self._posted: dict[WatchedEnd, int] = {}

    def opened(self, end: WatchedEnd) -> None:
        self._sent[end] = self._posted[end] = 0

    def receives(self, end: WatchedEnd, count: int) -> None:
        # The transport posts its first receives when it is made, which is after the driver.
        self._posted[end] += count
        waiting = self._posted[end] - (0 if end.peer is None else self._sent[end.peer])
        if waiting > self._receives_max:
            self._found(Violation("credits", self._now_s(), f"{end.node} has posted {waiting} receives"))

    def sends(self, end: WatchedEnd, message: bytes) -> None:
        del message
        self._sent[end] += 1
        peer = end.peer
        # Before the other end exists, Sends wait for it.
        if peer is not None and self._sent[end] > self._posted[peer] > 0:
            text = f"{end.node} has posted Send {self._sent[end]}, {peer.node} only {self._posted[peer]} receives"
            self._found(Violation("credits", self._now_s(), text))
