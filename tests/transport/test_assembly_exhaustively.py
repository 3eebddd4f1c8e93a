"""All short conversations of three sequences of pieces, against sets of the sequences that have begun or are broken."""

from __future__ import annotations

import itertools

from rpcrdma.transport.assembly import Assembly, Step
from support.cases import each_case

KEYS = ((1, 0), (1, 5), (2, 0))
EVENTS = [(key, more, refused) for key in KEYS for more in (False, True) for refused in (False, True)]
Event = tuple[tuple[int, ...], bool, bool]


class Expected:
    """`begun` is the sequence that is awaited, `broken` are those whose pieces are dropped."""

    def __init__(self) -> None:
        self.begun: tuple[int, ...] | None = None
        self.octets = b""
        self.count = 0
        self.broken: set[tuple[int, ...]] = set()

    def give_up(self, key: tuple[int, ...], more: bool) -> bool:
        other = {self.begun} - {key, None}
        if more or self.begun is not None:
            self.broken = ({key} if more else set()) | {each for each in other if each is not None}
            self.begun = None
        self.octets = b""
        return bool(other)

    def take(self, key: tuple[int, ...], more: bool, octets: bytes) -> Step:
        if self.begun not in {None, key}:
            self.give_up(key, more)
            return Step.FOREIGN
        if self.begun is None:
            self.count += 1
            self.octets = b""
        self.begun, self.octets = key, self.octets + octets
        if more:
            return Step.KEPT
        self.begun = None
        return Step.WHOLE


def follow(events: tuple[Event, ...]) -> None:
    assembly, expected = Assembly(), Expected()
    for number, (key, more, refused) in enumerate(events):
        octets = bytes([65 + number])
        dropped = assembly.drop(key, more=more)
        assert dropped is (Step.DROPPED if key in expected.broken else None)
        if dropped is not None:
            expected.broken -= set() if more else {key}
        elif refused:
            assert assembly.give_up(key, more=more) is expected.give_up(key, more)
        else:
            step = expected.take(key, more, octets)
            assert assembly.take(key, octets, more=more) is step
            if step is Step.WHOLE:
                assert assembly.release() == expected.octets
                expected.octets = b""
        assert assembly.idle is (expected.begun is None and not expected.broken)
        assert assembly.unfinished == (0 if expected.begun is None else expected.count)
        assert assembly.memory._octets == len(expected.octets)


@each_case("first", EVENTS)
def test_each_piece_goes_where_its_sequence_says(first: Event) -> None:
    assert Assembly().idle
    for rest in itertools.product(EVENTS, repeat=2):
        follow((first, *rest))


@each_case("second", [event for event in EVENTS if not event[2]])
def test_each_piece_goes_where_its_sequence_says_after_one_has_begun(second: Event) -> None:
    for rest in itertools.product(EVENTS, repeat=2):
        follow(((KEYS[0], True, False), second, *rest))


def test_what_is_kept_of_an_unfinished_message_can_be_taken_out() -> None:
    assembly = Assembly()
    assembly.take(KEYS[0], b"abc", more=True)
    assert assembly.memory._octets == 3
    assert assembly.release() == b"abc"
    assert assembly.memory._octets == 0
    assert assembly.unfinished == 1
