"""Calls that are measured once each in the simulated fabric, and the words for their results."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rpcrdma.testing.virtual import PROFILES, EventKind
from rpcrdma.transport import TransportConfig
from rpcrdma_lab.simulation.critical_path import CallAccount
from rpcrdma_lab.simulation.measured_calls import (
    CALLS_AT_ONCE,
    OPERATIONS,
    TRANSFERS,
    VARIANTS,
    Variant,
    with_extension,
)
from rpcrdma_lab.simulation.round_trips import measured

ROOT = Path(__file__).parents[1]
SIZE = 8192
MILES = 1.0
V1, V1_LOCAL = "version 1", "version 1, local invalidation"
V2, V2_LOCAL, CONTINUED = "version 2", "version 2, local invalidation", "version 2, continued"
REQUESTS, RESPONSES = "requests by Send, 4 KiB", "responses by Send, 4 KiB"
BOTH_4, BOTH_8 = "both by Send, 4 KiB", "both by Send, 8 KiB"
BATCHED = "version 2, batches"
ONE_SIDED, WITHOUT = "extension at the client only", "no extension"
SLABS = "real: extension, rtr"
"""The extension with receive buffers of eight segments, as the library has them by default."""
TWO_REPLIES = "two replies of 1 KiB"
SHORT, READ, WRITE, LONG_CALL, LONG_REPLY = "short call", "READ", "WRITE", "long call", "long reply"
COMPOUND, AT_ONCE = f"{TRANSFERS} transfers in one call", f"{CALLS_AT_ONCE} short calls at once"

COUNTED_1 = "real: version 1, counted"
"""Version 1 by the library's defaults, as `benchmarks/operations.py` counts it."""

_TRANSPORT = TransportConfig(inline_send_octets=4096, inline_receive_octets=4096)
"""Messages of Linux in version 1, as in the measurements beside which these stand."""


class Laboratory:
    """Measures operations, each once."""

    def __init__(self) -> None:
        self.operations = {operation.name: operation for operation in OPERATIONS}
        self.variants = {variant.name: variant for variant in VARIANTS}
        self._found: dict[tuple[object, ...], CallAccount] = {}

    def add(self, variant: Variant) -> None:
        self.variants[variant.name] = variant

    def __call__(
        self, operation: str, variant: str, size: int = SIZE, profile: str = "machine-room", **changes: Any
    ) -> CallAccount:
        """The account of one operation; `changes` are parameters of the model, whose distance is a mile by default."""
        model = replace(PROFILES[profile], **{"miles": MILES, **changes})
        key = (operation, variant, size, model)
        if key not in self._found:
            self._found[key] = measured(model, self.variants[variant], self.operations[operation], size).account
        return self._found[key]


def default_variants() -> Iterator[Variant]:
    """The ways of `benchmarks/round_trips.py`, as they were measured."""
    for name, version, extension in (
        ("real: version 1", "1", "off"),
        ("real: version 2", "2", "off"),
        ("real: extension, auto", "2", "auto"),
        ("real: extension, rtr", "2", "rtr"),
    ):
        yield Variant(name=name, rpcrdma_version=version, extension=extension, transport=_TRANSPORT)


def laboratory() -> Laboratory:
    """With all variants of the page."""
    sys.path.insert(0, str(ROOT / "examples" / "extension_batches"))
    from batches import batches_extension  # noqa: PLC0415 - an example, which is no package

    lab = Laboratory()
    for variant in default_variants():
        lab.add(variant)
    lab.add(Variant(name=COUNTED_1, rpcrdma_version="1", extension="off", transport=TransportConfig()))
    lab.add(replace(lab.variants[BOTH_8], name=ONE_SIDED, server_extensions=tuple))
    lab.add(replace(lab.variants[BOTH_8], name=WITHOUT, server_extensions=tuple, client_extensions=tuple))
    lab.add(with_extension("batches", batches_extension))
    two = lab.operations[LONG_REPLY]._replace(name=TWO_REPLIES, calls=2)
    lab.operations[two.name] = two
    return lab


def latencies(found: CallAccount) -> tuple[float, int, int]:
    """Round trips, interrupts of the responder and of the requester on the critical path."""
    return found.round_trips, found.responder.interrupts, found.requester.interrupts


def shown(found: CallAccount) -> str:
    trips, responder, requester = latencies(found)
    return f"{many(trips, 'round trip')}, {responder} and {requester} interrupts"


def many(count: float, noun: str) -> str:
    """The count with its noun: "1 Read", "2 Reads", "no Reads"."""
    return f"{count:g} {noun}" if count == 1 else f"{f'{count:g}' if count else 'no'} {noun}s"


def us(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} µs"


def first_of(found: CallAccount, kind: EventKind) -> int:
    """The place in the critical path at which an event of this kind stands first; its length if there is none."""
    return next((place for place, event in enumerate(found.path) if event.kind is kind), len(found.path))


def request_octets(found: CallAccount) -> int:
    """The octets of the first Send, which is the request."""
    return next(event.octets for event in found.followed if event.kind is EventKind.POST)


def wire_octets(found: CallAccount) -> int:
    """All octets on the wire, with acknowledgements and the headers of the network."""
    return found.octets + found.acknowledgement_octets


def acknowledgement_share(found: CallAccount) -> float:
    """The share of acknowledgements in the octets on the wire."""
    return found.acknowledgement_octets / wire_octets(found)
