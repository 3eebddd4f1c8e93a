"""Divides the arguments or results of an RPC message into named parts, which later messages may repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["ATTRIBUTES", "COUNTED", "parts_of"]

COUNTED: Mapping[str, int] = {"opaque": 1, "words": 4}
"""Octets of an element, by the kind of those parts that begin with an XDR count of elements."""
ATTRIBUTES = "attributes"
"""The kind of a part that is `post_op_attr` of NFSv3: a word 0, or a word 1 and 84 octets of attributes."""
_ATTRIBUTES_OCTETS = 84


def parts_of(data: bytes, form: Sequence[Sequence[Any]]) -> dict[str, bytes]:
    """Divides RPC arguments or results into named parts, and returns the octets of each part by its name.

    The first part that exceeds `data` and all parts after it are left out. The octets of an "opaque" or "words" lack
    the XDR count and padding.

    Args:
        data: the XDR octets.
        form: [NAME, KIND] of each part, in order. The kind is a number of octets, "opaque" (XDR opaque of variable
            length), "words" (an array of 32-bit words with a count) or "attributes" (`post_op_attr`, RFC 1813 section
            2.6).
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
