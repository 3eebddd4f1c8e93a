"""The program behind a scripted server: an ordinary server over TCP, which answers the clients' calls."""

from __future__ import annotations

import asyncio

from rpcrdma_lab.limits import RAW_CALL_OCTETS_MAX, RAW_RECORD_FRAGMENTS_MAX
from rpcrdma_lab.scripted.recorded_stream import open_recorded

__all__ = ["ProgramOverTcp"]

_LAST = 1 << 31


class ProgramOverTcp:
    """Forwards RPC calls to a server over TCP with record marking (RFC 5531 section 11).

    The first call connects to `host` and `port`. Calls must not overlap. `close` must follow a call that failed or was
    cancelled.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def answer(self, call: bytes) -> bytes:
        """Sends an RPC call message, and waits for the next RPC message from the server, which it returns unchecked.

        Connects first if there is no connection. There is no time limit.

        Raises:
            OSError: the server cannot be reached, ends the connection, or sends a reply that exceeds the limits.
        """
        if self._streams is None:
            self._streams = await open_recorded(*self._address, None)
        reader, writer = self._streams
        writer.write((_LAST | len(call)).to_bytes(4) + call)
        reply = b""
        excess = f"{RAW_RECORD_FRAGMENTS_MAX} fragments"
        try:
            for _ in range(RAW_RECORD_FRAGMENTS_MAX):
                mark = int.from_bytes(await reader.readexactly(4))
                length = mark & ~_LAST
                if len(reply) + length > RAW_CALL_OCTETS_MAX:
                    excess = f"{RAW_CALL_OCTETS_MAX} octets"
                    break
                reply += await reader.readexactly(length)
                if mark & _LAST:
                    return reply
        except asyncio.IncompleteReadError:
            raise ConnectionAbortedError("the server of the program ended its connection") from None
        raise ConnectionAbortedError(f"the server of the program sent more than {excess}")

    def close(self) -> None:
        """Aborts the connection, if there is one; a later call makes a new one."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None
