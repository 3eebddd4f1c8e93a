"""Exports, MOUNT and who is let in."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.server.definition_limits import limits_over_rdma, limits_over_tcp, messages_refused
from rpcrdma.aio.server.serve import ServeOptions
from rpcrdma.nfs import v3
from rpcrdma.nfs.server import Export, build_services
from support.cases import each_case
from support.functions_entered import functions_entered


def export(name: str, directory: Path, **options: Any) -> Export:
    return Export(name=name, directory=directory, root_squash=False, **options)


def mount_status(server: Any, path: str, **options: Any) -> str:
    return str(server.call("mnt", path, **options).fhs_status.name)


def test_the_programs_of_the_server_keep_within_its_limits_without_a_warning(server: Any) -> None:
    options = ServeOptions()
    limits = limits_over_rdma(options.rdma.transport, options.memory_octets_max)
    limits += limits_over_tcp(options.tcp.record_octets_max)
    for service in server.services:
        assert messages_refused(service, limits) == ""


def test_mounting_gives_the_root_and_the_flavors(server: Any, tree: Path) -> None:
    reply = server.call("mnt", "/").value
    assert reply.auth_flavors == [1, 0]
    assert server.attributes(reply.fhandle).fileid == tree.stat().st_ino


def test_the_export_with_the_longest_name_is_mounted(start: Any, tree: Path) -> None:
    server = start([export("/", tree), export("/inner", tree / "a"), export("/inner/most", tree / "a" / "b")])
    roots = [server.mount(path) for path in ("/", "/inner", "/inner/most", "//inner/")]
    inodes = [server.attributes(root).fileid for root in roots]
    assert inodes == [path.stat().st_ino for path in (tree, tree / "a", tree / "a" / "b", tree / "a")]
    # Within an export these are its own directories, by LOOKUP and by READDIRPLUS: version 3 crosses into no other one.
    above, below = server.lookup(roots[1]), server.lookup(roots[1], "b")
    plus = v3.READDIRPLUS3args(v3.nfs_fh3(above), 0, bytes(8), 4096, 4096)
    listed = {each.name: each.name_handle.value.data for each in server.call("readdirplus", plus).value.reply.entries}
    assert listed["b"] == below != roots[2]
    assert server.attributes(below).fsid == server.attributes(above).fsid != server.attributes(roots[2]).fsid
    # Directories below an export can be mounted.
    server = start([export("/data", tree)])
    assert server.attributes(server.mount("/data/a/b")).fileid == (tree / "a" / "b").stat().st_ino


@each_case(
    ("path", "status"),
    [
        ("/", "NOENT"),
        ("", "NOENT"),
        ("/other", "NOENT"),
        ("/database", "NOENT"),
        ("/data/absent", "NOENT"),
        ("/data/hello.txt", "NOTDIR"),
        ("/data/hello.txt/x", "NOTDIR"),
        ("/data/link", "NOTDIR"),
        ("/data/link/x", "NOTDIR"),
        ("/data/..", "ACCES"),
        ("/data/a/../..", "ACCES"),
        ("/data/.", "ACCES"),
        ("/data/\0", "ACCES"),
        ("/data/" + "x" * 256, "NAMETOOLONG"),
    ],
)
def test_nothing_else_can_be_mounted(start: Any, tree: Path, path: str, status: str) -> None:
    server = start([export("/data", tree)])
    assert mount_status(server, path) == f"MNT3ERR_{status}"


def test_mounts_are_listed_until_they_are_undone(start: Any, tree: Path) -> None:
    server = start([export("/one", tree), export("/two", tree / "a")])
    for path, peer in (("/one", "192.0.2.1"), ("/two", "192.0.2.1"), ("/one", "192.0.2.2")):
        server.mount(path, peer=peer)
    assert len(server.call("dump")) == 3
    server.call("umnt", "/two", peer="192.0.2.1")
    server.call("umnt", "/two", peer="192.0.2.1")
    assert {(one.ml_hostname, one.ml_directory) for one in server.call("dump")} == {
        ("192.0.2.1", "/one"),
        ("192.0.2.2", "/one"),
    }
    server.call("umntall", peer="192.0.2.1")
    assert [one.ml_hostname for one in server.call("dump")] == ["192.0.2.2"]


def test_the_list_of_mounts_is_bounded(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.v3.server.mount_service.NFS_MOUNTS_MAX", 10)
    for number in range(30):
        server.mount("/", peer=f"192.0.2.{number}")
        server.mount("/", peer="192.0.2.99")
    hosts = [one.ml_hostname for one in server.call("dump")]
    assert hosts == [*(f"192.0.2.{number}" for number in range(21, 30)), "192.0.2.99"], "the latest to be mounted"


def test_hosts_outside_neither_mount_nor_use_a_handle(start: Any) -> None:
    networks = "192.0.2.0/24", "::ffff:203.0.113.0/120", "2001:db8::/32"
    server = start(hosts=tuple(map(ip_network, networks)))
    for inside in (
        "192.0.2.7",
        "::ffff:192.0.2.7",
        "203.0.113.7",
        "::ffff:203.0.113.7",
        "2001:db8::9",
        "2001:db8::9%eth0",
    ):
        root = server.mount(peer=inside)
        assert server.getattr_status(root, peer=inside) == "OK"
    for outside in ("192.0.3.7", "::1", "::ffff:198.51.100.1", "203.0.112.7", "", "unix"):
        assert mount_status(server, "/", peer=outside) == "MNT3ERR_ACCES"
        assert server.getattr_status(root, peer=outside) == "ACCES"
        assert server.status("readdir", v3.READDIR3args(v3.nfs_fh3(root), 0, bytes(8), 4096), peer=outside) == "ACCES"


def test_the_log_says_which_host_was_refused_and_why(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = start(hosts=(ip_network("192.0.2.0/24"), ip_network("2001:db8::/32")))
    root = server.mount(peer="192.0.2.7")
    assert not caplog.records
    for _ in range(3):
        assert mount_status(server, "/", peer="198.51.100.1") == "MNT3ERR_ACCES"
    assert server.getattr_status(root, peer="198.51.100.2") == "ACCES"
    reason = "the export /: it admits 192.0.2.0/24, 2001:db8::/32 alone"
    assert [record.getMessage() for record in caplog.records] == [
        f"refused 198.51.100.1 {reason}",
        f"refused 198.51.100.2 {reason}",
    ]
    caplog.clear()
    server.services.nfs.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"refused 198.51.100.1 {reason} (the last of 2 more like it)"
    ]
    caplog.clear()
    for number in range(9):
        assert mount_status(server, "/", peer=f"2001:db9::{number}") == "MNT3ERR_ACCES"
    assert len(caplog.records) == 1
    caplog.clear()
    # The log of refusals names some networks of many.
    server = start(hosts=tuple(ip_network(f"192.0.2.{number}") for number in range(10)))
    assert mount_status(server, "/", peer="198.51.100.1") == "MNT3ERR_ACCES"
    (record,) = caplog.records
    assert record.getMessage().endswith(", 192.0.2.7/32 and 2 more alone")


@each_case(
    "name, remedy",
    [
        *((name, "use / or /NAME") for name in ("", "data", "/data/", "//", "/a//b", "/a/../b", "/.")),
        *((name, "remove its control characters") for name in ("/\0", "/a\nb", "/a/\x7f", "/\x85")),
        ("/a/" + "n" * 256, "shorten the part of 256 octets to 255, the most for a name in a directory"),
        ("/" + "\xe4" * 128, "shorten the part of 256 octets to 255, the most for a name in a directory"),
        ("/" + "/".join(["n" * 204] * 5), "shorten its 1025 octets to 1024, the most for a path in MOUNT"),
    ],
)
def test_names_that_no_client_could_mount_are_refused(name: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a name for an export") as caught:
        Export(name=name, directory=tmp_path)
    assert str(caught.value).endswith(f": {remedy}")
    assert len(str(caught.value)) < 200


def test_the_longest_names_are_listed_and_mounted(start: Any, tree: Path) -> None:
    names = ["/" + "n" * 255, "/" + "/".join(["n" * 204] * 4 + ["n" * 203])]
    server = start([export(name, tree) for name in names])
    assert [node.ex_dir for node in server.call("export")] == names
    for name in names:
        assert server.call("mnt", name).fhs_status.name == "MNT3_OK"


def test_a_mount_looks_at_few_of_many_exports(start: Any, tree: Path) -> None:
    server = start([export(f"/{number}", tree) for number in range(100)])
    server.mount("/99/a")
    assert functions_entered(lambda: server.services.mount.WAITS_FOR("/99/a")) < 50


@each_case("name", ["export", "dump"])
def test_a_list_that_may_be_long_keeps_no_other_call_waiting(server: Any, name: str) -> None:
    server.call(name)
    assert server.contexts[-1].may_block
    assert server.services.mount.WAITS_FOR(None) is None


@each_case("number", [-1, 0xFFFFFFFF])
def test_the_anonymous_user_must_be_one(number: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not the number of a user or group"):
        Export(name="/", directory=tmp_path, anonymous_uid=number)


def test_servers_without_or_with_ambiguous_exports_are_refused(start: Any, tree: Path) -> None:
    state = start().state
    with pytest.raises(ValueError, match="two exports"):
        build_services([export("/x", tree), export("/x", tree / "a")], state=state)
    with pytest.raises(ValueError, match="no exports"):
        build_services([], state=state)


@each_case("name", ["hello.txt", "absent"])
def test_only_directories_can_be_exported(start: Any, tree: Path, name: str) -> None:
    with pytest.raises(OSError, match=name):
        start([export("/", tree / name)])
