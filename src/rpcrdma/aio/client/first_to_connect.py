"""The first of several providers over which a server can be reached.

A device that reaches a server's address does not prove that the server listens over devices, and the kernel keeps
trying for a minute. So the next provider starts when the one before has failed or has used up its head start. A
provider over which the server stayed silent is tried last for some time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.client.rdma_dialer import RdmaDialer, end_attempts, with_added_cause
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed, HostNotFound, NotPermitted

__all__ = ["first_connection"]

_LOGGER = logging.getLogger("rpcrdma.client")
_HEAD_START_S = 1.0
"""How long a provider tries before the next one tries as well: a server that listens over the first has answered by
then, and a caller of a server that does not is not kept waiting for long."""


async def first_connection(dialers: Sequence[RdmaDialer], known: KnownServers) -> RdmaConnection:
    """Returns the connection of the dialer that makes one first; the attempts of the others are ended.

    A dialer begins when the one before has failed or has tried for 1 s.

    Args:
        dialers: one for each provider of RDMA, in the order of preference, all to the same server.
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
            waiting[0].provider.name,
        )


def _cause(dialer: RdmaDialer, error: ConnectFailed) -> str:
    cause, semicolon, remedy = str(error).rpartition("; ")
    return (cause if semicolon else remedy).removeprefix(f"cannot connect to {dialer.url.authority}: ")


def _all_failed(failures: dict[RdmaDialer, ConnectFailed], last: RdmaDialer) -> ConnectFailed:
    error = failures.pop(last)
    others = "".join(f", and by {dialer.provider.name}: {_cause(dialer, each)}" for dialer, each in failures.items())
    return with_added_cause(error, others)
