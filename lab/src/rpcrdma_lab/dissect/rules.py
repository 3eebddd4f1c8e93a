"""Rules of RPC-over-RDMA that concern more than one field of a message; a violation is a fault of the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcrdma.errors import DecodeError
from rpcrdma_lab.dissect.fields import Field, FieldFault
from rpcrdma_lab.dissect.headers import Header
from rpcrdma_lab.dissect.rpc_header import RpcHeader
from rpcrdma_lab.dissect.rule_table import RULES, broken
from rpcrdma_lab.dissect.transmission_rules import check_transmission
from rpcrdma_lab.dissect.xdr_walk import Walk

if TYPE_CHECKING:
    from rpcrdma.extension import PropertyRow

__all__ = ["add_property_values", "check_message"]

_RESPONSE, _MORE = 1, 2


def check_message(header: Header, payload_octets: int, rpc: RpcHeader | None) -> None:
    """Adds a fault to `header.faults` for each rule on several fields (table `RULES`) that a message breaks.

    In version 2, also adds those of the round-trip extension by `check_transmission`. Does nothing if `header.faults`
    has entries already.

    Args:
        header: the decoded header.
        payload_octets: the number of octets after the header.
        rpc: the header of the RPC message that begins in the payload; None if none begins there.
    """
    if header.faults:
        return
    rpc_xid = rpc.xid if rpc is not None and rpc.xid is not None else 0
    for rule in broken(RULES[header.version.name], header.kind, _facts(header, payload_octets, rpc), rpc_xid):
        header.fault(rule.member, rule.reason, rule.section, rule.requirement)
    if header.version.number == 2:
        check_transmission(header, payload_octets)


def _facts(header: Header, payload_octets: int, rpc: RpcHeader | None) -> set[str]:
    """Returns the names of the facts, such as "payload", that hold for a message (`rule_table` explains them).

    `header` is the decoded header, `payload_octets` the number of octets after it, and `rpc` the header of the RPC
    message that begins in them; None if none begins there.
    """
    flags, handle = header.number("rdma_flags"), header.number("rdma_inv_handle")
    is_call = rpc.is_call if rpc is not None else None
    facts = {
        "payload": payload_octets > 0,
        "call": is_call is True,
        "reply": is_call is False,
        "other XID": rpc is not None and rpc.xid is not None and rpc.xid != header.xid,
        "chunks": bool(header.reads or header.writes) or header.reply is not None,
        "reads": bool(header.reads),
        "Reply chunk": header.reply is not None,
        "zero": any(position == 0 for position, _ in header.reads),
        "foreign handle": handle != 0 and handle not in {segment.handle for segment in header.segments},
        "reserved": flags & ~(_RESPONSE | _MORE | (header.row.flags if header.row is not None else 0)) != 0,
        "more": flags & _MORE != 0,
        "response": flags & _RESPONSE != 0,
        "XID": bool(header.xid),
        "credits": header.number("rdma_credit") != 0,
    }
    return {name for name, holds in facts.items() if holds}


def add_property_values(header: Header) -> None:
    """Decodes the value of each transport property in `header`, and adds it below the field with the value's octets.

    Faults of values, and a repeated property, are added to `header.faults`.
    """
    section = header.version.definition.note("property", "rdma_data").section
    seen: set[int] = set()
    for entry in [entry for one in header.group.fields if one.name == "rdma_props" for entry in one.fields]:
        which, data = entry.number("rdma_which"), entry.member("rdma_data")
        if which is None or data is None or not isinstance(data.value, bytes):
            continue
        if which in seen:
            entry.faults.append("this property is there twice")
            header.faults.append(FieldFault("rdma_which", entry.offset, "this property is there twice", section))
        seen.add(which)
        if not data.value:
            data.shown = "empty: the default"
            continue
        row = header.version.property_row(which)
        if row is not None:
            _add_value_of(row, header, data, section)
            continue
        walk = Walk(header.version.definition, which.to_bytes(4, "big") + data.value)
        for one in walk.structure("property_value").fields[1:]:
            for below in one.walk():
                below.offset += data.offset
            data.fields.append(one)
        header.faults += [
            FieldFault(fault.field, fault.offset + data.offset, fault.reason, section) for fault in walk.faults
        ]


def _add_value_of(row: PropertyRow, header: Header, data: Field, section: str) -> None:
    """Decodes the value in the field `data` by `decode` and `shown` of an extension's property row; adds it as a field.

    The new field is below `data`. A DecodeError becomes a fault in `header.faults`, with the citation `section`.
    Another exception of the extension becomes the shown text.
    """
    assert isinstance(data.value, bytes)
    try:
        shown = str(row.shown(row.decode(data.value)))
    except DecodeError as error:
        header.faults.append(FieldFault(row.name, data.offset, str(error), section))
        return
    except Exception as error:  # noqa: BLE001 - the user's function, whose mistakes end no decoding
        shown = f"the extension cannot decode it: {type(error).__name__}: {error}"
    data.fields.append(Field(row.name, data.offset, len(data.value), shown=shown))
