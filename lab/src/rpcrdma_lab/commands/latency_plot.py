"""The plot of `rpcrdma roundtrips`: latencies by distance and by size, with the points at which they cross."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import BinaryIO

from rpcrdma_lab.simulation.latency_curves import Curves
from rpcrdma_lab.simulation.measured_calls import SHORT_CALL

__all__ = ["draw"]

_LABELS = {"miles": "miles", "octets": "octets of data"}


def draw(plots: Sequence[Curves], file: BinaryIO) -> None:
    """Draws latency curves to a file as SVG; each operation has a row, with a plot over miles and one over octets.

    Each of `plots` has the latencies of an operation in all variants (ways to carry it), over miles or octets. The unit
    of the plots is the latency of the operation `SHORT_CALL` in its first variant at the same point. So `plots` must
    have the curves of `SHORT_CALL` over the same points; this operation gets no row. Needs the package matplotlib.

    Raises:
        OSError: the file cannot be written.
        ImportError: matplotlib is not installed.
    """
    import matplotlib as mpl  # noqa: PLC0415 - the extra `plots`

    mpl.use("svg")
    # The same octets each time: without it the names within the file are random.
    mpl.rcParams["svg.hashsalt"] = "rpcrdma"
    from matplotlib import pyplot as plt  # noqa: PLC0415

    # The short call has one round trip and needs no RDMA: the draft's target for all other calls.
    target_s = {each.over: next(iter(each.latencies_s.values())) for each in plots if each.operation == SHORT_CALL.name}
    plots = [each for each in plots if each.operation != SHORT_CALL.name]
    operations = list(dict.fromkeys(each.operation for each in plots))
    axes_of = list(dict.fromkeys(each.over for each in plots))
    figure, panels = plt.subplots(
        len(operations), len(axes_of), figsize=(11, 3.4 * len(operations)), squeeze=False, layout="constrained"
    )
    for each in plots:
        panel = panels[operations.index(each.operation)][axes_of.index(each.over)]
        for number, (name, latencies_s) in enumerate(each.latencies_s.items()):
            # Curves that coincide stay visible: later ones are thinner, with gaps.
            style = {"linewidth": 4 - 0.5 * number, "linestyle": ("-", "--", "-.", ":")[number % 4]}
            multiples = [value / target for value, target in zip(latencies_s, target_s[each.over], strict=True)]
            panel.plot(each.at, multiples, label=name, **style)
        crossings = each.crossings()
        panel.plot(
            [crossing.at for crossing in crossings],
            [crossing.latency_s / _between(each.at, target_s[each.over], crossing.at) for crossing in crossings],
            "ko",
            markersize=5,
            markerfacecolor="none",
        )
        panel.set_xscale("log", base=2 if each.over == "octets" else 10)
        if each.over == "octets":
            panel.set_yscale("log", base=2)
            panel.yaxis.set_major_formatter("{x:g}")
        panel.set_title(each.operation, fontsize=9)
        panel.set_xlabel(_LABELS[each.over], fontsize=8)
        panel.set_ylabel("latency, short call = 1", fontsize=8)
        panel.tick_params(labelsize=7)
        panel.grid(visible=True, linewidth=0.3)
    lines, names = panels[0][0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=3, fontsize=8, title="circles: crossings")
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)


def _between(at: Sequence[float], values: Sequence[float], place: float) -> float:
    """Returns the value at `place` on the straight lines through the points (`at`, `values`), at least two.

    `at` ascends; beyond its ends the outermost lines are extended.
    """
    right = min(max(bisect.bisect_left(at, place), 1), len(at) - 1)
    share = (place - at[right - 1]) / (at[right] - at[right - 1])
    return values[right - 1] + share * (values[right] - values[right - 1])
