"""Transport headers and RPC headers, made of named fields and taken apart into them.

A message is {"header": FIELDS, "rpc": FIELDS} with "body" in place of "rpc" for any octets. Deliberate mistakes are
fields with wrong values, and: "present" (the word before an entry of a list), "count" (of a chunk's segments), "end"
(the word after the last entry, as "reads_end"), "cut" (the message ends after so many octets), "append" (octets after
it) and "put" ({OFFSET: octets}, over the octets there).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from rpcrdma.errors import LocalProtocolError
from rpcrdma.scripted.layouts import LAYOUTS, VersionHeaders
from rpcrdma.scripted.values import Names, number, octets

__all__ = ["make_message", "message_words", "read_message"]

_NFS = (100003, 3)
_WORD = struct.Struct(">I")


class _Short(Exception):
    """A received message ends within a field."""


def make_message(version: str, message: Mapping[str, Any], names: Names, where: str = "message") -> bytes:
    """The octets of a message.

    Raises:
        LocalProtocolError: a field is unknown or its value is none; the message begins with its path.
    """
    layout = LAYOUTS[version]
    unknown = message.keys() - {"header", "rpc", "body", "cut", "append", "put"}
    if unknown:
        raise LocalProtocolError(f"{where}: a message has no {min(unknown)!r}")
    header = message.get("header", {})
    made = b"" if header is None else _header(layout, header, names, f"{where}.header")
    if message.get("rpc") is not None:
        made += _rpc(message["rpc"], header or {}, names, f"{where}.rpc")
    if "body" in message:
        made += octets(message["body"], names, f"{where}.body")
    if "append" in message:
        made += octets(message["append"], names, f"{where}.append")
    for place, value in message.get("put", {}).items():
        at = number(place, names, f"{where}.put")
        over = octets(value, names, f"{where}.put.{place}")
        made = made[:at] + over + made[at + len(over) :]
    if "cut" in message:
        made = made[: number(message["cut"], names, f"{where}.cut")]
    return made


def _header(layout: VersionHeaders, given: Mapping[str, Any], names: Names, where: str) -> bytes:
    values: dict[str, Any] = {"xid": {"given": "xid"}, **layout.defaults, **given}
    # A header may have a type and, deliberately, the fields of another.
    kind = number(values.get("fields_of", values.get("type", 0)), names, f"{where}.type")
    body = layout.bodies.get(kind, layout.bodies[layout.usual])
    fields = [*layout.prefix, *body]
    known = {name for name, _ in fields} | {f"{name}_end" for name, _ in body} | {"fields_of", "numbers"}
    unknown = given.keys() - known
    if unknown:
        raise LocalProtocolError(f"{where}: this header has no field {min(unknown)!r}, but {', '.join(sorted(known))}")
    return b"".join(
        _MAKERS[sort](values.get(name), values.get(f"{name}_end", 0), names, f"{where}.{name}") for name, sort in fields
    )


def _make_word(value: Any, _end: Any, names: Names, where: str) -> bytes:
    return _WORD.pack(number(value or 0, names, where) & 0xFFFFFFFF)


def _make_half(value: Any, _end: Any, names: Names, where: str) -> bytes:
    return struct.pack(">H", number(value or 0, names, where) & 0xFFFF)


def _make_reads(value: Any, end: Any, names: Names, where: str) -> bytes:
    if isinstance(value, str):
        return octets(value, names, where) + _make_word(end, 0, names, where)
    made = b""
    for index, entry in enumerate(value or []):
        here = f"{where}[{index}]"
        made += _make_word(entry.get("present", 1), 0, names, here)
        made += _make_word(entry.get("position", 0), 0, names, f"{here}.position") + _segment(entry, names, here)
    return made + _make_word(end, 0, names, where)


def _make_writes(value: Any, end: Any, names: Names, where: str) -> bytes:
    if isinstance(value, str):
        return octets(value, names, where) + _make_word(end, 0, names, where)
    chunks = (_entry(chunk, names, f"{where}[{index}]") for index, chunk in enumerate(value or []))
    return b"".join(chunks) + _make_word(end, 0, names, where)


def _make_chunk(value: Any, end: Any, names: Names, where: str) -> bytes:
    if isinstance(value, str):
        return octets(value, names, where)
    return _make_word(end, 0, names, where) if value is None else _entry(value, names, where)


def _entry(chunk: Any, names: Names, where: str) -> bytes:
    """The word of presence, the count and the segments; a list of segments is a right one."""
    fields = {"segments": chunk} if isinstance(chunk, list) else chunk
    segments = [_segment(each, names, f"{where}[{index}]") for index, each in enumerate(fields["segments"])]
    words = (fields.get("present", 1), fields.get("count", len(segments)))
    return b"".join(_make_word(word, 0, names, where) for word in words) + b"".join(segments)


def _segment(given: Mapping[str, Any], names: Names, where: str) -> bytes:
    """Handle, length and offset; those of {"memory": NAME} are the region's, unless they are given as well."""
    values: dict[str, Any] = {"handle": 0, "length": 0, "offset": 0}
    if "memory" in given:
        name = given["memory"]
        values = {each: {"given": f"{name}.{each}"} for each in values}
    values |= {each: given[each] for each in values if each in given}
    handle, length, offset = (number(values[each], names, f"{where}.{each}") for each in ("handle", "length", "offset"))
    return struct.pack(">IIQ", handle & 0xFFFFFFFF, length & 0xFFFFFFFF, offset & (1 << 64) - 1)


