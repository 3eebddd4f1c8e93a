"""The command line: valid and invalid arguments, and the output of --help."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

import rpcrdma.__main__
from rpcrdma.cli.command_table import OF_LAB, OWN
from rpcrdma.cli.main import build_parser, main
from rpcrdma.commands.console import ExitStatus
from rpcrdma.commands.options import connect_options
from support.cases import each_case

COMMANDS = [*OWN, *OF_LAB]
URL = "rdma://127.0.0.1:1/data"


def usage_error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on standard error of a command line that is refused."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == ExitStatus.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


@each_case("name", COMMANDS)
def test_help_of_each_command_has_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: rpcrdma {name}")
    assert "examples:\n" in shown
    assert f"\n  rpcrdma {name}" in shown


@pytest.mark.req("MPA-20")
@each_case("words", [["serve", "--help"], ["help", "connection"]])
def test_who_turns_the_crc_off_is_told_what_it_takes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main(words)
    told = " ".join(capsys.readouterr().out.split())
    assert "--no-crc do not ask for the software RNIC's CRC32C, where another layer protects the data as well" in told


@each_case("name", ["get", "ls", "ping"])
def test_commands_show_their_own_options_and_where_the_others_are(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = capsys.readouterr().out
    assert "rpcrdma help connection" in shown
    assert main(["help", "connection"]) == 0
    shared = capsys.readouterr().out
    for option in ("--timeout", "--pcap", "--host-auth", "--log-level", "--mount-port"):
        assert option not in shown
        assert f"\n  {option}" in shared


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n    {name} " not in shown] == []


@each_case(("words", "shown"), [(["help"], ["--help"]), (["help", "get"], ["get", "--help"])])
def test_help_as_a_command_is_help_as_an_option(
    words: list[str], shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = []
    for line in (words, shown):
        with pytest.raises(SystemExit) as ended:
            main(line)
        assert ended.value.code == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != ""


@pytest.mark.thorough
def test_help_loads_nothing_that_it_does_not_need() -> None:
    script = (
        "import sys; from rpcrdma.cli.main import build_parser; build_parser().format_help(); "
        "print(sorted({'lark', 'rich', 'sqlite3', 'uvloop'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("rpcrdma ")


def test_shared_options_may_stand_on_either_side() -> None:
    before = build_parser().parse_args(["--mount-port", "5", "--timeout", "2", "-v", "ls", URL])
    after = build_parser().parse_args(["ls", "--mount-port", "5", "--timeout", "2", "-v", URL])
    assert (before.mount_port, before.timeout, before.verbose) == (5, 2.0, 1)
    assert vars(before) == vars(after)


def test_shared_options_say_how_to_connect() -> None:
    args = build_parser().parse_args(["ls", URL])
    assert (args.provider, args.rpcrdma_version, args.mount_port, args.timeout) == ("auto", "auto", None, None)
    plain = connect_options(args)
    assert (plain.reserved_port, plain.iwarp.crc) == (False, True)
    told = connect_options(build_parser().parse_args(["--reserved-port", "ls", "--no-crc", URL]))
    assert (told.reserved_port, told.iwarp.crc) == (True, False)


@each_case(
    ("line", "said"),
    [
        ("", "COMMAND"),
        ("ls", "URL"),
        ("ls http://host/x", "rdma://HOST"),
        ("ls rdma://host:port/x", "port must be a number"),
        ("cat rdma:///x", "names no host"),
        ("ping -c 0 rdma://h", "at least 1"),
        ("ping --interval x rdma://h", "seconds"),
        ("mkdir -m 999 rdma://h/x", "mode"),
        ("--provider ib ls rdma://h", "'auto', 'iwarp', 'verbs'"),
        ("--rpcrdma-version 3 ls rdma://h", "'auto', '1', '2'"),
        ("--mount-port 70000 ls rdma://h", "65535"),
        ("serve --export data", "NAME=DIR"),
        ("serve ''", "DIR: the name of a file or directory is empty"),
        ("put '' rdma://h/", "SOURCE: the name of a file or directory is empty"),
        ("get rdma://h/x ''", "DEST: the name of a file or directory is empty"),
        ("serve --export ../x=/tmp", "the name"),
        ("demo --limit-bytes much", "size"),
    ],
)
def test_wrong_usage_says_what_is_wrong_and_what_to_do(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    complaint, advice = usage_error(shlex.split(line), capsys)
    assert complaint.startswith("error: ")
    assert said.replace("'", "") in complaint.replace("'", "")
    assert advice.startswith("hint: rpcrdma ")
    assert advice.endswith("--help shows how to use it")


@each_case(
    ("line", "said", "told"),
    [
        ("lss rdma://h", "there is no command 'lss'", "did you mean rpcrdma ls?"),
        ("rmdir rdma://h/d", "there is no command 'rmdir'", "that is rpcrdma rm -r"),
        ("xdr lnt a.x", "there is no command 'lnt'", "did you mean rpcrdma xdr lint?"),
        ("fly", "there is no command 'fly'", "rpcrdma --help lists the commands"),
        ("get server:/data .", "server:/data is not a URL", "write rdma://server/data or tcp://server/data"),
        ("put a 192.0.2.1:/", "192.0.2.1:/ is not a URL", "write rdma://192.0.2.1/ or tcp://192.0.2.1/"),
        ("put a b", "b is not a URL", "write rdma://HOST[:PORT][/PATH] or tcp://HOST[:PORT][/PATH]"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(line: str, said: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main(line.split())
    assert capsys.readouterr().err == f"error: {said}\nhint: {told}\n"


@each_case(
    ("line", "program"),
    [
        (f"ls --bogus {URL}", "rpcrdma ls"),
        (f"ls {URL} --bogus 7", "rpcrdma ls"),
        ("xdr lint --bogus x.x", "rpcrdma xdr lint"),
        (f"--bogus ls {URL}", "rpcrdma"),
    ],
)
def test_a_wrong_option_leads_to_the_help_of_its_command(
    line: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    complaint, advice = usage_error(line.split(), capsys)
    assert complaint.startswith("error: unrecognized arguments: --bogus")
    assert advice == f"hint: {program} --help shows how to use it"


@each_case(
    ("line", "said"),
    [
        ("serve", "there is no export; name a directory"),
        ("serve --export a=/tmp --export a=/usr", "command line: the name /a is that of an earlier export"),
        ("rm rdma://h/", "whole export"),
        ("rm -r rdma://h/x/.", "ends in . or .."),
        ("rm -r rdma://h/x/../", "ends in . or .."),
        ("mv rdma://a/x rdma://b/y", "not on one server"),
        ("mv rdma://h/x/. rdma://h/y", "ends in . or .."),
        ("get rdma://h/x tcp://h/y", "local"),
        ("get a b", "rdma://"),
        ("put a b", "rdma://"),
        ("put rdma://h/x rdma://h/y", "local"),
    ],
)
def test_wrong_combination_is_wrong_usage(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == ExitStatus.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert said in shown.err


def test_errors_that_nobody_expected_are_told_without_a_traceback_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raised: list[BaseException] = []

    def run(_args: object) -> int:
        raise raised[-1]

    def said(error: BaseException, status: int) -> str:
        raised.append(error)
        assert main(["ls", URL]) == status
        return capsys.readouterr().err

    monkeypatch.setattr("rpcrdma.cli.ls.run", run)
    assert said(KeyboardInterrupt(), 130) == "error: interrupted\n"
    complaint, advice = said(TypeError("odd"), ExitStatus.FAILED).splitlines()
    assert complaint == "error: internal error: TypeError: odd"
    assert "RPCRDMA_TRACEBACK=1" in advice
    monkeypatch.setenv("RPCRDMA_TRACEBACK", "1")
    assert "Traceback" in said(TypeError("odd"), ExitStatus.FAILED)


_WATCHED = """
import gc, sys
from rpcrdma.cli import completion, main

