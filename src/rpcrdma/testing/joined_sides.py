"""Two joined queue pairs with their protection domains, as the checks of the suite of providers use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rpcrdma.testing.pair_under_test import Deviations, MakePair
from rpcrdma.verbs.protection_domain import ProtectionDomain
from rpcrdma.verbs.queue_pair import (
    Completion,
    ConnectRequested,
    Disconnected,
    Established,
    QueuePair,
    QueuePairEvent,
    Status,
    Verb,
)

__all__ = [
    "Side",
    "connected",
    "ended",
    "establish",
    "expect_alive",
    "expect_broken",
    "expect_private_data",
    "pattern",
    "sides",
]

_RECEIVE_OCTETS = 4096


class Side(NamedTuple):
    """One queue pair of a pair under test, with its protection domain.

    `progress` moves data in both directions until neither side has more to send. `deviations` has the rules of the
    suite that the provider of the pair cannot keep.
    """

    qp: QueuePair
    pd: ProtectionDomain
    progress: Callable[[], object]
    deviations: Deviations

    def events(self) -> list[QueuePairEvent]:
        return [self.qp.events.pop(0) for _ in range(len(self.qp.events))]

    def completions(self) -> list[Completion]:
        return [self.qp.completions.popleft() for _ in range(len(self.qp.completions))]

    def receive(self, wr: object, octets: int = _RECEIVE_OCTETS) -> memoryview:
        buffer = memoryview(bytearray(octets))
        self.qp.post_receive(wr, buffer)
        return buffer


def sides(make_pair: MakePair, **options: Any) -> tuple[Side, Side]:
    """Makes two joined queue pairs, each with its protection domain, by `make_pair`; they are not connected yet.

    `options` are passed to `make_pair`: `private_data`, the active side's octets for the passive side; `inbound_reads`
    and `outbound_reads`, the most RDMA Reads, each a pair (active, passive). Returns the active side, which connects,
    and the passive side.
    """
    qp_a, pd_a, qp_b, pd_b, progress, deviations = make_pair(**options)
    return Side(qp_a, pd_a, progress, deviations), Side(qp_b, pd_b, progress, deviations)


def establish(a: Side, b: Side) -> tuple[Established, Established]:
    """Connects the active side `a` and the passive side `b`; returns the event `Established` of `a`, then of `b`.

    Other events fail an assertion. Where the passive side does not know yet that it is connected, both results are the
    event of the active side.
    """
    a.progress()
    requests = b.events()
    assert [type(event) for event in requests] == [ConnectRequested], f"on the passive side: {requests}"
    b.qp.accept(b"")
    a.progress()
    both = a.events(), b.events()
    assert len(both[0]) == 1, f"on the active side after accept: {both[0]}"
    assert isinstance(both[0][0], Established), f"on the active side after accept: {both[0]}"
    if not both[1]:
        # A provider may know it only once the initiator has sent something (RFC 6581 section 9).
        return both[0][0], both[0][0]
    assert len(both[1]) == 1, f"on the passive side after accept: {both[1]}"
    assert isinstance(both[1][0], Established), f"on the passive side after accept: {both[1]}"
    return both[0][0], both[1][0]


def connected(make_pair: MakePair, **options: Any) -> tuple[Side, Side]:
    """Makes a pair, connects it, and sends a first message from the active side; returns active and passive side.

    `options` are passed to `make_pair`: `private_data`, the active side's octets for the passive side; `inbound_reads`
    and `outbound_reads`, the most RDMA Reads, each a pair (active, passive). Completions and events of the connecting
    and of the message are removed already.
    """
    a, b = sides(make_pair, **options)
    establish(a, b)
    # One message from the initiator makes the connection whole on every provider.
    buffer = b.receive("first")
    a.qp.post_send("first", [b"hello"])
    a.progress()
    assert ended(b.completions(), Verb.RECEIVE) == [("first", Status.SUCCESS, 5)]
    assert bytes(buffer[:5]) == b"hello"
    a.completions()
    a.events()
    b.events()
    return a, b


def ended(completions: Sequence[Completion], verb: Verb) -> list[tuple[object, Status, int]]:
    """Returns (identifier `wr`, status, length in octets) of each completion of `verb`, in their order."""
    return [(c.wr, c.status, c.length) for c in completions if c.verb is verb]


def pattern(length: int) -> bytes:
    """Returns `length` octets with a period of 251, so that a shift by a power of two shows."""
    return bytes(range(251)) * (length // 251) + bytes(range(length % 251))


def expect_broken(a: Side, b: Side, what: str, *, blind: Side | None = None) -> None:
    """Moves data, and asserts that each side reports the end of the connection once, as a protocol error.

    If the provider `tells_of_no_fault`, it is enough that one side reports the end, with or without protocol error.

    Args:
        a: the active side.
        b: the passive side.
        what: the case in words, for the messages of failures.
        blind: the side that may see no protocol error if its provider `hides_faults`; None: neither may.
    """
    a.progress()
    told = {side: [event for event in side.events() if isinstance(event, Disconnected)] for side in (a, b)}
    if a.deviations.tells_of_no_fault:
        counts = sorted(len(ends) for ends in told.values())
        assert counts in ([0, 1], [1, 1]), f"{what}: the sides were told {counts} times that the connection ended"
        return
    for name, side in (("active", a), ("passive", b)):
        ends = told[side]
        assert len(ends) == 1, f"{what}: the {name} side was told {len(ends)} times that the connection ended"
        if not (side is blind and side.deviations.hides_faults):
            assert ends[0].protocol_error, f"{what}: the {name} side was told of no protocol error: {ends[0]}"


def expect_alive(a: Side, b: Side) -> None:
    """Asserts that the connection still works: a message arrives in each direction, without events of either side."""
    for here, there in ((a, b), (b, a)):
        there.receive("alive")
        here.qp.post_send("alive", [b"alive"])
        here.progress()
        assert ("alive", Status.SUCCESS, 5) in ended(there.completions(), Verb.RECEIVE), "the connection is not alive"
        here.completions()
        assert not here.events(), "an unexpected event on the sending side"
        assert not there.events(), "an unexpected event on the receiving side"


def expect_private_data(side: Side, received: bytes, given: bytes) -> None:
    """Asserts that `received` is the private data `given`; zeros may follow if the side's provider pads it."""
    if side.deviations.pads_private_data:
        received = received.rstrip(b"\0")
    assert received == given, f"the private data {given!r} arrived as {received!r}"
