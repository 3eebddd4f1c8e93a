"""One address of a server over several providers: their order, their port and their failures."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Collection
from typing import Any, cast

import pytest

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.provider import Listening, Provider, ProviderInUse
from rpcrdma.aio.server.rdma_listeners import RdmaListeners
from support.cases import each_case

Asked = list[tuple[str, str, int]]


class Listener:
    """Notes where it is told to listen; fails there with the errno of its provider."""

    def __init__(self, name: str, asked: Asked, failure: int) -> None:
        self._name, self._asked, self._failure = name, asked, failure
        self.closed = False
        self.stopped: list[tuple[str, int]] = []

    async def listen(self, host: str, port: int) -> list[Listening]:
        self._asked.append((self._name, host, port))
        if self._failure:
            raise OSError(self._failure, os.strerror(self._failure))
        return [Listening(host, port or 7, f"{self._name}0")]

    def stop(self, places: Collection[tuple[str, int]]) -> None:
        self.stopped += places

    def close(self) -> None:
        self.closed = True


class Listens:
    """A provider of which only the listener is used."""

    def __init__(self, name: str, asked: Asked, failure: int = 0) -> None:
        self.name = name
        self.made: list[Listener] = []
        self._make: Callable[[], Listener] = lambda: Listener(name, asked, failure)

    def listener(self, *_: object) -> Listener:
        self.made.append(self._make())
        return self.made[-1]


def listening(
    host: str, port: int, failures: tuple[int, int] = (0, 0), *, times: int = 1
) -> tuple[Asked, Any, list[Listens]]:
    """Where the providers were told to listen, the outcome of the last time, and the providers."""
    asked: Asked = []
    providers = [Listens(name, asked, failure) for name, failure in zip(("first", "second"), failures, strict=True)]

    async def main() -> object:
        listeners = RdmaListeners(lambda _link: None, LimitedLog(logging.getLogger("rpcrdma.test")))
        for _ in range(times):
            found = await listeners.listen(host, port, cast("list[Provider]", providers))
        listeners.stop([(host, port)])
        listeners.close()
        return found

    return asked, asyncio.run(main()), providers


BOTH = [ProviderInUse("first", "first0"), ProviderInUse("second", "second0")]


@each_case(
    ("host", "port", "order"),
    [
        ("192.0.2.1", 5, ["first", "second"]),
        ("192.0.2.1", 0, ["second", "first"]),
        ("0.0.0.0", 5, ["second", "first"]),
        ("::", 5, ["second", "first"]),
    ],
)
def test_the_last_provider_goes_first_where_it_chooses_the_port_or_listens_everywhere(
    host: str, port: int, order: list[str]
) -> None:
    asked, found, _ = listening(host, port)
    assert asked == [(order[0], host, port), (order[1], host, port or 7)]
    assert found == {(host, port or 7): BOTH}


def test_a_provider_has_one_listener_which_is_closed() -> None:
    _, _, providers = listening("192.0.2.1", 5, times=3)
    assert [[made.closed for made in provider.made] for provider in providers] == [[True], [True]]
    assert [[made.stopped for made in provider.made] for provider in providers] == [[[("192.0.2.1", 5)]]] * 2


@each_case(
    ("failures", "used", "told"),
    [
        ((errno.EADDRINUSE, 0), BOTH[1:], ["192.0.2.1:5: not by provider first: address already in use"]),
        ((0, errno.EADDRINUSE), BOTH[:1], ["192.0.2.1:5: not by provider second: address already in use"]),
        ((errno.ENODEV, 0), BOTH[1:], []),
    ],
)
def test_one_provider_is_enough(
    failures: tuple[int, int], used: list[ProviderInUse], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert listening("192.0.2.1", 5, failures)[1] == {("192.0.2.1", 5): used}
    assert caplog.messages == told


@each_case("host", ["192.0.2.1", "::"])
def test_where_none_can_the_last_ones_reason_counts(host: str) -> None:
    with pytest.raises(PermissionError):
        listening(host, 5, (errno.ENODEV, errno.EACCES))
