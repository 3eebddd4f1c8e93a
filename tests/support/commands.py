"""Fixtures of tests of commands: a server in a process of its own, and the command run in this one.

The `conftest.py` of a folder imports those that its tests ask for.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gettext
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import rpcrdma
from rpcrdma.cli.main import main
from rpcrdma.rpc.service import Service
from support.command_process import HANG_S, CommandProcess

# Hundreds of commands run in one process here. For each of its texts argparse looks for a translation, which is much of
# the start of a command, and always comes out the same.
_find_translation = functools.cache(gettext.find)


@pytest.fixture(scope="module", autouse=True)
def start_is_done_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gettext, "find", _find_translation)
        yield


@pytest.fixture(autouse=True)
def hang_ups_end_programs() -> Iterator[None]:
    """Processes do not inherit that SIGHUP is ignored, as it is in tests that nohup has started."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@dataclass
class Served:
    """A running `rpcrdma serve --json`."""

    process: CommandProcess
    root: Path
    urls: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    said: str = ""

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        # No process outlives a test, also after a failure.
        self.process.kill()
        self.finish()

    def start_reading(self) -> None:
        """Reads its output, so that no full pipe stops it."""
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def finish(self) -> int:
        """Its exit status, when it has ended."""
        self.reader.join(HANG_S)
        status = self.process.wait(HANG_S)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        assert self.process.stderr is not None
        if not self.process.stderr.closed:
            self.said = self.process.stderr.read()
            self.process.stderr.close()
        return status

    def stop(self) -> int:
        """Its exit status after its standard input has ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.finish()


def start_server(root: Path, state: Path, *options: str, named_only: bool = False) -> Served:
    command = ["serve", "--json", "--stop-at-eof", "--state-dir", str(state)]
    command += ["--listen", "rdma://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0", *options]
    if os.geteuid() == 0:
        command.append("--no-root-squash")
    process = CommandProcess(
        command if named_only else [*command, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    served = Served(process, root)
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        served.events.append(event)
        if event["event"] == "listening":
            served.urls[event["url"].partition(":")[0]] = event["url"]
        elif event["event"] == "exported":
            served.start_reading()
            return served
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


StartServer = Callable[..., Served]


@pytest.fixture(scope="session")
def start() -> StartServer:
    """Starts a server: (directory exported as /, state directory, *more options); `named_only`: without that export."""
    return start_server


@pytest.fixture
def nobody_listens() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serves an empty directory; tests make their files in directories of their own."""
    served = start_server(tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("state"))
    with served:
        yield served
        assert served.stop() == 0
        assert served.said == ""


@dataclass
class Ran:
    """The output of a command, and its exit status."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


class Command:
    """The command, run in this process."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture

    def run(self, *arguments: str) -> Ran:
        self._capture.readouterr()
        try:
            status = main(list(arguments))
        except SystemExit as ended:
            status = int(ended.code or 0)
        said = self._capture.readouterr()
        assert b"Traceback" not in said.err
        return Ran(status, said.out, said.err.decode())

    def done(self, *arguments: str) -> Ran:
        ran = self.run(*arguments)
        assert ran.status == 0, ran.err
        return ran


class Remote(Command):
    """The command against one listener of the server, within a directory of the test's own.

    `version` is that of RPC-over-RDMA; "" over TCP.
    """

    def __init__(
        self, server: Served, scheme: str, version: str, name: str, capture: pytest.CaptureFixture[bytes]
    ) -> None:
        self.version = version
        self.base = server.urls[scheme]
        self.local = server.root / name
        self.local.mkdir()
        self.name = name
        self.mount_port = server.urls["tcp"].rpartition(":")[2]
        super().__init__(capture)

    def url(self, path: str = "") -> str:
        return f"{self.base}/{self.name}{path}"

    def run(self, *arguments: str) -> Ran:
        version = ["--rpcrdma-version", self.version] if self.version else []
        return super().run("--mount-port", self.mount_port, *version, *arguments)


@pytest.fixture
def remote(request: pytest.FixtureRequest, server: Served, capfdbinary: pytest.CaptureFixture[bytes]) -> Remote:
    name = "".join(character if character.isalnum() else "-" for character in request.node.name)
    scheme, _, version = request.param.partition("-")
    return Remote(server, scheme, version, name, capfdbinary)


Over = Callable[[str], Remote]


@pytest.fixture
def over(request: pytest.FixtureRequest, server: Served, capfdbinary: pytest.CaptureFixture[bytes]) -> Over:
    """The command over this scheme, in the version that both ends like best, and in a directory of the test's own."""
    return lambda scheme: Remote(server, scheme, "", f"{request.node.originalname}-{scheme}", capfdbinary)


@contextlib.contextmanager
def serving(services: Sequence[Service], host: str = "127.0.0.1", **options: Any) -> Iterator[dict[str, str]]:
    """Serves in a thread of this process, beside the commands that a test runs; gives the URLs by scheme."""
    listening: dict[str, str] = {}
    started = threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        listen = [f"rdma://{host}:0", f"tcp://{host}:0"]
        async with rpcrdma.serve(services, listen=listen, **options) as server:
            listening.update((url.partition(":")[0], url) for url in server.listening)
            stop.append(lambda: loop.call_soon_threadsafe(ended.set))
            started.set()
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    try:
        assert started.wait(HANG_S), "the server did not begin to listen"
        yield listening
    finally:
        for each in stop:
            each()
        thread.join(HANG_S)
        assert not thread.is_alive(), "the server did not end"


Serving = Callable[..., contextlib.AbstractContextManager[dict[str, str]]]


@pytest.fixture(scope="session", name="serving")
def serving_fixture() -> Serving:
    """Serves services of the test's own: (services, host, more options)."""
    return serving


@contextlib.contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """A TCP server that sends these octets after it has heard something, `XID ` in them replaced, and hangs up.

    It must not be called a second time.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                heard = peer.recv(1 << 16)
                peer.sendall(reply.replace(b"XID ", heard[4:8]))
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(1 << 16):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        except BaseException:
            # Nobody may have called.
            listener.shutdown(socket.SHUT_RDWR)
            raise
        finally:
            thread.join(HANG_S)
            assert not thread.is_alive()
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


Answering = Callable[[bytes], contextlib.AbstractContextManager[str]]


@pytest.fixture(scope="session", name="answering")
def answering_fixture() -> Answering:
    """A server that answers with octets of the test's own; gives its URL."""
    return answering


@pytest.fixture
def command(capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    return Command(capfdbinary)
