"""Logging under a flood."""

from __future__ import annotations

import logging

import pytest

from rpcrdma.aio.limited_log import LimitedLog


def test_each_kind_is_logged_once_an_interval_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    log = LimitedLog(logging.getLogger("test"), lambda: now)
    for number in range(5):
        log.log(logging.WARNING, "kind", "event %d", number)
    log.log(logging.WARNING, "other", "another")
    now = 60.0
    log.log(logging.WARNING, "kind", "event %d", 9)
    log.log(logging.WARNING, "kind", "event %d", 10)
    assert [record.getMessage() for record in caplog.records] == [
        "event 0",
        "another",
        "event 9 (4 more like it in the meantime)",
    ]


def test_the_kinds_remembered_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    log = LimitedLog(logging.getLogger("test"), lambda: 0.0)
    for number in range(1000):
        log.log(logging.WARNING, str(number), "event")
    assert len(log._kinds) <= 256
    assert len(caplog.records) == 1000
