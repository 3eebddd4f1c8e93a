"""Ways out of an export, and handles that the server did not make."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.export.file_handle import HandleSeal, object_identity
from rpcrdma.nfs.server import Export
from served_directory import Server
from support.cases import each_case


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "export" / "a").mkdir(parents=True)
    (tmp_path / "export" / "a" / "file").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "export-not").mkdir()
    return tmp_path


@pytest.fixture(params=[True, False], ids=["by handle", "by place and search"])
def server(request: pytest.FixtureRequest, outside: Path) -> Iterator[Any]:
    export = Export(name="/", directory=outside / "export", root_squash=False)
    server = Server([export], outside / "state", open_by_handle=request.param)
    yield server
    server.close()


NAMES = ["", "/", "..", "../secret", "a/file", "a/../../secret", "/etc/passwd", "\0", "a\0", ".\0", "x" * 255 + "/"]


@each_case("name", NAMES)
def test_no_name_leads_out(server: Any, outside: Path, name: str) -> None:
    root = server.mount()
    reply = server.call("lookup", v3.LOOKUP3args(server.dirop(root, name[:255])))
    if name == "..":
        assert reply.value.object.data == root
    else:
        assert reply.status in {v3.nfsstat3.NFS3ERR_ACCES, v3.nfsstat3.NFS3ERR_NOENT}
    before = sorted(path.name for path in outside.iterdir())
    where, wanted = server.dirop(root, name[:255]), server.sattr(mode=0o777)
    how = v3.createhow3(v3.createmode3.UNCHECKED, wanted)
    good = server.dirop(root, "a")
    file = v3.nfs_fh3(server.lookup(root, "a", "file"))
    for procedure, args in (
        ("create", v3.CREATE3args(where, how)),
        ("mkdir", v3.MKDIR3args(where, wanted)),
        ("symlink", v3.SYMLINK3args(where, v3.symlinkdata3(wanted, "x"))),
        ("mknod", v3.MKNOD3args(where, v3.mknoddata3(v3.ftype3.NF3FIFO, wanted))),
        ("link", v3.LINK3args(file, where)),
        ("remove", v3.REMOVE3args(where)),
        ("rmdir", v3.RMDIR3args(where)),
        ("rename", v3.RENAME3args(where, good)),
        ("rename", v3.RENAME3args(good, where)),
    ):
        if len(name) < 256:
            assert server.status(procedure, args) in {"ACCES", "EXIST", "INVAL"}, procedure
    assert sorted(path.name for path in outside.iterdir()) == before


def test_symbolic_links_are_never_followed(server: Any, outside: Path) -> None:
    (outside / "export" / "out").symlink_to(outside)
    (outside / "export" / "up").symlink_to("..")
    (outside / "export" / "leak").symlink_to(outside / "secret")
    root = server.mount()
    for name in ("out", "up", "leak"):
        link = server.lookup(root, name)
        assert server.attributes(link).type == v3.ftype3.NF3LNK
        assert server.status("lookup", v3.LOOKUP3args(server.dirop(link, "secret"))) == "NOTDIR"
        assert server.status("read", v3.READ3args(v3.nfs_fh3(link), 0, 10)) == "INVAL"
        assert server.status("readdir", v3.READDIR3args(v3.nfs_fh3(link), 0, bytes(8), 4096)) == "NOTDIR"
        guard = v3.sattrguard3(False, None)
        assert server.status("setattr", v3.SETATTR3args(v3.nfs_fh3(link), server.sattr(size=0), guard)) == "INVAL"
        server.status("setattr", v3.SETATTR3args(v3.nfs_fh3(link), server.sattr(mode=0o777), guard))
        server.status("setattr", v3.SETATTR3args(v3.nfs_fh3(link), server.sattr(uid=1, gid=1), guard))
    how = v3.createhow3(v3.createmode3.UNCHECKED, server.sattr(size=0))
    assert server.status("create", v3.CREATE3args(server.dirop(root, "leak"), how)) == "EXIST"
    assert (outside / "secret").read_bytes() == b"secret"
    assert (outside / "secret").stat().st_mode & 0o777 != 0o777
    assert (outside / "secret").stat().st_uid == os.geteuid()


def test_what_took_the_place_of_a_directory_or_of_the_export_is_not_followed(server: Any, outside: Path) -> None:
    export = outside / "export"
    root = server.mount()
    file = server.lookup(root, "a", "file")
    (export / "a").rename(outside / "moved")
    (export / "a").symlink_to(outside / "moved")
    assert server.getattr_status(file) == "STALE"
    (export / "a").unlink()
    (outside / "moved").rename(export / "a")
    # A directory beside the export has a name that begins alike.
    (export / "a" / "file").rename(outside / "export-not" / "file")
    assert server.getattr_status(file) == "STALE"
    (outside / "export-not" / "file").rename(export / "a" / "file")
    server.read(file)
    # The old path of a file is outside once the export has moved.
    export.rename(outside / "elsewhere")
    (export / "a").mkdir(parents=True)
    (outside / "elsewhere" / "a" / "file").rename(export / "a" / "file")
    assert server.getattr_status(server.lookup(root, "a")) == "OK"
    assert server.status("read", v3.READ3args(v3.nfs_fh3(file), 0, 4)) == "STALE"


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_mount_points_are_not_entered(outside: Path) -> None:
    point = outside / "export" / "a" / "point"
    point.mkdir()
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\nfrom rpcrdma.nfs import v3\nfrom rpcrdma.nfs.server import Export\n"
        "from served_directory import Server\n"
        f"base = Path({str(outside)!r})\n"
        "server = Server([Export(name='/', directory=base / 'export', root_squash=False)], base / 'state')\n"
        "root = server.mount()\n"
        "a = server.lookup(root, 'a')\n"
        "print(server.status('lookup', v3.LOOKUP3args(server.dirop(a, 'point'))))\n"
        "args = v3.READDIRPLUS3args(v3.nfs_fh3(a), 0, bytes(8), 4096, 4096)\n"
        "page = server.call('readdirplus', args).value.reply\n"
        "follows = {e.name: e.name_handle.handle_follows for e in page.entries}\n"
        "print(follows['point'], follows['file'])\n"
        "print(server.status('rmdir', v3.RMDIR3args(server.dirop(a, 'point'))))\n"
        "server.close()\n"
    )
    shell = f'mount -t tmpfs none {point} && exec {sys.executable} -c "$SCRIPT"'
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", shell],
        env={**os.environ, "SCRIPT": script},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if ran.returncode and "unshare" in ran.stderr + ran.stdout:
        pytest.skip(reason=f"no mount namespace here: {ran.stderr.strip()}")
    assert ran.stdout.split() == ["ACCES", "False", "True", "ACCES"], ran.stderr


HANDLE_ARGS: dict[str, Callable[[v3.nfs_fh3], Any]] = {
    "access": lambda handle: v3.ACCESS3args(handle, 63),
    "readlink": v3.READLINK3args,
    "read": lambda handle: v3.READ3args(handle, 0, 1),
    "fsstat": v3.FSSTAT3args,
    "fsinfo": v3.FSINFO3args,
    "pathconf": v3.PATHCONF3args,
    "commit": lambda handle: v3.COMMIT3args(handle, 0, 0),
}


def test_every_flipped_bit_truncation_or_addition_makes_a_handle_bad(server: Any) -> None:
    file = server.lookup(server.mount(), "a", "file")
    forged = [file[:length] for length in range(len(file))] + [file[length:] for length in range(1, len(file))]
    forged += [file + bytes(more) for more in range(1, 65 - len(file))]
    for position in range(len(file)):
        for bit in range(8):
            flipped = bytearray(file)
            flipped[position] ^= 1 << bit
            forged.append(bytes(flipped))
    for handle in forged:
        assert server.getattr_status(handle) == "BADHANDLE"
    for procedure, args in HANDLE_ARGS.items():
        assert server.status(procedure, args(v3.nfs_fh3(forged[-1]))) == "BADHANDLE"


def test_a_sealed_handle_of_a_file_outside_is_stale(server: Any, outside: Path) -> None:
    """As if the key had leaked, or the file had been inside when the handle was made."""
    tree = next(iter(server.services.nfs.exports.trees))
    for path in (outside / "secret", outside, outside / "export-not"):
        fd = os.open(path, os.O_PATH)
        identity, _ = object_identity(fd)
        inode = os.fstat(fd).st_ino
        os.close(fd)
        handle = HandleSeal(server.state.key).close(tree.identity, inode, identity)
        assert server.getattr_status(handle) == "STALE"


def test_made_up_places_lead_nowhere_else(server: Any, outside: Path) -> None:
    root = server.mount()
    file = server.lookup(root, "a", "file")
    directory = server.lookup(root, "a")
    places = server.state.places
    for parent, name in (
        (root, b".."),
        (directory, b"../../secret"),
        (file, b"x"),
        (file, b"file"),
        (root, b"/etc/passwd"),
    ):
        server.services.nfs.exports.parts.nodes.drop_all()
        places.remember(file, parent, name)
        assert server.read(file) == b"inside"


def test_a_race_of_renames_never_shows_what_is_outside(server: Any, outside: Path) -> None:
    """A directory goes out and in again, and its name is a link outward meanwhile."""
    root = server.mount()
    server.lookup(root, "a", "file")
    (outside / "moved").mkdir()
    (outside / "moved" / "file").write_bytes(b"secret")
    stop = threading.Event()

    def juggle() -> None:
        inside, away = outside / "export" / "a", outside / "export" / "away"
        while not stop.is_set():
            inside.rename(away)
            inside.symlink_to(outside / "moved")
            inside.unlink()
            away.rename(inside)

    thread = threading.Thread(target=juggle)
    thread.start()
    try:
        for _ in range(300):
            reply = server.call("lookup", v3.LOOKUP3args(server.dirop(root, "a")))
            if reply.status != v3.nfsstat3.NFS3_OK:
                continue
            directory = reply.value.object.data
            reply = server.call("lookup", v3.LOOKUP3args(server.dirop(directory, "file")))
            if reply.status == v3.nfsstat3.NFS3_OK:
                read = server.call("read", v3.READ3args(reply.value.object, 0, 10))
                assert read.status != v3.nfsstat3.NFS3_OK or bytes(read.value.data) == b"inside"
    finally:
        stop.set()
        thread.join()
