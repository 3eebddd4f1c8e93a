"""Messages in pieces: joined in order, within bounds, and never mixed with another."""

from __future__ import annotations

from rpcrdma import limits
from rpcrdma.transport.assembly import Assembly, Step
from support.cases import each_case

ONE, TWO, THREE = (1, 0), (2, 0), (3, 0)


def feed(assembly: Assembly, key: tuple[int, ...], payload: bytes, *, more: bool) -> Step:
    """As a dialect does."""
    return assembly.drop(key, more=more) or assembly.take(key, payload, more=more)


@each_case("parts", [[b"all"], [b"a", b"l", b"l"], [b"", b"all"], [b"all", b""], [b"", b"", b""]])
def test_pieces_are_joined_in_order(parts: list[bytes]) -> None:
    assembly = Assembly()
    for part in parts[:-1]:
        assert feed(assembly, ONE, part, more=True) is Step.KEPT
        assert not assembly.idle
    assert feed(assembly, ONE, parts[-1], more=False) is Step.WHOLE
    assert assembly.idle
    assert assembly.release() == b"".join(parts)
    assert assembly.release() == b""


def test_one_sequence_follows_another() -> None:
    assembly = Assembly()
    for key, payload in ((ONE, b"one"), (ONE, b"once more"), (TWO, b"two")):
        assert feed(assembly, key, payload, more=True) is Step.KEPT
        assert feed(assembly, key, b"!", more=False) is Step.WHOLE
        assert assembly.release() == payload + b"!"


def test_what_was_given_out_does_not_change() -> None:
    assembly = Assembly()
    feed(assembly, ONE, b"one", more=True)
    feed(assembly, ONE, b"!", more=False)
    first = assembly.release()
    feed(assembly, ONE, b"two", more=True)
    assert first == b"one!"


@each_case("key", [TWO, (1, 5)])
def test_a_foreign_message_breaks_the_sequence(key: tuple[int, ...]) -> None:
    assembly = Assembly()
    feed(assembly, ONE, b"a", more=True)
    assert feed(assembly, key, b"x", more=False) is Step.FOREIGN
    assert not assembly.idle
    assert feed(assembly, ONE, b"b", more=True) is Step.DROPPED
    assert feed(assembly, ONE, b"c", more=True) is Step.DROPPED
    assert feed(assembly, ONE, b"d", more=False) is Step.DROPPED
    assert assembly.idle


def test_neither_of_two_sequences_that_are_mixed_goes_on() -> None:
    assembly = Assembly()
    feed(assembly, ONE, b"a", more=True)
    assert feed(assembly, TWO, b"x", more=True) is Step.FOREIGN
    assert feed(assembly, ONE, b"b", more=True) is Step.DROPPED
    assert feed(assembly, TWO, b"y", more=False) is Step.DROPPED
    assert feed(assembly, ONE, b"c", more=False) is Step.DROPPED
    assert assembly.idle
    assert feed(assembly, ONE, b"again", more=False) is Step.WHOLE


def test_other_messages_pass_while_a_broken_one_ends() -> None:
    assembly = Assembly()
    feed(assembly, ONE, b"a", more=True)
    feed(assembly, TWO, b"x", more=False)
    assert feed(assembly, TWO, b"y", more=True) is Step.KEPT
    assert feed(assembly, ONE, b"b", more=False) is Step.DROPPED
    assert feed(assembly, TWO, b"z", more=False) is Step.WHOLE
    assert assembly.release() == b"yz"


def test_no_more_than_two_sequences_are_dropped_at_a_time() -> None:
    assembly = Assembly()
    for xid in range(1, 100):
        feed(assembly, (xid,), b"a", more=True)
    held = [assembly.drop((xid,), more=True) for xid in range(1, 100)]
    assert sum(step is not None for step in held) == 2


@each_case("more", [False, True])
def test_a_refused_message_takes_its_own_sequence_with_it(more: bool) -> None:
    assembly = Assembly()
    feed(assembly, ONE, b"a", more=True)
    assembly.give_up(ONE, more=more)
    assert assembly.idle is not more
    if more:
        assert feed(assembly, ONE, b"b", more=False) is Step.DROPPED
    assert feed(assembly, ONE, b"new", more=False) is Step.WHOLE
    assert assembly.release() == b"new"


def test_a_refused_message_outside_of_sequences_changes_nothing() -> None:
    assembly = Assembly()
    assembly.give_up(ONE, more=False)
    assert assembly.idle
    feed(assembly, ONE, b"a", more=True)
    feed(assembly, TWO, b"x", more=False)
    assembly.give_up(THREE, more=False)
    assert feed(assembly, ONE, b"b", more=False) is Step.DROPPED


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


def test_a_sequence_that_is_given_up_holds_nothing() -> None:
    assembly = Assembly()
    feed(assembly, ONE, bytes(1000), more=True)
    feed(assembly, TWO, b"", more=False)
    assert len(assembly.release()) == 0
