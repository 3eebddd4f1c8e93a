"""Connections belong to one process and one event loop, and end with them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from typing import Any

import fsspec
import pytest

from fsspec_server import Served
from rpcrdma.fsspec import mounts

ALONE = (sys.executable, "-X", "dev", "-W", "ignore::DeprecationWarning", "-c")
IN_ITS_OWN_PROCESS = """
import os, sys
import fsspec

url = sys.argv[1]
fs, top = fsspec.url_to_fs(url)
fs.pipe_file(top + "/before", b"parent")
unfinished = fs.open(top + "/unfinished", "wb")
unfinished.write(b"written when the process ends")
sys.stdout.flush()
child = os.fork()
if not child:
    for call in (lambda: fs.cat_file(top + "/before"), lambda: unfinished.write(bytes(5 << 20))):
        try:
            call()
        except RuntimeError as error:
            print(error)
    with fsspec.open(url + "/child", "wb") as file:
        file.write(b"by a file system of its own")
    del unfinished, call
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert fs.cat(top + "/before") == b"parent"
assert fs.cat(top + "/child") == b"by a file system of its own"
"""


def test_a_process_that_forks_is_told_what_to_do_and_ends_without_a_warning(served: Served, protocol: str) -> None:
    (served.directory / protocol).mkdir()
    done = subprocess.run(
        [*ALONE, IN_ITS_OWN_PROCESS, served.url(protocol, f"/data/{protocol}")],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    said = done.stdout.splitlines()
    assert len(said) == 2
    assert all("was made before a fork" in line and "'spawn' or 'forkserver'" in line for line in said)
    assert (served.directory / protocol / "unfinished").read_bytes() == b"written when the process ends"


def test_without_fsspec_the_package_works_and_the_error_names_the_remedy() -> None:
    program = """
import sys
sys.modules["fsspec"] = None
import rpcrdma
rpcrdma.nfs_open
try:
    import rpcrdma.fsspec
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout == ("rpcrdma.fsspec needs the package fsspec, which is not installed: pip install fsspec\n")


def test_an_interrupt_cancels_what_a_file_system_does(fs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, said = threading.Event(), []

    async def never_ends(_self: object, path: str) -> bytes:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            said.append(f"{path} has ended")
        return b""

    def interrupt(thread: int) -> None:
        assert begun.wait(30), "the call that is to be interrupted has not begun"
        signal.pthread_kill(thread, signal.SIGINT)

    monkeypatch.setattr(type(fs), "_cat_file", never_ends)
    thread = threading.Thread(target=interrupt, args=(threading.get_ident(),))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        fs.cat_file("/data/file")
    assert said == ["/data/file has ended"]
    thread.join()


def connections(served: Served, protocol: str) -> set[Any]:
    fs = fsspec.filesystem(protocol, **served.options(protocol))
    found = mounts._MOUNTS.get((fs.loop, fs.server.key))
    return set() if found is None else {each.connection for each in found._mounted.values()}


def test_file_systems_of_one_server_share_its_connection(served: Served, protocol: str) -> None:
    (served.directory / "file").write_bytes(b"1")
    options = served.options(protocol)
    for fs in (fsspec.filesystem(protocol, **options, skip_instance_cache=True) for _ in range(3)):
        assert fs.cat_file("/data/file") == b"1"
    assert len(connections(served, protocol)) == 1
    other = fsspec.filesystem(protocol, **options, files={"direct_calls": 1})
    assert other.cat_file("/data/file") == b"1"
    assert len(connections(served, protocol)) == 1
    other.close()

    async def elsewhere() -> None:
        fs = fsspec.filesystem(protocol, **options, asynchronous=True)
        assert await asyncio.gather(*(fs._cat_file("/data/file") for _ in range(4))) == [b"1"] * 4
        assert (asyncio.get_running_loop(), fs.server.key) in mounts._MOUNTS
        await fs._close()
        assert (asyncio.get_running_loop(), fs.server.key) not in mounts._MOUNTS

    asyncio.run(elsewhere())


def test_a_connection_that_ended_for_good_is_replaced(served: Served, protocol: str) -> None:
    (served.directory / "file").write_bytes(b"1")
    fs = fsspec.filesystem(protocol, **served.options(protocol))
    fs.cat_file("/data/file")
    (lost,) = connections(served, protocol)
    found = mounts._MOUNTS[fs.loop, fs.server.key]

    async def end() -> None:
        watching = set(found._watching)
        await lost.close()
        await asyncio.wait(watching)

    asyncio.run_coroutine_threadsafe(end(), fs.loop).result(50)
    assert connections(served, protocol) == set()
    assert fs.cat_file("/data/file") == b"1"
    assert lost not in connections(served, protocol)


def test_a_closed_file_system_connects_again(served: Served, protocol: str) -> None:
    (served.directory / "file").write_bytes(b"1")
    fs = fsspec.filesystem(protocol, **served.options(protocol))
    for _ in range(2):
        assert fs.cat_file("/data/file") == b"1"
        fs.close()
        assert connections(served, protocol) == set()


def test_no_server_is_an_error_of_connecting() -> None:
    from rpcrdma import ConnectFailed

    fs = fsspec.filesystem("rdma", host="127.0.0.1", port=9, mountport=9)
    with pytest.raises(ConnectFailed, match="no MOUNT service answers"):
        fs.exists("/data")
    with pytest.raises(ConnectFailed):
        fs.isfile("/data")
