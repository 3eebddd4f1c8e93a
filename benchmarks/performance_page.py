"""docs/performance.md: its table of medians, the page of all figures, and two plots beside the page."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pages
from nfs_servers import MEMORY
from performance_report import BY_NAME, SIZES, Measure, Report, lines_of

PLOTTED = ("RDMA 2, native", "RDMA 2, Python", "TCP", "libnfs", "gRPC", "libfabric", "iperf3", "floor")

UNBROKEN = "\u00a0"
"""The space in a cell of several lines, each of which has to stay one line."""

FIGURES = Path("measured", "performance.md")
"""The page of all figures, from the folder of the page."""

SHOWN = {
    "RDMA": "RDMA 2, native",
    "TCP": "TCP",
    "libnfs": "libnfs",
    "gRPC": "gRPC",
    "iperf3": "iperf3",
    "floor": "floor",
}
"""Columns of the table of medians, and their subjects."""

BEFORE = "RDMA 2, before"
"""The subject of another checkout, which has a column where it was measured."""


def shown_rows() -> list[tuple[str, str, str, int]]:
    """Title, name of the measure, field and divisor of each row: times of single calls, then rates of many at once."""
    rows = [("NULL, µs", Measure("NULL", 0, 1, MEMORY).name, "latency_us", 1)]
    several = [("NULL x32, 1,000/s", Measure("NULL", 0, 32, MEMORY).name, "calls_per_s", 1000)]
    for call in ("READ", "WRITE"):
        for size in (1 << 12, 1 << 16, 1 << 20):
            rows.append((f"{call} {SIZES[size]}, µs", Measure(call, size, 1, MEMORY).name, "latency_us", 1))
            if size > 1 << 12:
                name = Measure(call, size, 16, MEMORY).name
                several.append((f"{call} {SIZES[size]} x16, GB/s", name, "gb_per_s", 1))
    return rows + several


def medians(report: Report) -> str:
    """The table of at most 12 rows, one figure a cell."""
    shown = {"RDMA": SHOWN["RDMA"], "before": BEFORE} | SHOWN
    columns = [column for column, subject in shown.items() if subject in report.columns]
    found = {(row.measure, row.subject): row for row in report.rows}
    lines = [f"| | {' | '.join(columns)} |\n", "|---|" + "---:|" * len(columns) + "\n"]
    for title, name, value, divisor in shown_rows():
        figures = [getattr(found.get((name, shown[column])), value, None) for column in columns]
        if any(figures):
            cells = " | ".join(figure.divided(divisor).median_text if figure else "" for figure in figures)
            lines.append(f"| {title} | {cells} |\n")
    machine = report.machine
    words = f"{machine['processor']}; {machine['kernel']}; Python {machine['Python']}; {report.rounds} rounds"
    return "".join([*lines, f"\nMedians on {words}.\n"])


def figures(report: Report) -> str:
    """The page of all figures: table, ratios, machine and versions."""
    lines = [
        "# Performance: all figures\n\n",
        "Written by `benchmarks/bench.py`. [Performance](../performance.md#how-the-figures-are-measured) explains the",
        " rows and columns.\n\n",
        f"| | | {' | '.join(report.columns)} |\n",
        "|---|---|" + "---:|" * len(report.columns) + "\n",
    ]
    rows: dict[str, list[tuple[str, list[str]]]] = {}
    for name, title, cells in lines_of(report):
        rows.setdefault(name, []).append((title, cells))
    for name, found in rows.items():
        titles = "<br>".join(title for title, _ in found).replace(" ", UNBROKEN)
        cells = ("<br>".join(parts) if any(parts) else "" for parts in zip(*(line for _, line in found), strict=True))
        lines.append(f"| {name} | {titles} | {' | '.join(cells).replace(' ±', UNBROKEN + '±')} |\n")
    lines += ["\n", *(f"- {name}: {explained}\n" for name, explained in report.columns.items())]
    if report.missing:
        lines += ["\nMissing on this machine:\n\n", *(f"- {name}: {hint}\n" for name, hint in report.missing.items())]
    lines += ["\n## Ratios\n\n| ratio, taken in each round | median | lowest to highest |\n|---|---:|---:|\n"]
    for ratio in report.ratios:
        figure = ratio.figure
        lines.append(f"| {ratio.name} | {figure.median:.2f} | {figure.low:.2f} to {figure.high:.2f} |\n")
    lines += ["\n## Machine\n\n| machine and versions | |\n|---|---|\n"]
    lines += [f"| {name} | {value} |\n" for name, value in report.machine.items()]
    lines.append(f"\n{report.rounds} rounds, batches of {report.seconds:g} s.\n")
    return "".join(lines)


def plot(report: Report, path: Path, in_flight: int, value: str, unit: str) -> None:
    """A panel for READ and one for WRITE, of files in memory: a line for each subject over the size."""
    import matplotlib as mpl  # noqa: PLC0415 - the extra `plots` of rpcrdma-lab

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "rpcrdma"
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, call in zip(axes, ("READ", "WRITE"), strict=True):
        for number, subject in enumerate(PLOTTED):
            points = {}
            for row in report.rows:
                measure = BY_NAME[row.measure]
                found = getattr(row, value)
                if (row.subject, measure.call, measure.in_flight, measure.place) == (
                    subject,
                    call,
                    in_flight,
                    "memory",
                ):
                    points[measure.size_bytes] = found and found.median
            if points and None not in points.values():
                axis.plot(
                    list(points), list(points.values()), marker="o", markersize=3, label=subject, color=f"C{number}"
                )
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(list(SIZES), list(SIZES.values()), fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(visible=True, which="both", linewidth=0.3)
        axis.set_title(f"{call}, {in_flight} in flight", fontsize=9)
    axes[0].set_ylabel(unit, fontsize=8)
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def write(page: Path, report: Report) -> None:
    """Puts the medians into the page, writes the page of all figures, and draws the plots beside the page."""
    pages.put(page, "bench.py", medians(report))
    whole = page.parent / FIGURES
    whole.parent.mkdir(exist_ok=True)
    whole.write_text(figures(report))
    if importlib.util.find_spec("matplotlib") is None:
        print("the plots are left out: pip install -e './lab[plots]'", file=sys.stderr)
        return
    plot(report, page.with_name(f"{page.stem}-latency.svg"), 1, "latency_us", "microseconds, median of a call")
    plot(report, page.with_name(f"{page.stem}-throughput.svg"), 16, "gb_per_s", "GB/s")
