"""Every counter of both ends after conversations of each form: all others are zero."""

from __future__ import annotations

from dataclasses import asdict, replace

from rpcrdma.testing.endpoint_pair import SMALL_MESSAGES, EndpointPair, message
from rpcrdma.transport import ReplyBound, TransportStatistics
from support.cases import each_case

CALL, REPLY = 0, 1
CONFIG = replace(SMALL_MESSAGES, segment_octets_max=2000, offered_send_octets=8192, offered_receive_octets=8192)


def counted(statistics: TransportStatistics) -> dict[str, int]:
    return {name: count for name, count in asdict(statistics).items() if count}


def test_counters_begin_with_zero() -> None:
    assert counted(TransportStatistics()) == {}


def conversation(
    version: str, argument: tuple[int, int | None], bound: ReplyBound, result: tuple[int, int | None]
) -> tuple[dict[str, int], dict[str, int]]:
    """One call with so many plain octets, and those of an item if there is one, and a reply likewise."""
    pair = EndpointPair(CONFIG, CONFIG, version=version).connect()
    before = [counted(end.statistics) for end in (pair.client, pair.server)]
    call = (bytes(argument[0]), None if argument[1] is None else bytes(argument[1]))
    pair.client.call(7, message(7, CALL, call), bound)
    for incoming in pair.arrived():
        reply = (bytes(result[0]), None if result[1] is None else bytes(result[1]))
        pair.server.reply(incoming, message(7, REPLY, reply))
    pair.run()
    after = [counted(end.statistics) for end in (pair.client, pair.server)]
    new = [
        {name: count - was.get(name, 0) for name, count in now.items() if count - was.get(name, 0)}
        for was, now in zip(before, after, strict=True)
    ]
    return new[0], new[1]


