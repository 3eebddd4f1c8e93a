"""Commands that other distributions add, and the hint for those of `rpcrdma-lab` where it is not installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rpcrdma.cli import command_table
from rpcrdma.cli import main as command
from rpcrdma.cli.command_table import OF_LAB, OWN
from rpcrdma.cli.main import main
from rpcrdma.commands import ExitStatus
from rpcrdma_lab.commands import COMMANDS
from support.cases import each_case

COMMAND = """
from rpcrdma.commands import ExitStatus, console

def add_arguments(parser):
    parser.describe(run, "WHERE", "  rpcrdma fly south", connects=False)
    parser.add_argument("where")

def run(args):
    console.data(f"flying {args.where}")
    return ExitStatus.DONE
"""


def install(
    directory: Path, monkeypatch: pytest.MonkeyPatch, name: str, table: str, module: str | None = COMMAND
) -> None:
    """A distribution with an entry point for the mapping `table`, and a module with a command where one is given."""
    information = directory / f"{name}-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (information / "entry_points.txt").write_text(f"[rpcrdma.commands]\n{name} = {name}_table:TABLE\n")
    (directory / f"{name}_table.py").write_text(f"TABLE = {table}\n")
    if module is not None:
        (directory / f"{name}_command.py").write_text(module)
    monkeypatch.syspath_prepend(directory)
    for loaded in (f"{name}_table", f"{name}_command"):
        monkeypatch.delitem(sys.modules, loaded, raising=False)


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The exit status of a command line, its output and its messages."""
    try:
        status = main(words)
    except SystemExit as ended:
        status = int(ended.code or 0)
    return status, *capsys.readouterr()


def test_a_distribution_adds_commands_but_replaces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, monkeypatch, "birds", '{"fly": ("birds_command", "fly away"), "ls": ("birds_command", "sing")}')
    assert said(["fly", "south"], capsys) == (0, "flying south\n", "")
    assert said(["help", "fly"], capsys)[1].startswith("usage: rpcrdma fly [options] WHERE\n\nFly away.\n")
    assert said(["flyy"], capsys)[2] == "error: there is no command 'flyy'\nhint: did you mean rpcrdma fly?\n"
    _, shown, _ = said(["--help"], capsys)
    assert "\n    fly                 fly away\n" in shown
    assert "sing" not in shown
    assert "usage: rpcrdma ls" in said(["ls", "--help"], capsys)[1]
    assert "fly" in said(["completion", "bash"], capsys)[1]


@each_case(
    ("table", "cause"),
    [
        ("{}['fly']", "KeyError: 'fly'"),
        ("{'fly': 'birds_command'}", "ValueError: too many values to unpack"),
        ("['fly']", "AttributeError: 'list' object has no attribute 'items'"),
    ],
)
def test_a_table_that_does_not_load_leaves_the_others(
    table: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, monkeypatch, "broken", table, None)
    install(tmp_path, monkeypatch, "birds", '{"fly": ("birds_command", "fly away")}')
    warning = f"warning: the commands of broken_table:TABLE are left out: {cause}"
    for words, output in ((["fly", "south"], "flying south\n"), (["--help"], "\n    fly ")):
        status, shown, messages = said(words, capsys)
        assert (status, len(messages.splitlines())) == (0, 1)
        assert messages.startswith(warning)
        assert output in shown


@each_case("word", sorted(OF_LAB))
def test_without_the_lab_its_commands_name_it(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "added_commands", dict)
    message, hint = f"{word} is a command of rpcrdma-lab", "in a checkout of rpcrdma: pip install ./lab"
    told = f"error: {message}\nhint: {hint}\n"
    assert said([word, "FILE"], capsys) == (ExitStatus.USAGE, "", told)
    assert said(["help", word], capsys) == (ExitStatus.USAGE, "", told)
    status, shown, messages = said(["--verbose", word, "--json"], capsys)
    assert (status, messages) == (ExitStatus.USAGE, told)
    error = json.loads(shown)["error"]
    assert (error["kind"], error["message"], error["hint"]) == ("usage", message, hint)
    assert f"\n    {word} " not in said(["--help"], capsys)[1]


def test_the_lab_has_the_commands_that_the_hint_is_for() -> None:
    assert COMMANDS.keys() == OF_LAB
    assert OF_LAB.isdisjoint(OWN)
    assert command_table.added_commands().items() >= COMMANDS.items()


@each_case("words", [["--version"], ["ls", "--help"], ["--timeout", "3", "ping", "--help"], ["help", "connection"]])
def test_no_distribution_is_looked_for_where_the_word_is_known(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "added_commands", lambda: pytest.fail("looked for"))
    assert said(words, capsys)[0] == 0
