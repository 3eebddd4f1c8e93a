"""Kinds of mistakes in an answer, made in the right answer of our server: no pattern of a check has a part in them."""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from recorded_runs import Run

from rpcrdma_lab.scripted.messages import read_rpc
from rpcrdma_lab.scripted.peer_interface import Heard

__all__ = ["mutated_events", "mutated_memory"]

Fields = dict[str, Any]
Mistake = tuple[str, Heard | None]
"""A kind, and the event with it; None for silence."""
Mistaken = tuple[str, Run]
_NOT_NUMBERS = frozenset({"xid", "version", "credit", "type", "pool", "give", "error"})
_OF_OTHER_FIELDS = frozenset({"length", "crc", "markers"})
"""Fields of a start-up that follow from others: its octets and flags."""
_ERRORS = {"1": 2, "2": 9}
"""The largest code of an error."""
_ELSEWHERE = 0x0BAD_5A6E
"""A handle that no check offers."""


def mutated_events(run: Run, at: int) -> Iterator[Mistake]:
    """The mistakes that can be made in an event of a run; those of one kind differ in their place."""
    heard = run.events[at].heard
    version = run.check.conversation.get("version", "1")
    yield "silence", None
    if heard.kind != "end":
        for how in ("closed", "reset"):
            yield "ends", Heard("end", {"how": how, "partial": b""})
        yield "breaks a frame", Heard("broken", {"cause": "the CRC of an FPDU is wrong"})
    if heard.kind == "message":
        yield "terminates", Heard("terminate", {"code": 0x1201, "payload": b"", "whole": 0})
        for kind, fields in _messages(version, heard.fields):
            yield kind, Heard("message", fields)
        if "error" in heard.fields["header"] or "fault" in heard.fields["header"]:
            yield from _replies(version, heard.fields["header"]["xid"])
        elif "rpc" in heard.fields:
            yield from (("refuses", each) for each in _refusals(version, int(run.given["xid"])))
    elif heard.kind == "terminate":
        code = heard.fields["code"]
        swapped = code >> 4 & 0xF00 | code << 4 & 0xF000 | code & 0xFF
        others = [("another layer", code ^ 0x3000), ("another code", code ^ 0x70), ("an unspecified error", 0x01FF)]
        others += [("swapped codes", each) for each in (swapped, 0x10FF) if each != code]
        for kind, other in others:
            yield f"terminates with {kind}", Heard("terminate", {**heard.fields, "code": other})
    elif heard.kind == "read_response":
        yield from _read_responses(heard.fields)
    elif heard.kind == "startup":
        yield from _startups(heard.fields)
    if heard.kind in {"terminate", "end"}:
        yield from _replies(version, int(run.given["xid"]))
        yield from (("refuses", each) for each in _refusals(version, int(run.given["xid"])))


def _replies(version: str, xid: int) -> Iterator[Mistake]:
    """The reply to the message, and that to the next one, as if this one had been discarded."""
    yield "answers", _reply(version, xid)
    yield "answers", _reply(version, xid + 1)


def _reply(version: str, xid: int) -> Heard:
    """A successful reply without results."""
    lists = {"reads": [], "writes": [], "reply": None}
    headers = {
        "1": {"version": 1, "credit": 1, "type": 0, **lists},
        "2": {"version": 2, "pool": 1, "give": 1, "type": 0, "flags": 1, "invalidate": 0, **lists},
    }
    rpc = {"xid": xid, "direction": 1, "status": 0, "accepted": 0, "results": b"", "same_xid": 1}
    return Heard("message", {"header": {"xid": xid, **headers[version]}, "rpc": rpc, "octets": 52, "invalidates": None})


def _refusals(version: str, xid: int) -> Iterator[Heard]:
    """All errors of a version."""
    header: Fields = {"xid": xid, "version": 1, "credit": 1, "type": 4, "numbers": []}
    if version != "1":
        header = {**header, "version": 2, "flags": 1, "pool": 1, "give": 1}
    for code in range(1, _ERRORS[version] + 1):
        yield Heard("message", {"header": {**header, "error": code}, "body": b"", "octets": 20, "invalidates": None})


def _messages(version: str, right: Mapping[str, Any]) -> Iterator[tuple[str, Fields]]:
    header = right["header"]

    def change(name: str, value: Any) -> Fields:
        return _with(right, {name: value})

    yield "another version", change("version", header["version"] ^ 3)
    yield "another type", change("type", header["type"] ^ 1)
    if "properties" in header:
        return
    other_xid = change("xid", header["xid"] ^ 0x80)
    yield "another XID", _with_body(other_xid, _flipped(right["body"], 3)) if "rpc" in right else other_xid
    if version == "1":
        yield "grants nothing", change("credit", 0)
    for name, value in header.items():
        if isinstance(value, int) and name not in _NOT_NUMBERS:
            yield f"another {name}", change(name, value ^ 1)
    if "error" in header:
        for code in range(1, _ERRORS[version] + 1):
            if code != header["error"]:
                yield "another error", change("error", code)
        numbers = header.get("numbers") or []
        for at in range(len(numbers)):
            yield "another number", change("numbers", [*numbers[:at], numbers[at] + 1, *numbers[at + 1 :]])
        yield "one number more", change("numbers", [*numbers, 1])
    yield from _chunks(right)
    yield "invalidates another handle", {**right, "invalidates": _ELSEWHERE}
    if "fault" in header:
        for at, number in enumerate(header["numbers"]):
            yield (
                "another report",
                change("numbers", [*header["numbers"][:at], number + 1, *header["numbers"][at + 1 :]]),
            )
        yield "another report", change("bad", {**header["bad"], "number": header["bad"]["number"] + 1})
        yield "refuses in place of a report", next(_refusals(version, header["xid"])).fields  # type: ignore[misc]
    if "rpc" in right:
        yield from _payloads(right)


