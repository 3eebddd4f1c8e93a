"""Fixtures of version 4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from served_exports import Served


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    served = []
    files = tmp_path / "files"
    files.mkdir()
    (files / "file").write_bytes(b"some data")
    (files / "directory").mkdir()
    (files / "directory/inner").write_bytes(b"")
    (files / "link").symlink_to("file")

    def made(*exports: dict[str, Any]) -> Served:
        served.append(Served(tmp_path, *exports or ({"name": "/"},)))
        return served[-1]

    yield made
    for each in served:
        each.local.close()
        each.state.close()
