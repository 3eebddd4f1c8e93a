"""One client of a world: it makes the calls of its plan, and compares each result with the expected one."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator

from rpcrdma import AuthSys, Connection, ConnectOptions, NfsFilesystem, TransportConfig, connect
from rpcrdma.errors import ConnectFailed, RpcRdmaError, TransportClosed
from rpcrdma.nfs import v3
from rpcrdma.provider import Provider
from rpcrdma.rpc import null_procedure
from rpcrdma.testing.virtual import EventKind, running_host
from rpcrdma_lab.simulation import bank
from rpcrdma_lab.simulation.worlds.bank_branch import Customer, statement_text
from rpcrdma_lab.simulation.worlds.checkers.exposure import ExposureWatcher, GuardedBuffer
from rpcrdma_lab.simulation.worlds.checkers.files import UNKNOWN, Content
from rpcrdma_lab.simulation.worlds.history import CallMade, History, Violation
from rpcrdma_lab.simulation.worlds.plan import ClientPlan, PlannedCall

__all__ = ["CALL_TIMEOUT_S", "RECOVERED_S", "WorldClient"]

CALL_TIMEOUT_S = 60.0
_KEEPALIVE_S = 5.0
_RECONNECT_MAX_S = 2.0
RECOVERED_S = 2 * _KEEPALIVE_S + 20.0 + 2 * _RECONNECT_MAX_S + 10.0
"""The seconds in which a client detects that its connection is unusable, and has another connection.

The second check for replies makes a NULL call, whose reply may take 20 s, and connecting takes 10 s at most.
"""
_RETRY_S = 0.1
_FILES = 3
_LAST = 1 << 16
"""The first number of the calls at the end of a world."""

_Buffers = list[GuardedBuffer | bytearray]
_Work = Callable[[PlannedCall, _Buffers], Awaitable[int | None]]
"""A method that makes a planned call, adds its buffers to the list, and returns the reply's journal entry, if any."""


class _Unexpected(Exception):
    """Raised within the client when a call returns another result than the expected one."""


