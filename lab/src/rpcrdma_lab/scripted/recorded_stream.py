"""TCP connections whose octets of both directions are recorded in a packet capture, including malformed frames."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, TypeAlias

from rpcrdma import PacketCapture

__all__ = ["open_recorded", "serve_recorded"]

Accepted: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


async def open_recorded(
    host: str, port: int, capture: PacketCapture | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to a server as `asyncio.open_connection` does, and returns the stream's reader and writer.

    The octets of both directions are recorded in `capture` until the connection is lost; None records nothing.

    Raises:
        OSError: the server cannot be reached.
    """
    try:
        if capture is None:
            return await asyncio.open_connection(host, port)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = _RecordedProtocol(reader, capture)
        transport, _ = await loop.create_connection(lambda: protocol, host, port)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from None
    return reader, _RecordedWriter(transport, protocol, reader)


async def serve_recorded(accepted: Accepted, host: str, port: int, capture: PacketCapture | None) -> asyncio.Server:
    """Listens as `asyncio.start_server` does, and returns the server.

    Args:
        accepted: is called by the event loop with the reader and the writer of each new connection.
        host: the address to listen on.
        port: the TCP port; 0 chooses one.
        capture: records each connection until it is lost; None records nothing.

    Raises:
        OSError: the address cannot be used.
    """
    if capture is None:
        return await asyncio.start_server(accepted, host, port)
    loop = asyncio.get_running_loop()
    return await loop.create_server(
        lambda: _RecordedProtocol(asyncio.StreamReader(loop=loop), capture, accepted), host, port
    )


class _RecordedProtocol(asyncio.StreamReaderProtocol):
    """A stream protocol that records the received octets, and the end of the connection, in a packet capture.

    `accepted` is called with the reader and writer when the connection is made; None: this end has connected.
    """

    def __init__(self, reader: asyncio.StreamReader, capture: PacketCapture, accepted: Accepted | None = None) -> None:
        super().__init__(reader)
        self._capture = capture
        self._accepted = accepted
        self._reader = reader
        self.stream: Any = None
        """The capture's record of the connection; None until the connection is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        local, remote = (transport.get_extra_info(name)[:2] for name in ("sockname", "peername"))
        self.stream = self._capture.stream(local, remote, active=self._accepted is None, deliberate=True)
        super().connection_made(transport)
        if self._accepted is not None:
            self._accepted(self._reader, _RecordedWriter(transport, self, self._reader))

    def data_received(self, data: bytes) -> None:
        if self.stream is not None:
            self.stream.received([data], len(data))
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.stream is not None:
            self.stream.close()
        super().connection_lost(exc)


class _RecordedWriter(asyncio.StreamWriter):
    """A stream writer that records octets in the packet capture of its protocol when they are written."""

    def __init__(self, transport: Any, protocol: _RecordedProtocol, reader: asyncio.StreamReader) -> None:
        super().__init__(transport, protocol, reader, asyncio.get_running_loop())
        self._recorded = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._recorded.stream is not None:
            self._recorded.stream.sent([data], len(data))
        super().write(data)
