"""Reloads of a server that works: untouched exports, what stays behind, half-written files, and deaths in the midst."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.client.connect import connect
from rpcrdma.limits import SERVER_WORKERS
from rpcrdma.nfs import v3
from rpcrdma.nfs.mount import MOUNT_V3, MOUNTPROC3_MNT
from support.nfs4_client import READ, WRITE, Client, lock, open_, putfh, reclaim_complete
from support.nfs4_connection import TcpConnection
from support.waiting import until

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")]
RELOADS = 100
CONNECTIONS = 20
"""Of each transport."""
BELLS_MAX = SERVER_WORKERS + 4
BOTH = READ | WRITE


def export(name: str, directory: str | None = None, *more: str) -> str:
    return "\n".join(["[[export]]", f'name = "/{name}"', f'directory = "{directory or name}"', *more, ""])


KEPT = export("kept")
VERSIONS = (
    KEPT + export("other"),
    KEPT + export("other", None, 'access = "ro"'),
    export("new") + KEPT + export("other", "another"),
    KEPT + export("other", None, 'hosts = ["198.51.100.1"]'),
    KEPT,
)
"""Configurations: the present one, other terms, another directory and a new export, other hosts, a removed export."""


def descriptors(process: Any) -> list[str]:
    """What a process has open, apart from objects of the untouched export, which come and go with the calls."""
    found = []
    for each in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(each.readlink()))
    return [each for each in found if "/kept" not in each]


class Work:
    """Reads and writes a file of an export over and over, by one connection; counts the answers by their status."""

    def __init__(self, connection: Any, root: bytes) -> None:
        self.connection = connection
        self.root = v3.nfs_fh3(root)
        self.answers: Counter[str] = Counter()
        self.rounds = 0

    async def run(self) -> None:
        while True:
            for procedure, args in (
                (v3.GETATTR, v3.GETATTR3args(self.root)),
                (v3.LOOKUP, v3.LOOKUP3args(v3.diropargs3(self.root, "file"))),
            ):
                reply = await self.connection.call(procedure, args)
                self.answers[reply.status.name] += 1
            if reply.status.name == "NFS3_OK":
                file = reply.value.object
                for procedure, args in (
                    (v3.WRITE, v3.WRITE3args(file, 0, 4, v3.stable_how.UNSTABLE, b"data")),
                    (v3.READ, v3.READ3args(file, 0, 4)),
                    (v3.COMMIT, v3.COMMIT3args(file, 0, 0)),
                ):
                    reply = await self.connection.call(procedure, args)
                    self.answers[reply.status.name] += 1
            self.rounds += 1


async def reloaded(served: Any, count: int) -> dict[str, Any]:
    """Sends SIGHUP; returns the event of the reload, which is the one with this number."""
    served.process.send_signal(signal.SIGHUP)
    await until(lambda: len(reloads(served)) >= count)
    return reloads(served)[-1]


def write(path: Path, text: str) -> None:
    path.write_text(text)


def nothing_of_others(present: list[str], most: int) -> bool:
    of_others = [each for each in present if each.endswith(("/other", "/another", "/new", "/file"))]
    return not of_others and len(present) - bells(present) <= most and bells(present) <= BELLS_MAX


def bells(present: list[str]) -> int:
    """How many wake a thread or the event loop: each thread of calls has one, and starts when calls first need it."""
    return present.count("anon_inode:[eventfd]")


def reloads(served: Any) -> list[dict[str, Any]]:
    return [event for event in served.events if event["event"] == "reload"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    for folder in (tmp_path, tmp_path.parent):
        folder.chmod(0o755)
    for name in ("kept", "other", "another", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("data")
        (tmp_path / name / "file").chmod(0o666)
    path = tmp_path / "c.toml"
    path.write_text(VERSIONS[0])
    return path


async def test_no_call_of_an_untouched_export_fails_through_a_hundred_reloads_and_nothing_stays(
    start: Callable[..., Any], config: Path, tmp_path: Path
) -> None:
    with start(tmp_path, tmp_path / "state", "--config", str(config), named_only=True) as served:
        async with AsyncExitStack() as stack:
            works: dict[str, list[Work]] = {"kept": [], "other": []}
            for url in served.urls.values():
                for number in range(CONNECTIONS):
                    name = "other" if number % 4 == 0 else "kept"
                    connection = await stack.enter_async_context(connect(url, v3.PROGRAM))
                    answer = await mounted(served, name)
                    works[name].append(Work(connection, answer))
            every = [work for some in works.values() for work in some]
            tasks = [asyncio.create_task(work.run()) for work in every]
            before = 0
            for count in range(1, RELOADS + 1):
                write(config, VERSIONS[count % len(VERSIONS)])
                rounds = [work.rounds for work in works["kept"]]
                event = await reloaded(served, count)
                assert event["ok"], event
                assert event["needs_restart"] == []
                await until(lambda: all(work.rounds > past for work, past in zip(works["kept"], rounds, strict=True)))  # noqa: B023
                if count % len(VERSIONS) == len(VERSIONS) - 1:
                    # Without the exports that leave, nothing of theirs is open, and nothing else stays. The look at
                    # exports and certificates has a descriptor for a moment.
                    if not before:
                        present = descriptors(served.process)
                        before = len(present) - bells(present)
                    await until(lambda: nothing_of_others(descriptors(served.process), before))  # noqa: B023
            assert not any(task.done() for task in tasks), "no connection has ended"
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert set(sum((work.answers for work in works["kept"]), Counter())) == {"NFS3_OK"}
        seen = set(sum((work.answers for work in works["other"]), Counter()))
        assert {"NFS3_OK", "NFS3ERR_STALE"} <= seen <= {
            "NFS3_OK", "NFS3ERR_STALE", "NFS3ERR_ROFS", "NFS3ERR_ACCES"
        }  # fmt: skip
        assert served.stop() == 0


async def mounted(served: Any, name: str) -> bytes:
    async with connect(served.urls["tcp"], MOUNT_V3) as mount:
        reply = await mount.call(MOUNTPROC3_MNT, f"/{name}")
    return bytes(reply.value.fhandle)


DIES = """\
import os, signal, sys
from rpcrdma.nfs.server.exports_change import ExportsChange
from rpcrdma.nfs.v4.server.recovery import RecoveryDatabase

