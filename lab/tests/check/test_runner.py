"""The run of checks: conditions, refused connections, and the other connection that has to go on."""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from unittest import mock

import local_streams
import pytest
from fake_servers import OBLIGING, FakeServer, Frame, Version2, closing, null_reply, serving
from recalling_server import Recalling

from rpcrdma.errors import RpcError
from rpcrdma.testing.virtual import loop as virtual
from rpcrdma_lab.check import CATALOGUE, Result, Verdict, run_checks, runner, spoken_versions
from rpcrdma_lab.check.runner import Witness
from rpcrdma_lab.check.verdicts import PassageBudget
from rpcrdma_lab.limits import CHECK_PASSAGES_MAX, RAW_PASSAGES_MAX
from rpcrdma_lab.scripted import Failure, Outcome, Passage, RawTarget, read_message, run_conversation
from rpcrdma_lab.scripted.own_time import within
from support import raw_replies
from support.cases import each_case
from support.loops import in_virtual_time
from support.raw_iwarp import fpdu

pytestmark = pytest.mark.thorough

GIVEN: dict[str, int | bytes] = {"program": 200_000, "program_version": 3, "credential": bytes(8)}
OTHERS = 1 << 31
"""XIDs of the other connection are not below it."""


def checked(
    server: FakeServer, *ids: str, met: Collection[str] = ("1",), given: Mapping[str, int | bytes] = GIVEN
) -> list[Result]:
    async def main() -> list[Result]:
        async with serving(server) as target:
            checks = [each for each in CATALOGUE if each.id in ids]
            return await run_checks(checks, target, given, met, fresh_files=itertools.repeat(b"fresh"))

    return local_streams.run(main())


def accepted(status: int, xid: int) -> bytes:
    return null_reply(xid)[:-4] + struct.pack(">I", status)


@each_case(
    ("status", "told"), [(1, "it does not offer program 200000"), (2, "it does not offer version 3 of program 200000")]
)
def test_a_program_that_the_server_lacks_is_told(status: int, told: str) -> None:
    async def main() -> None:
        async with serving(FakeServer(lambda frame, _: accepted(status, frame.xid))) as target:
            await spoken_versions(target, GIVEN)

    with pytest.raises(RpcError, match=f"^{told}$"):
        local_streams.run(main())


@each_case(("status", "spoken"), [(0, {"1", "2"}), (1, {"1"}), (2, {"1"}), (5, {"1", "2"})])
def test_a_version_without_the_program_is_not_spoken(status: int, spoken: set[str]) -> None:
    """A version in which the call is answered wrong is to be judged."""

    def answer(frame: Frame, _received: int) -> bytes:
        if frame.payload[4:8] == struct.pack(">I", 1):
            return null_reply(frame.xid)
        server = Version2(lambda server, frame: server.refusal(frame))
        if frame.payload[4:] != server.made({"header": {"xid": 0}, "rpc": {"xid": frame.xid}})[4:]:
            return server.properties(frame)
        return server.reply(frame)[:-4] + struct.pack(">I", status)

    async def main() -> set[str]:
        async with serving(FakeServer(answer)) as target:
            return set(await spoken_versions(target, {**GIVEN, "program": 100_003}))

    assert local_streams.run(main()) == spoken


