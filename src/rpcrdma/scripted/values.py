"""Numbers and octets in scripted conversations: literals, names of the caller, fields of the last answer."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from rpcrdma.errors import LocalProtocolError

__all__ = ["Names", "field_at", "number", "octets", "pattern"]


class Names:
    """The names that values refer to: `given` by the caller, `heard` the fields of the last message."""

    def __init__(self, given: Mapping[str, int | bytes] | None = None) -> None:
        self.given = dict(given or {})
        self.heard: Mapping[str, Any] = {}

    def value(self, reference: Mapping[str, Any], where: str) -> int | bytes:
        """The value of {"given": NAME} or {"heard": PATH}.

        Raises:
            LocalProtocolError: there is no such name or field.
        """
        if "given" in reference:
            name = reference["given"]
            if name not in self.given:
                raise LocalProtocolError(f"{where}: no value is given for {name!r}")
            return self.given[name]
        found = field_at(self.heard, reference["heard"])
        if not isinstance(found, (int, bytes)):
            raise LocalProtocolError(f"{where}: the last message has no field {reference['heard']!r}")
        return found


def field_at(fields: Mapping[str, Any], path: str) -> Any:
    """The field that a path such as "header.writes.0.0.length" names; None if there is none."""
    found: Any = fields
    for part in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, (list, tuple)) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def number(value: Any, names: Names, where: str) -> int:
    """A number: 7, "0x7", {"given": NAME} or {"heard": PATH}, the latter two with {"plus": NUMBER} as well.

    Raises:
        LocalProtocolError: it is none of these; the message begins with `where`.
    """
    if isinstance(value, Mapping) and value.keys() & {"given", "heard"}:
        found = names.value(value, where)
        if isinstance(found, int):
            return found + number(value.get("plus", 0), names, f"{where}.plus")
    elif isinstance(value, str):
        try:
            return int(value, 0)
        except ValueError:
            pass
    elif isinstance(value, int):
        return int(value)
    raise LocalProtocolError(f'{where}: {value!r} is not a number: write 7, "0x7" or {{"given": NAME}}')


def octets(value: Any, names: Names, where: str) -> bytes:
    """Octets: hex digits; {"text", "pattern", "zeros", "words", "longs", "opaque", "given" or "heard": ...}; a list.

    `pattern` and `zeros` have a length, `words` and `longs` are lists of numbers of 32 and 64 bits, `opaque` is octets
    with an XDR count before and padding behind. {"from": NUMBER} and {"first": NUMBER} beside `given` take a part of
    it. The parts of a list are joined.

    Raises:
        LocalProtocolError: it is none of these; the message begins with `where`.
    """
    if isinstance(value, str):
        try:
            return bytes.fromhex(value)
        except ValueError:
            raise LocalProtocolError(f"{where}: {value!r} is not hex; text is {{'text': ...}}") from None
    if isinstance(value, list):
        return b"".join(octets(part, names, f"{where}[{index}]") for index, part in enumerate(value))
    if isinstance(value, Mapping) and value.keys() - {"given"} and value.keys() <= {"given", "from", "first"}:
        whole = octets({"given": value.get("given")}, names, where)
        start = number(value.get("from", 0), names, f"{where}.from")
        return whole[start : start + number(value.get("first", len(whole)), names, f"{where}.first")]
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, content),) = value.items()
        where = f"{where}.{kind}"
        if kind == "text":
            return str(content).encode()
        if kind == "pattern":
            return pattern(number(content, names, where))
        if kind == "zeros":
            return bytes(number(content, names, where))
        if kind in {"words", "longs"}:
            bits = 32 if kind == "words" else 64
            numbers = [number(each, names, f"{where}[{index}]") % (1 << bits) for index, each in enumerate(content)]
            return struct.pack(f">{len(numbers)}{'I' if bits == 32 else 'Q'}", *numbers)
        if kind == "opaque":
            data = octets(content, names, where)
            return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)
        if kind in {"given", "heard"}:
            found = names.value(value, where)
            if isinstance(found, bytes):
                return found
    raise LocalProtocolError(f'{where}: {value!r} is not octets: write hex digits, or {{"words": [1, 2]}}')


def pattern(length: int) -> bytes:
    """So many octets in which each of a few hundred differs from its neighbours and from those 256 further on."""
    return bytes((index * 7 + index // 256 + 1) & 0xFF for index in range(length))
