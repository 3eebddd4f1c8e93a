"""The command line's options for the settings of `rpcrdma serve`, made of their table."""

from __future__ import annotations

import argparse
from pathlib import Path

from rpcrdma.cli.export_options import parse_export, parse_root
from rpcrdma.cli.settings.table import HOST_SETTINGS, OF_EXPORTS, OF_SERVER
from rpcrdma.commands import CommandParser
from rpcrdma.commands.options import HOSTS_TITLE, LOG_LEVEL

__all__ = ["add_settings"]

_ABOUT_HOSTS = frozenset({"xprtsec", "mount-in-clear", *(setting.name for setting in HOST_SETTINGS)})
"""Settings whose options have a heading of their own in the help."""


def add_settings(parser: CommandParser) -> None:
    """Adds --config, --export, the argument DIR and an option for each setting of `rpcrdma serve` to `parser`.

    The option of the log level is left out, since `parser` has it already.
    """
    add = parser.add_argument
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="read settings and exports from FILE and from exports.d/*.toml beside it; options go before its settings, "
        "a directory or --export before its exports (default: no file)",
    )
    add("directory", nargs="?", type=parse_root, metavar="DIR", help="directory, or URL of fsspec, to export as /")
    add(
        "--export",
        action="append",
        default=argparse.SUPPRESS,
        type=parse_export,
        metavar="NAME=DIR[:ro][:sec=FLAVORS][:xprtsec=tls]",
        help="export DIR as /NAME, with :ro read-only, with :sec= for these security flavors, with :xprtsec=tls or "
        "mtls over connections in TLS alone; a URL of fsspec in place of DIR, such as s3://bucket/prefix, is exported "
        "read-only, and takes the package of its protocol; may be repeated",
    )
    hosts = parser.add_argument_group(HOSTS_TITLE)
    for setting in (*OF_EXPORTS, *OF_SERVER):
        # `describe` has added the option of LOG_LEVEL, which every command has.
        if setting is not LOG_LEVEL:
            setting.add_to(hosts if setting.name in _ABOUT_HOSTS else parser)
