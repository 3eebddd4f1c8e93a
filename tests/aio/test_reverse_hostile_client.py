"""A server that calls its clients back over RDMA, against a client that answers as it pleases."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from client_calls import Scenes
from clock_ahead import set_clock_ahead
from rpcrdma.errors import CallTimeout, RpcRdmaError, TransportClosed
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from support.raw_calls import SEND, chunk, file_handle, header, rpc, segment, send
from support.raw_socket import RawSocketPeer
from support.waiting import until

pytestmark = pytest.mark.thorough

ASK = 0xA5C


class CallsBack(v3.NFS_V3_Service):
    """GETATTR calls the client back, with NULL, and returns the outcome of that."""

    IDEMPOTENT = frozenset((v3.GETATTR.number,))

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self.asked = 0
        self.ends: list[type[RpcRdmaError] | None] = []

    async def getattr(self, args: v3.GETATTR3args, context: CallContext) -> v3.GETATTR3res:
        context.client.ready()
        self.asked += 1
        try:
            await context.client.call(v3.NULL, None, timeout_s=self.timeout_s)
            self.ends.append(None)
        except RpcRdmaError as error:
            self.ends.append(type(error))
        return v3.GETATTR3res(v3.nfsstat3.NFS3ERR_IO, None)


def ask(number: int, xid: int = ASK) -> bytes:
    """The call that makes the server call back."""
    return send(header(xid=xid) + rpc(1, file_handle(), xid), number)


async def called_back(peer: RawSocketPeer) -> int:
    """Takes a reverse call and answers its XID."""
    heard = await peer.segment()
    xid, version, credits_, kind, *lists = struct.unpack_from(">IIIIIII", heard.payload)
    assert (heard.opcode, version, kind, lists) == (SEND, 1, 0, [0, 0, 0])
    assert credits_ > 0
    assert heard.payload[28:36] == struct.pack(">II", xid, 0)
    return xid


def reply(xid: int, *, inner: int | None = None, credits_: int = 8, **options: Any) -> bytes:
    octets = header(xid=xid, **options) + struct.pack(">III", xid if inner is None else inner, 1, 0) + bytes(12)
    return octets[:8] + struct.pack(">I", credits_) + octets[12:]


LIES: dict[str, Callable[[int], bytes]] = {
    "another XID": lambda xid: reply(xid ^ 1),
    "another XID within": lambda xid: reply(xid, inner=xid ^ 1),
    "RDMA_DONE": lambda xid: struct.pack(">IIII", xid, 1, 8, 3),
    "cut short": lambda xid: reply(xid)[:27],
    "an error that there is not": lambda xid: struct.pack(">IIIII", xid, 1, 8, 4, 3),
    "an error for another XID": lambda xid: struct.pack(">IIIII", xid ^ 1, 1, 8, 4, 2),
    "nothing": lambda xid: b"",
}


async def taken(peer: RawSocketPeer, xid: int = ASK) -> None:
    """The reply to the peer's own call."""
    assert (await peer.segment()).payload[:4] == struct.pack(">I", xid)


@pytest.mark.req("BD-3", "BD-14", "BD-12", "V1-56")
async def test_what_answers_no_reverse_call_is_dropped_and_the_answer_after_it_counts(scene: Scenes) -> None:
    """Without credits in it, it leaves one."""
    service = CallsBack(None)
    async with scene(service) as it:
        peer = await it.connected()
        for number, (what, lie) in enumerate(LIES.items()):
            await peer.send_segments(ask(3 * number + 1))
            xid = await called_back(peer)
            await peer.send_segments(send(lie(xid), 3 * number + 2), send(reply(xid, credits_=0), 3 * number + 3))
            await taken(peer)
            assert service.ends.pop() is None, what


async def test_a_reverse_reply_twice_is_taken_once(scene: Scenes) -> None:
    service = CallsBack(None)
    async with scene(service) as it:
        peer = await it.connected()
        await peer.send_segments(ask(1))
        xid = await called_back(peer)
        await peer.send_segments(send(reply(xid), 2), send(reply(xid), 3), ask(4, ASK + 1))
        await taken(peer)
        again = await called_back(peer)
        await peer.send_segments(send(reply(xid), 5), send(reply(again), 6))
        await taken(peer, ASK + 1)
        assert service.ends == [None, None]


async def test_reverse_calls_that_are_never_answered_time_out_and_hold_up_no_forward_call(scene: Scenes) -> None:
    service = CallsBack(60)
    async with scene(service) as it:
        peer = await it.connected()
        await peer.send_segments(*(ask(number, ASK + number) for number in range(1, 8)))
        # One is sent, the credit for the others never comes: all end at their deadline.
        await called_back(peer)
        await until(lambda: service.asked == 7)
        await it.good.call(v3.NULL, None)
        set_clock_ahead(60)
        answered = {int.from_bytes((await peer.segment()).payload[:4]) for _ in range(1, 8)}
        assert answered == {ASK + number for number in range(1, 8)}
        assert service.ends == [CallTimeout] * 7


async def test_a_client_that_leaves_ends_its_reverse_calls(scene: Scenes) -> None:
    service = CallsBack(None)
    async with scene(service) as it:
        peer = await it.connected()
        await peer.send_segments(ask(1), ask(2, ASK + 1))
        await called_back(peer)
        peer.close()
        await until(lambda: len(service.ends) == 2)
        assert service.ends == [TransportClosed] * 2


async def test_chunks_in_a_reverse_reply_that_offered_none_fail_the_call_alone(scene: Scenes) -> None:
    service = CallsBack(None)
    async with scene(service) as it:
        peer = await it.connected()
        await peer.send_segments(ask(1))
        xid = await called_back(peer)
        await peer.send_segments(send(reply(xid, writes=chunk(segment(7, 100))), 2))
        await taken(peer)
        assert len(service.ends) == 1
        assert service.ends[0] is not None
        await it.good.call(v3.NULL, None)
