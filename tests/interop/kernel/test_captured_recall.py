"""A CB_RECALL that Linux made over RDMA: our client's endpoint reports it, and answers as it did then."""

from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path
from typing import Any

import nfs41
import pytest
from nfs41 import nfs41_cb_operation as cb_op
from nfs41 import nfs41_operation as op
from nfs41_callbacks import Callbacks, Recall

from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.errors import DecodeError
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.message import decode_call, decode_reply
from rpcrdma.testing.endpoint_pair import BarePeer
from rpcrdma.transport import CallArrived, Role
from rpcrdma.transport.chunks import NO_CHUNKS
from rpcrdma.transport.dialects.header_v1 import SHORT_HEADER_OCTETS, RdmaMsg, decode_header
from rpcrdma.xdr.codec import Decoder

FILE = Path(__file__).parents[2] / "vectors/transport/linux_reverse.toml"
MESSAGES = tomllib.loads(FILE.read_text())["message"]
GRANTED, RECALL, ANSWER = (bytes.fromhex(message["hex"]) for message in MESSAGES)
SESSION = bytes.fromhex("8f81016b838aeb09 01000000 00000000")
DELEGATION = nfs41.nfs41_stateid(1, bytes.fromhex("8f81016b838aeb09 02000000"))
HANDLE = bytes.fromhex("01000101 00000000 dfb3b7f6 02000000 00000000")
CALLER = AuthSys(stamp=0, machine="server", uid=4321, gid=1234)


def holder() -> Callbacks:
    callbacks = Callbacks()
    callbacks.start_session(SESSION)
    callbacks.held.add(DELEGATION.other)
    return callbacks


@pytest.mark.parametrize("vector", MESSAGES, ids=[message["name"] for message in MESSAGES])
def test_messages_of_a_session_are_short(vector: dict[str, Any]) -> None:
    header = decode_header(bytes.fromhex(vector["hex"]))
    assert isinstance(header, RdmaMsg)
    assert (header.xid, header.credits, header.chunks) == (vector["xid"], vector["credits"], NO_CHUNKS)


def test_the_delegation_of_the_capture_decodes() -> None:
    decoder = Decoder(GRANTED[SHORT_HEADER_OCTETS:])
    decode_reply(decoder, MESSAGES[0]["xid"])
    reply = nfs41.decode_nfs41_compound_res(decoder)
    decoder.done("COMPOUND")
    assert [result.operation for result in reply.results] == [
        op.OP41_SEQUENCE,
        op.OP41_PUTROOTFH,
        op.OP41_OPEN,
        op.OP41_GETFH,
    ]
    opened = reply.results[2].value
    assert isinstance(opened, nfs41.nfs41_open_res)
    assert opened.value is not None
    nobody = nfs41.nfs41_access_entry(0, 0, 0, b"")
    read = nfs41.nfs41_read_delegation(DELEGATION, False, nobody)
    assert opened.value.delegation == nfs41.nfs41_delegation(nfs41.NFS41_DELEGATION_READ, read)
    assert reply.results[3].value == nfs41.nfs41_getfh_res(0, HANDLE)


def test_the_recall_of_the_capture_decodes() -> None:
    decoder = Decoder(RECALL[SHORT_HEADER_OCTETS:])
    call = decode_call(decoder)
    assert (call.program, call.version, call.procedure) == (nfs41.NFS41_CB.number, 1, 1)
    args = nfs41.decode_nfs41_cb_compound_args(decoder)
    decoder.done("CB_COMPOUND")
    sequence = nfs41.nfs41_cb_sequence_args(SESSION, 1, 0, 0, False, [])
    assert args == nfs41.nfs41_cb_compound_args(
        b"",
        1,
        0,
        [
            nfs41.nfs41_cb_argument(cb_op.OP41_CB_SEQUENCE, sequence),
            nfs41.nfs41_cb_argument(cb_op.OP41_CB_RECALL, nfs41.nfs41_recall_args(DELEGATION, False, HANDLE)),
        ],
    )


@pytest.mark.req("BD-5", "BD-6", "BD-7", "BD-12")
def test_the_recall_of_the_capture_is_answered_as_it_was() -> None:
    callbacks = holder()
    peer = BarePeer(Role.CLIENT, reverse=True)
    assert peer.send(RECALL) == []
    (event,) = peer.endpoint_events()
    assert isinstance(event, CallArrived)
    call = ServerCall(event.incoming.xid, event.incoming.decoder)
    assert Dispatcher([callbacks]).open_call(call) is None
    peer.endpoint.reply(event.incoming, call.success(call.route.handler(call.args, call)))
    peer.run()
    assert peer.received == [ANSWER]
    assert callbacks.recalls.get_nowait() == Recall(DELEGATION, HANDLE, CALLER, MESSAGES[1]["xid"])


@pytest.mark.req("BD-14")
def test_a_recall_cut_short_recalls_nothing() -> None:
    for length in range(len(RECALL)):
        callbacks = holder()
        peer = BarePeer(Role.CLIENT, reverse=True)
        assert peer.send(RECALL[:length]) == []
        for event in peer.endpoint_events():
            assert isinstance(event, CallArrived)
            call = ServerCall(event.incoming.xid, event.incoming.decoder)
            with contextlib.suppress(DecodeError):
                assert Dispatcher([callbacks]).open_call(call) is not None
        assert callbacks.recalls.empty()


def test_a_recall_with_trailing_octets_does_not_decode() -> None:
    decoder = Decoder(RECALL[SHORT_HEADER_OCTETS:] + bytes(4))
    decode_call(decoder)
    nfs41.decode_nfs41_cb_compound_args(decoder)
    with pytest.raises(DecodeError):
        decoder.done("CB_COMPOUND")
