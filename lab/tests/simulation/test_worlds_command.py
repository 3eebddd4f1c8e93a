"""`python -m rpcrdma_lab.simulation.worlds`: many worlds, the command that replays one, and the minimiser."""

from __future__ import annotations

import errno
import re
import shlex
from pathlib import Path

import pytest

from rpcrdma.rpc.reply_cache import ReplyCache
from rpcrdma_lab.simulation.worlds import __main__ as command_of_worlds
from rpcrdma_lab.simulation.worlds.__main__ import main

SCENARIO = """
clients = 1
calls = 3
faults = 1
octets = 100

[[fault]]
kind = "cut"
side = "server"
after_operations = [3, 6]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "cuts.toml"
    path.write_text(SCENARIO)
    return str(path)


def test_good_worlds_are_counted(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", scenario, "--seeds", "3", "--jobs", "0", "--twice-every", "2"]) == 0
    told = capsys.readouterr().out
    assert re.search(
        r"^3 worlds of scenario .*cuts.toml, seeds 1 to 3: \d+ calls, \d+ faults, .* 1 of them twice", told
    )
    assert told.endswith("; 0 failed\n")


@pytest.mark.thorough
def test_a_failing_seed_prints_one_command_that_runs_it_again(
    scenario: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReplyCache, "find", lambda *_: None)
    # More seeds fail than are printed.
    monkeypatch.setattr(command_of_worlds, "_SHOWN_MAX", 1)
    assert main(["--scenario", scenario, "--seeds", "4", "--jobs", "1", "--twice-every", "0"]) == 1
    told = capsys.readouterr().out
    assert re.search("; [2-4] failed$", told)
    (command,) = re.findall(r"^  replay: (.*)$", told, re.MULTILINE)
    replay = shlex.split(command)
    assert replay[1:3] == ["-m", "rpcrdma_lab.simulation.worlds"]
    assert main([*replay[3:], "--minimise"]) == 1
    told = capsys.readouterr().out
    assert " ran 2 times, in starts [1, 1] of the server" in told
    # The ladder has arrows, and the last line is the command for the smaller world.
    assert "<--" in told
    smaller = shlex.split(told.splitlines()[-1].removeprefix("replay: "))
    assert smaller[-6::2] == ["--faults", "--clients", "--calls"]
    assert (smaller[-5], smaller[-3], len(smaller[-1].split(",")) < 3) == ("0", "0", True)
    assert main(smaller[3:]) == 1
    assert capsys.readouterr().out.endswith(told.partition("fault ")[2][-200:])
    monkeypatch.undo()
    assert main(smaller[3:]) == 0


def test_a_wrong_scenario_is_an_error_of_the_caller(
    scenario: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--scenario", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: no scenario 'nothing': name a TOML file, or one of ")

    def refuse(path: Path, **_: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", refuse)
    assert main(["--scenario", scenario]) == 2
    assert capsys.readouterr().err == f"error: [Errno {errno.EACCES}] Permission denied: '{scenario}'\n"
