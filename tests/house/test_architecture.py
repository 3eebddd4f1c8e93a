"""ARCHITECTURE.md names every room of the house."""

from __future__ import annotations

import re
from pathlib import Path

from support.cases import each_case

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rpcrdma"
NAMED = set(re.findall(r"`([\w/]+)`", (ROOT / "ARCHITECTURE.md").read_text()))
ROOMS = sorted(str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


def test_there_are_rooms() -> None:
    assert {"wire", "transport", "aio/drivers"} <= set(ROOMS)


@each_case("room", ROOMS)
def test_every_folder_is_named(room: str) -> None:
    assert room in NAMED or room.rpartition("/")[2] in NAMED
