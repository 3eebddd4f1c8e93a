"""RPC-over-RDMA version 1 (RFC 8166) over any queue pair.

`Endpoint` is the whole interface of a connection; everything else here is what it takes and gives.
"""

from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport.calls import CallHandle, IncomingCall
from rpcrdma.transport.config import Role, TransportConfig
from rpcrdma.transport.endpoint import Endpoint
from rpcrdma.transport.events import (
    CallArrived,
    CallFailed,
    Closed,
    EndpointEvent,
    Ready,
    ReplyArrived,
    ReplySent,
)
from rpcrdma.transport.refusals import ChunkRefused, VersionRefused
from rpcrdma.transport.responder import BufferSource
from rpcrdma.transport.statistics import TransportStatistics, add_up, linux_counters

__all__ = [
    "BufferSource",
    "CallArrived",
    "CallFailed",
    "CallHandle",
    "ChunkRefused",
    "Closed",
    "Endpoint",
    "EndpointEvent",
    "IncomingCall",
    "Ready",
    "ReplyArrived",
    "ReplyBound",
    "ReplySent",
    "Role",
    "TransportConfig",
    "TransportStatistics",
    "VersionRefused",
    "add_up",
    "linux_counters",
]
