"""The fields of a queue pair that is new."""

from __future__ import annotations

from typing import Any

from rpcrdma.iwarp.queue_pair import IwarpQueuePair

__all__ = ["assert_new"]


def fields_of(*objects: Any) -> dict[str, Any]:
    """The fields of objects with slots."""
    return {slot: getattr(each, slot) for each in objects for slot in each.__slots__}


def assert_new(qp: IwarpQueuePair) -> None:
    """A queue pair that has neither sent nor received has all its fields, and nothing in them."""
    config = qp.config
    assert (qp.crc, qp.inbound_reads, qp.outbound_reads) == (config.crc, config.inbound_reads, config.outbound_reads)
    assert (qp.wants_close, qp.timed, qp._ended, qp._full_operation, qp._asked) == (False, True, False, False, False)
    exchange = qp._exchange
    assert (len(exchange.next_buffer()), exchange.peer_data, exchange.agreement) == (533, b"", None)
    assert (qp._nudge_at_s, qp._startup_ends_s, list(qp.completions), qp.events) == (None, None, [], [])
    receiver = qp._receiver
    fields = fields_of(qp._sender, receiver, receiver.direct, receiver.tagged, receiver.untagged)
    filled = {"_msn", "_response_turn", "_scratch", "crc", "direct", "limit", "numbers", "out", "send_opened", "tagged"}
    filled |= {"untagged", "view", "_pd", "_sender"}
    assert {slot for slot, value in fields.items() if value} == filled
    assert (qp._sender._msn, receiver.untagged.numbers, receiver.untagged.send_opened) == ([1, 1], [1, 1, 1], (0, 0))
    out = qp._sender.out
    assert (out.sent, out.frames, out.start, out._digest, out.has_sources) == (0, [], 0, 0, False)
    assert out.built == sum(map(len, out.pieces))
