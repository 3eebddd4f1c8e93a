"""Shared by tests of the Wireshark dissector: tshark with it, and messages of version 2 by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.octets import words

__all__ = ["Tshark", "call", "reply", "v2", "words"]


def call(xid: int) -> bytes:
    return words(xid, 0, 2, 100003, 3, 0, 0, 0, 0, 0)


def reply(xid: int) -> bytes:
    return words(xid, 1, 0, 0, 0, 0)


def v2(xid: int, flags: int = 0, *, kind: int = 0, lists: bytes = words(0, 0, 0, 0)) -> bytes:
    return words(xid, 2, 0x00200004, kind, flags) + lists


class Tshark:
    """tshark with the dissector, in 1 GB of memory."""

    def __init__(self, command: str, directory: Path) -> None:
        self.script = directory / "rpcrdma2.lua"
        options = ["decode", "--lua"]
        self.script.write_bytes(subprocess.run([command, *options], capture_output=True, check=True).stdout)

    def fields(self, capture: Path, *names: str) -> list[list[list[str]]]:
        """The values of these fields in each frame that holds version 2, in the order of `names`."""
        wanted = [argument for name in names for argument in ("-e", name)]
        rows = self._run(capture, "-Y", "rpcrdma2", "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", *wanted)
        return [[cell.split(",") if cell else [] for cell in row.split("\t")] for row in rows.splitlines()]

    def _run(self, capture: Path, *arguments: str) -> str:
        command = ["prlimit", "--as=1000000000", "tshark", "-2", "-X", f"lua_script:{self.script}", "-r", capture]
        done = subprocess.run([*command, *arguments], capture_output=True, check=True, text=True, errors="replace")
        assert "Lua" not in done.stderr, done.stderr
        return done.stdout
