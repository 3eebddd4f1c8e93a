"""The groups of users by this machine's user database, in place of the 16 that AUTH_SYS carries."""

from __future__ import annotations

import errno
import os
import pwd
import threading
import time
from collections.abc import Callable
from typing import Final

from rpcrdma.nfs.export.export_limits import NFS_CALLERS_MAX
from rpcrdma.nfs.export.tree import Refused

__all__ = ["LOOKUPS_MAX", "UNKNOWN_S", "VALID_S", "UserGroups"]

VALID_S: Final = 1800.0
"""Seconds for which the groups of a user are used: as long as mountd of Linux uses them."""
UNKNOWN_S: Final = 60.0
"""Seconds for which a user counts as unknown: a directory service may be out of reach for the moment."""
LOOKUPS_MAX: Final = 2
"""Look-ups at a time, each in a worker thread: a directory service that hangs blocks no more threads than these."""
_WAIT_S = 0.5
"""Seconds for which a call waits for its turn among these look-ups; then it is refused with EAGAIN."""


class UserGroups:
    """Looks up and caches the supplementary groups of users in this machine's user database. Thread-safe.

    Args:
        clock: returns a time in seconds that never decreases.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.known: dict[int, tuple[int, ...]] = {}
        """The supplementary groups by UID of users that were looked up; `drop_old` removes those that are too old."""
        self._clock = clock
        self._until_s: dict[int, float] = {}
        self._guard = threading.Lock()
        self._turns = threading.BoundedSemaphore(LOOKUPS_MAX)

    def of(self, uid: int, *, at_once: bool) -> tuple[int, ...] | None:
        """Returns the GIDs of the groups of the user `uid`, the primary group included; () for an unknown user.

        With `at_once` never blocks, and returns None if the groups are not cached. Otherwise looks them up then, which
        may block, and raises Refused (EAGAIN) if `LOOKUPS_MAX` other look-ups are still running after a wait of half a
        second.
        """
        groups = self.known.get(uid)
        return self.find(uid) if groups is None and not at_once else groups

    def find(self, uid: int) -> tuple[int, ...]:
        """Returns the GIDs of the groups of the user `uid`, from the cache or the user database; may block.

        They include the primary group, and are () for an unknown user. The result is cached, and used until `drop_old`
        removes it, however old. Raises Refused (EAGAIN) if `LOOKUPS_MAX` other look-ups are still running after a wait
        of half a second.
        """
        if not self._turns.acquire(timeout=_WAIT_S):
            raise Refused(errno.EAGAIN)
        try:
            known = self.known.get(uid)
            if known is not None:
                return known
            groups, valid_s = _groups_of(uid)
        finally:
            self._turns.release()
        with self._guard:
            while len(self.known) >= NFS_CALLERS_MAX:
                # A host may claim any UIDs: those of nobody do not displace users, who would be looked up again.
                nobody = (each for each, found in self.known.items() if not found)
                self._forget(next(nobody, next(iter(self.known))))
            self.known[uid] = groups
            self._until_s[uid] = self._clock() + valid_s
        return groups

    def drop_old(self) -> bool:
        """Drops cached groups that are too old, and returns whether there were any.

        Those of a known user are too old after `VALID_S` seconds, () of an unknown user after `UNKNOWN_S`.
        """
        now_s = self._clock()
        with self._guard:
            old = [uid for uid, until_s in self._until_s.items() if until_s <= now_s]
            for uid in old:
                self._forget(uid)
        return bool(old)

    def _forget(self, uid: int) -> None:
        del self.known[uid], self._until_s[uid]


def _groups_of(uid: int) -> tuple[tuple[int, ...], float]:
    """Returns (GIDs of the groups of the user `uid`, () for an unknown user; seconds for which they are valid)."""
    try:
        account = pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        # Also where a directory service is out of reach for the moment.
        return (), UNKNOWN_S
    return tuple(sorted(set(os.getgrouplist(account.pw_name, account.pw_gid)))), VALID_S
