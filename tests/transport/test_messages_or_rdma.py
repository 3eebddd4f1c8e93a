"""When a call or a reply goes in messages of a version that continues them, and when its items go by RDMA."""

from __future__ import annotations

import pytest

from rpcrdma.limits import CONTINUED_OCTETS_MAX
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.testing.endpoint_pair import EndpointPair, message
from rpcrdma.transport import ReplyArrived, TransportConfig
from support.cases import each_case

KIB = 1 << 10
HEADERS = 200
"""More than those of the calls and replies here."""


def offering(octets: int, most: int | None = None) -> TransportConfig:
    return TransportConfig(offered_send_octets=octets, offered_receive_octets=octets, in_messages_octets_max=most)


def sent(
    version: str,
    config: TransportConfig,
    argument: int = 0,
    result: int = 0,
    *,
    plain: int = 0,
    server: TransportConfig | None = None,
    round_trip_s: float = 0.0,
) -> tuple[int, int]:
    """RDMA Reads and Writes, and Sends in all of a call and its reply with items of so many octets, `plain` besides."""
    pair = EndpointPair(config, server or config, version=version).connect()
    pair.client.round_trip_s = round_trip_s
    client, served = pair.client.statistics, pair.server.statistics
    before = client.sends + served.sends - client.grants_sent - served.grants_sent
    bound = ReplyBound(plain, (result,) if result else ())
    pair.client.call(7, message(7, 0, (b"", bytes(argument) if argument else None)), bound)
    (call,) = pair.arrived()
    pair.server.reply(call, message(7, 1, (bytes(plain), bytes(result) if result else None)))
    pair.run()
    assert client.calls == 1
    sends = client.sends + served.sends - client.grants_sent - served.grants_sent
    return served.rdma_reads + served.rdma_writes, sends - before


FAR_S = 20e-3


def test_the_distance_changes_neither_results_nor_what_a_user_has_set() -> None:
    assert sent("2", offering(36 * KIB), result=36 * KIB, round_trip_s=FAR_S) == (1, 2)
    assert sent("2", offering(36 * KIB, 0), argument=4 * KIB, round_trip_s=FAR_S) == (1, 2)
    assert sent("2", offering(36 * KIB, 64 * KIB), argument=64 * KIB, round_trip_s=FAR_S) == (1, 2)


@each_case("octets", [4 * KIB, 16 * KIB, 36 * KIB])
def test_a_call_goes_in_up_to_three_messages_and_a_reply_in_one(octets: int) -> None:
    config = offering(octets)
    for count in (1, 2, 3):
        assert sent("2", config, argument=count * octets - HEADERS) == (0, count + 1)
    assert sent("2", config, argument=3 * octets) == (1, 2)
    assert sent("2", config, result=octets - HEADERS) == (0, 2)
    assert sent("2", config, result=octets) == (1, 2)


@pytest.mark.req("V2-103")
@each_case(("octets", "most", "messages"), [(4 * KIB, 12 * KIB, 3), (16 * KIB, 32 * KIB, 2), (36 * KIB, 72 * KIB, 2)])
def test_small_and_moderate_replies_are_continued_and_need_no_reply_chunk(
    octets: int, most: int, messages: int
) -> None:
    config = offering(octets)
    for plain, count in ((octets - HEADERS, 1), (octets + 4, 2), (most - HEADERS, messages)):
        assert sent("2", config, plain=plain) == (0, count + 1)
    # A longer one goes into one segment of a Reply chunk.
    assert sent("2", config, plain=most + 4) == (1, 2)
    # The first one waits for no credits.
    pair = EndpointPair(config, config, version="2").connect()
    pair.client.call(7, message(7, 0), ReplyBound(2 * octets - HEADERS))
    (call,) = pair.arrived()
    assert pair.client.statistics.registrations == 0
    pair.server.reply(call, message(7, 1, (bytes(2 * octets - HEADERS - 8), None)))
    pair.client_qp.progress()
    pair.client.progress()
    assert [type(event) for event in pair.client_events()] == [ReplyArrived]


def test_long_calls_go_by_rdma_however_large_messages_are() -> None:
    config = offering(64 * KIB)
    assert sent("2", config, argument=128 * KIB) == (0, 4)
    assert sent("2", config, argument=132 * KIB) == (1, 2)


def test_a_given_length_holds_for_calls_and_replies() -> None:
    by_rdma, in_messages = offering(8 * KIB, 0), offering(8 * KIB, 64 * KIB)
    assert sent("2", by_rdma, argument=4 * KIB)[0] == sent("2", by_rdma, result=4 * KIB)[0] == 1
    assert sent("2", in_messages, argument=60 * KIB) == sent("2", in_messages, result=60 * KIB) == (0, 9)
    assert sent("2", in_messages, argument=64 * KIB)[0] == sent("2", in_messages, result=64 * KIB)[0] == 1


def test_a_reply_longer_than_what_is_ever_continued_goes_into_its_reply_chunk() -> None:
    """However long the replies are that the server is told to continue."""
    octets = CONTINUED_OCTETS_MAX + KIB
    pair = EndpointPair(offering(64 * KIB, 0), offering(64 * KIB, 2 * CONTINUED_OCTETS_MAX), version="2").connect()
    pair.client.call(7, message(7, 0), ReplyBound(octets))
    (call,) = pair.arrived()
    pair.server.reply(call, message(7, 1, (bytes(octets), None)))
    pair.run()
    (event,) = pair.client_events()
    assert isinstance(event, ReplyArrived)
    assert pair.client.statistics.replies_long == 1
    assert pair.server.statistics.pieces_sent == 0
