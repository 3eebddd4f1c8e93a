"""One server with many clients, in virtual time on the simulated fabric: memory, credits, fairness, latency, storms.

`python benchmarks/scale.py --write docs/scale.md` runs the study and writes the tables of that page and its plots;
`--results FILE` keeps the numbers, and `--from FILE` writes the page from them again. Plots take the
lab's extra `plots`.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import scale_page
from scale_studies import Crowd, Results, Row, Storm, crowd, load, storm
from scale_world import DEFAULT, EAGER, IN_STEP, OLDEST

from rpcrdma.testing.virtual import run

R = TypeVar("R")

SIZES = (10, 100, 1000, 10_000)
CREDITS = (1, 4, 16, 64, 128)
PLACES = 100


def study(largest: int = SIZES[-1]) -> Results:
    """Runs everything, each world in a loop of its own; `largest` bounds the number of clients."""
    began_s = time.process_time()

    def told(made: Coroutine[Any, Any, R]) -> R:
        row = run(lambda: made)
        shown = row._replace(course=[]) if isinstance(row, Storm) else row
        print(f"{time.process_time() - began_s:7.1f} s  {shown}", flush=True)
        gc.collect()
        return row

    sizes = [size for size in SIZES if size <= largest]
    most, many = sizes[-1], min(2000, largest)
    loads = [told(load(version, size, calls=max(2000, 3 * size))) for version in ("1", "2") for size in sizes]
    given = [
        told(load("1", 90, calls=900, greedy=10, credits_granted=granted, handler_s=handler_s))
        for handler_s in (0.0, 1e-3)
        for granted in CREDITS
    ]
    storms = [
        *(told(storm("1", many, outage_s=0.5, variant=variant)) for variant in (OLDEST, IN_STEP, DEFAULT)),
        *(told(storm("1", many, outage_s=0.5, calling=0.1, variant=variant)) for variant in (EAGER, DEFAULT)),
        *(told(storm("1", min(1000, largest), outage_s=outage_s)) for outage_s in (5.0, 60.0)),
        told(storm("auto", most, outage_s=0.5)),
    ]
    crowds = [
        told(crowd("1", PLACES * percent // 100, places=PLACES, variant=variant))
        for variant in (EAGER, DEFAULT)
        for percent in (90, 110, 200)
    ]
    return Results(loads, given, storms, crowds, time.process_time() - began_s)


def main() -> int:
    """Runs the study, or takes the numbers of an earlier one, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="N", help="the largest number of clients")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep the numbers")
    parser.add_argument("--from", dest="kept", type=Path, metavar="FILE", help="take the numbers of an earlier run")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write tables and plots of the page")
    options = parser.parse_args()
    logging.disable()
    if options.kept is not None:
        kept = json.loads(options.kept.read_text())
        kinds = {"loads": Row, "credits": Row, "storms": Storm, "crowds": Crowd}
        results = Results(**{k: [kinds[k](*each) for each in v] if k in kinds else v for k, v in kept.items()})
    else:
        results = study(options.largest)
    if options.results is not None:
        options.results.write_text(json.dumps(results._asdict()))
    if options.write is not None:
        scale_page.write(options.write, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
