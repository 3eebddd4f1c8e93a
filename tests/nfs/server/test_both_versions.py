"""Versions 3 and 4 over one directory: an open of version 4 and a restart of the server are seen by version 3."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conversation import with_version_4
from rpcrdma.nfs import v3
from rpcrdma.nfs.server.services import build_nfs4
from state_rig import LEASE_S
from support.nfs4_client import READ, WRITE, Client, close, getattr_, putfh

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
    client.opened(handle, READ | NO_DELEGATION, WRITE)
    four.now_s += LEASE_S + 1
    assert written(server, handle) == "JUKEBOX", "the client has lost its lease, and ends"
    four.service.sweep()
    assert written(server, handle) == "OK"
    four.client().start().opened(handle, READ | NO_DELEGATION)
    four.service.close()
    restarted = with_version_4(server, tmp_path, 1000.0)
    assert written(server, handle) == "JUKEBOX"
    assert restarted.client().start().opened(handle, READ | NO_DELEGATION)
    assert written(server, handle) == "OK"
    restarted.service.close()


def test_clients_know_a_server_again_that_listens_at_another_address_as_well(server: Any, tmp_path: Path) -> None:
    identities = []
    for port in (["1"], ["1", "2"], ["2"], ["3"]):
        services, addresses = server.services.nfs, [f"tcp://h:{each}" for each in port]
        clocks = lambda: 0.0, lambda: 0
        four = build_nfs4(services, server.state, tmp_path, os.urandom, *clocks, addresses=addresses)
        identities.append(four.state.identity)
        four.sweep()
        four.close()
    assert len({*identities[:3]}) == 1
    assert identities[3] not in identities[:3]


def test_the_space_of_a_directory_is_that_which_the_file_system_tells_of_it(
    server: Any, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system tells the quota of a directory's project for it, and for what is below it."""
    limited = (tree / "a").stat().st_ino

    def told(fd: int) -> Any:
        # That of a disk would change from one call to the next.
        blocks = 100 if os.fstat(fd).st_ino == limited else 1000
        return SimpleNamespace(
            f_frsize=4096, f_blocks=blocks, f_bfree=30, f_bavail=20, f_files=9, f_ffree=8, f_favail=7
        )  # fmt: skip

    monkeypatch.setattr(os, "fstatvfs", told)
    four = with_version_4(server, tmp_path)
    client: Client = four.client().start()
    wanted = sum(1 << number - 32 for number in (38, 39, 40, 42, 43, 44))
    for handle in (client.handle("a"), client.handle("hello.txt")):
        found = server.call("fsstat", v3.FSSTAT3args(v3.nfs_fh3(handle))).value
        of_three = (found.abytes, found.abytes, found.tbytes - found.fbytes, found.abytes, found.fbytes, found.tbytes)
        assert struct.unpack(">6Q", client.run(putfh(handle), getattr_(0, wanted)).value(9)[1]) == of_three
        assert (found.tbytes == 100 * 4096) == (handle == client.handle("a"))
    four.service.close()
