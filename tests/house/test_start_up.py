"""Start-up consists of imports: a help imports the parser, and no command imports the modules of others."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rpcrdma.cli.command_table import OWN
from rpcrdma.commands.options import VERSIONS
from rpcrdma.transport import VERSION_CHOICES
from rpcrdma_lab.commands import COMMANDS
from support.cases import each_case

COUNT = """
import json, sys
before = set(sys.modules)
from rpcrdma.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code
print("\\n" + json.dumps(sorted(set(sys.modules) - before)))
"""
SLOW = {"asyncio", "email", "importlib.metadata", "json", "logging", "rich", "rpcrdma.nfs", "rpcrdma.transport", "ssl"}
NEWER_MAX = 13 if sys.version_info >= (3, 14) else 0
"""Modules that dataclasses, pathlib, shutil and asyncio import from Python 3.14 on."""
MODULES_MAX = 76 + NEWER_MAX
"""Of argparse, pathlib and typing for the most part; all commands with what they need are 280."""
SEARCHING = {"email", "importlib.metadata"}
SEARCHING_MAX = 56
"""Modules that look for the commands of other distributions, in half of the time of a start."""
ABSENT = {
    "http.client",
    "http.server",
    "importlib.metadata",
    "json",
    "lark",
    "multiprocessing",
    "rich",
    "sqlite3",
    "xml",
    "rpcrdma_lab",
} | {
    f"rpcrdma.{name}"
    for name in ("aio.server", "fsspec", "nfs.export", "nfs.server", "nfs.v3.server", "sync", "xdr.language")
}
CONNECTED_MAX = 352 + NEWER_MAX
"""Modules of a command that calls a server: 200 are this package's, 30 asyncio's; start-up is most of its cost."""


def imported(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{COUNT}", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.thorough
@each_case("words", [("--version",), ("--help",), ("ping", "--help"), ("ls", "--help"), ("decode", "--help")])
def test_version_and_help_import_little(words: tuple[str, ...]) -> None:
    modules = imported(*words)
    # The help names all commands, and a word that is none of this package's may be one of theirs.
    searches = words[0] == "--help" or words[0] not in {"--version", *OWN}
    assert modules & SLOW == (SEARCHING if searches else set())
    assert len(modules) <= MODULES_MAX + (SEARCHING_MAX if searches else 0), sorted(modules)
    of_commands = {**{word: f"rpcrdma.cli.{word}" for word in OWN}, **{word: at for word, (at, _) in COMMANDS.items()}}
    assert modules & set(of_commands.values()) == {of_commands[word] for word in words if word in of_commands}


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["cat", "ls", "stat"])
def test_a_short_command_imports_the_client_alone(command: str) -> None:
    modules = imported(command, "rdma://127.0.0.1:1/name", "--mount-port", "1")
    assert "rpcrdma.nfs.client" in modules
    assert modules & ABSENT == set()
    assert len(modules) <= CONNECTED_MAX, sorted(modules)


def test_the_versions_that_the_options_offer_are_all_of_them() -> None:
    assert VERSIONS == VERSION_CHOICES
