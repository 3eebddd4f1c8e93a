"""Lines of events wait for their reader, up to a bound."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator

import pytest

from rpcrdma.cli import event_lines
from rpcrdma.cli.event_lines import ErrorLines, EventLines, error_lines, server_events
from rpcrdma.commands import console


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    monkeypatch.setattr(event_lines, "EVENT_LINES_MAX", 3)
    monkeypatch.setattr(event_lines, "_LAST_LINES_S", 20.0)
    yield ends
    for end in ends:
        os.close(end)


def with_nine_waiting(writing: int) -> tuple[EventLines, int]:
    """One in the write, three in the queue, six that are left out; and the octets before them in the full pipe."""
    os.set_blocking(writing, False)
    full = 0
    while True:
        try:
            full += os.write(writing, bytes(4096))
        except BlockingIOError:
            break
    os.set_blocking(writing, True)
    lines = EventLines(writing)
    # One is taken out of the queue, at the latest when the queue was full, and waits in the write.
    lines.put({"event": "in the write"})
    while not lines._lines.empty():
        os.sched_yield()
    for number in range(9):
        lines.put({"event": "waits", "number": number})
    return lines, full


def test_what_is_left_out_is_counted_in_its_place(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    lines, full = with_nine_waiting(writing)
    while full:
        full -= len(os.read(reading, full))
    while not lines._lines.empty():
        os.sched_yield()
    lines.put({"event": "later"})
    lines._lost = 2
    lines.end()
    told = [json.loads(line) for line in os.read(reading, 1 << 16).splitlines()]
    assert told == [
        {"event": "in the write"},
        *({"event": "waits", "number": number} for number in range(3)),
        {"event": "lost", "events": 6},
        {"event": "later"},
        {"event": "lost", "events": 2},
    ]


def test_a_reader_that_comes_after_the_end_gets_the_lines_before_it(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = pipe
    lines, full = with_nine_waiting(writing)
    monkeypatch.setattr(event_lines, "_LAST_LINES_S", 0.0)
    lines.end()
    lines.put({"event": "later"})
    while full:
        full -= len(os.read(reading, full))
    lines._thread.join()
    told = [json.loads(line)["event"] for line in os.read(reading, 1 << 16).splitlines()]
    assert told == ["in the write", "waits", "waits", "waits", "lost"]


def test_a_reader_that_has_gone_is_written_no_more(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    gone, unread = os.pipe()
    os.close(gone)
    os.dup2(unread, writing)
    os.close(unread)
    lines = EventLines(writing)
    for number in range(2):
        lines.put({"event": "unread", "number": number})
    lines.end()
    assert not lines._thread.is_alive()
    assert os.read(reading, 1) == b""


def test_the_level_bounds_what_is_no_event_and_events_come_from_info_on(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("rpcrdma.server")
    with caplog.at_level(logging.NOTSET), server_events():
        for level, shown in (("DEBUG", "debug info warning"), ("WARNING", "warning")):
            logging.getLogger().setLevel(level)  # as a reload does
            caplog.clear()
            for name in ("debug", "info", "warning"):
                logger.log(logging.getLevelName(name.upper()), name)
                logger.log(logging.getLevelName(name.upper()), "event", extra={"event": {"event": name}})
            assert " ".join(caplog.messages) == shown
    told = [json.loads(line)["event"] for line in capfd.readouterr().out.splitlines()]
    assert told == ["info", "warning"] * 2


def test_errors_take_their_turn_among_the_events_and_wait_for_no_reader(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    printed: list[object] = []
    monkeypatch.setattr(console, "json_line", printed.append)
    monkeypatch.setattr(console, "_error_object", {"event": "error"})
    with server_events() as lines:
        lines.put({"event": "before"})
        console.error("cause", "remedy")
        assert printed == [], "a full pipe would hold up the server"
    before, error = (json.loads(line) for line in capfd.readouterr().out.splitlines())
    assert (before["event"], error["event"], error["error"]["hint"]) == ("before", "error", "remedy")
    console.error("after the last line")
    assert len(printed) == 1


def test_lines_of_errors_that_are_left_out_are_counted_in_their_place(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    full = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            full += os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    lines = ErrorLines(writing)
    lines.write("in the write\n")
    while not lines._lines.empty():
        os.sched_yield()
    for number in range(9):
        lines.write(f"{number} \udcff\n")
    while full:
        full -= len(os.read(reading, full))
    lines.end()
    told = os.read(reading, 1 << 16).decode().splitlines()
    assert told[0] == "in the write"
    assert told[-1].endswith(" lines left out here: standard error took no more")
    assert r"0 \udcff" in told


def test_all_that_is_written_to_standard_error_goes_its_way_and_it_is_restored(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = sys.stderr
    handler = logging.StreamHandler(before)
    logging.getLogger().addHandler(handler)
    try:
        with error_lines():
            assert isinstance(sys.stderr, ErrorLines)
            assert (sys.stderr.fileno(), sys.stderr.isatty()) == (before.fileno(), before.isatty())
            logging.getLogger("rpcrdma.server").warning("logged")
            console.talk("talked")
        assert sys.stderr is before
        assert handler.stream is before
    finally:
        logging.getLogger().removeHandler(handler)
    assert capfd.readouterr().err == "logged\ntalked\n"
