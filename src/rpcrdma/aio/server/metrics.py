"""A server's statistics for Prometheus, over HTTP; needs the package prometheus-client (the extra `metrics`)."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.aio.server.serve import Server
from rpcrdma.aio.server.server_statistics import ListenerStatistics, ServerStatistics
from rpcrdma.errors import ConnectFailed
from rpcrdma.rpc.call_statistics import by_procedure
from rpcrdma.rpc.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["MetricsExporter"]

_SNAPSHOT_S = 5.0
"""How long a scrape waits for the event loop; Prometheus itself gives up after ten seconds."""

_FORMS = {
    "short": "calls_short",
    "read_chunk": "calls_read_chunk",
    "write_chunk": "calls_write_chunk",
    "long_call": "calls_long",
    "long_reply": "replies_long",
    "by_send": "calls_by_send",
}
_OPERATIONS = {"send": "sends", "receive": "receives", "rdma_read": "rdma_reads", "rdma_write": "rdma_writes"}
_OCTETS = {"rdma_read": "octets_read", "rdma_write": "octets_written", "send": "octets_in_segments"}
_PIECES = {"sent": "pieces_sent", "received": "pieces_received"}
_GRANTS = {"sent": "grants_sent", "received": "grants_received"}
_GROUPS = {"sent": "groups_sent", "received": "groups_received"}
_ITEMS = {"sent": "items_sent_in_segments", "received": "items_in_segments"}
_REPORTS = {"sent": "reports_sent", "received": "reports_received"}
_RESENT = {
    "long_call": "resent_long",
    "without_chunks": "resent_without_chunks",
    "in_segments": "resent_in_segments",
    "larger": "resent_larger",
    "plain": "resent_plain",
}
_TIMES = {
    "queue": "Waiting for a thread or memory.",
    "handler": "Time of the handler.",
    "execute": "From the arrival of a call until its reply was handed over.",
}
_BOUNDS_NS = tuple(1 << power for power in range(14, 36))
"""Powers of two from 16 microseconds to 34 seconds: 25 series for each procedure and part of the time."""
_COUNTS = {
    "registrations": "Memory regions registered.",
    "remote_invalidations": "Handles of clients ended along with a reply.",
    "errors_sent": "RDMA_ERROR messages sent.",
    "messages_continued": "Messages sent in several Sends.",
    "calls_failed": "Calls answered with an RDMA_ERROR.",
    "items_joined": "Bulk items in segments that had to be copied to one piece of memory.",
    "discarded": "Messages silently discarded, as the protocol says.",
}


class MetricsExporter:
    """Answers scrapes in a thread of its own; the counters are read in the event loop, all at one moment."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._http: Any = None
        self.url = ""
        """The URL for Prometheus, once started."""

    def start(self, host: str, port: int) -> None:
        """Listens; port 0 takes a free one.

        Raises:
            ConnectFailed: the package is missing, or the address cannot be listened on.
        """
        try:
            import prometheus_client  # noqa: PLC0415
        except ImportError:
            raise ConnectFailed(
                "metrics need the package prometheus-client; pip install 'rpcrdma[metrics]', or prometheus-client"
            ) from None
        registry = prometheus_client.CollectorRegistry()
        registry.register(self)
        try:
            self._http, _ = prometheus_client.start_http_server(port, host, registry)
        except OSError as error:
            where = authority(host, port)
            cause = (error.strerror or str(error)).lower()
            raise ConnectFailed(f"cannot offer metrics at {where}: {cause}; choose another address") from None
        self.url = f"http://{authority(host, self._http.server_port)}/metrics"

    async def close(self) -> None:
        """Stops listening."""
        if self._http is not None:
            http, self._http = self._http, None
            await asyncio.to_thread(http.shutdown)
            http.server_close()

    def collect(self) -> Iterable[Metric]:
        """The metrics now; called in a thread of the HTTP server, none while the event loop does not answer."""
        snapshot: concurrent.futures.Future[ServerStatistics] = concurrent.futures.Future()

        def take() -> None:
            # The future is cancelled if the scrape was given up.
            if snapshot.set_running_or_notify_cancel():
                snapshot.set_result(self._server.statistics())

        try:
            self._loop.call_soon_threadsafe(take)
            return list(_metrics(snapshot.result(_SNAPSHOT_S)))
        except (TimeoutError, RuntimeError):
            snapshot.cancel()
            return []


