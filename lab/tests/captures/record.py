"""Records a capture of each kind of conversation beside this file: `python lab/tests/captures/record.py`.

Client and server of this library talk over loopback; `broken` and `terminate` are octets made by hand, with violations.
`roce-*.pcap` come from two emulated guests with rxe, Linux 6.1.0-56-amd64: `run.py roce-captures-are-explained` with
RPCRDMA_WRITE_VECTORS=1 records them. `FROM_GUESTS` says which programs talk in them.
`tshark-read.pcapng` is the conversation of `v1-read`, which TShark 4.0.17 of Debian has recorded on loopback:
`tshark -i lo -f "tcp port PORT" -w tshark-read.pcapng`. The options that describe the machine are taken out.

Each capture has its explanation as NAME.txt. `test_captures_as_ladders.py` compares it with the ladder of today, and
`record.py --explain` writes the explanations anew without recording.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
# `support` stands in the folder of the library's tests.
sys.path.insert(0, str(FOLDER.parents[2] / "tests"))

import rpcrdma  # noqa: E402
from rpcrdma.aio.server.rdma_server import RdmaServerConfig  # noqa: E402
from rpcrdma.cli.main import main  # noqa: E402
from rpcrdma.nfs import v3  # noqa: E402
from rpcrdma.rpc.auth import AuthNone  # noqa: E402
from rpcrdma.rpc.service import CallContext  # noqa: E402
from rpcrdma.transport import TransportConfig  # noqa: E402
from rpcrdma_lab.simulation import sized_calls  # noqa: E402
from support.octets import words  # noqa: E402
from support.raw_capture import CLIENT, SERVER, HandMadeCapture  # noqa: E402
from support.raw_iwarp import fpdu, untagged  # noqa: E402

__all__ = ["FOLDER", "FROM_GUESTS", "KINDS", "NAMES", "capture_of", "options_of"]

HANDLE = v3.nfs_fh3(b"a file's handle!")
NO_ATTRIBUTES = v3.post_op_attr(False, None)
OCTETS, PLACED_OCTETS = 6001, 20_001
NFS3ERR_NOENT, ERR_CHUNK = 2, 2


class _OneFile(v3.NFS_V3_Service):
    """Answers calls on one file in memory."""

    IDEMPOTENT = frozenset({v3.READ.number, v3.WRITE.number, v3.READLINK.number})

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NO_ATTRIBUTES, args.count, True, bytes(args.count)))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        unchanged = v3.wcc_data(v3.pre_op_attr(False, None), NO_ATTRIBUTES)
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, v3.WRITE3resok(unchanged, args.count, args.stable, bytes(8)))

    def lookup(self, args: v3.LOOKUP3args, context: CallContext) -> v3.LOOKUP3res:
        return v3.LOOKUP3res(v3.nfsstat3.NFS3ERR_NOENT, v3.LOOKUP3resfail(NO_ATTRIBUTES))


class _Sized(sized_calls.SIZED_CALLS_V1_Service):
    def sized_long_call(self, args: sized_calls.message_data, context: CallContext) -> sized_calls.message_size:
        return sized_calls.message_size(len(args.octets))

    def sized_long_reply(self, args: sized_calls.message_size, context: CallContext) -> sized_calls.message_data:
        return sized_calls.message_data(bytes(args.octets))


Talk = Callable[[Any], Awaitable[object]]
Script = Callable[[HandMadeCapture], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of conversation: either calls through the library, or octets made by hand."""

    talk: Talk | None = None
    version: str = "1"
    extension: str = "off"
    script: Script | None = None
    host: str = "127.0.0.1"
    lost: int | None = None
    """The packet that is taken out, from 0 on."""
    cut: int | None = None
    """The packet in which the file ends."""


def _read(connection: Any, octets: int = OCTETS) -> Awaitable[object]:
    return connection.call(v3.READ, v3.READ3args(HANDLE, 0, octets), into=bytearray(octets))  # type: ignore[no-any-return]


def _write(connection: Any, octets: int = OCTETS) -> Awaitable[object]:
    arguments = v3.WRITE3args(HANDLE, 0, octets, v3.stable_how.FILE_SYNC, bytes(octets))
    return connection.call(v3.WRITE, arguments)  # type: ignore[no-any-return]


def _lookup(connection: Any) -> Awaitable[object]:
    name = v3.diropargs3(HANDLE, "no such file")
    return connection.call(v3.LOOKUP, v3.LOOKUP3args(name))  # type: ignore[no-any-return]


def _long_call(connection: Any) -> Awaitable[object]:
    return connection.call(sized_calls.SIZED_LONG_CALL, sized_calls.message_data(bytes(OCTETS)))  # type: ignore[no-any-return]


def _long_reply(connection: Any) -> Awaitable[object]:
    return connection.call(sized_calls.SIZED_LONG_REPLY, sized_calls.message_size(OCTETS))  # type: ignore[no-any-return]


def _call(xid: int, *, sent: int | None = None, credits_: int = 32, lists: bytes = words(0, 0, 0)) -> bytes:
    """GETATTR of a handle with four octets; `sent`: the XID in the header, if it is another."""
    header = words(xid if sent is None else sent, 1, credits_, 0) + lists
    return header + words(xid, 0, 2, 100003, 3, 1, 0, 0, 0, 0) + words(4, 0x01020304)


