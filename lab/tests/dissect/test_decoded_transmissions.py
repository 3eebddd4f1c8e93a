"""The round-trip extension as `rpcrdma decode` tells it: groups are joined, bulk data found, rules checked."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.rtr.messages import (
    DirectionSet,
    Explicit,
    InSegments,
    Item,
    NotPlaced,
    Report,
    ReportCode,
    ResultDirection,
    TransmissionId,
    TransmitRequest,
    Way,
    encode_report,
    encode_transmit_request,
)
from rpcrdma.transport import Segment
from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.dissect.placement import structure_of
from support.cases import each_case
from support.octets import words
from transmission_talk import (
    CALL,
    CLIENT,
    REPTERR,
    SERVER,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    Talk,
    more,
    placed,
    prefix,
    properties,
    request,
    response,
)


def behind(message: Message) -> list[tuple[str, int, int]]:
    """(name, offset, octets) of the parts behind the header."""
    return [
        (field.name, field.offset, field.size)
        for group in message.groups
        if group.name == "Behind the header"
        for field in group.fields
    ]


def reasons(message: Message) -> list[tuple[str, str, str]]:
    return [(fault.field, fault.reason, fault.section) for fault in message.faults]


def test_a_call_and_its_reply_with_data_in_segments() -> None:
    talk = Talk()
    item = in_segments(40, 100, 0, 0, 1)
    asked = talk.say(CLIENT, placed(request((item,), (ResultDirection(16, Way.SEGMENTS),)), b"d" * 100))
    assert asked.summary == "ROPT_XMTREQ xid 0x00000007: call NFS_V3 READ"
    size = asked.facts["header_octets"]
    assert behind(asked) == [
        ("payload", size, 40),
        ("padding", size + 40, 1024 - size - 40),
        ("item [0]", 1024, 64),
        ("item [0]", 1088, 36),
    ]
    assert asked.facts["transmission"] == {"number": 0, "count": 1}
    assert asked.facts["payload_octets"] == 40
    assert asked.facts["placed_octets"] == 100
    assert asked.facts["padding_octets"] == 1024 - size - 40
    answered = talk.say(SERVER, placed(response((in_segments(24, 60, 4, 2),)), bytes(128 + 4), b"r" * 60))
    assert answered.summary == "ROPT_XMTRESP xid 0x00000007: reply to NFS_V3 READ, SUCCESS"
    assert answered.facts["answers"] == asked.number
    assert behind(answered)[-1] == ("item [0]", 1024 + 128 + 4, 60)
    assert asked.faults == answered.faults == []
    shown = next(field for group in asked.groups for field in group.fields if field.name == "item [0]")
    assert shown.shown == "octets 0 to 63"
    assert asked.as_json()["headers"][1]["fields"][2]["meaning"] == "bulk data"


def test_items_go_on_in_the_segments_of_further_transmissions() -> None:
    talk = Talk()
    item = in_segments(40, 300, 32, 2, 3, 4, 5, 6)
    first = talk.say(CLIENT, placed(request((item,), count=2), bytes(128 + 32), b"d" * 96))
    second = talk.say(CLIENT, placed(more(1, b""), b"d" * 192))
    assert [size for name, _, size in behind(first) if name.startswith("item")] == [32, 64]
    assert [(offset, size) for name, offset, size in behind(second) if name.startswith("item")] == [
        (1024, 64),
        (1088, 64),
        (1152, 64),
    ]
    assert reasons(first) == [("xmdmi_length", "300 octets, its segments have room for 288", "rtrext 7.3")]
    assert reasons(second) == []


def test_transmissions_are_joined_to_one_message() -> None:
    talk = Talk()
    told = [
        talk.say(CLIENT, request(count=3, payload=CALL[:20])),
        talk.say(CLIENT, prefix(1, 1, xid=0) + words(0, 0, 0, 0)),  # a grant of credits
        talk.say(CLIENT, more(1, CALL[20:24])),
        talk.say(CLIENT, more(2, CALL[24:])),
    ]
    assert [message.facts.get("sequence") for message in told] == [
        {"pieces": 1, "octets": 20, "complete": False},
        None,
        {"pieces": 2, "octets": 24, "complete": False},
        {"pieces": 3, "octets": 40, "complete": True},
    ]
    assert [message.facts.get("procedure") for message in told] == [None, None, None, "NFS_V3 READ"]
    assert told[3].summary == "ROPT_XMTCONT xid 0x00000007: call NFS_V3 READ"
    assert [message.notes[0] for message in told if message.facts["type"] == "ROPT_XMTCONT"] == [
        "transmission 1 of 3: 24 octets of payload so far",
        "transmission 2 of 3: 40 octets of payload so far",
    ]
    assert [reasons(message) for message in told] == [[]] * 4


def test_memory_that_is_named_is_told_by_the_operations_that_serve_it() -> None:
    talk = Talk()
    memory = (Segment(0x55, 4096, 0),)
    source = Item(40, 100, Explicit((Segment(0x44, 100, 0),)))
    talk.say(CLIENT, request((source,), (ResultDirection(0, Way.CHOICE, memory),), count=2, payload=CALL[:20]))
    talk.say(CLIENT, more(1, CALL[20:]))
    assert set(talk.conversation._exposed) == {(CLIENT, 0x44), (CLIENT, 0x55)}
    (exposed,) = talk.conversation._exposed[CLIENT, 0x55]
    assert (exposed.chunk.name, exposed.call.number) == ("Write chunk 1", 4)
    talk.say(SERVER, response((Item(24, 4096, Explicit(memory)),)))
    assert talk.conversation._exposed == {}


SEGMENTS = (ResultDirection(16, Way.SEGMENTS),)
MEMORY = (Segment(0x55, 4096, 0),)


def ranges(*ends: tuple[int, int]) -> bytes:
    """A request with directions for these ranges of places."""
    sets = tuple(DirectionSet(begin, end, SEGMENTS) for begin, end in ends)
    return prefix(XMTREQ) + encode_transmit_request(TransmitRequest((), sets, 1, 0, 0))


def in_segments(at: int, octets: int, offset: int = 0, *numbers: int) -> Item:
    return Item(at, octets, InSegments(offset, numbers or (0,)))


BROKEN: dict[str, tuple[list[tuple[int, bytes]], tuple[str, str, str]]] = {
    "payload too long": (
        [(CLIENT, request(payload=CALL + bytes(4))[:-4])],
        ("optxrq_pslen", "44 octets of payload, 40 follow", "rtrext 9.2"),
    ),
    "no transmission": (
        [(CLIENT, request(count=0))],
        ("optxrq_count", "a group has at least one transmission", "rtrext 9.2"),
    ),
    "RESPONSE on a request": (
        [(CLIENT, prefix(XMTREQ, 1) + request()[20:])],
        ("rdma_flags", "RESPONSE does not fit to a call", "version-two-00 6.3.2"),
    ),
    "RESPONSE on a request of nothing": (
        [(CLIENT, prefix(XMTREQ, 1) + request(payload=b"")[20:])],
        ("rdma_flags", "RESPONSE does not fit to ROPT_XMTREQ", "version-two-00 6.3.2"),
    ),
    "MORE": (
        [(CLIENT, prefix(XMTREQ, 2) + request()[20:])],
        ("rdma_flags", "ROPT_XMTREQ does not go on in another message", "version-two-00 6.3.2"),
    ),
    "Position": (
        [(CLIENT, placed(request((in_segments(42, 4),)), b"data"))],
        ("xmdmi_disp", "a Position is a multiple of 4", "rtrext 7.3"),
    ),
    "items that overlap": (
        [(CLIENT, placed(request((in_segments(40, 5), in_segments(44, 4, 8))), b"datum\0\0\0data"))],
        ("xmdmi_disp", "48 or more is needed after the item before", "rtrext 7.3"),
    ),
    "backward range": ([(CLIENT, ranges((8, 4)))], ("xmdrsdr_end", "the range begins at 8", "rtrext 7.4")),
    "ranges that overlap": (
        [(CLIENT, ranges((0, 40), (36, 40)))],
        ("xmdrsdr_begin", "40 or more is needed after the range before", "rtrext 7.4"),
    ),
    "ranges that do not ascend": (
        [(CLIENT, ranges((8, 8), (8, 40)))],
        ("xmdrsdr_begin", "9 or more is needed after the range before", "rtrext 7.4"),
    ),
    "segment number": (
        [(CLIENT, request((in_segments(40, 4, 0, 4),)))],
        ("xmdl_bsnum", "segment 4, the group has 4", "rtrext 6.2"),
    ),
    "offset": (
        [(CLIENT, request((in_segments(40, 4, 64),)))],
        ("xmdl_offset", "offset 64 in a segment of 64 octets", "rtrext 7.3"),
    ),
    "item too long": (
        [(CLIENT, placed(request((in_segments(40, 65),)), b"d" * 64))],
        ("xmdmi_length", "65 octets, its segments have room for 64", "rtrext 7.3"),
    ),
    "item beyond the message": (
        [(CLIENT, placed(request((in_segments(40, 64),)), b"d" * 60))],
        ("item [0]", "goes beyond the end of the message", "rtrext 7.3"),
    ),
    "item over the payload": (
        [(CLIENT, request((in_segments(40, 4),), payload=CALL + bytes(960)))],
        ("item [0]", "overlaps with what is before it", "rtrext 7.3"),
    ),
    "item after the message": (
        [(CLIENT, request((in_segments(40, 4, 0, 3),)) + bytes(4))],
        ("item [0]", "goes beyond the end of the message", "rtrext 7.3"),
    ),
    "padding": (
        [(CLIENT, placed(request((in_segments(40, 4),)) + b"x", b"data"))],
        ("padding", "the padding is not zero", "rtrext 11"),
    ),
    "too many transmissions of a request": (
        [(CLIENT, request(count=5))],
        ("optxrq_count", "5 transmissions, the receiver takes 4", "rtrext 8.4"),
    ),
    "too many transmissions of a response": (
        [(SERVER, response(count=5))],
        ("optxrs_count", "5 transmissions, the sender has said 4", "rtrext 8.5"),
    ),
    "more transmissions of a response than receives": (
        [(CLIENT, request(extra=1)), (SERVER, response(count=3))],
        ("optxrs_count", "3 transmissions, the request allows 2", "rtrext 9.3"),
    ),
    "a result too many": (
        [(CLIENT, request()), (SERVER, response((Item(0, 0, NotPlaced.NO_ITEM),)))],
        ("optxrs_ddp", "1 items, the request has 0 directions", "rtrext 7.4"),
    ),
    "a result of the wrong kind": (
        [(CLIENT, request((), SEGMENTS)), (SERVER, response((Item(24, 4096, Explicit(MEMORY)),)))],
        ("xmdl_type", "item 1: the request's direction does not allow this", "rtrext 7.4"),
    ),
    "a result below the least": (
        [(CLIENT, request((), SEGMENTS)), (SERVER, placed(response((in_segments(24, 12),)), bytes(12)))],
        ("xmdmi_length", "item 1: 12 octets, the request places 16 or more", "rtrext 7.4"),
    ),
    "not too short": (
        [(CLIENT, request((), SEGMENTS)), (SERVER, response((Item(24, 16, NotPlaced.TOO_SHORT),)))],
        ("xmdmi_length", "item 1: 16 octets are not too short, the request places 16", "rtrext 7.4"),
    ),
    "nothing to be continued": (
        [(CLIENT, more(1, b"data"))],
        ("rdma_htype", "there is no group to be continued", "rtrext 9.4"),
    ),
    "sequence": (
        [(CLIENT, request(count=3, payload=CALL[:20])), (CLIENT, more(2, CALL[20:]))],
        ("optxc_xnum", "transmission 1 is next", "rtrext 9.4"),
    ),
    "payload after the first transmission": (
        [(CLIENT, request(count=2, payload=b"")), (CLIENT, more(1, CALL))],
        ("optxc_pslen", "the payload begins in the first transmission", "rtrext 9.1"),
    ),
    "another XID": (
        [(CLIENT, request(count=2, payload=CALL[:20])), (CLIENT, more(1, CALL[20:], xid=8))],
        ("rdma_xid", "the group has XID 0x00000007", "rtrext 9.4"),
    ),
    "another beginning": (
        [(CLIENT, request(count=2, payload=CALL[:20])), (CLIENT, more(1, CALL[20:], XMTRESP, flags=0))],
        ("optxc_itype", "the group has begun with ROPT_XMTREQ", "rtrext 9.4"),
    ),
    "RESPONSE of a continuation": (
        [(CLIENT, request(count=2, payload=CALL[:20])), (CLIENT, more(1, CALL[20:], flags=1))],
        ("rdma_flags", "RESPONSE does not fit to the group", "rtrext 9.4"),
    ),
    "a group within a group": (
        [(CLIENT, request(count=2, payload=CALL[:20])), (CLIENT, request())],
        ("rdma_htype", "the group with XID 0x00000007 has not ended", "rtrext 9.5"),
    ),
    "a message within a group": (
        [(CLIENT, request(count=2, payload=CALL[:20])), (CLIENT, prefix(0) + bytes(16) + CALL)],
        ("rdma_htype", "the group with XID 0x00000007 has not ended", "rtrext 4.2"),
    ),
    "RESPONSE of a report": (
        [(SERVER, prefix(REPTERR) + words(7, 0, 1, 0, 3))],
        ("rdma_flags", "RESPONSE does not fit to a report about a request", "version-two-00 6.3.2"),
    ),
    "XID of a report": (
        [(SERVER, prefix(REPTERR, 1, xid=8) + words(7, 0, 1, 0, 3))],
        ("rdma_xid", "not the XID of the transmission that is wrong", "rtrext 9.5"),
    ),
    "no direction": (
        [(SERVER, prefix(REPTERR, 1) + words(7, 2, 1, 0, 3))],
        ("xmsi_dir", "neither a request's nor a response's", "rtrext 6.1"),
    ),
}


@pytest.mark.thorough
@each_case("name", BROKEN)
def test_each_broken_rule_is_told_once_with_its_section(name: str) -> None:
    talk = Talk()
    said, expected = BROKEN[name]
    messages = [talk.say(end, octets) for end, octets in said]
    found = [fault for message in messages for fault in reasons(message)]
    assert found == [expected]
    if name == "item after the message":
        assert [one for one, _, _ in behind(messages[0])] == ["payload", "padding"]
        return
    marked = [one for message in messages for group in message.groups for one in group.walk() if one.faults]
    offsets = [fault.offset for message in messages for fault in message.faults]
    # The message that ends a group too early is not wrong by itself.
    assert [one.offset for one in marked] == ([] if "has not ended" in expected[1] else offsets)
    assert "has not ended" not in expected[1] or offsets == [12]


def test_the_draft_s_table_of_directions_and_results() -> None:
    """Section 7.4: the allowed messages for each kind of direction."""
    results = {
        1: Item(24, 64, Explicit(MEMORY)),
        2: in_segments(24, 64),
        5: Item(24, 8, NotPlaced.TOO_SHORT),
        6: Item(0, 0, NotPlaced.NO_ITEM),
    }
    allowed: dict[int, list[int]] = {way: [] for way in Way}
    for way in Way:
        memory = () if way is Way.SEGMENTS else MEMORY
        for kind, result in results.items():
            talk = Talk()
            talk.say(CLIENT, request((), (ResultDirection(16, way, memory),)))
            if not talk.say(SERVER, placed(response((result,)), bytes(64))).faults:
                allowed[way].append(kind)
    assert allowed == {1: [1, 5, 6], 2: [2, 5, 6], 3: [1, 2, 5, 6], 4: [1, 2, 5, 6]}


def test_after_a_broken_group_its_rest_is_not_judged() -> None:
    talk = Talk()
    talk.say(CLIENT, request(count=4, payload=CALL[:20]))
    assert len(talk.say(CLIENT, more(2, CALL[20:24])).faults) == 1
    rest = talk.say(CLIENT, more(3, CALL[24:]))
    assert rest.faults == []
    assert rest.summary.endswith("a part of a message")
    assert talk.say(CLIENT, request()).facts["procedure"] == "NFS_V3 READ"
    assert len(talk.say(CLIENT, more(1, b"")).faults) == 1


def test_a_header_that_cannot_be_read_ends_its_group() -> None:
    talk = Talk()
    talk.say(CLIENT, request(count=2, payload=CALL[:20]))
    assert len(talk.say(CLIENT, more(1, b"")[:-4]).faults) == 1
    assert talk.say(CLIENT, more(1, CALL[20:])).faults == []
    assert talk.say(CLIENT, request()).faults == []


def test_missing_octets_make_groups_unsure() -> None:
    talk = Talk()
    talk.say(CLIENT, request(count=2, payload=CALL[:20]))
    talk.conversation.lose()
    rest = talk.say(CLIENT, placed(more(1, CALL[20:]), b"data"))
    assert rest.faults == []
    assert [name for name, _, _ in behind(rest)] == ["payload", "data"]


@each_case(("begun_by", "flags"), [(XMTREQ, 1), (XMTRESP, 0)])
def test_response_is_held_against_the_type_of_a_group_that_was_not_seen_to_begin(begun_by: int, flags: int) -> None:
    talk = Talk()
    talk.conversation.lose()
    assert talk.say(CLIENT, more(1, b"", begun_by)).faults == []
    assert reasons(talk.say(CLIENT, more(1, b"", begun_by, flags=flags))) == [
        ("rdma_flags", "RESPONSE does not fit to what is continued", "version-two-00 6.3.2")
    ]


def test_without_the_structure_data_is_told_as_it_is() -> None:
    talk = Talk(told=False)
    message = talk.say(CLIENT, placed(request((in_segments(40, 4),)), b"data"))
    assert message.faults == []
    size = message.facts["header_octets"]
    assert behind(message) == [("payload", size, 40), ("data", size + 40, 1028 - size - 40)]
    assert "is not in the input" in message.groups[1].fields[1].meaning
    assert [name for name, _, _ in behind(talk.say(CLIENT, request((in_segments(40, 4),))))] == ["payload"]


def test_what_the_receiver_does_not_take_is_told() -> None:
    for support in range(8):
        talk = Talk(told=False)
        talk.say(SERVER, properties(support=support))
        said = [request(count=2, payload=CALL[:20]), more(1, CALL[20:]), response()]
        told = [reason for message in said for _, reason, _ in reasons(talk.say(CLIENT, message))]
        kinds = [(1, "ROPT_XMTREQ"), (4, "ROPT_XMTCONT"), (2, "ROPT_XMTRESP")]
        assert told == [f"the receiver does not take {kind}" for bit, kind in kinds if not support & bit]
    talk = Talk(told=False)
    talk.say(SERVER, prefix(5, xid=1) + words(0))
    assert len(talk.say(CLIENT, request()).faults) == 1


@each_case(
    ("code", "numbers", "said"),
    [
        (ReportCode.HEADER_TYPE, (XMTCONT, 0), "OPTRERR_BADHMT, {}: ROPT_XMTCONT was expected, RDMA2_MSG came"),
        (ReportCode.OPTIONAL_TYPE, (XMTCONT, 0x999), "OPTRERR_BADOMT, {}: ROPT_XMTCONT was expected, 2457 came"),
        (ReportCode.CONTINUATION, (), "OPTRERR_BADCONT, {}"),
        (ReportCode.SEQUENCE, (1, 2), "OPTRERR_BADSEQ, {}: 1 was expected, 2 came"),
        (ReportCode.XID, (7, 8), "OPTRERR_BADXID, {}: 0x00000007 was expected, 0x00000008 came"),
        (ReportCode.OFFSET, (64, 0, 63), "OPTRERR_BADOFF, {}: 64 is not in 0 to 63"),
        (ReportCode.SEGMENT_NUMBER, (4, 0, 3), "OPTRERR_BADTBSN, {}: 4 is not in 0 to 3"),
        (ReportCode.PAYLOAD, (9, 0, 64), "OPTRERR_BADPL, {}: 9 is misaligned"),
    ],
)
@pytest.mark.req("RT-14")
def test_a_report_says_what_is_wrong_with_which_transmission(code: ReportCode, numbers: Any, said: str) -> None:
    """A value within its bounds is misaligned (section 9.5)."""
    for direction, which in ((0, "a request"), (1, "a response")):
        body = encode_report(Report(TransmissionId(7, direction, 1), TransmissionId(7, direction, 0), code, numbers))
        message = Talk().say(SERVER, prefix(REPTERR, 1 - direction) + body)
        assert message.faults == []
        assert message.facts["message"] == "report"
        assert message.summary == f"ROPT_REPTERR xid 0x00000007: {said.format(f'transmission 1 of {which}')}"


def test_a_report_refuses_the_call_and_ends_the_group_that_it_is_about() -> None:
    talk = Talk()
    asked = talk.say(CLIENT, request())
    report = talk.say(SERVER, prefix(REPTERR, 1) + words(7, 0, 0, 0, 6, 64, 0, 63))
    assert report.facts["answers"] == asked.number
    talk.say(CLIENT, request(count=3, payload=CALL[:20]))
    unfinished = talk.say(SERVER, prefix(REPTERR, 1) + words(7, 0, 0, 0, 6, 64, 0, 63))
    assert "answers" not in unfinished.facts
    # A message that was under way when the report was sent belongs to no group.
    assert talk.say(CLIENT, more(1, CALL[20:])).faults == []
    assert talk.say(CLIENT, prefix(0) + bytes(16) + CALL).faults == []


STRUCTURES = {
    "the segments have 64 octets, the buffer 65": words(65, 1, 1, 64, 0, 1),
    "a group of no segments": words(64, 1, 0, 64, 0, 1),
    "segments of no octets": words(64, 1, 1, 0, 0, 1),
    "more than 1024 segments": words(64, 1, 1025, 64, 0, 1),
    "the segments have 0 octets, the buffer 64": words(64, 0),
}


@each_case("reason", STRUCTURES)
def test_a_structure_that_makes_no_sense_is_told_and_left_alone(reason: str) -> None:
    value = STRUCTURES[reason]
    talk = Talk(told=False)
    message = talk.say(SERVER, prefix(5, xid=1) + words(2, 0x101, 4, 7, 0x102, len(value)) + value)
    assert reasons(message) == [("rtr_structure", reason, "rtrext 8.3")]
    item = in_segments(40, 4)
    assert behind(talk.say(CLIENT, placed(request((item,)), b"data")))[-1][0] == "data"


def test_a_structure_that_is_cut_off_is_none() -> None:
    for length in range(0, 24, 4):
        value = words(64, 1, 1, 64, 0, 1)[:length]
        message = Talk(told=False).say(SERVER, prefix(5, xid=1) + words(1, 0x102, len(value)) + value)
        told = [one for group in message.groups for one in group.walk() if one.name == "rtr_structure"]
        assert [structure_of(one) for one in told] == [(None, [])] * len(told)
        assert bool(message.faults) == bool(length)


def test_properties_are_shown_with_their_meaning() -> None:
    message = Talk(told=False).say(CLIENT, properties())
    shown = {field.name: field.shown for group in message.groups for field in group.walk()}
    assert shown["rtr_support"] == "0x7 (RTRS_XREQ, RTRS_XRESP, RTRS_XCONT)"
    assert shown["xmrseg_flags"] == "0x1 (XMRSFLAG_DDP)"
    assert shown["rtr_request_limit"] == shown["rtr_response_limit"] == "4"
    assert shown["rdma_which"].startswith("258 (RBSTRUCT: ")


def test_only_so_many_requests_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_limits, "CAPTURE_CALLS_MAX", 5)
    talk = Talk(told=False)
    body = request()[4:]
    for xid in range(9):
        talk.say(CLIENT, words(xid) + body)
    assert [xid for _, xid in talk.conversation._transmissions._asked] == [4, 5, 6, 7, 8]


def test_a_message_is_looked_at_once_however_many_continue_its_group() -> None:
    """An item of many segments costs time in the transmissions that have some of it, not in all others."""
    talk = Talk()
    numbers = tuple(range(4000))
    talk.say(CLIENT, placed(request((Item(40, 64 * 4000, InSegments(0, numbers)),), count=4000), b"d" * 256))
    group = talk.conversation._transmissions._groups[CLIENT]
    assert group.parts is not None
    assert {number: len(parts) for number, parts in group.parts.items()} == dict.fromkeys(range(1000), 4)


def test_what_is_exactly_at_a_bound_is_right() -> None:
    assert Talk().say(SERVER, response(count=4)).faults == []
    talk = Talk()
    talk.say(CLIENT, request((), SEGMENTS))
    assert talk.say(SERVER, placed(response((in_segments(24, 16),)), bytes(16))).faults == []
