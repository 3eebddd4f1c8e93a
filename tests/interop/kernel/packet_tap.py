"""Captures the RoCEv2 packets of one guest at its link."""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from guest import Guest

__all__ = ["PacketTap"]

_ALL_PROTOCOLS = 3
_PACKET_OCTETS_MAX = 1 << 16
_QUEUE_OCTETS = 64 << 20
_TURN_S = 0.2
_ROCE_PORT = 4791
_ETHERNET = 1
_FILE_HEADER = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, _PACKET_OCTETS_MAX, _ETHERNET)
_RECORD = struct.Struct("<IIII")
_UDP_IN_IPV4 = (b"\x08\x00", 17)


class PacketTap:
    """Writes them to a pcap file, from the start of a block to its end."""

    def __init__(self, guest: Guest, path: Path) -> None:
        self._link = f"tap{int(guest.address.rpartition('.')[2])}"
        self._path = path
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._capture, name=f"capture of {self._link}")
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))

    def __enter__(self) -> Self:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_OCTETS)
        self._socket.bind((self._link, 0))
        self._socket.settimeout(_TURN_S)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join()
        self._socket.close()

    def _capture(self) -> None:
        with self._path.open("wb") as file:
            file.write(_FILE_HEADER)
            while True:
                try:
                    packet = self._socket.recv(_PACKET_OCTETS_MAX)
                except TimeoutError:
                    # Packets that have arrived before the end of the block are written.
                    if self._ends.is_set():
                        return
                    continue
                if _is_roce(packet):
                    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
                    file.write(_RECORD.pack(seconds, nanoseconds // 1000, len(packet), len(packet)) + packet)


def _is_roce(packet: bytes) -> bool:
    if (packet[12:14], packet[23:24]) != (_UDP_IN_IPV4[0], bytes([_UDP_IN_IPV4[1]])):
        return False
    port_at = 14 + (packet[14] & 0xF) * 4 + 2
    return int.from_bytes(packet[port_at : port_at + 2]) == _ROCE_PORT
