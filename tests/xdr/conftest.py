"""Compiled definitions as live modules."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma.xdr.codec import Decoder, Encoder
from rpcrdma.xdr.language import compile_source

Compile = Callable[..., Any]


def load(source: str, **options: Any) -> Any:
    compiled = compile_source(source, source_name="test.x", **options)
    module = types.ModuleType("generated_by_test")
    sys.modules[module.__name__] = module  # dataclasses look themselves up there
    try:
        exec(compile(compiled.text, "generated_by_test.py", "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module


def octets(encode: Callable[[Encoder, Any], None], value: Any) -> bytes:
    encoder = Encoder()
    encode(encoder, value)
    return b"".join(encoder.gather())


def whole(decode: Callable[[Decoder], Any], data: bytes) -> Any:
    decoder = Decoder(data)
    value = decode(decoder)
    decoder.done("value")
    return value


@pytest.fixture(name="load")
def load_fixture() -> Compile:
    """Compiles a definition and runs the generated module."""
    return load


@pytest.fixture(name="octets")
def octets_fixture() -> Callable[..., bytes]:
    """The unreduced octets of a value."""
    return octets


@pytest.fixture(name="whole")
def whole_fixture() -> Callable[..., Any]:
    """Decodes all of some octets."""
    return whole
