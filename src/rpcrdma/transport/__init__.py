"""RPC-over-RDMA over any queue pair, in every version that `dialects` has.

`Endpoint` is the whole interface of a connection; everything else here is what it takes and gives.
"""

from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport.calls import CallHandle, IncomingCall
from rpcrdma.transport.chunks import Segment
from rpcrdma.transport.config import ReverseSupport, Role, TransportConfig
from rpcrdma.transport.dialects import VERSION_CHOICES, offered, receive_octets, version_choice
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
from rpcrdma.transport.extensions import (
    ErrorRow,
    Extension,
    ExtensionError,
    ExtensionLink,
    ExtensionMessage,
    HeaderRow,
    PropertyRow,
    check_extensions,
)
from rpcrdma.transport.properties import Properties
from rpcrdma.transport.refusals import CallRefused, ChunkRefused, VersionRefused
from rpcrdma.transport.responder import BufferSource
from rpcrdma.transport.statistics import TransportStatistics, add_up, linux_counters

__all__ = [
    "VERSION_CHOICES",
    "BufferSource",
    "CallArrived",
    "CallFailed",
    "CallHandle",
    "CallRefused",
    "ChunkRefused",
    "Closed",
    "Endpoint",
    "EndpointEvent",
    "ErrorRow",
    "Extension",
    "ExtensionError",
    "ExtensionLink",
    "ExtensionMessage",
    "HeaderRow",
    "IncomingCall",
    "Properties",
    "PropertyRow",
    "Ready",
    "ReplyArrived",
    "ReplyBound",
    "ReplySent",
    "ReverseSupport",
    "Role",
    "Segment",
    "TransportConfig",
    "TransportStatistics",
    "VersionRefused",
    "add_up",
    "check_extensions",
    "linux_counters",
    "offered",
    "receive_octets",
    "version_choice",
]
