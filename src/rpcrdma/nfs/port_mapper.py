"""Generated from port_mapper.x by `rpcrdma xdr compile`: do not edit."""

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
from rpcrdma.xdr import Composite, Decoder, Encoder, Layout

__all__ = [
    "DUMP",
    "GETPORT",
    "NULL",
    "PMAPPROC_DUMP",
    "PMAPPROC_GETPORT",
    "PMAPPROC_NULL",
    "PMAP_ENTRIES_MAX",
    "PORT_MAPPER_V2",
    "RPCBIND_V3",
    "RPCBIND_V4",
    "RPCBIND_V4_RPCBPROC_DUMP",
    "RPCBIND_V4_RPCBPROC_NULL",
    "RPCBPROC_DUMP",
    "RPCBPROC_NULL",
    "RPCBPROC_SET",
    "RPCBPROC_UNSET",
    "RPCB_WORD_MAX",
    "SET",
    "UNSET",
    "PORT_MAPPER_V2_Client",
    "PORT_MAPPER_V2_Service",
    "PORT_MAPPER_V2_SyncClient",
    "RPCBIND_V3_Client",
    "RPCBIND_V3_Service",
    "RPCBIND_V3_SyncClient",
    "RPCBIND_V4_Client",
    "RPCBIND_V4_Service",
    "RPCBIND_V4_SyncClient",
    "binding",
    "binding_entry",
    "binding_list",
    "decode_binding",
    "decode_binding_entry",
    "decode_binding_list",
    "decode_mapping",
    "decode_mapping_entry",
    "decode_mapping_list",
    "decode_rpcb_word",
    "encode_binding",
    "encode_binding_entry",
    "encode_binding_list",
    "encode_mapping",
    "encode_mapping_entry",
    "encode_mapping_list",
    "encode_rpcb_word",
    "mapping",
    "mapping_entry",
    "mapping_list",
    "rpcb_word",
]

PMAP_ENTRIES_MAX: Final = 4096
RPCB_WORD_MAX: Final = 255


@dataclass(slots=True, repr=False, eq=False)
class mapping(Composite):
    """XDR struct `mapping`."""

    prog: int
    vers: int
    prot: int
    port: int


@dataclass(slots=True, repr=False, eq=False)
class mapping_entry(Composite):
    """XDR struct `mapping_entry`."""

    map: mapping


@dataclass(slots=True, repr=False, eq=False)
class binding(Composite):
    """XDR struct `binding`."""

    prog: int
    vers: int
    netid: rpcb_word
    addr: rpcb_word
    owner: rpcb_word


@dataclass(slots=True, repr=False, eq=False)
class binding_entry(Composite):
    """XDR struct `binding_entry`."""

    bound: binding


mapping_list: TypeAlias = list[mapping_entry]
rpcb_word: TypeAlias = str
binding_list: TypeAlias = list[binding_entry]

_LAYOUT_1: Final = Layout.of(">IIII", "mapping.prog", "mapping.vers", "mapping.prot", "mapping.port")
_LAYOUT_2: Final = Layout.of(
    ">IIII", "mapping_entry.map.prog", "mapping_entry.map.vers", "mapping_entry.map.prot", "mapping_entry.map.port"
)
_LAYOUT_3: Final = Layout.of(">II", "binding.prog", "binding.vers")


def encode_mapping(enc: Encoder, value: mapping) -> None:
    enc.put(_LAYOUT_1, value.prog, value.vers, value.prot, value.port)


def decode_mapping(dec: Decoder) -> mapping:
    group_values = dec.take(_LAYOUT_1, "mapping.prog..port")
    return mapping(group_values[0], group_values[1], group_values[2], group_values[3])


def encode_mapping_entry(enc: Encoder, value: mapping_entry) -> None:
    enc.put(_LAYOUT_2, value.map.prog, value.map.vers, value.map.prot, value.map.port)


def decode_mapping_entry(dec: Decoder) -> mapping_entry:
    group_values = dec.take(_LAYOUT_2, "mapping_entry.map.prog..map.port")
    return mapping_entry(mapping(group_values[0], group_values[1], group_values[2], group_values[3]))


def encode_binding(enc: Encoder, value: binding) -> None:
    enc.put(_LAYOUT_3, value.prog, value.vers)
    enc.string(value.netid, 255, "binding.netid")
    enc.string(value.addr, 255, "binding.addr")
    enc.string(value.owner, 255, "binding.owner")


def decode_binding(dec: Decoder) -> binding:
    group_values = dec.take(_LAYOUT_3, "binding.prog..vers")
    netid_ = dec.string(255, "binding.netid")
    addr_ = dec.string(255, "binding.addr")
    owner_ = dec.string(255, "binding.owner")
    return binding(group_values[0], group_values[1], netid_, addr_, owner_)


def encode_binding_entry(enc: Encoder, value: binding_entry) -> None:
    encode_binding(enc, value.bound)


