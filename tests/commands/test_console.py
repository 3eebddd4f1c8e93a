"""The output to a terminal or a pipe."""

from __future__ import annotations

import base64
import errno
import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

import rpcrdma_lab.commands
from rpcrdma.commands import console
from support.cases import each_case


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


HEADED = {"rows": [("a", "1"), ("long name", "1,000")], "right": (1,), "headings": ("name", "files")}


@each_case(
    ("name", "told"),
    [
        (b"\x9b2J", "\\x9b2J"),
        (bytes(range(0x80, 0x100)), "".join(f"\\x{octet:02x}" for octet in range(0x80, 0x100))),
        ("\x85\x9b".encode(), "\\x85\\x9b"),
        ("evil\u202egnp.exe".encode(), "evil\\u202egnp.exe"),
        ("\u2066a\u2069\u2028\ufeff\U000e0041".encode(), "\\u2066a\\u2069\\u2028\\ufeff\\U000e0041"),
        ("é 日本\u3000 €".encode(), "é 日本\u3000 €"),
    ],
)
def test_no_octet_of_a_name_drives_a_terminal(monkeypatch: pytest.MonkeyPatch, name: bytes, told: str) -> None:
    text = name.decode("utf-8", "surrogateescape")
    octets = io.BytesIO()
    terminal = io.TextIOWrapper(octets)
    terminal.isatty = lambda: True  # type: ignore[method-assign] - makes it a terminal
    monkeypatch.setattr(sys, "stdout", terminal)
    console.prepare()
    console.names([text])
    terminal.flush()
    assert octets.getvalue() == told.encode() + b"\n"
    assert console.printable(text) == told


def test_names_leave_as_their_octets_whatever_the_locale_is(monkeypatch: pytest.MonkeyPatch) -> None:
    octets = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", pipe := io.TextIOWrapper(octets, encoding="ascii"))
    console.prepare()
    console.names([b"\xff\xc3\xa9".decode("utf-8", "surrogateescape")])
    pipe.flush()
    assert octets.getvalue() == b"\xff\xc3\xa9\n"


def test_standard_input_is_utf8_whatever_the_locale_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(octets: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(octets), "ascii", "surrogateescape"))
        console.prepare()

    begin("é".encode())
    assert sys.stdin.read() == "é"
    begin(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        sys.stdin.read()


def test_lines_cannot_drive_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.error("no \x1b]0;x", "do\r")
    assert capsys.readouterr().err == "error: no \\x1b]0;x\nhint: do\\x0d\n"
    console.data("a \x07\nb")
    console.table([["\x9b", "n\x1b"]], headings=["one", "two"], names=[1])
    assert capsys.readouterr().out == "a \\x07\\x0ab\none   two\n\\x9b  n\x1b\n"


COMMANDS = Path(console.__file__).parent
ROOMS = (COMMANDS, COMMANDS.parent / "cli", Path(rpcrdma_lab.commands.__file__).parent)
RAW = {
    "call": "JSON, which has escapes",
    "command_parser": "the help",
    "completion": "a program for the shell",
    "config": "TOML, which has escapes",
    "console": "the one place of all others",
    "decode": "a program for Wireshark",
    "definition": "remarks, which the compiler makes printable",
    "explain": "a page, of which `test_pages_hold_no_control_characters` has the texts",
    "help": "the help",
    "ls": "names that are `shown`",
    "progress": "moves the cursor",
    "stats": "clears the screen",
    "xdr": "the code of a definition, for a file",
}
"""Why these commands write what is not `printable`."""


def test_every_other_line_of_a_command_is_printable() -> None:
    raw = re.compile(
        r"\bconsole\.write(?:_error)?\((?!flush=True\)).|\bsys\.std(?:out|err)\.(?:buffer|write)|\bprint\("
    )
    found = set()
    for room in ROOMS:
        for path in room.rglob("*.py"):
            if raw.search(path.read_text()):
                found.add(str(path.relative_to(room).with_suffix("")))
    assert found == RAW.keys()


def test_any_name_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    name = b"\xff%41\n".decode("utf-8", "surrogateescape")
    console.json_line({"name": name, "deep": [{"path": f"/a/{name}", "size": 3}, "\u00e9\U0001f602"], "message": name})
    line = capsys.readouterr().out
    assert line.isascii()
    found = json.loads(line)
    # RFC 8259 calls these strings interoperable: no string with a surrogate that has no partner.
    json.dumps(found, ensure_ascii=False).encode("utf-8")
    assert found == {
        "name": "%FF%41\n",
        "name_base64": base64.b64encode(b"\xff%41\n").decode(),
        "deep": [
            {"path": "/a/%FF%41\n", "path_base64": base64.b64encode(b"/a/\xff%41\n").decode(), "size": 3},
            "\u00e9\U0001f602",
        ],
        "message": "%FF%41\n",
    }


def test_names_that_are_utf_8_stand_alone(capsys: pytest.CaptureFixture[str]) -> None:
    console.json_line({"name": "caf\u00e9 \U0001f602 %"})
    assert json.loads(capsys.readouterr().out) == {"name": "caf\u00e9 \U0001f602 %"}


def test_tables_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    console.table(**HEADED)
    assert capsys.readouterr().out == "name       files\na              1\nlong name  1,000\n"


def test_headings_are_bold_on_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    console.table(**HEADED)
    assert terminal.getvalue().startswith("\x1b[1mname")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    console.table(**HEADED)
    assert "\x1b" not in terminal.getvalue()


@each_case(
    ("octets", "shown"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (64_200_000, "64.2 MB"), (3e12, "3.0 TB")],
)
def test_sizes_are_readable(octets: float, shown: str) -> None:
    assert console.readable_octets(octets) == shown


def test_a_failure_is_told_though_standard_output_takes_no_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(sys, "stdout", Full())
    monkeypatch.setattr(console, "_error_object", {})
    assert console.error("it is full") is console.ExitStatus.FAILED
    assert capsys.readouterr().err == "error: it is full\n"


@each_case("name", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_becomes_the_empty_device(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Its number may be that of a file of the program."""
    monkeypatch.setattr(sys, name, None)
    console.prepare()
    stream = getattr(sys, name)
    try:
        assert os.path.samestat(os.fstat(stream.fileno()), Path(os.devnull).stat())
        assert stream.writable() is (name != "stdin")
    finally:
        os.close(stream.fileno())
