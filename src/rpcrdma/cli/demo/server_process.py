"""`rpcrdma serve` in a process of its own, and the events that it prints."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.errors import RpcRdmaError

__all__ = ["ServerProcess"]

_RUN = "import sys; sys.path.append(sys.argv.pop(1)); from rpcrdma import __main__; sys.exit(__main__.run())"
"""A program that runs the command; its first argument is the place of the package, which need not be installed."""
_START_S = 30.0
_STOP_S = 20.0


class ServerProcess:
    """A process of `rpcrdma serve` on a free port of an address of this machine, for callers on this machine.

    As an asynchronous context manager it starts the process, yields itself when the server listens, and stops it at
    exit. The server also stops when its standard input ends, and so never outlives this process. `events` has the
    events that the server has printed, `rdma_url` its URL. Entering raises `RpcRdmaError` if the server ends or does
    not listen within 30 s. Where root runs it, root on this machine has root's rights in the exports.

    Args:
        args: the parsed arguments of the command: the server gets their address, provider, protocol version, extension
            and CRC.
        exports: values of `--export`.
        state_dir: the directory of the server's state.
    """

    def __init__(self, args: argparse.Namespace, exports: list[str], state_dir: Path) -> None:
        self._arguments = [f"--export={export}" for export in exports]
        self._arguments += ["--listen", f"rdma://{authority(args.address, 0)}"]
        self._arguments += ["--allow", args.address, "--provider", args.provider]
        self._arguments += ["--state-dir", str(state_dir), "--stop-at-eof", "--json", "--log-level", "warning"]
        self._arguments += ["--rpcrdma-version", args.rpcrdma_version, "--extension", args.extension]
        if os.geteuid() == 0:
            # The exports may hold files that only root reads: callers are root of this machine alone (--allow).
            self._arguments.append("--no-root-squash")
        if not args.crc:
            self._arguments.append("--no-crc")
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self.rdma_url = ""
        self.events: list[dict[str, Any]] = []

    async def __aenter__(self) -> ServerProcess:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            # Files in the working directory, such as queue.py, are no modules of the server.
            "-P",
            "-c",
            _RUN,
            str(Path(__file__).parents[3]),
            "serve",
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # An interrupt at the terminal is for the starter, which stops the server in order.
            start_new_session=True,
        )
        self._reading = asyncio.create_task(self._read())
        try:
            async with asyncio.timeout(_START_S):
                await self._ready.wait()
        except TimeoutError:
            await self.stop()
            raise RpcRdmaError("the server did not start in time") from None
        except BaseException:
            await self.stop()
            raise
        if not self.rdma_url:
            await self.stop()
            raise RpcRdmaError("the server did not start")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> int:
        """Closes the server's standard input, and waits for the end of the process, which is killed after 20 s.

        Returns the exit status of the process, negative if a signal ended it; 0 if it was not started.
        """
        process, reading = self._process, self._reading
        if process is None or reading is None:
            return 0
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        await reading
        assert process.returncode is not None
        return process.returncode

    def statistics(self) -> dict[str, int]:
        """Returns the counters of `TransportStatistics`, by name, summed over the server's ended connections."""
        sums: dict[str, int] = {}
        for event in self.events:
            for name, value in (event.get("statistics") or {}).items():
                sums[name] = sums.get(name, 0) + value
        return sums

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            event = json.loads(line)
            self.events.append(event)
            # An error in the arguments has no word under "event", and a name with several addresses several of these.
            if event.get("event") == "listening" and not self.rdma_url:
                self.rdma_url = event["url"]
                self._ready.set()
        self._ready.set()
