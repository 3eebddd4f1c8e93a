"""fsspec's own suite for its implementations, over RDMA and over TCP."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from fsspec.tests import abstract

from fsspec_server import Served

pytestmark = pytest.mark.thorough


class _Here(abstract.AbstractFixtures):
    @pytest.fixture
    def fs_path(self, served: Served, protocol: str) -> str:
        """Over RDMA a path of the server that the options name, over TCP a path that names its server."""
        path = f"/data/{secrets.token_hex(4)}"
        return path if protocol == "rdma" else served.path(protocol, path)

    @pytest.fixture
    def fs(self, fs: Any) -> Any:
        """The fixture of this folder, in place of the suite's abstract one."""
        return fs


class TestCopy(abstract.AbstractCopyTests, _Here):
    pass


class TestGet(abstract.AbstractGetTests, _Here):
    test_get_glob_edge_cases = None  # fsspec expands the same table for TestCopy, from listings of the same server


class TestOpen(abstract.AbstractOpenTests, _Here):
    pass


class TestPipe(abstract.AbstractPipeTests, _Here):
    pass


class TestPut(abstract.AbstractPutTests, _Here):
    test_put_glob_edge_cases = None  # the same table, expanded on this machine; TestCopy has the same destinations
