"""The memory of calls whose connection was lost."""

from __future__ import annotations

import pytest

from client_calls import CONTENT, WRITE, Scenes, read_into
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from support import raw_calls
from support.cases import each_case
from support.raw_calls import BOTH_PRIVATE, READ_ARGS, is_null_reply, is_refusal, rpc, segment
from support.raw_iwarp import fpdu, tagged
from support.raw_replies import HeardCall, chunk, header, read_result, rpc_reply, send
from support.raw_socket import RawSocketPeer
from support.waiting import until

pytestmark = pytest.mark.thorough

NONE = v3.post_op_attr(False, None)


@pytest.mark.req("V1-78")
@each_case("how", ["held up", "on the next connection"])
async def test_late_writes_for_a_call_that_was_sent_again_do_not_land(client_scene: Scenes, how: str) -> None:
    """The call goes out again with its XID and fresh registrations: the memory of its old handles is out of reach."""
    async with client_scene() as it:
        client, old = await it.pair(reconnect=True)
        buffer = bytearray(b"\xee" * 5000)
        calling = read_into(client, buffer)
        first = HeardCall(await old.segment())
        ((handle, _, offset),) = first.writes[0]
        late = fpdu(tagged(WRITE, handle, offset, b"late" * 1250))
        # It has come so far as the kernel when the client gives the connection up.
        assert old.offer(late) == len(late)
        client._present.abort("it has not answered for so long")

        async def called_again() -> tuple[RawSocketPeer, HeardCall]:
            peer = await it.accepted()
            await peer.accept(BOTH_PRIVATE)
            # A NULL call looks first whether there is a server.
            asked = HeardCall(await peer.segment())
            assert not asked.writes
            await peer.send_segments(send(header(asked.xid) + rpc_reply(asked.xid)))
            again = HeardCall(await peer.segment())
            assert again.xid == first.xid
            assert again.writes[0][0][0] != handle
            assert buffer == b"\xee" * 5000
            return peer, again

        peer, call = await called_again()
        if how == "held up":
            old.offer(late)
            await old.ended()
        else:
            await peer.send(late)
            (told,) = await peer.segments_to_end()
            assert told.terminate_code == 0x1100
            peer, call = await called_again()
        ((handle, _, offset),) = call.writes[0]
        await peer.send_segments(tagged(WRITE, handle, offset, CONTENT[:5000]))
        reply = header(call.xid, writes=chunk((handle, 5000, offset))) + rpc_reply(call.xid, read_result(5000))
        await peer.send_segments(send(reply, 2))
        await calling
        assert buffer == CONTENT[:5000]


class OnceFiles(v3.NFS_V3_Service):
    """READ must not be run twice here."""

    IDEMPOTENT = frozenset[int]()

    def __init__(self) -> None:
        self.ran = 0

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        self.ran += 1
        data = context.buffer(args.count)
        data[:] = CONTENT[: args.count]
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NONE, args.count, False, data))


@pytest.mark.req("V1-65")
@each_case("lost", [False, True])
async def test_a_repeat_is_answered_in_its_own_chunks_or_refused_if_they_cannot_hold_the_reply(
    scene: Scenes, lost: bool
) -> None:
    service = OnceFiles()

    def call(*writes: bytes, reply: bytes = b"") -> bytes:
        return raw_calls.header(writes=b"".join(writes), reply=reply) + rpc(6, READ_ARGS)

    async with scene(service) as it:
        peer = await it.connected()
        await peer.send_segments(raw_calls.send(call(raw_calls.chunk(segment(7, 5000)))))
        if lost:
            await until(lambda: service.ran)
            peer.reset()
        else:
            assert (await peer.segment()).handle == 7
        peer = await it.connected()
        # Fresh registrations: nothing is written to the memory that the first call named.
        await peer.send_segments(raw_calls.send(call(raw_calls.chunk(segment(8, 6000, 50))), 1))
        written = await peer.segment()
        assert (written.opcode, written.handle, written.offset) == (WRITE, 8, 50)
        data = written.payload
        while (heard := await peer.segment()).opcode == WRITE:
            data += heard.payload
        assert data == CONTENT[:5000]
        assert HeardCall(heard).writes == [[(8, 5000, 50)]]
        unfit = [
            call(raw_calls.chunk(segment(9, 4999))),
            call(raw_calls.chunk()),
            call(),
            call(reply=raw_calls.chunk(segment(9, 5000))),
        ]
        for number, repeat in enumerate(unfit):
            await peer.send_segments(raw_calls.send(repeat, 2 + 2 * number))
            assert is_refusal(await peer.segment())
            await peer.send_segments(raw_calls.send(raw_calls.NULL_CALL, 3 + 2 * number))
            assert is_null_reply(await peer.segment())
        assert service.ran == 1
