"""Abilities of a server: its files and, from its answers, its versions, credits, markers and round-trip extension."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rpcrdma_lab.check.catalogue.round_trip_codes import (
    CONTINUES,
    REQUESTS_MAX,
    RTR_SUPPORT,
    TAKES_REQUESTS,
)
from rpcrdma_lab.scripted import Outcome

__all__ = ["Abilities", "FileState"]

_SEND_SIZE, _RECEIVE_SIZE = 1, 2


class FileState(NamedTuple):
    """The file that the checks read: its path in the export, its size in octets, and its mtime in ns since 1970."""

    path: str
    size_octets: int
    changed_ns: int


@dataclass(slots=True)
class Abilities:
    """Abilities of a server under test.

    `given` has values for scripted conversations by name, and `met` the needs of checks that the server meets. `notes`
    say why other needs are not met, and which files of the checks are left over.
    """

    given: dict[str, int | bytes] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    fresh_files: list[bytes] = field(default_factory=list)
    """Handles of new empty files that no program has opened since."""
    seen: FileState | None = None
    """The file that the checks read, in its state before them; None if no file is known."""
    file_changed: bool = False
    """Whether the file in `seen` was changed or removed during the checks, so that verdicts on its data are void."""

    def add_spoken(self, versions: Mapping[str, Outcome]) -> None:
        """Adds to `given` and `met` a server's protocol versions, and the abilities that its answers announce.

        `versions` has the outcomes of the trial conversations by protocol version, "1" or "2", as `spoken_versions`
        returns them. `met` gets the versions, "markers" if the server demands MPA markers, and the supported parts of
        version 2's round-trip extension, such as "2.requests". `given` gets sizes, such as "2.send_octets"; the one of
        version 1, "1.send_octets", is always 4096.
        """
        self.met |= set(versions)
        if any(outcome.markers for outcome in versions.values()):
            self.met.add("markers")
        for version, outcome in versions.items():
            self._add_extension(version, outcome.heard)

    def _add_extension(self, version: str, heard: Mapping[str, Any]) -> None:
        properties = heard["header"].get("properties", {})
        self.given[f"{version}.send_octets"] = _word(properties.get(_SEND_SIZE, b""), 4096)
        support = _word(properties.get(RTR_SUPPORT, b""), 0)
        if not support & TAKES_REQUESTS:
            return
        self.met.add(f"{version}.requests")
        limit = _word(properties.get(REQUESTS_MAX, b""), 1)
        self.given[f"{version}.requests_max"] = limit
        if support & CONTINUES and limit > 1:
            self.met.add(f"{version}.continuation")
        buffer = heard.get("buffer", {})
        receive_octets = buffer.get("receive_octets") or _word(properties.get(_RECEIVE_SIZE, b""), 4096)
        self.given |= {f"{version}.{name}": value for name, value in buffer.items()}
        self.given[f"{version}.receive_octets"] = receive_octets
        if "segments" in buffer:
            self.met.add(f"{version}.segments")


def _word(value: bytes, default: int) -> int:
    return int.from_bytes(value) if len(value) == 4 else default
