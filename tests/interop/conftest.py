"""Fixtures of the interoperability tests: a server process, directories open to all users."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import pytest

_URL = re.compile(r"\b(?:rdma|tcp)://[^\s\"',]+")

Serve = Callable[..., contextlib.AbstractContextManager[SplitResult]]


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory open to every user: run as root, the server maps root's calls to UID 65534."""
    directory = Path(tempfile.mkdtemp(prefix="rpcrdma-interop-"))
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def serve(rpcrdma_command: str) -> Serve:
    """`with serve("DIR" or "--export=..."...) as url:` gives the URL that the server says it listens on.

    `through` is the beginning of the server's command line.
    """

    @contextlib.contextmanager
    def running(
        *arguments: str, listen: str = "tcp://127.0.0.1:0", through: Sequence[str] = ()
    ) -> Iterator[SplitResult]:
        command = [*through, rpcrdma_command, "serve", *arguments, "--listen", listen]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            assert server.stdout is not None
            said = []
            try:
                for line in server.stdout:
                    said.append(line)
                    if found := _URL.search(line):
                        yield urlsplit(found[0])
                        break
                else:
                    pytest.fail("the server ended before it listened:\n" + "".join(said))
            finally:
                server.terminate()
                said.append(server.stdout.read())
            assert server.wait(timeout=60) == 0, "".join(said)
            assert "Traceback" not in "".join(said)

    return running
