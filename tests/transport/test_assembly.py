"""Messages in pieces, joined in order within bounds and never mixed with another, and the octets that messages hold."""

from __future__ import annotations

import itertools
import random

from rpcrdma import limits
from rpcrdma.limits import CONNECTION_MESSAGE_OCTETS_MAX, RPC_UNCOUNTED_CALL_OCTETS
from rpcrdma.transport.assembly import Assembly, Step
from rpcrdma.transport.message_memory import MessageMemory
from support.cases import each_case

ONE, TWO, THREE = (1, 0), (2, 0), (3, 0)


def feed(assembly: Assembly, key: tuple[int, ...], payload: bytes, *, more: bool) -> Step:
    """As a dialect does."""
    return assembly.drop(key, more=more) or assembly.take(key, payload, more=more)


def test_as_many_octets_as_limits_allow_and_not_one_more() -> None:
    part = bytes(limits.CONTINUED_OCTETS_MAX // 4)
    for last, step in ((b"", Step.WHOLE), (b"!", Step.TOO_LONG)):
        assembly = Assembly()
        for _ in range(4):
            assert feed(assembly, ONE, part, more=True) is Step.KEPT
        assert feed(assembly, ONE, last, more=False) is step
        assert len(assembly.release()) == (limits.CONTINUED_OCTETS_MAX if step is Step.WHOLE else 0)
        assert assembly.idle


def test_as_many_pieces_as_limits_allow_and_not_one_more() -> None:
    assembly = Assembly()
    for _ in range(limits.CONTINUED_PIECES_MAX):
        assert feed(assembly, ONE, b"", more=True) is Step.KEPT
    assert feed(assembly, ONE, b"", more=True) is Step.TOO_LONG
    assert feed(assembly, ONE, b"", more=True) is Step.DROPPED
    assert feed(assembly, ONE, b"", more=False) is Step.DROPPED
    assert assembly.idle
    for _ in range(limits.CONTINUED_PIECES_MAX - 1):
        assert feed(assembly, ONE, b"", more=True) is Step.KEPT
    assert feed(assembly, ONE, b"", more=False) is Step.WHOLE


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


class Room:
    """Of `size` octets."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.asked: list[int] = []

    def take_in(self, octets: int) -> bool:
        self.asked.append(octets)
        if octets > self.left:
            return False
        self.left -= octets
        return True

    def give_back(self, octets: int) -> None:
        self.asked.append(octets)
        self.left += octets


SIZES = (0, 1, RPC_UNCOUNTED_CALL_OCTETS // 3, RPC_UNCOUNTED_CALL_OCTETS, CONNECTION_MESSAGE_OCTETS_MAX // 2)


@each_case("seed", range(24))
def test_what_is_held_is_the_sum_of_what_was_taken(seed: int) -> None:
    draw = random.Random(seed)
    size = draw.choice([0, RPC_UNCOUNTED_CALL_OCTETS, CONNECTION_MESSAGE_OCTETS_MAX, None])
    room = None if size is None else Room(size)
    memory = MessageMemory(room)
    calls: list[int] = []
    group = 0
    for _ in range(80):
        octets = draw.choice(SIZES)
        held = sum(calls) + group
        after = held + octets
        fits = after <= CONNECTION_MESSAGE_OCTETS_MAX
        if size is not None:
            fits = fits and after <= RPC_UNCOUNTED_CALL_OCTETS + size
        match draw.choice(["call", "call", "group", "answered", "ended"]):
            case "call":
                assert memory.hold(octets) is fits
                calls += [octets] * fits
            case "group":
                assert memory.hold_group(octets) is fits
                group += octets * fits
            case "answered":
                if calls:
                    memory.release(calls.pop(draw.randrange(len(calls))))
            case "ended":
                memory.release_group()
                group = 0
        if room is not None and size is not None:
            held = sum(calls) + group
            assert size - room.left == max(0, held - RPC_UNCOUNTED_CALL_OCTETS)
            assert all(asked > 0 for asked in room.asked)
    memory.release_group()
    for octets in calls:
        memory.release(octets)
    if room is not None:
        assert room.left == size
    # All of it is free again, and not an octet more.
    fits_at_once = (
        CONNECTION_MESSAGE_OCTETS_MAX
        if size is None
        else min(CONNECTION_MESSAGE_OCTETS_MAX, RPC_UNCOUNTED_CALL_OCTETS + size)
    )
    assert not memory.hold(fits_at_once + 1)
    assert memory.hold(fits_at_once)
