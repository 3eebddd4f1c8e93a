"""Batches that break the rules, at either end."""

from __future__ import annotations

import struct

from batch_pair import BatchPeer, counts
from batches import BATCH, BATCH_MESSAGES_MAX

from rpcrdma.errors import DecodeError
from rpcrdma.rpc import ReplyBound
from rpcrdma.testing import calls_in, message
from rpcrdma.transport import CallFailed, CallRefused, Closed, ReplyArrived, Role
from support.cases import each_case

CALL, REPLY = 0, 1
RESPONSE, MORE = 1, 2
ERROR, BAD_XDR = 4, 2
INVAL_HTYPE = 3


def words(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}I", *numbers)


CALLS = {
    "no messages": words(0),
    "nothing at all": b"",
    "more than the count says": words(1, 8, 7, CALL, 8, 8, CALL),
    "fewer than the count says": words(3, 8, 7, CALL, 8, 8, CALL),
    "more than are taken": words(BATCH_MESSAGES_MAX + 1) + words(8, 7, CALL) * (BATCH_MESSAGES_MAX + 1),
    "a huge count": words(0xFFFFFFFF, 8, 7, CALL),
    "a huge length": words(2, 8, 7, CALL, 0xFFFFFFFF, 8, CALL),
    "a length whose padding is missing": words(2, 8, 7, CALL, 9, 8, CALL) + b"x",
    "a message of no octets": words(2, 8, 7, CALL, 0),
    "a message that is cut off": words(2, 8, 7, CALL, 4, 8),
    "a reply among calls": words(2, 8, 7, CALL, 8, 8, REPLY),
    "neither call nor reply": words(2, 8, 7, CALL, 8, 8, 2),
    "another XID than the header": words(2, 8, 9, CALL, 8, 7, CALL),
}


@each_case("name", CALLS)
def test_of_calls_against_the_rules_none_runs(name: str) -> None:
    peer = BatchPeer(Role.SERVER)
    assert peer.refusal(peer.octets(CALLS[name], 7)) == (7, BAD_XDR)
    assert peer.endpoint_events() == []
    assert (counts(peer.endpoint).received, peer.endpoint.statistics.errors_sent) == (0, 1)
    # The next batch is taken.
    assert peer.batch([(7, CALL), (8, CALL)]) == []
    assert [call.xid for call in calls_in(peer.endpoint_events())] == [7, 8]


def test_every_message_that_is_cut_off_is_refused() -> None:
    whole = words(2, 8, 7, CALL, 12, 8, CALL, 0)
    peer = BatchPeer(Role.SERVER, given=100)
    for length in range(len(whole)):
        assert peer.refusal(peer.octets(whole[:length], 7, given=100)) == (7, BAD_XDR)
    assert peer.endpoint_events() == []


def test_such_a_message_never_goes_on_in_another() -> None:
    peer = BatchPeer(Role.SERVER)
    assert peer.refusal(peer.octets(words(1, 8, 7, CALL), 7, flags=MORE))[0] == 7
    assert peer.endpoint_events() == []


def waiting(count: int = 3) -> tuple[BatchPeer, list[int]]:
    """A client with so many calls, which it has sent in one message."""
    peer = BatchPeer(Role.CLIENT)
    xids = list(range(7, 7 + count))
    for xid in xids:
        peer.endpoint.call(xid, message(xid, CALL, (bytes(8), None)), ReplyBound(64))
    peer.run()
    (sent,) = peer.received
    assert struct.unpack_from(">4I", sent)[::3] == (7, BATCH)
    return peer, xids


@each_case(
    ("body", "failed"),
    [
        (words(3, 8, 7, REPLY, 8, 8, REPLY, 8, 9, CALL), [7, 8]),
        (words(2, 8, 7, REPLY, 8, 9, REPLY, 0), [7, 9]),
        (words(3, 8, 7, REPLY, 7, 8, REPLY), [7]),
        (words(2, 8, 7, REPLY, 8, 99, REPLY, 1), [7]),
        (words(2, 8, 7, REPLY, 8, 7, REPLY, 1), [7]),
    ],
)
def test_of_replies_against_the_rules_the_named_calls_fail(body: bytes, failed: list[int]) -> None:
    peer, xids = waiting()
    assert peer.octets(body, 7, flags=RESPONSE) == []
    events = peer.endpoint_events()
    assert [event.call.xid for event in events if isinstance(event, CallFailed)] == failed
    assert all(isinstance(event, CallFailed) and isinstance(event.error, DecodeError) for event in events)
    left = [xid for xid in xids if xid not in failed]
    peer.batch([(xid, REPLY) for xid in left], flags=RESPONSE)
    assert [event.call.xid for event in peer.endpoint_events() if isinstance(event, ReplyArrived)] == left
    assert peer.endpoint._session.window.in_flight == 0


