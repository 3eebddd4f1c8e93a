"""One server for all tests of a file, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fsspec
import pytest

from fsspec_server import SCHEMES, RunningServer, Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with RunningServer(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("state")) as running:
        yield running
        for protocol in SCHEMES:
            fsspec.filesystem(protocol, **running.options(protocol)).close()


@pytest.fixture(params=sorted(SCHEMES))
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fs(served: Served, protocol: str) -> Any:
    """The file system, anew for each test so that nothing but its connections is shared."""
    return fsspec.filesystem(protocol, **served.options(protocol), skip_instance_cache=True)
