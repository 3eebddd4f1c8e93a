"""The memory that the messages of one connection may hold, and its part in the bound of all connections."""

from __future__ import annotations

from rpcrdma.limits import CONNECTION_MESSAGE_OCTETS_MAX, RPC_UNCOUNTED_CALL_OCTETS
from rpcrdma.transport.message_memory import MessageMemory

KIB = 1 << 10


class Room:
    """Has `left` octets."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.asked = 0

    def take_in(self, octets: int) -> bool:
        self.asked += 1
        if octets > self.left:
            return False
        self.left -= octets
        return True

    def give_back(self, octets: int) -> None:
        self.asked += 1
        self.left += octets


def test_the_first_octets_of_a_connection_ask_for_no_room() -> None:
    room = Room(0)
    memory = MessageMemory(room)
    assert memory.hold(RPC_UNCOUNTED_CALL_OCTETS)
    memory.release(RPC_UNCOUNTED_CALL_OCTETS)
    assert room.asked == 0
    assert not memory.hold(RPC_UNCOUNTED_CALL_OCTETS + 1)
    # A refused message holds nothing.
    assert memory.hold(RPC_UNCOUNTED_CALL_OCTETS)
    assert not memory.hold_piece(1)


def test_calls_and_pieces_hold_room_until_they_are_gone() -> None:
    room = Room(200 * KIB)
    memory = MessageMemory(room)
    assert memory.hold(100 * KIB)
    assert room.left == 164 * KIB
    for _ in range(4):
        assert memory.hold_piece(40 * KIB)
    assert room.left == 4 * KIB
    assert not memory.hold_piece(5 * KIB)
    memory.release(100 * KIB)
    assert room.left == 104 * KIB
    memory.release_pieces()
    memory.release_pieces()
    assert room.left == 200 * KIB


def test_a_connection_has_a_bound_of_its_own() -> None:
    memory = MessageMemory()
    assert memory.hold(CONNECTION_MESSAGE_OCTETS_MAX - 1)
    assert memory.hold_piece(1)
    assert not memory.hold(1)
    memory.release_pieces()
    assert memory.hold(1)
