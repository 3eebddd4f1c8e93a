"""A provider with a preset distance of its peers: for tests of choices by distance, and for relays that hide it.

A relay that delays octets ends TCP connections, so that the kernel measures only the distance to the relay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.provider import Driver, Link, LinkListener, Provider

__all__ = ["FarProvider"]


class _Except:
    """A proxy of the object `other`: has its attributes, except that each name in `attributes` has the value there."""

    def __init__(self, other: object, **attributes: object) -> None:
        self._other = other
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)


class FarProvider:
    """Wraps a provider so that its drivers report a preset round trip; implements `rpcrdma.provider.Provider`.

    Args:
        provider: the other provider.
        round_trip_s: the round trip that drivers report, in seconds; None for unknown.
    """

    def __init__(self, provider: Provider, round_trip_s: float | None) -> None:
        self._provider = provider
        self._round_trip_s = round_trip_s
        self.name = provider.name

    def _far(self, link: Link) -> Link:
        def opened(*args: Any) -> Driver:
            return cast("Driver", _Except(link.open(*args), round_trip_s=self._round_trip_s))

        return cast("Link", _Except(link, open=opened))

    async def connect(self, host: str, port: int, *, reserved_port: bool = False) -> Link:
        return self._far(await self._provider.connect(host, port, reserved_port=reserved_port))

    def listener(self, on_link: Callable[[Link], None], log: LimitedLog) -> LinkListener:
        return self._provider.listener(lambda link: on_link(self._far(link)), log)

    def explain_unmade(self, where: str, cause: str) -> str:
        return self._provider.explain_unmade(where, cause)
