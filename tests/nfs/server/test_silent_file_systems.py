"""File systems that do not answer, such as that of a hung process of FUSE, hold up their own export alone."""

from __future__ import annotations

import concurrent.futures
import errno
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conversation import with_version_4
from rpcrdma.nfs import v3
from rpcrdma.nfs.export import local_files, object_tree
from rpcrdma.nfs.export.claims import Claims
from rpcrdma.nfs.export.file_access import OpenFile
from rpcrdma.nfs.export.linux_calls import file_clock_ns
from rpcrdma.nfs.export.lock_mirror import LocalLocks
from rpcrdma.nfs.export.open_object import HeldNode
from rpcrdma.nfs.export.server_exports import LocalTree
from rpcrdma.nfs.server import Export
from rpcrdma.nfs.v4.server import root_attributes
from rpcrdma.nfs.v4.server.held_states import HeldStates
from rpcrdma.nfs.v4.state_limits import NFS4_ENDED_AT_ONCE
from served_directory import Server
from support.cases import each_case
from support.command_process import HANG_S
from support.nfs4_client import READ, access, close, getattr_, lookup, lookupp, open_, putfh, putrootfh, read, readdir

SIZE, RDATTR_ERROR, MOUNTED_ON = 1 << 4, 1 << 11, 1 << 55 - 32


def place_of(fd: int) -> Path:
    return Path(f"/proc/self/fd/{fd}").readlink()


