"""The memory of calls whose connection was lost."""

from __future__ import annotations

import pytest

from client_calls import CONTENT, WRITE, Scenes, read_into
from support.cases import each_case
from support.raw_calls import BOTH_PRIVATE
from support.raw_iwarp import fpdu, tagged
from support.raw_replies import HeardCall, chunk, header, read_result, rpc_reply, send
from support.raw_socket import RawSocketPeer

pytestmark = pytest.mark.thorough


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
