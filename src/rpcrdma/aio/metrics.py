"""Statistics for Prometheus: the metrics that clients and servers share, and the HTTP server that tells them.

Needs the package prometheus-client (the extra `metrics`), which is imported when it is first needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.errors import ConnectFailed
from rpcrdma.rpc.call_statistics import OperationStatistics
from rpcrdma.rpc.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    from rpcrdma.transport import TransportStatistics

__all__ = ["SNAPSHOT_S", "CallMetrics", "MetricsEndpoint", "transport_metrics"]

SNAPSHOT_S = 5.0
"""How long a scrape waits for an event loop; Prometheus itself gives up after ten seconds."""

_LABELS = ["side", "transport", "program", "version", "procedure", "status"]
_COUNTS = {
    "ops": ("rpcrdma_procedure_ops", "Calls that have ended."),
    "trans": ("rpcrdma_procedure_transmissions", "How often they were sent."),
    "bytes_sent": (
        "rpcrdma_procedure_sent_bytes",
        "Octets of a server's replies, or of a client's calls.",
    ),
    "bytes_recv": (
        "rpcrdma_procedure_received_bytes",
        "Octets of calls at a server, of replies at a client.",
    ),
}
_TIMES = {
    "queue": "Server: waiting for a thread or memory. Client: for a credit or a connection.",
    "handler": "Server: the time of the handler.",
    "rtt": "Client: from when a call was sent until its reply was there.",
    "execute": "Server: from the arrival of a call to the handing over of its reply. Client: from the call to its end.",
}
_PARTS = {"server": ("queue", "handler", "execute"), "client": ("queue", "rtt", "execute")}
_BOUNDS_NS = tuple(1 << power for power in range(14, 36))
"""Powers of two from 16 microseconds to 34 seconds: 25 series for each procedure, status and part of the time."""
_BOUNDS_S = tuple(str(bound_ns / 1e9) for bound_ns in _BOUNDS_NS)

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
_LABELLED = (
    ("rpcrdma_calls_by_form", "RDMA calls by form; one may have several.", "form", _FORMS),
    ("rpcrdma_operations", "Work requests over RDMA.", "operation", _OPERATIONS),
    ("rpcrdma_transferred_bytes", "Octets moved by RDMA, or used where Sends put them.", "operation", _OCTETS),
    ("rpcrdma_pieces", "Sends that do not end their message.", "direction", _PIECES),
    ("rpcrdma_grants", "Messages with nothing but credits.", "direction", _GRANTS),
    ("rpcrdma_groups", "Calls and replies in messages of the round-trip extension.", "direction", _GROUPS),
    ("rpcrdma_items_in_segments", "Bulk items in segments of receive buffers.", "direction", _ITEMS),
    ("rpcrdma_reports", "Messages that say why a transmission was not taken.", "direction", _REPORTS),
    ("rpcrdma_calls_resent", "Calls of this side sent again after a refusal, by their new form.", "form", _RESENT),
)
_COUNTERS = {
    "registrations": "Memory regions registered.",
    "remote_invalidations": "Handles of requesters ended along with a reply.",
    "errors_sent": "RDMA_ERROR messages sent.",
    "messages_continued": "Messages sent in several Sends.",
    "calls_failed": "Calls answered with an RDMA_ERROR.",
    "items_joined": "Bulk items in segments that had to be copied to one piece of memory.",
    "discarded": "Messages silently discarded, as the protocol says.",
}


class MetricsEndpoint(ABC):
    """Answers scrapes in threads of its own, each with what `collect` tells then."""

    def __init__(self) -> None:
        self._http: Any = None
        self.url = ""
        """The URL for Prometheus, once started."""

    @abstractmethod
    def collect(self) -> Iterable[Metric]:
        """The metrics now."""

    def describe(self) -> Iterable[Metric]:
        """No metrics: which ones there are is known when they are collected."""
        return ()

    def start(self, host: str, port: int) -> None:
        """Listens; port 0 takes a free one.

        Raises:
            ConnectFailed: the package is missing, or the address cannot be listened on.
        """
        try:
            import prometheus_client  # noqa: PLC0415
        except ImportError:
            raise ConnectFailed("metrics need the package prometheus-client: pip install prometheus-client") from None
        registry = prometheus_client.CollectorRegistry()
        registry.register(self)
        try:
            self._http, _ = prometheus_client.start_http_server(port, host, registry)
        except OSError as error:
            where = authority(host, port)
            cause = (error.strerror or str(error)).lower()
            raise ConnectFailed(f"cannot offer metrics at {where}: {cause}; choose another address") from None
        self.url = f"http://{authority(host, self._http.server_port)}/metrics"

    def stop_listening(self) -> None:
        """Takes up to half a second."""
        if self._http is not None:
            http, self._http = self._http, None
            http.shutdown()
            http.server_close()


class CallMetrics:
    """What calls came to, by side, transport, procedure and status, and with `by_server` by the server as well.

    `side` is "server" for calls that this side answers, "client" for those that it makes.
    """

    def __init__(self, *, by_server: bool = False) -> None:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily  # noqa: PLC0415

        self._by_server = by_server
        names = ["server", *_LABELS] if by_server else _LABELS
        self._counts: dict[str, CounterMetricFamily] = {
            member: CounterMetricFamily(*described, labels=names) for member, described in _COUNTS.items()
        }
        self._times: dict[str, HistogramMetricFamily] = {
            part: HistogramMetricFamily(f"rpcrdma_procedure_{part}_seconds", text, labels=names)
            for part, text in _TIMES.items()
        }

    def add(self, side: str, transport: str, operations: Iterable[OperationStatistics], server: str = "") -> None:
        """Adds what one side has counted over one transport; `server` is the URL of the other end, if it is one."""
        for each in operations:
            labels = [side, transport, str(each.program), str(each.version), each.procedure, each.status]
            if self._by_server:
                labels.insert(0, server)
            for member, counter in self._counts.items():
                counter.add_metric(labels, getattr(each, member))
            for part in _PARTS[side]:
                histogram: Histogram = getattr(each, part)
                counts = map(float, histogram.cumulative(_BOUNDS_NS))
                buckets = [*zip(_BOUNDS_S, counts, strict=True), ("+Inf", float(histogram.count))]
                self._times[part].add_metric(labels, buckets, histogram.sum_ns / 1e9)

    def families(self) -> Iterator[Metric]:
        """All of it, for Prometheus."""
        yield from self._counts.values()
        yield from self._times.values()


def transport_metrics(told: Mapping[str, TransportStatistics] | TransportStatistics) -> Iterator[Metric]:
    """The counters of RDMA connections: those of a server, or of a client by the URL of its servers."""
    from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415

    counted = [([server], counters) for server, counters in told.items()] if isinstance(told, Mapping) else [([], told)]
    where = ["server"] if isinstance(told, Mapping) else []
    for name, text, label, members in _LABELLED:
        family = CounterMetricFamily(name, text, labels=[*where, label])
        for server, counters in counted:
            for value, member in members.items():
                family.add_metric([*server, value], getattr(counters, member))
        yield family
    for member, text in _COUNTERS.items():
        family = CounterMetricFamily(f"rpcrdma_{member}", text, labels=where)
        for server, counters in counted:
            family.add_metric(server, getattr(counters, member))
        yield family
