"""Logging under a flood."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from rpcrdma.aio.drivers.limited_log import LimitedLog


class Rig:
    """A log whose time the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.log = LimitedLog(logging.getLogger("test"), lambda: self.now_s, self.later)

    def later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.timers.append((self.now_s + delay_s, callback))

    def pass_time(self, until_s: float) -> None:
        while due := sorted((timer for timer in self.timers if timer[0] <= until_s), key=lambda timer: timer[0]):
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
    # No message follows, and yet the number of suppressed ones is logged; the timers end with that.
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


def test_a_count_is_logged_at_the_end_of_its_own_minute_whatever_else_waits(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.log.log(logging.WARNING, "old", "old")
    rig.pass_time(50.0)
    for _ in range(2):
        rig.log.log(logging.WARNING, "new", "new")
    rig.log.log(logging.WARNING, "old", "old")
    rig.pass_time(60.0)
    assert [record.getMessage() for record in caplog.records] == ["old", "new", "old (the last of 1 more like it)"]
    rig.pass_time(110.0)
    assert caplog.records[-1].getMessage() == "new (the last of 1 more like it)"
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


def test_the_line_about_what_was_held_back_has_the_event_of_the_last_with_the_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    for number in range(3):
        rig.log.log(logging.INFO, "kind", "gone", extra={"event": {"event": "disconnected", "peer": number}})
    with caplog.at_level(logging.INFO, "test"):
        rig.log.flush()
    events = [vars(record)["event"] for record in caplog.records]
    assert events == [{"event": "disconnected", "peer": 2, "left_out": 1}]


def test_more_lines_of_a_kind_may_be_allowed_and_events_say_what_was_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rig = Rig()
    for start in (0, 10):
        for number in range(start, start + 10):
            extra = {"event": {"number": number}}
            rig.log.log(logging.INFO, "kind", "event %d", number, extra=extra, most=3)
        rig.pass_time(rig.now_s + 60.0)
    rig.log.log(logging.INFO, "kind", "event %d", 20, extra={"event": {"number": 20}}, most=3)
    assert [record.getMessage() for record in caplog.records] == [
        *("event 0", "event 1", "event 2", "event 9 (the last of 7 more like it)"),
        *("event 10", "event 11", "event 12", "event 19 (the last of 7 more like it)"),
        "event 20",
    ]
    events = [vars(record)["event"] for record in caplog.records]
    assert [event["number"] for event in events] == [0, 1, 2, 9, 10, 11, 12, 19, 20]
    assert [event.get("left_out") for event in events if "left_out" in event] == [6, 6]


def test_the_addresses_of_one_network_of_ipv6_are_one_host(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for host in (*(f"2001:db8::{number:x}" for number in range(1000)), "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"):
        rig.log.log(logging.WARNING, "kind", "%s", host, host=host)
    assert caplog.messages == ["2001:db8::0", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"]


def test_the_kinds_remembered_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for number in range(1000):
        rig.log.log(logging.WARNING, str(number), "event")
    rig.log.log(logging.WARNING, "999", "event")
    assert len(rig.log._kinds) <= 256
    assert len(caplog.records) == 1000
    # A forgotten message is logged first.
    for number in range(300):
        rig.log.log(logging.WARNING, str(-1 - number), "event")
    assert [record.getMessage() for record in caplog.records if "more" in record.getMessage()] == [
        "event (the last of 1 more like it)"
    ]
