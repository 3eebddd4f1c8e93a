"""Batches of calls that a client process makes by order, and the processor time that both ends spend on them.

An order is a line on the client's standard input: call, octets, calls in flight, place of the file, seconds. The answer
is a line on its standard output: calls made, seconds that they took together, the median of their times in seconds,
and seconds of the client's processor time. `CONNECT` opens connections, as many as there would be calls in flight, and
keeps them. The clients in Python and in C all understand the orders of calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import selectors
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

ORDER_S_MAX = 60.0
"""How long a client may take beyond the seconds of an order before its subject is given up."""
WARM_UP_S = 0.05
WARM_UP_OCTETS_MAX = 1 << 26
"""Batches of more octets at a time take so long that their beginning does not count."""
CONNECT = "CONNECT"


class Order(NamedTuple):
    """A batch of calls, `in_flight` of them unanswered at any time; none begins after `seconds`."""

    call: str
    octets: int
    in_flight: int
    place: int
    seconds: float

    @classmethod
    def parse(cls, line: str) -> Order:
        call, octets, in_flight, place, seconds = line.split()
        return cls(call, int(octets), int(in_flight), int(place), float(seconds))


class Answer(NamedTuple):
    """The outcome of a batch, as its client sees it."""

    calls: int
    elapsed_s: float
    median_s: float
    processor_s: float

    @classmethod
    def parse(cls, line: str) -> Answer:
        calls, *seconds = line.split()
        return cls(int(calls), *map(float, seconds))


class Sample(NamedTuple):
    """One batch: calls a second, and where they are known a call's median time and its processor time at both ends."""

    median_us: float | None
    calls_per_s: float
    client_us: float | None
    server_us: float | None


Batch = Callable[[Order], Sample]


class AsyncClient(Protocol):
    """The client of a batch in asyncio."""

    async def calls(self, order: Order) -> Callable[[int], Awaitable[object]]:
        """The function that makes one call in a place of its own among those in flight."""

    async def connect(self, count: int) -> None:
        """Opens connections, each of which is idle after one call."""


async def timed_batch(call: Callable[[int], Awaitable[object]], order: Order) -> Answer:
    """Makes the calls of an order."""
    times: list[float] = []
    clock = time.perf_counter

    async def worker(slot: int) -> None:
        end = 0.0
        while end < until:
            start = clock()
            await call(slot)
            end = clock()
            times.append(end - start)

    before = time.process_time()
    start = clock()
    until = start + order.seconds
    await asyncio.gather(*map(worker, range(order.in_flight)))
    elapsed = clock() - start
    return Answer(len(times), elapsed, statistics.median(times), time.process_time() - before)


async def answer_orders(client: AsyncClient) -> None:
    """Answers each line of standard input. The first order of a kind warms up, unless it is large."""
    seen = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = Order.parse(line)
        if order.call == CONNECT:
            await client.connect(order.in_flight)
            print(*Answer(1, 0, 0, 0), flush=True)
            continue
        call = await client.calls(order)
        if order[:4] not in seen and order.octets * order.in_flight <= WARM_UP_OCTETS_MAX:
            seen.add(order[:4])
            await timed_batch(call, order._replace(seconds=min(order.seconds, WARM_UP_S)))
        print(*await timed_batch(call, order), flush=True)


def spent_s(process: int) -> float:
    """Processor time of all threads that a process has or had: the kernel's clock of it, see clock_getcpuclockid(3)."""
    return time.clock_gettime((~process << 3) | 2)


def resident_octets(process: int) -> int:
    """Memory of a process that is not of files."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


@contextlib.contextmanager
def ordered_client(
    command: Sequence[str], server_process: int, environment: Mapping[str, str] | None = None
) -> Iterator[Batch]:
    """A client process that takes orders for the length of the context."""
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as child,
        selectors.DefaultSelector() as selector,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        orders, answers = child.stdin, child.stdout
        selector.register(answers, selectors.EVENT_READ)

        def answer(order: Order) -> Answer:
            print(*order, file=orders, flush=True)
            if not selector.select(order.seconds + ORDER_S_MAX):
                raise TimeoutError(f"{order} was not answered within {ORDER_S_MAX:g} s")
            if not (line := answers.readline()):
                raise EOFError(f"the client ended at {order}")
            return Answer.parse(line)

        @functools.cache
        def wait_until_ready() -> None:
            answer(Order("NULL", 0, 1, 0, 0.0))

        def batch(order: Order) -> Sample:
            wait_until_ready()
            before = spent_s(server_process)
            answered = answer(order)
            server_s = spent_s(server_process) - before
            each = 1e6 / answered.calls
            rate = answered.calls / answered.elapsed_s if answered.elapsed_s else 0.0
            return Sample(answered.median_s * 1e6, rate, answered.processor_s * each, server_s * each)

        try:
            yield batch
        finally:
            child.kill()
