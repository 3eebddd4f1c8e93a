"""`rpcrdma xdr` with the C preprocessor before the compiler."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pytest

from rpcrdma.cli.main import main

pytestmark = pytest.mark.skipif(shutil.which("cpp") is None, reason="needs the C preprocessor: apt-get install cpp")

HOST = """\
%/* don't: C only, and an apostrophe */
#include "sizes.x"
#ifdef WITH_ALIASES
struct alias { string name<NAME_MAX>; };
#endif
struct host {
\tint unix;
\tstring\tname<NAME_MAX>;
#ifdef WITH_ALIASES
\talias\taliases<COUNT>;
#endif
};
"""


@pytest.fixture(name="here")
def here_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host.x").write_text(HOST)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "sizes.x").write_text("#define NAME_MAX 64\n%#define FOR_C 1\n")
    return tmp_path


@pytest.mark.thorough
def test_directives_are_carried_out(here: Path) -> None:
    assert main(["xdr", "compile", "--cpp", "-Iinclude", "host.x"]) == 0
    plain = (here / "host.py").read_text()
    assert "class alias" not in plain
    assert "unix: int" in plain, "names of systems are no macros"
    assert main(["xdr", "compile", "-Iinclude", "-DWITH_ALIASES", "-D", "COUNT=4", "host.x", "-o", "more.py"]) == 0
    assert "dec.count(4, " in (here / "more.py").read_text()


@pytest.mark.thorough
def test_diagnostics_name_the_lines_of_the_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xdr", "lint", "-Iinclude", "-DWITH_ALIASES", "host.x"]) == 1
    assert capsys.readouterr().err == (
        "error: host.x:10:16: constant COUNT is not defined\n  \talias\taliases<COUNT>;\n  \t     \t        ^^^^^\n"
        "hint: -D COUNT=N gives it a value\n"
    )
    (here / "include" / "sizes.x").write_text("\n\ntypedef string NAME_MAX<>;\n")
    assert main(["xdr", "lint", "--json", "-Iinclude", "host.x"]) == 1
    assert '"file": "include/sizes.x", "line": 3, "column": 16,' in capsys.readouterr().out


@pytest.mark.thorough
def test_standard_input_is_preprocessed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(HOST.replace("int unix", "none unix")))
    assert main(["xdr", "lint", "-Iinclude", "-"]) == 1
    assert capsys.readouterr().err == ("error: -:7:2: type none is not defined\n  \tnone unix;\n  \t^^^^\n")


@pytest.mark.thorough
def test_a_pipe_is_preprocessed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.write(writer, HOST.replace("int unix", "none unix").encode())
    os.close(writer)
    assert main(["xdr", "lint", "-Iinclude", f"/dev/fd/{reader}"]) == 1
    os.close(reader)
    assert capsys.readouterr().err.startswith(f"error: /dev/fd/{reader}:7:2: type none is not defined\n")


@pytest.mark.thorough
def test_what_the_preprocessor_refuses_is_told_in_a_line(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["xdr", "lint", "--cpp", "host.x"]) == 1
    assert capsys.readouterr().err == "error: cpp: host.x:2:10: sizes.x: No such file or directory\n"
    monkeypatch.setenv("PATH", "")
    assert main(["xdr", "lint", "--cpp", "host.x"]) == 1
    assert capsys.readouterr().err == (
        "error: there is no C preprocessor: no program cpp in the PATH\nhint: apt-get install cpp\n"
    )


def test_without_it_the_option_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xdr", "lint", "host.x"]) == 1
    assert capsys.readouterr().err.endswith(
        "hint: lines of a preprocessor are not part of the language: let it run before (--cpp)\n"
    )
