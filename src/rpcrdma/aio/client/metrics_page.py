"""What a server tells of its calls at its metrics endpoint, read back; needs the package prometheus-client."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import pairwise
from typing import Any
from urllib.error import HTTPError

from rpcrdma.errors import ConnectFailed, RemoteProtocolError
from rpcrdma.limits import METRICS_PAGE_OCTETS_MAX

__all__ = ["Calls", "Times", "fetch", "read_page", "since"]

_PREFIX = "rpcrdma_procedure_"
_PARTS = ("queue", "handler", "execute")
_REMEDY = "start the server with --metrics HOST:PORT, and give the URL that it prints"


@dataclass(slots=True)
class Times:
    """Durations as Prometheus has them: how many took at most so many seconds, by that bound."""

    below: dict[float, float] = field(default_factory=dict)
    sum_s: float = 0.0

    @property
    def count(self) -> float:
        """How many there were."""
        return self.below.get(float("inf"), 0.0)

    @property
    def mean_s(self) -> float | None:
        """Their mean; None of none."""
        return self.sum_s / self.count if self.count else None

    def quantile_s(self, share: float) -> float | None:
        """The duration that `share` of them do not exceed, as Prometheus' histogram_quantile estimates it.

        That is right to within its bucket, a power of two; of durations beyond the last bound, it is that bound.
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
class Calls:
    """The calls of one procedure over one transport; octets and times as in `OperationStatistics`."""

    statuses: dict[str, float] = field(default_factory=dict)
    bytes_sent: float = 0.0
    bytes_recv: float = 0.0
    times: dict[str, Times] = field(default_factory=lambda: {part: Times() for part in _PARTS})

    @property
    def ops(self) -> float:
        """Calls that have ended."""
        return sum(self.statuses.values())

    @property
    def errors(self) -> float:
        """Those that did not succeed."""
        return self.ops - self.statuses.get("SUCCESS", 0.0)


Page = Mapping[tuple[str, str], Calls]
"""By transport and procedure."""


def fetch(url: str, timeout_s: float) -> str:
    """The answer at `url`.

    Raises:
        ConnectFailed: there is none.
        RemoteProtocolError: it is too long, or no text.
    """
    # Not through a proxy: servers are asked directly, as Prometheus does.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            octets = answer.read(METRICS_PAGE_OCTETS_MAX + 1)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or error
        cause = getattr(reason, "strerror", None) or reason
        raise ConnectFailed(f"no statistics at {url}: {str(cause).lower()}; {_REMEDY}") from None
    if len(octets) > METRICS_PAGE_OCTETS_MAX:
        raise RemoteProtocolError(f"{url} answers with more than {METRICS_PAGE_OCTETS_MAX} octets")
    try:
        return str(octets, "utf-8")
    except UnicodeDecodeError:
        raise RemoteProtocolError(f"{url} answers with octets that are no text") from None


def read_page(text: str) -> dict[tuple[str, str], Calls]:
    """What the text of an answer says.

    Raises:
        ConnectFailed: the package is missing.
        RemoteProtocolError: it is no answer of a metrics endpoint, or not of this library's.
    """
    try:
        from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415
    except ImportError:
        raise ConnectFailed(
            "reading metrics needs the package prometheus-client; pip install 'rpcrdma[metrics]', or prometheus-client"
        ) from None
    page: dict[tuple[str, str], Calls] = {}
    known = False
    try:
        for family in text_string_to_metric_families(text):
            known = known or family.name == f"{_PREFIX}ops"
            if family.name.startswith(_PREFIX):
                for sample in family.samples:
                    where = sample.labels["transport"], sample.labels["procedure"]
                    _take(page.setdefault(where, Calls()), sample)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise RemoteProtocolError(f"the answer is not in the format of Prometheus: {error}") from None
    if not known:
        raise RemoteProtocolError(f"the answer says nothing of a server's calls: {_REMEDY}")
    return {where: calls for where, calls in page.items() if calls.statuses}


def _take(calls: Calls, sample: Any) -> None:
    name = sample.name.removeprefix(_PREFIX)
    value = float(sample.value)
    if name == "ops_total":
        calls.statuses[sample.labels["status"]] = value
    elif name == "sent_bytes_total":
        calls.bytes_sent = value
    elif name == "received_bytes_total":
        calls.bytes_recv = value
    else:
        part, _, what = name.partition("_seconds_")
        times = calls.times.get(part)
        if times is not None and what == "bucket":
            times.below[float(sample.labels["le"])] = value
        elif times is not None and what == "sum":
            times.sum_s = value


def since(before: Page, now: Page) -> dict[tuple[str, str], Calls]:
    """What has come between two pages; all of a server that was started anew meanwhile."""
    found = {}
    for where, calls in now.items():
        then = before.get(where, Calls())
        if then.ops > calls.ops:
            then = Calls()
        found[where] = Calls(
            {status: count - then.statuses.get(status, 0.0) for status, count in calls.statuses.items()},
            calls.bytes_sent - then.bytes_sent,
            calls.bytes_recv - then.bytes_recv,
            {part: _times_since(then.times[part], times) for part, times in calls.times.items()},
        )
    return {where: calls for where, calls in found.items() if calls.ops}


def _times_since(then: Times, now: Times) -> Times:
    below = {bound_s: count - then.below.get(bound_s, 0.0) for bound_s, count in now.below.items()}
    return Times(below, now.sum_s - then.sum_s)
