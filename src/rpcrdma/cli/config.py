"""`rpcrdma config`: shows the settings that take effect, and turns them into a unit, or exports(5) lines into them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpcrdma.cli.settings.check import no_exports, report
from rpcrdma.cli.settings.effective import DEFAULT, effective
from rpcrdma.cli.settings.options import add_settings
from rpcrdma.cli.settings.table import OF_EXPORTS, OF_RULES, OF_SERVER
from rpcrdma.commands import CommandParser, ExitStatus, add_json, console

if TYPE_CHECKING:
    from rpcrdma.cli.export_options import ExportedRule
    from rpcrdma.commands.setting import Setting

__all__ = ["add_arguments"]

_DEFAULT_TEXTS = {setting.name: setting.default_text for setting in (*OF_SERVER, *OF_RULES, *OF_EXPORTS)}

_EXAMPLES_OF_BOTH = """\
examples:
  rpcrdma config show --config /etc/rpcrdma/rpcrdma.toml
  rpcrdma config exports /etc/exports > /etc/rpcrdma/exports.d/moved.toml
  rpcrdma config unit --config /etc/rpcrdma/rpcrdma.toml
"""
_EXAMPLES = """\
  rpcrdma config show --config /etc/rpcrdma/rpcrdma.toml
  rpcrdma config show --config rpcrdma.toml --workers 16 /srv/data
"""
_EXAMPLES_OF_EXPORTS = """\
  rpcrdma config exports > /etc/rpcrdma/exports.d/moved.toml
  rpcrdma config exports /etc/exports.d/home.exports

Warnings name each client and option that is left out, since a table cannot
express it; the exit status is 1 then.
"""
_EXAMPLES_OF_UNIT = """\
  mkdir -p /etc/systemd/system/rpcrdma.service.d
  rpcrdma config unit --config /etc/rpcrdma/rpcrdma.toml \\
      > /etc/systemd/system/rpcrdma.service.d/exports.conf
  systemctl daemon-reload
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the subcommands of `rpcrdma config` (show, exports, unit), with their arguments, to `parser`."""
    parser.epilog = _EXAMPLES_OF_BOTH
    commands = parser.add_subparsers(title="commands", dest="config_command", required=True, metavar="COMMAND")
    show = commands.add_parser(
        "show",
        help="show each setting with its origin",
        description="Show the settings of rpcrdma serve with the same arguments: each value, and its origin.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    show.describe(_show, "[DIR]", _EXAMPLES, connects=False)
    add_settings(show)
    add_json(show)
    exports = commands.add_parser(
        "exports",
        help="turn lines of exports(5) into TOML",
        description="Turn lines of exports(5), the file of Linux's own server, into [[export]] tables.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    exports.describe(_exports, "[FILE]", _EXAMPLES_OF_EXPORTS, connects=False)
    exports.add_argument(
        "file", nargs="?", type=Path, default=Path("/etc/exports"), metavar="FILE", help="default: %(default)s"
    )
    unit = commands.add_parser(
        "unit",
        help="print the drop-in of systemd for the exports",
        description="Print the drop-in of rpcrdma.service for the exports: mounts to wait for, paths and capabilities.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    unit.describe(_unit, "[DIR]", _EXAMPLES_OF_UNIT, connects=False)
    add_settings(unit)


def _show(args: argparse.Namespace) -> int:
    found = effective(args)
    if (status := report(found.faults, as_json=False)) is not ExitStatus.DONE:
        return status
    server = {setting.name: found.server[setting.name] for setting in OF_SERVER}
    defaults = {setting.name: found.defaults[setting.name] for setting in OF_EXPORTS}
    if args.json:
        console.json_line(
            {
                "server": _as_json(server),
                "defaults": _as_json(defaults),
                "exports": [
                    {
                        "name": export.name,
                        "source": export.shown,
                        "origin": export.origins[""],
                        "terms": _as_json(_terms(export)),
                        "rules": [
                            {"origin": rule.origins[""], "terms": _as_json(_terms(rule, OF_RULES))}
                            for rule in export.rules
                        ],
                    }
                    for export in found.exports
                ],
            }
        )
        return ExitStatus.DONE
    rows = _rows(server)
    rows += [("", "", ""), ("[defaults]", "", ""), *_rows(defaults)]
    for export in found.exports:
        rows += [("", "", ""), ("[[export]]", "", export.origins[""])]
        key = "directory" if isinstance(export.source, Path) else "url"
        for name, value in (("name", export.name), (key, export.shown)):
            rows += [(name, _written(value), export.origins.get(name, export.origins[""]))]
        rows += _rows({name: term for name, term in _terms(export).items() if term[1] != defaults[name][1]})
        for rule in export.rules:
            rows += [("", "", ""), ("[[export.rule]]", "", rule.origins[""])]
            inherited = _terms(export)
            own = _terms(rule, OF_RULES).items()
            rows += _rows({name: term for name, term in own if term[1] != inherited.get(name, (None, DEFAULT))[1]})
    console.table(rows)
    return ExitStatus.DONE


def _terms(export: ExportedRule, settings: Iterable[Setting] = OF_EXPORTS) -> dict[str, tuple[Any, str]]:
    """Returns (value, origin) of each of `settings` in an export or a rule of one, by the name of the setting.

    The origin is "default", "command line" or FILE:LINE.
    """
    return {
        setting.name: (getattr(export, setting.dest), export.origins.get(setting.dest, DEFAULT)) for setting in settings
    }


def _rows(values: Mapping[str, tuple[Any, str]]) -> list[tuple[str, str, str]]:
    return [(name, _written(value, _DEFAULT_TEXTS[name]), origin) for name, (value, origin) in values.items()]


def _as_json(values: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    return {name: {"value": _plain(value), "origin": origin} for name, (value, origin) in values.items()}


def _plain(value: Any) -> Any:
    """Converts the value of a setting to a JSON value: None, a boolean, a number, a text or a list.

    A pair of host and port becomes "HOST:PORT", with an IPv6 address in brackets; another object becomes its text.
    """
    if isinstance(value, tuple) and value and isinstance(value[0], str) and isinstance(value[1], int):
        host, port = value
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or type(value) in {bool, int, float} else str(value)


def _written(value: Any, default_text: str = "") -> str:
    """Returns the text of a setting's value as a configuration file has it.

    For None and an empty list, returns `default_text` in parentheses, or "-" if `default_text` is "".
    """
    plain = _plain(value)
    if plain is None or plain == []:
        return f"({default_text})" if default_text else "-"
    return console.json_text(plain)


def _exports(args: argparse.Namespace) -> int:
    from rpcrdma.cli.settings.linux_exports import in_toml  # noqa: PLC0415

    text, faults = in_toml(args.file.read_text(encoding="utf-8", errors="surrogateescape"), str(args.file))
    console.write(text, flush=True)
    for fault in faults:
        console.talk(f"warning: {fault}")
    return ExitStatus.FAILED if faults else ExitStatus.DONE


def _unit(args: argparse.Namespace) -> int:
    from rpcrdma.cli.settings.unit import drop_in  # noqa: PLC0415

    found = effective(args)
    text, faults = drop_in(found, args.config)
    if (status := report([*found.faults, *no_exports(args, found), *faults], as_json=False)) is ExitStatus.DONE:
        console.write(text, flush=True)
    return status
