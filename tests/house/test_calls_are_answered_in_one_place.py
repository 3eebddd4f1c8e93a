"""From a decoded call to its answer there is one way, for all connections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rpcrdma"


@pytest.mark.parametrize(
    ("step", "module"),
    [
        (r"\.open_call\(", "answering.py"),
        (r"\.source\.reply\(", "server_call.py"),
        (r"\.source\.drop\(", "server_call.py"),
    ],
)
def test_one_module_takes_this_step(step: str, module: str) -> None:
    found = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if re.search(step, path.read_text())]
    assert found == [Path("aio/answering", module)]
