"""Checks that servers have given back the buffers of calls, and ended connections and handlers, when a world ends."""

from __future__ import annotations

from collections.abc import Iterator

from rpcrdma import Server
from rpcrdma_lab.simulation.worlds.history import Violation

__all__ = ["check_server"]

_NAME = "memory"


def check_server(server: Server, where: str, at_s: float, *, half_open_max: int) -> Iterator[Violation]:
    """Yields violations for lent buffers, connections and running handlers of a server whose clients have all gone.

    Args:
        server: the server.
        where: the server's name for the texts of violations.
        at_s: the virtual time in seconds for the violations.
        half_open_max: the number of connections that may remain, because their end was not reported to the server.
    """
    statistics = server.statistics()
    if statistics.buffer_octets_lent:
        yield Violation(_NAME, at_s, f"{where}: {statistics.buffer_octets_lent} octets of buffers are not given back")
    if len(server.connections) > half_open_max:
        yield Violation(_NAME, at_s, f"{where}: {len(server.connections)} connections of clients that have gone")
    if statistics.calls_running:
        yield Violation(_NAME, at_s, f"{where}: {statistics.calls_running} handlers still run")
