"""Linux's client mounts our server by its default options, which is NFS version 4.2."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
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
"""At this side."""
_OVER_TCP = "proto=tcp"
"""Mounts our server with `_AT_NFS_PORT`."""
_FILES = 40
_FAR = 1 << 40
"""The offset of a lock far behind the lines of the file."""
_LINES_S = 120.0
"""The longest time without a further line of the holder of a lock: the client notices a restart after some seconds."""
_LOCAL_MARK = "local-holder"
"""The mark of `lock_holder.py` as a local process, in the served directory."""
_LOCK = PYTHON + "python3 /data/lock_holder.py {} /mnt/file {} {}"

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


@check(newer=True, over_roce=True)
def locks_of_clients_and_of_local_processes(lab: Lab) -> None:
    """A lock of a client keeps out a client with another kernel and a local process, and theirs keep it out."""
    with _mounted_twice(lab) as (server, other):
        holder = _held(lab.client, 0, 10)
        _expect_refusal(other, 9, 1)
        _expect_local_refusal(server, 9, 1)
        # The octets behind it are free for both.
        local = server.begin(_local_lock(server, "keep", _FAR, 1))
        server.run(f"until test -e {_LOCAL_MARK}; do sleep 0.1; done")
        _expect_refusal(lab.client, _FAR, 1)
        _expect_refusal(other, _FAR, 1)
        waiting = other.start(_LOCK.format("wait", 5, 1), _LINES_S)
        _await_lines(lab.client, server, 3)
        _release(lab.client, holder, server)
        _await_holder(other)
        _expect_refusal(lab.client, 0, 0)
        _expect_local_refusal(server, 5, 1)
        other.run("rm /tmp/held")
        waiting.wait()
        server.run(f"rm {_LOCAL_MARK}")
        local.wait()
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


@check(newer=True, over_roce=True)
def lock_is_kept_over_a_kill(lab: Lab) -> None:
    """Under load our server is killed twice: the holder of a lock loses no line, and nobody else gets the lock."""
    with _mounted_twice(lab, interrupted=True) as (server, other):
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
            # The client has reclaimed it.
            _expect_local_refusal(server, 0, 0)
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


@check(over_roce=True)
def several_exports(lab: Lab) -> None:
    """The pseudo root has the exports as mounts of their own: one to write to, one read-only, one of an fsspec URL.

    A file of the URL is changed and removed while the client has it open.
    """
    with contextlib.ExitStack() as stack:
        shown, stored = (stack.enter_context(lab.folder()) for _ in range(2))
        lab.machine.run(
            f"""set -e; chmod 755 {shown}; echo read me >{shown}/notice; cd {stored}; mkdir directory
            {_repeated("first")} >changing; head -c 3000001 /dev/urandom >large
            for i in $(seq 1 {_FILES}); do head -c $((100 * i)) /dev/urandom >directory/small-$i; done
            """
        )
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
        _read_while_it_changes(lab.client, server, stored)
        sums = "md5sum large directory/*"
        assert run(f"cd /mnt/stored; {sums}").output == server.run(f"cd {stored}; {sums}")
        # Commands that look up each name in the pseudo root, again without the client's cache.
        run("set -e; cd /; umount /mnt/home /mnt/shown /mnt/stored")
        lab.remount(VERSION_4)
        run("set -e;" + COMPARE.format(directory="/mnt/home/moved") + "; cd /; umount /mnt/home")
        if server.run("cat notice") != "read me\n":
            raise CheckFailed("the file that was copied from one export to the other has other content")
        lab.mount(VERSION_4, path="/shown")
        run("set -e; cat /mnt/notice; umount /mnt")


def _repeated(word: str) -> str:
    """A shell command that prints the content of a file for `_READ_BY_ONE_OPEN`."""
    return f"yes {word} | head -n 9999 | tr -d '\\n'"


def _read_while_it_changes(guest: Guest, server: OurServer, stored: Path) -> None:
    """Changes and removes a file of the exported URL while the client has it open."""
    guest.run("rm -f /tmp/read-*")
    reader = guest.start(f"{PYTHON}python3 -c '{_READ_BY_ONE_OPEN}'", 400)
    guest.run("until test -e /tmp/read-first; do usleep 100000; done", 120)
    server.run(f"set -e; cd {stored}; {_repeated('second')} >later; mv later changing")
    guest.run("until test -e /tmp/read-second; do usleep 100000; done", 120)
    server.run(f"rm {stored}/changing")
    reader.wait()


@contextlib.contextmanager
def _mounted_twice(lab: Lab, *, interrupted: bool = False) -> Iterator[tuple[OurServer, Guest]]:
    """Our server with a file, mounted by the client over RDMA, and by a guest with another kernel.

    The latter mounts over TCP, or over RoCE as well.
    """
    serve, options = ((), VERSION_4) if lab.over_roce else (_AT_NFS_PORT, _OVER_TCP)
    with lab.mounted(options=VERSION_4, serve=serve, interrupted=interrupted) as server:
        server.run("touch file")
        lab.newer.run(f"mount.nfs {server.address}:/ /mnt -o {options}", 100)
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
    counted = "wc -l <file"
    await_growth("lines", lambda: server.count(counted), server.count(counted) + count, _LINES_S * guest.pace)


def _release(guest: Guest, holder: Job, server: OurServer) -> None:
    """Ends the holder, and checks that the file has each of its lines once.

    A process that waited for the lock may have begun to append its own.
    """
    guest.run("rm /tmp/held")
    written = int(holder.wait().output)
    found = server.run("cat file").splitlines()
    numbers = (*range(1, written + 1), *range(1, len(found) - written + 1))
    if found != [f"line {number}" for number in numbers]:
        raise CheckFailed(f"the file has other lines than the {written} that were written under the lock: {found}")


def _expect_refusal(guest: Guest, start: int, octets: int) -> None:
    """Checks that the guest does not get a lock of a range."""
    done = guest.run(_LOCK.format("try", start, octets), check=False)
    if done.status != 1:
        raise CheckFailed(f"{guest.name} got a lock that another process has, or failed: {done}")


def _local_lock(server: OurServer, mode: str, start: int, octets: int) -> str:
    """A script for the server's machine, which locks a range of the file as a process there."""
    return f"python3 {server.programs}/lock_holder.py {mode} file {start} {octets} {_LOCAL_MARK}"


def _expect_local_refusal(server: OurServer, start: int, octets: int) -> None:
    """Checks that a local process does not get a lock of a range."""
    said = server.run(f"{_local_lock(server, 'try', start, octets)}; echo $?", check=False)
    if said != "1\n":
        raise CheckFailed(f"a local process got a lock that a client has, or failed: {said}")


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
