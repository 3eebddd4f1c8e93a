"""Delegations recalled over the TCP connections of a whole server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import rpcrdma
from conversation import Conversation
from rpcrdma.nfs.export.access_terms import ExportTerms
from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from support.nfs4_client import (
    GUARDED,
    READ,
    WRITE,
    Client,
    bind_conn_to_session,
    close,
    delegreturn,
    getfh,
    open_,
    putfh,
    putrootfh,
)
from support.nfs4_connection import TcpConnection

pytestmark = pytest.mark.thorough


def converse(conversation: Callable[[Callable[[], TcpConnection], Conversation], None]) -> None:
    """Runs a conversation, in a thread, with a server of one export in memory; closes its connections."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        tree = MemoryTree(loop.time, export=ExportTerms(name="/"))
        exports: Any = PseudoRoot(tree, 5)
        server = Conversation(files=exports)
        server.service._recalls = None  # the real ones
        opened: list[TcpConnection] = []
        async with rpcrdma.serve([server.service], ["tcp://127.0.0.1:0"]) as served:
            port = int(served.listening[0].rpartition(":")[2])

            def dial() -> TcpConnection:
                opened.append(TcpConnection(port))
                return opened[-1]

            try:
                await asyncio.to_thread(conversation, dial, server)
            finally:
                for each in opened:
                    each.cut()

    asyncio.run(main())


def test_a_delegation_is_recalled_over_the_connection_of_its_session() -> None:
    def conversation(dial: Callable[[], TcpConnection], _server: Conversation) -> None:
        first = dial()
        client, other = Client(first).start(), Client(dial(), b"other").start()
        made = client.run(putrootfh(), open_(b"o", WRITE, name="new", create=GUARDED), getfh())
        handle = made.value(10)
        assert client.run(putfh(handle), close(made.value(18)["stateid"])).status == "OK"
        for expected in (1, 2):
            delegation = client.run(putfh(handle), open_(b"r", READ)).value(18)["delegation"]
            assert other.run(putfh(handle), open_(b"w", WRITE)).status == "DELAY"
            program, uid, stateid, recalled = first.answer_recall()
            assert (program, uid, stateid, recalled) == (0x40000000, 0, delegation.octets, handle)
            assert client.run(putfh(handle), delegreturn(delegation)).status == "OK"
            written = other.run(putfh(handle), open_(b"w", WRITE))
            assert other.run(putfh(handle), close(written.value(18)["stateid"])).status == "OK", expected
            _server.now_s += 20.0

    converse(conversation)


def test_a_recall_goes_over_the_connection_that_the_client_binds_next() -> None:
    def conversation(dial: Callable[[], TcpConnection], server: Conversation) -> None:
        first = dial()
        client, other = Client(first).start(), Client(dial(), b"other").start()
        made = other.run(putrootfh(), open_(b"o", WRITE, name="new", create=GUARDED), getfh())
        handle = made.value(10)
        other.run(putfh(handle), close(made.value(18)["stateid"]))
        delegation = client.run(putfh(handle), open_(b"r", READ)).value(18)["delegation"]
        first.cut()
        second = dial()
        client.exchange = second
        while client.run().value(53)[-1] != 1:  # until the server has noticed
            pass
        assert other.run(putfh(handle), open_(b"w", WRITE)).status == "DELAY"
        assert client.compound(bind_conn_to_session(client.session, 3)).status == "OK"
        server.service.sweep()
        assert second.answer_recall()[2] == delegation.octets

    converse(conversation)
