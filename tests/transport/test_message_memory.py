"""The rights on the memory of calls in version 2, and their duration."""

from __future__ import annotations

import pytest

from rpcrdma.testing.endpoint_pair import EndpointPair, message
from rpcrdma.transport import CallFailed, Closed, ReplyArrived, ReplyBound, TransportConfig
from rpcrdma.verbs import Access

CALL, REPLY = 0, 1
BOUND = ReplyBound(9000, (5000,))


@pytest.fixture(params=["2", pytest.param("2-07", marks=pytest.mark.thorough)])
def pair(request: pytest.FixtureRequest) -> EndpointPair:
    """Two ends that use RDMA wherever they can."""
    chunks = TransportConfig(in_messages_octets_max=0, offered_send_octets=4096, offered_receive_octets=4096)
    return EndpointPair(chunks, chunks, version=request.param).connect()


@pytest.mark.req("V2-64")
def test_each_chunk_is_open_to_what_it_is_for_and_only_while_its_call_is_unanswered(pair: EndpointPair) -> None:
    assert not pair.client_pd.regions
    pair.client.call(1, message(1, CALL, (b"", bytes(5001))), BOUND)
    (incoming,) = pair.arrived()
    opened = {region.length: region.access for region in pair.client_pd.regions.values()}
    assert opened[5001] & (Access.REMOTE_READ | Access.REMOTE_WRITE) == Access.REMOTE_READ
    assert opened[5000] & (Access.REMOTE_READ | Access.REMOTE_WRITE) == Access.REMOTE_WRITE
    assert len(opened) == 3
    assert not pair.server_pd.regions, "what was read is not open any more"
    pair.server.reply(incoming, message(1, REPLY, (b"", bytes(5000))))
    pair.client_qp.progress()
    pair.client.progress()
    assert not pair.client_pd.regions, "closed before the caller is told"
    assert [type(event) for event in pair.client_events()] == [ReplyArrived]


@pytest.mark.req("V2-64")
@pytest.mark.parametrize("how", ["refused", "abandoned", "the connection ends"])
def test_no_end_of_a_call_leaves_its_memory_open(pair: EndpointPair, how: str) -> None:
    memory = bytearray(5000)
    handle = pair.client.call(1, message(1, CALL, (b"", bytes(5001))), BOUND, (memory,))
    (incoming,) = pair.arrived()
    if how == "refused":
        pair.server.fail_call(incoming)
        pair.run()
        assert [type(event) for event in pair.client_events()] == [CallFailed]
    elif how == "abandoned":
        pair.client.abandon(handle)
        assert not any(region.rights & Access.REMOTE_READ for region in pair.client_pd.regions.values())
        # The late reply writes into nothing.
        pair.server.reply(incoming, message(1, REPLY, (bytes(4000), b"\xff" * 5000)))
        pair.run()
        assert memory == bytes(5000)
        assert pair.client_events() == []
    else:
        pair.server.abort("gone")
        pair.run()
        assert [type(event) for event in pair.client_events()] == [CallFailed, Closed]
    assert not pair.client_pd.regions
