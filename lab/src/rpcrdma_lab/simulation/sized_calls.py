"""Generated from sized_calls.x by `rpcrdma xdr compile`: do not edit."""

# ruff: noqa: A001, A002, A003, ARG001, ARG002, D103, E741, N801, N802, N815, N816, RUF100

from __future__ import annotations

import enum
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final

from rpcrdma.errors import DecodeError, LocalProtocolError
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
    "DATA_MAX",
    "PROGRAM",
    "SIZED_CALLS_V1",
    "SIZED_LONG_CALL",
    "SIZED_LONG_REPLY",
    "SIZED_NULL",
    "SIZED_TRANSFERS",
    "TRANSFERS_MAX",
    "SIZED_CALLS_V1_Client",
    "SIZED_CALLS_V1_Service",
    "SIZED_CALLS_V1_SyncClient",
    "decode_message_data",
    "decode_message_size",
    "decode_transfer",
    "decode_transfer_kind",
    "decode_transfer_list",
    "decode_transfer_results",
    "decode_transferred",
    "encode_message_data",
    "encode_message_size",
    "encode_transfer",
    "encode_transfer_kind",
    "encode_transfer_list",
    "encode_transfer_results",
    "encode_transferred",
    "message_data",
    "message_size",
    "transfer",
    "transfer_kind",
    "transfer_list",
    "transfer_results",
    "transferred",
]

DATA_MAX: Final = 1048576
TRANSFERS_MAX: Final = 8


class transfer_kind(enum.IntEnum):
    """XDR enum `transfer_kind`."""

    TRANSFER_READ = 0
    TRANSFER_WRITE = 1


_transfer_kind_BY_VALUE: Final = {int(member): member for member in transfer_kind}


@dataclass(slots=True, repr=False, eq=False)
class message_data(Composite):
    """XDR struct `message_data`."""

    octets: bytes


@dataclass(slots=True, repr=False, eq=False)
class message_size(Composite):
    """XDR struct `message_size`."""

    octets: int


@dataclass(slots=True, repr=False, eq=False)
class transfer(Composite):
    """XDR union `transfer`, switched by `kind`."""

    kind: transfer_kind
    value: int | Buffer


@dataclass(slots=True, repr=False, eq=False)
class transferred(Composite):
    """XDR union `transferred`, switched by `kind`."""

    kind: transfer_kind
    value: Buffer | int


@dataclass(slots=True, repr=False, eq=False)
class transfer_list(Composite):
    """XDR struct `transfer_list`."""

    transfers: list[transfer]


@dataclass(slots=True, repr=False, eq=False)
class transfer_results(Composite):
    """XDR struct `transfer_results`."""

    results: list[transferred]


def encode_transfer_kind(enc: Encoder, value: transfer_kind, field: str = "transfer_kind") -> None:
    if value not in _transfer_kind_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum transfer_kind")
    enc.u32(value, field)


def decode_transfer_kind(dec: Decoder, field: str = "transfer_kind") -> transfer_kind:
    wire_value = dec.u32(field)
    value = _transfer_kind_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum transfer_kind", str(wire_value))
    return value


def encode_message_data(enc: Encoder, value: message_data) -> None:
    enc.opaque(value.octets, 1048576, "message_data.octets")


def decode_message_data(dec: Decoder) -> message_data:
    octets_ = dec.opaque(1048576, "message_data.octets")
    return message_data(octets_)


def encode_message_size(enc: Encoder, value: message_size) -> None:
    enc.u32(value.octets, "message_size.octets")


def decode_message_size(dec: Decoder) -> message_size:
    octets_ = dec.u32("message_size.octets")
    return message_size(octets_)


def encode_transfer(enc: Encoder, value: transfer) -> None:
    tag = value.kind
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        enc.u32(arm_value, "transfer.octets")
        return
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"transfer.data: {type(arm_value).__name__} given, the arm is opaque")
        enc.bulk(arm_value, 1048576, "transfer.data")
        return
    raise LocalProtocolError(f"transfer.kind: {tag!r} is no case of union transfer")


def decode_transfer(dec: Decoder) -> transfer:
    wire_value = dec.u32("transfer.kind")
    tag = _transfer_kind_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("transfer.kind", dec.pos - dec.start - 4, "a value of enum transfer_kind", str(wire_value))
    if tag == 0:
        return transfer(tag, dec.u32("transfer.octets"))
    if tag == 1:
        return transfer(tag, dec.bulk(1048576, "transfer.data"))
    raise DecodeError("transfer.kind", dec.pos - dec.start - 4, "a case of union transfer", str(int(tag)))


def encode_transferred(enc: Encoder, value: transferred) -> None:
    tag = value.kind
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"transferred.data: {type(arm_value).__name__} given, the arm is opaque")
        enc.bulk(arm_value, 1048576, "transferred.data")
        return
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        enc.u32(arm_value, "transferred.octets")
        return
    raise LocalProtocolError(f"transferred.kind: {tag!r} is no case of union transferred")


def decode_transferred(dec: Decoder) -> transferred:
    wire_value = dec.u32("transferred.kind")
    tag = _transfer_kind_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("transferred.kind", dec.pos - dec.start - 4, "a value of enum transfer_kind", str(wire_value))
    if tag == 0:
        return transferred(tag, dec.bulk(1048576, "transferred.data"))
    if tag == 1:
        return transferred(tag, dec.u32("transferred.octets"))
    raise DecodeError("transferred.kind", dec.pos - dec.start - 4, "a case of union transferred", str(int(tag)))


