"""An interactive session: the public names, and the URLs of objects."""

from __future__ import annotations

import asyncio
import pydoc
import re
import subprocess
import sys

import pytest

import rpcrdma
from rpcrdma import NfsFilesystem, connect, serve
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import Service


class Nothing(Service):
    """A program whose procedures are never called."""

    PROGRAM = v3.PROGRAM


@pytest.mark.thorough
def test_dir_shows_the_public_names_and_imports_none_of_them() -> None:
    program = """
import sys
import rpcrdma
before = set(sys.modules)
print(*dir(rpcrdma))
assert set(sys.modules) == before
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert set(done.stdout.split()) >= {*rpcrdma.__all__, "__doc__"}


def test_help_describes_the_public_names() -> None:
    text = pydoc.plain(pydoc.render_doc(rpcrdma))
    for name in ("class ConnectOptions", "class CallTimeout", "connect", "nfs_open", "serve"):
        # Since Python 3.13 the parameters of a long signature have a line each.
        assert re.search(rf"^    {name}\(", text, re.MULTILINE), name


@pytest.mark.thorough
def test_a_connection_shows_its_url() -> None:
    async def work() -> None:
        async with serve([Nothing()], ["tcp://127.0.0.1:0"]) as server, connect(server.listening[0]) as connection:
            assert repr(connection) == f"<rpcrdma.Connection {connection.url}>"
            filesystem = NfsFilesystem(connection, b"handle")
            assert repr(filesystem) == f"<rpcrdma.NfsFilesystem over {connection!r}>"
            await filesystem.close()

    asyncio.run(work())
