"""The configuration file of `rpcrdma serve`, in TOML: its values with their lines, and all its faults."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from rpcrdma.cli.export_options import ExportArgument, RuleArgument
from rpcrdma.cli.settings.table import NAME_OF_EXPORT, OF_EXPORTS, OF_RULES, OF_SERVER, SOURCES_OF_EXPORT
from rpcrdma.cli.settings.toml_lines import KeyPath, key_lines, line_of, line_of_long_key
from rpcrdma.commands.setting import Setting, ValueType
from rpcrdma.file_limits import (
    CONFIGURATION_FAULT_LETTERS_MAX,
    CONFIGURATION_FILES_MAX,
    CONFIGURATION_KEY_NAMES_MAX,
    CONFIGURATION_OCTETS_MAX,
)
from rpcrdma.nfs.export.giving_way import give_way

__all__ = ["FileSettings", "Mistake", "Value", "read_configuration"]

_TYPE_NAMES: Final = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
}
_WANTED: Final[Mapping[ValueType, tuple[tuple[type, ...], str]]] = {
    ValueType.TEXT: ((str,), "a text in quotes"),
    ValueType.NUMBER: ((int,), "a whole number"),
    ValueType.SECONDS: ((int, float), "a number"),
    ValueType.SIZE: ((str, int), 'a size such as "64Mi"'),
    ValueType.SWITCH: ((bool,), "true or false"),
    ValueType.ACCOUNT: ((str, int), "a name in quotes, or a whole number"),
}
"""The types that a kind of value may have in TOML, and the words for them."""
_DEFAULTS: Final = "defaults"
_EXPORT: Final = "export"
_RULE: Final = "rule"
_KEY_COMPARED_MAX: Final = 64
"""Characters of an unknown key that are compared with the known ones, which are shorter."""
_SERVER_KEYS: Final = {setting.name: setting for setting in OF_SERVER}
_DEFAULTS_KEYS: Final = {setting.name: setting for setting in OF_EXPORTS}
_EXPORT_KEYS: Final = {setting.name: setting for setting in (NAME_OF_EXPORT, *SOURCES_OF_EXPORT, *OF_EXPORTS)}
_RULE_KEYS: Final = {setting.name: setting for setting in OF_RULES}
"""The settings of each kind of table, by their keys."""
_OF_RULES_ALONE: Final = {setting.name for setting in OF_RULES} - {setting.name for setting in OF_EXPORTS}
_AS_KEYS: Final = {
    option: (setting.name if setting.constant is None else f"{setting.name} = {json.dumps(setting.constant)}")
    + (" below [[export]] or [defaults]" if setting in OF_EXPORTS else "")
    for setting in (*OF_EXPORTS, *OF_SERVER)
    if setting.long_option is not None and (option := setting.long_option[2:]) != setting.name
}
"""The keys for options with other names."""
_PLACE_IN_TOML: Final = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_REMEDIES_OF_TOML: Final = {
    "cannot overwrite a value": "; give each key once",
    "invalid value": "; write texts in quotes, and true, false and numbers without",
}
"""What follows the messages of `tomllib` about the usual mistakes."""


class Value(NamedTuple):
    """The value of a setting, and its origin: "default", "command line" or FILE:LINE."""

    value: Any
    origin: str


class Mistake(NamedTuple):
    """A mistake in a configuration: its `place`, and in `text` the cause and, after a semicolon, its remedy.

    The place is FILE:LINE, a path, "command line" or "default". `is_warning`: whether the server can start with it.
    """

    place: str
    text: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@dataclass(slots=True)
class FileSettings:
    """The settings that configuration files have, by name, and the files' mistakes; mistaken values are left out.

    An export is in `exports` if its table has a valid directory or URL, even if other values are mistaken.
    `mistaken_settings` are the names of settings of the server whose values are left out, `mistaken_defaults` those of
    settings in [defaults].
    """

    server: dict[str, Value] = field(default_factory=dict)
    defaults: dict[str, Value] = field(default_factory=dict)
    exports: list[ExportArgument] = field(default_factory=list)
    faults: list[Mistake] = field(default_factory=list)
    mistaken_settings: set[str] = field(default_factory=set)
    mistaken_defaults: set[str] = field(default_factory=set)


def read_configuration(path: Path) -> FileSettings:
    """Reads a configuration file, then the files `exports.d/*.toml` beside it in the order of their names.

    Mistakes, and files that cannot be read, are collected in the result, and not raised.
    """
    found = FileSettings()
    _File(path, found).read(whole=True)
    folder = path.parent / "exports.d"
    try:
        more = sorted(path for path in folder.iterdir() if path.suffix == ".toml" and path.name[0] != ".")
    except FileNotFoundError:
        more = []
    except OSError as error:
        more = []
        found.faults.append(Mistake(str(folder), f"the folder cannot be read ({_cause(error)}); allow it to this user"))
    if len(more) > CONFIGURATION_FILES_MAX:
        text = f"there are {len(more)} files, more than {CONFIGURATION_FILES_MAX}; put several exports in one file"
        found.faults.append(Mistake(str(folder), text))
    for each in more[:CONFIGURATION_FILES_MAX]:
        give_way()
        _File(each, found).read(whole=False)
    return found


class _File:
    """One configuration file; its method `read` reads it, and adds its values and mistakes to `found`."""

    def __init__(self, path: Path, found: FileSettings) -> None:
        self._path = path
        self._folder = path.parent
        self._found = found
        self._lines: dict[KeyPath, int] = {}

    def read(self, *, whole: bool) -> None:
        """Reads the file, and adds values and mistakes; `whole`: whether it may have more than [[export]] tables.

        If a `whole` file cannot be read or parsed, all settings of the server count as mistaken.
        """
        before = len(self._found.faults)
        document = self._document()
        if whole and len(self._found.faults) > before:
            # What it says of them is unknown.
            self._found.mistaken_settings.update(setting.name for setting in OF_SERVER)
        for key, value in document.items():
            if key == _EXPORT:
                self._read_exports(value)
            elif not whole:
                self._fault((key,), f"{key!r} is no key of files in exports.d; write [[export]] tables alone")
            elif key == _DEFAULTS:
                if isinstance(value, dict):
                    wrong = self._read_table((_DEFAULTS,), value, _DEFAULTS_KEYS, self._found.defaults)
                    self._found.mistaken_defaults |= wrong
                else:
                    self._fault((key,), "defaults is no table; write [defaults], and its keys below")
            else:
                self._found.mistaken_settings |= self._read_table((), {key: value}, _SERVER_KEYS, self._found.server)

    def _document(self) -> dict[str, Any]:
        """Returns the file's content as `tomllib` does; {}, adding a mistake, if it cannot be read or parsed."""
        try:
            octets = self._octets()
            text = octets.decode().replace("\r\n", "\n")
            if (line := line_of_long_key(text)) is not None:
                self._fault_at(line, f"a key has more than {CONFIGURATION_KEY_NAMES_MAX} names; write tables instead")
                return {}
            document = tomllib.loads(text)
            self._lines = key_lines(text)
        except UnicodeDecodeError as error:
            line = octets.count(b"\n", 0, error.start) + 1
            self._fault_at(line, f"octet 0x{octets[error.start]:02x} is not UTF-8; save the file as UTF-8")
        except OSError as error:
            self._found.faults.append(Mistake(str(self._path), f"the file cannot be read: {_cause(error)}"))
        except RecursionError:
            self._fault_at(1, "lists or tables are nested too deeply; write them flat")
        except ValueError as error:
            self._fault_of_syntax(str(error), text)
        else:
            return document
        return {}

    def _octets(self) -> bytes:
        # Without O_NONBLOCK a pipe in the place of the file would keep the server waiting.
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError("it is no regular file; name one")
        with os.fdopen(descriptor, "rb") as file:
            # Room for the largest file takes longer to get than most files to read.
            octets = file.read(min(status.st_size, CONFIGURATION_OCTETS_MAX) + 1)
            if len(octets) > status.st_size:
                octets += file.read(CONFIGURATION_OCTETS_MAX + 1 - len(octets))
        if len(octets) > CONFIGURATION_OCTETS_MAX:
            raise OSError(f"it has more than {CONFIGURATION_OCTETS_MAX} octets; split it into files in exports.d")
        return octets

    def _fault_of_syntax(self, message: str, text: str) -> None:
        """Adds a mistake for an error of `tomllib`, whose `message` ends with the place in the file's `text`."""
        found = _PLACE_IN_TOML.fullmatch(message)
        cause = message if found is None else found[1]
        line = int(found[2]) if found is not None and found[2] else text.count("\n") + (not text.endswith("\n"))
        column = f", column {found[3]}" if found is not None and found[3] else ""
        cause = cause[:1].lower() + cause[1:]
        self._fault_at(
            max(line, 1), f"this is no TOML{column}: {cause}{_REMEDIES_OF_TOML.get(cause, '') if column else ''}"
        )

    def _read_exports(self, tables: Any) -> None:
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._fault((_EXPORT,), "export is no array of tables; write [[export]] before each export")
            return
        for number, table in enumerate(tables):
            self._read_export((_EXPORT, number), table)

    def _read_export(self, path: KeyPath, table: dict[str, Any]) -> None:
        before = len(self._found.faults)
        values: dict[str, Value] = {}
        terms = {key: value for key, value in table.items() if key != _RULE}
        wrong = self._read_table(path, terms, _EXPORT_KEYS, values)
        rules = self._read_rules((*path, _RULE), table.get(_RULE, []), "url" in values)
        if "name" not in table:
            self._fault(path, 'an export has no name; write name = "/NAME", or "/" for the root')
        sources = [setting.name for setting in SOURCES_OF_EXPORT if setting.name in table]
        if len(sources) > 1:
            self._fault(path, "an export has both a directory and a url; keep one")
        elif not sources:
            self._fault(path, 'an export has no directory; write directory = "/..."')
        if "url" in values:
            if "mount-point" in table:
                self._fault((*path, "mount-point"), "mount-point is for a directory; leave it out beside a url")
            self._check_of_url(path, values)
        elif "directory" in values and "fsspec-valid" in table:
            self._fault((*path, "fsspec-valid"), "fsspec-valid is for a url; leave it out beside a directory")
        source = values.get("directory", values.get("url"))
        if source is None:
            return
        mistaken = len(self._found.faults) > before
        name = values["name"].value if "name" in values else self._place(path)
        own, origins = self._own_terms(path, values, _DEFAULTS_KEYS)
        origins |= {key: values[key].origin for key in ("name", "directory", "url") if key in values}
        unknown = frozenset(_DEFAULTS_KEYS[key].dest for key in wrong if key in _DEFAULTS_KEYS)
        self._found.exports.append(ExportArgument(name, source.value, own, origins, rules, mistaken, unknown))

    def _read_rules(self, path: KeyPath, tables: Any, of_url: bool) -> list[RuleArgument]:
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._fault(path, "rule is no array of tables; write [[export.rule]] before each rule of the export")
            return []
        rules = []
        for number, table in enumerate(tables):
            values: dict[str, Value] = {}
            wrong = self._read_table((*path, number), table, _RULE_KEYS, values)
            if of_url:
                self._check_of_url((*path, number), values)
            unknown = frozenset(_RULE_KEYS[key].dest for key in wrong)
            rules.append(RuleArgument(*self._own_terms((*path, number), values, _RULE_KEYS), unknown))
        return rules

    def _own_terms(
        self, path: KeyPath, values: Mapping[str, Value], known: Mapping[str, Setting]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Returns (values, places FILE:LINE) of the `known` keys in `values`, by attribute (`Setting.dest`).

        `values` has the values of the table at `path` by key; `path` has names and indices from the document down. The
        place of the table itself is under "".
        """
        terms = {known[key].dest: value for key, value in values.items() if key in known}
        origins = {"": self._place(path)} | {dest: value.origin for dest, value in terms.items()}
        return {dest: value.value for dest, value in terms.items()}, origins

    def _check_of_url(self, path: KeyPath, values: Mapping[str, Value]) -> None:
        if "access" in values and values["access"].value == "rw":
            self._fault((*path, "access"), 'a url is exported read-only; leave out access, or write "ro"')

    def _read_table(
        self, path: KeyPath, table: Mapping[str, Any], known: Mapping[str, Setting], into: dict[str, Value]
    ) -> set[str]:
        """Adds the valid values of the table at `path` to `into`, by key, and its mistakes to `FileSettings.faults`.

        `known` has the settings that such a table may have, by key.

        Returns:
            The names of settings with mistaken values, and of those that unknown keys resemble.
        """
        mistaken = set()
        for key, raw in table.items():
            setting = known.get(key)
            if setting is None:
                self._fault((*path, key), _unknown(key, known))
                mistaken.update(_near(key, known))
                continue
            try:
                into[key] = Value(self._parsed(setting, raw), self._place((*path, key)))
            except ValueError as error:
                self._fault((*path, key), str(error))
                mistaken.add(key)
        return mistaken

    def _parsed(self, setting: Setting, raw: Any) -> Any:
        """Returns the value of a setting from its TOML value `raw`, a list for a setting with several.

        The result is a list if `many` is set; with a `separator` it is what `parse` makes of the items joined by that.

        Raises:
            ValueError: the type or the value is wrong; the text names the key and a remedy.
        """
        if not (setting.many or setting.separator):
            return self._item(setting, raw)
        if not isinstance(raw, list):
            raise ValueError(  # noqa: TRY004 - a value of the user, and no mistake of the program
                f'{setting.name} is {_TYPE_NAMES.get(type(raw), "a time")}; write a list such as ["..."]'
            )
        if not raw:
            raise ValueError(f"{setting.name} is empty; leave it out for the default")
        items = [self._item(setting, item, in_list=True) for item in raw]
        seen: set[Any] = set()
        for item in raw:
            if item in seen:
                raise ValueError(f"{setting.name} has {item!r} twice; leave one out")
            seen.add(item)
        if setting.separator:
            return _value_of(setting, setting.separator.join(raw))
        return items

    def _item(self, setting: Setting, raw: Any, *, in_list: bool = False) -> Any:
        """Returns the value of a setting, or with `in_list` of an item of its list, from its TOML value `raw`.

        A relative path is one in the folder of the file.

        Raises:
            ValueError: the type or the value is wrong; the text names the key and a remedy.
        """
        types, wanted = _WANTED[setting.kind]
        if type(raw) not in types:
            subject = f"an item of {setting.name}" if in_list else setting.name
            raise ValueError(f"{subject} is {_TYPE_NAMES.get(type(raw), 'a time')}; write {wanted}")
        if setting.kind is ValueType.SWITCH:
            return raw
        text = str(raw)
        if not text or "\0" in text:
            raise ValueError(f"{setting.name} {'has a null character' if text else 'is empty'}; write a text")
        if setting.choices and text not in setting.choices:
            quote = "" if setting.kind is ValueType.NUMBER else '"'
            raise ValueError(f"{setting.name} is {text!r}; write {_either(setting.choices, quote)}")
        if setting.separator and setting.separator in text:
            raise ValueError(f"{setting.name} has {text!r}; write each item in quotes of its own")
        value = _value_of(setting, text)
        # Not of the working directory, which depends on the start of the server.
        return self._folder / value if isinstance(value, Path) else value

    def _place(self, path: KeyPath) -> str:
        return f"{self._path}:{line_of(self._lines, path)}"

    def _fault(self, path: KeyPath, text: str) -> None:
        self._found.faults.append(Mistake(self._place(path), _shortened(text)))

    def _fault_at(self, line: int, text: str) -> None:
        self._found.faults.append(Mistake(f"{self._path}:{line}", _shortened(text)))


def _shortened(text: str) -> str:
    """Returns the text of a mistake; beyond 500 characters, those in the middle are replaced by their number."""
    more = len(text) - CONFIGURATION_FAULT_LETTERS_MAX
    half = CONFIGURATION_FAULT_LETTERS_MAX // 2
    return text if more <= 0 else f"{text[:half]}[{more} characters]{text[-half:]}"


def _value_of(setting: Setting, text: str) -> Any:
    """Returns the value of a setting from its text.

    Raises:
        ValueError: the text is no such value; the message names the key.
    """
    try:
        return setting.parse(text)
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"{setting.name}: {error}") from None


def _either(choices: Iterable[str], quote: str) -> str:
    *others, last = [f"{quote}{choice}{quote}" for choice in choices]
    return f"{', '.join(others)} or {last}" if others else last


def _unknown(key: str, known: Mapping[str, Setting]) -> str:
    if key in _OF_RULES_ALONE:
        return f"{key} belongs to a rule; write it below [[export.rule]]"
    if key in _AS_KEYS:
        return f"{key} is an option of the command line; write {_AS_KEYS[key]}"
    of_exports = [setting.name for setting in (NAME_OF_EXPORT, *SOURCES_OF_EXPORT, *OF_EXPORTS)]
    if key in of_exports:
        return f"{key} belongs to an export; write it below [[export]]" + (
            " or [defaults]" if key in {each.name for each in OF_EXPORTS} else ""
        )
    if key in {setting.name for setting in OF_SERVER}:
        return f"{key} belongs to the server; write it above the first line in brackets"
    above_all = [_RULE] if "access" in known else [_DEFAULTS, _EXPORT]
    near = _near(key, [*known, *above_all, *of_exports])
    hint = f"did you mean {near[0]}?" if near else "rpcrdma config show lists the known ones"
    return f"unknown key {key!r}; {hint}"


def _near(key: str, known: Iterable[str]) -> list[str]:
    """Returns a list with the key of `known` that the unknown `key` resembles most; [] if none is similar."""
    return difflib.get_close_matches(key[:_KEY_COMPARED_MAX], list(known), 1)


def _cause(error: OSError) -> str:
    cause = error.strerror or str(error)
    return cause[:1].lower() + cause[1:]
