"""Receives, and the memory in which messages arrive."""

from __future__ import annotations

import struct
from typing import Any, cast

from rpcrdma.transport.receive_buffers import ReceiveBuffers
from rpcrdma.verbs.queue_pair import Completion, QueuePair, Status, Verb
from rpcrdma.verbs.receive_pool import ReceiveBuffer, ReceivePool, ReceiveSource, ScatteredBuffer
from support.cases import each_case

BUFFER_OCTETS = 36864


class Receives:
    """A queue pair of which only receives are looked at."""

    def post_receives(self, count: int, pool: ReceivePool) -> None:
        """Memory is taken when a message arrives."""


@each_case(("octets", "serves_again"), [(100, True), (4097, True), (16384, True), (16385, False)])
def test_messages_that_fill_less_than_half_of_a_buffer_leave_it_to_the_next_one(
    octets: int, serves_again: bool
) -> None:
    pool = ReceivePool(BUFFER_OCTETS)
    receives = ReceiveBuffers(cast("QueuePair", Receives()), pool)
    buffer = pool.take()
    buffer[:octets] = bytes([7]) * octets
    arrived: Any = Completion(buffer, Verb.RECEIVE, Status.SUCCESS, octets)
    message = receives.take(arrived)
    assert (pool.take() is buffer) == serves_again
    buffer[:octets] = bytes(octets)
    assert message == bytes([7 if serves_again else 0]) * octets


class CountedReceives:
    """A queue pair that remembers how many receives were posted at each time."""

    def __init__(self) -> None:
        self.posted: list[int] = []

    def post_receives(self, count: int, pool: object) -> None:
        assert pool is not None
        self.posted.append(count)


class Scattering:
    """Memory of which buffers are in parts of 16 octets; messages of up to 32 octets come in whole ones."""

    octets = 64
    short_octets = 64
    plain_octets = 32
    scattered = frozenset({(2, 64)})

    def __init__(self) -> None:
        self.given_back: list[ReceiveBuffer] = []

    def take(self) -> memoryview:
        return memoryview(bytearray(64))

    def draw(self) -> ScatteredBuffer:
        return self.divide(self.take(), 1)[0]

    def divide(self, memory: memoryview, count: int) -> list[ScatteredBuffer]:
        assert count == 1
        return [ScatteredBuffer([memory[start : start + 16] for start in range(0, 64, 16)])]

    def give_back(self, buffer: ReceiveBuffer) -> None:
        self.given_back.append(buffer)


def arrival(buffer: ReceiveBuffer, octets: int) -> Any:
    return Completion(buffer, Verb.RECEIVE, Status.SUCCESS, octets)


def header(version: int, header_type: int) -> bytes:
    return struct.pack(">IIII", 1, version, 3, header_type)


KEPT = header(2, 64) + bytes(range(48))
OTHER = header(2, 65) + bytes(range(48))


def scattering() -> tuple[ReceiveBuffers, Scattering, CountedReceives]:
    pool, qp = Scattering(), CountedReceives()
    receives = ReceiveBuffers(cast("QueuePair", qp), cast("ReceiveSource", pool))
    return receives, pool, qp


def test_eight_receives_more_than_are_wanted_are_posted() -> None:
    receives, _, qp = scattering()
    posted = []
    for step in (lambda: receives.post(10), receives.replace, lambda: receives.post(13)):
        step()
        posted.append((receives.posted, receives.octets))
    assert (posted, qp.posted) == ([(10, 18 * 64), (10, 18 * 64), (13, 21 * 64)], [18, 8, 3])


@each_case(("octets", "kept"), [(32, False), (33, True), (64, True)])
def test_a_message_of_a_kept_type_is_kept_where_it_is_longer_than_plain_ones(octets: int, kept: bool) -> None:
    receives, pool, _ = scattering()
    buffer = pool.take()
    buffer[:] = KEPT
    assert receives.take(arrival(buffer, octets)) == KEPT[: 16 if kept else octets]
    assert (receives.arrived is not None, len(pool.given_back)) == (kept, not kept)
    receives.close()
    receives.close()
    assert (receives.arrived, len(pool.given_back)) == (None, 1)


def test_a_message_that_came_as_octets_is_divided_where_its_type_is_kept() -> None:
    receives, pool, _ = scattering()
    assert receives.take(Completion(OTHER, Verb.RECEIVE, Status.SUCCESS, 64)) is OTHER
    assert receives.arrived is None
    assert receives.take(Completion(KEPT, Verb.RECEIVE, Status.SUCCESS, 64)) == KEPT[:16]
    assert receives.arrived is not None
    buffer, length = receives.arrived
    assert (length, buffer.joined(64), pool.given_back) == (64, KEPT, [])


def test_a_kept_message_in_pieces_shows_its_start_and_no_more() -> None:
    receives, pool, _ = scattering()
    for octets, shown, kept in ((15, 15, False), (16, 16, True), (17, 16, True), (64, 16, True)):
        pool.given_back.clear()
        scattered = pool.draw()
        scattered.write(0, KEPT)
        assert receives.take(arrival(scattered, octets)) == KEPT[:shown]
        assert receives.arrived == ((scattered, octets) if kept else None)
        assert pool.given_back == ([] if kept else [scattered])
        receives.close()


def test_a_message_that_is_not_looked_at_gives_its_memory_back() -> None:
    receives, pool, qp = scattering()
    buffer, scattered = pool.take(), pool.draw()
    receives.give_back(arrival(buffer, 10))
    receives.give_back(arrival(scattered, 10))
    assert len(pool.given_back) == 2
    assert pool.given_back[0] is buffer
    assert pool.given_back[1] is scattered
    receives.give_back(Completion(bytes(10), Verb.RECEIVE, Status.SUCCESS, 10))
    assert len(pool.given_back) == 2
    assert qp.posted == []
