"""ARCHITECTURE.md names every room of the house."""

from __future__ import annotations

import re

from packages import LAB, LIBRARY, ROOT, modules, relative
from support.cases import each_case

NAMED = set(re.findall(r"`([\w/]+)`", (ROOT / "ARCHITECTURE.md").read_text()))
ROOMS = [relative(path.parent) for path in modules("__init__.py") if path.parent not in {LIBRARY, LAB}]


def test_there_are_rooms() -> None:
    assert {"wire", "transport", "aio/drivers", "lab/dissect", "lab/simulation/worlds"} <= set(ROOMS)


@each_case("room", ROOMS)
def test_every_folder_is_named(room: str) -> None:
    assert room in NAMED or room.rpartition("/")[2] in NAMED
