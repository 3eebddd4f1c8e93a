"""One name means one thing: memory has few names, which ARCHITECTURE.md defines, classes of the protocol their own."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from packages import LAB, LIBRARY, ROOT, modules, relative

ROOMS = (*(LIBRARY / name for name in ("aio", "nfs", "commands", "cli")), LAB / "commands")
NAMES = {"buffer", "data", "region"}
ALSO = {("into", "Memory | None"), ("message", "Buffer")}
"""(name, type): the keyword by which the caller of a procedure gives its buffer, and a whole RPC message."""
MEMORY = re.compile(r"(?:memoryview|bytearray|Buffer|Memory)(?: \| None)?")
MAKERS = {"memoryview", "bytearray", "as_view"}


def in_rooms() -> list[Path]:
    found = [path for room in ROOMS for path in sorted(room.rglob("*.py"))]
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


@pytest.mark.thorough
def test_memory_is_called_a_buffer_a_region_or_data() -> None:
    wrong = [
        f"{relative(path)}:{line}: {name}"
        for path in in_rooms()
        for line, name, kind in names_in(path)
        if name not in NAMES and (name, kind) not in ALSO
    ]
    rule = f"use one of {', '.join(sorted(NAMES))}: see 'How a value travels' in ARCHITECTURE.md"
    assert not wrong, "\n".join([rule, *wrong])


@pytest.mark.thorough
def test_the_names_are_found_where_there_are_any() -> None:
    invented = ast.parse(
        "def f(target: memoryview, piece: Buffer | None, n: int): ...\n"
        "class C:\n    sink: bytearray\n    count: int\n"
        "view = as_view(n)\nself.rows = bytearray()\n"
    )
    assert {name for _, name, _ in names_of_memory(invented)} == {"target", "piece", "sink", "view"}
    used = {name for path in in_rooms() for _, name, _ in names_in(path)}
    assert used == {"buffer", "data", "into", "message"}, "a region has a type of its own"


def test_each_name_is_defined() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert {name for name in NAMES | {name for name, _ in ALSO} if f"`{name}`" not in text} == set()


PROTOCOL_ROOMS = ("transport", "iwarp", "verbs", "rtr")
OF_MACHINES = {"State", "Input"}
"""Each machine has its table of states and inputs in a module of its own."""
REFUSALS = {"CallRefused"}
"""A call is refused by RPC in its reply, or by the transport in an error."""
STOOD_FOR_SEVERAL_THINGS = {"Caller", "Direction", "Fault", "Layout", "Place"}


def public_classes() -> dict[str, set[str]]:
    """The modules that define a public class of each name."""
    found: dict[str, set[str]] = {}
    for path in modules():
        name = relative(path)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(name)
    return found


@pytest.mark.thorough
def test_a_class_of_the_protocol_has_its_name_alone() -> None:
    every = public_classes()
    rooms = tuple(f"{room}/" for room in PROTOCOL_ROOMS)
    found = {name: where for name, where in every.items() if any(one.startswith(rooms) for one in where)}
    twice = {name: sorted(where) for name, where in found.items() if len(where) > 1}
    assert twice.keys() >= OF_MACHINES, "they are found where there are any"
    known = OF_MACHINES | REFUSALS
    assert {name: where for name, where in twice.items() if name not in known} == {}, "one name means one thing"


def test_a_name_that_stood_for_several_things_has_one_definition() -> None:
    names = "|".join(STOOD_FOR_SEVERAL_THINGS)
    definition = re.compile(rf"^(?:class (?=\w+[\[(:])|(?=\w+(?:: TypeAlias)? = ))({names})\b", re.MULTILINE)
    defining: dict[str, list[str]] = {}
    for path in modules():
        for name in set(definition.findall(path.read_text())):
            defining.setdefault(name, []).append(relative(path))
    assert defining["Caller"] == ["rpc/program.py"], "they are found where there are any"
    assert {name: where for name, where in defining.items() if len(where) > 1} == {}
