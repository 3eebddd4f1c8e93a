"""A peer over the queue pair of a provider: it sends any octets in Sends, and the provider makes everything below.

It sends the same messages and transport headers as `RawPeer`, which makes its frames itself. Here the provider makes
the frames, as those of an RDMA device cannot be made by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rpcrdma.errors import ConnectFailed, LocalProtocolError
from rpcrdma.provider import (
    Access,
    Completion,
    ConnectRequested,
    DeadlineTimer,
    Disconnected,
    Driver,
    Established,
    Link,
    MemoryRegion,
    Provider,
    Status,
    Verb,
)
from rpcrdma_lab.limits import RAW_WAITING_MAX
from rpcrdma_lab.scripted.messages import heard_message
from rpcrdma_lab.scripted.peer_interface import Heard, Log, PassageLog, RawMemory
from rpcrdma_lab.scripted.values import Names, number, octets

__all__ = ["QueuePairPeer", "is_invalidation", "open_link"]

_END_S = 5.0
"""Seconds that a device may take to end a connection; then the next connection is made nevertheless."""
_RECEIVES = 96
"""Receives that are posted at the start and again when they complete: more than a check sends calls at once."""
_RECEIVE_OCTETS = 36864
"""Octets of a receive buffer: more than the inline threshold that any check announces."""
_STARTED = {"rejected": 0, "enhanced": 1, "markers": 0, "crc": 1}
"""The fields of a start-up over any provider."""
_RIGHTS = {"read": Access.REMOTE_READ, "write": Access.REMOTE_WRITE}


@dataclass(slots=True, kw_only=True)
class _PlacedMemory(RawMemory):
    """A region that a device writes to without reporting lengths; `before` is its content when it was registered."""

    before: bytes

    @property
    def written_octets(self) -> int | None:
        return 0 if self.data == self.before else None


def is_invalidation(ddp: Mapping[str, Any]) -> bool:
    """Returns whether `ddp`, DDP fields by name, are those of a usual Send with Invalidate.

    These are "opcode", which is "send_invalidate", and "invalidate", and no others.
    """
    return ddp.keys() == {"opcode", "invalidate"} and ddp["opcode"] == "send_invalidate"


async def open_link(provider: Provider, host: str, port: int) -> Link:
    """Connects a provider's link to a server, and returns it; a connection can be opened on the link.

    Raises:
        OSError: the provider cannot reach the server.
    """
    try:
        return await provider.connect(host, port)
    except ConnectFailed as error:
        raise OSError(str(error)) from error


class QueuePairPeer:
    """One end of a connection over a provider's queue pair, which can send any octets in Sends; no frames of its own.

    For the link to a server, `start` opens the queue pair. For the link of a client, the constructor opens it. The
    methods implement `ScriptedPeer`.

    Args:
        link: the link of the provider.
        version: the protocol version of transport headers, "1" or "2".
        log: the list to which an entry for each thing sent or received is added.
        names: resolves references in values, such as {"given": NAME}.

    Raises:
        ConnectFailed: the provider makes no queue pair for the client.
    """

    def __init__(self, link: Link, version: str, log: Log, names: Names) -> None:
        self.version = version
        self.takes_version = False
        self.crc = True
        self.started = False
        self._link = link
        self._names = names
        self._note = PassageLog(log).note
        self._driver: Driver | None = None
        self._released = False
        self._regions: list[MemoryRegion] = []
        self._heard: deque[Heard] = deque()
        self._unposted: list[memoryview] = []
        """Buffers of receives that are posted again only when a step takes an event: the peer may send too much."""
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        if not link.active:
            self._open(b"")

    @property
    def request(self) -> Mapping[str, Any]:
        # The provider decodes start-up frames itself.
        return {}

    async def start(self, fields: Mapping[str, Any], where: str) -> None:
        """Opens the queue pair and requests the connection; "data", the private data, is the only field."""
        data = self._private_data(fields, where)
        self._note(f"request for a connection, {len(data)} octets of private data", data, ours=True)
        try:
            driver = self._open(data)
        except ConnectFailed as error:
            raise OSError(str(error)) from error
        self._post_receives(driver)
        driver.flush()

    async def accept(self, request: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> None:  # noqa: ARG002
        """Accepts a client's connection; "data", the private data, is the only field."""
        data = self._private_data(fields, where)
        assert self._driver is not None, "a client has asked"
        self._note(f"acceptance of the connection, {len(data)} octets of private data", data, ours=True)
        self._post_receives(self._driver)
        self._driver.queue_pair.accept(data)
        self._driver.flush()

    def _private_data(self, fields: Mapping[str, Any], where: str) -> bytes:
        unknown = fields.keys() - {"data"}
        if unknown:
            raise LocalProtocolError(
                f"{where}: {min(unknown)!r} is of MPA; a start-up over {self._link.provider} has data"
            )
        return octets(fields.get("data", {"given": "private_data"}), self._names, f"{where}.data")

    def _open(self, private_data: bytes) -> Driver:
        timer = DeadlineTimer(asyncio.get_running_loop(), self._turn)
        # A link that fails to open is released.
        self._released = True
        self._driver = self._link.open(private_data, timer, self._turn, self._over.set)
        return self._driver

    def _post_receives(self, driver: Driver) -> None:
        for _ in range(_RECEIVES):
            buffer = memoryview(bytearray(_RECEIVE_OCTETS))
            driver.queue_pair.post_receive(buffer, buffer)

    def register(self, *, handle: int, offset: int, data: bytearray, may: str) -> RawMemory:  # noqa: ARG002
        """Registers `data`; the provider chooses the handle and the offset of the region."""
        assert self._driver is not None, "memory belongs to a connection"
        region = self._driver.protection_domain.register(data, _RIGHTS[may])
        self._regions.append(region)
        return _PlacedMemory(handle=region.handle, offset=region.offset, data=data, may=may, before=bytes(data))

    def withdraw(self, memory: RawMemory) -> None:
        assert self._driver is not None, "memory belongs to a connection"
        for region in [each for each in self._regions if each.handle == memory.handle]:
            self._regions.remove(region)
            self._driver.protection_domain.invalidate(region)

    async def send_stream(self, octets: bytes, text: str, pieces: int = 0) -> None:  # noqa: ARG002
        raise LocalProtocolError(f"{text}: over {self._link.provider} messages are said, and no stream")

    async def send_message(
        self, payload: bytes, ddp: Mapping[str, Any], mpa: Mapping[str, Any], text: str | None = None
    ) -> None:
        """Posts a Send of `payload`, with Invalidate for `is_invalidation(ddp)`; other fields are not taken."""
        invalidate = None
        if is_invalidation(ddp):
            invalidate, ddp = number(ddp["invalidate"], self._names, "ddp.invalidate"), {}
        if ddp or mpa:
            raise LocalProtocolError(f"{min({*ddp, *mpa})!r} is of frames, which {self._link.provider} makes by itself")
        assert self._driver is not None, "a message is said on a connection"
        self._note(text or f"send, {len(payload)} octets", payload, ours=True)
        self._driver.queue_pair.post_send(payload, [payload], invalidate=invalidate)
        self._driver.flush()

    async def write(self, handle: int, offset: int, data: bytes) -> None:
        assert self._driver is not None, "memory is written over a connection"
        self._note(f"RDMA Write to {handle:#x}, {len(data)} octets", ours=True)
        self._driver.queue_pair.post_write(data, [data], handle, offset)
        self._driver.flush()

    async def read(self, handle: int, offset: int, length: int) -> int:
        """Posts an RDMA Read; `next` later returns all its data in one event "read_response".

        Returns the handle of the sink, which the event has as "handle".
        """
        assert self._driver is not None, "memory is read over a connection"
        self._note(f"RDMA Read of {handle:#x}, {length} octets", ours=True)
        sink = self._driver.protection_domain.register(bytearray(length), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
        self._regions.append(sink)
        self._driver.queue_pair.post_read(sink, sink, 0, length, handle, offset)
        self._driver.flush()
        return sink.handle

    async def remind(self) -> None:
        """Does nothing: over a provider, the other end overlooks no first message."""

    def end(self) -> None:
        self._note("end of the connection", ours=True)
        assert self._driver is not None, "a connection ends"
        self._driver.queue_pair.disconnect()
        self._driver.flush()

    async def next(self) -> Heard:
        while not self._heard:
            self._news.clear()
            await self._news.wait()
        if self._unposted and self._driver is not None:
            buffer = self._unposted.pop()
            self._driver.queue_pair.post_receive(buffer, buffer)
            self._driver.flush()
        return self._heard[0] if self._heard[0].kind == "end" else self._heard.popleft()

    async def close(self) -> None:
        # If no queue pair was opened, there is only the link to release.
        driver, self._driver = self._driver, None
        if driver is None:
            if not self._released:
                self._released = True
                self._link.refuse()
            return
        for region in self._regions:
            driver.protection_domain.invalidate(region)
        driver.queue_pair.abort("the conversation is over")
        driver.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await self._over.wait()

    def _turn(self) -> None:
        driver = self._driver
        if driver is None:
            return
        queue_pair = driver.queue_pair
        while queue_pair.completions:
            self._complete(driver, queue_pair.completions.popleft())
        for event in queue_pair.events:
            if isinstance(event, ConnectRequested):
                data = event.private_data
                self._note(f"request for a connection, {len(data)} octets of private data", data, ours=False)
                self._tell(Heard("startup", {**_STARTED, "data": data}))
            elif isinstance(event, Established):
                self.started = True
                if self._link.active:
                    self._note("the connection is made", event.private_data, ours=False)
                    self._tell(Heard("startup", {**_STARTED, "data": event.private_data}))
            elif isinstance(event, Disconnected):
                self._note(f"the connection ended: {event.reason}", ours=False)
                self._tell(Heard("end", {"how": f"ended: {event.reason}", "partial": b""}))
        queue_pair.events.clear()
        driver.flush()

    def _complete(self, driver: Driver, completion: Completion) -> None:
        if completion.status is not Status.SUCCESS:
            return
        if completion.verb is Verb.RDMA_READ:
            sink = completion.wr
            assert isinstance(sink, MemoryRegion)
            read = {"handle": sink.handle, "offset": 0, "payload": bytes(sink.view), "last": 1}
            self._note(f"data of an RDMA Read, {sink.length} octets", ours=False)
            self._tell(Heard("read_response", read))
            driver.protection_domain.invalidate(sink)
            self._regions.remove(sink)
        if completion.verb is not Verb.RECEIVE:
            return
        buffer = completion.wr
        assert isinstance(buffer, memoryview)
        payload = bytes(buffer[: completion.length])
        if len(self._heard) < RAW_WAITING_MAX:
            driver.queue_pair.post_receive(buffer, buffer)
        else:
            self._unposted.append(buffer)
        self._tell(heard_message(self, self._note, payload, completion.invalidated))

    def _tell(self, heard: Heard) -> None:
        self._heard.append(heard)
        self._news.set()
