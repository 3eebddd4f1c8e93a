"""Generated from watch.x by `rpcrdma xdr compile`: do not edit."""

# ruff: noqa: A001, A002, A003, ARG001, ARG002, D103, E741, N801, N802, N815, N816, RUF100

from __future__ import annotations

import enum
from collections.abc import Awaitable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeAlias

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
from rpcrdma.xdr import Composite, Decoder, Encoder, Layout

__all__ = [
    "CHANGES",
    "NULL",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "WATCHERPROC_CHANGES",
    "WATCHERPROC_NULL",
    "WATCHER_V1",
    "WATCHPROC_NULL",
    "WATCHPROC_SUBSCRIBE",
    "WATCHPROC_UNSUBSCRIBE",
    "WATCH_FHSIZE",
    "WATCH_IDSIZE",
    "WATCH_MAXCHANGES",
    "WATCH_PATHLEN",
    "WATCH_V1",
    "WATCHER_V1_Client",
    "WATCHER_V1_Service",
    "WATCHER_V1_SyncClient",
    "WATCH_V1_Client",
    "WATCH_V1_Service",
    "WATCH_V1_SyncClient",
    "decode_watch_batch",
    "decode_watch_change",
    "decode_watch_id",
    "decode_watch_kind",
    "decode_watch_path",
    "decode_watch_status",
    "decode_watch_subscribe_args",
    "decode_watch_subscribe_result",
    "decode_watch_subscribed",
    "encode_watch_batch",
    "encode_watch_change",
    "encode_watch_id",
    "encode_watch_kind",
    "encode_watch_path",
    "encode_watch_status",
    "encode_watch_subscribe_args",
    "encode_watch_subscribe_result",
    "encode_watch_subscribed",
    "watch_batch",
    "watch_change",
    "watch_id",
    "watch_kind",
    "watch_path",
    "watch_status",
    "watch_subscribe_args",
    "watch_subscribe_result",
    "watch_subscribed",
]

WATCH_FHSIZE: Final = 64
WATCH_IDSIZE: Final = 16
WATCH_PATHLEN: Final = 4096
WATCH_MAXCHANGES: Final = 256


class watch_status(enum.IntEnum):
    """XDR enum `watch_status`."""

    WATCH_OK = 0
    WATCHERR_PERM = 1
    WATCHERR_NOENT = 2
    WATCHERR_IO = 5
    WATCHERR_ACCES = 13
    WATCHERR_NOTDIR = 20
    WATCHERR_INVAL = 22
    WATCHERR_NOSPC = 28
    WATCHERR_STALE = 70
    WATCHERR_BADHANDLE = 10001
    WATCHERR_NOTSUPP = 10004
    WATCHERR_JUKEBOX = 10008


_watch_status_BY_VALUE: Final = {int(member): member for member in watch_status}


class watch_kind(enum.IntEnum):
    """XDR enum `watch_kind`."""

    WATCH_CREATED = 1
    WATCH_REMOVED = 2
    WATCH_RENAMED = 3
    WATCH_CHANGED = 4
    WATCH_ATTRIBUTES = 5
    WATCH_RESCAN = 6
    WATCH_ENDED = 7


_watch_kind_BY_VALUE: Final = {int(member): member for member in watch_kind}


@dataclass(slots=True, repr=False, eq=False)
class watch_subscribe_args(Composite):
    """XDR struct `watch_subscribe_args`."""

    id: watch_id
    directory: bytes
    recursive: bool
    resume: bool
    acknowledged: int


@dataclass(slots=True, repr=False, eq=False)
class watch_subscribed(Composite):
    """XDR struct `watch_subscribed`."""

    next: int
    rescan: bool


@dataclass(slots=True, repr=False, eq=False)
class watch_subscribe_result(Composite):
    """XDR union `watch_subscribe_result`, switched by `status`."""

    status: watch_status
    value: watch_subscribed | None


@dataclass(slots=True, repr=False, eq=False)
class watch_change(Composite):
    """XDR struct `watch_change`."""

    kind: watch_kind
    is_directory: bool
    path: watch_path
    target: watch_path
    status: watch_status