def test_flags_tell_whose_messages_they_are() -> None:
    """Replies without RESPONSE are taken for calls, and refused, and the reverse."""
    peer, _ = waiting()
    assert peer.refusal(peer.batch([(7, REPLY), (8, REPLY)])) == (7, BAD_XDR)
    assert peer.endpoint_events() == []
    peer = BatchPeer(Role.SERVER)
    assert peer.batch([(7, CALL), (8, CALL)], flags=RESPONSE) == []
    assert peer.endpoint_events() == []
    assert peer.endpoint.statistics.discarded == 1


def test_replies_to_no_calls_are_discarded_and_the_others_taken() -> None:
    peer, _ = waiting()
    peer.batch([(99, REPLY), (8, REPLY), (8, REPLY), (7, REPLY), (9, REPLY)], flags=RESPONSE)
    events = peer.endpoint_events()
    assert [event.call.xid for event in events if isinstance(event, ReplyArrived)] == [8, 7, 9]
    assert peer.endpoint.statistics.discarded == 2
    assert peer.endpoint._session.window.in_flight == 0


def test_a_refused_message_fails_all_of_its_calls_and_one_refused_call_only_that() -> None:
    for code, failed in ((BAD_XDR, [7, 8, 9]), (10, [7])):
        peer, xids = waiting()
        peer.send(peer.header(7, 4, 64, RESPONSE) + words(code))
        events = peer.endpoint_events()
        assert [event.call.xid for event in events if isinstance(event, CallFailed)] == failed
        assert all(isinstance(event, CallFailed) and isinstance(event.error, CallRefused) for event in events)
        left = [xid for xid in xids if xid not in failed]
        if left:
            peer.batch([(xid, REPLY) for xid in left], flags=RESPONSE, given=64)
        assert len(peer.endpoint_events()) == len(left)
        assert peer.endpoint._session.window.in_flight == 0
        # The same error about any other call is about that alone.
        peer, _ = waiting()
        peer.send(peer.header(8, 4, 64, RESPONSE) + words(BAD_XDR))
        assert [event.call.xid for event in peer.endpoint_events() if isinstance(event, CallFailed)] == [8]


def test_calls_beyond_the_credits_end_the_connection_however_few_messages_they_take() -> None:
    peer = BatchPeer(Role.SERVER, given=500)
    granted = peer.endpoint.credits_granted
    xid, came = 1, 0
    while True:
        peer.batch([(one, CALL) for one in range(xid, xid + BATCH_MESSAGES_MAX)], given=500)
        xid += BATCH_MESSAGES_MAX
        events = peer.endpoint_events()
        if any(isinstance(event, Closed) for event in events):
            came += len(events) - 1
            break
        came += len(events)
        assert came < 2000
    assert came == granted + 1


def test_a_peer_that_says_it_takes_none_is_sent_none() -> None:
    for limit in (0, 1):
        peer = BatchPeer(Role.CLIENT, limit=limit)
        for xid in (7, 8, 9):
            peer.endpoint.call(xid, message(xid, CALL, (bytes(8), None)), ReplyBound(64))
        peer.run()
        assert len(peer.received) == 3
    peer = BatchPeer(Role.CLIENT, limit=0xFFFFFFFF, given=200)
    for xid in range(7, 7 + BATCH_MESSAGES_MAX + 2):
        peer.endpoint.call(xid, message(xid, CALL, (bytes(8), None)), ReplyBound(64))
    peer.run()
    assert [struct.unpack_from(">5I", sent)[0] for sent in peer.received] == [7, 7 + BATCH_MESSAGES_MAX]


def test_a_client_that_takes_no_calls_refuses_each_of_them() -> None:
    peer = BatchPeer(Role.CLIENT)
    answers = peer.batch([(7, CALL), (8, CALL)])
    assert [peer.refusal([each]) for each in answers if int.from_bytes(each[12:16]) == ERROR] == [
        (7, INVAL_HTYPE),
        (8, INVAL_HTYPE),
    ]
    assert peer.endpoint_events() == []
