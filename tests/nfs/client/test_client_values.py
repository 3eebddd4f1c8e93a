"""Attributes, paths, modes, sizes, errors: the client's values that need no I/O."""

from __future__ import annotations

import errno
import os
import pickle
import stat

import pytest

from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import RemoteProtocolError
from rpcrdma.nfs import v3
from rpcrdma.nfs.client.attributes import NOW, TIME_NS_MAX, set_attributes, stat_from, statvfs_from
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.paths import base_name, components, join, listed_name, text_of
from rpcrdma.nfs.client.resolver import LookupCache
from rpcrdma.nfs.client.streams.open_state import parse_open_mode
from rpcrdma.nfs.client.volume import TransferSizes
from rpcrdma.nfs.errors import NfsError, nfs_error
from rpcrdma.nfs.port_mapper import GETPORT, mapping
from rpcrdma.nfs.v3 import fattr3, ftype3, nfs_fh3, nfsstat3, nfstime3, post_op_attr, specdata3, time_how
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case

FAILURES = [status for status in nfsstat3 if status != nfsstat3.NFS3_OK]


def fattr(kind: ftype3 = ftype3.NF3REG, mode: int = 0o644, rdev: specdata3 | None = None) -> fattr3:
    times = (nfstime3(1, 5), nfstime3(2, 6), nfstime3(3, 7))
    return fattr3(kind, mode, 2, 10, 20, 1000, 1025, rdev or specdata3(8, 1), 77, 5, *times)


def test_attributes_are_what_os_stat_shows() -> None:
    shown = stat_from(fattr())
    assert shown.st_mode == stat.S_IFREG | 0o644
    assert (shown.st_ino, shown.st_dev, shown.st_nlink) == (5, 77, 2)
    assert (shown.st_uid, shown.st_gid, shown.st_size, shown.st_blocks) == (10, 20, 1000, 3)
    assert shown.st_rdev == os.makedev(8, 1)
    assert (shown.st_atime_ns, shown.st_mtime_ns, shown.st_ctime_ns) == (1_000_000_005, 2_000_000_006, 3_000_000_007)
    assert (shown.st_atime, shown.st_mtime, shown.st_ctime) == pytest.approx((1, 2, 3))
    assert shown.is_file()
    assert not shown.is_dir()
    assert not shown.is_symlink()
    # Type bits in the mode of a server are ignored.
    assert stat_from(fattr(mode=stat.S_IFDIR | 0o4755)).st_mode == stat.S_IFREG | 0o4755
    # Any device number can be shown.
    assert isinstance(stat_from(fattr(rdev=specdata3(0xFFFFFFFF, 0xFFFFFFFF))).st_rdev, int)


@each_case("kind", ftype3)
def test_each_file_type_has_its_bits(kind: ftype3) -> None:
    names = {
        ftype3.NF3REG: stat.S_ISREG,
        ftype3.NF3DIR: stat.S_ISDIR,
        ftype3.NF3BLK: stat.S_ISBLK,
        ftype3.NF3CHR: stat.S_ISCHR,
        ftype3.NF3LNK: stat.S_ISLNK,
        ftype3.NF3SOCK: stat.S_ISSOCK,
        ftype3.NF3FIFO: stat.S_ISFIFO,
    }
    assert names[kind](stat_from(fattr(kind)).st_mode)


def test_space_is_counted_in_blocks() -> None:
    none = post_op_attr(False, None)
    shown = statvfs_from(
        v3.FSSTAT3resok(none, 8192, 4096, 4095, 9, 8, 7, 0), v3.PATHCONF3resok(none, 1, 255, True, True, False, True)
    )
    assert (shown.f_blocks, shown.f_bfree, shown.f_bavail) == (2, 1, 0)
    assert (shown.f_files, shown.f_ffree, shown.f_favail, shown.f_namemax) == (9, 8, 7, 255)


def test_only_what_is_given_is_set() -> None:
    nothing = set_attributes()
    assert not nothing.mode.set_it
    assert not nothing.size.set_it
    assert nothing.atime.set_it == time_how.DONT_CHANGE
    new = set_attributes(mode=0o100640, uid=0, gid=1, size=0, atime_ns=NOW, mtime_ns=1_500_000_000)
    assert (new.mode.value, new.uid.value, new.gid.value, new.size.value) == (0o640, 0, 1, 0)
    assert new.atime.set_it == time_how.SET_TO_SERVER_TIME
    assert new.mtime.value == nfstime3(1, 500_000_000)


@each_case("time_ns", [-1, TIME_NS_MAX + 1])
def test_times_that_the_protocol_lacks_are_refused(time_ns: int) -> None:
    with pytest.raises(OverflowError, match="1970 to 2106"):
        set_attributes(mtime_ns=time_ns)


@each_case("status", FAILURES)
def test_each_status_is_an_error_of_the_class_that_its_errno_has_in_python(status: nfsstat3) -> None:
    error = nfs_error(status, "/a")
    assert isinstance(error, NfsError)
    assert error.errno
    assert error.strerror
    assert (error.status, error.path, error.filename) == (status, "/a", "/a")
    assert str(error).endswith("'/a'")
    expected = type(OSError(error.errno, ""))
    assert expected is BlockingIOError or isinstance(error, expected)
    again = pickle.loads(pickle.dumps(nfs_error(status, "/a", "/b")))
    assert (type(again), again.errno, again.filename, again.filename2) == (type(error), error.errno, "/a", "/b")
    again.found_at(parse_url("tcp://server/data/a"))
    assert str(again).endswith(": 'tcp://server:2049/data/a' -> '/b'")


