"""Failures of checks, of guests, and of the machine that runs them."""

from __future__ import annotations

__all__ = ["CheckFailed", "GuestDied", "JobTimeout", "Missing"]


class Missing(Exception):
    """This machine lacks a requirement; the message names it and the remedy."""


class GuestDied(Exception):
    """A guest did not boot, or ended while it was needed; the message holds the end of its console."""


class JobTimeout(Exception):
    """A job in a guest took longer than it may."""


class CheckFailed(Exception):
    """A check has found a fault."""
