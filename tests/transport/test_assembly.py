"""Messages in pieces: joined in order, within bounds, and never mixed with another."""

from __future__ import annotations

from rpcrdma import limits
from rpcrdma.transport.assembly import Assembly, Step

ONE, TWO, THREE = (1, 0), (2, 0), (3, 0)


def feed(assembly: Assembly, key: tuple[int, ...], payload: bytes, *, more: bool) -> Step:
    """As a dialect does."""
    return assembly.drop(key, more=more) or assembly.take(key, payload, more=more)


def test_what_was_given_out_does_not_change() -> None:
    assembly = Assembly()
    feed(assembly, ONE, b"one", more=True)
    feed(assembly, ONE, b"!", more=False)
    first = assembly.release()
    feed(assembly, ONE, b"two", more=True)
    assert first == b"one!"


def test_no_more_than_two_sequences_are_dropped_at_a_time() -> None:
    assembly = Assembly()
    for xid in range(1, 100):
        feed(assembly, (xid,), b"a", more=True)
    held = [assembly.drop((xid,), more=True) for xid in range(1, 100)]
    assert sum(step is not None for step in held) == 2


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
