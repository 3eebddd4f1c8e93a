"""`rpcrdma serve` on the guests' network, which a test may stop, kill and start again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from failures import CheckFailed
from network import HOST

__all__ = ["OurServer"]

_COMMAND = Path(sys.executable).with_name("rpcrdma")
_START_S = 120.0
_STOP_S = 120.0
"""The time in which the server must end; a server that ends is noticed at once, on a busy machine a little later."""


class OurServer:
    """Serves one directory, NFS over RDMA at 20049, MOUNT and NFS over TCP at 20048; runs when made."""

    def __init__(self, directory: Path, state: Path, *options: str, name: str = "") -> None:
        """Starts it.

        Args:
            directory: The directory that it exports.
            state: The directory of the server's state, which outlives a run, and of the log of all runs.
            options: Further options of `rpcrdma serve`; with `--config` the file has the exports.
            name: The name of the export; by default it is the root.
        """
        self.directory = directory
        self._state = state
        self._log = state / "serve.log"
        listen = ["--listen", f"rdma://{HOST}:20049", "--listen", f"tcp://{HOST}:20048"]
        self._command = [str(_COMMAND), "serve", "--register", "no", "--state-dir", str(state), *listen, *options]
        if "--config" not in options:
            self._command += ["--export", f"{name}={directory}"] if name else [str(directory)]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.stop()
            self.check_log()
        else:
            self.kill()

    @property
    def log(self) -> str:
        """The server's log of all its runs."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        said_before = self.log.count("listening at")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        deadline = time.monotonic() + _START_S
        while self.log.count("listening at") < said_before + 2:
            if self._process.poll() is not None:
                raise CheckFailed(f"our server ended with status {self._process.returncode}:\n{self.log[-2000:]}")
            if time.monotonic() > deadline:
                raise CheckFailed(f"awaited our server's listening for {_START_S:.0f} s:\n{self.log[-2000:]}")
            time.sleep(0.02)

    def admin(self, *words: str) -> dict[str, Any]:
        """The answer of `rpcrdma admin`.

        Raises:
            CheckFailed: There is none.
        """
        command = [str(_COMMAND), "admin", *words, "--state-dir", str(self._state), "--json"]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        if done.returncode:
            raise CheckFailed(f"rpcrdma admin {' '.join(words)} ended with status {done.returncode}: {done.stderr}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def stop(self) -> None:
        """Ends it in order."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CheckFailed(f"awaited our server's end for {_STOP_S:.0f} s:\n{self.log[-2000:]}") from None
        if status:
            raise CheckFailed(f"our server ended with status {status}:\n{self.log[-2000:]}")

    def hang_up(self) -> None:
        """Lets it read its configuration again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """Ends it as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def check_log(self) -> None:
        """Checks that the log has no error that no caller saw.

        Raises:
            CheckFailed: It did.
        """
        log = self.log
        for word in ("Traceback", "ERROR", "terminat"):
            if (at := log.find(word)) >= 0:
                raise CheckFailed(f"our server said\n{log[max(at - 300, 0) : at + 2500]}")