def _latency(listeners: Mapping[str, ListenerStatistics]) -> Iterable[Metric]:
    """What the calls came to. Histograms are of all statuses together, lest there be too many series."""
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily  # noqa: PLC0415

    where = ["transport", "procedure"]
    ops = CounterMetricFamily("rpcrdma_procedure_ops", "Calls that have ended.", labels=[*where, "status"])
    sent = CounterMetricFamily("rpcrdma_procedure_sent_bytes", "Octets of replies.", labels=where)
    received = CounterMetricFamily("rpcrdma_procedure_received_bytes", "Octets of calls.", labels=where)
    times = {
        part: HistogramMetricFamily(f"rpcrdma_procedure_{part}_seconds", help_text, labels=where)
        for part, help_text in _TIMES.items()
    }
    for transport, listener in listeners.items():
        for operation in listener.operations:
            ops.add_metric([transport, operation.procedure, operation.status], operation.ops)
        for operation in by_procedure(listener.operations):
            labels = [transport, operation.procedure]
            sent.add_metric(labels, operation.bytes_sent)
            received.add_metric(labels, operation.bytes_recv)
            for part, family in times.items():
                histogram: Histogram = getattr(operation, part)
                counts = zip(_BOUNDS_NS, histogram.cumulative(_BOUNDS_NS), strict=True)
                buckets = [(str(bound_ns / 1e9), float(count)) for bound_ns, count in counts]
                family.add_metric(labels, [*buckets, ("+Inf", float(histogram.count))], histogram.sum_ns / 1e9)
    yield from (ops, sent, received, *times.values())


def _metrics(statistics: ServerStatistics) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    listeners = {"rdma": statistics.rdma, "tcp": statistics.tcp}
    open_now = GaugeMetricFamily("rpcrdma_connections", "Connections there are.", labels=["transport"])
    made = CounterMetricFamily("rpcrdma_connections_made", "Connections accepted.", labels=["transport"])
    refused = CounterMetricFamily("rpcrdma_connections_refused", "Connections turned away.", labels=["transport"])
    calls = CounterMetricFamily("rpcrdma_calls", "Calls answered (rdma) or received (tcp).", labels=["transport"])
    procedures = CounterMetricFamily(
        "rpcrdma_procedure_calls", "Calls by procedure.", labels=["transport", "procedure"]
    )
    for transport, listener in listeners.items():
        open_now.add_metric([transport], listener.connections)
        made.add_metric([transport], listener.connections_made)
        refused.add_metric([transport], listener.connections_refused)
        calls.add_metric([transport], listener.calls)
        for procedure, count in listener.procedures.items():
            procedures.add_metric([transport, procedure], count)
    yield from (open_now, made, refused, calls, procedures)
    yield from _latency(listeners)
    counters = statistics.counters
    for name, help_text, label, members in (
        ("rpcrdma_calls_by_form", "RDMA calls by form; one may have several.", "form", _FORMS),
        ("rpcrdma_operations", "Work requests over RDMA.", "operation", _OPERATIONS),
        ("rpcrdma_transferred_bytes", "Octets moved by RDMA, or used where Sends put them.", "operation", _OCTETS),
        ("rpcrdma_pieces", "Sends that do not end their message.", "direction", _PIECES),
        ("rpcrdma_grants", "Messages with nothing but credits.", "direction", _GRANTS),
        ("rpcrdma_groups", "Calls and replies in messages of the round-trip extension.", "direction", _GROUPS),
        ("rpcrdma_items_in_segments", "Bulk items in segments of receive buffers.", "direction", _ITEMS),
        ("rpcrdma_reports", "Messages that say why a transmission was not taken.", "direction", _REPORTS),
        ("rpcrdma_calls_resent", "Calls to clients sent again after a refusal, by their new form.", "form", _RESENT),
    ):
        family = CounterMetricFamily(name, help_text, labels=[label])
        for value, member in members.items():
            family.add_metric([value], getattr(counters, member))
        yield family
    for member, help_text in _COUNTS.items():
        yield CounterMetricFamily(f"rpcrdma_{member}", help_text, value=getattr(counters, member))
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
