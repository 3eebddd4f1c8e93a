"""A pytest plugin: keeps tests that start a process or use a network out of `make test`, but for the journeys.

`make test` runs every test that is not marked `thorough`. Such a test does all of its work in its own process; one that
does not is marked `thorough`, which leaves it to `make test-all`, or `journey`, of which `make test` has a few.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Generator
from typing import Any

import pytest

_PROCESSES = {"os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}
_ADDRESSES = {"socket.bind", "socket.connect"}
_FAMILIES = {socket.AF_INET, socket.AF_INET6}

_ELSEWHERE = {"thorough", "journey", "interop", "scale", "data_tools"}
"""The marks of tests that may leave their process."""

JOURNEYS_MAX = 40
"""What all of them take is a quarter of the minute of `make test`."""

_reached_out: set[str] = set()
"""The events by which the running test has left its process."""


def _notice(event: str, details: tuple[Any, ...]) -> None:
    # Sockets of the kernel's own news and of local pairs reach no network.
    if event in _PROCESSES or (event in _ADDRESSES and details[0].family in _FAMILIES):
        _reached_out.add(event)


sys.addaudithook(_notice)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    journeys = sum(any(item.iter_markers("journey")) for item in items)
    if journeys > JOURNEYS_MAX:
        raise pytest.UsageError(f"{journeys} journeys: {JOURNEYS_MAX} at most, the others are `thorough`")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _reached_out.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fails a test of the wrong tier."""
    result = yield
    if _reached_out and not any(mark.name in _ELSEWHERE for mark in item.iter_markers()):
        pytest.fail(f"mark the test `thorough`, or have it stay in its process: it caused {sorted(_reached_out)}")
    return result
