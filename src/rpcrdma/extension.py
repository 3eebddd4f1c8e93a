"""Extensions of RPC-over-RDMA version 2: their interface, and the choice of the round-trip extension."""

from __future__ import annotations

from rpcrdma.rtr.config import EXTENSION_CHOICES, Costs, Preference, RoundTripConfig
from rpcrdma.rtr.extension import RoundTrip
from rpcrdma.transport.awaited_answers import ExtensionError, ExtensionRefused
from rpcrdma.transport.carriers import Batcher
from rpcrdma.transport.chunks import NO_CHUNKS
from rpcrdma.transport.dialects import VERSION_CHOICES
from rpcrdma.transport.extensions import ErrorRow, Extension, ExtensionLink, ExtensionMessage, HeaderRow, PropertyRow
from rpcrdma.transport.message import Cause, Inbound

__all__ = [
    "EXTENSION_CHOICES",
    "NO_CHUNKS",
    "VERSION_CHOICES",
    "Batcher",
    "Cause",
    "Costs",
    "ErrorRow",
    "Extension",
    "ExtensionError",
    "ExtensionLink",
    "ExtensionMessage",
    "ExtensionRefused",
    "HeaderRow",
    "Inbound",
    "Preference",
    "PropertyRow",
    "RoundTrip",
    "RoundTripConfig",
]