CONVERSATIONS: dict[str, tuple[tuple[int, int | None], ReplyBound, tuple[int, int | None]]] = {
    "plain": ((0, None), ReplyBound(8), (0, None)),
    "an argument": ((0, 5000), ReplyBound(8), (0, None)),
    "a result": ((0, None), ReplyBound(8, (6500,)), (0, 4500)),
    "both": ((0, 5000), ReplyBound(8, (6500,)), (0, 4500)),
    "a long call": ((9000, None), ReplyBound(8), (0, None)),
    "a long call with an argument": ((30000, 30000), ReplyBound(8), (0, None)),
    "a long reply": ((0, None), ReplyBound(20000), (11000, None)),
    "a long reply that is short": ((0, None), ReplyBound(20000), (8, None)),
    "all long": ((9000, None), ReplyBound(20000), (11000, None)),
    "a result that is too large": ((0, None), ReplyBound(8, (5000,)), (0, 5001)),
    "a reply that is too large": ((0, None), ReplyBound(8), (11000, None)),
    "a very long call": ((60000, None), ReplyBound(8), (0, None)),
    "large items": ((0, 60000), ReplyBound(8, (50000,)), (0, 40000)),
}
FIRST: dict[str, tuple[str, str]] = {
    "plain": ("calls_short", "calls_short"),
    "an argument": (
        "calls_read_chunk registrations remote_invalidations segments_read=3 calls_by_rdma",
        "calls_read_chunk rdma_reads=3 octets_read=5000 registrations remote_invalidations",
    ),
    "a result": (
        (
            "calls_write_chunk registrations remote_invalidations segments_write=4 octets_offered=6500 "
            "octets_returned=4500 calls_by_rdma"
        ),
        "calls_write_chunk rdma_writes=3 octets_written=4500 remote_invalidations",
    ),
    "both": (
        (
            "calls_read_chunk calls_write_chunk registrations=2 remote_invalidations segments_read=3 segments_write=4 "
            "octets_offered=6500 octets_returned=4500 calls_by_rdma"
        ),
        (
            "calls_read_chunk calls_write_chunk rdma_reads=3 rdma_writes=3 octets_read=5000 octets_written=4500 "
            "registrations remote_invalidations"
        ),
    ),
    "a long call": (
        "calls_long registrations remote_invalidations segments_read=5 calls_by_rdma",
        "calls_long rdma_reads=5 octets_read=9008 registrations remote_invalidations",
    ),
    "a long call with an argument": (
        "calls_read_chunk calls_long registrations=2 remote_invalidations segments_read=31 calls_by_rdma",
        "calls_read_chunk calls_long rdma_reads=31 octets_read=60012 registrations remote_invalidations",
    ),
    "a long reply": (
        (
            "replies_long registrations remote_invalidations segments_reply=11 octets_offered=20032 "
            "octets_returned=11008 calls_by_rdma"
        ),
        "replies_long rdma_writes=6 octets_written=11008 remote_invalidations",
    ),
    "a long reply that is short": (
        "calls_short registrations remote_invalidations segments_reply=11 octets_offered=20032",
        "calls_short remote_invalidations",
    ),
    "all long": (
        (
            "calls_long replies_long registrations=2 remote_invalidations segments_read=5 segments_reply=11 "
            "octets_offered=20032 octets_returned=11008 calls_by_rdma"
        ),
        (
            "calls_long replies_long rdma_reads=5 rdma_writes=6 octets_read=9008 octets_written=11008 registrations "
            "remote_invalidations"
        ),
    ),
    "a result that is too large": (
        "calls_write_chunk calls_failed registrations segments_write=3 octets_offered=5000",
        "calls_failed errors_sent",
    ),
    "a reply that is too large": ("calls_failed", "calls_failed errors_sent"),
    "a very long call": (
        "calls_long registrations remote_invalidations segments_read=31 calls_by_rdma",
        "calls_long rdma_reads=31 octets_read=60008 registrations remote_invalidations",
    ),
    "large items": (
        (
            "calls_read_chunk calls_write_chunk registrations=2 remote_invalidations segments_read=30 "
            "segments_write=25 octets_offered=50000 octets_returned=40000 calls_by_rdma"
        ),
        (
            "calls_read_chunk calls_write_chunk rdma_reads=30 rdma_writes=20 octets_read=60000 octets_written=40000 "
            "registrations remote_invalidations"
        ),
    ),
}
"""The counters of client and server in version 1. Calls, sends, receives and others without a number are one."""
SECOND: dict[str, tuple[str, str]] = {
    "an argument": ("calls_short", "calls_short"),
    "a result": ("calls_short", "calls_short"),
    "both": ("calls_short", "calls_short"),
    "a long call": ("calls_short sends=2 messages_continued pieces_sent", "calls_short receives=2 pieces_received"),
    "all long": (
        (
            "replies_long sends=2 registrations remote_invalidations segments_reply=11 octets_offered=20032 "
            "octets_returned=11008 messages_continued pieces_sent calls_by_rdma"
        ),
        "replies_long receives=2 rdma_writes=6 octets_written=11008 remote_invalidations pieces_received",
    ),
    "a result that is too large": ("calls_short", "calls_short"),
    "a reply that is too large": (
        "calls_short sends=2 receives=2 pieces_received grants_sent",
        "calls_short sends=2 receives=2 messages_continued pieces_sent grants_received",
    ),
}
"""What differs in version 2."""


def counters(told: str) -> dict[str, int]:
    pairs = (each.partition("=") for each in told.split())
    return {"calls": 1, "sends": 1, "receives": 1} | {name: int(count or 1) for name, _, count in pairs}


@each_case("name", CONVERSATIONS)
def test_each_form_of_call_and_reply_counts_what_it_used(name: str) -> None:
    """Both ends have counters of their own."""
    tables = {"1": FIRST, "2": FIRST | SECOND}
    for version, table in tables.items():
        client, server = table[name]
        assert conversation(version, *CONVERSATIONS[name]) == (counters(client), counters(server)), version
