"""For tests of users' own code: a conformance suite for providers, endpoints joined in memory, and files in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcrdma.deferred import deferred

if TYPE_CHECKING:
    from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, calls_in, message
    from rpcrdma.testing.far_provider import FarProvider
    from rpcrdma.testing.joined_pair import JoinedPair
    from rpcrdma.testing.memory_files import MemoryFiles
    from rpcrdma.testing.pair_under_test import Deviations, MakePair, PairParts
    from rpcrdma.testing.provider_suite import CHECKS, Check

__all__ = [
    "CHECKS",
    "BarePeer",
    "Check",
    "Deviations",
    "EndpointPair",
    "FarProvider",
    "JoinedPair",
    "MakePair",
    "MemoryFiles",
    "PairParts",
    "calls_in",
    "message",
]

__getattr__, __dir__ = deferred(
    __name__,
    {
        "rpcrdma.testing.memory_files": ("MemoryFiles",),
        "rpcrdma.testing.provider_suite": ("CHECKS", "Check"),
        "rpcrdma.testing.pair_under_test": ("Deviations", "MakePair", "PairParts"),
        "rpcrdma.testing.endpoint_pair": ("BarePeer", "EndpointPair", "calls_in", "message"),
        "rpcrdma.testing.joined_pair": ("JoinedPair",),
        "rpcrdma.testing.far_provider": ("FarProvider",),
    },
)
