"""Start-up of a queue pair against a peer made of octets: the allowed frames at each moment."""

from __future__ import annotations

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.iwarp import IwarpConfig, MpaRole, ReadyFrame
from rpcrdma.testing.joined_pair import Chunking, byte_by_byte, whole
from rpcrdma.verbs import (
    Access,
    Completion,
    ConnectRequested,
    Disconnected,
    Established,
    MemoryRegion,
    ReceivePool,
    SoftwareProtectionDomain,
    Status,
    Verb,
)
from support.cases import each_case
from support.draws import draws
from support.raw_iwarp import (
    RawPeer,
    completions_of,
    end_of,
    events_of,
    fpdu,
    read_request,
    startup_frame,
    tagged,
    untagged,
)

WORDS = bytes.fromhex("00200020")
both_cuts = each_case("chunking", [whole, byte_by_byte])
SEND_X = fpdu(untagged(3, 0, 1, b"x"))


def peer(
    role: MpaRole, config: IwarpConfig | None = None, *, chunking: Chunking = whole, private_data: bytes = b""
) -> RawPeer:
    return RawPeer(role, SoftwareProtectionDomain(draws()), config, chunking=chunking, private_data=private_data)


def accepting(words: str | bytes = WORDS, config: IwarpConfig | None = None) -> RawPeer:
    """A responder that has accepted a request with these depths and sent its reply."""
    raw = peer(MpaRole.RESPONDER, config)
    raw.give(startup_frame("Req", 0x50, 2, bytes.fromhex(words) if isinstance(words, str) else words))
    events_of(raw.qp)
    raw.qp.accept(b"")
    raw.take()
    return raw


def assert_broken(raw: RawPeer, reason: str) -> None:
    event = end_of(raw.qp)
    assert reason in event.reason
    assert (event.by_peer, event.protocol_error, raw.take(), raw.qp.wants_close) == (True, True, b"", True)


@pytest.mark.req("MPA-37", "MPA-40", "MPA-31", "EM-5", "MPA-46", "EM-2")
@both_cuts
def test_an_initiator_asks_and_is_connected_by_the_reply(chunking: Chunking) -> None:
    raw = peer(MpaRole.INITIATOR, private_data=b"mine", chunking=chunking)
    assert raw.take() == startup_frame("Req", 0x50, 2, WORDS + b"mine")
    raw.qp.post_send(1, [b"early"])
    assert raw.take() == b""
    raw.give(startup_frame("Rep", 0x50, 2, bytes.fromhex("00070005") + b"yours"))
    # Its inbound depth is the one that the peer will use.
    assert events_of(raw.qp) == [Established(private_data=b"yours", inbound_reads=5, outbound_reads=7)]
    assert (raw.qp.inbound_reads, raw.qp.outbound_reads, raw.qp.crc) == (5, 7, True)
    assert raw.take() == fpdu(untagged(3, 0, 1, b"early"))
    assert completions_of(raw.qp) == [Completion(1, Verb.SEND, Status.SUCCESS, 5)]


@pytest.mark.req("MPA-38", "MPA-39", "MPA-41", "MPA-31", "EM-5")
@both_cuts
def test_a_responder_answers_and_is_silent_until_the_first_frame(chunking: Chunking) -> None:
    raw = peer(MpaRole.RESPONDER, chunking=chunking)
    assert raw.take() == b""
    raw.give(startup_frame("Req", 0x50, 2, bytes.fromhex("00070005") + b"mine"))
    assert events_of(raw.qp) == [ConnectRequested(private_data=b"mine")]
    assert raw.take() == b""
    raw.qp.post_receive("in", memoryview(bytearray(8)))
    raw.qp.post_send("out", [b"reply"])
    raw.qp.accept(b"yours")
    assert events_of(raw.qp) == []
    assert raw.take() == startup_frame("Rep", 0x50, 2, bytes.fromhex("00050007") + b"yours")
    assert events_of(raw.qp) == [Established(private_data=b"mine", inbound_reads=5, outbound_reads=7)]
    assert raw.take() == b""
    raw.give(SEND_X)
    assert raw.take() == fpdu(untagged(3, 0, 1, b"reply"))
    assert [c.wr for c in completions_of(raw.qp)] == ["in", "out"]


