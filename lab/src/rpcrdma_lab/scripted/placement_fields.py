"""Fields of the round-trip extension (draft-dnoveck-nfsv4-rpcrdma-rtrext-01): items, directions and transmissions.

docs/send.md describes them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from rpcrdma_lab.scripted.header_fields import Short, make_segments, make_word, read_segments, word_at
from rpcrdma_lab.scripted.values import Names, number, octets

__all__ = ["PLACEMENT_MAKERS", "PLACEMENT_READERS", "RECEIVE_STRUCTURE", "buffer_segments"]

RECEIVE_STRUCTURE = 0x102
"""The number of the transport property that describes the segments of its sender's receive buffers."""

_EXPLICIT, _IN_SEGMENTS, _CHOICE, _BY_SIZE = 1, 2, 3, 4
_TRANSMISSION = ("xid", "direction", "number")
_STRUCTURE_HEAD = struct.Struct(">II")
_GROUP = struct.Struct(">IIII")
_PLACEABLE = 1
_SEGMENTS_MAX = 1024
"""Segments of one buffer that are looked at: checks use the first ones alone."""


def _words(given: Mapping[str, Any], fields: tuple[str, ...], names: Names, where: str) -> bytes:
    return b"".join(make_word(given.get(name, 0), 0, names, f"{where}.{name}") for name in fields)


def _make_items(value: Any, _end: Any, names: Names, where: str) -> bytes:
    items = value or []
    made = make_word(len(items), 0, names, where)
    for index, item in enumerate(items):
        here = f"{where}[{index}]"
        made += _words(item, ("position", "length", "type"), names, here)
        kind = number(item["type"], names, f"{here}.type")
        if kind == _EXPLICIT:
            made += make_segments(item, names, here)
        elif kind == _IN_SEGMENTS:
            numbers = item.get("numbers") or []
            made += _words({"count": len(numbers), **item}, ("offset", "count"), names, here)
            made += octets({"words": numbers}, names, f"{here}.numbers")
    return made


def _read_items(data: bytes, at: int, name: str) -> tuple[list[dict[str, Any]], int]:
    count, found = word_at(data, at, name), []
    at += 4
    for _ in range(count):
        item: dict[str, Any]
        item = {
            field: word_at(data, at + 4 * index, name) for index, field in enumerate(("position", "length", "type"))
        }
        at += 12
        if item["type"] == _EXPLICIT:
            item["segments"], at = read_segments(data, at, name)
        elif item["type"] == _IN_SEGMENTS:
            item["offset"], numbers = word_at(data, at, name), word_at(data, at + 4, name)
            if len(data) < at + 8 + 4 * numbers:
                raise Short(f"the message ends within {name}, at octet {len(data)}")
            item["numbers"] = [word_at(data, at + 8 + 4 * index, name) for index in range(numbers)]
            at += 8 + 4 * numbers
        found.append(item)
    return found, at


def _make_directions(value: Any, _end: Any, names: Names, where: str) -> bytes:
    sets = value or []
    made = make_word(len(sets), 0, names, where)
    for index, each in enumerate(sets):
        here = f"{where}[{index}]"
        made += _words({"count": len(each["results"]), **each}, ("begin", "end", "count"), names, here)
        for result in each["results"]:
            made += _words(result, ("least", "type"), names, here)
            kind = number(result["type"], names, f"{here}.type")
            if kind == _BY_SIZE:
                made += _words(result, ("explicit_from",), names, here)
            if kind in {_EXPLICIT, _CHOICE, _BY_SIZE}:
                made += make_segments(result, names, here)
    return made


def _read_directions(data: bytes, at: int, name: str) -> tuple[list[dict[str, Any]], int]:
    count, found = word_at(data, at, name), []
    at += 4
    for _ in range(count):
        begin, end, results = (word_at(data, at + 4 * index, name) for index in range(3))
        at += 12
        told = []
        for _ in range(results):
            result: dict[str, Any] = {"least": word_at(data, at, name), "type": word_at(data, at + 4, name)}
            at += 8
            if result["type"] == _BY_SIZE:
                result["explicit_from"] = word_at(data, at, name)
                at += 4
            if result["type"] in {_EXPLICIT, _CHOICE, _BY_SIZE}:
                result["segments"], at = read_segments(data, at, name)
            told.append(result)
        found.append({"begin": begin, "end": end, "results": told})
    return found, at


def _make_transmission(value: Any, _end: Any, names: Names, where: str) -> bytes:
    return _words(value or {}, _TRANSMISSION, names, where)


def _read_transmission(data: bytes, at: int, name: str) -> tuple[dict[str, int], int]:
    return {field: word_at(data, at + 4 * index, name) for index, field in enumerate(_TRANSMISSION)}, at + 12


def _make_lead(value: Any, end: Any, names: Names, where: str) -> bytes:
    if value is None:
        return make_word(end, 0, names, where)
    return make_word(1, 0, names, where) + _make_transmission(value, 0, names, where)


def _read_lead(data: bytes, at: int, name: str) -> tuple[dict[str, int] | None, int]:
    return _read_transmission(data, at + 4, name) if word_at(data, at, name) else (None, at + 4)


PLACEMENT_MAKERS: Mapping[str, Callable[[Any, Any, Names, str], bytes]] = {
    "items": _make_items,
    "directions": _make_directions,
    "transmission": _make_transmission,
    "lead": _make_lead,
}
"""Encoders of the extension's fields, by kind; see `header_fields.MAKERS`."""

PLACEMENT_READERS: Mapping[str, Callable[[bytes, int, str], tuple[Any, int]]] = {
    "items": _read_items,
    "directions": _read_directions,
    "transmission": _read_transmission,
    "lead": _read_lead,
}
"""Decoders of the extension's fields, by kind; see `header_fields.READERS`."""


def buffer_segments(structure: bytes) -> dict[str, int]:
    """Decodes the octets of a Receive Buffer Structure property, and describes its segments for bulk data.

    Returns a mapping: "receive_octets" is the total length of all segments in octets. If there are segments for bulk
    data, "segments" is their number, "segment_at" the offset in octets of the first one in the buffer, and
    "segment_octets" the length of the first one; all three leave out segments after the first 1024. Returns
    {} if `structure` has a wrong length.
    """
    if len(structure) < _STRUCTURE_HEAD.size or (len(structure) - _STRUCTURE_HEAD.size) % _GROUP.size:
        return {}
    found: list[tuple[int, int, int]] = []
    start = 0
    groups = list(_GROUP.iter_unpack(structure[_STRUCTURE_HEAD.size :]))
    for count, length, _, flags in groups:
        for _ in range(min(count, _SEGMENTS_MAX - len(found))):
            found.append((start, length, flags))
            start += length
    described = {"receive_octets": sum(count * length for count, length, _, _ in groups)}
    placeable = [(start, length) for start, length, flags in found if flags & _PLACEABLE]
    if placeable:
        described |= {"segment_at": placeable[0][0], "segment_octets": placeable[0][1], "segments": len(placeable)}
    return described
