"""The cost of calls over rxe and over the software RNIC, in one guest by turns: see docs/hardware.md.

Prints a Markdown table. The cost of a call is the processor time that the emulation of the whole guest takes for it:
client, server and kernel. Emulation is slow, so only the ratios mean something.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable

from failures import CheckFailed, GuestDied, JobTimeout, Missing
from guest import Guest
from image import build_image
from lab import Lab
from network import enter_own_network
from python_layer import PYTHON

_SUBJECTS = ("iwarp", "verbs", "verbs, busy polling")
_MEASURES = {
    "NULL x1": 200,
    "NULL x32": 800,
    "READ 4 KiB x1": 100,
    "WRITE 4 KiB x1": 100,
    "READ 1 MiB x1": 15,
    "WRITE 1 MiB x1": 15,
    "READ 1 MiB x4": 24,
    "WRITE 1 MiB x4": 24,
}
"""Calls of a batch, as many as take some tenths of a second."""
_START_S, _BATCH_S = 120.0, 60.0
_START = f"""set -e
{PYTHON}
ulimit -l unlimited
python3 /data/device_cost.py ADDRESS >/run/cost.log 2>&1 &
until [ -p /run/orders ]; do kill -0 $! || {{ cat /run/cost.log; exit 1; }}; sleep 0.2; done
"""


def main() -> int:
    """Exit status 0, or 2 if this machine lacks something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="batches of each kind (default: %(default)s)")
    args = parser.parse_args()
    try:
        image = build_image()
        enter_own_network()
        with Lab(image) as lab:
            guest = lab.devices
            guest.run(_START.replace("ADDRESS", guest.address), _START_S)
            found = _by_turns(args.rounds, lambda order: _batch(guest, order))
    except (Missing, GuestDied, JobTimeout, CheckFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("| call | provider | latency | processor time | ratio |\n|---|---|---|---|---|")
    for measure in _MEASURES:
        first = [cost_us for _, cost_us in found[_SUBJECTS[0], measure]]
        for subject in _SUBJECTS:
            costs = [cost_us for _, cost_us in found[subject, measure]]
            latency_us = min(median_us for median_us, _ in found[subject, measure])
            ratio = statistics.median(own / other for own, other in zip(costs, first, strict=True))
            cost_us = statistics.median(costs)
            print(f"| {measure} | {subject} | {latency_us:,.0f} µs | {cost_us:,.0f} µs | {ratio:.2f} |")
    return 0


def _by_turns(
    rounds: int, batch: Callable[[str], tuple[float, float]]
) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """By subject and measure: latency and cost of a call in each round, in microseconds."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for turn in range(rounds):
        _, order_s = batch("||")
        for measure, calls in _MEASURES.items():
            for subject in _SUBJECTS if turn % 2 else reversed(_SUBJECTS):
                median_s, taken_s = batch(f"{subject}|{measure}|{calls}")
                cost_us = max(taken_s - order_s, 0.0) / calls * 1e6
                found.setdefault((subject, measure), []).append((median_s * 1e6, cost_us))
        print(f"round {turn + 1} of {rounds}", file=sys.stderr)
    return found


def _batch(guest: Guest, order: str) -> tuple[float, float]:
    """The median of the calls' seconds, and the seconds of processor time."""
    before_s = guest.processor_s
    said = guest.run(f"echo '{order}' >/run/orders; cat /run/answers", _BATCH_S).output
    return float(said), guest.processor_s - before_s


if __name__ == "__main__":
    sys.exit(main())
