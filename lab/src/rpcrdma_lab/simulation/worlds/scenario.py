"""Scenarios: TOML files that say which worlds are drawn, and their decoder, whose errors name file, key and remedy."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rpcrdma.errors import LocalProtocolError
from rpcrdma.extension import EXTENSION_CHOICES, VERSION_CHOICES
from rpcrdma.testing.virtual import PROFILES
from rpcrdma_lab.simulation.worlds.faults import FIELDS, SIDES, FaultKind, FaultRule, Range, Side

__all__ = [
    "WORK",
    "Scenario",
    "ScenarioError",
    "ScenarioTable",
    "named_scenario",
    "parse_scenario",
    "read_table",
    "scenario_names",
]

WORK = ("null", "transfer", "statement", "extract", "write", "read", "rename", "remove", "list")
"""Kinds of calls: NULL, three of the bank, and operations on files, each of which makes several calls."""

_NUMBER_MAX = (1 << 64) - 1
"""The largest offset on the wire; TOML has larger numbers, and infinity."""
_FOLDER = resources.files("rpcrdma_lab.simulation.worlds") / "scenarios"


class ScenarioError(LocalProtocolError):
    """Raised for a scenario file whose content is wrong.

    `file` is the file's name, `key` the path of the wrong key, `need` a description of the allowed values, and `have`
    the value found. The error's text has all four.
    """

    def __init__(self, file: str, key: str, need: str, have: object) -> None:
        super().__init__(f"{file}: {key}: need {need}, have {have!r}")
        self.file, self.key, self.need, self.have = file, key, need, have


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Ranges (least, greatest) and weights from which a seed determines a world; docs/simulation.md has the keys.

    `calls` counts those of one client, of which `at_once` are made at the same time; `octets` is the length of a call's
    data. The keys of mappings are choices: `profiles` are names in `PROFILES` (delays of the fabric), `work` in `WORK`.
    """

    name: str
    clients: Range
    servers: Range
    calls: Range
    at_once: Range
    octets: Range
    faults: Range
    credits: Range
    server_memory_octets: Range
    versions: Mapping[str, float]
    extension: Mapping[str, float]
    profiles: Mapping[str, float]
    work: Mapping[str, float]
    rules: tuple[FaultRule, ...]


def scenario_names() -> list[str]:
    """Returns the names of the scenarios in the package, sorted, without ".toml"."""
    return sorted(each.name.removesuffix(".toml") for each in _FOLDER.iterdir() if each.name.endswith(".toml"))


