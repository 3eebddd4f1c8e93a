"""Generated from auction.x by `rpcrdma xdr compile`: do not edit."""

# ruff: noqa: A001, A002, A003, ARG001, ARG002, D103, E741, N801, N802, N815, N816, RUF100

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, TypeAlias

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
from rpcrdma.xdr import Composite, Decoder, Encoder

__all__ = [
    "AUCTION_BID",
    "AUCTION_JOIN",
    "AUCTION_NULL",
    "AUCTION_V1",
    "BIDDER_NULL",
    "BIDDER_OUTBID",
    "BIDDER_V1",
    "NAME_MAX",
    "AUCTION_V1_Client",
    "AUCTION_V1_Service",
    "AUCTION_V1_SyncClient",
    "BIDDER_V1_Client",
    "BIDDER_V1_Service",
    "BIDDER_V1_SyncClient",
    "bid",
    "bidder_name",
    "decode_bid",
    "decode_bidder_name",
    "encode_bid",
    "encode_bidder_name",
]

NAME_MAX: Final = 64


@dataclass(slots=True, repr=False, eq=False)
class bid(Composite):
    """XDR struct `bid`."""

    bidder: bidder_name
    amount: int


bidder_name: TypeAlias = str


def encode_bid(enc: Encoder, value: bid) -> None:
    enc.string(value.bidder, 64, "bid.bidder")
    enc.u32(value.amount, "bid.amount")


def decode_bid(dec: Decoder) -> bid:
    bidder_ = dec.string(64, "bid.bidder")
    amount_ = dec.u32("bid.amount")
    return bid(bidder_, amount_)


def encode_bidder_name(enc: Encoder, value: bidder_name) -> None:
    enc.string(value, 64, "bidder_name")


def decode_bidder_name(dec: Decoder) -> bidder_name:
    return dec.string(64, "bidder_name")


def _encode_void(_enc: Encoder, _value: None) -> None:
    """Void: nothing to write."""


def _decode_void(_dec: Decoder) -> None:
    """Void: nothing to read."""


def _encode_bool(enc: Encoder, value: bool) -> None:
    if value not in {0, 1}:
        raise LocalProtocolError(f"bool: {value!r} is no bool")
    enc.u32(value, "bool")


def _decode_bool(dec: Decoder) -> bool:
    return dec.boolean("bool")


AUCTION_NULL: Final[Procedure[None, None]] = Procedure(
    program=536873760,
    version=1,
    number=0,
    name="AUCTION_NULL",
    method="auction_null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
AUCTION_JOIN: Final[Procedure[bidder_name, None]] = Procedure(
    program=536873760,
    version=1,
    number=1,
    name="AUCTION_JOIN",
    method="auction_join",
    encode_args=encode_bidder_name,
    decode_args=decode_bidder_name,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(68, 0, 0),
)
AUCTION_BID: Final[Procedure[bid, bool]] = Procedure(
    program=536873760,
    version=1,
    number=2,
    name="AUCTION_BID",
    method="auction_bid",
    encode_args=encode_bid,
    decode_args=decode_bid,
    encode_result=_encode_bool,
    decode_result=_decode_bool,
    bound=ReplyBound(4),
    octets_max=OctetsMax(72, 0, 4),
)

AUCTION_V1: Final = Program(
    number=536873760,
    version=1,
    name="AUCTION_V1",
    procedures={
        0: AUCTION_NULL,
        1: AUCTION_JOIN,
        2: AUCTION_BID,
    },
)


class _AUCTION_V1_Methods:
    auction_null = VoidCallMethod(AUCTION_NULL)
    auction_join = CallMethod(AUCTION_JOIN)
    auction_bid = CallMethod(AUCTION_BID)


class AUCTION_V1_Client(_AUCTION_V1_Methods, ClientStub):
    """Calls the procedures of AUCTION version 1 through a `Caller`, and awaits them."""


class AUCTION_V1_SyncClient(_AUCTION_V1_Methods, SyncClientStub):
    """Calls the procedures of AUCTION version 1 through a connection of `rpcrdma.sync`."""


class AUCTION_V1_Service(Service):
    """Base of services for AUCTION version 1: override the procedures to offer."""

    PROGRAM = AUCTION_V1

    def auction_null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers AUCTION_NULL."""
        return None

    def auction_join(self, args: bidder_name, context: CallContext) -> Awaitable[None] | None:
        """Answers AUCTION_JOIN."""
        raise ProcedureUnavailable("AUCTION_JOIN")

    def auction_bid(self, args: bid, context: CallContext) -> Awaitable[bool] | bool:
        """Answers AUCTION_BID."""
        raise ProcedureUnavailable("AUCTION_BID")


BIDDER_NULL: Final[Procedure[None, None]] = Procedure(
    program=536873761,
    version=1,
    number=0,
    name="BIDDER_NULL",
    method="bidder_null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
BIDDER_OUTBID: Final[Procedure[bid, bool]] = Procedure(
    program=536873761,
    version=1,
    number=1,
    name="BIDDER_OUTBID",
    method="bidder_outbid",
    encode_args=encode_bid,
    decode_args=decode_bid,
    encode_result=_encode_bool,
    decode_result=_decode_bool,
    bound=ReplyBound(4),
    octets_max=OctetsMax(72, 0, 4),
)

BIDDER_V1: Final = Program(
    number=536873761,
    version=1,
    name="BIDDER_V1",
    procedures={
        0: BIDDER_NULL,
        1: BIDDER_OUTBID,
    },
)


class _BIDDER_V1_Methods:
    bidder_null = VoidCallMethod(BIDDER_NULL)
    bidder_outbid = CallMethod(BIDDER_OUTBID)


class BIDDER_V1_Client(_BIDDER_V1_Methods, ClientStub):
    """Calls the procedures of BIDDER version 1 through a `Caller`, and awaits them."""


class BIDDER_V1_SyncClient(_BIDDER_V1_Methods, SyncClientStub):
    """Calls the procedures of BIDDER version 1 through a connection of `rpcrdma.sync`."""


class BIDDER_V1_Service(Service):
    """Base of services for BIDDER version 1: override the procedures to offer."""

    PROGRAM = BIDDER_V1

    def bidder_null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers BIDDER_NULL."""
        return None

    def bidder_outbid(self, args: bid, context: CallContext) -> Awaitable[bool] | bool:
        """Answers BIDDER_OUTBID."""
        raise ProcedureUnavailable("BIDDER_OUTBID")
