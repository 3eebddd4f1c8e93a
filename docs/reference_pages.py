"""Reference pages of the documentation site that are generated from the code, as Markdown.

`write` is called by `conf.py` whenever the site is built. The pages are not kept in the repository.
"""

from __future__ import annotations

import argparse
import ast
import enum
import inspect
import itertools
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from api_pages import api_pages
from check_pages import check_pages
from ledger_pages import ledger_pages
from pictures import TABLES, words

from rpcrdma.cli.main import build_parser
from rpcrdma.cli.settings.table import NAME_OF_EXPORT, OF_EXPORTS, OF_RULES, OF_SERVER, SOURCES_OF_EXPORT
from rpcrdma.commands.setting import Setting, ValueType

__all__ = [
    "Shown",
    "described",
    "own_options",
    "pages",
    "setting_row",
    "shared_options",
    "subparsers",
    "table",
    "usage",
    "write",
]

ROOT = Path(__file__).parents[1]
LIBRARY, LAB = ROOT / "src" / "rpcrdma", ROOT / "lab" / "src" / "rpcrdma_lab"
LIMITS = (
    LIBRARY / "limits.py",
    LIBRARY / "file_limits.py",
    LIBRARY / "nfs" / "export" / "export_limits.py",
    LIBRARY / "nfs" / "v4" / "state_limits.py",
    LAB / "limits.py",
)

SHARED_GROUPS = ("connection", "host authentication", "logging")
"""Titles of the option groups that most commands share; the page shows them once. The second has a suffix."""

CELL_BREAKS = str.maketrans({"|": "\\|", "\n": " "})


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.translate(CELL_BREAKS) for cell in line)} |" for line in lines) + "\n"


Shown = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
"""Makes the text of a head and rows: `table`, or another form."""


# The command


def commands() -> str:
    """The reference of the command line, from its parsers."""
    top = build_parser(whole=True)
    parsers = dict(subparsers(top))
    sections = [
        "# Commands\n",
        (
            "Every command, its arguments and its options, as its `--help` prints them. [The command line](../cli.md)"
            " explains the conventions. [Connection options](#connection-options) are common to the commands that"
            " connect.\n"
        ),
        *(described(f"rpcrdma {name}", parser, 2) for name, parser in parsers.items()),
        "## Connection options\n",
        "All commands that connect to a server accept these options, before or after the command's name.\n",
        *shared_options(top, 3),
    ]
    return "\n".join(sections)


def subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from action.choices.items()


def described(name: str, parser: argparse.ArgumentParser, level: int, shown: Shown = table) -> str:
    """A command and those below it, with their own arguments in the form `shown`."""
    sections = [f"{'#' * level} {name}\n", f"{parser.description or ''}\n", usage(parser)]
    sections += own_options(parser, shown)
    if parser.epilog:
        sections.append(f"```\n{parser.epilog.strip()}\n```\n")
    sections += [described(f"{name} {word}", below, level + 1, shown) for word, below in subparsers(parser)]
    return "\n".join(section for section in sections if section.strip())


def usage(parser: argparse.ArgumentParser) -> str:
    return f"```\n{parser.format_usage().removeprefix('usage: ').strip()}\n```\n"


def own_options(parser: argparse.ArgumentParser, shown: Shown) -> list[str]:
    """The options that few commands share, by their groups, without headings."""
    return [_options(group, 0, shown) for group in parser._action_groups if not _is_shared(group)]  # noqa: SLF001


def shared_options(parser: argparse.ArgumentParser, level: int, shown: Shown = table) -> list[str]:
    """The options that most commands share, by their groups, each with a heading."""
    return [_options(group, level, shown) for group in parser._action_groups if _is_shared(group)]  # noqa: SLF001


def _is_shared(group: argparse._ArgumentGroup) -> bool:
    return (group.title or "").startswith(SHARED_GROUPS)


