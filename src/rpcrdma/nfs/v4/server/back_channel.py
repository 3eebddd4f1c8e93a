"""The calls of a server of NFS version 4.1 to its clients: CB_RECALL, one at a time for each client.

The state queues delegations to be recalled, and wakes this module in its event loop. A recall whose call fails is
tried again with the next sweep, over whatever connection the client has bound by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable
from typing import Any, Final

from rpcrdma.errors import RpcRdmaError
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.server.clients import Client, Delegation
from rpcrdma.nfs.v4.server.sessions import Nfs4Session
from rpcrdma.nfs.v4.server.state import State
from rpcrdma.nfs.v4.session_slots import SEQUENCES
from rpcrdma.nfs.v4.state_limits import NFS4_RECALLS_MAX
from rpcrdma.rpc.host_shares import HostShares
from rpcrdma.rpc.reply_bound import ReplyBound

__all__ = ["Recalls"]

_LOGGER = logging.getLogger("rpcrdma")

_CALL_S: Final = 10.0
"""Seconds for an answer: a client that is alive answers a recall at once, and gives the delegation back later."""
_REPLY_OCTETS: Final = 256
_REPEATED: Final = {nfs4.nfsstat4.NFS4ERR_RETRY_UNCACHED_REP, nfs4.nfsstat4.NFS4ERR_SEQ_FALSE_RETRY}
"""Statuses of a client that has run a request with the same number, whose reply was lost: the next number is free."""


class Recalls:
    """Sends CB_RECALL for the delegations in `State.recalls`, in tasks of an event loop, one at a time for each client.

    The constructor sets the callbacks `wake` and `wake_broken` of `state` and `wake` of its claims: called in any
    thread, they schedule the recalls in the event loop. A service makes an instance with its first call.

    Args:
        state: the state of the server.
        loop: the event loop of the connections.
        clock: returns the time by which the state measures leases, in seconds.
    """

    def __init__(self, state: State, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._state = state
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()
        self._of_hosts = HostShares(NFS4_RECALLS_MAX)
        """The running tasks, each of which waits for one client's answer, by the clients' hosts."""
        self._waiting: dict[Client, dict[Delegation, None]] = {}
        """The delegations to recall, in order, of clients for which no task runs."""
        self._running: dict[Client, dict[Delegation, None]] = {}
        """The delegations to recall of clients for which a task runs: a session has one slot in use."""
        self._starts_soon = False
        state.wake = self._start_soon
        state.wake_broken = lambda: self._soon(lambda: state.recall_broken(clock()))
        state.claims.wake = lambda found: self._soon(lambda: state.recall_present(found, clock()))

    def _soon(self, function: Callable[[], None]) -> None:
        """Schedules a call of `function` in the event loop, from any thread; no effect once the loop is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def _start_soon(self) -> None:
        # Once for all recalls of a file that thousands of clients have: `_start` looks at each client that waits.
        if not self._starts_soon:
            self._starts_soon = True
            self._soon(self._start)

    def _start(self) -> None:
        # First: a recall that comes from now on may be found too late.
        self._starts_soon = False
        recalls = self._state.recalls
        while recalls:
            delegation = recalls.popleft()
            client = delegation.client
            (self._running if client in self._running else self._waiting).setdefault(client, {})[delegation] = None
        for client in list(self._waiting):
            if self._of_hosts.left(client.host) <= 0:
                continue
            self._of_hosts.add(client.host, 1)
            self._running[client] = self._waiting.pop(client)
            task = self._loop.create_task(self._recall(client, self._running[client]))
            self._tasks.add(task)
            task.add_done_callback(functools.partial(self._ended, client))

    def _ended(self, client: Client, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._of_hosts.add(client.host, -1)
        left = self._running.pop(client)
        if left:
            self._waiting[client] = left
        failure = None if task.cancelled() else task.exception()
        if failure is not None and not isinstance(failure, RpcRdmaError):
            _LOGGER.error("a fault in a recall, which is made again", exc_info=failure)
        self._start_soon()

    async def _recall(self, client: Client, delegations: dict[Delegation, None]) -> None:
        """Sends CB_RECALL for each key of `delegations` that the client still has, in order, and empties the dict.

        Passes over those whose recall the client has accepted, and sets `Delegation.asked` of the others to whether the
        client accepts. A delegation stays in the dict until its call ends, so that no sweep meanwhile queues it again.
        Ends early if the client has no connection, or by RpcRdmaError if a call fails, and then drops the keys left:
        `State.sweep` queues them again, and a client that does not answer does not delay other clients.
        """
        try:
            while delegations:
                delegation = next(iter(delegations))
                with self._state.lock:
                    session = self._state.sessions.with_back_channel(client)
                if session is None:
                    return
                held = client.held.get(delegation.key) is delegation and delegation.lost is None
                # A sweep may have seen it just before the answer.
                if held and not delegation.asked:
                    delegation.asked = await self._ask(session, delegation)
                del delegations[delegation]
        finally:
            delegations.clear()

    async def _ask(self, session: Nfs4Session, delegation: Delegation) -> bool:
        """Sends CB_RECALL and waits for the reply; returns whether the client has accepted the recall.

        Tries once more, with the next sequence number, if the client has used this number before. Returns False without
        a connection, or if the client answers with an error. Raises RpcRdmaError if the call fails, or has no reply
        within `_CALL_S` (10) seconds.
        """
        channel = session.back_channel
        procedure = dataclasses.replace(nfs4.CB_COMPOUND, program=channel.program, bound=ReplyBound(_REPLY_OCTETS))
        recalled = nfs4.CB_RECALL4args(nfs4.stateid4(delegation.seqid, delegation.other), False, delegation.handle)
        for _ in range(2):
            caller = channel.caller
            if caller is None:
                return False
            number = (channel.sequence + 1) % SEQUENCES
            operations = [
                nfs4.nfs_cb_argop4(
                    nfs4.nfs_cb_opnum4.OP_CB_SEQUENCE, nfs4.CB_SEQUENCE4args(session.id, number, 0, 0, False, [])
                ),
                nfs4.nfs_cb_argop4(nfs4.nfs_cb_opnum4.OP_CB_RECALL, recalled),
            ]
            reply: Any = await caller.call(
                procedure,
                nfs4.CB_COMPOUND4args(b"", channel.minor_version, 0, operations),
                timeout_s=_CALL_S,
                credential=channel.credential,
            )
            if len(reply.resarray) > 1 or reply.status in _REPEATED:
                channel.sequence = number
            if reply.status not in _REPEATED:
                return bool(reply.status == nfs4.nfsstat4.NFS4_OK)
        return False
