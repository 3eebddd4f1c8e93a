"""A TCP connection to a server of NFS version 4, made of octets: calls of COMPOUND, and the server's calls back."""

from __future__ import annotations

import socket
import struct

from support.nfs4_client import rpc_call, rpc_result

__all__ = ["TcpConnection"]


class TcpConnection:
    """A connection whose calls a test sends and receives apart; an object for `Client.exchange`, too."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.xid = 0x40000000

    def __call__(self, arguments: bytes) -> bytes:
        return self.receive(self.send(arguments))

    def send(self, arguments: bytes) -> int:
        self.xid += 1
        self.socket.sendall(rpc_call(self.xid, arguments))
        return self.xid

    def receive(self, xid: int) -> bytes:
        """The result of the next reply, which must answer `xid`."""
        (mark,) = struct.unpack(">I", self._take(4))
        assert mark & 0x80000000
        return rpc_result(xid, self._take(mark & 0x7FFFFFFF))

    def answer_recall(self) -> tuple[int, int, bytes, bytes]:
        """Answers the CB_RECALL that comes next: its program, user, stateid and filehandle."""
        (mark,) = struct.unpack(">I", self._take(4))
        call = self._take(mark & 0x7FFFFFFF)
        xid, kind, rpc, program, version, procedure, flavor, length = struct.unpack_from(">8I", call)
        assert (kind, rpc, version, procedure, flavor) == (0, 2, 1, 1, 1), "a CB_COMPOUND with AUTH_SYS"
        machine = struct.unpack_from(">I", call, 36)[0]
        (uid,) = struct.unpack_from(">I", call, 40 + (machine + 3 & ~3))
        at = 32 + length + 8
        tag, minor, _, count, first, session, number, *_ = struct.unpack_from(">5I16sIIIII", call, at)
        assert (tag, minor, count, first) == (0, 1, 2, 11)
        at += 56
        second, stateid, _truncate, octets = struct.unpack_from(">I16sII", call, at)
        assert second == 4
        handle = call[at + 28 : at + 28 + octets]
        results = struct.pack(">II16s4I", 11, 0, session, number, 0, 0, 0) + struct.pack(">II", 4, 0)
        reply = struct.pack(">6I", xid, 1, 0, 0, 0, 0) + struct.pack(">III", 0, 0, 2) + results
        self.socket.sendall(struct.pack(">I", 0x80000000 | len(reply)) + reply)
        return program, uid, stateid, handle

    def _take(self, count: int) -> bytes:
        octets = b""
        while len(octets) < count:
            more = self.socket.recv(count - len(octets))
            assert more, "the server has closed the connection"
            octets += more
        return octets

    def __enter__(self) -> TcpConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def cut(self) -> None:
        self.socket.close()
