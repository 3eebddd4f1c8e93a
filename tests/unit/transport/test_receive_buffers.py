"""What becomes of the memory in which messages arrive."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rpcrdma.transport.receive_buffers import ReceiveBuffers
from rpcrdma.verbs.queue_pair import Completion, QueuePair, Status, Verb
from rpcrdma.verbs.receive_pool import ReceivePool

BUFFER_OCTETS = 36864


class Receives:
    """A queue pair of which only receives are looked at."""

    def post_receives(self, count: int, pool: ReceivePool) -> None:
        """Memory is taken when a message arrives."""


@pytest.mark.parametrize(("octets", "serves_again"), [(100, True), (4097, True), (16384, True), (16385, False)])
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