def decode_binding_entry(dec: Decoder) -> binding_entry:
    bound_ = decode_binding(dec)
    return binding_entry(bound_)


def encode_mapping_list(enc: Encoder, value: mapping_list) -> None:
    enc.linked_list(value, encode_mapping_entry, 4096, "mapping_list")


def decode_mapping_list(dec: Decoder) -> mapping_list:
    return dec.linked_list(decode_mapping_entry, 4096, "mapping_list")


def encode_rpcb_word(enc: Encoder, value: rpcb_word) -> None:
    enc.string(value, 255, "rpcb_word")


def decode_rpcb_word(dec: Decoder) -> rpcb_word:
    return dec.string(255, "rpcb_word")


def encode_binding_list(enc: Encoder, value: binding_list) -> None:
    enc.linked_list(value, encode_binding_entry, 4096, "binding_list")


def decode_binding_list(dec: Decoder) -> binding_list:
    return dec.linked_list(decode_binding_entry, 4096, "binding_list")


def _encode_void(_enc: Encoder, _value: None) -> None:
    """Void: nothing to write."""


def _decode_void(_dec: Decoder) -> None:
    """Void: nothing to read."""


def _encode_unsigned_int(enc: Encoder, value: int) -> None:
    enc.u32(value, "unsigned_int")


def _decode_unsigned_int(dec: Decoder) -> int:
    return dec.u32("unsigned_int")


def _encode_bool(enc: Encoder, value: bool) -> None:
    if value not in {0, 1}:
        raise LocalProtocolError(f"bool: {value!r} is no bool")
    enc.u32(value, "bool")


def _decode_bool(dec: Decoder) -> bool:
    return dec.boolean("bool")