def _options(group: argparse._ArgumentGroup, level: int, shown: Shown) -> str:
    formatter = argparse.HelpFormatter("rpcrdma")
    rows = [
        (f"`{formatter._format_action_invocation(action)}`", (formatter._expand_help(action) if action.help else ""))  # noqa: SLF001
        for action in group._group_actions  # noqa: SLF001
        if action.help is not argparse.SUPPRESS
        and not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)  # noqa: SLF001
    ]
    if not rows:
        return ""
    title = f"{'#' * level} {(group.title or '').capitalize()}\n\n" if level else ""
    return title + shown(("argument", "meaning"), rows)


# Settings


def settings() -> str:
    """Every setting of `rpcrdma serve`, from the table that makes its options and checks its configuration file."""
    of_exports = (NAME_OF_EXPORT, *SOURCES_OF_EXPORT, *OF_EXPORTS)
    return "\n".join(
        [
            "# Settings\n",
            (
                "Every setting of `rpcrdma serve`: its key in the configuration file, the type of its value there, its"
                " default, its option, and the event at which a running server takes a changed value."
                " [Configuration](../serving.md#configuration) explains the file.\n"
            ),
            "## The server\n",
            _settings(OF_SERVER),
            "## Exports\n",
            "The keys of `[[export]]` and, except the first three, of `[defaults]`. Each option sets a default.\n",
            _settings(of_exports),
            "## Rules\n",
            (
                "The keys of `[[export.rule]]`: those of an export that a rule may have, whose value comes from the"
                " export where the rule leaves them out, and those for callers."
                " [Access by rules](../serving.md#access-by-rules) explains them.\n"
            ),
            "`" + "`, `".join(each.name for each in OF_RULES if each in OF_EXPORTS) + "`\n",
            _settings([each for each in OF_RULES if each not in OF_EXPORTS]),
        ]
    )


def _settings(found: Sequence[Setting]) -> str:
    return table(("key", "type", "meaning", "option", "taken at"), [setting_row(each) for each in found])


def setting_row(each: Setting) -> tuple[str, str, str, str, str]:
    """Key, type, meaning, option and renewal of a setting."""
    return (
        f"`{each.name}`",
        _list(each) if each.many or each.separator else _choices(each),
        (each.file_help or each.whole_help) + _default(each),
        f"`{each.long_option}`" if each.long_option else "",
        each.renewal.value,
    )


def _list(setting: Setting) -> str:
    kind = "whole numbers" if setting.kind is ValueType.NUMBER else "texts"
    return f"list of {kind}" + (f": {_choices(setting)}" if setting.choices else "")


def _choices(setting: Setting) -> str:
    quote = "" if setting.kind is ValueType.NUMBER else '"'
    return ", ".join(f"`{quote}{choice}{quote}`" for choice in setting.choices) or setting.kind.value


def _default(setting: Setting) -> str:
    """The default, where the text about the key lacks it."""
    if not setting.file_help:
        return ""
    return f" (default: {setting.default_text or str(setting.default).lower()})"


# Limits


def limits() -> str:
    """Every bound on the resources that a peer or a file can claim, with its reason, from the modules `LIMITS`."""
    parts = [
        "# Limits\n",
        (
            "The bounds on the memory, time and places that a peer can claim, by `rpcrdma.limits`, for the exports"
            " of a server by `rpcrdma.nfs.export.export_limits`, and for the state of clients of NFS version 4.1 by"
            " `rpcrdma.nfs.v4.state_limits`; those for"
            " definitions and JSON, by `rpcrdma.file_limits`; and those of the protocol engineers' commands, by"
            " `rpcrdma_lab.limits`. The options of [the Python interface](../python-api.md) take their defaults from"
            " there.\n"
        ),
    ]
    for module in LIMITS:
        parts += [f"## {title}\n" + table(("name", "value", "reason"), rows) for title, rows in _bounds(module).items()]
    return "\n".join(parts)


