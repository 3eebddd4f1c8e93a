"""Programs that tests define: the codecs of words, octets and nothing, and procedures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = ["VOID", "WORD", "bulk_of", "decode_word", "encode_word", "opaque_of", "procedure"]

Coding = tuple[Callable[[Encoder, Any], None], Callable[[Decoder], Any]]


def encode_word(enc: Encoder, value: int) -> None:
    """An unsigned int."""
    enc.u32(value, "word")


def decode_word(dec: Decoder) -> int:
    """An unsigned int."""
    return dec.u32("word")


def _encode_void(enc: Encoder, value: None) -> None:
    pass


def _decode_void(dec: Decoder) -> None:
    pass


WORD: Coding = (encode_word, decode_word)
VOID: Coding = (_encode_void, _decode_void)


def bulk_of(octets_max: int) -> Coding:
    """A bulk item, which decodes to a view."""
    return lambda enc, value: enc.bulk(value, octets_max, "data"), lambda dec: dec.bulk(octets_max, "data")


def opaque_of(octets_max: int) -> Coding:
    """An opaque item, which is never placed, and decodes to bytes."""
    return lambda enc, value: enc.opaque(value, octets_max, "data"), lambda dec: bytes(dec.opaque(octets_max, "data"))


def procedure(
    program: int,
    number: int,
    method: str,
    args: Coding = WORD,
    result: Coding = WORD,
    *,
    version: int = 1,
    bound: ReplyBound | None = None,
    status: Callable[[Any], int] | None = None,
) -> Procedure[Any, Any]:
    """A procedure that has its method's name in capitals."""
    return Procedure(program, version, number, method.upper(), method, *args, *result, bound, status)
