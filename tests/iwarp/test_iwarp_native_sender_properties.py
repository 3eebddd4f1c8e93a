"""The native module sends the messages that Python sends, through sockets that take little at a time."""

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
from rpcrdma.iwarp.segments import READ_RESPONSE, SEND
from rpcrdma.verbs.protection_domain import Access, SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Status
from rpcrdma.wire.native import DATA_PATH, native
from support.raw_iwarp import (
    RawPeer,
    completions_of,
    end_of,
    events_of,
    fpdu,
    read_request,
    tagged,
    terminate,
    untagged,
)

CALLS = 20
MIDDLE_OCTETS = 1 << 13
LOOPBACK_EMSS = 65_483
FPDU_OCTETS = 2 + 18 + 1000 + 4
"""Those of a Send of 1000 octets: length, header, payload and CRC."""

pytestmark = [pytest.mark.in_python, pytest.mark.skipif(native is None, reason=DATA_PATH)]


def sent_octets(end: RawPeer, room: int, draw: Any) -> bytes:
    """All octets that the native module sends through a socket with little room, read in pieces of random sizes."""
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


def test_messages_of_several_calls_leave_in_one_system_call() -> None:
    """Whose octets a socket of messages keeps apart from those of the next one."""
    assert native is not None
    pd = SoftwareProtectionDomain(random.Random(3).getrandbits)
    end = RawPeer(MpaRole.RESPONDER, pd, emss=LOOPBACK_EMSS, natively=True)
    end.connect()
    end.give(fpdu(tagged(0, 1, 0)))
    for _ in range(CALLS):
        end.qp.post_write(None, [bytes(MIDDLE_OCTETS)], 7, 1 << 40, signaled=False)
        end.qp.post_send(None, [bytes(100)], signaled=False)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert end.qp.send(partial(native.send, ours.fileno())) is True
        sent = theirs.recv(1 << 20)
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
    assert len(without_cuts(sent, crc=True)) == 2 * CALLS


def test_unsignaled_work_that_is_not_sent_whole_has_a_completion_when_the_connection_ends() -> None:
    told = []
    for natively in (False, True):
        end = RawPeer(MpaRole.RESPONDER, SoftwareProtectionDomain(random.Random(3).getrandbits), natively=natively)
        end.connect()
        end.give(fpdu(tagged(0, 1, 0)))
        for number in range(2):
            end.qp.post_send(number, [bytes(1000)], signaled=False)
        if natively:

            def takes_but_an_octet(messages: list[Any], *_: object) -> tuple[int, int, int, bytes]:
                return len(messages), 0, 2 * FPDU_OCTETS, b"-"

            assert end.qp.send(takes_but_an_octet) is False
        else:
            assert sum(map(len, end.qp.next_gather(1 << 17))) == 2 * FPDU_OCTETS
            end.qp.bytes_sent(2 * FPDU_OCTETS - 1)
        end.qp.abort("enough")
        told.append([(each.wr, each.status) for each in completions_of(end.qp)])
    assert told == [[(1, Status.FLUSHED)]] * 2


def test_a_terminate_follows_the_rest_of_the_frame_under_way() -> None:
    end = RawPeer(MpaRole.RESPONDER, SoftwareProtectionDomain(random.Random(3).getrandbits), natively=True)
    end.connect()
    end.give(fpdu(tagged(0, 1, 0)))
    end.qp.post_send(1, [bytes(1000)])
    assert end.qp.send(lambda messages, *_: (len(messages), 0, FPDU_OCTETS, b"rest")) is False
    end.give(fpdu(untagged(3, 0, 1)))
    assert end.take() == b"rest" + terminate(0x1202, untagged(3, 0, 1))


def test_a_due_read_response_goes_first_and_takes_turns_with_posted_work() -> None:
    pd = SoftwareProtectionDomain(random.Random(3).getrandbits)
    end = RawPeer(MpaRole.RESPONDER, pd, natively=True)
    end.connect()
    end.give(fpdu(tagged(0, 1, 0)))
    source = pd.register(bytes(8), Access.REMOTE_READ)
    for number in (1, 2):
        end.give(fpdu(read_request(number, 9, 0, 8, source.handle, source.offset)))
        end.qp.post_send(number, [bytes(1000)])
    turns: list[list[int]] = []

    def takes_one(messages: list[Any], *_: object) -> tuple[int, int, int, bytes | None]:
        turns.append([message.control for message in messages])
        return 1, 0, 100, b"-"

    for _ in range(3):
        assert end.qp.send(takes_one) is False
        end.take()
    assert turns == [
        [READ_RESPONSE, SEND, READ_RESPONSE, SEND],
        [SEND, READ_RESPONSE, SEND],
        [READ_RESPONSE, SEND],
    ]


def test_memory_withdrawn_behind_a_begun_response_ends_the_connection_with_a_terminate() -> None:
    pd = SoftwareProtectionDomain(random.Random(3).getrandbits)
    end = RawPeer(MpaRole.RESPONDER, pd, natively=True)
    end.connect()
    end.give(fpdu(tagged(0, 1, 0)))
    first, second = (pd.register(bytes(length), Access.REMOTE_READ) for length in (5000, 8))
    end.give(fpdu(read_request(1, 9, 0, 5000, first.handle, first.offset)))
    request = read_request(2, 9, 0, 8, second.handle, second.offset)
    end.give(fpdu(request))
    assert end.qp.send(lambda *_: (0, 1000, 1000, b"")) is False
    events_of(end.qp)
    pd.invalidate(second)
    assert end.qp.send(lambda *_: (0, 0, 0, None)) is None
    assert end.take() == terminate(0x0100, request, read_header=True)
    assert "memory was withdrawn during an RDMA Read" in end_of(end.qp).reason


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
    receiver = native.Receiver({}, [], [], [], lambda: None)
    descriptor = os.open("/", os.O_RDONLY)
    with pytest.raises(OSError, match="socket") as raised:
        receiver.receive(descriptor, 1)
    os.close(descriptor)
    assert raised.value.errno == errno.ENOTSOCK