def named_scenario(name: str) -> Scenario:
    """Returns the scenario of the package with this name (see `scenario_names`), or else that in the file of this path.

    Raises:
        ScenarioError: the file's content is wrong.
        LocalProtocolError: there is no such scenario or file.
        OSError: the file cannot be read.
    """
    if name in scenario_names():
        return parse_scenario((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"), name, f"{name}.toml")
    path = Path(name)
    if not path.is_file():
        raise LocalProtocolError(f"no scenario {name!r}: name a TOML file, or one of {', '.join(scenario_names())}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioError(str(path), "the file", "TOML in UTF-8", str(error)) from None
    return parse_scenario(text, name, str(path))


def read_table(text: str, file: str) -> ScenarioTable:
    """Parses the text of a TOML file, and returns its top-level table; `file` is its name for error texts.

    Raises:
        ScenarioError: the text is not TOML, or nested too deeply.
    """
    try:
        return ScenarioTable(file, "", tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise ScenarioError(file, "the file", "TOML", str(error)) from None


def parse_scenario(text: str, name: str, file: str) -> Scenario:
    """Parses the TOML text of a scenario, and returns the scenario.

    `name` is the name of the result, and `file` the name of the file for error texts.

    Raises:
        ScenarioError: the text is not TOML, a key is unknown, or a value is wrong.
    """
    top = read_table(text, file)
    rules = top.take("fault", [])
    if not isinstance(rules, list):
        raise ScenarioError(file, "fault", "tables of the form [[fault]]", rules)
    scenario = Scenario(
        name=name,
        clients=top.range("clients", (1, 3), least=1),
        servers=top.range("servers", (1, 1), least=1),
        calls=top.range("calls", (6, 12), least=0),
        at_once=top.range("at_once", (1, 3), least=1),
        octets=top.range("octets", (0, 40000), least=0),
        faults=top.range("faults", (0, 3), least=0),
        credits=top.range("credits", (1, 32), least=1),
        server_memory_octets=top.range("server_memory_octets", (1 << 21, 1 << 26), least=1 << 16),
        versions=top.weights("versions", VERSION_CHOICES, "auto"),
        extension=top.weights("extension", EXTENSION_CHOICES, "auto"),
        profiles=top.weights("profiles", PROFILES, next(iter(PROFILES))),
        work=top.weights("work", WORK, "transfer"),
        rules=tuple(_rule(ScenarioTable(file, f"fault[{number}].", rule)) for number, rule in enumerate(rules)),
    )
    if scenario.faults[1] and not scenario.rules:
        raise ScenarioError(file, "faults", "0, or at least one [[fault]] to draw from", list(scenario.faults))
    top.done()
    return scenario


def _rule(table: ScenarioTable) -> FaultRule:
    kind = FaultKind(table.choice("kind", FaultKind))
    possible = SIDES.get(kind, frozenset(Side))
    side = table.choice("side", sorted(possible), "")
    given = [name for name in sorted(FIELDS[kind]) if table.take(name, None) is not None]
    values = {name: table.range(name, None, least=0) for name in given}
    if kind is FaultKind.CUT and len(values) != 1:
        table.fail("after_octets", "one of after_octets, after_operations and at_s", sorted(values))
    rule = FaultRule(
        kind=kind,
        weight=table.number("weight", 1.0),
        sides=(Side(side),) if side else tuple(sorted(possible)),
        values=values,
        silent=table.flag("silent") if kind is FaultKind.CUT else False,
    )
    table.done()
    return rule


class ScenarioTable:
    """A TOML table whose methods return checked values, and raise `ScenarioError` for a wrong value.

    Args:
        file: the name of the file for error texts.
        prefix: the path of the table with a final dot; "" for the top-level table.
        values: the table.

    Raises:
        ScenarioError: `values` is no table.
    """

    def __init__(self, file: str, prefix: str, values: Any) -> None:
        self._file = file
        self._prefix = prefix
        if not isinstance(values, dict):
            raise ScenarioError(file, prefix.rstrip("."), "a table", values)
        self.values: dict[str, Any] = values
        self._known: set[str] = set()

    def fail(self, key: str, need: str, have: object) -> None:
        """Always raises ScenarioError, for a wrong value of a key of this table.

        `need` describes the allowed values, and `have` is the value found.
        """
        raise ScenarioError(self._file, self._prefix + key, need, have)

    def take(self, key: str, default: Any) -> Any:
        """Returns the value of a key unchecked, or `default` if the key is missing.

        Marks the key as known, so that `done` accepts it.
        """
        self._known.add(key)
        return self.values.get(key, default)

    def number(self, key: str, default: float) -> float:
        """Returns the value of a key, a number from 0 to 2**64 - 1, as float; `default` if the key is missing.

        Raises:
            ScenarioError: the value is no number, or out of these bounds.
        """
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _NUMBER_MAX:
            self.fail(key, f"a number from 0 to {_NUMBER_MAX}", value)
        return float(value)

    def range(self, key: str, default: Range | None, *, least: float) -> Range:
        """Returns the value of a key as (least, most): the value is [LEAST, MOST], or one number for both.

        Returns `default` if the key is missing.

        Raises:
            ScenarioError: the value is no range, or not within `least` and 2**64 - 1, inclusive; or the key is missing
                and `default` is None.
        """
        value = self.take(key, default)
        ends = list(value) if isinstance(value, list | tuple) else [value, value]
        numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool)]
        if len(numbers) != 2 or len(ends) != 2 or not least <= numbers[0] <= numbers[1] <= _NUMBER_MAX:
            self.fail(key, f"a number or [LEAST, MOST], from {least:g} to {_NUMBER_MAX}", value)
        return numbers[0], numbers[1]

    def flag(self, key: str) -> bool:
        """Returns the value of a key, a boolean; False if the key is missing.

        Raises:
            ScenarioError: the value is no boolean.
        """
        value = self.take(key, False)
        if not isinstance(value, bool):
            self.fail(key, "true or false", value)
        return bool(value)

    def choice(self, key: str, choices: Iterable[str], default: str | None = None) -> str:
        """Returns the value of a key, one of `choices`; `default` if the key is missing.

        `default` need not be one of `choices`, and is then allowed as the value, too.

        Raises:
            ScenarioError: the value is another one, or the key is missing and `default` is None.
        """
        value = self.take(key, default)
        known = [str(choice) for choice in choices]
        if value == default and default is not None:
            return default
        if value not in known:
            self.fail(key, f"one of {', '.join(known)}", value)
        return str(value)

    def weights(self, key: str, choices: Iterable[str], default: str) -> Mapping[str, float]:
        """Returns the value of a key, a table of weights, by choice; {default: 1} if the key is missing.

        The keys of the table have to be of `choices`. Weights of 0 are left out.

        Raises:
            ScenarioError: the value is no table, or has another key, a weight that is no number from 0 to 2**64 - 1, or
                no weight above 0.
        """
        value = self.take(key, {default: 1})
        known = list(choices)
        table = ScenarioTable(self._file, f"{self._prefix}{key}.", value)
        weights = {choice: table.number(choice, 0.0) for choice in known}
        table.done()
        if not any(weights.values()):
            self.fail(key, f"a weight for one of {', '.join(known)}", value)
        return {choice: weight for choice, weight in weights.items() if weight}

    def done(self) -> None:
        """Checks that the table has no unknown key: another method of this object was called with each key.

        Raises:
            ScenarioError: there is an unknown key.
        """
        for key in self.values:
            if key not in self._known:
                self.fail(key, f"one of {', '.join(sorted(self._known))}", self.values[key])