def _make_properties(value: Any, _end: Any, names: Names, where: str) -> bytes:
    pairs = value or []
    made = _make_word(len(pairs), 0, names, where)
    for index, (which, content) in enumerate(pairs):
        here = f"{where}[{index}]"
        made += _make_word(which, 0, names, here) + octets({"opaque": content}, names, here)
    return made


def _make_numbers(value: Any, _end: Any, names: Names, where: str) -> bytes:
    return octets({"words": value or []}, names, where)


_MAKERS = {
    "word": _make_word,
    "half": _make_half,
    "reads": _make_reads,
    "writes": _make_writes,
    "chunk": _make_chunk,
    "properties": _make_properties,
    "numbers": _make_numbers,
}


def _rpc(given: Mapping[str, Any], header: Mapping[str, Any], names: Names, where: str) -> bytes:
    """An RPC call (RFC 5531 section 9) without a credential, or with "accepted" a reply of that status."""
    xid = _make_word(given.get("xid", header.get("xid", {"given": "xid"})), 0, names, f"{where}.xid")
    if "accepted" in given:
        status = _make_word(given["accepted"], 0, names, f"{where}.accepted")
        return (
            xid + bytes([0, 0, 0, 1]) + bytes(12) + status + octets(given.get("results", ""), names, f"{where}.results")
        )
    unknown = given.keys() - {
        "xid",
        "direction",
        "rpc_version",
        "program",
        "version",
        "procedure",
        "args",
        "credential",
    }
    if unknown:
        raise LocalProtocolError(f"{where}: a call has no field {min(unknown)!r}")
    program = given.get("program", names.given.get("program", _NFS[0]))
    version = given.get("version", names.given.get("program_version", _NFS[1]))
    words = (given.get("direction", 0), given.get("rpc_version", 2), program, version, given.get("procedure", 0))
    made = xid + b"".join(_make_word(word, 0, names, where) for word in words)
    made += octets(given["credential"], names, f"{where}.credential") if "credential" in given else bytes(8)
    return made + bytes(8) + octets(given.get("args", ""), names, f"{where}.args")


def read_message(version: str, data: bytes) -> dict[str, Any]:
    """{"header": FIELDS, "rpc": FIELDS, "body": octets after the header} of a received message.

    A message of another version than 2, or that ends within a field, has {"broken": cause} besides its first fields.
    """
    layout = LAYOUTS[version]
    header: dict[str, Any] = {}
    found: dict[str, Any] = {"header": header, "body": b"", "octets": len(data)}
    try:
        at = _read_fields(layout.prefix, data, 0, header)
        body = layout.bodies.get(header["type"])
        if body is None:
            found["broken"] = f"header type {header['type']} is none of version {version}"
            return found
        at = _read_fields(body, data, at, header)
    except _Short as error:
        found["broken"] = str(error)
        return found
    found["body"] = data[at:]
    found["header_octets"] = at
    if len(found["body"]) >= 8:
        found["rpc"] = _read_rpc(found["body"])
    return found


def _read_fields(fields: tuple[tuple[str, str], ...], data: bytes, at: int, into: dict[str, Any]) -> int:
    for name, sort in fields:
        into[name], at = _READERS[sort](data, at, name)
    return at


def _word(data: bytes, at: int, name: str) -> int:
    if len(data) < at + 4:
        raise _Short(f"the message ends within {name}, at octet {len(data)}")
    return int(_WORD.unpack_from(data, at)[0])


def _read_word(data: bytes, at: int, name: str) -> tuple[int, int]:
    return _word(data, at, name), at + 4


def _read_half(data: bytes, at: int, name: str) -> tuple[int, int]:
    if len(data) < at + 2:
        raise _Short(f"the message ends within {name}, at octet {len(data)}")
    return int.from_bytes(data[at : at + 2]), at + 2


