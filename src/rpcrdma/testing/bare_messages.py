"""A bare peer that speaks version 2: it has told its properties, and sends an endpoint any message of that version."""

from __future__ import annotations

from typing import Any

from rpcrdma.testing import raw_messages as raw
from rpcrdma.testing.endpoint_pair import BarePeer
from rpcrdma.transport import Ready, Role, TransportConfig, offered

__all__ = ["BareMessages"]


class BareMessages(BarePeer):
    """One endpoint in version 2, and as its peer a queue pair that the test drives.

    The peer has told of `properties`, by default nothing but defaults, and has been told of the endpoint's:
    `introduced` is what the endpoint sent meanwhile. With `introduce=False` it has said nothing yet.
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
        self.introduced: list[raw.HeardMessage] = []
        if introduce:
            self.introduce(*properties, give=give)

    def introduce(self, *properties: tuple[int, bytes], give: int = 64) -> None:
        """Tells of properties, takes the endpoint's answer and its `Ready`; what was received until then is gone."""
        self.send(raw.properties(*properties, give=give))
        assert [type(event) for event in self.endpoint_events()] == [Ready]
        self.introduced = self.heard()

    def heard(self) -> list[raw.HeardMessage]:
        """What the endpoint has sent since the last time."""
        self.run()
        found = [raw.HeardMessage(octets) for octets in self.received]
        self.received.clear()
        self.invalidated.clear()
        return found
