"""Which calls are repeats: one that differs in any property is none, however its data came."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from rpcrdma.nfs import v3
from rpcrdma.rpc.auth import AuthSys, Credential
from rpcrdma.rpc.calling import CallEncoder
from rpcrdma.rpc.message import decode_call
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.reply_cache import ReplyCache, call_key
from rpcrdma.xdr.codec import Decoder, Payload, PlacedByPosition
from support.cases import each_case

DATA = bytes(range(256)) * 64
FILE = v3.nfs_fh3(b"handle of 28 octets, sixteen")


def changed(data: bytes, at: int, octets: int = 1) -> bytes:
    return data[:at] + bytes(octet ^ 0x40 for octet in data[at : at + octets]) + data[at + octets :]


USER = AuthSys(stamp=1764000000, machine="host", uid=1000, gid=100, gids=(4, 27))


@dataclass(frozen=True)
class Call:
    """A WRITE, by all of its properties. `placed`: its data come in a Read chunk, as over RDMA they may."""

    client: str = "192.0.2.7"
    xid: int = 5
    program: int = v3.WRITE.program
    version: int = v3.WRITE.version
    procedure: int = v3.WRITE.number
    credential: Credential = USER
    file: bytes = FILE.data
    offset: int = 1 << 20
    stable: v3.stable_how = v3.stable_how.UNSTABLE
    data: bytes = DATA
    placed: bool = False

    def key(self) -> Any:
        """As a server finds it, from the octets of the call."""
        numbers = {"program": self.program, "version": self.version, "number": self.procedure}
        procedure: Procedure[Any, Any] = Procedure(
            **numbers,
            name="WRITE",
            method="write",
            encode_args=v3.encode_WRITE3args,
            decode_args=v3.decode_WRITE3args,
            encode_result=v3.encode_WRITE3res,
            decode_result=v3.decode_WRITE3res,
        )
        args = v3.WRITE3args(v3.nfs_fh3(self.file), self.offset, len(self.data), self.stable, self.data)
        payload = CallEncoder(self.credential).encode(self.xid, procedure, args)
        if self.placed:
            (item,) = payload.items
            chunks = PlacedByPosition({item.position: memoryview(self.data)})
            stream = Decoder(b"".join(payload.gather(payload.items)), placed=chunks)
        else:
            stream = Decoder(b"".join(payload.gather()))
        decode_call(stream)
        procedure.decode_args(stream)
        stream.done("call")
        return call_key(self.client, self.xid, procedure, stream)


FIRST = Call()
MIDDLE = len(DATA) // 2
OTHERS: dict[str, Call] = {
    "client": replace(FIRST, client="192.0.2.8"),
    "xid": replace(FIRST, xid=6),
    "program": replace(FIRST, program=100_005),
    "version": replace(FIRST, version=4),
    "procedure": replace(FIRST, procedure=21),
    **{
        f"credential.{name}": replace(FIRST, credential=replace(USER, **{name: value}))
        for name, value in {"stamp": 0, "machine": "hosts", "uid": 1001, "gid": 101, "gids": (4, 28)}.items()
    },
    "credential.gids, fewer": replace(FIRST, credential=replace(USER, gids=(4,))),
    "file": replace(FIRST, file=changed(FILE.data, 20)),
    "file, longer": replace(FIRST, file=FILE.data + b"\0"),
    "offset": replace(FIRST, offset=(1 << 20) + 1),
    "stable": replace(FIRST, stable=v3.stable_how.FILE_SYNC),
    **{f"data at {at}": replace(FIRST, data=changed(DATA, at)) for at in (0, 4095, 4096, MIDDLE, 12287, len(DATA) - 1)},
    "data, four octets in the middle": replace(FIRST, data=changed(DATA, MIDDLE, 4)),
    "data, shorter": replace(FIRST, data=DATA[:-1]),
    "data, longer": replace(FIRST, data=DATA + b"\0"),
    "data, halves in turn": replace(FIRST, data=DATA[MIDDLE + 1 :] + DATA[: MIDDLE + 1]),
}


def test_every_property_of_a_call_is_varied() -> None:
    varied = {name.split(".")[0].split(",")[0].split(" ")[0] for name in OTHERS}
    assert varied == {field.name for field in fields(Call)} - {"placed"}
    assert {name.removeprefix("credential.") for name in OTHERS if "." in name} >= {
        field.name for field in fields(AuthSys)
    }


@each_case("stamp", [0, 1764000000])
@each_case("placed", [False, True])
@each_case("other", OTHERS)
def test_a_call_that_differs_in_one_property_is_no_repeat(other: str, placed: bool, stamp: int) -> None:
    def stamped(call: Call) -> Call:
        if stamp or other == "credential.stamp":
            return call
        return replace(call, credential=replace(call.credential, stamp=stamp))

    cache = ReplyCache()
    call = cache.begin(stamped(replace(FIRST, placed=placed)).key())
    different = stamped(replace(OTHERS[other], placed=placed)).key()
    assert cache.find(different, 0.0) is None
    cache.finish(call, Payload(b"reply"), 0.0)
    assert cache.find(different, 0.0) is None
    for again in (False, True):
        assert cache.find(stamped(replace(FIRST, placed=again)).key(), 0.0) is call