def _broken(capture: HandMadeCapture) -> None:
    capture.send(CLIENT, _call(1))
    capture.send(SERVER, words(1, 1, 0, 0, 0, 0, 0) + words(1, 1, 0, 0, 0, 0) + words(NFS3ERR_NOENT))
    capture.send(CLIENT, _call(2, sent=3))
    capture.send(CLIENT, _call(4, lists=words(1, 41, 0x99, 10, 0, 0x1000) + words(0, 0, 0)))
    capture.send(SERVER, words(4, 1, 32, 4, ERR_CHUNK))


def _three_calls(capture: HandMadeCapture) -> None:
    for xid in (1, 2, 3):
        capture.send(CLIENT, _call(xid))
        capture.send(SERVER, words(xid, 1, 32, 0, 0, 0, 0) + words(xid, 1, 0, 0, 0, 0) + words(NFS3ERR_NOENT))


def _reverse(capture: HandMadeCapture) -> None:
    capture.send(CLIENT, _call(1))
    capture.send(SERVER, _call(1))
    capture.send(SERVER, words(1, 1, 32, 0, 0, 0, 0) + words(1, 1, 0, 0, 0, 0) + words(NFS3ERR_NOENT))
    capture.send(CLIENT, words(1, 1, 32, 0, 0, 0, 0) + words(1, 1, 0, 0, 0, 0) + words(NFS3ERR_NOENT))


def _terminate(capture: HandMadeCapture) -> None:
    capture.send(CLIENT, _call(1))
    capture.write(SERVER, 0x55, 0x2000, bytes(8))
    # A tagged buffer of DDP: invalid steering tag.
    capture.octets(CLIENT, fpdu(untagged(7, 2, 1, words(0x11000000))))


KINDS = {
    "v1-inline": Kind(_lookup),
    "v1-read": Kind(_read),
    "v1-write": Kind(_write),
    "v1-long-call": Kind(_long_call),
    "v1-long-reply": Kind(_long_reply),
    "v2-read": Kind(_read, "2"),
    "v2-continued-call": Kind(_long_call, "2"),
    "v2-continued-reply": Kind(_long_reply, "2"),
    "extension-read": Kind(functools.partial(_read, octets=PLACED_OCTETS), "2", "rtr"),
    "extension-write": Kind(functools.partial(_write, octets=PLACED_OCTETS), "2", "rtr"),
    "reverse": Kind(script=_reverse),
    "broken": Kind(script=_broken),
    "terminate": Kind(script=_terminate),
    "gap": Kind(script=_three_calls, lost=8),
    "cut": Kind(script=_three_calls, cut=10),
    "ipv6-read": Kind(_read, host="[::1]"),
}

FROM_GUESTS = {
    "roce-linux-client": "Linux's NFS client mounts our server, reads and writes a file of 5001 octets; version 1",
    "roce-linux-server": "our client gets and puts such a file at Linux's server; version 1",
    "roce-extension": "our client gets and puts such a file at our server; version 2 with the round-trip extension",
}
NAMES = (*KINDS, *FROM_GUESTS, "tshark-read")
"""All captures."""


def options_of(name: str) -> list[str]:
    """The options of `rpcrdma explain` that a capture needs."""
    definition = FOLDER.parents[1] / "src" / "rpcrdma_lab" / "simulation" / "sized_calls.x"
    return ["--program", str(definition)]


def capture_of(name: str) -> Path:
    """The file of a capture."""
    (found,) = FOLDER.glob(f"{name}.pcap*")
    return found


async def _converse(kind: Kind, path: Path) -> None:
    assert kind.talk is not None
    small = TransportConfig(
        inline_send_octets=1024, inline_receive_octets=1024, offered_send_octets=4096, offered_receive_octets=4096
    )
    transport = TransportConfig() if kind.extension == "rtr" else small
    config = RdmaServerConfig(rpcrdma_version=kind.version, transport=transport)
    program = sized_calls.PROGRAM if kind.talk in {_long_call, _long_reply} else v3.PROGRAM
    with contextlib.closing(rpcrdma.PacketCapture(path)) as capture:
        connect = rpcrdma.ConnectOptions(
            rpcrdma_version=kind.version,
            extension=kind.extension,
            transport=transport,
            capture=capture,
            credential=AuthNone(),
        )
        serve = rpcrdma.ServeOptions(rdma=config)
        async with (
            rpcrdma.serve([_OneFile(), _Sized()], [f"rdma://{kind.host}:0"], options=serve) as server,
            rpcrdma.connect(server.listening[0], program, options=connect) as connection,
        ):
            await kind.talk(connection)


def record(name: str) -> None:
    """Records one capture."""
    path, kind = FOLDER / f"{name}.pcap", KINDS[name]
    if kind.script is None:
        asyncio.run(_converse(kind, path))
        return
    with HandMadeCapture(path) as capture:
        kind.script(capture)
    _damage(kind, path)


def _damage(kind: Kind, path: Path) -> None:
    """Takes away the packet that is lost, and the end of a file that is cut."""
    data = path.read_bytes()
    packets, at = [data[:24]], 24
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        packets.append(data[at:end])
        at = end
    if kind.lost is not None:
        del packets[1 + kind.lost]
    if kind.cut is not None:
        packets[1 + kind.cut :] = [packets[1 + kind.cut][:-20]]
    path.write_bytes(b"".join(packets))


def explain(name: str) -> None:
    """Writes the explanation of a capture."""
    with (FOLDER / f"{name}.txt").open("w") as out, contextlib.redirect_stdout(out):
        main(["explain", *options_of(name), str(capture_of(name))])


if __name__ == "__main__":
    for each in NAMES:
        if each in KINDS and "--explain" not in sys.argv:
            record(each)
        explain(each)
