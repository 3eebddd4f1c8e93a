"""Generated from nfs41.x by `rpcrdma xdr compile`: do not edit."""

# ruff: noqa: A001, A002, A003, ARG001, ARG002, D103, E741, N801, N802, N815, N816, RUF100

from __future__ import annotations

import enum
from collections.abc import Awaitable
from dataclasses import dataclass
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
    "CB41PROC_COMPOUND",
    "CB41PROC_NULL",
    "COMPOUND",
    "NFS41PROC_COMPOUND",
    "NFS41PROC_NULL",
    "NFS41_BITMAP",
    "NFS41_CB",
    "NFS41_DELEGATION_NONE",
    "NFS41_DELEGATION_NONE_WHY",
    "NFS41_DELEGATION_READ",
    "NFS41_DELEGATION_WRITE",
    "NFS41_DENY_NONE",
    "NFS41_FHSIZE",
    "NFS41_MINOR",
    "NFS41_NAME",
    "NFS41_OK",
    "NFS41_OPAQUE",
    "NFS41_OPERATIONS",
    "NFS41_REFERRING",
    "NFS41_SESSION_BACK_CHANNEL",
    "NFS41_SESSION_PERSIST",
    "NFS41_SESSION_RDMA",
    "NFS41_SHARE_READ",
    "NFS41_SHARE_WANT_NO_DELEGATION",
    "NFS41_SHARE_WANT_READ_DELEGATION",
    "NFS41_SHARE_WRITE",
    "NFS41_TAG",
    "NFS41_V4",
    "NULL",
    "NFS41_CB_Client",
    "NFS41_CB_Service",
    "NFS41_CB_SyncClient",
    "NFS41_V4_Client",
    "NFS41_V4_Service",
    "NFS41_V4_SyncClient",
    "decode_nfs41_access_entry",
    "decode_nfs41_argument",
    "decode_nfs41_attributes",
    "decode_nfs41_blocks",
    "decode_nfs41_callback_security",
    "decode_nfs41_cb_argument",
    "decode_nfs41_cb_compound_args",
    "decode_nfs41_cb_compound_res",
    "decode_nfs41_cb_operation",
    "decode_nfs41_cb_res",
    "decode_nfs41_cb_sequence_args",
    "decode_nfs41_cb_sequence_ok",
    "decode_nfs41_cb_sequence_res",
    "decode_nfs41_channel",
    "decode_nfs41_close_args",
    "decode_nfs41_close_res",
    "decode_nfs41_compound_args",
    "decode_nfs41_compound_res",
    "decode_nfs41_create_session_args",
    "decode_nfs41_create_session_ok",
    "decode_nfs41_create_session_res",
    "decode_nfs41_delegation",
    "decode_nfs41_exchange_id_args",
    "decode_nfs41_exchange_id_ok",
    "decode_nfs41_exchange_id_res",
    "decode_nfs41_getattr_res",
    "decode_nfs41_getfh_res",
    "decode_nfs41_handle",
    "decode_nfs41_implementation",
    "decode_nfs41_no_delegation",
    "decode_nfs41_open_args",
    "decode_nfs41_open_claim",
    "decode_nfs41_open_how",
    "decode_nfs41_open_ok",
    "decode_nfs41_open_owner",
    "decode_nfs41_open_res",
    "decode_nfs41_operation",
    "decode_nfs41_protection",
    "decode_nfs41_read_delegation",
    "decode_nfs41_recall_args",
    "decode_nfs41_referring_call",
    "decode_nfs41_referring_calls",
    "decode_nfs41_res",
    "decode_nfs41_sequence_args",
    "decode_nfs41_sequence_ok",
    "decode_nfs41_sequence_res",
    "decode_nfs41_session_id",
    "decode_nfs41_space_limit",
    "decode_nfs41_stateid",
    "decode_nfs41_status",
    "decode_nfs41_text",
    "decode_nfs41_unix_caller",
    "decode_nfs41_write_delegation",
    "encode_nfs41_access_entry",
    "encode_nfs41_argument",
    "encode_nfs41_attributes",
    "encode_nfs41_blocks",
    "encode_nfs41_callback_security",
    "encode_nfs41_cb_argument",
    "encode_nfs41_cb_compound_args",
    "encode_nfs41_cb_compound_res",
    "encode_nfs41_cb_operation",
    "encode_nfs41_cb_res",
    "encode_nfs41_cb_sequence_args",
    "encode_nfs41_cb_sequence_ok",
    "encode_nfs41_cb_sequence_res",
    "encode_nfs41_channel",
    "encode_nfs41_close_args",
    "encode_nfs41_close_res",
    "encode_nfs41_compound_args",
    "encode_nfs41_compound_res",
    "encode_nfs41_create_session_args",
    "encode_nfs41_create_session_ok",
    "encode_nfs41_create_session_res",
    "encode_nfs41_delegation",
    "encode_nfs41_exchange_id_args",
    "encode_nfs41_exchange_id_ok",
    "encode_nfs41_exchange_id_res",
    "encode_nfs41_getattr_res",
    "encode_nfs41_getfh_res",
    "encode_nfs41_handle",
    "encode_nfs41_implementation",
    "encode_nfs41_no_delegation",
    "encode_nfs41_open_args",
    "encode_nfs41_open_claim",
    "encode_nfs41_open_how",
    "encode_nfs41_open_ok",
    "encode_nfs41_open_owner",
    "encode_nfs41_open_res",
    "encode_nfs41_operation",
    "encode_nfs41_protection",
    "encode_nfs41_read_delegation",
    "encode_nfs41_recall_args",
    "encode_nfs41_referring_call",
    "encode_nfs41_referring_calls",
    "encode_nfs41_res",
    "encode_nfs41_sequence_args",
    "encode_nfs41_sequence_ok",
    "encode_nfs41_sequence_res",
    "encode_nfs41_session_id",
    "encode_nfs41_space_limit",
    "encode_nfs41_stateid",
    "encode_nfs41_status",
    "encode_nfs41_text",
    "encode_nfs41_unix_caller",
    "encode_nfs41_write_delegation",
    "nfs41_access_entry",
    "nfs41_argument",
    "nfs41_attributes",
    "nfs41_blocks",
    "nfs41_callback_security",
    "nfs41_cb_argument",
    "nfs41_cb_compound_args",
    "nfs41_cb_compound_res",
    "nfs41_cb_operation",
    "nfs41_cb_res",
    "nfs41_cb_sequence_args",
    "nfs41_cb_sequence_ok",
    "nfs41_cb_sequence_res",
    "nfs41_channel",
    "nfs41_close_args",
    "nfs41_close_res",
    "nfs41_compound_args",
    "nfs41_compound_res",
    "nfs41_create_session_args",
    "nfs41_create_session_ok",
    "nfs41_create_session_res",
    "nfs41_delegation",
    "nfs41_exchange_id_args",
    "nfs41_exchange_id_ok",
    "nfs41_exchange_id_res",
    "nfs41_getattr_res",
    "nfs41_getfh_res",
    "nfs41_handle",
    "nfs41_implementation",
    "nfs41_no_delegation",
    "nfs41_open_args",
    "nfs41_open_claim",
    "nfs41_open_how",
    "nfs41_open_ok",
    "nfs41_open_owner",
    "nfs41_open_res",
    "nfs41_operation",
    "nfs41_protection",
    "nfs41_read_delegation",
    "nfs41_recall_args",
    "nfs41_referring_call",
    "nfs41_referring_calls",
    "nfs41_res",
    "nfs41_sequence_args",
    "nfs41_sequence_ok",
    "nfs41_sequence_res",
    "nfs41_session_id",
    "nfs41_space_limit",
    "nfs41_stateid",
    "nfs41_status",
    "nfs41_text",
    "nfs41_unix_caller",
    "nfs41_write_delegation",
]

NFS41_MINOR: Final = 1
NFS41_FHSIZE: Final = 128
NFS41_OPAQUE: Final = 1024
NFS41_NAME: Final = 255
NFS41_TAG: Final = 256
NFS41_OPERATIONS: Final = 16
NFS41_BITMAP: Final = 8
NFS41_REFERRING: Final = 16
NFS41_OK: Final = 0
NFS41_SESSION_PERSIST: Final = 1
NFS41_SESSION_BACK_CHANNEL: Final = 2
NFS41_SESSION_RDMA: Final = 4
NFS41_SHARE_READ: Final = 1
NFS41_SHARE_WRITE: Final = 2
NFS41_SHARE_WANT_READ_DELEGATION: Final = 256
NFS41_SHARE_WANT_NO_DELEGATION: Final = 1024
NFS41_DENY_NONE: Final = 0
NFS41_DELEGATION_NONE: Final = 0
NFS41_DELEGATION_READ: Final = 1
NFS41_DELEGATION_WRITE: Final = 2
NFS41_DELEGATION_NONE_WHY: Final = 3


class nfs41_operation(enum.IntEnum):
    """XDR enum `nfs41_operation`."""

    OP41_CLOSE = 4
    OP41_DELEGRETURN = 8
    OP41_GETATTR = 9
    OP41_GETFH = 10
    OP41_LOOKUP = 15
    OP41_OPEN = 18
    OP41_PUTFH = 22
    OP41_PUTROOTFH = 24
    OP41_EXCHANGE_ID = 42
    OP41_CREATE_SESSION = 43
    OP41_DESTROY_SESSION = 44
    OP41_SECINFO_NO_NAME = 52
    OP41_SEQUENCE = 53
    OP41_DESTROY_CLIENTID = 57
    OP41_RECLAIM_COMPLETE = 58
    OP41_ILLEGAL = 10044


_nfs41_operation_BY_VALUE: Final = {int(member): member for member in nfs41_operation}


class nfs41_cb_operation(enum.IntEnum):
    """XDR enum `nfs41_cb_operation`."""

    OP41_CB_RECALL = 4
    OP41_CB_SEQUENCE = 11
    OP41_CB_ILLEGAL = 10044


_nfs41_cb_operation_BY_VALUE: Final = {int(member): member for member in nfs41_cb_operation}


@dataclass(slots=True, repr=False, eq=False)
class nfs41_stateid(Composite):
    """XDR struct `nfs41_stateid`."""

    sequence: int
    other: bytes


@dataclass(slots=True, repr=False, eq=False)
class nfs41_implementation(Composite):
    """XDR struct `nfs41_implementation`."""

    domain: nfs41_text
    name: nfs41_text
    seconds: int
    nanoseconds: int


@dataclass(slots=True, repr=False, eq=False)
class nfs41_protection(Composite):
    """XDR union `nfs41_protection`, switched by `how`."""

    how: int
    value: None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_exchange_id_args(Composite):
    """XDR struct `nfs41_exchange_id_args`."""

    verifier: bytes
    owner: nfs41_text
    flags: int
    protection: nfs41_protection
    implementation: list[nfs41_implementation]


