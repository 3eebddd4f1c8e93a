"""Progress bars: on terminals only."""

from __future__ import annotations

import io
import re
import sys

import pytest

from rpcrdma.commands.progress import progress_bar, progress_line
from support.cases import each_case


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error from here on, 120 columns wide."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    return stream


def copied(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar("copying \x1b[2J", 1000) as advance:
        advance(400)
        advance(600)
    return stream.getvalue()


def test_a_terminal_sees_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    text = copied(terminal(monkeypatch), monkeypatch)
    assert "copying \\x1b[2J" in text
    assert "1.0/1.0 kB" in text


@each_case("columns", [10, 40, 69, 70, 79, 80, 100, 200])
def test_its_line_is_no_longer_than_the_terminal_is_wide(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with progress_bar("copying", 10**9) as bar:
        bar(123_400_000, 1200)
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip("\n") for line in stream.getvalue().split("\r")]
    assert max(map(len, lines)) <= columns
    assert not any("\n" in line for line in lines)
    assert ("0.1/1.0 GB" in stream.getvalue()) is (columns >= 40)
    assert ("1,200 files" in stream.getvalue()) is (columns >= 70)
    assert ("━" in stream.getvalue()) is (columns >= 80)


def test_a_bar_without_an_end_shows_what_is_done_and_an_end_may_be_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with progress_bar("copying") as bar:
        bar(1500)
    assert "1.5 kB" in stream.getvalue()
    assert "/?" not in stream.getvalue()
    with progress_bar("copying") as bar:
        bar.expect(2000)
        bar(1500)
    assert "1.5/2.0 kB" in stream.getvalue()


def test_files_that_are_complete_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with progress_bar("copying") as bar:
        assert "file" not in stream.getvalue()
        bar(10, 1)
    assert "1 file\x1b" in stream.getvalue()
    with progress_bar("copying") as bar:
        bar(10, 1)
        bar(10, 1200)
    assert "1,201 files" in stream.getvalue()


def test_pipes_and_dumb_terminals_see_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert copied(io.StringIO(), monkeypatch) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert copied(Terminal(), monkeypatch) == ""


def test_a_line_of_steps_is_written_over_and_left_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with progress_line(1200) as tell:
        tell("v1.null")
        tell("v1.type.\x1b[2J")
    blank = "\r\x1b[K"
    assert stream.getvalue() == f"{blank}1 of 1,200: v1.null{blank}2 of 1,200: v1.type{blank}"


def test_elsewhere_there_is_no_line_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    with progress_line(2) as tell:
        tell("v1.null")
    assert stream.getvalue() == ""