@dataclass(slots=True, repr=False, eq=False)
class watch_batch(Composite):
    """XDR struct `watch_batch`."""

    id: watch_id
    first: int
    changes: list[watch_change]


watch_id: TypeAlias = bytes
watch_path: TypeAlias = str

_LAYOUT_1: Final = Layout.of(
    ">IIQ", "watch_subscribe_args.recursive", "watch_subscribe_args.resume", "watch_subscribe_args.acknowledged"
)
_LAYOUT_2: Final = Layout.of(">QI", "watch_subscribed.next", "watch_subscribed.rescan")
_LAYOUT_3: Final = Layout.of(">II", "watch_change.kind", "watch_change.is_directory")
_LAYOUT_4: Final = Layout.of(">16sQ", "watch_batch.id", "watch_batch.first")
_LAYOUT_5: Final = Layout.of(">Q", "unsigned_hyper")


def encode_watch_status(enc: Encoder, value: watch_status, field: str = "watch_status") -> None:
    if value not in _watch_status_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum watch_status")
    enc.u32(value, field)


def decode_watch_status(dec: Decoder, field: str = "watch_status") -> watch_status:
    wire_value = dec.u32(field)
    value = _watch_status_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum watch_status", str(wire_value))
    return value


def encode_watch_kind(enc: Encoder, value: watch_kind, field: str = "watch_kind") -> None:
    if value not in _watch_kind_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum watch_kind")
    enc.u32(value, field)


def decode_watch_kind(dec: Decoder, field: str = "watch_kind") -> watch_kind:
    wire_value = dec.u32(field)
    value = _watch_kind_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum watch_kind", str(wire_value))
    return value


def encode_watch_subscribe_args(enc: Encoder, value: watch_subscribe_args) -> None:
    enc.fixed(value.id, 16, "watch_subscribe_args.id")
    enc.opaque(value.directory, 64, "watch_subscribe_args.directory")
    enc.put(_LAYOUT_1, value.recursive, value.resume, value.acknowledged)


def decode_watch_subscribe_args(dec: Decoder) -> watch_subscribe_args:
    id_ = dec.fixed(16, "watch_subscribe_args.id")
    directory_ = dec.opaque(64, "watch_subscribe_args.directory")
    group_values2 = dec.take(_LAYOUT_1, "watch_subscribe_args.recursive..acknowledged")
    if group_values2[0] > 1:
        raise DecodeError("watch_subscribe_args.recursive", dec.pos - dec.start - 16, "0 or 1", str(group_values2[0]))
    if group_values2[1] > 1:
        raise DecodeError("watch_subscribe_args.resume", dec.pos - dec.start - 12, "0 or 1", str(group_values2[1]))
    return watch_subscribe_args(id_, directory_, group_values2[0] == 1, group_values2[1] == 1, group_values2[2])


def encode_watch_subscribed(enc: Encoder, value: watch_subscribed) -> None:
    enc.put(_LAYOUT_2, value.next, value.rescan)


def decode_watch_subscribed(dec: Decoder) -> watch_subscribed:
    group_values = dec.take(_LAYOUT_2, "watch_subscribed.next..rescan")
    if group_values[1] > 1:
        raise DecodeError("watch_subscribed.rescan", dec.pos - dec.start - 4, "0 or 1", str(group_values[1]))
    return watch_subscribed(group_values[0], group_values[1] == 1)


def encode_watch_subscribe_result(enc: Encoder, value: watch_subscribe_result) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, watch_subscribed):
            raise LocalProtocolError(
                f"watch_subscribe_result.value: {type(arm_value).__name__} given, the arm is watch_subscribed"
            )
        encode_watch_subscribed(enc, arm_value)
        return
    encode_watch_status(enc, tag, "watch_subscribe_result.status")
    if arm_value is not None:
        raise LocalProtocolError(f"watch_subscribe_result: {type(arm_value).__name__} given, the arm is void")


