"""The conformance ledger as pages: one for each specification, with its statements by section, and an index."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rpcrdma_lab.check import CATALOGUE, CLIENT_CATALOGUE

__all__ = [
    "Requirement",
    "Table",
    "anchor_of",
    "by_specification",
    "ledger_pages",
    "link_to",
    "proofs",
    "tried_by",
    "verdicts_on_linux",
]

Requirement = Mapping[str, str]
"""A row of the ledger."""

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
"""From a head and rows to a Markdown table."""

_STATUSES = ("done", "deviation", "not-applicable", "open")
_INTRODUCTION = """\
# Conformance ledger

The normative statements of the specifications in our own words, with the tests that prove them: a page for each
specification. `rpcrdma decode` and [`rpcrdma explain`](../../decode.md#explain) name the statements that a capture
breaks by the ids of this ledger, and [`rpcrdma check`](../../check.md) those that a server or a client breaks.
"""
_PARTS = (
    ("level", "the word of RFC 2119; in lower case where the specification demands something without such a word"),
    ("`rule`", "instead of a level, where the specification only describes"),
    ("`done`", "at least one test would fail if the implementation broke the statement"),
    ("`deviation`", "done otherwise on purpose, for the reason that is given"),
    ("`not-applicable`", "nothing here could keep or break it, for the reason that is given"),
    ("`open`", "not implemented, or not proved"),
    ("tests", "the tests that carry the id of the statement, by file"),
    ("checks", "the checks of `rpcrdma check` that try the statement, or the reason why none does"),
    (
        "Linux",
        "checks in which Linux does otherwise, and versions that conform: [Judged servers](../../judged-servers.md)",
    ),
)
"""The parts of an entry, explained."""


def by_specification(root: Path) -> dict[str, list[Requirement]]:
    """The rows of the ledger of the repository at `root`, by source: RFCs by number, then drafts by name."""
    found: dict[str, list[Requirement]] = defaultdict(list)
    for path in sorted((root / "specs" / "requirements").glob("*.toml")):
        for row in tomllib.loads(path.read_text())["requirement"]:
            found[row["source"]].append(row)
    return {source: found[source] for source in sorted(found, key=_source_order)}


def tried_by() -> dict[str, list[str]]:
    """The ids of the checks that try each statement."""
    tried: dict[str, list[str]] = defaultdict(list)
    for check in CATALOGUE + CLIENT_CATALOGUE:
        for name in check.statements:
            tried[name].append(check.id)
    return tried


def link_to(statement: str) -> str:
    """A link to the entry of a statement, from any page."""
    return f"[{statement}](#{statement})"


def anchor_of(check: str) -> str:
    """The anchor of a check's entry, which no other page has: anchors have no full stops."""
    return f"check-{check.replace('.', '-')}"


def ledger_pages(root: Path, table: Table) -> dict[str, str]:
    """The pages about the ledger of the repository at `root`, by their file names; `index.md` leads to the others."""
    found = proofs(root)
    judged = verdicts_on_linux(root / "lab" / "tests" / "interop" / "kernel" / "linux_verdicts.toml")
    untried = tomllib.loads((root / "specs" / "untried.toml").read_text())["untried"]
    reasons = {name: f"none. {group['reason']}" for group in untried for name in group["statements"].split()}
    checks = {name: ", ".join(f"[`{check}`](#{anchor_of(check)})" for check in ids) for name, ids in tried_by().items()}
    by_source = by_specification(root)
    revisions: dict[str, list[str]] = defaultdict(list)
    for source in by_source:
        revisions[_specification(source)].append(source)
    pages: dict[str, str] = {}
    summary: list[Sequence[str]] = []
    for title, sources in revisions.items():
        name = f"{title.lower().replace(' ', '-')}.md"
        rows = [row for source in sources for row in by_source[source]]
        count = Counter(row["status"] for row in rows)
        summary.append((f"[{title}]({name})", *_numbers(count)))
        parts = [f"# {title}\n", f"{len(rows)} statements of the [conformance ledger](index.md).\n"]
        for source in sources:
            chapter = ""
            for row in sorted(by_source[source], key=lambda row: _section_order(row["section"])):
                if (heading := _chapter(row, several=len(sources) > 1)) != chapter:
                    parts.append(f"## {heading}\n")
                    chapter = heading
                identifier = row["id"]
                tried = checks.get(identifier) or reasons.get(identifier, "")
                parts.append(_entry(row, _proof(row, found[identifier]), tried, "; ".join(judged[identifier])))
        pages[name] = "\n".join(parts)
    total = Counter(row["status"] for rows in by_source.values() for row in rows)
    contents = "\n".join(["```{toctree}", ":hidden:", "", *(name.removesuffix(".md") for name in pages), "```\n"])
    head = ("specification", "statements", *(status.replace("-", " ") for status in _STATUSES))
    summary.append(("all", *_numbers(total)))
    explained = table(("part of an entry", "meaning"), _PARTS)
    pages["index.md"] = "\n".join(
        [_INTRODUCTION, table(head, summary), "## How to read an entry\n", explained, contents]
    )
    return pages


def _specification(source: str) -> str:
    """The name of a specification; all revisions of a draft have one name."""
    return re.sub(r"-\d\d$", "", source) if source.startswith("draft-") else source


def _chapter(row: Requirement, *, several: bool) -> str:
    """The heading above a statement: its section's first number, with the revision if the page has several."""
    first = re.split(r"[.,]", row["section"])[0]
    words = f"Section {first}" if first[0].isdigit() else f"Appendix {first}"
    return f"Revision {row['source'][-2:]}, {words[0].lower()}{words[1:]}" if several else words


def _entry(row: Requirement, tests: str, checks: str, linux: str) -> str:
    """An entry of a definition list: the id, which is an anchor, section, level and status; then the statement."""
    reason = f"Reason: {row['reason']}" if "reason" in row else ""
    lines = [row["statement"], reason, *(f"{name}: {text}" if text else "" for name, text in
             (("Tests", tests), ("Checks", checks), ("Linux", linux)))]  # fmt: skip
    term = f"**[{row['id']}]{{#{row['id']}}}** · section {row['section']} · {row['level']} · {row['status']}"
    return f"{term}\n: " + "\n\n  ".join(filter(None, lines)) + "\n"


def proofs(root: Path) -> dict[str, set[str]]:
    """The tests that carry each requirement's mark, as FILE::TEST; FILE alone where all tests of a file carry it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (*root.glob("tests/**/test_*.py"), *root.glob("lab/tests/**/test_*.py")):
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


def _proof(row: Requirement, tests: set[str]) -> str:
    """The names of tests as words, by file."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in sorted(tests):
        file, _, name = test.partition("::")
        by_file[file].append(name.removeprefix("test_").replace("_", " "))
    words = ". ".join(f"`{file}`: {'; '.join(filter(None, names)) or 'all'}" for file, names in by_file.items())
    return words or row.get("judge", "")


def _numbers(count: Counter[str]) -> list[str]:
    return [str(count.total()), *(str(count[status]) for status in _STATUSES)]


def _source_order(source: str) -> tuple[bool, int, str]:
    """RFCs by number, then drafts by name."""
    number = re.fullmatch(r"RFC (\d+)", source)
    return number is None, int(number[1]) if number else 0, source


def _section_order(section: str) -> list[tuple[bool, int, str]]:
    """Sections by number, appendices behind them."""
    parts = re.findall(r"\d+|[A-Z]+", section.partition(",")[0])
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]
