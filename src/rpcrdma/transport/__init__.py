"""RPC-over-RDMA over any queue pair, in every version of `dialects`.

`Endpoint` is the interface of a connection; all other exports are its arguments and results.
"""

from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport.awaited_answers import ExtensionError, ExtensionRefused
from rpcrdma.transport.call import Call, IncomingCall
from rpcrdma.transport.carriers import (
    Batcher,
    CallToCarry,
    CarriedCall,
    CarriedReply,
    CarriedResults,
    Carrier,
    IncomingItems,
    ResponseGroup,
    Transmission,
)
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk, fill, segments_needed
from rpcrdma.transport.config import ReverseSupport, Role, TransportConfig
from rpcrdma.transport.connection_extensions import check_extensions
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
from rpcrdma.transport.exposure import Returned, returned_length
from rpcrdma.transport.extensions import (
    ErrorRow,
    Extension,
    ExtensionLink,
    ExtensionMessage,
    HeaderRow,
    PropertyRow,
)
from rpcrdma.transport.message import Cause, Inbound, Kind, Refusal
from rpcrdma.transport.message_memory import BufferSource
from rpcrdma.transport.plan_call import REPLY_ALLOWANCE_OCTETS, CallPlan, PlanLimits
from rpcrdma.transport.plan_reply import ReplyForm, ReplyPlan
from rpcrdma.transport.properties import Properties
from rpcrdma.transport.reactions import CallForm
from rpcrdma.transport.refusals import CallRefused, ChunkRefused, VersionRefused
from rpcrdma.transport.statistics import TransportStatistics, add_up, linux_counters

__all__ = [
    "NO_CHUNKS",
    "REPLY_ALLOWANCE_OCTETS",
    "VERSION_CHOICES",
    "Batcher",
    "BufferSource",
    "Call",
    "CallArrived",
    "CallFailed",
    "CallForm",
    "CallPlan",
    "CallRefused",
    "CallToCarry",
    "CarriedCall",
    "CarriedReply",
    "CarriedResults",
    "Carrier",
    "Cause",
    "ChunkLists",
    "ChunkRefused",
    "Closed",
    "Endpoint",
    "EndpointEvent",
    "ErrorRow",
    "Extension",
    "ExtensionError",
    "ExtensionLink",
    "ExtensionMessage",
    "ExtensionRefused",
    "HeaderRow",
    "Inbound",
    "IncomingCall",
    "IncomingItems",
    "Kind",
    "PlanLimits",
    "Properties",
    "PropertyRow",
    "ReadChunk",
    "Ready",
    "Refusal",
    "ReplyArrived",
    "ReplyBound",
    "ReplyForm",
    "ReplyPlan",
    "ReplySent",
    "ResponseGroup",
    "Returned",
    "ReverseSupport",
    "Role",
    "Segment",
    "Transmission",
    "TransportConfig",
    "TransportStatistics",
    "VersionRefused",
    "WriteChunk",
    "add_up",
    "check_extensions",
    "fill",
    "linux_counters",
    "offered",
    "receive_octets",
    "returned_length",
    "segments_needed",
    "version_choice",
]
