"""The version in which a client connects to a server that is slow, silent or busy, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rpcrdma.aio.client.first_to_connect import first_connection
from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.client.rdma_dialer import RdmaDialer
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed, TransportClosed
from rpcrdma.transport import TransportStatistics
from support.cases import each_case
from support.waiting import time_passes

OLD, NEW = "1", "2"
PLACE = ("simulated", "server", 20049)


class Connected:
    """A connection that its server answers, or ends, after `answer_s`; never if that is None."""

    version_refused = False
    end_reason = None

    def __init__(self, version: str, answer_s: float | None, error: Exception | None) -> None:
        self.negotiated = SimpleNamespace(version=int(version))
        self.statistics = TransportStatistics(calls=1)
        self.unanswered = version == NEW
        self.aborted = ""
        self._answer_s = answer_s
        self._error = error

    async def wait_established(self) -> None:
        await time_passes(10_000.0 if self._answer_s is None else self._answer_s)
        self.unanswered &= isinstance(self._error, TransportClosed)
        if self._error is not None:
            raise self._error

    def abort(self, reason: str) -> None:
        self.aborted = reason


class Server:
    """A server by the outcomes of its connections: for each version seconds or None, and an error or None.

    `link_s` is the time until a link to it stands.
    """

    name = "simulated"

    def __init__(self, **outcomes: Any) -> None:
        self.outcomes = {NEW: outcomes.get("new"), OLD: outcomes.get("old", 0.0)}
        self.errors = {NEW: outcomes.get("new_error"), OLD: outcomes.get("old_error")}
        self.known = KnownServers()
        self.made: list[Connected] = []

    async def connect(self, host: str, port: int, *, reserved_port: bool) -> None:
        """Links cost no time."""

    def explain_unmade(self, where: str, cause: str) -> str:
        return f"{where}: {cause}"

    def make(self, link: None, *, version: str, on_version_refused: object) -> Connected:
        name = NEW if version == "auto" else version
        self.made.append(Connected(name, self.outcomes[name], self.errors[name]))
        return self.made[-1]

    async def dial(self, version: str = "auto", timeout_s: float = 10.0) -> tuple[str, float]:
        """The version of the connection, and the seconds until it was there."""
        now_s = asyncio.get_running_loop().time
        before_s = now_s()
        made = await self.dialer(version, timeout_s).dial()
        duration_s = now_s() - before_s
        assert made is not None
        assert await self.left() == [made], "no other connection is left"
        self.made.clear()
        return str(made.negotiated.version), round(duration_s, 3)

    def dialer(self, version: str = "auto", timeout_s: float = 10.0) -> RdmaDialer:
        return RdmaDialer(
            cast("Any", self),
            parse_url("rdma://server"),
            cast("Any", self.make),
            version=version,
            known=self.known,
            timeout_s=timeout_s,
            reserved_port=False,
        )

    async def left(self) -> list[Connected]:
        """The connections that nothing has ended, when all has been done that was due."""
        await time_passes(0.001)
        return [each for each in self.made if not each.aborted]

    async def fails(self, version: str = "auto") -> str:
        with pytest.raises(ConnectFailed) as failed:
            await self.dial(version)
        assert not await self.left()
        self.made.clear()
        return str(failed.value)


pytestmark = pytest.mark.usefixtures("virtual_time")


async def test_a_silent_server_is_met_in_the_older_version_after_some_time_and_then_at_once() -> None:
    server = Server()
    assert await server.dial() == (OLD, 5.5)
    assert await server.dial() == (OLD, 0.0)


@each_case(("answer_s", "second_s"), [(0.1, 0.0), (4.9, 0.0), (5.4, 0.0), (5.9, 0.5), (9.0, 4.0), (9.0, 5.0)])
async def test_a_busy_server_is_met_in_the_newer_version_which_it_answers_first(
    answer_s: float, second_s: float
) -> None:
    server = Server(new=answer_s, old=second_s)
    assert await server.dial() == (NEW, answer_s)
    assert server.known.speaks(PLACE, NEW)


async def test_a_busy_server_that_refuses_the_second_connection_is_waited_for_on_the_first_one() -> None:
    server = Server(new=9.0, old_error=TransportClosed("too many"))
    assert await server.dial() == (NEW, 9.0)
    server = Server(old_error=TransportClosed("too many"))
    assert await server.fails() == "server:20049: no answer in version 2 of RPC-over-RDMA within 10 s"


async def test_a_server_that_is_known_to_speak_the_newer_version_is_not_asked_in_another_while_it_is_busy() -> None:
    server = Server(new=0.0)
    await server.dial()
    await time_passes(100_000)
    server.outcomes[NEW] = 9.0
    assert await server.dial() == (NEW, 9.0)
    server.outcomes[NEW] = None
    assert "no answer in version 2 of RPC-over-RDMA within 10 s" in await server.fails()
    # It may have been replaced by an older one.
    assert await server.dial() == (OLD, 5.5)


async def test_a_lost_first_message_leads_to_the_older_version_at_once() -> None:
    server = Server(new=1.0, new_error=TransportClosed("reset"))
    assert await server.dial() == (OLD, 1.0)
    server.outcomes[NEW], server.errors[NEW] = 5.2, TransportClosed("reset")
    server.outcomes[OLD] = 2.0
    server.known.clear()
    assert await server.dial() == (OLD, 7.0), "also while the second connection is being made"


async def test_a_server_that_is_known_to_speak_the_newer_version_is_asked_in_it_once_more_after_a_lost_connection() -> (
    None
):
    server = Server(new=0.0)
    await server.dial()
    server.outcomes[NEW], server.errors[NEW] = 1.0, TransportClosed("reset")
    dialing = asyncio.ensure_future(server.dial())
    await time_passes(1.5)
    server.made[-1]._error = None
    assert await dialing == (NEW, 2.0)
    assert server.known.speaks(PLACE, NEW)
    # It may have been replaced by an older one.
    assert await server.dial() == (OLD, 2.0)


async def test_a_server_that_names_no_version_in_time_is_no_reason_to_leave_the_only_version() -> None:
    server = Server(new=8.0)
    assert await server.dial(NEW) == (NEW, 8.0)
    server.outcomes[NEW] = None
    assert await server.fails(NEW) == "server:20049: no answer in version 2 of RPC-over-RDMA within 10 s"


@each_case("version", ["auto", NEW])
async def test_hosts_that_are_not_content_with_each_other_end_the_attempt(version: str) -> None:
    server = Server(new=1.0, new_error=HostAuthenticationFailed("no", cause="absent"))
    with pytest.raises(HostAuthenticationFailed):
        await server.dial(version)
    assert [bool(each.aborted) for each in server.made] == [True]
    with pytest.raises(HostAuthenticationFailed):
        await Server(new=0.0, new_error=TransportClosed("reset"), old_error=HostAuthenticationFailed("no")).dial()


@each_case("providers", [1, 2])
@each_case("new_error", [None, TransportClosed("reset")])
@each_case("again_after", [None, 1, 2, 3])
async def test_an_attempt_that_is_cancelled_in_any_turn_of_the_loop_leaves_no_connection(
    providers: int, new_error: Exception | None, again_after: int | None
) -> None:
    turns, cancelled = 0, True
    while cancelled:
        server = Server(new=0.0, new_error=new_error)
        dialers = [server.dialer() for _ in range(providers)]
        dialing = asyncio.ensure_future(
            dialers[0].dial() if providers == 1 else first_connection(dialers, server.known)
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled = dialing.cancel()
        if again_after is not None:
            for _ in range(again_after):
                await asyncio.sleep(0)
            dialing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await dialing
        assert len(await server.left()) == (not cancelled), f"cancelled after {turns} turns"
        turns += 1
    assert turns > 3
