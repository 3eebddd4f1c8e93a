"""A bare peer that speaks version 2: it has told its properties, and sends an endpoint any message of that version."""

from __future__ import annotations

from typing import Any

from rpcrdma.testing.endpoint_pair import BarePeer
from rpcrdma.transport import Ready, Role, TransportConfig, offered
from support import raw_messages

__all__ = ["BareMessages"]


class BareMessages(BarePeer):
    """One endpoint in version 2, and as its peer a queue pair that the test drives.

    The peer has announced `properties`, by default those with default values, and has received the endpoint's:
    `introduced` are the messages that the endpoint sent meanwhile. With `introduce=False` the peer has sent no message.

    The messages for `send` and `post` have a number of credits that they give.
    """

    def __init__(
        self,
        role: Role,
        config: TransportConfig | None = None,
        *properties: tuple[int, bytes],
        give: int = 64,
        introduce: bool = True,
        versions: str = "2",
        **options: Any,
    ) -> None:
        super().__init__(role, config, dialects=offered(versions), ready=False, **options)
        self.introduced: list[raw_messages.HeardMessage] = []
        if introduce:
            self.introduce(*properties, give=give)

    def introduce(self, *properties: tuple[int, bytes], give: int = 64) -> None:
        """Announces properties, takes the endpoint's answer and its `Ready`, and clears `received`."""
        self.send(raw_messages.properties(*properties, give=give))
        assert [type(event) for event in self.endpoint_events()] == [Ready]
        self.introduced = self.heard()

    def post(self, octets: bytes) -> None:
        """Sends one message without having the endpoint look at it yet."""
        self.qp.post_send("send", [octets], signaled=False)

    def heard(self) -> list[raw_messages.HeardMessage]:
        """The messages that the endpoint has sent since the last call."""
        self.run()
        found = [raw_messages.heard(octets) for octets in self.received]
        self.received.clear()
        self.invalidated.clear()
        return found
