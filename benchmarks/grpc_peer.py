"""gRPC for Python, asyncio: `grpc_peer.py serve LOOP` prints its port, `grpc_peer.py client LOOP PORT` takes orders.

Messages are octets without protobuf. The server answers READ from memory and forgets the data of WRITE: it has no file,
which favours it.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import grpc
from event_loops import new_event_loop
from orders import Order, answer_orders

OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A connection for each channel.
    ("grpc.use_local_subchannel_pool", 1),
)
SERVICE = "bench"


class Peer(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers all three calls."""

    def __init__(self) -> None:
        self._data: dict[bytes, bytes] = {}

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return grpc.unary_unary_rpc_method_handler(self._read if details.method.endswith("READ") else self._taken)

    async def _taken(self, _request: bytes, _context: object) -> bytes:
        return b""

    async def _read(self, request: bytes, _context: object) -> bytes:
        if request not in self._data:
            self._data[request] = bytes(int(request))
        return self._data[request]


class GrpcClient:
    """Calls over one channel."""

    def __init__(self, port: int) -> None:
        self._target = f"127.0.0.1:{port}"
        self._channel = self._connected()
        self._idle: list[grpc.aio.Channel] = []

    def _connected(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(self._target, options=OPTIONS)

    async def calls(self, order: Order) -> Callable[[int], Awaitable[object]]:
        method = self._channel.unary_unary(f"/{SERVICE}/{order.call}")
        request = {"NULL": b"", "READ": b"%d" % order.octets, "WRITE": bytes(order.octets)}[order.call]
        return lambda _: method(request)

    async def connect(self, count: int) -> None:
        for _ in range(count):
            channel = self._connected()
            self._idle.append(channel)
            await channel.unary_unary(f"/{SERVICE}/NULL")(b"")


async def serve() -> None:
    """Serves until the process is ended."""
    server = grpc.aio.server(handlers=[Peer()], options=OPTIONS)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def client(port: int) -> None:
    """Answers orders."""
    await answer_orders(GrpcClient(port))


def main() -> None:
    role, loop, *port = sys.argv[1:]
    with new_event_loop(loop) as runner:
        runner.run(client(int(port[0])) if role == "client" else serve())


if __name__ == "__main__":
    main()
