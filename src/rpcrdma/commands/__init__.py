"""What commands share, those of this package and those of `rpcrdma-lab`: parser, options, output, failures.

Provisional: for commands of distributions of the same version; other releases may change these names.

A distribution adds commands by an entry point of the group `rpcrdma.commands`. It names a mapping from the word of each
command to a pair: the module that has `add_arguments(parser: CommandParser)`, and a summary for `rpcrdma --help`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcrdma.commands import console
from rpcrdma.commands.console import ExitStatus
from rpcrdma.deferred import deferred

if TYPE_CHECKING:
    from rpcrdma.aio.drivers.sockets import authority, cannot_connect, cannot_listen, unanswered
    from rpcrdma.aio.urls import Url
    from rpcrdma.commands.arguments import octets, service_url, uint32
    from rpcrdma.commands.command_parser import CommandParser
    from rpcrdma.commands.definition import DefinitionText, own_definition_text, read_text
    from rpcrdma.commands.failures import describe
    from rpcrdma.commands.options import add_json, connect_options
    from rpcrdma.commands.progress import progress_line

__all__ = [
    "CommandParser",
    "DefinitionText",
    "ExitStatus",
    "Url",
    "add_json",
    "authority",
    "cannot_connect",
    "cannot_listen",
    "connect_options",
    "console",
    "describe",
    "octets",
    "own_definition_text",
    "progress_line",
    "read_text",
    "service_url",
    "uint32",
    "unanswered",
]

__getattr__, __dir__ = deferred(
    __name__,
    {
        "rpcrdma.aio.drivers.sockets": ("authority", "cannot_connect", "cannot_listen", "unanswered"),
        "rpcrdma.aio.urls": ("Url",),
        "rpcrdma.commands.arguments": ("octets", "service_url", "uint32"),
        "rpcrdma.commands.command_parser": ("CommandParser",),
        "rpcrdma.commands.definition": ("DefinitionText", "own_definition_text", "read_text"),
        "rpcrdma.commands.failures": ("describe",),
        "rpcrdma.commands.options": ("add_json", "connect_options"),
        "rpcrdma.commands.progress": ("progress_line",),
    },
)
