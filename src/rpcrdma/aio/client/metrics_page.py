"""Reads the call statistics of a server's or a client's metrics endpoint; needs the package prometheus-client."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote

from rpcrdma.errors import ConnectFailed, RemoteProtocolError
from rpcrdma.limits import METRICS_PAGE_OCTETS_MAX

__all__ = ["Calls", "Outcome", "Page", "Times", "Where", "fetch", "read_page", "since"]

_PREFIX = "rpcrdma_procedure_"
_PARTS = ("queue", "handler", "rtt", "execute")
_OF_URLS = "!#$%&'()*+,/:;=?@[]~"
"""The punctuation that URLs have as it is."""
_VALUE_BOUND = 1e30
_REMEDY = "start a MetricsExporter for the server, and give the URL that it prints"


@dataclass(slots=True)
class Times:
    """Durations in the form of a Prometheus histogram.

    `below` has, by upper bound in seconds, the number of durations up to that bound; infinity has all. `sum_s` is their
    sum.
    """

    below: dict[float, float] = field(default_factory=dict)
    sum_s: float = 0.0

    def __add__(self, other: Times) -> Times:
        """Returns a new histogram of the durations of both operands; their bounds are equal, or one has no bounds."""
        bounds_s = self.below.keys() | other.below.keys()
        below = {bound_s: self.below.get(bound_s, 0.0) + other.below.get(bound_s, 0.0) for bound_s in bounds_s}
        return Times(below, self.sum_s + other.sum_s)

    @property
    def count(self) -> float:
        """The number of durations."""
        return self.below.get(float("inf"), 0.0)

    @property
    def mean_s(self) -> float | None:
        """The mean duration in seconds; None if there are no durations."""
        return self.sum_s / self.count if self.count else None

    def quantile_s(self, share: float) -> float | None:
        """Returns the estimated duration in seconds that the part `share` (0 to 1) of all durations does not exceed.

        Returns None if there are no durations. The estimate is that of Prometheus' histogram_quantile: it lies in the
        right bucket. If that bucket has no upper bound, the result is its lower bound.
        """
        if not self.count:
            return None
        rank = share * self.count
        steps = [(0.0, 0.0), *sorted(self.below.items())]
        for (low_s, before), (high_s, until) in pairwise(steps):
            if until >= rank and until > before:
                width_s = 0.0 if high_s == float("inf") else high_s - low_s
                return low_s + width_s * (rank - before) / (until - before)
        return None


@dataclass(slots=True)
class Outcome:
    """The calls of one procedure that ended with one status.

    `ops` is their number, `bytes_sent` and `bytes_recv` their octets, `times` their durations by part: "queue" (until
    the last Send, or until the handler begins), "handler", "rtt" (from the last Send on) and "execute" (the whole).
    """

    ops: float = 0.0
    bytes_sent: float = 0.0
    bytes_recv: float = 0.0
    times: dict[str, Times] = field(default_factory=lambda: {part: Times() for part in _PARTS})


@dataclass(slots=True)
class Calls:
    """The calls of one procedure that one side made or answered, by the name of their final status ("SUCCESS")."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def ops(self) -> float:
        """The number of calls that have ended."""
        return sum(each.ops for each in self.outcomes.values())

    @property
    def errors(self) -> float:
        """The number of calls that ended with another status than SUCCESS."""
        return sum(each.ops for status, each in self.outcomes.items() if status != "SUCCESS")

    @property
    def together(self) -> Outcome:
        """One `Outcome` with the sums of number, octets and durations over the calls of all statuses."""
        each = self.outcomes.values()
        return Outcome(
            self.ops,
            sum(one.bytes_sent for one in each),
            sum(one.bytes_recv for one in each),
            {part: sum((one.times[part] for one in each), Times()) for part in _PARTS},
        )


class Where(NamedTuple):
    """The labels of a group of calls in the metrics.

    `side` is "server" for answered calls and "client" for calls made; `server` is the URL of the called server, else
    "".
    """

    side: str
    transport: str
    server: str
    program: str
    version: str
    procedure: str


Page = Mapping[Where, Calls]


