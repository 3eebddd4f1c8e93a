"""Fuzz targets: the iWARP queue pair, fed by a peer that sends any octets, while its owner works with it.

A case is a script: the frames of the peer, right or wrong, how TCP cuts them, and the work that the owner posts, the
memory it invalidates and the connection it ends in between. The queue pair must never raise to its driver, write only
to memory that is registered or posted at that moment, complete each work request exactly once, and end once.
"""

from __future__ import annotations

import struct

from case_script import Script
from decoder_targets import FuzzTarget, golden
from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole
from rpcrdma.iwarp.config import ReadyFrame
from rpcrdma.testing.endpoint_pair import counted_bits
from rpcrdma.testing.joined_pair import feed
from rpcrdma.verbs import (
    Access,
    Completion,
    ConnectRequested,
    Disconnected,
    Established,
    MemoryRegion,
    SoftwareProtectionDomain,
    Verb,
)
from support.raw_iwarp import fpdu, startup_frame

__all__ = ["IWARP_MACHINES"]

ARENA_OCTETS = 4096
SLOT_OCTETS = 256
HANDLES = (0x1001, 0x1002, 0x1003, 0x1004)
START = 0x10000
POSTS_MAX = 64


class Owner:
    """A queue pair, its memory in one arena of slots with a gap after each, and the state of its work requests."""

    def __init__(self, role: MpaRole, config: IwarpConfig, private_data: bytes = b"") -> None:
        self.pd = SoftwareProtectionDomain(counted_bits(1))
        self.qp = IwarpQueuePair(role, self.pd, config, 512, private_data)
        self.arena = bytearray(b"\xa5" * ARENA_OCTETS)
        self.view = memoryview(self.arena)
        self.writable = bytearray(ARENA_OCTETS)
        """1 for each octet of the arena that the queue pair may write now."""
        self.regions: dict[int, tuple[MemoryRegion, int]] = {}
        self.posted: dict[int, tuple[Verb, bool]] = {}
        self.receives: dict[int, int] = {}
        self.completed: set[int] = set()
        self.established = False
        self.disconnected = False
        self.next_wr = 0
        self.shadow = bytes(self.arena)

    # Memory

    def slot(self, index: int) -> tuple[int, int]:
        return index * 2 * SLOT_OCTETS, (index * 2 + 1) * SLOT_OCTETS

    def set_writable(self, index: int, octet: int) -> None:
        start, end = self.slot(index)
        self.writable[start:end] = bytes([octet]) * (end - start)

    def check_memory(self) -> None:
        """Checks that only writable octets have changed since the last check."""
        if self.arena != self.shadow:
            changed = [at for at in range(ARENA_OCTETS) if self.arena[at] != self.shadow[at]]
            assert all(self.writable[at] for at in changed), f"written at {changed[:4]}"
            self.shadow = bytes(self.arena)

    def register(self, which: int, rights: int) -> None:
        handle = HANDLES[which]
        if handle in self.regions:
            return
        start, end = self.slot(which)
        access = (Access.REMOTE_READ, Access.REMOTE_WRITE, Access.REMOTE_READ | Access.REMOTE_WRITE)[rights % 3]
        region = self.pd.register(self.view[start:end], access)
        del self.pd.regions[region.handle]
        region.handle, region.offset = handle, START
        self.pd.regions[handle] = region
        self.regions[handle] = (region, which)
        self.set_writable(which, int(Access.REMOTE_WRITE in access))

    def withdraw(self, which: int, *, abandon: bool) -> None:
        found = self.regions.pop(HANDLES[which], None)
        if found is not None:
            self.check_memory()
            region, slot = found
            if abandon:
                self.pd.abandon(region)
            self.pd.invalidate(region) if not abandon else None
            self.set_writable(slot, 0)

    # Work

    def post(self, verb: Verb, *, signaled: bool = True) -> int:
        self.next_wr += 1
        self.posted[self.next_wr] = (verb, signaled)
        return self.next_wr

    def post_receive(self) -> None:
        used = set(self.receives.values())
        free = next((index for index in (4, 5, 6, 7) if index not in used), None)
        if free is None:
            return
        start, end = self.slot(free)
        wr = self.post(Verb.RECEIVE)
        self.receives[wr] = free
        self.set_writable(free, 1)
        self.qp.post_receive(wr, self.view[start:end])

    def post_some(self, script: Script) -> None:
        if len(self.posted) - len(self.completed) > POSTS_MAX:
            return
        kind, signaled = script.below(3), bool(script.below(2))
        data = [bytes(script.below(200)), bytes(script.number(2) % 3000)]
        if kind == 0:
            invalidate = 7 if script.below(4) == 0 else None
            self.qp.post_send(self.post(Verb.SEND, signaled=signaled), data, invalidate=invalidate, signaled=signaled)
        elif kind == 1:
            self.qp.post_write(self.post(Verb.RDMA_WRITE, signaled=signaled), data, 7, 0, signaled=signaled)
        else:
            sinks = [region for region, _ in self.regions.values() if Access.REMOTE_WRITE in region.access]
            if sinks:
                self.qp.post_read(self.post(Verb.RDMA_READ), sinks[0], 0, script.below(SLOT_OCTETS + 1), 7, 0)

    def poll(self) -> None:
        while self.qp.completions:
            completion = self.qp.completions.popleft()
            self.on_completion(completion)
        while self.qp.events:
            event = self.qp.events.pop(0)
            assert not self.disconnected, f"{event} after the end"
            if isinstance(event, ConnectRequested):
                assert not self.established
            elif isinstance(event, Established):
                assert not self.established
                self.established = True
            else:
                assert isinstance(event, Disconnected)
                assert event.reason
                self.disconnected = True

    def on_completion(self, completion: Completion) -> None:
        wr = completion.wr
        assert isinstance(wr, int)
        assert wr not in self.completed, f"{completion} for the second time"
        assert self.posted[wr][0] is completion.verb
        self.completed.add(wr)
        self.check_memory()
        if completion.verb is Verb.RECEIVE:
            assert 0 <= completion.length <= SLOT_OCTETS
            self.set_writable(self.receives.pop(wr), 0)
            if completion.invalidated is not None:
                found = self.regions.pop(completion.invalidated, None)
                if found is not None:
                    self.set_writable(found[1], 0)

    # Octets

    def give(self, octets: bytes, step: int) -> None:
        view = memoryview(octets)
        start = 0
        while start < len(view):
            offered = self.qp.next_buffers()
            room = sum(map(len, offered))
            assert 0 < room < 1 << 18
            taken = feed(self.qp, view[start : start + step])
            assert 0 < taken <= step
            start += taken
            self.check_memory()

    def take(self, octets: int) -> None:
        gather = self.qp.next_gather(1 << 14)
        ready = sum(map(len, gather))
        assert ready < 1 << 17
        if ready:
            self.qp.bytes_sent(min(ready, octets))

    def finish(self) -> None:
        """Ends the connection if it has not ended, and checks that all work has completed."""
        self.poll()
        # Work that `abort` flushes is reported as well.
        self.qp.abort("the case is over")
        self.poll()
        assert self.disconnected or not self.established
        assert self.disconnected
        self.check_memory()
        missing = [wr for wr, (_, signaled) in self.posted.items() if signaled and wr not in self.completed]
        assert not missing, f"never completed: {missing}"
        assert not self.qp._receiver.untagged.receives
        assert not self.qp._sender.send_queue
        assert not self.qp._sender.responses


