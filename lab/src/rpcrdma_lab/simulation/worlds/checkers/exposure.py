"""Checks that memory is invalidated before its caller continues, that none beside it is touched, and none is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from rpcrdma.provider import Access, MemoryRegion
from rpcrdma.testing.virtual import Host, SimulatedProtectionDomain
from rpcrdma_lab.simulation.worlds.history import Violation
from rpcrdma_lab.simulation.worlds.watched_provider import WatchedEnd, Watcher

__all__ = ["ExposureWatcher", "GuardedBuffer", "JudgedDomain"]

_GUARD_OCTETS = 64
_GUARD = bytes(range(100, 100 + _GUARD_OCTETS))
_AFTERWARDS = 0xA5


class GuardedBuffer:
    """A buffer of a caller, `view`, within `memory`, with 64 guard octets before and after it to detect changes.

    `octets` is the length of the buffer.
    """

    def __init__(self, octets: int) -> None:
        self.memory = bytearray(_GUARD_OCTETS + octets + _GUARD_OCTETS)
        self.memory[:_GUARD_OCTETS] = self.memory[_GUARD_OCTETS + octets :] = _GUARD
        self.view = memoryview(self.memory)[_GUARD_OCTETS : _GUARD_OCTETS + octets]
        self._over = False

    def use_again(self) -> None:
        """Overwrites the buffer after its call, as a caller does that uses the memory for something else.

        From now on, `touched` is True also if the buffer itself has changed, not only the octets beside it.
        """
        self._over = True
        self.view[:] = bytes([_AFTERWARDS]) * len(self.view)

    @property
    def touched(self) -> bool:
        """Whether the guard octets have changed, or the buffer since its caller overwrote it by `use_again`."""
        beside = bytes(self.memory[:_GUARD_OCTETS]), bytes(self.memory[len(self.memory) - _GUARD_OCTETS :])
        inside = self._over and self.view.nbytes and bytes(self.view).strip(bytes([_AFTERWARDS]))
        return beside != (_GUARD, _GUARD) or bool(inside)


class Judged(NamedTuple):
    """A registered memory region, on record: the object whose memory it is (`owner`), rights, address and length.

    `offset` is the address of the region's first octet for RDMA accesses, and `octets` its length.
    """

    region: MemoryRegion
    owner: object
    access: Access
    offset: int
    octets: int


class JudgedDomain(SimulatedProtectionDomain):
    """A simulated protection domain that checks each access that it grants against a second record of its regions.

    It is made for the end at the node `host` of the connection number `connection`, and reports violations to
    `watcher`. `node` is the node's name.
    """

    __slots__ = ("_watcher", "exposed", "node")

    def __init__(self, host: Host, connection: int, watcher: ExposureWatcher) -> None:
        super().__init__(host, connection)
        self.node = host.host
        self.exposed: dict[int, Judged] = {}
        """The registered regions by handle."""
        self._watcher = watcher

    def register(self, buffer: object, access: Access) -> MemoryRegion:
        region = super().register(buffer, access)
        self.exposed[region.handle] = Judged(region, region.view.obj, access, region.offset, region.length)
        self._watcher.registered(self, region)
        return region

    def invalidate(self, region: MemoryRegion) -> None:
        super().invalidate(region)
        self._ended(region)

    def abandon(self, region: MemoryRegion) -> None:
        super().abandon(region)
        self._ended(region)

    def invalidate_handle(self, handle: int) -> MemoryRegion | None:
        region = super().invalidate_handle(handle)
        self.exposed.pop(handle, None)
        return region

    def find(self, handle: int, offset: int, length: int, access: Access) -> memoryview:
        found = super().find(handle, offset, length, access)
        known = self.exposed.get(handle)
        if known is None:
            # Late data for an abandoned handle goes to memory of the domain's own.
            allowed = id(found.obj) not in self._watcher.owners
        else:
            start = offset - known.offset
            allowed = bool(access & known.access) and start >= 0 and start + length <= known.octets
        if not allowed:
            self._watcher.tell(f"{self.node} lets its peer touch {length} octets at {offset:#x} of {handle:#010x}")
        return found

    def _ended(self, region: MemoryRegion) -> None:
        known = self.exposed.get(region.handle)
        if known is not None and known.region is region:
            del self.exposed[region.handle]


class ExposureWatcher(Watcher):
    """Reports memory that is exposed too widely or too long, or touched wrongly, in the domains that `domain` makes.

    Args:
        now_s: returns the virtual time in seconds.
        found: is called with each violation.
        regions_max: the largest number of regions that one end of a connection may have registered.
        octets_max: the largest number of octets in these regions.
    """

    def __init__(
        self,
        now_s: Callable[[], float],
        found: Callable[[Violation], None],
        *,
        regions_max: int,
        octets_max: int,
    ) -> None:
        self._now_s = now_s
        self._found = found
        self._regions_max = regions_max
        self._octets_max = octets_max
        self._domains: dict[JudgedDomain, None] = {}
        self._buffers: list[tuple[str, GuardedBuffer]] = []
        self.owners: dict[int, object] = {}
        """The objects whose memory was ever registered, by identity; the references keep it from being used again."""

    def domain(self, host: Host, connection: int) -> JudgedDomain:
        """Returns a new, watched protection domain for one end, at `host`, of the connection with this number."""
        made = JudgedDomain(host, connection, self)
        self._domains[made] = None
        return made

    def registered(self, domain: JudgedDomain, region: MemoryRegion) -> None:
        """Checks, after `domain` has registered `region`, that the domain keeps to `regions_max` and `octets_max`.

        Also checks that `region` neither begins nor ends with the guard octets of a `GuardedBuffer`. Reports
        violations, and adds the object that has the region's memory to `owners`.
        """
        self.owners[id(region.view.obj)] = region.view.obj
        octets = sum(each.octets for each in domain.exposed.values())
        if len(domain.exposed) > self._regions_max or octets > self._octets_max:
            self.tell(f"{domain.node} exposes {len(domain.exposed)} regions of {octets} octets on one connection")
        if region.length >= _GUARD_OCTETS and _GUARD in (region.view[:_GUARD_OCTETS], region.view[-_GUARD_OCTETS:]):
            self.tell(f"{domain.node} exposes memory beside a caller's buffer as {region.handle:#010x}")

    def closed(self, end: WatchedEnd) -> None:
        domain = end.domain
        assert isinstance(domain, JudgedDomain)
        if domain in self._domains:
            del self._domains[domain]
            self._tell_left(domain, "has closed a connection")

    def _tell_left(self, domain: JudgedDomain, when: str) -> None:
        for handle in domain.exposed:
            self.tell(f"{domain.node} {when} and left {handle:#010x} exposed")

    def crashed(self, node: str) -> None:
        """Forgets all domains of the node named `node`, whose memory is lost."""
        for domain in [domain for domain in self._domains if domain.node == node]:
            del self._domains[domain]

    def goes_on(self, node: str, what: str, buffers: Iterable[GuardedBuffer | bytearray]) -> None:
        """Checks, when a caller continues after a call, that no memory of the call is registered; reports violations.

        Then overwrites the guarded buffers, and keeps them: `finish` reports those that have changed by then.

        Args:
            node: the name of the caller's node.
            what: a description of the call.
            buffers: the memory that the caller has passed to the call.
        """
        owners = {id(each.memory if isinstance(each, GuardedBuffer) else each) for each in buffers}
        for domain in self._domains:
            if domain.node == node:
                for handle, exposed in domain.exposed.items():
                    if id(exposed.owner) in owners:
                        self.tell(f"{node} went on after {what} while its memory was exposed as {handle:#010x}")
        for each in buffers:
            if isinstance(each, GuardedBuffer):
                each.use_again()
                self._buffers.append((f"{node}, {what}", each))

    def finish(self) -> None:
        """Reports, at the end of the world, memory that is still exposed, and each guarded buffer that was touched.

        The guarded buffers are those passed to `goes_on`; `GuardedBuffer.touched` judges.
        """
        for domain in self._domains:
            self._tell_left(domain, "has ended its calls")
        for where, buffer in self._buffers:
            if buffer.touched:
                self.tell(f"{where}: memory beside the buffer was touched, or the buffer after its call")

    def tell(self, text: str) -> None:
        """Reports a violation with the description `text` at the current virtual time."""
        self._found(Violation("exposure", self._now_s(), text))
