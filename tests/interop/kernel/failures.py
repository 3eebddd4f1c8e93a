"""What goes wrong around the guests, as opposed to in them."""

from __future__ import annotations

__all__ = ["CheckFailed", "GuestDied", "JobTimeout", "Missing"]


class Missing(Exception):
    """This machine lacks something; the message says what, and what to do about it."""


class GuestDied(Exception):
    """A guest did not boot, or ended while it was needed; the message holds the end of its console."""


class JobTimeout(Exception):
    """A job in a guest took longer than it may."""


class CheckFailed(Exception):
    """A check found what it was looking for."""
