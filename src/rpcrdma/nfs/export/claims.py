"""Claims on open files, which every version of NFS obeys: share reservations and byte-range locks.

A file is named as `exports.Exports.file_of` names it, since it has a handle for each export. A claim has a holder, an
object of the version that made the claim, such as an open of version 4.1; holders are compared by identity. Share
reservations are those of RFC 8881 section 9.7: each holder has bits of access for itself, and denies bits to others.
Byte-range locks are those of POSIX: ranges of one holder never conflict with each other, replace each other where they
overlap, and split where a part is unlocked.

`Claims.lock` is the one lock of a server's state. It is never held during a call to the file system. Methods whose
docstring does not say otherwise want it to be held.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar

__all__ = ["READ", "WRITE", "Claims", "HeldRange", "Range", "change_ranges"]

S = TypeVar("S", bound=Hashable)
L = TypeVar("L", bound=Hashable)

READ: Final = 1
"""Bit of a share reservation: reading (OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_READ)."""
WRITE: Final = 2
"""Bit of a share reservation: writing."""
_START, _END = attrgetter("start"), attrgetter("end")


class Range(NamedTuple):
    """Octets from `start` to before `end`, at most 2**64; exclusive: a write lock."""

    start: int
    end: int
    exclusive: bool


class HeldRange(NamedTuple, Generic[L]):
    """A range with its holder."""

    holder: L
    range: Range


def change_ranges(ranges: list[Range], start: int, end: int, exclusive: bool | None) -> None:
    """Locks, or unlocks if `exclusive` is None, the octets from `start` to before `end` in the ranges of one holder.

    `ranges` is in order, and no two of its ranges overlap; nor do they touch each other if they are of one kind.
    """
    first = bisect_left(ranges, start, key=_END)
    last = bisect_right(ranges, end, key=_START)
    changed = []
    left, right = start, end
    for each in ranges[first:last]:
        if each.start < start:
            if each.exclusive is exclusive:
                left = each.start
            else:
                changed.append(each._replace(end=min(each.end, start)))
        if each.end > end and each.exclusive is exclusive:
            right = each.end
    if exclusive is not None:
        changed.append(Range(left, right, exclusive))
    changed += [
        each._replace(start=max(each.start, end))
        for each in ranges[first:last]
        if each.end > end and each.exclusive is not exclusive
    ]
    ranges[first:last] = changed


def _overlapping(held: Iterable[list[Range]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges, without their kind, that have octets from `start` to before `end`."""
    for ranges in held:
        for number in range(bisect_right(ranges, start, key=_END), bisect_left(ranges, end, key=_START)):
            yield ranges[number][:2]


def _nothing() -> None:
    """Wakes nobody."""


class _File(Generic[S, L]):
    """The claims on one file."""

    __slots__ = ("counts", "delegates", "ranges", "shares")

    def __init__(self) -> None:
        self.shares: dict[S, tuple[int, int]] = {}
        """Bits of access and bits that are denied to others, by holder."""
        self.counts = [0, 0, 0, 0]
        """Holders with access for reading and writing, and those that deny reading and writing."""
        self.ranges: dict[L, list[Range]] = {}
        self.delegates: dict[S, None] | None = None
        """Holders of delegations; None: there has been none."""

    def count(self, access: int, deny: int, change: int) -> None:
        """Adds `change` to the number of holders with each of these bits of access and deny."""
        bits = access | deny << 2
        for place in range(4):
            if bits >> place & 1:
                self.counts[place] += change

    def conflicts(self, access: int, deny: int) -> bool:
        """Returns whether any holder denies a bit of `access`, or has access by a bit of `deny`."""
        bits = deny | access << 2
        return any(bits >> place & 1 and self.counts[place] for place in range(4))