class TerminateLostOnce(FakeServer):
    """Its Terminate does not arrive the first time."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super().serve(reader, writer)
        self._terminates = 0x1201


def test_a_terminate_that_may_have_been_lost_is_awaited_once_more() -> None:
    given = {**GIVEN, "program": 100_003}
    for server, broken in ((FakeServer(closing), "RD-15"), (TerminateLostOnce(closing), "")):
        (result,) = checked(server, "ddp.queue.3", given=given)
        assert (result.verdict, result.broken) == (Verdict.VIOLATES if broken else Verdict.CONFORMS, broken)


def test_a_report_keeps_the_passages_that_it_shows_and_no_more_than_its_bound() -> None:
    """Of many checks that a peer answers with endless messages the later ones have their first and last messages."""
    budget, kept = PassageBudget(), 0
    passages = [Passage(0.0, ours=False, text=f"{number}", octets=bytes(5000)) for number in range(RAW_PASSAGES_MAX)]
    for verdict in (
        Verdict.CONFORMS,
        Verdict.NOT_SEEN,
        *[Verdict.VIOLATES] * 2 * (CHECK_PASSAGES_MAX // len(passages)),
    ):
        result = Result(check=CATALOGUE[0], verdict=verdict, passages=passages)
        budget.shorten(result)
        kept += len(result.passages)
        assert bool(result.passages) == (verdict is Verdict.VIOLATES)
    assert CHECK_PASSAGES_MAX <= kept < 2 * CHECK_PASSAGES_MAX
    assert [each.text for each in result.passages][7:9] == ["7", f"{RAW_PASSAGES_MAX - 8}"]
    assert {(len(each.octets), each.left) for each in result.passages} == {(512, 4488)}


def test_a_version_is_tried_again_after_silence() -> None:
    calls: list[int] = []

    def first_overlooked(frame: Frame, _received: int) -> bytes | None:
        if frame.segment[0] & 0x80:
            return b""
        calls.append(frame.xid)
        return b"" if len(calls) == 1 else null_reply(frame.xid)

    async def main() -> set[str]:
        async with serving(FakeServer(first_overlooked)) as target:
            return set(await spoken_versions(target, GIVEN))

    assert "1" in local_streams.run(main())


def test_the_program_is_told_before_the_files_that_it_lacks() -> None:
    (result,) = checked(OBLIGING, "v1.read.inline")
    assert (result.verdict, result.cause) == (Verdict.NOT_SEEN, "the program is not NFSv3")


def test_after_five_refused_connections_no_more_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    async def refused(*of: object) -> None:
        tried.append(of)
        if len(tried) != 3:
            raise ConnectionRefusedError("connection refused")
        raise TimeoutError

    monkeypatch.setattr(runner, "run_conversation", refused)
    ids = [check.id for check in CATALOGUE if not check.needs and check.conversation.get("version", "1") == "1"][:7]
    results = checked(OBLIGING, *ids)
    assert [result.verdict for result in results] == [Verdict.INCONCLUSIVE] * 5 + [Verdict.NOT_SEEN] * 2
    causes = ["no connection: connection refused"] * 2 + ["no connection within 60 s"]
    assert [result.cause for result in results[:3]] == causes
    assert results[-1].cause == "the server took none of 5 connections in a row; it may have stopped"


def test_a_check_that_waits_for_a_call_which_does_not_come_ends_no_run() -> None:
    recalling = Recalling(recalls=False)

    def twice(frame: Frame, received: int) -> Sequence[bytes] | None:
        """The WRITE that conflicts with the delegation is answered twice, in place of the recall."""
        answers = recalling(frame, received)
        rpc = read_message("1", frame.payload).get("rpc", {})
        return [*answers, *answers] if answers and (rpc.get("version"), rpc.get("procedure")) == (3, 7) else answers

    given = {**GIVEN, "program": 100_003, "owner": b"check"}
    checks = "v1.null", "v1.back-channel.call", "v1.back-channel.same-xid"
    results = checked(FakeServer(twice), *checks, met={"1", "write", "recall"}, given=given)
    assert [result.verdict for result in results] == [Verdict.CONFORMS, *[Verdict.INCONCLUSIVE] * 2]
    assert "no value is given for 'call.xid'" in results[-1].cause


def test_a_stall_of_the_judge_is_no_silence_of_the_server() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        answered = asyncio.Event()
        loop.call_later(0.01, loop.jump, 5.0)
        loop.call_later(0.3, answered.set)
        async with within(1.0):
            await answered.wait()
        begun_s = loop.time()
        with pytest.raises(TimeoutError):
            async with within(1.0):
                await asyncio.Event().wait()
        assert loop.time() - begun_s == pytest.approx(1.0)

    virtual.run(main)


# The other connection


def test_another_connection_has_a_call_in_flight_when_a_check_begins() -> None:
    heard: list[int] = []

    def answer(frame: Frame, _received: int) -> bytes:
        heard.append(frame.xid)
        return null_reply(frame.xid)

    assert checked(FakeServer(answer), "v1.null")[0].verdict is Verdict.CONFORMS
    ours = next(index for index, xid in enumerate(heard) if xid < OTHERS)
    assert [xid - OTHERS for xid in heard[:ours]] == [0x10_0000, 0x10_0001]
    assert len(heard) > ours + 2


def test_a_wrong_answer_elsewhere_after_a_mistake_is_harm_and_breaks_no_statement_of_the_check() -> None:
    mistakes: list[int] = []

    def answer(frame: Frame, _received: int) -> bytes:
        if frame.xid < OTHERS:
            mistakes.append(frame.xid)
        return accepted(5 if mistakes and frame.xid >= OTHERS else 0, frame.xid)

    (result,) = checked(FakeServer(answer), "v1.null")
    assert (result.verdict, result.others_ended, result.statements) == (Verdict.HARMS, True, ())
    assert result.cause.startswith(
        "another connection is answered wrong after this: expected a successful reply; found the"
    )


def test_a_mistake_in_the_frames_of_another_connection_is_none_of_the_check() -> None:
    """As padding of siw, which is not always zero; here the reserved bits of DDP."""
    ours: list[int] = []

    def reserved_bits(payload: bytes, number: int) -> bytes:
        xid = int.from_bytes(payload[:4])
        ours.extend([xid] if xid < OTHERS else [])
        segment = raw_replies.send(payload, number)
        return fpdu(b"\x45" + segment[1:] if ours and xid >= OTHERS else segment)

    server = FakeServer(lambda frame, _: null_reply(frame.xid), framed=reserved_bits)
    (result,) = checked(server, "v1.null")
    assert (result.verdict, result.cause) == (Verdict.CONFORMS, "")


def test_a_server_that_always_answers_elsewhere_wrong_is_not_judged_by_it() -> None:
    (result,) = checked(FakeServer(lambda frame, _: accepted(5 * (frame.xid >= OTHERS), frame.xid)), "v1.null")
    assert (result.verdict, result.cause) == (Verdict.CONFORMS, "")


@each_case(("ends", "found"), [(9, (Verdict.HARMS, "another connection ended after this, twice")),
                               (1, (Verdict.CONFORMS, ""))])  # fmt: skip
def test_the_end_of_another_connection_is_harm_if_the_check_does_it_again(
    ends: int, found: tuple[Verdict, str]
) -> None:
    """Connections end for other causes as well."""
    mistakes: list[int] = []

    def answer(frame: Frame, received: int) -> bytes | None:
        if frame.xid < OTHERS:
            mistakes.append(frame.xid)
            return null_reply(frame.xid)
        if mistakes and received > 2 and len(ended) < ends:
            ended.append(frame.xid)
            mistakes.clear()
            return None
        return null_reply(frame.xid)

    ended: list[int] = []
    (result,) = checked(FakeServer(answer), "v1.null")
    assert (result.verdict, result.cause) == found


@in_virtual_time
async def test_a_server_that_came_back_late_counts_as_gone_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a connection after a later check is then proved by a second run."""
    down = False

    async def opened(*_: object) -> Any:
        if down:
            raise ConnectionRefusedError
        live = mock.AsyncMock(outcome=Outcome())
        live.run.side_effect = lambda *_, **__: not down
        return live

    monkeypatch.setattr(runner, "open_conversation", opened)
    witness = Witness(RawTarget(host="", port=0), "1", {}, 0)
    assert await witness.begin()
    down = True
    assert (await witness.fate(), witness.gone) == ("the server answers no connection any more after this", True)
    down = False
    assert await witness.begin()
    assert (await witness.fate(), witness.gone) == ("", False)


