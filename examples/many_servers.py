"""One job, many servers: Dask's workers read a shard from each of them, in parallel.

python examples/many_servers.py serve DIRECTORY          one server process a core; prints the URL of each
python examples/many_servers.py read URL/0 URL/1 ...     writes a shard to a directory of each server, and reads it

Each server process has ports of its own, and remembers the replies to the calls of its own clients: a call that is
repeated after a lost connection comes to the process that knows whether it has run.
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import dask.dataframe as dd
import pandas as pd
from dask.distributed import Client, LocalCluster

RDMA_PORT, TCP_PORT = 20049, 20048
"""Those of the first server process; the next one has the next two."""


@contextlib.contextmanager
def servers(directories: Sequence[Path], count: int, host: str, free_ports: bool = False) -> Iterator[list[str]]:
    """`count` server processes, which export the directories in turn; their URLs. They end with the context."""
    command = [str(Path(sys.executable).with_name("rpcrdma")), "serve", "--json", "--stop-at-eof"]
    with contextlib.ExitStack() as stack:
        started = []
        for number in range(count):
            rdma, tcp = (0, 0) if free_ports else (RDMA_PORT + 2 * number, TCP_PORT + 2 * number)
            where = [str(directories[number % len(directories)])]
            where += ["--listen", f"rdma://{host}:{rdma}", "--listen", f"tcp://{host}:{tcp}"]
            server = subprocess.Popen([*command, *where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
            started.append(stack.enter_context(server))
        urls = [address(server) for server in started]
        # A server whose later events were not read would wait for room in the pipe.
        takers = [threading.Thread(target=collections.deque, args=(server.stdout, 0)) for server in started]
        for taker in takers:
            taker.start()
        try:
            yield urls
        finally:
            for server, taker in zip(started, takers, strict=True):
                server.stdin.close()
                taker.join()


def address(server: subprocess.Popen[str]) -> str:
    """The URL of a started server, from its first two events."""
    assert server.stdout is not None
    ports = {}
    for event in itertools.islice(map(json.loads, server.stdout), 2):
        if event["event"] != "listening":
            raise RuntimeError(f"a server has not started: {event}")
        scheme, _, authority = event["url"].partition("://")
        host, _, ports[scheme] = authority.rpartition(":")
    if len(ports) != 2:
        raise RuntimeError("a server has ended before it listened")
    return f"rdma://{host}:{ports['rdma']}+{ports['tcp']}"


def write_shard(url: str, first: int, rows: int) -> None:
    """In a worker: numbers that no other shard has."""
    pd.DataFrame({"number": range(first, first + rows)}).to_parquet(f"{url}/shard.parquet")


def read_shard(url: str, shard: int) -> pd.DataFrame:
    """In a worker: one server's shard, and which process has read it."""
    return pd.read_parquet(f"{url}/shard.parquet").assign(shard=shard, process=os.getpid())


def read(urls: Sequence[str], workers: int, rows: int) -> None:
    """Shows that every shard was read once: all numbers are there, and none of them twice."""
    with (
        # Workers connect for themselves: Dask starts them by "spawn", so they inherit nothing.
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        # Each server feeds one worker. Without workers= Dask deals the shards out as workers become free.
        pairs = list(zip(urls, itertools.cycle(client.scheduler_info()["workers"]), strict=False))
        client.gather(
            [
                client.submit(write_shard, url, shard * rows, rows, workers=[worker])
                for shard, (url, worker) in enumerate(pairs)
            ]
        )
        numbers = dd.from_delayed(
            [client.submit(read_shard, url, shard, workers=[worker]) for shard, (url, worker) in enumerate(pairs)],
            meta={"number": "int64", "shard": "int64", "process": "int64"},
        )
        found = dd.compute(
            numbers.shard.nunique(),
            numbers.process.nunique(),
            numbers.number.count(),
            numbers.number.nunique(),
            numbers.number.max(),
        )
    print("shards: {}, processes: {}, numbers: {}, different: {}, last: {}".format(*found))


def main() -> None:
    """The command."""
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description="Read from many servers in one Dask job.")
    commands = parser.add_subparsers(required=True, dest="command")
    server = commands.add_parser("serve", help="run one server process a core, until standard input ends")
    server.add_argument("directories", nargs="+", type=Path, metavar="DIRECTORY", help="exported by each; or in turn")
    server.add_argument("--processes", type=int, default=cores, help="how many (default: the cores, %(default)s)")
    server.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    server.add_argument(
        "--free-ports", action="store_true", help=f"free ports, instead of {RDMA_PORT} and {TCP_PORT} and those above"
    )
    reader = commands.add_parser("read", help="write and read one shard at each URL")
    reader.add_argument("urls", nargs="+", metavar="URL", help="rdma://HOST:PORT+MOUNTPORT/DIRECTORY")
    reader.add_argument("--workers", type=int, default=cores, help="worker processes (default: the cores, %(default)s)")
    reader.add_argument("--rows", type=int, default=1_000_000, help="numbers in a shard (default: %(default)s)")
    options = parser.parse_args()
    if options.command == "read":
        read(options.urls, options.workers, options.rows)
        return
    with servers(options.directories, options.processes, options.host, options.free_ports) as urls:
        print(*urls, sep="\n", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            sys.stdin.read()


if __name__ == "__main__":
    main()
