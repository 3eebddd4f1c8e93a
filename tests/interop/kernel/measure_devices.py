"""The cost of calls over rxe and over the software RNIC, in one guest by turns: see docs/hardware.md.

Prints a Markdown table. Emulation is slow, so only the ratios mean something.
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any

from failures import CheckFailed, GuestDied, JobTimeout, Missing
from image import build_image
from lab import Lab
from network import enter_own_network
from python_layer import PYTHON

_QUIET_S = 400.0


def main() -> int:
    """Exit status 0, or 2 if this machine lacks something."""
    try:
        image = build_image()
        enter_own_network()
        with Lab(image) as lab:
            guest = lab.devices
            script = f"set -e\n{PYTHON}ulimit -l unlimited\npython3 /data/device_cost.py {guest.address}"
            said = guest.run(script, _QUIET_S).output
    except (Missing, GuestDied, JobTimeout, CheckFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    batches = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    print(
        "| call | provider | latency | client | server | whole guest | ratio (guest) |\n|---|---|---|---|---|---|---|"
    )
    for name in dict.fromkeys(batch["measure"] for batch in batches):
        first = 0.0
        for subject in dict.fromkeys(batch["subject"] for batch in batches):
            found = [batch for batch in batches if (batch["measure"], batch["subject"]) == (name, subject)]
            latency_us = statistics.median(batch["median_s"] for batch in found) * 1e6
            sides = [_of_a_call(found, side) for side in ("client_s", "server_s", "machine_s")]
            first = first or sides[-1]
            cells = [f"{value:,.0f} us" for value in (latency_us, *sides)]
            print(f"| {name} | {subject} | {' | '.join(cells)} | {sides[-1] / first:.2f} |")
    return 0


def _of_a_call(batches: list[dict[str, Any]], side: str) -> float:
    """The median of the processor time of a call, in microseconds."""
    return statistics.median(batch[side] / batch["calls"] for batch in batches) * 1e6


if __name__ == "__main__":
    sys.exit(main())
