"""Numbers and octets in scripted conversations: literals, values of the caller by name, fields of messages."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Mapping
from typing import Any

from rpcrdma.errors import LocalProtocolError

__all__ = [
    "CONTENT_OCTETS_MAX",
    "UNRESOLVED",
    "Names",
    "field_at",
    "field_named",
    "in_words",
    "number",
    "octets",
    "pattern",
]

CONTENT_OCTETS_MAX = 1 << 28
"""Octets of one value or region: a larger number is a mistake, and would take too much memory."""
_NUMBER_MAX = 1 << 64
_WORDS_MAX = 80
_REFERENCE = {"given", "heard", "of", "from", "first"}
"""Keys of a reference to octets, and to a part of them."""
_NUMBER_REFERENCE = {"given", "heard", "of", "plus", "most"}
"""Keys of a reference to a number, and of the changes to it."""


class Names:
    """The names that values in a scripted conversation refer to.

    The runner of the conversation changes the attributes while steps run.

    Attributes:
        given: numbers and octets by name, for {"given": NAME}.
        heard: the fields of the last message, or start-up frame, that matched, for {"heard": PATH}.
        named: the fields of messages to which a step has given a name, for {"heard": PATH, "of": MESSAGE}.
    """

    def __init__(self, given: Mapping[str, int | bytes] | None = None) -> None:
        self.given = dict(given or {})
        self.heard: Mapping[str, Any] = {}
        self.named: dict[str, Mapping[str, Any]] = {}

    def value(self, reference: Mapping[str, Any], where: str, kind: type[int] | type[bytes]) -> int | bytes | None:
        """Returns the value of a reference {"given": NAME}, {"heard": PATH} or {"heard": PATH, "of": MESSAGE}.

        Only `UNRESOLVED`, which stands for the names before a conversation runs, returns None.

        Args:
            reference: the reference; PATH, such as "header.xid" (see `field_at`), leads to a field of the message that
                a step has named MESSAGE or, without "of", of the last message that matched.
            where: the path of `reference` for error texts.
            kind: the type that the value must have.

        Raises:
            LocalProtocolError: there is no such name or field, or its value has another type.
        """
        if "given" in reference:
            name = _text(reference["given"], f"{where}.given")
            if name not in self.given:
                raise LocalProtocolError(f"{where}: no value is given for {name!r}")
            found: Any = self.given[name]
        else:
            name = _text(reference["heard"], f"{where}.heard")
            found = field_at(self.message(reference["of"], where) if "of" in reference else self.heard, name)
        if not isinstance(found, kind):
            needed = "a number" if kind is int else "octets"
            raise LocalProtocolError(f"{where}: expected {needed} in {name!r}, found {in_words(found)}")
        return found

    def message(self, name: Any, where: str) -> Mapping[str, Any]:
        """Returns the fields of the message that a step has named `name`; `where` is the path of `name` for errors.

        Raises:
            LocalProtocolError: no message has this name, or `name` is no text.
        """
        if _text(name, f"{where}.of") not in self.named:
            raise LocalProtocolError(f"{where}: no message has the name {name!r}")
        return self.named[name]


class _UnresolvedNames(Names):
    """The names before a conversation runs: `value` returns None for every reference whose parts are text.

    Other references raise LocalProtocolError.
    """

    def value(self, reference: Mapping[str, Any], where: str, kind: type[int] | type[bytes]) -> None:  # noqa: ARG002
        for name in reference.keys() & {"given", "heard", "of"}:
            _text(reference[name], f"{where}.{name}")


UNRESOLVED = _UnresolvedNames()


def in_words(value: Any) -> str:
    """Returns a value as JSON, or octets as hex, for error texts; text of more than 80 characters is shortened."""
    text = value.hex() if isinstance(value, bytes) else json.dumps(value, default=str)
    return text if len(text) <= _WORDS_MAX else f"{text[:_WORDS_MAX]}…"


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise LocalProtocolError(f"{where}: expected text, found {in_words(value)}")
    return value


def field_at(fields: Mapping[str, Any], path: str) -> Any:
    """Returns the value in `fields` at a path such as "header.writes.0.0.length"; None if there is none.

    Parts of the path are names of fields (see `field_named`), or indexes of lists, from 0.
    """
    found: Any = fields
    for part in path.split("."):
        if isinstance(found, Mapping):
            found = field_named(found, part)
        elif isinstance(found, (list, tuple)) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def field_named(fields: Mapping[Any, Any], name: str) -> Any:
    """Returns the value of a field, None if absent; a name of digits, such as "2", is a transport property's number."""
    return fields.get(int(name) if name.isdecimal() and name not in fields else name)


