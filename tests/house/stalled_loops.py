"""A pytest plugin, `--stalls SHARE:SECONDS`: a machine that stalls, and tests in another order.

Before a turn of an event loop the process sleeps, with a probability and for a time that the options give, as on a
machine that is busy otherwise. Virtual time does not pass meanwhile. A test that fails then depends on the speed of the
machine, or on a test before it, whose garbage may be collected at any time. The same seed stalls a test at the same
turns in each run, and makes the same order.
"""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from support.waiting import has_own_clock

_random = random.Random()
_run_once = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stalled loops")
    group.addoption("--stalls", metavar="SHARE:SECONDS", help="probability and length of a stall")
    group.addoption("--stall-seed", default="1", help="which turns stall, and the order of tests")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--stalls") is None:
        return
    share, length_s = map(float, config.getoption("--stalls").split(":"))

    def stalled_run_once(loop: asyncio.BaseEventLoop) -> None:
        if not has_own_clock(loop) and _random.random() < share:
            time.sleep(length_s)
        _run_once(loop)

    asyncio.BaseEventLoop._run_once = stalled_run_once  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffles the files, and the tests of each file, which may share a costly fixture."""
    if config.getoption("--stalls") is not None:
        order = random.Random(config.getoption("--stall-seed"))
        places = {path: order.random() for path in dict.fromkeys(item.path for item in items)}
        items.sort(key=lambda item: (places[item.path], order.random()))


def pytest_unconfigure() -> None:
    asyncio.BaseEventLoop._run_once = _run_once  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _random.seed(f"{item.config.getoption('--stall-seed')} {item.nodeid}")
