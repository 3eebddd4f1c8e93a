"""A handler knows the size of its call, and how large a result the client has room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.errors import RpcRdmaError
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.rpc.message import CALL_HEADER_OCTETS
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.service import CallContext, Service
from rpcrdma.transport import ReplyBound
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case

NUMBER = 0x20000041
ITEM = 5000


def encode_asked(enc: Encoder, value: tuple[int, bytes]) -> None:
    enc.u32(value[0], "more")
    enc.bulk(value[1], 1 << 20, "data")


def decode_asked(dec: Decoder) -> tuple[int, bytes]:
    return dec.u32("more"), bytes(dec.bulk(1 << 20, "data"))


def encode_parts(enc: Encoder, value: Sequence[Any]) -> None:
    plain, items = value
    enc.opaque(plain, 1 << 24, "plain")
    enc.u32(len(items), "items")
    for item in items:
        enc.bulk(item, 1 << 20, "item")


def decode_parts(dec: Decoder) -> tuple[bytes, list[int]]:
    return dec.opaque(1 << 24, "plain"), [len(dec.bulk(1 << 20, "item")) for _ in range(dec.u32("items"))]


FILL = Procedure(NUMBER, 1, 1, "FILL", "fill", encode_asked, decode_asked, encode_parts, decode_parts)
BOUNDS = [ReplyBound(100), ReplyBound(6000), ReplyBound(100, (ITEM,)), ReplyBound(20_000, (ITEM, ITEM))]


class Filling(Service):
    """Fills the room beside `items` bulk items, and `more` octets."""

    PROGRAM = Program(NUMBER, 1, "FILLING", {1: FILL})
    IDEMPOTENT = frozenset({1})
    items = 0

    def fill(self, args: tuple[int, bytes], context: CallContext) -> tuple[bytes, list[bytes]]:
        self.call_octets = context.call_octets
        items = [bytes(ITEM)] * self.items
        # Beside two length words, and that of each item.
        self.room = context.result_octets_max([ITEM] * self.items) - 8 - 4 * len(items)
        return bytes((self.room & ~3) + args[0]), items


@each_case("bound", BOUNDS)
@each_case("items", [0, 1, 2])
async def test_a_result_that_fills_the_room_arrives_and_a_larger_one_does_not(
    scheme: str, bound: ReplyBound, items: int
) -> None:
    service = Filling()
    service.items = items
    procedure = replace(FILL, bound=bound)
    async with (
        serve([service], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], Filling.PROGRAM) as connection,
    ):
        with pytest.raises(RpcRdmaError):
            await connection.call(procedure, (4, b""), timeout_s=60)
        if service.room < 0:
            return
        plain, lengths = await connection.call(procedure, (0, b""), timeout_s=60)
        assert len(plain) == service.room & ~3
        assert lengths == [ITEM] * items


@each_case("octets", [0, 5, 100_000])
async def test_the_octets_of_a_call_count_its_header_and_the_data_in_read_chunks(scheme: str, octets: int) -> None:
    service = Filling()
    async with (
        serve([service], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], Filling.PROGRAM, options=ConnectOptions(credential=AuthNone())) as connection,
    ):
        await connection.call(replace(FILL, bound=ReplyBound(4096)), (0, bytes(octets)))
        assert service.call_octets == CALL_HEADER_OCTETS + 8 + (octets + 3 & ~3)
