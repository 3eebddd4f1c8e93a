"""`rpcrdma serve` is killed under the locks of NFSv4.1 clients: these reclaim them before others get any."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.nfs4_client import READ, WRITE, Client, lock, open_, putfh, reclaim_complete
from support.nfs4_connection import TcpConnection

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers"),
]

BOTH = READ | WRITE


def dial(served: Any) -> TcpConnection:
    return TcpConnection(int(served.urls["tcp"].rpartition(":")[2]))


def test_locks_survive_a_killed_server_twice(start: Callable[..., Any], tmp_path: Path, nobody_listens: int) -> None:
    data, state = tmp_path / "data", tmp_path / "state"
    # Clients return to an address that they know.
    options = ("--no-root-squash", "--listen", f"tcp://127.0.0.1:{nobody_listens}")
    data.mkdir()
    (data / "file").write_bytes(b"some data")
    with start(data, state, *options) as served, dial(served) as connection:
        client = Client(connection, b"keeper").start()
        handle = client.handle("file")
        client.locked(handle, client.opened(handle, BOTH))
        served.process.kill()
    for again in range(2):
        with start(data, state, *options) as served, dial(served) as first, dial(served) as second:
            keeper, other = Client(first, b"keeper"), Client(second, b"other").start()
            file = putfh(handle)
            assert other.run(file, open_(b"o", READ)).status == "GRACE"
            assert other.run(file, open_(b"o", READ, reclaim=True)).status == "NO_GRACE"
            keeper.start(complete=False)
            opened = keeper.run(file, open_(b"owner", BOTH, reclaim=True)).value(18)["stateid"]
            assert keeper.run(file, lock(opened, b"locker", 2, 0, 10, reclaim=True)).status == "OK"
            if again:
                assert keeper.run(reclaim_complete()).status == "OK"
                theirs = other.opened(handle, BOTH)
                assert other.run(file, lock(theirs, b"l", 1, 5, 1)).status == "DENIED"
                assert other.run(file, lock(theirs, b"l", 1, 10, 1)).status == "OK"
            served.process.kill()
