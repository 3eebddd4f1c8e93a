"""A server in a thread with an event loop of its own, as another machine would be to the one that waits."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs.server import Export, build_services, open_state


@dataclass(frozen=True)
class Running:
    """The URLs of a server's export over RDMA and over TCP, and its directory."""

    url: str
    tcp_url: str
    directory: Path


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("export")
    state = open_state(tmp_path_factory.mktemp("state"), secrets.token_bytes)
    export = Export(name="/", directory=directory, root_squash=False, synchronous=False)
    services = build_services([export], state=state)
    urls: list[str] = []
    started, ended = threading.Event(), threading.Event()

    async def main() -> None:
        async with serve(services, ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]) as server:
            urls.extend(server.listening)
            started.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert started.wait(60), "the server did not start"
    rdma, tcp = urls
    yield Running(f"{rdma}/?mountport={parse_url(tcp).port}", f"{tcp}/", directory)
    ended.set()
    thread.join()
    services.nfs.close()
    state.close()


@pytest.fixture
def folder(running: Running, request: pytest.FixtureRequest) -> Path:
    """A directory of the test's own in the export; its name is its path at the server."""
    path = running.directory / "".join(c if c.isalnum() else "-" for c in request.node.name)
    os.mkdir(path)  # noqa: PTH102
    return path