@pytest.mark.req("EM-2", "EM-15")
def test_a_request_of_revision_1_gets_a_reply_of_revision_1() -> None:
    raw = peer(MpaRole.RESPONDER, IwarpConfig(crc=False))
    raw.give(startup_frame("Req", 0x00, 1, b"old"))
    assert events_of(raw.qp) == [ConnectRequested(private_data=b"old")]
    raw.qp.accept(b"new")
    assert raw.take() == startup_frame("Rep", 0x00, 1, b"new")
    assert events_of(raw.qp) == [Established(private_data=b"old", inbound_reads=32, outbound_reads=1)]
    assert not raw.qp.crc


@pytest.mark.req("EM-15")
def test_a_responder_with_enhanced_setup_off_closes_on_an_enhanced_request() -> None:
    raw = peer(MpaRole.RESPONDER, IwarpConfig(enhanced=False))
    raw.give(startup_frame("Req", 0x50, 2, WORDS))
    assert_broken(raw, "enhanced")


@pytest.mark.req("EM-16")
def test_an_initiator_without_enhanced_setup_speaks_revision_1() -> None:
    raw = peer(MpaRole.INITIATOR, IwarpConfig(enhanced=False), private_data=b"x" * 512)
    assert raw.take() == startup_frame("Req", 0x40, 1, b"x" * 512)
    raw.give(startup_frame("Rep", 0x40, 1, b"y" * 512))
    assert events_of(raw.qp) == [Established(private_data=b"y" * 512, inbound_reads=32, outbound_reads=1)]


@pytest.mark.req("MPA-36")
def test_too_much_private_data_is_refused_here() -> None:
    with pytest.raises(LocalProtocolError, match="more than 508"):
        peer(MpaRole.INITIATOR, private_data=b"x" * 509)
    with pytest.raises(LocalProtocolError, match="more than 512"):
        peer(MpaRole.INITIATOR, IwarpConfig(enhanced=False), private_data=b"x" * 513)
    raw = peer(MpaRole.RESPONDER)
    raw.give(startup_frame("Req", 0x50, 2, WORDS))
    with pytest.raises(LocalProtocolError, match="more than 508"):
        raw.qp.accept(b"x" * 509)


@pytest.mark.req("MPA-39")
def test_a_rejection_is_a_reply_with_r_and_then_the_end() -> None:
    raw = peer(MpaRole.RESPONDER)
    raw.give(startup_frame("Req", 0x50, 2, WORDS))
    raw.qp.post_receive("in", memoryview(bytearray(8)))
    events_of(raw.qp)
    raw.qp.reject(b"no")
    assert events_of(raw.qp) == [Disconnected(reason="rejected", by_peer=False)]
    assert completions_of(raw.qp) == [Completion("in", Verb.RECEIVE, Status.FLUSHED)]
    assert not raw.qp.wants_close
    assert raw.take() == startup_frame("Rep", 0x70, 2, WORDS + b"no")
    # MPA has left: the stream is in order, and closing it is the driver's business. Nothing more is sent or looked at.
    assert raw.qp.wants_close
    raw.give(SEND_X)
    assert raw.take() == b""
    assert events_of(raw.qp) == []


@pytest.mark.req("MPA-40")
@each_case("revision", [1, 2])
def test_a_rejected_initiator_ends_in_order(revision: int) -> None:
    raw = peer(MpaRole.INITIATOR)
    raw.take()
    raw.qp.post_send("out", [b"x"])
    raw.give(startup_frame("Rep", 0x20, revision))
    assert events_of(raw.qp) == [Disconnected(reason="the peer rejected the connection", by_peer=True)]
    # No Terminate, and no FPDU: MPA has left the stream as it is.
    assert raw.take() == b""
    assert completions_of(raw.qp) == [Completion("out", Verb.SEND, Status.FLUSHED)]
    assert raw.qp.wants_close


