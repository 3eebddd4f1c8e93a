"""Registrations of pooled memory with RDMA devices, kept for further calls.

A registration costs a system call that pins each page. Pools lend the same memory again and again, so its registration
is kept, with local rights alone: no peer can use its handle. It refers to the memory only while a call or a work
request uses it. So a pool frees memory as always, and the registration ends with it, before a page is used again.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TypeAlias

from rpcrdma.errors import LocalProtocolError
from rpcrdma.limits import REGISTRATIONS_KEPT_MAX, REGISTRATIONS_KEPT_OCTETS_MAX
from rpcrdma.verbs.binding import Region
from rpcrdma.wire.bulk_memory import PooledMemory

__all__ = ["KeptRegistration", "KeptRegistrations"]

_Key: TypeAlias = tuple[int, int]
"""The identities of a protection domain and of a buffer."""


class KeptRegistration:
    """A registration of a whole buffer that is kept for reuse; `users` counts its present uses.

    The constructor takes the buffer as `memory`; the attribute refers to it while there are users. When the buffer is
    freed, perhaps in another thread, the registration `region` ends, and `on_freed` is called with this object. `key`
    is for the owner.
    """

    __slots__ = ("_reference", "key", "memory", "octets", "region", "users")

    def __init__(
        self, key: _Key, memory: PooledMemory, region: Region, on_freed: Callable[[KeptRegistration], None]
    ) -> None:
        self.key = key
        self.region = region
        self.octets = len(memory)
        self.users = 0
        self.memory: PooledMemory | None = None

        def freed(_reference: object) -> None:
            # Perhaps in another thread: the books are kept later.
            with contextlib.suppress(OSError):
                region.deregister()
            on_freed(self)

        self._reference = weakref.ref(memory, freed)


class KeptRegistrations:
    """The kept registrations of all connections of one provider in one event loop.

    If there are more than `count_max`, or of more than `octets_max` octets, unused ones are ended, the least recently
    used first.
    """

    __slots__ = ("_all", "_count_max", "_freed", "_idle", "_octets_max", "octets")

    def __init__(
        self, *, count_max: int = REGISTRATIONS_KEPT_MAX, octets_max: int = REGISTRATIONS_KEPT_OCTETS_MAX
    ) -> None:
        self._count_max = count_max
        self._octets_max = octets_max
        self._all: dict[_Key, KeptRegistration] = {}
        self._idle: OrderedDict[_Key, KeptRegistration] = OrderedDict()
        self._freed: deque[KeptRegistration] = deque()
        self.octets = 0

    def __len__(self) -> int:
        self._forget_freed()
        return len(self._all)

    def take(
        self, domain: object, memory: PooledMemory, register: Callable[[PooledMemory], Region]
    ) -> KeptRegistration:
        """Returns the registration of a buffer in a protection domain, kept or new; `give_back` ends the use.

        `domain`: the protection domain, compared by identity. `memory`: the buffer. `register`: registers the buffer
        with local rights; called if no registration of the buffer in the domain is kept.

        Raises:
            LocalProtocolError: the length of the buffer has changed, or `register` raised it.
        """
        self._forget_freed()
        key = id(domain), id(memory)
        kept = self._all.get(key)
        if kept is not None and kept.octets != len(memory):
            raise LocalProtocolError(
                f"pooled memory of {kept.octets} octets has {len(memory)} now: its length must not change, so take "
                "another PooledMemory"
            )
        if kept is None:
            kept = KeptRegistration(key, memory, register(memory), self._freed.append)
            self._all[key] = kept
            self.octets += kept.octets
        else:
            self._idle.pop(key, None)
        kept.users += 1
        kept.memory = memory
        self._end_idle(self._count_max, self._octets_max)
        return kept

    def give_back(self, kept: KeptRegistration) -> None:
        """Ends one use of a registration; over `count_max` or `octets_max`, the longest unused ones end then."""
        kept.users -= 1
        if not kept.users:
            if self._all.get(kept.key) is kept:
                self._idle[kept.key] = kept
            # The memory may be freed here, and the registration end with it.
            kept.memory = None
            self._end_idle(self._count_max, self._octets_max)

    def clear(self) -> None:
        """Ends all registrations without uses; called if the device has no room for a further registration."""
        self._end_idle(0, 0)

    def end(self, domain: object) -> None:
        """Ends all registrations of a protection domain, used or not; the domain's queue pair must be gone."""
        for key, kept in list(self._all.items()):
            if key[0] == id(domain):
                self._end(kept)

    def _end_idle(self, count_max: int, octets_max: int) -> None:
        while self._idle and (len(self._all) > count_max or self.octets > octets_max):
            self._end(next(iter(self._idle.values())))

    def _end(self, kept: KeptRegistration) -> None:
        self._forget(kept)
        # A device that has failed may not let go of memory, which no peer can reach.
        with contextlib.suppress(OSError):
            kept.region.deregister()

    def _forget_freed(self) -> None:
        while self._freed:
            self._forget(self._freed.popleft())

    def _forget(self, kept: KeptRegistration) -> None:
        if self._all.get(kept.key) is kept:
            del self._all[kept.key]
            self._idle.pop(kept.key, None)
            self.octets -= kept.octets
