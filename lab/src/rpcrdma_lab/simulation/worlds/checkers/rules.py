"""Checks each message against the rules of its version, credits included, by the decoder that `rpcrdma decode` uses.

`rpcrdma_lab.dissect` shares no code with the transport. Grants bind an end when they have arrived there: a cut
connection may lose them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.conversation import Conversation
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.simulation.worlds.history import Violation
from rpcrdma_lab.simulation.worlds.watched_provider import WatchedEnd, Watcher

__all__ = ["RuleWatcher"]

_SETTINGS = Settings()
_OWN, _PEERS = 0, 1
"""The numbers of an end and of its peer in the conversation that the end sees."""


class RuleWatcher(Watcher):
    """Decodes the messages of each connection as each end sees them, and reports each rule that a Send breaks.

    `now_s` returns the virtual time in seconds, and `found` is called with each violation.
    """

    def __init__(self, now_s: Callable[[], float], found: Callable[[Violation], None]) -> None:
        self._now_s = now_s
        self._found = found
        self._views: dict[WatchedEnd, tuple[Conversation, deque[bytes]]] = {}
        """For each end, the connection as it sees it, and the Sends that it has not received yet."""

    def opened(self, end: WatchedEnd) -> None:
        self._views[end] = _SETTINGS.conversation(), deque()

    def sends(self, end: WatchedEnd, message: bytes) -> None:
        described = Message("rdmap", "")
        self._views[end][0].send(_OWN, message, described)
        for fault in described.faults:
            self._found(Violation("rules", self._now_s(), f"{end.node} sends {described.summary}: {fault}"))
        assert end.peer is not None
        self._views[end.peer][1].append(message)

    def received(self, end: WatchedEnd) -> None:
        conversation, arriving = self._views[end]
        conversation.send(_PEERS, arriving.popleft(), Message("rdmap", ""))
