"""The commands by their words: those of this package, and those that other distributions add."""

from __future__ import annotations

from typing import Final

from rpcrdma.commands import console

__all__ = ["OF_LAB", "OWN", "added_commands"]

OWN: Final = {
    "demo": "export a real file tree, copy it out and back over RDMA, verify and report",
    "serve": "serve directories with NFSv3 and NFSv4 over RDMA and TCP",
    "config": "show the settings of serve, turn exports(5) into a file, and print a drop-in for systemd",
    "admin": "show the clients of a running server of this machine, and revoke the state of one",
    "exports": "list the exports of servers",
    "ls": "list directories on a server",
    "stat": "show the attributes of files on a server",
    "df": "show how much space is left on a server",
    "cat": "print files of a server to standard output",
    "get": "copy files and trees from a server",
    "put": "copy files and trees to a server",
    "rm": "remove files on a server",
    "mkdir": "make directories on a server",
    "mv": "rename or move files on one server",
    "ping": "measure the round trip of empty calls and show the negotiated terms",
    "stats": "show how many calls a server answers and how long they take",
    "call": "call any remote procedure by its interface definition, with JSON in and out",
    "programs": "list the programs that a server offers, by its port mapper and by asking them",
    "doctor": "check this machine for RDMA and NFS, and name the remedies",
    "xdr": "compile, check and extract XDR interface definitions",
    "help": "show the help of a command, or the options that all commands with a connection share",
    "completion": "print the completion of this command for a shell",
}
"""The commands of this package with their summaries; the module of each has its word as its name."""

OF_LAB: Final = frozenset({"check", "decode", "explain", "proxy", "roundtrips", "send"})
"""Commands of the distribution `rpcrdma-lab`, for the hint where that is not installed."""


def added_commands() -> dict[str, tuple[str, str]]:
    """Returns the commands that installed distributions add by entry points of the group `rpcrdma.commands`.

    Each entry point is a table of commands in the form of the result. One that cannot be loaded is left out, with a
    warning on standard error; of equal words the first one counts.

    Returns:
        A pair (module, summary) for each command, by its word on the command line. Words of this package's own commands
        are left out.
    """
    # It takes 40 ms, half of the start of a command.
    from importlib.metadata import entry_points  # noqa: PLC0415

    found: dict[str, tuple[str, str]] = {}
    for point in entry_points(group="rpcrdma.commands"):
        try:
            table = {str(word): (str(module), str(summary)) for word, (module, summary) in point.load().items()}
        except Exception as error:  # noqa: BLE001 - the code of another distribution, which must not stop this command
            console.talk(f"warning: the commands of {point.value} are left out: {type(error).__name__}: {error}")
        else:
            found = table | found
    return {word: command for word, command in found.items() if word not in OWN}