class Claims(Generic[S, L]):
    """The claims on the files of a server: holders of share reservations are an `S`, those of ranges an `L`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.denials = 0
        """Holders that deny something to others; a reader needs no lock."""
        self.in_the_way: set[S] = set()
        """Holders in the way of callers without state, for the owner of the state to look at."""
        self.wake: Callable[[], object] = _nothing
        """Tells the owner of the state that there are new holders in `in_the_way`."""
        self.delegations = 0
        """Delegations of all files; a reader needs no lock."""
        self.range_count = 0
        """Ranges of all holders."""
        self.in_grace = False
        """Whether holders of an earlier run of the server may claim again, and nobody else may; needs no lock."""
        self._files: dict[bytes, _File[S, L]] = {}

    def __len__(self) -> int:
        """Files with a claim."""
        return len(self._files)

    # Share reservations

    def share_conflicts(self, file: bytes, holder: S | None, access: int, deny: int) -> list[S]:
        """Returns the holders that deny a bit of `access`, or have access by a bit of `deny`.

        `holder` itself does not count; None: every holder does.
        """
        claims = self._files.get(file)
        if claims is None or not claims.conflicts(access, deny):
            return []
        return [
            other
            for other, (its_access, its_deny) in claims.shares.items()
            if other is not holder and (its_deny & access or its_access & deny)
        ]

    def share(self, file: bytes, holder: S, access: int, deny: int) -> None:
        """Sets the share reservation of a holder, in the place of the one it has."""
        claims = self._files.setdefault(file, _File())
        self._count(claims, holder, -1)
        claims.shares[holder] = access, deny
        self._count(claims, holder, 1)

    def unshare(self, file: bytes, holder: S) -> None:
        """Drops the share reservation of a holder; no effect if it has none."""
        claims = self._files.get(file)
        if claims is not None:
            self._count(claims, holder, -1)
            claims.shares.pop(holder, None)
            self.in_the_way.discard(holder)
            self._drop_empty(file, claims)

    def sharers(self, file: bytes) -> Iterable[tuple[S, int]]:
        """Returns all holders of share reservations on a file, with their bits of access."""
        claims = self._files.get(file)
        return () if claims is None else [(holder, access) for holder, (access, _) in claims.shares.items()]

    def denies_io(self, file: bytes, access: int) -> bool:
        """Returns whether a holder denies `access`, READ or WRITE, to callers without an open; takes the lock."""
        if not self.denials:
            return False
        with self.lock:
            found = self.share_conflicts(file, None, access, 0)
            self.in_the_way.update(found)
            return bool(found)

    def _count(self, claims: _File[S, L], holder: S, change: int) -> None:
        access, deny = claims.shares.get(holder, (0, 0))
        claims.count(access, deny, change)
        if deny:
            self.denials += change

    # Delegations

    def delegate(self, file: bytes, holder: S) -> None:
        """Enters a delegation: its holder is to be asked before the file changes."""
        claims = self._files.setdefault(file, _File())
        if claims.delegates is None:
            claims.delegates = {}
        claims.delegates[holder] = None
        self.delegations += 1

    def undelegate(self, file: bytes, holder: S) -> None:
        """Drops a delegation; no effect if there is none."""
        claims = self._files.get(file)
        if claims is not None and claims.delegates is not None and holder in claims.delegates:
            del claims.delegates[holder]
            self.delegations -= 1
            self.in_the_way.discard(holder)
            self._drop_empty(file, claims)

    def delegates(self, file: bytes) -> list[S]:
        """Returns the holders of delegations of a file."""
        claims = self._files.get(file)
        return [] if claims is None else list(claims.delegates or ())

    def waits_for_delegates(self, file: bytes) -> bool:
        """Returns whether a change by a caller without state has to wait for delegations; takes the lock itself.

        Their holders are found in `in_the_way`, and recalled from there.
        """
        if not self.delegations:
            return False
        with self.lock:
            found = self.delegates(file)
            self.in_the_way.update(found)
        if found:
            self.wake()
        return bool(found)

    # Byte-range locks

    def range_conflicts(self, file: bytes, holder: L | None, wanted: Range) -> Iterator[HeldRange[L]]:
        """Yields the first range of each other holder that is in conflict with a range.

        `holder` None: every holder counts. The claims must not change meanwhile.
        """
        claims = self._files.get(file)
        for other, ranges in () if claims is None else claims.ranges.items():
            if other is holder:
                continue
            for number in range(bisect_right(ranges, wanted.start, key=_END), len(ranges)):
                each = ranges[number]
                if each.start >= wanted.end:
                    break
                if each.exclusive or wanted.exclusive:
                    yield HeldRange(other, each)
                    break

    def ranges(self, file: bytes, holder: L) -> list[Range]:
        """Returns the ranges of a holder in order; the list is not to be changed."""
        claims = self._files.get(file)
        return [] if claims is None else claims.ranges.get(holder, [])

    def splits(self, file: bytes, holder: L, start: int, end: int) -> bool:
        """Returns whether a range of a holder becomes two if the octets from `start` to before `end` are unlocked."""
        ranges = self.ranges(file, holder)
        number = bisect_right(ranges, start, key=_END)
        return number < len(ranges) and ranges[number].start < start and end < ranges[number].end

    def range_holders(self, file: bytes) -> int:
        """Returns the number of holders of ranges of a file."""
        claims = self._files.get(file)
        return 0 if claims is None else len(claims.ranges)

    def change_range(self, file: bytes, holder: L, start: int, end: int, exclusive: bool | None) -> None:
        """Locks, or unlocks if `exclusive` is None, the octets from `start` to before `end`; looks for no conflicts."""
        claims = self._files.setdefault(file, _File())
        ranges = claims.ranges.setdefault(holder, [])
        self.range_count -= len(ranges)
        change_ranges(ranges, start, end, exclusive)
        self.range_count += len(ranges)
        if not ranges:
            del claims.ranges[holder]
            self._drop_empty(file, claims)

    def unlocked(self, file: bytes, start: int, end: int) -> list[tuple[int, int]]:
        """Returns the parts (start, end) of a range that no holder has locked, in order."""
        claims = self._files.get(file)
        held = [] if claims is None else sorted(_overlapping(claims.ranges.values(), start, end))
        found = []
        for left, right in held:
            if start < left and start < end:
                found.append((start, min(left, end)))
            start = max(start, right)
        return [*found, (start, end)] if start < end else found

    def _drop_empty(self, file: bytes, claims: _File[S, L]) -> None:
        if not claims.shares and not claims.ranges and not claims.delegates:
            del self._files[file]
