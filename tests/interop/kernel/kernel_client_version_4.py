"""Linux's client mounts our server by its default options, which is NFS version 4.2."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from failures import CheckFailed
from guest import Guest, Job
from kernel_client_tree import COMPARE
from lab import VERSION_4, Lab, check
from network import HOST
from our_server import OurServer
from patience import await_growth
from python_layer import PYTHON

__all__ = ["mount_by_default_options"]

_AT_NFS_PORT = ("--listen", f"tcp://{HOST}:2049")
_OVER_TCP = "proto=tcp"
"""Mounts our server with `_AT_NFS_PORT`."""
_FILES = 40
_FAR = 1 << 40
"""The offset of a lock far behind the lines of the file."""
_LINES_S = 120.0
"""The longest time without a further line of the holder of a lock: the client notices a restart after some seconds."""
_LOCK = PYTHON + "python3 /data/lock_holder.py {} /mnt/file {} {}"
_FLOCK = "hhqqi4x"
"""struct flock: type, whence, start, length, process."""

_XATTRS = (
    'import os; name = "user.of program"; os.setxattr("/mnt", name, bytes(3000), os.XATTR_CREATE); '
    'assert (os.listxattr("/mnt"), os.getxattr("/mnt", name)) == ([name], bytes(3000)); '
    'os.setxattr("/mnt", name, b"new", os.XATTR_REPLACE); os.setxattr("/mnt", "user.gone", b""); '
    'os.removexattr("/mnt", "user.gone")'
)
_READ_BY_ONE_OPEN = """
import os, pathlib, time
file = os.open("/mnt/stored/changing", os.O_RDONLY)
for word in ("first", "second"):
    while os.pread(file, 1 << 20, 0) != word.encode() * 9999:
        time.sleep(0.2)
    pathlib.Path("/tmp/read-" + word).touch()
try:
    while True:
        os.pread(file, 1, 0)
        time.sleep(0.2)
except OSError as error:
    assert error.errno == 116, error
