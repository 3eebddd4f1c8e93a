"""The points at which faults enter a simulated fabric: messages in flight, and the registration of memory."""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol

__all__ = ["DELIVERED", "Delivery", "Faults", "Message", "MessageKind"]


class MessageKind(enum.Enum):
    """The kinds of messages of a connection."""

    CONNECT = "connect"
    ACCEPT = "accept"
    READY = "ready"
    """The connecting end has received the acceptance."""
    SEND = "send"
    WRITE = "rdma-write"
    READ_REQUEST = "read-request"
    READ_RESPONSE = "read-response"
    END = "end"
    """The sender has ended the connection."""


class Message(NamedTuple):
    """A message that is about to leave a node.

    Args:
        connection: the number of the connection.
        number: the message's number in its connection and direction, from 0.
        sender: the name of the node that sends it.
        receiver: the name of the node that receives it.
        kind: its kind.
        data: its octets.
    """

    connection: int
    number: int
    sender: str
    receiver: str
    kind: MessageKind
    data: bytes


class Delivery(NamedTuple):
    """The fate of a message.

    With `silent` each end gives up only after a message of its own was not acknowledged for `FabricModel.lost_after_s`.

    Args:
        delay_s: seconds added to the distance; later messages do not overtake it.
        cut_at: octets of the data after which the connection breaks: these are in place, and nothing else arrives in
            either direction. None: the message arrives whole.
        silent: whether the ends are not notified of the break.
    """

    delay_s: float = 0.0
    cut_at: int | None = None
    silent: bool = False


DELIVERED = Delivery()
"""The fate of a message without a fault."""


class Faults(Protocol):
    """Decides about faults, in the order of events."""

    def on_message(self, message: Message) -> Delivery:
        """Returns the fate of a message; `DELIVERED` for most."""

    def on_register(self, node: str, octets: int) -> float:
        """Returns the seconds that the registration of a region takes in addition to its usual cost.

        Raises:
            LocalProtocolError: the registration fails, as if too many regions existed.
        """
