"""Start-up consists of imports: `--version` and `--help` import the parser, no command imports another's modules."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import pytest

from rpcrdma.cli.main import build_parser
from rpcrdma.cli.options import VERSIONS
from rpcrdma.transport import VERSION_CHOICES
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
MODULES_MAX = 80
"""Of argparse, pathlib and typing for the most part; all commands with what they need are 280."""


ABSENT = {"http.client", "http.server", "json", "lark", "multiprocessing", "rich", "sqlite3", "xml"} | {
    f"rpcrdma.{name}"
    for name in ("aio.server", "dissect", "fsspec", "nfs.export", "nfs.server", "nfs.v3.server", "sync", "xdr.language")
}
CONNECTED_MAX = 348
"""Modules of a command that calls a server: 200 are this package's, 30 asyncio's; start-up is most of its cost."""


def commands() -> dict[str, argparse.ArgumentParser]:
    parser = build_parser()
    (subparsers,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return subparsers.choices


def imported(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{COUNT}", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.thorough
@each_case("words", [("--version",), ("--help",), ("ping", "--help"), ("ls", "--help")])
def test_version_and_help_import_little(words: tuple[str, ...]) -> None:
    modules = imported(*words)
    assert modules & SLOW == set()
    assert len(modules) <= MODULES_MAX, sorted(modules)
    others = {f"rpcrdma.cli.{name}" for name in commands()} - {f"rpcrdma.cli.{words[0]}"}
    assert modules & others == set()


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["cat", "ls", "stat"])
def test_a_short_command_imports_the_client_alone(command: str) -> None:
    modules = imported(command, "rdma://127.0.0.1:1/name", "--mount-port", "1")
    assert "rpcrdma.nfs.client" in modules
    assert modules & ABSENT == set()
    assert len(modules) <= CONNECTED_MAX, sorted(modules)


def test_the_versions_that_the_options_offer_are_all_of_them() -> None:
    assert VERSIONS == VERSION_CHOICES
