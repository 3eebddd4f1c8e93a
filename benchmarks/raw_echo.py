"""The round trip of 128 octets between two event loops that use `add_reader`: the least that a call can take in Python.

`raw_echo.py serve LOOP` prints its port and serves one connection, `raw_echo.py client LOOP PORT` takes orders.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import sys
import time

from event_loops import new_event_loop
from orders import Answer, Order

MESSAGE = bytes(128)


def no_delay(connection: socket.socket) -> socket.socket:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(False)
    return connection


async def echo(connection: socket.socket) -> None:
    """Sends back each message, until the connection ends."""
    buffer = bytearray(MESSAGE)
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def on_readable() -> None:
        # Messages this small arrive whole on loopback.
        if connection.recv_into(buffer):
            connection.send(buffer)
        else:
            loop.remove_reader(connection)
            done.set()

    loop.add_reader(connection, on_readable)
    await done.wait()


async def batch(connection: socket.socket, order: Order) -> Answer:
    """Round trips, one at a time."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    buffer = bytearray(MESSAGE)
    clock = time.perf_counter
    times: list[float] = []
    sent_at = 0.0

    def send() -> None:
        nonlocal sent_at
        sent_at = clock()
        connection.send(MESSAGE)

    def on_readable() -> None:
        assert connection.recv_into(buffer) == len(MESSAGE)
        now = clock()
        times.append(now - sent_at)
        if now < until:
            send()
        else:
            loop.remove_reader(connection)
            done.set()

    before, start = time.process_time(), clock()
    until = start + order.seconds
    loop.add_reader(connection, on_readable)
    send()
    await done.wait()
    elapsed = clock() - start
    return Answer(len(times), elapsed, statistics.median(times), time.process_time() - before)


async def client(connection: socket.socket) -> None:
    """Answers orders of NULL calls."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(*await batch(connection, Order.parse(line)), flush=True)


def main() -> None:
    role, loop, *port = sys.argv[1:]
    with new_event_loop(loop) as runner:
        if role == "client":
            with socket.create_connection(("127.0.0.1", int(port[0]))) as connection:
                runner.run(client(no_delay(connection)))
            return
        with socket.create_server(("127.0.0.1", 0)) as listener:
            print(listener.getsockname()[1], flush=True)
            connection, _ = listener.accept()
        with connection:
            runner.run(echo(no_delay(connection)))


if __name__ == "__main__":
    main()
