"""The exchange of MPA start-up frames at one end: the octets of the peer's frame, and the terms of both frames."""

from __future__ import annotations

from rpcrdma.iwarp.config import IwarpConfig, MpaRole
from rpcrdma.iwarp.startup import (
    HEADER_OCTETS,
    PRIVATE_DATA_OCTETS_MAX,
    FrameKind,
    MpaAgreement,
    StartupFrame,
    ask,
    decode_startup_frame,
    size_startup_frame,
)

__all__ = ["StartupExchange"]


class StartupExchange:
    """The peer's start-up frame while it arrives, and what both frames say.

    `request` is the Request, None at a responder until it has arrived. `peer_data` is the private data of the peer's
    frame. `agreement` is None until both frames are known.
    """

    __slots__ = ("_filled", "_kind", "_octets", "agreement", "peer_data", "request")

    def __init__(self, role: MpaRole, config: IwarpConfig, private_data: bytes) -> None:
        initiates = role is MpaRole.INITIATOR
        self._kind = FrameKind.REPLY if initiates else FrameKind.REQUEST
        # One octet more than the longest frame, so that an octet behind it is noticed.
        self._octets = bytearray(HEADER_OCTETS + PRIVATE_DATA_OCTETS_MAX + 1)
        self._filled = 0
        self.request: StartupFrame | None = ask(config, private_data) if initiates else None
        self.peer_data = b""
        self.agreement: MpaAgreement | None = None

    def next_buffer(self) -> memoryview:
        """Returns the memory for the next octets."""
        return memoryview(self._octets)[self._filled :]

    def received(self, octets: int) -> StartupFrame | None:
        """Returns the peer's frame if it is whole with `octets` more, which fill the memory of `next_buffer`.

        Raises:
            RemoteProtocolError: it is malformed, or of the wrong kind.
        """
        self._filled += octets
        data = memoryview(self._octets)[: self._filled]
        if len(data) < size_startup_frame(self._kind, data):
            return None
        frame = decode_startup_frame(self._kind, data)
        self._filled = 0
        self.peer_data = frame.private_data
        return frame

    def release(self) -> None:
        """Drops the memory that only the start-up needs: a server has thousands of connections."""
        self._octets = bytearray()
        self.request = self.agreement = None
