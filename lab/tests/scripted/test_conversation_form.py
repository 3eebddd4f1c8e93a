"""Conversations with mistakes: each is refused with its place before anything is said, or can be held."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import copy
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.errors import LocalProtocolError
from rpcrdma_lab.check import CATALOGUE, CLIENT_CATALOGUE
from rpcrdma_lab.scripted import (
    Heard,
    LiveConversation,
    Outcome,
    Passage,
    RawPeer,
    ServingConversation,
    form,
    make_message,
    read_message,
)
from rpcrdma_lab.scripted.form import check_conversation, names_wanted
from rpcrdma_lab.scripted.frames import SEGMENT_MOST, STARTUP_MOST
from rpcrdma_lab.scripted.layouts import LAYOUTS
from rpcrdma_lab.scripted.values import Names
from support.cases import each_case

CLIENT = [check.conversation for check in CATALOGUE]
SERVER = [check.conversation for check in CLIENT_CATALOGUE]
OTHERS: tuple[Any, ...] = (
    *(None, True, 0, 5, -1, 1 << 70, 1.5, "", "zz", "7", "00ff", "\ud800", [], [5], [[]], [{}], {}, {"colour": 1}),
    *({"given": 5}, {"given": "size"}, {"heard": []}, {"heard": "header"}, {"words": 5}, {"zeros": 1 << 60}),
    *({"any": 5}, {"min": "x"}, {"not": {}}, {"all": None}, {"text": 5}, {"opaque": None}, {"memory": 5}),
)
REPLY = bytes.fromhex("00000001 00000001 00000020 00000000 00000000 00000000 00000000") + bytes.fromhex(
    "00000001 00000001 00000000 00000000 00000000 00000000"
)
CALL = REPLY[:28] + bytes.fromhex("00000001 00000000 00000002 000186a3 00000003 00000006") + bytes(32)


class AnyNames(Names):
    """A value for each name, of the kind that is wanted."""

    def value(self, reference: Mapping[str, Any], where: str, kind: type[int] | type[bytes]) -> int | bytes:
        try:
            found = super().value(reference, where, kind)
        except LocalProtocolError:
            return 3 if kind is int else b"12345678"
        assert found is not None
        return found


class SilentWriter:
    """A stream that takes all octets."""

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass

    def write_eof(self) -> None:
        pass


class ReadyPeer(RawPeer):
    """A peer that has the awaited kind of event at once, and ends after a few."""

    awaited = "message"
    left = 8

    async def next(self) -> Heard:
        self.left -= 1
        if self.left < 0:
            return Heard("end", {"how": "closed", "partial": b""})
        fields: dict[str, Any] = {
            "message": read_message(self.version, REPLY if self.awaited == "message" else CALL),
            "startup": {"key": b"MPA", "crc": 1, "markers": 0, "enhanced": 1, "flags": 0x50, "data": b""},
            "terminate": {"code": 0x2002},
            "read_response": {"handle": 1, "offset": 0, "payload": b"octets", "last": 1},
        }
        kind = "message" if self.awaited == "call" else self.awaited
        return Heard(kind, fields.get(kind, {}))

    async def close(self) -> None:
        pass


def nodes(value: Any) -> Iterator[Any]:
    """All mappings and lists that have an element."""
    if isinstance(value, (dict, list)):
        if value:
            yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from nodes(inner)


@st.composite
def mistaken(draw: st.DrawFn, conversations: list[Mapping[str, Any]]) -> dict[str, Any]:
    """A conversation of the catalogue with one mistake."""
    made: dict[str, Any] = copy.deepcopy(dict(draw(st.sampled_from(conversations))))
    node = draw(st.sampled_from(list(nodes(made))))
    key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else list(range(len(node)))))
    match draw(st.sampled_from(("replace", "remove", "add"))):
        case "remove":
            del node[key]
        case "add" if isinstance(node, dict):
            node[draw(st.sampled_from(("colour", "count", "type", "last", "as", "9")))] = draw(st.sampled_from(OTHERS))
        case _:
            node[key] = draw(st.sampled_from(OTHERS))
    return made


def awaited(step: Mapping[str, Any]) -> str:
    if "hear" not in step:
        return "call"
    pattern = step["hear"][0] if isinstance(step["hear"], list) else step["hear"]
    return str(next(name for name in pattern if name not in {"reading", "as", "last", "unmet", "parts"}))


async def held(conversation: Mapping[str, Any], *, serves: bool) -> None:
    """Takes each step of a valid conversation, also after a step that has failed."""
    passages: list[Passage] = []

    def peer(names: Names) -> ReadyPeer:
        version = conversation.get("version", "1")
        made = ReadyPeer(asyncio.StreamReader(), SilentWriter(), version, passages, names)  # type: ignore[arg-type]
        made.started = True
        return made

    names = AnyNames({"private_data": b"", "xid": 1, "startup_flags": 0, "messages": 0})
    speaker = peer(names)
    live: LiveConversation
    if serves:
        live = ServingConversation(lambda _log, _names: speaker, timeout_s=1)
        live._names = names
        speaker.takes_version = False
    else:
        live = LiveConversation(speaker, names, 1, Outcome())
    live.register(conversation.get("memory", {}))
    if not serves and conversation.get("startup") is not None:
        speaker.awaited = "startup"
        await live.start(conversation["startup"])
    for step in conversation["steps"]:
        speaker.awaited = awaited(step)
        speaker.left = 0 if speaker.awaited == "end" else ReadyPeer.left
        live.outcome.failure = None
        await live.run([step])


def tried(conversation: Mapping[str, Any], *, serves: bool) -> None:
    # A valid form may still name a value that is not there at its step, or is of another kind.
    with contextlib.suppress(LocalProtocolError):
        check_conversation(conversation, serves=serves)
        asyncio.run(held(conversation, serves=serves))


@pytest.mark.thorough
@each_case(("conversations", "serves"), [(CLIENT, False), (SERVER, True)])
def test_the_conversations_of_the_catalogue_have_the_form(conversations: list[Any], serves: bool) -> None:
    for conversation in conversations:
        check_conversation(conversation, serves=serves)


@given(mistaken(CLIENT))
def test_a_conversation_with_a_mistake_can_be_held_or_is_refused(conversation: dict[str, Any]) -> None:
    tried(conversation, serves=False)


@given(mistaken(SERVER))
def test_a_serving_conversation_with_a_mistake_can_be_held_or_is_refused(conversation: dict[str, Any]) -> None:
    tried(conversation, serves=True)


def in_say(message: object) -> dict[str, Any]:
    return {"steps": [{"say": {}}, {"say": message}]}


def divided(parts: object) -> dict[str, Any]:
    return {"steps": [{"hear": {"message": {}, "parts": parts}}]}


@each_case(
    ("conversation", "told"),
    [
        (5, "expected fields (memory, startup, steps, title, version), found 5"),
        ({"steps": 5}, "steps: expected a list, found 5"),
        (
            {"steps": [5]},
            "steps[0]: expected one field, which is one of say, hear, quiet, memory, end, repeat, found 5",
        ),
        ({"steps": [], "version": [1]}, "version: expected one of 1, 2, found [1]"),
        ({"steps": [], "memory": 5}, "memory: expected fields, found 5"),
        ({"steps": [], "memory": {"a": {"may": "fly"}}}, 'memory.a.may: expected one of read, write, found "fly"'),
        ({"steps": [], "startup": 5}, "startup: expected fields"),
        ({"steps": [{"hear": []}]}, "steps[0].hear: expected a list with an element or more, found []"),
        ({"steps": [{"hear": 5}]}, "steps[0].hear: expected fields"),
        ({"steps": [{"hear": {"message": 5}}]}, "steps[0].hear.message: expected fields, found 5"),
        (
            {"steps": [{"hear": {"message": {"header": {"rpely": None}}}}]},
            "steps[0].hear.message.header.rpely: expected",
        ),
        (
            {"steps": [{"hear": {"message": {"rpc": {"not": {"xdi": 1}}}}}]},
            "steps[0].hear.message.rpc.not.xdi: expected one of",
        ),
        ({"steps": [{"quiet": {}}]}, "steps[0].quiet: expected a field 'milliseconds', found {}"),
        ({"steps": [{"repeat": {}}]}, "steps[0].repeat: expected a field 'times', found {}"),
        (
            {"steps": [{"serve": {"each": {}}}]},
            "steps[0].serve: expected one of end, hear, memory, quiet, repeat, say, found",
        ),
        ({"steps": [{"hear": {"message": {"any": 5}}}]}, "steps[0].hear.message.any: expected a list with"),
        ({"steps": [{"hear": {"message": {"header": None}}}]}, "steps[0].hear.message.header: expected fields"),
        ({"steps": [{"hear": {"message": {"octets": {"given": 5}}}}]}, "steps[0].hear.message.octets.given: expected"),
        ({"steps": [{"hear": {"end": {}, "as": "last"}}]}, "steps[0].hear.as: expected one of"),
        ({"steps": [{"hear": {"end": {}, "parts": []}}]}, "steps[0].hear.parts: expected one of"),
        (divided([]), "steps[0].hear.parts: expected a list with an element or more, found []"),
        (
            {"steps": [{"hear": {"message": {"parts": {"satus": ""}}, "parts": [["status", 4]]}}]},
            "steps[0].hear.message.parts.satus: expected one of status, found",
        ),
        (
            {"steps": [{"hear": {"message": {"parts": {"status": ""}}}}]},
            "steps[0].hear.message.parts.status: expected no field, found",
        ),
        (divided(["status"]), 'steps[0].hear.parts[0]: expected a part as [NAME, KIND], found "status"'),
        (divided([[4, 4]]), "steps[0].hear.parts[0][0]: expected text, found 4"),
        (divided([["status", -1]]), "steps[0].hear.parts[0][1]: expected a number from 0 to"),
        (
            divided([["status", True]]),
            "steps[0].hear.parts[0][1]: expected opaque, words, attributes or a number of octets, found true",
        ),
        (
            divided([["status", ["opaque"]]]),
            "steps[0].hear.parts[0][1]: expected opaque, words, attributes or a number of octets",
        ),
        (in_say({"header": {"reads": [{"memory": 5}]}}), "steps[1].say.header.reads[0].memory: expected text, found 5"),
        (in_say(5), "steps[1].say: expected fields"),
        (in_say({"header": 5}), "steps[1].say.header: expected fields"),
        (in_say({"header": {"credit": []}}), "steps[1].say.header.credit: [] is not a number"),
        (in_say({"header": {"reads": [5]}}), "steps[1].say.header.reads[0]: expected fields"),
        (in_say({"rpc": 5}), "steps[1].say.rpc: expected fields"),
        (in_say({"ddp": 5}), "steps[1].say.ddp: expected fields"),
        (in_say({"ddp": {"version": 4}}), "steps[1].say.ddp.version: expected a number from 0 to 3, found 4"),
        (in_say({"body": {"words": 5}}), "steps[1].say.body.words: expected a list of numbers, found 5"),
        (in_say({"bulk": {"at": 1 << 40, "data": ""}}), "steps[1].say.bulk.at: expected a number from 0 to"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_the_expected_form(conversation: object, told: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        check_conversation(conversation)
    assert str(caught.value).startswith(told)


def test_names_that_the_caller_has_to_give_are_found() -> None:
    conversation = {
        "memory": {"sink": {"content": {"given": "content"}}},
        "steps": [
            in_say({"header": {"xid": {"given": "xid"}, "credit": {"given": "sink.length"}}})["steps"][1],
            {"hear": {"message": {}, "as": "call"}},
            {"repeat": {"times": 2, "steps": [{"say": {"body": {"words": [{"given": "index"}, {"given": "size"}]}}}]}},
            {"say": {"rpc": {"xid": {"given": "call.xid"}}, "bulk": {"at": {"given": "2.segment_at"}, "data": ""}}},
        ],
    }
    assert names_wanted(conversation) == {"content", "size", "2.segment_at"}


def test_two_regions_have_two_handles() -> None:
    conversation = {"memory": {"a": {"octets": 1, "handle": 7}, "b": {"octets": 1, "handle": 7}}, "steps": []}
    with pytest.raises(LocalProtocolError, match=r"memory\.b\.handle: 0x7 is the handle of another region"):
        asyncio.run(held(conversation, serves=False))


def test_an_answer_always_has_a_header() -> None:
    with pytest.raises(LocalProtocolError, match=r"steps\[0\]\.answer\.header: expected fields"):
        check_conversation({"steps": [{"answer": {"header": None}}]}, serves=True)


def test_a_number_may_stand_for_an_operation_and_text_be_no_unicode() -> None:
    conversation = in_say({"body": {"text": "\ud800"}, "ddp": {"opcode": {"given": "opcode"}}})
    check_conversation(conversation)
    asyncio.run(held(conversation, serves=False))


def test_values_deep_within_each_other_are_refused() -> None:
    value: Any = "00"
    for _ in range(900):
        value = [value]
    with pytest.raises(LocalProtocolError, match="within each other"):
        check_conversation(in_say({"body": value}))


def test_a_value_of_the_wrong_kind_is_told_with_the_place_in_the_pattern() -> None:
    conversation = {"steps": [{"hear": {"message": {"header": {"xid": "zz"}}}}]}
    with pytest.raises(LocalProtocolError, match=r'^steps\[0\]\.hear\.message\.header\.xid: "zz" is not a number'):
        asyncio.run(held(conversation, serves=False))


def test_a_header_whose_type_is_given_has_the_fields_of_that_type() -> None:
    header = {"type": {"given": "type"}, "error": 1}
    check_conversation(in_say({"header": header}))
    with pytest.raises(LocalProtocolError, match=r"^message\.header\.error: expected one of"):
        make_message("1", {"header": header}, Names({"xid": 1, "type": 0}))


def test_the_page_of_conversations_names_every_field() -> None:
    """Fields are the keys and the words of `_numbers` in `form`, and the names in tables of `layouts` and `frames`."""
    tree = ast.parse(inspect.getsource(form))
    keys = {node for found in ast.walk(tree) if isinstance(found, ast.Dict) for node in found.keys}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "_numbers"]
    names = {node.value for node in keys if isinstance(node, ast.Constant)} - {"word", "half", "chunk", "transmission"}
    names |= {name for call in calls for name in ast.literal_eval(call.args[0]).split()}
    names |= {name for each in LAYOUTS.values() for body in (each.prefix, *each.bodies.values()) for name, _ in body}
    names |= {*SEGMENT_MOST, *STARTUP_MOST, *form._FOUND_IN_MESSAGES, *form._FOUND_IN_REPLY}
    page = re.sub(r"```.*?```", "", (Path(__file__).parents[3] / "docs" / "send.md").read_text(), flags=re.DOTALL)
    told = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", page))))
    assert len(names) > 100
    assert sorted(names - told) == []
