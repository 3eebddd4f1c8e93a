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


def test_more_lines_of_a_kind_may_be_allowed_and_events_say_what_was_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = 0.0
    log = LimitedLog(logging.getLogger("test"), lambda: now)
    for number in range(10):
        log.log(logging.INFO, "kind", "event %d", number, extra={"event": {"number": number}}, most=3)
    now = 60.0
    for number in range(10, 12):
        log.log(logging.INFO, "kind", "event %d", number, extra={"event": {"number": number}}, most=3)
    now = 120.0
    log.log(logging.INFO, "kind", "event %d", 12, most=3)
    assert [record.getMessage() for record in caplog.records] == [
        "event 0",
        "event 1",
        "event 2",
        "event 10 (7 more like it in the meantime)",
        "event 11",
        "event 12",
    ]
    events = [record.event for record in caplog.records if hasattr(record, "event")]
    assert events == [{"number": 0}, {"number": 1}, {"number": 2}, {"number": 10, "left_out": 7}, {"number": 11}]


def test_the_kinds_remembered_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    log = LimitedLog(logging.getLogger("test"), lambda: 0.0)
    for number in range(1000):
        log.log(logging.WARNING, str(number), "event")
    assert len(log._kinds) <= 256
    assert len(caplog.records) == 1000