@dataclass(slots=True, repr=False, eq=False)
class nfs41_exchange_id_ok(Composite):
    """XDR struct `nfs41_exchange_id_ok`."""

    client_id: int
    sequence: int
    flags: int
    protection: nfs41_protection
    server_minor: int
    server_major: nfs41_text
    scope: nfs41_text
    implementation: list[nfs41_implementation]


@dataclass(slots=True, repr=False, eq=False)
class nfs41_exchange_id_res(Composite):
    """XDR union `nfs41_exchange_id_res`, switched by `status`."""

    status: nfs41_status
    value: nfs41_exchange_id_ok | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_channel(Composite):
    """XDR struct `nfs41_channel`."""

    padding: int
    call_octets_max: int
    reply_octets_max: int
    kept_reply_octets_max: int
    operations_max: int
    slots: int
    rdma_reads: list[int]


@dataclass(slots=True, repr=False, eq=False)
class nfs41_unix_caller(Composite):
    """XDR struct `nfs41_unix_caller`."""

    stamp: int
    machine: str
    uid: int
    gid: int
    gids: list[int]


@dataclass(slots=True, repr=False, eq=False)
class nfs41_callback_security(Composite):
    """XDR union `nfs41_callback_security`, switched by `flavor`."""

    flavor: int
    value: nfs41_unix_caller | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_create_session_args(Composite):
    """XDR struct `nfs41_create_session_args`."""

    client_id: int
    sequence: int
    flags: int
    fore: nfs41_channel
    back: nfs41_channel
    callback_program: int
    callback_security: list[nfs41_callback_security]


@dataclass(slots=True, repr=False, eq=False)
class nfs41_create_session_ok(Composite):
    """XDR struct `nfs41_create_session_ok`."""

    session: nfs41_session_id
    sequence: int
    flags: int
    fore: nfs41_channel
    back: nfs41_channel


@dataclass(slots=True, repr=False, eq=False)
class nfs41_create_session_res(Composite):
    """XDR union `nfs41_create_session_res`, switched by `status`."""

    status: nfs41_status
    value: nfs41_create_session_ok | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_sequence_args(Composite):
    """XDR struct `nfs41_sequence_args`."""

    session: nfs41_session_id
    sequence: int
    slot: int
    highest_slot: int
    keep_reply: bool


@dataclass(slots=True, repr=False, eq=False)
class nfs41_sequence_ok(Composite):
    """XDR struct `nfs41_sequence_ok`."""

    session: nfs41_session_id
    sequence: int
    slot: int
    highest_slot: int
    target_highest_slot: int
    flags: int


@dataclass(slots=True, repr=False, eq=False)
class nfs41_sequence_res(Composite):
    """XDR union `nfs41_sequence_res`, switched by `status`."""

    status: nfs41_status
    value: nfs41_sequence_ok | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_referring_call(Composite):
    """XDR struct `nfs41_referring_call`."""

    sequence: int
    slot: int


@dataclass(slots=True, repr=False, eq=False)
class nfs41_referring_calls(Composite):
    """XDR struct `nfs41_referring_calls`."""

    session: nfs41_session_id
    calls: list[nfs41_referring_call]


@dataclass(slots=True, repr=False, eq=False)
class nfs41_cb_sequence_args(Composite):
    """XDR struct `nfs41_cb_sequence_args`."""

    session: nfs41_session_id
    sequence: int
    slot: int
    highest_slot: int
    keep_reply: bool
    referring: list[nfs41_referring_calls]


@dataclass(slots=True, repr=False, eq=False)
class nfs41_cb_sequence_ok(Composite):
    """XDR struct `nfs41_cb_sequence_ok`."""

    session: nfs41_session_id
    sequence: int
    slot: int
    highest_slot: int
    target_highest_slot: int


@dataclass(slots=True, repr=False, eq=False)
class nfs41_cb_sequence_res(Composite):
    """XDR union `nfs41_cb_sequence_res`, switched by `status`."""

    status: nfs41_status
    value: nfs41_cb_sequence_ok | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_open_owner(Composite):
    """XDR struct `nfs41_open_owner`."""

    client_id: int
    owner: bytes


@dataclass(slots=True, repr=False, eq=False)
class nfs41_open_how(Composite):
    """XDR union `nfs41_open_how`, switched by `create`."""

    create: int
    value: None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_open_claim(Composite):
    """XDR union `nfs41_open_claim`, switched by `claim`."""

    claim: int
    value: bytes | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_open_args(Composite):
    """XDR struct `nfs41_open_args`."""

    sequence: int
    share_access: int
    share_deny: int
    owner: nfs41_open_owner
    how: nfs41_open_how
    claim: nfs41_open_claim


@dataclass(slots=True, repr=False, eq=False)
class nfs41_access_entry(Composite):
    """XDR struct `nfs41_access_entry`."""

    type: int
    flags: int
    mask: int
    who: bytes


@dataclass(slots=True, repr=False, eq=False)
class nfs41_read_delegation(Composite):
    """XDR struct `nfs41_read_delegation`."""

    stateid: nfs41_stateid
    recalled: bool
    permissions: nfs41_access_entry


@dataclass(slots=True, repr=False, eq=False)
class nfs41_blocks(Composite):
    """XDR struct `nfs41_blocks`."""

    blocks: int
    block_octets: int


@dataclass(slots=True, repr=False, eq=False)
class nfs41_space_limit(Composite):
    """XDR union `nfs41_space_limit`, switched by `by`."""

    by: int
    value: int | nfs41_blocks


@dataclass(slots=True, repr=False, eq=False)
class nfs41_write_delegation(Composite):
    """XDR struct `nfs41_write_delegation`."""

    stateid: nfs41_stateid
    recalled: bool
    space: nfs41_space_limit
    permissions: nfs41_access_entry


@dataclass(slots=True, repr=False, eq=False)
class nfs41_no_delegation(Composite):
    """XDR union `nfs41_no_delegation`, switched by `why`."""

    why: int
    value: bool | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_delegation(Composite):
    """XDR union `nfs41_delegation`, switched by `type`."""

    type: int
    value: nfs41_read_delegation | nfs41_write_delegation | nfs41_no_delegation | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_open_ok(Composite):
    """XDR struct `nfs41_open_ok`."""

    stateid: nfs41_stateid
    atomic: bool
    change_before: int
    change_after: int
    flags: int
    attributes_set: list[int]
    delegation: nfs41_delegation


@dataclass(slots=True, repr=False, eq=False)
class nfs41_open_res(Composite):
    """XDR union `nfs41_open_res`, switched by `status`."""

    status: nfs41_status
    value: nfs41_open_ok | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_close_args(Composite):
    """XDR struct `nfs41_close_args`."""

    sequence: int
    stateid: nfs41_stateid


@dataclass(slots=True, repr=False, eq=False)
class nfs41_close_res(Composite):
    """XDR union `nfs41_close_res`, switched by `status`."""

    status: nfs41_status
    value: nfs41_stateid | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_getfh_res(Composite):
    """XDR union `nfs41_getfh_res`, switched by `status`."""

    status: nfs41_status
    value: nfs41_handle | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_attributes(Composite):
    """XDR struct `nfs41_attributes`."""

    attributes: list[int]
    values: bytes


@dataclass(slots=True, repr=False, eq=False)
class nfs41_getattr_res(Composite):
    """XDR union `nfs41_getattr_res`, switched by `status`."""

    status: nfs41_status
    value: nfs41_attributes | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_recall_args(Composite):
    """XDR struct `nfs41_recall_args`."""

    stateid: nfs41_stateid
    truncated: bool
    handle: nfs41_handle


@dataclass(slots=True, repr=False, eq=False)
class nfs41_argument(Composite):
    """XDR union `nfs41_argument`, switched by `operation`."""

    operation: nfs41_operation
    value: (
        nfs41_close_args
        | nfs41_stateid
        | list[int]
        | bytes
        | nfs41_open_args
        | nfs41_handle
        | nfs41_exchange_id_args
        | nfs41_create_session_args
        | nfs41_session_id
        | int
        | nfs41_sequence_args
        | bool
        | None
    )


@dataclass(slots=True, repr=False, eq=False)
class nfs41_res(Composite):
    """XDR union `nfs41_res`, switched by `operation`."""

    operation: nfs41_operation
    value: (
        nfs41_close_res
        | nfs41_getattr_res
        | nfs41_getfh_res
        | nfs41_open_res
        | nfs41_exchange_id_res
        | nfs41_create_session_res
        | nfs41_sequence_res
        | nfs41_status
    )


@dataclass(slots=True, repr=False, eq=False)
class nfs41_compound_args(Composite):
    """XDR struct `nfs41_compound_args`."""

    tag: bytes
    minor_version: int
    operations: list[nfs41_argument]


@dataclass(slots=True, repr=False, eq=False)
class nfs41_compound_res(Composite):
    """XDR struct `nfs41_compound_res`."""

    status: nfs41_status
    tag: bytes
    results: list[nfs41_res]


@dataclass(slots=True, repr=False, eq=False)
class nfs41_cb_argument(Composite):
    """XDR union `nfs41_cb_argument`, switched by `operation`."""

    operation: nfs41_cb_operation
    value: nfs41_recall_args | nfs41_cb_sequence_args | None


@dataclass(slots=True, repr=False, eq=False)
class nfs41_cb_res(Composite):
    """XDR union `nfs41_cb_res`, switched by `operation`."""

    operation: nfs41_cb_operation
    value: nfs41_cb_sequence_res | nfs41_status


@dataclass(slots=True, repr=False, eq=False)
class nfs41_cb_compound_args(Composite):
    """XDR struct `nfs41_cb_compound_args`."""

    tag: bytes
    minor_version: int
    identifier: int
    operations: list[nfs41_cb_argument]


@dataclass(slots=True, repr=False, eq=False)
class nfs41_cb_compound_res(Composite):
    """XDR struct `nfs41_cb_compound_res`."""

    status: nfs41_status
    tag: bytes
    results: list[nfs41_cb_res]


nfs41_status: TypeAlias = int
nfs41_handle: TypeAlias = bytes
nfs41_session_id: TypeAlias = bytes
nfs41_text: TypeAlias = bytes

