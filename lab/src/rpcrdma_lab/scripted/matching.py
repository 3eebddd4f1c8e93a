"""Compares a message, or another event, with a pattern: the fields that the pattern names, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpcrdma_lab.scripted.values import Names, field_named, number, octets

__all__ = ["difference"]


def difference(pattern: Any, found: Any, names: Names, where: str = "") -> str | None:
    """Compares a received value with a pattern; returns the first difference as text, or None if the value matches.

    A mapping compares the fields that it names, and ignores others. Conditions are {"any": [PATTERN, ...]}, of which
    one has to match, {"min": NUMBER, "max": NUMBER} (bounds inclusive, either may be left out), {"not": PATTERN},
    {"ends": OCTETS}, with which the octets have to end, and {"all": PATTERN}, which each element of a list has to
    match. A list has to have the same number of elements, which are compared one by one. Other patterns are values, for
    numbers and octets in the forms of `values.number` and `values.octets`. None stands for an absent field.

    Args:
        pattern: the expected value.
        found: the received value; None: absent.
        names: resolves references in the pattern, such as {"given": NAME}.
        where: the path of `found`, with which the text begins.

    Raises:
        LocalProtocolError: a value in the pattern is malformed, or refers to an unknown name.
    """
    if isinstance(pattern, Mapping):
        return _by_mapping(pattern, found, names, where)
    if pattern is None or found is None:
        return None if pattern is found else _told(where, pattern, found)
    if isinstance(pattern, list):
        return _by_list(pattern, found, names, where)
    expected = octets(pattern, names, where) if isinstance(found, bytes) else pattern
    if isinstance(found, int):
        expected = number(pattern, names, where)
    return None if expected == found else _told(where, expected, found)


def _by_mapping(pattern: Mapping[str, Any], found: Any, names: Names, where: str) -> str | None:
    if "any" in pattern:
        misses = [difference(each, found, names, where) for each in pattern["any"]]
        return None if None in misses else _told(where, f"one of {pattern['any']}", found)
    if "not" in pattern:
        same = difference(pattern["not"], found, names, where) is None
        return _told(where, f"anything but {pattern['not']}", found) if same else None
    if "all" in pattern:
        if not isinstance(found, (list, tuple)):
            return _told(where, "a list", found)
        misses = [difference(pattern["all"], each, names, f"{where}[{index}]") for index, each in enumerate(found)]
        return next((miss for miss in misses if miss is not None), None)
    if pattern.keys() <= {"min", "max"} and pattern:
        low = number(pattern.get("min", 0), names, where)
        high = number(pattern.get("max", 1 << 64), names, where)
        fits = isinstance(found, int) and low <= found <= high
        return None if fits else _told(where, f"{low} to {high}" if "max" in pattern else f"at least {low}", found)
    if "ends" in pattern and isinstance(found, bytes):
        end = octets(pattern["ends"], names, where)
        return None if found.endswith(end) else _told(where, f"octets that end with {end.hex()}", found)
    if isinstance(found, (bytes, int)):
        expected: int | bytes
        expected = octets(dict(pattern), names, where) if isinstance(found, bytes) else number(pattern, names, where)
        return None if expected == found else _told(where, expected, found)
    if not isinstance(found, Mapping):
        return _told(where, "fields", found)
    for key, value in pattern.items():
        miss = difference(value, field_named(found, key), names, f"{where}.{key}" if where else key)
        if miss is not None:
            return miss
    return None


def _by_list(pattern: list[Any], found: Any, names: Names, where: str) -> str | None:
    if isinstance(found, bytes):
        expected = octets(pattern, names, where)
        return None if expected == found else _told(where, expected, found)
    if not isinstance(found, (list, tuple)) or len(found) != len(pattern):
        return _told(where, f"a list of {len(pattern)}", found)
    for index, (each, other) in enumerate(zip(pattern, found, strict=True)):
        miss = difference(each, other, names, f"{where}[{index}]")
        if miss is not None:
            return miss
    return None


def _told(where: str, expected: object, found: object) -> str:
    return f"{where} is {_short(found)} instead of {_short(expected)}"


def _short(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else "absent" if value is None else str(value)
    return text if len(text) <= 100 else f"{text[:100]}… ({len(text)} characters)"
