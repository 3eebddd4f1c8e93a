"""The points at which faults enter a simulated fabric: messages in flight, and the registration of memory."""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol

__all__ = ["DELIVERED", "Delivery", "Faults", "Message", "MessageKind"]


class MessageKind(enum.Enum):
    """The kinds of messages that the two ends of a simulated connection send."""

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
    """A message of a simulated connection that is about to leave a node, as `Faults.on_message` gets it.

    Args:
        connection: the number of the connection.
        number: the message's number in its connection and direction, from 0.
        sender: the name of the node that sends it.
        receiver: the name of the node that receives it.
        kind: its kind.
        data: its octets; empty for a READ_REQUEST.
    """

    connection: int
    number: int
    sender: str
    receiver: str
    kind: MessageKind
    data: bytes


class Delivery(NamedTuple):
    """The fate of a message, which `Faults.on_message` returns.

    Args:
        delay_s: seconds added to the distance; later messages do not overtake it.
        cut_at: octets of the data after which the connection breaks: these are in place, and nothing that leaves later
            arrives in either direction. None: the message arrives whole.
        silent: whether the ends are not notified of the break: each gives up only after a message of its own was not
            acknowledged for `FabricModel.lost_after_s`. No effect without `cut_at`.
    """

    delay_s: float = 0.0
    cut_at: int | None = None
    silent: bool = False


DELIVERED = Delivery()
"""The fate of a message without a fault."""


class Faults(Protocol):
    """Decides which faults a simulated fabric has; a test implements it, the fabric calls it in the order of events."""

    def on_message(self, message: Message) -> Delivery:
        """Returns the delay or break that befalls a message about to leave its node; `DELIVERED` if it has no fault."""

    def on_register(self, node: str, octets: int) -> float:
        """Returns the seconds by which a registration of `octets` octets by the node named `node` takes longer.

        Raises:
            LocalProtocolError: the registration is to fail, as if too many regions existed.
        """
