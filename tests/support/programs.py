"""Codecs of procedures that tests define."""

from __future__ import annotations

from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = ["decode_word", "encode_word"]


def encode_word(enc: Encoder, value: int) -> None:
    """An unsigned int."""
    enc.u32(value, "word")


def decode_word(dec: Decoder) -> int:
    """An unsigned int."""
    return dec.u32("word")
