"""Servers that conform although they answer otherwise than ours, where the specification leaves the answer open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from fake_servers import FakeServer, Frame, Version2, as_properties_or_reply, null_reply
from test_broken_servers import before, chosen, without_continuation

from rpcrdma.check import Result, Verdict
from rpcrdma.check.catalogue.version_2 import DRAFTS
from rpcrdma.transport import responder

if TYPE_CHECKING:
    from conftest import Judge


def found(results: list[Result]) -> set[tuple[str, Verdict, str]]:
    return {(result.check.id, result.verdict, result.cause) for result in results}


@pytest.mark.parametrize(("granted", "sent"), [(4, 4), (1000, 64)])
def test_as_many_calls_are_sent_as_this_connection_was_granted(granted: int, sent: int) -> None:
    def answer(frame: Frame, received: int) -> bytes | None:
        return null_reply(frame.xid, grant=granted) if received <= 1 + sent else None

    results = asyncio.run(before(FakeServer(answer), "1", "v1.credits.all-granted"))
    assert found(results) == {("v1.credits.all-granted", Verdict.CONFORMS, "")}


@pytest.mark.parametrize("needed", [64, 0])
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


@pytest.mark.parametrize("draft", DRAFTS, ids=lambda draft: draft.version)
@pytest.mark.parametrize(("other", "names"), [(Version2.refusal, REFUSED), (as_properties_or_reply, TAKEN)])
def test_where_a_draft_names_no_reaction_a_server_may_refuse_or_go_on(
    draft: Any, other: Callable[[Version2, Frame], bytes], names: str
) -> None:
    patterns = [f"{draft.family}.{name}" for name in names.split()]
    results = asyncio.run(before(FakeServer(Version2(draft, other)), draft.version, *patterns))
    assert found(results) == {(check.id, Verdict.CONFORMS, "") for check in chosen(*patterns)}
