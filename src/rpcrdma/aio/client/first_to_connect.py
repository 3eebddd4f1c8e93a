"""The first of several providers, or addresses of its host, over which a server can be reached.

A device that reaches a server's address does not prove that the server listens over devices, and the kernel keeps
trying for a minute. So the next provider starts when the one before has failed or has used up its head start. A
provider over which the server stayed silent is tried last for some time. The addresses of a host that RDMA devices
reach are tried in the same way, one after the other; the software RNIC tries all of them itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.client.rdma_dialer import RdmaDialer, end_attempts, with_added_cause
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.drivers.provider import Provider
from rpcrdma.aio.drivers.sockets import addresses_of, unanswered
from rpcrdma.aio.urls import Url
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed, HostNotFound, NotPermitted

__all__ = ["first_connection", "urls_to_try"]

_LOGGER = logging.getLogger("rpcrdma.client")
_HEAD_START_S = 1.0
"""How long a provider tries before the next one tries as well: a server that listens over the first has answered by
then, and a caller of a server that does not is not kept waiting for long."""


async def urls_to_try(provider: Provider, url: Url, timeout_s: float) -> list[Url]:
    """Returns the URLs at which a provider is to try the server of `url`.

    An RDMA device tries one address of a host alone: it gets a URL for each address, with the address in place of the
    host's name. Other providers, and a host with one address, get `url` itself.

    Raises:
        HostNotFound: the host name has no address, or no name server answers.
        ConnectFailed: the addresses are not known within `timeout_s` seconds.
    """
    if provider.name != "verbs":
        return [url]
    try:
        async with asyncio.timeout(timeout_s):
            found = await addresses_of(url.host, url.port)
    except TimeoutError:
        raise unanswered(url.server, timeout_s) from None
    addresses = [address for *_, address in found]
    # A link-local IPv6 address is of use only with its interface, the fourth item.
    hosts = dict.fromkeys(f"{each[0]}%{each[3]}" if each[3:] and each[3] else each[0] for each in addresses)
    return [replace(url, host=host) for host in hosts] if len(hosts) > 1 else [url]


async def first_connection(dialers: Sequence[RdmaDialer], known: KnownServers) -> RdmaConnection:
    """Returns the connection of the dialer that makes one first; the attempts of the others are ended.

    A dialer begins when the one before has failed or has tried for 1 s.

    Args:
        dialers: one for each provider of RDMA and each of its URLs (`urls_to_try`), in the order of preference, all to
            the same server.
        known: remembers the providers over which the server is silent, whose dialers begin last; updated.

    Raises:
        ConnectFailed: no dialer makes a connection; the message names the causes, and the remedy of the last dialer.
        HostNotFound, NotPermitted, HostAuthenticationFailed: the failure of a dialer, which the others would share.
    """
    now_s = asyncio.get_running_loop().time
    silent = [dialer for dialer in dialers if known.is_silent(dialer.server, now_s())]
    waiting = [dialer for dialer in dialers if dialer not in silent]
    for dialer in silent:
        _tell(dialer, "no answer lately", waiting)
    waiting += silent
    running: dict[asyncio.Task[RdmaConnection], RdmaDialer] = {}
    failures: dict[RdmaDialer, ConnectFailed] = {}
    try:
        while True:
            if waiting:
                dialer = waiting.pop(0)
                running[asyncio.ensure_future(dialer.dial())] = dialer
            timeout_s = _HEAD_START_S if waiting else None
            await asyncio.wait(running, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            unanswered: list[RdmaDialer] = []
            for task, dialer in list(running.items()):
                if not task.done():
                    unanswered.append(dialer)
                    _tell(dialer, f"no answer for {_HEAD_START_S:g} s", waiting)
                    continue
                del running[task]
                try:
                    connection = task.result()
                except (HostAuthenticationFailed, HostNotFound, NotPermitted):
                    raise
                except ConnectFailed as error:
                    failures[dialer] = error
                    _tell(dialer, _cause(dialer, error), waiting)
                else:
                    for earlier in unanswered:
                        known.left_unanswered(earlier.server, now_s())
                    if dialer in silent:
                        known.forget(dialer.server)
                    return connection
            if not running and not waiting:
                raise _all_failed(failures, dialers[-1])
    finally:
        end_attempts(running, None, "another provider was faster")


def _tell(dialer: RdmaDialer, cause: str, waiting: Sequence[RdmaDialer]) -> None:
    if waiting:
        _LOGGER.info(
            "%s by provider %s: %s; trying provider %s",
            dialer.url.authority,
            dialer.provider.name,
            cause,
            _named(waiting[0], dialer),
        )


def _cause(dialer: RdmaDialer, error: ConnectFailed) -> str:
    cause, semicolon, remedy = str(error).rpartition("; ")
    return (cause if semicolon else remedy).removeprefix(f"cannot connect to {dialer.url.authority}: ")


def _named(dialer: RdmaDialer, beside: RdmaDialer) -> str:
    """Returns the name of a dialer's provider, with its host and port unless they are those of `beside`."""
    at = "" if dialer.url.authority == beside.url.authority else f" at {dialer.url.authority}"
    return f"{dialer.provider.name}{at}"


def _all_failed(failures: dict[RdmaDialer, ConnectFailed], last: RdmaDialer) -> ConnectFailed:
    error = failures.pop(last)
    others = "".join(f", and by {_named(dialer, last)}: {_cause(dialer, each)}" for dialer, each in failures.items())
    return with_added_cause(error, others)