_LAYOUT_1: Final = Layout.of(">I12s", "nfs41_stateid.sequence", "nfs41_stateid.other")
_LAYOUT_2: Final = Layout.of(">qI", "nfs41_implementation.seconds", "nfs41_implementation.nanoseconds")
_LAYOUT_3: Final = Layout.of(
    ">QII", "nfs41_exchange_id_ok.client_id", "nfs41_exchange_id_ok.sequence", "nfs41_exchange_id_ok.flags"
)
_LAYOUT_4: Final = Layout.of(">Q", "nfs41_exchange_id_ok.server_minor")
_LAYOUT_5: Final = Layout.of(
    ">IIIIII",
    "nfs41_channel.padding",
    "nfs41_channel.call_octets_max",
    "nfs41_channel.reply_octets_max",
    "nfs41_channel.kept_reply_octets_max",
    "nfs41_channel.operations_max",
    "nfs41_channel.slots",
)
_LAYOUT_6: Final = Layout.of(">II", "nfs41_unix_caller.uid", "nfs41_unix_caller.gid")
_LAYOUT_7: Final = Layout.of(
    ">QII",
    "nfs41_create_session_args.client_id",
    "nfs41_create_session_args.sequence",
    "nfs41_create_session_args.flags",
)
_LAYOUT_8: Final = Layout.of(
    ">16sII", "nfs41_create_session_ok.session", "nfs41_create_session_ok.sequence", "nfs41_create_session_ok.flags"
)
_LAYOUT_9: Final = Layout.of(
    ">16sIIII",
    "nfs41_sequence_args.session",
    "nfs41_sequence_args.sequence",
    "nfs41_sequence_args.slot",
    "nfs41_sequence_args.highest_slot",
    "nfs41_sequence_args.keep_reply",
)
_LAYOUT_10: Final = Layout.of(
    ">16sIIIII",
    "nfs41_sequence_ok.session",
    "nfs41_sequence_ok.sequence",
    "nfs41_sequence_ok.slot",
    "nfs41_sequence_ok.highest_slot",
    "nfs41_sequence_ok.target_highest_slot",
    "nfs41_sequence_ok.flags",
)
_LAYOUT_11: Final = Layout.of(">II", "nfs41_referring_call.sequence", "nfs41_referring_call.slot")
_LAYOUT_12: Final = Layout.of(
    ">16sIIII",
    "nfs41_cb_sequence_args.session",
    "nfs41_cb_sequence_args.sequence",
    "nfs41_cb_sequence_args.slot",
    "nfs41_cb_sequence_args.highest_slot",
    "nfs41_cb_sequence_args.keep_reply",
)
_LAYOUT_13: Final = Layout.of(
    ">16sIIII",
    "nfs41_cb_sequence_ok.session",
    "nfs41_cb_sequence_ok.sequence",
    "nfs41_cb_sequence_ok.slot",
    "nfs41_cb_sequence_ok.highest_slot",
    "nfs41_cb_sequence_ok.target_highest_slot",
)
_LAYOUT_14: Final = Layout.of(">Q", "nfs41_open_owner.client_id")
_LAYOUT_15: Final = Layout.of(
    ">III", "nfs41_open_args.sequence", "nfs41_open_args.share_access", "nfs41_open_args.share_deny"
)
_LAYOUT_16: Final = Layout.of(">III", "nfs41_access_entry.type", "nfs41_access_entry.flags", "nfs41_access_entry.mask")
_LAYOUT_17: Final = Layout.of(
    ">I12sI",
    "nfs41_read_delegation.stateid.sequence",
    "nfs41_read_delegation.stateid.other",
    "nfs41_read_delegation.recalled",
)
_LAYOUT_18: Final = Layout.of(">II", "nfs41_blocks.blocks", "nfs41_blocks.block_octets")
_LAYOUT_19: Final = Layout.of(">Q", "nfs41_space_limit.octets")
_LAYOUT_20: Final = Layout.of(
    ">I12sI",
    "nfs41_write_delegation.stateid.sequence",
    "nfs41_write_delegation.stateid.other",
    "nfs41_write_delegation.recalled",
)
_LAYOUT_21: Final = Layout.of(
    ">I12sIQQI",
    "nfs41_open_ok.stateid.sequence",
    "nfs41_open_ok.stateid.other",
    "nfs41_open_ok.atomic",
    "nfs41_open_ok.change_before",
    "nfs41_open_ok.change_after",
    "nfs41_open_ok.flags",
)
_LAYOUT_22: Final = Layout.of(
    ">II12s", "nfs41_close_args.sequence", "nfs41_close_args.stateid.sequence", "nfs41_close_args.stateid.other"
)
_LAYOUT_23: Final = Layout.of(
    ">I12sI", "nfs41_recall_args.stateid.sequence", "nfs41_recall_args.stateid.other", "nfs41_recall_args.truncated"
)
_LAYOUT_24: Final = Layout.of(">Q", "nfs41_argument.client_id")
_LAYOUT_25: Final = Layout.of(">II", "nfs41_cb_compound_args.minor_version", "nfs41_cb_compound_args.identifier")


def encode_nfs41_operation(enc: Encoder, value: nfs41_operation, field: str = "nfs41_operation") -> None:
    if value not in _nfs41_operation_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum nfs41_operation")
    enc.u32(value, field)


def decode_nfs41_operation(dec: Decoder, field: str = "nfs41_operation") -> nfs41_operation:
    wire_value = dec.u32(field)
    value = _nfs41_operation_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum nfs41_operation", str(wire_value))
    return value


def encode_nfs41_cb_operation(enc: Encoder, value: nfs41_cb_operation, field: str = "nfs41_cb_operation") -> None:
    if value not in _nfs41_cb_operation_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum nfs41_cb_operation")
    enc.u32(value, field)


def decode_nfs41_cb_operation(dec: Decoder, field: str = "nfs41_cb_operation") -> nfs41_cb_operation:
    wire_value = dec.u32(field)
    value = _nfs41_cb_operation_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum nfs41_cb_operation", str(wire_value))
    return value


def encode_nfs41_stateid(enc: Encoder, value: nfs41_stateid) -> None:
    enc.put(_LAYOUT_1, value.sequence, enc.exactly(value.other, 12, "nfs41_stateid.other"))


def decode_nfs41_stateid(dec: Decoder) -> nfs41_stateid:
    group_values = dec.take(_LAYOUT_1, "nfs41_stateid.sequence..other")
    return nfs41_stateid(group_values[0], group_values[1])


def encode_nfs41_implementation(enc: Encoder, value: nfs41_implementation) -> None:
    enc.opaque(value.domain, 1024, "nfs41_implementation.domain")
    enc.opaque(value.name, 1024, "nfs41_implementation.name")
    enc.put(_LAYOUT_2, value.seconds, value.nanoseconds)


def decode_nfs41_implementation(dec: Decoder) -> nfs41_implementation:
    domain_ = dec.opaque(1024, "nfs41_implementation.domain")
    name_ = dec.opaque(1024, "nfs41_implementation.name")
    group_values2 = dec.take(_LAYOUT_2, "nfs41_implementation.seconds..nanoseconds")
    return nfs41_implementation(domain_, name_, group_values2[0], group_values2[1])


def encode_nfs41_protection(enc: Encoder, value: nfs41_protection) -> None:
    tag = value.how
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_protection.how")
        if arm_value is not None:
            raise LocalProtocolError(f"nfs41_protection: {type(arm_value).__name__} given, the arm is void")
        return
    raise LocalProtocolError(f"nfs41_protection.how: {tag!r} is no case of union nfs41_protection")


def decode_nfs41_protection(dec: Decoder) -> nfs41_protection:
    tag = dec.u32("nfs41_protection.how")
    if tag == 0:
        return nfs41_protection(tag, None)
    raise DecodeError(
        "nfs41_protection.how", dec.pos - dec.start - 4, "a case of union nfs41_protection", str(int(tag))
    )


def encode_nfs41_exchange_id_args(enc: Encoder, value: nfs41_exchange_id_args) -> None:
    enc.fixed(value.verifier, 8, "nfs41_exchange_id_args.verifier")
    enc.opaque(value.owner, 1024, "nfs41_exchange_id_args.owner")
    enc.u32(value.flags, "nfs41_exchange_id_args.flags")
    encode_nfs41_protection(enc, value.protection)
    enc.count(len(value.implementation), 1, "nfs41_exchange_id_args.implementation")
    for list_item in value.implementation:
        encode_nfs41_implementation(enc, list_item)


def decode_nfs41_exchange_id_args(dec: Decoder) -> nfs41_exchange_id_args:
    verifier_ = dec.fixed(8, "nfs41_exchange_id_args.verifier")
    owner_ = dec.opaque(1024, "nfs41_exchange_id_args.owner")
    flags_ = dec.u32("nfs41_exchange_id_args.flags")
    protection_ = decode_nfs41_protection(dec)
    implementation_ = [
        decode_nfs41_implementation(dec) for _ in range(dec.count(1, "nfs41_exchange_id_args.implementation"))
    ]
    return nfs41_exchange_id_args(verifier_, owner_, flags_, protection_, implementation_)


def encode_nfs41_exchange_id_ok(enc: Encoder, value: nfs41_exchange_id_ok) -> None:
    enc.put(_LAYOUT_3, value.client_id, value.sequence, value.flags)
    encode_nfs41_protection(enc, value.protection)
    enc.put(_LAYOUT_4, value.server_minor)
    enc.opaque(value.server_major, 1024, "nfs41_exchange_id_ok.server_major")
    enc.opaque(value.scope, 1024, "nfs41_exchange_id_ok.scope")
    enc.count(len(value.implementation), 1, "nfs41_exchange_id_ok.implementation")
    for list_item in value.implementation:
        encode_nfs41_implementation(enc, list_item)


def decode_nfs41_exchange_id_ok(dec: Decoder) -> nfs41_exchange_id_ok:
    group_values = dec.take(_LAYOUT_3, "nfs41_exchange_id_ok.client_id..flags")
    protection_ = decode_nfs41_protection(dec)
    server_minor_ = dec.u64("nfs41_exchange_id_ok.server_minor")
    server_major_ = dec.opaque(1024, "nfs41_exchange_id_ok.server_major")
    scope_ = dec.opaque(1024, "nfs41_exchange_id_ok.scope")
    implementation_ = [
        decode_nfs41_implementation(dec) for _ in range(dec.count(1, "nfs41_exchange_id_ok.implementation"))
    ]
    return nfs41_exchange_id_ok(
        group_values[0],
        group_values[1],
        group_values[2],
        protection_,
        server_minor_,
        server_major_,
        scope_,
        implementation_,
    )