@each_case(("absent", "told", "gone"), [
    (9, "the server answered no connection after this, and does again", False),
    (10_000, "the server answers no connection any more after this", True),
])  # fmt: skip
@in_virtual_time
async def test_the_run_waits_for_a_server_that_is_started_again(
    monkeypatch: pytest.MonkeyPatch, absent: int, told: str, gone: bool
) -> None:
    tried: list[object] = []

    async def refused(*of: Any) -> Any:
        tried.append(of)
        if 1 < len(tried) <= absent:
            raise ConnectionRefusedError
        live = mock.AsyncMock(outcome=Outcome())
        live.run.side_effect = lambda *_, **__: len(tried) != 1 or live.run.await_count <= 3
        return live

    monkeypatch.setattr(runner, "open_conversation", refused)
    witness = Witness(RawTarget(host="", port=0), "1", {}, 0)
    assert await witness.begin()
    assert (await witness.fate(), witness.gone) == (told, gone)


def test_a_crash_of_which_the_second_try_is_refused_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[Any] = [Outcome(failure=Failure(1, "an answer", "nothing", silent=True)), ConnectionRefusedError()]
    monkeypatch.setattr(runner, "run_conversation", mock.AsyncMock(side_effect=outcomes))
    (result,) = checked(OBLIGING, "v1.null")
    assert (result.verdict, result.cause) == (Verdict.VIOLATES, "expected an answer; found nothing")


