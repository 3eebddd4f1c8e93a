"""Providers of RDMA connections: what authors of further ones implement and use."""

from __future__ import annotations

from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.loopback_provider import LoopbackProvider
from rpcrdma.aio.drivers.provider import Driver, Link, LinkListener, Listening, Provider, Terms
from rpcrdma.aio.drivers.provider_choice import chosen_providers
from rpcrdma.verbs import (
    Access,
    Completion,
    ConnectRequested,
    Disconnected,
    Established,
    MemoryRegion,
    ProtectionDomain,
    QueuePair,
    QueuePairEvent,
    ReceiveBuffer,
    ReceivePool,
    ReceiveSource,
    RegistrationCounts,
    ScatteredBuffer,
    SoftwareProtectionDomain,
    Status,
    Verb,
)
from rpcrdma.verbs.loopback import LoopbackQueuePair

__all__ = [
    "Access",
    "Completion",
    "ConnectRequested",
    "DeadlineTimer",
    "Disconnected",
    "Driver",
    "Established",
    "LimitedLog",
    "Link",
    "LinkListener",
    "Listening",
    "LoopbackProvider",
    "LoopbackQueuePair",
    "MemoryRegion",
    "ProtectionDomain",
    "Provider",
    "QueuePair",
    "QueuePairEvent",
    "ReceiveBuffer",
    "ReceivePool",
    "ReceiveSource",
    "RegistrationCounts",
    "ScatteredBuffer",
    "SoftwareProtectionDomain",
    "Status",
    "Terms",
    "Verb",
    "chosen_providers",
]