def _bounds(module: Path) -> dict[str, list[tuple[str, str, str]]]:
    """Name, value and reason of each bound, by the heading above it."""
    source = module.read_text()
    body = ast.parse(source).body
    headings = {
        number: line.removeprefix("# ")
        for number, line in enumerate(source.splitlines(), 1)
        if line.startswith("# ") and not line.endswith(".")
    }
    values: dict[str, Any] = {}
    exec(compile(source, str(module), "exec"), values)  # noqa: S102 - our own module, for the values of its expressions
    sections: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for node, after in itertools.pairwise(body):
        if isinstance(node, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            name = ast.unparse(node.targets[0])
            title = next((text for number, text in reversed(headings.items()) if number < node.lineno), "Limits")
            sections[title].append((f"`{name}`", _shown(values[name]), str(after.value.value)))
    return sections


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"`{value}`"


# States


def states() -> str:
    """The transition tables of the library, each with its diagram and the meaning of its states and inputs."""
    parts = [
        "# States\n",
        (
            "The life of a call, of a connection, and of the software RNIC's connection below it. Each is a table in"
            " the code; the diagrams are drawn from the tables. An input without a transition in a state is an error.\n"
        ),
    ]
    for name, (title, transitions) in TABLES.items():
        parts += [f"## {title}\n", f"![{title}](../pictures/states-{name}.svg)\n"]
        state, given = next(iter(transitions))
        for kind, members in (("state", type(state)), ("input", type(given))):
            comments = _member_comments(members)
            rows = [(words(member), comments.get(member.name, "")) for member in members]
            parts.append(table((kind, "meaning"), rows))
    return "\n".join(parts)


def _member_comments(members: type[enum.Enum]) -> dict[str, str]:
    """The docstrings below the members of an enumeration; a member's own words where its value is a text."""
    found = {member.name: member.value for member in members if isinstance(member.value, str)}
    body = ast.parse(textwrap.dedent(inspect.getsource(members))).body[0]
    assert isinstance(body, ast.ClassDef)
    for node, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(node, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            name, comment = ast.unparse(node.targets[0]), str(after.value.value)
            found[name] = f"{found[name]}: {comment}" if name in found else comment
    return found


# Modules


def modules() -> str:
    """Every package and module with the first line of its docstring."""
    parts = [
        "# Modules\n",
        (
            "Every module of the packages `rpcrdma` and `rpcrdma_lab` with its purpose. Imports go downward in the"
            " picture; `ARCHITECTURE.md` in the repository describes the layers.\n"
        ),
        "![The layers of both packages](../pictures/layers.svg)\n",
    ]
    for folder in sorted(
        {path.parent for package in (LIBRARY, LAB) for path in package.rglob("*.py")}, key=_module_name
    ):
        name = _module_name(folder)
        rows = [
            (f"`{path.stem}`", _purpose(path)) for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"
        ]
        parts += [f"## {name}\n", f"{_purpose(folder / '__init__.py')}\n"]
        if rows:
            parts.append(table(("module", "purpose"), rows))
    return "\n".join(parts)


def _module_name(folder: Path) -> str:
    package = LAB if folder.is_relative_to(LAB) else LIBRARY
    return ".".join(folder.relative_to(package.parent).parts)


def _purpose(path: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def pages() -> dict[str, str]:
    """The text of every generated page, by its path in the folder of these pages."""
    folders = {"api": api_pages(table), "checks": check_pages(ROOT, table), "ledger": ledger_pages(ROOT, table)}
    found = {
        "commands.md": commands(),
        "settings.md": settings(),
        "limits.md": limits(),
        "states.md": states(),
        "modules.md": modules(),
    }
    return found | {f"{name}/{file}": text for name, folder in folders.items() for file, text in folder.items()}


def write(directory: Path, found: dict[str, str]) -> None:
    """Writes pages by their paths in `directory`, and removes others.

    A page that has not changed keeps its time, so that Sphinx passes it over.
    """
    for name, text in found.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in set(directory.rglob("*.md")) - {directory / name for name in found}:
        path.unlink()
