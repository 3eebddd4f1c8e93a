"""The cost of a READ and a WRITE in one message, in several, and by RDMA, for each size.

Client and server run in one process, so that its processor time, user and system, is that of both sides. The forms of
one size are measured by turns, and each is compared with RDMA in the same round. `--markdown` makes the table of
docs/versions.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import nfs_servers

import rpcrdma
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.nfs import v3
from rpcrdma.transport import TransportConfig

SIZES = tuple(1 << power for power in range(12, 21))
CALLS = 300
RDMA = 0
MESSAGES = (RDMA, 4096, 8192, 16384, 36864, 65536, 262144)
"""The forms: by RDMA, or in messages of so many octets each."""
OVERHEAD_OCTETS = 512
"""More than the headers of a READ or WRITE, those of the transport included."""


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds for one call, of the processors' time and of the clock's; `message_octets` is 0 for RDMA.

    `ratio_to_rdma` is the processors' time divided by that of the same call by RDMA.
    """

    call: str
    size_bytes: int
    message_octets: int
    processor_us: float
    elapsed_us: float
    ratio_to_rdma: float


def transport(message_octets: int) -> TransportConfig:
    """One that has calls and replies in the form."""
    if message_octets == RDMA:
        return TransportConfig(in_messages_octets_max=1024)
    return TransportConfig(
        offered_send_octets=message_octets, offered_receive_octets=message_octets, in_messages_octets_max=1 << 21
    )


async def measured(call: str, size: int, form: int, directory: Path, calls: int) -> tuple[float, float]:
    """Seconds for one call: the processors', and the clock's."""
    options = rpcrdma.ServeOptions(rdma=RdmaServerConfig(transport=transport(form), rpcrdma_version="2"))
    async with nfs_servers.in_process(directory, options) as server:
        url, tcp_url = server.listening
        handle = await nfs_servers.file_handle(tcp_url)
        connect = rpcrdma.ConnectOptions(transport=transport(form), rpcrdma_version="2", extension="off")
        async with rpcrdma.connect(url, v3.PROGRAM, options=connect) as connection:
            memory = bytearray(size)
            make: Callable[[], Awaitable[object]]
            if call == "READ":
                read = v3.READ3args(handle, 0, size)
                make = lambda: connection.call(v3.READ, read, into=memory)  # noqa: E731
            else:
                write = v3.WRITE3args(handle, 0, size, v3.stable_how.UNSTABLE, memory)
                make = lambda: connection.call(v3.WRITE, write)  # noqa: E731
            for _ in range(calls // 5):
                await make()
            start_s, clock_s = time.process_time(), time.perf_counter()
            for _ in range(calls):
                await make()
            spent = (time.process_time() - start_s) / calls, (time.perf_counter() - clock_s) / calls
            _check_form(connection, call, size, form)
    return spent


def _check_form(connection: rpcrdma.Connection, call: str, size: int, form: int) -> None:
    """The calls were made in the form that is measured, or the figures would mean nothing."""
    counts = connection.statistics
    assert counts is not None
    moved = counts.calls_write_chunk if call == "READ" else counts.calls_read_chunk
    pieces = counts.pieces_received if call == "READ" else counts.pieces_sent
    assert bool(moved) == (form == RDMA)
    assert bool(pieces) == (form != RDMA and size + OVERHEAD_OCTETS > form)


def rows(sizes: tuple[int, ...], rounds: int, calls: int) -> list[Row]:
    """The medians of the rounds, forms by turns."""
    memory = Path("/dev/shm")
    found = []
    with tempfile.TemporaryDirectory(prefix="rpcrdma-bench-", dir=memory if memory.is_dir() else None) as name:
        directory = Path(name)
        (directory / "data").write_bytes(bytes(SIZES[-1]))
        for call in ("READ", "WRITE"):
            for size in sizes:
                spent: dict[int, list[tuple[float, float]]] = {form: [] for form in MESSAGES}
                for number in range(rounds):
                    print(f"round {number + 1} of {rounds}: {call} of {size}", file=sys.stderr)
                    for form in MESSAGES if number % 2 else reversed(MESSAGES):
                        spent[form].append(asyncio.run(measured(call, size, form, directory, calls)))
                for form, pairs in spent.items():
                    both = [round(statistics.median(values) * 1e6, 1) for values in zip(*pairs, strict=True)]
                    ratios = [own / other for (own, _), (other, _) in zip(pairs, spent[RDMA], strict=True)]
                    found.append(Row(call, size, form, *both, round(statistics.median(ratios), 3)))
    return found


def crossing(table: list[Row], call: str, form: int) -> int:
    """The largest size up to which messages of so many octets cost no more than RDMA; 0 if they do for none."""
    found = 0
    for row in table:
        if (row.call, row.message_octets) == (call, form):
            if row.ratio_to_rdma > 1:
                break
            found = row.size_bytes
    return found


def print_table(table: list[Row]) -> None:
    """A line for each call and size, a column for each form."""
    print("processor time of a call at both sides, us" + "".join(f"{form or 'RDMA':>10}" for form in MESSAGES))
    for call, size in dict.fromkeys((row.call, row.size_bytes) for row in table):
        line = [row for row in table if (row.call, row.size_bytes) == (call, size)]
        print(f"{call:8}{size:>34}" + "".join(f"{row.processor_us:>10}" for row in line))
    for call in dict.fromkeys(row.call for row in table):
        largest = "".join(f"{crossing(table, call, form):>10}" for form in MESSAGES[1:])
        print(f"{call:8}{'no more than RDMA costs, up to':>34}{'':10}{largest}")


def print_markdown(table: list[Row]) -> None:
    """The same as a table of Markdown, sizes in KiB; brackets mark values above RDMA."""
    names = " | ".join(f"{form >> 10} KiB" for form in MESSAGES[1:])
    print(f"| octets of data | by RDMA | in messages of {names} |")
    print("|---|" + "---:|" * len(MESSAGES))
    for call, size in dict.fromkeys((row.call, row.size_bytes) for row in table):
        line = [row for row in table if (row.call, row.size_bytes) == (call, size)]
        cells = (f"({row.processor_us:.0f})" if row.ratio_to_rdma > 1 else f"{row.processor_us:.0f}" for row in line)
        print(f"| {call} {size >> 10} KiB | " + " | ".join(cells) + " |")
    for call in dict.fromkeys(row.call for row in table):
        largest = " | ".join(f"{crossing(table, call, form) >> 10} KiB" for form in MESSAGES[1:])
        print(f"| {call}: no more than RDMA costs, up to | | {largest} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/versions.md")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the median of (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=CALLS, help="calls in each round (default: %(default)s)")
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=SIZES, help="octets of the data (default: 4 KiB to 1 MiB)"
    )
    options = parser.parse_args()
    table = rows(tuple(options.sizes), options.rounds, options.calls)
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=2))
    elif options.markdown:
        print_markdown(table)
    else:
        print_table(table)


if __name__ == "__main__":
    main()