def fetch(url: str, timeout_s: float) -> str:
    """Sends an HTTP GET to the URL of a metrics endpoint, without a proxy, and returns the text of the answer.

    Blocks. `timeout_s` bounds the making of the connection and each read, in seconds.

    Raises:
        ConnectFailed: there is no answer, or an HTTP status of failure; the message names the remedy.
        RemoteProtocolError: the answer is longer than METRICS_PAGE_OCTETS_MAX octets, or is no UTF-8.
        ValueError: `url` has no scheme.
    """
    # Not through a proxy: servers are asked directly, as Prometheus does.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        # As written, letters of other scripts would be no part of a request.
        with opener.open(quote(url, safe=_OF_URLS, errors="surrogateescape"), timeout=timeout_s) as answer:
            octets = answer.read(METRICS_PAGE_OCTETS_MAX + 1)
    except (OSError, UnicodeError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or error
        cause = "not a host name" if isinstance(error, UnicodeError) else getattr(reason, "strerror", None) or reason
        raise ConnectFailed(f"no statistics at {url}: {str(cause).lower()}; {_REMEDY}") from None
    if len(octets) > METRICS_PAGE_OCTETS_MAX:
        raise RemoteProtocolError(f"{url} answers with more than {METRICS_PAGE_OCTETS_MAX} octets")
    try:
        return str(octets, "utf-8")
    except UnicodeDecodeError:
        raise RemoteProtocolError(f"{url} answers with octets that are no text") from None


def read_page(text: str) -> dict[Where, Calls]:
    """Returns the call statistics in `text`, a metrics endpoint's answer: the calls of each set of labels, by status.

    Labels are side, transport, server, program, version and procedure; a set of labels without calls is left out.

    Raises:
        ConnectFailed: the package prometheus-client is not installed.
        RemoteProtocolError: the text is not in the format of Prometheus, or lacks this library's metrics of calls.
    """
    try:
        from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415
    except ImportError:
        raise ConnectFailed(
            "reading metrics needs the package prometheus-client; pip install prometheus-client"
        ) from None
    page: dict[Where, Calls] = {}
    known = False
    try:
        for family in text_string_to_metric_families(text):
            known = known or family.name == f"{_PREFIX}ops"
            if family.name.startswith(_PREFIX):
                for sample in family.samples:
                    _take(page, sample)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise RemoteProtocolError(f"the answer is not in the format of Prometheus: {error}") from None
    if not known:
        raise RemoteProtocolError(f"the answer says nothing of calls: {_REMEDY}")
    return {where: calls for where, calls in page.items() if calls.ops}


def _take(page: dict[Where, Calls], sample: Any) -> None:
    labels = sample.labels
    if "status" not in labels:
        return
    where = Where(*(labels.get(name, "") if name == "server" else labels[name] for name in Where._fields))
    calls = page.setdefault(where, Calls())
    outcome = calls.outcomes.setdefault(labels["status"], Outcome())
    name = sample.name.removeprefix(_PREFIX)
    value = float(sample.value)
    bound_s = float(labels.get("le", "0"))
    # NaN is neither; the sums of these values are finite as well.
    if not abs(value) < _VALUE_BOUND or not bound_s >= 0:
        raise ValueError(f"{sample.name} is {value:g} up to {bound_s:g}, no number of calls, octets or seconds")
    if name == "ops_total":
        outcome.ops = value
    elif name == "sent_bytes_total":
        outcome.bytes_sent = value
    elif name == "received_bytes_total":
        outcome.bytes_recv = value
    else:
        part, _, what = name.partition("_seconds_")
        times = outcome.times.get(part)
        if times is not None and what == "bucket":
            times.below[bound_s] = value
        elif times is not None and what == "sum":
            times.sum_s = value


def since(before: Page, now: Page) -> dict[Where, Calls]:
    """Returns the calls by which `now` exceeds `before`, two results of `read_page` of one endpoint.

    A set of labels without calls in between is left out. If the number of calls of a set of labels has fallen, the
    endpoint has restarted, and the result has all calls of these labels in `now`.
    """
    found = {}
    for where, calls in now.items():
        then = before.get(where, Calls())
        if then.ops > calls.ops:
            then = Calls()
        found[where] = Calls(
            {status: _since(then.outcomes.get(status, Outcome()), each) for status, each in calls.outcomes.items()}
        )
    return {where: calls for where, calls in found.items() if calls.ops}


def _since(then: Outcome, now: Outcome) -> Outcome:
    return Outcome(
        now.ops - then.ops,
        now.bytes_sent - then.bytes_sent,
        now.bytes_recv - then.bytes_recv,
        {part: _times_since(then.times[part], times) for part, times in now.times.items()},
    )


def _times_since(then: Times, now: Times) -> Times:
    below = {bound_s: count - then.below.get(bound_s, 0.0) for bound_s, count in now.below.items()}
    return Times(below, now.sum_s - then.sum_s)
