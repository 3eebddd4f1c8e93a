"""The vocabulary between the transport and an RDMA provider: memory, work requests, completions, connections."""

from rpcrdma.verbs.protection_domain import (
    Access,
    MemoryRegion,
    ProtectionDomain,
    RegistrationCounts,
    SoftwareProtectionDomain,
)
from rpcrdma.verbs.queue_pair import (
    Completion,
    ConnectRequested,
    Disconnected,
    Established,
    QueuePair,
    QueuePairEvent,
    Status,
    Verb,
)
from rpcrdma.verbs.receive_pool import ReceiveBuffer, ReceivePool, ReceiveSource, ScatteredBuffer

__all__ = [
    "Access",
    "Completion",
    "ConnectRequested",
    "Disconnected",
    "Established",
    "MemoryRegion",
    "ProtectionDomain",
    "QueuePair",
    "QueuePairEvent",
    "ReceiveBuffer",
    "ReceivePool",
    "ReceiveSource",
    "RegistrationCounts",
    "ScatteredBuffer",
    "SoftwareProtectionDomain",
    "Status",
    "Verb",
]
