"""The values of settings that take effect: the default, else that of a file, else that of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from rpcrdma.cli.export_options import ExportArgument, Exported
from rpcrdma.cli.settings.file import FileSettings, Mistake, Value, read_configuration
from rpcrdma.cli.settings.table import OF_EXPORTS, OF_SERVER
from rpcrdma.commands.setting import Setting

__all__ = ["COMMAND_LINE", "DEFAULT", "Effective", "effective"]

DEFAULT: Final = "default"
COMMAND_LINE: Final = "command line"


class Effective(NamedTuple):
    """All values, by the names of their settings: of the server, the defaults of exports, and each export."""

    server: Mapping[str, Value]
    defaults: Mapping[str, Value]
    exports: tuple[Exported, ...]
    faults: list[Mistake]
    """The mistakes in the files."""

    def put_into(self, args: argparse.Namespace) -> None:
        """Sets the attributes of parsed arguments to the values of the server, and `exports`."""
        for setting in OF_SERVER:
            setattr(args, setting.dest, self.server[setting.name].value)
        args.exports = list(self.exports)


def effective(args: argparse.Namespace) -> Effective:
    """Returns the values that take effect.

    Args:
        args: parsed arguments, of which `on_command_line` names those of the command line. Their `config` is the
            configuration file; None: there is none.
    """
    file = FileSettings() if args.config is None else read_configuration(args.config)
    server = _values(OF_SERVER, args, file.server)
    if "verbose" in args.on_command_line and "log_level" not in args.on_command_line:
        server["log-level"] = Value(None, COMMAND_LINE)
    defaults = _values(OF_EXPORTS, args, file.defaults)
    given: list[ExportArgument] = [*getattr(args, "export", ())]
    if args.directory is not None:
        given.insert(0, args.directory)
    exports = tuple(_complete(export, defaults) for export in given or file.exports)
    return Effective(server, defaults, exports, [*file.faults, *_equal_names(file.exports)])


def _values(settings: Iterable[Setting], args: argparse.Namespace, in_file: Mapping[str, Value]) -> dict[str, Value]:
    return {setting.name: _value(setting, args, in_file) for setting in settings}


def _value(setting: Setting, args: argparse.Namespace, in_file: Mapping[str, Value]) -> Value:
    if setting.long_option is not None and setting.dest in args.on_command_line:
        return Value(getattr(args, setting.dest), COMMAND_LINE)
    default = setting.default
    return in_file.get(setting.name) or Value(default() if callable(default) else default, DEFAULT)


def _complete(export: ExportArgument, defaults: Mapping[str, Value]) -> Exported:
    terms: dict[str, Any] = {setting.dest: defaults[setting.name].value for setting in OF_EXPORTS}
    origins = {setting.dest: defaults[setting.name].origin for setting in OF_EXPORTS}
    origins |= {"": COMMAND_LINE, **dict.fromkeys(export.own, COMMAND_LINE), **export.origins}
    terms |= export.own
    if not export.origins:
        # Somebody is there to read the error.
        terms["missing"], origins["missing"] = "fail", COMMAND_LINE
    if defaults["access"] == Value("ro", COMMAND_LINE):
        # --read-only is a promise for all exports.
        terms["access"], origins["access"] = defaults["access"]
    return Exported(name=export.name, source=export.source, origins=origins, **terms)


def _equal_names(exports: Iterable[ExportArgument]) -> Iterable[Mistake]:
    first: dict[str, str] = {}
    for export in exports:
        place = export.origins[""]
        if export.name in first:
            yield Mistake(
                place, f"the name {export.name} is that of the export at {first[export.name]}; give each its own"
            )
        first.setdefault(export.name, place)
