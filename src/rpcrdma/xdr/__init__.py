"""The XDR language (RFC 4506): the codec of generated code; `rpcrdma.xdr.language` has the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcrdma.deferred import deferred

if TYPE_CHECKING:
    from rpcrdma.wire.buffers import Buffer, Memory, Reader
    from rpcrdma.xdr.codec import Decoder, Encoder, Layout
    from rpcrdma.xdr.composite import Composite
    from rpcrdma.xdr.language.json_form import JsonReader, JsonWriter

__all__ = [
    "Buffer",
    "Composite",
    "Decoder",
    "Encoder",
    "JsonReader",
    "JsonWriter",
    "Layout",
    "Memory",
    "Reader",
]

__getattr__, __dir__ = deferred(
    __name__,
    {
        "rpcrdma.wire.buffers": ("Buffer", "Memory", "Reader"),
        "rpcrdma.xdr.codec": (
            "Decoder",
            "Encoder",
            "Layout",
        ),
        "rpcrdma.xdr.composite": ("Composite",),
        "rpcrdma.xdr.language.json_form": (
            "JsonReader",
            "JsonWriter",
        ),
    },
)