def encode_nfs41_exchange_id_res(enc: Encoder, value: nfs41_exchange_id_res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_exchange_id_res.status")
        if not isinstance(arm_value, nfs41_exchange_id_ok):
            raise LocalProtocolError(
                f"nfs41_exchange_id_res.value: {type(arm_value).__name__} given, the arm is nfs41_exchange_id_ok"
            )
        encode_nfs41_exchange_id_ok(enc, arm_value)
        return
    enc.u32(tag, "nfs41_exchange_id_res.status")
    if arm_value is not None:
        raise LocalProtocolError(f"nfs41_exchange_id_res: {type(arm_value).__name__} given, the arm is void")


def decode_nfs41_exchange_id_res(dec: Decoder) -> nfs41_exchange_id_res:
    tag = dec.u32("nfs41_exchange_id_res.status")
    if tag == 0:
        return nfs41_exchange_id_res(tag, decode_nfs41_exchange_id_ok(dec))
    return nfs41_exchange_id_res(tag, None)


def encode_nfs41_channel(enc: Encoder, value: nfs41_channel) -> None:
    enc.put(
        _LAYOUT_5,
        value.padding,
        value.call_octets_max,
        value.reply_octets_max,
        value.kept_reply_octets_max,
        value.operations_max,
        value.slots,
    )
    enc.count(len(value.rdma_reads), 1, "nfs41_channel.rdma_reads")
    enc.numbers("I", value.rdma_reads, "nfs41_channel.rdma_reads")


def decode_nfs41_channel(dec: Decoder) -> nfs41_channel:
    group_values = dec.take(_LAYOUT_5, "nfs41_channel.padding..slots")
    rdma_reads_ = dec.numbers("I", dec.count(1, "nfs41_channel.rdma_reads"), "nfs41_channel.rdma_reads")
    return nfs41_channel(
        group_values[0],
        group_values[1],
        group_values[2],
        group_values[3],
        group_values[4],
        group_values[5],
        rdma_reads_,
    )


def encode_nfs41_unix_caller(enc: Encoder, value: nfs41_unix_caller) -> None:
    enc.u32(value.stamp, "nfs41_unix_caller.stamp")
    enc.string(value.machine, 255, "nfs41_unix_caller.machine")
    enc.put(_LAYOUT_6, value.uid, value.gid)
    enc.count(len(value.gids), 16, "nfs41_unix_caller.gids")
    enc.numbers("I", value.gids, "nfs41_unix_caller.gids")


def decode_nfs41_unix_caller(dec: Decoder) -> nfs41_unix_caller:
    stamp_ = dec.u32("nfs41_unix_caller.stamp")
    machine_ = dec.string(255, "nfs41_unix_caller.machine")
    group_values2 = dec.take(_LAYOUT_6, "nfs41_unix_caller.uid..gid")
    gids_ = dec.numbers("I", dec.count(16, "nfs41_unix_caller.gids"), "nfs41_unix_caller.gids")
    return nfs41_unix_caller(stamp_, machine_, group_values2[0], group_values2[1], gids_)


def encode_nfs41_callback_security(enc: Encoder, value: nfs41_callback_security) -> None:
    tag = value.flavor
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_callback_security.flavor")
        if arm_value is not None:
            raise LocalProtocolError(f"nfs41_callback_security: {type(arm_value).__name__} given, the arm is void")
        return
    if tag == 1:
        enc.u32(tag, "nfs41_callback_security.flavor")
        if not isinstance(arm_value, nfs41_unix_caller):
            raise LocalProtocolError(
                f"nfs41_callback_security.unix_caller: {type(arm_value).__name__} given, the arm is nfs41_unix_caller"
            )
        encode_nfs41_unix_caller(enc, arm_value)
        return
    raise LocalProtocolError(f"nfs41_callback_security.flavor: {tag!r} is no case of union nfs41_callback_security")


def decode_nfs41_callback_security(dec: Decoder) -> nfs41_callback_security:
    tag = dec.u32("nfs41_callback_security.flavor")
    if tag == 0:
        return nfs41_callback_security(tag, None)
    if tag == 1:
        return nfs41_callback_security(tag, decode_nfs41_unix_caller(dec))
    raise DecodeError(
        "nfs41_callback_security.flavor",
        dec.pos - dec.start - 4,
        "a case of union nfs41_callback_security",
        str(int(tag)),
    )


def encode_nfs41_create_session_args(enc: Encoder, value: nfs41_create_session_args) -> None:
    enc.put(_LAYOUT_7, value.client_id, value.sequence, value.flags)
    encode_nfs41_channel(enc, value.fore)
    encode_nfs41_channel(enc, value.back)
    enc.u32(value.callback_program, "nfs41_create_session_args.callback_program")
    enc.count(len(value.callback_security), 2, "nfs41_create_session_args.callback_security")
    for list_item in value.callback_security:
        encode_nfs41_callback_security(enc, list_item)


def decode_nfs41_create_session_args(dec: Decoder) -> nfs41_create_session_args:
    group_values = dec.take(_LAYOUT_7, "nfs41_create_session_args.client_id..flags")
    fore_ = decode_nfs41_channel(dec)
    back_ = decode_nfs41_channel(dec)
    callback_program_ = dec.u32("nfs41_create_session_args.callback_program")
    callback_security_ = [
        decode_nfs41_callback_security(dec) for _ in range(dec.count(2, "nfs41_create_session_args.callback_security"))
    ]
    return nfs41_create_session_args(
        group_values[0], group_values[1], group_values[2], fore_, back_, callback_program_, callback_security_
    )


def encode_nfs41_create_session_ok(enc: Encoder, value: nfs41_create_session_ok) -> None:
    enc.put(_LAYOUT_8, enc.exactly(value.session, 16, "nfs41_create_session_ok.session"), value.sequence, value.flags)
    encode_nfs41_channel(enc, value.fore)
    encode_nfs41_channel(enc, value.back)


def decode_nfs41_create_session_ok(dec: Decoder) -> nfs41_create_session_ok:
    group_values = dec.take(_LAYOUT_8, "nfs41_create_session_ok.session..flags")
    fore_ = decode_nfs41_channel(dec)
    back_ = decode_nfs41_channel(dec)
    return nfs41_create_session_ok(group_values[0], group_values[1], group_values[2], fore_, back_)


def encode_nfs41_create_session_res(enc: Encoder, value: nfs41_create_session_res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_create_session_res.status")
        if not isinstance(arm_value, nfs41_create_session_ok):
            raise LocalProtocolError(
                f"nfs41_create_session_res.value: {type(arm_value).__name__} given, the arm is nfs41_create_session_ok"
            )
        encode_nfs41_create_session_ok(enc, arm_value)
        return
    enc.u32(tag, "nfs41_create_session_res.status")
    if arm_value is not None:
        raise LocalProtocolError(f"nfs41_create_session_res: {type(arm_value).__name__} given, the arm is void")


def decode_nfs41_create_session_res(dec: Decoder) -> nfs41_create_session_res:
    tag = dec.u32("nfs41_create_session_res.status")
    if tag == 0:
        return nfs41_create_session_res(tag, decode_nfs41_create_session_ok(dec))
    return nfs41_create_session_res(tag, None)


def encode_nfs41_sequence_args(enc: Encoder, value: nfs41_sequence_args) -> None:
    if value.keep_reply not in {0, 1}:
        raise LocalProtocolError(f"nfs41_sequence_args.keep_reply: {value.keep_reply!r} is no bool")
    enc.put(
        _LAYOUT_9,
        enc.exactly(value.session, 16, "nfs41_sequence_args.session"),
        value.sequence,
        value.slot,
        value.highest_slot,
        value.keep_reply,
    )


def decode_nfs41_sequence_args(dec: Decoder) -> nfs41_sequence_args:
    group_values = dec.take(_LAYOUT_9, "nfs41_sequence_args.session..keep_reply")
    if group_values[4] > 1:
        raise DecodeError("nfs41_sequence_args.keep_reply", dec.pos - dec.start - 4, "0 or 1", str(group_values[4]))
    return nfs41_sequence_args(group_values[0], group_values[1], group_values[2], group_values[3], group_values[4] == 1)


def encode_nfs41_sequence_ok(enc: Encoder, value: nfs41_sequence_ok) -> None:
    enc.put(
        _LAYOUT_10,
        enc.exactly(value.session, 16, "nfs41_sequence_ok.session"),
        value.sequence,
        value.slot,
        value.highest_slot,
        value.target_highest_slot,
        value.flags,
    )


def decode_nfs41_sequence_ok(dec: Decoder) -> nfs41_sequence_ok:
    group_values = dec.take(_LAYOUT_10, "nfs41_sequence_ok.session..flags")
    return nfs41_sequence_ok(
        group_values[0], group_values[1], group_values[2], group_values[3], group_values[4], group_values[5]
    )


def encode_nfs41_sequence_res(enc: Encoder, value: nfs41_sequence_res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_sequence_res.status")
        if not isinstance(arm_value, nfs41_sequence_ok):
            raise LocalProtocolError(
                f"nfs41_sequence_res.value: {type(arm_value).__name__} given, the arm is nfs41_sequence_ok"
            )
        encode_nfs41_sequence_ok(enc, arm_value)
        return
    enc.u32(tag, "nfs41_sequence_res.status")
    if arm_value is not None:
        raise LocalProtocolError(f"nfs41_sequence_res: {type(arm_value).__name__} given, the arm is void")


def decode_nfs41_sequence_res(dec: Decoder) -> nfs41_sequence_res:
    tag = dec.u32("nfs41_sequence_res.status")
    if tag == 0:
        return nfs41_sequence_res(tag, decode_nfs41_sequence_ok(dec))
    return nfs41_sequence_res(tag, None)


def encode_nfs41_referring_call(enc: Encoder, value: nfs41_referring_call) -> None:
    enc.put(_LAYOUT_11, value.sequence, value.slot)


def decode_nfs41_referring_call(dec: Decoder) -> nfs41_referring_call:
    group_values = dec.take(_LAYOUT_11, "nfs41_referring_call.sequence..slot")
    return nfs41_referring_call(group_values[0], group_values[1])


def encode_nfs41_referring_calls(enc: Encoder, value: nfs41_referring_calls) -> None:
    enc.fixed(value.session, 16, "nfs41_referring_calls.session")
    enc.count(len(value.calls), 16, "nfs41_referring_calls.calls")
    for list_item in value.calls:
        encode_nfs41_referring_call(enc, list_item)


def decode_nfs41_referring_calls(dec: Decoder) -> nfs41_referring_calls:
    session_ = dec.fixed(16, "nfs41_referring_calls.session")
    calls_ = [decode_nfs41_referring_call(dec) for _ in range(dec.count(16, "nfs41_referring_calls.calls"))]
    return nfs41_referring_calls(session_, calls_)


def encode_nfs41_cb_sequence_args(enc: Encoder, value: nfs41_cb_sequence_args) -> None:
    if value.keep_reply not in {0, 1}:
        raise LocalProtocolError(f"nfs41_cb_sequence_args.keep_reply: {value.keep_reply!r} is no bool")
    enc.put(
        _LAYOUT_12,
        enc.exactly(value.session, 16, "nfs41_cb_sequence_args.session"),
        value.sequence,
        value.slot,
        value.highest_slot,
        value.keep_reply,
    )
    enc.count(len(value.referring), 16, "nfs41_cb_sequence_args.referring")
    for list_item in value.referring:
        encode_nfs41_referring_calls(enc, list_item)


def decode_nfs41_cb_sequence_args(dec: Decoder) -> nfs41_cb_sequence_args:
    group_values = dec.take(_LAYOUT_12, "nfs41_cb_sequence_args.session..keep_reply")
    if group_values[4] > 1:
        raise DecodeError("nfs41_cb_sequence_args.keep_reply", dec.pos - dec.start - 4, "0 or 1", str(group_values[4]))
    referring_ = [decode_nfs41_referring_calls(dec) for _ in range(dec.count(16, "nfs41_cb_sequence_args.referring"))]
    return nfs41_cb_sequence_args(
        group_values[0], group_values[1], group_values[2], group_values[3], group_values[4] == 1, referring_
    )


def encode_nfs41_cb_sequence_ok(enc: Encoder, value: nfs41_cb_sequence_ok) -> None:
    enc.put(
        _LAYOUT_13,
        enc.exactly(value.session, 16, "nfs41_cb_sequence_ok.session"),
        value.sequence,
        value.slot,
        value.highest_slot,
        value.target_highest_slot,
    )


def decode_nfs41_cb_sequence_ok(dec: Decoder) -> nfs41_cb_sequence_ok:
    group_values = dec.take(_LAYOUT_13, "nfs41_cb_sequence_ok.session..target_highest_slot")
    return nfs41_cb_sequence_ok(group_values[0], group_values[1], group_values[2], group_values[3], group_values[4])


def encode_nfs41_cb_sequence_res(enc: Encoder, value: nfs41_cb_sequence_res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_cb_sequence_res.status")
        if not isinstance(arm_value, nfs41_cb_sequence_ok):
            raise LocalProtocolError(
                f"nfs41_cb_sequence_res.value: {type(arm_value).__name__} given, the arm is nfs41_cb_sequence_ok"
            )
        encode_nfs41_cb_sequence_ok(enc, arm_value)
        return
    enc.u32(tag, "nfs41_cb_sequence_res.status")
    if arm_value is not None:
        raise LocalProtocolError(f"nfs41_cb_sequence_res: {type(arm_value).__name__} given, the arm is void")


def decode_nfs41_cb_sequence_res(dec: Decoder) -> nfs41_cb_sequence_res:
    tag = dec.u32("nfs41_cb_sequence_res.status")
    if tag == 0:
        return nfs41_cb_sequence_res(tag, decode_nfs41_cb_sequence_ok(dec))
    return nfs41_cb_sequence_res(tag, None)


def encode_nfs41_open_owner(enc: Encoder, value: nfs41_open_owner) -> None:
    enc.put(_LAYOUT_14, value.client_id)
    enc.opaque(value.owner, 1024, "nfs41_open_owner.owner")


def decode_nfs41_open_owner(dec: Decoder) -> nfs41_open_owner:
    client_id_ = dec.u64("nfs41_open_owner.client_id")
    owner_ = dec.opaque(1024, "nfs41_open_owner.owner")
    return nfs41_open_owner(client_id_, owner_)


def encode_nfs41_open_how(enc: Encoder, value: nfs41_open_how) -> None:
    tag = value.create
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_open_how.create")
        if arm_value is not None:
            raise LocalProtocolError(f"nfs41_open_how: {type(arm_value).__name__} given, the arm is void")
        return
    raise LocalProtocolError(f"nfs41_open_how.create: {tag!r} is no case of union nfs41_open_how")


def decode_nfs41_open_how(dec: Decoder) -> nfs41_open_how:
    tag = dec.u32("nfs41_open_how.create")
    if tag == 0:
        return nfs41_open_how(tag, None)
    raise DecodeError("nfs41_open_how.create", dec.pos - dec.start - 4, "a case of union nfs41_open_how", str(int(tag)))


def encode_nfs41_open_claim(enc: Encoder, value: nfs41_open_claim) -> None:
    tag = value.claim
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_open_claim.claim")
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"nfs41_open_claim.name: {type(arm_value).__name__} given, the arm is opaque")
        enc.opaque(arm_value, 255, "nfs41_open_claim.name")
        return
    if tag == 4:
        enc.u32(tag, "nfs41_open_claim.claim")
        if arm_value is not None:
            raise LocalProtocolError(f"nfs41_open_claim: {type(arm_value).__name__} given, the arm is void")
        return
    raise LocalProtocolError(f"nfs41_open_claim.claim: {tag!r} is no case of union nfs41_open_claim")


def decode_nfs41_open_claim(dec: Decoder) -> nfs41_open_claim:
    tag = dec.u32("nfs41_open_claim.claim")
    if tag == 0:
        return nfs41_open_claim(tag, dec.opaque(255, "nfs41_open_claim.name"))
    if tag == 4:
        return nfs41_open_claim(tag, None)
    raise DecodeError(
        "nfs41_open_claim.claim", dec.pos - dec.start - 4, "a case of union nfs41_open_claim", str(int(tag))
    )


def encode_nfs41_open_args(enc: Encoder, value: nfs41_open_args) -> None:
    enc.put(_LAYOUT_15, value.sequence, value.share_access, value.share_deny)
    encode_nfs41_open_owner(enc, value.owner)
    encode_nfs41_open_how(enc, value.how)
    encode_nfs41_open_claim(enc, value.claim)


def decode_nfs41_open_args(dec: Decoder) -> nfs41_open_args:
    group_values = dec.take(_LAYOUT_15, "nfs41_open_args.sequence..share_deny")
    owner_ = decode_nfs41_open_owner(dec)
    how_ = decode_nfs41_open_how(dec)
    claim_ = decode_nfs41_open_claim(dec)
    return nfs41_open_args(group_values[0], group_values[1], group_values[2], owner_, how_, claim_)


def encode_nfs41_access_entry(enc: Encoder, value: nfs41_access_entry) -> None:
    enc.put(_LAYOUT_16, value.type, value.flags, value.mask)
    enc.opaque(value.who, 1024, "nfs41_access_entry.who")


def decode_nfs41_access_entry(dec: Decoder) -> nfs41_access_entry:
    group_values = dec.take(_LAYOUT_16, "nfs41_access_entry.type..mask")
    who_ = dec.opaque(1024, "nfs41_access_entry.who")
    return nfs41_access_entry(group_values[0], group_values[1], group_values[2], who_)


def encode_nfs41_read_delegation(enc: Encoder, value: nfs41_read_delegation) -> None:
    if value.recalled not in {0, 1}:
        raise LocalProtocolError(f"nfs41_read_delegation.recalled: {value.recalled!r} is no bool")
    enc.put(
        _LAYOUT_17,
        value.stateid.sequence,
        enc.exactly(value.stateid.other, 12, "nfs41_read_delegation.stateid.other"),
        value.recalled,
    )
    encode_nfs41_access_entry(enc, value.permissions)


def decode_nfs41_read_delegation(dec: Decoder) -> nfs41_read_delegation:
    group_values = dec.take(_LAYOUT_17, "nfs41_read_delegation.stateid.sequence..recalled")
    if group_values[2] > 1:
        raise DecodeError("nfs41_read_delegation.recalled", dec.pos - dec.start - 4, "0 or 1", str(group_values[2]))
    permissions_ = decode_nfs41_access_entry(dec)
    return nfs41_read_delegation(nfs41_stateid(group_values[0], group_values[1]), group_values[2] == 1, permissions_)


def encode_nfs41_blocks(enc: Encoder, value: nfs41_blocks) -> None:
    enc.put(_LAYOUT_18, value.blocks, value.block_octets)


def decode_nfs41_blocks(dec: Decoder) -> nfs41_blocks:
    group_values = dec.take(_LAYOUT_18, "nfs41_blocks.blocks..block_octets")
    return nfs41_blocks(group_values[0], group_values[1])


def encode_nfs41_space_limit(enc: Encoder, value: nfs41_space_limit) -> None:
    tag = value.by
    arm_value: Any = value.value
    if tag == 1:
        enc.u32(tag, "nfs41_space_limit.by")
        enc.put(_LAYOUT_19, arm_value)
        return
    if tag == 2:
        enc.u32(tag, "nfs41_space_limit.by")
        if not isinstance(arm_value, nfs41_blocks):
            raise LocalProtocolError(
                f"nfs41_space_limit.blocks: {type(arm_value).__name__} given, the arm is nfs41_blocks"
            )
        encode_nfs41_blocks(enc, arm_value)
        return
    raise LocalProtocolError(f"nfs41_space_limit.by: {tag!r} is no case of union nfs41_space_limit")


def decode_nfs41_space_limit(dec: Decoder) -> nfs41_space_limit:
    tag = dec.u32("nfs41_space_limit.by")
    if tag == 1:
        return nfs41_space_limit(tag, dec.u64("nfs41_space_limit.octets"))
    if tag == 2:
        return nfs41_space_limit(tag, decode_nfs41_blocks(dec))
    raise DecodeError(
        "nfs41_space_limit.by", dec.pos - dec.start - 4, "a case of union nfs41_space_limit", str(int(tag))
    )


def encode_nfs41_write_delegation(enc: Encoder, value: nfs41_write_delegation) -> None:
    if value.recalled not in {0, 1}:
        raise LocalProtocolError(f"nfs41_write_delegation.recalled: {value.recalled!r} is no bool")
    enc.put(
        _LAYOUT_20,
        value.stateid.sequence,
        enc.exactly(value.stateid.other, 12, "nfs41_write_delegation.stateid.other"),
        value.recalled,
    )
    encode_nfs41_space_limit(enc, value.space)
    encode_nfs41_access_entry(enc, value.permissions)


def decode_nfs41_write_delegation(dec: Decoder) -> nfs41_write_delegation:
    group_values = dec.take(_LAYOUT_20, "nfs41_write_delegation.stateid.sequence..recalled")
    if group_values[2] > 1:
        raise DecodeError("nfs41_write_delegation.recalled", dec.pos - dec.start - 4, "0 or 1", str(group_values[2]))
    space_ = decode_nfs41_space_limit(dec)
    permissions_ = decode_nfs41_access_entry(dec)
    return nfs41_write_delegation(
        nfs41_stateid(group_values[0], group_values[1]), group_values[2] == 1, space_, permissions_
    )


def encode_nfs41_no_delegation(enc: Encoder, value: nfs41_no_delegation) -> None:
    tag = value.why
    arm_value: Any = value.value
    if tag == 1:
        enc.u32(tag, "nfs41_no_delegation.why")
        if arm_value not in {0, 1}:
            raise LocalProtocolError(f"nfs41_no_delegation.will_push: {arm_value!r} is no bool")
        enc.u32(arm_value, "nfs41_no_delegation.will_push")
        return
    if tag == 2:
        enc.u32(tag, "nfs41_no_delegation.why")
        if arm_value not in {0, 1}:
            raise LocalProtocolError(f"nfs41_no_delegation.will_signal: {arm_value!r} is no bool")
        enc.u32(arm_value, "nfs41_no_delegation.will_signal")
        return
    enc.u32(tag, "nfs41_no_delegation.why")
    if arm_value is not None:
        raise LocalProtocolError(f"nfs41_no_delegation: {type(arm_value).__name__} given, the arm is void")


def decode_nfs41_no_delegation(dec: Decoder) -> nfs41_no_delegation:
    tag = dec.u32("nfs41_no_delegation.why")
    if tag == 1:
        return nfs41_no_delegation(tag, dec.boolean("nfs41_no_delegation.will_push"))
    if tag == 2:
        return nfs41_no_delegation(tag, dec.boolean("nfs41_no_delegation.will_signal"))
    return nfs41_no_delegation(tag, None)


def encode_nfs41_delegation(enc: Encoder, value: nfs41_delegation) -> None:
    tag = value.type
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_delegation.type")
        if arm_value is not None:
            raise LocalProtocolError(f"nfs41_delegation: {type(arm_value).__name__} given, the arm is void")
        return
    if tag == 1:
        enc.u32(tag, "nfs41_delegation.type")
        if not isinstance(arm_value, nfs41_read_delegation):
            raise LocalProtocolError(
                f"nfs41_delegation.read: {type(arm_value).__name__} given, the arm is nfs41_read_delegation"
            )
        encode_nfs41_read_delegation(enc, arm_value)
        return
    if tag == 2:
        enc.u32(tag, "nfs41_delegation.type")
        if not isinstance(arm_value, nfs41_write_delegation):
            raise LocalProtocolError(
                f"nfs41_delegation.write: {type(arm_value).__name__} given, the arm is nfs41_write_delegation"
            )
        encode_nfs41_write_delegation(enc, arm_value)
        return
    if tag == 3:
        enc.u32(tag, "nfs41_delegation.type")
        if not isinstance(arm_value, nfs41_no_delegation):
            raise LocalProtocolError(
                f"nfs41_delegation.none: {type(arm_value).__name__} given, the arm is nfs41_no_delegation"
            )
        encode_nfs41_no_delegation(enc, arm_value)
        return
    raise LocalProtocolError(f"nfs41_delegation.type: {tag!r} is no case of union nfs41_delegation")


def decode_nfs41_delegation(dec: Decoder) -> nfs41_delegation:
    tag = dec.u32("nfs41_delegation.type")
    if tag == 0:
        return nfs41_delegation(tag, None)
    if tag == 1:
        return nfs41_delegation(tag, decode_nfs41_read_delegation(dec))
    if tag == 2:
        return nfs41_delegation(tag, decode_nfs41_write_delegation(dec))
    if tag == 3:
        return nfs41_delegation(tag, decode_nfs41_no_delegation(dec))
    raise DecodeError(
        "nfs41_delegation.type", dec.pos - dec.start - 4, "a case of union nfs41_delegation", str(int(tag))
    )


def encode_nfs41_open_ok(enc: Encoder, value: nfs41_open_ok) -> None:
    if value.atomic not in {0, 1}:
        raise LocalProtocolError(f"nfs41_open_ok.atomic: {value.atomic!r} is no bool")
    enc.put(
        _LAYOUT_21,
        value.stateid.sequence,
        enc.exactly(value.stateid.other, 12, "nfs41_open_ok.stateid.other"),
        value.atomic,
        value.change_before,
        value.change_after,
        value.flags,
    )
    enc.count(len(value.attributes_set), 8, "nfs41_open_ok.attributes_set")
    enc.numbers("I", value.attributes_set, "nfs41_open_ok.attributes_set")
    encode_nfs41_delegation(enc, value.delegation)


def decode_nfs41_open_ok(dec: Decoder) -> nfs41_open_ok:
    group_values = dec.take(_LAYOUT_21, "nfs41_open_ok.stateid.sequence..flags")
    if group_values[2] > 1:
        raise DecodeError("nfs41_open_ok.atomic", dec.pos - dec.start - 24, "0 or 1", str(group_values[2]))
    attributes_set_ = dec.numbers("I", dec.count(8, "nfs41_open_ok.attributes_set"), "nfs41_open_ok.attributes_set")
    delegation_ = decode_nfs41_delegation(dec)
    return nfs41_open_ok(
        nfs41_stateid(group_values[0], group_values[1]),
        group_values[2] == 1,
        group_values[3],
        group_values[4],
        group_values[5],
        attributes_set_,
        delegation_,
    )


def encode_nfs41_open_res(enc: Encoder, value: nfs41_open_res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_open_res.status")
        if not isinstance(arm_value, nfs41_open_ok):
            raise LocalProtocolError(
                f"nfs41_open_res.value: {type(arm_value).__name__} given, the arm is nfs41_open_ok"
            )
        encode_nfs41_open_ok(enc, arm_value)
        return
    enc.u32(tag, "nfs41_open_res.status")
    if arm_value is not None:
        raise LocalProtocolError(f"nfs41_open_res: {type(arm_value).__name__} given, the arm is void")


def decode_nfs41_open_res(dec: Decoder) -> nfs41_open_res:
    tag = dec.u32("nfs41_open_res.status")
    if tag == 0:
        return nfs41_open_res(tag, decode_nfs41_open_ok(dec))
    return nfs41_open_res(tag, None)


def encode_nfs41_close_args(enc: Encoder, value: nfs41_close_args) -> None:
    enc.put(
        _LAYOUT_22,
        value.sequence,
        value.stateid.sequence,
        enc.exactly(value.stateid.other, 12, "nfs41_close_args.stateid.other"),
    )


def decode_nfs41_close_args(dec: Decoder) -> nfs41_close_args:
    group_values = dec.take(_LAYOUT_22, "nfs41_close_args.sequence..stateid.other")
    return nfs41_close_args(group_values[0], nfs41_stateid(group_values[1], group_values[2]))


def encode_nfs41_close_res(enc: Encoder, value: nfs41_close_res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_close_res.status")
        if not isinstance(arm_value, nfs41_stateid):
            raise LocalProtocolError(
                f"nfs41_close_res.value: {type(arm_value).__name__} given, the arm is nfs41_stateid"
            )
        encode_nfs41_stateid(enc, arm_value)
        return
    enc.u32(tag, "nfs41_close_res.status")
    if arm_value is not None:
        raise LocalProtocolError(f"nfs41_close_res: {type(arm_value).__name__} given, the arm is void")


def decode_nfs41_close_res(dec: Decoder) -> nfs41_close_res:
    tag = dec.u32("nfs41_close_res.status")
    if tag == 0:
        return nfs41_close_res(tag, decode_nfs41_stateid(dec))
    return nfs41_close_res(tag, None)


def encode_nfs41_getfh_res(enc: Encoder, value: nfs41_getfh_res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_getfh_res.status")
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"nfs41_getfh_res.value: {type(arm_value).__name__} given, the arm is opaque")
        enc.opaque(arm_value, 128, "nfs41_getfh_res.value")
        return
    enc.u32(tag, "nfs41_getfh_res.status")
    if arm_value is not None:
        raise LocalProtocolError(f"nfs41_getfh_res: {type(arm_value).__name__} given, the arm is void")


def decode_nfs41_getfh_res(dec: Decoder) -> nfs41_getfh_res:
    tag = dec.u32("nfs41_getfh_res.status")
    if tag == 0:
        return nfs41_getfh_res(tag, dec.opaque(128, "nfs41_getfh_res.value"))
    return nfs41_getfh_res(tag, None)


def encode_nfs41_attributes(enc: Encoder, value: nfs41_attributes) -> None:
    enc.count(len(value.attributes), 8, "nfs41_attributes.attributes")
    enc.numbers("I", value.attributes, "nfs41_attributes.attributes")
    enc.opaque(value.values, 1024, "nfs41_attributes.values")


def decode_nfs41_attributes(dec: Decoder) -> nfs41_attributes:
    attributes_ = dec.numbers("I", dec.count(8, "nfs41_attributes.attributes"), "nfs41_attributes.attributes")
    values_ = dec.opaque(1024, "nfs41_attributes.values")
    return nfs41_attributes(attributes_, values_)


def encode_nfs41_getattr_res(enc: Encoder, value: nfs41_getattr_res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "nfs41_getattr_res.status")
        if not isinstance(arm_value, nfs41_attributes):
            raise LocalProtocolError(
                f"nfs41_getattr_res.value: {type(arm_value).__name__} given, the arm is nfs41_attributes"
            )
        encode_nfs41_attributes(enc, arm_value)
        return
    enc.u32(tag, "nfs41_getattr_res.status")
    if arm_value is not None:
        raise LocalProtocolError(f"nfs41_getattr_res: {type(arm_value).__name__} given, the arm is void")


def decode_nfs41_getattr_res(dec: Decoder) -> nfs41_getattr_res:
    tag = dec.u32("nfs41_getattr_res.status")
    if tag == 0:
        return nfs41_getattr_res(tag, decode_nfs41_attributes(dec))
    return nfs41_getattr_res(tag, None)


def encode_nfs41_recall_args(enc: Encoder, value: nfs41_recall_args) -> None:
    if value.truncated not in {0, 1}:
        raise LocalProtocolError(f"nfs41_recall_args.truncated: {value.truncated!r} is no bool")
    enc.put(
        _LAYOUT_23,
        value.stateid.sequence,
        enc.exactly(value.stateid.other, 12, "nfs41_recall_args.stateid.other"),
        value.truncated,
    )
    enc.opaque(value.handle, 128, "nfs41_recall_args.handle")


def decode_nfs41_recall_args(dec: Decoder) -> nfs41_recall_args:
    group_values = dec.take(_LAYOUT_23, "nfs41_recall_args.stateid.sequence..truncated")
    if group_values[2] > 1:
        raise DecodeError("nfs41_recall_args.truncated", dec.pos - dec.start - 4, "0 or 1", str(group_values[2]))
    handle_ = dec.opaque(128, "nfs41_recall_args.handle")
    return nfs41_recall_args(nfs41_stateid(group_values[0], group_values[1]), group_values[2] == 1, handle_)


def encode_nfs41_argument(enc: Encoder, value: nfs41_argument) -> None:
    tag = value.operation
    arm_value: Any = value.value
    if tag == 4:
        enc.reduced += b"\x00\x00\x00\x04"
        if not isinstance(arm_value, nfs41_close_args):
            raise LocalProtocolError(
                f"nfs41_argument.close: {type(arm_value).__name__} given, the arm is nfs41_close_args"
            )
        encode_nfs41_close_args(enc, arm_value)
        return
    if tag == 8:
        enc.reduced += b"\x00\x00\x00\x08"
        if not isinstance(arm_value, nfs41_stateid):
            raise LocalProtocolError(
                f"nfs41_argument.stateid: {type(arm_value).__name__} given, the arm is nfs41_stateid"
            )
        encode_nfs41_stateid(enc, arm_value)
        return
    if tag == 9:
        enc.reduced += b"\x00\x00\x00\x09"
        if not isinstance(arm_value, list):
            raise LocalProtocolError(f"nfs41_argument.attributes: {type(arm_value).__name__} given, the arm is a list")
        enc.count(len(arm_value), 8, "nfs41_argument.attributes")
        enc.numbers("I", arm_value, "nfs41_argument.attributes")
        return
    if tag in {10, 24, 10044}:
        enc.u32(tag, "nfs41_argument.operation")
        if arm_value is not None:
            raise LocalProtocolError(f"nfs41_argument: {type(arm_value).__name__} given, the arm is void")
        return
    if tag == 15:
        enc.reduced += b"\x00\x00\x00\x0f"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"nfs41_argument.name: {type(arm_value).__name__} given, the arm is opaque")
        enc.opaque(arm_value, 255, "nfs41_argument.name")
        return
    if tag == 18:
        enc.reduced += b"\x00\x00\x00\x12"
        if not isinstance(arm_value, nfs41_open_args):
            raise LocalProtocolError(
                f"nfs41_argument.open: {type(arm_value).__name__} given, the arm is nfs41_open_args"
            )
        encode_nfs41_open_args(enc, arm_value)
        return
    if tag == 22:
        enc.reduced += b"\x00\x00\x00\x16"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"nfs41_argument.handle: {type(arm_value).__name__} given, the arm is opaque")
        enc.opaque(arm_value, 128, "nfs41_argument.handle")
        return
    if tag == 42:
        enc.reduced += b"\x00\x00\x00\x2a"
        if not isinstance(arm_value, nfs41_exchange_id_args):
            raise LocalProtocolError(
                f"nfs41_argument.exchange_id: {type(arm_value).__name__} given, the arm is nfs41_exchange_id_args"
            )
        encode_nfs41_exchange_id_args(enc, arm_value)
        return
    if tag == 43:
        enc.reduced += b"\x00\x00\x00\x2b"
        if not isinstance(arm_value, nfs41_create_session_args):
            raise LocalProtocolError(
                f"nfs41_argument.create_session: {type(arm_value).__name__} given, the arm is nfs41_create_session_args"
            )
        encode_nfs41_create_session_args(enc, arm_value)
        return
    if tag == 44:
        enc.reduced += b"\x00\x00\x00\x2c"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"nfs41_argument.session: {type(arm_value).__name__} given, the arm is opaque")
        enc.fixed(arm_value, 16, "nfs41_argument.session")
        return
    if tag == 52:
        enc.reduced += b"\x00\x00\x00\x34"
        enc.u32(arm_value, "nfs41_argument.style")
        return
    if tag == 53:
        enc.reduced += b"\x00\x00\x00\x35"
        if not isinstance(arm_value, nfs41_sequence_args):
            raise LocalProtocolError(
                f"nfs41_argument.sequence: {type(arm_value).__name__} given, the arm is nfs41_sequence_args"
            )
        encode_nfs41_sequence_args(enc, arm_value)
        return
    if tag == 57:
        enc.reduced += b"\x00\x00\x00\x39"
        enc.put(_LAYOUT_24, arm_value)
        return
    if tag == 58:
        enc.reduced += b"\x00\x00\x00\x3a"
        if arm_value not in {0, 1}:
            raise LocalProtocolError(f"nfs41_argument.one_file_system: {arm_value!r} is no bool")
        enc.u32(arm_value, "nfs41_argument.one_file_system")
        return
    raise LocalProtocolError(f"nfs41_argument.operation: {tag!r} is no case of union nfs41_argument")


def decode_nfs41_argument(dec: Decoder) -> nfs41_argument:
    wire_value = dec.u32("nfs41_argument.operation")
    tag = _nfs41_operation_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "nfs41_argument.operation", dec.pos - dec.start - 4, "a value of enum nfs41_operation", str(wire_value)
        )
    if tag == 4:
        return nfs41_argument(tag, decode_nfs41_close_args(dec))
    if tag == 8:
        return nfs41_argument(tag, decode_nfs41_stateid(dec))
    if tag == 9:
        return nfs41_argument(
            tag, dec.numbers("I", dec.count(8, "nfs41_argument.attributes"), "nfs41_argument.attributes")
        )
    if tag in {10, 24, 10044}:
        return nfs41_argument(tag, None)
    if tag == 15:
        return nfs41_argument(tag, dec.opaque(255, "nfs41_argument.name"))
    if tag == 18:
        return nfs41_argument(tag, decode_nfs41_open_args(dec))
    if tag == 22:
        return nfs41_argument(tag, dec.opaque(128, "nfs41_argument.handle"))
    if tag == 42:
        return nfs41_argument(tag, decode_nfs41_exchange_id_args(dec))
    if tag == 43:
        return nfs41_argument(tag, decode_nfs41_create_session_args(dec))
    if tag == 44:
        return nfs41_argument(tag, dec.fixed(16, "nfs41_argument.session"))
    if tag == 52:
        return nfs41_argument(tag, dec.u32("nfs41_argument.style"))
    if tag == 53:
        return nfs41_argument(tag, decode_nfs41_sequence_args(dec))
    if tag == 57:
        return nfs41_argument(tag, dec.u64("nfs41_argument.client_id"))
    if tag == 58:
        return nfs41_argument(tag, dec.boolean("nfs41_argument.one_file_system"))
    raise DecodeError(
        "nfs41_argument.operation", dec.pos - dec.start - 4, "a case of union nfs41_argument", str(int(tag))
    )


def encode_nfs41_res(enc: Encoder, value: nfs41_res) -> None:
    tag = value.operation
    arm_value: Any = value.value
    if tag == 4:
        enc.reduced += b"\x00\x00\x00\x04"
        if not isinstance(arm_value, nfs41_close_res):
            raise LocalProtocolError(f"nfs41_res.close: {type(arm_value).__name__} given, the arm is nfs41_close_res")
        encode_nfs41_close_res(enc, arm_value)
        return
    if tag == 9:
        enc.reduced += b"\x00\x00\x00\x09"
        if not isinstance(arm_value, nfs41_getattr_res):
            raise LocalProtocolError(
                f"nfs41_res.getattr: {type(arm_value).__name__} given, the arm is nfs41_getattr_res"
            )
        encode_nfs41_getattr_res(enc, arm_value)
        return
    if tag == 10:
        enc.reduced += b"\x00\x00\x00\x0a"
        if not isinstance(arm_value, nfs41_getfh_res):
            raise LocalProtocolError(f"nfs41_res.getfh: {type(arm_value).__name__} given, the arm is nfs41_getfh_res")
        encode_nfs41_getfh_res(enc, arm_value)
        return
    if tag == 18:
        enc.reduced += b"\x00\x00\x00\x12"
        if not isinstance(arm_value, nfs41_open_res):
            raise LocalProtocolError(f"nfs41_res.open: {type(arm_value).__name__} given, the arm is nfs41_open_res")
        encode_nfs41_open_res(enc, arm_value)
        return
    if tag == 42:
        enc.reduced += b"\x00\x00\x00\x2a"
        if not isinstance(arm_value, nfs41_exchange_id_res):
            raise LocalProtocolError(
                f"nfs41_res.exchange_id: {type(arm_value).__name__} given, the arm is nfs41_exchange_id_res"
            )
        encode_nfs41_exchange_id_res(enc, arm_value)
        return
    if tag == 43:
        enc.reduced += b"\x00\x00\x00\x2b"
        if not isinstance(arm_value, nfs41_create_session_res):
            raise LocalProtocolError(
                f"nfs41_res.create_session: {type(arm_value).__name__} given, the arm is nfs41_create_session_res"
            )
        encode_nfs41_create_session_res(enc, arm_value)
        return
    if tag == 53:
        enc.reduced += b"\x00\x00\x00\x35"
        if not isinstance(arm_value, nfs41_sequence_res):
            raise LocalProtocolError(
                f"nfs41_res.sequence: {type(arm_value).__name__} given, the arm is nfs41_sequence_res"
            )
        encode_nfs41_sequence_res(enc, arm_value)
        return
    if tag in {8, 15, 22, 24, 44, 52, 57, 58, 10044}:
        enc.u32(tag, "nfs41_res.operation")
        enc.u32(arm_value, "nfs41_res.status")
        return
    raise LocalProtocolError(f"nfs41_res.operation: {tag!r} is no case of union nfs41_res")


def decode_nfs41_res(dec: Decoder) -> nfs41_res:
    wire_value = dec.u32("nfs41_res.operation")
    tag = _nfs41_operation_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "nfs41_res.operation", dec.pos - dec.start - 4, "a value of enum nfs41_operation", str(wire_value)
        )
    if tag == 4:
        return nfs41_res(tag, decode_nfs41_close_res(dec))
    if tag == 9:
        return nfs41_res(tag, decode_nfs41_getattr_res(dec))
    if tag == 10:
        return nfs41_res(tag, decode_nfs41_getfh_res(dec))
    if tag == 18:
        return nfs41_res(tag, decode_nfs41_open_res(dec))
    if tag == 42:
        return nfs41_res(tag, decode_nfs41_exchange_id_res(dec))
    if tag == 43:
        return nfs41_res(tag, decode_nfs41_create_session_res(dec))
    if tag == 53:
        return nfs41_res(tag, decode_nfs41_sequence_res(dec))
    if tag in {8, 15, 22, 24, 44, 52, 57, 58, 10044}:
        return nfs41_res(tag, dec.u32("nfs41_res.status"))
    raise DecodeError("nfs41_res.operation", dec.pos - dec.start - 4, "a case of union nfs41_res", str(int(tag)))


