"""Compiled definitions as live modules, and the octets of their values."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma.errors import DecodeError
from rpcrdma.rpc import load_interface
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Encoder, Placed

__all__ = ["assert_octets", "load", "octets", "whole"]


def load(source: str, **options: Any) -> Any:
    """The objects of the module that is generated from a definition."""
    return types.SimpleNamespace(**load_interface(source, source_name="test.x", **options).classes)


def octets(encode: Callable[[Encoder, Any], None], value: Any) -> bytes:
    """The unreduced octets of a value."""
    encoder = Encoder()
    encode(encoder, value)
    return b"".join(encoder.gather())


def whole(decode: Callable[[Decoder], Any], data: Buffer, *, placed: Placed | None = None) -> Any:
    """Decodes all of some octets."""
    decoder = Decoder(data, placed=placed)
    value = decode(decoder)
    decoder.done("value")
    return value


def assert_octets(module: Any, kind: str, value: Any, expected: str) -> None:
    """A value of a type has these octets, given in hexadecimal, both ways; truncated anywhere they are refused."""
    data = bytes.fromhex(expected)
    assert octets(getattr(module, f"encode_{kind}"), value) == data
    decode = getattr(module, f"decode_{kind}")
    assert whole(decode, data) == value
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            decode(Decoder(data[:length]))
