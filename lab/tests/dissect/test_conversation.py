"""The parts of a connection: calls and replies, pieces, chunks, credits; and the rules across messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dissected_captures import GETATTR, READ, dissected
from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.dissect.hex_text import hex_messages
from rpcrdma_lab.dissect.rdmap_messages import RdmapMessage
from rpcrdma_lab.dissect.rpc_body import Interfaces
from support.cases import each_case
from support.functions_entered import instructions_run
from support.octets import words
from support.raw_capture import CLIENT, SERVER, HandMadeCapture
from support.raw_iwarp import fpdu, read_request, tagged

NAMES = Interfaces(["nfs3.x"])


def call(xid: int, procedure: int = GETATTR) -> bytes:
    return words(xid, 0, 2, 100003, 3, procedure, 0, 0, 0, 0)


def reply(xid: int) -> bytes:
    return words(xid, 1, 0, 0, 0, 0)


def v1(xid: int, *, credits_: int = 32, kind: int = 0, lists: bytes = words(0, 0, 0)) -> bytes:
    return words(xid, 1, credits_, kind) + lists


def v2(xid: int, flags: int = 0, *, credit: int = 0x00200001, kind: int = 0, lists: bytes = words(0, 0, 0, 0)) -> bytes:
    return words(xid, 2, credit, kind, flags) + lists


Script = Callable[[HandMadeCapture], None]
Told = Callable[[Script], list[Message]]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """The messages of a script after the start-up frames."""

    def of(script: Script) -> list[Message]:
        file = tmp_path / "capture.pcap"
        with HandMadeCapture(file) as capture:
            script(capture)
        return dissected(file)[2:]

    return of


def all_faults(messages: list[Message]) -> list[tuple[int, str, str]]:
    return [(message.number, fault.reason, fault.section) for message in messages for fault in message.faults]


def test_a_reply_names_its_call_and_how_long_it_took(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v1(7) + call(7))
        capture.send(SERVER, v1(7, credits_=8) + reply(7))

    asked, answered = told(script)
    assert asked.summary == "Send, RDMA_MSG xid 0x00000007: call NFS_V3 GETATTR"
    assert asked.facts["procedure"] == "NFS_V3 GETATTR"
    assert asked.facts["credits"] == {"requested": 32, "in_flight": 1, "granted": 1}
    assert answered.summary == "Send, RDMA_MSG xid 0x00000007: reply to NFS_V3 GETATTR, SUCCESS"
    assert answered.facts["answers"] == asked.number == 3
    assert answered.facts["elapsed_s"] == pytest.approx(answered.time_s - asked.time_s, abs=2e-9)  # type: ignore[operator]
    assert f"answers #{asked.number} after {answered.facts['elapsed_s'] * 1e6:.0f} µs" in answered.notes  # type: ignore[operator]
    assert answered.facts["credits"] == {"granted": 8}
    assert all_faults([asked, answered]) == []


def test_a_property_that_nobody_defined_is_shown_as_unknown(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v2(7, kind=5, lists=words(1, 0xBEEF, 0)))

    (found,) = told(script)
    (which,) = [one for group in found.groups for one in group.walk() if one.name == "rdma_which"]
    assert which.shown == f"{0xBEEF} (unknown)"


def test_a_reply_without_its_call_says_so(told: Told) -> None:
    (message,) = told(lambda capture: capture.send(SERVER, v1(7) + reply(7)))
    assert "what it answers is not in the input" in message.notes
    assert "answers" not in message.facts


SEGMENT = words(0x99, 10, 0, 0x1000)
WRITE = words(0x55, 4096, 0, 0x2000)


def test_rdma_operations_name_the_chunks_that_they_serve(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        lists = words(1, 40) + SEGMENT + words(0, 1, 2) + WRITE + words(0x56, 5, 0, 0, 0, 0)
        capture.send(CLIENT, v1(7, lists=lists) + call(7, READ))
        capture.read(SERVER, (0x99, 0x1000), (0x42, 0), bytes(10))
        capture.write(SERVER, 0x55, 0x2000, bytes(4096))
        capture.write(SERVER, 0x56, 0, bytes(5))
        capture.write(SERVER, 0x55, 0x2001, bytes(4096))
        capture.write(SERVER, 0x57, 0, bytes(4))
        capture.send(SERVER, v1(7) + reply(7), 0x55)
        capture.write(SERVER, 0x55, 0x2000, bytes(4))

    messages = told(script)
    served = [message.facts.get("serves") for message in messages]
    assert served[1:7] == [
        {"call": 3, "chunk": "Read chunk at 40", "segment": 1},
        {"call": 3, "chunk": "Read chunk at 40", "segment": 1},
        {"call": 3, "chunk": "Write chunk 1", "segment": 1},
        {"call": 3, "chunk": "Write chunk 1", "segment": 2},
        None,  # past the end of the segment
        None,  # no such handle
    ]
    assert messages[7].facts["invalidated_handle"] == 0x55
    # With its reply the memory of a call is no longer exposed.
    assert served[8] is None
    assert messages[3].notes == ["serves segment 1 of the Write chunk 1 of #3, NFS_V3 READ"]


def work_beside(calls: int) -> int:
    """The instructions for an RDMA Write and a reply, with `calls` calls whose memory has one handle."""
    conversation = Settings(NAMES).conversation()
    for xid in range(calls):
        segments = [words(0x55, 8, 0, 0x1000 * xid + 8 * number) for number in range(20)]
        lists = words(0, 1, len(segments)) + b"".join(segments) + words(0, 0)
        conversation.send(CLIENT, v1(xid, lists=lists) + call(xid, READ), Message("rpcrdma", "", number=xid))
    last = calls - 1
    written, answered = Message("rdmap", ""), Message("rpcrdma", "")

    def run() -> None:
        conversation.data(SERVER, RdmapMessage(0, [], [], 0x55, 0x1000 * last, octets=8), written)
        conversation.send(SERVER, v1(last) + reply(last), answered)

    work = instructions_run(run)
    assert written.facts["serves"] == {"call": last, "chunk": "Write chunk 1", "segment": 1}
    assert answered.facts["answers"] == last
    return work


def test_memory_of_other_calls_under_the_same_handle_adds_no_work() -> None:
    assert work_beside(100) < 1.2 * work_beside(10)


def test_a_long_call_that_is_read_again_is_shown_once(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v1(7, kind=1, lists=words(1, 0, 0x99, 40, 0, 0, 0, 0, 0)))
        for _ in range(2):
            capture.read(SERVER, (0x99, 0), (0x42, 0), call(7, READ))

    responses = [message for message in told(script) if message.summary.startswith("RDMA Read Response")]
    assert [message.groups[-1].name for message in responses] == ["NFS_V3 READ arguments", "DDP and RDMAP, tagged"]


def test_a_long_call_of_which_a_part_is_read_again_is_shown_once_it_is_whole(told: Told) -> None:
    octets = call(7, READ)

    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v1(7, kind=1, lists=words(1, 0, 0x99, 40, 0, 0, 0, 0, 0)))
        for start, end in [(0, 20), (0, 20), (20, 30), (30, 40)]:
            capture.read(SERVER, (0x99, start), (0x42, 0), octets[start:end])

    responses = [message for message in told(script) if message.summary.startswith("RDMA Read Response")]
    assert responses[-1].groups[-1].name == "NFS_V3 READ arguments"
    assert responses[-1].facts["procedure"] == "NFS_V3 READ"


@each_case(("captured", "procedure"), [([0, 1], "NFS_V3 READ"), ([0], None), ([1], None)])
def test_responses_to_reads_at_once_into_one_buffer_belong_to_their_segments(
    told: Told, captured: list[int], procedure: str | None
) -> None:
    """And a long call that was not captured whole breaks no rule."""
    parts = call(7, READ)[:24], call(7, READ)[24:]

    def script(capture: HandMadeCapture) -> None:
        segments = [words(1, 0, 0x50 + number, len(part), 0, 0) for number, part in enumerate(parts)]
        capture.send(CLIENT, v1(7, kind=1, lists=b"".join(segments) + words(0, 0, 0)))
        for number, part in enumerate(parts):
            request = read_request(number + 1, 0x42, 24 * number, len(part), 0x50 + number, 0)
            capture.octets(SERVER, fpdu(request))
        for number in captured:
            capture.octets(CLIENT, fpdu(tagged(2, 0x42, 24 * number, parts[number])))

    messages = told(script)
    assert [message.facts["serves"]["segment"] - 1 for message in messages[3:]] == captured
    assert messages[-1].facts.get("procedure") == procedure
    assert all_faults(messages) == []


@each_case("part", [slice(0, 12), slice(12, 24)])
def test_a_long_reply_that_was_not_captured_whole_breaks_no_rule(told: Told, part: slice) -> None:
    def script(capture: HandMadeCapture) -> None:
        chunk = words(0, 0, 1, 1, 0x55, 24, 0, 0)
        capture.send(CLIENT, v1(7, lists=chunk) + call(7, READ))
        capture.write(SERVER, 0x55, part.start, reply(7)[part])
        capture.send(SERVER, v1(7, kind=1, lists=chunk))

    messages = told(script)
    assert messages[2].facts["answers"] == 3
    assert all_faults(messages) == []


def test_long_messages_are_read_from_the_chunks_that_hold_them(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        long_call = words(1, 0) + words(0x99, 40, 0, 0) + words(0, 0, 1, 1) + WRITE
        capture.send(CLIENT, v1(7, kind=1, lists=long_call))
        capture.read(SERVER, (0x99, 0), (0x42, 0), call(7, READ))
        capture.write(SERVER, 0x55, 0x2000, reply(7))
        capture.send(SERVER, v1(7, kind=1, lists=words(0, 0, 1, 1) + WRITE))

    asked, request, response, _, answered = told(script)
    assert asked.facts["procedure"] is None
    assert request.facts["serves"]["chunk"] == "Position-Zero Read chunk"
    assert response.facts["procedure"] == "NFS_V3 READ"
    assert "RPC, in the Read chunk" in [group.name for group in response.groups]
    assert answered.summary.endswith("reply to NFS_V3 READ, SUCCESS")
    assert "RPC, in the Reply chunk" in [group.name for group in answered.groups]
    assert all_faults([asked, request, response, answered]) == []


def test_an_error_refuses_its_call(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v1(7) + call(7))
        capture.send(SERVER, words(7, 1, 32, 4, 2))
        capture.send(CLIENT, v2(8) + call(8))
        capture.send(SERVER, words(8, 2, 32, 4, 1, 1, 1))
        capture.send(CLIENT, v2(9) + call(9))
        capture.send(SERVER, v2(9, 1, kind=4, lists=words(9, 9000)))

    messages = told(script)
    assert [message.facts.get("answers") for message in messages] == [None, 3, None, 5, None, 7]
    assert "ERR_CHUNK" in messages[1].summary
    # A refusal of the version has the same octets in all versions.
    assert messages[3].facts["version"] == "1"
    assert "ERR_VERS" in messages[3].summary
    assert "RDMA2_ERR_REPLY_RESOURCE" in messages[5].summary


def test_credits_of_version_1_count_calls(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v1(1) + call(1))
        capture.send(SERVER, v1(1, credits_=2) + reply(1))
        for xid in (2, 3, 4):
            capture.send(CLIENT, v1(xid) + call(xid))

    messages = told(script)
    assert all_faults(messages) == [(7, "3 calls in flight, 2 were granted", "RFC 8166 4.2.3")]


def test_counts_of_credits_say_that_octets_are_missing_before_them() -> None:
    conversation = Settings(NAMES).conversation()
    notes = []
    for xid in (1, 2):
        message = Message("rdmap", "", number=xid)
        conversation.send(0, v1(xid) + call(xid, 0), message)
        notes += message.notes
        conversation.lose()
    assert notes == ["requests 32 credits, 1 in flight", "requests 32 credits, 2 in flight, as far as captured"]


def test_an_error_of_version_1_gives_its_credit_back_and_grants_nothing(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v1(1) + call(1))
        capture.send(SERVER, v1(1, credits_=2) + reply(1))
        capture.send(CLIENT, v1(2) + call(2))
        capture.send(SERVER, words(2, 1, 1, 4, 2))
        for xid in (3, 4):
            capture.send(CLIENT, v1(xid) + call(xid))

    messages = told(script)
    assert all_faults(messages) == []
    assert "credits" not in messages[3].facts


# Version 2


def test_pieces_are_joined_with_a_grant_between_them(told: Told) -> None:
    message = call(7, READ)

    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v2(6, credit=0x00200001) + call(6))
        capture.send(SERVER, v2(6, 1, credit=0x00200004) + reply(6))
        capture.send(CLIENT, v2(7, 2) + message[:20])
        capture.send(SERVER, v2(0, 1, kind=1))
        capture.send(CLIENT, v2(7, 2) + message[20:24])
        capture.send(CLIENT, v2(7) + message[24:] + bytes(1000))

    messages = told(script)
    assert [message.facts.get("sequence") for message in messages[2:]] == [
        {"pieces": 1, "octets": 20, "complete": False},
        None,
        {"pieces": 2, "octets": 24, "complete": False},
        {"pieces": 3, "octets": 1040, "complete": True},
    ]
    assert messages[3].summary.endswith("a grant of credits")
    assert messages[5].facts["procedure"] == "NFS_V3 READ"
    assert all_faults(messages) == []


def test_a_property_set_in_pieces_is_read_when_it_is_whole(told: Told) -> None:
    properties = words(2, 1, 4, 8192, 2, 4, 4096)

    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v2(1, 2, kind=5, lists=properties[:10]))
        capture.send(SERVER, v2(2, kind=5, lists=words(1, 2, 4, 4096), credit=0x00200004))
        capture.send(CLIENT, v2(1, kind=5, lists=properties[10:]))

    _, _, last = told(script)
    assert last.facts["sequence"] == {"pieces": 2, "octets": 28, "complete": True}
    values = [field.value for field in last.groups[1].walk() if field.name in {"max_send", "receive_buffer"}]
    assert values == [8192, 4096]
    assert last.faults == []


def test_property_sets_in_pieces_have_only_so_many_fields() -> None:
    conversation = Settings(NAMES).conversation()
    for number, flags in enumerate((2, 0)):
        message = Message("rdmap", "", number=number)
        conversation.send(0, v2(1, flags, kind=5, lists=bytes(60_000)), message)
    assert len(list(message.groups[0].walk())) < lab_limits.DISSECTED_FIELDS_MAX
    assert message.faults[0].reason == f"more than {lab_limits.DISSECTED_FIELDS_MAX} fields"


def test_each_piece_may_be_a_property_set_of_its_own(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v2(1, 2, kind=5, lists=words(1, 1, 4, 8192)))
        capture.send(SERVER, v2(2, kind=5, lists=words(1, 2, 4, 4096), credit=0x00200004))
        capture.send(CLIENT, v2(1, kind=5, lists=words(1, 2, 4, 4096)))

    last = told(script)[2]
    values = [field.value for field in last.groups[1].walk() if field.name in {"max_send", "receive_buffer"}]
    assert values == [8192, 4096]
    assert last.faults == []


def test_credits_of_version_2_are_given_and_used(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v2(1, credit=0x00200002) + call(1))
        capture.send(SERVER, v2(1, 1, credit=0x00200001) + reply(1))
        capture.send(CLIENT, v2(2) + call(2))
        capture.send(CLIENT, v2(3) + call(3))

    messages = told(script)
    assert [message.facts["credits"]["left"] for message in messages] == [0, 2, 0, -1]
    assert all_faults(messages) == [(6, "1 messages more than were granted", "version-two-00 4.3.1")]


GRANTED = v2(1, 1, credit=0x00400040)


def first(capture: HandMadeCapture) -> None:
    """A call and its reply, which grants enough for all that follows."""
    capture.send(CLIENT, v2(1) + call(1))
    capture.send(SERVER, GRANTED + reply(1))


CHUNK = words(1, 40) + SEGMENT + words(0, 0, 0)
BROKEN_00 = {
    "reserved flags": (v2(7, 4) + call(7), "reserved flags are set", "6.3.2"),
    "MORE on NOMSG": (
        v2(7, 2, kind=1, lists=words(0) + CHUNK),
        "RDMA2_NOMSG does not go on in another message",
        "6.3.2",
    ),
    "MORE with chunks": (v2(7, 2, lists=words(0) + CHUNK) + call(7), "chunks belong into the last message", "6.3.2"),
    "error without RESPONSE": (v2(7, kind=4, lists=words(2)), "an error has RESPONSE set", "6.3.2"),
    "RESPONSE on a call": (v2(7, 1) + call(7), "RESPONSE does not fit to a call", "6.3.2"),
    "no payload": (v2(7), "no part of an RPC message follows", "6.4.1"),
    "NOMSG with XID": (v2(7, kind=1), "no chunk holds an RPC message", "6.4.2"),
    "long call without its chunk": (
        v2(7, kind=1, lists=words(0) + CHUNK),
        "no Position-Zero Read chunk holds the RPC call",
        "6.4.2",
    ),
    "long reply without its chunk": (
        v2(1, 1, kind=1, lists=words(0, 0, 1, 1) + SEGMENT + words(0, 0)),
        "no Reply chunk holds the RPC reply",
        "6.4.2",
    ),
    "Position Zero": (
        v2(7, lists=words(0, 1, 0) + SEGMENT + words(0, 0, 0)) + call(7),
        "Position Zero beside a payload",
        "4.5.4",
    ),
    "foreign handle": (v2(7, lists=words(0x77) + CHUNK) + call(7), "none of the header's segments", "6.3.3"),
    "other XID": (v2(7) + call(8), "the RPC message has XID 0x00000008", "6.3.1"),
    "property twice": (v2(7, kind=5, lists=words(2, 1, 0, 1, 0)), "this property is there twice", "5.1"),
    "property too short": (v2(7, kind=5, lists=words(1, 1, 2, 0)), "4 octets needed, 2 left", "5.1"),
    "unknown type": (v2(7, kind=77) + call(7), "77 is no type of header", "6.2"),
    "unknown code": (v2(7, 1, kind=4, lists=words(77)), "this version has no such code", "6.4.3"),
    "cut off": (v2(7)[:30], "4 octets needed, 2 left", "6.3.3"),
}


@each_case("name", BROKEN_00)
def test_each_broken_rule_of_version_2_is_told_with_its_section(told: Told, name: str) -> None:
    octets, reason, section = BROKEN_00[name]

    def script(capture: HandMadeCapture) -> None:
        first(capture)
        capture.send(SERVER if "unknown code" in name or "error" in name else CLIENT, octets)

    messages = told(script)
    ((number, why, where),) = all_faults(messages)
    assert number == 5
    assert why.startswith(reason)
    assert where == f"version-two-00 {section}"
    marked = [field for group in messages[2].groups for field in group.walk() if field.faults]
    assert marked, "the field that is wrong is marked"


def test_a_sequence_that_another_message_interrupts_is_told(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        first(capture)
        capture.send(CLIENT, v2(7, 2) + call(7)[:20])
        capture.send(CLIENT, v2(8) + call(8))
        capture.send(CLIENT, v2(9) + call(9))

    reason = "the sequence with XID 0x00000007 has not ended"
    assert all_faults(told(script)) == [(6, reason, "version-two-00 6.3.2")]


def test_a_last_piece_that_cannot_be_read_ends_its_sequence(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        first(capture)
        capture.send(CLIENT, v2(7, 2) + call(7)[:20])
        capture.send(CLIENT, v2(7, lists=words(0, 2, 0, 0)))
        capture.send(CLIENT, v2(8) + call(8))

    messages = told(script)
    assert [number for number, _, _ in all_faults(messages)] == [6]
    assert messages[-1].facts["procedure"] == "NFS_V3 GETATTR"
    assert messages[-1].facts["credits"] == {"granted": 1, "outstanding_max": 32, "left": 61}


BROKEN_1 = {
    "no chunk": (v1(7, kind=1), "no chunk holds the RPC message", "4.5.2"),
    "MSGP": (v1(7, kind=2, lists=words(0, 0, 0, 0, 0)) + call(7), "padded messages are never sent", "4.6.1"),
    "DONE": (v1(7, kind=3, lists=b""), "RDMA_DONE is never sent", "4.6.2"),
    "no credits": (v1(7, credits_=0) + call(7), "neither a request nor a grant may be 0", "3.3.1"),
    "other XID": (v1(7) + call(8), "the RPC message has XID 0x00000008", "4.2.1"),
    "no payload": (v1(7), "no RPC message follows", "4.2.4"),
    "half an RPC header": (v1(7) + call(7)[:22], "4 octets needed, 2 left", ""),
    "reply with Read chunks": (v1(7, lists=CHUNK) + reply(7), "a reply has no Read chunks", "4.3.1"),
    "unknown version": (words(7, 9, 32, 0) + bytes(40), "1 is needed", "4.2.2"),
}


@each_case("name", BROKEN_1)
def test_each_broken_rule_of_version_1_is_told_with_its_section(name: str) -> None:
    octets, reason, section = BROKEN_1[name]
    (found,) = hex_messages(octets, Settings(NAMES), iwarp=False)
    fault = found.faults[0]
    assert fault.reason.startswith(reason)
    assert fault.section == (f"RFC 8166 {section}" if section else "RFC 5531 9")


def test_the_header_of_an_unknown_version_is_shown_as_far_as_all_versions_agree() -> None:
    (found,) = hex_messages(words(7, 9, 32, 0) + bytes(40), Settings(), iwarp=False)
    assert found.groups[0].name == "RPC-over-RDMA of an unknown version"
    assert [field.value for field in found.groups[0].fields] == [7, 9, 32, 0]


# Bounds


def test_only_so_many_unanswered_calls_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_limits, "CAPTURE_CALLS_MAX", 256)
    conversation = Settings(NAMES).conversation()
    lists = words(0, 1, 1) + WRITE + words(0, 0)
    for xid in range(lab_limits.CAPTURE_CALLS_MAX + 100):
        conversation.send(0, v1(xid, lists=lists) + call(xid), Message("rdmap", "", number=xid))
    assert len(conversation._calls) == lab_limits.CAPTURE_CALLS_MAX
    assert sum(map(len, conversation._exposed.values())) == lab_limits.CAPTURE_CALLS_MAX


def test_only_so_many_segments_of_calls_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_limits, "CAPTURE_CALL_SEGMENTS_MAX", 1 << 10)
    conversation = Settings(NAMES).conversation()
    count = 30
    lists = words(0, 1, count) + WRITE * count + words(0, 0)
    for xid in range(100):
        conversation.send(0, v1(xid, lists=lists) + call(xid), Message("rdmap", "", number=xid))
    kept = lab_limits.CAPTURE_CALL_SEGMENTS_MAX // count
    assert [xid for _, xid in conversation._calls] == list(range(100 - kept, 100))
    assert sum(map(len, conversation._exposed.values())) == kept * count
    for xid in range(100):
        conversation.send(1, v1(xid) + reply(xid), Message("rdmap", "", number=xid))
    assert conversation._segments == 0
    assert conversation._exposed == {}


def test_a_call_of_more_segments_than_are_remembered_is_not() -> None:
    conversation = Settings(NAMES).conversation()
    conversation._segments = lab_limits.CAPTURE_CALL_SEGMENTS_MAX
    conversation.send(0, v1(7, lists=words(0, 1, 1) + WRITE + words(0, 0)) + call(7), Message("rdmap", ""))
    assert conversation._exposed == {}


def test_a_call_with_the_same_xid_takes_the_place_of_the_first(told: Told) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, v1(7) + call(7))
        capture.send(CLIENT, v1(7) + call(7))
        capture.send(SERVER, v1(7) + reply(7))

    messages = told(script)
    assert "the same XID as #3, which was not answered" in messages[1].notes
    assert messages[2].facts["answers"] == 4
