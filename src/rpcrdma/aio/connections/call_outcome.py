"""How calls of this side ended without a result, as the statuses under which they are counted."""

from __future__ import annotations

import asyncio
from typing import Any

from rpcrdma.errors import (
    CallTimeout,
    DecodeError,
    LocalProtocolError,
    MessageTooLong,
    RemoteProtocolError,
    TransportClosed,
)
from rpcrdma.rpc.call_statistics import CANCELLED, CONNECTION_LOST, NOT_SENT, OTHER, TIMEOUT, CallStatistics
from rpcrdma.rpc.errors import (
    AuthError,
    GarbageArguments,
    NoSuchProcedure,
    ProgramMismatch,
    ProgramUnavailable,
    RemoteSystemError,
    RpcVersionMismatch,
)
from rpcrdma.rpc.program import Procedure
from rpcrdma.transport import CallRefused, ChunkRefused, VersionRefused

__all__ = ["count_failure", "status_of"]

_STATUSES: tuple[tuple[type[BaseException], str], ...] = (
    (CallTimeout, TIMEOUT),
    (asyncio.CancelledError, CANCELLED),
    (TransportClosed, CONNECTION_LOST),
    (ProgramUnavailable, "PROG_UNAVAIL"),
    (ProgramMismatch, "PROG_MISMATCH"),
    (NoSuchProcedure, "PROC_UNAVAIL"),
    (GarbageArguments, "GARBAGE_ARGS"),
    (RemoteSystemError, "SYSTEM_ERR"),
    (RpcVersionMismatch, "RPC_MISMATCH"),
    (AuthError, "AUTH_ERROR"),
    (CallRefused, "RDMA_ERROR"),
    (ChunkRefused, "RDMA_ERROR"),
    (VersionRefused, "RDMA_ERROR"),
    (MessageTooLong, "TOO_LONG"),
    (DecodeError, "DECODE_ERROR"),
    (RemoteProtocolError, "PROTOCOL_ERROR"),
    (LocalProtocolError, NOT_SENT),
)


def status_of(error: BaseException) -> str:
    """The name under which a call that ended with `error` is counted."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), OTHER)


def count_failure(
    statistics: CallStatistics | None,
    procedure: Procedure[Any, Any],
    error: BaseException,
    *,
    began_ns: int,
    sent_ns: int,
    now_ns: int,
    octets_sent: int = 0,
    octets_received: int = 0,
    transmissions: int = 1,
) -> None:
    """Counts a call that ended with `error` now; `sent_ns` is 0, and so are the octets, if it was never sent."""
    if statistics is None:
        return
    counts = statistics.of(procedure, status_of(error))
    counts.bytes_recv += octets_received
    if sent_ns:
        counts.bytes_sent += octets_sent
        counts.sent_again += transmissions - 1
    else:
        counts.sent_again -= 1
    if isinstance(error, TransportClosed):
        counts.add_untimed(1)
    elif not sent_ns:
        counts.add_parts(now_ns - began_ns, 0)
    else:
        counts.add_parts(sent_ns - began_ns, now_ns - sent_ns)
