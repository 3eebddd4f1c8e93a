"""One server for all tests of a file, in this process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from fsspec_server import SCHEMES, RunningServer, Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with RunningServer(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("state")) as running:
        yield running


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test over both protocols, unless it names its own.

    They differ in their URLs and default ports, and in the form of path that fsspec's suite uses with each. The suite's
    table of glob patterns runs over TCP, with paths that name their server: fsspec expands a pattern from listings, in
    which the transport has no part. Other tests of the suite have patterns, too, with both forms of paths.
    """
    marked = {mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")}
    if "protocol" in metafunc.fixturenames and "protocol" not in marked:
        in_a_table = metafunc.function.__name__.endswith("_glob_edge_cases")
        metafunc.parametrize("protocol", ["nfstcp"] if in_a_table else sorted(SCHEMES), indirect=True)


@pytest.fixture
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def top(served: Served) -> Path:
    """A directory of the test's own, /data/NAME at the server."""
    path = served.directory / secrets.token_hex(4)
    path.mkdir()
    return path


@pytest.fixture
def fs(served: Served, protocol: str) -> Any:
    """The file system, anew for each test so that nothing but its connections is shared."""
    return fsspec.filesystem(protocol, **served.options(protocol), skip_instance_cache=True)
