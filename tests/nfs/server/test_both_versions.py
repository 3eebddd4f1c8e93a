"""Versions 3 and 4 over one directory: an open of version 4 and a restart of the server are seen by version 3."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from conversation import with_version_4
from rpcrdma.nfs import v3
from support.nfs4_client import READ, WRITE, Client, close, putfh

NO_DELEGATION = 0x400

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")


def written(server: Any, file: bytes) -> str:
    status: str = server.status("write", v3.WRITE3args(v3.nfs_fh3(file), 0, 1, v3.stable_how.FILE_SYNC, b"x"))
    return status


def test_version_3_obeys_the_opens_of_version_4_and_waits_for_its_grace_period(server: Any, tmp_path: Path) -> None:
    four = with_version_4(server, tmp_path)
    client: Client = four.client().start()
    handle = client.handle("hello.txt")
    stateid = client.opened(handle, READ | NO_DELEGATION, WRITE)
    assert written(server, handle) == "ACCES"
    assert client.run(putfh(handle), close(stateid)).status == "OK"
    assert written(server, handle) == "OK"
    client.opened(handle, READ | NO_DELEGATION)
    four.service.close()
    restarted = with_version_4(server, tmp_path, 1000.0)
    assert written(server, handle) == "JUKEBOX"
    assert restarted.client().start().opened(handle, READ | NO_DELEGATION)
    assert written(server, handle) == "OK"
    restarted.service.close()
