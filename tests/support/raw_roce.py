"""RoCEv2 packets made by hand: every octet is the test's own, and the ICRC is right unless a test breaks it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

__all__ = ["CLIENT", "CLIENT_QP", "MTU", "SERVER", "SERVER_QP", "HandMadeRoce", "ack", "datagram", "packet", "reach"]

CLIENT, SERVER = 0, 1
_ADDRESSES = (bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2]))
CLIENT_QP, SERVER_QP = 0x11, 0x12
MTU = 256
_ACK = 0x1F
_SEND = {"only": 0x04, "first": 0x00, "middle": 0x01, "last": 0x02}
_WRITE = {"only": 0x0A, "first": 0x06, "middle": 0x07, "last": 0x08}
_RESPONSE = {"only": 0x10, "first": 0x0D, "middle": 0x0E, "last": 0x0F}


def datagram(sender: int, transport: bytes) -> bytes:
    """An IPv4 packet with `transport`, which begins with the base header, and with its ICRC."""
    source, destination = _ADDRESSES[sender], _ADDRESSES[1 - sender]
    octets = 28 + len(transport) + 4
    udp = struct.pack(">HHHH", 49152, 4791, octets - 20, 0)
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, octets, 7, 0x4000, 64, 17, 0, source, destination)
    masked = struct.pack(">BBHHHBBH4s4s", 0x45, 0xFF, octets, 7, 0x4000, 0xFF, 17, 0xFFFF, source, destination)
    covered = b"\xff" * 8 + masked + udp[:6] + b"\xff\xff" + transport[:4] + b"\xff" + transport[5:]
    return head + udp + transport + struct.pack("<I", zlib.crc32(covered))


def packet(code: int, queue_pair: int, psn: int, rest: bytes = b"", *, solicited: bool = False) -> bytes:
    """The base header, with padding as the payload needs it."""
    pad = -len(rest) % 4
    flags = pad << 4 | solicited << 7
    return struct.pack(">BBHII", code, flags, 0xFFFF, queue_pair, psn & 0xFFFFFF) + rest + bytes(pad)


def reach(handle: int, offset: int, octets: int) -> bytes:
    """The header of an RDMA Write or an RDMA Read Request."""
    return struct.pack(">QII", offset, handle, octets)


def ack(syndrome: int = _ACK) -> bytes:
    """The header of an Acknowledge or an RDMA Read Response."""
    return struct.pack(">I", syndrome << 24)


class HandMadeRoce:
    """Packets between two queue pairs: each method adds a message of one end, and returns the places of its packets.

    `packets` can be taken away, repeated and put into another order before `write`.
    """

    def __init__(self, *, first: int = 100) -> None:
        self.packets: list[bytes] = []
        self._next = [first, 5000]
        self._transaction = 0

    def write(self, path: Path) -> None:
        """Writes a capture, one packet each 10 microseconds."""
        records = [struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
        for number, octets in enumerate(self.packets):
            records.append(struct.pack("<IIII", 1, number * 10, len(octets), len(octets)) + octets)
        path.write_bytes(b"".join(records))

    def set_up(self, *, client_qp: int = CLIENT_QP, server_qp: int = SERVER_QP, port: int = 20049) -> None:
        """Request, Reply and Ready To Use of connection management; each id is that of the queue pair."""
        own = bytearray(232)
        struct.pack_into(">IIQ", own, 0, client_qp, 0, 0x01060000 | port)
        struct.pack_into(">II", own, 32, client_qp << 8 | 16, 16)
        struct.pack_into(">I", own, 44, self._next[SERVER] << 8)
        own[50] = 1 << 4
        self.manage(CLIENT, 0x10, bytes(own))
        answer = bytearray(232)
        struct.pack_into(">III", answer, 0, server_qp, client_qp, 0)
        struct.pack_into(">I", answer, 12, server_qp << 8)
        struct.pack_into(">I", answer, 20, self._next[CLIENT] << 8)
        self.manage(SERVER, 0x13, bytes(answer))
        self.manage(CLIENT, 0x14, struct.pack(">II", client_qp, server_qp))

    def manage(self, sender: int, attribute: int, content: bytes) -> None:
        """A message of connection management."""
        self._transaction += 1
        head = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, self._transaction, attribute, 0, 0)
        rest = struct.pack(">II", 0x80010000, 1) + head + content.ljust(232, b"\0")
        self.add(sender, packet(0x64, 1, self._transaction, rest))

    def add(self, sender: int, transport: bytes) -> int:
        """Any packet."""
        self.packets.append(datagram(sender, transport))
        return len(self.packets) - 1

    def send(self, sender: int, message: bytes, *, invalidated: int | None = None) -> list[int]:
        """A Send, acknowledged."""
        places = self._message(sender, _SEND, message, b"", invalidated)
        self.acknowledge(1 - sender)
        return places

    def rdma_write(self, sender: int, handle: int, offset: int, data: bytes) -> list[int]:
        """An RDMA Write."""
        return self._message(sender, _WRITE, data, reach(handle, offset, len(data)), None)

    def rdma_read(self, sender: int, handle: int, offset: int, data: bytes) -> list[int]:
        """An RDMA Read Request, and the response with `data`."""
        first = self._next[sender]
        places = [self.add(sender, packet(0x0C, _queue_pair(1 - sender), first, reach(handle, offset, len(data))))]
        pieces = _pieces(data)
        for psn, (place, piece) in enumerate(pieces, first):
            head = b"" if place == "middle" else ack()
            places.append(self.add(1 - sender, packet(_RESPONSE[place], _queue_pair(sender), psn, head + piece)))
        self._next[sender] += len(pieces)
        return places

    def acknowledge(self, sender: int, syndrome: int = _ACK) -> int:
        """An Acknowledge of the last packet of the other end."""
        return self.add(sender, packet(0x11, _queue_pair(1 - sender), self._next[1 - sender] - 1, ack(syndrome)))

    def _message(
        self, sender: int, codes: dict[str, int], data: bytes, header: bytes, invalidated: int | None
    ) -> list[int]:
        places = []
        for place, piece in _pieces(data):
            code, head = codes[place], header if place in {"only", "first"} else b""
            if invalidated is not None and place in {"only", "last"}:
                code, head = {"only": 0x17, "last": 0x16}[place], invalidated.to_bytes(4)
            places.append(self.add(sender, packet(code, _queue_pair(1 - sender), self._next[sender], head + piece)))
            self._next[sender] += 1
        return places


def _queue_pair(end: int) -> int:
    return SERVER_QP if end == SERVER else CLIENT_QP


def _pieces(data: bytes) -> list[tuple[str, bytes]]:
    parts = [data[at : at + MTU] for at in range(0, len(data), MTU)] or [b""]
    if len(parts) == 1:
        return [("only", parts[0])]
    return [("first", parts[0]), *(("middle", part) for part in parts[1:-1]), ("last", parts[-1])]