def encode_nfs41_compound_args(enc: Encoder, value: nfs41_compound_args) -> None:
    enc.opaque(value.tag, 256, "nfs41_compound_args.tag")
    enc.u32(value.minor_version, "nfs41_compound_args.minor_version")
    enc.count(len(value.operations), 16, "nfs41_compound_args.operations")
    for list_item in value.operations:
        encode_nfs41_argument(enc, list_item)


def decode_nfs41_compound_args(dec: Decoder) -> nfs41_compound_args:
    tag_ = dec.opaque(256, "nfs41_compound_args.tag")
    minor_version_ = dec.u32("nfs41_compound_args.minor_version")
    operations_ = [decode_nfs41_argument(dec) for _ in range(dec.count(16, "nfs41_compound_args.operations"))]
    return nfs41_compound_args(tag_, minor_version_, operations_)


def encode_nfs41_compound_res(enc: Encoder, value: nfs41_compound_res) -> None:
    enc.u32(value.status, "nfs41_compound_res.status")
    enc.opaque(value.tag, 256, "nfs41_compound_res.tag")
    enc.count(len(value.results), 16, "nfs41_compound_res.results")
    for list_item in value.results:
        encode_nfs41_res(enc, list_item)


def decode_nfs41_compound_res(dec: Decoder) -> nfs41_compound_res:
    status_ = dec.u32("nfs41_compound_res.status")
    tag_ = dec.opaque(256, "nfs41_compound_res.tag")
    results_ = [decode_nfs41_res(dec) for _ in range(dec.count(16, "nfs41_compound_res.results"))]
    return nfs41_compound_res(status_, tag_, results_)


