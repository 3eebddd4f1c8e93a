"""Golden transport headers as the records that they decode to, for the tests of every version."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from rpcrdma.transport.chunks import ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.message import Cause, Refusal

__all__ = ["chunk_lists", "header_of", "load_headers", "octets_of", "property_set"]

FOLDER = Path(__file__).parent / "transport"


def load_headers(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / name).read_text())


def octets_of(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["hex"])


def chunk_lists(vector: dict[str, Any]) -> ChunkLists:
    return ChunkLists(
        tuple(ReadChunk(position, _segments(listed)) for position, listed in vector.get("reads", ())),
        tuple(WriteChunk(_segments(listed)) for listed in vector.get("writes", ())),
        WriteChunk(_segments(vector["reply"])) if "reply" in vector else None,
    )


def property_set(vector: dict[str, Any]) -> tuple[tuple[int, bytes], ...]:
    return tuple((number, bytes.fromhex(value)) for number, value in vector["properties"])


def header_of(vector: dict[str, Any], module: ModuleType) -> Any:
    """An object of the class that `type` names. Members that the vector leaves out have their defaults."""
    record = getattr(module, vector["type"])
    names = {field.name for field in fields(record)}
    found = {name: vector[name] for name in names & vector.keys()}
    if "chunks" in names:
        found["chunks"] = chunk_lists(vector)
    if "size" in names:
        found["size"] = len(octets_of(vector))
    if "refusal" in names:
        told = {name: vector[name] for name in ("low", "high", "limit", "chunk", "needed") if name in vector}
        found["refusal"] = Refusal(Cause(vector["cause"]), **told)
    if "octets" in names:
        found["octets"] = bytes.fromhex(vector["payload"])
    return record(**found)


def _segments(listed: list[list[int]]) -> tuple[Segment, ...]:
    return tuple(Segment(*segment) for segment in listed)
