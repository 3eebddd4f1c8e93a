"""A client's endpoint with the round-trip extension against a server that sends any transmissions and reports."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.limits import CALL_ATTEMPTS_MAX
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rtr import Preference
from rpcrdma.rtr.messages import TransmissionFault
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import CallFailed, CallRefused, Closed, ReplyArrived, Role, TransportConfig
from support.cases import each_case
from support.octets import words
from transmission_peer import (
    BADCONT,
    BADHMT,
    BADOFF,
    BADOMT,
    BADPL,
    BADSEQ,
    BADTBSN,
    BADXID,
    NOITEM,
    OCTETS,
    PAGE,
    REPTERR,
    TOOSHORT,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    HeardTransmission,
    Report,
    TransmissionPeer,
    by_rdma,
    in_segments,
)

ONE, OTHER = 0x0A, 0x0B
RESULT = bytes(range(256)) * 40
VALUES = {BADCONT: ()} | dict.fromkeys((BADHMT, BADOMT, BADSEQ, BADXID), (1, 2))
VALUES |= dict.fromkeys((BADTBSN, BADOFF, BADPL), (1, 2, 3))


def client(**options) -> TransmissionPeer:
    return TransmissionPeer(Role.CLIENT, **options)


def calling(peer: TransmissionPeer, xid: int = ONE, **options) -> list[HeardTransmission]:
    """A call of the endpoint goes out, and is given back as it was sent."""
    peer.call(xid, **(options or {"argument": RESULT}))
    heard = peer.heard()
    assert {each.xid for each in heard} == {xid}
    return heard


def kinds(heard: list[HeardTransmission]) -> list[int]:
    return [each.kind for each in heard]


def answer(peer: TransmissionPeer, xid: int) -> None:
    """A proper answer to a call, which must be the only one that ends."""
    reply = words(xid, 1)
    lists = bytes(16)
    peer.put(xid, 0, lists + reply + b"response", response=True)
    (ended,) = peer.ended()
    assert ended == (xid, reply)


def assert_calls(peer: TransmissionPeer) -> None:
    """A call whose result comes in two transmissions is answered, and nothing is held of those before."""
    xid = 0x600D
    handle = peer.call(xid, result=len(RESULT) * 2)
    assert kinds(peer.heard()) == [XMTREQ]
    peer.response(
        words(xid, 1, len(RESULT) * 2), in_segments(12, len(RESULT) * 2, 0, 1, 2, 3, 4), xid=xid, count=2,
        data=(RESULT + RESULT)[: 3 * PAGE],
    )  # fmt: skip
    peer.go_on(1, xid=xid, begun_by=XMTRESP, data=(RESULT + RESULT)[3 * PAGE :])
    (event,) = peer.endpoint_events()
    assert isinstance(event, ReplyArrived)
    assert event.call is handle
    event.decoder.octets(8, "start")
    assert event.decoder.bulk(1 << 20, "item") == RESULT + RESULT
    assert peer.heard() == []
    assert peer.endpoint.calls_in_flight == 0
    peer.assert_nothing_held()


@pytest.mark.req("RT-4", "RT-14")
@each_case("code", VALUES)
def test_a_call_that_is_reported_goes_out_again_in_plain_messages(code: int) -> None:
    peer = client()
    assert kinds(calling(peer)) == [XMTREQ]
    calling(peer, OTHER)
    peer.put(ONE, REPTERR, words(ONE, 0, 0, 0, code, *VALUES[code]))
    (again,) = peer.heard()
    assert (again.xid, again.kind) == (ONE, 0)
    assert peer.endpoint_events() == []
    assert peer.endpoint.statistics.resent_plain == 1
    answer(peer, ONE)
    answer(peer, OTHER)
    assert peer.endpoint.statistics.calls_failed == 0
    assert_calls(peer)


@pytest.mark.req("RT-4")
def test_a_call_that_led_to_what_is_reported_goes_out_again_too_and_fails_if_it_is_reported_again() -> None:
    peer = client()
    calling(peer)
    calling(peer, OTHER)
    peer.put(OTHER, REPTERR, words(OTHER, 0, 1, 1, ONE, 0, 0, BADXID, ONE, OTHER))
    assert sorted(each.xid for each in peer.heard()) == [ONE, OTHER]
    assert peer.endpoint.statistics.resent_plain == 2
    for _ in range(3):
        peer.put(ONE, REPTERR, words(ONE, 0, 0, 0, BADCONT))
    assert peer.heard() == []
    ((xid, error),) = peer.ended()
    assert (xid, type(error)) == (ONE, CallRefused)
    answer(peer, OTHER)
    assert_calls(peer)


def test_a_call_is_not_sent_more_often_than_any_other() -> None:
    peer = client()
    calling(peer, result=20_000)
    for attempt in range(1, CALL_ATTEMPTS_MAX):
        peer.put(ONE, 4, words(9, 100 * attempt), response=True)
        # Without the extension, which was of no use to the first try.
        assert kinds(peer.heard()) == [0]
    peer.put(ONE, REPTERR, words(ONE, 0, 0, 0, BADCONT))
    assert peer.heard() == []
    ((_, error),) = peer.ended()
    assert isinstance(error, CallRefused)
    assert_calls(peer)


@pytest.mark.req("RT-4")
def test_reports_about_nothing_change_nothing() -> None:
    peer = client()
    calling(peer)
    for body in (
        words(OTHER, 0, 0, 0, BADCONT),
        words(ONE, 1, 0, 0, BADCONT),
        words(OTHER, 1, 0, 1, OTHER, 0, 0, BADSEQ, 1, 2),
        words(ONE, 0, 0, 0, 9),
        words(ONE, 2, 0, 0, BADCONT),
        words(ONE, 0, 0, 0, BADCONT, 0),
        words(ONE, 0, 0, 1),
        b"",
        bytes(5000),
    ):
        for response in (False, True):
            peer.put(ONE, REPTERR, body, response=response)
    assert peer.heard() == []
    assert peer.endpoint.statistics.reports_received == 6
    answer(peer, ONE)
    assert_calls(peer)


OFFERED = 10240


@pytest.mark.req("RT-7")
@each_case(
    ("preference", "items"),
    [
        # The way of the request's direction, and items of the response, which follow from the memory that is offered.
        (Preference.SEGMENTS, lambda _: []),
        (Preference.SEGMENTS, lambda _: [by_rdma(12, 4, (1, 4, 0))]),
        (Preference.EXPLICIT, lambda _: [in_segments(12, 100, 0)]),
        (Preference.EXPLICIT, lambda at: [by_rdma(12, 100, (at[0], 100, at[2]), (at[0], 0, at[2]))]),
        (Preference.CHOICE, lambda at: [by_rdma(12, OFFERED + 1, (at[0], OFFERED + 1, at[2]))]),
    ],
)
def test_a_response_that_does_not_fit_the_directions_fails_its_call_alone(
    preference: Preference, items: Callable[[tuple[int, int, int]], list[bytes]]
) -> None:
    peer = client(preference=preference)
    (sent,) = calling(peer, result=OFFERED)
    calling(peer, OTHER, result=OFFERED)
    # The memory that is offered follows the direction's way: a count, handle, length, offset.
    start = 4 + 4 + 8 + 4 + 8
    offered = (0, 0, 0)
    if preference is not Preference.SEGMENTS:
        assert sent.body[start : start + 4] == words(1)
        handle = int.from_bytes(sent.body[start + 4 : start + 8])
        offered = (handle, OFFERED, int.from_bytes(sent.body[start + 12 : start + 20]))
        assert handle in peer.endpoint_pd.regions
    peer.response(words(ONE, 1, 100), *items(offered), xid=ONE, data=bytes(2 * PAGE))
    ((xid, error),) = peer.ended()
    assert xid == ONE
    assert type(error) is RemoteProtocolError
    assert peer.heard() == []
    assert offered[0] not in peer.endpoint_pd.regions, "what the peer may write to ends with the call"
    peer.response(words(OTHER, 1), words(0, 0, NOITEM), xid=OTHER)
    assert peer.ended() == [(OTHER, words(OTHER, 1))]
    assert not peer.endpoint_pd.regions
    assert peer.endpoint.calls_in_flight == 0


@pytest.mark.req("RT-8", "RT-26")
@each_case("preference", [Preference.SEGMENTS, Preference.EXPLICIT, Preference.CHOICE])
@each_case("kind", [TOOSHORT, NOITEM])
def test_a_direction_that_comes_to_nothing_ends_its_memory(preference: Preference, kind: int) -> None:
    peer = client(preference=preference)
    calling(peer, result=OFFERED)
    peer.response(
        words(ONE, 1, 4, 7), words(12 if kind == TOOSHORT else 0, 4 if kind == TOOSHORT else 0, kind), xid=ONE
    )
    assert peer.ended() == [(ONE, words(ONE, 1))]
    peer.assert_nothing_held()


@pytest.mark.req("RT-4", "RT-11", "RT-14")
@each_case(
    ("parts", "items", "code", "values"),
    [
        ({"count": 3}, [], BADSEQ, (2, 3)),
        ({}, [in_segments(12, 10, 3)], BADTBSN, (3, 0, 2)),
        ({}, [by_rdma(12, 9, (1, 8, 0))], BADPL, (9, 0, 8)),
        ({"length": 0xFFFFFFFF}, [], BADPL, (0xFFFFFFFF, 0, -1)),
    ],
)
def test_a_response_with_a_fault_is_reported_and_fails_its_call_alone(
    parts: dict[str, int], items: list[bytes], code: int, values: tuple[int, ...]
) -> None:
    peer = client()
    # 20 KiB and the reply take two transmissions.
    calling(peer, result=20_000)
    calling(peer, OTHER)
    if values[-1] == -1:
        values = (*values[:-1], 2 * PAGE - 32)
    peer.response(words(ONE, 1, 10), *items, xid=ONE, data=bytes(PAGE), **parts)
    assert peer.reported() == Report((ONE, 1, 0), None, code, values)
    ((xid, error),) = peer.ended()
    assert (xid, type(error)) == (ONE, TransmissionFault)
    peer.go_on(1, xid=ONE, begun_by=XMTRESP, data=bytes(PAGE))
    assert peer.heard() == []
    answer(peer, OTHER)
    assert_calls(peer)


@pytest.mark.req("RT-2")
@each_case(
    ("act", "bad", "code"),
    [
        (lambda peer: peer.plain_reply(OTHER), (OTHER, 1, 0), BADHMT),
        (lambda peer: peer.plain_call(OTHER), (OTHER, 0, 0), BADHMT),
        (lambda peer: peer.response(words(OTHER, 1), xid=OTHER), (OTHER, 1, 0), BADOMT),
        (lambda peer: peer.go_on(2, xid=ONE, begun_by=XMTRESP), (ONE, 1, 2), BADSEQ),
    ],
)
def test_a_response_that_is_broken_off_fails_its_call(
    act: Callable[[TransmissionPeer], None], bad: tuple[int, int, int], code: int
) -> None:
    peer = client()
    third = 0x0C
    for xid in (ONE, OTHER, third):
        calling(peer, xid, result=20_000)
    peer.response(words(ONE, 1, 10), xid=ONE, count=2, data=bytes(PAGE))
    act(peer)
    report = peer.reported()
    assert (report.bad, report.lead, report.code) == (bad, (ONE, 1, 0), code)
    ended = dict(peer.ended())
    # The message that broke it is not used either, so that a call that it would have answered fails at once.
    assert set(ended) == ({ONE, OTHER} if bad[0] == OTHER and bad[1] else {ONE})
    assert all(isinstance(error, TransmissionFault) for error in ended.values())
    for xid in {OTHER, third} - set(ended):
        answer(peer, xid)
    assert_calls(peer)


@each_case("items", [[], [in_segments(8, 100, 0)]])
def test_a_response_to_a_call_in_plain_messages_fails_that(items: list[bytes]) -> None:
    peer = client()
    assert kinds(calling(peer, argument=None)) == [0]
    calling(peer, OTHER)
    peer.response(words(ONE, 1), *items, xid=ONE, data=bytes(PAGE))
    ((xid, error),) = peer.ended()
    assert xid == ONE
    assert isinstance(error, RemoteProtocolError)
    answer(peer, OTHER)
    assert_calls(peer)


@each_case("body", [b"", words(1), words(17), words(0, 1, 8, ONE, 0), words(0, 1, 8, OTHER, 1), words(0, 1, 0)])
def test_a_response_that_is_no_such_message_fails_its_call(body: bytes) -> None:
    peer = client()
    calling(peer)
    calling(peer, OTHER)
    peer.put(ONE, XMTRESP, body, response=True)
    ((xid, error),) = peer.ended()
    assert xid == ONE
    assert isinstance(error, RemoteProtocolError)
    peer.go_on(1, xid=ONE, begun_by=XMTRESP)
    assert peer.heard() == []
    answer(peer, OTHER)
    assert_calls(peer)


@pytest.mark.req("RT-17")
@each_case("end", ["refused", "reported", "faulty", "abandoned"])
def test_receives_that_were_promised_are_free_again_as_soon_as_their_call_does_not_need_them(end: str) -> None:
    peer = client()
    promises = peer.endpoint.requester.carrier.promises
    free = promises.left
    handle = peer.call(ONE, result=20_000)
    assert kinds(peer.heard()) == [XMTREQ]
    assert promises.left < free
    match end:
        case "refused":
            peer.put(ONE, 4, words(10), response=True)
        case "reported":
            peer.put(ONE, REPTERR, words(ONE, 0, 0, 0, BADCONT))
            assert kinds(peer.heard()) == [0], "the call goes out again, without the extension"
        case "faulty":
            peer.put(ONE, XMTRESP, b"", response=True)
        case "abandoned":
            peer.endpoint.abandon(handle)
    assert promises.left == free
    if end in {"refused", "faulty"}:
        assert [xid for xid, _ in peer.ended()] == [ONE]


@pytest.mark.req("RT-11", "RT-17")
def test_what_comes_for_a_call_that_was_abandoned_is_dropped_and_gives_everything_back() -> None:
    peer = client(preference=Preference.CHOICE)
    for number in range(1, 300):
        handle = peer.call(number, result=20_000)
        assert kinds(peer.heard()) == [XMTREQ]
        regions = list(peer.endpoint_pd.regions)
        if number % 3 == 0:
            peer.response(
                words(number, 1, 20_000), in_segments(12, 20_000, *range(5)), xid=number, count=2, data=bytes(3 * PAGE)
            )
        peer.endpoint.abandon(handle)
        assert all(region.abandoned for region in map(peer.endpoint_pd.regions.get, regions) if region)
        if number % 3 == 0:
            peer.go_on(1, xid=number, begun_by=XMTRESP, data=bytes(2 * PAGE))
        elif number % 3 == 1:
            peer.response(words(number, 1), words(0, 0, NOITEM), xid=number)
        else:
            peer.put(number, REPTERR, words(number, 0, 0, 0, BADCONT))
        assert peer.endpoint_events() == []
        assert peer.heard() == []
        peer.assert_nothing_held()
        assert peer.endpoint.calls_in_flight == 0
    # Of the 256 that may be promised at once all are left, but for the one that the longest promise keeps.
    carrier = peer.endpoint.requester.carrier
    assert carrier.promises.left == (255 + 1) // 2


@each_case("reported", [False, True])
def test_memory_that_changes_after_its_call_was_given_up_never_gets_out(reported: bool) -> None:
    """Also where the call waits to go out again while the rest of the refused messages is on its way."""
    peer = client(give=2, support=7)
    peer.give = 0
    argument = bytearray(b"before!!" * 3000)
    payload = message(ONE, 0, (b"argument", argument))
    handle = peer.endpoint.call(ONE, payload, ReplyBound(8))
    if reported:
        octets = peer.header(ONE, REPTERR) + words(ONE, 0, 0, 0, BADCONT)
        peer.qp.post_send("send", [octets], signaled=False)
        # One Send of either side: the first transmission, and the report about it.
        peer.link.progress(1)
        peer.endpoint.progress()
        assert peer.endpoint.statistics.resent_plain == 1
    peer.endpoint.abandon(handle)
    argument[:] = b"after!!!" * 3000
    peer.run()
    assert all(b"after!!!" not in octets for octets in peer.received)
    assert len(peer.received) < 2
    (closed,) = peer.endpoint_events()
    assert isinstance(closed, Closed)
    assert "still being sent" in closed.reason


def test_a_call_that_is_given_up_when_all_of_it_has_gone_ends_nothing() -> None:
    peer = client()
    argument = bytearray(RESULT)
    handle = peer.endpoint.call(ONE, message(ONE, 0, (b"argument", argument)), ReplyBound(8))
    assert kinds(peer.heard()) == [XMTREQ]
    peer.endpoint.abandon(handle)
    peer.plain_reply(ONE)
    assert peer.endpoint_events() == []
    assert_calls(peer)


def test_a_group_beyond_credits_ends_the_connection() -> None:
    peer = client(config=TransportConfig(offered_receive_octets=OCTETS, credits_requested=1))
    calling(peer, result=20_000)
    # The one report about them gives a few credits back.
    for _ in range(peer.endpoint._session.window.outstanding + 3):
        peer.qp.post_send("send", [peer.header(OTHER, XMTCONT) + words(1, XMTRESP, 0)], signaled=False)
    peer.run()
    closed = peer.endpoint_events()[-1]
    assert isinstance(closed, Closed)
    assert "more messages than credits allow" in closed.reason


@pytest.mark.req("RT-10", "RT-11")
@each_case("pages", [1, 3, 200])
@each_case(("requests_max", "length"), [(8, 20_000), (1, 8_000), (2, 20_000)])
def test_no_message_is_longer_than_the_peer_takes_whatever_its_structure_says(
    pages: int, requests_max: int, length: int
) -> None:
    structure = words(PAGE * (1 + pages), 2, 1, PAGE, 0, 0, pages, PAGE, PAGE, 1)
    peer = client(structure=structure, limits=(requests_max, 8))
    argument = (RESULT * 3)[:length]
    heard = calling(peer, argument=argument)
    assert all(len(each.octets) <= min(OCTETS, PAGE * (1 + max(pages, 3))) for each in heard)
    if heard[0].kind == XMTREQ:
        assert len(heard) <= requests_max
        usable = min(pages, 3)
        # Of each transmission, the part in whole segments that the peer can have.
        data = b"".join(each.octets[PAGE : PAGE * (1 + usable)] for each in heard)
        assert data == argument
    else:
        assert -(-length // (min(pages, 3) * PAGE)) > requests_max
    answer(peer, ONE)


@each_case(("octets", "more"), [(OCTETS, 0), (OCTETS, 1), (36864, 1)])
def test_a_response_that_never_ends_ends_the_connection(octets: int, more: int) -> None:
    config = TransportConfig(stalled_s=30.0, offered_receive_octets=octets, offered_send_octets=OCTETS)
    peer = client(config=config)
    peer.call(ONE, result=60_000)
    peer.heard()
    assert not peer.endpoint.untimed, "a response that has not begun is the caller's to wait for"
    peer.response(words(ONE, 1), xid=ONE, count=4 if octets == OCTETS else 2 + more, data=bytes(octets - PAGE))
    assert peer.endpoint.untimed
    assert peer.endpoint.timed
    assert peer.endpoint.next_deadline_s(100.0) == 130.0
    for number in range(more):
        peer.go_on(number + 1, xid=ONE, begun_by=XMTRESP, data=bytes(octets - PAGE))
    peer.endpoint.on_time(129.0)
    peer.run()
    assert peer.endpoint_events() == []
    peer.endpoint.on_time(130.0)
    peer.run()
    failed, closed = peer.endpoint_events()
    assert isinstance(failed, CallFailed)
    assert isinstance(closed, Closed)
    assert "the rest of a message within 30 s" in closed.reason
    assert not any(peer.slabs_in_use)


def test_responses_that_do_end_are_not_ended_by_it() -> None:
    peer = client(config=TransportConfig(stalled_s=30.0, offered_receive_octets=OCTETS))
    now_s = 100.0
    for xid in range(1, 4):
        calling(peer, xid, result=20_000)
        peer.response(words(xid, 1), xid=xid, count=2)
        if xid > 1:
            peer.endpoint.on_time(now_s)
            assert peer.endpoint_events() == []
        assert peer.endpoint.next_deadline_s(now_s) == now_s + 30
        peer.go_on(1, xid=xid, begun_by=XMTRESP)
        assert [each for each, _ in peer.ended()] == [xid]
        now_s += 30
    assert not peer.endpoint.timed
    assert_calls(peer)


@pytest.mark.req("V2-51")
def test_flags_that_contradict_the_type_fail_the_call_that_they_name_and_no_other() -> None:
    peer = client()
    for xid in (ONE, OTHER):
        calling(peer, xid, result=20_000)
    # A response that answers nothing is refused, and no call is looked for.
    peer.put(ONE, XMTRESP, words(0, 1, 8, ONE, 1))
    (error,) = peer.heard()
    assert (error.xid, error.kind, error.response, error.body) == (ONE, 4, True, words(4))
    assert peer.endpoint_events() == []
    # A request that answers a call of the endpoint is no answer to it.
    peer.put(ONE, XMTREQ, words(0, 0, 1, 0, 8, ONE, 0), response=True)
    ((xid, failure),) = peer.ended()
    assert (xid, type(failure)) == (ONE, RemoteProtocolError)
    assert peer.heard() == []
    answer(peer, OTHER)
    assert_calls(peer)
