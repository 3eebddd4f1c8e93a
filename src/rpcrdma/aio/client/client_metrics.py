"""The statistics of a program's connections for Prometheus; needs the package prometheus-client (the extra `metrics`).

Connections are counted by their server. The counts of ended connections stay in the sums, so that no counter falls.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from rpcrdma.aio.client.client_statistics import ClientStatistics
from rpcrdma.aio.metrics import Asked, CallMetrics, MetricsEndpoint, asked_of, transport_metrics
from rpcrdma.limits import METRICS_SERVERS_MAX
from rpcrdma.rpc.call_statistics import OTHER, OperationStatistics, added_up
from rpcrdma.transport import TransportStatistics, add_up

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["ClientMetrics", "ConnectionToTell"]

_Server = tuple[str, str]
"""The transport, and the URL without a path: "rdma", "rdma://server:20049"."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """The counts of one connection, or the sums of several connections to one server.

    `counters` are those of RDMA. `made` has the calls of this client, and `answered` the server's calls that this
    client answered, by procedure and status. `reconnects` counts restored transport connections.
    """

    counters: TransportStatistics = field(default_factory=TransportStatistics)
    made: tuple[OperationStatistics, ...] = ()
    answered: tuple[OperationStatistics, ...] = ()
    reconnects: int = 0

    @classmethod
    def sum(cls, each: Iterable[_Counts]) -> _Counts:
        counts = list(each)
        return cls(
            add_up([one.counters for one in counts]),
            added_up(operation for one in counts for operation in one.made),
            added_up(operation for one in counts for operation in one.answered),
            sum(one.reconnects for one in counts),
        )


class ConnectionToTell:
    """A client connection as `ClientMetrics` sees it; `Connection` makes the object in the connection's event loop.

    `server` is the pair of the transport ("rdma" or "tcp") and the server's URL without a path. The functions
    `statistics` and `reconnects` return the present counts.
    """

    def __init__(
        self, server: _Server, statistics: Callable[[], ClientStatistics], reconnects: Callable[[], int]
    ) -> None:
        self.server = server
        self.loop = asyncio.get_running_loop()
        self._statistics = statistics
        self._reconnects = reconnects

    def counts(self) -> _Counts:
        """Returns the connection's present counts of calls, RDMA and reconnects.

        Called in the thread of the connection's event loop, or after that loop was closed.
        """
        statistics = self._statistics()
        return _Counts(statistics.counters(), statistics.operations, statistics.answered, self._reconnects())


_OfServer = tuple[_Server, _Counts]


class ClientMetrics(MetricsEndpoint[list[_OfServer]]):
    """Offers Prometheus the metrics of all connections that are made with `ConnectOptions(metrics=...)`.

    One object serves the whole program, also with several event loops: `with ClientMetrics() as metrics:` and
    `metrics.start(host, port)`. Instead of calling `start`, a program with other metrics can register the object in the
    registry of prometheus-client. Counts of ended connections stay included. Thread-safe.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._present: set[ConnectionToTell] = set()
        self._ended: dict[_Server, _Counts] = {}
        self._made: Counter[_Server] = Counter()

    def close(self) -> None:
        """Stops the HTTP server, ends scrapes in progress, and blocks until the server's thread has ended.

        No effect if the server does not run.
        """
        self.stop_listening()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def begin(self, connection: ConnectionToTell) -> None:
        """Includes a connection in the metrics from now on; `Connection` calls it.

        Args:
            connection: the new connection. If its server is new and METRICS_SERVERS_MAX servers are known, its
                attribute `server` is changed: the URL becomes "other".
        """
        with self._lock:
            if connection.server not in self._made and len(self._made) >= METRICS_SERVERS_MAX:
                connection.server = connection.server[0], OTHER
            self._made[connection.server] += 1
            self._present.add(connection)

    def end(self, connection: ConnectionToTell) -> None:
        """Adds the final counts of a connection to those of ended connections; `Connection` calls it in its event loop.

        Args:
            connection: the connection that ends; no effect if the method was called for it before.
        """
        with self._lock:
            if connection in self._present:
                self._present.remove(connection)
                before = self._ended.get(connection.server, _Counts())
                self._ended[connection.server] = _Counts.sum((before, connection.counts()))

    def _ask(self) -> Asked[list[_OfServer]]:
        with self._lock:
            ended = list(self._ended.items())
            present, made = list(self._present), dict(self._made)
        loops: dict[asyncio.AbstractEventLoop, list[ConnectionToTell]] = {}
        for connection in present:
            loops.setdefault(connection.loop, []).append(connection)
        asked = [asked_of(loop, functools.partial(_counts_of, connections)) for loop, connections in loops.items()]

        def metrics(answers: list[list[_OfServer]]) -> Iterable[Metric]:
            counts = [*ended, *(one for each in answers for one in each)]
            servers = {
                server: _Counts.sum(each for of, each in counts if of == server)
                for server in dict.fromkeys(of for of, _ in counts)
            }
            return _metrics(servers, made, Counter(connection.server for connection in present))

        return Asked(asked, metrics)


def _counts_of(connections: list[ConnectionToTell]) -> list[_OfServer]:
    return [(connection.server, connection.counts()) for connection in connections]


def _metrics(servers: dict[_Server, _Counts], made: dict[_Server, int], present: Counter[_Server]) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    where = ["transport", "server"]
    open_now = GaugeMetricFamily("rpcrdma_connections", "Connections there are.", labels=where)
    connected = CounterMetricFamily("rpcrdma_connections_made", "Connections made; not those made again.", labels=where)
    reconnects = CounterMetricFamily("rpcrdma_reconnects", "How often lost connections were made again.", labels=where)
    calls = CallMetrics(by_server=True)
    for (transport, server), counts in servers.items():
        labels = [transport, server]
        open_now.add_metric(labels, present[transport, server])
        connected.add_metric(labels, made[transport, server])
        reconnects.add_metric(labels, counts.reconnects)
        calls.add("client", transport, counts.made, server)
        calls.add("server", transport, counts.answered, server)
    yield from (open_now, connected, reconnects)
    yield from calls.families()
    yield from transport_metrics({server: each.counters for (kind, server), each in servers.items() if kind == "rdma"})
