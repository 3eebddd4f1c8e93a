"""The whole record of a sender: each step changes the named fields and no other ones.

ULPDUs have up to 128 octets, so segments carry 112 octets if tagged, 108 if not.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from iwarp_watch import Watch, bound_gather
from rpcrdma.iwarp.outbound import ReadResponse
from rpcrdma.iwarp.segments import ReadHeader
from rpcrdma.iwarp.sender import ReadWork, Sender, Work
from rpcrdma.iwarp.terminate import TerminateMessage
from rpcrdma.verbs import Access, Completion, MemoryRegion, SoftwareProtectionDomain, Status, Verb
from rpcrdma.wire.checksum import crc32c
from support.cases import each_case
from support.raw_iwarp import fpdu, read_request, tagged, terminate, untagged

pytestmark = pytest.mark.in_python

HANDLE, BASE = 7, 1000


class Sending:
    """A sender that may speak, its watch, and the octets that it has sent; the peer may read 2000 octets."""

    def __init__(self, *, reads: int = 1, markers: bool = False) -> None:
        pd = SoftwareProtectionDomain(lambda bits: 0)
        self.region = MemoryRegion(HANDLE, BASE, memoryview(bytes(range(250)) * 8), Access.REMOTE_READ)
        pd.regions[HANDLE] = self.region
        self.sender = Sender(pd, deque(), flush_each_message=False)
        self.watch = Watch(self.sender, self.sender.out)
        self.watch.changes()
        self.sender.start(128, reads, crc=True, markers=markers)
        self.sender.open = True
        # Behind the numbers of the two queues stands one that is none.
        self.sender._msn.append(77)
        self.stream = b""
        self.watch.changes()

    def post(self, *works: Work) -> None:
        for work in works:
            assert (work.signaled, work.end, work.internal, work.status) == (True, 0, False, Status.FLUSHED)
        self.sender.send_queue += works
        assert self.watch.changes() == {"send_queue": [work.wr for work in self.sender.send_queue]}

    def asked(self, *octets: int) -> None:
        """The peer reads so many octets from octet 20 of the memory on, to offset 300 of handle 4."""
        for number, length in enumerate(octets, 1):
            header = ReadHeader(4, 300, length, HANDLE, BASE + 20)
            self.sender.responses.append(ReadResponse(header, (46, 0x41, 0x41, 0, 1, number, 0)))
        assert self.watch.changes() == {"responses": list(octets)}

    def gather(self, octets: int) -> dict[str, Any]:
        bound_gather(self.sender)
        pieces = self.sender.next_gather(octets)
        assert pieces is self.sender.out.pieces
        assert sum(map(len, pieces)) == self.sender.out.built - self.sender.out.sent
        return self.watch.changes()

    def sent(self, octets: int) -> dict[str, Any]:
        out = self.sender.out
        self.stream += b"".join(out.pieces)[:octets]
        if octets == out.built - out.sent:
            # All pieces go at once, with one behind them that no count includes.
            out.pieces.append(b"uncounted")
        self.sender.report(octets)
        assert self.sender.out.sent == len(self.stream)
        return self.watch.changes()


def all_sent(position: int) -> dict[str, Any]:
    """The record of an empty gather list at `position` of the stream."""
    return {"frames": [], "start": position, "pieces": [], "sent": position}


def test_the_record_of_a_new_sender() -> None:
    sender = Sender(SoftwareProtectionDomain(lambda bits: 0), deque(), flush_each_message=False)
    assert Watch(sender).changes() == {
        "_completions": [],
        "_frame_max": 0,
        "_message_ended": False,
        "_msn": [1, 1],
        "_one_message": False,
        "_piece": 0,
        "_piece_start": 0,
        "_position": 0,
        "_responding": False,
        "_response_turn": True,
        "_stream": 0,
        "_tagged_max": 0,
        "_untagged_max": 0,
        "crc": True,
        "current": None,
        "drained": False,
        "in_flight": [],
        "markers": False,
        "open": False,
        "out": sender.out,
        "outbound_reads": 0,
        "reads": [],
        "responses": [],
        "send_queue": [],
    }


def test_the_record_while_a_send_goes_out() -> None:
    scene = Sending()
    work = Work("send", Verb.SEND, 0x43, [b"a" * 50, b"b" * 200, b"c" * 50], 300)
    scene.post(work)
    assert scene.gather(1) == {
        "_piece": 1,
        "_piece_start": 58,
        "_position": 108,
        "current": "send",
        "in_flight": ["send"],
        "send_queue": [],
        "frames": [(132, None)],
        "built": 132,
        "pieces": [132],
    }
    assert scene.sent(132) == all_sent(132)
    assert scene.gather(1) == {
        "_piece_start": 166,
        "_position": 216,
        "frames": [(264, None)],
        "built": 264,
        "pieces": [132],
    }
    assert scene.sent(100) == {"pieces": [32], "sent": 232}
    assert scene.gather(1) == {}
    assert scene.sent(32) == all_sent(264)
    assert work.end == 0
    assert scene.gather(1) == {
        "_message_ended": True,
        "_msn": [2, 1, 77],
        "_piece": 3,
        "_piece_start": 0,
        "_position": 300,
        "current": None,
        "frames": [(372, None)],
        "built": 372,
        "pieces": [108],
    }
    assert work.end == 372
    assert scene.sent(107) == {"pieces": [1], "sent": 371}
    done = Completion("send", Verb.SEND, Status.SUCCESS, 300)
    assert scene.sent(1) == {"_completions": [done], "in_flight": []} | all_sent(372)
    data = b"a" * 50 + b"b" * 200 + b"c" * 50
    assert scene.stream == (
        fpdu(untagged(3, 0, 1, data[:108], last=False))
        + fpdu(untagged(3, 0, 1, data[108:216], offset=108, last=False))
        + fpdu(untagged(3, 0, 1, data[216:], offset=216))
    )


def test_the_record_while_a_write_of_two_pieces_goes_out() -> None:
    scene = Sending()
    work = Work("write", Verb.RDMA_WRITE, 0x40, [b"a" * 50, b"b" * 200], 250, 9, 5000)
    scene.post(work)
    assert scene.gather(1) == {
        "_piece": 1,
        "_piece_start": 62,
        "_position": 112,
        "current": "write",
        "in_flight": ["write"],
        "send_queue": [],
        "frames": [(132, None)],
        "built": 132,
        "pieces": [132],
    }
    assert scene.sent(132) == all_sent(132)
    assert scene.gather(1000) == {
        "_message_ended": True,
        "_piece": 2,
        "_piece_start": 0,
        "_position": 250,
        "current": None,
        "frames": [(264, None), (312, None)],
        "built": 312,
        "pieces": [132, 48],
    }
    assert work.end == 312
    done = Completion("write", Verb.RDMA_WRITE, Status.SUCCESS, 250)
    assert scene.sent(180) == {"_completions": [done], "in_flight": []} | all_sent(312)


def test_the_record_while_a_bulk_write_goes_out() -> None:
    scene = Sending()
    work = Work("write", Verb.RDMA_WRITE, 0x40, [bytes(600)], 600, 9, 5000)
    scene.post(work)
    assert scene.gather(300) == {
        "_position": 224,
        "current": "write",
        "in_flight": ["write"],
        "send_queue": [],
        "frames": [(132, None), (264, None)],
        "built": 264,
        "pieces": [16, 112, 4] * 2,
    }
    assert work.end == 0
    assert scene.sent(264) == all_sent(264)
    assert scene.gather(3000) == {
        "_message_ended": True,
        "_position": 600,
        "current": None,
        "frames": [(396, None), (528, None), (660, None), (720, None)],
        "built": 720,
        "pieces": [*[16, 112, 4] * 3, 16, 40, 4],
    }
    assert work.end == 720
    done = Completion("write", Verb.RDMA_WRITE, Status.SUCCESS, 600)
    assert scene.sent(456) == {"_completions": [done], "in_flight": []} | all_sent(720)


def test_the_record_of_reads_beyond_the_depth() -> None:
    scene = Sending()
    first, second = (ReadWork(wr, 0x41, octets, 9, 5000, 11, 6000) for wr, octets in (("one", 40), ("two", 30)))
    scene.post(first, second, Work("send", Verb.SEND, 0x43, [b"x"], 1))
    assert scene.gather(3000) == {
        "_message_ended": True,
        "_msn": [1, 2, 77],
        "in_flight": ["one"],
        "reads": ["one"],
        "send_queue": ["two", "send"],
        "frames": [(52, None)],
        "built": 52,
        "pieces": [20, 28, 4],
    }
    assert scene.sent(52) == all_sent(52)
    assert scene.gather(3000) == {}
    scene.asked(0)
    assert scene.gather(3000) == {"responses": [], "frames": [(72, None)], "built": 72, "pieces": [16, 4]}
    assert scene.sent(20) == all_sent(72)
    scene.sender.read_answered()
    one = Completion("one", Verb.RDMA_READ, Status.SUCCESS, 40)
    assert scene.watch.changes() == {"_completions": [one], "in_flight": [], "reads": []}
    assert scene.gather(3000) == {
        "_msn": [2, 3, 77],
        "in_flight": ["two", "send"],
        "reads": ["two"],
        "send_queue": [],
        "frames": [(124, None), (152, None)],
        "built": 152,
        "pieces": [20, 28, 4, 28],
    }
    assert scene.sent(80) == all_sent(152)
    scene.sender.read_answered()
    two = Completion("two", Verb.RDMA_READ, Status.SUCCESS, 30)
    told = Completion("send", Verb.SEND, Status.SUCCESS, 1)
    assert scene.watch.changes() == {"_completions": [one, two, told], "in_flight": [], "reads": []}
    assert scene.stream == (
        fpdu(read_request(1, 11, 6000, 40, 9, 5000))
        + fpdu(tagged(2, 4, 300))
        + fpdu(read_request(2, 11, 6000, 30, 9, 5000))
        + fpdu(untagged(3, 0, 1, b"x"))
    )


def test_the_record_while_responses_go_out() -> None:
    scene = Sending()
    scene.asked(250, 10)
    memory = bytes(scene.region.view[20:270])
    assert scene.gather(1) == {
        "_position": 112,
        "_responding": True,
        "_response_turn": False,
        "frames": [(132, (HANDLE, 250, 0))],
        "has_sources": True,
        "built": 132,
        "pieces": [16, 112, 4],
    }
    shows_none = {"has_sources": False}
    assert scene.sent(132) == all_sent(132) | shows_none
    assert scene.gather(1) == {
        "_position": 224,
        "frames": [(264, (HANDLE, 250, 112))],
        "has_sources": True,
        "built": 264,
        "pieces": [16, 112, 4],
    }
    second = fpdu(tagged(2, 4, 412, memory[112:224], last=False))
    assert scene.sent(30) == {"_digest": crc32c(second[:30]), "pieces": [98, 4], "sent": 162}
    assert scene.gather(1) == {}
    assert scene.sent(102) == all_sent(264) | shows_none | {"_digest": 0}
    assert scene.gather(1) == {
        "_message_ended": True,
        "_position": 250,
        "_responding": False,
        "responses": [10],
        "frames": [(312, (HANDLE, 250, 224))],
        "has_sources": True,
        "built": 312,
        "pieces": [16, 26, 6],
    }
    assert scene.sent(48) == all_sent(312) | shows_none
    assert scene.gather(1) == {
        "_position": 10,
        "responses": [],
        "frames": [(344, (HANDLE, 10, 0))],
        "has_sources": True,
        "built": 344,
        "pieces": [16, 10, 6],
    }
    assert scene.sent(32) == all_sent(344) | shows_none
    assert scene.stream == (
        fpdu(tagged(2, 4, 300, memory[:112], last=False))
        + second
        + fpdu(tagged(2, 4, 524, memory[224:]))
        + fpdu(tagged(2, 4, 300, memory[:10]))
    )


def test_the_record_while_a_response_with_markers_goes_out() -> None:
    scene = Sending(markers=True)
    scene.asked(250)
    for position, stream, octets, ended in ((112, 136, [4, 16, 112, 4], False), (224, 268, [16, 112, 4], False)):
        before = position - 112
        assert scene.gather(1) == {
            **({} if before else {"_responding": True, "_response_turn": False}),
            "_position": position,
            "_stream": stream,
            "frames": [(stream, (HANDLE, 250, before))],
            "has_sources": True,
            "built": stream,
            "pieces": octets,
        }
        assert scene.sender._message_ended is ended
        assert scene.sent(sum(octets)) == all_sent(stream) | {"has_sources": False}
    assert scene.gather(1) == {
        "_message_ended": True,
        "_position": 250,
        "_responding": False,
        "_stream": 316,
        "responses": [],
        "frames": [(316, (HANDLE, 250, 224))],
        "has_sources": True,
        "built": 316,
        "pieces": [16, 26, 2, 4],
    }


@each_case("markers", [False, True])
def test_the_record_of_an_end_in_the_middle(markers: bool) -> None:
    scene = Sending(markers=markers)
    front = 4 * markers
    scene.post(Work("send", Verb.SEND, 0x43, [bytes(100)] * 3, 300), Work("other", Verb.SEND, 0x43, [b"x"], 1))
    assert scene.gather(300)["built"] == 264 + front
    assert scene.sent(10 + front)["sent"] == 10 + front
    scene.sender.flush()
    flushed = [Completion(wr, Verb.SEND, Status.FLUSHED) for wr in ("send", "other")]
    assert scene.watch.changes() == {
        "_completions": flushed,
        "current": None,
        "in_flight": [],
        "open": False,
        "send_queue": [],
    }
    scene.sender.last_words(TerminateMessage(code=0x1202))
    said = len(terminate(0x1202))
    end = front + 132 + said
    changes = scene.watch.changes()
    assert changes.pop("pieces")[0] == 122
    # The position counts only with markers; without them it merely loses the second FPDU, which is dropped.
    assert changes == {
        "frames": [(end, None)],
        "start": 10 + front,
        "_stream": end if markers else -132,
        "built": end,
    }
    assert scene.sent(122 + said)["sent"] == end
    assert scene.stream[front + 132 :] == terminate(0x1202)


def test_the_record_of_a_sender_that_is_stopped() -> None:
    scene = Sending()
    scene.post(Work("send", Verb.SEND, 0x43, [bytes(100)] * 3, 300))
    scene.gather(1)
    scene.sent(10)
    scene.sender.stop()
    assert scene.watch.changes() == {"frames": [], "start": 10, "built": 10, "pieces": []}


@each_case(
    ("handle", "past", "status"),
    [
        (0x81828384, 0, Status.REMOTE_ACCESS),
        (0x81828384, 100, Status.REMOTE_ACCESS),
        (0x81828384, 101, Status.FLUSHED),
        (0x81828384, -1, Status.FLUSHED),
        (0x81828385, 0, Status.FLUSHED),
        (0x01828384, 0, Status.FLUSHED),
        # The offset of another octet of its eight.
        *((0x81828384, 1 << shift, Status.FLUSHED) for shift in range(8, 63, 8)),
    ],
)
def test_a_terminate_refuses_the_write_that_it_quotes(handle: int, past: int, status: Status) -> None:
    scene = Sending()
    offset = 0x8182838485868788
    send = Work("send", Verb.SEND, 0x43, [b"x"], 100, 0x81828384, offset)
    write = Work("write", Verb.RDMA_WRITE, 0x40, [bytes(100)], 100, 0x81828384, offset)
    scene.sender.in_flight += [send, write]
    scene.sender.refuse(TerminateMessage(code=0x1101, ddp_header=tagged(0, handle, offset + past)))
    assert (send.status, write.status) == (Status.FLUSHED, status)


def test_there_is_no_next_message_of_nothing() -> None:
    scene = Sending()
    assert scene.sender._next_message() is False
    assert scene.watch.changes() == {}
