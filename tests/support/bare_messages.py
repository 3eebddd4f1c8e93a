"""A bare peer that speaks version 2: it has told its properties, and sends an endpoint any message of that version."""

from __future__ import annotations

from typing import Any, Protocol

from rpcrdma.testing.endpoint_pair import BarePeer
from rpcrdma.transport import Ready, Role, TransportConfig, offered
from rpcrdma.wire.buffers import Buffer
from support import raw_messages

__all__ = ["BareMessages", "RawCredits", "RawDraft"]


class RawCredits(Protocol):
    """See `raw_messages.Credits`."""

    def sent(self, octets: bytes, /) -> bytes: ...

    def arrived(self, message: raw_messages.HeardMessage, /) -> None: ...


class RawDraft(Protocol):
    """The interface of a draft: `raw_messages` and `raw_messages_07` implement it."""

    @property
    def NAME(self) -> str: ...  # noqa: N802 - the name of a constant there

    @property
    def Credits(self) -> type[RawCredits]: ...  # noqa: N802 - the name of a class there

    def heard(self, data: bytes) -> raw_messages.HeardMessage: ...

    def properties(self, *pairs: tuple[int, bytes], give: int) -> bytes: ...

    def message(self, xid: int, payload: bytes, flags: int = 0) -> bytes: ...


class BareMessages(BarePeer):
    """One endpoint in version 2, and as its peer a queue pair that the test drives.

    The peer has announced `properties`, by default those with default values, and has received the endpoint's:
    `introduced` are the messages that the endpoint sent meanwhile. With `introduce=False` the peer has sent no message.

    In both drafts the messages for `send` and `post` have a number of credits that they give, and `heard` messages the
    number that they gave. The peer makes and reads the credit words of its draft, `raw`.
    """

    def __init__(
        self,
        role: Role,
        config: TransportConfig | None = None,
        *properties: tuple[int, bytes],
        give: int = 64,
        introduce: bool = True,
        raw: RawDraft = raw_messages,
        versions: str = "",
        **options: Any,
    ) -> None:
        self.raw = raw
        self._credits = raw.Credits()
        super().__init__(role, config, dialects=offered(versions or raw.NAME), ready=False, **options)
        self.introduced: list[raw_messages.HeardMessage] = []
        if introduce:
            self.introduce(*properties, give=give)

    def introduce(self, *properties: tuple[int, bytes], give: int = 64) -> None:
        """Announces properties, takes the endpoint's answer and its `Ready`, and clears `received`."""
        self.send(self.raw.properties(*properties, give=give))
        assert [type(event) for event in self.endpoint_events()] == [Ready]
        self.introduced = self.heard()

    def send(self, *gather: Buffer, invalidate: int | None = None) -> list[bytes]:
        """Sends one message, with its credits, and returns the endpoint's immediate answers."""
        return super().send(self._credits.sent(b"".join(gather)), invalidate=invalidate)

    def post(self, octets: bytes) -> None:
        """Sends one message, with its credits, without having the endpoint look at it yet."""
        self.qp.post_send("send", [self._credits.sent(octets)], signaled=False)

    def heard(self) -> list[raw_messages.HeardMessage]:
        """The messages that the endpoint has sent since the last call."""
        self.run()
        found = [self.raw.heard(octets) for octets in self.received]
        for each in found:
            self._credits.arrived(each)
        self.received.clear()
        self.invalidated.clear()
        return found
