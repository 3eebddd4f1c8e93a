"""The golden messages of the round-trip extension as the values that they decode to."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rpcrdma.rtr import messages
from rpcrdma.rtr.messages import (
    DirectionSet,
    Explicit,
    InSegments,
    Item,
    NotPlaced,
    Report,
    ReportCode,
    ResultDirection,
    TransmissionId,
    TransmitContinue,
    TransmitRequest,
    TransmitResponse,
    Way,
)
from rpcrdma.rtr.properties import BufferStructure, SegmentKind
from rpcrdma.transport import Segment
from rpcrdma.wire.buffers import Buffer

__all__ = ["DECODERS", "ENCODERS", "HEADER_TYPES", "MESSAGES", "VECTORS", "octets_of", "structure_of", "value_of"]

VECTORS: dict[str, list[dict[str, Any]]] = tomllib.loads((Path(__file__).parent / "rtr" / "messages.toml").read_text())
MESSAGES = ("request", "response", "continue", "report")
HEADER_TYPES = {"request": 0x101, "response": 0x102, "continue": 0x103, "report": 0x104}
ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "request": messages.encode_transmit_request,
    "response": messages.encode_transmit_response,
    "continue": messages.encode_transmit_continue,
    "report": messages.encode_report,
}


def _report(data: Buffer, start: int) -> tuple[Report, int]:
    return messages.decode_report(data, start), len(data)


DECODERS: dict[str, Callable[[Buffer, int], tuple[Any, int]]] = {
    "request": messages.decode_transmit_request,
    "response": messages.decode_transmit_response,
    "continue": messages.decode_transmit_continue,
    "report": _report,
}


def octets_of(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["hex"])


def value_of(kind: str, vector: dict[str, Any]) -> Any:
    if kind == "request":
        directions = tuple(
            DirectionSet(begin, end, tuple(map(_direction, results))) for begin, end, results in vector["directions"]
        )
        return TransmitRequest(_items(vector), directions, *vector["numbers"])
    if kind == "response":
        return TransmitResponse(_items(vector), *vector["numbers"])
    if kind == "continue":
        return TransmitContinue(*vector["numbers"])
    lead = TransmissionId(*vector["lead"]) if "lead" in vector else None
    return Report(TransmissionId(*vector["bad"]), lead, ReportCode(vector["code"]), tuple(vector["words"]))


def structure_of(vector: dict[str, Any]) -> BufferStructure:
    groups = tuple((count, SegmentKind(*kind)) for count, *kind in vector["groups"])
    return BufferStructure(vector["octets"], groups)


def _items(vector: dict[str, Any]) -> tuple[Item, ...]:
    return tuple(Item(position, length, _where(*where)) for position, length, where in vector["items"])


def _where(kind: str, *rest: Any) -> Explicit | InSegments | NotPlaced:
    if kind == "segments":
        offset, numbers = rest
        return InSegments(offset, tuple(numbers))
    if kind == "explicit":
        return Explicit(_segments(*rest))
    return NotPlaced[kind.upper().replace(" ", "_")]


def _direction(listed: list[Any]) -> ResultDirection:
    least, way, *rest = listed
    segments = _segments(rest[0]) if rest else ()
    return ResultDirection(least, Way[way.upper().replace(" ", "_")], segments, *rest[1:])


def _segments(listed: list[list[int]]) -> tuple[Segment, ...]:
    return tuple(Segment(*segment) for segment in listed)
