"""Reports of checks: JSON, text of one screen, JUnit XML, and one HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rpcrdma_lab.check.statements import STATEMENTS
from rpcrdma_lab.check.verdicts import FAILURES, Result, Verdict, judged
from rpcrdma_lab.dissect.exchange_page import filled_page
from rpcrdma_lab.dissect.ladder import LadderShape, Rung, ladder_head, ladder_line
from rpcrdma_lab.dissect.sequence_svg import page_text
from rpcrdma_lab.limits import CHECK_SHOWN_OCTETS_MAX
from rpcrdma_lab.scripted import Passage

__all__ = ["as_html", "as_json", "as_junit", "ladder_lines", "summary_lines"]

_ORDER = (
    Verdict.VIOLATES,
    Verdict.HARMS,
    Verdict.IGNORES,
    Verdict.DIFFERS,
    Verdict.INCONCLUSIVE,
    Verdict.NOT_SEEN,
    Verdict.CONFORMS,
)
"""The order of verdicts in reports, worst first."""
_FAILED = {verdict.value for verdict in FAILURES}
_SHAPE = LadderShape(ends=2, margin=11, first=2, step=92)


def as_json(url: str, versions: Sequence[str], notes: Sequence[str], results: Sequence[Result]) -> dict[str, Any]:
    """Returns the report of a run of checks as a JSON object.

    `url` is the tested server or client, `versions` are its protocol versions, and `notes` are remarks on the run as
    text. The keys are "url", "versions", "notes", "verdicts" (the number of checks with each verdict), "statements"
    (the worst verdict on each tested requirement of a specification, by the requirement's identifier) and "checks",
    each with "id", "title", "verdict", "cause", "statements" and others. A check with another verdict than CONFORMS and
    NOT_SEEN also has "messages", the log of its conversation: time, sender, text and first octets of each message.
    """
    return {
        "url": url,
        "versions": list(versions),
        "notes": list(notes),
        "verdicts": {verdict.value: count for verdict, count in judged(results).items()},
        "statements": _reached(results),
        "checks": [_row(result) for result in results],
    }


def _reached(results: Sequence[Result]) -> dict[str, str]:
    """Returns the worst verdict, as text like "conforms", on each tested statement by the statement's identifier.

    From the worst on: VIOLATES, IGNORES, DIFFERS, INCONCLUSIVE, CONFORMS. Checks with other verdicts do not count:
    NOT_SEEN, and HARMS, which is about no statement.
    """
    found: dict[str, Verdict] = {}
    for result in results:
        if result.verdict is Verdict.NOT_SEEN:
            continue
        for statement in result.statements:
            found[statement] = min(found.get(statement, Verdict.CONFORMS), result.verdict, key=_ORDER.index)
    return {name: found[name].value for name in STATEMENTS if name in found}


def _coverage(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yields (identifier, section, worst verdict, "VERDICT: CHECK, ..." joined by "; ") for each tested statement.

    `report` is a report of `as_json`.
    """
    for name, worst in report["statements"].items():
        statement = STATEMENTS[name]
        tried: dict[str, list[str]] = {}
        for row in report["checks"]:
            if name in row["statements"] and row["verdict"] != Verdict.NOT_SEEN.value:
                tried.setdefault(row["verdict"], []).append(row["id"])
        checks = "; ".join(f"{verdict}: {', '.join(ids)}" for verdict, ids in tried.items())
        yield name, f"{statement.source} {statement.section}", worst, checks


def _row(result: Result) -> dict[str, Any]:
    check = result.check
    row: dict[str, Any] = {"id": check.id, "title": check.title, "verdict": result.verdict.value}
    row |= {"statements": list(result.statements), "sections": list(result.sections), "cause": result.cause or None}
    row["statement_texts"] = {name: STATEMENTS[name].text for name in result.statements}
    row |= {"readings": list(result.readings), "other_connections_ended": result.others_ended}
    if result.verdict not in {Verdict.CONFORMS, Verdict.NOT_SEEN}:
        row["messages"] = _messages(result)
    return row


def _messages(result: Result) -> list[dict[str, Any]]:
    judged_side = "client" if result.check.id.startswith("client.") else "server"
    return [_passage(each, judged_side) for each in result.passages]


def _passage(passage: Passage, judged_side: str) -> dict[str, Any]:
    at_us = round(passage.at_s * 1e6)
    return {
        "at_us": at_us,
        "sender": "check" if passage.ours else judged_side,
        "text": passage.text,
        "bytes": len(passage.octets) + passage.left,
        "hex": passage.octets[:CHECK_SHOWN_OCTETS_MAX].hex(),
    }


def _checks(count: int) -> str:
    return "1 check" if count == 1 else f"{count} checks"


def summary_lines(report: Mapping[str, Any], *, details: bool) -> Iterator[str]:
    """Yields a report of `as_json` as lines of text: counts, notes, and each check that does not conform.

    Checks that were not run (NOT_SEEN) are counted by cause. With `details`, the messages of each check that does not
    conform are below that check, and all tested statements with their checks are at the end.
    """
    total = len(report["checks"])
    versions = report["versions"]
    yield f"{report['url']}: {_checks(total)}, version{'s' * (len(versions) > 1)} {' and '.join(versions)}"
    yield ", ".join(f"{count} {verdict}" for verdict, count in report["verdicts"].items() if count)
    yield from (f"note: {note}" for note in report["notes"])
    for verdict in _ORDER[:5]:
        rows = [row for row in report["checks"] if row["verdict"] == verdict.value]
        if not rows:
            continue
        yield ""
        yield f"{verdict.value}:"
        for row in rows:
            yield f"  {row['id']}: {row['title']}"
            yield from (f"    {line}" for line in _tried(row))
            yield f"    {row['cause']}"
            if details:
                yield from (f"    {line}" for line in ladder_lines(row["messages"]))
    causes: dict[str, int] = {}
    for row in report["checks"]:
        if row["verdict"] == Verdict.NOT_SEEN.value:
            causes[row["cause"]] = causes.get(row["cause"], 0) + 1
    if causes:
        yield ""
        yield from (f"not seen: {_checks(count)}, as {cause}" for cause, count in causes.items())
    if details:
        yield ""
        yield "statements:"
        for name, section, _, checks in _coverage(report):
            yield f"  {name} ({section})"
            yield f"    {checks}"


def _tried(row: Mapping[str, Any]) -> Iterator[str]:
    """Yields one line: the broken statement and its text if a check failed, else identifiers of the tested statements.

    Statements are requirements of specifications. `row` is a check in a report of `as_json`, with "verdict",
    "statements" and "sections". Yields nothing if a failure breaks no statement.
    """
    if row["verdict"] in _FAILED:
        yield from (_quoted(name) for name in row["statements"])
    elif row["sections"]:
        yield f"{', '.join(row['sections'])} ({', '.join(row['statements'])})"


def _quoted(name: str) -> str:
    statement = STATEMENTS[name]
    return f"{statement.source} {statement.section} ({name}, {statement.level}): {statement.text}"


def ladder_lines(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines of an ASCII ladder of a check's messages, each with its first octets in hex below.

    `messages` are those of a check in a report of `as_json`: "at_us", "sender", "text", "bytes" and "hex" of each.
    """
    client = any(message["sender"] == "client" for message in messages)
    ends = ["check", "client" if client else "server"]
    yield ladder_head(_SHAPE, ends)
    for message in messages:
        end = ends.index(message["sender"])
        yield ladder_line(_SHAPE, Rung(f"{message['at_us'] / 1e6:9.6f}", message["text"], end, 1 - end))
        digits = message["hex"]
        for at in range(0, len(digits), 64):
            line = digits[at : at + 64]
            yield " " * 15 + " ".join(line[place : place + 8] for place in range(0, len(line), 8))
        left = message["bytes"] - len(digits) // 2
        if left:
            yield f"{'':15}and {left} octets"


def as_junit(url: str, results: Sequence[Result]) -> str:
    """Returns the results as JUnit XML.

    A violation of a MUST, or harm to other connections, is a failure. A check that was not run or is inconclusive is
    skipped. Other checks pass, with the cause, such as an ignored SHOULD, as output. `url` is the name of the tested
    server or client.
    """
    counts = judged(results)
    failures = counts[Verdict.VIOLATES] + counts[Verdict.HARMS]
    skipped = counts[Verdict.NOT_SEEN] + counts[Verdict.INCONCLUSIVE]
    numbers = f'tests="{len(results)}" failures="{failures}" errors="0" skipped="{skipped}"'
    name = page_text(f"rpcrdma check {url}")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuite name="{name}" {numbers}>']
    for result in results:
        check = result.check
        family = check.id.partition(".")[0]
        lines.append(f'  <testcase classname="rpcrdma.{family}" name="{page_text(f"{check.id}: {check.title}")}">')
        if result.verdict in {Verdict.VIOLATES, Verdict.HARMS}:
            told = _lines([*map(_quoted, result.statements), *ladder_lines(_messages(result))])
            lines.append(f'    <failure message="{page_text(result.cause)}">{told}</failure>')
        elif result.verdict in {Verdict.NOT_SEEN, Verdict.INCONCLUSIVE}:
            lines.append(f'    <skipped message="{page_text(result.cause)}"/>')
        elif result.cause:
            told = _lines([f"{result.verdict.value}: {result.cause}", *_tried(_row(result))])
            lines.append(f"    <system-out>{told}</system-out>")
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>", ""])


def _lines(lines: Iterable[str]) -> str:
    """Returns lines joined as text for HTML or XML, with entities for markup."""
    return "\n".join(map(page_text, lines))


_TEMPLATE = Path(__file__).with_name("report_page.html")
_RANKS = {verdict.value: rank for rank, verdict in enumerate(_ORDER)}


def as_html(report: Mapping[str, Any]) -> str:
    """Returns a report of `as_json` as one self-contained HTML page with filters and expandable messages."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report["verdicts"].items() if count)
    about = [f"Versions {', '.join(report['versions'])}. {counts}.", *report["notes"]]
    parts = {
        "TITLE": page_text(f"rpcrdma check {report['url']}"),
        "ABOUT": "\n".join(f"<p>{page_text(each)}</p>" for each in about),
        "CHECKS": "\n".join(map(_article, sorted(report["checks"], key=lambda row: _RANKS[row["verdict"]]))),
        "STATEMENTS": "\n".join(
            f'<tr><td>{name}<td>{section}<td class="v{_RANKS[worst]}">{worst}<td>{checks}'
            for name, section, worst, checks in _coverage(report)
        ),
    }
    return filled_page(_TEMPLATE, parts)


def _article(row: Mapping[str, Any]) -> str:
    verdict, failed = row["verdict"], row["verdict"] in _FAILED
    facts = {"check": row["id"], "verdict": verdict, "statements": " ".join(row["statements"])}
    facts["failed"] = "yes" if failed else "no"
    words = " ".join(f'data-{name}="{page_text(value)}"' for name, value in facts.items())
    lines = [f"<article {words}>", f"<p><code>{page_text(row['id'])}</code> {page_text(row['title'])}"]
    lines.append(f'<p><span class="v{_RANKS[verdict]}">{verdict}</span>')
    kind = "blockquote" if failed else "p"
    lines += [f"<{kind}>{page_text(each)}</{kind}>" for each in _tried(row)]
    lines += [f"<p>{page_text(row['cause'])}"] if row["cause"] else []
    if row.get("messages"):
        told = _lines(ladder_lines(row["messages"]))
        lines.append(f"<details><summary>messages</summary><pre>{told}</pre></details>")
    return "\n".join([*lines, "</article>"])
