"""Connections belong to one process and one event loop, and end with them."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import fsspec
import pytest
from fsspec.core import OpenFile, get_compression

from fsspec_server import Served, at
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import TransportClosed
from rpcrdma.fsspec import mounts
from support.cases import each_case
from support.waiting import until

pytestmark = pytest.mark.thorough

ALONE = (sys.executable, "-W", "default", "-W", "ignore::DeprecationWarning", "-c")
IN_ITS_OWN_PROCESS = """
import asyncio, os, sys
import fsspec

# Debug mode finds calls from wrong threads; a machine under load makes callbacks slow, which it would report.
class Checked(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self):
        loop = super().new_event_loop()
        loop.set_debug(True)
        loop.slow_callback_duration = 1000.0
        return loop

asyncio.set_event_loop_policy(Checked())
url = sys.argv[1]
fs, top = fsspec.url_to_fs(url)
fs.pipe_file(top + "/before", b"parent")
unfinished = fs.open(top + "/unfinished", "wb")
unfinished.write(b"written when the process ends")
sys.stdout.flush()
unfinished.write(bytes(5 << 20))
unfinished.write(b", and at once")
fs.pipe_file(top + "/large", bytes(2 << 20))
half_read, small = fs.open(top + "/large"), fs.open(top + "/before")
half_read.read(10)
child = os.fork()
if not child:
    for call in (lambda: half_read.read(10), lambda: unfinished.write(bytes(5 << 20)), unfinished.close):
        try:
            call()
        except RuntimeError as error:
            print(error)
    assert small.read() == b"parent"
    assert small.info()["size"] == len(b"parent")
    assert fs.cat_file(top + "/before") == fs.open(top + "/before").read() == b"parent"
    fs.pipe_file(top + "/child", b"by the same file system")
    with fs.open(top + "/written", "wb") as file:
        file.write(b"by the same file system")
    with fsspec.open(url + "/other", "wb") as file:
        file.write(b"by one of the child")
    del unfinished, half_read, call
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert half_read.read(10) == bytes(10)
assert fs.cat(top + "/before") == b"parent"
assert fs.cat(top + "/child") == fs.cat(top + "/written") == b"by the same file system"
assert fs.cat(top + "/other") == b"by one of the child"
"""
FORKS_BESIDE_A_THREAD = """
import os, sys, threading
import fsspec

fs, top = fsspec.url_to_fs(sys.argv[1])
fs.pipe_file(top + "/file", b"parent")
ends = threading.Event()

def keeps_asking():
    while not ends.is_set():
        fs.invalidate_cache()
        assert fs.info(top + "/file")["size"] == 6
        assert fs.open(top + "/file").read() == b"parent"

