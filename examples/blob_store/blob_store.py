"""Generated from blob_store.x by `rpcrdma xdr compile`: do not edit."""

# ruff: noqa: A001, A002, A003, ARG001, ARG002, D103, E741, N801, N802, N815, N816, RUF100

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rpcrdma.errors import LocalProtocolError
from rpcrdma.rpc import (
    CallContext,
    CallMethod,
    ClientStub,
    OctetsMax,
    Procedure,
    ProcedureUnavailable,
    Program,
    ReplyBound,
    Service,
    SyncClientStub,
    VoidCallMethod,
)
from rpcrdma.xdr import Buffer, Composite, Decoder, Encoder

__all__ = [
    "BLOB_MAX",
    "BLOB_STORE_V1",
    "NAME_MAX",
    "PROGRAM",
    "STORE_GET",
    "STORE_NULL",
    "STORE_PUT",
    "BLOB_STORE_V1_Client",
    "BLOB_STORE_V1_Service",
    "BLOB_STORE_V1_SyncClient",
    "blob_name",
    "decode_blob_name",
    "decode_get_args",
    "decode_get_result",
    "decode_put_args",
    "encode_blob_name",
    "encode_get_args",
    "encode_get_result",
    "encode_put_args",
    "get_args",
    "get_result",
    "put_args",
]

NAME_MAX: Final = 64
BLOB_MAX: Final = 1048576


@dataclass(slots=True, repr=False, eq=False)
class put_args(Composite):
    """XDR struct `put_args`."""

    name: blob_name
    data: Buffer


@dataclass(slots=True, repr=False, eq=False)
class get_args(Composite):
    """XDR struct `get_args`."""

    name: blob_name
    most: int


@dataclass(slots=True, repr=False, eq=False)
class get_result(Composite):
    """XDR union `get_result`, switched by `found`."""

    found: bool
    value: Buffer | None


blob_name: TypeAlias = str


def encode_put_args(enc: Encoder, value: put_args) -> None:
    enc.string(value.name, 64, "put_args.name")
    enc.bulk(value.data, 1048576, "put_args.data")


def decode_put_args(dec: Decoder) -> put_args:
    name_ = dec.string(64, "put_args.name")
    data_ = dec.bulk(1048576, "put_args.data")
    return put_args(name_, data_)


def encode_get_args(enc: Encoder, value: get_args) -> None:
    enc.string(value.name, 64, "get_args.name")
    enc.u32(value.most, "get_args.most")


def decode_get_args(dec: Decoder) -> get_args:
    name_ = dec.string(64, "get_args.name")
    most_ = dec.u32("get_args.most")
    return get_args(name_, most_)


def encode_get_result(enc: Encoder, value: get_result) -> None:
    tag = value.found
    arm_value: Any = value.value
    if tag:
        enc.reduced += b"\x00\x00\x00\x01"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"get_result.data: {type(arm_value).__name__} given, the arm is opaque")
        enc.bulk(arm_value, 1048576, "get_result.data")
        return
    enc.reduced += b"\x00\x00\x00\x00"
    if arm_value is not None:
        raise LocalProtocolError(f"get_result: {type(arm_value).__name__} given, the arm is void")


def decode_get_result(dec: Decoder) -> get_result:
    tag = dec.boolean("get_result.found")
    if tag:
        return get_result(tag, dec.bulk(1048576, "get_result.data"))
    return get_result(tag, None)


def encode_blob_name(enc: Encoder, value: blob_name) -> None:
    enc.string(value, 64, "blob_name")


def decode_blob_name(dec: Decoder) -> blob_name:
    return dec.string(64, "blob_name")


def _encode_void(_enc: Encoder, _value: None) -> None:
    """Void: nothing to write."""


def _decode_void(_dec: Decoder) -> None:
    """Void: nothing to read."""


def _bound_store_get(args: get_args) -> ReplyBound:
    return ReplyBound(8, (min(args.most, 1048576),))


STORE_NULL: Final[Procedure[None, None]] = Procedure(
    program=536873744,
    version=1,
    number=0,
    name="STORE_NULL",
    method="store_null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
STORE_PUT: Final[Procedure[put_args, None]] = Procedure(
    program=536873744,
    version=1,
    number=1,
    name="STORE_PUT",
    method="store_put",
    encode_args=encode_put_args,
    decode_args=decode_put_args,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(1048648, 1048576, 0),
)
STORE_GET: Final[Procedure[get_args, get_result]] = Procedure(
    program=536873744,
    version=1,
    number=2,
    name="STORE_GET",
    method="store_get",
    encode_args=encode_get_args,
    decode_args=decode_get_args,
    encode_result=encode_get_result,
    decode_result=decode_get_result,
    bound=_bound_store_get,
    octets_max=OctetsMax(72, 0, 1048584),
)

BLOB_STORE_V1: Final = Program(
    number=536873744,
    version=1,
    name="BLOB_STORE_V1",
    procedures={
        0: STORE_NULL,
        1: STORE_PUT,
        2: STORE_GET,
    },
)


class _BLOB_STORE_V1_Methods:
    store_null = VoidCallMethod(STORE_NULL)
    store_put = CallMethod(STORE_PUT)
    store_get = CallMethod(STORE_GET)


class BLOB_STORE_V1_Client(_BLOB_STORE_V1_Methods, ClientStub):
    """Calls the procedures of BLOB_STORE version 1 through a `Caller`, and awaits them."""


class BLOB_STORE_V1_SyncClient(_BLOB_STORE_V1_Methods, SyncClientStub):
    """Calls the procedures of BLOB_STORE version 1 through a connection of `rpcrdma.sync`."""


class BLOB_STORE_V1_Service(Service):
    """Base of services for BLOB_STORE version 1: override the procedures to offer."""

    PROGRAM = BLOB_STORE_V1

    def store_null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers STORE_NULL."""
        return None

    def store_put(self, args: put_args, context: CallContext) -> Awaitable[None] | None:
        """Answers STORE_PUT."""
        raise ProcedureUnavailable("STORE_PUT")

    def store_get(self, args: get_args, context: CallContext) -> Awaitable[get_result] | get_result:
        """Answers STORE_GET."""
        raise ProcedureUnavailable("STORE_GET")


PROGRAM: Final = BLOB_STORE_V1
