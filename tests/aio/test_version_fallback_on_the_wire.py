"""The version that a client finds by the answers of servers made of octets, on sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from client_calls import null_over, version_of
from clock_ahead import set_clock_ahead
from rpcrdma.errors import ConnectFailed
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.rpc.auth import AuthNone
from support.cases import each_case
from support.raw_calls import BOTH_PRIVATE
from support.raw_replies import header, rpc_reply, send
from support.raw_socket import RawSocketPeer
from support.waiting import until

pytestmark = pytest.mark.thorough

OLD, NEW = "1", "2"


class Heard:
    """Connections to a scripted server: the version of the first message of each, and its octets."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.versions: list[int] = []
        self.messages: list[bytes] = []


Answer = Callable[[RawSocketPeer, int], Coroutine[Any, Any, None]]


async def answer_old_calls(peer: RawSocketPeer, xid: int, number: int = 1) -> None:
    """Answers the call `xid`, and later ones, in the older version."""
    while True:
        await peer.send_segments(send(header(xid) + rpc_reply(xid), number))
        number += 1
        (xid,) = struct.unpack_from(">I", (await peer.segment()).payload)


@asynccontextmanager
async def scripted(answer_new: Answer) -> AsyncIterator[Heard]:
    """A server that answers calls in the older version; `answer_new` follows a message in any other version."""
    tasks: list[asyncio.Task[None]] = []

    async def talk(peer: RawSocketPeer) -> None:
        try:
            await peer.accept(BOTH_PRIVATE)
            message = (await peer.segment()).payload
            xid, version = struct.unpack_from(">II", message)
            heard.versions.append(version)
            heard.messages.append(message)
            await (answer_old_calls(peer, xid) if version == 1 else answer_new(peer, xid))
        except EOFError:
            pass
        finally:
            peer.close()

    async def accept(listener: socket.socket) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            tasks.append(asyncio.create_task(talk(RawSocketPeer(sock))))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        heard = Heard(f"rdma://127.0.0.1:{listener.getsockname()[1]}")
        tasks.append(asyncio.create_task(accept(listener)))
        try:
            yield heard
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def hang_up(peer: RawSocketPeer, xid: int) -> None:
    peer.close()


async def reset(peer: RawSocketPeer, xid: int) -> None:
    peer.reset()


async def say_nothing(peer: RawSocketPeer, xid: int) -> None:
    await peer.ended()


def refuse(*words: int, low: int = 1, high: int = 1) -> Answer:
    """ERR_VERS with `words` before its code; then calls are answered."""

    async def answer(peer: RawSocketPeer, xid: int) -> None:
        refusal = struct.pack(f">{7 + len(words)}I", xid, 2, 32, 4, *words, 1, low, high)
        await peer.send_segments(send(refusal, 1))
        xid, version = struct.unpack_from(">II", (await peer.segment()).payload)
        assert version == 1
        await answer_old_calls(peer, xid, 2)

    return answer


QUIET = {"credential": AuthNone(), "iwarp": IwarpConfig(nudge_after_s=0)}


@pytest.mark.req("V2-11", "V2-12", "V2-82")
@each_case("words", [(), (1,)])
async def test_a_version_error_in_either_layout_changes_the_version_of_the_connection(words: tuple[int, ...]) -> None:
    async with scripted(refuse(*words)) as heard:
        connection = await null_over(heard.url, **QUIET)
        assert version_of(connection) == OLD
        assert heard.versions == [2], "the same connection"
        assert len(heard.messages[0]) <= 1024
        await null_over(heard.url, **QUIET)
        assert heard.versions == [2, 1]


async def refuse_and_hang_up(peer: RawSocketPeer, xid: int) -> None:
    await peer.send_segments(send(struct.pack(">7I", xid, 2, 32, 4, 1, 1, 1), 1))
    peer.close()


@pytest.mark.req("V2-83")
async def test_a_server_that_hangs_up_after_its_version_error_is_met_in_the_older_version() -> None:
    async with scripted(refuse_and_hang_up) as heard:
        connection = await null_over(heard.url, **QUIET)
        assert version_of(connection) == OLD
        assert heard.versions == [2, 1]


async def test_a_version_error_whose_range_holds_none_of_ours_ends_in_words() -> None:
    async with scripted(refuse(1, low=7, high=9)) as heard:
        with pytest.raises(ConnectFailed, match=r"the server speaks versions 7 to 9 .* told to speak 2 or 1"):
            await null_over(heard.url, **QUIET)
        assert heard.versions == [2], "it has answered: another connection would end the same way"


@pytest.mark.req("V2-83")
@each_case("answer", [hang_up, reset, say_nothing])
async def test_a_server_that_does_not_answer_is_asked_once_more_in_the_older_version(
    answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rpcrdma.client")
    async with scripted(answer) as heard:
        connecting = asyncio.ensure_future(null_over(heard.url, **QUIET, connect_timeout_s=600))
        await until(lambda: heard.versions)
        if answer is say_nothing:
            set_clock_ahead(60)
        assert version_of(await connecting) == OLD
        assert heard.versions == [2, 1]
        # Then it is known.
        await null_over(heard.url, **QUIET)
        assert heard.versions == [2, 1, 1]
        place = heard.url.removeprefix("rdma://")
        told = [record.getMessage() for record in caplog.records if "had no answer" in record.getMessage()]
        assert told == [f"{place}: version 2 of RPC-over-RDMA had no answer, trying version 1"]


async def test_what_was_tried_stands_in_the_error() -> None:
    listening = True

    async def leave(peer: RawSocketPeer, xid: int) -> None:
        nonlocal listening
        listening = False
        peer.close()

    async with scripted(leave) as heard:
        connecting = asyncio.ensure_future(null_over(heard.url, **QUIET))
        with pytest.MonkeyPatch.context() as patch:
            accept = RawSocketPeer.accept

            async def accept_once(peer: RawSocketPeer, data: bytes) -> bytes:
                if not listening:
                    raise EOFError
                return await accept(peer, data)

            patch.setattr(RawSocketPeer, "accept", accept_once)
            with pytest.raises(ConnectFailed) as failed:
                await connecting
        assert "sets up no RDMA connection" in str(failed.value)
        cause, _, remedy = str(failed.value).partition("; ")
        assert cause.endswith(
            ", in version 1 of RPC-over-RDMA after version 2 had no answer (the peer closed the connection)"
        )
        assert remedy.endswith(f"if it is its TCP port, write {heard.url.replace('rdma', 'tcp')}")
