"""GETATTR, ACCESS, READLINK, FSSTAT, FSINFO and PATHCONF against the operating system's answers."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from rpcrdma.nfs import v3
from rpcrdma.nfs.v3.server.attributes import nfs_time
from support.cases import each_case

ALL_ACCESS = 0x3F


def test_getattr_tells_what_stat_tells(server: Any, tree: Path) -> None:
    found = server.attributes(server.lookup(server.mount(), "hello.txt"))
    told = (tree / "hello.txt").stat()
    assert (found.type, found.mode, found.nlink) == (v3.ftype3.NF3REG, stat.S_IMODE(told.st_mode), 1)
    assert (found.uid, found.gid, found.size, found.used) == (told.st_uid, told.st_gid, 13, told.st_blocks * 512)
    assert found.fileid == told.st_ino
    for mine, theirs in ((found.mtime, told.st_mtime_ns), (found.ctime, told.st_ctime_ns)):
        assert (mine.seconds, mine.nseconds) == divmod(theirs, 10**9)
    # Every type of object has its type.
    root = server.mount()
    os.mkfifo(tree / "fifo")
    for name, kind in (("a", v3.ftype3.NF3DIR), ("link", v3.ftype3.NF3LNK), ("fifo", v3.ftype3.NF3FIFO)):
        assert server.attributes(server.lookup(root, name)).type == kind
    assert server.attributes(root).fsid == server.attributes(server.lookup(root, "a", "b", "deep.txt")).fsid


@each_case(
    ("nanoseconds", "seconds", "rest"),
    [
        (0, 0, 0),
        (-1, 0, 0),
        (1_500_000_001, 1, 500_000_001),
        (0xFFFFFFFF * 10**9, 0xFFFFFFFF, 0),
        (1 << 70, 0xFFFFFFFF, None),
    ],
)
def test_times_outside_the_protocol_become_the_nearest(nanoseconds: int, seconds: int, rest: int | None) -> None:
    time = nfs_time(nanoseconds)
    assert time.seconds == seconds
    assert rest is None or time.nseconds == rest


def test_access_grants_to_the_owner_everything_that_is_asked_for(server: Any) -> None:
    root = server.mount()
    directory = server.call("access", v3.ACCESS3args(v3.nfs_fh3(root), ALL_ACCESS)).value
    assert directory.access == ALL_ACCESS & ~v3.ACCESS3_EXECUTE
    file = server.call("access", v3.ACCESS3args(v3.nfs_fh3(server.lookup(root, "hello.txt")), ALL_ACCESS)).value
    assert file.access == v3.ACCESS3_READ | v3.ACCESS3_MODIFY | v3.ACCESS3_EXTEND
    assert file.obj_attributes.attributes_follow
    reply = server.call("access", v3.ACCESS3args(v3.nfs_fh3(server.mount()), v3.ACCESS3_READ))
    assert reply.value.access == v3.ACCESS3_READ


def test_readlink_gives_the_text_of_links_alone(server: Any, tree: Path) -> None:
    (tree / "odd").symlink_to(os.fsdecode(b"/nowhere/\xff"))
    root = server.mount()
    read = server.call("readlink", v3.READLINK3args(v3.nfs_fh3(server.lookup(root, "odd")))).value
    assert os.fsencode(read.data) == b"/nowhere/\xff"
    assert read.symlink_attributes.value.type == v3.ftype3.NF3LNK
    assert server.status("readlink", v3.READLINK3args(v3.nfs_fh3(server.mount()))) == "INVAL"


def test_fsstat_pathconf_and_fsinfo_tell_the_bounds_of_the_file_system_and_of_the_server(
    server: Any, tree: Path
) -> None:
    told = server.call("fsstat", v3.FSSTAT3args(v3.nfs_fh3(server.mount()))).value
    space = os.statvfs(tree)
    assert told.tbytes == space.f_blocks * space.f_frsize
    assert told.tfiles == space.f_files
    assert told.abytes <= told.fbytes <= told.tbytes
    told = server.call("pathconf", v3.PATHCONF3args(v3.nfs_fh3(server.lookup(server.mount(), "hello.txt")))).value
    assert told.name_max == os.pathconf(tree, "PC_NAME_MAX")
    assert (told.no_trunc, told.chown_restricted) == (True, True)
    assert (told.case_insensitive, told.case_preserving) == (False, True)
    told = server.call("fsinfo", v3.FSINFO3args(v3.nfs_fh3(server.mount()))).value
    assert told.rtmax == told.wtmax == told.rtpref == told.wtpref == 1 << 20
    assert told.properties == v3.FSF3_LINK | v3.FSF3_SYMLINK | v3.FSF3_HOMOGENEOUS | v3.FSF3_CANSETTIME
    assert (told.time_delta.seconds, told.time_delta.nseconds) == (0, 1)


def test_no_inline_handler_waits_for_what_is_not_at_hand(start: Any) -> None:
    handle = (server := start()).lookup(server.mount(), "a", "b", "deep.txt")
    again = start()
    again.attributes(handle)
    assert again.contexts[-1].may_block
    again.attributes(handle)
    assert not again.contexts[-1].may_block


def test_a_lookup_tells_the_attributes_that_the_object_has_now(server: Any, tree: Path) -> None:
    root = server.mount()
    file = tree / "hello.txt"
    for number in range(3):
        file.write_bytes(b"x" * number)
        for _ in range(2):
            found = server.call("lookup", v3.LOOKUP3args(server.dirop(root, "hello.txt"))).value
            assert found.obj_attributes.value.size == number
        file.chmod(0o600 + number)
        (tree / f"more{number}").mkdir()
        found = server.call("lookup", v3.LOOKUP3args(server.dirop(root, "hello.txt"))).value
        assert found.obj_attributes.value.mode == 0o600 + number
        assert found.dir_attributes.value.nlink == tree.stat().st_nlink
        same = server.call("lookup", v3.LOOKUP3args(server.dirop(root, "."))).value
        assert same.obj_attributes.value.nlink == tree.stat().st_nlink
