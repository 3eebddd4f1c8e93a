"""Claims on open files, which every version of NFS obeys: share reservations, byte-range locks and delegations.

A claim has a holder, an object of the version that made the claim, such as an open of version 4.1. Share reservations
are those of RFC 8881 section 9.7: each holder has bits of access for itself, and denies bits to others. Byte-range
locks are those of POSIX: ranges of one holder never conflict with each other, replace each other where they overlap,
and split where a part is unlocked.

`Claims.lock` is the one lock of a server's state, and is never held during a call to the file system.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

__all__ = ["READ", "WRITE", "Claims", "HeldRange", "Range", "change_ranges"]

S = TypeVar("S", bound=Hashable)
L = TypeVar("L", bound=Hashable)

READ: Final = 1
"""The bit for reading in a share reservation (OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_READ)."""
WRITE: Final = 2
"""The bit for writing in a share reservation (OPEN4_SHARE_ACCESS_WRITE, OPEN4_SHARE_DENY_WRITE)."""
_START, _END = attrgetter("start"), attrgetter("end")


class Range(NamedTuple):
    """A byte-range lock on the octets from `start` to before `end`, which is at most 2**64.

    `exclusive`: whether it is a write lock; else it is a read lock.
    """

    start: int
    end: int
    exclusive: bool


class HeldRange(NamedTuple, Generic[L]):
    """A byte-range lock with the lock owner that holds it."""

    holder: L
    range: Range


def change_ranges(ranges: list[Range], start: int, end: int, exclusive: bool | None) -> None:
    """Locks the octets from `start` to before `end` for one holder, or unlocks them if `exclusive` is None.

    `ranges`, the holder's locks, is changed in place: overlapping ranges are replaced, split or merged. Before and
    after the call the list is sorted, its ranges do not overlap, and two write locks, or two read locks, do not touch.
    `exclusive` True: a write lock; False: a read lock.
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


class _File(Generic[S, L]):
    """The share reservations, byte-range locks and delegations on one file; `Claims` makes it for the first claim."""

    __slots__ = ("counts", "delegates", "ranges", "shares")

    def __init__(self) -> None:
        self.shares: dict[S, int] = {}
        """By holder, the bits (READ, WRITE) of its access and, two places higher, those that it denies to others."""
        self.counts = [0, 0, 0, 0]
        """The number of holders with each of the four bits in `shares`."""
        self.ranges: dict[L, list[Range]] = {}
        """The sorted byte-range locks, by holder."""
        self.delegates: dict[S, None] | None = None
        """Holders of delegations; None: there has been none."""

    def count(self, bits: int, change: int) -> None:
        """Adds `change` (1 or -1) to the number in `counts` for each bit that is set in `bits`.

        The bits are READ and WRITE for the access that a holder has, and READ << 2 and WRITE << 2 for what it denies
        to others.
        """
        for place in range(4):
            if bits >> place & 1:
                self.counts[place] += change

    def has_any(self, bits: int) -> bool:
        """Returns whether any holder has one of the `bits`: READ and WRITE (access), and these two << 2 (denied)."""
        return any(bits >> place & 1 and self.counts[place] for place in range(4))


_EMPTY: Final[_File[Any, Any]] = _File()
"""Stands for each file without claims; nothing is ever added to it."""


