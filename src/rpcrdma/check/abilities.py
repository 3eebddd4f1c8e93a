"""Abilities of a server by its first answers: versions, credits, markers, and the round-trip extension."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rpcrdma.check.catalogue.round_trips import (
    CONTINUES,
    REQUESTS_MAX,
    RTR_SUPPORT,
    TAKES_REQUESTS,
)
from rpcrdma.scripted import Outcome

__all__ = ["Abilities", "abilities_of"]

_GRANTED_MAX = 64
"""Calls that a check sends at once, however many are granted."""
_RECEIVE_SIZE = 2


@dataclass(slots=True)
class Abilities:
    """Values for conversations, and the needs of checks that are met."""

    given: dict[str, int | bytes] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)


def abilities_of(versions: Mapping[str, Outcome]) -> Abilities:
    """The abilities that `spoken_versions` has found; names of the extension begin with those of the version."""
    found = Abilities(given={"granted": _granted(versions)}, met=set(versions))
    if any(outcome.markers for outcome in versions.values()):
        found.met.add("markers")
    for version, outcome in versions.items():
        properties = outcome.heard["header"].get("properties", {})
        support = _word(properties.get(RTR_SUPPORT, b""), 0)
        if not support & TAKES_REQUESTS:
            continue
        found.met.add(f"{version}.requests")
        limit = _word(properties.get(REQUESTS_MAX, b""), 1)
        found.given[f"{version}.requests_max"] = limit
        if support & CONTINUES and limit > 1:
            found.met.add(f"{version}.continuation")
        buffer = outcome.heard.get("buffer", {})
        receive_octets = buffer.get("receive_octets") or _word(properties.get(_RECEIVE_SIZE, b""), 4096)
        found.given |= {f"{version}.{name}": value for name, value in buffer.items()}
        found.given[f"{version}.receive_octets"] = receive_octets
        if "segments" in buffer:
            found.met.add(f"{version}.segments")
    return found


def _granted(versions: Mapping[str, Outcome]) -> int:
    """Calls that may be sent at once in version 1."""
    outcome = versions.get("1")
    granted = outcome.heard["header"]["credit"] if outcome is not None else 1
    return max(1, min(int(granted), _GRANTED_MAX))


def _word(value: bytes, default: int) -> int:
    return int.from_bytes(value) if len(value) == 4 else default