def encode_transfer_list(enc: Encoder, value: transfer_list) -> None:
    enc.count(len(value.transfers), 8, "transfer_list.transfers")
    for list_item in value.transfers:
        encode_transfer(enc, list_item)


def decode_transfer_list(dec: Decoder) -> transfer_list:
    transfers_ = [decode_transfer(dec) for _ in range(dec.count(8, "transfer_list.transfers"))]
    return transfer_list(transfers_)


def encode_transfer_results(enc: Encoder, value: transfer_results) -> None:
    enc.count(len(value.results), 8, "transfer_results.results")
    for list_item in value.results:
        encode_transferred(enc, list_item)


def decode_transfer_results(dec: Decoder) -> transfer_results:
    results_ = [decode_transferred(dec) for _ in range(dec.count(8, "transfer_results.results"))]
    return transfer_results(results_)


def _encode_void(_enc: Encoder, _value: None) -> None:
    """Void: nothing to write."""


def _decode_void(_dec: Decoder) -> None:
    """Void: nothing to read."""


def _bound_sized_long_reply(args: message_size) -> ReplyBound:
    return ReplyBound(4 + ((min(args.octets, 1048576) + 3) & ~3))


SIZED_NULL: Final[Procedure[None, None]] = Procedure(
    program=536873762,
    version=1,
    number=0,
    name="SIZED_NULL",
    method="sized_null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
SIZED_LONG_CALL: Final[Procedure[message_data, message_size]] = Procedure(
    program=536873762,
    version=1,
    number=1,
    name="SIZED_LONG_CALL",
    method="sized_long_call",
    encode_args=encode_message_data,
    decode_args=decode_message_data,
    encode_result=encode_message_size,
    decode_result=decode_message_size,
    bound=ReplyBound(4),
    octets_max=OctetsMax(1048580, 0, 4),
)
SIZED_LONG_REPLY: Final[Procedure[message_size, message_data]] = Procedure(
    program=536873762,
    version=1,
    number=2,
    name="SIZED_LONG_REPLY",
    method="sized_long_reply",
    encode_args=encode_message_size,
    decode_args=decode_message_size,
    encode_result=encode_message_data,
    decode_result=decode_message_data,
    bound=_bound_sized_long_reply,
    octets_max=OctetsMax(4, 0, 1048580),
)
SIZED_TRANSFERS: Final[Procedure[transfer_list, transfer_results]] = Procedure(
    program=536873762,
    version=1,
    number=3,
    name="SIZED_TRANSFERS",
    method="sized_transfers",
    encode_args=encode_transfer_list,
    decode_args=decode_transfer_list,
    encode_result=encode_transfer_results,
    decode_result=decode_transfer_results,
    bound=ReplyBound(68, (1048576, 1048576, 1048576, 1048576, 1048576, 1048576, 1048576, 1048576)),
    octets_max=OctetsMax(8388676, 8388608, 8388676),
)

SIZED_CALLS_V1: Final = Program(
    number=536873762,
    version=1,
    name="SIZED_CALLS_V1",
    procedures={
        0: SIZED_NULL,
        1: SIZED_LONG_CALL,
        2: SIZED_LONG_REPLY,
        3: SIZED_TRANSFERS,
    },
)


class _SIZED_CALLS_V1_Methods:
    sized_null = VoidCallMethod(SIZED_NULL)
    sized_long_call = CallMethod(SIZED_LONG_CALL)
    sized_long_reply = CallMethod(SIZED_LONG_REPLY)
    sized_transfers = CallMethod(SIZED_TRANSFERS)


class SIZED_CALLS_V1_Client(_SIZED_CALLS_V1_Methods, ClientStub):
    """Calls the procedures of SIZED_CALLS version 1 through a `Caller`, and awaits them."""


class SIZED_CALLS_V1_SyncClient(_SIZED_CALLS_V1_Methods, SyncClientStub):
    """Calls the procedures of SIZED_CALLS version 1 through a connection of `rpcrdma.sync`."""


class SIZED_CALLS_V1_Service(Service):
    """Base of services for SIZED_CALLS version 1: override the procedures to offer."""

    PROGRAM = SIZED_CALLS_V1

    def sized_null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers SIZED_NULL."""
        return None

    def sized_long_call(self, args: message_data, context: CallContext) -> Awaitable[message_size] | message_size:
        """Answers SIZED_LONG_CALL."""
        raise ProcedureUnavailable("SIZED_LONG_CALL")

    def sized_long_reply(self, args: message_size, context: CallContext) -> Awaitable[message_data] | message_data:
        """Answers SIZED_LONG_REPLY."""
        raise ProcedureUnavailable("SIZED_LONG_REPLY")

    def sized_transfers(
        self, args: transfer_list, context: CallContext
    ) -> Awaitable[transfer_results] | transfer_results:
        """Answers SIZED_TRANSFERS."""
        raise ProcedureUnavailable("SIZED_TRANSFERS")


PROGRAM: Final = SIZED_CALLS_V1