class WorldClient:
    """A simulated client, which makes and records the calls of its plan, and compares each result with the expected.

    Args:
        plan: the plan of the client.
        provider: the provider of the client's node.
        root: the file handle of the server's root directory.
        history: the record of the world.
        exposure: checks that the buffers of a call are neither registered nor changed once the call has ended.
    """

    def __init__(
        self,
        plan: ClientPlan,
        provider: Provider,
        root: v3.nfs_fh3,
        history: History,
        exposure: ExposureWatcher,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._plan = plan
        self._provider = provider
        self._root = root
        self._history = history
        self._exposure = exposure
        self.node = f"client-{plan.number}"
        self.server = plan.server
        self.files: dict[str, Content] = {self._name(number): None for number in range(_FILES)}
        """The expected content of each of its files by name."""
        self._locks = [asyncio.Lock() for _ in range(_FILES)]
        self._connection: Connection | None = None

    async def run(self) -> None:
        """Connects to the server, repeating until that succeeds, and makes all calls of the plan.

        Calls that fail raise nothing: the history has their errors. Wrong results are violations. Also starts the task
        of `_join_always`, which `finish` cancels.
        """
        plan = self._plan
        options = ConnectOptions(
            provider=self._provider,
            rpcrdma_version=plan.version,
            extension=plan.extension,
            credential=AuthSys(machine=self.node, uid=1000 + plan.number, gid=1000, gids=(), stamp=plan.number + 1),
            transport=TransportConfig(
                credits_requested=plan.credits, inline_send_octets=4096, inline_receive_octets=4096
            ),
            call_timeout_s=CALL_TIMEOUT_S,
            keepalive_s=_KEEPALIVE_S,
            reconnect_delay_max_s=_RECONNECT_MAX_S,
            services=[Customer(plan.number, plan.server, self._history)],
        )
        while self._connection is None:
            try:
                self._connection = await connect(f"rdma://server-{plan.server}", options=options)
            except ConnectFailed:
                # The first connection is not made again by itself.
                await asyncio.sleep(_RETRY_S)
        self._filesystem = NfsFilesystem(self._connection, self._root, clock=self._loop.time)
        self._bank = bank.BANK_V1_Client(self._connection)
        self._joining = self._loop.create_task(self._join_always(self._connection))
        calls = iter(plan.calls)
        await asyncio.gather(*(self._worker(calls) for _ in range(plan.at_once)))

    async def finish(self) -> None:
        """Makes the last calls of the world, when all faults are over, and closes the connection.

        The history records these calls like all others; a checker demands that they succeed.
        """
        assert self._connection is not None
        last = PlannedCall(_LAST, "transfer", 100, 0.0, into=False, stable=True, name=0)
        # The first call may find a connection that has ended unnoticed.
        await self._one(last)
        for name in range(_FILES):
            await self._one(last._replace(number=_LAST + 1 + name, work="read", name=name))
        await self._one(last._replace(number=_LAST + 9, work="list"))
        self._joining.cancel()
        await self._filesystem.close()
        await self._connection.close()

    async def _worker(self, calls: Iterator[PlannedCall]) -> None:
        for call in calls:
            if call.pause_s:
                await asyncio.sleep(call.pause_s)
            await self._one(call)

    async def _one(self, call: PlannedCall) -> None:
        buffers: _Buffers = []
        work: _Work = getattr(self, f"_{call.work}")
        await self._make(call.work, call.number, lambda: work(call, buffers), buffers)

    async def _make(
        self, work: str, number: int, action: Callable[[], Awaitable[int | None]], buffers: _Buffers
    ) -> None:
        plan, loop = self._plan, self._loop
        made = CallMade(plan.number, plan.server, number, work, loop.time(), CALL_TIMEOUT_S)
        self._history.calls.append(made)
        host = running_host()
        assert host is not None
        host.record(EventKind.CALL, f"{work} {number}")
        try:
            made.entry = await action()
        except (RpcRdmaError, OSError) as error:
            made.error = error
        except _Unexpected as error:
            self._history.violations.append(Violation("results", loop.time(), f"{self.node}, {work} {number}: {error}"))
        made.ended_s = loop.time()
        host.record(
            EventKind.RETURN, f"{work} {number} {'' if made.error is None else type(made.error).__name__}".rstrip()
        )
        self._exposure.goes_on(self.node, f"{work} {number}", buffers)

    async def _join_always(self, connection: Connection) -> None:
        """Calls BANK_JOIN now and after each reconnection, until cancelled; calls that fail raise nothing.

        If a lost connection is not restored, it calls again after a pause, which has another connection made. The bank
        then makes its calls to the client, in the reverse direction, on the present connection.
        """
        while True:
            count = connection.reconnects
            await self._make("join", -1 - count, self._join, [])
            try:
                await connection.wait_reconnected(count)
            except TransportClosed:
                # The next call has another connection made.
                await asyncio.sleep(_RETRY_S)

    async def _join(self) -> None:
        await self._bank.bank_join(self._plan.number)

    # The bank

    async def _null(self, call: PlannedCall, buffers: _Buffers) -> None:
        assert self._connection is not None
        await self._connection.call(null_procedure(bank.BANK_V1.number, 1), None)

    async def _transfer(self, call: PlannedCall, buffers: _Buffers) -> int:
        own = self._plan.number
        note = bytearray(_content(own, call.number, call.octets))
        checksum = zlib.crc32(note)
        buffers.append(note)
        order = bank.bank_order(own, call.number)
        args = bank.bank_transfer(order, debit=own, credit=call.name, amount=1 + call.number, note=note)
        receipt = await self._bank.bank_transfer(args)
        if receipt.note_checksum != checksum:
            raise _Unexpected(f"{call.octets} octets of the note arrived changed")
        return receipt.entry

    async def _statement(self, call: PlannedCall, buffers: _Buffers) -> int:
        request = bank.bank_request(bank.bank_order(self._plan.number, call.number), call.octets)
        into = None
        if call.into and call.octets:
            into = GuardedBuffer(call.octets)
            buffers.append(into)
        given = await self._bank.bank_statement(request, into=None if into is None else into.view)
        if given.text != statement_text(given.entry, call.octets):
            raise _Unexpected(f"{len(given.text)} octets are not the statement of entry {given.entry}")
        return given.entry

    async def _extract(self, call: PlannedCall, buffers: _Buffers) -> int:
        request = bank.bank_request(bank.bank_order(self._plan.number, call.number), call.octets)
        given = await self._bank.bank_extract(request)
        if given.text != statement_text(given.entry, call.octets):
            raise _Unexpected(f"{len(given.text)} octets are not the extract of entry {given.entry}")
        return given.entry

    # Files

    def _name(self, number: int) -> str:
        return f"client-{self._plan.number}-{number}"

    async def _write(self, call: PlannedCall, buffers: _Buffers) -> None:
        name = self._name(call.name)
        data = bytearray(_content(self._plan.number, call.number, call.octets))
        written = bytes(data)
        buffers.append(data)
        async with self._locks[call.name]:
            before, self.files[name] = self.files[name], UNKNOWN
            if call.stable:
                await self._filesystem.write_bytes(name, data)
            else:
                # In two parts, with time between them for a crash; an exclusive CREATE where there is no file.
                half = len(data) // 2
                async with await self._filesystem.open(name, "xb" if before is None else "wb") as file:
                    await file.write(memoryview(data)[:half])
                    await asyncio.sleep(call.pause_s)
                    await file.write(memoryview(data)[half:])
            self.files[name] = written

    async def _read(self, call: PlannedCall, buffers: _Buffers) -> None:
        name = self._name(call.name)
        async with self._locks[call.name]:
            wanted = self.files[name]
            try:
                if call.into and isinstance(wanted, bytes) and wanted:
                    into = GuardedBuffer(len(wanted))
                    buffers.append(into)
                    have = bytes(into.view[: await self._filesystem.read_into(name, into.view)])
                else:
                    have = await self._filesystem.read_bytes(name)
            except FileNotFoundError:
                if isinstance(wanted, bytes):
                    raise
                return
            if wanted is not UNKNOWN and have != wanted:
                raise _Unexpected(f"{name}: {len(have)} octets read, not what was written")

    async def _rename(self, call: PlannedCall, buffers: _Buffers) -> None:
        source, target = call.name, (call.name + 1) % _FILES
        from_name, to_name = self._name(source), self._name(target)
        async with self._locks[min(source, target)], self._locks[max(source, target)]:
            moved = self.files[from_name]
            before = self.files[to_name]
            self.files[from_name] = self.files[to_name] = UNKNOWN
            try:
                await self._filesystem.rename(from_name, to_name)
            except FileNotFoundError:
                if isinstance(moved, bytes):
                    raise
                # No such file. A file whose state is unknown may have been moved by a run without a reply.
                if moved is None:
                    self.files[from_name], self.files[to_name] = None, before
                return
            if moved is None:
                raise _Unexpected(f"{from_name} was renamed, which did not exist")
            self.files[from_name], self.files[to_name] = None, moved

    async def _remove(self, call: PlannedCall, buffers: _Buffers) -> None:
        name = self._name(call.name)
        async with self._locks[call.name]:
            before, self.files[name] = self.files[name], UNKNOWN
            try:
                await self._filesystem.unlink(name)
            except FileNotFoundError:
                if isinstance(before, bytes):
                    raise
            else:
                if before is None:
                    raise _Unexpected(f"{name} was removed, which did not exist")
            self.files[name] = None

    async def _list(self, call: PlannedCall, buffers: _Buffers) -> None:
        async with self._locks[0], self._locks[1], self._locks[2]:
            names = set(await self._filesystem.listdir("/"))
            for name, content in self.files.items():
                if content is not UNKNOWN and (name in names) != (content is not None):
                    raise _Unexpected(f"{name} is {'' if name in names else 'not '}listed")


def _content(client: int, number: int, octets: int) -> bytes:
    """Returns a text with the numbers of a client and of its call, repeated to a length of `octets` octets."""
    line = b"client %d call %d: " % (client, number)
    return (line * (octets // len(line) + 1))[:octets]
