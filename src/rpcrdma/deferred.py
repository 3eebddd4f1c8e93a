"""Names of public modules that are imported at their first use, so that a command answers `--help` at once."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["deferred"]


def deferred(module: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns (`__getattr__`, `__dir__`) for a public module (PEP 562) that imports names at their first use.

    `__getattr__` imports a name and sets it in the public module, so that it runs once for each name. It raises
    AttributeError for a name that is not in `homes`. `__dir__` lists the names in `homes`, too.

    Args:
        module: The name of the public module.
        homes: By the absolute name of each module to import, the names that the public module takes from it.
    """
    origins = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(origins[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *origins})

    return load, names
