"""Generated from mount3.x by `rpcrdma xdr compile`: do not edit."""

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
from rpcrdma.xdr import Composite, Decoder, Encoder

__all__ = [
    "DUMP",
    "EXPORT",
    "FHSIZE3",
    "MNT",
    "MNT3_MAXENTRIES",
    "MNT3_MAXFLAVORS",
    "MNTNAMLEN",
    "MNTPATHLEN",
    "MOUNTPROC3_DUMP",
    "MOUNTPROC3_EXPORT",
    "MOUNTPROC3_MNT",
    "MOUNTPROC3_NULL",
    "MOUNTPROC3_UMNT",
    "MOUNTPROC3_UMNTALL",
    "MOUNT_V3",
    "NULL",
    "PROGRAM",
    "UMNT",
    "UMNTALL",
    "MOUNT_V3_Client",
    "MOUNT_V3_Service",
    "MOUNT_V3_SyncClient",
    "decode_dirpath",
    "decode_exportnode",
    "decode_exports",
    "decode_fhandle3",
    "decode_groupnode",
    "decode_groups",
    "decode_mountbody",
    "decode_mountlist",
    "decode_mountres3",
    "decode_mountres3_ok",
    "decode_mountstat3",
    "decode_name",
    "dirpath",
    "encode_dirpath",
    "encode_exportnode",
    "encode_exports",
    "encode_fhandle3",
    "encode_groupnode",
    "encode_groups",
    "encode_mountbody",
    "encode_mountlist",
    "encode_mountres3",
    "encode_mountres3_ok",
    "encode_mountstat3",
    "encode_name",
    "exportnode",
    "exports",
    "fhandle3",
    "groupnode",
    "groups",
    "mountbody",
    "mountlist",
    "mountres3",
    "mountres3_ok",
    "mountstat3",
    "name",
]

MNTPATHLEN: Final = 1024
MNTNAMLEN: Final = 255
FHSIZE3: Final = 64
MNT3_MAXFLAVORS: Final = 32
MNT3_MAXENTRIES: Final = 65536


class mountstat3(enum.IntEnum):
    """XDR enum `mountstat3`."""

    MNT3_OK = 0
    MNT3ERR_PERM = 1
    MNT3ERR_NOENT = 2
    MNT3ERR_IO = 5
    MNT3ERR_ACCES = 13
    MNT3ERR_NOTDIR = 20
    MNT3ERR_INVAL = 22
    MNT3ERR_NAMETOOLONG = 63
    MNT3ERR_NOTSUPP = 10004
    MNT3ERR_SERVERFAULT = 10006


_mountstat3_BY_VALUE: Final = {int(member): member for member in mountstat3}


@dataclass(slots=True, repr=False, eq=False)
class mountres3_ok(Composite):
    """XDR struct `mountres3_ok`."""

    fhandle: fhandle3
    auth_flavors: list[int]


@dataclass(slots=True, repr=False, eq=False)
class mountres3(Composite):
    """XDR union `mountres3`, switched by `fhs_status`."""

    fhs_status: mountstat3
    value: mountres3_ok | None


@dataclass(slots=True, repr=False, eq=False)
class mountbody(Composite):
    """XDR struct `mountbody`."""

    ml_hostname: name
    ml_directory: dirpath


@dataclass(slots=True, repr=False, eq=False)
class groupnode(Composite):
    """XDR struct `groupnode`."""

    gr_name: name


@dataclass(slots=True, repr=False, eq=False)
class exportnode(Composite):
    """XDR struct `exportnode`."""

    ex_dir: dirpath
    ex_groups: groups


fhandle3: TypeAlias = bytes
dirpath: TypeAlias = str
name: TypeAlias = str
mountlist: TypeAlias = list[mountbody]
groups: TypeAlias = list[groupnode]
exports: TypeAlias = list[exportnode]


def encode_mountstat3(enc: Encoder, value: mountstat3, field: str = "mountstat3") -> None:
    if value not in _mountstat3_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum mountstat3")
    enc.u32(value, field)


def decode_mountstat3(dec: Decoder, field: str = "mountstat3") -> mountstat3:
    wire_value = dec.u32(field)
    value = _mountstat3_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum mountstat3", str(wire_value))
    return value


def encode_mountres3_ok(enc: Encoder, value: mountres3_ok) -> None:
    enc.opaque(value.fhandle, 64, "mountres3_ok.fhandle")
    enc.count(len(value.auth_flavors), 32, "mountres3_ok.auth_flavors")
    enc.numbers("i", value.auth_flavors, "mountres3_ok.auth_flavors")


