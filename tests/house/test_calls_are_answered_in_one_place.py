"""From a decoded call to its answer there is one way, for all connections."""

from __future__ import annotations

import re

from packages import modules, relative
from support.cases import each_case


@each_case("step", [r"\.open_call\(", r"\.source\.reply\(", r"\.source\.drop\("])
def test_one_module_takes_this_step(step: str) -> None:
    found = [relative(path) for path in modules() if re.search(step, path.read_text())]
    assert found == ["aio/answering/answering.py"]
