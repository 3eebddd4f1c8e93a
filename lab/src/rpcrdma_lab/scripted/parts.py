"""Divides the arguments or results of an RPC message into named parts, which later messages may repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["ATTRIBUTES", "COUNTED", "parts_of"]

COUNTED: Mapping[str, int] = {"opaque": 1, "words": 4}
"""The octets of an element, by the kind of part that begins with the count of its elements."""
ATTRIBUTES = "attributes"
"""The kind of a part that NFSv3 may leave out: a word, and behind a word of 1 the octets of attributes."""
_ATTRIBUTES_OCTETS = 84


def parts_of(data: bytes, form: Sequence[Sequence[Any]]) -> dict[str, bytes]:
    """Returns the octets of the parts, by name; parts beyond the end of `data` are left out.

    An element of `form` is [NAME, KIND]. The kind is a number of octets, "opaque" for octets with an XDR count before
    and padding behind, "words" for words with such a count, or "attributes" for post_op_attr of NFSv3 (RFC 1813
    section 2.6). Count and padding do not belong to the part.
    """
    found: dict[str, bytes] = {}
    at = 0
    for name, kind in form:
        length = kind
        if kind == ATTRIBUTES:
            length = 4 + _ATTRIBUTES_OCTETS * (int.from_bytes(data[at : at + 4]) == 1)
        elif kind in COUNTED:
            length = int.from_bytes(data[at : at + 4]) * COUNTED[kind]
            at += 4
        if at + length > len(data):
            break
        found[name] = data[at : at + length]
        at += length + (-length % 4 if kind in COUNTED else 0)
    return found
