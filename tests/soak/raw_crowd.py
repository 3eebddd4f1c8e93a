"""Many raw clients in one cheap process: idle connections, or connections that never finish their start-up.

Run as `raw_crowd.py PORT COUNT [--unfinished] [--rpcrdma-version VERSION]`. It prints "ready" when all COUNT
connections are made, and holds them until standard input ends; then it prints how many of them the server has left
open.
"""

from __future__ import annotations

import argparse
import resource
import select
import socket
import struct
import sys
import time
from pathlib import Path

# `support` stands in the folder of all tests.
sys.path.insert(0, str(Path(__file__).parents[1]))

from rpcrdma.rtr import RoundTrip
from support import raw_messages
from support.raw_calls import BOTH_PRIVATE, NULL_CALL, send
from support.raw_iwarp import fpdu, startup_frame

WORDS = struct.pack(">HH", 32, 32)
REQUEST = startup_frame("Req", 0x50, 2, WORDS + BOTH_PRIVATE)
REPLY_OCTETS = 20 + len(WORDS) + len(BOTH_PRIVATE)
EXTENDED = [(row.number, row.value) for row in RoundTrip().extension.properties if row.value is not None]
FIRST = {
    "1": NULL_CALL,
    "2": raw_messages.properties(),
    "2-rtr": raw_messages.properties((raw_messages.RECEIVE_SIZE, raw_messages.word(4096)), *EXTENDED),
}
"""The first message in each version: after its answer the server has to take as much as it has granted credits."""
AT_ONCE = 100
"""Connections begun together: less than a backlog."""
PORTS_OF_ADDRESS = 20_000
"""Connections from one address to one port: fewer than the local port numbers that Linux gives out."""
TIMEOUT_S = 60.0
IP_BIND_ADDRESS_NO_PORT = 24
"""`bind` takes an address alone, and `connect` a port, which may wait for the end of a connection to another port."""


def raise_file_limit(files: int) -> None:
    """Raises the limit of open files to `files`, or exits with a message if that is not allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        sys.exit(f"{files} open files are needed, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))


def begin(port: int, number: int) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    sock.bind((f"127.0.0.{1 + number // PORTS_OF_ADDRESS}", 0))
    sock.connect_ex(("127.0.0.1", port))
    return sock


def wait(sock: socket.socket, events: int) -> None:
    poll = select.poll()
    poll.register(sock, events)
    if not poll.poll(TIMEOUT_S * 1000):
        sys.exit("the server does not answer")


def receive(sock: socket.socket, octets: int) -> None:
    while octets > 0:
        wait(sock, select.POLLIN)
        data = sock.recv(octets)
        if not data:
            sys.exit("the server has ended a connection")
        octets -= len(data)


def set_up(crowd: list[socket.socket], version: str) -> None:
    """The start-up, and the first message."""
    first = fpdu(send(FIRST[version]))
    for sock in crowd:
        wait(sock, select.POLLOUT)
        sock.sendall(REQUEST)
    for sock in crowd:
        receive(sock, REPLY_OCTETS)
        sock.sendall(first)
    for sock in crowd:
        wait(sock, select.POLLIN)
        start = sock.recv(2, socket.MSG_WAITALL)
        receive(sock, (int.from_bytes(start) + 5 & ~3) + 4 - 2)


def leave_unfinished(crowd: list[socket.socket]) -> None:
    """Nothing at all, or a piece of the start-up frame."""
    for number, sock in enumerate(crowd):
        wait(sock, select.POLLOUT)
        if number % 2:
            sock.sendall(REQUEST[: number % len(REQUEST)])


def count_open(crowd: list[socket.socket]) -> int:
    left = 0
    for sock in crowd:
        try:
            left += sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            left += 1
        except ConnectionError:
            pass
    return left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--unfinished", action="store_true", help="never send a whole start-up frame")
    parser.add_argument("--rpcrdma-version", choices=FIRST, default="1")
    args = parser.parse_args()
    raise_file_limit(args.count + 64)
    started_s = time.monotonic()
    crowd: list[socket.socket] = []
    while len(crowd) < args.count:
        some = [begin(args.port, number) for number in range(len(crowd), min(len(crowd) + AT_ONCE, args.count))]
        if args.unfinished:
            leave_unfinished(some)
        else:
            set_up(some, args.rpcrdma_version)
        crowd += some
    print(f"ready after {time.monotonic() - started_s:.1f} s", flush=True)
    sys.stdin.read()
    print(count_open(crowd), flush=True)


if __name__ == "__main__":
    main()
