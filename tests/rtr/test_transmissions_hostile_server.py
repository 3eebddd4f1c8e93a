"""A client's endpoint with the round-trip extension against a server that sends any transmissions and reports."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rtr import Preference
from rpcrdma.rtr.messages import TransmissionFault
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import Call, CallFailed, Closed, ReplyArrived, Role
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
    PAGE,
    REPTERR,
    TOOSHORT,
    XMTREQ,
    XMTRESP,
    HeardTransmission,
    TransmissionPeer,
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


OFFERED = 10240


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


def sending(peer: TransmissionPeer, argument: bytearray, *early: bytes) -> Call:
    """A call of which as many transmissions have left as messages `early` about it have arrived."""
    peer.give = 0
    call = peer.endpoint.call(ONE, message(ONE, 0, (b"argument", argument)), ReplyBound(8))
    for octets in early:
        peer.qp.post_send("send", [octets], signaled=False)
    for _ in early:
        # One Send of either side.
        peer.link.progress(1)
        peer.endpoint.progress()
    return call


REPORTED = words(ONE, 0, 0, 0, BADCONT)


@each_case("reported", [False, True])
def test_memory_that_changes_after_its_call_was_given_up_never_gets_out(reported: bool) -> None:
    """Also where the call is to go out again while the rest of the refused messages is on its way."""
    peer = client(give=2)
    argument = bytearray(b"before!!" * 3000)
    early = [peer.header(ONE, REPTERR) + REPORTED] if reported else []
    peer.endpoint.abandon(sending(peer, argument, *early))
    argument[:] = b"after!!!" * 3000
    peer.run()
    assert all(b"after!!!" not in octets for octets in peer.received)
    assert len(peer.received) < 2
    (closed,) = peer.endpoint_events()
    assert isinstance(closed, Closed)
    assert "still being sent" in closed.reason


@each_case(
    ("kind", "body", "response", "ends"),
    [
        (0, bytes(16) + words(ONE, 1), True, ReplyArrived),
        (XMTRESP, words(0, 1, 8, ONE, 1), True, ReplyArrived),
        (XMTRESP, b"", True, CallFailed),
        (4, words(10), True, CallFailed),
        (REPTERR, REPORTED, False, None),
    ],
)
def test_a_call_that_is_answered_early_ends_after_all_of_it_has_been_sent(
    kind: int, body: bytes, response: bool, ends: type | None
) -> None:
    """Before that its caller might change the arguments, and the peer would get what they are changed to."""
    peer = client(give=8)
    peer.give = 0
    early = peer.header(ONE, kind, response=response) + body
    call = sending(peer, bytearray(40_000), early, early)
    assert peer.endpoint_events() == []
    assert call.sending
    # Of two answers the first one counts.
    statistics = peer.endpoint.statistics
    assert (statistics.bad_xids, statistics.resent_plain) == (1, 0)
    assert kinds(peer.heard()) == [XMTREQ, 0x103, 0x103, 0x103] + [0] * (0 if ends else 3)
    assert statistics.bad_xids == 1
    assert [type(event) for event in peer.endpoint_events()] == ([ends] if ends else [])
    assert not call.sending
    assert not peer.endpoint.requester.early


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
