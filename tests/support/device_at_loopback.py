"""An RDMA device of this machine as the provider of the loopback address, which tests use and no device has."""

from __future__ import annotations

from collections.abc import Callable

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.provider import Link, LinkListener, Listening
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.verbs.device_memory import has_windows

__all__ = ["DeviceAtLoopback"]

_LOOPBACK = "127.0.0.1"


def _shown(link: Link) -> Link:
    """With the address that tests know."""
    for end in ("local", "peer"):
        setattr(link, end, (_LOOPBACK, getattr(link, end)[1]))
    return link


class _Listener:
    def __init__(self, below: LinkListener, address: str) -> None:
        self._below = below
        self._address = address

    async def listen(self, host: str, port: int) -> list[Listening]:
        added = await self._below.listen(self._address if host == _LOOPBACK else host, port)
        return [each._replace(host=host) for each in added]

    def close(self) -> None:
        self._below.close()


class DeviceAtLoopback:
    """The provider `verbs`; `address` is the device's."""

    name = VerbsProvider.name

    def __init__(self, address: str) -> None:
        self._below = VerbsProvider()
        self._address = address

    @property
    def has_windows(self) -> bool:
        """Whether the machine's devices have memory windows."""
        return all(has_windows(device) for device in self._below.binding().devices())

    async def connect(self, host: str, port: int, *, reserved_port: bool = False) -> Link:
        place = self._address if host == _LOOPBACK else host
        return _shown(await self._below.connect(place, port, reserved_port=reserved_port))

    def listener(self, on_link: Callable[[Link], None], log: LimitedLog) -> LinkListener:
        return _Listener(self._below.listener(lambda link: on_link(_shown(link)), log), self._address)

    def explain_unmade(self, where: str, cause: str) -> str:
        return self._below.explain_unmade(where, cause)
