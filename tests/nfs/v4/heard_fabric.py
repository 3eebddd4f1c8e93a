"""A simulated fabric whose messages are noted, and taken apart by a codec that shares nothing with the library's."""

from __future__ import annotations

from typing import Any

from rpcrdma.testing.virtual import DELIVERED, PROFILES, Delivery, Fabric, Message, MessageKind
from rpcrdma_lab.scripted import read_message

__all__ = ["CALL", "MSG", "NOMSG", "REPLY", "HeardFabric"]

MSG, NOMSG = 0, 1
"""Header types of version 1 of RPC-over-RDMA."""
CALL, REPLY = 0, 1
"""Directions of RPC."""


class HeardFabric(Fabric):
    """A campus on which no fault happens but the delay of a message."""

    def __init__(self) -> None:
        super().__init__(PROFILES["campus"], faults=self)
        self.sent: list[tuple[float, Message]] = []
        """The messages, each with the time at which it leaves."""
        self.delay_s = 0.0
        """Seconds by which the next Send arrives late."""

    def on_message(self, message: Message) -> Delivery:
        self.sent.append((self.loop.now_s, message))
        if message.kind is not MessageKind.SEND or not self.delay_s:
            return DELIVERED
        delay_s, self.delay_s = self.delay_s, 0.0
        return Delivery(delay_s=delay_s)

    def on_register(self, _node: str, _octets: int) -> float:
        return 0.0

    @property
    def connected(self) -> list[tuple[str, str]]:
        """Who has connected to whom, in order."""
        return [(each.sender, each.receiver) for _, each in self.sent if each.kind is MessageKind.CONNECT]

    def heard(self, sender: str, receiver: str) -> list[dict[str, Any]]:
        """The messages of version 1 from one node to another, as `read_message` takes them apart, with "at_s"."""
        return [
            {**read_message("1", each.data), "at_s": at_s}
            for at_s, each in self.sent
            if (each.kind, each.sender, each.receiver) == (MessageKind.SEND, sender, receiver)
        ]
