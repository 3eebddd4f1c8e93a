"""Servers that conform although they answer otherwise than ours, where the specification leaves the answer open."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import local_streams
import pytest
from fake_servers import (
    OBLIGING,
    FakeServer,
    Frame,
    Version2,
    as_properties_or_reply,
    closing,
    null_reply,
    reading,
    with_a_read_first,
)
from test_broken_servers import before, chosen, without_continuation

from rpcrdma.transport import responder
from rpcrdma_lab.check import Result, Verdict
from rpcrdma_lab.check.catalogue.version_2 import CODES, CONNPROP
from support.cases import each_case

if TYPE_CHECKING:
    from conftest import Judge

pytestmark = pytest.mark.thorough

OTHER_CONNECTION = 1 << 31
"""XIDs of the connection beside that of a check are not below it."""


def found(results: list[Result]) -> set[tuple[str, Verdict, str]]:
    return {(result.check.id, result.verdict, result.cause) for result in results}


def refusing_once(frame: Frame, received: int) -> bytes | None:
    return struct.pack(">5I", frame.xid, 1, 32, 4, 2) if received == 1 else None


def unusual(answer: Callable[[int], bytes]) -> FakeServer:
    """A server that answers all but an empty call in its usual form by `answer`, which is given the XID."""
    return FakeServer(
        lambda frame, received: null_reply(frame.xid) if frame.is_plain_call(received) else answer(frame.xid),
        any_start=True,
    )


def with_status(server: Version2, frame: Frame) -> bytes:
    return as_properties_or_reply(server, frame) + bytes(4)


def piece_by_piece(frame: Frame, received: int) -> bytes | None:
    """Takes the first message for a piece, and refuses the next one."""
    server = Version2(as_properties_or_reply)
    if received == 3:
        return server.refusal(frame, CODES["INVAL_FLAG"])
    return b"" if received == 2 else server(frame, received)


class Other(NamedTuple):
    """A server of which each of these checks tells this reading."""

    server: FakeServer
    patterns: list[str]
    reading: str
    version: str = "1"


OTHERS = [
    Other(
        FakeServer(refusing_once, any_start=True),
        [f"v1.{name}" for name in ("*.handle-unknown", "re*.length-beyond", "re*.offset-beyond", "writes.*-beyond")],
        "ended-after-error",
    ),
    Other(unusual(lambda xid: null_reply(xid)[:-4] + struct.pack(">I", 5)), ["v1.*.short"], "short-chunk-answered"),
    Other(unusual(lambda xid: null_reply(xid) + bytes(4)), ["v1.reads.longer-than-count"], "long-read-chunk-cut"),
    Other(unusual(lambda xid: null_reply(xid) + bytes(4)), ["v1.reads.positions-overlapping"], "unused-chunk-ignored"),
    Other(FakeServer(piece_by_piece), ["v2.flags.more-with-chunks"], "chunks-of-a-piece-ignored", "2"),
    Other(
        FakeServer(Version2(with_status)),
        ["v2.write.no-item", "v2.rtr.place.position-[dt]*"],
        "unused-chunk-ignored",
        "2",
    ),
]


def test_each_of_these_servers_differs_by_its_reading() -> None:
    async def main() -> list[list[Result]]:
        return await asyncio.gather(*(before(each.server, each.version, *each.patterns) for each in OTHERS))

    found = [
        {(result.verdict, *result.readings, result.check.id) for result in results}
        for results in local_streams.run(main())
    ]
    assert found == [{(Verdict.DIFFERS, each.reading, check.id) for check in chosen(*each.patterns)} for each in OTHERS]


def test_an_end_after_a_right_answer_is_not_told_as_one_after_an_error() -> None:
    def answer(frame: Frame, received: int) -> bytes | None:
        return null_reply(frame.xid) if received == 1 or frame.xid >= OTHER_CONNECTION else None

    (result,) = local_streams.run(before(FakeServer(answer), "1", "v1.null"))
    assert result.readings == ["ended-after-error"]
    assert result.cause.startswith("the connection ends in place of an error, or after an answer; we keep it")


def reading_in_parts(frame: Frame, received: int) -> bytes:
    answer = reading(frame, received)
    return answer[:12] + struct.pack(">I", 20) + answer[16:] if received == 1 else answer


@each_case(
    ("server", "pattern", "cause"),
    [
        (OBLIGING, "mpa.startup.crc-of-neither", "the server demands CRCs"),
        (FakeServer(closing, terminates=0x0207), "rdmap.read.empty", "the server permits no RDMA Reads"),
        (
            FakeServer(reading_in_parts, framed=with_a_read_first),
            "rdmap.response.beyond",
            "the server reads a Long Call in parts",
        ),
    ],
)
def test_a_check_that_does_not_reach_its_question_has_not_seen_the_answer(
    server: FakeServer, pattern: str, cause: str
) -> None:
    results = local_streams.run(before(server, "1", pattern))
    assert found(results) == {(check.id, Verdict.NOT_SEEN, cause) for check in chosen(pattern)}


@each_case(("granted", "sent"), [(4, 4), (1000, 64)])
def test_as_many_calls_are_sent_as_this_connection_was_granted(granted: int, sent: int) -> None:
    def answer(frame: Frame, received: int) -> bytes | None:
        return null_reply(frame.xid, grant=granted) if received <= 1 + sent else None

    results = local_streams.run(before(FakeServer(answer), "1", "v1.credits.all-granted"))
    assert found(results) == {("v1.credits.all-granted", Verdict.CONFORMS, "")}


@each_case(("granted", "sent"), [(2, 2), (1000, 256)])
def test_as_many_calls_of_version_2_are_sent_as_this_connection_was_granted(granted: int, sent: int) -> None:
    def within_its_credits(frame: Frame, received: int) -> bytes | None:
        server = Version2(as_properties_or_reply)
        if received == 1:
            told = {"type": CONNPROP, "properties": [], "give": granted, "xid": frame.xid}
            return server.made({"header": told})
        # Behind the calls are the grant, and a call that shows that the connection goes on.
        if frame.xid >= OTHER_CONNECTION or received < sent + 2 or received == sent + 3:
            return server.reply(frame)
        return b"" if received == sent + 2 else None

    results = local_streams.run(before(FakeServer(within_its_credits), "2", "v2.credits.grant-beyond"))
    assert found(results) == {("v2.credits.grant-beyond", Verdict.CONFORMS, "")}


@each_case("needed", [64, 0])
def test_a_server_need_not_know_which_write_chunk_is_too_short(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, needed: int
) -> None:
    without_continuation(monkeypatch)
    right = responder.plan_reply  # type: ignore[attr-defined]

    def plan_reply(*args: Any) -> Any:
        plan = right(*args)
        return plan._replace(refusal=plan.refusal and plan.refusal._replace(chunk=0, needed=needed))

    monkeypatch.setattr(responder, "plan_reply", plan_reply)
    results = judge(chosen("v2.read.short-write-chunk"))
    assert found(results) == {("v2.read.short-write-chunk", Verdict.CONFORMS, "")}


REFUSED = "error.* flags.response-on-a-call invalidate.foreign numbers.* properties.long properties.twice"
TAKEN = "give.* invalidate.foreign pool.* properties.long properties.reverse-9 properties.twice xid.*"


@each_case(("other", "names"), [(Version2.refusal, REFUSED), (as_properties_or_reply, TAKEN)])
def test_where_the_draft_names_no_reaction_a_server_may_refuse_or_go_on(
    other: Callable[[Version2, Frame], bytes], names: str
) -> None:
    patterns = [f"v2.{name}" for name in names.split()]
    results = local_streams.run(before(FakeServer(Version2(other)), "2", *patterns))
    assert found(results) == {(check.id, Verdict.CONFORMS, "") for check in chosen(*patterns)}
