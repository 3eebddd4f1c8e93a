"""The whole record of a receiver: each step changes the named fields and no other ones."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from iwarp_watch import Watch
from rpcrdma.iwarp.receiver import Receiver, Scratch
from rpcrdma.iwarp.sender import ReadWork, Sender
from rpcrdma.verbs import Access, Completion, MemoryRegion, SoftwareProtectionDomain, Status, Verb
from rpcrdma.verbs.receive_pool import ReceivePool, ScatteredBuffer
from rpcrdma.wire.checksum import crc32c
from support.cases import each_case
from support.raw_iwarp import fpdu, read_request, tagged, untagged

pytestmark = pytest.mark.in_python

HANDLE, BASE = 7, 1000


class Receiving:
    """A receiver, its watch, and 20000 octets of memory that the peer may write and read."""

    def __init__(self) -> None:
        self.pd = SoftwareProtectionDomain(lambda bits: 0)
        self.memory = bytearray(20_000)
        rights = Access.REMOTE_WRITE | Access.REMOTE_READ
        self.pd.regions[HANDLE] = MemoryRegion(HANDLE, BASE, memoryview(self.memory), rights)
        completions: deque[Completion] = deque()
        self.sender = Sender(self.pd, completions, flush_each_message=False)
        self.receiver = Receiver(self.pd, self.sender, completions, Scratch())
        self.receiver.untagged.inbound_reads = 2
        self.receiver.untagged.numbers.append(77)
        # As an FPDU has left it that went straight to its place.
        self.receiver.direct.header = (14, 0xC1, 0x40, 0, 0)
        self.watch = Watch(self.receiver, self.receiver.direct, self.receiver.tagged, self.receiver.untagged)
        self.watch.changes()

    def post(self, *buffers: memoryview | ScatteredBuffer) -> None:
        self.receiver.untagged.receives += enumerate(buffers)
        self.watch.changes()

    def put(self, octets: bytes) -> dict[str, Any]:
        """Receives `octets` at once."""
        rest = memoryview(octets)
        for buffer in self.receiver.next_buffers():
            part = rest[: len(buffer)]
            buffer[: len(part)] = part
            rest = rest[len(part) :]
        assert len(rest) == 0
        self.receiver.received(len(octets))
        return self.watch.changes()

    @property
    def offers(self) -> list[int]:
        return list(map(len, self.receiver.next_buffers()))


def write(octets: int, at: int = 0, *, last: bool = True) -> bytes:
    return fpdu(tagged(0, HANDLE, BASE + at, b"\x55" * octets, last=last))


AT_REST = {"left": 0, "target": 0, "trailer": 0}
"""The record of a payload after its end."""


def test_the_record_of_a_new_receiver() -> None:
    pd = SoftwareProtectionDomain(lambda bits: 0)
    receiver = Receiver(pd, Sender(pd, deque(), flush_each_message=False), deque(), Scratch())
    assert Watch(receiver).changes() == {
        "_bulk": False,
        "_full": False,
        "_own_scratch": False,
        "_scratch": 8192,
        "crc": True,
        "direct": receiver.direct,
        "filled": 0,
        "heard": False,
        "limit": 8192,
        "ready_frame": None,
        "tagged": receiver.tagged,
        "untagged": receiver.untagged,
        "view": 8192,
    }
    assert Watch(receiver.direct).changes() == AT_REST | {
        "digest": 0,
        "fault": None,
        "header": (),
        "placed": 0,
    }
    assert Watch(receiver.tagged).changes() == {"opened": None}
    assert Watch(receiver.untagged).changes() == {
        "_completions": [],
        "inbound_reads": 0,
        "numbers": [1, 1, 1],
        "pool": None,
        "receives": [],
        "send_octets": 0,
        "send_opened": (0, 0),
        "shared": 0,
    }


def test_the_record_of_small_frames_in_parts() -> None:
    scene = Receiving()
    first, second = write(100, last=False), write(50, 100)
    assert scene.put(first[:10]) == {"_own_scratch": True, "filled": 10}
    own = scene.receiver.view
    assert scene.put(first[10:50]) == {"filled": 50}
    assert scene.put(first[50:] + second[:20]) == {"filled": 20, "heard": True, "opened": (0x40, HANDLE)}
    assert scene.put(second[20:]) == {"filled": 0, "opened": None}
    assert scene.receiver.view is own
    assert scene.memory == b"\x55" * 150 + bytes(19_850)


def test_the_record_of_a_large_frame_in_parts() -> None:
    scene = Receiving()
    first, second = write(5001, last=False), write(3000, 5001)
    assert scene.put(first[:100]) == {
        "_bulk": True,
        "digest": crc32c(first[:100]),
        "header": (5015, 0x81, 0x40, HANDLE, BASE),
        "left": 4917,
        "placed": 84,
        "trailer": 7,
    }
    assert scene.offers == [4917, 23]
    assert scene.put(first[100:4000]) == {
        "digest": crc32c(first[:4000]),
        "left": 1017,
        "limit": 23,
        "placed": 3984,
        "target": 4917,
    }
    assert scene.put(first[4000:5017]) == {"digest": crc32c(first[:5017]), "left": 0, "placed": 5001, "target": 1017}
    assert scene.put(first[5017:5020]) == {"_own_scratch": True, "filled": 3}
    assert scene.put(first[5020:] + second[:3]) == {
        "heard": True,
        "opened": (0x40, HANDLE),
        "target": 0,
        "trailer": 0,
    }
    assert scene.offers == [13]
    assert scene.put(second[3:16]) == {
        "limit": 16,
        "_bulk": False,
        "digest": crc32c(second[:16]),
        "filled": 0,
        "header": (3014, 0xC1, 0x40, HANDLE, BASE + 5001),
        "left": 3000,
        "placed": 0,
        "trailer": 4,
    }
    assert scene.put(second[16:3016]) == {
        "digest": crc32c(second[:3016]),
        "left": 0,
        "limit": 8192,
        "placed": 3000,
        "target": 3000,
    }
    assert scene.put(second[3016:]) == {"opened": None, "target": 0, "trailer": 0}
    assert scene.memory == b"\x55" * 8001 + bytes(11_999)


def test_the_record_of_a_large_frame_behind_another() -> None:
    scene = Receiving()
    first, second = write(5000, last=False), write(3000, 5000)
    assert scene.put(first[:16])["left"] == 5000
    assert scene.put(first[16:] + second[:16]) == {
        "_bulk": False,
        "digest": crc32c(second[:16]),
        "header": (3014, 0xC1, 0x40, HANDLE, BASE + 5000),
        "heard": True,
        "left": 3000,
        "limit": 20,
        "opened": (0x40, HANDLE),
    }
    assert scene.offers == [3000, 8192]
    assert scene.put(second[16:]) == {
        "digest": crc32c(second[:-4]),
        "left": 0,
        "limit": 8192,
        "opened": None,
        "placed": 3000,
        "trailer": 0,
    }


def test_the_record_of_frames_in_the_buffer() -> None:
    scene = Receiving()
    frames = [write(1000, 1000 * number, last=number == 3) for number in range(4)]
    assert scene.put(b"".join(frames[:3])) == {"heard": True, "opened": (0x40, HANDLE)}
    assert scene.put(frames[3]) == {"opened": None}
    assert scene.memory == b"\x55" * 4000 + bytes(16_000)


def test_the_record_of_a_send_of_two_segments() -> None:
    scene = Receiving()
    buffer, other = bytearray(6000), bytearray(6000)
    scene.post(memoryview(buffer), memoryview(other))
    first = fpdu(untagged(3, 0, 1, b"\x44" * 100, last=False, invalidate=5))
    second = fpdu(untagged(3, 0, 1, b"\x55" * 5000, offset=100, invalidate=5))
    assert scene.put(first) == {"send_octets": 100, "send_opened": (0x43, 5), "heard": True}
    assert buffer == b"\x44" * 100 + bytes(5900)
    assert scene.put(second[:30]) == {
        "digest": crc32c(second[:30]),
        "header": (5018, 0x41, 0x43, 5, 0, 1, 100),
        "left": 4990,
        "placed": 10,
        "trailer": 4,
    }
    assert buffer == b"\x44" * 100 + b"\x55" * 10 + bytes(5890)
    assert scene.offers == [4990, 8192]
    assert scene.put(second[30:]) == {
        "_completions": [Completion(0, Verb.RECEIVE, Status.SUCCESS, 5100)],
        "numbers": [2, 1, 1, 77],
        "send_octets": 0,
        "digest": crc32c(second[:-4]),
        "left": 0,
        "placed": 5000,
        "receives": [(1, 6000)],
        "trailer": 0,
    }
    assert buffer == b"\x44" * 100 + b"\x55" * 5000 + bytes(900)
    assert other == bytes(6000)


def test_a_large_send_is_no_bulk_message() -> None:
    scene = Receiving()
    scene.post(memoryview(bytearray(6000)))
    assert scene.put(write(5000, last=False))["_bulk"]
    frame = fpdu(untagged(3, 0, 1, bytes(5000)))
    assert scene.put(frame[:16]) == {"_own_scratch": True, "filled": 16, "limit": 16}
    assert scene.put(frame[16:20])["_bulk"] is False
    assert scene.offers == [5000, 8192]
    assert scene.put(frame[20:])["_completions"] == [Completion(0, Verb.RECEIVE, Status.SUCCESS, 5000)]


def test_the_record_of_a_send_in_scattered_memory() -> None:
    scene = Receiving()
    parts = [bytearray(octets) for octets in (100, 200, 6000)]
    scene.post(ScatteredBuffer([memoryview(part) for part in parts]), memoryview(bytearray(10)))
    frame = fpdu(untagged(3, 0, 1, b"\x55" * 5000))
    assert scene.put(frame[:150]) == {
        "digest": crc32c(frame[:150]),
        "header": (5018, 0x41, 0x43, 0, 0, 1, 0),
        "left": 4870,
        "placed": 130,
        "trailer": 4,
    }
    assert scene.offers == [170]
    assert scene.put(frame[150:320]) == {
        "digest": crc32c(frame[:320]),
        "left": 4700,
        "placed": 300,
        "target": 170,
    }
    assert scene.offers == [4700, 8192]
    assert scene.put(frame[320:])["_completions"] == [Completion(0, Verb.RECEIVE, Status.SUCCESS, 5000)]
    assert b"".join(parts) == b"\x55" * 5000 + bytes(1300)


def test_the_record_of_sends_into_a_pool() -> None:
    scene = Receiving()
    pool = ReceivePool(64)
    scene.receiver.untagged.shared = 3
    scene.receiver.untagged.pool = pool
    assert scene.watch.changes() == {"pool": pool, "shared": 3}

    def completed(changes: dict[str, Any]) -> dict[str, Any]:
        """`changes` with the last completion, whose buffer is new, but for the buffer."""
        return changes | {"_completions": changes["_completions"][-1][1:]}

    one = (Verb.RECEIVE, Status.SUCCESS, 3, None)
    assert completed(scene.put(fpdu(untagged(3, 0, 1, b"one")))) == {
        "_completions": one,
        "numbers": [2, 1, 1, 77],
        "heard": True,
        "shared": 2,
    }
    frame = fpdu(untagged(4, 0, 2, b"second", invalidate=HANDLE))
    assert scene.put(frame[:7]) == {"_own_scratch": True, "filled": 7}
    second = (Verb.RECEIVE, Status.SUCCESS, 6, HANDLE)
    assert completed(scene.put(frame[7:])) == {
        "_completions": second,
        "numbers": [3, 1, 1, 77],
        "filled": 0,
        "shared": 1,
    }
    assert scene.pd.regions == {}
    third = fpdu(untagged(3, 0, 3, b"th", last=False)), fpdu(untagged(3, 0, 3, b"ird", offset=2))
    assert scene.put(third[0]) == {
        "send_octets": 2,
        "send_opened": (0x43, 0),
        "receives": [(64, 64)],
        "shared": 0,
    }
    assert completed(scene.put(third[1])) == {
        "_completions": (Verb.RECEIVE, Status.SUCCESS, 5, None),
        "numbers": [4, 1, 1, 77],
        "send_octets": 0,
        "receives": [],
    }


def test_the_record_of_reads_of_the_peer() -> None:
    scene = Receiving()
    assert scene.put(fpdu(read_request(1, 5, 6, 70, HANDLE, BASE))) == {"numbers": [1, 2, 1, 77], "heard": True}
    assert scene.put(fpdu(read_request(2, 5, 6, 0, 0, 0))) == {"numbers": [1, 3, 1, 77]}
    assert [(each.header, each.request) for each in scene.sender.responses] == [
        ((5, 6, 70, HANDLE, BASE), (46, 0x41, 0x41, 0, 1, 1, 0)),
        ((5, 6, 0, 0, 0), (46, 0x41, 0x41, 0, 1, 2, 0)),
    ]


@each_case("direct", [False, True])
def test_the_record_of_responses_to_two_reads(direct: bool) -> None:
    scene = Receiving()
    first = ReadWork("first", 0x41, 6000, 9, 5000, HANDLE, BASE)
    second = ReadWork("second", 0x41, 10, 9, 5000, HANDLE, BASE + 7000)
    scene.sender.reads += [first, second]
    scene.sender.in_flight += [first, second]
    frame = fpdu(tagged(2, HANDLE, BASE, b"\x55" * 5000, last=False))
    if direct:
        changes = scene.put(frame[:100])
        assert changes["left"] == 4916
        assert scene.put(frame[100:])["opened"] == (0x42, HANDLE)
    else:
        assert scene.put(frame) == {"_bulk": True, "heard": True, "opened": (0x42, HANDLE)}
    assert (first.received, second.received) == (5000, 0)
    end = fpdu(tagged(2, HANDLE, BASE + 5000, b"\x66" * 1000))
    assert scene.offers == [16]
    assert scene.put(end[:16])["filled"] == 16
    assert scene.offers == [8192 - 16]
    assert scene.put(end[16:])["opened"] is None
    assert (first.received, first.done, second.done) == (6000, True, False)
    assert (scene.sender.reads, list(scene.sender.in_flight)) == ([second], [second])
    done = [Completion(work.wr, Verb.RDMA_READ, Status.SUCCESS, work.length) for work in (first, second)]
    changes = scene.put(fpdu(tagged(2, HANDLE, BASE + 7000, b"\x77" * 10)))
    assert changes == {"_completions": done}
    assert scene.sender.reads == []
    assert scene.memory == b"\x55" * 5000 + b"\x66" * 1000 + bytes(1000) + b"\x77" * 10 + bytes(12_990)


def test_the_record_of_a_buffer_that_grows() -> None:
    scene = Receiving()
    frame = write(9000)
    both = write(4076) + frame[:4096]
    assert scene.put(both)["left"] == 9000 - 4080
    assert scene.put(frame[4096:])["left"] == 0
    full = write(4076) + write(4072) + frame[:4]
    assert scene.put(full) == {"_full": True, "_own_scratch": True, "filled": 4}
    assert scene.offers == [73_728 - 4]
    assert scene.put(frame[4:]) == {"_full": False, "_scratch": 73_728, "filled": 0, "limit": 73_728, "view": 73_728}
    assert scene.offers == [8192]
    assert scene.memory == b"\x55" * 9000 + bytes(11_000)


def test_a_buffer_that_has_grown_is_kept() -> None:
    scene = Receiving()
    scene.post(memoryview(bytearray(9000)))
    frame = fpdu(untagged(3, 0, 1, bytes(9000)))
    assert scene.put(write(4076) + write(4072) + frame[:4])["_full"]
    assert scene.offers == [73_728 - 4]
    grown = scene.receiver.view
    assert scene.put(frame[4:16])["filled"] == 16
    assert scene.receiver.view is grown


def test_the_record_of_an_end_inside_a_large_frame() -> None:
    scene = Receiving()
    scene.post(memoryview(bytearray(8)), memoryview(bytearray(9)))
    scene.receiver.untagged.shared = 4
    frame = write(5000)
    assert scene.put(frame[:100])["shared"] == 4
    assert scene.offers == [4916, 8192]
    assert scene.watch.changes() == {"target": 4916}
    scene.receiver.flush()
    assert scene.watch.changes() == {
        "_completions": [Completion(wr, Verb.RECEIVE, Status.FLUSHED) for wr in (0, 1)],
        "_own_scratch": True,
        "_scratch": 0,
        "receives": [],
        "shared": 0,
        "target": 0,
        "view": 0,
    }
