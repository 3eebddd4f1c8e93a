"""Checks that no call was lost, none ran twice, and each reply belongs to its own call."""

from __future__ import annotations

from collections.abc import Iterator

from rpcrdma.errors import CallTimeout
from rpcrdma_lab.simulation.worlds.history import CallMade, History, Violation

__all__ = ["check_calls", "check_notices"]

_NAME = "calls"
_TICK_S = 1e-6
"""Tolerance of times, in seconds: deadlines are sums of floating-point numbers."""
_RUNS = frozenset({"transfer", "statement", "extract"})


def check_calls(history: History) -> Iterator[Violation]:
    """Yields a violation for each contradiction between the outcomes of calls and the runs of their handlers.

    A call must end. A call that failed needs a fault that explains the failure, and a call that timed out must have
    lasted its `timeout_s`. The bank (a service of the simulated servers) enters each run of a handler in a journal. The
    handler of a call to the bank that succeeded must have run, and the reply must name the journal entry of one of
    these runs. The handler must not run twice for one call between two starts of the server (RFC 5531 section 8).
    `history` is not changed.
    """
    for call in history.calls:
        where = f"client {call.client}, {call.work} {call.number} to server {call.server}"
        runs = history.runs.get((call.server, call.client, call.number), [])
        if call.work in _RUNS:
            boots = [run.boot for run in runs]
            if len(set(boots)) != len(boots):
                yield Violation(_NAME, runs[-1].at_s, f"{where} ran {len(runs)} times, in starts {boots} of the server")
        if call.ended_s is None:
            yield Violation(_NAME, call.began_s, f"{where} never ended")
        elif call.error is not None:
            yield from _failure(history, call, where)
        elif call.work in _RUNS and call.entry not in [run.entry for run in runs]:
            entries = ", ".join(str(run.entry) for run in runs) or "none"
            yield Violation(_NAME, call.ended_s, f"{where} got the reply of entry {call.entry}, its runs are {entries}")


def _failure(history: History, call: CallMade, where: str) -> Iterator[Violation]:
    assert call.ended_s is not None
    early = isinstance(call.error, CallTimeout) and call.ended_s - call.began_s < call.timeout_s - _TICK_S
    if early:
        yield Violation(_NAME, call.ended_s, f"{where} timed out {call.ended_s - call.began_s:.6f} s after it was made")
    elif call.error is not None and not history.explains(call, call.error):
        yield Violation(_NAME, call.ended_s, f"{where} failed and no fault explains it: {call.error!r}")


def check_notices(history: History) -> Iterator[Violation]:
    """Yields a violation for each contradiction between the servers' calls to clients and the runs of their handlers.

    The calls are `history.notices`. A call must end, unless a crash of its server explains that it does not. A call
    that failed needs a fault that explains the failure, and a call that timed out must have lasted its time limit. The
    reply to a call that succeeded must name a run of its handler, and no handler may run twice for one call.
    """
    for call in history.notices:
        where = f"server {call.server}, notice {call.number} to client {call.client}"
        runs = history.notice_runs.get((call.client, call.server, call.number), [])
        if len(runs) > 1:
            yield Violation(_NAME, call.began_s, f"{where} ran {len(runs)} times")
        if call.ended_s is None:
            # The server that made it may have crashed.
            if not history.explains(call, OSError()):
                yield Violation(_NAME, call.began_s, f"{where} never ended")
        elif call.error is not None:
            yield from _failure(history, call, where)
        elif call.entry not in runs:
            yield Violation(_NAME, call.ended_s, f"{where} got the reply {call.entry}, its runs are {runs}")