def seen(args):
    print(gc.isenabled(), gc.get_freeze_count() > len(gc.get_objects()))
    sys.modules["imported later"] = [[] for _ in range(1000)]
    return 0

completion.run = seen
sys.argv = ["rpcrdma", "completion", "bash"]
status = main.run()
print(status, len(gc.get_objects()) < 100)
"""


@pytest.mark.thorough
def test_what_is_imported_is_left_out_of_garbage_collections() -> None:
    """Of those while the command works, and of those of the interpreter's end."""
    done = subprocess.run([sys.executable, "-c", _WATCHED], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True True\n0 True\n", "")


@pytest.mark.thorough
def test_an_interrupt_behind_the_work_shows_no_traceback() -> None:
    program = (
        "import gc, os, signal, sys; from rpcrdma.cli import main; main.main = lambda **_: 0; "
        "gc.collect = lambda: os.kill(os.getpid(), signal.SIGINT); sys.exit(main.run())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_an_interrupt_during_the_imports_shows_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.delattr(rpcrdma.cli, "main")
    monkeypatch.delitem(sys.modules, "rpcrdma.cli.main")
    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=interrupted)])
    assert (rpcrdma.__main__.run(), capsys.readouterr().err) == (130, "error: interrupted\n")


@each_case("buffering", [1, 1 << 16])
@each_case("words", ["--help", "ls --help", "--version", "help connection"])
def test_standard_output_that_takes_nothing_is_named(
    words: str, buffering: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Closing it would raise as well, if anything were left to write.
    with open("/dev/full", "w", buffering, encoding="utf-8") as full:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", full)
        assert main(words.split()) == ExitStatus.FAILED
    assert capfd.readouterr().err == "error: standard output: no space left on device\n"
