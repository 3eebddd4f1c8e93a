"""docs/performance.md: the table and the ratios of a run of the bench, and two plots beside the page."""

from __future__ import annotations

from pathlib import Path

import pages
from performance_report import BY_NAME, SIZES, Report, lines_of

PLOTTED = ("RDMA 2, native", "RDMA 2, Python", "TCP", "libnfs", "gRPC", "libfabric", "iperf3", "floor")


def markdown(report: Report) -> str:
    """Table, ratios, machine and versions."""
    lines = [
        f"| | | {' | '.join(report.columns)} |\n",
        "|---|---|" + "---:|" * len(report.columns) + "\n",
    ]
    rows: dict[str, list[tuple[str, list[str]]]] = {}
    for name, title, cells in lines_of(report):
        rows.setdefault(name, []).append((title, cells))
    for name, found in rows.items():
        titles = "<br>".join(title for title, _ in found)
        cells = ("<br>".join(parts) if any(parts) else "" for parts in zip(*(line for _, line in found), strict=True))
        lines.append(f"| {name} | {titles} | {' | '.join(cells)} |\n")
    lines += ["\n", *(f"- {name}: {explained}\n" for name, explained in report.columns.items())]
    if report.missing:
        lines += ["\nMissing on this machine:\n\n", *(f"- {name}: {hint}\n" for name, hint in report.missing.items())]
    lines += ["\n| ratio, taken in each round | median | lowest to highest |\n|---|---:|---:|\n"]
    for ratio in report.ratios:
        figure = ratio.figure
        lines.append(f"| {ratio.name} | {figure.median:.2f} | {figure.low:.2f} to {figure.high:.2f} |\n")
    lines += ["\n| machine and versions | |\n|---|---|\n"]
    lines += [f"| {name} | {value} |\n" for name, value in report.machine.items()]
    lines.append(f"\n{report.rounds} rounds, batches of {report.seconds:g} s.\n")
    return "".join(lines)


def plot(report: Report, path: Path, in_flight: int, value: str, unit: str) -> None:
    """A panel for READ and one for WRITE, of files in memory: a line for each subject over the size."""
    import matplotlib as mpl  # noqa: PLC0415 - the extra `plots`

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
    """Puts the results into the page, and draws the plots beside it."""
    pages.put(page, "bench.py", markdown(report))
    plot(report, page.with_name(f"{page.stem}-latency.svg"), 1, "latency_us", "microseconds, median of a call")
    plot(report, page.with_name(f"{page.stem}-throughput.svg"), 16, "gb_per_s", "GB/s")