def decode_mountres3_ok(dec: Decoder) -> mountres3_ok:
    fhandle_ = dec.opaque(64, "mountres3_ok.fhandle")
    auth_flavors_ = dec.numbers("i", dec.count(32, "mountres3_ok.auth_flavors"), "mountres3_ok.auth_flavors")
    return mountres3_ok(fhandle_, auth_flavors_)


def encode_mountres3(enc: Encoder, value: mountres3) -> None:
    tag = value.fhs_status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, mountres3_ok):
            raise LocalProtocolError(f"mountres3.mountinfo: {type(arm_value).__name__} given, the arm is mountres3_ok")
        encode_mountres3_ok(enc, arm_value)
        return
    encode_mountstat3(enc, tag, "mountres3.fhs_status")
    if arm_value is not None:
        raise LocalProtocolError(f"mountres3: {type(arm_value).__name__} given, the arm is void")


def decode_mountres3(dec: Decoder) -> mountres3:
    wire_value = dec.u32("mountres3.fhs_status")
    tag = _mountstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "mountres3.fhs_status", dec.pos - dec.start - 4, "a value of enum mountstat3", str(wire_value)
        )
    if tag == 0:
        return mountres3(tag, decode_mountres3_ok(dec))
    return mountres3(tag, None)


def encode_mountbody(enc: Encoder, value: mountbody) -> None:
    enc.string(value.ml_hostname, 255, "mountbody.ml_hostname")
    enc.string(value.ml_directory, 1024, "mountbody.ml_directory")


def decode_mountbody(dec: Decoder) -> mountbody:
    ml_hostname_ = dec.string(255, "mountbody.ml_hostname")
    ml_directory_ = dec.string(1024, "mountbody.ml_directory")
    return mountbody(ml_hostname_, ml_directory_)


def encode_groupnode(enc: Encoder, value: groupnode) -> None:
    enc.string(value.gr_name, 255, "groupnode.gr_name")


def decode_groupnode(dec: Decoder) -> groupnode:
    gr_name_ = dec.string(255, "groupnode.gr_name")
    return groupnode(gr_name_)


def encode_exportnode(enc: Encoder, value: exportnode) -> None:
    enc.string(value.ex_dir, 1024, "exportnode.ex_dir")
    enc.linked_list(value.ex_groups, encode_groupnode, 65536, "exportnode.ex_groups")


def decode_exportnode(dec: Decoder) -> exportnode:
    ex_dir_ = dec.string(1024, "exportnode.ex_dir")
    ex_groups_ = dec.linked_list(decode_groupnode, 65536, "exportnode.ex_groups")
    return exportnode(ex_dir_, ex_groups_)


def encode_fhandle3(enc: Encoder, value: fhandle3) -> None:
    enc.opaque(value, 64, "fhandle3")


def decode_fhandle3(dec: Decoder) -> fhandle3:
    return dec.opaque(64, "fhandle3")


def encode_dirpath(enc: Encoder, value: dirpath) -> None:
    enc.string(value, 1024, "dirpath")


def decode_dirpath(dec: Decoder) -> dirpath:
    return dec.string(1024, "dirpath")


def encode_name(enc: Encoder, value: name) -> None:
    enc.string(value, 255, "name")


def decode_name(dec: Decoder) -> name:
    return dec.string(255, "name")


def encode_mountlist(enc: Encoder, value: mountlist) -> None:
    enc.linked_list(value, encode_mountbody, 65536, "mountlist")


def decode_mountlist(dec: Decoder) -> mountlist:
    return dec.linked_list(decode_mountbody, 65536, "mountlist")


def encode_groups(enc: Encoder, value: groups) -> None:
    enc.linked_list(value, encode_groupnode, 65536, "groups")


def decode_groups(dec: Decoder) -> groups:
    return dec.linked_list(decode_groupnode, 65536, "groups")


def encode_exports(enc: Encoder, value: exports) -> None:
    enc.linked_list(value, encode_exportnode, 65536, "exports")


def decode_exports(dec: Decoder) -> exports:
    return dec.linked_list(decode_exportnode, 65536, "exports")


def _encode_void(_enc: Encoder, _value: None) -> None:
    """Void: nothing to write."""


def _decode_void(_dec: Decoder) -> None:
    """Void: nothing to read."""


