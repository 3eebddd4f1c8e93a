"""The points at which faults enter a simulated fabric: messages on their way, and the registration of memory."""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol

__all__ = ["DELIVERED", "Delivery", "Faults", "Message", "MessageKind"]


class MessageKind(enum.Enum):
    """The messages of a connection."""

    CONNECT = "connect"
    ACCEPT = "accept"
    READY = "ready"
    """The end that connects has heard of the acceptance."""
    SEND = "send"
    WRITE = "rdma-write"
    READ_REQUEST = "read-request"
    READ_RESPONSE = "read-response"
    END = "end"
    """The sender has ended the connection."""


class Message(NamedTuple):
    """A message that is about to leave a node: `number` counts those of its connection in its direction from 0."""

    connection: int
    number: int
    sender: str
    receiver: str
    kind: MessageKind
    data: bytes


class Delivery(NamedTuple):
    """The fate of a message: it takes `delay_s` more than the distance; later messages do not overtake it.

    With `cut_at` the connection breaks after so many octets of the data: they are in place, and nothing else arrives in
    either direction. Both ends are told, unless `silent`: then each end gives up once a message that it has sent was
    not acknowledged for `FabricModel.lost_after_s`.
    """

    delay_s: float = 0.0
    cut_at: int | None = None
    silent: bool = False


DELIVERED = Delivery()


class Faults(Protocol):
    """Decides about faults, in the order of the events that it is asked about."""

    def on_message(self, message: Message) -> Delivery:
        """The fate of a message; `DELIVERED` for most."""

    def on_register(self, node: str, octets: int) -> float:
        """The seconds that the registration of a region takes in addition to its usual cost.

        Raises:
            LocalProtocolError: the registration fails, as where too many regions exist.
        """
