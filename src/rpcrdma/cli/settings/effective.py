"""The values of settings that take effect: the default, else that of a file, else that of the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from rpcrdma.cli.export_options import ExportArgument, Exported, ExportedRule
from rpcrdma.cli.settings.credentials import Credential
from rpcrdma.cli.settings.file import FileSettings, Mistake, Value, read_configuration
from rpcrdma.cli.settings.rules import contradictions
from rpcrdma.cli.settings.table import OF_EXPORTS, OF_RULES, OF_SERVER
from rpcrdma.commands import describe
from rpcrdma.commands.options import SHARED_DEFAULTS
from rpcrdma.commands.setting import Setting
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed, LocalProtocolError

__all__ = ["COMMAND_LINE", "DEFAULT", "Effective", "effective", "in_keys"]

DEFAULT: Final = "default"
COMMAND_LINE: Final = "command line"
_INHERITED: Final = [setting.dest for setting in OF_RULES if setting in OF_EXPORTS]
"""The attributes of rules that an export has as well."""
_OPTION: Final = re.compile(r"(?<![\w-])--(?=[a-z])")
"""The dashes before an option, whose name is that of its key."""


class Effective(NamedTuple):
    """The values of settings that take effect, by the settings' names, and the mistakes in the files.

    `server` has the settings of the whole server, `defaults` those of exports that do not set them.
    """

    server: Mapping[str, Value]
    defaults: Mapping[str, Value]
    exports: tuple[Exported, ...]
    faults: list[Mistake]
    """The mistakes in the files and in the names of exports."""
    mistaken: tuple[Exported, ...] = ()
    """Exports with mistakes in their tables, not in `exports`; for checks, defaults replace the mistaken values."""
    mistaken_settings: frozenset[str] = frozenset()
    """The names of the settings of the server whose values in a file are mistaken: the defaults are in their place."""

    @contextmanager
    def blamed(self, name: str) -> Iterator[None]:
        """Puts FILE:LINE in front of the message of an error in the context, if a setting in a file has caused it.

        For ConnectFailed and OSError it raises a new ConnectFailed or OSError; other exceptions propagate unchanged.

        Args:
            name: the setting of the server to blame, except for errors about certificates, whose settings it finds.
        """
        try:
            yield
        except (ConnectFailed, OSError) as error:
            place = self.server[name].origin
            if isinstance(error, HostAuthenticationFailed):
                place = self.place_of_files(str(error))
            if place in {DEFAULT, COMMAND_LINE}:
                raise
            message, hint, _ = describe(error)
            kind = ConnectFailed if isinstance(error, ConnectFailed) else OSError
            raise kind(in_keys(f"{place}: {message}; {hint}" if hint else f"{place}: {message}", place)) from None

    def place_of_files(self, message: str) -> str:
        """Returns the place of the TLS setting (cert, key, ca) whose file `message` names, else that of `tls-cert`.

        The place is FILE:LINE, "command line" or "default".
        """
        files = [self.server[name] for name in ("tls-cert", "tls-key", "tls-ca")]
        paths = [each.value.path if isinstance(each.value, Credential) else each.value for each in files]
        named = [
            (len(str(path)), each.origin)
            for path, each in zip(paths, files, strict=True)
            if path is not None and str(path) in message
        ]
        return max(named, default=(0, files[0].origin))[1]

    def put_into(self, args: argparse.Namespace) -> None:
        """Sets attributes of parsed arguments to the values of the server's settings, and `exports` to the exports.

        The value of a credential is the path of its file.
        """
        for setting in OF_SERVER:
            value = self.server[setting.name].value
            setattr(args, setting.dest, value.path if isinstance(value, Credential) else value)
        args.exports = list(self.exports)


def in_keys(text: str, place: str) -> str:
    """Returns the message `text` about a setting; for a setting in a file, options (--tls-ca) become keys (tls-ca).

    `place` is FILE:LINE for such a setting; for "command line" and "default" the message stays as it is.
    """
    return text if place in {DEFAULT, COMMAND_LINE} else _OPTION.sub("", text)


def effective(args: argparse.Namespace) -> Effective:
    """Returns values and origins of all settings: of the command line, else of the files, else the defaults.

    Reads the configuration file and the files `exports.d/*.toml` beside it; mistakes in them are part of the result.
    Exports of the command line replace all those of the files. `-v` without --log-level replaces the log level of the
    files: its value is None then.

    Args:
        args: parsed arguments, of which `on_command_line` names those of the command line. Their `config` is the path
            of the configuration file; None: there is no file.

    Raises:
        LocalProtocolError: an option before the word `serve` has a value that is for clients alone.
    """
    file = FileSettings() if args.config is None else read_configuration(args.config)
    server = _values(OF_SERVER, args, file.server)
    if "verbose" in args.on_command_line and "log_level" not in args.on_command_line:
        server["log-level"] = Value(None, COMMAND_LINE)
    defaults = _values(OF_EXPORTS, args, file.defaults)
    terms = {setting.dest: defaults[setting.name] for setting in OF_EXPORTS}
    given: list[ExportArgument] = [*getattr(args, "export", ())]
    if args.directory is not None:
        given.insert(0, args.directory)
    wanted = given or file.exports
    unknown = frozenset(
        setting.dest
        for setting in OF_EXPORTS
        if setting.name in file.mistaken_defaults and defaults[setting.name].origin == DEFAULT
    )
    exports = tuple(_complete(export, terms, unknown) for export in wanted if not export.mistaken)
    mistaken = tuple(_complete(export, terms, unknown) for export in wanted if export.mistaken)
    faults = [*file.faults, *_equal_names(file.exports), *_equal_names(given)]
    mistaken_settings = file.mistaken_settings - {name for name in server if server[name].origin == COMMAND_LINE}
    judges_hosts = server["tls-ca"].value is not None or "tls-ca" in mistaken_settings
    for export in (*exports, *mistaken):
        faults += contradictions(export, has_authorities=judges_hosts)
    return Effective(server, defaults, exports, faults, mistaken, frozenset(mistaken_settings))


def _values(settings: Iterable[Setting], args: argparse.Namespace, in_file: Mapping[str, Value]) -> dict[str, Value]:
    return {setting.name: _value(setting, args, in_file) for setting in settings}


def _value(setting: Setting, args: argparse.Namespace, in_file: Mapping[str, Value]) -> Value:
    if setting.long_option is not None and setting.dest in args.on_command_line:
        return Value(_of_server(setting, getattr(args, setting.dest)), COMMAND_LINE)
    default = setting.default
    return in_file.get(setting.name) or Value(default() if callable(default) else default, DEFAULT)


def _of_server(setting: Setting, value: Any) -> Any:
    """Returns the value of an option of `serve`, also if the option stands before that word.

    There it was parsed as an option of clients, whose --sec is the name of one flavor, and which know no credentials.

    Raises:
        LocalProtocolError: a server has no such value.
    """
    if setting.dest not in SHARED_DEFAULTS or not isinstance(value, (str, Path, list)):
        return value
    try:
        return [setting.parse(each) for each in value] if isinstance(value, list) else setting.parse(str(value))
    except argparse.ArgumentTypeError as error:
        raise LocalProtocolError(f"argument {setting.long_option}: {error}") from None


def _complete(export: ExportArgument, defaults: Mapping[str, Value], unknown: frozenset[str]) -> Exported:
    """Returns an export with values of all settings: its own, else `defaults`; --read-only turns "rw" into "ro".

    `defaults` has the values by attribute (`Setting.dest`); `unknown` are the attributes whose defaults are mistaken in
    a file: those that the export does not set itself are in the result's `mistaken`. An export of the command line has
    `missing` "fail": without its directory the server does not start.
    """
    terms: dict[str, Any] = {**{dest: each.value for dest, each in defaults.items()}, **export.own}
    origins = {dest: each.origin for dest, each in defaults.items()}
    origins |= {"": COMMAND_LINE, **dict.fromkeys(export.own, COMMAND_LINE), **export.origins}
    if not export.origins:
        # An export of the command line: the user who typed it reads the error.
        terms["missing"], origins["missing"] = "fail", COMMAND_LINE
    unknown = unknown.difference(export.own) | export.mistaken_terms
    of_rules = {name: terms[name] for name in _INHERITED} if export.rules else {}
    rules = [
        (
            {**of_rules, **rule.own},
            {**{name: origins[name] for name in _INHERITED}, **rule.origins},
            unknown.intersection(_INHERITED).difference(rule.own) | rule.mistaken_terms,
        )
        for rule in export.rules
    ]
    if defaults["access"] == Value("ro", COMMAND_LINE):
        # --read-only is a promise for all exports.
        for each, places in ((terms, origins), *(rule[:2] for rule in rules)):
            if each["access"] == "rw":
                each["access"], places["access"] = defaults["access"]
    return Exported(
        name=export.name,
        source=export.source,
        rules=[ExportedRule(origins=places, mistaken=wrong, **each) for each, places, wrong in rules],
        origins=origins,
        mistaken=unknown,
        **terms,
    )


def _equal_names(exports: Iterable[ExportArgument]) -> Iterable[Mistake]:
    """Yields a mistake (place, text) for each export that has the name of an earlier one of `exports`."""
    first: dict[str, str] = {}
    for export in exports:
        place = export.origins.get("", COMMAND_LINE)
        if export.name in first:
            text = f"the name {export.name} is that of an earlier export ({first[export.name]}); give each its own"
            yield Mistake(place, text)
        first.setdefault(export.name, place)
