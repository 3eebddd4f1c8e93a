"""One stream of FPDUs for the receiver in Python and for the native one, which have to come to the same.

Octets decide the content of the stream and the places of its cuts, so that Hypothesis and libFuzzer can
search: `compare(octets)`.
"""

from __future__ import annotations

import contextlib
import socket
import struct

from rpcrdma.iwarp import IwarpConfig, MpaRole
from rpcrdma.testing.joined_pair import feed
from rpcrdma.verbs import Access, Completion, SoftwareProtectionDomain, Status, Verb
from rpcrdma.verbs.receive_pool import KIND_OF_MESSAGE, ReceivePool
from rpcrdma.wire.native import NativeFrames
from support.draws import draws
from support.raw_iwarp import RawPeer, completions_of, events_of, fpdu, tagged, terminate, untagged

__all__ = ["POOL_OCTETS", "READ_OCTETS", "End", "compare"]

REGION_OCTETS = 80_000
POOL_OCTETS = 24_000
RECEIVES = 6
READ_OCTETS = (0, 9, 70_000)
"""The lengths of the RDMA Reads that the peer answers."""
PAYLOAD = bytes(range(251)) * 300
OPERATIONS_MAX = 40
SOCKET_OCTETS = 1 << 16


class Recipe:
    """Numbers from octets; 0 when they have ended."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.position = 0

    def number(self, octets: int = 1) -> int:
        taken = self.octets[self.position : self.position + octets]
        self.position += octets
        return int.from_bytes(taken, "little")

    def size(self) -> int:
        """Mostly small, and around the sizes at which the native receiver changes its ways."""
        kind = self.number()
        near = (0, 1, 2030, 2048, 4080, 8192, 23_950, 65_000)[kind & 7]
        return min(near + self.number() if kind & 8 else self.number(), 65_500)

    def ended(self) -> bool:
        return self.position >= len(self.octets)


class End:
    """A responder in full operation, with memory to write, a sink of RDMA Reads, memory to read, and a receive pool."""

    def __init__(
        self, *, native: bool, crc: bool, by_socket: bool, short_octets: int = POOL_OCTETS, scattered: bool = False
    ) -> None:
        pd = SoftwareProtectionDomain(draws())
        self.raw = RawPeer(MpaRole.RESPONDER, pd, IwarpConfig(crc=crc), natively=native)
        self.raw.connect(crc=crc)
        self.memory = [bytearray(REGION_OCTETS) for _ in range(3)]
        rights = (Access.REMOTE_WRITE, Access.REMOTE_WRITE, Access.REMOTE_READ)
        self.regions = [self.raw.pd.register(*each) for each in zip(self.memory, rights, strict=True)]
        self.pool = ReceivePool(POOL_OCTETS)
        self.pool.short_octets = short_octets
        if scattered:
            self.pool.scattered = {KIND_OF_MESSAGE.unpack_from(PAYLOAD)}
        self.raw.qp.post_receives(RECEIVES, self.pool)
        self.sockets = socket.socketpair() if by_socket else None
        for each in self.sockets or ():
            each.setblocking(False)
        # A responder sends nothing before the first FPDU has come.
        self.raw.give(fpdu(tagged(0, 0, 0), crc=crc))
        for n, octets in enumerate(READ_OCTETS):
            self.raw.qp.post_read(n, self.regions[1], 0, octets, 1, 0)
        self.raw.take()
        self.outcome: list[object] = []

    def give(self, octets: bytes) -> None:
        """Receives octets as a driver does, which hands over whenever that is possible."""
        qp = self.raw.qp
        if self.sockets is not None:
            self._give_by(*self.sockets, octets)
            return
        while octets and not qp.wants_close:
            frames = self.frames()
            if frames is None:
                taken = feed(qp, octets)
            else:
                outcome, taken = frames.feed(octets)
                if outcome:
                    qp.received_natively(outcome)
            assert taken or frames, "the queue pair takes none of the octets that are left"
            octets = octets[taken:]
            if self.frames() is None:
                qp.hand_over()

    def frames(self) -> NativeFrames | None:
        """The native module's receiver, while it receives."""
        receiver = self.raw.qp.native_receiver
        return None if receiver is None else receiver.frames

    def _give_by(self, theirs: socket.socket, ours: socket.socket, octets: bytes) -> None:
        qp = self.raw.qp
        for start in range(0, len(octets), SOCKET_OCTETS):
            if qp.wants_close:
                return
            theirs.sendall(octets[start : start + SOCKET_OCTETS])
            with contextlib.suppress(BlockingIOError):
                while not qp.wants_close and ours.recv(1, socket.MSG_PEEK):
                    frames = self.frames()
                    if frames is None:
                        taken = ours.recvmsg_into(qp.next_buffers())[0]
                        qp.bytes_received(taken)
                    elif outcome := frames.receive(ours.fileno(), 1 << 20):
                        qp.received_natively(outcome)
                    if self.frames() is None:
                        qp.hand_over()

    def close(self) -> None:
        for each in self.sockets or ():
            each.close()

    def note(self) -> None:
        """Notes all that can be seen since the last note."""
        qp = self.raw.qp
        self.outcome.append(self.raw.take())
        for each in completions_of(qp):
            data = bytes(each.wr)[: each.length] if isinstance(each.wr, bytes | memoryview) else each.wr
            self.outcome.append(each._replace(wr=data))
        self.outcome += events_of(qp)
        self.outcome += [qp.state, qp.wants_close, sorted(self.raw.pd.regions)]


