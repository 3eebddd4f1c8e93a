"""Replies that are held for a second try: against a plain list of them."""

from __future__ import annotations

import random
from typing import Any

from rpcrdma.rpc.reply_cache import RefusedReplies
from rpcrdma.xdr.codec import Payload
from support.cases import each_case


class Clients(dict[str, Any]):
    """Of which the fullest may be looked for 1000 times."""

    looks = 0

    def items(self) -> Any:
        self.looks += 1
        assert self.looks <= 1000, "the fullest client loses nothing"
        return super().items()


class Model:
    """The same as a list, oldest first."""

    def __init__(self, octets_max: int) -> None:
        self.octets_max = octets_max
        self.held: list[tuple[str, int, Payload]] = []

    def octets(self, address: str | None = None) -> int:
        return sum(reply.length for name, _, reply in self.held if address in {None, name})

    def drop(self, address: str, key: int) -> None:
        self.held = [each for each in self.held if each[:2] != (address, key)]

    def hold(self, address: str, key: int, reply: Payload) -> set[str]:
        """The clients of which one had to lose its oldest; empty if none had."""
        self.drop(address, key)
        if reply.length > self.octets_max:
            return set()
        self.held.append((address, key, reply))
        names = dict.fromkeys(name for name, _, _ in self.held)
        while self.octets() > self.octets_max:
            holds = {name: self.octets(name) - (reply.length if name == address else 0) for name in names}
            fullest = max(holds.values())
            candidates = {name for name in names if holds[name] == fullest}
            if len(candidates) > 1:
                return candidates
            (name,) = candidates
            self.drop(name, next(key for each, key, _ in self.held if each == name))
        return set()


@each_case("seed", range(15))
def test_the_fullest_client_loses_its_oldest_reply(seed: int) -> None:
    draw = random.Random(seed)
    octets_max = draw.choice([20, 50, 100])
    replies: RefusedReplies[int] = RefusedReplies(octets_max)
    replies._clients = Clients()
    model = Model(octets_max)
    for step in range(120):
        address, key = draw.choice("abc"), draw.randrange(5)
        if draw.random() < 0.7:
            # Lengths that are powers of two apart make equal clients rare; where they are equal either may lose.
            reply = Payload(bytes(draw.choice([3, 7, 13, 29, octets_max, octets_max + 1])))
            replies.hold(address, key, reply)
            if model.hold(address, key, reply):
                return
        else:
            replies.drop(address, key)
            model.drop(address, key)
        assert replies.octets == model.octets() <= octets_max, step
        held = {(name, key): reply for name, key, reply in model.held}
        for name in "abc":
            assert [replies.find(name, key) for key in range(5)] == [held.get((name, key)) for key in range(5)], step
        assert set(replies._clients) == {name for name, _, _ in model.held}


@each_case(
    "names", [[f"2001:db8::{number}" for number in range(5)], [f"192.0.2.7 user{number}@R" for number in range(5)]]
)
def test_many_addresses_of_a_network_or_principals_of_an_address_cost_no_other_its_reply(names: list[str]) -> None:
    replies: RefusedReplies[int] = RefusedReplies(5)
    replies.hold("192.0.2.1", 0, Payload(bytes(2)))
    for key, name in enumerate(names):
        replies.hold(name, key, Payload(bytes(1)))
    assert replies.find("192.0.2.1", 0) is not None
    assert [replies.find(name, key) is not None for key, name in enumerate(names)] == [False, False, True, True, True]
