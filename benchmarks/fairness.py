"""How long NULL and MKDIR of one client take while another one keeps the server busy: `python benchmarks/fairness.py`.

The server and the busy client are processes of their own. The busy client has `--in-flight` calls unanswered on each of
`--connections` connections, of one of these kinds:

- none: it does nothing;
- creates: CREATEs in one directory, which keep the worker threads waiting, each for an fsync;
- listings: READDIRPLUS of a directory of 2,000 files, which keep the worker threads computing;
- deep: ACCESS, GETATTR and LOOKUP in a directory that lies 2,300 directories deep.

Each row has the median, the ninth of ten and the longest time in milliseconds, and how many calls of the busy client
were answered in a second. `--load N` adds N processes that compute, for a machine that is busy with other work.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

# `support` stands in the folder of all tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import nfs_servers

from rpcrdma import connect, nfs_open
from rpcrdma.nfs import v3
from support.raw_calls import file_handle, record, rpc
from support.raw_socket import RawSocketPeer

GETATTR, LOOKUP, ACCESS, CREATE, READDIRPLUS = 1, 3, 4, 8, 17
LISTED = 2000
DEPTH = 2300
NAME = b"\0\0\0\1d\0\0\0"
"""The name of each directory of the deep tree, encoded."""
KINDS = ("none", "creates", "listings", "deep")
COMPUTE = "while True: sum(range(1 << 16))"


def calls_of(kind: str, handle: bytes) -> Iterator[bytes]:
    """Records of calls without end, each with an XID of its own."""
    target = file_handle(handle)
    for xid in itertools.count():
        if kind == "creates":
            name = f"{xid % 1000:08}".encode()
            yield record(rpc(CREATE, target + struct.pack(">I", 8) + name + bytes(28), xid))
        elif kind == "listings":
            yield record(rpc(READDIRPLUS, target + bytes(16) + struct.pack(">II", 1 << 16, 1 << 18), xid))
        else:
            yield record(rpc(ACCESS, target + struct.pack(">I", 63), xid))
            yield record(rpc(GETATTR, target, xid))
            yield record(rpc(LOOKUP, target + NAME, xid))


async def keep_busy(kind: str, port: int, handle: bytes, connections: int, in_flight: int) -> None:
    """The busy client: prints a line when all connections have had replies, in the end how many replies there were."""
    calls = calls_of(kind, handle)
    replies = 0
    busy: set[int] = set()

    async def one(number: int) -> None:
        nonlocal replies
        peer = await RawSocketPeer.connected("127.0.0.1", port, source="127.0.0.2")
        await peer.send(b"".join(itertools.islice(calls, in_flight)))
        while True:
            await peer.receive(int.from_bytes(await peer.receive(4)) & 0x7FFFFFFF)
            replies += 1
            if number not in busy:
                busy.add(number)
                if len(busy) == connections:
                    print("busy", flush=True)
            await peer.send(next(calls))

    tasks = [asyncio.create_task(one(number)) for number in range(connections)]
    begun_s = time.perf_counter()
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    print(round(replies / (time.perf_counter() - begun_s)))


def make_tree(top: Path) -> None:
    """A directory for each kind; that of `deep` is so deep that no path leads to it."""
    (top / "creates").mkdir()
    (top / "creates").chmod(0o777)
    (top / "mkdirs").mkdir()
    (top / "listings").mkdir()
    for number in range(LISTED):
        (top / "listings" / f"{number}").touch()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


async def deepest(url: str, handle: bytes) -> bytes:
    """The handle of the directory above the lowest one."""
    async with connect(url, v3.PROGRAM) as client:
        for _ in range(DEPTH - 1):
            found = await client.call(v3.LOOKUP, v3.LOOKUP3args(v3.diropargs3(v3.nfs_fh3(handle), "d")))
            assert found.status is v3.nfsstat3.NFS3_OK
            handle = found.value.object.data
    return handle


async def times_ms(work: Callable[[int], Awaitable[object]], count: int) -> list[float]:
    """How long each run of `work` takes, sorted."""
    found = []
    for number in range(count):
        begun_s = time.perf_counter()
        await work(number)
        found.append((time.perf_counter() - begun_s) * 1e3)
    return sorted(found)


def shown(found: list[float]) -> str:
    return f"{statistics.median(found):9.1f} {found[len(found) * 9 // 10]:9.1f} {found[-1]:9.1f}"


async def measure(args: argparse.Namespace, kind: str, top: Path) -> None:
    async with AsyncExitStack() as stack:
        url = stack.enter_context(nfs_servers.served([str(top), "--no-root-squash"])).tcp
        port = int(url.rpartition(":")[2])
        fs = await stack.enter_async_context(nfs_open(url, mount_port=port))
        client = await stack.enter_async_context(connect(url, v3.PROGRAM))
        handle, _ = await fs.handle_of(kind if kind in {"creates", "listings"} else "d")
        if kind == "deep":
            handle = await deepest(url, handle)
        flood = None
        if kind != "none":
            flood = await asyncio.create_subprocess_exec(
                *(sys.executable, __file__, "--busy", kind, str(port), handle.hex()),
                *("--connections", str(args.connections), "--in-flight", str(args.in_flight)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert flood.stdin is not None
            assert flood.stdout is not None
            assert await flood.stdout.readline() == b"busy\n"
        null = await times_ms(lambda _: client.call(v3.NULL, None), args.count)
        mkdir = await times_ms(lambda number: fs.mkdir(f"mkdirs/{kind}{number}"), args.count)
        rate = 0
        if flood is not None:
            assert flood.stdin is not None
            assert flood.stdout is not None
            flood.stdin.close()
            rate = int(await flood.stdout.readline())
            await flood.wait()
        print(f"{kind:<8}   {shown(null)}   {shown(mkdir)} {rate:9}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--in-flight", type=int, default=128)
    parser.add_argument("--count", type=int, default=50, help="of either call")
    parser.add_argument("--load", type=int, default=0, help="processes that compute meanwhile")
    parser.add_argument("--busy", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.busy:
        kind, port, handle = args.busy
        asyncio.run(keep_busy(kind, int(port), bytes.fromhex(handle), args.connections, args.in_flight))
        return
    computing = [subprocess.Popen([sys.executable, "-c", COMPUTE]) for _ in range(args.load)]
    try:
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
        columns = "".join(f"   {name:>9} {'of ten':>9} {'longest':>9}" for name in ("NULL", "MKDIR"))
        print(f"{'ms':<8}{columns} {'calls/s':>9}")
        with tempfile.TemporaryDirectory() as directory:
            top = Path(directory, "top")
            top.mkdir()
            make_tree(top)
            for kind in args.kinds or KINDS:
                asyncio.run(measure(args, kind, top))
            # `tempfile` does not remove trees of this depth.
            subprocess.run(["rm", "-rf", str(top)], check=True)
    finally:
        for process in computing:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
