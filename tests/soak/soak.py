"""Calls of all kinds over connections that are cut all the time: `soak.py --seconds 300 --seed 1`.

This process runs the clients and the cutting proxy, a second one the server. Further processes misbehave, each in its
own way, straight at the server and from the same address. In the end all calls must have been answered, each must have
run once, and neither clients nor server may hold more connections, regions or memory than they should. The counts are
printed; the exit status is 1 if any of them is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from cutting_proxy import CuttingProxy
from process_state import Look, growth, look, queue_pairs, regions_registered, warmed_up
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.urls import parse_url
from rpcrdma.cli.event_loop import run_async
from rpcrdma.nfs.client.filesystem import NfsFilesystem
from rpcrdma.nfs.client.mount_client import mount_export
from rpcrdma.rtr import EXTENSION_CHOICES
from rpcrdma.transport import VERSION_CHOICES, TransportConfig
from soak_client import CALL_TIMEOUT_S, SoakClient

CUT_OCTETS_MIN = 1 << 9
"""The least that a connection carries until it is cut."""
PAUSES = 12
"""How often the memory of both processes is looked at, which costs as much as hundreds of calls."""
PAUSES_BRIEFLY = 2
"""The same in a run that is too short to check the growth of memory."""
LARGE_APART = {"MALLOC_MMAP_THRESHOLD_": str(1 << 17)}
"""Has glibc map large buffers apart, always. By default it stops that when the first ones are freed, and then puts them
between small ones: the gaps that this leaves look like a leak of some mebibytes in minutes."""
SETTLED_S = 60.0
"""The time in which the server must notice that all clients are gone."""
SHOWN_S = 240.0
"""The time in which a short run must have had all that it is about, however slow the machine is."""
LOOKS_MIN = 6
"""Looks at memory after the warm-up, fewer of which tell nothing of its growth."""
GROWTH_SECONDS_MIN = 60
"""Shorter runs do not check the growth of memory: a second is too little work to fill a cache in."""
SHOWN_MAX = 10
MISBEHAVING = {"unread": 4, "unfinished": 16, "unanswered": 4, "pieces": 4, "idle": 16, "flood": 1}
"""Connections of each kind of `misbehaving.py`."""
IN_PIECES = TransportConfig(
    offered_send_octets=4096, offered_receive_octets=4096, in_messages_octets_max=32768, credits_requested=4
)
"""Of every fourth client: where the version continues messages, its calls and their replies mostly are continued, and
run out of credits in their midst."""
FLOOD_PAUSE_S = 0.5
"""A pause between the calls of `flood`, which else would take all of the machine's processors."""


