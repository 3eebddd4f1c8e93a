"""Small calls and small replies of one turn travel in one batch, all other messages as without the extension."""

from __future__ import annotations

from batch_pair import BatchPair, counts
from batches import BatchCounts, batches_extension

from rpcrdma import TransportConfig
from rpcrdma.extension import RoundTrip
from rpcrdma.rpc import ReplyBound
from rpcrdma.testing import EndpointPair, calls_in, message
from rpcrdma.transport import ReplyArrived
from support.cases import each_case


def test_calls_of_one_turn_go_together_and_so_do_their_replies() -> None:
    pair = BatchPair()
    before = pair.sends()
    handles = [pair.call(xid, 4 * xid) for xid in range(1, 17)]
    assert pair.sends() == before
    assert pair.client.calls_in_flight == 0
    assert pair.answered() == [handle.xid for handle in handles]
    assert pair.sends() == (before[0] + 1, before[1] + 1)
    client, server = pair.client.statistics, pair.server.statistics
    assert counts(pair.client) == counts(pair.server) == BatchCounts(1, 16, 1, 16)
    assert client.calls == client.calls_short == server.calls == server.calls_short == 16


def test_alone_a_call_goes_as_in_a_connection_without() -> None:
    pair = BatchPair()
    before = pair.sends()
    for xid in range(1, 5):
        pair.call(xid)
        assert pair.answered() == [xid]
    assert pair.sends() == (before[0] + 4, before[1] + 4)
    assert counts(pair.client) == counts(pair.server) == BatchCounts()


@each_case("limits", [(None, 64), (64, None), (None, None), (1, 64), (64, 1)])
def test_where_one_end_takes_none_every_message_goes_alone(limits: tuple[int | None, int | None]) -> None:
    pair = BatchPair(*limits)
    before = pair.sends()
    for xid in range(1, 9):
        pair.call(xid)
    assert pair.answered() == list(range(1, 9))
    assert pair.sends() == (before[0] + 8, before[1] + 8)
    assert counts(pair.client) == counts(pair.server) == BatchCounts()


def test_version_1_has_none() -> None:
    pair = BatchPair(version="1")
    for xid in range(1, 9):
        pair.call(xid)
    assert pair.answered() == list(range(1, 9))
    assert pair.client.statistics.sends == pair.server.statistics.sends == 8


@each_case(("client", "server", "sends"), [(64, 3, 3), (3, 64, 3), (5, 5, 2), (7, 64, 1)])
def test_no_more_go_together_than_either_end_takes(client: int, server: int, sends: int) -> None:
    pair = BatchPair(client, server)
    before = pair.sends()
    for xid in range(1, 8):
        pair.call(xid)
    assert pair.answered() == list(range(1, 8))
    assert pair.sends() == (before[0] + sends, before[1] + sends)


def test_messages_that_are_long_together_go_in_several() -> None:
    """In 4096 octets, 20 of them the header's prefix and 4 the count, there is room for three times 12 + 1344."""
    config = TransportConfig(offered_send_octets=4096, offered_receive_octets=4096)
    pair = BatchPair(config=config)
    assert pair.client.inline_send_octets == 4096
    before = pair.sends()
    for xid in range(1, 7):
        pair.call(xid, 1300)
    assert pair.answered() == list(range(1, 7))
    assert pair.sends() == (before[0] + 2, before[1] + 1)
    for xid in range(1, 7):
        pair.call(xid, 1344 if xid < 4 else 1348)
    assert pair.answered() == list(range(1, 7))
    # Three that are four octets longer are eight too many.
    assert pair.sends() == (before[0] + 2 + 3, before[1] + 2)


def test_a_call_with_chunks_goes_alone_and_keeps_its_place() -> None:
    pair = BatchPair()
    before = pair.sends()
    order = []
    for xid in range(1, 8):
        order.append(xid)
        if xid == 4:
            pair.client.call(xid, message(xid, 0, (b"argument", bytes(1 << 20))), ReplyBound(64))
        else:
            pair.call(xid)
    pair.run()
    incoming = calls_in(pair.server_events())
    # The argument is read first, so that the call is whole last of all.
    assert sorted(call.xid for call in incoming) == order
    assert pair.sends()[0] - before[0] == 3
    assert counts(pair.client).sent == 2
    for call in incoming:
        pair.reply(call)
    pair.run()
    assert sorted(event.call.xid for event in pair.client_events() if isinstance(event, ReplyArrived)) == order