def encode_nfs41_cb_argument(enc: Encoder, value: nfs41_cb_argument) -> None:
    tag = value.operation
    arm_value: Any = value.value
    if tag == 4:
        enc.reduced += b"\x00\x00\x00\x04"
        if not isinstance(arm_value, nfs41_recall_args):
            raise LocalProtocolError(
                f"nfs41_cb_argument.recall: {type(arm_value).__name__} given, the arm is nfs41_recall_args"
            )
        encode_nfs41_recall_args(enc, arm_value)
        return
    if tag == 11:
        enc.reduced += b"\x00\x00\x00\x0b"
        if not isinstance(arm_value, nfs41_cb_sequence_args):
            raise LocalProtocolError(
                f"nfs41_cb_argument.sequence: {type(arm_value).__name__} given, the arm is nfs41_cb_sequence_args"
            )
        encode_nfs41_cb_sequence_args(enc, arm_value)
        return
    if tag == 10044:
        enc.reduced += b"\x00\x00\x27\x3c"
        if arm_value is not None:
            raise LocalProtocolError(f"nfs41_cb_argument: {type(arm_value).__name__} given, the arm is void")
        return
    raise LocalProtocolError(f"nfs41_cb_argument.operation: {tag!r} is no case of union nfs41_cb_argument")


