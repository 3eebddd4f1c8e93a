"""Checks without a network, on a clock that jumps: streams of asyncio are local pairs, as those of `local_tcp` are."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

import local_tcp

__all__ = ["run", "streams_are_local"]

T = TypeVar("T")
_OPEN = asyncio.open_connection


async def _open(host: str, port: int, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await _OPEN(sock=await local_tcp.dial(host, port))


class _Server:
    """Stands for `asyncio.Server`."""

    def __init__(self, accepted: Callable[..., Any], port: int) -> None:
        self._accepted = accepted
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.sockets = [SimpleNamespace(getsockname=lambda: ("127.0.0.1", port))]

    def _on_connection(self, sock: local_tcp.LocalSocket) -> None:
        task = asyncio.ensure_future(self._accept(sock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, sock: local_tcp.LocalSocket) -> None:
        served = self._accepted(*await _OPEN(sock=sock))
        if inspect.isawaitable(served):
            await served

    def close(self) -> None:
        local_tcp._LISTENING.pop(self._port, None)

    async def __aenter__(self) -> _Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


async def _start_server(accepted: Callable[..., Any], _host: str, port: int, **_: Any) -> _Server:
    port = port or next(local_tcp._PORTS)
    server = local_tcp._LISTENING[port] = _Server(accepted, port)  # type: ignore[assignment]
    return server


@contextmanager
def streams_are_local() -> Iterator[None]:
    """Has `asyncio.open_connection` and `asyncio.start_server` connect within this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "open_connection", _open)
        patch.setattr(asyncio, "start_server", _start_server)
        yield


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`; no connection leaves the process, and no time passes in vain."""
    with streams_are_local():
        return local_tcp.run(main)