def test_a_held_call_that_is_abandoned_is_never_sent() -> None:
    pair = BatchPair()
    before = pair.sends()
    handles = [pair.call(xid) for xid in (1, 2, 3)]
    pair.client.abandon(handles[1])
    assert pair.answered() == [1, 3]
    assert pair.sends() == (before[0] + 1, before[1] + 1)
    handles = [pair.call(xid) for xid in (4, 5)]
    pair.client.abandon(handles[0])
    assert pair.answered() == [5]
    assert counts(pair.client).sent == 1
    assert pair.client.statistics.calls_abandoned == 0


def test_a_call_abandoned_on_its_way_gives_its_credit_back_with_the_reply() -> None:
    pair = BatchPair()
    handles = [pair.call(xid) for xid in (1, 2, 3)]
    pair.run()
    for handle in handles[:2]:
        pair.client.abandon(handle)
    assert pair.client.calls_in_flight == 3
    assert pair.answered() == [3]
    assert pair.client.calls_in_flight == 0
    assert pair.client._session.window.in_flight == 0


@each_case("credits_", [1, 2, 3, 5])
def test_no_more_calls_go_than_credits_allow(credits_: int) -> None:
    config = TransportConfig(credits_requested=64, credits_granted=credits_)
    pair = BatchPair(config=config)
    for xid in range(1, 42):
        pair.call(xid)
    done: list[int] = []
    while len(done) < 41:
        pair.run()
        calls = calls_in(pair.server_events())
        assert 0 < len(calls) <= credits_
        # One of them is answered by itself, before the others.
        for incoming in (*calls[1:], *calls[:1]):
            pair.reply(incoming)
            if incoming is calls[-1]:
                pair.run()
        pair.run()
        done += [event.call.xid for event in pair.client_events() if isinstance(event, ReplyArrived)]
        assert pair.client.credits_granted <= credits_
    assert sorted(done) == list(range(1, 42))


def test_calls_of_the_server_and_their_replies_go_together_as_well() -> None:
    pair = BatchPair(reverse=True)
    pair.server.allow_reverse()
    before = pair.sends()
    for xid in range(1, 9):
        pair.server.call(xid, message(xid, 0, (bytes(8), None)), ReplyBound(64))
        pair.call(xid)
    pair.run()
    assert pair.sends() == (before[0] + 1, before[1] + 1)
    for incoming in calls_in(pair.client_events()):
        pair.client.reply(incoming, message(incoming.xid, 1, (bytes(8), None)))
    for incoming in calls_in(pair.server_events()):
        pair.reply(incoming)
    pair.run()
    assert pair.sends() == (before[0] + 2, before[1] + 2)
    for events in (pair.client_events(), pair.server_events()):
        assert [event.call.xid for event in events if isinstance(event, ReplyArrived)] == list(range(1, 9))


def test_what_is_held_goes_before_the_connection_ends() -> None:
    pair = BatchPair()
    for xid in (1, 2):
        pair.call(xid)
    pair.run()
    for incoming in calls_in(pair.server_events()):
        pair.reply(incoming)
    pair.server.disconnect()
    pair.run()
    assert [event.call.xid for event in pair.client_events() if isinstance(event, ReplyArrived)] == [1, 2]


def test_both_extensions_work_side_by_side() -> None:
    """Receive buffers are then those of the round-trip extension, in several pieces of memory."""
    both = [[RoundTrip().extension, batches_extension()] for _ in range(2)]
    pair = EndpointPair(version="2", client_extensions=both[0], server_extensions=both[1]).connect()
    for xid in range(1, 21):
        pair.client.call(xid, message(xid, 0, (bytes(1000), None)), ReplyBound(64))
    incoming = pair.arrived()
    assert [call.xid for call in incoming] == list(range(1, 21))
    assert all(call.decoder.octets(1008, "call")[8:] == bytes(1000) for call in incoming)
    assert counts(pair.server).received == 1
