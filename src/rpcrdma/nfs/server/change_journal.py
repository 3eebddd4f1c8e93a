"""The changes of one subscription that its client has not acknowledged: numbered, bounded, and without repeats.

Changes beyond the bounds are replaced by one entry, WATCH_RESCAN, which is numbered, sent and acknowledged like any
change. So a client that sees no gap in the numbers has every change, or knows that it missed some.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from rpcrdma.limits import NFS_WATCH_CHANGES_MAX, NFS_WATCH_CHANGES_OCTETS_MAX
from rpcrdma.nfs.watch import WATCH_MAXCHANGES, WATCH_PATHLEN, watch_change, watch_kind, watch_status

__all__ = ["ChangeJournal", "Numbered", "change_octets", "ended", "rescan"]

_CHANGE_OCTETS = 4 + 4 + 4 + 4 + 4
"""A change without its paths: kind, is_directory, two lengths, status."""
_REPEATABLE = {watch_kind.WATCH_CHANGED, watch_kind.WATCH_ATTRIBUTES}


def change_octets(change: watch_change) -> int:
    """Returns the octets that a change takes in a batch."""
    return _CHANGE_OCTETS + _padded(change.path) + _padded(change.target)


def rescan() -> watch_change:
    """Returns the entry that stands for changes that cannot be sent."""
    return watch_change(watch_kind.WATCH_RESCAN, is_directory=True, path="", target="", status=watch_status.WATCH_OK)


def ended(status: watch_status) -> watch_change:
    """Returns the last entry of a subscription that the server ends; `status` is the reason."""
    return watch_change(watch_kind.WATCH_ENDED, is_directory=True, path="", target="", status=status)


@dataclass(frozen=True, slots=True)
class Numbered:
    """Changes in a row, the first of them with the number `first`."""

    first: int
    changes: list[watch_change]


class ChangeJournal:
    """Not thread-safe. `acknowledged`: the number before that of the first change."""

    __slots__ = (
        "_before",
        "_changes",
        "_entries_max",
        "_octets",
        "_octets_max",
        "_sent",
        "_untold",
        "acknowledged",
        "over",
    )

    def __init__(
        self,
        acknowledged: int = 0,
        *,
        entries_max: int = NFS_WATCH_CHANGES_MAX,
        octets_max: int = NFS_WATCH_CHANGES_OCTETS_MAX,
    ) -> None:
        self.acknowledged = acknowledged
        """The number of the last change that the client has acknowledged."""
        # Number of the change before the first that waits; above the acknowledged number where changes were dropped.
        self._before = acknowledged
        self._changes: deque[watch_change] = deque()
        self._entries_max = entries_max
        self._octets_max = octets_max
        self._octets = 0
        self._sent = 0
        # For each path, the kinds of its unsent entries: a repetition of one of these kinds need not be sent.
        self._untold: dict[str, set[watch_kind]] = {}
        self.over = False
        """Whether the last entry is WATCH_ENDED: nothing comes after it."""

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def first(self) -> int:
        """The number of the change that is sent next."""
        return self._before + 1

    @property
    def begins_with_rescan(self) -> bool:
        """Whether that change is WATCH_RESCAN."""
        return bool(self._changes) and self._changes[0].kind is watch_kind.WATCH_RESCAN

    @property
    def next(self) -> int:
        """The number of the next change to be added."""
        return self._before + len(self._changes) + 1

    def add(self, change: watch_change) -> None:
        """Adds a change, unless an unsent entry already covers it."""
        if self.over or self._is_covered(change):
            return
        octets = change_octets(change)
        too_long = max(_padded(change.path), _padded(change.target)) > WATCH_PATHLEN
        if too_long or len(self._changes) >= self._entries_max or self._octets + octets > self._octets_max:
            self.lose()
        else:
            self._append(change)

    def lose(self) -> None:
        """Replaces all changes that wait, and one that cannot be sent, by one rescan."""
        if not self.over and not self._ends_in_untold_rescan():
            self._restart()
            self._append(rescan())

    def end(self, status: watch_status) -> None:
        """Adds the last entry, which gives the reason."""
        if not self.over:
            self._append(ended(status))
            self.over = True

    def acknowledge(self, number: int) -> None:
        """Drops the changes up to `number`, which the client has received.

        Raises:
            ValueError: `number` was not sent yet, or a higher one was acknowledged before.
        """
        if not self.acknowledged <= number <= self._before + self._sent:
            raise ValueError(f"{number} is not from {self.acknowledged} to {self._before + self._sent}")
        self.acknowledged = number
        while self._before < number:
            self._octets -= change_octets(self._changes.popleft())
            self._before += 1
            self._sent -= 1

    def batch(self, octets_max: int, count_max: int = WATCH_MAXCHANGES) -> Numbered | None:
        """Returns the changes to send next, in at most `octets_max` octets; None if all are acknowledged.

        It returns them again, perhaps with more, until they are acknowledged. A change that alone is too large for a
        batch becomes a rescan.
        """
        if not self._changes:
            return None
        if change_octets(self._changes[0]) > octets_max:
            over = self._changes[-1] if self.over else None
            self._restart()
            self._append(rescan())
            if over is not None:
                self._append(over)
        changes: list[watch_change] = []
        for change in self._changes:
            octets_max -= change_octets(change)
            if octets_max < 0 or len(changes) == count_max:
                break
            changes.append(change)
        if len(changes) > self._sent:
            self._sent = len(changes)
            # The client may already have read these entries, so they do not cover a later change.
            self._untold.clear()
        return Numbered(self._before + 1, changes)

    def _restart(self) -> None:
        """Drops the waiting changes; their numbers are not used again."""
        self._before += len(self._changes)
        self._changes.clear()
        self._octets = 0
        self._sent = 0
        self._untold.clear()

    def _append(self, change: watch_change) -> None:
        self._changes.append(change)
        self._octets += change_octets(change)
        kind = change.kind
        if kind in {watch_kind.WATCH_RENAMED, watch_kind.WATCH_RESCAN} or (
            kind is watch_kind.WATCH_REMOVED and change.is_directory
        ):
            # From here on a path may name another object, which earlier entries do not cover.
            self._untold.clear()
        elif kind is watch_kind.WATCH_REMOVED:
            self._untold.pop(change.path, None)
        else:
            self._untold.setdefault(change.path, set()).add(kind)

    def _ends_in_untold_rescan(self) -> bool:
        last = self._changes[-1] if self._changes else None
        return last is not None and last.kind is watch_kind.WATCH_RESCAN and self._sent < len(self._changes)

    def _is_covered(self, change: watch_change) -> bool:
        if self._ends_in_untold_rescan():
            return True
        if change.kind not in _REPEATABLE:
            return False
        said = self._untold.get(change.path, ())
        # A client that reads a created object also sees the changes made since.
        return change.kind in said or watch_kind.WATCH_CREATED in said


def _padded(text: str) -> int:
    return (len(text.encode("utf-8", "surrogateescape")) + 3) & ~3
