"""A server's statistics for Prometheus, over HTTP; needs the package prometheus-client (the extra `metrics`)."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from rpcrdma.aio.drivers.page_server import Answer, Request
from rpcrdma.aio.metrics import NO_ANSWER, Asked, CallMetrics, MetricsEndpoint, answers_of, asked_of, transport_metrics
from rpcrdma.aio.server.serve import Server
from rpcrdma.aio.server.server_statistics import ServerStatistics
from rpcrdma.wire.peer_text import printable

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["Health", "MetricsExporter"]


class Health(NamedTuple):
    """The state of a server that its statistics do not have, for health checks and metrics."""

    unready: str = ""
    """The reason why no new clients should come; "": the server is ready for them."""
    exports: Mapping[str, bool] = {}
    """Whether each export is available, by its name."""
    registered: bool | None = None
    """Whether the server's programs are registered at rpcbind; None: they are not to be."""
    certificate_expires_s: float | None = None
    """When the server's certificate expires, in seconds since 1970; None: there is none."""
    audit_lost: int | None = None
    """Records of the access log that were lost; None: there is no such log."""
    reload_taken: bool | None = None
    """Whether the settings of the last reading of the configuration are in use; None: there is no configuration."""
    reload_taken_at_s: float | None = None
    """When settings that were read were last put to use, in seconds since 1970; None: never."""
    state_written: bool | None = None
    """Whether the last write of the state that must survive a restart succeeded; None: there is no such state."""
    version: str = ""
    """The version of this package, for the command `rpcrdma serve`; "" for other programs."""


class MetricsExporter(MetricsEndpoint[tuple[ServerStatistics, Health]]):
    """Offers Prometheus a server's metrics at /metrics; /healthz and /readyz report its health.

    /healthz reports whether the server takes calls, /readyz whether new clients should come as well.

    Args:
        server: the server; the exporter is made in its event loop.
        health: returns the state that the server itself does not know; called in the server's event loop at each
            request for /metrics or /readyz.
    """

    def __init__(self, server: Server, health: Callable[[], Health] = Health) -> None:
        super().__init__({"/healthz": self._alive, "/readyz": self._ready})
        self._server = server
        self._health = health
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Stops the HTTP server and ends scrapes in progress; waits for its thread without blocking the event loop."""
        await asyncio.to_thread(self.stop_listening)

    def _ask(self) -> Asked[tuple[ServerStatistics, Health]]:
        def question() -> tuple[ServerStatistics, Health]:
            return self._server.statistics(), self._health()

        return Asked([asked_of(self._loop, question)], lambda answers: _metrics(*answers[0]))

    async def _alive(self, _request: Request) -> Answer:
        """Returns the page /healthz: status 200, or 503 if the server stops, or if its loop does not answer in 5 s."""
        return await self._answer(self._stopped)

    async def _ready(self, _request: Request) -> Answer:
        """Returns the page /readyz: status 200 while new clients should come; 503 otherwise, with the reason."""
        return await self._answer(lambda: self._stopped() or self._health().unready)

    def _stopped(self) -> str:
        return "" if self._server.takes_calls else "the server takes no calls: it stops"

    async def _answer(self, fault: Callable[[], str]) -> Answer:
        answers = await answers_of([asked_of(self._loop, fault)])
        if answers is None:
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, NO_ANSWER)
        if answers[0]:
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{answers[0]}\n".encode(errors="replace"))
        return Answer(HTTPStatus.OK, b"ok\n")


def _metrics(statistics: ServerStatistics, health: Health) -> Iterable[Metric]:
    yield from _of_calls(statistics)
    yield from _of_health(health)


def _of_health(health: Health) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    names = ["version", "python"]
    build = GaugeMetricFamily("rpcrdma_build_info", "1, with the versions as labels.", labels=names)
    build.add_metric([health.version, platform.python_version()], 1)
    exports = GaugeMetricFamily("rpcrdma_export_available", "1 while the export is there, else 0.", labels=["export"])
    for name, available in health.exports.items():
        exports.add_metric([printable(name)], available)
    if health.version:
        yield build
    if health.exports:
        yield exports
    for name, text, value in (
        ("rpcbind_registered", "1 while rpcbind leads clients to the server, else 0.", health.registered),
        (
            "certificate_expiry_timestamp_seconds",
            "When the server's certificate expires, in seconds since 1970.",
            health.certificate_expires_s,
        ),
        (
            "config_last_reload_successful",
            "1 while the settings of the last reading of the configuration are in use, else 0.",
            health.reload_taken,
        ),
        (
            "config_last_reload_success_timestamp_seconds",
            "When settings of a reading were last taken, in seconds since 1970.",
            health.reload_taken_at_s,
        ),
        (
            "state_written",
            "0 from a failed write of the state of version 4 that must survive a restart until one succeeds, else 1.",
            health.state_written,
        ),
    ):
        if value is not None:
            yield GaugeMetricFamily(f"rpcrdma_{name}", text, value=value)
    if health.audit_lost is not None:
        yield CounterMetricFamily("rpcrdma_audit_lost", "Records of the access log lost.", value=health.audit_lost)


def _of_calls(statistics: ServerStatistics) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    listeners = {"rdma": statistics.rdma, "tcp": statistics.tcp}
    open_now = GaugeMetricFamily("rpcrdma_connections", "Connections there are.", labels=["transport"])
    made = CounterMetricFamily("rpcrdma_connections_made", "Connections accepted.", labels=["transport"])
    refused = CounterMetricFamily("rpcrdma_connections_refused", "Connections turned away.", labels=["transport"])
    received = CounterMetricFamily("rpcrdma_calls", "Calls received.", labels=["transport"])
    procedures = CounterMetricFamily(
        "rpcrdma_procedure_calls", "Calls by procedure, of NFSv4 by operations.", labels=["transport", "procedure"]
    )
    calls = CallMetrics()
    for transport, listener in listeners.items():
        open_now.add_metric([transport], listener.connections)
        made.add_metric([transport], listener.connections_made)
        refused.add_metric([transport], listener.connections_refused)
        received.add_metric([transport], listener.calls)
        for procedure, count in listener.procedures.items():
            procedures.add_metric([transport, procedure], count)
        calls.add("server", transport, listener.operations)
        calls.add("client", transport, listener.calls_back)
    yield from (open_now, made, refused, received, procedures)
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