"""
"""Reads a file of a store, by one open, until it has its second content, and then until it is gone (ESTALE)."""


@check(quick=True)
def mount_by_default_options(lab: Lab) -> None:
    """Mounts over RDMA and over TCP with no other option, reads, writes, and changes names and extended attributes."""
    for options in (VERSION_4, _OVER_TCP):
        with lab.mounted(options=options, serve=_AT_NFS_PORT) as server:
            mounted = lab.client.run("grep ' /mnt ' /proc/mounts").output
            if "vers=4.2" not in mounted or f"proto={options.rpartition('=')[2]}" not in mounted:
                raise CheckFailed(f"mounted otherwise: {mounted}")
            data = os.urandom(8 << 20)
            (server.directory / "large").write_bytes(data)
            sums = {"large": hashlib.md5(data).hexdigest()} | _small_files(server.directory / "directory")
            _compare(lab.client, "/mnt", sums)
            lab.client.run(
                "set -e; cd /mnt; dd if=/dev/zero of=written bs=64k count=40 2>&1; echo more >>written\n"
                "mkdir made; mv written made/moved; ln made/moved linked; ln -s moved made/symbolic; chmod 600 linked\n"
                'rm -r directory; test "$(readlink made/symbolic)" = moved; test ! -e written; df /mnt\n'
            )
            written = server.directory / "made/moved"
            assert written.read_bytes() == bytes(40 << 16) + b"more\n"
            assert written.stat().st_mode & 0o777 == 0o600
            assert sorted(each.name for each in server.directory.iterdir()) == ["large", "linked", "made"]
            lab.client.run(f"{PYTHON}python3 -c '{_XATTRS}'")
            assert os.listxattr(server.directory) == ["user.of program"]
            assert os.getxattr(server.directory, "user.of program") == b"new"


@check(newer=True)
def locks_of_clients_and_of_local_processes(lab: Lab) -> None:
    """A lock of a client keeps out a client with another kernel and a process on this side, and theirs keep it out."""
    with _mounted_twice(lab) as (server, other), (server.directory / "file").open("r+b") as local:
        holder = _held(lab.client, 0, 10)
        _expect_refusal(other, 9, 1)
        with contextlib.suppress(BlockingIOError):
            fcntl.lockf(local, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 9)
            raise CheckFailed("a local process got the lock of a client")
        # The octets behind it are free for both.
        fcntl.lockf(local, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _FAR)
        _expect_refusal(lab.client, _FAR, 1)
        _expect_refusal(other, _FAR, 1)
        waiting = other.start(_LOCK.format("wait", 5, 1), _LINES_S)
        _await_lines(lab.client, server, 3)
        _release(lab.client, holder, server)
        _await_holder(other)
        _expect_refusal(lab.client, 0, 0)
        other.run("rm /tmp/held")
        waiting.wait()
        fcntl.lockf(local, fcntl.LOCK_UN, 1, _FAR)
        lab.client.run(_LOCK.format("try", 0, 0))


@check()
def lock_of_a_revoked_client_passes_on(lab: Lab) -> None:
    """An administrator revokes the state of the holder of a lock: a local process gets the lock, and the holder EIO."""
    with lab.mounted(options=VERSION_4) as server:
        path = server.directory / "file"
        path.touch()
        holder = _held(lab.client, 0, 10)
        _await_lines(lab.client, server, 3)
        (client,) = server.admin("clients")["clients"]
        revoked = server.admin("revoke", client["id"])
        if (revoked["opens"], revoked["locks"]) != (client["opens"], 1):
            raise CheckFailed(f"of {client} was revoked: {revoked}")
        with path.open("r+b") as local:
            fcntl.lockf(local, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
            ended = holder.wait(check=False)
            if "Input/output error" not in ended.output:
                raise CheckFailed(f"the holder learned nothing of its loss: {ended}")
            # It has the rest of the mount, and may open the file anew.
            lab.client.run('set -e; rm -f /tmp/held; echo more >/mnt/new; test "$(cat /mnt/new)" = more; cat /mnt/file')
            _expect_refusal(lab.client, 0, 10)
        lab.client.run(_LOCK.format("try", 0, 10))


@check(newer=True)
def lock_is_kept_over_a_kill(lab: Lab) -> None:
    """Under load our server is killed twice: the holder of a lock loses no line, and nobody else gets the lock."""
    with _mounted_twice(lab, interrupted=True) as (server, other), (server.directory / "file").open("r+b") as local:
        holder = _held(lab.client, 0, 0)
        copy = lab.client.start("cp -r /data/original /mnt/copy && sync", 300)
        trying = other.start(
            "touch /tmp/trying; while test -e /tmp/trying; do\n"
            f"{_LOCK.format('try', 5, 1)}; test $? = 1 || exit 9; usleep 300000; done",
            300,
        )
        for _ in range(2):
            _await_lines(lab.client, server, 5)
            server.kill()
            server.start()
            _await_lines(lab.client, server, 5)
            found = fcntl.fcntl(local, fcntl.F_OFD_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
            if struct.unpack(_FLOCK, found)[0] == fcntl.F_UNLCK:
                raise CheckFailed("no local process sees the lock that the client has reclaimed")
        copy.wait()
        other.run("rm /tmp/trying")
        trying.wait()
        _release(lab.client, holder, server)
        other.run(_LOCK.format("try", 0, 0))
        lab.client.run("set -e;" + COMPARE.format(directory="/mnt/copy"), 120)


@check(newer=True)
def newer_kernel_reads_holes_by_read_plus(lab: Lab) -> None:
    """Linux 6.12 reads by READ_PLUS, which Debian has switched on there; data and holes are those of the file."""
    with lab.our_server(*_AT_NFS_PORT) as server:
        parts = [os.urandom(70_001), bytes(3 << 20), os.urandom(5), bytes(1 << 20), os.urandom(1 << 20)]
        with (server.directory / "holes").open("wb") as file:
            for part in parts:
                file.seek(len(part), os.SEEK_CUR) if not any(part) else file.write(part)
        lab.newer.run(f"mount.nfs {HOST}:/ /mnt -o {_OVER_TCP}", 100)
        found = lab.newer.run("md5sum </mnt/holes").output.split()[0]
        if found != hashlib.md5(b"".join(parts)).hexdigest():
            raise CheckFailed("the client has read other octets")
        calls = lab.newer.run("busybox grep -o 'READ_PLUS: [0-9]*' /proc/self/mountstats").output
        lab.newer.run("umount /mnt")
        if int(calls.split()[-1]) < 4:
            raise CheckFailed(f"the client has read otherwise: {calls}")


@check()
def several_exports(lab: Lab) -> None:
    """The pseudo root has the exports as mounts of their own: one to write to, one read-only, one of an fsspec URL.

    A file of the URL is changed and removed while the client has it open.
    """
    with contextlib.ExitStack() as stack:
        shown, stored = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rpcrdma-export-", dir="/dev/shm")))
            for _ in range(2)
        )
        shown.chmod(0o755)
        (shown / "notice").write_text("read me\n")
        (stored / "changing").write_bytes(b"first" * 9999)
        large = {"large": os.urandom(3_000_001)}
        (stored / "large").write_bytes(large["large"])
        sums = {"large": hashlib.md5(large["large"]).hexdigest()} | _small_files(stored / "directory")
        serve = ("--export", f"shown={shown}:ro", "--export", f"stored=file://{stored}")
        server = stack.enter_context(lab.mounted(options=VERSION_4, serve=serve, name="home"))
        run = lab.client.run
        run(
            """set -e; cd /mnt; test "$(ls)" = "$(printf 'home\nshown\nstored')"; test "$(cat shown/notice)" = "read me"
            cp -r /data/original home/tree; if touch new 2>/tmp/said; then exit 9; fi
            if touch shown/new 2>/tmp/said; then exit 9; fi; grep -q Read-only /tmp/said
            if touch stored/new 2>/tmp/said; then exit 9; fi; grep -q Read-only /tmp/said
            if ln shown/notice home/notice 2>/tmp/said; then exit 9; fi; grep -q -i cross-device /tmp/said
            mv home/tree home/moved; cp shown/notice home; test $(stat -c %d home) != $(stat -c %d shown)
            test $(grep -c ' /mnt.* nfs4 ' /proc/mounts) = 4
            """,
            240,
        )
        _read_while_it_changes(lab.client, stored / "changing")
        _compare(lab.client, "/mnt/stored", sums)
        # Commands that look up each name in the pseudo root, again without the client's cache.
        run("set -e; cd /; umount /mnt/home /mnt/shown /mnt/stored")
        lab.remount(VERSION_4)
        run("set -e;" + COMPARE.format(directory="/mnt/home/moved") + "; cd /; umount /mnt/home")
        if (server.directory / "notice").read_text() != "read me\n":
            raise CheckFailed("the file that was copied from one export to the other has other content")
        lab.mount(VERSION_4, path="/shown")
        run("set -e; cat /mnt/notice; umount /mnt")


def _read_while_it_changes(guest: Guest, path: Path) -> None:
    """Changes and removes a file of the exported URL while the client has it open."""
    guest.run("rm -f /tmp/read-*")
    reader = guest.start(f"{PYTHON}python3 -c '{_READ_BY_ONE_OPEN}'", 400)
    guest.run("until test -e /tmp/read-first; do usleep 100000; done", 120)
    later = path.with_name("later")
    later.write_bytes(b"second" * 9999)
    later.rename(path)
    guest.run("until test -e /tmp/read-second; do usleep 100000; done", 120)
    path.unlink()
    reader.wait()


@contextlib.contextmanager
def _mounted_twice(lab: Lab, *, interrupted: bool = False) -> Iterator[tuple[OurServer, Guest]]:
    """Our server with a file, mounted by the client over RDMA, and by a guest with another kernel over TCP."""
    with lab.mounted(options=VERSION_4, serve=_AT_NFS_PORT, interrupted=interrupted) as server:
        (server.directory / "file").touch()
        lab.newer.run(f"mount.nfs {HOST}:/ /mnt -o {_OVER_TCP}", 100)
        yield server, lab.newer
        lab.newer.run("umount /mnt")


def _held(guest: Guest, start: int, octets: int) -> Job:
    """A process in the guest that holds a lock of the file, and appends lines."""
    job = guest.start(_LOCK.format("hold", start, octets), 600)
    _await_holder(guest)
    return job


def _await_holder(guest: Guest) -> None:
    guest.run("until test -e /tmp/held; do usleep 100000; done", _LINES_S)


def _await_lines(guest: Guest, server: OurServer, count: int) -> None:
    """Waits until the holder has appended so many further lines."""
    path = server.directory / "file"
    await_growth("lines", lambda: _lines(path), _lines(path) + count, _LINES_S * guest.pace)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _release(guest: Guest, holder: Job, server: OurServer) -> None:
    """Ends the holder, and checks that the file has each of its lines once."""
    guest.run("rm /tmp/held")
    written = int(holder.wait().output)
    if (server.directory / "file").read_text() != "".join(f"line {number}\n" for number in range(1, written + 1)):
        raise CheckFailed(f"the file has other lines than the {written} that were written under the lock")


def _expect_refusal(guest: Guest, start: int, octets: int) -> None:
    """Checks that the guest does not get a lock of a range."""
    done = guest.run(_LOCK.format("try", start, octets), check=False)
    if done.status != 1:
        raise CheckFailed(f"{guest.name} got a lock that another process has, or failed: {done}")


def _small_files(directory: Path) -> dict[str, str]:
    """Makes files of many sizes; their checksums, by their paths from the directory above."""
    directory.mkdir()
    sums = {}
    for number in range(_FILES):
        content = os.urandom(100 * number)
        (directory / f"small-{number:02}").write_bytes(content)
        sums[f"{directory.name}/small-{number:02}"] = hashlib.md5(content).hexdigest()
    return sums


def _compare(guest: Guest, directory: str, sums: dict[str, str]) -> None:
    """Compares files in the guest with their checksums."""
    said = guest.run(f"cd {directory}; md5sum large directory/*").output.split()
    assert dict(zip(said[1::2], said[::2], strict=True)) == sums
