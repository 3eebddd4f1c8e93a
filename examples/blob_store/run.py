"""A program of one's own over RPC-over-RDMA: blobs go in and out by direct data placement.

`blob_store.py` was made from `blob_store.x` by `rpcrdma xdr compile blob_store.x -o blob_store.py`.
Run it: `python examples/blob_store/run.py`.
"""

import asyncio

import blob_store as blobs

import rpcrdma
from rpcrdma.rpc import CallContext


class BlobStore(blobs.BLOB_STORE_V1_Service):
    """Keeps blobs in memory."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def store_put(self, args: blobs.put_args, context: CallContext) -> None:
        # The octets are where the RNIC placed them, until the reply has been sent.
        self._blobs[args.name] = bytes(args.data)

    def store_get(self, args: blobs.get_args, context: CallContext) -> blobs.get_result:
        blob = self._blobs.get(args.name)
        return blobs.get_result(found=blob is not None, value=None if blob is None else memoryview(blob)[: args.most])


async def main() -> None:
    """Serves and calls in one process; two machines differ in nothing but the URL."""
    async with rpcrdma.serve([BlobStore()], listen=["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]) as server:
        for url in server.listening:
            async with rpcrdma.connect(url, blobs.BLOB_STORE_V1) as connection:
                client = blobs.BLOB_STORE_V1_Client(connection)
                picture = bytes(range(256)) * 4000
                await client.store_put(blobs.put_args(name="picture", data=picture))

                buffer = bytearray(len(picture))
                result = await client.store_get(blobs.get_args(name="picture", most=len(buffer)), into=buffer)
                assert buffer == picture
                assert result.value is not None
                print(f"{url.partition(':')[0]}: {len(result.value)} octets came back into the caller's own buffer")


asyncio.run(main())
