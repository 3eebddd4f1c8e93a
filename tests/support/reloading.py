"""Reloads of the configuration of a server without sockets: `Reloading` changes the file, and hears the outcome."""

from __future__ import annotations

import argparse
import asyncio
import logging
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.cli.main import build_parser
from rpcrdma.cli.running_server import RunningServer
from rpcrdma.cli.serve_audit import AccessLog
from rpcrdma.cli.serve_protection import listen_at
from rpcrdma.cli.serve_reload import ConfigurationReload
from rpcrdma.cli.served_exports import ServedExports
from rpcrdma.cli.service_manager import ServiceManager
from rpcrdma.cli.settings.effective import effective
from rpcrdma.cli.waiting_exports import WaitingExports
from rpcrdma.errors import ConnectFailed
from rpcrdma.nfs.export.server_state import open_state
from rpcrdma.nfs.server import build_services
from support.waiting import time_passes, until

__all__ = ["FILE", "LISTENING", "ONE", "TWO", "Reloading", "file"]

FILE = """\
log-level = "info"
workers = 4
listen = ["tcp://127.0.0.1:0"]
[[export]]
name = "/one"
directory = "one"
"""
ONE = FILE[FILE.index("[[export]]") :]
TWO = '[[export]]\nname = "/two"\ndirectory = "two"\n'
LISTENING = "listening at tcp://127.0.0.1:2049"


class Manager(ServiceManager):
    """Keeps the notifications in place of sending them."""

    def __init__(self) -> None:
        super().__init__({})
        self.told: list[str] = []

    def tell(self, *assignments: str) -> None:
        """Keeps the notification, without the time."""
        self.told += [each for each in assignments if not each.startswith("MONOTONIC_USEC=")]


class FakeServer:
    """Keeps the changes of a server; its calls outlast so many waits for them as `busy` says."""

    def __init__(self) -> None:
        self.listening = ["tcp://127.0.0.1:2049"]
        self.at: set[str] = set()
        self.changes: list[Any] = []
        self.unfit = ""
        self.busy = 0

    async def listen(self, *urls: str) -> None:
        if self.unfit in urls:
            raise ConnectFailed(f"cannot listen at {self.unfit}: address in use")
        self.changes += [f"+{url}" for url in urls]
        self.at.update(urls)

    def stop_listening(self, *urls: str) -> None:
        self.changes += [f"-{url}" for url in urls]
        self.at.difference_update(urls)

    def require(self, xprtsec: str) -> None:
        if xprtsec != "none":
            assert not any(url.startswith("rdma") for url in self.at), "RDMA has no TLS: the server refuses"
            self.changes.append(xprtsec)

    def set_limits(self, **limits: Any) -> None:
        self.limits = limits

    async def settle(self, deadline_s: float) -> bool:
        self.busy -= 1
        if self.busy >= 0:
            await time_passes(deadline_s)
        return self.busy < 0


class Reloading:
    """The reloads of a server with a configuration file; `renewals` counts those of the certificates."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        args = build_parser().parse_args(["serve", "--config", str(path), *options])
        given = argparse.Namespace(**vars(args))
        found = effective(args)
        found.put_into(args)
        self.reload = ConfigurationReload(given, found)
        self.manager = Manager()
        self.server: Any = FakeServer()
        self.state = open_state(path.parent / "state", bytes)
        weakref.finalize(self, self.state.close)
        waiting = WaitingExports(args.exports, self.reload.names)
        ready = waiting.ready()
        self.services = build_services(ready, state=self.state)
        weakref.finalize(self, self.services.nfs.exports.close)
        self.exports = ServedExports(self.services, None, waiting, ready, self.server.settle)
        self.log = AccessLog(self.services, None, args)
        self.server.at.update(listen_at(args))
        self.running = RunningServer(args, self.server, self.exports, None, None, self.log)
        self.renewals = 0
        self.events: list[dict[str, Any]] = []
        self.ended: list[bool] = []
        self.reload.on_end = self.ended.append

    def _renew(self) -> Callable[[], None]:
        def use() -> None:
            self.renewals += 1

        return use

    @property
    def names(self) -> list[str]:
        """The exports that are served."""
        return [tree.export.name for tree in self.services.nfs.exports.trees]

    async def again(self, text: str | None = None, *, requests: int = 1) -> list[str]:
        """Reloads after a change of the file; returns the notifications."""
        if text is not None:
            self.path.write_text(text)
        run = self.reload.run(self.manager, self.running, self._renew, lambda event, _: self.events.append(event))
        task = asyncio.create_task(run)
        for _ in range(requests):
            self.reload.request()
        await until(lambda: len(self.manager.told) >= 3)
        task.cancel()
        told, self.manager.told = self.manager.told, []
        return [line.replace(str(self.path), "c.toml") for line in told]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A configuration file with `FILE`, beside the directories of its exports; the level of the log is restored."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    path = tmp_path / "c.toml"
    path.write_text(FILE)
    level = logging.getLogger().level
    yield path
    logging.getLogger().setLevel(level)
