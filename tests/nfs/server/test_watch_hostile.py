"""Clients that watch and break the protocol, and servers that report impossible events."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.errors import RemoteProtocolError
from rpcrdma.nfs import watch
from rpcrdma.nfs.client import Changes
from rpcrdma.nfs.server import change_journal, watch_service
from rpcrdma.nfs.watch import (
    CHANGES,
    SUBSCRIBE,
    UNSUBSCRIBE,
    WATCH_V1,
    WATCHER_V1_Service,
    watch_batch,
    watch_change,
    watch_kind,
    watch_status,
    watch_subscribe_args,
)
from rpcrdma.rpc.service import CallContext, Service
from support.cases import each_case
from support.watch_rig import Replica, Scripted, hostile, serving, status, subscription, take, until, words

# Reverse calls of each version have tests of their own.
pytestmark = [pytest.mark.thorough, pytest.mark.versions("2")]
over_both = pytest.mark.providers("iwarp")


@over_both
async def test_who_never_acknowledges_costs_a_bounded_number_of_calls(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        change_journal.ChangeJournal.__init__, "__kwdefaults__", {"entries_max": 50, "octets_max": 9999}
    )

    calls: list[float] = []
    running: list[int] = [0]
    never = asyncio.Event()
    async with (
        serving(tmp_path, scheme, reply_s=0.1) as rig,
        hostile(rig, lambda _: never.wait()) as (connection, client),
        rig.watching() as changes,
    ):
        assert await status(connection, subscription(rig)) == "WATCH_OK"
        held = rig.watch._subscriptions[(1).to_bytes(16, "big")]
        real = type(held.client).call

        async def call(caller: Any, procedure: Any, args: watch_batch, *, timeout_s: float) -> Any:
            if caller is not held.client:
                return await real(caller, procedure, args, timeout_s=timeout_s)
            calls.append(timeout_s)
            running.append(running[-1] + 1)
            try:
                return await real(caller, procedure, args, timeout_s=timeout_s)
            finally:
                running.append(running[-1] - 1)

        monkeypatch.setattr(type(held.client), "call", call)
        for number in range(200):
            (rig.top / str(number)).touch()
            if number % 50 == 25:
                # Each in a time of its own, so that changes come before and during the calls.
                before = len(calls)
                await until(lambda: len(calls) > before)  # noqa: B023 - it is awaited here
        # The other subscriber gets everything meanwhile.
        replica = Replica(rig.top)
        replica.paths = set()
        following = asyncio.ensure_future(replica.follow(changes))
        await until(lambda: replica.paths == replica.real())
        # The same again whenever the time for an answer has passed, one call at a time; over RDMA only as there
        # are credits.
        assert set(calls) == {0.1}
        assert max(running) == 1
        assert 1 <= len(client.batches) <= len(calls)
        assert {batch.first for batch in client.batches} <= {1, *range(40, 202)}
        assert len(held._journal) <= 50
        following.cancel()


@over_both
@each_case("answer", [lambda batch: batch.first + 1000, lambda batch: batch.first - 2, lambda _: 1 // 0])
async def test_an_answer_that_cannot_be_ends_that_subscription_alone(
    tmp_path: Path, scheme: str, answer: Callable[[watch_batch], int]
) -> None:
    async with serving(tmp_path, scheme) as rig, rig.watching() as changes:
        async with hostile(rig, answer) as (connection, client):
            assert await status(connection, subscription(rig, acknowledged=5)) == "WATCH_OK"
            (rig.top / "a").touch()
            await until(lambda: rig.watch.subscriptions == 1)
            assert len(client.batches) == 1
            await connection.call(watch.NULL, None)
        assert words(await take(changes, 1)) == ["created a"]


@over_both
async def test_a_client_that_offers_nothing_is_told_nothing(tmp_path: Path, scheme: str) -> None:
    options = ConnectOptions(services=[Service.__new__(type("Other", (WATCHER_V1_Service,), {}))], reconnect=False)
    async with serving(tmp_path, scheme) as rig, connect(rig.url, WATCH_V1, options=options) as connection:
        assert await status(connection, subscription(rig)) == "WATCH_OK"
        (rig.top / "a").touch()
        await until(lambda: rig.watch.subscriptions == 0)


async def test_places_are_dealt_out_by_client_and_by_connection_and_those_away_give_way(tmp_path: Path) -> None:
    async with serving(tmp_path, "tcp") as rig, AsyncExitStack() as stack:
        numbers = itertools.count(1)

        async def take(caller: Connection) -> int:
            """As many places as the connection gets."""
            for count in itertools.count():  # noqa: B007 - it is the result
                told = await status(caller, subscription(rig, next(numbers)))
                if told != "WATCH_OK":
                    break
            assert told == "WATCHERR_NOSPC"
            return count

        async def places() -> int:
            """The answers to 17 connections of one address."""
            return sum([await take((await gone.enter_async_context(hostile(rig, lambda _: 0)))[0]) for _ in range(17)])

        async with AsyncExitStack() as gone:
            taken = await places()
            # A ninth of 256, and the first one of each connection.
            assert 28 <= taken <= 28 + 17
            assert rig.watch.subscriptions == taken
            late, _ = await gone.enter_async_context(hostile(rig, lambda _: 0))
            assert await status(late, subscription(rig, 1000)) == "WATCH_OK"
            assert await status(late, subscription(rig, 1001)) == "WATCHERR_NOSPC"
            # An address of its own.
            await rig.server.listen("tcp://[::1]:0")
            options = ConnectOptions(services=[Scripted(lambda _: 0)], reconnect=False)
            other = await stack.enter_async_context(connect(rig.server.listening[-1], WATCH_V1, options=options))
            assert await take(other) == 16
        subscriptions = rig.watch._subscriptions.values()
        await until(lambda: sum(each.client is None for each in subscriptions) == taken + 1)
        # They wait for their clients until another client wants their places: here another of their address does.
        again, _ = await stack.enter_async_context(hostile(rig, lambda _: 0))
        assert await take(again) == 16
        assert rig.watch.subscriptions <= taken + 1 + 16 + 1
        await again.call(UNSUBSCRIBE, (5).to_bytes(16, "big"))


async def test_when_all_places_are_taken_who_is_away_longest_gives_way_to_another_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_service, "NFS_WATCH_SUBSCRIPTIONS_MAX", 2)
    async with serving(tmp_path, "tcp") as rig:
        async with hostile(rig, lambda _: 0) as (gone, _), hostile(rig, lambda _: 0) as (second, _):
            assert await status(gone, subscription(rig, 1)) == "WATCH_OK"
            rig.watch._subscriptions[(1).to_bytes(16, "big")].address = "192.0.2.1"
            assert await status(second, subscription(rig, 2)) == "WATCH_OK"
            rig.watch._subscriptions[(2).to_bytes(16, "big")].address = "192.0.2.2"
            async with hostile(rig, lambda _: 0) as (third, _):
                assert await status(third, subscription(rig, 3)) == "WATCHERR_NOSPC"
        subscriptions = rig.watch._subscriptions.values()
        await until(lambda: all(each.client is None for each in subscriptions))
        away = [each.identifier[-1] for each in subscriptions]
        async with hostile(rig, lambda _: 0) as (third, _):
            assert await status(third, subscription(rig, 3)) == "WATCH_OK"
            assert {each.identifier[-1] for each in subscriptions} == {away[1], 3}


async def test_nobody_goes_on_with_the_subscription_of_another(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, "tcp") as rig,
        hostile(rig, lambda batch: batch.first) as (owner, client),
        hostile(rig, lambda batch: batch.first, uid=8) as (thief, stolen),
    ):
        assert await status(owner, subscription(rig)) == "WATCH_OK"
        assert await status(thief, subscription(rig, resume=True)) == "WATCHERR_PERM"
        assert await status(owner, subscription(rig, recursive=True)) == "WATCHERR_PERM"
        await thief.call(UNSUBSCRIBE, (1).to_bytes(16, "big"))
        assert await status(owner, subscription(rig, 2, acknowledged=1 << 63)) == "WATCHERR_INVAL"
        (rig.top / "a").touch()
        await until(lambda: bool(client.batches))
        assert stolen.batches == []


@each_case("number", [17, 0])
async def test_numbers_that_were_never_told_lead_to_a_rescan(tmp_path: Path, number: int) -> None:
    async with (
        serving(tmp_path, "tcp") as rig,
        hostile(rig, lambda batch: batch.first + len(batch.changes) - 1) as (connection, client),
    ):
        await connection.call(SUBSCRIBE, subscription(rig))
        (rig.top / "a").touch()
        await until(lambda: bool(client.batches))
        await until(lambda: rig.watch._subscriptions[(1).to_bytes(16, "big")]._journal.acknowledged == 1)
        result = await connection.call(SUBSCRIBE, subscription(rig, resume=True, acknowledged=number))
        assert result.value == watch.watch_subscribed(max(number, 1) + 1, True)
        await until(lambda: len(client.batches) == 2)
        assert client.batches[1].changes[0].kind is watch_kind.WATCH_RESCAN


def told(kind: watch_kind, path: str, target: str = "") -> watch_change:
    return watch_change(kind, False, path, target, watch_status.WATCH_OK)


class Liar(watch.WATCH_V1_Service):
    """A server that says that it watches, and makes its own changes."""

    IDEMPOTENT = frozenset({1, 2})

    def __init__(self, batches: list[tuple[int, list[watch_change]]]) -> None:
        self._batches = batches
        self.answers: list[int] = []

    async def subscribe(self, args: watch_subscribe_args, context: CallContext) -> watch.watch_subscribe_result:
        context.client.ready()
        for first, changes in self._batches:
            answer = await context.client.call(CHANGES, watch_batch(bytes(args.id), first, changes), timeout_s=60)
            self.answers.append(answer)
        return watch.watch_subscribe_result(watch_status.WATCH_OK, watch.watch_subscribed(1, False))

    def unsubscribe(self, args: bytes, context: CallContext) -> None:
        pass


async def listen(liar: Liar) -> tuple[list[str], str]:
    """The messages that a client receives, and its end."""

    async def locate() -> tuple[bytes, str]:
        return b"handle", "/"

    heard: list[str] = []
    async with serve([liar], ["tcp://127.0.0.1:0"]) as server:
        changes = Changes(server.listening[0], locate, recursive=False, options=ConnectOptions())
        async with changes:
            try:
                while changes._unread or changes._failure:
                    heard += words([await anext(changes)])
            except (RemoteProtocolError, OSError) as error:
                return heard, type(error).__name__
    return heard, ""


async def test_a_client_knows_by_the_numbers_what_it_has_missed() -> None:
    a, b = told(watch_kind.WATCH_CREATED, "a"), told(watch_kind.WATCH_CREATED, "b")
    liar = Liar([(1, [a]), (1, [a, b]), (5, [a]), (9, [told(watch_kind.WATCH_RESCAN, ""), b])])
    assert await listen(liar) == (["created a", "created b", "rescan", "created a", "rescan", "created b"], "")
    assert liar.answers == [1, 2, 5, 10]


async def test_a_server_that_tells_of_what_cannot_be_is_heard_no_more() -> None:
    good, bad = told(watch_kind.WATCH_CREATED, "a"), told(watch_kind.WATCH_CREATED, "../../etc")
    assert await listen(Liar([(1, [good, bad]), (3, [good])])) == (["created a"], "RemoteProtocolError")
