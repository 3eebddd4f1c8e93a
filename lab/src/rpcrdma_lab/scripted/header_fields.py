"""The kinds of fields of transport headers, with the encoder and the decoder of each kind.

An encoder gets the value, the word that ends a list, the names that values refer to, and the path for error texts. A
decoder gets the message, the octet at which the field begins, and its name; it returns the value and the field's end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from rpcrdma_lab.scripted.values import Names, number, octets

__all__ = [
    "MAKERS",
    "READERS",
    "Short",
    "make_segments",
    "make_word",
    "read_segments",
    "word_at",
]

_WORD = struct.Struct(">I")


class Short(Exception):
    """Raised by decoders: a message ends within a field, or a word that announces a list entry is not 0 or 1."""


def make_word(value: Any, _end: Any, names: Names, where: str) -> bytes:
    """Encodes a number as a word of 32 bits, modulo 2**32; None stands for 0.

    `where` is the path of `value` for error texts, and `names` resolves references such as {"given": NAME}. `_end` is
    not used; other encoders in `MAKERS` have it.

    Raises:
        LocalProtocolError: `value` is no number, or refers to an unknown name.
    """
    return _WORD.pack(number(value or 0, names, where) & 0xFFFFFFFF)


def _make_half(value: Any, _end: Any, names: Names, where: str) -> bytes:
    return struct.pack(">H", number(value or 0, names, where) & 0xFFFF)


def _make_reads(value: Any, end: Any, names: Names, where: str) -> bytes:
    if isinstance(value, str):
        return octets(value, names, where) + make_word(end, 0, names, where)
    made = b""
    for index, entry in enumerate(value or []):
        here = f"{where}[{index}]"
        made += make_word(entry.get("present", 1), 0, names, here)
        made += make_word(entry.get("position", 0), 0, names, f"{here}.position") + _make_segment(entry, names, here)
    return made + make_word(end, 0, names, where)


def _make_writes(value: Any, end: Any, names: Names, where: str) -> bytes:
    if isinstance(value, str):
        return octets(value, names, where) + make_word(end, 0, names, where)
    chunks = (_entry(chunk, names, f"{where}[{index}]") for index, chunk in enumerate(value or []))
    return b"".join(chunks) + make_word(end, 0, names, where)


def _make_chunk(value: Any, end: Any, names: Names, where: str) -> bytes:
    if isinstance(value, str):
        return octets(value, names, where)
    return make_word(end, 0, names, where) if value is None else _entry(value, names, where)


def _entry(chunk: Any, names: Names, where: str) -> bytes:
    """Encodes an entry of the Write list, or the Reply chunk: the word 1, the count of segments and the segments.

    Args:
        chunk: a list of segments; or a mapping with "segments" and, for deliberate mistakes, "present" in place of the
            word 1 and "count" in place of the count.
        names: resolves references in values, such as {"given": NAME}.
        where: the path of the value for error texts, such as "steps[0].say.header".

    Raises:
        LocalProtocolError: a value is no number or refers to an unknown name.
    """
    fields = {"segments": chunk} if isinstance(chunk, list) else chunk
    return make_word(fields.get("present", 1), 0, names, where) + make_segments(fields, names, where)


def make_segments(fields: Mapping[str, Any], names: Names, where: str) -> bytes:
    """Encodes the count and the segments of a chunk or of an item.

    Args:
        fields: "segments" is a list of segments, each with "handle", "length" and "offset", or with "memory", the name
            of a registered region; "count" is a deliberately wrong number in place of the count.
        names: resolves references in values, such as {"given": NAME}.
        where: the path of the value for error texts, such as "steps[0].say.header".

    Raises:
        LocalProtocolError: a value is no number or refers to an unknown name.
    """
    segments = [
        _make_segment(each, names, f"{where}[{index}]") for index, each in enumerate(fields.get("segments", []))
    ]
    return make_word(fields.get("count", len(segments)), 0, names, where) + b"".join(segments)


def _make_segment(given: Mapping[str, Any], names: Names, where: str) -> bytes:
    """Encodes a segment: handle and length as 32 bits, offset as 64 bits, each 0 if `given` does not have it.

    {"memory": NAME} stands for the three values of that memory region, which values beside it replace. `names` resolves
    references, and `where` is the path for error texts. A value that is no number raises LocalProtocolError.
    """
    values: dict[str, Any] = {"handle": 0, "length": 0, "offset": 0}
    if "memory" in given:
        name = given["memory"]
        values = {each: {"given": f"{name}.{each}"} for each in values}
    values |= {each: given[each] for each in values if each in given}
    handle, length, offset = (number(values[each], names, f"{where}.{each}") for each in ("handle", "length", "offset"))
    return struct.pack(">IIQ", handle & 0xFFFFFFFF, length & 0xFFFFFFFF, offset & (1 << 64) - 1)


def _make_properties(value: Any, _end: Any, names: Names, where: str) -> bytes:
    pairs = value or []
    made = make_word(len(pairs), 0, names, where)
    for index, (which, content) in enumerate(pairs):
        here = f"{where}[{index}]"
        made += make_word(which, 0, names, here) + octets({"opaque": content}, names, here)
    return made


def _make_numbers(value: Any, _end: Any, names: Names, where: str) -> bytes:
    return octets({"words": value or []}, names, where)


MAKERS: Mapping[str, Callable[[Any, Any, Names, str], bytes]] = {
    "word": make_word,
    "half": _make_half,
    "reads": _make_reads,
    "writes": _make_writes,
    "chunk": _make_chunk,
    "properties": _make_properties,
    "numbers": _make_numbers,
}
"""Encoders of header fields, by kind; arguments are the value, the word that ends a list, the names, the error path."""


def word_at(data: bytes, at: int, name: str) -> int:
    """Decodes the big-endian number of 32 bits at octet `at` of a message; `name` is the field's name for error texts.

    Raises:
        Short: the message ends within the number.
    """
    if len(data) < at + 4:
        raise Short(f"the message ends within {name}, at octet {len(data)}")
    return int(_WORD.unpack_from(data, at)[0])


def _read_word(data: bytes, at: int, name: str) -> tuple[int, int]:
    return word_at(data, at, name), at + 4


def _read_half(data: bytes, at: int, name: str) -> tuple[int, int]:
    if len(data) < at + 2:
        raise Short(f"the message ends within {name}, at octet {len(data)}")
    return int.from_bytes(data[at : at + 2]), at + 2


def _present(data: bytes, at: int, name: str) -> bool:
    told = word_at(data, at, name)
    if told > 1:
        raise Short(f"{name}: {told} stands where 0 or 1 tells whether an entry follows")
    return told == 1


def _read_segment(data: bytes, at: int, name: str) -> tuple[dict[str, int], int]:
    words = [word_at(data, at + 4 * index, name) for index in range(4)]
    return {"handle": words[0], "length": words[1], "offset": words[2] << 32 | words[3]}, at + 16


def _read_reads(data: bytes, at: int, name: str) -> tuple[list[dict[str, int]], int]:
    found = []
    while _present(data, at, name):
        position = word_at(data, at + 4, name)
        segment, at = _read_segment(data, at + 8, name)
        found.append({"position": position, **segment})
    return found, at + 4


def _read_writes(data: bytes, at: int, name: str) -> tuple[list[list[dict[str, int]]], int]:
    found = []
    while _present(data, at, name):
        segments, at = read_segments(data, at + 4, name)
        found.append(segments)
    return found, at + 4


def read_segments(data: bytes, at: int, name: str) -> tuple[list[dict[str, int]], int]:
    """Decodes the count of segments at octet `at` of a message, and the segments after the count.

    Returns the segments, each with "handle", "length" and "offset", and the octet after the last one. `name` is the
    field's name for error texts.

    Raises:
        Short: the message ends within the count or the segments.
    """
    count = word_at(data, at, name)
    segments = []
    at += 4
    for _ in range(count):
        segment, at = _read_segment(data, at, name)
        segments.append(segment)
    return segments, at


def _read_chunk(data: bytes, at: int, name: str) -> tuple[list[dict[str, int]] | None, int]:
    return read_segments(data, at + 4, name) if _present(data, at, name) else (None, at + 4)


def _read_properties(data: bytes, at: int, name: str) -> tuple[dict[int, bytes], int]:
    found = {}
    count, at = _read_word(data, at, name)
    for _ in range(count):
        which, length = word_at(data, at, name), word_at(data, at + 4, name)
        end = at + 8 + (length + 3 & ~3)
        if end > len(data):
            raise Short(f"the message ends within {name}, at octet {len(data)}")
        found[which] = data[at + 8 : at + 8 + length]
        at = end
    return found, at


def _read_numbers(data: bytes, at: int, name: str) -> tuple[list[int], int]:
    return [word_at(data, place, name) for place in range(at, len(data), 4)], len(data)


READERS: Mapping[str, Callable[[bytes, int, str], tuple[Any, int]]] = {
    "word": _read_word,
    "half": _read_half,
    "reads": _read_reads,
    "writes": _read_writes,
    "chunk": _read_chunk,
    "properties": _read_properties,
    "numbers": _read_numbers,
}
"""Decoders of header fields, by kind: arguments are the message, the octet of the field and its name for error texts.

Each returns the value and the octet after the field, and raises `Short` if the message ends before.
"""
