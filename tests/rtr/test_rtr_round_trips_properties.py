"""Each message of the extension survives encoding, decoding and any place in a message."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rpcrdma import limits
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
from rpcrdma.rtr.properties import BufferStructure, SegmentKind, decode_buffer_structure, encode_buffer_structure
from rpcrdma.transport import Segment
from rtr_vectors import DECODERS, ENCODERS, MESSAGES

WORDS = st.sampled_from([0, 1, 2, 4096, 0xFFFFFFFF]) | st.integers(0, 0xFFFFFFFF)


def tuples(of: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=most).map(tuple)


SEGMENTS = tuples(st.builds(Segment, WORDS, WORDS, st.integers(0, (1 << 64) - 1)))
PLACES = st.builds(Explicit, SEGMENTS) | st.builds(InSegments, WORDS, tuples(WORDS, 20))
RESULTS = PLACES | st.sampled_from(NotPlaced)


def direction(least: int, way: Way, segments: tuple[Segment, ...], explicit_from: int) -> ResultDirection:
    """With the arguments that its way has room for."""
    return ResultDirection(
        least, way, () if way is Way.SEGMENTS else segments, explicit_from if way is Way.BY_SIZE else 0
    )


DIRECTIONS = st.builds(direction, WORDS, st.sampled_from(Way), SEGMENTS, WORDS)
SETS = tuples(st.builds(DirectionSet, WORDS, WORDS, tuples(DIRECTIONS)))
IDS = st.builds(TransmissionId, WORDS, st.sampled_from([0, 1]), WORDS)


def report(bad: TransmissionId, lead: TransmissionId | None, code: ReportCode, words: list[int]) -> Report:
    count = {3: 0, 6: 3, 7: 3, 8: 3}.get(code, 2)
    return Report(bad, lead, code, tuple(words[:count]))


VALUES = {
    "request": st.builds(TransmitRequest, tuples(st.builds(Item, WORDS, WORDS, PLACES)), SETS, WORDS, WORDS, WORDS),
    "response": st.builds(TransmitResponse, tuples(st.builds(Item, WORDS, WORDS, RESULTS)), WORDS, WORDS),
    "continue": st.builds(TransmitContinue, WORDS, WORDS, WORDS),
    "report": st.builds(
        report, IDS, st.none() | IDS, st.sampled_from(ReportCode), st.lists(WORDS, min_size=3, max_size=3)
    ),
}
ANY = st.one_of(*(st.tuples(st.just(kind), VALUES[kind]) for kind in MESSAGES))


@given(ANY, st.integers(0, 24), st.binary(max_size=40))
def test_any_message_survives(case: tuple[str, Any], start: int, payload: bytes) -> None:
    kind, value = case
    body = ENCODERS[kind](value)
    data = memoryview(bytes(start) + body + (b"" if kind == "report" else payload))
    assert DECODERS[kind](data, start) == (value, start + len(body))


KINDS = st.builds(SegmentKind, st.integers(1, 1 << 20), st.sampled_from([0, 1, 2, 4096]), st.booleans())
GROUPS = st.lists(st.tuples(st.integers(1, 60), KINDS), min_size=1, max_size=4).map(tuple)


@given(GROUPS)
def test_any_structure_survives_and_its_segments_fill_the_buffer(groups: tuple[tuple[int, SegmentKind], ...]) -> None:
    structure = BufferStructure(sum(count * kind.length for count, kind in groups), groups)
    assert decode_buffer_structure(encode_buffer_structure(structure)) == structure
    assert len(structure.segments) == sum(count for count, _ in groups) <= limits.RTR_BUFFER_SEGMENTS_MAX
    end = 0
    for start, length, _ in structure.segments:
        assert start == end
        end += length
    assert end == structure.octets
    assert list(structure.placeable) == [
        (start, length) for start, length, placeable in structure.segments if placeable
    ]
