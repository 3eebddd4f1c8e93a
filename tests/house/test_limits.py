"""Every bound on the claims of a peer or a file states the reason for its value."""

from __future__ import annotations

import ast
from pathlib import Path

from packages import LAB, LIBRARY
from support.cases import each_case

EACH_MODULE = each_case(
    "path",
    [
        *(
            LIBRARY / name
            for name in ("limits.py", "file_limits.py", "nfs/export/export_limits.py", "nfs/v4/state_limits.py")
        ),
        LAB / "limits.py",
    ],
)


@EACH_MODULE
def test_every_limit_is_followed_by_its_reason(path: Path) -> None:
    body = ast.parse(path.read_text()).body
    constants = [
        (node, after) for node, after in zip(body, [*body[1:], None], strict=True) if isinstance(node, ast.Assign)
    ]
    assert constants
    unexplained = [
        ast.unparse(node.targets[0])
        for node, after in constants
        if not (
            isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
        )
    ]
    assert unexplained == []


@EACH_MODULE
def test_every_limit_is_used(path: Path) -> None:
    names = [ast.unparse(node.targets[0]) for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    package = LAB if path.is_relative_to(LAB) else LIBRARY
    elsewhere = "\n".join(other.read_text() for other in package.rglob("*.py") if other != path)
    own = path.read_text()
    assert [name for name in names if name not in elsewhere and own.count(name) < 2] == []
