"""Checks by way of recalled delegations, before a server of NFSv4.1 made of octets."""

from __future__ import annotations

from collections.abc import Iterable

import local_streams
import pytest
from fake_servers import OBLIGING, FakeServer, Frame, null_reply, serving
from recalling_server import Recalling, closed

from rpcrdma_lab.check import CATALOGUE, FRESH_FILES, Check, Result, Verdict, recalled_delegations, run_checks
from support.cases import each_case

pytestmark = pytest.mark.thorough

CHECKS = [check for check in CATALOGUE if "recall" in check.needs and check.id.startswith("v1.")]
GIVEN: dict[str, int | bytes] = {"credential": bytes(8), "owner": b"check", "program": 100003, "program_version": 3}
MET = {"1", "write", "recall"}


def judged(server: FakeServer, checks: Iterable[Check] = CHECKS, files: Iterable[bytes] = ()) -> list[Result]:
    async def main() -> list[Result]:
        async with serving(server) as target:
            fresh_files = files or [b"fresh"] * FRESH_FILES * len(CHECKS)
            return await run_checks(checks, target, GIVEN, MET, fresh_files=fresh_files)

    return local_streams.run(main())


def one(name: str) -> list[Check]:
    return [check for check in CHECKS if check.id == f"v1.back-channel.{name}"]


def trial(server: FakeServer) -> set[str]:
    async def main() -> set[str]:
        async with serving(server) as target:
            return await recalled_delegations(target, GIVEN, b"fresh", "1")

    return local_streams.run(main())


def test_a_server_that_recalls_one_delegation_after_the_other_conforms() -> None:
    results = judged(FakeServer(Recalling(), any_start=True))
    assert [(result.check.id, result.cause) for result in results if result.verdict is not Verdict.CONFORMS] == []
    assert len(results) == 10


def test_the_trial_finds_servers_that_recall_in_a_right_or_a_wrong_form() -> None:
    assert trial(FakeServer(Recalling())) == {"recall"}
    assert trial(FakeServer(Recalling(within=7))) == {"recall"}


def test_the_trial_finds_no_recall_where_none_is_made() -> None:
    assert trial(OBLIGING) == set()
    assert trial(FakeServer(Recalling(delegates=False))) == set()
    # Its results are too short for a client's id.
    assert trial(FakeServer(lambda frame, _: null_reply(frame.xid) + bytes(4))) == set()


def test_the_state_of_a_trial_that_has_left_its_course_is_dropped() -> None:
    server = Recalling(recalls=False)
    assert trial(FakeServer(server)) == set()
    assert server.holders == []


def test_without_a_delegation_a_check_is_not_seen() -> None:
    (result,) = judged(FakeServer(Recalling(delegates=False)), one("same-xid"))
    assert (result.verdict, result.cause) == (Verdict.NOT_SEEN, "the server gave no delegation of the file this time")


def test_a_second_try_after_silence_takes_another_file() -> None:
    server, opened = Recalling(), []

    def overlooking(frame: Frame, received: int) -> object:
        handles = [handle for handle in (b"first---", b"second--") if handle in frame.payload]
        if not frame.segment[0] & 0x80 and handles and handles[0] not in opened:
            opened.append(handles[0])
            return [] if handles == [b"first---"] else server(frame, received)
        return server(frame, received)

    (result,) = judged(FakeServer(overlooking), one("same-xid"), [b"first---", b"second--"])  # type: ignore[arg-type]
    assert (result.verdict, opened) == (Verdict.CONFORMS, [b"first---", b"second--"])


@each_case("name", ["error", "reply.cut", "reply.other-xid-within"])
def test_a_recall_that_had_a_wrong_reply_may_be_repeated(name: str) -> None:
    server: Recalling = Recalling(lambda frame: server.recall(frame.xid))
    (result,) = judged(FakeServer(server), one(name))
    assert (result.verdict, server.holders) == (Verdict.CONFORMS, [])


def test_the_state_of_a_check_that_has_left_its_course_is_dropped_at_the_end() -> None:
    server = Recalling(closed)
    (result,) = judged(FakeServer(server), one("reply.other-xid"))
    assert (result.verdict, server.holders) == (Verdict.VIOLATES, [])
