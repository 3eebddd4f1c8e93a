"""The cost of memory over an RDMA device: rxe in a guest, with both ends in one process. Prints a Markdown table.

Emulation is slow, and the machine's other work shows in the figures: the least of several turns is printed, and only
the ratios mean something.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# `support` stands in the folder of all tests.
sys.path.insert(0, str(Path(__file__).parents[2]))

from failures import CheckFailed, GuestDied, JobTimeout, Missing
from image import build_image
from lab import Lab
from network import enter_own_network
from python_layer import PYTHON

__all__: list[str] = []

_QUIET_S = 900.0
_HEADINGS = ("call", "memory", "registrations a call", "found registered", "processor time")


def main() -> int:
    """Exit status 0, or 2 if this machine lacks something."""
    try:
        image = build_image()
        enter_own_network()
        with Lab(image) as lab:
            guest = lab.devices
            said = guest.run(f"{PYTHON}python3 /data/device_memory.py measure {guest.address}", _QUIET_S).output
    except (Missing, GuestDied, JobTimeout, CheckFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(_table(json.loads(said.splitlines()[-1])))
    return 0


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [f"| {' | '.join(_HEADINGS)} |", "|---|---|--:|--:|--:|"]
    kinds = dict.fromkeys((row["call"], row["octets"], row["at_once"], row["memory"]) for row in rows)
    for call, octets, at_once, memory in sorted(kinds, key=lambda kind: kind[:3]):
        turns = [
            row
            for row in rows
            if (row["call"], row["octets"], row["at_once"], row["memory"]) == (call, octets, at_once, memory)
        ]
        last = turns[-1]
        size = "1 MiB" if octets == 1 << 20 else f"{octets >> 10} KiB"
        cells = (
            f"{call} {size}, {at_once} at a time",
            memory,
            f"{last['registrations']:.1f}",
            f"{last['reused']:.0%}",
            f"{min(row['cpu_us'] for row in turns) / 1000:.1f} ms",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
