"""From a decoded call to its answer there is one way, for all connections."""

from __future__ import annotations

import re
from pathlib import Path

from support.cases import each_case

SOURCE = Path(__file__).parents[2] / "src" / "rpcrdma"


@each_case("step", [r"\.open_call\(", r"\.source\.reply\(", r"\.source\.drop\("])
def test_one_module_takes_this_step(step: str) -> None:
    found = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if re.search(step, path.read_text())]
    assert found == [Path("aio/answering/answering.py")]