def decode_nfs41_cb_argument(dec: Decoder) -> nfs41_cb_argument:
    wire_value = dec.u32("nfs41_cb_argument.operation")
    tag = _nfs41_cb_operation_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "nfs41_cb_argument.operation",
            dec.pos - dec.start - 4,
            "a value of enum nfs41_cb_operation",
            str(wire_value),
        )
    if tag == 4:
        return nfs41_cb_argument(tag, decode_nfs41_recall_args(dec))
    if tag == 11:
        return nfs41_cb_argument(tag, decode_nfs41_cb_sequence_args(dec))
    if tag == 10044:
        return nfs41_cb_argument(tag, None)
    raise DecodeError(
        "nfs41_cb_argument.operation", dec.pos - dec.start - 4, "a case of union nfs41_cb_argument", str(int(tag))
    )


def encode_nfs41_cb_res(enc: Encoder, value: nfs41_cb_res) -> None:
    tag = value.operation
    arm_value: Any = value.value
    if tag == 11:
        enc.reduced += b"\x00\x00\x00\x0b"
        if not isinstance(arm_value, nfs41_cb_sequence_res):
            raise LocalProtocolError(
                f"nfs41_cb_res.sequence: {type(arm_value).__name__} given, the arm is nfs41_cb_sequence_res"
            )
        encode_nfs41_cb_sequence_res(enc, arm_value)
        return
    if tag in {4, 10044}:
        enc.u32(tag, "nfs41_cb_res.operation")
        enc.u32(arm_value, "nfs41_cb_res.status")
        return
    raise LocalProtocolError(f"nfs41_cb_res.operation: {tag!r} is no case of union nfs41_cb_res")


