"""The native step and Python do the same: streams of FPDUs, valid and damaged, cut at random places, go to both."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.iwarp import IwarpConfig, MpaRole
from rpcrdma.verbs.memory import Access, SoftwareProtectionDomain
from rpcrdma.verbs.receive_pool import ReceivePool
from rpcrdma.wire.native import DATA_PATH, native
from support.raw_iwarp import RawPeer, completions_of, events_of, fpdu, read_request, tagged, untagged

pytestmark = [pytest.mark.in_python, pytest.mark.skipif(native is None, reason=DATA_PATH)]

REGION_OCTETS = 20_000
REGIONS = 3
DEPTH = 2


class Pool(ReceivePool):
    """Buffers of 3,000 octets; messages beyond 40 come in one of them, and beyond 1,000 in one of another kind."""

    def __init__(self) -> None:
        super().__init__(3000)
        self.plain_octets = 40
        self.short_octets = 1000


class End:
    """One end that receives, with memory that peers reach, and RDMA Reads of its own that are not answered."""

    def __init__(self, *, natively: bool, crc: bool) -> None:
        generator = random.Random(5)
        self.pd = SoftwareProtectionDomain(generator.getrandbits)
        config = IwarpConfig(crc=crc, inbound_reads=DEPTH, outbound_reads=8)
        self.raw = RawPeer(MpaRole.RESPONDER, self.pd, config, natively=natively)
        self.raw.connect(crc=crc)
        self.memory = [bytearray(REGION_OCTETS) for _ in range(REGIONS)]
        rights = (Access.REMOTE_WRITE, Access.REMOTE_READ, Access.REMOTE_WRITE)
        self.regions = [self.pd.register(memory, access) for memory, access in zip(self.memory, rights, strict=True)]
        self.qp = self.raw.qp
        self.qp.post_receives(6, Pool())
        self.raw.give(fpdu(tagged(0, 1, 0), crc=crc))
        sink = self.regions[2]
        self.qp.post_read("first", sink, 100, 5000, 7, 0)
        self.qp.post_read("second", sink, 6000, 40, 7, 0)
        self.raw.take()
        receiver = self.qp.native_receiver
        assert natively == (receiver is not None and receiver.frames is not None)

    def visible(self) -> dict[str, Any]:
        """All that the upper layer and the peer can see."""
        delivered = [
            (bytes(each.wr[: each.length]) if isinstance(each.wr, bytes | memoryview) else each.wr, *each[1:])
            for each in completions_of(self.qp)
        ]
        return {
            "delivered": delivered,
            "events": events_of(self.qp),
            "state": self.qp.state,
            "sent": self.raw.take(),
            "memory": list(map(bytes, self.memory)),
            "regions": sorted(self.pd.regions),
            "wants_close": self.qp.wants_close,
        }


def segments(draw: Any, end: End) -> list[bytes]:
    """FPDUs, most of them valid: each entry is one."""
    write, read, sink = end.regions
    frames: list[bytes] = []
    numbers = [1, 1]
    sink_filled = 0
    make = partial(fpdu, crc=end.qp.crc)
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["write", "write", "send", "send", "read", "response", "odd"]))
        if kind == "write":
            start = draw(st.integers(0, REGION_OCTETS))
            total = draw(st.sampled_from([0, 1, 3, 60, 1000, 5000, 12_000, REGION_OCTETS - start]))
            payload = draw(st.integers(1, 255)).to_bytes(1, "big") * total
            step = draw(st.sampled_from([total or 1, 1400, 5000]))
            for offset in range(0, max(total, 1), step):
                part = payload[offset : offset + step]
                last = offset + step >= total
                frames.append(make(tagged(0, write.handle, write.offset + start + offset, part, last=last)))
        elif kind == "send":
            total = draw(st.sampled_from([0, 1, 40, 41, 500, 1000, 1001, 2999, 3000, 3001]))
            payload = bytes(range(256)) * 12
            step = draw(st.sampled_from([total or 1, 30, 700]))
            opcode = draw(st.sampled_from([3, 3, 3, 4, 5, 6]))
            handle = draw(st.sampled_from([read.handle, read.handle, 99])) if opcode in {4, 6} else 0
            for offset in range(0, max(total, 1), step):
                part = payload[offset : min(offset + step, total)]
                last = offset + step >= total
                segment = untagged(opcode, 0, numbers[0], part, offset=offset, last=last, invalidate=handle)
                frames.append(make(segment))
            numbers[0] += 1
        elif kind == "read":
            offset = read.offset + draw(st.sampled_from([0, 10, REGION_OCTETS - 50, REGION_OCTETS]))
            octets = draw(st.sampled_from([0, 1, 50, 51]))
            frames.append(make(read_request(numbers[1], 5, 0, octets, read.handle, offset)))
            numbers[1] += 1
        elif kind == "response":
            octets = draw(st.sampled_from([5000, 5000, 1700, 1]))
            part = bytes([7]) * octets
            last = sink_filled + octets == 5000
            frames.append(make(tagged(2, sink.handle, sink.offset + 100 + sink_filled, part, last=last)))
            sink_filled += octets
        else:
            odd = draw(st.sampled_from([b"", bytes(13), bytes(17), tagged(1, 1, 0), untagged(7, 2, 1, bytes(4))]))
            frames.append(make(odd))
    return frames


@given(st.data(), st.booleans())
def test_both_receivers_take_a_stream_in_the_same_way(data: st.DataObject, crc: bool) -> None:
    ends = [End(natively=natively, crc=crc) for natively in (False, True)]
    stream = bytearray(b"".join(segments(data.draw, ends[0])))
    if data.draw(st.booleans(), "damaged"):
        place = data.draw(st.integers(0, len(stream) - 1), "place")
        stream[place] ^= data.draw(st.integers(1, 255), "flaw")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6), "cuts"))
    withdrawn = data.draw(st.sampled_from([None, None, "invalidate", "abandon"]), "withdrawn")
    after = data.draw(st.integers(0, len(cuts)), "after")
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(stream)], strict=True)):
        for end in ends:
            if number == after and withdrawn:
                getattr(end.pd, withdrawn)(end.regions[0])
            if start < stop:
                end.raw.give(stream[start:stop])
        python, natively = (end.visible() for end in ends)
        assert natively == python
    for end in ends:
        end.qp.end_of_stream()
    assert ends[1].visible() == ends[0].visible()


def sent_octets(end: RawPeer, room: int, draw: Any) -> bytes:
    """All octets that the native step sends through a socket with little room, read in pieces of random sizes."""
    assert native is not None
    ours, theirs = socket.socketpair()
    taken = bytearray()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
        ours.setblocking(False)
        theirs.setblocking(False)
        send = partial(native.send, ours.fileno())
        for _ in range(10_000):
            sent = end.qp.send(send)
            if sent is None:
                gather = end.qp.next_gather(1 << 17)
                octets = 0
                with contextlib.suppress(BlockingIOError):
                    octets = ours.sendmsg(gather) if gather else 0
                if octets:
                    end.qp.bytes_sent(octets)
                elif not gather:
                    sent = True
            read = 0
            with contextlib.suppress(BlockingIOError):
                read = len(data := theirs.recv(draw(st.sampled_from([1, 100, 5000, 1 << 20]))))
                taken += data
            if sent and not read:
                return bytes(taken)
    raise AssertionError("the queue pair sends without an end")


def without_cuts(stream: bytes, crc: bool) -> list[tuple[bytes, bytes]]:
    """The messages of a stream: their headers without length, L bit, offset and number, and their payload."""
    messages: list[tuple[bytes, bytes]] = []
    position, opened = 0, False
    while position < len(stream):
        length = int.from_bytes(stream[position : position + 2], "big")
        end = position + (length + 5 & ~3) + 4
        frame = stream[position:end]
        assert frame == fpdu(frame[2 : length + 2], crc=crc)
        head = 16 if frame[2] & 0x80 else 20
        header, payload = frame[3:8], frame[head : length + 2]
        place = frame[8:head]
        if opened:
            assert messages[-1][0][:5] == header
            messages[-1] = messages[-1][0], messages[-1][1] + payload
            # The message goes on where it was left.
            start = int.from_bytes(messages[-1][0][5:][-8 if head == 16 else -4 :], "big")
            there = int.from_bytes(place[-8 if head == 16 else -4 :], "big")
            assert there == start + len(messages[-1][1]) - len(payload)
        else:
            messages.append((header + place, payload))
        opened = not frame[2] & 0x40
        position = end
    assert not opened
    return messages


@given(st.data(), st.booleans(), st.sampled_from([1460, 9000, 65_000]))
def test_both_senders_send_the_same_messages(data: st.DataObject, crc: bool, emss: int) -> None:
    streams: list[bytes] = []
    told: list[Any] = []
    posted = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["send", "invalidate", "write", "read", "asked"]),
                st.lists(st.sampled_from([0, 1, 3, 100, 600, 5000, 70_000]), max_size=4),
                st.booleans(),
            ),
            min_size=1,
            max_size=12,
        )
    )
    for natively in (False, True):
        pd = SoftwareProtectionDomain(random.Random(3).getrandbits)
        raw = RawPeer(MpaRole.RESPONDER, pd, IwarpConfig(crc=crc, outbound_reads=3), emss=emss, natively=natively)
        raw.connect(crc=crc)
        raw.give(fpdu(tagged(0, 1, 0), crc=crc))
        source = pd.register(bytes(range(256)) * 400, Access.REMOTE_READ)
        asked = 0
        for number, (kind, sizes, signaled) in enumerate(posted):
            gather = [bytes([number + 1]) * size for size in sizes]
            if kind == "write":
                raw.qp.post_write(number, gather, 7, 1 << 40, signaled=signaled)
            elif kind == "read":
                raw.qp.post_read(number, pd.register(bytearray(99), Access.REMOTE_WRITE), 0, 99, 8, 5)
            elif kind == "asked":
                asked += 1
                octets = min(sum(sizes), source.length)
                raw.give(fpdu(read_request(asked, 9, 1 << 50, octets, source.handle, source.offset), crc=crc))
            else:
                raw.qp.post_send(number, gather, invalidate=5 if kind == "invalidate" else None, signaled=signaled)
        sent = sent_octets(raw, data.draw(st.sampled_from([1, 30_000, 1 << 20])), data.draw) if natively else raw.take()
        streams.append(sent)
        told.append((completions_of(raw.qp), events_of(raw.qp), raw.qp.state))
    python, natively_sent = (without_cuts(stream, crc) for stream in streams)
    assert natively_sent == python
    assert told[1] == told[0]


def test_a_broken_connection_is_an_error_of_the_socket() -> None:
    assert native is not None
    ours, theirs = socket.socketpair()
    end = RawPeer(MpaRole.RESPONDER, SoftwareProtectionDomain(random.Random(3).getrandbits), natively=True)
    end.connect()
    end.give(fpdu(tagged(0, 1, 0)))
    end.qp.post_send(1, [b"x"])
    theirs.close()
    with ours, pytest.raises(BrokenPipeError):
        end.qp.send(partial(native.send, ours.fileno()))
    receiver = native.Receiver({}, [], [], [])
    descriptor = os.open("/", os.O_RDONLY)
    with pytest.raises(OSError, match="socket") as raised:
        receiver.receive(descriptor, 1)
    os.close(descriptor)
    assert raised.value.errno == errno.ENOTSOCK
