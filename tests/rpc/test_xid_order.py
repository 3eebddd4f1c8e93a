"""Transaction identifiers against a plain search for the next free number."""

from __future__ import annotations

import random

from rpcrdma.rpc.calling import XidSource
from support.cases import each_case


class Out(dict[int, None]):
    """Identifiers that are out, among which the next free one is found soon."""

    looks = 0

    def __contains__(self, xid: object) -> bool:
        self.looks += 1
        assert self.looks <= 50_000, "no free identifier is found"
        return super().__contains__(xid)


@each_case("first", [0, 1, 5, 0x7FFFFFFF, 0xFFFFFFF0, 0xFFFFFFFE, 0xFFFFFFFF, 0x1_0000_0003, -2])
def test_each_identifier_is_the_next_that_is_free(first: int) -> None:
    draw = random.Random(first)
    xids = XidSource(first)
    xids.taken = Out()
    out: list[int] = []
    following = first % (1 << 32)
    for _ in range(200):
        while following in out:
            following = (following + 1) % (1 << 32)
        assert xids.take() == following
        out.append(following)
        following = (following + 1) % (1 << 32)
        if draw.random() < 0.4:
            back = out.pop(draw.randrange(len(out)))
            xids.taken.pop(back, None)
            xids.taken.pop(back, None)
        if draw.random() < 0.2 and out:
            # After a round through all numbers the source comes to calls that are still out.
            xids._next = following = out[0]
