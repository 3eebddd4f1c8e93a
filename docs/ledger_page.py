"""The conformance ledger as a page: a table for each specification, in the order of its sections, with the proofs."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rpcrdma.check import CATALOGUE, CLIENT_CATALOGUE

__all__ = ["ledger_page", "proofs", "verdicts_on_linux"]

_STATUSES = ("done", "deviation", "not-applicable", "open")
_INTRODUCTION = """\
# Conformance ledger

The normative statements of the specifications in our own words, with the tests that prove them. The level is the word
of RFC 2119, in lower case where the specification demands something without one, and `rule` where it only describes. A
statement is `done` when at least one test would fail if the implementation broke the statement. `rpcrdma decode` and
[`rpcrdma explain`](../explain.md) name the statements that a capture breaks by these ids. The last column has the
checks of [`rpcrdma check`](../check.md) in which Linux does otherwise, and the versions that conform to all checks of a
statement: [Judged servers](../judged-servers.md). It is empty where no check that Linux met tries the statement.
"""

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
"""From a head and rows to a Markdown table."""


def ledger_page(root: Path, table: Table) -> str:
    """The page about the ledger of the repository at `root`."""
    found = proofs(root / "tests")
    judged = verdicts_on_linux(root / "tests" / "interop" / "kernel" / "linux_verdicts.toml")
    by_source: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted((root / "specs" / "requirements").glob("*.toml")):
        for row in tomllib.loads(path.read_text())["requirement"]:
            by_source[row["source"]].append(row)
    sources = sorted(by_source, key=_source_order)
    counts = [(source, Counter(row["status"] for row in by_source[source])) for source in sources]
    head = ("specification", "statements", *_STATUSES)
    summary = [(f"[{source}](#{_anchor(source)})", *_numbers(count)) for source, count in counts]
    summary.append(("all", *_numbers(sum((count for _, count in counts), Counter()))))
    parts = [_INTRODUCTION, table(head, summary)]
    for source in sources:
        rows = sorted(by_source[source], key=lambda row: _section_order(row["section"]))
        cells = [
            (row["section"], row["id"], row["level"], row["statement"], _status(row), _proof(row, found[row["id"]]),
             "<br>".join(judged[row["id"]]))
            for row in rows
        ]  # fmt: skip
        parts += [f"## {source}\n", table(("section", "id", "level", "statement", "status", "proofs", "Linux"), cells)]
    return "\n".join(parts)


def proofs(tests: Path) -> dict[str, set[str]]:
    """The tests that carry each requirement's mark, as FILE::TEST; FILE alone where all tests of a file carry it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in tests.rglob("test_*.py"):
        text = path.read_text()
        if "mark.req(" not in text:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for identifier in _ids(node.decorator_list):
                    found[identifier].add(f"{path.stem}::{node.name}")
            elif isinstance(node, ast.Assign):
                for identifier in _ids([node.value]):
                    found[identifier].add(path.stem)
    return found


def verdicts_on_linux(path: Path) -> dict[str, list[str]]:
    """By statement: the checks in which Linux does otherwise, and the systems that conform to all others."""
    statements = {check.id: check.statements for check in CATALOGUE + CLIENT_CATALOGUE}
    found: dict[str, list[str]] = defaultdict(list)
    conforming: dict[str, list[str]] = defaultdict(list)
    for judged in tomllib.loads(path.read_text())["judged"]:
        checks: dict[tuple[str, str], list[str]] = defaultdict(list)
        tried: set[str] = set()
        for verdict, names in judged.items():
            for name, _, statement in (each.partition(" ") for each in (names if isinstance(names, list) else ())):
                if verdict == "conforms":
                    tried.update(statements[name])
                else:
                    # The others of a check's statements may be kept all the same.
                    checks[statement or statements[name][0], verdict].append(f"`{name}`")
        for (statement, verdict), names in checks.items():
            found[statement].append(f"the {judged['system']} {verdict}: {', '.join(names)}")
        for statement in tried - {statement for statement, _ in checks}:
            conforming[statement].append(f"the {judged['system']}")
    for statement, systems in conforming.items():
        found[statement].append(f"conforms: {', '.join(systems)}")
    return found


def _ids(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The ids in marks below these nodes, those of single parameters included."""
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "req":
                yield from (one.value for one in node.args if isinstance(one, ast.Constant))


def _proof(row: dict[str, Any], tests: set[str]) -> str:
    """The names of tests as words, by file."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in sorted(tests):
        file, _, name = test.partition("::")
        by_file[file].append(name.removeprefix("test_").replace("_", " "))
    words = "<br>".join(f"`{file}`: {'; '.join(filter(None, names)) or 'all'}" for file, names in by_file.items())
    return words or row.get("judge", "")


def _status(row: dict[str, Any]) -> str:
    return f"{row['status']}: {row['reason']}" if "reason" in row else str(row["status"])


def _numbers(count: Counter[str]) -> list[str]:
    return [str(count.total()), *(str(count[status]) for status in _STATUSES)]


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _source_order(source: str) -> tuple[bool, int, str]:
    """RFCs by number, then drafts by name."""
    number = re.fullmatch(r"RFC (\d+)", source)
    return number is None, int(number[1]) if number else 0, source


def _section_order(section: str) -> list[tuple[bool, int, str]]:
    """Sections by number, appendices behind them."""
    parts = re.findall(r"\d+|[A-Z]+", section.partition(",")[0])
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]
