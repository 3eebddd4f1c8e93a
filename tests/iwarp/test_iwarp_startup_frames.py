"""MPA start-up frames against the golden vectors, and the agreement of two of them."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.errors import DecodeError, RemoteProtocolError
from rpcrdma.iwarp.config import IwarpConfig, ReadyFrame
from rpcrdma.iwarp.startup import (
    NOT_NEGOTIATED,
    Enhanced,
    FrameKind,
    MpaAgreement,
    StartupFrame,
    StartupRefused,
    answer,
    ask,
    conclude,
    decode_startup_frame,
    encode_startup_frame,
    size_startup_frame,
)
from rpcrdma.iwarp.terminate import Code
from support.cases import each_case
from support.raw_iwarp import startup_frame

pytestmark = pytest.mark.in_python

VECTORS = tomllib.loads((Path(__file__).parents[1] / "vectors/iwarp/frames.toml").read_text())["startup"]
ALL = ReadyFrame.SEND | ReadyFrame.WRITE | ReadyFrame.READ
NONE = ReadyFrame(0)


def frame_of(vector: dict[str, Any]) -> StartupFrame:
    enhanced = vector.get("enhanced")
    return StartupFrame(
        kind=FrameKind[vector["kind"]],
        revision=2 if enhanced or "revision 2" in vector["name"] else 1,
        markers=vector.get("markers", False),
        crc=vector["crc"],
        reject=vector.get("reject", False),
        enhanced=enhanced and Enhanced(*enhanced[:3], ReadyFrame(enhanced[3])),
        private_data=bytes.fromhex(vector["private_data"]),
    )


@pytest.mark.req("MPA-32", "MPA-35", "EM-3", "EM-4", "MPA-36", "MPA-44")
@each_case("vector", VECTORS)
def test_frames_are_the_golden_octets_and_only_whole_ones_decode(vector: dict[str, Any]) -> None:
    octets, kind = bytes.fromhex(vector["hex"]), FrameKind[vector["kind"]]
    assert encode_startup_frame(frame_of(vector)) == octets
    assert decode_startup_frame(kind, octets) == frame_of(vector)
    with pytest.raises(DecodeError):
        decode_startup_frame(kind, octets + b"x")
    for length in range(len(octets)):
        assert size_startup_frame(kind, octets[:length]) > length
        with pytest.raises(DecodeError):
            decode_startup_frame(kind, octets[:length])


@pytest.mark.req("MPA-43", "MPA-42")
@each_case("kind", list(FrameKind))
def test_two_of_the_same_role_are_told_apart_by_the_key(kind: FrameKind) -> None:
    other = kind.other.value
    assert size_startup_frame(kind, other[:15]) == 20
    with pytest.raises(RemoteProtocolError, match="both sides are MPA"):
        size_startup_frame(kind, other)


@pytest.mark.req("MPA-35")
@each_case("revision", [0, 3, 255])
def test_other_revisions_are_incompatible(revision: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"revision {revision}"):
        size_startup_frame(FrameKind.REQUEST, startup_frame("Req", 0x40, revision)[:18])


@pytest.mark.req("EM-2")
def test_reserved_bits_are_not_looked_at() -> None:
    frame = decode_startup_frame(FrameKind.REQUEST, startup_frame("Req", 0x3F, 1, b"ab"))
    assert frame == StartupFrame(kind=FrameKind.REQUEST, revision=1, private_data=b"ab")


@pytest.mark.req("EM-13", "EM-4")
@each_case("kind", list(FrameKind))
def test_each_bit_of_the_words_has_its_meaning(kind: FrameKind) -> None:
    for bits in range(16):
        peer_to_peer = bool(bits & 8)
        frames = ReadyFrame(bits & 7)
        # Depths in which each of the 14 bits is set once.
        first = 0x2AAA | 0x8000 * peer_to_peer | 0x4000 * bool(bits & ReadyFrame.SEND)
        second = 0x1555 | 0x8000 * bool(bits & ReadyFrame.WRITE) | 0x4000 * bool(bits & ReadyFrame.READ)
        octets = startup_frame(kind.name[:3].title(), 0x50, 2, first.to_bytes(2, "big") + second.to_bytes(2, "big"))
        enhanced = Enhanced(0x2AAA, 0x1555, peer_to_peer, frames if peer_to_peer else NONE)
        assert decode_startup_frame(kind, octets) == StartupFrame(kind=kind, revision=2, crc=True, enhanced=enhanced)
        told = Enhanced(0x2AAA, 0x1555, peer_to_peer, frames)
        assert encode_startup_frame(StartupFrame(kind=kind, revision=2, crc=True, enhanced=told)) == octets


def frame(
    kind: FrameKind, enhanced: Enhanced | None, *, crc: bool = False, markers: bool = False, revision: int = 2
) -> StartupFrame:
    return StartupFrame(kind=kind, revision=revision, crc=crc, markers=markers, enhanced=enhanced)


request, reply = (functools.partial(frame, kind) for kind in FrameKind)


@pytest.mark.req("MPA-34", "MPA-22", "MPA-23", "MPA-20")
@each_case("mine", [False, True])
@each_case("peers", [False, True])
def test_either_side_turns_the_crc_on(mine: bool, peers: bool) -> None:
    config = IwarpConfig(crc=mine)
    told, agreed = answer(request(None, crc=peers), config, b"")
    assert told.crc == agreed.crc == (mine or peers)
    asked = ask(config, b"")
    assert asked.crc == mine
    assert conclude(asked, reply(Enhanced(1, 1), crc=peers), config).crc == (mine or peers)


@pytest.mark.req("EM-6", "EM-9", "EM-15")
@each_case(
    ("asked", "told", "inbound", "outbound"),
    [
        ((8, 4), (4, 8), 4, 8),
        ((128, 0), (0, 32), 0, 32),
        ((0, 64), (32, 0), 32, 0),
        ((NOT_NEGOTIATED, 5), (5, NOT_NEGOTIATED), 5, 32),
        ((5, NOT_NEGOTIATED), (NOT_NEGOTIATED, 5), 32, 5),
        ((NOT_NEGOTIATED, NOT_NEGOTIATED), (NOT_NEGOTIATED, NOT_NEGOTIATED), 32, 32),
    ],
)
def test_a_responder_fits_its_read_depths_to_the_initiators(
    asked: tuple[int, int], told: tuple[int, int], inbound: int, outbound: int
) -> None:
    frame, agreed = answer(request(Enhanced(*asked)), IwarpConfig(), b"")
    assert frame.enhanced == Enhanced(*told)
    assert agreed == MpaAgreement(True, False, inbound, outbound, None)


@pytest.mark.req("EM-10")
@each_case(
    ("frames", "slots"),
    [
        (ReadyFrame.WRITE | ReadyFrame.READ, 1),
        (ReadyFrame.READ, 1),
        (ReadyFrame.SEND, 0),
        (ReadyFrame.WRITE, 0),
        (ReadyFrame.SEND | ReadyFrame.WRITE, 0),
    ],
)
def test_peer_to_peer_requests_offer_what_is_supported(frames: ReadyFrame, slots: int) -> None:
    config = IwarpConfig(peer_to_peer=True, ready_frames=frames, outbound_reads=0)
    # An RTR frame that is a Read takes a slot.
    assert ask(config, b"").enhanced == Enhanced(32, slots, True, frames)


@pytest.mark.req("EM-13", "EM-16", "MPA-19")
def test_plain_requests_ask_for_crcs_and_nothing_else() -> None:
    asked = ask(IwarpConfig(), b"")
    assert (asked.crc, asked.markers, asked.enhanced) == (True, False, Enhanced(32, 32, False, NONE))
    frame = ask(IwarpConfig(enhanced=False), b"")
    assert (frame.revision, frame.enhanced) == (1, None)


@pytest.mark.req("EM-11")
@each_case(
    ("offered", "supported", "chosen"),
    [
        (ALL, ALL, ReadyFrame.WRITE),
        (ReadyFrame.READ | ReadyFrame.SEND, ALL, ReadyFrame.READ),
        (ReadyFrame.SEND, ALL, ReadyFrame.SEND),
        (ALL, ReadyFrame.SEND, ReadyFrame.SEND),
        (ReadyFrame.READ, ReadyFrame.SEND, ReadyFrame.SEND),
    ],
)
def test_a_responder_repeats_a_and_chooses_one_rtr_frame(
    offered: ReadyFrame, supported: ReadyFrame, chosen: ReadyFrame
) -> None:
    frame, agreed = answer(request(Enhanced(1, 0, True, offered)), IwarpConfig(ready_frames=supported), b"")
    # The RTR frame that is a Read needs a slot, for any requested depth.
    assert frame.enhanced == Enhanced(int(chosen is ReadyFrame.READ), 1, True, chosen)
    assert agreed.ready_frame is chosen


def test_an_initiator_that_reads_nothing_keeps_one_slot_for_the_rtr_frame() -> None:
    config = IwarpConfig(peer_to_peer=True, outbound_reads=0, ready_frames=ReadyFrame.READ)
    agreed = conclude(ask(config, b""), reply(Enhanced(5, 1, True, ReadyFrame.READ)), config)
    assert (agreed.inbound_reads, agreed.outbound_reads) == (1, 1)


@pytest.mark.req("EM-8", "EM-12")
@each_case(
    ("told", "code"),
    [
        (Enhanced(1, 33, True, ReadyFrame.READ), Code.INSUFFICIENT_IRD),
        (Enhanced(1, 1, True, ReadyFrame.SEND), Code.NO_MATCHING_RTR),
        (Enhanced(1, 1), Code.NO_MATCHING_RTR),
        (Enhanced(0, 1, True, ReadyFrame.READ), Code.INSUFFICIENT_IRD),
    ],
)
def test_an_initiator_refuses_reads_and_rtr_frames_beyond_its_means(told: Enhanced, code: Code) -> None:
    config = IwarpConfig(peer_to_peer=True, ready_frames=ReadyFrame.READ)
    with pytest.raises(StartupRefused) as caught:
        conclude(ask(config, b""), reply(told), config)
    assert caught.value.code is code


@pytest.mark.req("EM-15")
@each_case(
    ("enhanced", "told"),
    [(True, reply(None)), (True, reply(None, revision=1)), (False, reply(Enhanced(1, 1))), (False, reply(None))],
)
def test_replies_that_do_not_match_the_request_are_refused(enhanced: bool, told: StartupFrame) -> None:
    config = IwarpConfig(enhanced=enhanced)
    with pytest.raises(RemoteProtocolError, match="does not match"):
        conclude(ask(config, b""), told, config)


def test_plain_replies_leave_one_read() -> None:
    config = IwarpConfig(enhanced=False)
    assert conclude(ask(config, b""), reply(None, revision=1), config) == MpaAgreement(True, False, 32, 1, None)
