"""The kernel's events about watched directories, and the pairs of events that are one renaming."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["DirectoryEvent", "Happening", "Renaming", "has_open_renaming", "paired"]


class Happening(enum.Enum):
    """The kind of an event of an entry of a watched directory, or of the directory itself."""

    CREATED = "created"
    REMOVED = "removed"
    MOVED_FROM = "moved from"
    MOVED_TO = "moved to"
    CHANGED = "changed"
    ATTRIBUTES = "attributes"
    GONE = "gone"
    """The watched directory itself was deleted or unmounted; its watch has ended."""
    OVERFLOW = "overflow"
    """Events were lost, perhaps of every watched directory."""


class DirectoryEvent(NamedTuple):
    """`watch`: the number of the directory's watch; `cookie` connects the two halves of a renaming.

    `name` is None where the directory itself is meant.
    """

    watch: int
    happening: Happening
    name: str | None = None
    is_directory: bool = False
    cookie: int = 0


class Renaming(NamedTuple):
    """An entry that has moved within or between watched directories."""

    source: DirectoryEvent
    target: DirectoryEvent


def paired(events: Sequence[DirectoryEvent]) -> Iterable[DirectoryEvent | Renaming]:
    """Yields the events in order, with both halves of a renaming as one `Renaming` where the first of them stands.

    Other events may stand between the halves. A half whose other directory is not watched stays alone.
    """
    arrivals = {event.cookie: event for event in events if event.happening is Happening.MOVED_TO}
    left: set[int] = set()
    for event in events:
        if event.happening is Happening.MOVED_FROM and (arrival := arrivals.get(event.cookie)) is not None:
            left.add(event.cookie)
            yield Renaming(event, arrival)
        elif event.happening is not Happening.MOVED_TO or event.cookie not in left:
            yield event


def has_open_renaming(events: Sequence[DirectoryEvent]) -> bool:
    """Returns whether any MOVED_FROM among `events` has no MOVED_TO there.

    The other half may come with the next events.
    """
    arrived = {event.cookie for event in events if event.happening is Happening.MOVED_TO}
    return any(event.happening is Happening.MOVED_FROM and event.cookie not in arrived for event in events)