MOUNTPROC3_NULL: Final[Procedure[None, None]] = Procedure(
    program=100005,
    version=3,
    number=0,
    name="MOUNTPROC3_NULL",
    method="null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
MOUNTPROC3_MNT: Final[Procedure[dirpath, mountres3]] = Procedure(
    program=100005,
    version=3,
    number=1,
    name="MOUNTPROC3_MNT",
    method="mnt",
    encode_args=encode_dirpath,
    decode_args=decode_dirpath,
    encode_result=encode_mountres3,
    decode_result=decode_mountres3,
    bound=ReplyBound(204),
    octets_max=OctetsMax(1028, 0, 204),
    status=attrgetter("fhs_status"),
)
MOUNTPROC3_DUMP: Final[Procedure[None, mountlist]] = Procedure(
    program=100005,
    version=3,
    number=2,
    name="MOUNTPROC3_DUMP",
    method="dump",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=encode_mountlist,
    decode_result=decode_mountlist,
    bound=ReplyBound(84672516),
    octets_max=OctetsMax(0, 0, 84672516),
)
MOUNTPROC3_UMNT: Final[Procedure[dirpath, None]] = Procedure(
    program=100005,
    version=3,
    number=3,
    name="MOUNTPROC3_UMNT",
    method="umnt",
    encode_args=encode_dirpath,
    decode_args=decode_dirpath,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(1028, 0, 0),
)
MOUNTPROC3_UMNTALL: Final[Procedure[None, None]] = Procedure(
    program=100005,
    version=3,
    number=4,
    name="MOUNTPROC3_UMNTALL",
    method="umntall",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
MOUNTPROC3_EXPORT: Final[Procedure[None, exports]] = Procedure(
    program=100005,
    version=3,
    number=5,
    name="MOUNTPROC3_EXPORT",
    method="export",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=encode_exports,
    decode_result=decode_exports,
    bound=ReplyBound(4294967295),
    octets_max=OctetsMax(0, 0, None),
)
NULL: Final = MOUNTPROC3_NULL
MNT: Final = MOUNTPROC3_MNT
DUMP: Final = MOUNTPROC3_DUMP
UMNT: Final = MOUNTPROC3_UMNT
UMNTALL: Final = MOUNTPROC3_UMNTALL
EXPORT: Final = MOUNTPROC3_EXPORT

MOUNT_V3: Final = Program(
    number=100005,
    version=3,
    name="MOUNT_V3",
    procedures={
        0: MOUNTPROC3_NULL,
        1: MOUNTPROC3_MNT,
        2: MOUNTPROC3_DUMP,
        3: MOUNTPROC3_UMNT,
        4: MOUNTPROC3_UMNTALL,
        5: MOUNTPROC3_EXPORT,
    },
)


class _MOUNT_V3_Methods:
    null = VoidCallMethod(MOUNTPROC3_NULL)
    mnt = CallMethod(MOUNTPROC3_MNT)
    dump = VoidCallMethod(MOUNTPROC3_DUMP)
    umnt = CallMethod(MOUNTPROC3_UMNT)
    umntall = VoidCallMethod(MOUNTPROC3_UMNTALL)
    export = VoidCallMethod(MOUNTPROC3_EXPORT)


class MOUNT_V3_Client(_MOUNT_V3_Methods, ClientStub):
    """Calls the procedures of MOUNT_PROGRAM version 3 through a `Caller`, and awaits them."""


class MOUNT_V3_SyncClient(_MOUNT_V3_Methods, SyncClientStub):
    """Calls the procedures of MOUNT_PROGRAM version 3 through a connection of `rpcrdma.sync`."""


class MOUNT_V3_Service(Service):
    """Base of services for MOUNT_PROGRAM version 3: override the procedures to offer."""

    PROGRAM = MOUNT_V3

    def null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers MOUNTPROC3_NULL."""
        return None

    def mnt(self, args: dirpath, context: CallContext) -> Awaitable[mountres3] | mountres3:
        """Answers MOUNTPROC3_MNT."""
        raise ProcedureUnavailable("MOUNTPROC3_MNT")

    def dump(self, args: None, context: CallContext) -> Awaitable[mountlist] | mountlist:
        """Answers MOUNTPROC3_DUMP."""
        raise ProcedureUnavailable("MOUNTPROC3_DUMP")

    def umnt(self, args: dirpath, context: CallContext) -> Awaitable[None] | None:
        """Answers MOUNTPROC3_UMNT."""
        raise ProcedureUnavailable("MOUNTPROC3_UMNT")

    def umntall(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers MOUNTPROC3_UMNTALL."""
        raise ProcedureUnavailable("MOUNTPROC3_UMNTALL")

    def export(self, args: None, context: CallContext) -> Awaitable[exports] | exports:
        """Answers MOUNTPROC3_EXPORT."""
        raise ProcedureUnavailable("MOUNTPROC3_EXPORT")


PROGRAM: Final = MOUNT_V3