owner, name, when = sys.argv[1:4]
owner = {"ExportsChange": ExportsChange, "RecoveryDatabase": RecoveryDatabase}[owner]
whole = getattr(owner, name)

def die(*args, **options):
    if when == "after":
        whole(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, name, die)
from rpcrdma.cli.main import main
sys.exit(main(sys.argv[4:]))
"""
"""A server that dies before or after a step of its first reload."""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "step", [("ExportsChange", "plan"), ("RecoveryDatabase", "serve"), ("ExportsChange", "install"),
             ("ExportsChange", "retire")]
)  # fmt: skip
def test_a_server_that_is_killed_in_the_midst_of_a_reload_leaves_its_state_whole(
    start: Callable[..., Any], config: Path, tmp_path: Path, nobody_listens: int, step: tuple[str, str], when: str
) -> None:
    address = f"tcp://127.0.0.1:{nobody_listens}"
    options = ["--state-dir", str(tmp_path / "state"), "--listen", address, "--config", str(config)]
    with subprocess.Popen(
        [sys.executable, "-c", DIES, *step, when, "serve", "--json", *options], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["event"] != "exported":
            pass
        with TcpConnection(nobody_listens) as connection:
            client = Client(connection, b"keeper").start()
            handle = client.handle("kept", "file")
            client.locked(handle, client.opened(handle, BOTH))
            config.write_text(VERSIONS[2])
            process.send_signal(signal.SIGHUP)
            assert process.wait() == -signal.SIGKILL
    # The next run has a wildcard port of RDMA besides, which is none of its lasting addresses.
    with start(tmp_path, tmp_path / "state", *options[2:], named_only=True) as served:
        with TcpConnection(nobody_listens) as connection, TcpConnection(nobody_listens) as second:
            other = Client(second, b"other").start()
            assert other.run(putfh(handle), open_(b"o", READ)).status == "GRACE"
            keeper = Client(connection, b"keeper").start(complete=False)
            opened = keeper.run(putfh(handle), open_(b"owner", BOTH, reclaim=True)).value(18)["stateid"]
            assert keeper.run(putfh(handle), lock(opened, b"locker", 2, 0, 10, reclaim=True)).status == "OK"
            assert keeper.run(reclaim_complete()).status == "OK"
            assert other.handle("new", "file")
        assert served.stop() == 0