def decode_watch_subscribe_result(dec: Decoder) -> watch_subscribe_result:
    wire_value = dec.u32("watch_subscribe_result.status")
    tag = _watch_status_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "watch_subscribe_result.status", dec.pos - dec.start - 4, "a value of enum watch_status", str(wire_value)
        )
    if tag == 0:
        return watch_subscribe_result(tag, decode_watch_subscribed(dec))
    return watch_subscribe_result(tag, None)


def encode_watch_change(enc: Encoder, value: watch_change) -> None:
    enc.put(_LAYOUT_3, value.kind, value.is_directory)
    enc.string(value.path, 4096, "watch_change.path")
    enc.string(value.target, 4096, "watch_change.target")
    encode_watch_status(enc, value.status, "watch_change.status")


def decode_watch_change(dec: Decoder) -> watch_change:
    group_values = dec.take(_LAYOUT_3, "watch_change.kind..is_directory")
    kind_ = _watch_kind_BY_VALUE.get(group_values[0])
    if kind_ is None:
        raise DecodeError(
            "watch_change.kind", dec.pos - dec.start - 8, "a value of enum watch_kind", str(group_values[0])
        )
    if group_values[1] > 1:
        raise DecodeError("watch_change.is_directory", dec.pos - dec.start - 4, "0 or 1", str(group_values[1]))
    path_ = dec.string(4096, "watch_change.path")
    target_ = dec.string(4096, "watch_change.target")
    wire_value = dec.u32("watch_change.status")
    status_ = _watch_status_BY_VALUE.get(wire_value)
    if status_ is None:
        raise DecodeError(
            "watch_change.status", dec.pos - dec.start - 4, "a value of enum watch_status", str(wire_value)
        )
    return watch_change(kind_, group_values[1] == 1, path_, target_, status_)


def encode_watch_batch(enc: Encoder, value: watch_batch) -> None:
    enc.put(_LAYOUT_4, enc.exactly(value.id, 16, "watch_batch.id"), value.first)
    enc.count(len(value.changes), 256, "watch_batch.changes")
    for list_item in value.changes:
        encode_watch_change(enc, list_item)


def decode_watch_batch(dec: Decoder) -> watch_batch:
    group_values = dec.take(_LAYOUT_4, "watch_batch.id..first")
    changes_ = [decode_watch_change(dec) for _ in range(dec.count(256, "watch_batch.changes"))]
    return watch_batch(group_values[0], group_values[1], changes_)


def encode_watch_id(enc: Encoder, value: watch_id) -> None:
    enc.fixed(value, 16, "watch_id")


def decode_watch_id(dec: Decoder) -> watch_id:
    return dec.fixed(16, "watch_id")


def encode_watch_path(enc: Encoder, value: watch_path) -> None:
    enc.string(value, 4096, "watch_path")


def decode_watch_path(dec: Decoder) -> watch_path:
    return dec.string(4096, "watch_path")


def _encode_void(_enc: Encoder, _value: None) -> None:
    """Void: nothing to write."""


def _decode_void(_dec: Decoder) -> None:
    """Void: nothing to read."""


def _encode_unsigned_hyper(enc: Encoder, value: int) -> None:
    enc.put(_LAYOUT_5, value)


def _decode_unsigned_hyper(dec: Decoder) -> int:
    return dec.u64("unsigned_hyper")


