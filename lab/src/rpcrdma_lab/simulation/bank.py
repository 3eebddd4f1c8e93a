"""Generated from bank.x by `rpcrdma xdr compile`: do not edit."""

# ruff: noqa: A001, A002, A003, ARG001, ARG002, D103, E741, N801, N802, N815, N816, RUF100

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final

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
from rpcrdma.xdr import Buffer, Composite, Decoder, Encoder, Layout

__all__ = [
    "BANK_EXTRACT",
    "BANK_JOIN",
    "BANK_NOTE_MAX",
    "BANK_NULL",
    "BANK_STATEMENT",
    "BANK_TRANSFER",
    "BANK_V1",
    "CUSTOMER_NOTICE",
    "CUSTOMER_NULL",
    "CUSTOMER_V1",
    "BANK_V1_Client",
    "BANK_V1_Service",
    "BANK_V1_SyncClient",
    "CUSTOMER_V1_Client",
    "CUSTOMER_V1_Service",
    "CUSTOMER_V1_SyncClient",
    "bank_extract",
    "bank_notice",
    "bank_order",
    "bank_receipt",
    "bank_request",
    "bank_statement",
    "bank_transfer",
    "decode_bank_extract",
    "decode_bank_notice",
    "decode_bank_order",
    "decode_bank_receipt",
    "decode_bank_request",
    "decode_bank_statement",
    "decode_bank_transfer",
    "encode_bank_extract",
    "encode_bank_notice",
    "encode_bank_order",
    "encode_bank_receipt",
    "encode_bank_request",
    "encode_bank_statement",
    "encode_bank_transfer",
]

BANK_NOTE_MAX: Final = 1048576


@dataclass(slots=True, repr=False, eq=False)
class bank_order(Composite):
    """XDR struct `bank_order`."""

    customer: int
    number: int


@dataclass(slots=True, repr=False, eq=False)
class bank_transfer(Composite):
    """XDR struct `bank_transfer`."""

    order: bank_order
    debit: int
    credit: int
    amount: int
    note: Buffer


@dataclass(slots=True, repr=False, eq=False)
class bank_receipt(Composite):
    """XDR struct `bank_receipt`."""

    entry: int
    debit_balance: int
    credit_balance: int
    note_checksum: int


@dataclass(slots=True, repr=False, eq=False)
class bank_request(Composite):
    """XDR struct `bank_request`."""

    order: bank_order
    octets: int


@dataclass(slots=True, repr=False, eq=False)
class bank_statement(Composite):
    """XDR struct `bank_statement`."""

    entry: int
    text: Buffer


@dataclass(slots=True, repr=False, eq=False)
class bank_extract(Composite):
    """XDR struct `bank_extract`."""

    entry: int
    text: bytes


@dataclass(slots=True, repr=False, eq=False)
class bank_notice(Composite):
    """XDR struct `bank_notice`."""

    customer: int
    number: int
    entry: int


_LAYOUT_1: Final = Layout.of(">II", "bank_order.customer", "bank_order.number")
_LAYOUT_2: Final = Layout.of(
    ">IIIII",
    "bank_transfer.order.customer",
    "bank_transfer.order.number",
    "bank_transfer.debit",
    "bank_transfer.credit",
    "bank_transfer.amount",
)
_LAYOUT_3: Final = Layout.of(
    ">QqqI",
    "bank_receipt.entry",
    "bank_receipt.debit_balance",
    "bank_receipt.credit_balance",
    "bank_receipt.note_checksum",
)
_LAYOUT_4: Final = Layout.of(">III", "bank_request.order.customer", "bank_request.order.number", "bank_request.octets")
_LAYOUT_5: Final = Layout.of(">Q", "bank_statement.entry")
_LAYOUT_6: Final = Layout.of(">Q", "bank_extract.entry")
_LAYOUT_7: Final = Layout.of(">IIQ", "bank_notice.customer", "bank_notice.number", "bank_notice.entry")


def encode_bank_order(enc: Encoder, value: bank_order) -> None:
    enc.put(_LAYOUT_1, value.customer, value.number)


def decode_bank_order(dec: Decoder) -> bank_order:
    group_values = dec.take(_LAYOUT_1, "bank_order.customer..number")
    return bank_order(group_values[0], group_values[1])


def encode_bank_transfer(enc: Encoder, value: bank_transfer) -> None:
    enc.put(_LAYOUT_2, value.order.customer, value.order.number, value.debit, value.credit, value.amount)
    enc.bulk(value.note, 1048576, "bank_transfer.note")


