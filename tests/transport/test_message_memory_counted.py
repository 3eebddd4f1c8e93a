"""The octets that messages hold, step by step against plain sums: of a connection, and of the room for all of them."""

from __future__ import annotations

import random

from rpcrdma.limits import CONNECTION_MESSAGE_OCTETS_MAX, RPC_UNCOUNTED_CALL_OCTETS
from rpcrdma.transport.message_memory import MessageMemory
from support.cases import each_case


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
    pieces = group = 0
    for _ in range(80):
        octets = draw.choice(SIZES)
        held = sum(calls) + pieces + group
        after = held + octets
        fits = after <= CONNECTION_MESSAGE_OCTETS_MAX
        if size is not None:
            fits = fits and after <= RPC_UNCOUNTED_CALL_OCTETS + size
        match draw.choice(["call", "call", "piece", "group", "answered", "whole", "ended"]):
            case "call":
                assert memory.hold(octets) is fits
                calls += [octets] * fits
            case "piece":
                assert memory.hold_piece(octets) is fits
                pieces += octets * fits
            case "group":
                assert memory.hold_group(octets) is fits
                group += octets * fits
            case "answered":
                if calls:
                    memory.release(calls.pop(draw.randrange(len(calls))))
            case "whole":
                memory.release_pieces()
                pieces = 0
            case "ended":
                memory.release_group()
                group = 0
        if room is not None and size is not None:
            held = sum(calls) + pieces + group
            assert size - room.left == max(0, held - RPC_UNCOUNTED_CALL_OCTETS)
            assert all(asked > 0 for asked in room.asked)
    memory.release_pieces()
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
