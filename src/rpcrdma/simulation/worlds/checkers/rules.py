"""Checks each message against the rules of its version, credits included, by the decoder that `rpcrdma decode` uses.

`rpcrdma.dissect` shares no code with the transport.
"""

from __future__ import annotations

from collections.abc import Callable

from rpcrdma.dissect.connection import Settings
from rpcrdma.dissect.conversation import Conversation
from rpcrdma.dissect.fields import Message
from rpcrdma.simulation.worlds.history import Violation
from rpcrdma.simulation.worlds.watched_provider import WatchedEnd

__all__ = ["RuleWatcher"]

_SETTINGS = {version: Settings(version) for version in ("2", "2-07")}


class RuleWatcher:
    """Follows the conversation of each connection; `found` is called with each violation."""

    def __init__(self, now_s: Callable[[], float], found: Callable[[Violation], None]) -> None:
        self._now_s = now_s
        self._found = found
        self._conversations: dict[WatchedEnd, Conversation] = {}

    def opened(self, end: WatchedEnd) -> None:
        if end.active:
            self._conversations[end] = _SETTINGS["2-07" if end.version == "2-07" else "2"].conversation()

    def receives(self, end: WatchedEnd, count: int) -> None:
        pass

    def sends(self, end: WatchedEnd, message: bytes) -> None:
        conversation = self._conversations.get(end if end.active or end.peer is None else end.peer)
        if conversation is None:
            return
        described = Message("rdmap", "")
        conversation.send(0 if end.active else 1, message, described)
        for fault in described.faults:
            self._found(Violation("rules", self._now_s(), f"{end.node} sends {described.summary}: {fault}"))

    def closed(self, end: WatchedEnd) -> None:
        pass
