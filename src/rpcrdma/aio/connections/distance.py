"""How far the peer of a connection is, measured by the first calls that no other call is in the way of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from rpcrdma.transport import ExtensionLink

__all__ = ["Distance"]

_CALLS = 16
"""Calls that are measured, at the start of a connection: the shortest one counts, all others waited for something."""


class Distance:
    """Of one connection; the extensions on it are told. `calls_left` are still to be measured.

    `round_trip_s` is None where the peer's version has no first answer that could be measured.
    """

    __slots__ = ("_links", "_loop", "_shortest_s", "calls_left", "round_trip_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, links: Iterable[ExtensionLink]) -> None:
        self._loop = loop
        self._links = list(links)
        self.calls_left = 0
        self.round_trip_s: float | None = None
        self._shortest_s: float | None = None

    def begin(self, introduced_s: float | None) -> None:
        """The connection stands; the peer has answered what was sent at `introduced_s`, if its version has that.

        What that took counts until a call was measured: it has started a connection, and the clock may be a coarse one.
        """
        if introduced_s is not None:
            self.calls_left = _CALLS if self._links else 0
            self.round_trip_s = self._loop.time() - introduced_s
            self._tell(self.round_trip_s)

    def time(self, result: asyncio.Future[Any]) -> None:
        """A call has been sent, and no other one is unanswered."""
        self.calls_left -= 1
        began_s = time.perf_counter()
        result.add_done_callback(lambda _: self._note(time.perf_counter() - began_s))

    def _note(self, round_trip_s: float) -> None:
        if self._shortest_s is None or round_trip_s < self._shortest_s:
            self.round_trip_s = self._shortest_s = round_trip_s
            self._tell(round_trip_s)

    def _tell(self, round_trip_s: float) -> None:
        for link in self._links:
            link.round_trip_s = round_trip_s
