"""A client of NFS version 4.1 for tests, with a codec of its own, which shares nothing with that of the server.

Operations are octets: `lookup("name")`, `read(stateid, 0, 100)`. A `Client` sends COMPOUNDs of them through any
function from the arguments of COMPOUND to its result, in memory or over a connection, and decodes the results.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "ANONYMOUS",
    "BYPASS",
    "CURRENT",
    "FORE",
    "MAX64",
    "READ",
    "STATUS",
    "WRITE",
    "Client",
    "Reply",
    "Stateid",
    "access",
    "backchannel_ctl",
    "bind_conn_to_session",
    "close",
    "commit",
    "create",
    "create_session",
    "destroy_clientid",
    "destroy_session",
    "exchange_id",
    "fattr",
    "free_stateid",
    "getattr_",
    "getfh",
    "link",
    "lock",
    "lock_more",
    "lockt",
    "locku",
    "lookup",
    "lookup_octets",
    "lookupp",
    "opaque",
    "open_",
    "open_downgrade",
    "putfh",
    "putrootfh",
    "read",
    "readdir",
    "readlink",
    "reclaim_complete",
    "remove",
    "rename",
    "restorefh",
    "rpc_call",
    "rpc_result",
    "savefh",
    "secinfo",
    "secinfo_no_name",
    "sequence",
    "setattr_",
    "setattr_size",
    "test_stateid",
    "verify",
    "write",
]

STATUS = {
    0: "OK", 1: "PERM", 2: "NOENT", 5: "IO", 13: "ACCESS", 17: "EXIST", 18: "XDEV", 20: "NOTDIR", 21: "ISDIR",
    22: "INVAL", 28: "NOSPC", 30: "ROFS", 63: "NAMETOOLONG", 66: "NOTEMPTY", 70: "STALE", 10001: "BADHANDLE",
    10003: "BAD_COOKIE", 10004: "NOTSUPP", 10005: "TOOSMALL", 10006: "SERVERFAULT", 10007: "BADTYPE", 10008: "DELAY",
    10009: "SAME", 10010: "DENIED", 10012: "LOCKED", 10013: "GRACE", 10015: "SHARE_DENIED", 10016: "WRONGSEC",
    10017: "CLID_INUSE", 10020: "NOFILEHANDLE", 10021: "MINOR_VERS_MISMATCH", 10022: "STALE_CLIENTID",
    10024: "OLD_STATEID", 10025: "BAD_STATEID", 10027: "NOT_SAME", 10029: "SYMLINK", 10032: "ATTRNOTSUPP",
    10033: "NO_GRACE", 10035: "RECLAIM_CONFLICT", 10036: "BADXDR", 10037: "LOCKS_HELD", 10038: "OPENMODE",
    10040: "BADCHAR", 10041: "BADNAME", 10044: "OP_ILLEGAL", 10052: "BADSESSION", 10053: "BADSLOT",
    10054: "COMPLETE_ALREADY", 10055: "CONN_NOT_BOUND_TO_SESSION", 10063: "SEQ_MISORDERED", 10064: "SEQUENCE_POS",
    10065: "REQ_TOO_BIG", 10066: "REP_TOO_BIG", 10067: "REP_TOO_BIG_TO_CACHE", 10068: "RETRY_UNCACHED_REP",
    10070: "TOO_MANY_OPS", 10071: "OP_NOT_IN_SESSION", 10074: "CLIENTID_BUSY", 10076: "SEQ_FALSE_RETRY",
    10079: "ENCR_ALG_UNSUPP", 10081: "NOT_ONLY_OP", 10082: "WRONG_CRED", 10083: "WRONG_TYPE", 10087: "DELEG_REVOKED",
}  # fmt: skip
"""The names of the statuses that tests meet (RFC 8881 section 15.1)."""
READ, WRITE = 1, 2
MAX64 = (1 << 64) - 1


class Stateid(NamedTuple):
    """stateid4."""

    seqid: int
    other: bytes

    @property
    def octets(self) -> bytes:
        return struct.pack(">I12s", self.seqid, self.other)


ANONYMOUS = Stateid(0, bytes(12))
BYPASS = Stateid(0xFFFFFFFF, b"\xff" * 12)
CURRENT = Stateid(1, bytes(12))


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


FORE = Channel()
"""The fore channel that Linux asks for."""
_BACK = Channel(4096, 4096, 0, 2, 16)


class Reply(NamedTuple):
    """The result of a COMPOUND: (operation's number, status, value) of each."""

    status: str
    tag: bytes
    results: list[tuple[int, str, Any]]

    def value(self, number: int) -> Any:
        """The value of the last result of an operation."""
        return next(value for each, _, value in reversed(self.results) if each == number)


def opaque(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets + bytes(-len(octets) & 3)


def _op(number: int, form: str = "", *fields: Any) -> bytes:
    return struct.pack(f">I{form}", number, *fields)


# Operations


def exchange_id(owner: bytes, verifier: bytes, flags: int = 0x101, protection: bytes = bytes(4)) -> bytes:
    return _op(42, "8s", verifier) + opaque(owner) + struct.pack(">I", flags) + protection + bytes(4)


def create_session(
    client: int, number: int, *, fore: Channel = FORE, back: Channel = _BACK, flags: int = 3, program: int = 0x40000000
) -> bytes:
    credential = struct.pack(">III", 1, 1, 7) + opaque(b"host") + bytes(12)
    return _op(43, "QII", client, number, flags) + fore.octets + back.octets + struct.pack(">I", program) + credential


def sequence(session: bytes, number: int, slot: int = 0, *, kept: bool = False) -> bytes:
    return _op(53, "16sIIII", session, number, slot, slot, kept)


def destroy_session(session: bytes) -> bytes:
    return _op(44, "16s", session)


def destroy_clientid(client: int) -> bytes:
    return _op(57, "Q", client)


def bind_conn_to_session(session: bytes, direction: int) -> bytes:
    return _op(41, "16sII", session, direction, 0)


def backchannel_ctl(program: int, flavor: int = 0) -> bytes:
    return _op(40, "III", program, 1, flavor)


def reclaim_complete(*, one: bool = False) -> bytes:
    return _op(58, "I", one)


def putrootfh() -> bytes:
    return _op(24)


def putfh(handle: bytes) -> bytes:
    return _op(22) + opaque(handle)


def getfh() -> bytes:
    return _op(10)


def savefh() -> bytes:
    return _op(32)


def restorefh() -> bytes:
    return _op(31)


def lookup(name: str) -> bytes:
    return _op(15) + opaque(name.encode())


def lookup_octets(name: bytes) -> bytes:
    return _op(15) + opaque(name)


def lookupp() -> bytes:
    return _op(16)


def remove(name: str) -> bytes:
    return _op(28) + opaque(name.encode())


def rename(old: str, new: str) -> bytes:
    return _op(29) + opaque(old.encode()) + opaque(new.encode())


def link(name: str) -> bytes:
    return _op(11) + opaque(name.encode())


def create(name: str, kind: int, data: bytes = b"", attributes: bytes = bytes(8)) -> bytes:
    """CREATE; `data` is the encoded path of a symbolic link, or the number of a device."""
    return _op(6, "I", kind) + data + opaque(name.encode()) + attributes


def access(bits: int) -> bytes:
    return _op(3, "I", bits)


def readlink() -> bytes:
    return _op(27)


def readdir(
    cookie: int = 0, *words: int, octets: int = 8192, names_octets: int = 0, verifier: bytes = bytes(8)
) -> bytes:
    head = _op(26, "Q8sII", cookie, verifier, names_octets, octets)
    return head + struct.pack(f">I{len(words)}I", len(words), *words)


def secinfo(name: str) -> bytes:
    return _op(33) + opaque(name.encode())


def secinfo_no_name(style: int = 0) -> bytes:
    return _op(52, "I", style)


def commit(offset: int = 0, count: int = 0) -> bytes:
    return _op(5, "QI", offset, count)


def fattr(values: dict[int, bytes]) -> bytes:
    """A fattr4 of encoded values by their numbers."""
    bits = sum(1 << number for number in values)
    words = [bits >> shift & 0xFFFFFFFF for shift in range(0, max(bits.bit_length(), 1), 32)]
    return struct.pack(f">I{len(words)}I", len(words), *words) + opaque(b"".join(values[n] for n in sorted(values)))


def verify(values: dict[int, bytes], *, differs: bool = False) -> bytes:
    """VERIFY, or NVERIFY if `differs`."""
    return _op(17 if differs else 37) + fattr(values)


def setattr_(values: dict[int, bytes], stateid: Stateid = ANONYMOUS) -> bytes:
    return _op(34) + stateid.octets + fattr(values)


def getattr_(*words: int) -> bytes:
    return _op(9, f"I{len(words)}I", len(words), *words)


def setattr_size(stateid: Stateid, size: int) -> bytes:
    return _op(34) + stateid.octets + struct.pack(">III", 1, 1 << 4, 8) + struct.pack(">Q", size)


def read(stateid: Stateid, offset: int, count: int) -> bytes:
    return _op(25) + stateid.octets + struct.pack(">QI", offset, count)


def write(stateid: Stateid, offset: int, data: bytes) -> bytes:
    return _op(38) + stateid.octets + struct.pack(">QI", offset, 2) + opaque(data)


UNCHECKED, GUARDED, EXCLUSIVE, EXCLUSIVE4_1 = range(4)


def open_(
    owner: bytes,
    access: int,
    deny: int = 0,
    *,
    name: str | None = None,
    create: int | None = None,
    size: int | None = None,
    verifier: bytes = b"verifier",
    reclaim: bool = False,
    delegated: Stateid | None = None,
) -> bytes:
    """OPEN by a name (CLAIM_NULL), of the current file (CLAIM_FH, CLAIM_DELEG_CUR_FH), or again (CLAIM_PREVIOUS)."""
    how = bytes(4)
    attributes = bytes(8) if size is None else struct.pack(">IIIQ", 1, 1 << 4, 8, size)
    if create is not None:
        given = {EXCLUSIVE: verifier, EXCLUSIVE4_1: verifier + attributes}.get(create, attributes)
        how = struct.pack(">II", 1, create) + given
    claim = struct.pack(">II", 1, 0) if reclaim else struct.pack(">I", 4)
    if delegated is not None:
        claim = struct.pack(">I", 5) + delegated.octets
    if name is not None:
        claim = struct.pack(">I", 0) + opaque(name.encode())
    return _op(18, "IIIQ", 0, access, deny, 0) + opaque(owner) + how + claim


def close(stateid: Stateid) -> bytes:
    return _op(4, "I", 0) + stateid.octets


def open_downgrade(stateid: Stateid, access: int, deny: int = 0) -> bytes:
    return _op(21) + stateid.octets + struct.pack(">III", 0, access, deny)


def test_stateid(*stateids: Stateid) -> bytes:
    return _op(55, "I", len(stateids)) + b"".join(each.octets for each in stateids)


test_stateid.__test__ = False  # type: ignore[attr-defined]


def delegreturn(stateid: Stateid) -> bytes:
    return _op(8) + stateid.octets


def free_stateid(stateid: Stateid) -> bytes:
    return _op(45) + stateid.octets


def lock(opened: Stateid, owner: bytes, kind: int, start: int, length: int, *, reclaim: bool = False) -> bytes:
    """The first LOCK of a lock owner on a file."""
    new = struct.pack(">II", 1, 0) + opened.octets + struct.pack(">IQ", 0, 0) + opaque(owner)
    return _op(12, "IIQQ", kind, reclaim, start, length) + new


def lock_more(locked: Stateid, kind: int, start: int, length: int) -> bytes:
    """A further LOCK."""
    return _op(12, "IIQQI", kind, 0, start, length, 0) + locked.octets + bytes(4)


def lockt(owner: bytes, kind: int, start: int, length: int) -> bytes:
    return _op(13, "IQQQ", kind, start, length, 0) + opaque(owner)


def locku(locked: Stateid, start: int, length: int) -> bytes:
    return _op(14, "II", 1, 0) + locked.octets + struct.pack(">QQ", start, length)


# Results


class _Cursor:
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


def _exchanged(it: _Cursor) -> dict[str, Any]:
    client, number, flags, protection = it.take("QIII")
    agreed = (it.words(), it.words()) if protection == 1 else None
    it.take("Q")
    found = {"client": client, "sequence": number, "flags": flags, "protection": agreed}
    found |= {"major": it.opaque(), "scope": it.opaque()}
    assert it.take("I") == 0
    return found


def _created(it: _Cursor) -> dict[str, Any]:
    session, number, flags = it.take("16sII")
    channels = []
    for _ in range(2):
        fields = it.take("7I")
        assert fields[0] == fields[6] == 0
        channels.append(Channel(*fields[1:6]))
    return {"session": session, "sequence": number, "flags": flags, "fore": channels[0], "back": channels[1]}


def _opened(it: _Cursor) -> dict[str, Any]:
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


def _denied(it: _Cursor) -> tuple[int, int, int, int, bytes]:
    return (*it.take("QQIQ"), it.opaque())


def _listed(it: _Cursor) -> tuple[list[tuple[int, bytes, tuple[int, ...], bytes]], bool]:
    """(cookie, name, bitmap, values) of each entry, and whether the directory ends with them."""
    it.take("8s")
    entries = []
    while it.take("I"):
        entries.append((it.take("Q"), it.opaque(), it.words(), it.opaque()))
    return entries, bool(it.take("I"))


def _flavors(it: _Cursor) -> list[Any]:
    found: list[Any] = []
    for _ in range(it.take("I")):
        flavor = it.take("I")
        found.append((it.opaque(), *it.take("II")) if flavor == 6 else flavor)
    return found


def _change(it: _Cursor) -> tuple[int, int, int]:
    found: tuple[int, int, int] = it.take("IQQ")
    return found


_VALUES: dict[int, Callable[[_Cursor], Any]] = {
    3: lambda it: it.take("II"),
    4: _Cursor.stateid,
    5: lambda it: it.take("8s"),
    6: lambda it: (_change(it), it.words()),
    9: lambda it: (it.words(), it.opaque()),
    10: _Cursor.opaque,
    11: _change,
    12: _Cursor.stateid,
    14: _Cursor.stateid,
    18: _opened,
    21: _Cursor.stateid,
    25: lambda it: (bool(it.take("I")), it.opaque()),
    26: _listed,
    27: _Cursor.opaque,
    28: _change,
    29: lambda it: (_change(it), _change(it)),
    33: _flavors,
    38: lambda it: it.take("II8s"),
    41: lambda it: it.take("16sII"),
    42: _exchanged,
    43: _created,
    52: _flavors,
    53: lambda it: it.take("16sIIIII"),
    55: lambda it: [STATUS[status] for status in it.words()],
}
"""The result of an operation that succeeds, if it has more than its status."""


def _result(it: _Cursor) -> tuple[int, str, Any]:
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
    it = _Cursor(octets)
    status, tag = STATUS[it.take("I")], it.opaque()
    results = [_result(it) for _ in range(it.take("I"))]
    assert it.at == len(octets), "octets are left over"
    assert status == (results[-1][1] if results else status)
    return Reply(status, tag, results)


def rpc_call(xid: int, arguments: bytes, *, uid: int = 0) -> bytes:
    """A call of COMPOUND with AUTH_SYS, as a record of TCP."""
    credential = struct.pack(">I", 1) + opaque(b"host") + struct.pack(">III", uid, uid, 0)
    head = struct.pack(">6I", xid, 0, 2, 100003, 4, 1) + struct.pack(">I", 1) + opaque(credential) + bytes(8)
    return struct.pack(">I", 0x80000000 | len(head) + len(arguments)) + head + arguments


def rpc_result(xid: int, message: bytes) -> bytes:
    """The result in an accepted reply, the record mark of which has been taken off."""
    assert struct.unpack_from(">6I", message) == (xid, 1, 0, 0, 0, 0)
    return message[24:]


class Client:
    """A client with one session, whose slot 0 it uses.

    `exchange` sends the arguments of a COMPOUND, and returns its result.
    """

    def __init__(
        self, exchange: Callable[[bytes], bytes], owner: bytes = b"client", verifier: bytes = b"boot   1"
    ) -> None:
        self.exchange = exchange
        self.owner, self.verifier = owner, verifier
        self.id = 0
        self.session = b""
        self.number = 0
        """The number of the last SEQUENCE."""

    def compound(self, *operations: bytes, minor: int = 1, tag: bytes = b"") -> Reply:
        """A COMPOUND of these operations alone."""
        head = opaque(tag) + struct.pack(">II", minor, len(operations))
        return decode_reply(self.exchange(head + b"".join(operations)))

    def run(self, *operations: bytes, kept: bool = False, minor: int = 1) -> Reply:
        """A COMPOUND with the next SEQUENCE."""
        self.number += 1
        return self.compound(sequence(self.session, self.number, kept=kept), *operations, minor=minor)

    def repeat(self, *operations: bytes, kept: bool = False, minor: int = 1) -> Reply:
        """The same COMPOUND as the last one, if the operations are the same."""
        return self.compound(sequence(self.session, self.number, kept=kept), *operations, minor=minor)

    def introduce(self, flags: int = 0x101, protection: bytes = bytes(4)) -> dict[str, Any]:
        reply = self.compound(exchange_id(self.owner, self.verifier, flags, protection))
        assert reply.status == "OK", reply
        found: dict[str, Any] = reply.value(42)
        self.id = found["client"]
        return found

    def start(self, *, complete: bool = True, **session: Any) -> Client:
        """EXCHANGE_ID, CREATE_SESSION and RECLAIM_COMPLETE."""
        number = self.introduce()["sequence"]
        reply = self.compound(create_session(self.id, number, **session))
        assert reply.status == "OK", reply
        self.session, self.number = reply.value(43)["session"], 0
        if complete:
            assert self.run(reclaim_complete()).status == "OK"
        return self

    def handle(self, *path: str) -> bytes:
        """The filehandle of a path."""
        reply = self.run(putrootfh(), *map(lookup, path), getfh())
        assert reply.status == "OK", reply
        found: bytes = reply.value(10)
        return found

    def opened(self, handle: bytes, access: int = READ, deny: int = 0, owner: bytes = b"owner") -> Stateid:
        """The stateid of an OPEN of a file."""
        reply = self.run(putfh(handle), open_(owner, access, deny))
        assert reply.status == "OK", reply
        stateid: Stateid = reply.value(18)["stateid"]
        return stateid

    def locked(
        self, handle: bytes, opened: Stateid, owner: bytes = b"locker", start: int = 0, length: int = 10
    ) -> Stateid:
        """The stateid of a write lock."""
        reply = self.run(putfh(handle), lock(opened, owner, 2, start, length))
        assert reply.status == "OK", reply
        stateid: Stateid = reply.value(12)
        return stateid
