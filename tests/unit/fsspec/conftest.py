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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each of fsspec's hundred patterns goes over one of the protocols by turns: only its own code tells them apart."""
    numbers: dict[object, int] = {}
    turn = sorted(SCHEMES)
    left_out = []
    for item in items:
        if isinstance(item, pytest.Function) and item.originalname.endswith("_glob_edge_cases"):
            protocol = item.callspec.params["protocol"]
            case = item.nodeid.replace(protocol, "")
            number = numbers.setdefault(case, len(numbers))
            # Patterns come in twos and threes, which differ in what is recursive.
            if protocol != turn[(number + number // 2) % 2]:
                left_out.append(item)
    config.hook.pytest_deselected(items=left_out)
    kept = set(items) - set(left_out)
    items[:] = [item for item in items if item in kept]