@each_case("answer", ["accept", "reject"])
@each_case("role", list(MpaRole))
def test_nobody_can_be_answered_who_did_not_ask(role: MpaRole, answer: str) -> None:
    raw = peer(role)
    with pytest.raises(LocalProtocolError, match="no peer asks"):
        getattr(raw.qp, answer)(b"")


MALFORMED = [
    (b"MPA ID Reg Frame", "not an MPA start-up frame"),
    (b"GET / HTTP/1.1\r\n", "not an MPA start-up frame"),
    (startup_frame("Rep", 0x40, 1), "both sides are MPA responders"),
    (startup_frame("Req", 0xC0, 0), "revision 0"),
    (startup_frame("Req", 0x40, 3), "revision 3"),
    (startup_frame("Req", 0x50, 2, b"abc"), "IRD and ORD"),
    (startup_frame("Req", 0x40, 1, b"", length=513), "513 octets"),
    (startup_frame("Req", 0x40, 1, b"ab", length=1), "need 21 octets"),
]
MALFORMED_REPLIES = [
    (b"\x16\x03\x01", "not an MPA start-up frame"),
    (startup_frame("Req", 0x50, 2, WORDS), "both sides are MPA initiators"),
    (startup_frame("Rep", 0xC0, 0), "revision 0"),
    (startup_frame("Rep", 0x40, 2), "does not match"),
    (startup_frame("Rep", 0x40, 1), "does not match"),
    (startup_frame("Rep", 0x50, 2, b"a"), "IRD and ORD"),
    (startup_frame("Rep", 0x50, 2, WORDS, length=600), "600 octets"),
    (startup_frame("Rep", 0x50, 2, WORDS + b"x", length=4), "need 24 octets"),
]


@pytest.mark.req(
    "MPA-32", "MPA-35", "MPA-36", "MPA-38", "MPA-40", "MPA-42", "MPA-43", "MPA-47", "MPA-48", "EM-15", "MPA-31"
)
@each_case(("role", "frames"), [(MpaRole.RESPONDER, MALFORMED), (MpaRole.INITIATOR, MALFORMED_REPLIES)])
def test_a_malformed_frame_closes_without_an_answer(role: MpaRole, frames: list[tuple[bytes, str]]) -> None:
    for octets, reason in frames:
        raw = peer(role)
        raw.take()
        raw.give(octets)
        assert_broken(raw, reason)


@pytest.mark.req("MPA-36", "MPA-38")
@each_case("answered", [False, True])
def test_octets_behind_a_request_before_the_reply_break_the_rules(answered: bool) -> None:
    raw = peer(MpaRole.RESPONDER)
    raw.give(startup_frame("Req", 0x50, 2, WORDS))
    if answered:
        raw.qp.accept(b"")
    events_of(raw.qp)
    raw.give(b"x")
    assert_broken(raw, "before it was its turn")


@pytest.mark.req("MPA-36", "MPA-40")
def test_octets_behind_a_reply_before_our_first_frame_break_the_rules() -> None:
    raw = peer(MpaRole.INITIATOR)
    raw.connect()
    events_of(raw.qp)
    raw.give(b"x")
    assert_broken(raw, "before it was its turn")


@pytest.mark.req("MPA-36", "MPA-38", "MPA-40")
@each_case("role", list(MpaRole))
def test_the_stream_may_end_at_every_octet_of_start_up(role: MpaRole) -> None:
    frame = startup_frame("Rep" if role is MpaRole.INITIATOR else "Req", 0x50, 2, WORDS + b"data")
    for length in range(len(frame)):
        raw = peer(role)
        raw.take()
        raw.give(frame[:length])
        assert events_of(raw.qp) == []
        raw.qp.end_of_stream()
        assert end_of(raw.qp) == Disconnected(reason="the peer closed the connection during MPA start-up", by_peer=True)
        assert raw.qp.wants_close


# Peer-to-peer (RFC 6581 section 9.2)

