"""The page docs/scale.md: its tables and plots, from the results of the study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pages
from scale_studies import GREEDY_CALLS, Results
from scale_world import OLDEST

__all__ = ["write"]


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines) + "\n"


def _number(value: float) -> str:
    """Three digits."""
    if math.isinf(value):
        return "never"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def loads(results: Results) -> str:
    """The table of clients with one call each in flight."""
    return _table(
        ("version", "clients", "calls/s", "p50 ms", "p99 ms", "worst ms",
         "receive buffers promised, MiB", "of them in use at once, MiB"),
        (
            (row.version, f"{row.clients:,}", _number(row.calls_s), _number(row.p50_ms), _number(row.p99_ms),
             _number(row.worst_ms), _number(row.promised_mib), _number(row.used_kib / 1024))
            for row in results.loads
        ),
    )  # fmt: skip


def greedy(results: Results) -> str:
    """The table of 90 clients with one call each beside 10 with many."""
    return _table(
        ("handlers take", "credits granted", "calls/s", "p50 ms of the 90", "p99 ms of the 90",
         "receive buffers promised, MiB"),
        (
            ("0" if not row.handler_ms else f"{row.handler_ms:g} ms, 8 threads", row.credits_granted,
             _number(row.calls_s), _number(row.p50_ms), _number(row.p99_ms), _number(row.promised_mib))
            for row in results.credits
        ),
    )  # fmt: skip


def storms(results: Results) -> str:
    """The table of restarts."""
    return _table(
        ("version", "clients", "with a call", "away, s", "rule", "connections taken", "half after, s", "99 % after, s",
         "all after, s", "back in version 1"),
        (
            (row.version, f"{row.clients:,}", f"{row.calling:,}", f"{row.outage_s:g}", row.variant,
             f"{row.attempts:,}", _number(row.half_s), _number(row.most_s), _number(row.all_s),
             row.downgraded if row.version == "auto" else "")
            for row in results.storms
        ),
    )  # fmt: skip


def crowds(results: Results) -> str:
    """The table of more clients than places."""
    return _table(
        ("rule", "clients", "places", "calls in a minute", "failed", "connections taken a second", "p50 ms", "p99 ms",
         "worst ms"),
        (
            (row.variant, row.clients, row.places, f"{row.calls:,}", row.failed, _number(row.attempts_s),
             _number(row.p50_ms), _number(row.p99_ms), _number(row.worst_ms))
            for row in results.crowds
        ),
    )  # fmt: skip


def plot(results: Results, path: Path) -> None:
    """Memory and latency over the number of clients, latency over credits, and the courses of three restarts."""
    import matplotlib as mpl  # noqa: PLC0415 - the extra `plots` of rpcrdma-lab

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "rpcrdma"
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, ((memory, latency), (shared, course)) = plt.subplots(2, 2, figsize=(10, 7))
    for version in sorted({row.version for row in results.loads}):
        rows = [row for row in results.loads if row.version == version]
        clients = [row.clients for row in rows]
        _line(memory, clients, [row.promised_mib for row in rows], f"version {version}, promised")
        _line(memory, clients, [row.used_kib / 1024 for row in rows], f"version {version}, in use", style="--")
        _line(latency, clients, [row.p99_ms for row in rows], f"version {version}, p99")
        _line(latency, clients, [row.p50_ms for row in rows], f"version {version}, p50", style="--")
    for handler_ms in sorted({row.handler_ms for row in results.credits}):
        rows = [row for row in results.credits if row.handler_ms == handler_ms]
        label = f"handlers of {handler_ms:g} ms in 8 threads" if handler_ms else "handlers in the event loop"
        _line(shared, [row.credits_granted for row in rows], [row.p99_ms for row in rows], label)
    for row in results.storms[:3]:
        course.plot([at_s for at_s, _ in row.course], [count for _, count in row.course], label=row.variant)
    labels: list[tuple[Any, str, str, str]] = [
        (memory, "Receive buffers at the server", "clients", "MiB"),
        (latency, "One call in flight at each client", "clients", "ms"),
        (shared, f"90 clients beside 10 with {GREEDY_CALLS} calls", "credits granted", "p99 of the 90, ms"),
        (
            course,
            f"{results.storms[0].clients:,} clients, server away for 0.5 s",
            "s after the restart",
            "clients back",
        ),
    ]
    for axis, title, across, up in labels:
        if axis is not course:
            axis.set_xscale("log")
            axis.set_yscale("log")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(across, fontsize=8)
        axis.set_ylabel(up, fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(visible=True, which="major", linewidth=0.3)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _line(axis: Any, across: Sequence[float], up: Sequence[float], label: str, style: str = "-") -> None:
    axis.plot(across, up, style, marker="o", markersize=3, label=label)


def write(page: Path, results: Results) -> None:
    """Puts the tables into the page, and draws the plots beside it."""
    assert results.storms[0].variant == OLDEST
    for name, text in (
        ("scale.py loads", loads(results)),
        ("scale.py greedy", greedy(results)),
        ("scale.py storms", storms(results)),
        ("scale.py crowds", crowds(results)),
        ("scale.py time", f"The run took {results.took_s / 60:.0f} minutes of processor time.\n"),
    ):
        pages.put(page, name, text)
    plot(results, page.with_suffix(".svg"))
