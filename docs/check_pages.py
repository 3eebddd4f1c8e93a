"""The checks of `rpcrdma check` as pages: one for each protocol that a check is about, and an index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ledger_pages import Table, anchor_of, by_specification, link_to, tried_by

from rpcrdma_lab.check import CATALOGUE, CLIENT_CATALOGUE, READINGS
from rpcrdma_lab.check.entry import Check

__all__ = ["check_pages"]

SUBJECTS = {
    "mpa": "MPA, judged at a server",
    "ddp": "DDP, judged at a server",
    "rdmap": "RDMAP, judged at a server",
    "rpc": "RPC, judged at a server",
    "v1": "Version 1, judged at a server",
    "v2": "Version 2, judged at a server",
    "v2.rtr": "The round-trip extension, judged at a server",
    "client": "MPA and version 1, judged at a client",
    "client.v2": "Version 2, judged at a client",
    "client.v2.rtr": "The round-trip extension, judged at a client",
}
"""Titles by the first words of the checks' ids; other first words are titles themselves."""

READINGS_TEXT = """\
## Readings

Answers that differ from ours where a text is unclear. A server that gives one of them breaks no rule by it.
"""


def check_pages(root: Path, table: Table) -> dict[str, str]:
    """The pages about all checks, by their file names; `index.md` leads to the others."""
    by_subject: dict[str, list[Check]] = defaultdict(list)
    for check in CATALOGUE + CLIENT_CATALOGUE:
        by_subject[_subject(check.id)].append(check)
    pages = {f"{subject.replace('.', '-')}.md": _page(subject, checks) for subject, checks in by_subject.items()}
    subjects = [
        (f"[{SUBJECTS.get(subject, subject)}]({name})", f"`{subject}.*`", str(len(checks)))
        for name, (subject, checks) in zip(pages, by_subject.items(), strict=True)
    ]
    known = tried_by()
    coverage = [
        (source, str(sum(row["id"] in known for row in rows)), str(len(rows)))
        for source, rows in by_specification(root).items()
    ]
    return pages | {
        "index.md": "\n".join(
            [
                "# Checks\n",
                (
                    "The checks of [`rpcrdma check`](../../check.md), each with the statements of the [conformance"
                    " ledger](../ledger/index.md) that it tries. The ledger names the checks of each statement, or the"
                    " reason why none tries it.\n"
                ),
                table(("subject", "ids", "checks"), subjects),
                "```{toctree}",
                ":hidden:\n",
                *(name.removesuffix(".md") for name in pages),
                "```\n",
                "## Coverage\n",
                table(("specification", "statements tried", "statements"), coverage),
                READINGS_TEXT,
                table(
                    ("reading", "answer", "citation"),
                    [(f"`{name}`", each.text, each.citation) for name, each in READINGS.items()],
                ),
            ]
        )
    }


def _subject(identifier: str) -> str:
    """The first words of a check's id that name the protocol: `client` and `rtr` belong to them."""
    words = identifier.split(".")
    if words[0] == "client" and words[1].startswith("v"):
        return ".".join(words[: 3 if words[2] == "rtr" else 2])
    return ".".join(words[: 2 if words[1] == "rtr" else 1])


def _page(subject: str, checks: Sequence[Check]) -> str:
    entries = [
        f"**[`{check.id}`]{{#{anchor_of(check.id)}}}**\n: {check.title}.\n\n"
        f"  Statements: {', '.join(map(link_to, check.statements))}\n"
        for check in checks
    ]
    return "\n".join(
        [
            f"# {SUBJECTS.get(subject, subject)}\n",
            f"{len(checks)} [checks](index.md). `rpcrdma check --only ID` runs one of them.\n",
            *entries,
        ]
    )
