"""An extension of RPC-over-RDMA version 2: both ends can ask each other for an echo, below all RPC programs.

It has two header types, a transport property (the largest body that is echoed), a flag (echo the octets in reverse
order) and an error (the body is too large). Run it: `python examples/probe_extension.py`.
"""

from __future__ import annotations

import asyncio
import struct
import time

import rpcrdma
from rpcrdma import RdmaServerConfig
from rpcrdma.extension import (
    ErrorRow,
    Extension,
    ExtensionLink,
    ExtensionMessage,
    ExtensionRefused,
    HeaderRow,
    PropertyRow,
)

PROBE, PROBED = 0x200, 0x201
REVERSED = 0x10
LARGEST_BODY = 0x200
TOO_LARGE = 0x200
BODY_OCTETS_MAX = 100_000
_WORD = struct.Struct(">I")


class ProbeFailed(Exception):
    """The peer answered a probe with an error; the message says which."""


class Probes:
    """The extension of one end: `probe` asks the peer, whose own object answers."""

    def __init__(self) -> None:
        self.extension = Extension(
            name="probe",
            headers=(
                HeaderRow(PROBE, "PROBE", self._echo, flags=REVERSED, continues=True),
                HeaderRow(PROBED, "PROBED", self._echoed, continues=True),
            ),
            properties=(
                PropertyRow(
                    LARGEST_BODY, "largest body", _WORD.pack(BODY_OCTETS_MAX), lambda data: _WORD.unpack(data)[0]
                ),
            ),
            errors=(ErrorRow(TOO_LARGE, "TOO_LARGE", words=1),),
        )

    async def probe(self, link: ExtensionLink, body: bytes, *, backwards: bool = False) -> bytes:
        """The echo of `body`.

        Raises:
            ProbeFailed: the peer does not echo it.
            rpcrdma.errors.TransportClosed: the connection has ended.
        """
        if not link.supported:
            raise ProbeFailed("the peer does not know the extension")
        try:
            echo: bytes = await link.ask(PROBE, [body], flags=REVERSED if backwards else 0)
        except ExtensionRefused as refused:
            error = refused.error
            words = f"no more than {error.words[0]} octets" if error.code == TOO_LARGE else error.cause.value
            raise ProbeFailed(words) from None
        return echo

    def _echo(self, link: ExtensionLink, message: ExtensionMessage) -> None:
        if len(message.body) > BODY_OCTETS_MAX:
            link.refuse(message, TOO_LARGE, BODY_OCTETS_MAX)
            return
        body = bytes(message.body)
        link.send(PROBED, [body[::-1] if message.flags & REVERSED else body], xid=message.xid, answer=True)

    def _echoed(self, link: ExtensionLink, message: ExtensionMessage) -> None:
        link.answer(message.xid, bytes(message.body))


async def main() -> None:
    """A server and a client that know the extension."""
    server = rpcrdma.ServeOptions(rdma=RdmaServerConfig(extensions=[Probes().extension]))
    probes = Probes()
    client = rpcrdma.ConnectOptions(extensions=[probes.extension])
    async with (
        rpcrdma.serve([], listen=["rdma://127.0.0.1:0"], options=server) as serving,
        rpcrdma.connect(serving.listening[0], options=client) as connection,
    ):
        link = connection.extension("probe")
        assert link is not None
        print(f"the server echoes up to {link.peer[LARGEST_BODY]:,} octets")
        print((await probes.probe(link, b"stressed", backwards=True)).decode())
        start = time.perf_counter()
        for _ in range(1000):
            await probes.probe(link, b"")
        print(f"round trip {(time.perf_counter() - start) * 1000:.0f} us")
        large = bytes(BODY_OCTETS_MAX)
        assert await probes.probe(link, large) == large
        print(f"{len(large):,} octets in {connection.statistics.pieces_sent + 1} messages")  # type: ignore[union-attr]
        try:
            await probes.probe(link, bytes(BODY_OCTETS_MAX + 1))
        except ProbeFailed as error:
            print(f"one octet more: {error}")


if __name__ == "__main__":
    asyncio.run(main())
