"""A proxy between clients and a server, in a thread of its own, that cuts each connection after a number of octets."""

from __future__ import annotations

import asyncio
import random
import threading


class _End(asyncio.Protocol):
    """One end of a connection. Its received octets go to `other`, until the connection's octets are used up."""

    def __init__(self, proxy: CuttingProxy, left: list[int]) -> None:
        self.proxy = proxy
        self.left = left
        self.other: _End | None = None
        self.waiting = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.proxy.ends.add(self)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.waiting += data
            return
        left = self.left
        if left[0] > len(data):
            left[0] -= len(data)
            self.other.transport.write(data)
        elif left[0] > 0:
            self.other.transport.write(data[: left[0]])
            left[0] = 0
            self.proxy.cuts += 1
            if self.proxy.choose.random() < 0.5:
                self.other.transport.close()
            else:
                self.other.transport.abort()
            self.transport.abort()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.proxy.ends.discard(self)
        if self.other is not None:
            self.other.transport.close()


class CuttingProxy:
    """Listens at `ports`, one for each of `targets`, from `start` to `stop`."""

    def __init__(self, targets: list[int], seed: int, octets_min: int, octets_max: int) -> None:
        self._targets = targets
        self._octets = octets_min, octets_max
        self.choose = random.Random(seed)
        self.cutting = True
        self.cuts = 0
        self.connections = 0
        self.ports: list[int] = []
        self.ends: set[_End] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        self._stopped = asyncio.Event()
        servers = []
        for target in self._targets:
            server = await self._loop.create_server(lambda target=target: self._accepted(target), "127.0.0.1", 0)
            self.ports.append(server.sockets[0].getsockname()[1])
            servers.append(server)
        self._ready.set()
        await self._stopped.wait()
        for server in servers:
            server.close()
        for end in list(self.ends):
            end.transport.abort()
        await asyncio.gather(*self._tasks)

    def _allowed(self) -> int:
        """Octets of both directions together until the cut: any order of magnitude is as likely as another."""
        if not self.cutting:
            return 1 << 62
        low, high = self._octets
        return round(low * (high / low) ** self.choose.random())

    def _accepted(self, target: int) -> _End:
        self.connections += 1
        near = _End(self, [self._allowed()])
        task = self._loop.create_task(self._join(near, target))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return near

    async def _join(self, near: _End, target: int) -> None:
        try:
            _, far = await self._loop.create_connection(lambda: _End(self, near.left), "127.0.0.1", target)
        except OSError:
            near.transport.abort()
            return
        near.other, far.other = far, near
        if near.transport.is_closing():
            far.transport.close()
        elif near.waiting:
            near.data_received(near.waiting)
            near.waiting = b""
