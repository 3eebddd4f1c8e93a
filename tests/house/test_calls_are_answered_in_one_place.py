"""From a decoded call to its answer there is one way, for all connections."""

from __future__ import annotations

import re

from packages import modules, relative
from support.cases import each_case


@each_case(
    "step, place",
    [
        (r"\.open_call\(", "aio/answering/answering.py"),
        (r"\.source\.reply\(", "aio/answering/server_call.py"),
        (r"\.source\.drop\(", "aio/answering/server_call.py"),
    ],
)
def test_one_module_takes_this_step(step: str, place: str) -> None:
    found = [relative(path) for path in modules() if re.search(step, path.read_text())]
    assert found == [place]
