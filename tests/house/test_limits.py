"""Every bound on a peer's claims states the reason for its value."""

from __future__ import annotations

import ast
from pathlib import Path

LIMITS = Path(__file__).parents[2] / "src" / "rpcrdma" / "limits.py"


def test_every_limit_is_followed_by_its_reason() -> None:
    body = ast.parse(LIMITS.read_text()).body
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


def test_every_limit_is_used() -> None:
    names = [
        ast.unparse(node.targets[0]) for node in ast.parse(LIMITS.read_text()).body if isinstance(node, ast.Assign)
    ]
    elsewhere = "\n".join(path.read_text() for path in LIMITS.parent.rglob("*.py") if path != LIMITS)
    own = LIMITS.read_text()
    assert [name for name in names if name not in elsewhere and own.count(name) < 2] == []
