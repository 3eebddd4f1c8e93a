"""The settings of connections over an RDMA device."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["VerbsConfig"]

_BUSY_POLL_MAX_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbsConfig:
    """The settings of one end.

    Raises:
        ValueError: a setting is out of its range.
    """

    busy_poll_s: float = 0.0
    """How long the event loop goes on looking for completions, in place of sleeping until the device reports them: from
    the last Send or the last completion on, 0 to 1 s. It saves the device's interrupt and the wake-up of the process,
    and takes one processor meanwhile. Other connections of the loop get their turns."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.busy_poll_s <= _BUSY_POLL_MAX_S:
            raise ValueError(f"busy_poll_s is {self.busy_poll_s}, but it must be from 0 to {_BUSY_POLL_MAX_S:g}")
