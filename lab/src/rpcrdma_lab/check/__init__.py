"""Checks of foreign servers and clients of RPC-over-RDMA, the statements behind them, and their verdicts."""

from __future__ import annotations

from rpcrdma_lab.check.abilities import Abilities
from rpcrdma_lab.check.catalogue import CATALOGUE, CLIENT_CATALOGUE
from rpcrdma_lab.check.entry import Check, chosen
from rpcrdma_lab.check.listening import ClientTrial, TrialOptions, listening
from rpcrdma_lab.check.readings import READINGS, Reading
from rpcrdma_lab.check.runner import (
    ANSWER_S,
    FRESH_FILES,
    recalled_delegations,
    run_checks,
    spoken_versions,
)
from rpcrdma_lab.check.statements import STATEMENTS, Statement
from rpcrdma_lab.check.verdicts import Result, Verdict, void_verdicts

__all__ = [
    "ANSWER_S",
    "CATALOGUE",
    "CLIENT_CATALOGUE",
    "FRESH_FILES",
    "READINGS",
    "STATEMENTS",
    "Abilities",
    "Check",
    "ClientTrial",
    "Reading",
    "Result",
    "Statement",
    "TrialOptions",
    "Verdict",
    "chosen",
    "listening",
    "recalled_delegations",
    "run_checks",
    "spoken_versions",
    "void_verdicts",
]
