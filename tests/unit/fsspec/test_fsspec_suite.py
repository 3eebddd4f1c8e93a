"""fsspec's own suite for its implementations, over RDMA and over TCP."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from fsspec.tests import abstract

from fsspec_server import Served


class _Here(abstract.AbstractFixtures):
    @pytest.fixture(params=["/", "server"])
    def fs_path(self, served: Served, protocol: str, request: pytest.FixtureRequest) -> str:
        path = f"/data/{secrets.token_hex(4)}"
        return path if request.param == "/" else served.path(protocol, path)

    @pytest.fixture
    def fs(self, fs: Any) -> Any:
        """The suite would have each implementation override this; the one of this folder is meant."""
        return fs


class TestCopy(abstract.AbstractCopyTests, _Here):
    pass


class TestGet(abstract.AbstractGetTests, _Here):
    pass


class TestOpen(abstract.AbstractOpenTests, _Here):
    pass


class TestPipe(abstract.AbstractPipeTests, _Here):
    pass


class TestPut(abstract.AbstractPutTests, _Here):
    pass