PMAPPROC_NULL: Final[Procedure[None, None]] = Procedure(
    program=100000,
    version=2,
    number=0,
    name="PMAPPROC_NULL",
    method="null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
PMAPPROC_GETPORT: Final[Procedure[mapping, int]] = Procedure(
    program=100000,
    version=2,
    number=3,
    name="PMAPPROC_GETPORT",
    method="getport",
    encode_args=encode_mapping,
    decode_args=decode_mapping,
    encode_result=_encode_unsigned_int,
    decode_result=_decode_unsigned_int,
    bound=ReplyBound(4),
    octets_max=OctetsMax(16, 0, 4),
)
PMAPPROC_DUMP: Final[Procedure[None, mapping_list]] = Procedure(
    program=100000,
    version=2,
    number=4,
    name="PMAPPROC_DUMP",
    method="dump",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=encode_mapping_list,
    decode_result=decode_mapping_list,
    bound=ReplyBound(81924),
    octets_max=OctetsMax(0, 0, 81924),
)
NULL: Final = PMAPPROC_NULL
GETPORT: Final = PMAPPROC_GETPORT
DUMP: Final = PMAPPROC_DUMP

PORT_MAPPER_V2: Final = Program(
    number=100000,
    version=2,
    name="PORT_MAPPER_V2",
    procedures={
        0: PMAPPROC_NULL,
        3: PMAPPROC_GETPORT,
        4: PMAPPROC_DUMP,
    },
)


class _PORT_MAPPER_V2_Methods:
    null = VoidCallMethod(PMAPPROC_NULL)
    getport = CallMethod(PMAPPROC_GETPORT)
    dump = VoidCallMethod(PMAPPROC_DUMP)


class PORT_MAPPER_V2_Client(_PORT_MAPPER_V2_Methods, ClientStub):
    """Calls the procedures of PORT_MAPPER version 2 through a `Caller`, and awaits them."""


class PORT_MAPPER_V2_SyncClient(_PORT_MAPPER_V2_Methods, SyncClientStub):
    """Calls the procedures of PORT_MAPPER version 2 through a connection of `rpcrdma.sync`."""


class PORT_MAPPER_V2_Service(Service):
    """Base of services for PORT_MAPPER version 2: override the procedures to offer."""

    PROGRAM = PORT_MAPPER_V2

    def null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers PMAPPROC_NULL."""
        return None

    def getport(self, args: mapping, context: CallContext) -> Awaitable[int] | int:
        """Answers PMAPPROC_GETPORT."""
        raise ProcedureUnavailable("PMAPPROC_GETPORT")

    def dump(self, args: None, context: CallContext) -> Awaitable[mapping_list] | mapping_list:
        """Answers PMAPPROC_DUMP."""
        raise ProcedureUnavailable("PMAPPROC_DUMP")


RPCBPROC_NULL: Final[Procedure[None, None]] = Procedure(
    program=100000,
    version=3,
    number=0,
    name="RPCBPROC_NULL",
    method="null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
RPCBPROC_DUMP: Final[Procedure[None, binding_list]] = Procedure(
    program=100000,
    version=3,
    number=4,
    name="RPCBPROC_DUMP",
    method="dump",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=encode_binding_list,
    decode_result=decode_binding_list,
    bound=ReplyBound(3244036),
    octets_max=OctetsMax(0, 0, 3244036),
)

RPCBIND_V3: Final = Program(
    number=100000,
    version=3,
    name="RPCBIND_V3",
    procedures={
        0: RPCBPROC_NULL,
        4: RPCBPROC_DUMP,
    },
)


class _RPCBIND_V3_Methods:
    null = VoidCallMethod(RPCBPROC_NULL)
    dump = VoidCallMethod(RPCBPROC_DUMP)


class RPCBIND_V3_Client(_RPCBIND_V3_Methods, ClientStub):
    """Calls the procedures of PORT_MAPPER version 3 through a `Caller`, and awaits them."""


class RPCBIND_V3_SyncClient(_RPCBIND_V3_Methods, SyncClientStub):
    """Calls the procedures of PORT_MAPPER version 3 through a connection of `rpcrdma.sync`."""


class RPCBIND_V3_Service(Service):
    """Base of services for PORT_MAPPER version 3: override the procedures to offer."""

    PROGRAM = RPCBIND_V3

    def null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers RPCBPROC_NULL."""
        return None

    def dump(self, args: None, context: CallContext) -> Awaitable[binding_list] | binding_list:
        """Answers RPCBPROC_DUMP."""
        raise ProcedureUnavailable("RPCBPROC_DUMP")


RPCBIND_V4_RPCBPROC_NULL: Final[Procedure[None, None]] = Procedure(
    program=100000,
    version=4,
    number=0,
    name="RPCBPROC_NULL",
    method="null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
RPCBPROC_SET: Final[Procedure[binding, bool]] = Procedure(
    program=100000,
    version=4,
    number=1,
    name="RPCBPROC_SET",
    method="set",
    encode_args=encode_binding,
    decode_args=decode_binding,
    encode_result=_encode_bool,
    decode_result=_decode_bool,
    bound=ReplyBound(4),
    octets_max=OctetsMax(788, 0, 4),
)
RPCBPROC_UNSET: Final[Procedure[binding, bool]] = Procedure(
    program=100000,
    version=4,
    number=2,
    name="RPCBPROC_UNSET",
    method="unset",
    encode_args=encode_binding,
    decode_args=decode_binding,
    encode_result=_encode_bool,
    decode_result=_decode_bool,
    bound=ReplyBound(4),
    octets_max=OctetsMax(788, 0, 4),
)
RPCBIND_V4_RPCBPROC_DUMP: Final[Procedure[None, binding_list]] = Procedure(
    program=100000,
    version=4,
    number=4,
    name="RPCBPROC_DUMP",
    method="dump",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=encode_binding_list,
    decode_result=decode_binding_list,
    bound=ReplyBound(3244036),
    octets_max=OctetsMax(0, 0, 3244036),
)
SET: Final = RPCBPROC_SET
UNSET: Final = RPCBPROC_UNSET

RPCBIND_V4: Final = Program(
    number=100000,
    version=4,
    name="RPCBIND_V4",
    procedures={
        0: RPCBIND_V4_RPCBPROC_NULL,
        1: RPCBPROC_SET,
        2: RPCBPROC_UNSET,
        4: RPCBIND_V4_RPCBPROC_DUMP,
    },
)


class _RPCBIND_V4_Methods:
    null = VoidCallMethod(RPCBIND_V4_RPCBPROC_NULL)
    set = CallMethod(RPCBPROC_SET)
    unset = CallMethod(RPCBPROC_UNSET)
    dump = VoidCallMethod(RPCBIND_V4_RPCBPROC_DUMP)


class RPCBIND_V4_Client(_RPCBIND_V4_Methods, ClientStub):
    """Calls the procedures of PORT_MAPPER version 4 through a `Caller`, and awaits them."""


class RPCBIND_V4_SyncClient(_RPCBIND_V4_Methods, SyncClientStub):
    """Calls the procedures of PORT_MAPPER version 4 through a connection of `rpcrdma.sync`."""


class RPCBIND_V4_Service(Service):
    """Base of services for PORT_MAPPER version 4: override the procedures to offer."""

    PROGRAM = RPCBIND_V4

    def null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers RPCBPROC_NULL."""
        return None

    def set(self, args: binding, context: CallContext) -> Awaitable[bool] | bool:
        """Answers RPCBPROC_SET."""
        raise ProcedureUnavailable("RPCBPROC_SET")

    def unset(self, args: binding, context: CallContext) -> Awaitable[bool] | bool:
        """Answers RPCBPROC_UNSET."""
        raise ProcedureUnavailable("RPCBPROC_UNSET")

    def dump(self, args: None, context: CallContext) -> Awaitable[binding_list] | binding_list:
        """Answers RPCBPROC_DUMP."""
        raise ProcedureUnavailable("RPCBPROC_DUMP")
