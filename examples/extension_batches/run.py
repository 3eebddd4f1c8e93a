"""Makes 64 calls at once, without the extension and with it, and prints the number of messages.

Run it: `python examples/extension_batches/run.py`.
"""

from __future__ import annotations

import asyncio

from batches import batches_extension

import rpcrdma
from rpcrdma import RdmaServerConfig
from rpcrdma.extension import Extension
from rpcrdma.nfs import v3

CALLS = 64


class Nothing(v3.NFS_V3_Service):
    """A service that answers the NULL procedure only."""


async def messages_sent(extensions: list[Extension]) -> int:
    """The messages of the client for CALLS calls."""
    serving = rpcrdma.ServeOptions(rdma=RdmaServerConfig(extensions=extensions))
    calling = rpcrdma.ConnectOptions(extensions=extensions)
    async with (
        rpcrdma.serve([Nothing()], listen=["rdma://127.0.0.1:0"], options=serving) as server,
        rpcrdma.connect(server.listening[0], v3.PROGRAM, options=calling) as connection,
    ):
        # The first reply teaches the client how many calls it may send.
        await connection.call(v3.NULL, None)
        assert connection.statistics is not None
        before = connection.statistics.sends
        await asyncio.gather(*(connection.call(v3.NULL, None) for _ in range(CALLS)))
        return connection.statistics.sends - before


async def main() -> None:
    """Both ways."""
    print(f"{CALLS} calls without the extension: {await messages_sent([])} messages")
    print(f"{CALLS} calls with the extension: {await messages_sent([batches_extension()])} messages")


if __name__ == "__main__":
    asyncio.run(main())
