"""Rules of the round-trip extension that concern more than one field of one message."""

from __future__ import annotations

from rpcrdma_lab.dissect.fields import Field
from rpcrdma_lab.dissect.headers import Header

__all__ = ["check_transmission", "report_shown"]

_PREFIXES = {"ROPT_XMTREQ": ("optxrq", "9.2"), "ROPT_XMTRESP": ("optxrs", "9.3"), "ROPT_XMTCONT": ("optxc", "9.4")}
_MOVED = {1, 2}


def check_transmission(header: Header, room: int) -> None:
    """Adds a fault to `header.faults` for each rule that a transmission or report of the round-trip extension breaks.

    Headers of other types are ignored. `room` is the number of octets of the message after the header.
    """
    if header.kind == "ROPT_REPTERR":
        _check_report(header)
        return
    if header.kind not in _PREFIXES:
        return
    prefix, section = _PREFIXES[header.kind]
    octets = header.number(f"{prefix}_pslen")
    if octets > room:
        header.fault(f"{prefix}_pslen", f"{octets} octets of payload, {room} follow", f"rtrext {section}", "RT-12")
    if header.kind == "ROPT_XMTCONT":
        return
    if not header.number(f"{prefix}_count"):
        header.fault(f"{prefix}_count", "a group has at least one transmission", f"rtrext {section}")
    is_response = header.kind == "ROPT_XMTRESP"
    if header.response is not None and header.response != is_response and not header.faults:
        header.fault("rdma_flags", f"RESPONSE does not fit to {header.kind}", "version-two-00 6.3.2", "V2-38")
    _check_positions(header, f"{prefix}_ddp")
    _check_ranges(header)


def _check_report(header: Header) -> None:
    about = header.find("optre_bad")
    is_call = about is not None and about.number("xmsi_dir") == 0
    if header.response is not None and header.response != is_call:
        which = "request" if is_call else "response"
        header.fault("rdma_flags", f"RESPONSE does not fit to a report about a {which}", "version-two-00 6.3.2")
    if about is not None and about.number("xmsi_xid") != header.xid:
        header.fault("rdma_xid", "not the XID of the transmission that is wrong", "rtrext 9.5")


def _check_positions(header: Header, name: str) -> None:
    """Adds a fault to `header` for each item with a wrong Position: unaligned, out of order, or within another item.

    Only items outside the payload are checked. `name` is the name of the field with the list of items.
    """
    end = 0
    for entry in header.entries(name):
        position, length = entry.number("xmdmi_disp") or 0, entry.number("xmdmi_length") or 0
        if entry.number("xmdmi_where", "xmdl_type") not in _MOVED:
            continue
        if position & 3:
            _mark(header, entry, "xmdmi_disp", "a Position is a multiple of 4", "rtrext 7.3")
        elif position < end:
            _mark(header, entry, "xmdmi_disp", f"{end} or more is needed after the item before", "rtrext 7.3")
        end = position + length + (-length & 3)


def _check_ranges(header: Header) -> None:
    """Adds a fault for each range of directions that ends before it begins, or begins before an earlier one ends."""
    before = 0
    for entry in header.entries("optxrq_rsd"):
        begin, end = entry.number("xmdrsdr_begin") or 0, entry.number("xmdrsdr_end") or 0
        if end < begin:
            _mark(header, entry, "xmdrsdr_end", f"the range begins at {begin}", "rtrext 7.4", "RT-9")
        elif begin < before:
            reason = f"{before} or more is needed after the range before"
            _mark(header, entry, "xmdrsdr_begin", reason, "rtrext 7.4", "RT-9")
        before = max(before, begin + 1, end)


def _mark(header: Header, entry: Field, name: str, reason: str, section: str, requirement: str = "") -> None:
    found = entry.member(name)
    assert found is not None
    header.fault_at(found, reason, section, requirement)


def report_shown(header: Header) -> str:
    """Returns text about a report (ROPT_REPTERR): the error, the wrong transmission, the values found and expected.

    Returns "a report" if the fields for this text were not decoded.
    """
    about, info = header.find("optre_bad"), header.find("optre_info")
    which = info.member("optre_which") if info is not None else None
    if about is None or info is None or which is None:
        return "a report"
    code = which.shown.partition("(")[2].partition(":")[0]
    message = "response" if about.number("xmsi_dir") else "request"
    said = f"{code}, transmission {about.number('xmsi_seq')} of a {message}"
    value, least, most = (info.number("optri_range", f"optri_{name}") for name in ("value", "min", "max"))
    if value is not None and least is not None and most is not None:
        misaligned = least <= value <= most
        said += f": {value} is misaligned" if misaligned else f": {value} is not in {least} to {most}"
    expected, current = (info.number("optri_order", f"optri_{name}") for name in ("expect", "current"))
    if expected is not None and current is not None:
        said += f": {_shown(header, code, expected)} was expected, {_shown(header, code, current)} came"
    return said


def _shown(header: Header, code: str, number: int) -> str:
    if code in {"OPTRERR_BADHMT", "OPTRERR_BADOMT"}:
        return header.version.definition.codes["header_type"].get(number, str(number))
    return f"{number:#010x}" if code == "OPTRERR_BADXID" else str(number)