class Claims(Generic[S, L]):
    """The share reservations, byte-range locks and delegations on all files of a server, of every version of NFS.

    Holders of share reservations and delegations are of type `S`, holders of ranges of type `L`, and both are compared
    by identity. A file, which has a handle in each export, is named by its one key of `exports.Exports.file_of`. The
    caller holds `lock`, unless a docstring says otherwise. `in_the_way` is the set of holders that keep calls without
    an open, such as those of NFSv3, from a file; the NFSv4 server recalls or expires these, and empties the set.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.denials = 0
        """The number of share reservations that deny something; may be read without the lock."""
        self.in_the_way: set[S] = set()
        """Holders that conflict with calls of versions without open state, such as NFSv3. The owner of the state
        recalls or expires them, and empties the set."""
        self.wake: Callable[[Collection[S]], object] = lambda _holders: None
        """Is called, without `lock`, with holders of delegations that have been put into `in_the_way`; the owner of the
        state sets it."""
        self.end_soon: Callable[[Iterable[S]], bool] = lambda _holders: False
        """Returns whether all of these holders have ended or end soon, since nobody renews their clients' leases; takes
        the lock. The owner of the state sets it."""
        self.delegations = 0
        """The number of delegations on all files; may be read without the lock."""
        self._changing: Counter[bytes] = Counter()
        """The numbers of running changes of files by calls that have no open for writing, by the keys of the files."""
        self.range_count = 0
        """The number of byte-range locks of all holders."""
        self.in_grace = False
        """Whether the server is in its grace period (RFC 8881 section 8.4.2), when only earlier holders may reclaim;
        may be read without the lock."""
        self._files: dict[bytes, _File[S, L]] = {}

    def __len__(self) -> int:
        """Returns the number of files with a share reservation, byte-range lock or delegation."""
        return len(self._files)

    # Share reservations

    def share_conflicts(self, file: bytes, holder: S | None, access: int, deny: int) -> list[S]:
        """Returns the holders of share reservations on `file` that deny a bit of `access` or have a bit of `deny`.

        `access` and `deny` are sums of READ and WRITE. `holder`, the open that asks, is left out; None: all count.
        """
        claims = self._files.get(file, _EMPTY)
        conflicting = deny | access << 2
        if not claims.has_any(conflicting):
            return []
        return [other for other, bits in claims.shares.items() if other is not holder and bits & conflicting]

    def share(self, file: bytes, holder: S, access: int, deny: int) -> None:
        """Sets the share reservation of a holder on a file, in place of its earlier one; does not look for conflicts.

        `access` and `deny` are sums of READ and WRITE. `holder` may be any object that can be hashed, such as an open.
        """
        claims = self._files.setdefault(file, _File())
        self._count(claims, holder, -1)
        claims.shares[holder] = access | deny << 2
        self._count(claims, holder, 1)

    def unshare(self, file: bytes, holder: S) -> None:
        """Drops the share reservation of `holder` on `file`, if any, and takes `holder` out of `in_the_way`."""
        claims = self._files.get(file)
        if claims is not None:
            self._count(claims, holder, -1)
            claims.shares.pop(holder, None)
            self.in_the_way.discard(holder)
            self._drop_empty(file, claims)

    def sharers(self, file: bytes) -> Iterable[tuple[S, int]]:
        """Returns a copy: (holder, the sum of READ and WRITE that it has) for each share reservation on `file`."""
        return [(holder, bits & 3) for holder, bits in self._files.get(file, _EMPTY).shares.items()]

    def share_count(self, file: bytes) -> int:
        """Returns the number of share reservations on `file`; the caller need not hold `lock`."""
        return len(self._files.get(file, _EMPTY).shares)

    def deniers(self, file: bytes, access: int) -> list[S]:
        """Returns the holders of share reservations that deny `access`, READ or WRITE, to a call without an open.

        Adds these holders to `in_the_way`: the NFSv4 server looks there every few seconds, and ends those of clients
        whose leases have passed. The caller must not hold `lock`, which the method takes.
        """
        if not self.denials:
            return []
        with self.lock:
            found = self.share_conflicts(file, None, access, 0)
            self.in_the_way.update(found)
            return found

    def _count(self, claims: _File[S, L], holder: S, change: int) -> None:
        bits = claims.shares.get(holder, 0)
        claims.count(bits, change)
        if bits >> 2:
            self.denials += change

    # Delegations

    def delegate(self, file: bytes, holder: S) -> None:
        """Records that `holder`, which must have none there yet, has a delegation of `file`; needs `lock` held."""
        claims = self._files.setdefault(file, _File())
        if claims.delegates is None:
            claims.delegates = {}
        claims.delegates[holder] = None
        self.delegations += 1

    def undelegate(self, file: bytes, holder: S) -> None:
        """Drops the delegation of `file` to `holder`, if any, and then takes `holder` out of `in_the_way`."""
        claims = self._files.get(file)
        if claims is not None and claims.delegates is not None and holder in claims.delegates:
            del claims.delegates[holder]
            self.delegations -= 1
            self.in_the_way.discard(holder)
            self._drop_empty(file, claims)

    def delegates(self, file: bytes) -> list[S]:
        """Returns the holders of delegations of `file`; empty if there are none."""
        return list(self._files.get(file, _EMPTY).delegates or ())

    def may_change(self, files: Collection[bytes]) -> bool:
        """Begins a change of `files` by a call without an open, if no client has a delegation of any; returns whether.

        After True no client is given a delegation of them until `end_change`. Before False adds the holders of
        delegations to `in_the_way`, and calls `wake` with those that were not there, which starts their recalls; the
        caller tries again later. The caller must not hold `lock`, which the method takes.
        """
        with self.lock:
            found = [each for file in files for each in self.delegates(file)] if self.delegations else []
            new = set(found) - self.in_the_way
            self.in_the_way |= new
            if not found:
                self.begin_change(files)
        if new:
            self.wake(new)
        return not found

    def begin_change(self, files: Iterable[bytes]) -> None:
        """Begins a change of `files`: until `end_change`, no client is given a delegation of them; needs `lock` held.

        Does not look for delegations that exist; the caller has checked that no other client has one.
        """
        self._changing.update(files)

    def end_change(self, files: Iterable[bytes]) -> None:
        """Ends a change that `begin_change` or `may_change` began with the same `files`; takes `lock` itself."""
        with self.lock:
            for file in files:
                self._changing[file] -= 1
                if not self._changing[file]:
                    del self._changing[file]

    def is_changing(self, file: bytes) -> bool:
        """Returns whether a change of `file` is running, so that no client may get a delegation; needs `lock` held."""
        return file in self._changing

    # Byte-range locks

    def range_conflicts(self, file: bytes, holder: L | None, wanted: Range) -> Iterator[HeldRange[L]]:
        """Yields each other holder's first range that conflicts with `wanted`: overlaps it, and either is a write lock.

        `holder` is the lock owner that asks; None: all owners count. The caller holds `lock` until the iteration ends.
        """
        for other, ranges in self._files.get(file, _EMPTY).ranges.items():
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
        """Returns the sorted byte-range locks of `holder` on `file`; empty if it has none.

        The list is no copy: callers must not change it.
        """
        return self._files.get(file, _EMPTY).ranges.get(holder, [])

    def splits(self, file: bytes, holder: L, start: int, end: int) -> bool:
        """Returns whether unlocking octets `start` to before `end` splits a lock of `holder` on `file` into two."""
        ranges = self.ranges(file, holder)
        number = bisect_right(ranges, start, key=_END)
        return number < len(ranges) and ranges[number].start < start and end < ranges[number].end

    def range_holders(self, file: bytes) -> Collection[L]:
        """Returns a view of the owners of byte-range locks on `file`, valid while the caller holds `lock`."""
        return self._files.get(file, _EMPTY).ranges.keys()

    def change_range(self, file: bytes, holder: L, start: int, end: int, exclusive: bool | None) -> None:
        """Locks the octets from `start` to before `end` for a lock owner, or unlocks them if `exclusive` is None.

        Does not look for conflicts. `exclusive` True: a write lock; False: a read lock.
        """
        claims = self._files.setdefault(file, _File())
        ranges = claims.ranges.setdefault(holder, [])
        self.range_count -= len(ranges)
        change_ranges(ranges, start, end, exclusive)
        self.range_count += len(ranges)
        if not ranges:
            del claims.ranges[holder]
            self._drop_empty(file, claims)

    def locked(self, file: bytes, start: int, end: int) -> list[Range]:
        """Returns the locks of all owners on octets `start` to before `end` of `file`, each cut to these; unsorted.

        Locks of several owners may be equal. The caller must not hold `lock`, which the method takes.
        """
        found: list[Range] = []
        with self.lock:
            for ranges in self._files.get(file, _EMPTY).ranges.values():
                found += ranges[bisect_right(ranges, start, key=_END) : bisect_left(ranges, end, key=_START)]
        # They may be tens of thousands.
        return [Range(max(each.start, start), min(each.end, end), each.exclusive) for each in found]

    def unlocked(self, file: bytes, start: int, end: int) -> list[tuple[int, int]]:
        """Returns the sorted ranges (start, end) of octets `start` to before `end` of `file` that nobody has locked.

        The caller must not hold `lock`, which the method takes.
        """
        found = []
        for left, right, _ in sorted(self.locked(file, start, end)):
            if start < left and start < end:
                found.append((start, min(left, end)))
            start = max(start, right)
        return [*found, (start, end)] if start < end else found

    def _drop_empty(self, file: bytes, claims: _File[S, L]) -> None:
        if not claims.shares and not claims.ranges and not claims.delegates:
            del self._files[file]
