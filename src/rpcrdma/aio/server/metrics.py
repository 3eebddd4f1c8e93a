"""A server's statistics for Prometheus, over HTTP; needs the package prometheus-client (the extra `metrics`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from rpcrdma.aio.drivers.page_server import Answer, Request
from rpcrdma.aio.metrics import NO_ANSWER, Asked, CallMetrics, MetricsEndpoint, answers_of, asked_of, transport_metrics
from rpcrdma.aio.server.serve import Server
from rpcrdma.aio.server.server_statistics import ServerStatistics

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["MetricsExporter"]


class MetricsExporter(MetricsEndpoint[ServerStatistics]):
    """Offers Prometheus a server's metrics at /metrics, and at /healthz whether the server takes calls.

    Args:
        server: the server; the exporter is made in its event loop.
    """

    def __init__(self, server: Server) -> None:
        super().__init__({"/healthz": self._health})
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._configuration: tuple[bool, float] | None = None

    def configuration_read(self, taken: bool) -> None:
        """Counts a reading of the server's configuration.

        Args:
            taken: whether its settings are in use; otherwise the earlier ones stay.
        """
        last_s = time.time() if taken or self._configuration is None else self._configuration[1]
        self._configuration = taken, last_s

    async def close(self) -> None:
        """Stops the HTTP server."""
        await asyncio.to_thread(self.stop_listening)

    def _ask(self) -> Asked[ServerStatistics]:
        return Asked([asked_of(self._loop, self._server.statistics)], self._metrics)

    def _metrics(self, answers: Sequence[ServerStatistics]) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

        yield from _metrics(answers[0])
        if self._configuration is not None:
            begin = "rpcrdma_config_last_reload_success"
            taken, last_s = self._configuration
            yield GaugeMetricFamily(f"{begin}ful", "1 if the last configuration is in use, else 0.", value=taken)
            text = "When a configuration was last taken, in seconds since 1970."
            yield GaugeMetricFamily(f"{begin}_timestamp_seconds", text, value=last_s)

    async def _health(self, _request: Request) -> Answer:
        """Answers 200 while the server takes calls; 503 while it stops, or its event loop does not answer."""
        answers = await answers_of([asked_of(self._loop, lambda: self._server.takes_calls)])
        if answers is None:
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, NO_ANSWER)
        if answers[0]:
            return Answer(HTTPStatus.OK, b"ok\n")
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"the server takes no calls: it stops\n")


def _metrics(statistics: ServerStatistics) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    listeners = {"rdma": statistics.rdma, "tcp": statistics.tcp}
    open_now = GaugeMetricFamily("rpcrdma_connections", "Connections there are.", labels=["transport"])
    made = CounterMetricFamily("rpcrdma_connections_made", "Connections accepted.", labels=["transport"])
    refused = CounterMetricFamily("rpcrdma_connections_refused", "Connections turned away.", labels=["transport"])
    answered = CounterMetricFamily("rpcrdma_calls", "Calls answered (rdma) or received (tcp).", labels=["transport"])
    procedures = CounterMetricFamily(
        "rpcrdma_procedure_calls", "Calls by procedure.", labels=["transport", "procedure"]
    )
    calls = CallMetrics()
    for transport, listener in listeners.items():
        open_now.add_metric([transport], listener.connections)
        made.add_metric([transport], listener.connections_made)
        refused.add_metric([transport], listener.connections_refused)
        answered.add_metric([transport], listener.calls)
        for procedure, count in listener.procedures.items():
            procedures.add_metric([transport, procedure], count)
        calls.add("server", transport, listener.operations)
        calls.add("client", transport, listener.calls_back)
    yield from (open_now, made, refused, answered, procedures)
    yield from calls.families()
    yield from transport_metrics(statistics.counters)
    yield CounterMetricFamily(
        "rpcrdma_tcp_received_bytes", "Octets of calls over TCP.", value=statistics.tcp_octets_received
    )
    yield GaugeMetricFamily("rpcrdma_buffer_bytes", "Octets of bulk buffers lent.", value=statistics.buffer_octets_lent)
    yield GaugeMetricFamily(
        "rpcrdma_buffer_bytes_limit", "Octets of bulk buffers there may be.", value=statistics.buffer_octets_max
    )
    yield GaugeMetricFamily(
        "rpcrdma_calls_running", "Calls in worker threads and tasks.", value=statistics.calls_running
    )
    yield GaugeMetricFamily("rpcrdma_workers", "Worker threads there can be.", value=statistics.workers)
