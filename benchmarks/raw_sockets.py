"""The rates that plain Python reaches over the machine's loopback: the limits that the library is measured against.

The serving half of each measurement is a process of its own: `python raw_sockets.py sink|echo` prints its port and
serves one connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from event_loops import new_event_loop

BUFFER_OCTETS = 1 << 20
ECHO_OCTETS = 128
WARM_UP_ROUND_TRIPS = 500


@contextlib.contextmanager
def peer_process(role: str, loop: str) -> Iterator[socket.socket]:
    """A connection to a second process that plays `role`."""
    command = [sys.executable, str(Path(__file__)), role, loop]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection


def stream_rate(octets: int) -> float:
    """Octets a second of a one-way stream, `sendmsg` to `recv_into`, in buffers of 1 MiB."""
    with peer_process("sink", "none") as connection:
        buffer = memoryview(bytearray(BUFFER_OCTETS))
        left = octets
        start = time.perf_counter()
        while left:
            left -= connection.sendmsg([buffer[: min(left, BUFFER_OCTETS)]])
        connection.shutdown(socket.SHUT_WR)
        received = int.from_bytes(connection.recv(8), "big")
        elapsed = time.perf_counter() - start
    assert received == octets
    return octets / elapsed


def sink(connection: socket.socket) -> None:
    buffer = bytearray(BUFFER_OCTETS)
    total = 0
    while count := connection.recv_into(buffer):
        total += count
    connection.sendall(total.to_bytes(8, "big"))


async def _echo_round_trips(connection: socket.socket, count: int) -> list[float]:
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    message = bytes(ECHO_OCTETS)
    buffer = bytearray(ECHO_OCTETS)
    times: list[float] = []
    sent_at = 0.0
    done = loop.create_future()

    def on_readable() -> None:
        nonlocal sent_at
        # Messages this small arrive whole on loopback.
        assert connection.recv_into(buffer) == ECHO_OCTETS
        times.append(time.perf_counter() - sent_at)
        if len(times) == count:
            done.set_result(None)
            return
        sent_at = time.perf_counter()
        connection.send(message)

    loop.add_reader(connection, on_readable)
    sent_at = time.perf_counter()
    connection.send(message)
    await done
    loop.remove_reader(connection)
    return times


def echo_round_trip(count: int, loop: str) -> float:
    """Median seconds of a round trip of 128 octets between two event loops that use `add_reader`."""
    with peer_process("echo", loop) as connection, new_event_loop(loop) as runner:
        times = runner.run(_echo_round_trips(connection, WARM_UP_ROUND_TRIPS + count))
    return statistics.median(times[WARM_UP_ROUND_TRIPS:])


async def echo(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    buffer = bytearray(ECHO_OCTETS)
    done = loop.create_future()

    def on_readable() -> None:
        if count := connection.recv_into(buffer):
            connection.send(memoryview(buffer)[:count])
        else:
            done.set_result(None)

    loop.add_reader(connection, on_readable)
    await done
    loop.remove_reader(connection)


def main() -> None:
    role, loop = sys.argv[1:]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if role == "sink":
            sink(connection)
        else:
            with new_event_loop(loop) as runner:
                runner.run(echo(connection))


if __name__ == "__main__":
    main()