class Stream:
    """The FPDUs of a recipe, and the acts of this side between them."""

    def __init__(self, recipe: Recipe, end: End, *, crc: bool) -> None:
        self.recipe = recipe
        self.regions = end.regions
        self.crc = crc
        self.numbers = [1, 1]
        self.send_offset = 0
        self.write_offset = 0
        self.reads = list(READ_OCTETS)
        self.answered = 0
        self.damaged = False

    def segment(self) -> bytes:
        """The next segment: usually right, sometimes not."""
        recipe = self.recipe
        kind, how = recipe.number(), recipe.number()
        last = not how & 1
        size = recipe.size()
        strange = recipe.number() if how & 0x80 else 0
        if kind % 8 < 3:
            region = self.regions[(how >> 1 & 3) % 3 if how & 0x40 else 0]
            offset = recipe.number(3) if how & 8 else self.write_offset
            self.write_offset = 0 if last else offset + size
            return tagged(0, region.handle ^ strange, region.offset + offset & (1 << 64) - 1, PAYLOAD[:size], last=last)
        if kind % 8 < 5 and self.reads:
            left = self.reads[0] - self.answered
            size = max(min(size, left), 0) if not how & 8 else size
            last = size == left if not how & 0x10 else last
            offset = self.regions[1].offset + self.answered + strange
            self.answered += size
            if last:
                del self.reads[0]
                self.answered = 0
            return tagged(2, self.regions[1].handle, offset, PAYLOAD[:size], last=last)
        if kind % 8 == 5:
            segment = struct.pack(
                ">QIIQ", self.regions[1].offset, size, self.regions[2].handle ^ strange, self.regions[2].offset
            )
            self.numbers[1] += 1
            return untagged(1, 1, self.numbers[1] - 1, struct.pack(">I", self.regions[1].handle) + segment)
        size = min(size, POOL_OCTETS + 100)
        opcode = 3 + (how >> 1 & 3)
        invalidate = self.regions[how >> 3 & 1].handle if opcode in {4, 6} and how & 0x20 else strange
        offset = self.send_offset
        number = self.numbers[0]
        self.send_offset = 0 if last else offset + size
        self.numbers[0] += last
        return untagged(opcode, 0, number, PAYLOAD[:size], offset=offset, invalidate=invalidate, last=last)

    def frame(self) -> bytes:
        """The next FPDU, or octets that are none."""
        recipe = self.recipe
        fault = recipe.number()
        if fault == 255:
            self.damaged = True
            return recipe.octets[recipe.position : recipe.position + recipe.number()]
        if fault == 254:
            return terminate(recipe.number(2))
        segment = bytearray(self.segment())
        if fault >= 240:
            segment[recipe.number() % min(len(segment), 18)] ^= recipe.number()
        if fault >= 230 and fault < 240:
            self.damaged = True
            return fpdu(segment, crc=self.crc, flaw=1)
        return fpdu(segment, crc=self.crc)


def act(end: End, what: int) -> None:
    """An act of this side that changes its memory or its queues."""
    if what == 1:
        end.raw.pd.abandon(end.regions[0])
    elif what == 2:
        end.raw.pd.invalidate(end.regions[0])
    elif what == 3:
        end.raw.qp.post_send(0, (b"a message",), signaled=True)
    elif what == 4:
        end.raw.qp.post_receives(1, end.pool)
    elif what == 5:
        end.raw.qp.end_of_stream()


def compare(octets: bytes) -> None:
    """Gives both receivers the stream that `octets` describe.

    Raises:
        AssertionError: they differ in octets sent, completions, events, placed data or invalidations.
    """
    recipe = Recipe(octets)
    flags = recipe.number()
    crc = not flags & 1
    short_octets = 100 if flags & 2 else POOL_OCTETS
    ends = [
        End(
            native=native,
            crc=crc,
            by_socket=native and flags & 12 == 12,
            short_octets=short_octets,
            scattered=bool(flags & 16),
        )
        for native in (False, True)
    ]
    try:
        _compare(recipe, ends, crc=crc)
    finally:
        ends[1].close()


def seen(end: End) -> list[object]:
    """What was noted, without the end of a buffer that was drawn for a Send: how much of it has to be here for that
    depends on the receiver, and on how much it takes at a time."""
    ended = (Verb.RECEIVE, Status.FLUSHED)
    return [each for each in end.outcome if not (isinstance(each, Completion) and (each.verb, each.status) == ended)]


def _compare(recipe: Recipe, ends: list[End], *, crc: bool) -> None:
    stream = Stream(recipe, ends[0], crc=crc)
    for _ in range(OPERATIONS_MAX):
        if recipe.ended() or ends[0].raw.qp.wants_close:
            break
        control = recipe.number()
        data = b"".join(stream.frame() for _ in range(1 + (control & 3)))
        cuts = [recipe.size() for _ in range(control >> 2 & 3)]
        what = recipe.number() if control >> 4 & 7 == 7 else 0
        for end in ends:
            position = 0
            for size in (*cuts, len(data)):
                part = data[position : position + size]
                position += len(part)
                end.give(part)
                if position < len(data) and control & 0x80:
                    act(end, what)
            if not control & 0x80:
                act(end, what)
            end.note()
        assert seen(ends[1]) == seen(ends[0])
        if not stream.damaged:
            # Octets of a damaged FPDU may be in the memory that its header names.
            assert ends[1].memory == ends[0].memory
        ends[0].outcome.clear()
        ends[1].outcome.clear()