def decode_nfs41_cb_res(dec: Decoder) -> nfs41_cb_res:
    wire_value = dec.u32("nfs41_cb_res.operation")
    tag = _nfs41_cb_operation_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "nfs41_cb_res.operation", dec.pos - dec.start - 4, "a value of enum nfs41_cb_operation", str(wire_value)
        )
    if tag == 11:
        return nfs41_cb_res(tag, decode_nfs41_cb_sequence_res(dec))
    if tag in {4, 10044}:
        return nfs41_cb_res(tag, dec.u32("nfs41_cb_res.status"))
    raise DecodeError("nfs41_cb_res.operation", dec.pos - dec.start - 4, "a case of union nfs41_cb_res", str(int(tag)))


def encode_nfs41_cb_compound_args(enc: Encoder, value: nfs41_cb_compound_args) -> None:
    enc.opaque(value.tag, 256, "nfs41_cb_compound_args.tag")
    enc.put(_LAYOUT_25, value.minor_version, value.identifier)
    enc.count(len(value.operations), 16, "nfs41_cb_compound_args.operations")
    for list_item in value.operations:
        encode_nfs41_cb_argument(enc, list_item)


def decode_nfs41_cb_compound_args(dec: Decoder) -> nfs41_cb_compound_args:
    tag_ = dec.opaque(256, "nfs41_cb_compound_args.tag")
    group_values1 = dec.take(_LAYOUT_25, "nfs41_cb_compound_args.minor_version..identifier")
    operations_ = [decode_nfs41_cb_argument(dec) for _ in range(dec.count(16, "nfs41_cb_compound_args.operations"))]
    return nfs41_cb_compound_args(tag_, group_values1[0], group_values1[1], operations_)


def encode_nfs41_cb_compound_res(enc: Encoder, value: nfs41_cb_compound_res) -> None:
    enc.u32(value.status, "nfs41_cb_compound_res.status")
    enc.opaque(value.tag, 256, "nfs41_cb_compound_res.tag")
    enc.count(len(value.results), 16, "nfs41_cb_compound_res.results")
    for list_item in value.results:
        encode_nfs41_cb_res(enc, list_item)


def decode_nfs41_cb_compound_res(dec: Decoder) -> nfs41_cb_compound_res:
    status_ = dec.u32("nfs41_cb_compound_res.status")
    tag_ = dec.opaque(256, "nfs41_cb_compound_res.tag")
    results_ = [decode_nfs41_cb_res(dec) for _ in range(dec.count(16, "nfs41_cb_compound_res.results"))]
    return nfs41_cb_compound_res(status_, tag_, results_)


def encode_nfs41_status(enc: Encoder, value: nfs41_status) -> None:
    enc.u32(value, "nfs41_status")


def decode_nfs41_status(dec: Decoder) -> nfs41_status:
    return dec.u32("nfs41_status")


def encode_nfs41_handle(enc: Encoder, value: nfs41_handle) -> None:
    enc.opaque(value, 128, "nfs41_handle")


def decode_nfs41_handle(dec: Decoder) -> nfs41_handle:
    return dec.opaque(128, "nfs41_handle")


def encode_nfs41_session_id(enc: Encoder, value: nfs41_session_id) -> None:
    enc.fixed(value, 16, "nfs41_session_id")


def decode_nfs41_session_id(dec: Decoder) -> nfs41_session_id:
    return dec.fixed(16, "nfs41_session_id")


def encode_nfs41_text(enc: Encoder, value: nfs41_text) -> None:
    enc.opaque(value, 1024, "nfs41_text")


def decode_nfs41_text(dec: Decoder) -> nfs41_text:
    return dec.opaque(1024, "nfs41_text")


def _encode_void(_enc: Encoder, _value: None) -> None:
    """Void: nothing to write."""


def _decode_void(_dec: Decoder) -> None:
    """Void: nothing to read."""


NFS41PROC_NULL: Final[Procedure[None, None]] = Procedure(
    program=100003,
    version=4,
    number=0,
    name="NFS41PROC_NULL",
    method="null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
NFS41PROC_COMPOUND: Final[Procedure[nfs41_compound_args, nfs41_compound_res]] = Procedure(
    program=100003,
    version=4,
    number=1,
    name="NFS41PROC_COMPOUND",
    method="compound",
    encode_args=encode_nfs41_compound_args,
    decode_args=decode_nfs41_compound_args,
    encode_result=encode_nfs41_compound_res,
    decode_result=decode_nfs41_compound_res,
    bound=ReplyBound(66892),
    octets_max=OctetsMax(50188, 0, 66892),
)
NULL: Final = NFS41PROC_NULL
COMPOUND: Final = NFS41PROC_COMPOUND

NFS41_V4: Final = Program(
    number=100003,
    version=4,
    name="NFS41_V4",
    procedures={
        0: NFS41PROC_NULL,
        1: NFS41PROC_COMPOUND,
    },
)


class _NFS41_V4_Methods:
    null = VoidCallMethod(NFS41PROC_NULL)
    compound = CallMethod(NFS41PROC_COMPOUND)


class NFS41_V4_Client(_NFS41_V4_Methods, ClientStub):
    """Calls the procedures of NFS41_PROGRAM version 4 through a `Caller`, and awaits them."""


class NFS41_V4_SyncClient(_NFS41_V4_Methods, SyncClientStub):
    """Calls the procedures of NFS41_PROGRAM version 4 through a connection of `rpcrdma.sync`."""


class NFS41_V4_Service(Service):
    """Base of services for NFS41_PROGRAM version 4: override the procedures to offer."""

    PROGRAM = NFS41_V4

    def null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers NFS41PROC_NULL."""
        return None

    def compound(
        self, args: nfs41_compound_args, context: CallContext
    ) -> Awaitable[nfs41_compound_res] | nfs41_compound_res:
        """Answers NFS41PROC_COMPOUND."""
        raise ProcedureUnavailable("NFS41PROC_COMPOUND")


CB41PROC_NULL: Final[Procedure[None, None]] = Procedure(
    program=1073741889,
    version=1,
    number=0,
    name="CB41PROC_NULL",
    method="null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
CB41PROC_COMPOUND: Final[Procedure[nfs41_cb_compound_args, nfs41_cb_compound_res]] = Procedure(
    program=1073741889,
    version=1,
    number=1,
    name="CB41PROC_COMPOUND",
    method="compound",
    encode_args=encode_nfs41_cb_compound_args,
    decode_args=decode_nfs41_cb_compound_args,
    encode_result=encode_nfs41_cb_compound_res,
    decode_result=decode_nfs41_cb_compound_res,
    bound=ReplyBound(908),
    octets_max=OctetsMax(38800, 0, 908),
)

NFS41_CB: Final = Program(
    number=1073741889,
    version=1,
    name="NFS41_CB",
    procedures={
        0: CB41PROC_NULL,
        1: CB41PROC_COMPOUND,
    },
)


class _NFS41_CB_Methods:
    null = VoidCallMethod(CB41PROC_NULL)
    compound = CallMethod(CB41PROC_COMPOUND)


class NFS41_CB_Client(_NFS41_CB_Methods, ClientStub):
    """Calls the procedures of NFS41_CALLBACK version 1 through a `Caller`, and awaits them."""


class NFS41_CB_SyncClient(_NFS41_CB_Methods, SyncClientStub):
    """Calls the procedures of NFS41_CALLBACK version 1 through a connection of `rpcrdma.sync`."""


class NFS41_CB_Service(Service):
    """Base of services for NFS41_CALLBACK version 1: override the procedures to offer."""

    PROGRAM = NFS41_CB

    def null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers CB41PROC_NULL."""
        return None

    def compound(
        self, args: nfs41_cb_compound_args, context: CallContext
    ) -> Awaitable[nfs41_cb_compound_res] | nfs41_cb_compound_res:
        """Answers CB41PROC_COMPOUND."""
        raise ProcedureUnavailable("CB41PROC_COMPOUND")