CONFIGS = [
    IwarpConfig(),
    IwarpConfig(crc=False, inbound_reads=2, outbound_reads=1),
    IwarpConfig(peer_to_peer=True),
    IwarpConfig(enhanced=False, crc=False),
    IwarpConfig(ready_frames=ReadyFrame.SEND, inbound_reads=0),
    IwarpConfig(flush_each_message=True, inbound_reads=1),
]


def startup(data: bytes) -> None:
    """A stream from its first octet on: MPA start-up and any frames after it."""
    script = Script(data)
    role = MpaRole.INITIATOR if script.below(2) else MpaRole.RESPONDER
    owner = Owner(role, CONFIGS[script.below(len(CONFIGS))], b"private")
    step = 1 + script.below(80)
    for _ in range(script.below(4)):
        owner.post_receive()
    decision = script.below(4)
    if script.below(2):
        owner.post_some(script)
    octets = script.data[script.pos :]
    for start in range(0, len(octets), 32):
        owner.give(octets[start : start + 32], step)
        decide(owner, decision)
        owner.take(1 + 3 * step)
        owner.poll()
    if decision & 1:
        owner.qp.end_of_stream()
    owner.finish()


def decide(owner: Owner, decision: int) -> None:
    """The upper layer's answer to a Request: mostly to accept."""
    if owner.qp.state.name == "REQUESTED":
        if decision:
            owner.qp.accept(b"")
        else:
            owner.qp.reject(b"no")


def connected(script: Script) -> Owner:
    """A queue pair after its start-up, which may have failed."""
    role = MpaRole.INITIATOR if script.below(2) else MpaRole.RESPONDER
    config = CONFIGS[script.below(len(CONFIGS))]
    owner = Owner(role, config)
    flags = 0x10 * config.enhanced | 0x40 * script.below(2) | 0x80 * (script.below(8) == 0)
    words = struct.pack(">HH", 2 | 0x8000 * config.peer_to_peer | 0x4000 * config.peer_to_peer, 2)
    kind = "Rep" if role is MpaRole.INITIATOR else "Req"
    frame = startup_frame(kind, flags, 2 if config.enhanced else 1, words if config.enhanced else b"")
    if role is MpaRole.INITIATOR:
        owner.take(1 << 16)
    owner.give(frame, 64)
    decide(owner, 1)
    owner.take(1 << 16)
    owner.poll()
    return owner


