"""Statistics for Prometheus: the metrics that clients and servers share, and the page that shows them.

Needs the package prometheus-client (the extra `metrics`), which is imported when it is first needed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import gzip
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from rpcrdma.aio.drivers.page_server import Answer, Page, PageServer, Request
from rpcrdma.aio.drivers.port_owner import address_in_use
from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.errors import ConnectFailed
from rpcrdma.rpc.call_statistics import OperationStatistics
from rpcrdma.rpc.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    from rpcrdma.transport import TransportStatistics

__all__ = ["NO_ANSWER", "Asked", "CallMetrics", "MetricsEndpoint", "answers_of", "asked_of", "transport_metrics"]

SNAPSHOT_S = 5.0
"""How long a scrape waits for an event loop; Prometheus itself gives up after ten seconds."""

NO_ANSWER = b"the event loop does not answer\n"
"""The page while an event loop is busy with something else."""

_LABELS = ["side", "transport", "program", "version", "procedure", "status"]
_COUNTS = {
    "ops": ("rpcrdma_procedure_ops", "Calls that have ended."),
    "trans": ("rpcrdma_procedure_transmissions", "How often they were sent."),
    "bytes_sent": ("rpcrdma_procedure_sent_bytes", "Octets of a server's replies, or of a client's calls."),
    "bytes_recv": ("rpcrdma_procedure_received_bytes", "Octets of calls at a server, of replies at a client."),
}
_TIMES = {
    "queue": "Server: waiting for a thread, memory or RPCSEC_GSS. Client: for a credit or a connection.",
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
    "registrations": "Memory regions exposed to the peer, or registered to be filled by RDMA Read.",
    "device_registrations": "System calls by which an RDMA device registered the memory of a call or a Send.",
    "registrations_reused": "Uses of memory that the RDMA device had registered for an earlier one.",
    "remote_invalidations": "Handles of requesters ended along with a reply.",
    "errors_sent": "RDMA_ERROR messages sent.",
    "messages_continued": "Messages sent in several Sends.",
    "calls_failed": "Calls ended by an RDMA_ERROR or, at a client, by a reply that breaks the protocol.",
    "items_joined": "Bulk items in segments that had to be copied to one piece of memory.",
    "discarded": "Messages silently discarded, as the protocol says.",
}


T = TypeVar("T")


class Asked(NamedTuple, Generic[T]):
    """One scrape in progress: a future of each event loop's answer, and the function that makes metrics of the answers.

    The function takes the list of the futures' results, in any order.
    """

    answers: list[concurrent.futures.Future[T]]
    metrics: Callable[[list[T]], Iterable[Metric]]


class MetricsEndpoint(ABC, Generic[T]):
    """Base of endpoints that offer Prometheus the metrics of event loops over HTTP, at /metrics.

    At each scrape every loop supplies its statistics, of the type `T` that a subclass chooses. The object can also be
    registered as a collector with prometheus-client.

    Args:
        pages: the functions that make further pages beside /metrics, by their paths; None: no further pages.
    """

    def __init__(self, pages: Mapping[str, Page] | None = None) -> None:
        self._http = PageServer({"/metrics": self._page, **(pages or {})})
        self.url = ""
        """The URL of /metrics for Prometheus; "" before the first `start`."""

    @abstractmethod
    def _ask(self) -> Asked[T]:
        """Asks each event loop for its statistics (of the subclass's type `T`) without waiting; callable in any thread.

        Returns the futures of the answers, and the function that makes metrics of the list of their results.
        """

    def collect(self) -> Iterable[Metric]:
        """Returns the present metrics, for a registry of prometheus-client; callable in any thread.

        Blocks until all event loops have answered; returns no metrics if one has not after 5 s. An exception of an
        event loop's answer is raised.
        """
        asked = self._ask()
        done, late = concurrent.futures.wait(asked.answers, SNAPSHOT_S)
        for future in late:
            future.cancel()
        return [] if late else list(asked.metrics([future.result() for future in done]))

    def describe(self) -> Iterable[Metric]:
        """Returns no metrics: their names are known only when they are collected."""
        return ()

    async def _page(self, request: Request) -> Answer:
        """Returns the page /metrics, compressed if the client permits it; runs in the thread of the HTTP server.

        The status is 503 if an event loop does not answer within 5 s.
        """
        from prometheus_client import CollectorRegistry  # noqa: PLC0415
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415

        asked = self._ask()
        answers = await answers_of(asked.answers)
        if answers is None:
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, NO_ANSWER)
        registry = CollectorRegistry()
        registry.register(_Collected(list(asked.metrics(answers))))
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        body = encode(registry)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Answer(HTTPStatus.OK, gzip.compress(body), content_type, "gzip")
        return Answer(HTTPStatus.OK, body, content_type)

    def start(self, host: str, port: int) -> None:
        """Starts an HTTP server in a thread of its own and sets the attribute `url` to the URL of its page /metrics.

        Blocks until the server listens. After `stop_listening` it may be started again.

        Args:
            host: the host name or address to listen at.
            port: the port; 0 takes a free one.

        Raises:
            ConnectFailed: prometheus-client is not installed, or the server cannot listen at the address.
            LocalProtocolError: the server runs.
        """
        try:
            import prometheus_client  # noqa: F401, PLC0415
        except ImportError:
            raise ConnectFailed("metrics need the package prometheus-client; pip install prometheus-client") from None
        try:
            address = self._http.start(host, port)
        except OSError as error:
            cause, remedy = (error.strerror or str(error)).lower(), "choose another address"
            if error.errno == errno.EADDRINUSE:
                cause, remedy = address_in_use(host, port)
                remedy = f"{remedy}, or choose another port"
            raise ConnectFailed(f"cannot offer metrics at {authority(host, port)}: {cause}; {remedy}") from None
        self.url = f"http://{authority(host, address[1])}/metrics"

    def stop_listening(self) -> None:
        """Stops the HTTP server, ends scrapes in progress, and blocks until its thread has ended.

        No effect if the server does not run.
        """
        self._http.close()


class _Collected:
    """A collector for a registry of prometheus-client that always returns the list `metrics`."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics

    def describe(self) -> Iterable[Metric]:
        return ()


def asked_of(loop: asyncio.AbstractEventLoop, question: Callable[[], T]) -> concurrent.futures.Future[T]:
    """Schedules a call of `question` in the event loop `loop`, and returns the future of its result or exception.

    Does not block, and may be called in any thread. `question` is called at once if `loop` is the running loop or is
    closed. It is not called if the future is cancelled before.
    """
    answer: concurrent.futures.Future[T] = concurrent.futures.Future()

    def take() -> None:
        # The future is cancelled if the scrape was given up.
        if answer.set_running_or_notify_cancel():
            try:
                answer.set_result(question())
            except Exception as error:  # noqa: BLE001 - raised where it was asked
                answer.set_exception(error)

    if loop is _running_loop() or loop.is_closed():
        take()
        return answer
    try:
        loop.call_soon_threadsafe(take)
    except RuntimeError:
        # It was closed just now: nothing is counted any more.
        take()
    return answer


async def answers_of(asked: list[concurrent.futures.Future[T]]) -> list[T] | None:
    """Waits for the futures, and returns their results in the same order; None if one is not done within 5 s.

    An exception of a future is raised. Futures that are not done within 5 s are cancelled.
    """
    try:
        async with asyncio.timeout(SNAPSHOT_S):
            return await asyncio.gather(*map(asyncio.wrap_future, asked))
    except TimeoutError:
        return None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class CallMetrics:
    """The metrics about calls by side, transport, procedure and status; made for one scrape.

    The side is "server" for calls that this process answers, "client" for calls that it makes. With `by_server` the
    metrics have the label "server", the URL of the server, as well.
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
        """Adds the counts of calls to the metrics.

        Args:
            side: "server" or "client".
            transport: "rdma" or "tcp".
            operations: the counts, one object for each procedure and status.
            server: the URL of the server, if `by_server` is set; else unused.
        """
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
        """Yields all metric families, those without counts included, with the counts added so far."""
        yield from self._counts.values()
        yield from self._times.values()


def transport_metrics(told: Mapping[str, TransportStatistics] | TransportStatistics) -> Iterator[Metric]:
    """Yields the metric families of RDMA transport counters.

    `told` is either the counters of a server, or a mapping from each server's URL to the counters of a client's
    connections to that server. With a mapping the metrics have the label "server", the URL.
    """
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
