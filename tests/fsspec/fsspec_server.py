"""A server in fsspec's own event loop, beside the clients: the tests wait for calls in the main thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsspec.asyn import get_loop

from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.fsspec.mounts import close_all_mounts
from rpcrdma.nfs.server import Export, build_services, open_state

__all__ = ["SCHEMES", "RunningServer", "Served", "at"]

SCHEMES = {"rdma": "rdma", "nfstcp": "tcp"}


def at(top: Path, name: str = "") -> str:
    """The path at the server of `name` in the directory of a test."""
    return f"/data/{top.name}/{name}".rstrip("/")


@dataclass(frozen=True, slots=True)
class Served:
    """A server that exports `directory` as /data, and `directory`/deep as /data/deep and /other."""

    directory: Path
    ports: dict[str, int]

    def options(self, protocol: str) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.ports[SCHEMES[protocol]], "mountport": self.ports["tcp"]}

    def path(self, protocol: str, path: str) -> str:
        """The path as a URL of it is stripped."""
        return f"127.0.0.1:{self.ports[SCHEMES[protocol]]}+{self.ports['tcp']}{path}"

    def url(self, protocol: str, path: str) -> str:
        return f"{protocol}://127.0.0.1:{self.ports[SCHEMES[protocol]]}{path}?mountport={self.ports['tcp']}"


class RunningServer:
    """A context that holds while the server listens, for the directory that it exports."""

    def __init__(self, directory: Path, state: Path) -> None:
        self._directory = directory
        (directory / "deep").mkdir(exist_ok=True)
        self._state = state
        self._begun: concurrent.futures.Future[dict[str, int]] = concurrent.futures.Future()
        self._end = asyncio.Event()
        self._loop = get_loop()
        self._ended = asyncio.run_coroutine_threadsafe(self._serve(), self._loop)

    def __enter__(self) -> Served:
        concurrent.futures.wait((self._begun, self._ended), return_when=concurrent.futures.FIRST_COMPLETED)
        if self._ended.done():
            self._ended.result()
        return Served(self._directory, self._begun.result())

    def __exit__(self, *_: object) -> None:
        """Ends the clients first: they would try to connect again during all later tests of this process."""
        close_all_mounts()
        self._loop.call_soon_threadsafe(self._end.set)
        self._ended.result()

    async def _serve(self) -> None:
        state = open_state(self._state, secrets.token_bytes)
        deep = self._directory / "deep"
        exports = [
            Export(name=name, directory=directory, root_squash=False, synchronous=False)
            for name, directory in (("/data", self._directory), ("/data/deep", deep), ("/other", deep))
        ]
        services = build_services(exports, state=state)
        try:
            async with serve(services, [f"{scheme}://127.0.0.1:0" for scheme in SCHEMES.values()]) as server:
                urls = [parse_url(url) for url in server.listening]
                self._begun.set_result({url.scheme: url.port for url in urls})
                await self._end.wait()
        finally:
            services.nfs.close()
            state.close()
