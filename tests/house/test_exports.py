"""The names in `__all__` exist, as do those that `dir` shows; each is listed once, and they stand in a fixed order."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from packages import LAB, LIBRARY, module_name, modules


def declares_exports(path: Path) -> bool:
    return re.search(r"^__all__\b", path.read_text(), re.MULTILINE) is not None


def order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """Constants, then classes and type variables, then the rest; numbers by value."""
    group = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    pieces = [(0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in re.split(r"(\d+)", name) if piece]
    return group, pieces


def faults(name: str) -> list[str]:
    """The exports of one module that are missing, repeated or out of order."""
    module = importlib.import_module(name)
    exported = list(module.__all__)
    shown = dict.fromkeys([*exported, *dir(module)])
    found = [f"{name}.{entry} does not exist" for entry in shown if not hasattr(module, entry)]
    found += [f"{name}.{entry} is listed twice" for entry, count in Counter(exported).items() if count > 1]
    # Generated modules keep the order of their definition.
    generated = (module.__doc__ or "").startswith("Generated from ")
    if not generated and exported != sorted(exported, key=order):
        found.append(f"{name}: the order is {sorted(exported, key=order)}")
    return found


@pytest.mark.thorough
def test_exports_exist_once_and_in_order() -> None:
    exporting = [module_name(path) for path in modules() if declares_exports(path)]
    wrong = [fault for name in exporting for fault in faults(name)]
    assert not wrong, "\n".join(wrong)


def test_the_packages_are_typed() -> None:
    assert [package for package in (LIBRARY, LAB) if not (package / "py.typed").is_file()] == []