READY = {
    ReadyFrame.WRITE: ("80018001", tagged(0, 1, 0)),
    ReadyFrame.READ: ("80014001", read_request(1, 1, 0, 0, 1, 0)),
    ReadyFrame.SEND: ("c0010001", untagged(3, 0, 1)),
}
"""IRD and ORD of 1 with the bit of the ready-to-receive frame, and that frame."""


@pytest.mark.req("EM-1", "EM-10", "EM-12")
@each_case("frame", list(ReadyFrame))
def test_an_initiator_sends_the_agreed_ready_frame_first(frame: ReadyFrame) -> None:
    raw = peer(MpaRole.INITIATOR, IwarpConfig(peer_to_peer=True))
    assert raw.take() == startup_frame("Req", 0x50, 2, bytes.fromhex("c020c020"))
    raw.qp.post_send("first", [b"x"])
    words, ready = READY[frame]
    raw.give(startup_frame("Rep", 0x50, 2, bytes.fromhex(words)))
    msn = 2 if frame is ReadyFrame.SEND else 1
    assert raw.take() == fpdu(ready) + fpdu(untagged(3, 0, msn, b"x"))
    if frame is ReadyFrame.READ:
        assert completions_of(raw.qp) == []
        raw.give(fpdu(tagged(2, 1, 0)))
    assert completions_of(raw.qp) == [Completion("first", Verb.SEND, Status.SUCCESS, 1)]


@pytest.mark.req("EM-11", "MPA-41")
@each_case("frame", list(ReadyFrame))
def test_a_responder_is_connected_by_the_ready_frame_and_may_speak_first(frame: ReadyFrame) -> None:
    raw = peer(MpaRole.RESPONDER, IwarpConfig(ready_frames=frame))
    raw.give(startup_frame("Req", 0x50, 2, bytes.fromhex("c001c001")))
    events_of(raw.qp)
    raw.qp.post_send("first", [b"x"])
    raw.qp.accept(b"")
    words, ready = READY[frame]
    assert raw.take() == startup_frame("Rep", 0x50, 2, bytes.fromhex(words))
    raw.give(fpdu(ready)[:-1])
    assert events_of(raw.qp) == []
    assert raw.take() == b""
    raw.give(fpdu(ready)[-1:])
    assert events_of(raw.qp) == [Established(private_data=b"", inbound_reads=1, outbound_reads=1)]
    response = fpdu(tagged(2, 1, 0)) if frame is ReadyFrame.READ else b""
    assert raw.take() == response + fpdu(untagged(3, 0, 1, b"x"))
    # The frame itself is none of the upper layer's.
    assert completions_of(raw.qp) == [Completion("first", Verb.SEND, Status.SUCCESS, 1)]
    raw.qp.post_receive("in", memoryview(bytearray(8)))
    raw.give(fpdu(untagged(3, 0, 2 if frame is ReadyFrame.SEND else 1, b"y")))
    assert completions_of(raw.qp) == [Completion("in", Verb.RECEIVE, Status.SUCCESS, 1)]


@pytest.mark.req("EM-11")
def test_peer_to_peer_requests_of_siw_are_answered_as_siw_answers() -> None:
    raw = peer(MpaRole.RESPONDER, IwarpConfig(inbound_reads=128, outbound_reads=128, crc=False))
    raw.give(startup_frame("Req", 0x10, 2, bytes.fromhex("8010c000")))
    raw.qp.accept(b"")
    assert raw.take() == startup_frame("Rep", 0x10, 2, bytes.fromhex("80008010"))


OTHERS = {
    "Send with data": untagged(3, 0, 1, b"x"),
    "Send that goes on": untagged(3, 0, 1, last=False),
    "Write of data": tagged(0, 1, 0, b"x"),
    "Write of much data": tagged(0, 1, 0, bytes(5000)),
    "Write that goes on": tagged(0, 1, 0, last=False),
    "Read Response": tagged(2, 1, 0),
}


