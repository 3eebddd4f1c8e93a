"""Objects of the RPC layer have all of their attributes from the beginning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rpcrdma.rpc.call_statistics import CallCounts, CallStatistics, Durations
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.keep_alive import KeepAlive
from rpcrdma.rpc.record import RecordReceiver, RecordSender
from rpcrdma.rpc.reply_cache import CallKey, KnownCall, RefusedReplies, ReplyCache
from support.cases import each_case

MADE: dict[str, Callable[[], Any]] = {
    "CallCounts": CallCounts,
    "CallStatistics": CallStatistics,
    "Dispatcher": lambda: Dispatcher([]),
    "Durations": Durations,
    "KeepAlive": lambda: KeepAlive(1.0, 1.0, replies=lambda: 0, ask=lambda: True, give_up=lambda: None),
    "KnownCall": lambda: KnownCall(CallKey("", 1, 2, 3, 4, 5, 6)),
    "RecordReceiver": RecordReceiver,
    "RecordSender": RecordSender,
    "RefusedReplies": lambda: RefusedReplies(1),
    "ReplyCache": ReplyCache,
}


@each_case("name", MADE)
def test_no_attribute_is_missing(name: str) -> None:
    made = MADE[name]()
    slots = [slot for each in type(made).__mro__ for slot in getattr(each, "__slots__", ())]
    assert slots
    assert [slot for slot in slots if not slot.startswith("__") and not hasattr(made, slot)] == []
