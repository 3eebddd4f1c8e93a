"""Runs worlds of NFS version 4.1: `python tests/worlds/run_nfs4_worlds.py --seeds 1000`.

`--seed N` runs one, twice, and prints its faults and its violations. The exit status is 1 if a world broke a rule or
ran another way the second time.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    for _folder in ("", "nfs/v4", "worlds"):
        sys.path.insert(0, str(Path(__file__).parents[1] / _folder))

from nfs4_world import Outcome, run_nfs4_world

__all__ = ["judged"]


def judged(seed: int, *, twice: bool) -> Outcome:
    """Runs the world of a seed; another way the second time is a violation."""
    outcome = run_nfs4_world(seed)
    if twice and run_nfs4_world(seed).digest != outcome.digest:
        outcome.violations.append("the second run differs")
    # Without a collection at a time of its own a world ends the objects of the one before.
    gc.collect()
    return outcome


def _judged_once(seed: int) -> Outcome:
    return judged(seed, twice=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="number of worlds (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: as many as processors)")
    parser.add_argument("--seed", type=int, help="the only world")
    args = parser.parse_args()
    totals: Counter[str] = Counter()
    failed = 0
    if args.seed is not None:
        outcomes = iter([judged(args.seed, twice=True)])
    else:
        pool = multiprocessing.get_context("spawn").Pool(args.jobs)
        outcomes = pool.imap(_judged_once, range(args.first, args.first + args.seeds))
    for outcome in outcomes:
        totals.update(outcome.counts)
        totals["faults"] += len(outcome.faults)
        if outcome.violations or args.seed is not None:
            failed += bool(outcome.violations)
            print(f"seed {outcome.seed}: {len(outcome.violations)} violations", flush=True)
            print("".join(f"  {each}\n" for each in (*outcome.faults, *outcome.violations[:10])), end="", flush=True)
    print(f"{args.seeds if args.seed is None else 1} worlds, {failed} failed: {dict(sorted(totals.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