def number(value: Any, names: Names, where: str, least: int = -_NUMBER_MAX, most: int = _NUMBER_MAX) -> int:
    """Evaluates a number: 7, "0x7" or a reference, {"given": NAME}, {"heard": PATH} or {"heard": PATH, "of": MESSAGE}.

    PATH leads to a field of the message that a step has named MESSAGE, or without "of" of the last message that matched
    (see `Names.value`). "plus" in a reference is a number that is added, and "most" the largest result, which replaces
    a larger one. With `UNRESOLVED`, the names before a conversation runs, a reference counts as `least`, or as 0 if
    that is larger.

    Args:
        value: the number as JSON-like data.
        names: the values that references such as {"given": NAME} stand for.
        where: the path of `value` for error texts.
        least: the smallest allowed result; -2**64 by default.
        most: the largest allowed result; 2**64 by default.

    Raises:
        LocalProtocolError: `value` is malformed, a reference fails, or the result is out of bounds.
    """
    found: int | None = None
    if isinstance(value, Mapping) and value.keys() & {"given", "heard"}:
        for key in value.keys() - _NUMBER_REFERENCE:
            expected = ", ".join(sorted(_NUMBER_REFERENCE))
            raise LocalProtocolError(f"{where}: expected one of {expected}, found {in_words(key)}")
        plus = number(value.get("plus", 0), names, f"{where}.plus")
        largest = number(value["most"], names, f"{where}.most") if "most" in value else None
        resolved = names.value(value, where, int)
        if resolved is None:
            return max(least, 0)
        found = int(resolved) + plus
        if largest is not None:
            found = min(found, largest)
    elif isinstance(value, str):
        with contextlib.suppress(ValueError):
            found = int(value, 0)
    elif isinstance(value, int):
        found = int(value)
    if found is None:
        told = f"{where}: {in_words(value)} is not a number"
        raise LocalProtocolError(f'{told}: write 7, "0x7" or {{"given": NAME}}')
    if not least <= found <= most:
        raise LocalProtocolError(f"{where}: expected a number from {least} to {most}, found {in_words(value)}")
    return found


def octets(value: Any, names: Names, where: str) -> bytes:
    """Evaluates octets: hex digits, a list of parts to be joined, or a mapping {KIND: CONTENT}.

    Kinds are "text" (UTF-8), "pattern" and "zeros" (of a length in octets), "words" and "longs" (lists of big-endian
    numbers of 32 and 64 bits, modulo 2**32 and 2**64), "opaque" (octets as XDR opaque of variable length), "given" and
    "heard" (see `Names.value`). "from" and "first" beside these two take a part of the octets: "from" is its start, and
    "first" its length at most. With `UNRESOLVED`, the names before a conversation runs, a reference counts as no
    octets.

    Args:
        value: the octets as JSON-like data.
        names: the values that references such as {"given": NAME} stand for.
        where: the path of `value` for error texts.

    Raises:
        LocalProtocolError: `value` is malformed, or a reference fails.
    """
    if isinstance(value, str):
        try:
            return bytes.fromhex(value)
        except ValueError:
            told = f"{where}: {in_words(value)} is not hex"
            raise LocalProtocolError(f'{told}; text is {{"text": ...}}') from None
    if isinstance(value, list):
        return b"".join(octets(part, names, f"{where}[{index}]") for index, part in enumerate(value))
    if isinstance(value, Mapping) and value.keys() & {"given", "heard"} and value.keys() <= _REFERENCE:
        whole = bytes(names.value(value, where, bytes) or b"")
        start = number(value.get("from", 0), names, f"{where}.from")
        return whole[start : start + number(value.get("first", len(whole)), names, f"{where}.first")]
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, content),) = value.items()
        where = f"{where}.{kind}"
        if kind == "text":
            return _text(content, where).encode(errors="surrogatepass")
        if kind == "pattern":
            return pattern(number(content, names, where, 0, CONTENT_OCTETS_MAX))
        if kind == "zeros":
            return bytes(number(content, names, where, 0, CONTENT_OCTETS_MAX))
        if kind in {"words", "longs"}:
            if not isinstance(content, (list, tuple)):
                raise LocalProtocolError(f"{where}: expected a list of numbers, found {in_words(content)}")
            bits = 32 if kind == "words" else 64
            numbers = [number(each, names, f"{where}[{index}]") % (1 << bits) for index, each in enumerate(content)]
            return struct.pack(f">{len(numbers)}{'I' if bits == 32 else 'Q'}", *numbers)
        if kind == "opaque":
            data = octets(content, names, where)
            return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)
    raise LocalProtocolError(f'{where}: {in_words(value)} is not octets: write hex digits, or {{"words": [1, 2]}}')


def pattern(length: int) -> bytes:
    """Returns `length` octets of a fixed test pattern: octet i is 7 * i + i // 256 + 1, modulo 256."""
    return bytes((index * 7 + index // 256 + 1) & 0xFF for index in range(length))
