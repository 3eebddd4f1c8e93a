"""The values of settings that take effect: the default, else that of a file, else that of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from rpcrdma.cli.export_options import ExportArgument, Exported
from rpcrdma.cli.settings.table import OF_EXPORTS, OF_SERVER
from rpcrdma.commands.setting import Setting

__all__ = ["COMMAND_LINE", "DEFAULT", "Effective", "Value", "effective"]

DEFAULT: Final = "default"
COMMAND_LINE: Final = "command line"


class Value(NamedTuple):
    """The value of a setting, and its origin: default, FILE:LINE or command line."""

    value: Any
    origin: str


class Effective(NamedTuple):
    """All values, by the names of their settings: of the server, the defaults of exports, and each export."""

    server: Mapping[str, Value]
    defaults: Mapping[str, Value]
    exports: tuple[Exported, ...]

    def put_into(self, args: argparse.Namespace) -> None:
        """Sets the attributes of parsed arguments to the values of the server, and `exports`."""
        for setting in OF_SERVER:
            setattr(args, setting.dest, self.server[setting.name].value)
        args.exports = list(self.exports)


def effective(args: argparse.Namespace) -> Effective:
    """Returns the values that take effect.

    Args:
        args: parsed arguments, of which `on_command_line` names those of the command line.
    """
    server = _values(OF_SERVER, args)
    defaults = _values(OF_EXPORTS, args)
    given: list[ExportArgument] = [*getattr(args, "export", ())]
    if args.directory is not None:
        given.insert(0, args.directory)
    return Effective(server, defaults, tuple(_complete(export, defaults) for export in given))


def _values(settings: Iterable[Setting], args: argparse.Namespace) -> dict[str, Value]:
    return {setting.name: _value(setting, args) for setting in settings}


def _value(setting: Setting, args: argparse.Namespace) -> Value:
    if setting.dest in args.on_command_line:
        return Value(getattr(args, setting.dest), COMMAND_LINE)
    default = setting.default
    return Value(default() if callable(default) else default, DEFAULT)


def _complete(export: ExportArgument, defaults: Mapping[str, Value]) -> Exported:
    terms = {setting.dest: defaults[setting.name].value for setting in OF_EXPORTS} | {**export.own}
    if defaults["access"] == Value("ro", COMMAND_LINE):
        # --read-only is a promise for all exports.
        terms["access"] = "ro"
    return Exported(name=export.name, source=export.source, **terms)
