"""`rpcrdma xdr`: exit status, written files, messages, in files and through pipes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from rpcrdma.cli.main import main
from rpcrdma.xdr.language import compile_source
from support.cases import each_case

COUNTER = "struct counter { int number; };\n"
UNBOUNDED = "struct name {\n    string text<>;\n};\n"
DRAFT = "const FLAG 1;\nstruct s { uint32 a; };\n"
SPECIFICATION = "The definition:\n\n   /// struct counter { int number; };\n\n   Ends.\n"


def run(*words: str) -> int:
    return main(["xdr", *words])


@pytest.fixture(name="here")
def here_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"counter.x": COUNTER, "name.x": UNBOUNDED, "draft.x": DRAFT, "spec.txt": SPECIFICATION}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def generated(text: str, name: str, *, lenient: bool = False, default_limit: int | None = None) -> str:
    return compile_source(text, source_name=name, lenient=lenient, default_limit=default_limit).text


def test_compile_writes_beside_the_definition_or_where_it_is_told(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("compile", str(here / "counter.x"), "-o", "other.py") == 0
    assert not (here / "counter.py").exists()
    assert run("compile", "counter.x") == 0
    assert (here / "counter.py").read_text() == (here / "other.py").read_text() == generated(COUNTER, "counter.x")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stdin", io.StringIO(COUNTER))
    assert run("compile", "-") == 0
    assert capsys.readouterr().out == generated(COUNTER, "standard input")
    assert run("compile", "counter.x", "-o", "none/counter.py") == 1
    assert capsys.readouterr().err == "error: none/counter.py: no such file or directory\n"


def test_check_compares_and_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "counter.x", "--check") == 1
    assert capsys.readouterr().err == "error: counter.py: no such file or directory\n"
    assert run("compile", "counter.x") == 0
    assert run("compile", "counter.x", "--check") == 0
    (here / "counter.py").write_text("# edited\n")
    assert run("compile", "counter.x", "--check") == 1
    assert capsys.readouterr().err == (
        "error: counter.py differs from the code that counter.x compiles to\nhint: compile it without --check\n"
    )
    assert (here / "counter.py").read_text() == "# edited\n"


def test_errors_show_line_column_and_caret(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "name.x") == 1
    assert capsys.readouterr() == (
        "",
        (
            "error: name.x:2:12: name.text has no limit\n      string text<>;\n             ^^^^\n"
            "hint: write <N>, or add: pragma limit name.text N;\n"
        ),
    )
    assert not (here / "name.py").exists()


def test_a_default_limit_makes_up_for_missing_ones(here: Path) -> None:
    assert run("compile", "name.x", "--default-limit", "0x10") == 0
    assert (here / "name.py").read_text() == generated(UNBOUNDED, "name.x", default_limit=16)


def test_wrong_usage_has_a_status_of_its_own(here: Path) -> None:
    for words in ([], *(["compile", "name.x", f"--default-limit={limit}"] for limit in ("-1", "many", "4294967296"))):
        with pytest.raises(SystemExit) as raised:
            run(*words)
        assert raised.value.code == 2


def test_the_lenient_dialect_warns(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "draft.x") == 1
    assert capsys.readouterr().err.startswith("error: draft.x:1:12: constant FLAG lacks '='")
    assert run("compile", "--lenient", "draft.x") == 0
    assert capsys.readouterr().err.startswith("warning: draft.x:1:12: constant FLAG lacks '='")
    assert (here / "draft.py").read_text() == generated(DRAFT, "draft.x", lenient=True)


@each_case("output", ["counter.x", "./counter.x", "link.x"])
def test_the_definition_is_never_overwritten(here: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    (here / "link.x").unlink(missing_ok=True)
    (here / "link.x").symlink_to("counter.x")
    assert run("compile", "counter.x", "-o", output) == 1
    assert capsys.readouterr().err == f"error: {output} is the definition itself\nhint: name another file with -o\n"
    assert (here / "counter.x").read_text() == COUNTER
    assert run("extract", "spec.txt", "-o", "./spec.txt") == 1
    assert "error: ./spec.txt is the specification itself" in capsys.readouterr().err
    assert (here / "spec.txt").read_text() == SPECIFICATION


def test_a_byte_order_mark_is_no_part_of_a_definition(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "marked.x").write_text(COUNTER, encoding="utf-8-sig")
    assert run("lint", "marked.x") == 0
    assert capsys.readouterr() == ("", "")


@each_case("command", ["compile", "lint", "extract"])
def test_files_that_cannot_be_read_are_named(here: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run(command, "none.x") == 1
    (here / "latin.x").write_bytes(b"/* \xe9 */")
    assert run(command, "latin.x") == 1
    assert capsys.readouterr() == ("", "error: none.x: no such file or directory\nerror: latin.x: not UTF-8 text\n")


def test_lint_reports_on_standard_error_what_is_wrong(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, status, said in (
        (["counter.x"], 0, ""),
        (["name.x"], 1, "error: name.x:2:12: name.text has no limit\n"),
        (["--lenient", "draft.x"], 0, "warning: draft.x:1:12: "),
    ):
        assert run("lint", *words) == status
        out, err = capsys.readouterr()
        assert (out, err[: len(said)], bool(err)) == ("", said, bool(said))
    assert not (here / "counter.py").exists()


def test_lint_prints_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lint", "--json", "name.x") == 1
    assert json.loads(capsys.readouterr().out) == {
        "file": "name.x",
        "ok": False,
        "diagnostics": [
            {
                "severity": "error",
                "file": "name.x",
                "line": 2,
                "column": 12,
                "length": 4,
                "message": "name.text has no limit",
                "hint": "write <N>, or add: pragma limit name.text N;",
            }
        ],
    }
    assert run("lint", "--json", "--lenient", "draft.x") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert [remark["severity"] for remark in report["diagnostics"]] == ["warning"]


def test_extract_prints_or_writes_the_definition(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("extract", "spec.txt") == 0
    assert capsys.readouterr() == (COUNTER, "")
    assert run("extract", "spec.txt", "-o", "spec.x") == 0
    assert (here / "spec.x").read_text() == COUNTER


def test_extract_says_when_there_is_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("extract", "counter.x") == 1
    assert capsys.readouterr() == (
        "",
        'error: counter.x has no XDR in it\nhint: specifications mark it with "///" at the start of each line\n',
    )
