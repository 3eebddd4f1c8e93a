"""A version of RPC-over-RDMA is one small object: nothing but the folder of versions knows one by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from packages import LAB, LIBRARY, relative

DIALECTS = LIBRARY / "transport" / "dialects"
MODULES = sorted(
    path
    for folder in (*(LIBRARY / name for name in ("transport", "aio", "commands", "cli")), LAB / "commands")
    for path in folder.rglob("*.py")
    if DIALECTS not in path.parents
)
# Modules and classes of one version, procedures and error codes of a header, and the sizes that a header has.
OF_ONE_VERSION = re.compile(
    r"(?i:version_?\d|(header|dialect|dialects\.)_?v\d)|RDMA\d?_(MSGP?|NOMSG|DONE|ERROR|CONNPROP|GRANT)"
    r"|(^|_)ERR_[A-Z]+|SHORT_HEADER|GEOMETRY$"
)
HEADER_OCTETS = {28, 36}
"""Of the shortest call of each version; nothing else has these sizes."""


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of everything that is imported, defined or used."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def numbers_in(tree: ast.AST) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield node.lineno, node.value


@pytest.mark.thorough
def test_no_version_is_named() -> None:
    found = [
        f"{relative(path)}:{line}: {name}"
        for path in MODULES
        for line, name in names_in(ast.parse(path.read_text()))
        if OF_ONE_VERSION.search(name)
    ]
    assert not found, "\n".join(["a difference between versions belongs into rpcrdma.transport.dialects", *found])


def test_no_size_of_a_header_is_written_down() -> None:
    found = [
        f"{relative(path)}:{line}: {number}"
        for path in sorted((LIBRARY / "transport").glob("*.py"))
        for line, number in numbers_in(ast.parse(path.read_text()))
        if number in HEADER_OCTETS
    ]
    assert not found, "\n".join(["sizes of headers are in a dialect's geometry", *found])


@pytest.mark.parametrize(
    "source",
    [
        "from rpcrdma.transport.dialects.v1 import Something",
        "from rpcrdma.transport.dialects import header_v1",
        "def make(): return Version1()",
        "if code == ERR_CHUNK: pass",
        "size = header.SHORT_HEADER_OCTETS",
        "procedure = RDMA2_CONNPROP",
    ],
)
def test_the_scan_sees_them(source: str) -> None:
    assert any(OF_ONE_VERSION.search(name) for _, name in names_in(ast.parse(source)))
