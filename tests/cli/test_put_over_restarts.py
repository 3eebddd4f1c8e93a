"""`rpcrdma put` of a tree while the server is killed and another one takes its place, all in processes of their own."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.nfs import v3
from support.cases import each_case
from support.command_process import HANG_S, run_command

if TYPE_CHECKING:
    from support.commands import Served, StartServer

NOT_IDEMPOTENT = (v3.CREATE, v3.RENAME, v3.MKDIR, v3.SYMLINK)
CHANGING = (*NOT_IDEMPOTENT, v3.LINK, v3.WRITE, v3.SETATTR, v3.COMMIT)
PUT_S = 4 * HANG_S
"""Up to six processes start one after the other."""


class Restarting:
    """A proxy to one server after another.

    `kills` is asked about each answered call (its program and procedure) over TCP. If it says so, the server is killed
    instead of passing the reply on: the call has run. Over RDMA the server is killed after each of `octets_left`.
    """

    def __init__(self, start: Callable[[], Served], scheme: str) -> None:
        self._start = start
        self._scheme = scheme
        self._connections: set[asyncio.Task[None]] = set()
        self._restart: asyncio.Task[None] | None = None
        self.served = start()
        self.kills: Callable[[int, int], bool] = lambda _program, _procedure: False
        self.octets_left: list[int] = []
        self.killed = 0

    async def listen(self) -> int:
        """The port."""
        self._listener = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        self._listener.close()
        if self._restart is not None:
            await self._restart
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        assert await asyncio.to_thread(self.served.stop) == 0

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if self._restart is not None:
                await asyncio.shield(self._restart)
            port = int(self.served.urls[self._scheme].rpartition(":")[2])
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await self._join(reader, writer, far_reader, far_writer)
            finally:
                far_writer.transport.abort()
        except (OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        sent: dict[bytes, tuple[int, int]] = {}
        carry = self._carry_records if self._scheme == "tcp" else self._carry_octets
        ways = [
            asyncio.ensure_future(carry(reader, far_writer, sent, calls=True)),
            asyncio.ensure_future(carry(far_reader, writer, sent, calls=False)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _carry_records(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sent: dict[bytes, tuple[int, int]],
        *,
        calls: bool,
    ) -> None:
        while True:
            record = b""
            last = False
            while not last:
                mark = await reader.readexactly(4)
                length = int.from_bytes(mark, "big")
                last = bool(length >> 31)
                fragment = await reader.readexactly(length & 0x7FFFFFFF)
                record += mark + fragment
            xid = record[4:8]
            if calls:
                program, procedure = (int.from_bytes(record[at : at + 4], "big") for at in (16, 24))
                sent[xid] = program, procedure
            elif self.kills(*sent.pop(xid)):
                self._kill()
                return
            writer.write(record)
            await writer.drain()

    async def _carry_octets(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        _sent: dict[bytes, tuple[int, int]],
        *,
        calls: bool,
    ) -> None:
        while data := await reader.read(1 << 16):
            if calls and self.octets_left:
                self.octets_left[0] -= len(data)
                if self.octets_left[0] <= 0:
                    del self.octets_left[0]
                    self._kill()
                    return
            writer.write(data)
            await writer.drain()

    def _kill(self) -> None:
        self.killed += 1
        self.served.process.kill()
        self._restart = asyncio.ensure_future(asyncio.to_thread(self._replace))

    def _replace(self) -> None:
        self.served.finish()
        self.served = self._start()


def local_tree(top: Path, seed: int) -> Path:
    choose = random.Random(seed)
    for number in range(6):
        below = top / f"d{number}"
        below.mkdir(parents=True)
        for name in range(6):
            (below / f"f{name}").write_bytes(choose.randbytes(choose.choice([0, 10, 5000, 200_000])))
        (below / "link").symlink_to(f"f{number}")
        os.link(below / "f0", top / f"hard{number}")
    (top / "large").write_bytes(choose.randbytes(5 << 20))
    return top


def contents(root: Path) -> dict[str, bytes | str | None]:
    return {
        str(path.relative_to(root)): str(path.readlink())
        if path.is_symlink()
        else None
        if path.is_dir()
        else path.read_bytes()
        for path in root.rglob("*")
    }


async def put(proxy: Restarting, mount_port: int, port: int, scheme: str, source: Path) -> str:
    """The output of the command; its exit status is 0."""
    command = ["--mount-port", str(mount_port), "put", str(source), f"{scheme}://127.0.0.1:{port}/copy"]
    try:
        done = await asyncio.to_thread(run_command, *command, timeout=PUT_S)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"put did not end in {PUT_S:g} s; the server was killed {proxy.killed} times") from None
    assert done.returncode == 0, done.stderr
    return str(done.stderr)


def put_over_restarts(
    start: StartServer, tmp_path: Path, scheme: str, arm: Callable[[Restarting], None], *, again: bool, seed: int = 0
) -> int:
    """Puts a tree, with `again` over one that is there, compares, and returns how often the server was killed."""
    source = local_tree(tmp_path / "source", seed)
    root = tmp_path / "root"
    (root / "copy").mkdir(parents=True)
    # Handles are good over the restart, as they are where a server has a place for its state.
    starting = lambda: start(root, tmp_path / "state")  # noqa: E731 - one line is enough

    async def work() -> int:
        proxy = Restarting(starting, scheme)
        try:
            port = await proxy.listen()
            # Over RDMA the handle comes from the server that is there when the command starts.
            first = int(proxy.served.urls["tcp"].rpartition(":")[2])
            if again:
                assert await put(proxy, port if scheme == "tcp" else first, port, scheme, source) == ""
            arm(proxy)
            assert await put(proxy, port if scheme == "tcp" else first, port, scheme, source) == ""
        finally:
            await proxy.close()
        return proxy.killed

    killed = asyncio.run(work())
    copy = root / "copy" / "source"
    assert contents(copy) == contents(source)
    assert all((copy / f"hard{number}").samefile(copy / f"d{number}" / "f0") for number in range(6))
    assert [path for path in root.rglob("*") if re.search(r"\.rpcrdma-", path.name)] == []
    assert {path.stat().st_mode for path in root.rglob("f?")} == {path.stat().st_mode for path in source.rglob("f?")}
    return killed


@pytest.mark.parametrize(
    "procedure",
    [
        pytest.param(each, marks=pytest.mark.journey if each is v3.RENAME else pytest.mark.thorough)
        for each in NOT_IDEMPOTENT
    ],
    ids=lambda each: each.name,
)
def test_a_put_whose_call_ran_before_the_server_was_killed_goes_on(
    start: StartServer, tmp_path: Path, procedure: v3.Procedure
) -> None:
    """The third such call is answered, and the answer lost with the server."""
    seen: list[int] = []

    def kills(program: int, number: int) -> bool:
        if (program, number) == (v3.PROGRAM.number, procedure.number):
            seen.append(number)
            return len(seen) == 3
        return False

    def arm(proxy: Restarting) -> None:
        proxy.kills = kills

    # Symbolic links get a temporary name only where there is one to replace.
    assert put_over_restarts(start, tmp_path, "tcp", arm, again=procedure is v3.SYMLINK) == 1


@pytest.mark.thorough
@each_case("seed", [1, 2])
def test_a_put_over_servers_that_are_killed_at_any_call_goes_on(start: StartServer, tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    fatal = sorted(choose.sample(range(20, 160), 3))
    count = iter(range(1, 1 << 30))
    changing = {procedure.number for procedure in CHANGING}

    def arm(proxy: Restarting) -> None:
        proxy.kills = lambda program, number: (
            program == v3.PROGRAM.number and number in changing and next(count) in fatal
        )

    assert put_over_restarts(start, tmp_path, "tcp", arm, again=False, seed=seed) == len(fatal)


@pytest.mark.thorough
def test_a_put_over_rdma_to_servers_that_are_killed_at_any_octet_goes_on(start: StartServer, tmp_path: Path) -> None:
    choose = random.Random(1)

    def arm(proxy: Restarting) -> None:
        proxy.octets_left = [choose.randrange(20_000, 2_000_000) for _ in range(2)]

    assert put_over_restarts(start, tmp_path, "rdma", arm, again=False, seed=1) == 2
