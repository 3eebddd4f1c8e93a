"""The names in `__all__` exist, each is listed once, and they stand in a fixed order."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "rpcrdma"


def declares_exports(path: Path) -> bool:
    return re.search(r"^__all__\b", path.read_text(), re.MULTILINE) is not None


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """Constants, then classes, then the rest; numbers by value."""
    group = 0 if name.isupper() else 1 if name[0].isupper() else 2
    pieces = [(0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in re.split(r"(\d+)", name) if piece]
    return group, pieces


def faults(name: str) -> list[str]:
    """The exports of one module that are missing, repeated or out of order."""
    module = importlib.import_module(name)
    exported = list(module.__all__)
    found = [f"{name}.{entry} does not exist" for entry in exported if not hasattr(module, entry)]
    found += [f"{name}.{entry} is listed twice" for entry, count in Counter(exported).items() if count > 1]
    # Generated modules keep the order of their definition.
    generated = (module.__doc__ or "").startswith("Generated from ")
    if not generated and exported != sorted(exported, key=order):
        found.append(f"{name}: the order is {sorted(exported, key=order)}")
    return found


@pytest.mark.thorough
def test_exports_exist_once_and_in_order() -> None:
    exporting = sorted(module_name(path) for path in PACKAGE.rglob("*.py") if declares_exports(path))
    wrong = [fault for name in exporting for fault in faults(name)]
    assert not wrong, "\n".join(wrong)


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
