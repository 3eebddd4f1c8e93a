"""Commands that read definitions and JSON of others have bounds, and print no control characters."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import sys
from pathlib import Path

import pytest

from rpcrdma.cli.main import main
from rpcrdma.commands import definition, preprocessor
from support.cases import each_case
from support.command_process import HANG_S

HOSTILE = "\x1b[2J\x9b1A\u202e"
SAVE_X = "program P { version V { void STORE(opaque_) = 1; } = 1; } = 9; typedef opaque opaque_<>;"
needs_cpp = pytest.mark.skipif(shutil.which("cpp") is None, reason="there is no program cpp")


def said_in_printable(capsys: pytest.CaptureFixture[str]) -> str:
    said = capsys.readouterr().err
    assert all(line.isprintable() for line in said.split("\n")), said
    return said


@pytest.mark.thorough
@needs_cpp
def test_line_markers_put_no_control_characters_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.x"
    file.write_text('#line 5 "\\033[2J\\302\\2332J.x"\nconst A = A;\n')
    assert main(["xdr", "lint", "--cpp", str(file)]) == 1
    said = said_in_printable(capsys)
    assert "\\x1b[2J" in said
    assert ":5:11: constant A is defined by itself" in said


@pytest.mark.thorough
@needs_cpp
@pytest.mark.parametrize("named", ["/dev/zero", "pipe", "/dev/stdin", "a\\0b"])
def test_files_that_line_markers_name_are_read_only_if_they_have_an_end(
    named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("a.x").write_text(f'#line 1 "{named}"\nconst A = A;\n')
    assert main(["xdr", "lint", "--cpp", "a.x"]) == 1
    heading, line, _ = said_in_printable(capsys).splitlines()
    assert heading.endswith(":1:11: constant A is defined by itself")
    assert line == "  const A = A;"


@each_case("command", [["lint"], ["compile"], ["extract"]])
def test_a_definition_without_end_is_read_in_part(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition, "XDR_FILE_OCTETS_MAX", 1 << 20)
    assert main(["xdr", *command, "/dev/zero"]) == 1
    assert capsys.readouterr().err == "error: /dev/zero: longer than 1 MiB\n"
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        assert main(["xdr", *command, "-"]) == 1
    assert capsys.readouterr().err == "error: -: longer than 1 MiB\n"


@pytest.mark.thorough
@needs_cpp
def test_files_that_include_each_other_come_to_an_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.x"
    file.write_text('const A = 1;\n#if __INCLUDE_LEVEL__ < 60\n#include "a.x"\n#include "a.x"\n#endif\n')
    assert main(["xdr", "lint", "--cpp", str(file)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: cpp: more than 2 MiB of output",
        "hint: do files include each other?",
    ]


@pytest.mark.thorough
def test_a_preprocessor_that_does_not_end_is_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    program = tmp_path / "cpp"
    # As gcc has its compiler do the work in another process.
    program.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! >{pid}\nwait\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    file = tmp_path / "a.x"
    file.write_text("const A = 1;")
    bound_s = 0.2
    # On a slow machine it has not begun before the end.
    while not pid.exists() or not pid.read_text():
        bound_s *= 2
        monkeypatch.setattr(preprocessor, "XDR_PREPROCESSOR_S", bound_s)
        assert main(["xdr", "lint", "--cpp", str(file)]) == 1
        complaint, hint = capsys.readouterr().err.splitlines()
        assert (complaint, hint) == (f"error: cpp: no end after {bound_s:g} s", "hint: do files include each other?")
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(int(pid.read_text()))
        ended, _, _ = select.select([process], [], [], HANG_S)
        os.close(process)
        assert ended, "the process of the compiler goes on"


@each_case(
    ("document", "complaint"),
    [
        ("@\0", r'arguments: "@\u0000": no file can have this name'),
        ("@a\ud800", r'arguments: "@a\ud800": no file can have this name'),
        ("@/dev/zero", "/dev/zero: not a regular file"),
        ("@pipe", "pipe: not a regular file"),
        ("@/dev/stdin", "/dev/stdin: not a regular file"),
        ("@.", ".: is a directory"),
        ("@missing", "missing: no such file or directory"),
        ("@~no-such-user/x", "~no-such-user/x: no such file or directory"),
        ("@", ": no such file or directory"),
        ("@large", "large: longer than 0 MiB"),
        ("@" + "x" * 300, "x" * 300 + ": file name too long"),
    ],
)
def test_files_that_stand_for_data_are_regular_ones(
    document: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rpcrdma.cli.call.JSON_FILE_OCTETS_MAX", 1000)
    os.mkfifo("pipe")
    Path("large").write_bytes(bytes(1001))
    Path("save.x").write_text(SAVE_X)
    reading, writing = os.pipe()
    kept = os.dup(0)
    os.dup2(reading, 0)
    try:
        assert main(["call", "rdma://127.0.0.1:1", "save.x", "STORE", json.dumps(document)]) != 0
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, reading, writing):
            os.close(descriptor)
    assert said_in_printable(capsys).splitlines()[0] == f"error: {complaint}"


def test_json_without_end_is_read_in_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpcrdma.cli.call.JSON_FILE_OCTETS_MAX", 2 << 20)
    file = tmp_path / "save.x"
    file.write_text(SAVE_X)
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        assert main(["call", "rdma://127.0.0.1:1", str(file), "STORE", "-"]) == 2
    assert capsys.readouterr().err == "error: arguments: longer than 2 MiB\n"
