"""Transport headers of all versions, right or wrong, as octets that tests put together.

The layouts are those of `rpcrdma_lab.scripted`, which uses none of the codecs of `rpcrdma.transport`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from rpcrdma_lab.scripted import make_message
from rpcrdma_lab.scripted.values import Names

__all__ = ["NO_NAMES", "Segment", "chunk", "made_header", "read_segment", "segments"]

NO_NAMES = Names()

Segment: TypeAlias = tuple[int, int, int]
"""Handle, length, offset."""

_PREFIX_OCTETS, _ENDS_OCTETS = 16, 12
"""Of a header in version 1: its first words, and those that end its three lists."""


def made_header(version: str, header: Mapping[str, Any], octets: int | None = None) -> bytes:
    """A transport header of named fields, or its first octets; lists may be octets before their final zero."""
    fields = {name: value.hex() if isinstance(value, bytes) else value for name, value in header.items()}
    if not fields.get("reply", True):
        del fields["reply"]
    return make_message(version, {"header": fields}, NO_NAMES)[:octets]


def read_segment(position: int, segment: Segment) -> bytes:
    """An entry of the Read list."""
    made = made_header("1", {"xid": 0, "reads": [{"position": position, **_named(segment)}]})
    return made[_PREFIX_OCTETS:-_ENDS_OCTETS]


def chunk(*given: Segment) -> bytes:
    """An entry of the Write list, or the Reply chunk."""
    made = made_header("1", {"xid": 0, "writes": [[_named(segment) for segment in given]]})
    return made[_PREFIX_OCTETS + 4 : 4 - _ENDS_OCTETS]


def segments(found: list[dict[str, int]]) -> list[Segment]:
    """The segments of a received chunk."""
    return [(segment["handle"], segment["length"], segment["offset"]) for segment in found]


def _named(segment: Segment) -> dict[str, int]:
    return dict(zip(("handle", "length", "offset"), segment, strict=True))