WATCHPROC_NULL: Final[Procedure[None, None]] = Procedure(
    program=536874016,
    version=1,
    number=0,
    name="WATCHPROC_NULL",
    method="null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
WATCHPROC_SUBSCRIBE: Final[Procedure[watch_subscribe_args, watch_subscribe_result]] = Procedure(
    program=536874016,
    version=1,
    number=1,
    name="WATCHPROC_SUBSCRIBE",
    method="subscribe",
    encode_args=encode_watch_subscribe_args,
    decode_args=decode_watch_subscribe_args,
    encode_result=encode_watch_subscribe_result,
    decode_result=decode_watch_subscribe_result,
    bound=ReplyBound(16),
    octets_max=OctetsMax(100, 0, 16),
    status=attrgetter("status"),
)
WATCHPROC_UNSUBSCRIBE: Final[Procedure[watch_id, None]] = Procedure(
    program=536874016,
    version=1,
    number=2,
    name="WATCHPROC_UNSUBSCRIBE",
    method="unsubscribe",
    encode_args=encode_watch_id,
    decode_args=decode_watch_id,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(16, 0, 0),
)
NULL: Final = WATCHPROC_NULL
SUBSCRIBE: Final = WATCHPROC_SUBSCRIBE
UNSUBSCRIBE: Final = WATCHPROC_UNSUBSCRIBE

WATCH_V1: Final = Program(
    number=536874016,
    version=1,
    name="WATCH_V1",
    procedures={
        0: WATCHPROC_NULL,
        1: WATCHPROC_SUBSCRIBE,
        2: WATCHPROC_UNSUBSCRIBE,
    },
)


class _WATCH_V1_Methods:
    null = VoidCallMethod(WATCHPROC_NULL)
    subscribe = CallMethod(WATCHPROC_SUBSCRIBE)
    unsubscribe = CallMethod(WATCHPROC_UNSUBSCRIBE)


class WATCH_V1_Client(_WATCH_V1_Methods, ClientStub):
    """Calls the procedures of WATCH_PROGRAM version 1 through a `Caller`, and awaits them."""


class WATCH_V1_SyncClient(_WATCH_V1_Methods, SyncClientStub):
    """Calls the procedures of WATCH_PROGRAM version 1 through a connection of `rpcrdma.sync`."""


class WATCH_V1_Service(Service):
    """Base of services for WATCH_PROGRAM version 1: override the procedures to offer."""

    PROGRAM = WATCH_V1

    def null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers WATCHPROC_NULL."""
        return None

    def subscribe(
        self, args: watch_subscribe_args, context: CallContext
    ) -> Awaitable[watch_subscribe_result] | watch_subscribe_result:
        """Answers WATCHPROC_SUBSCRIBE."""
        raise ProcedureUnavailable("WATCHPROC_SUBSCRIBE")

    def unsubscribe(self, args: watch_id, context: CallContext) -> Awaitable[None] | None:
        """Answers WATCHPROC_UNSUBSCRIBE."""
        raise ProcedureUnavailable("WATCHPROC_UNSUBSCRIBE")


WATCHERPROC_NULL: Final[Procedure[None, None]] = Procedure(
    program=536874017,
    version=1,
    number=0,
    name="WATCHERPROC_NULL",
    method="null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
WATCHERPROC_CHANGES: Final[Procedure[watch_batch, int]] = Procedure(
    program=536874017,
    version=1,
    number=1,
    name="WATCHERPROC_CHANGES",
    method="changes",
    encode_args=encode_watch_batch,
    decode_args=decode_watch_batch,
    encode_result=_encode_unsigned_hyper,
    decode_result=_decode_unsigned_hyper,
    bound=ReplyBound(8),
    octets_max=OctetsMax(2102300, 0, 8),
)
CHANGES: Final = WATCHERPROC_CHANGES

WATCHER_V1: Final = Program(
    number=536874017,
    version=1,
    name="WATCHER_V1",
    procedures={
        0: WATCHERPROC_NULL,
        1: WATCHERPROC_CHANGES,
    },
)


class _WATCHER_V1_Methods:
    null = VoidCallMethod(WATCHERPROC_NULL)
    changes = CallMethod(WATCHERPROC_CHANGES)


class WATCHER_V1_Client(_WATCHER_V1_Methods, ClientStub):
    """Calls the procedures of WATCHER_PROGRAM version 1 through a `Caller`, and awaits them."""


class WATCHER_V1_SyncClient(_WATCHER_V1_Methods, SyncClientStub):
    """Calls the procedures of WATCHER_PROGRAM version 1 through a connection of `rpcrdma.sync`."""


class WATCHER_V1_Service(Service):
    """Base of services for WATCHER_PROGRAM version 1: override the procedures to offer."""

    PROGRAM = WATCHER_V1

    def null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers WATCHERPROC_NULL."""
        return None

    def changes(self, args: watch_batch, context: CallContext) -> Awaitable[int] | int:
        """Answers WATCHERPROC_CHANGES."""
        raise ProcedureUnavailable("WATCHERPROC_CHANGES")
