"""`rpcrdma serve` on the guests' network, which a test may stop, kill and start again: on this side or in a guest."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from failures import CheckFailed, JobTimeout
from guest import Guest, Job, Result
from network import HOST
from patience import PACE_MAX
from python_layer import PYTHON

__all__ = ["OurServer", "ThisSide"]

_START_S = 120.0
_STOP_S = 120.0
"""The time in which the server must end; a server that ends is noticed at once, on a busy machine a little later."""
_RUN_S = 1200.0
"""The longest run of a server, on a quiet machine."""
_LOOK_S = 0.05


class ThisSide:
    """This machine, which runs shell scripts like a guest."""

    name = "this side"
    address = HOST
    pace = 1.0

    def run(self, script: str, quiet_s: float = 60.0, *, check: bool = True) -> Result:
        """Runs a shell script to its end; see LocalJob.wait for its exceptions."""
        return self.start(script, quiet_s).wait(check=check)

    def start(self, script: str, quiet_s: float = 60.0) -> LocalJob:
        """Starts a shell script, which on a quiet machine would end in `quiet_s`."""
        return LocalJob(script, quiet_s * PACE_MAX)


class LocalJob:
    """A shell script that runs on this side."""

    def __init__(self, script: str, longest_s: float) -> None:
        self._script = script
        self._longest_s = longest_s
        self._process = subprocess.Popen(
            ["sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            text=True,
            errors="replace",
        )

    def poll(self) -> bool:
        """Whether the job has ended."""
        return self._process.poll() is not None

    def wait(self, *, check: bool = True) -> Result:
        """Waits for its end.

        Raises:
            CheckFailed: It ended with another status than 0, and `check` was not turned off.
            JobTimeout: It did not end in its time.
        """
        try:
            output, _ = self._process.communicate(timeout=self._longest_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise JobTimeout(f"after {self._longest_s:.0f} s, no end of: {self._script}") from None
        if check and self._process.returncode:
            raise CheckFailed(f"status {self._process.returncode} of: {self._script}\n{output[-2000:]}")
        return Result(output, self._process.returncode)


class OurServer:
    """Serves one directory, NFS over RDMA at 20049, MOUNT and NFS over TCP at 20048; runs when made."""

    def __init__(
        self,
        directory: Path,
        state: Path,
        *options: str,
        name: str = "",
        machine: Guest | ThisSide | None = None,
    ) -> None:
        """Starts it.

        Args:
            directory: The directory that it exports.
            state: The directory of the server's state, which outlives a run, and of the log of all runs.
            options: Further options of `rpcrdma serve`; with `--config` the file has the exports.
            name: The name of the export; by default it is the root.
            machine: Where it runs and both directories are: this side, or a guest with Python, whose device it uses.
        """
        self.directory = directory
        self.machine = machine or ThisSide()
        self._state = state
        in_guest = isinstance(self.machine, Guest)
        # `python3` is that of the tests at both places.
        self._python = PYTHON if in_guest else f"PATH={Path(sys.executable).parent}:$PATH\n"
        self.programs = Path("/data") if in_guest else Path(__file__).parent
        """The folder of `lock_holder.py` there."""
        listen = ["--listen", f"rdma://{self.address}:20049", "--listen", f"tcp://{self.address}:20048"]
        self._words = ["serve", "--register", "no", "--state-dir", str(state), *listen, *options]
        if in_guest:
            self._words += ["--provider", "verbs"]
        if "--config" not in options:
            self._words += ["--export", f"{name}={directory}"] if name else [str(directory)]
        self._process: Job | LocalJob | None = None
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.stop()
            self.check_log()
        elif isinstance(self.machine, ThisSide):
            # A guest ends after a failure, or has ended.
            self.kill()

    @property
    def address(self) -> str:
        """The address of its machine."""
        return self.machine.address

    @property
    def log(self) -> str:
        """The server's log of all its runs."""
        return self.run(f"cat {self._state}/serve.log")

    def run(self, script: str, *, check: bool = True) -> str:
        """The output of a shell script in the served directory, run by a process of the server's machine.

        Raises:
            CheckFailed: It ended with another status than 0, and `check` was not turned off.
        """
        return self.machine.run(f"cd {self.directory}\n{self._python}{script}", check=check).output

    def begin(self, script: str) -> Job | LocalJob:
        """Starts such a script."""
        return self.machine.start(f"cd {self.directory}\n{self._python}{script}", _RUN_S)

    def count(self, script: str) -> int:
        """The number that such a script prints last; 0 where it prints none."""
        words = self.run(script, check=False).split()
        return int(words[-1]) if words and words[-1].isdigit() else 0

    def octets(self, name: str) -> int:
        """The size of a file of the served directory; 0 while there is none."""
        return self.count(f"stat -c %s {name}")

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        log = self._state / "serve.log"
        listening = f"grep -c 'listening at' {log}"
        wanted = self.count(listening) + 2
        command = f"exec python3 -m rpcrdma {shlex.join(self._words)} >>{log} 2>&1"
        self._process = self.begin(f"echo $$ >{self._state}/process\n{command}")
        deadline = time.monotonic() + _START_S * self.machine.pace
        while self.count(listening) < wanted:
            if self._process.poll():
                status = self._process.wait(check=False).status
                raise CheckFailed(f"our server ended with status {status}:\n{self.log[-2000:]}")
            if time.monotonic() > deadline:
                raise CheckFailed(f"awaited our server's listening for {_START_S:.0f} s:\n{self.log[-2000:]}")
            time.sleep(_LOOK_S)

    def admin(self, *words: str) -> dict[str, Any]:
        """The answer of `rpcrdma admin`.

        Raises:
            CheckFailed: There is none.
        """
        command = ["python3", "-m", "rpcrdma", "admin", *words, "--state-dir", str(self._state), "--json"]
        found: dict[str, Any] = json.loads(self.run(shlex.join(command)))
        return found

    def stop(self) -> None:
        """Ends it in order."""
        self._signal("TERM")
        assert self._process is not None
        deadline = time.monotonic() + _STOP_S * self.machine.pace
        while not self._process.poll():
            if time.monotonic() > deadline:
                self.kill()
                raise CheckFailed(f"awaited our server's end for {_STOP_S:.0f} s:\n{self.log[-2000:]}")
            time.sleep(_LOOK_S)
        if status := self._process.wait(check=False).status:
            raise CheckFailed(f"our server ended with status {status}:\n{self.log[-2000:]}")

    def hang_up(self) -> None:
        """Lets it read its configuration again."""
        self._signal("HUP")

    def kill(self, *, when: str = "true") -> None:
        """Ends it as a crash would, as soon as the command `when` succeeds in the served directory.

        Raises:
            CheckFailed: It did not in the time that a script has.
        """
        self.run(f"until {when}; do sleep 0.05; done; kill -KILL $(cat {self._state}/process) || true")
        assert self._process is not None
        self._process.wait(check=False)

    def check_log(self) -> None:
        """Checks that the log has no error that no caller saw.

        Raises:
            CheckFailed: It did.
        """
        log = self.log
        for word in ("Traceback", "ERROR", "terminat"):
            if (at := log.find(word)) >= 0:
                raise CheckFailed(f"our server said\n{log[max(at - 300, 0) : at + 2500]}")

    def _signal(self, name: str) -> None:
        self.run(f"kill -{name} $(cat {self._state}/process)", check=False)
