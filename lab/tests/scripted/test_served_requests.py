"""Transmit Requests before the scripted server: the data of items in the segments of receive buffers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.errors import RemoteProtocolError
from rpcrdma_lab.limits import RAW_WAITING_MAX
from rpcrdma_lab.scripted import ServingConversation
from rpcrdma_lab.scripted.conversation import LeftCourse
from rpcrdma_lab.scripted.served_call import placed_items, planned_reply
from support.cases import each_case

BUFFER = {"segment_at": 40, "segment_octets": 8, "segments": 2}


def transmission(data: bytes, *items: dict[str, Any], padding: bytes = bytes(4)) -> dict[str, Any]:
    """A message with a header of 32 octets and a payload of 4, before its data."""
    return {
        "header": {"items": list(items), "payload_octets": 4},
        "header_octets": 32,
        "body": b"call" + padding + data,
    }


def item(length: int, *numbers: int, offset: int = 0) -> dict[str, Any]:
    return {"position": 4, "length": length, "type": 2, "offset": offset, "numbers": list(numbers)}


@pytest.mark.req("RT-5", "RT-23")
def test_segments_are_numbered_through_all_transmissions() -> None:
    first = transmission(b"0123456789abcdef", item(10, 1, 2, offset=4), item(3, 0), {"type": 1})
    assert placed_items([first, transmission(b"ghijklmn")], BUFFER) == [(4, b"cdefghijkl"), (4, b"012")]


@each_case(
    ("message", "cause"),
    [
        (transmission(b"01234567", item(4, 2)), "the number of a segment is 2"),
        (transmission(b"01234567", item(9, 0)), "an item of 9 octets has 8"),
        (transmission(b"0123", item(8, 0)), "an item of 8 octets has 4"),
        (transmission(b"01234567", item(4, 0), padding=b"\0\0\0\1"), "are not zero"),
    ],
)
def test_items_elsewhere_than_in_segments_are_refused(message: dict[str, Any], cause: str) -> None:
    with pytest.raises(RemoteProtocolError, match=cause):
        placed_items([message], BUFFER)


def test_a_receiver_without_segments_takes_no_items_there() -> None:
    with pytest.raises(RemoteProtocolError, match="there are fewer"):
        placed_items([transmission(b"", item(4, 0))], {})


@each_case(("version", "header"), [("1", 28), ("2", 36)])
def test_a_reply_of_exactly_the_threshold_goes_inline(version: str, header: int) -> None:
    """A client offers no Reply chunk for it."""
    call, reply = {"header": {}, "rpc": {}}, bytes(1024 - header)
    assert planned_reply(version, call, reply, 1024).body == reply
    assert planned_reply(version, call, reply, 1023).refused_octets == len(reply)


@each_case(
    ("taken", "header"),
    [
        ("_whole", {"xid": 1, "type": 0, "flags": 2}),
        ("_joined_request", {"xid": 1, "type": 0x101, "count": 0xFFFFFFFF}),
    ],
)
async def test_a_call_in_endless_empty_messages_is_given_up(taken: str, header: dict[str, Any]) -> None:
    peer: Any = SimpleNamespace(version="2", takes_version=False)
    live = ServingConversation(lambda _log, _names: peer, timeout_s=60.0)
    message, taken_in = {"header": header, "body": b""}, []

    async def further(_xid: int) -> dict[str, Any]:
        taken_in.append(message)
        return message

    live._further = further  # type: ignore[method-assign]
    with pytest.raises(LeftCourse, match=f"more than {RAW_WAITING_MAX} messages"):
        await getattr(live, taken)(message)
    assert len(taken_in) == RAW_WAITING_MAX