@each_case(
    ("path", "names"),
    [
        ("", []),
        ("/", []),
        ("//", []),
        (".", []),
        ("./.", []),
        ("a", ["a"]),
        ("/a//b", ["a", "b"]),
        ("a/./b", ["a", "b"]),
        ("a/b/", ["a", "b", "."]),
        ("a/.", ["a", "."]),
        ("../a", ["..", "a"]),
    ],
)
def test_paths_are_taken_apart(path: str, names: list[str]) -> None:
    assert components(path) == names


def test_paths_hold_octets_and_names_that_servers_take() -> None:
    assert components("x" * 255) == ["x" * 255]
    with pytest.raises(NfsError) as caught:
        components("/a/" + "é" * 128)
    assert caught.value.errno == errno.ENAMETOOLONG
    # Octets that are no text travel through paths.
    assert text_of(b"/a\xff").encode("utf-8", "surrogateescape") == b"/a\xff"
    with pytest.raises(ValueError, match="null"):
        text_of("a\0b")
    assert join("/", "a") == "/a"
    assert join("/a", "b") == "/a/b"
    assert join("/a", "/b") == "/b"
    assert join("/a", "") == "/a"
    assert base_name("/a/b/") == "b"
    assert base_name("/") == ""


@each_case("name", ["", "a/b", "/", "a\0"])
def test_a_listing_may_not_name_what_is_no_name(name: str) -> None:
    with pytest.raises(RemoteProtocolError, match="no file's name"):
        listed_name(name)
    # Dots in a listing are passed over.
    assert listed_name(".") is None
    assert listed_name("..") is None
    assert listed_name("...") == "..."


@each_case("mode", ["r", "", "rwb", "rt", "rbb", "r++b", "b+", "rU", "wbz"])
def test_other_modes_are_refused(mode: str) -> None:
    with pytest.raises(ValueError, match="invalid mode"):
        parse_open_mode(mode)


@each_case(
    ("mode", "flags"),
    [
        ("rb", "reads"),
        ("r+b", "reads writes"),
        ("rb+", "reads writes"),
        ("wb", "writes creates truncates"),
        ("w+b", "reads writes creates truncates"),
        ("xb", "writes creates exclusive"),
        ("ab", "writes creates appends"),
        ("a+b", "reads writes creates appends"),
    ],
)
def test_modes_mean_what_they_mean_to_open(mode: str, flags: str) -> None:
    parsed = parse_open_mode(mode)
    names = ("reads", "writes", "creates", "truncates", "exclusive", "appends")
    assert {name for name in names if getattr(parsed, name)} == set(flags.split())


@each_case("stated", [0, 1, 512, 4096, 1 << 20, 1 << 31, (1 << 32) - 1])
def test_sizes_are_sensible_whatever_a_server_states(stated: int) -> None:
    info = v3.FSINFO3resok(
        post_op_attr(False, None), stated, stated, stated, stated, stated, stated, stated, 0, nfstime3(0, 1), 0
    )
    sizes = TransferSizes.of(info)
    assert 4096 <= sizes.read <= sizes.read_max <= 1 << 20
    assert 4096 <= sizes.write <= 1 << 20
    assert 8192 <= sizes.listing <= 65536
    assert sizes.listing <= sizes.names <= 1 << 18


def test_the_servers_preference_counts() -> None:
    info = v3.FSINFO3resok(
        post_op_attr(False, None), 1 << 20, 1 << 16, 1, 1 << 18, 1 << 15, 1, 1 << 14, 0, nfstime3(0, 1), 0
    )
    assert TransferSizes.of(info) == TransferSizes(
        read_max=1 << 20, read=1 << 16, write=1 << 15, listing=1 << 14, names=1 << 18
    )


def node(number: int) -> Node:
    return Node(nfs_fh3(bytes([number])), None, str(number))


def test_the_least_recently_used_lookup_leaves_first() -> None:
    cache = LookupCache(lambda: 0.0, valid_s=3, entries_max=2)
    top = node(1)
    cache.keep(top, "a", node(2))
    cache.keep(top, "b", node(3))
    cache.find(top, "a")
    cache.keep(top, "c", node(4))
    assert cache.find(top, "b") is None
    assert cache.find(node(9), "a") is None
    assert cache.find(top, "a") is not None
    cache.forget(top, "a")
    assert cache.find(top, "a") is None
    cache.clear()
    assert len(cache) == 0
    # A cache can be off.
    cache = LookupCache(lambda: 0.0, valid_s=0, entries_max=2)
    cache.keep(node(1), "a", node(2))
    assert len(cache) == 0


def test_getport_is_encoded_as_rfc_1833_says() -> None:
    enc = Encoder()
    GETPORT.encode_args(enc, mapping(100005, 3, 6, 0))
    assert bytes(enc.reduced).hex() == "000186a5000000030000000600000000"
    assert GETPORT.decode_args(Decoder(enc.reduced)) == mapping(100005, 3, 6, 0)
    answer = Encoder()
    GETPORT.encode_result(answer, 20048)
    assert GETPORT.decode_result(Decoder(answer.reduced)) == 20048
    assert (GETPORT.program, GETPORT.version, GETPORT.number) == (100000, 2, 3)