def decode_bank_transfer(dec: Decoder) -> bank_transfer:
    group_values = dec.take(_LAYOUT_2, "bank_transfer.order.customer..amount")
    note_ = dec.bulk(1048576, "bank_transfer.note")
    return bank_transfer(
        bank_order(group_values[0], group_values[1]), group_values[2], group_values[3], group_values[4], note_
    )


def encode_bank_receipt(enc: Encoder, value: bank_receipt) -> None:
    enc.put(_LAYOUT_3, value.entry, value.debit_balance, value.credit_balance, value.note_checksum)


def decode_bank_receipt(dec: Decoder) -> bank_receipt:
    group_values = dec.take(_LAYOUT_3, "bank_receipt.entry..note_checksum")
    return bank_receipt(group_values[0], group_values[1], group_values[2], group_values[3])


def encode_bank_request(enc: Encoder, value: bank_request) -> None:
    enc.put(_LAYOUT_4, value.order.customer, value.order.number, value.octets)


def decode_bank_request(dec: Decoder) -> bank_request:
    group_values = dec.take(_LAYOUT_4, "bank_request.order.customer..octets")
    return bank_request(bank_order(group_values[0], group_values[1]), group_values[2])


def encode_bank_statement(enc: Encoder, value: bank_statement) -> None:
    enc.put(_LAYOUT_5, value.entry)
    enc.bulk(value.text, 1048576, "bank_statement.text")


def decode_bank_statement(dec: Decoder) -> bank_statement:
    entry_ = dec.u64("bank_statement.entry")
    text_ = dec.bulk(1048576, "bank_statement.text")
    return bank_statement(entry_, text_)


def encode_bank_extract(enc: Encoder, value: bank_extract) -> None:
    enc.put(_LAYOUT_6, value.entry)
    enc.opaque(value.text, 1048576, "bank_extract.text")


def decode_bank_extract(dec: Decoder) -> bank_extract:
    entry_ = dec.u64("bank_extract.entry")
    text_ = dec.opaque(1048576, "bank_extract.text")
    return bank_extract(entry_, text_)


def encode_bank_notice(enc: Encoder, value: bank_notice) -> None:
    enc.put(_LAYOUT_7, value.customer, value.number, value.entry)


def decode_bank_notice(dec: Decoder) -> bank_notice:
    group_values = dec.take(_LAYOUT_7, "bank_notice.customer..entry")
    return bank_notice(group_values[0], group_values[1], group_values[2])


def _encode_void(_enc: Encoder, _value: None) -> None:
    """Void: nothing to write."""


def _decode_void(_dec: Decoder) -> None:
    """Void: nothing to read."""


def _encode_unsigned_int(enc: Encoder, value: int) -> None:
    enc.u32(value, "unsigned_int")


def _decode_unsigned_int(dec: Decoder) -> int:
    return dec.u32("unsigned_int")


def _bound_bank_statement(args: bank_request) -> ReplyBound:
    return ReplyBound(12, (min(args.octets, 1048576),))


def _bound_bank_extract(args: bank_request) -> ReplyBound:
    return ReplyBound(12 + ((min(args.octets, 1048576) + 3) & ~3))


