"""The results of COMPOUND for the test client of NFS version 4.1, by a codec of its own."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["STATUS", "Channel", "Cursor", "Reply", "Stateid", "decode_reply"]

STATUS = {
    0: "OK", 1: "PERM", 2: "NOENT", 5: "IO", 6: "NXIO", 13: "ACCESS", 17: "EXIST", 18: "XDEV", 20: "NOTDIR",
    21: "ISDIR", 22: "INVAL", 27: "FBIG", 28: "NOSPC", 30: "ROFS", 63: "NAMETOOLONG", 66: "NOTEMPTY", 70: "STALE",
    10001: "BADHANDLE", 10003: "BAD_COOKIE", 10004: "NOTSUPP", 10005: "TOOSMALL", 10006: "SERVERFAULT",
    10007: "BADTYPE", 10008: "DELAY", 10009: "SAME", 10010: "DENIED", 10012: "LOCKED", 10013: "GRACE",
    10015: "SHARE_DENIED", 10016: "WRONGSEC", 10017: "CLID_INUSE", 10020: "NOFILEHANDLE",
    10021: "MINOR_VERS_MISMATCH", 10022: "STALE_CLIENTID", 10024: "OLD_STATEID", 10025: "BAD_STATEID",
    10027: "NOT_SAME", 10029: "SYMLINK", 10032: "ATTRNOTSUPP", 10033: "NO_GRACE", 10035: "RECLAIM_CONFLICT",
    10036: "BADXDR", 10037: "LOCKS_HELD", 10038: "OPENMODE", 10040: "BADCHAR", 10041: "BADNAME",
    10044: "OP_ILLEGAL", 10046: "FILE_OPEN", 10047: "ADMIN_REVOKED", 10052: "BADSESSION", 10053: "BADSLOT",
    10054: "COMPLETE_ALREADY", 10055: "CONN_NOT_BOUND_TO_SESSION", 10063: "SEQ_MISORDERED",
    10064: "SEQUENCE_POS", 10065: "REQ_TOO_BIG",
    10066: "REP_TOO_BIG", 10067: "REP_TOO_BIG_TO_CACHE", 10068: "RETRY_UNCACHED_REP", 10070: "TOO_MANY_OPS",
    10071: "OP_NOT_IN_SESSION", 10074: "CLIENTID_BUSY", 10076: "SEQ_FALSE_RETRY", 10079: "ENCR_ALG_UNSUPP",
    10081: "NOT_ONLY_OP", 10082: "WRONG_CRED", 10083: "WRONG_TYPE", 10087: "DELEG_REVOKED",
    10088: "PARTNER_NOTSUPP", 10090: "UNION_NOTSUPP", 10095: "NOXATTR", 10096: "XATTR2BIG",
}  # fmt: skip
"""The names of the statuses that tests meet (RFC 8881 section 15.1)."""


class Stateid(NamedTuple):
    """stateid4."""

    seqid: int
    other: bytes

    @property
    def octets(self) -> bytes:
        return struct.pack(">I12s", self.seqid, self.other)


class Channel(NamedTuple):
    """channel_attrs4."""

    request_octets: int = 1_049_620
    reply_octets: int = 1_049_480
    kept_octets: int = 7_584
    operations: int = 8
    slots: int = 64

    @property
    def octets(self) -> bytes:
        return struct.pack(">7I", 0, *self, 0)


class Reply(NamedTuple):
    """The result of a COMPOUND: (operation's number, status, value) of each."""

    status: str
    tag: bytes
    results: list[tuple[int, str, Any]]

    def value(self, number: int) -> Any:
        """The value of the last result of an operation."""
        return next(value for each, _, value in reversed(self.results) if each == number)


class Cursor:
    """Reads encoded items one after another."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at = 0

    def take(self, form: str) -> Any:
        found = struct.unpack_from(f">{form}", self.octets, self.at)
        self.at += struct.calcsize(f">{form}")
        return found[0] if len(found) == 1 else found

    def opaque(self) -> bytes:
        length = self.take("I")
        octets = self.octets[self.at : self.at + length]
        assert len(octets) == length
        self.at += length + (-length & 3)
        return octets

    def stateid(self) -> Stateid:
        return Stateid(*self.take("I12s"))

    def words(self) -> tuple[int, ...]:
        return tuple(self.take("I") for _ in range(self.take("I")))


def _exchanged(it: Cursor) -> dict[str, Any]:
    client, number, flags, protection = it.take("QIII")
    agreed = (it.words(), it.words()) if protection == 1 else None
    it.take("Q")
    found = {"client": client, "sequence": number, "flags": flags, "protection": agreed}
    found |= {"major": it.opaque(), "scope": it.opaque()}
    assert it.take("I") == 0
    return found


def _created(it: Cursor) -> dict[str, Any]:
    session, number, flags = it.take("16sII")
    channels = []
    for _ in range(2):
        fields = it.take("7I")
        assert fields[0] == fields[6] == 0
        channels.append(Channel(*fields[1:6]))
    return {"session": session, "sequence": number, "flags": flags, "fore": channels[0], "back": channels[1]}


def _opened(it: Cursor) -> dict[str, Any]:
    stateid, change, flags, attributes = it.stateid(), it.take("IQQ"), it.take("I"), it.words()
    delegation = it.take("I")
    why = read = None
    if delegation == 1:
        read = it.stateid()
        assert it.take("I4I") == (0, 0, 0, 0, 0), "not recalled, and an empty entry for others"
    if delegation == 3:
        why = it.take("I")
        if why in {1, 2}:
            it.take("I")
    assert delegation in {0, 1, 3}
    found = {"stateid": stateid, "change": change, "flags": flags, "attributes": attributes}
    return {**found, "why": why, "delegation": read}


def _denied(it: Cursor) -> tuple[int, int, int, int, bytes]:
    return (*it.take("QQIQ"), it.opaque())


def _listed(it: Cursor) -> tuple[list[tuple[int, bytes, tuple[int, ...], bytes]], bool]:
    """(cookie, name, bitmap, values) of each entry, and whether the directory ends with them."""
    it.take("8s")
    entries = []
    while it.take("I"):
        entries.append((it.take("Q"), it.opaque(), it.words(), it.opaque()))
    return entries, bool(it.take("I"))


def _flavors(it: Cursor) -> list[Any]:
    found: list[Any] = []
    for _ in range(it.take("I")):
        flavor = it.take("I")
        found.append((it.opaque(), *it.take("II")) if flavor == 6 else flavor)
    return found


def _change(it: Cursor) -> tuple[int, int, int]:
    found: tuple[int, int, int] = it.take("IQQ")
    return found


def _copied(it: Cursor) -> tuple[int, int, bytes]:
    """(octets, how stable, verifier) of a synchronous COPY."""
    assert it.take("I") == 0, "no callback follows"
    octets, stable, verifier, consecutive, synchronous = it.take("QI8sII")
    assert (consecutive, synchronous) == (1, 1)
    return octets, stable, verifier


def _parts(it: Cursor) -> tuple[bool, list[tuple[int, bytes | int]]]:
    """Whether the file ends, and (offset, data or the length of a hole) of each part."""
    eof, parts = bool(it.take("I")), []
    for _ in range(it.take("I")):
        is_hole, offset = it.take("IQ")
        parts.append((offset, it.take("Q") if is_hole else it.opaque()))
    return eof, parts


def _xattrs(it: Cursor) -> tuple[int, list[bytes], bool]:
    """(cookie, names, whether there are no further ones)."""
    cookie = it.take("Q")
    return cookie, [it.opaque() for _ in range(it.take("I"))], bool(it.take("I"))


_VALUES: dict[int, Callable[[Cursor], Any]] = {
    3: lambda it: it.take("II"),
    4: Cursor.stateid,
    5: lambda it: it.take("8s"),
    6: lambda it: (_change(it), it.words()),
    9: lambda it: (it.words(), it.opaque()),
    10: Cursor.opaque,
    11: _change,
    12: Cursor.stateid,
    14: Cursor.stateid,
    18: _opened,
    21: Cursor.stateid,
    25: lambda it: (bool(it.take("I")), it.opaque()),
    26: _listed,
    27: Cursor.opaque,
    28: _change,
    29: lambda it: (_change(it), _change(it)),
    33: _flavors,
    38: lambda it: it.take("II8s"),
    41: lambda it: it.take("16sII"),
    42: _exchanged,
    43: _created,
    52: _flavors,
    53: lambda it: it.take("16sIIIII"),
    60: _copied,
    63: Cursor.words,
    69: lambda it: (bool(it.take("I")), it.take("Q")),
    68: _parts,
    72: Cursor.opaque,
    73: _change,
    74: _xattrs,
    75: _change,
    55: lambda it: [STATUS[status] for status in it.words()],
}
"""The result of an operation that succeeds, if it has more than its status."""


def _result(it: Cursor) -> tuple[int, str, Any]:
    number, status = it.take("II")
    value = None
    if number == 34:
        value = it.words()
    elif status == 10010:
        value = _denied(it)
    elif status == 0 and number in _VALUES:
        value = _VALUES[number](it)
    return number, STATUS[status], value


def decode_reply(octets: bytes) -> Reply:
    it = Cursor(octets)
    status, tag = STATUS[it.take("I")], it.opaque()
    results = [_result(it) for _ in range(it.take("I"))]
    assert it.at == len(octets), "octets are left over"
    assert status == (results[-1][1] if results else status)
    return Reply(status, tag, results)