def test_the_event_loop_makes_no_system_call_about_files_that_another_process_or_host_is_asked_about(
    start: Callable[..., Server], tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.setattr(object_tree, "is_asked_elsewhere", lambda fd: place_of(fd) != inner)
    server = start([Export(name="/", directory=tree), Export(name="/a/b", directory=inner)])
    conversation = with_version_4(server, None)
    service: Any = conversation.service
    compound, asked = service.compound, []
    service.compound = lambda args, context: (server.contexts.append(context), compound(args, context))[1]
    root = server.mount()
    client = conversation.client().start()

    def watch(module: Any, name: str) -> None:
        call = getattr(module, name)

        def watched(fd: int, *args: Any) -> Any:
            if tree in (place := place_of(fd), *place.parents):
                asked.append(server.contexts[-1].may_block)
            return call(fd, *args)

        monkeypatch.setattr(module, name, watched)

    watch(os, "fstat")
    watch(object_tree, "open_cached")
    for _ in range(2):
        file = server.lookup(root, "hello.txt")
        assert server.getattr_status(root) == server.getattr_status(file) == "OK"
        assert server.read(file) == b"hello, world\n"
        assert server.status("access", v3.ACCESS3args(v3.nfs_fh3(file), 1)) == "OK"
        assert server.status("fsinfo", v3.FSINFO3args(v3.nfs_fh3(root))) == "OK"
    below = client.handle("a", "b")
    for operations in (
        (putrootfh(), getattr_(SIZE)),
        (putrootfh(), access(1), readdir(0, SIZE)),
        (putfh(file), getattr_(SIZE)),
        (putfh(below), getattr_(0, MOUNTED_ON)),
        (putfh(below), lookupp(), lookup("b"), getattr_(SIZE)),
    ):
        assert client.run(*operations).status == "OK"
    opened = client.run(putfh(file), open_(b"o", READ)).value(18)["stateid"]
    assert client.run(putfh(file), read(opened, 0, 20)).value(25)[1] == b"hello, world\n"
    assert client.run(putfh(file), close(opened)).status == "OK"
    assert asked
    assert all(asked), "a system call in the event loop"
    service.close()


@each_case("mounted_in_an_export", [False, True])
def test_a_listing_above_an_export_does_not_wait_for_its_silent_file_system(
    start: Callable[..., Server],
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mounted_in_an_export: bool,
) -> None:
    exports = [Export(name="/", directory=tree)] if mounted_in_an_export else []
    for name in ("answers", "silent"):
        (tmp_path / name).mkdir()
        (tree / name).mkdir(exist_ok=True)
        exports.append(Export(name=f"/{name}", directory=tmp_path / name))
    silent, answers, of_node = tmp_path / "silent", threading.Event(), HeldNode.attributes
    monkeypatch.setattr(object_tree, "is_asked_elsewhere", lambda fd: place_of(fd) == silent)
    client = with_version_4(start(exports), None).client().start()

    def attributes(node: HeldNode) -> Any:
        if node.tree.root is node and place_of(node.fd) == silent:
            assert answers.wait(HANG_S)
        return of_node(node)

    def listed(answer_s: float) -> dict[bytes, tuple[int, ...]]:
        monkeypatch.setattr(root_attributes, "_ANSWER_S", answer_s)
        entries, _ = client.run(putrootfh(), readdir(0, SIZE | RDATTR_ERROR)).value(26)
        return {name: words for _, name, words, _ in entries if name in {b"answers", b"silent"}}

    monkeypatch.setattr(HeldNode, "attributes", attributes)
    for answer_s in (0.0, HANG_S):
        # The second listing knows that it is silent.
        assert listed(answer_s) == {b"answers": (SIZE | RDATTR_ERROR,), b"silent": (RDATTR_ERROR,)}
    answers.set()
    for thread in [each for each in threading.enumerate() if each.name == "rpcrdma-roots"]:
        thread.join(HANG_S)
    assert listed(HANG_S)[b"silent"] == (SIZE | RDATTR_ERROR,)


@each_case("elsewhere", [False, True])
@each_case("mounted_in_an_export", [False, True])
def test_a_listing_above_an_export_does_not_fail_with_its_file_system(
    start: Callable[..., Server],
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: bool,
    mounted_in_an_export: bool,
) -> None:
    exports = [Export(name="/", directory=tree)] if mounted_in_an_export else []
    for name in ("answers", "fails"):
        (tmp_path / name).mkdir()
        (tree / name).mkdir(exist_ok=True)
        exports.append(Export(name=f"/{name}", directory=tmp_path / name))
    fails, of_node = tmp_path / "fails", HeldNode.attributes
    monkeypatch.setattr(object_tree, "is_asked_elsewhere", lambda fd: elsewhere and place_of(fd) == fails)
    client = with_version_4(start(exports), None).client().start()

    def attributes(node: HeldNode) -> Any:
        if node.tree.root is node and place_of(node.fd) == fails:
            raise OSError(errno.ENOTCONN, "as FUSE without its process")
        return of_node(node)

    monkeypatch.setattr(HeldNode, "attributes", attributes)
    entries, _ = client.run(putrootfh(), readdir(0, SIZE | RDATTR_ERROR)).value(26)
    found = {name: words for _, name, words, _ in entries if name in {b"answers", b"fails"}}
    assert found == {b"answers": (SIZE | RDATTR_ERROR,), b"fails": (RDATTR_ERROR,)}


def test_a_listing_waits_for_all_silent_file_systems_together(
    start: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"silent{number}" for number in range(6)]
    for name in names:
        (tmp_path / name).mkdir()
    answers, of_node, now = threading.Event(), HeldNode.attributes, [0.0]
    monkeypatch.setattr(object_tree, "is_asked_elsewhere", lambda _fd: True)
    exports = [Export(name=f"/{name}", directory=tmp_path / name) for name in names]
    client = with_version_4(start(exports), None).client().start()

    def wait(asked: Any, answer_s: float) -> Any:
        now[0] += answer_s
        return concurrent.futures.wait(asked, 0)

    def attributes(node: HeldNode) -> Any:
        assert answers.wait(HANG_S)
        return of_node(node)

    monkeypatch.setattr(HeldNode, "attributes", attributes)
    monkeypatch.setattr(root_attributes, "wait", wait)
    monkeypatch.setattr(root_attributes, "monotonic", lambda: now[0])
    for spent_s in (2 * root_attributes._ANSWER_S, 0):
        now[0] = 0 if spent_s else now[0]
        begun = now[0]
        entries, _ = client.run(putrootfh(), readdir(0, SIZE | RDATTR_ERROR)).value(26)
        assert [words for _, _, words, _ in entries] == [(RDATTR_ERROR,)] * len(names)
        assert now[0] - begun == spent_s
    answers.set()
    for thread in [each for each in threading.enumerate() if each.name == "rpcrdma-roots"]:
        thread.join(HANG_S)


def test_a_directory_that_is_made_where_another_clock_counts_has_its_handle_and_mode(
    start: Callable[..., Server], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_tree, "is_asked_elsewhere", lambda _fd: True)
    monkeypatch.setattr(local_files, "file_clock_ns", lambda: file_clock_ns() + 10**10)
    server = start()
    root = server.mount()
    made = server.call("mkdir", v3.MKDIR3args(server.dirop(root, "made"), server.sattr(mode=0o777)))
    assert made.value.obj.value.data == server.lookup(root, "made")
    assert (tree / "made").stat().st_mode & 0o777 == 0o777


def test_no_file_is_delegated_that_may_change_without_a_report(
    start: Callable[..., Server], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_tree, "is_asked_elsewhere", lambda _fd: True)
    server = start()
    file = server.lookup(server.mount(), "hello.txt")
    exports = server.services.nfs.exports
    leases: Any = exports.parts.leases
    leases.lease = lambda *_: pytest.fail("a lease of the kernel, which asks the file system under a lock")
    node, _ = exports.locate(file, server.contexts[-1]) or (None, None)
    assert node is not None
    assert node.lease(lambda: None) is None


def test_a_new_file_is_listed_where_directories_keep_their_times(
    start: Callable[..., Server], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Status:
        st_mtime_ns = st_ctime_ns = 0

        def __init__(self, status: os.stat_result) -> None:
            self._status = status

        def __getattr__(self, name: str) -> Any:
            return getattr(self._status, name)

    fstat = os.fstat
    monkeypatch.setattr(os, "fstat", lambda fd: Status(fstat(fd)))
    monkeypatch.setattr(object_tree, "is_asked_elsewhere", lambda _fd: True)
    server = start()
    root = server.mount()
    assert "new" not in server.list_names(root)
    (tree / "new").touch()
    assert "new" in server.list_names(root)


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="mounts a file system of FUSE")
def test_nothing_in_an_export_waits_for_what_is_mounted_below_it(tree: Path, tmp_path: Path) -> None:
    point = tree / "a" / "point"
    point.mkdir()
    script = (
        "import ctypes, os, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\nfrom rpcrdma.nfs import v3\nfrom rpcrdma.nfs.server import Export\n"
        "from served_directory import Server\n"
        "fuse = os.open('/dev/fuse', os.O_RDWR)\n"
        "options = f'fd={fuse},rootmode=40000,user_id=0,group_id=0'.encode()\n"
        f"if ctypes.CDLL(None).mount(b'silent', {os.fsencode(point)!r}, b'fuse', 0, options):\n"
        "    sys.exit('unshare: FUSE cannot be mounted')\n"
        f"exports = [Export(name='/', directory=Path({str(tree)!r}), root_squash=False)]\n"
        f"server = Server(exports, Path({str(tmp_path / 'state')!r}), open_by_handle=False)\n"
        "root = server.mount()\n"
        "a, file = server.lookup(root, 'a'), server.lookup(root, 'hello.txt')\n"
        "print(server.status('lookup', v3.LOOKUP3args(server.dirop(a, 'point'))))\n"
        "page = server.call('readdirplus', v3.READDIRPLUS3args(v3.nfs_fh3(a), 0, bytes(8), 4096, 4096)).value.reply\n"
        "print({e.name: e.name_handle.handle_follows for e in page.entries}['point'])\n"
        f"os.rename({str(tree / 'hello.txt')!r}, {str(tree / 'a' / 'b' / 'moved')!r})\n"
        "server.services.nfs.exports.parts.nodes.drop_all()\n"
        "print(server.getattr_status(file))\n"
        "server.close()\n"
    )
    ran = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    if ran.returncode and "unshare" in ran.stderr:
        pytest.skip(reason=f"no mount namespace or no FUSE here: {ran.stderr.strip()}")
    assert ran.stdout.split() == ["ACCES", "False", "OK"], ran.stderr


def test_a_search_that_hangs_keeps_no_idle_files_of_other_exports_open(start: Callable[..., Server]) -> None:
    exports = start().services.nfs.exports
    (searched,) = exports.trees
    assert isinstance(searched, LocalTree)
    closing = threading.Thread(target=exports.close_idle, daemon=True)
    with searched._search_lock:
        closing.start()
        closing.join(HANG_S)
        assert not closing.is_alive()


class Closing:
    """A close that hangs for the first file, until the end of the test."""

    def __init__(self) -> None:
        self.closed = 0
        self.hangs, self.ends = threading.Event(), threading.Event()

    def close(self) -> None:
        self.closed += 1
        if self.closed == 1:
            self.hangs.set()
            self.ends.wait(HANG_S)

    def count(self, closes: Callable[[], object]) -> int:
        """Has one thread hang in `closes`, calls it beside that, and returns the number of files closed by then."""
        first = threading.Thread(target=closes, daemon=True)
        first.start()
        assert self.hangs.wait(HANG_S)
        closes()
        closed = self.closed
        self.ends.set()
        first.join(HANG_S)
        return closed


def test_a_close_that_hangs_leaves_other_idle_files_to_the_next_thread(
    start: Callable[..., Server], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    root = server.mount()
    for name in ("hello.txt", "other"):
        (tree / name).write_bytes(b"x")
        assert server.read(server.lookup(root, name)) == b"x"
    files = server.services.nfs.exports.parts.files
    files.drop_idle()
    closing = Closing()
    gc.collect()  # The garbage of other tests closes nothing below.
    with monkeypatch.context() as patch:
        patch.setattr(OpenFile, "__del__", lambda _: closing.close(), raising=False)
        assert closing.count(files.drop_idle) == 2


def test_a_close_that_hangs_leaves_other_ended_states_and_locks_to_the_next_thread() -> None:
    states = HeldStates(Claims(), 0, 8)
    closing, shrunk = Closing(), list[bytes]()
    mirrors: Any = states.mirrors
    mirrors.shrink = shrunk.append
    ended = type("Ended", (), {"__del__": lambda _: closing.close()})
    with states.locked(states.left):
        states._ended += [ended(), ended()]
        states._shrunk.add(b"file")
    assert (closing.count(lambda: states.close_ended(states.left)), shrunk) == (2, [b"file"])


def test_a_sweep_that_goes_on_keeps_no_state_that_another_thread_closes() -> None:
    states, closed = HeldStates(Claims(), 0, 8), list[object]()
    client: Any = SimpleNamespace(held={})
    kind: Any = type("Ended", (SimpleNamespace,), {"__del__": lambda self: closed.append(self.key)})
    for key in range(NFS4_ENDED_AT_ONCE + 1):
        client.held[key] = kind(key=key, client=client, parts=None)

    def end(held: Any) -> None:
        states._ended.append(client.held.pop(held.key))
        if not client.held:
            # As a thread does beside the sweep, which must not wait for a file system.
            states.close_ended(states.left)
            assert len(closed) == NFS4_ENDED_AT_ONCE

    states.in_steps(list(client.held.values()), end, states.left)
    assert len(states.left) == 1


def test_what_is_to_be_closed_is_found_without_a_question_to_a_silent_file_system(
    start: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_tree, "is_asked_elsewhere", lambda _fd: True)
    server = start()
    file = server.lookup(server.mount(), "hello.txt")
    server.write(file, b"x")
    files = server.services.nfs.exports.parts.files

    def hangs(_fd: int) -> None:
        raise AssertionError("under the lock for which all opens wait")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", hangs)
        for _ in range(2):
            files.drop_idle()
    assert file in files._cache.held, "its data is not on the disk"


def test_an_error_of_a_close_is_none_of_the_server(start: Callable[..., Server]) -> None:
    server = start()
    file = server.lookup(server.mount(), "hello.txt")
    exports = server.services.nfs.exports
    node, who = exports.locate(file, server.contexts[-1]) or (None, None)
    assert isinstance(node, HeldNode)
    os.close(node.fd)
    locks = LocalLocks(os.dup(0), exclusive=False)
    os.close(locks._fd)
    del node, who, locks
    # An error that nobody can catch fails the test.
    exports.parts.nodes.drop_all()
