"""Runs many worlds, in several processes: each twice where wanted, to see that both traces are equal."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType

from rpcrdma_lab.simulation.worlds.history import Violation
from rpcrdma_lab.simulation.worlds.plan import Kept, draw_plan
from rpcrdma_lab.simulation.worlds.scenario import Scenario
from rpcrdma_lab.simulation.worlds.world import Result, run_world

__all__ = ["Totals", "judged", "run_worlds"]

_PROCESSOR_S = 30.0
"""Seconds of processor time after which a world counts as an endless loop: five hundred times the usual need."""
_AGAIN_S = 1.0
"""Seconds of processor time after which a world that goes on regardless is interrupted again."""
_CHUNK = 25
"""Worlds that a process runs before it collects garbage and takes the next ones."""


@dataclass(slots=True)
class Totals:
    """Sums over worlds that raised no exception: number, calls, faults, virtual seconds, and worlds that ran twice."""

    worlds: int = 0
    calls: int = 0
    faults: int = 0
    virtual_s: float = 0.0
    repeated: int = 0
    failures: list[tuple[int, list[str]]] = field(default_factory=list)
    """The seeds of failed worlds, with descriptions of the violations or of the exception."""

    def add(self, other: Totals) -> None:
        """Adds the sums and failures of `other` to those of this object."""
        self.worlds += other.worlds
        self.calls += other.calls
        self.faults += other.faults
        self.virtual_s += other.virtual_s
        self.repeated += other.repeated
        self.failures += other.failures


def judged(scenario: Scenario, seed: int, kept: Kept, *, twice: bool = False) -> Result:
    """Runs the world that a seed determines; returns its plan, violations and trace.

    A second run that differs is a violation of the checker "repetition" in the result. Must be called in the main
    thread, without a running event loop: the limit of processor time sets a signal handler while the world runs.

    Args:
        scenario: the scenario from which the world is drawn.
        seed: the seed.
        kept: the parts of the world's plan that are run; `Kept()`: all.
        twice: whether the world runs a second time, to compare the traces.

    Raises:
        RuntimeError: the world, with its second run, takes more than 30 s of processor time.
    """
    plan = kept.of(draw_plan(scenario, seed))
    with _time_limit():
        result = run_world(plan)
        if twice:
            again = run_world(plan, rules=False)
            if again.trace.digest() != result.trace.digest():
                result.violations.append(Violation("repetition", 0.0, _difference(result, again)))
    return result


def run_worlds(scenario: Scenario, first: int, count: int, jobs: int, *, twice_every: int) -> Iterator[Totals]:
    """Runs the worlds of consecutive seeds in several processes; yields the totals of each 25 seeds when they have run.

    With several processes, the order of the totals may differ from that of the seeds. A world that raises an exception
    or violates a rule is in `failures` of its totals. Must be called in the main thread, and with one process without a
    running event loop, where every world would fail.

    Args:
        scenario: the scenario from which the worlds are drawn.
        first: the first seed.
        count: the number of seeds.
        jobs: the number of processes; 1 or less runs the worlds in the calling process.
        twice_every: each seed that is a multiple of this number runs twice, and the traces are compared; 0: none.
    """
    starts = range(first, first + count, _CHUNK)
    tasks = [(scenario, start, min(_CHUNK, first + count - start), twice_every) for start in starts]
    if jobs <= 1:
        yield from map(_chunk, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, _prepare) as pool:
        yield from pool.imap_unordered(_chunk, tasks)


def _prepare() -> None:
    """Prepares a worker process: ignores SIGINT, and turns off the garbage collection, which `_chunk` makes itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.disable()


def _chunk(task: tuple[Scenario, int, int, int]) -> Totals:
    scenario, first, count, twice_every = task
    totals = Totals()
    for seed in range(first, first + count):
        twice = bool(twice_every) and seed % twice_every == 0
        try:
            result = judged(scenario, seed, Kept(), twice=twice)
        except Exception as error:  # noqa: BLE001 - a failure of a world must not hide the others
            totals.failures.append((seed, [f"the world raised {error!r}"]))
            continue
        totals.worlds += 1
        totals.calls += result.calls
        totals.faults += result.faults
        totals.virtual_s += result.seconds
        totals.repeated += twice
        if result.violations:
            totals.failures.append((seed, [str(each) for each in result.violations]))
    gc.collect()
    return totals


def _difference(result: Result, again: Result) -> str:
    for one, other in zip(result.trace.events, again.trace.events, strict=False):
        if one != other:
            return f"the second run differs: {other.line!r} instead of {one.line!r}"
    return f"the second run has {len(again.trace.events)} events, the first {len(result.trace.events)}"


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    expired = False

    def expire(_number: int, _frame: FrameType | None) -> None:
        nonlocal expired
        expired = True
        # asyncio hands other exceptions of callbacks to the loop's handler, and goes on.
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGVTALRM, expire)
    signal.setitimer(signal.ITIMER_VIRTUAL, _PROCESSOR_S, _AGAIN_S)
    try:
        yield
    except KeyboardInterrupt:
        if not expired:
            raise
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    if expired:
        raise RuntimeError(f"the world did not end within {_PROCESSOR_S:g} s of processor time")
