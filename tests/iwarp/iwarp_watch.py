"""The fields of a queue pair's halves from step to step, and a bound on the gathers of a sender."""

from __future__ import annotations

from collections import deque
from typing import Any

from rpcrdma.iwarp.outbound import ReadResponse
from rpcrdma.iwarp.queue_pair import IwarpQueuePair
from rpcrdma.iwarp.sender import Sender, Work
from rpcrdma.verbs import MemoryRegion
from rpcrdma.wire.buffers import Buffer

__all__ = ["Watch", "assert_new", "bound_gather"]


def shown(value: Any) -> Any:
    """A field in a form that later steps leave alone: memory as its size, work as its `wr`, a region as its handle."""
    match value:
        case memoryview() | bytearray() | bytes():
            return len(value)
        case list() | deque():
            return [shown(each) for each in value]
        case ReadResponse():
            return value.header.length
        case tuple():
            return tuple(map(shown, value))
        case Work():
            return value.wr
        case MemoryRegion():
            return value.handle
    return value


class Watch:
    """The fields of objects with slots, and which of them have changed since the last look."""

    def __init__(self, *objects: Any) -> None:
        self.objects = objects
        self.fields: dict[str, Any] = {}

    def changes(self) -> dict[str, Any]:
        before = self.fields
        self.fields = {
            slot: shown(getattr(each, slot))
            for each in self.objects
            for slot in each.__slots__
            if slot not in {"_pd", "_sender"}
        }
        return {slot: value for slot, value in self.fields.items() if slot not in before or before[slot] != value}


class _Bounded(list[Buffer]):
    """A gather list that is looked at so often and no more: a gather that goes on without end fails."""

    looks = 0

    def __len__(self) -> int:
        self.looks += 1
        assert self.looks < 2000
        return super().__len__()


def bound_gather(sender: Sender) -> None:
    """Lets the next gather of `sender` fail if it goes on without end."""
    if not sender.out.pieces:
        sender.out.pieces = _Bounded()


def assert_new(qp: IwarpQueuePair) -> None:
    """A queue pair that has neither sent nor received has all its fields, and nothing in them."""
    assert (qp.wants_close, qp.timed, qp._ended, qp._full_operation, qp._asked) == (False, True, False, False, False)
    assert (qp._startup_filled, len(qp._startup), qp._peer_data, qp._agreement) == (0, 533, b"", None)
    assert (qp._nudge_at_s, qp._startup_ends_s, list(qp.completions), qp.events) == (None, None, [], [])
    fields = Watch(qp._sender, qp._receiver, qp._receiver.direct, qp._receiver.tagged, qp._receiver.untagged).changes()
    filled = {"_msn", "_response_turn", "_scratch", "crc", "direct", "limit", "numbers", "out", "send_opened", "tagged"}
    filled |= {"untagged", "view"}
    assert {slot for slot, value in fields.items() if value} == filled
    out = Watch(qp._sender.out).changes()
    assert (out["sent"], out["frames"], out["start"], out["_digest"], out["has_sources"]) == (0, [], 0, 0, False)
    assert out["built"] == sum(out["pieces"])
