"""The listeners of an RDMA server: one for each provider, which share their addresses where they can."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Collection, Sequence

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.provider import Link, LinkListener, Provider, ProviderInUse
from rpcrdma.aio.drivers.sockets import authority

__all__ = ["RdmaListeners"]

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - to be recognised


class RdmaListeners:
    """The listeners of an RDMA server, one for each provider.

    `on_link` is called with each link that a peer makes over any provider; `log` gets failures that peers can cause.
    """

    def __init__(self, on_link: Callable[[Link], None], log: LimitedLog) -> None:
        self._on_link = on_link
        self._log = log
        self._listeners: dict[str, LinkListener] = {}

    async def listen(
        self, host: str, port: int, providers: Sequence[Provider]
    ) -> dict[tuple[str, int], list[ProviderInUse]]:
        """Listens at `host` over each provider that can, at the same port; returns the providers of each address.

        The keys of the result are host and port, the values names of providers and RDMA devices. `providers` are in the
        order of preference, as are those of each address. Port 0 takes a free port. A provider that cannot listen is
        only logged if another can.

        InfiniBand and RoCE have ports of their own beside those of TCP. An iWARP device and the software RNIC compete
        for one port, and either one reaches the other's peers: at an address of the device, the device takes the port;
        at a wildcard address the software RNIC does, because it listens at addresses without a device as well. With
        port 0 the software RNIC listens first and chooses: a free port of TCP is mostly free at RDMA devices, too.

        Raises:
            OSError: no provider can listen there; the error is that of the last of `providers`.
        """
        found: dict[tuple[str, int], list[ProviderInUse]] = {}
        failures: dict[str, OSError] = {}
        for provider in reversed(providers) if host in _EVERYWHERE or not port else providers:
            try:
                added = await self._listener(provider).listen(host, port)
            except OSError as error:
                failures[provider.name] = error
                continue
            port = added[0].port
            for place in added:
                found.setdefault((place.host, place.port), []).append(ProviderInUse(provider.name, place.device))
        if not found:
            raise failures[providers[-1].name]
        for used in found.values():
            used.sort(key=lambda each: [provider.name for provider in providers].index(each.provider))
        for name, failure in failures.items():
            # An address without a device is no reason to tell of devices.
            level = logging.DEBUG if failure.errno in (errno.ENODEV, errno.EADDRNOTAVAIL) else logging.INFO
            where = authority(host, port)
            self._log.log(level, f"no {name} {where}", "%s: not by provider %s: %s", where, name, _cause(failure))
        return found

    def _listener(self, provider: Provider) -> LinkListener:
        listener = self._listeners.get(provider.name)
        if listener is None:
            listener = self._listeners[provider.name] = provider.listener(self._on_link, self._log)
        return listener

    def stop(self, places: Collection[tuple[str, int]]) -> None:
        """Stops accepting links at some hosts and ports, over every provider; connections stay.

        `places` are keys of the results of `listen`; those at which nothing listens are ignored.
        """
        for listener in self._listeners.values():
            listener.stop(places)

    def close(self) -> None:
        """Stops accepting links at every address; connections stay."""
        for listener in self._listeners.values():
            listener.close()


def _cause(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