@pytest.mark.req("EM-11", "EM-12")
@each_case("agreed", list(ReadyFrame))
def test_another_first_frame_than_the_agreed_one_is_refused(agreed: ReadyFrame) -> None:
    others = {str(frame): ready for frame, (_, ready) in READY.items() if frame is not agreed}
    for name, segment in (OTHERS | others).items():
        raw = accepting(READY[agreed][0], IwarpConfig(ready_frames=agreed))
        raw.pd.regions[1] = MemoryRegion(1, 0, memoryview(bytearray(5000)), Access.REMOTE_WRITE)
        raw.qp.post_receive("in", memoryview(bytearray(8)))
        raw.give(fpdu(segment)[:20])
        raw.give(fpdu(segment)[20:])
        assert "ready-to-receive" in end_of(raw.qp).reason, name
        assert completions_of(raw.qp) == [Completion("in", Verb.RECEIVE, Status.FLUSHED)]
        assert raw.take() == fpdu(untagged(7, 2, 1, bytes.fromhex("20070000")))
        assert raw.qp.wants_close


@pytest.mark.req("EM-11")
def test_a_ready_read_must_ask_for_nothing() -> None:
    raw = accepting(READY[ReadyFrame.READ][0])
    region = raw.pd.register(bytearray(8), Access.REMOTE_READ)
    raw.give(fpdu(read_request(1, 1, 0, 8, region.handle, region.offset)))
    assert "2/0/07" in end_of(raw.qp).reason


@pytest.mark.req("EM-7", "EM-8", "EM-12")
@each_case(
    ("config", "words", "code"),
    [
        (IwarpConfig(), "00010021", 0x2006),
        (IwarpConfig(peer_to_peer=True), "00010001", 0x2007),
        (IwarpConfig(peer_to_peer=True, ready_frames=ReadyFrame.READ), "c0010001", 0x2007),
    ],
)
def test_an_initiator_that_cannot_agree_terminates(config: IwarpConfig, words: str, code: int) -> None:
    raw = peer(MpaRole.INITIATOR, config)
    raw.take()
    raw.qp.post_send("out", [b"x"])
    raw.give(startup_frame("Rep", 0x50, 2, bytes.fromhex(words)))
    assert end_of(raw.qp).protocol_error
    assert completions_of(raw.qp) == [Completion("out", Verb.SEND, Status.FLUSHED)]
    assert raw.take() == fpdu(untagged(7, 2, 1, code.to_bytes(2, "big") + bytes(2)))
    assert raw.qp.wants_close


@pytest.mark.req("DDP-9")
def test_a_nudge_is_an_rdma_write_of_no_octets_that_nobody_notices() -> None:
    initiator, responder = peer(MpaRole.INITIATOR), peer(MpaRole.RESPONDER)
    nudge = fpdu(tagged(0, 1, 0))
    initiator.qp.nudge()
    initiator.connect()
    # Nothing of it comes before the connection, or later.
    assert initiator.take() == b""
    responder.connect()
    responder.qp.post_receive(1, memoryview(bytearray(8)))
    initiator.qp.nudge()
    initiator.qp.post_send(2, [b"x"])
    initiator.qp.nudge()
    octets = initiator.take()
    assert octets == nudge + SEND_X + nudge
    assert [completion.wr for completion in completions_of(initiator.qp)] == [2]
    responder.give(octets)
    assert [completion.wr for completion in completions_of(responder.qp)] == [1]
    assert not any(isinstance(event, Disconnected) for event in events_of(responder.qp))
    initiator.qp.disconnect()
    initiator.qp.nudge()
    assert initiator.take() == b""


def test_an_answer_ends_the_nudges_whatever_receives_it() -> None:
    raw = peer(MpaRole.INITIATOR)
    raw.connect()
    raw.qp.post_send(1, [b"x"])
    raw.take()
    raw.qp.hand_over()
    assert raw.qp.next_deadline_s(0.0)
    raw.qp.post_receives(1, ReceivePool(64))
    raw.give(SEND_X)
    assert (raw.qp.next_deadline_s(0.0), raw.qp.timed) == (None, False)
