"""How long a reload of many exports takes, and how long calls wait meanwhile: `python benchmarks/reload.py`.

`rpcrdma serve` is a process of its own, with `--exports` exports of a directory each. A client calls GETATTR on the
first one, one call after another, while SIGHUP has the server read its files again, `--reloads` times for each row:

- none: without a reload, for as long;
- unchanged: the files are as they were;
- new: all exports but the first are replaced by others, of other names and directories.

Each row has the median and the longest time of a reload in milliseconds, from the signal to the event of its end, the
longest wait of a call in each reload, of these the median and the longest one, and how many calls were answered. The
columns of processor time have what the server has computed during one wait, which other processes change less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from orders import spent_s

from rpcrdma import connect, nfs_open
from rpcrdma.nfs import v3

KINDS = ("none", "unchanged", "new")
REST_S = 0.1
"""Seconds of calls before the signal of each reload."""


def configuration(top: Path, names: list[str]) -> str:
    """The text of a file with an export for each name."""
    return "".join(f'[[export]]\nname = "/{name}"\ndirectory = "{top / name}"\n' for name in names)


@asynccontextmanager
async def served(config: Path, state: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, AsyncIterator[Any]]]:
    """`rpcrdma serve --json`: its process, and its events."""
    command = [sys.executable, "-m", "rpcrdma", "serve", "--json", "--listen", "tcp://127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(
        *command, "--config", str(config), "--state-dir", str(state), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        yield process, (json.loads(line) async for line in process.stdout)
    finally:
        process.terminate()
        await process.wait()


async def named(events: AsyncIterator[Any], name: str) -> Any:
    """The next event of this name."""
    return await anext(event async for event in events if event["event"] == name)


class Calls:
    """GETATTR over and over; `longest_s` is the longest wait, and `count` the number of calls, since `forget`.

    `longest_computed_s` is the most processor time of the server during one wait. `answered` is set after each call.
    """

    def __init__(self, client: Any, handle: bytes, server: int) -> None:
        self._client = client
        self._server = server
        self._args = v3.GETATTR3args(v3.nfs_fh3(handle))
        self.forget()

    def forget(self) -> None:
        self.longest_s, self.longest_computed_s, self.count = 0.0, 0.0, 0
        self.answered = asyncio.Event()

    async def run(self) -> None:
        while True:
            begun_s, computed_s = time.perf_counter(), spent_s(self._server)
            reply = await self._client.call(v3.GETATTR, self._args)
            assert reply.status is v3.nfsstat3.NFS3_OK
            self.longest_s = max(self.longest_s, time.perf_counter() - begun_s)
            self.longest_computed_s = max(self.longest_computed_s, spent_s(self._server) - computed_s)
            self.count += 1
            self.answered.set()


async def measure(kind: str, top: Path, texts: Iterator[str], reloads: int) -> None:
    config = top / "rpcrdma.toml"
    config.write_text(next(texts))
    async with served(config, top / f"state-{kind}") as (process, events):
        port = int((await named(events, "listening"))["url"].rpartition(":")[2])
        for _ in range(config.read_text().count("[[export]]")):
            await named(events, "exported")
        url = f"tcp://127.0.0.1:{port}"
        async with nfs_open(f"{url}/kept", mount_port=port) as fs, connect(url, v3.PROGRAM) as client:
            calls = Calls(client, (await fs.handle_of(""))[0], process.pid)
            running = asyncio.create_task(calls.run())
            took_ms: list[float] = []
            waits_ms: list[float] = []
            computed_ms: list[float] = []
            count = 0
            for _ in range(reloads):
                await asyncio.sleep(REST_S)
                if kind == "new":
                    config.write_text(next(texts))
                calls.forget()
                begun_s = time.perf_counter()
                if kind == "none":
                    await asyncio.sleep(REST_S)
                else:
                    process.send_signal(signal.SIGHUP)
                    assert (await named(events, "reload"))["ok"]
                took_ms.append((time.perf_counter() - begun_s) * 1e3)
                # The call that waits now counts as well.
                calls.answered.clear()
                await calls.answered.wait()
                waits_ms.append(calls.longest_s * 1e3)
                computed_ms.append(calls.longest_computed_s * 1e3)
                count += calls.count
            running.cancel()
    columns = [value for each in (took_ms, waits_ms, computed_ms) for value in (statistics.median(each), max(each))]
    print(f"{kind:<10} {''.join(f'{each:10.1f}' for each in columns)} {count:9}", flush=True)


def alternating(first: str, second: str) -> Iterator[str]:
    """The two texts by turns, without end."""
    while True:
        yield first
        yield second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--exports", type=int, default=200)
    parser.add_argument("--reloads", type=int, default=40, help="for each row")
    args = parser.parse_args()
    print(f"{args.exports} exports, {args.reloads} reloads; load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    print(f"{'ms':<10} {''.join(f'{name:>10}   longest' for name in ('reload', 'wait', 'processor'))} {'calls':>9}")
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory)
        first, second = ([f"{half}{number}" for number in range(args.exports - 1)] for half in ("one", "two"))
        for name in ("kept", *first, *second):
            (top / name).mkdir()
        texts = (configuration(top, ["kept", *names]) for names in (first, second))
        turns = alternating(*texts)
        for kind in args.kinds or KINDS:
            asyncio.run(measure(kind, top, turns, args.reloads))


if __name__ == "__main__":
    main()
