"""Our own server before the checks, whole or with a mistake that a test puts in."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import local_streams
import pytest
from recorded_runs import Run, recording

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.drivers.provider import Provider
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.server_state import open_state
from rpcrdma.nfs.export.tree import Change, Create, CreateHow
from rpcrdma.nfs.server.services import build_nfs4
from rpcrdma.nfs.v3.server.mount_service import MountService
from rpcrdma.nfs.v3.server.service import NfsService
from rpcrdma_lab.check import CATALOGUE, FRESH_FILES, Check, Result, recalled_delegations, run_checks, spoken_versions
from rpcrdma_lab.check.export_files import prepared_export
from rpcrdma_lab.scripted import RawTarget

Judge = Callable[..., list[Result]]


def _judged(
    directory: Path,
    checks: Sequence[Check] = CATALOGUE,
    *,
    versions: str = "auto",
    write: str | None = None,
    met: Sequence[str] = (),
    provider: Provider | None = None,
    timeout_s: float = 60.0,
) -> list[Result]:
    """Checks our server, which speaks `versions` over `provider`.

    `met` are the versions that are taken for spoken without a trial. Without a provider the checks make their frames.
    """

    async def main() -> list[Result]:
        async with contextlib.AsyncExitStack() as stack:
            state = stack.enter_context(contextlib.closing(open_state(directory / "state", os.urandom)))
            # Memory, since delegations of local files depend on the file system below them.
            tree = MemoryTree(time.time)
            file = tree.root.create(tree.grant, b"data", Create(CreateHow.GUARDED), Change())
            file.data[:] = bytes(index * 7 & 0xFF for index in range(9001))
            services: list[Any] = [NfsService(tree), MountService(tree)]
            stack.enter_context(contextlib.closing(services[0]))
            clocks = time.monotonic, time.time_ns
            services.append(build_nfs4(services[0], state, directory / "state", os.urandom, *clocks))
            stack.enter_context(contextlib.closing(services[2]))
            options = ServeOptions(rdma=RdmaServerConfig(rpcrdma_version=versions, provider=provider or "iwarp"))
            listen = ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]
            server = await stack.enter_async_context(serve(services, listen, options=options))
            rdma, tcp = (parse_url(text) for text in server.listening)
            target = RawTarget(host=rdma.host, port=rdma.port, timeout_s=timeout_s, provider=provider)
            opening = ConnectOptions(rpcrdma_version=versions, provider=provider or "iwarp")
            recalling = sum("recall" in check.needs for check in checks)
            files = FRESH_FILES * recalling + 1 if recalling and write is not None else 0
            preparing = prepared_export(rdma, opening, mount_port=tcp.port, write=write, fresh_files=files)
            found = await stack.enter_async_context(preparing)
            found.given |= {"program": 100003, "program_version": 3}
            spoken = {} if met else await spoken_versions(target, found.given)
            found.add_spoken(spoken)
            abilities = {"risky", *found.met, *met}
            if spoken and found.fresh_files:
                file = found.fresh_files.pop()
                abilities |= await recalled_delegations(target, found.given, file, next(iter(spoken)))
            return await run_checks(checks, target, found.given, abilities, fresh_files=found.fresh_files)

    return local_streams.run(main())


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Checks our server with the arguments of `_judged`."""
    return functools.partial(_judged, tmp_path)


class Recorded(NamedTuple):
    """The results of all checks before our server, and the recorded runs by id."""

    results: list[Result]
    runs: dict[str, Run]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    """The checks before our server that speaks these versions, with leave to write; run once."""

    @functools.cache
    def recorded_before(versions: str) -> Recorded:
        runs: dict[str, Run] = {}
        with recording(runs):
            results = _judged(tmp_path_factory.mktemp("judged"), versions=versions, write=".")
        return Recorded(results, runs)

    return recorded_before
