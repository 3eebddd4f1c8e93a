"""Logging under a flood."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from rpcrdma.aio.limited_log import LimitedLog


class Rig:
    """A log whose time the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.log = LimitedLog(logging.getLogger("test"), lambda: self.now_s, self.later)

    def later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.timers.append((self.now_s + delay_s, callback))

    def pass_time(self, until_s: float) -> None:
        while due := sorted(timer for timer in self.timers if timer[0] <= until_s):
            self.timers.remove(due[0])
            self.now_s = due[0][0]
            due[0][1]()
        self.now_s = until_s


def test_each_kind_is_logged_once_an_interval_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for number in range(5):
        rig.log.log(logging.WARNING, "kind", "event %d", number)
    rig.log.log(logging.WARNING, "other", "100%")
    rig.pass_time(30.0)
    rig.log.log(logging.WARNING, "other", "100%")
    rig.log.log(logging.WARNING, "third", "once")
    # Nothing follows, and yet it is told what was held back; the timers end with that.
    rig.pass_time(59.0)
    assert len(caplog.records) == 3
    rig.pass_time(1000.0)
    rig.log.log(logging.WARNING, "kind", "event %d", 9)
    rig.pass_time(2000.0)
    assert [record.getMessage() for record in caplog.records] == [
        "event 0",
        "100%",
        "once",
        "event 4 (the last of 4 more like it)",
        "100% (the last of 1 more like it)",
        "event 9",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert not rig.timers


def test_a_flood_costs_two_lines_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for number in range(6000):
        rig.pass_time(number / 10)
        rig.log.log(logging.WARNING, "kind", "event")
    assert 18 <= len(caplog.records) <= 20


def test_what_is_held_back_is_told_when_the_log_is_flushed_and_only_once(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for number in range(3):
        rig.log.log(logging.ERROR, "kind", "event %d", number)
    rig.log.flush()
    rig.log.flush()
    rig.pass_time(1000.0)
    assert [record.getMessage() for record in caplog.records] == ["event 0", "event 2 (the last of 2 more like it)"]


def test_events_are_told_with_the_number_held_back(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for number in range(3):
        rig.log.log(logging.WARNING, "kind", "ended", extra={"event": {"event": "disconnected", "number": number}})
    rig.log.flush()
    assert [getattr(record, "event", None) for record in caplog.records] == [
        {"event": "disconnected", "number": 0},
        {"event": "disconnected", "number": 2, "held_back": 2},
    ]


def test_the_kinds_remembered_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for number in range(1000):
        rig.log.log(logging.WARNING, str(number), "event")
    rig.log.log(logging.WARNING, "999", "event")
    assert len(rig.log._kinds) <= 256
    assert len(caplog.records) == 1000
    # What is forgotten is told of first.
    for number in range(300):
        rig.log.log(logging.WARNING, str(-1 - number), "event")
    assert [record.getMessage() for record in caplog.records if "more" in record.getMessage()] == [
        "event (the last of 1 more like it)"
    ]
