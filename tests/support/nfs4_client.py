"""A client of NFS version 4.1 for tests, with a codec of its own, which shares nothing with that of the server.

Operations are octets: `lookup("name")`, `read(stateid, 0, 100)`. A `Client` sends COMPOUNDs of them through any
function from the arguments of COMPOUND to its result, in memory or over a connection, and decodes the results.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from support.nfs4_results import STATUS, Channel, Reply, Stateid, decode_reply

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
    "allocate",
    "backchannel_ctl",
    "bind_conn_to_session",
    "clone",
    "close",
    "commit",
    "copy",
    "create",
    "create_session",
    "deallocate",
    "delegreturn",
    "destroy_clientid",
    "destroy_session",
    "exchange_id",
    "fattr",
    "free_stateid",
    "getattr_",
    "getfh",
    "getxattr",
    "io_advise",
    "link",
    "listxattrs",
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
    "read_plus",
    "readdir",
    "readlink",
    "reclaim_complete",
    "remove",
    "removexattr",
    "rename",
    "restorefh",
    "rpc_call",
    "rpc_result",
    "savefh",
    "secinfo",
    "secinfo_no_name",
    "seek",
    "sequence",
    "setattr_",
    "setattr_size",
    "setxattr",
    "test_stateid",
    "verify",
    "write",
]

READ, WRITE = 1, 2
MAX64 = (1 << 64) - 1


ANONYMOUS = Stateid(0, bytes(12))
BYPASS = Stateid(0xFFFFFFFF, b"\xff" * 12)
CURRENT = Stateid(1, bytes(12))


FORE = Channel()
"""The fore channel that Linux asks for."""
_BACK = Channel(4096, 4096, 0, 2, 16)


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


def read_plus(stateid: Stateid, offset: int, count: int) -> bytes:
    return _op(68) + stateid.octets + struct.pack(">QI", offset, count)


def write(stateid: Stateid, offset: int, data: bytes, stable: int = 2) -> bytes:
    return _op(38) + stateid.octets + struct.pack(">QI", offset, stable) + opaque(data)


def seek(stateid: Stateid, offset: int, what: int) -> bytes:
    """SEEK to data (0) or a hole (1)."""
    return _op(69) + stateid.octets + struct.pack(">QI", offset, what)


def allocate(stateid: Stateid, offset: int, length: int) -> bytes:
    return _op(59) + stateid.octets + struct.pack(">QQ", offset, length)


def deallocate(stateid: Stateid, offset: int, length: int) -> bytes:
    return _op(62) + stateid.octets + struct.pack(">QQ", offset, length)


def io_advise(stateid: Stateid, offset: int, count: int, *hints: int) -> bytes:
    return _op(63) + stateid.octets + struct.pack(">QQII", offset, count, 1, sum(1 << hint for hint in hints))


def copy(
    source: Stateid, target: Stateid, start: int, to: int, count: int, *, synchronous: bool = True, servers: bytes = b""
) -> bytes:
    """COPY from the saved file; `servers` is an encoded netloc4."""
    head = _op(60) + source.octets + target.octets + struct.pack(">QQQII", start, to, count, 1, synchronous)
    return head + struct.pack(">I", bool(servers)) + servers


def clone(source: Stateid, target: Stateid, start: int, to: int, count: int) -> bytes:
    return _op(71) + source.octets + target.octets + struct.pack(">QQQ", start, to, count)


def getxattr(name: bytes) -> bytes:
    return _op(72) + opaque(name)


def setxattr(name: bytes, value: bytes, option: int = 0) -> bytes:
    """SETXATTR; `option` is 0 for either, 1 to create, 2 to replace."""
    return _op(73, "I", option) + opaque(name) + opaque(value)


def listxattrs(cookie: int = 0, octets: int = 8192) -> bytes:
    return _op(74, "QI", cookie, octets)


def removexattr(name: bytes) -> bytes:
    return _op(75) + opaque(name)


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
    delegation: int = 0,
    delegated: Stateid | None = None,
    attributes: bytes = bytes(8),
    seqid: int = 0,
    client: int = 0,
) -> bytes:
    """OPEN by a name (CLAIM_NULL), of the current file (CLAIM_FH, CLAIM_DELEG_CUR_FH), or again (CLAIM_PREVIOUS).

    `attributes` is an encoded fattr4, in place of which `size` may stand.
    """
    how = bytes(4)
    if size is not None:
        attributes = struct.pack(">IIIQ", 1, 1 << 4, 8, size)
    if create is not None:
        given = {EXCLUSIVE: verifier, EXCLUSIVE4_1: verifier + attributes}.get(create, attributes)
        how = struct.pack(">II", 1, create) + given
    claim = struct.pack(">II", 1, delegation) if reclaim else struct.pack(">I", 4)
    if delegated is not None:
        claim = struct.pack(">I", 5) + delegated.octets
    if name is not None:
        claim = struct.pack(">I", 0) + opaque(name.encode())
    return _op(18, "IIIQ", seqid, access, deny, client) + opaque(owner) + how + claim


def close(stateid: Stateid, *, seqid: int = 0) -> bytes:
    return _op(4, "I", seqid) + stateid.octets


def open_downgrade(stateid: Stateid, access: int, deny: int = 0, *, seqid: int = 0) -> bytes:
    return _op(21) + stateid.octets + struct.pack(">III", seqid, access, deny)


def test_stateid(*stateids: Stateid) -> bytes:
    return _op(55, "I", len(stateids)) + b"".join(each.octets for each in stateids)


test_stateid.__test__ = False  # type: ignore[attr-defined]


def delegreturn(stateid: Stateid) -> bytes:
    return _op(8) + stateid.octets


def free_stateid(stateid: Stateid) -> bytes:
    return _op(45) + stateid.octets


def lock(
    opened: Stateid,
    owner: bytes,
    kind: int,
    start: int,
    length: int,
    *,
    reclaim: bool = False,
    seqid: int = 0,
    client: int = 0,
) -> bytes:
    """The first LOCK of a lock owner on a file."""
    new = struct.pack(">II", 1, seqid) + opened.octets + struct.pack(">IQ", seqid, client) + opaque(owner)
    return _op(12, "IIQQ", kind, reclaim, start, length) + new


def lock_more(locked: Stateid, kind: int, start: int, length: int, *, seqid: int = 0) -> bytes:
    """A further LOCK."""
    return _op(12, "IIQQI", kind, 0, start, length, 0) + locked.octets + struct.pack(">I", seqid)


def lockt(owner: bytes, kind: int, start: int, length: int, *, client: int = 0) -> bytes:
    return _op(13, "IQQQ", kind, start, length, client) + opaque(owner)


def locku(locked: Stateid, start: int, length: int, *, kind: int = 1, seqid: int = 0) -> bytes:
    return _op(14, "II", kind, seqid) + locked.octets + struct.pack(">QQ", start, length)


def rpc_call(xid: int, arguments: bytes) -> bytes:
    """A call of COMPOUND with AUTH_SYS, as a record of TCP."""
    credential = struct.pack(">I", 1) + opaque(b"host") + bytes(12)
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