def segment(script: Script, sequence: list[int]) -> bytes:
    """A DDP segment: most of its fields are plausible, any of them may be false."""
    lies = script.number()
    opcode = script.number() % 8 if not lies & 1 else script.number() % 16
    last = not lies & 2
    payload = bytes([0x5A]) * (script.number() if not lies & 4 else script.number(2) % 2000)
    control = 0x40 * last | (1 if not lies & 8 else script.below(4))
    rdmap = 0x40 | opcode if not lies & 16 else script.number()
    handle = HANDLES[script.below(len(HANDLES))] if not lies & 32 else script.number(4)
    offset = START + script.number() if not lies & 64 else script.number(8)
    if opcode in {0, 2}:
        return struct.pack(">BBIQ", 0x80 | control, rdmap, handle, offset) + payload
    queue = {1: 1, 7: 2}.get(opcode, 0)
    if lies & 128:
        queue = script.below(4)
    msn = sequence[queue % 3]
    if lies & 0xC0 == 0xC0:
        msn = script.number()
    elif last:
        sequence[queue % 3] += 1
    if opcode == 1:
        payload = struct.pack(">IQIIQ", 9, 99, script.number(2) % 600, handle, offset) + payload[: 2 * (lies & 4)]
    elif opcode == 7:
        payload = script.octets(52)
    return struct.pack(">BBIIII", control, rdmap, handle, queue, msn, script.below(200) if lies & 2 else 0) + payload


def stream(data: bytes) -> None:
    """A connection in full operation: frames of the peer and work of the owner, in any order."""
    script = Script(data)
    owner = connected(script)
    crc = owner.qp.crc
    sequence = [1, 1, 1]
    step = 1 + script.number() * 4
    for _ in range(200):
        if not script.more:
            break
        match script.below(16):
            case 0 | 1 | 2 | 3 | 4 | 5:
                owner.give(fpdu(segment(script, sequence), crc=crc), step)
            case 6:
                owner.give(fpdu(script.octets(script.below(64)), crc=crc, flaw=script.below(2)), step)
            case 7:
                owner.give(script.octets(script.below(32)), step)
            case 8:
                owner.post_receive()
            case 9:
                owner.post_some(script)
            case 10:
                owner.take(1 + script.number(2))
            case 11:
                owner.register(script.below(len(HANDLES)), script.below(3))
            case 12:
                choice = script.number()
                owner.withdraw(choice % len(HANDLES), abandon=bool(choice & 16))
            case 13:
                step = 1 + script.number() * 4
            case 14:
                # Part of a frame, followed at once by the next one.
                frame = fpdu(segment(script, sequence), crc=crc)
                cut = script.number()
                owner.give(frame[:cut], step)
                owner.withdraw(script.below(len(HANDLES)), abandon=bool(script.below(2)))
                owner.give(frame[cut:], step)
            case _:
                end = script.below(8)
                if end == 0:
                    owner.qp.disconnect()
                elif end == 1:
                    owner.qp.end_of_stream()
                elif end == 2:
                    owner.qp.abort("enough")
        assert len(owner.qp._sender.responses) <= owner.qp.inbound_reads + 1
        owner.poll()
    owner.finish()


_STARTUPS = golden("iwarp/frames.toml", "startup")
_FRAMES = golden("iwarp/frames.toml", "fpdu")

IWARP_MACHINES = [
    FuzzTarget(
        "machine_iwarp_startup",
        startup,
        [bytes((role, config, 79, 1, 2, 0)) + frame for frame in _STARTUPS for role in (0, 1) for config in (0, 2)]
        + [bytes((0, 0, 79, 2, 2, 0)) + _STARTUPS[0] + b"".join(_FRAMES)],
    ),
    FuzzTarget(
        "machine_iwarp_stream",
        stream,
        [
            bytes((role, config, 1, 0, 40, 8, 8, 11, 0, 2, 11, 1, 1)) + body
            for role in (0, 1)
            for config in (0, 1, 3)
            for body in (
                bytes((0, 0, 3, 20, 0, 0)) * 3,
                bytes((0, 0, 0, 100, 1, 50, 10, 255, 255, 0, 0, 1, 10, 0, 0, 1, 0)),
                bytes((9, 2, 1, 1, 0, 20, 10, 255, 255, 0, 0, 2, 20, 0, 0)),
                bytes((14, 0, 0, 200, 1, 0, 60, 0, 0)),
                bytes((9, 0, 1, 50, 8, 0, 1, 10, 0, 200, 15, 0)),
            )
        ],
    ),
]
"""One target for each phase of the stream; role and settings are part of the case."""