threads = [threading.Thread(target=keeps_asking) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = os.fork()
    if not child:
        assert fs.info(top + "/file")["size"] == 6
        assert fs.open(top + "/file").read() == b"parent"
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
ends.set()
for thread in threads:
    thread.join()
"""


def alone(program: str, served: Served, protocol: str, name: str, left_open: tuple[str, ...] = ()) -> tuple[Path, str]:
    """Runs a program in a process of its own, which leaves files open; its directory at the server, and its output."""
    directory = served.directory / f"{protocol}-{name}"
    directory.mkdir()
    url = served.url(protocol, f"/data/{directory.name}")
    done = subprocess.run([*ALONE, program, url], capture_output=True, text=True, check=False, timeout=60)
    told = [line.partition(" was open for writing ")[0] for line in done.stderr.splitlines()]
    assert (done.returncode, [line.rpartition("/")[2] for line in told]) == (0, [*left_open])
    return directory, done.stdout


@pytest.mark.parametrize("protocol", ["rdma"], indirect=True)
def test_after_a_fork_a_file_system_connects_anew_and_open_files_name_the_remedy(served: Served, protocol: str) -> None:
    directory, printed = alone(IN_ITS_OWN_PROCESS, served, protocol, "forks", ("unfinished",))
    said = printed.splitlines()
    assert len(said) == 3
    assert all("was opened before the process forked" in line and "open it anew in the child" in line for line in said)
    written = b"written when the process ends" + bytes(5 << 20) + b", and at once"
    assert (directory / "unfinished").read_bytes() == written


@pytest.mark.parametrize("protocol", ["rdma"], indirect=True)
def test_a_child_of_a_process_with_busy_threads_finds_no_lock_of_its_parent(served: Served, protocol: str) -> None:
    alone(FORKS_BESIDE_A_THREAD, served, protocol, "busy")


ENDS = """
import atexit, sys
import fsspec

url = sys.argv[1]
fs, top = fsspec.url_to_fs(url)
try:
    with fs.transaction:
        small = fs.open(top + "/small", "wb")
        small.write(b"a few octets")
        large = fs.open(top + "/large", "wb")
        large.write(bytes(9 << 20))
        large.write(b"and a few")
        raise KeyError("of the program")
except KeyError:
    pass
assert small.closed and large.closed
assert fs.ls(top, detail=False) == []

def write(name):
    with fsspec.open(url + "/" + name, "wb") as file:
        file.write(b"at the end")

atexit.register(write, "after the connections were closed")
write("before")
atexit.register(write, "before the connections are closed")
"""


@pytest.mark.parametrize("protocol", ["nfstcp"], indirect=True)
def test_writers_that_a_failed_transaction_leaves_open_end_in_silence_and_handlers_of_the_end_can_write(
    served: Served, protocol: str
) -> None:
    """Before and after the handler of this package that closes the connections."""
    directory, printed = alone(ENDS, served, protocol, "end")
    assert printed == ""
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == dict.fromkeys(
        ("before", "before the connections are closed", "after the connections were closed"), b"at the end"
    )


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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ("rpcrdma.fsspec needs the package fsspec, which is not installed: pip install fsspec\n")


def test_a_universal_path_keeps_its_server_after_a_chained_url() -> None:
    program = """if True:
        from upath import UPath

        chained, path = UPath("simplecache::rdma://server:7/a/../b"), UPath("rdma://server:7/a/b")
        print(chained.resolve(), path.parent)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "simplecache::rdma://server:7/b rdma://server:7/a\n"


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
        assert begun.wait(60), "the call that is to be interrupted has not begun"
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
    found = mounts._MOUNTS.get((os.getpid(), fs.loop, fs.server.key))
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
        assert (os.getpid(), asyncio.get_running_loop(), fs.server.key) in mounts._MOUNTS
        await fs._close()
        assert (os.getpid(), asyncio.get_running_loop(), fs.server.key) not in mounts._MOUNTS

    asyncio.run(elsewhere())
    # A closed file system connects again.
    for _ in range(2):
        assert fs.cat_file("/data/file") == b"1"
        fs.close()
        assert connections(served, protocol) == set()


def test_a_connection_that_ended_for_good_is_replaced(served: Served, protocol: str) -> None:
    (served.directory / "file").write_bytes(b"1")
    fs = fsspec.filesystem(protocol, **served.options(protocol))
    fs.cat_file("/data/file")
    (lost,) = connections(served, protocol)
    found = mounts._MOUNTS[os.getpid(), fs.loop, fs.server.key]

    async def end() -> None:
        watching = set(found._watching)
        await lost.close()
        await asyncio.wait(watching)

    asyncio.run_coroutine_threadsafe(end(), fs.loop).result(60)
    assert connections(served, protocol) == set()
    assert fs.cat_file("/data/file") == b"1"
    assert lost not in connections(served, protocol)


def test_no_server_is_an_error_of_connecting() -> None:
    from rpcrdma import ConnectFailed

    fs = fsspec.filesystem("rdma", host="127.0.0.1", port=9)
    with pytest.raises(ConnectFailed, match=r"cannot connect to 127\.0\.0\.1:9: connection refused"):
        fs.exists("/data")
    with pytest.raises(ConnectFailed):
        fs.isfile("/data")


class Export:
    """A mounted export whose closing takes a turn of the event loop."""

    closed = False

    async def close(self) -> None:
        self.closed = True
        await asyncio.sleep(0)


async def test_all_exports_are_closed_also_if_that_is_cancelled_during_the_first() -> None:
    exports = [Export(), Export(), Export()]
    of_server = mounts.Mounts(cast("Any", None))
    of_server._mounted = cast("Any", dict(enumerate(exports)))
    closing = asyncio.ensure_future(of_server.close())
    await until(lambda: any(each.closed for each in exports))
    closing.cancel()
    await asyncio.wait([closing])
    assert all(each.closed for each in exports)


async def test_a_close_that_is_cancelled_during_a_mount_closes_all_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    mounting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def slow(*_: object) -> Any:
        return await mounting

    monkeypatch.setattr(mounts, "mount_path", slow)
    of_server = mounts.Mounts(cast("Any", SimpleNamespace(url=parse_url("rdma://server"), options=None, files=None)))
    exports = [Export(), Export(), Export()]
    of_server._mounted = cast("Any", dict(enumerate(exports[1:])))
    using = asyncio.ensure_future(of_server.mounted("/data"))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(of_server.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    assert [each.closed for each in exports] == [False, True, True]
    mounting.set_result(exports[0])
    with pytest.raises(TransportClosed):
        await using
    assert exports[0].closed


async def test_an_export_that_is_mounted_twice_stays_mounted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a path lies in a listed export that this client may not mount, which is part of the one above it."""
    made: list[Any] = []

    class Lasting(Export):
        reconnects = 0

        async def wait_reconnected(self, _count: int) -> None:
            await asyncio.Event().wait()

    async def mounted(*_: object) -> Any:
        made.append(Export())
        made[-1].__dict__.update(connection=Lasting(), export="/data", listed_exports=frozenset({"/data", "/data/in"}))
        return made[-1]

    monkeypatch.setattr(mounts, "mount_path", mounted)
    of_server = mounts.Mounts(cast("Any", SimpleNamespace(url=parse_url("rdma://server"), options=None, files=None)))
    assert [await of_server.mounted(path) for path in ("/data/x", "/data/in/x")] == [("/data", made[0])] * 2
    assert [(fs.closed, fs.connection.closed) for fs in made] == [(False, False), (False, True)]
    await of_server.close()
    assert [fs.closed for fs in made] == [True, False]


def test_threads_that_use_a_server_first_at_once_share_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = SimpleNamespace(key="server")
    of_another: list[mounts.Mounts] = []

    class Loop:
        def is_closed(self) -> bool:
            if self is ended and not asked:
                asked.append(True)
                of_another.append(mounts.mounts_of(server, loop))
            return self is ended

    loop, ended, asked = cast("Any", Loop()), Loop(), list[bool]()
    monkeypatch.setattr(mounts, "_MOUNTS", {(0, ended, "ended"): None})
    assert mounts.mounts_of(server, loop) is of_another[0]
    assert list(mounts._MOUNTS) == [(os.getpid(), loop, "server")]


def test_files_that_other_threads_open_hinder_no_closing() -> None:
    fs = fsspec.filesystem("rdma", skip_instance_cache=True)
    opened: list[Any] = []

    class Opened:
        path = "server/data/x"

        def close(self) -> None:
            """At the end of this process, after a failure."""

    def opening(frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line" and "weakref" in frame.f_code.co_filename:
            sys.settrace(None)
            opened.append(Opened())
            fs.note_writer(opened[-1])
            sys.settrace(opening)
        return opening

    opened.append(Opened())
    fs.note_writer(opened[0])
    sys.settrace(opening)
    try:
        found = mounts.open_writers(fs.place(Opened.path).server, fs.loop)
    finally:
        sys.settrace(None)
    assert opened[0] in found
    assert len(opened) > 1


def test_a_block_that_one_thread_sends_is_not_sent_by_another_one(
    fs: Any, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a file system, or the process, ends while a thread still writes."""

    def other_thread(begin: Any) -> Any:
        monkeypatch.undo()
        file.write(b" and")
        file.flush()
        return run(begin)

    with fs.open(at(top, "file"), "wb") as file:
        run = file._files_loop.run
        file.write(b" once")
        monkeypatch.setattr(file._files_loop, "run", other_thread)
        file.flush()
    assert (top / "file").read_bytes() == b" and once"


async def test_a_file_that_cannot_be_closed_leaves_no_server_open() -> None:
    class Full:
        name = "/full"

        async def close(self) -> None:
            raise OSError("no space")

    fs = fsspec.filesystem("rdma", asynchronous=True, skip_instance_cache=True)
    exports = [Export(), Export(), Export()]
    for number, export in enumerate(exports):
        of_server = mounts.mounts_of(fs.place(f"rdma://server-{number}/data").server, asyncio.get_running_loop())
        of_server._mounted = cast("Any", {"/data": export})
        of_server.updated.add(cast("Any", Full()))
    with pytest.raises(OSError, match="no space"):
        await fs._close()
    assert all(each.closed for each in exports)


@each_case(
    ("name", "options"),
    [
        ("text", {"mode": "w"}),
        ("text.gz", {"mode": "wt", "compression": "infer"}),
        ("text.bz2", {"mode": "wt", "compression": "infer"}),
        ("text.zip", {"mode": "wt", "compression": "infer"}),
    ],
)
def test_closing_a_file_system_writes_the_text_that_its_files_hold(
    fs: Any, top: Path, name: str, options: dict[str, Any]
) -> None:
    (top / "read").write_text("to be read")
    around = OpenFile(fs, at(top, f"around-{name}"), options["mode"], get_compression(name, options.get("compression")))
    with fs.open(at(top, "read"), "r") as reader, fs.open(at(top, name), **options) as text, around as other:
        text.write("a line\n")
        other.write("a line\n")
        fs.close()
        assert text.closed
        assert other.closed
        assert not reader.closed
    for each in (name, f"around-{name}"):
        with fsspec.open(top / each, "rt", compression="infer") as written:
            assert written.read() == "a line\n"


def test_a_closing_that_may_lose_data_is_told(fs: Any, top: Path, caplog: pytest.LogCaptureFixture) -> None:
    (top / "old").write_bytes(b"1234567")
    left = [OpenFile(fs, at(top, name), mode).open() for name, mode in (("new", "wb"), ("old", "r+b"))]
    texts = [OpenFile(fs, at(top, "text"), "w").open(), io.TextIOWrapper(left[1])]
    for text in texts:
        text.write("a line\n")
    fs.close()
    assert [(top / name).read_bytes() for name in ("text", "old")] == [b"a line\n"] * 2
    (record,) = caplog.records
    assert f"/{top.name}/new was open for writing when its file system was closed: " in record.getMessage()
