"""Checks of both drafts of version 2."""

from __future__ import annotations

from rpcrdma.check.entry import Check

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = ()
"""Checks of version 2."""
