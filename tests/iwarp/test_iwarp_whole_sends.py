"""A Send or Write of one segment has the same effect with receives of a pool and with receives of its own.

With the native module, the first of both is taken by it, the second by the receiver in Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from rpcrdma.iwarp import MpaRole
from rpcrdma.testing.joined_pair import whole
from rpcrdma.verbs import Access, ReceivePool, SoftwareProtectionDomain, Status, Verb
from support.cases import each_case
from support.raw_iwarp import RawPeer, completions_of, events_of, fpdu, tagged, untagged

HANDLE = 0x51


def raw_peer(*, shared: bool) -> tuple[RawPeer, bytearray]:
    """A connected queue pair with three receives of 64 octets, and memory of 64 that a peer may write."""
    bits = itertools.count(HANDLE)
    raw = RawPeer(MpaRole.RESPONDER, SoftwareProtectionDomain(lambda _: next(bits)), chunking=whole)
    memory = bytearray(64)
    assert raw.pd.register(memory, Access.REMOTE_WRITE).handle == HANDLE
    if shared:
        raw.qp.post_receives(3, ReceivePool(64))
    else:
        for _ in range(3):
            buffer = memoryview(bytearray(64))
            raw.qp.post_receive(buffer, buffer)
    raw.connect()
    raw.give(fpdu(tagged(0, 0, 0)))
    events_of(raw.qp)
    raw.take()
    return raw, memory


def outcome(octets: bytes, *, shared: bool) -> tuple[object, ...]:
    """Delivered and reported messages, the Terminate to the peer, and the state of the memory."""
    raw, memory = raw_peer(shared=shared)
    raw.give(octets)
    delivered = [
        (bytes(completion.wr[: completion.length]), completion.invalidated)
        for completion in completions_of(raw.qp)
        if completion.verb is Verb.RECEIVE and completion.status is Status.SUCCESS
    ]
    return delivered, events_of(raw.qp), raw.take(), bytes(memory), sorted(raw.pd.regions)


def frames() -> Iterator[tuple[str, bytes]]:
    text = b"a Send"
    for opcode in range(16):
        yield f"opcode {opcode}", untagged(opcode, 0, 1, text, invalidate=HANDLE)
    for queue, msn in ((0, 0), (0, 2), (0, 0xFFFFFFFF), (1, 1), (2, 1), (3, 1), (1, 0), (0xFFFFFFFF, 1)):
        yield f"message {msn} of queue {queue}", untagged(3, queue, msn, text)
    for offset in (1, 4, 0xFFFFFFFF):
        yield f"offset {offset}", untagged(3, 0, 1, text, offset=offset)
    for invalidate in (0, 1, HANDLE, HANDLE + 1):
        yield f"invalidate {invalidate}", untagged(4, 0, 1, text, invalidate=invalidate)
    # Behind a first half.
    yield "another opcode", untagged(5, 0, 1, text, offset=4)
    yield "another handle", untagged(3, 0, 1, text, offset=4, invalidate=1)
    yield "DDP version 2", untagged(3, 0, 1, text, ddp_version=2)
    yield "RDMAP version 2", untagged(3, 0, 1, text, rdmap_version=2)
    yield "not the last", untagged(3, 0, 1, text, last=False)
    for length in (0, 1, 63, 64, 65, 600):
        yield f"{length} octets", untagged(3, 0, 1, bytes(range(256))[:64].ljust(length, b"z")[:length])
    for length in (0, 1, 64, 65):
        yield f"Write of {length}", tagged(0, HANDLE, 0, b"\x07" * length)
    yield "Write elsewhere", tagged(0, HANDLE + 9, 0, text)
    yield "Write behind", tagged(0, HANDLE, 60, text)
    yield "Write that goes on", tagged(0, HANDLE, 0, text, last=False)
    yield "Read Response", tagged(2, HANDLE, 0, text)


FRAMES = dict(frames())


@pytest.mark.req("DDP-4", "DDP-5", "DDP-8", "DDP-11", "DDP-16", "RD-10")
@each_case(
    "before",
    [
        b"",
        # The number of the first message does for the second no more.
        fpdu(untagged(3, 0, 1, b"first")),
        fpdu(untagged(3, 0, 1, b"half", last=False)),
        fpdu(tagged(0, HANDLE, 0, b"half", last=False)),
    ],
)
def test_a_segment_has_the_same_effect_whatever_came_before(before: bytes) -> None:
    for frame in FRAMES.values():
        octets = before + fpdu(frame)
        assert outcome(octets, shared=True) == outcome(octets, shared=False)


@pytest.mark.req("MPA-4", "MPA-18")
def test_the_scene_lets_messages_through() -> None:
    delivered, ended, told, memory, handles = outcome(fpdu(FRAMES["opcode 4"]), shared=True)
    assert (delivered, ended, told, memory) == ([(b"a Send", HANDLE)], [], b"", bytes(64))
    assert handles == []
    assert outcome(fpdu(FRAMES["Write of 64"]), shared=True) == ([], [], b"", b"\x07" * 64, [HANDLE])


@pytest.mark.req("RD-9", "DDP-16")
def test_no_more_messages_than_receives() -> None:
    octets = b"".join(fpdu(untagged(3, 0, number, b"x")) for number in range(1, 5))
    found = outcome(octets, shared=True)
    assert found == outcome(octets, shared=False)
    assert len(found[0]) == 3
    assert found[1], "the fourth one breaks the connection"
