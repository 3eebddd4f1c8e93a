"""Counters of a connection, also under the names that Linux has for them."""

from __future__ import annotations

from dataclasses import fields

from rpcrdma.testing.endpoint_pair import EndpointPair, message
from rpcrdma.transport import ReplyBound, TransportConfig, TransportStatistics, add_up, linux_counters
from rpcrdma.transport.statistics import LINUX_CLIENT, LINUX_SERVER
from support.cases import each_case

OWN = {field.name for field in fields(TransportStatistics)}


@each_case("names", [LINUX_CLIENT, LINUX_SERVER])
def test_linux_names_stand_for_counters_that_there_are(names: dict[str, str]) -> None:
    assert set(names.values()) <= OWN
    assert len(set(names.values())) == len(names)


def exchange(argument: bytes, results: int, items: tuple[int, ...], reply: tuple[bytes, bytes | None]) -> EndpointPair:
    """One call whose segments are of at most 1,000 octets."""
    pair = EndpointPair(TransportConfig(segment_octets_max=1000)).connect()
    pair.client.call(7, message(7, 0, (b"", argument)), ReplyBound(results, items))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(7, 1, reply))
    pair.run()
    return pair


def test_chunks_are_counted_as_linux_counts_them_segment_by_segment() -> None:
    pair = exchange(bytes(5500), 100, (6500,), (b"", bytes(4500)))
    counters = linux_counters(pair.client.statistics)
    assert (counters["read_chunk"], counters["write_chunk"], counters["reply_chunk"]) == (6, 7, 0)
    assert (counters["total_rdma_request"], counters["total_rdma_reply"]) == (6500, 4500)
    assert (counters["sends"], counters["recvs"], counters["nomsg_call"]) == (1, 1, 0)
    assert counters["mrs_allocated"] == 2
    served = linux_counters(pair.server.statistics, server=True)
    assert served == {"rdma_stat_read": 6, "rdma_stat_recv": 1, "rdma_stat_write": 5}


def test_statistics_add_up() -> None:
    total = add_up([TransportStatistics(calls=1, sends=2), TransportStatistics(calls=3, errors_sent=4)])
    assert total == TransportStatistics(calls=4, sends=2, errors_sent=4)
    assert add_up([]) == TransportStatistics()