BANK_NULL: Final[Procedure[None, None]] = Procedure(
    program=536873776,
    version=1,
    number=0,
    name="BANK_NULL",
    method="bank_null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
BANK_TRANSFER: Final[Procedure[bank_transfer, bank_receipt]] = Procedure(
    program=536873776,
    version=1,
    number=1,
    name="BANK_TRANSFER",
    method="bank_transfer",
    encode_args=encode_bank_transfer,
    decode_args=decode_bank_transfer,
    encode_result=encode_bank_receipt,
    decode_result=decode_bank_receipt,
    bound=ReplyBound(28),
    octets_max=OctetsMax(1048600, 1048576, 28),
)
BANK_STATEMENT: Final[Procedure[bank_request, bank_statement]] = Procedure(
    program=536873776,
    version=1,
    number=2,
    name="BANK_STATEMENT",
    method="bank_statement",
    encode_args=encode_bank_request,
    decode_args=decode_bank_request,
    encode_result=encode_bank_statement,
    decode_result=decode_bank_statement,
    bound=_bound_bank_statement,
    octets_max=OctetsMax(12, 0, 1048588),
)
BANK_EXTRACT: Final[Procedure[bank_request, bank_extract]] = Procedure(
    program=536873776,
    version=1,
    number=3,
    name="BANK_EXTRACT",
    method="bank_extract",
    encode_args=encode_bank_request,
    decode_args=decode_bank_request,
    encode_result=encode_bank_extract,
    decode_result=decode_bank_extract,
    bound=_bound_bank_extract,
    octets_max=OctetsMax(12, 0, 1048588),
)
BANK_JOIN: Final[Procedure[int, None]] = Procedure(
    program=536873776,
    version=1,
    number=4,
    name="BANK_JOIN",
    method="bank_join",
    encode_args=_encode_unsigned_int,
    decode_args=_decode_unsigned_int,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(4, 0, 0),
)

BANK_V1: Final = Program(
    number=536873776,
    version=1,
    name="BANK_V1",
    procedures={
        0: BANK_NULL,
        1: BANK_TRANSFER,
        2: BANK_STATEMENT,
        3: BANK_EXTRACT,
        4: BANK_JOIN,
    },
)


class _BANK_V1_Methods:
    bank_null = VoidCallMethod(BANK_NULL)
    bank_transfer = CallMethod(BANK_TRANSFER)
    bank_statement = CallMethod(BANK_STATEMENT)
    bank_extract = CallMethod(BANK_EXTRACT)
    bank_join = CallMethod(BANK_JOIN)


class BANK_V1_Client(_BANK_V1_Methods, ClientStub):
    """Calls the procedures of BANK version 1 through a `Caller`, and awaits them."""


class BANK_V1_SyncClient(_BANK_V1_Methods, SyncClientStub):
    """Calls the procedures of BANK version 1 through a connection of `rpcrdma.sync`."""


class BANK_V1_Service(Service):
    """Base of services for BANK version 1: override the procedures to offer."""

    PROGRAM = BANK_V1

    def bank_null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers BANK_NULL."""
        return None

    def bank_transfer(self, args: bank_transfer, context: CallContext) -> Awaitable[bank_receipt] | bank_receipt:
        """Answers BANK_TRANSFER."""
        raise ProcedureUnavailable("BANK_TRANSFER")

    def bank_statement(self, args: bank_request, context: CallContext) -> Awaitable[bank_statement] | bank_statement:
        """Answers BANK_STATEMENT."""
        raise ProcedureUnavailable("BANK_STATEMENT")

    def bank_extract(self, args: bank_request, context: CallContext) -> Awaitable[bank_extract] | bank_extract:
        """Answers BANK_EXTRACT."""
        raise ProcedureUnavailable("BANK_EXTRACT")

    def bank_join(self, args: int, context: CallContext) -> Awaitable[None] | None:
        """Answers BANK_JOIN."""
        raise ProcedureUnavailable("BANK_JOIN")


CUSTOMER_NULL: Final[Procedure[None, None]] = Procedure(
    program=536873777,
    version=1,
    number=0,
    name="CUSTOMER_NULL",
    method="customer_null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
CUSTOMER_NOTICE: Final[Procedure[bank_notice, int]] = Procedure(
    program=536873777,
    version=1,
    number=1,
    name="CUSTOMER_NOTICE",
    method="customer_notice",
    encode_args=encode_bank_notice,
    decode_args=decode_bank_notice,
    encode_result=_encode_unsigned_int,
    decode_result=_decode_unsigned_int,
    bound=ReplyBound(4),
    octets_max=OctetsMax(16, 0, 4),
)

CUSTOMER_V1: Final = Program(
    number=536873777,
    version=1,
    name="CUSTOMER_V1",
    procedures={
        0: CUSTOMER_NULL,
        1: CUSTOMER_NOTICE,
    },
)


class _CUSTOMER_V1_Methods:
    customer_null = VoidCallMethod(CUSTOMER_NULL)
    customer_notice = CallMethod(CUSTOMER_NOTICE)


class CUSTOMER_V1_Client(_CUSTOMER_V1_Methods, ClientStub):
    """Calls the procedures of CUSTOMER version 1 through a `Caller`, and awaits them."""


class CUSTOMER_V1_SyncClient(_CUSTOMER_V1_Methods, SyncClientStub):
    """Calls the procedures of CUSTOMER version 1 through a connection of `rpcrdma.sync`."""


class CUSTOMER_V1_Service(Service):
    """Base of services for CUSTOMER version 1: override the procedures to offer."""

    PROGRAM = CUSTOMER_V1

    def customer_null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers CUSTOMER_NULL."""
        return None

    def customer_notice(self, args: bank_notice, context: CallContext) -> Awaitable[int] | int:
        """Answers CUSTOMER_NOTICE."""
        raise ProcedureUnavailable("CUSTOMER_NOTICE")
