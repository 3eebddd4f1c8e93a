"""The simulated provider for tests that choose a provider before their event loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.provider import Link, LinkListener
from rpcrdma.testing.virtual import PROFILES, Fabric, Node, VirtualLoop

__all__ = ["Simulated", "not_simulated", "run_in_virtual_time"]

T = TypeVar("T")

not_simulated = pytest.mark.providers("iwarp", "loopback", "verbs")
"""Of a test that also uses TCP, other sockets, or threads that wait for it: none of these are in virtual time."""


class _FabricLoop(VirtualLoop):
    def __init__(self) -> None:
        super().__init__()
        self.fabric = Fabric(PROFILES["campus"], loop=self)


class Simulated:
    """A host that connects to itself, at the distance of a campus; made anew in each event loop."""

    name = Node.name

    @property
    def _below(self) -> Node:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _FabricLoop)
        return loop.fabric.node("127.0.0.1")

    async def connect(self, host: str, port: int, *, reserved_port: bool = False) -> Link:
        return await self._below.connect(host, port, reserved_port=reserved_port)

    def listener(self, on_link: Callable[[Link], None], log: LimitedLog) -> LinkListener:
        return self._below.listener(on_link, log)

    def explain_unmade(self, where: str, cause: str) -> str:
        return self._below.explain_unmade(where, cause)


def run_in_virtual_time(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """Takes the place of `asyncio.run`."""
    with asyncio.Runner(debug=debug, loop_factory=_FabricLoop) as runner:
        return runner.run(main)
