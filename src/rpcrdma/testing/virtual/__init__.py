"""An event loop in virtual time, and a simulated fabric under the unchanged transport, RPC and NFS code.

Provisional: other releases may change these names.
"""

from __future__ import annotations

from rpcrdma.testing.virtual.fabric import Fabric, Node
from rpcrdma.testing.virtual.faults import DELIVERED, Delivery, Message, MessageKind
from rpcrdma.testing.virtual.host import End, Host, running_host
from rpcrdma.testing.virtual.loop import Stalled, VirtualLoop, now_s, run
from rpcrdma.testing.virtual.memory import SimulatedProtectionDomain
from rpcrdma.testing.virtual.model import PROFILES, FabricModel
from rpcrdma.testing.virtual.trace import NO_CAUSE, EventKind, Trace, TraceEvent

__all__ = [
    "DELIVERED",
    "NO_CAUSE",
    "PROFILES",
    "Delivery",
    "End",
    "EventKind",
    "Fabric",
    "FabricModel",
    "Host",
    "Message",
    "MessageKind",
    "Node",
    "SimulatedProtectionDomain",
    "Stalled",
    "Trace",
    "TraceEvent",
    "VirtualLoop",
    "now_s",
    "run",
    "running_host",
]
