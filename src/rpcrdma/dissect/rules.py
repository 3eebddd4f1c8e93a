"""Rules of RPC-over-RDMA that concern more than one field of a message; what breaks one is a fault of the message."""

from __future__ import annotations

from collections.abc import Callable

from rpcrdma.dissect.fields import Fault
from rpcrdma.dissect.headers import Header
from rpcrdma.dissect.rpc_header import RpcHeader
from rpcrdma.dissect.transmission_rules import check_transmission
from rpcrdma.dissect.xdr_walk import Walk

__all__ = ["add_property_values", "check_message"]

_RESPONSE, _MORE = 1, 2


def check_message(header: Header, payload_octets: int, rpc: RpcHeader | None) -> None:
    """Adds to `header.faults`. `rpc` is the header of the RPC message that begins in this one's payload."""
    if header.faults:
        return
    if rpc is not None and rpc.xid is not None and rpc.xid != header.xid:
        prefix = header.version.definition.note("prefix", "rdma_xid")
        header.fault("rdma_xid", f"the RPC message has XID {rpc.xid:#010x}", prefix.section)
    _RULES[header.version.name](header, payload_octets, rpc)
    if rpc is not None and rpc.is_call is False and any(segment for segment in header.reads):
        section = header.version.definition.note("chunk_lists", "rdma_reads").section or "version-two-07 4.5.1.1"
        header.fault("rdma_reads", "a reply has no Read chunks", section)


def _version_1(header: Header, payload_octets: int, _rpc: RpcHeader | None) -> None:
    match header.kind:
        case "RDMA_MSG" if not payload_octets:
            header.fault("rdma_proc", "no RPC message follows", "RFC 8166 4.2.4")
        case "RDMA_NOMSG" if not (header.reads or header.writes or header.reply is not None):
            header.fault("rdma_proc", "no chunk holds the RPC message", "RFC 8166 4.5.2")
        case "RDMA_MSGP":
            header.fault("rdma_proc", "padded messages are never sent", "RFC 8166 4.6.1")
        case "RDMA_DONE":
            header.fault("rdma_proc", "RDMA_DONE is never sent", "RFC 8166 4.6.2")
    if header.kind != "RDMA_ERROR" and not header.number("rdma_credit"):
        header.fault("rdma_credit", "neither a request nor a grant may be 0", "RFC 8166 3.3.1")


def _draft_00(header: Header, payload_octets: int, rpc: RpcHeader | None) -> None:
    flags = header.number("rdma_flags")
    if flags & ~(_RESPONSE | _MORE):
        header.fault("rdma_flags", "reserved flags are set", "version-two-00 6.3.2")
    if flags & _MORE and header.kind not in {"RDMA2_MSG", "RDMA2_CONNPROP"}:
        header.fault("rdma_flags", f"{header.kind} does not go on in another message", "version-two-00 6.3.2")
    elif flags & _MORE and (header.segments or header.writes or header.reply is not None):
        header.fault("rdma_flags", "chunks belong into the last message of a sequence", "version-two-00 6.3.2")
    if header.kind == "RDMA2_ERROR" and not flags & _RESPONSE:
        header.fault("rdma_flags", "an error has RESPONSE set", "version-two-00 6.3.2")
    if rpc is not None and rpc.is_call is not None and rpc.is_call == bool(flags & _RESPONSE):
        which = "a call" if rpc.is_call else "a reply"
        header.fault("rdma_flags", f"RESPONSE does not fit to {which}", "version-two-00 6.3.2")
    if header.kind == "RDMA2_MSG" and not payload_octets and not flags & _MORE:
        header.fault("rdma_htype", "no part of an RPC message follows", "version-two-00 6.4.1")
    if header.kind == "RDMA2_NOMSG" and not flags & _MORE:
        _check_external(header, is_call=not flags & _RESPONSE)
    if header.kind == "RDMA2_MSG" and any(position == 0 for position, _ in header.reads):
        header.fault("rdma_reads", "Position Zero beside a payload", "version-two-00 4.5.4")
    _check_invalidation(header, response=bool(flags & _RESPONSE), section="version-two-00 6.3.3")
    check_transmission(header, payload_octets)


def _check_external(header: Header, *, is_call: bool) -> None:
    held = any(position == 0 for position, _ in header.reads) if is_call else header.reply is not None
    if not (header.reads or header.writes or header.reply is not None):
        if header.xid:
            header.fault("rdma_xid", "no chunk holds an RPC message, and a grant has XID 0", "version-two-00 6.4.2")
    elif not held:
        chunk = "Position-Zero Read chunk holds the RPC call" if is_call else "Reply chunk holds the RPC reply"
        header.fault("rdma_chunks", f"no {chunk}", "version-two-00 6.4.2")


def _draft_07(header: Header, payload_octets: int, rpc: RpcHeader | None) -> None:
    section = f"version-two-07 {_SECTION_07.get(header.kind, '6.3')}"
    if header.kind.endswith("_INLINE") and not payload_octets:
        header.fault("rdma_htype", "no part of an RPC message follows", section)
    if rpc is not None and rpc.is_call is not None and rpc.is_call != ("_CALL_" in header.kind):
        header.fault("rdma_htype", f"{'a call' if rpc.is_call else 'a reply'} follows", section)
    if header.kind == "RDMA2_GRANT" and header.xid:
        header.fault("rdma_xid", "a grant of credits has XID 0", section)
    _check_invalidation(header, response=False, section="version-two-07 6.5")


_SECTION_07 = {
    "RDMA2_GRANT": "6.3.2",
    "RDMA2_CALL_MIDDLE": "6.3.6",
    "RDMA2_CALL_INLINE": "6.3.7",
    "RDMA2_REPLY_MIDDLE": "6.3.9",
    "RDMA2_REPLY_INLINE": "6.3.10",
}


def _check_invalidation(header: Header, *, response: bool, section: str) -> None:
    handle = header.number("rdma_inv_handle")
    if handle and not response and handle not in {segment.handle for segment in header.segments}:
        header.fault("rdma_inv_handle", "none of the header's segments has this handle", section)


_RULES: dict[str, Callable[[Header, int, RpcHeader | None], None]] = {
    "1": _version_1,
    "2": _draft_00,
    "2-07": _draft_07,
}


def add_property_values(header: Header) -> None:
    """Adds the values of transport properties below their octets, and what is wrong with them."""
    section = header.version.definition.note("property", "rdma_data").section
    seen: set[int] = set()
    for entry in [entry for one in header.group.fields if one.name == "rdma_props" for entry in one.fields]:
        which, data = entry.number("rdma_which"), entry.member("rdma_data")
        if which is None or data is None or not isinstance(data.value, bytes):
            continue
        if which in seen:
            entry.faults.append("this property is there twice")
            header.faults.append(Fault("rdma_which", entry.offset, "this property is there twice", section))
        seen.add(which)
        if not data.value:
            data.shown = "empty: the default"
            continue
        walk = Walk(header.version.definition, which.to_bytes(4, "big") + data.value)
        for one in walk.structure("property_value").fields[1:]:
            for below in one.walk():
                below.offset += data.offset
            data.fields.append(one)
        header.faults += [Fault(name, offset + data.offset, why, section) for name, offset, why, _ in walk.faults]
