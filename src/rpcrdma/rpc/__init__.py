"""ONC RPC version 2 (RFC 5531): programs, their calls and their handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcrdma.deferred import deferred

if TYPE_CHECKING:
    from rpcrdma.rpc.auth import AuthFlavor, AuthStat
    from rpcrdma.rpc.call_statistics import by_procedure
    from rpcrdma.rpc.client_stub import CallMethod, ClientStub, SyncClientStub, VoidCallMethod, WaitingCaller
    from rpcrdma.rpc.loaded_interface import load_interface
    from rpcrdma.rpc.program import Caller, OctetsMax, Procedure, Program, null_procedure
    from rpcrdma.rpc.reply_bound import ReplyBound
    from rpcrdma.rpc.service import (
        MAY_BLOCK,
        ActAs,
        CallContext,
        ProcedureUnavailable,
        ReverseCaller,
        Service,
        Steps,
        in_worker,
        inline_or_worker,
    )

__all__ = [
    "MAY_BLOCK",
    "ActAs",
    "AuthFlavor",
    "AuthStat",
    "CallContext",
    "CallMethod",
    "Caller",
    "ClientStub",
    "OctetsMax",
    "Procedure",
    "ProcedureUnavailable",
    "Program",
    "ReplyBound",
    "ReverseCaller",
    "Service",
    "Steps",
    "SyncClientStub",
    "VoidCallMethod",
    "WaitingCaller",
    "by_procedure",
    "in_worker",
    "inline_or_worker",
    "load_interface",
    "null_procedure",
]

__getattr__, __dir__ = deferred(
    __name__,
    {
        "rpcrdma.rpc.auth": ("AuthFlavor", "AuthStat"),
        "rpcrdma.rpc.call_statistics": ("by_procedure",),
        "rpcrdma.rpc.loaded_interface": ("load_interface",),
        "rpcrdma.rpc.client_stub": ("CallMethod", "ClientStub", "SyncClientStub", "VoidCallMethod", "WaitingCaller"),
        "rpcrdma.rpc.program": ("Caller", "OctetsMax", "Procedure", "Program", "null_procedure"),
        "rpcrdma.rpc.reply_bound": ("ReplyBound",),
        "rpcrdma.rpc.service": (
            "MAY_BLOCK",
            "ActAs",
            "CallContext",
            "ProcedureUnavailable",
            "ReverseCaller",
            "Service",
            "Steps",
            "in_worker",
            "inline_or_worker",
        ),
    },
)