class ServerProcess:
    """`soak_server.py`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._lock = asyncio.Lock()

    async def line(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(await self._process.stdout.readline())

    async def ask(self, command: str) -> Any:
        assert self._process.stdin is not None
        async with self._lock:
            self._process.stdin.write(f"{command}\n".encode())
            return await self.line()


@contextlib.asynccontextmanager
async def server_process(top: Path, version: str) -> AsyncIterator[ServerProcess]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, Path(__file__).with_name("soak_server.py"), top, version),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
        env=os.environ | LARGE_APART,
    )
    try:
        yield ServerProcess(process)
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(20):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def misbehaving_client(kind: str, port: int, handle: bytes, version: str) -> AsyncIterator[Counter[str]]:
    """`misbehaving.py` while the context is entered; at its end the counter has the counts that it printed."""
    counts: Counter[str] = Counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, Path(__file__).with_name("misbehaving.py"), kind, str(port), handle.hex()),
        *("--connections", str(MISBEHAVING[kind]), "--pause", str(FLOOD_PAUSE_S), "--rpcrdma-version", version),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        async with asyncio.timeout(20):
            assert await process.stdout.readline() == b"ready\n"
        yield counts
        process.stdin.close()
        async with asyncio.timeout(20):
            told = map(int, (await process.stdout.read()).split())
            counts["begun again"], counts["replies"], counts["refused"] = told
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Run:
    """One run of the test, and its results."""

    def __init__(self, args: argparse.Namespace, top: Path) -> None:
        self.args = args
        self.top = top
        self.failures: list[str] = []
        self.clients: list[SoakClient] = []
        self.misbehaved: dict[str, Counter[str]] = {}
        self.looks: tuple[list[Look], list[Look]] = ([], [])
        """At this process and at the server, in pauses between work."""

    def check(self, what: str, count: int, wanted: int = 0) -> None:
        """Prints a count that must be `wanted`."""
        good = count == wanted
        print(f"{what:38} {count:>10}" + ("" if good else f"   FAILED: must be {wanted}"), flush=True)
        if not good:
            self.failures.append(what)

    async def main(self) -> None:
        async with server_process(self.top, self.args.rpcrdma_version) as server:
            ports = [parse_url(url).port for url in await server.line()]
            mounted = await mount_export(parse_url("tcp://127.0.0.1/"), ConnectOptions(), mount_port=ports[1])
            idle = await server.ask("state")
            idle_regions = regions_registered()
            proxy = CuttingProxy(ports, self.args.seed, CUT_OCTETS_MIN, self.args.cut_octets)
            proxy.start()
            try:
                started_s = time.monotonic()
                async with self._misbehaving(ports, mounted.handle):
                    await self._connect(proxy, mounted.handle)
                    await self._work(server)
                    await self._until_shown(server, proxy)
                    proxy.cutting = False
                    await asyncio.gather(*(client.end() for client in self.clients))
                took_s = time.monotonic() - started_s
            finally:
                proxy.stop()
            after = await self._settled(server, idle)
            self._report(proxy, idle, after, idle_regions, took_s)

    @contextlib.asynccontextmanager
    async def _misbehaving(self, ports: list[int], root: bytes) -> AsyncIterator[None]:
        version = self.args.rpcrdma_version
        options = ConnectOptions(rpcrdma_version=version)
        url = f"rdma://127.0.0.1:{ports[0]}"
        async with connect(url, options=options) as connection, contextlib.AsyncExitStack() as stack:
            filesystem = NfsFilesystem(connection, root)
            await filesystem.mkdir("flood")
            await filesystem.chmod("flood", 0o777)
            (self.top / "export" / "large").write_bytes(bytes(1 << 20))
            handles = {name: (await filesystem.handle_of(name))[0] for name in ("flood", "large")}
            await filesystem.close()

            async def begin(kind: str) -> None:
                port = ports[0] if kind in {"unanswered", "pieces"} else ports[1]
                handle = handles["flood" if kind == "flood" else "large"]
                client = misbehaving_client(kind, port, handle, version)
                self.misbehaved[kind] = await stack.enter_async_context(client)

            # Version 1 has no messages in pieces.
            await asyncio.gather(*(begin(kind) for kind in self.args.misbehaving if (kind, version) != ("pieces", "1")))
            yield

    async def _connect(self, proxy: CuttingProxy, root: bytes) -> None:
        args = self.args
        settings: dict[str, Any] = {"reconnect_delay_max_s": 1.0, "call_timeout_s": CALL_TIMEOUT_S}
        settings |= {"rpcrdma_version": args.rpcrdma_version, "extension": args.extension}

        async def one(number: int) -> None:
            over_tcp = number % 4 == 3
            transport = IN_PIECES if number % 4 == 1 else TransportConfig()
            options = ConnectOptions(transport=transport, **settings)
            url = f"tcp://127.0.0.1:{proxy.ports[1]}" if over_tcp else f"rdma://127.0.0.1:{proxy.ports[0]}"
            while True:
                try:
                    connection = await connect(url, options=options)
                    break
                except Exception:  # noqa: BLE001 - the first connection is not made again by itself
                    continue
            client = SoakClient(number, connection, root, args.seed * 1000 + number, args.file_octets)
            self.clients.append(client)
            await client.begin()

        await asyncio.gather(*(one(number) for number in range(args.connections)))

    async def _work(self, server: ServerProcess) -> None:
        """Work in periods with pauses: memory is looked at in a pause, when no call holds any."""
        started_s = time.monotonic()
        pauses = PAUSES if self.args.seconds >= GROWTH_SECONDS_MIN else PAUSES_BRIEFLY
        for pause in range(1, pauses + 1):
            end_s = started_s + self.args.seconds * pause / pauses

            await asyncio.gather(*(self._act_until(client, end_s) for client in self.clients))
            self.looks[0].append(look())
            self.looks[1].append(Look(*await server.ask("look")))

    async def _act_until(self, client: SoakClient, end_s: float) -> None:
        while time.monotonic() < end_s:
            await client.act()

    async def _until_shown(self, server: ServerProcess, proxy: CuttingProxy) -> None:
        """A short run on a busy machine goes on until it has had all that it is about."""
        until_s = time.monotonic() + SHOWN_S
        while time.monotonic() < until_s and self._unshown(proxy, await server.ask("state")):
            # Asking the server for its state costs more than a few calls.
            end_s = time.monotonic() + 1
            await asyncio.gather(*(self._act_until(client, end_s) for client in self.clients))

    async def _settled(self, server: ServerProcess, idle: dict[str, Any]) -> dict[str, Any]:
        """The server's state once it has noticed that all clients are gone, or at the end of SETTLED_S."""
        until_s = time.monotonic() + SETTLED_S
        while True:
            state: dict[str, Any] = await server.ask("state")
            names = ("rdma_connections", "tcp_connections", "regions", "queue_pairs", "buffer_octets_lent")
            if all(state[name] == idle[name] for name in names) or time.monotonic() > until_s:
                return state
            await asyncio.sleep(0.1)

    def _report(
        self, proxy: CuttingProxy, idle: dict[str, Any], after: dict[str, Any], idle_regions: int, took_s: float
    ) -> None:
        clients = self.clients
        done = sum((client.done for client in clients), Counter())
        repeats, tickets = after["repeats"], after["tickets"]
        print(f"seed {self.args.seed}: {len(clients)} connections for {took_s:.1f} s")
        print("  " + ", ".join(f"{name} {count}" for name, count in sorted(done.items())))
        slowest_s, name = max(client.slowest for client in clients)
        print(f"{'slowest action, s':38} {slowest_s:>10.1f}   {name}")
        for what, count in (
            ("calls that reached the server", after["calls"]),
            ("RDMA Reads, RDMA Writes, long replies", 0),
            ("connections cut", proxy.cuts),
            ("connections made again", sum(client.reconnects for client in clients)),
            ("repeats answered from the cache", repeats["kept"]),
            ("repeats that joined a running call", repeats["running"]),
            ("repeats whose reply was not kept", repeats["gone"]),
            ("tickets taken", tickets["taken"]),
            ("pieces of calls", after["pieces_received"]),
            ("replies in pieces", after["messages_continued"]),
            ("grants sent", after["grants_sent"]),
            ("arguments that came by Send", after["items_by_send"][0]),
            ("results that went by Send", after["items_by_send"][1]),
        ):
            shown = (
                count
                if not what.startswith("RDMA")
                else "/".join(str(after[name]) for name in ("rdma_reads", "rdma_writes", "replies_long"))
            )
            print(f"{what:38} {shown:>10}")
        for kind, counts in self.misbehaved.items():
            told = ", ".join(f"{count} {what}" for what, count in counts.items())
            print(f"{'misbehaving, ' + kind:38} {MISBEHAVING[kind]:>10}   {told}")
        refused = sum(counts["refused"] for counts in self.misbehaved.values())
        self.check("misbehaviour refused instead of borne", refused)
        self._check_calls(after)
        self._check_files()
        self.check("regions left registered, clients", regions_registered() - idle_regions)
        self.check("regions left registered, server", after["regions"] - idle["regions"])
        self.check("dead connections kept, clients", queue_pairs())
        self.check("dead connections kept, server", after["queue_pairs"] - idle["queue_pairs"])
        self.check("buffer octets left lent, server", after["buffer_octets_lent"])
        for who, looks in zip(("clients", "server"), self.looks, strict=True):
            self._check_growth(who, looks)
        # Two ends that work together have nothing to report.
        self.check("transmissions that were not taken", after["reports"])
        unshown = self._unshown(proxy, after)
        if "flood" in self.misbehaved and not self.misbehaved["flood"]["replies"]:
            unshown.append("the flood was not answered")
        self.failures += [f"{what}: the test shows nothing of it" for what in unshown]

    def _unshown(self, proxy: CuttingProxy, state: dict[str, Any]) -> list[str]:
        """Returns what the run is about and has not had, as far as it is known before the misbehaving clients end."""
        version_2 = self.args.rpcrdma_version.startswith("2")
        happened = {
            "no data went by Send": self.args.extension != "rtr" or all(state["items_by_send"]),
            "no message was continued": not version_2 or (state["messages_continued"] and state["pieces_received"]),
            "no connection was cut": proxy.cuts,
            "no repeat was answered": state["repeats"]["kept"],
        }
        return [what for what, seen in happened.items() if not seen]

    def _check_calls(self, after: dict[str, Any]) -> None:
        tickets = after["tickets"]
        for client in self.clients:
            for failure in (client.lost + client.wrong)[:SHOWN_MAX]:
                print(f"  {failure}")
        self.check("lost calls", sum(len(client.lost) for client in self.clients))
        self.check("wrong results", sum(len(client.wrong) for client in self.clients))
        used = sum(client.tokens for client in self.clients)
        self.check("tokens that came exactly once", sum(tickets["once"].values()), used)
        twice = sum(count for runs, count in tickets["runs"].items() if int(runs) > 1)
        self.check("double executions", twice)
        given = {ticket for client in self.clients for ticket in client.tickets}
        self.check("different tickets given", len(given), used)

    def _check_files(self) -> None:
        files = bad = 0
        for client in self.clients:
            there = {path.name: path for path in (self.top / "export" / client.directory).iterdir()}
            bad += len(there.keys() ^ client.files.keys())
            for name in there.keys() & client.files.keys():
                files += 1
                data = there[name].read_bytes()
                bad += (len(data), zlib.crc32(data)) != client.files[name]
        print(f"{'files on the disk':38} {files:>10}")
        self.check("files missing, left over or damaged", bad)

    def _check_growth(self, who: str, looks: list[Look]) -> None:
        first = warmed_up(looks)
        after = looks[first:] if first is not None else []
        grown, allowed = growth(after or looks)
        since = f"from look {first} on" if after else "with caches that never became full"
        print(f"{'memory of the ' + who + ', KiB':38} {looks[-1].kib:>10}   {grown:+} {since}, {allowed} allowed")
        if self.args.seconds < GROWTH_SECONDS_MIN:
            return
        if len(after) < LOOKS_MIN or grown > allowed:
            print("   FAILED: it grows: " + ", ".join(f"{each.kib} KiB, {each.objects} objects" for each in looks))
            self.failures.append(f"memory of the {who}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--file-octets", type=int, default=3 << 20, help="the largest file")
    parser.add_argument("--cut-octets", type=int, default=1 << 26, help="the most that a connection carries")
    parser.add_argument("--rpcrdma-version", choices=VERSION_CHOICES, default="auto", help="of server and clients")
    parser.add_argument("--extension", choices=EXTENSION_CHOICES, default="auto", help="round trips, of clients")
    parser.add_argument(
        "--misbehaving", nargs="*", choices=MISBEHAVING, default=list(MISBEHAVING), help="by default all"
    )
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    if args.seed is None:
        args.seed = secrets.randbits(31)
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory)
        (top / "export").mkdir()
        (top / "state").mkdir()
        run = Run(args, top)
        run_async(run.main())
    print(f"FAILED: {', '.join(run.failures)}" if run.failures else "all as it must be")
    return bool(run.failures)


if __name__ == "__main__":
    sys.exit(main())