def _present(data: bytes, at: int, name: str) -> bool:
    told = _word(data, at, name)
    if told > 1:
        raise _Short(f"{name}: {told} stands where 0 or 1 tells whether an entry follows")
    return told == 1


def _read_segment(data: bytes, at: int, name: str) -> tuple[dict[str, int], int]:
    words = [_word(data, at + 4 * index, name) for index in range(4)]
    return {"handle": words[0], "length": words[1], "offset": words[2] << 32 | words[3]}, at + 16


def _read_reads(data: bytes, at: int, name: str) -> tuple[list[dict[str, int]], int]:
    found = []
    while _present(data, at, name):
        position = _word(data, at + 4, name)
        segment, at = _read_segment(data, at + 8, name)
        found.append({"position": position, **segment})
    return found, at + 4


def _read_writes(data: bytes, at: int, name: str) -> tuple[list[list[dict[str, int]]], int]:
    found = []
    while _present(data, at, name):
        segments, at = _read_segments(data, at + 4, name)
        found.append(segments)
    return found, at + 4


def _read_segments(data: bytes, at: int, name: str) -> tuple[list[dict[str, int]], int]:
    count = _word(data, at, name)
    segments = []
    at += 4
    for _ in range(count):
        segment, at = _read_segment(data, at, name)
        segments.append(segment)
    return segments, at


def _read_chunk(data: bytes, at: int, name: str) -> tuple[list[dict[str, int]] | None, int]:
    return _read_segments(data, at + 4, name) if _present(data, at, name) else (None, at + 4)


def _read_properties(data: bytes, at: int, name: str) -> tuple[dict[int, bytes], int]:
    found = {}
    count, at = _read_word(data, at, name)
    for _ in range(count):
        which, length = _word(data, at, name), _word(data, at + 4, name)
        end = at + 8 + (length + 3 & ~3)
        if end > len(data):
            raise _Short(f"the message ends within {name}, at octet {len(data)}")
        found[which] = data[at + 8 : at + 8 + length]
        at = end
    return found, at


def _read_numbers(data: bytes, at: int, name: str) -> tuple[list[int], int]:
    return [_word(data, place, name) for place in range(at, len(data), 4)], len(data)


_READERS: Mapping[str, Any] = {
    "word": _read_word,
    "half": _read_half,
    "reads": _read_reads,
    "writes": _read_writes,
    "chunk": _read_chunk,
    "properties": _read_properties,
    "numbers": _read_numbers,
}


def _read_rpc(data: bytes) -> dict[str, Any]:
    """XID and direction; of a call program, version, procedure and arguments, of a reply its statuses and results."""
    found: dict[str, Any] = {"xid": _word(data, 0, "xid"), "direction": _word(data, 4, "direction")}
    try:
        if found["direction"] == 0:
            names = ("rpc_version", "program", "version", "procedure")
            found |= {name: _word(data, 8 + 4 * index, name) for index, name in enumerate(names)}
            at = 24
            for _ in ("credential", "verifier"):
                at += 8 + (_word(data, at + 4, "length") + 3 & ~3)
            found["args"] = data[at:]
        elif found["direction"] == 1:
            found["status"] = _word(data, 8, "status")
            if found["status"] == 0:
                at = 20 + (_word(data, 16, "length") + 3 & ~3)
                found["accepted"] = _word(data, at, "accepted")
                found["results"] = data[at + 4 :]
                if len(found["results"]) >= 4:
                    found["result_status"] = _word(data, at + 4, "result status")
    except _Short:
        found["broken"] = True
    return found


def message_words(version: str, fields: Mapping[str, Any]) -> str:
    """One line about a message that `read_message` has taken apart."""
    layout = LAYOUTS[version]
    header = fields["header"]
    if "type" not in header:
        return f"{fields['octets']} octets that are no message"
    words = [layout.names.get(header["type"], f"type {header['type']}"), f"xid {header['xid']:#010x}"]
    if header["version"] != layout.defaults["version"]:
        words.append(f"version {header['version']}")
    words += [f"{name} {header[name]}" for name in ("credit", "give") if name in header]
    if "error" in header:
        words.append(f"error {header['error']} {header.get('numbers') or ''}".rstrip())
    for name in ("call", "reads", "writes"):
        if header.get(name):
            words.append(f"{name} {len(header[name])}")
    if header.get("reply") is not None:
        words.append("reply chunk")
    rpc = fields.get("rpc")
    if rpc and "procedure" in rpc:
        words.append(f"call {rpc['program']}.{rpc['version']}.{rpc['procedure']}")
    elif rpc and "accepted" in rpc:
        words.append(f"reply accepted {rpc['accepted']}")
    return ", ".join(words) + (f" ({fields['broken']})" if "broken" in fields else "")
