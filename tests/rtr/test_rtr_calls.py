"""How calls are planned and go out: in segments, by RDMA that the extension describes, or without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.limits import CALL_ATTEMPTS_MAX, CONTINUED_OCTETS_MAX
from rpcrdma.rtr.config import Costs, Preference
from rpcrdma.rtr.messages import Explicit, InSegments, Item, NotPlaced, decode_transmit_request
from rpcrdma.rtr.requests import NOT_TAKEN, Promises, Results
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import (
    NO_CHUNKS,
    CallForm,
    Cause,
    ChunkLists,
    ReadChunk,
    Refusal,
    ReplyBound,
    Returned,
    Segment,
    WriteChunk,
)
from rpcrdma.xdr.codec import Payload
from rtr_calling import CARRYING, HEAD, WITHOUT_RULE, call, calls, exposed, first_header, limits, peer, taken
from rtr_link import Link, pattern, payload, tried
from support.cases import each_case


def test_a_short_item_at_the_end_of_a_call_goes_with_its_stream() -> None:
    sent = message(7, 0, (b"", pattern(100)), (b"", b"12345678"))
    assert len(sent.gather([sent.items[0]])) == 2
    request = first_header(taken(calls(), call(sent)), sent)
    assert [item.length for item in request.items] == [100]


@each_case("preference", list(Preference))
@each_case("room", [7, 8])
def test_items_and_results_too_short_are_not_moved(preference: Preference, room: int) -> None:
    assert calls(preference).take(call(payload(15), (15,), room=room)) is None
    assert calls(preference).take(call(payload(), (), room=room)) is None


@each_case(
    ("placement", "form", "written"),
    [
        ("rtr", "argument by send + result by send", ()),
        ("choice", "argument by send + result by choice", (100,)),
        ("by-size", "argument by send + result by size", (100,)),
        ("explicit", "read chunk + write chunk", (100,)),
        ("auto", "argument by send + result by send", ()),
    ],
)
def test_a_call_says_how_it_goes(placement: str, form: str, written: tuple[int, ...]) -> None:
    sent = payload(15, 100)
    found = taken(calls(), call(sent, (100,), placement=placement))
    assert found.form == form
    assert found.plan.write_chunks == written
    assert found.plan.read_items == ((1,) if placement == "explicit" else ())
    assert not found.plan.long
    assert not found.plan.reply_chunk
    assert found.by_send is (placement != "explicit")
    request = first_header(found, sent)
    (item,) = request.items
    assert (item.position, item.length) == (sent.items[1].position, 100)
    assert isinstance(item.where, Explicit if placement == "explicit" else InSegments)
    ((begin, end, (direction,)),) = request.directions
    assert (begin, end, direction.least) == (0, sent.length, 16)
    assert direction.way.name == {"rtr": "SEGMENTS", "auto": "SEGMENTS"}.get(
        placement, placement.upper().replace("-", "_")
    )
    assert direction.segments == ((Segment(200, 100, 0),) if written else ())
    assert direction.explicit_from == (100 if placement == "by-size" else 0)


@each_case("preference", WITHOUT_RULE)
@each_case(
    ("sizes", "results"),
    [
        ((16,), ()),
        ((100, 200), ()),
        ((15, 16, 17), (15, 16, 15)),
        ((), (16, 15)),
        ((), (15, 15, 40, 0)),
        ((101, 4, 33), (0, 100)),
        ((64,) * 3, (64,) * 3),
    ],
)
def test_items_that_are_worth_it_are_moved_and_results_up_to_the_last_such_one_directed(
    preference: Preference, sizes: tuple[int, ...], results: tuple[int, ...]
) -> None:
    sent = payload(*sizes)
    for segment_octets in (1 << 20, 64, 33):
        bounds = limits(segment_octets_max=segment_octets)
        link = Link()
        found = taken(calls(preference, link=link), call(sent, results, bounds=bounds))
        request = first_header(found, sent, segment_octets)
        moved = [index for index, size in enumerate(sizes) if size >= 16]
        assert [item.position for item in request.items] == [sent.items[index].position for index in moved]
        directed = max((number for number, size in enumerate(results, 1) if size >= 16), default=0)
        directions = request.directions[0].results if directed else ()
        assert len(directions) == directed
        assert len(request.directions) == bool(directed)
        assert {direction.least for direction in directions} <= {16}
        in_segments = 0 if preference is Preference.EXPLICIT else len(moved)
        assert link.statistics.groups_sent == 1
        assert link.statistics.items_sent_in_segments == in_segments
        assert found.by_send is bool(in_segments)
        if preference is Preference.SEGMENTS:
            assert found.plan.write_chunks == ()
        elif directed:
            assert found.plan.write_chunks == results[:directed]


@each_case(("items", "is_taken"), [(16, True), (17, False)])
def test_so_many_items_are_moved(items: int, is_taken: bool) -> None:
    sent = payload(*(16,) * items, between=0)
    bounds = limits(segments_max=100)
    assert (calls().take(call(sent, bounds=bounds)) is not None) is is_taken


def test_so_many_results_are_directed() -> None:
    sent = payload()
    found = taken(calls(), call(sent, (16,) * 20))
    assert len(first_header(found, sent).directions[0].results) == 16
    # A long one behind these is none of them.
    assert calls().take(call(sent, (0,) * 16 + (16,))) is None
    assert calls().take(call(sent, (0,) * 15 + (16,))) is not None


@each_case("size", [97, 100])
def test_by_the_rule_arguments_that_go_in_plain_messages_go_so(size: int) -> None:
    sent = payload(size)
    octets = 36 + sent.length
    carrier = calls(Preference.AUTO)
    assert carrier.take(call(sent, bounds=limits(call_octets_max=octets))) is None
    assert carrier.take(call(sent, bounds=limits(call_octets_max=octets - 1))) is not None
    assert calls().take(call(sent, bounds=limits(call_octets_max=octets))) is not None
    # The results of such a call are a matter of their own.
    found = taken(carrier, call(sent, (100,), bounds=limits(call_octets_max=octets)))
    request = first_header(found, sent)
    assert (request.items, len(request.directions)) == ((), 1)


def test_by_the_rule_results_that_come_in_plain_messages_come_so() -> None:
    sent = payload(100)
    # Items with their padding, an allowance of 32 octets, the other results, and the header.
    octets = 44 + (100 + 4 + 32) + 32 + 40
    carrier = calls(Preference.AUTO)
    results = (97, 1, 32)
    less, more = (limits(reply_octets_max=most) for most in (octets - 1, octets))
    assert len(first_header(taken(carrier, call(sent, results, bounds=less)), sent).directions) == 1
    assert first_header(taken(carrier, call(sent, results, bounds=more)), sent).directions == ()
    assert len(first_header(taken(calls(), call(sent, results, bounds=more)), sent).directions) == 1
    assert carrier.take(call(payload(), results, bounds=more)) is None


@each_case("preference", WITHOUT_RULE)
def test_a_call_whose_reply_may_need_a_chunk_goes_without_the_extension(preference: Preference) -> None:
    # The header, the allowance, and an item with its padding that is too short to be directed.
    most = CONTINUED_OCTETS_MAX - 44 - 32 - 16
    assert calls(preference).take(call(payload(100), (15,), plain=most)) is not None
    assert calls(preference).take(call(payload(100), (15,), plain=most + 1)) is None


@each_case("room", [7, 8])
def test_by_the_rule_the_estimates_decide(room: int) -> None:
    """A transmission costs 4, a registration 2, a read 8 besides its round trip."""
    link = Link()
    costs = Costs(transmission_s=4.0, registration_s=2.0, read_s=8.0)
    carrier = calls(Preference.AUTO, link=link, costs=costs)
    two, three = payload(2 * 256), payload(3 * 256)
    assert carrier.take(call(two, room=room)) is not None
    assert carrier.take(call(three, room=room)) is None
    link.round_trip_s = 2.0
    assert carrier.take(call(three, room=room)) is not None
    # Other preferences do not ask.
    link.round_trip_s = 0.0
    assert carrier.take(call(three, room=room, placement="rtr")) is not None
    # Of results the transmissions beyond the first one count.
    assert carrier.take(call(payload(), (256,), room=room)) is not None
    assert carrier.take(call(payload(), (257,), room=room)) is None
    assert carrier.take(call(payload(), (256,), room=room, given=1)) is None
    assert carrier.take(call(payload(), (256,), room=room, given=1, placement="rtr")) is not None
    assert carrier.take(call(two, (256,), room=room, given=1)) is not None


def result_frames(size: int, *, plain: int = 40, **options: Any) -> int | None:
    """Transmissions beyond the first one that the reply to a call may have, whose result goes in segments."""
    link = options.pop("link", None)
    own, other = options.pop("own", None), options.pop("other", None)
    carrier = calls(Preference.AUTO, link=link, own=own, other=other, extra_room=options.pop("extra_room", 8))
    found = tried(carrier.take, call(payload(), (size,), plain=plain, **options))
    assert not isinstance(found, Exception), found
    if found is None:
        return None
    assert found.form == "result by send"
    assert first_header(found, payload()).extra_receives == found.responses_max - 1
    return found.responses_max - 1  # type: ignore[no-any-return]


def test_a_reply_is_promised_the_receives_that_it_can_take() -> None:
    # Prefix, header, one item, one direction in four segments, and the allowance: the rest is for the other results.
    room = HEAD - (20 + 12 + 12 + 8 + 4 * 4 + 32)
    assert result_frames(256, plain=room) == 0
    assert result_frames(256, plain=room + 1) == 1
    # Each further segment takes four octets more.
    assert result_frames(257, plain=room - 4) == 1
    assert result_frames(1, bounds=limits(direct_octets_min=1)) == 0
    assert [result_frames(256 * count) for count in range(1, 10)] == [0, 1, 2, 3, 4, 5, 6, 7, None]


@each_case("preference", CARRYING)
def test_results_are_directed_only_where_a_response_is_taken_and_sent(preference: Preference) -> None:
    sent = payload(100)
    for own, other in ((peer(5), peer()), (peer(), peer(responses_max=0))):
        assert calls(preference, own=own, other=other).take(call(sent, (100,))) is None
        assert calls(preference, own=own, other=other).take(call(sent, (15,))) is not None
    assert calls(preference, other=peer(responses_max=1)).take(call(sent, (100,))) is not None


@each_case(
    ("placement", "size", "responses_max", "extra", "explicit_from"),
    [
        # One buffer less than there are, each with 256 octets of segments.
        ("rtr", 2049, 8, 7, 7 * 256),
        ("rtr", 513, 2, 1, 256),
        ("rtr", 257, 1, 0, 256),
        ("by-size", 2049, 8, 7, 7 * 256),
        # All of a result that could come in segments goes so, but the longest.
        ("by-size", 2000, 8, 7, 7 * 256),
        ("by-size", 1000, 8, 7, 1000),
    ],
)
def test_results_by_size_are_written_from_so_many_octets_on(
    placement: str, size: int, responses_max: int, extra: int, explicit_from: int
) -> None:
    sent = payload()
    found = taken(calls(other=peer(responses_max=responses_max)), call(sent, (size,), placement=placement))
    request = first_header(found, sent)
    ((_, _, (direction,)),) = request.directions
    assert (direction.way.name, direction.explicit_from) == ("BY_SIZE", explicit_from)
    assert (found.responses_max, request.extra_receives) == (1 + extra, extra)


@each_case(("least", "plain", "way"), [(255, 40, "BY_SIZE"), (256, 40, "EXPLICIT"), (255, 160, "EXPLICIT")])
def test_results_that_no_reply_holds_beside_the_others_are_written(least: int, plain: int, way: str) -> None:
    """A reply of one transmission has 256 octets of segments, and as many before them."""
    sent = payload()
    one = calls(other=peer(responses_max=1))
    found = taken(one, call(sent, (400,), plain=plain, bounds=limits(direct_octets_min=least)))
    ((_, _, (direction,)),) = first_header(found, sent).directions
    assert (direction.least, direction.way.name, found.responses_max) == (least, way, 1)


def test_several_results_come_by_their_sizes_or_by_rdma_if_no_reply_holds_them() -> None:
    sent = payload()
    found = taken(calls(other=peer(responses_max=2)), call(sent, (100, 15, 300), placement="by-size"))
    ((_, _, directions),) = first_header(found, sent).directions
    assert {each.way.name for each in directions} == {"BY_SIZE"}
    assert [each.explicit_from for each in directions] == [100, 15, 256]
    assert (found.form, found.plan.write_chunks) == ("result by size", (100, 15, 300))
    for placement in ("", "by-size"):
        found = taken(calls(), call(sent, (2000, 300), placement=placement))
        assert (found.form, found.responses_max) == ("write chunk", 1)
    assert calls(Preference.AUTO).take(call(sent, (2000, 300))) is None
    assert calls(Preference.AUTO).take(call(sent, (2049,))) is None


def argument_frames(size: int, **options: Any) -> int | None:
    """Transmissions of a call whose argument goes in segments."""
    link, other = options.pop("link", None), options.pop("other", None)
    sent = payload(size, between=options.pop("between", 8))
    found = tried(calls(Preference.SEGMENTS, link=link, other=other).take, call(sent, **options))
    assert not isinstance(found, Exception), found
    if found is None or found.form != "argument by send":
        return None
    return first_header(found, sent).count


def test_a_call_takes_the_transmissions_that_it_needs() -> None:
    # Prefix, header, one item in four segments: the rest is for the stream, which has 12 octets and the length besides.
    room = HEAD - (20 + 20 + 12 + 8 + 4 * 4) - 16
    assert argument_frames(256, between=room) == 1
    assert argument_frames(256, between=room + 4) == 2
    assert [argument_frames(256 * count) for count in range(1, 10)] == [1, 2, 3, 4, 5, 6, 7, 8, None]


def test_a_call_has_the_transmissions_that_the_peer_and_the_credits_allow() -> None:
    three = 3 * 256
    for count in (2, 3):
        assert argument_frames(three, other=peer(requests_max=count)) == (3 if count == 3 else None)
        assert argument_frames(three, room=count) == (3 if count == 3 else None)
    assert argument_frames(257, other=peer(3)) is None
    assert argument_frames(256, other=peer(3)) == 1


@each_case(("segments_max", "is_taken"), [(6, False), (7, True)])
def test_memory_is_described_up_to_the_segments_that_the_peer_takes(segments_max: int, is_taken: bool) -> None:
    sent = payload(100, 129)
    bounds = limits(segment_octets_max=64, segments_max=segments_max)
    found = calls(Preference.EXPLICIT).take(call(sent, (100,), bounds=bounds))
    assert (found is not None) is is_taken


def test_arguments_that_no_request_holds_are_read_where_results_are_directed() -> None:
    sent = payload(9 * 256)
    found = taken(calls(), call(sent, (100,)))
    assert (found.form, found.by_send) == ("read chunk + result by send", False)
    assert found.plan.read_items == (0,)
    assert calls().take(call(sent)) is None
    # A call that is explicit anyhow is not laid out twice.
    assert calls(Preference.EXPLICIT).take(call(payload(100), (100,), bounds=limits(segments_max=1))) is None


def test_calls_of_the_same_sizes_have_one_plan() -> None:
    carrier, bounds = calls(), limits()
    plans: list[object] = []  # kept: one that is gone could leave its address to the next

    def plan(sent: Payload, results: Sequence[int] = (), **options: Any) -> int:
        plans.append(taken(carrier, call(sent, results, bounds=bounds, **options)).plan)
        return id(plans[-1])

    one = plan(payload(100), (100,))
    assert plan(payload(100), (100,)) == one
    assert plan(payload(100, xid=9), (100,), room=9) == one
    others = [
        plan(payload(104), (100,)),
        plan(payload(100), (101,)),
        plan(payload(100), (100, 100)),
        plan(payload(100), (100,), plain=44),
        plan(payload(100), (100,), placement="explicit"),
        plan(payload(100, 20), (100,)),
        plan(payload(20, 100), (100,)),
    ]
    assert one not in others
    # Where credits are short, each call is planned anew.
    assert plan(payload(100), (100,), room=7) != one
    kept, carrier.promises = carrier.promises, Promises(14, carrier._link.reserve)
    assert plan(payload(100), (100,)) != one
    carrier.promises = kept
    assert plan(payload(100), (100,)) == one
    bounds = limits()
    assert plan(payload(100), (100,)) != one


def test_headers_that_name_memory_are_made_anew() -> None:
    carrier = calls(Preference.EXPLICIT)
    sent = payload(100)
    found: Any = taken(carrier, call(sent, (100,)))
    for handle in (1, 2):
        chunks = ChunkLists(
            (ReadChunk(sent.items[0].position, (Segment(handle, 100, 0),)),), (WriteChunk((Segment(handle, 100, 8),)),)
        )
        request, _ = decode_transmit_request(b"".join(found.transmissions(chunks)[0].body), 0)
        assert request.items[0].where == Explicit((Segment(handle, 100, 0),))
        assert request.directions[0].results[0].segments == (Segment(handle, 100, 8),)
    assert not found._how.headers


def results(*items: Item, **views: bytes) -> Results:
    """Items of a response; those in segments by their Positions."""
    return Results(items, {int(name[1:]): memoryview(view) for name, view in views.items()}, 0)


def test_results_are_where_the_response_says() -> None:
    found = taken(calls(), call(payload(), (100, 50, 30), placement="choice"))
    memory = [memoryview(bytearray(size)) for size in (100, 50, 30)]
    chunks = exposed(found, payload())
    segment = chunks.writes[2].segments[0]
    came = results(
        Item(12, 8, InSegments(0, (0,))),
        Item(0, 0, NotPlaced.NO_ITEM),
        Item(40, 20, Explicit((Segment(segment.handle, 20, segment.offset),))),
        p12=b"segments",
    )
    memory[2][:20] = pattern(20)
    opened = tried(found.open, came, b"stream", chunks, memory)
    assert isinstance(opened, Returned), opened
    data, start, placed, octets = opened
    assert (data, start, octets) == (b"stream", 0, 20)
    assert placed is not None
    assert placed.take(12, 8, "first") == b"segments"
    assert placed.take(30, 30, "second") is None
    assert placed.take(40, 20, "third") == pattern(20)
    placed.done()


@each_case(("length", "written"), [(3, 4), (5, 4), (0, 4), (4, 0)])
def test_a_result_has_the_length_that_was_written(length: int, written: int) -> None:
    found = taken(calls(), call(payload(), (100,), placement="explicit"))
    came = results(Item(12, length, Explicit((Segment(200, written, 0),))))
    with pytest.raises(RemoteProtocolError, match=f"an item of {length} octets, {written} written"):
        found.open(came, b"", exposed(found, payload()), [memoryview(bytearray(100))])


def test_a_carried_call_goes_as_the_version_has_it_where_no_more_can_be_offered() -> None:
    found = taken(calls(), call(payload(100)))
    form = CallForm(ReplyBound(10, (100,)))
    plain = form._replace(attempts=2, plain=True)
    larger = form._replace(bound=ReplyBound(10, (500,)), attempts=2)
    assert found.form_after(Refusal(Cause.REPLY_RESOURCE, needed=500), form, larger) == plain
    assert found.form_after(Refusal(Cause.WRITE_RESOURCE, needed=500), form, larger) == larger
    assert found.form_after(Refusal(Cause.WRITE_RESOURCE, needed=500), form, None) == plain
    assert found.form_after(Refusal(Cause.HEADER), form, None) is None
    assert found.form_after(NOT_TAKEN, form, None) == plain
    for refusal in (NOT_TAKEN, Refusal(Cause.REPLY_RESOURCE, needed=500)):
        assert found.form_after(refusal, form._replace(attempts=CALL_ATTEMPTS_MAX), None) is None


@each_case("octets", [100, 0])
def test_a_reply_in_messages_of_the_version_is_opened_by_the_requester(octets: int) -> None:
    link = Link()
    found = taken(calls(link=link), call(payload(octets), (100,)))
    assert found.open(None, b"", NO_CHUNKS, ()) is None
    assert link.statistics.calls_by_send == (octets > 0)