def _chunks(right: Mapping[str, Any]) -> Iterator[tuple[str, Fields]]:
    header = right["header"]
    if "reads" in header:
        entry = {"position": 0, "handle": _ELSEWHERE, "length": 4, "offset": 0}
        yield "a Read list", _with(right, {"reads": [*header["reads"], entry]})
    if "writes" in header:
        segment = {"handle": _ELSEWHERE, "length": 4, "offset": 0}
        yield "a Write chunk more", _with(right, {"writes": [*header["writes"], [segment]]})
        if header["writes"]:
            yield "a Write chunk less", _with(right, {"writes": header["writes"][1:]})
    if "reply" in header:
        reply = None if header["reply"] else [{"handle": _ELSEWHERE, "length": 4, "offset": 0}]
        yield ("no Reply chunk" if header["reply"] else "a Reply chunk"), _with(right, {"reply": reply})
    for at, chunk in enumerate([*header.get("writes", []), header.get("reply") or []]):
        for place, segment in enumerate(chunk):
            for name in segment:
                changed = copy.deepcopy(dict(right))
                lists = [*changed["header"].get("writes", []), changed["header"].get("reply")]
                lists[at][place][name] ^= 1
                yield f"another {name} returned", changed


def _payloads(right: Mapping[str, Any]) -> Iterator[tuple[str, Fields]]:
    body, rpc = right["body"], right["rpc"]
    yield "another XID in the RPC header", _with_body(right, _flipped(body, 3))
    yield "another direction", _with_body(right, _flipped(body, 7, 1))
    if "accepted" in rpc:
        results = rpc["results"]
        at = len(body) - len(results)
        yield (
            "another reply status",
            _with_body(right, body[: at - 4] + struct.pack(">I", rpc["accepted"] ^ 5) + results),
        )
        yield "longer results", _with_body(right, body + bytes(4))
        if results:
            yield "another result status", _with_body(right, _flipped(body, at + 3, 22))
            yield "shorter results", _with_body(right, body[:-4])
            yield "other results", _with_body(right, _flipped(body, len(body) - 1))


def _read_responses(right: Mapping[str, Any]) -> Iterator[Mistake]:
    for name in ("handle", "offset", "last"):
        yield f"another {name}", Heard("read_response", {**right, name: right[name] ^ 1})
    if right["payload"]:
        yield "other data", Heard("read_response", {**right, "payload": _flipped(right["payload"], 0)})
        yield "shorter data", Heard("read_response", {**right, "payload": right["payload"][:-1]})


def _startups(right: Mapping[str, Any]) -> Iterator[Mistake]:
    for name, value in right.items():
        if isinstance(value, int) and name not in _OF_OTHER_FIELDS:
            yield f"another {name}", Heard("startup", {**right, name: value ^ 1})
        elif isinstance(value, dict):
            for inner in value:
                yield f"another {name}", Heard("startup", {**right, name: {**value, inner: value[inner] ^ 2}})
    yield "another key", Heard("startup", {**right, "key": b"MPA ID Req Frame"})


def _with(right: Mapping[str, Any], header: Mapping[str, Any]) -> Fields:
    return {**right, "header": {**right["header"], **header}}


def _with_body(right: Mapping[str, Any], body: bytes) -> Fields:
    rpc = read_rpc(body)
    rpc["same_xid"] = int(rpc["xid"] == right["header"]["xid"])
    return {**right, "body": body, "octets": right["octets"] + len(body) - len(right["body"]), "rpc": rpc}


def _flipped(octets: bytes, at: int, bits: int = 0x80) -> bytes:
    return octets[:at] + bytes([octets[at] ^ bits]) + octets[at + 1 :]


def mutated_memory(run: Run) -> Iterator[Mistaken]:
    """The mistakes that can be made in the regions that the server may write."""
    regions = {handle: each for event in run.events for handle, each in event.memory.items()}
    for handle, region in regions.items():
        data, written = region.data, region.written
        if region.may != "write" or not data:
            continue
        if not written:
            yield "writes uninvited", run.with_memory(handle, _flipped(data, 0), [(0, 1)])
            continue
        start, end = written[0][0], max(at + length for at, length in written)
        yield "other data in memory", run.with_memory(handle, _flipped(data, start), written)
        yield "other data in memory", run.with_memory(handle, _flipped(data, end - 1), written)
        shorter = [(at, length - (at + length == end)) for at, length in written]
        yield "one octet less in memory", run.with_memory(handle, data[: end - 1] + b"\xa5" + data[end:], shorter)
        if end < len(data):
            yield "one octet more in memory", run.with_memory(handle, _flipped(data, end), [*written, (end, 1)])