@each_case(("status", "found"), [
    (20, (Verdict.INCONCLUSIVE, ", got its refusal NOTDIR, which is about a file")),
    (22, (Verdict.VIOLATES, "; found a reply with status 22")),
])  # fmt: skip
def test_a_status_of_the_file_judges_no_message(status: int, found: tuple[Verdict, str]) -> None:
    def answer(frame: Frame, received: int) -> bytes:
        plain = frame.is_plain_call(received)
        return null_reply(frame.xid) + (b"" if plain else struct.pack(">2I", status, 0))

    given = {**GIVEN, "program": 100_003, "file": b"handle"}
    (result,) = checked(FakeServer(answer), "v1.getattr.write-chunk", met={"1", "nfs", "file"}, given=given)
    expected = "expected a successful reply in RDMA_MSG"
    assert (result.verdict, result.cause.removeprefix(expected)[: len(found[1])]) == found


def test_whether_a_mistake_is_refused_is_no_matter_of_what_refusals_invalidate() -> None:
    (result,) = checked(OBLIGING, "v1.invalidation.errors")
    assert (result.verdict, result.cause) == (
        Verdict.NOT_SEEN,
        "the server has sent no RDMA_ERROR for a header that does not decode",
    )


def test_a_connection_that_has_ended_between_checks_is_replaced() -> None:
    """As servers end connections that are idle."""
    ended: list[int] = []
    begun: list[int] = []

    def answer(frame: Frame, received: int) -> bytes | None:
        if frame.xid < OTHERS:
            return null_reply(frame.xid)
        begun.append(frame.xid)
        if not ended and begun.count(frame.xid) == 1 and received == 4:
            ended.append(frame.xid)
            return None
        return null_reply(frame.xid)

    results = checked(FakeServer(answer), "v1.null", "v1.type.error-chunk")
    assert ended
    assert [result.others_ended for result in results] == [False, False]


def test_another_connection_makes_calls_while_a_check_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_BUSY_S", 0.0)
    calls: list[int] = []
    enough = asyncio.Event()

    def answer(frame: Frame, _received: int) -> bytes:
        if frame.segment[0] & 0x80:
            return b""  # the reminder, an RDMA Write of no octets, after a stall of this machine
        calls.append(frame.xid)
        if len(calls) == 6:
            enough.set()
        return null_reply(frame.xid)

    async def long(*of: Any) -> Outcome:
        await enough.wait()
        return await run_conversation(*of)

    monkeypatch.setattr(runner, "run_conversation", long)
    (result,) = checked(FakeServer(answer), "v1.null")
    assert result.verdict is Verdict.CONFORMS
    assert min(calls[:6]) >= OTHERS
