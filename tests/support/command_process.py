"""`rpcrdma` commands in processes of their own, forked from one that has imported the package.

Importing takes ten times as long as most commands take to run. A test of the start itself, of the environment or of a
terminal runs `python -m rpcrdma` instead.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any

__all__ = ["HANG_S", "CommandProcess", "run_command"]

HANG_S = 60.0
"""No process takes so long on any machine: it hangs."""

_SET_CHILD_SUBREAPER = 36
"""prctl(2): orphaned processes below this one become its children, so that it can wait for them."""
_REQUEST_OCTETS_MAX = 1 << 17


class _Source:
    """The process that commands are forked from; `through` is the beginning of its command line."""

    def __init__(self, through: Sequence[str]) -> None:
        assert ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        self._guard = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*through, sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        atexit.register(self._end)

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """The number of a new process, which has the descriptors as standard input, output and error."""
        with self._guard:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            return int(self._socket.recv(100))

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def _source(through: tuple[str, ...], _of_process: int) -> _Source:
    return _Source(through)


class CommandProcess(subprocess.Popen[Any]):
    """`rpcrdma` with these arguments; options are those of Popen: stdin, stdout, stderr, text, cwd and env.

    `through` is a command that runs another one, such as `unshare`. As a context it kills the process at the end, if it
    still runs.
    """

    def __init__(
        self,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        through: Sequence[str] = (),
        ignoring: signal.Signals | None = None,
        **options: Any,
    ) -> None:
        self._through = tuple(through)
        self._ignoring = ignoring
        super().__init__([os.fspath(word) for word in arguments], **options)

    def __exit__(self, *error: Any) -> None:
        self.kill()
        super().__exit__(*error)

    def ended(self, signal_number: int | None = None) -> tuple[int, Any, Any]:
        """Its exit status, and what is left of standard output and error, after a signal if one is given."""
        if signal_number is not None:
            self.send_signal(signal_number)
        out, err = self.communicate(timeout=HANG_S)
        return self.returncode, out, err

    def _execute_child(self, args: Any, *others: Any) -> None:
        # Popen calls this method to start the process, and tells auditors of it there.
        sys.audit("subprocess.Popen", "rpcrdma", args, None, None)
        (_, _, _, _, cwd, env, _, _, _, *pipes) = others
        incoming, _, _, outgoing, _, errors = pipes[:6]
        request = {
            "arguments": args,
            "cwd": os.fspath(cwd or os.getcwd()),  # noqa: PTH109 - a text
            "env": dict(os.environ if env is None else env),
            "ignoring": self._ignoring,
        }
        standard = [own if own != -1 else number for number, own in enumerate((incoming, outgoing, errors))]
        self.pid = _source(self._through, os.getpid()).fork(request, standard)
        self._child_created = True
        self._close_pipe_fds(*pipes[:6])


def run_command(*arguments: str | os.PathLike[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run` with `capture_output` does; `input` and `timeout` have its meaning."""
    sent, timeout = options.pop("input", None), options.pop("timeout", HANG_S)
    settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    if sent is not None:
        settings["stdin"] = subprocess.PIPE
    with CommandProcess(arguments, **settings) as process:
        out, err = process.communicate(sent, timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _import_all() -> None:
    import rpcrdma
    import rpcrdma_lab

    paths = [
        *pkgutil.walk_packages(rpcrdma.__path__, "rpcrdma."),
        *pkgutil.walk_packages(rpcrdma_lab.__path__, "rpcrdma_lab."),
    ]
    for module in paths:
        if not module.name.endswith("__main__") and not module.name.startswith(("rpcrdma.fsspec", "rpcrdma.testing")):
            importlib.import_module(module.name)
    importlib.import_module("uvloop")


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Gives this process the arguments, environment and streams of a new one."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, max(descriptors) + 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if request["ignoring"]:
        signal.signal(request["ignoring"], signal.SIG_IGN)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["rpcrdma", *request["arguments"]]
    opened: list[IO[str]] = [open(number, mode, closefd=False) for number, mode in enumerate("rww")]  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = opened  # type: ignore[misc]
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)  # type: ignore[attr-defined]


def _serve(requests: socket.socket) -> int:
    """Forks a process for each request; in the process itself returns the command's exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    from rpcrdma.cli.main import run

    gc.collect()
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_OCTETS_MAX, 3)
        if not message:
            return 0
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            # This one ends at once, which makes the command a child of the tests' own process.
            number = os.fork()
            if number:
                os.write(writing, str(number).encode())
                os._exit(0)
            requests.close()
            os.close(reading)
            os.close(writing)
            _become(json.loads(message), descriptors)
            return run()
        os.waitpid(between, 0)
        requests.send(os.read(reading, 100))
        for descriptor in (reading, writing, *descriptors):
            os.close(descriptor)


if __name__ == "__main__":
    sys.exit(_serve(socket.socket(fileno=int(sys.argv[1]))))
