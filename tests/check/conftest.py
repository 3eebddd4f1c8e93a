"""Our own server before the checks, whole or with a mistake that a test puts in."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import local_streams
import pytest
from recorded_runs import Run, recording

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.drivers.provider import Provider
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.check import (
    CATALOGUE,
    Check,
    Result,
    calling_programs,
    recalled_delegations,
    run_checks,
    spoken_versions,
)
from rpcrdma.check.export_files import prepared_export
from rpcrdma.nfs.server import Export, build_services, open_state
from rpcrdma.nfs.server.watch_service import WatchService
from rpcrdma.scripted import RawTarget

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
    export = directory / "export"
    export.mkdir(exist_ok=True)
    (export / "data").write_bytes(bytes(index * 7 & 0xFF for index in range(9001)))

    async def main() -> list[Result]:
        async with contextlib.AsyncExitStack() as stack:
            state = stack.enter_context(contextlib.closing(open_state(directory / "state", os.urandom)))
            services = build_services([Export(name="/", directory=export, root_squash=False)], state=state)
            stack.enter_context(contextlib.closing(services.nfs))
            watch = WatchService(services.nfs.exports)
            stack.push_async_callback(watch.close)
            options = ServeOptions(rdma=RdmaServerConfig(rpcrdma_version=versions, provider=provider or "iwarp"))
            listen = ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]
            server = await stack.enter_async_context(serve([*services, watch], listen, options=options))
            rdma, tcp = (parse_url(text) for text in server.listening)
            target = RawTarget(host=rdma.host, port=rdma.port, timeout_s=timeout_s, provider=provider)
            opening = ConnectOptions(rpcrdma_version=versions, provider=provider or "iwarp")
            preparing = prepared_export(rdma, opening, mount_port=tcp.port, write=write, fresh_files=1)
            found = await stack.enter_async_context(preparing)
            found.given |= {"program": 100003, "program_version": 3}
            spoken = {} if met else await spoken_versions(target, found.given)
            found.add_spoken(spoken)
            callers = await calling_programs(target, found.given, next(iter(spoken))) if spoken else set()
            for file in found.fresh_files:
                callers |= await recalled_delegations(target, found.given, file)
            return await run_checks(checks, target, found.given, {"risky", *found.met, *callers, *met})

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
