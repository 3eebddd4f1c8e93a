"""The definition of a setting: an option of commands, and a key of the server's configuration file."""

from __future__ import annotations

import argparse
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Renewal", "Setting", "ValueType"]


class ValueType(enum.Enum):
    """The type of a setting's value in a server's configuration file.

    The value of a member names the type for people.
    """

    TEXT = "text"
    NUMBER = "whole number"
    SECONDS = "number"
    SIZE = "text or whole number"
    SWITCH = "true or false"
    ACCOUNT = "name or whole number"


class Renewal(enum.Enum):
    """The event at which a running server takes a setting's changed value; the value of a member is text for people."""

    RESTART = "restart"
    HANG_UP = "SIGHUP"
    INCREASE = "SIGHUP for more, restart for less"
    CONTENT = "SIGHUP for the content of the file, restart for another file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of commands or servers: the one source of its option, its configuration key, and its help."""

    name: str
    """The key of the configuration file, and the long option without its dashes."""
    help: str
    """The text of `--help`, without the default."""
    file_help: str = ""
    """The text about the key of the file, where it is not that of the option."""
    kind: ValueType = ValueType.TEXT
    """The type in the file; of each item, if the setting is a list."""
    parse: Callable[[str], Any] = str
    """Makes the value from text; raises `argparse.ArgumentTypeError`. The numbers of a file pass it as well."""
    choices: tuple[str, ...] = ()
    """The possible texts; empty: any that `parse` takes."""
    many: bool = False
    """Whether the value is a list: an array in the file, an option that may be repeated."""
    separator: str = ""
    """The text between the items of a list that the option has as one argument; "": an argument is one value."""
    default: Any = None
    """The value that holds without the setting, or a function that is called without arguments to make the value."""
    default_text: str = ""
    """The default in the words of `--help`; "": it is not shown, or `help` has it."""
    example: Any = None
    """A value as the file has it, for an example of a setting without a default."""
    metavar: str | None = None
    """The name of the option's argument in `--help`."""
    option: str | None = ""
    """The long option, where it is not made of `name`; None: only the file has the setting."""
    constant: Any = None
    """The value that the option gives, if it has no argument; None: it has one."""
    also: tuple[str, ...] = ()
    """Further spellings of the option."""
    attribute: str = ""
    """The attribute of parsed arguments, where it is not made of `name`."""
    renewal: Renewal = Renewal.RESTART
    """When a running server takes a changed value."""

    @property
    def dest(self) -> str:
        """The name of the attribute of parsed arguments that has the value."""
        return self.attribute or self.name.replace("-", "_")

    @property
    def long_option(self) -> str | None:
        """The long option with its dashes; None if the setting has no option."""
        return f"--{self.name}" if self.option == "" else self.option

    @property
    def whole_help(self) -> str:
        """The help text, followed by the default where `default_text` is not empty."""
        return f"{self.help} (default: {self.default_text})" if self.default_text else self.help

    def add_to(self, group: argparse._ActionsContainer) -> None:
        """Adds the option to `group`, a parser or an argument group; does nothing if the setting has no option.

        A command line without the option leaves the attribute unset, so that the value of a file can take its place.
        """
        if self.long_option is None:
            return
        details: dict[str, Any] = {"dest": self.dest, "default": argparse.SUPPRESS, "help": self.whole_help}
        if self.constant is not None:
            details |= {"action": "store_const", "const": self.constant}
        else:
            details |= {"type": self.parse, "metavar": self.metavar, "action": "append" if self.many else "store"}
            if self.choices:
                details["choices"] = self.choices
        group.add_argument(self.long_option, *self.also, **details)
