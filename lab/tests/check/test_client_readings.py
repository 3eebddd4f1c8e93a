"""Clients that differ from our reading: each reading of each check of clients occurs, and is no violation."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

import pytest
from broken_clients import (
    HEARD,
    NULL,
    OTHER,
    READ_TO_SINK,
    REPLIED,
    SINK,
    SOURCE,
    UNTIL_THE_END,
    WRITE_OF_SOURCE,
    BrokenClient,
    Connecting,
    Message,
    ScriptedClient,
    before,
    ids_of,
)
from test_catalogue import readings_in

from rpcrdma_lab.check import CLIENT_CATALOGUE, Verdict
from rpcrdma_lab.check.catalogue.version_2 import CONNPROP
from rpcrdma_lab.scripted import make_message
from rpcrdma_lab.scripted.values import Names
from support import raw_calls
from support.cases import each_case
from support.raw_iwarp import fpdu, terminate

ENDED, OTHER_CODE, SWAPPED = "ended-without-terminate", "other-terminate-code", "terminate-nibbles-swapped"
ACCESSES = "client.[wri]*.unknown-handle client.crc client.reply.beyond-*"
Row = tuple[Connecting, str, str]
"""A client, the checks that it meets, and its reading."""


def ending(octets: bytes = b"") -> BrokenClient:
    """Ends its connection at the first message of the server, after these octets."""
    return BrokenClient(NULL, last=octets)


def reporting(code: int) -> list[Message]:
    """Says a Terminate beside the error of the server."""
    return [{"say": {"stream": terminate(code).hex()}}, HEARD, UNTIL_THE_END]


def of_finished_calls() -> Iterator[Row]:
    """Clients whose memory of a finished call is accessed."""
    for call, name, memory, swapped in (
        ([{"say": READ_TO_SINK}, REPLIED], "client.write.finished-call", SINK, None),
        ([{"say": WRITE_OF_SOURCE}, HEARD], "client.read.finished-call", SOURCE, 0x1000),
    ):
        yield ScriptedClient(*call, OTHER, memory=memory), name, ENDED
        for code, reading in ((0x2001, OTHER_CODE), (swapped, SWAPPED)):
            if code is not None:
                yield ScriptedClient(*call, OTHER, *reporting(code), memory=memory), name, reading


def of_version_2() -> Iterator[Row]:
    """Clients of version 2 that end at a reverse call, whose memory is accessed, or whose reports have other fields."""
    family, properties = "client.v2", {"hear": {"message": {"header": {"type": CONNPROP}}}}

    def client(support: int, *steps: Message) -> ScriptedClient:
        told = {"header": {"type": CONNPROP, "properties": [[5, {"words": [support]}]]}}
        return ScriptedClient({"say": told}, properties, *steps, version="2", memory=SINK)

    undirected = " ".join(f"{family}.reverse.{each}" for each in ("undirected", "xid-alone", "response"))
    yield client(1, {"say": NULL}, HEARD), undirected, "ended-after-reverse-call"
    yield client(0, {"say": NULL}, HEARD), f"{family}.reverse.without-*", "ended-after-reverse-call"
    finished = ({"say": READ_TO_SINK}, REPLIED, OTHER)
    yield client(1, *finished), f"{family}.write.finished-*", ENDED
    yield client(1, *finished, *reporting(0x2001)), f"{family}.write.finished-*", OTHER_CODE

    octets = 1024 + 8 * 4096
    structure = [0x102, {"words": [octets, 2, 1, 1024, 0, 0, 8, 4096, 0, 1]}]
    told = [[2, {"words": [octets]}], [0x101, {"words": [7]}], structure]
    direction = {"begin": 0, "end": 84, "results": [{"least": 64, "type": 2}]}
    read: Message = {"header": {"type": 0x101, "count": 1, "extra_receives": 3}, "rpc": {"procedure": 6}}
    read["header"]["directions"] = [direction]
    report = {"header": {"type": 0x104, "bad": {"xid": 9, "direction": 1, "number": 9}, "fault": 99, "numbers": []}}
    last = fpdu(raw_calls.send(make_message("2", report, Names({"xid": 9})), 3))
    tells: Message = {"header": {"type": CONNPROP, "properties": told}}
    yield BrokenClient(tells, read, version="2", last=last), f"{family}.rtr.response.*", "other-report"


ROWS: list[Row] = [
    (ending(), "client.reply.[!bcr]* client.reply.cut* client.error.und*", "ended-after-broken-reply"),
    (ending(), ACCESSES, ENDED),
    (ScriptedClient(), "client.startup.depth", ENDED),
    (ScriptedClient(reporting(0x0206)[0], UNTIL_THE_END), "client.startup.depth", SWAPPED),
    (ending(), "client.reverse.*", "ended-after-reverse-call"),
    (ending(terminate(0x2001)), ACCESSES, OTHER_CODE),
    (ending(terminate(0x1000)), "client.read.unknown-handle client.invalidate.unknown-handle", SWAPPED),
    (ending(terminate(0x0202)), "client.crc", SWAPPED),
    (ending(terminate(0x2105)), "client.reply.beyond-*", SWAPPED),
    *of_finished_calls(),
    *of_version_2(),
]


def places(patterns: str = "*") -> set[tuple[str, str]]:
    """The readings of these checks, each with its check."""
    ids = ids_of(patterns)
    checks = [each for each in CLIENT_CATALOGUE if each.id in ids]
    return {(check.id, reading) for check in checks for reading in readings_in(check.conversation)}


def rows_of(patterns: str, reading: str) -> set[tuple[str, str]]:
    return {place for place in places(patterns) if fnmatch.fnmatchcase(place[1], reading)}


def test_each_reading_of_each_check_of_clients_is_tried() -> None:
    assert set[tuple[str, str]]().union(*(rows_of(*row[1:]) for row in ROWS)) == places()


@pytest.mark.thorough
@each_case(("client", "patterns", "reading"), ROWS)
def test_another_reading_is_no_violation(client: Connecting, patterns: str, reading: str) -> None:
    checks = " ".join(name for name, _ in rows_of(patterns, reading))
    found = {each.check.id: (each.verdict, list(each.readings), each.cause) for each in before(client, checks)}
    assert {name: row[:2] for name, row in found.items()} == dict.fromkeys(found, (Verdict.DIFFERS, [reading])), found


def test_a_code_that_is_the_same_with_layer_and_type_exchanged_is_no_reading() -> None:
    assert SWAPPED not in dict(places("client.write.*"))
