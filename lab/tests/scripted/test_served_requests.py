"""Transmit Requests before the scripted server: the data of items in the segments of receive buffers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.errors import LocalProtocolError, RemoteProtocolError
from rpcrdma_lab.limits import RAW_CALL_OCTETS_MAX, RAW_RECORD_FRAGMENTS_MAX, RAW_WAITING_MAX
from rpcrdma_lab.scripted import ServingConversation, make_message, read_message
from rpcrdma_lab.scripted.conversation import LeftCourse
from rpcrdma_lab.scripted.peer_interface import Heard
from rpcrdma_lab.scripted.program_over_tcp import ProgramOverTcp
from rpcrdma_lab.scripted.served_call import placed_items, planned_reply
from rpcrdma_lab.scripted.values import Names
from support.cases import each_case
from support.loops import in_virtual_time

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
        (transmission(b"01234567", item(4, 0, 0, 0)), "an item has 3 segments, and there are fewer"),
        (transmission(b"", *[item(1 << 19, 0)] * 3), f"more than {RAW_CALL_OCTETS_MAX} octets"),
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


class Hearing:
    """A peer whose client sends some events, and nothing more."""

    version, takes_version, started, closed = "1", False, True, False

    def __init__(self, *events: Heard) -> None:
        self.events = [*events]

    async def next(self) -> Heard:
        return self.events.pop(0)

    async def read(self, *_: int) -> int:
        return 1

    async def close(self) -> None:
        self.closed = True


async def test_another_message_within_a_request_is_told() -> None:
    request, message = ({"header": {"xid": 7, "type": kind, "count": 2}, "body": b""} for kind in (0x101, 0))
    request["header"]["payload_octets"] = 0
    peer: Any = Hearing(Heard("message", message))
    live = ServingConversation(lambda _log, _names: peer, timeout_s=60.0)
    with pytest.raises(LeftCourse, match="a message of the type 0"):
        await live._joined_request(request)


class SilentProgram:
    """A program that answers nothing."""

    async def answer(self, _call: bytes) -> bytes:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


@in_virtual_time
async def test_a_program_without_an_answer_is_told_in_place_of_the_call_that_was_awaited() -> None:
    call = read_message("1", make_message("1", {"rpc": {}}, Names({"xid": 7})))
    peer: Any = Hearing(Heard("message", call))
    program: Any = SilentProgram()
    live = ServingConversation(lambda _log, _names: peer, timeout_s=60.0, program=program)
    await live.run([{"serve": {"each": {"message": {}}, "until": {"rpc": {"procedure": 6}}}}])
    assert live.outcome.failure is not None
    assert live.outcome.failure.unmet == "the program behind gives no answer"


async def test_a_client_with_longer_chunks_than_a_check_reads_is_not_judged() -> None:
    peer: Any = Hearing()
    live = ServingConversation(lambda _log, _names: peer, timeout_s=60.0)
    with pytest.raises(LeftCourse) as left:
        await live._read_all([{"position": 0, "handle": 1, "offset": 0, "length": 1 << 20}] * 2)
    assert left.value.failure.unmet == f"the client's calls have more than {RAW_CALL_OCTETS_MAX} octets"


async def test_messages_before_the_data_of_a_chunk_are_bounded() -> None:
    peer: Any = Hearing(*[Heard("message", {"header": {}})] * (RAW_WAITING_MAX + 1))
    live = ServingConversation(lambda _log, _names: peer, timeout_s=60.0)
    with pytest.raises(LeftCourse, match=f"more than {RAW_WAITING_MAX} messages before it"):
        await live._read({"handle": 1, "offset": 0, "length": 4})
    assert not peer.events


@each_case(
    ("heard", "found"),
    [
        (Heard("end", {"how": "closed", "partial": b""}), (True, "")),
        (Heard("broken", {"cause": "the CRC of an FPDU is wrong", "statement": "MPA-24"}), (False, "MPA-24")),
    ],
)
async def test_what_comes_in_place_of_the_rest_of_a_call_is_told_as_elsewhere(
    heard: Heard, found: tuple[bool, str]
) -> None:
    """The end of a connection is no mistake, and a mistake in a frame breaks its own statement."""
    for method, argument in (("_read", {"handle": 1, "offset": 0, "length": 4}), ("_further", 7)):
        peer: Any = Hearing(heard)
        live = ServingConversation(lambda _log, _names, peer=peer: peer, timeout_s=60.0)  # type: ignore[misc]
        with pytest.raises(LeftCourse) as left:
            await getattr(live, method)(argument)
        assert (left.value.failure.ended, left.value.failure.statement) == found


async def test_a_client_that_begins_with_no_message_is_refused_no_version() -> None:
    peer: Any = Hearing(Heard("end", {"how": "ended", "partial": b""}))
    live = ServingConversation(lambda _log, _names: peer, timeout_s=60.0)
    assert await live.spoken_version() is None
    outcome = await live.answer({"version": "2", "steps": [{"hear": {"message": {}}}]})
    assert outcome.failure is not None
    assert outcome.failure.ended


async def test_a_conversation_with_a_mistake_closes_the_connection() -> None:
    peer: Any = Hearing()
    live = ServingConversation(lambda _log, _names: peer, timeout_s=60.0)
    with pytest.raises(LocalProtocolError, match="expected a list"):
        await live.answer({"steps": [{"hear": []}]})
    assert peer.closed


@each_case(
    ("reply", "found"),
    [
        (bytes(4 * RAW_RECORD_FRAGMENTS_MAX), f"{RAW_RECORD_FRAGMENTS_MAX} fragments"),
        ((RAW_CALL_OCTETS_MAX + 1).to_bytes(4), f"{RAW_CALL_OCTETS_MAX} octets"),
    ],
)
async def test_a_reply_of_the_program_beyond_a_limit_is_refused_with_that_limit(reply: bytes, found: str) -> None:
    program = ProgramOverTcp("127.0.0.1", 1)
    reader, writer = asyncio.StreamReader(), SimpleNamespace(write=lambda _: None)
    reader.feed_data(reply)
    program._streams = reader, writer  # type: ignore[assignment]
    with pytest.raises(ConnectionAbortedError, match=f"sent more than {found}"):
        await program.answer(b"call")


@pytest.mark.thorough
async def test_a_program_at_no_host_name_cannot_be_reached() -> None:
    with pytest.raises(OSError, match="not a host name"):
        await ProgramOverTcp("my..host", 1).answer(b"call")
