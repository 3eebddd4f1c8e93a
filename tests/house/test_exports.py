"""What a module exports exists, once, and in a fixed order."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "rpcrdma"


def declares_exports(path: Path) -> bool:
    # Read, not parsed: each process that runs tests looks at all modules before the first.
    return re.search(r"^__all__\b", path.read_text(), re.MULTILINE) is not None


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """Constants, then classes, then the rest; numbers by value."""
    group = 0 if name.isupper() else 1 if name[0].isupper() else 2
    pieces = [(0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in re.split(r"(\d+)", name) if piece]
    return group, pieces


EXPORTING = sorted(module_name(path) for path in PACKAGE.rglob("*.py") if declares_exports(path))


@pytest.mark.parametrize("name", EXPORTING)
def test_exports_exist_once_and_in_order(name: str) -> None:
    module = importlib.import_module(name)
    exported = list(module.__all__)
    assert [entry for entry in exported if not hasattr(module, entry)] == []
    assert len(exported) == len(set(exported))
    # Generated modules keep the order of their definition.
    generated = (module.__doc__ or "").startswith("Generated from ")
    assert generated or exported == sorted(exported, key=order)


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
