"""The tests of this folder run with the receiver in Python, and with the native module where it is built.

Those marked `in_python` look at the fields or buffers of the receiver in Python.
"""

from __future__ import annotations

import pytest

from rpcrdma.wire.native import DATA_PATH, native
from support import raw_iwarp


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("in_python") is None:
        metafunc.parametrize("receiving", ["in Python", "natively"], indirect=True)


@pytest.fixture(autouse=True)
def receiving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(request, "param", None) == "natively":
        if native is None:
            pytest.skip(reason=f"needs the native module; {DATA_PATH}")
        monkeypatch.setattr(raw_iwarp, "NATIVE_PEERS", True)
