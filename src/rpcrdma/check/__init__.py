"""Checks of foreign servers of RPC-over-RDMA, the statements behind them, and their verdicts."""

from __future__ import annotations

from rpcrdma.check.catalogue import CATALOGUE
from rpcrdma.check.entry import Check
from rpcrdma.check.readings import READINGS, Reading
from rpcrdma.check.runner import run_checks, spoken_versions
from rpcrdma.check.statements import STATEMENTS, Statement
from rpcrdma.check.verdicts import Result, Verdict

__all__ = [
    "CATALOGUE",
    "READINGS",
    "STATEMENTS",
    "Check",
    "Reading",
    "Result",
    "Statement",
    "Verdict",
    "run_checks",
    "spoken_versions",
]
