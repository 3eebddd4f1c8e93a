"""The settings of connections over an RDMA device."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["VerbsConfig"]

_BUSY_POLL_MAX_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbsConfig:
    """Settings of connections over an RDMA device, for one end.

    Raises:
        ValueError: a setting is out of its range.
    """

    busy_poll_s: float = 0.0
    """Seconds (0 to 1) after the last Send or completion for which the event loop polls for completions instead of
    sleeping until the device reports them. Polling saves the device's interrupt and the wake-up of the process, and
    occupies one processor meanwhile. Other connections of the loop get their turns."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.busy_poll_s <= _BUSY_POLL_MAX_S:
            raise ValueError(f"busy_poll_s is {self.busy_poll_s}, but it must be from 0 to {_BUSY_POLL_MAX_S:g}")
