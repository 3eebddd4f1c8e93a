"""Mistakes that change nothing a test could observe, each with its proof: they are not drawn."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["LEAST_PROOF", "MOST_SHARE", "Equivalents"]

Key = tuple[str, str, str, str]

LEAST_PROOF = 40
"""Characters of a proof."""
MOST_SHARE = 0.03
"""Of the possible mistakes of a package, so many may be listed: the list is no way round the gate."""


@dataclass(frozen=True)
class Equivalents:
    """The rows of `equivalents.toml`."""

    rows: list[dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Equivalents:
        return cls(tomllib.loads(path.read_text()).get("equivalent", []))

    @cached_property
    def keys(self) -> list[Key]:
        """Each row's module, scope, line without indentation, and change, as `run_mutants.key` makes them."""
        return [(row["path"], row["scope"], row["source"], row["change"]) for row in self.rows]

    def __contains__(self, key: Key) -> bool:
        return key in self.keys
