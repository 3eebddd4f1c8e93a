"""Parameters, fields and variables for octets in memory have few names, which ARCHITECTURE.md defines."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "rpcrdma"
ROOMS = ("aio", "nfs", "cli")
NAMES = {"buffer", "data", "region"}
ALSO = {("into", "Buffer | None"), ("message", "Buffer")}
"""(name, type): the keyword by which the caller of a procedure gives its buffer, and a whole RPC message."""
MEMORY = re.compile(r"(?:memoryview|bytearray|Buffer)(?: \| None)?")
MAKERS = {"memoryview", "bytearray", "as_view"}


def modules() -> list[Path]:
    found = [path for room in ROOMS for path in sorted((SOURCES / room).rglob("*.py"))]
    return [path for path in found if not path.read_text().startswith('"""Generated from ')]


@functools.cache
def names_in(path: Path) -> list[tuple[int, str, str]]:
    return list(names_of_memory(ast.parse(path.read_text())))


def names_of_memory(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """(line, name, type or "") of parameters, fields and variables that are one piece of memory."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            kind = ast.unparse(node.annotation)
            name = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target).removeprefix("self.")
            if MEMORY.fullmatch(kind):
                yield node.lineno, name, kind
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if ast.unparse(node.value.func) not in MAKERS:
                continue
            yield from ((node.lineno, target.id, "") for target in node.targets if isinstance(target, ast.Name))


def test_memory_is_called_a_buffer_a_region_or_data() -> None:
    wrong = [
        f"{path.relative_to(SOURCES)}:{line}: {name}"
        for path in modules()
        for line, name, kind in names_in(path)
        if name not in NAMES and (name, kind) not in ALSO
    ]
    rule = f"use one of {', '.join(sorted(NAMES))}: see 'How a value travels' in ARCHITECTURE.md"
    assert not wrong, "\n".join([rule, *wrong])


def test_the_names_are_found_where_there_are_any() -> None:
    invented = ast.parse(
        "def f(target: memoryview, piece: Buffer | None, n: int): ...\n"
        "class C:\n    sink: bytearray\n    count: int\n"
        "view = as_view(n)\nself.rows = bytearray()\n"
    )
    assert {name for _, name, _ in names_of_memory(invented)} == {"target", "piece", "sink", "view"}
    used = {name for path in modules() for _, name, _ in names_in(path)}
    assert used == {"buffer", "data", "into", "message"}, "a region has a type of its own"


def test_each_name_is_defined() -> None:
    text = (SOURCES.parents[1] / "ARCHITECTURE.md").read_text()
    assert {name for name in NAMES | {name for name, _ in ALSO} if f"`{name}`" not in text} == set()
