"""The access log of both versions and of MOUNT: which calls it has, and what it tells of them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from conversation import with_version_4
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.serve_audit import AccessLog
from rpcrdma.cli.settings import table
from rpcrdma.cli.settings.check import find_mistakes
from rpcrdma.cli.settings.effective import effective
from rpcrdma.nfs import v3
from rpcrdma.nfs.export.access_terms import AccessTerms
from rpcrdma.nfs.mount import MNTPATHLEN
from rpcrdma.nfs.server import Export
from rpcrdma.nfs.server.audit import AUDIT_KINDS, Audit
from rpcrdma.nfs.server.audit_of_compounds import watch_compounds
from rpcrdma.nfs.server.exports_change import ExportsChange
from rpcrdma.nfs.v4.server.service import HANDLERS
from rpcrdma.rpc.auth import AuthGss, AuthSys, LocalUser
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.service import CredentialTooWeak
from support.cases import each_case
from support.nfs4_client import (
    GUARDED,
    READ,
    Client,
    create,
    link,
    lookup,
    opaque,
    open_,
    putrootfh,
    remove,
    rename,
    savefh,
    setattr_,
)

ALICE = AuthSys(uid=1000, gid=1000)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")


class Audited:
    """A server of both versions with its access log."""

    def __init__(self, server: Any, place: Path, *kinds: str) -> None:
        self.server = server
        self.conversation = with_version_4(server, place)
        self.lines: list[bytes] = []
        audit = Audit(kinds or AUDIT_KINDS, self.lines.append, lambda: 1_700_000_000_123_456_789)
        audit.watch(server.services)
        watch_compounds(audit, self.conversation.service)

    def client(self) -> Client:
        return self.conversation.client(credential=ALICE).start()

    def taken(self) -> list[dict[str, Any]]:
        """The records since the last call, without the keys that all of this test's have alike."""
        found = [json.loads(line) for line in self.lines]
        assert all(b"\n" not in line for line in self.lines)
        self.lines.clear()
        alike = {"time": "2023-11-14T22:13:20.123457+00:00", "xid": 1}
        for record in found:
            assert alike.items() <= record.items()
        return [{key: value for key, value in record.items() if key not in alike} for record in found]


def replaced(server: Any) -> list[str]:
    """The procedures of version 3 whose handlers are not those of the service."""
    methods = {procedure.method for procedure in v3.PROGRAM.procedures.values()}
    return sorted(methods & vars(server.services.nfs).keys())


@pytest.fixture
def made(start: Any, tree: Path, tmp_path: Path) -> Any:
    servers: list[Audited] = []
    other = tmp_path / "other"
    other.mkdir()

    def make(*kinds: str, **terms: Any) -> Audited:
        export = Export(name="/data", directory=tree, **terms)
        servers.append(Audited(start([export, Export(name="/other", directory=other)]), tmp_path, *kinds))
        return servers[-1]

    yield make
    for each in servers:
        each.conversation.service.close()


def test_a_record_looks_through_no_list_of_all_exports(
    made: Callable[..., Audited], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = made().server
    root = server.mount("/data")
    exports = server.services.nfs.exports
    exports.parts.nodes.drop_all()
    monkeypatch.setattr(type(exports), "trees", property(lambda _: pytest.fail("there may be thousands")))
    for name in ("link", "none"):
        assert server.status("remove", v3.REMOVE3args(server.dirop(root, name))) in {"OK", "NOENT"}


def test_changes_by_version_3_are_recorded(made: Callable[..., Audited], tree: Path) -> None:
    it = made()
    server = it.server
    root = server.mount("/data")
    every = {"host": "127.0.0.1", "uid": 0, "acting_uid": 65534, "export": "/data"}
    assert it.taken() == [
        {"kind": "mount", "operation": "MNT", **every, "asked": "/data", "path": str(tree), "status": "MNT3_OK"}
    ]
    assert server.call("mnt", "/none").fhs_status.name == "MNT3ERR_NOENT"
    assert it.taken() == [
        {
            "kind": "mount", "operation": "MNT", "host": "127.0.0.1", "uid": 0, "acting_uid": None, "asked": "/none",
            "status": "MNT3ERR_NOENT",
        }
    ]  # fmt: skip
    every = {**every, "uid": 1000, "acting_uid": 1000}
    sattr = server.sattr(mode=0o755)
    where = {"path": str(tree), "name": "new"}
    made_new = {"kind": "create", **every, **where, "status": "NFS3_OK"}
    dirop = server.dirop(root, "new")
    removal = v3.REMOVE3args(dirop)
    assert server.status("mkdir", v3.MKDIR3args(dirop, sattr), as_=ALICE) == "OK"
    assert server.status("rmdir", v3.RMDIR3args(dirop), as_=ALICE) == "OK"
    how = v3.createhow3(v3.createmode3.GUARDED, sattr)
    assert server.status("create", v3.CREATE3args(dirop, how), as_=ALICE) == "OK"
    assert server.status("create", v3.CREATE3args(dirop, how), as_=ALICE) == "EXIST"
    new = server.lookup(root, "new")
    to = server.dirop(root, "to")
    assert server.status("link", v3.LINK3args(v3.nfs_fh3(new), to), as_=ALICE) == "OK"
    assert server.status("rename", v3.RENAME3args(dirop, to), as_=ALICE) == "OK"
    assert server.status("remove", removal, as_=ALICE) == "OK"
    guard = v3.sattrguard3(False, None)
    assert server.status("setattr", v3.SETATTR3args(v3.nfs_fh3(new), sattr, guard), as_=ALICE) == "OK"
    target = {"to_path": str(tree), "to_name": "to"}
    assert it.taken() == [
        {**made_new, "operation": "MKDIR"},
        {"kind": "remove", "operation": "RMDIR", **every, **where, "status": "NFS3_OK"},
        {**made_new, "operation": "CREATE"},
        {**made_new, "operation": "CREATE", "status": "NFS3ERR_EXIST"},
        {"kind": "create", "operation": "LINK", **every, "path": f"{tree}/new", **target, "status": "NFS3_OK"},
        {"kind": "rename", "operation": "RENAME", **every, **where, **target, "status": "NFS3_OK"},
        {"kind": "remove", "operation": "REMOVE", **every, **where, "status": "NFS3_OK"},
        {"kind": "setattr", "operation": "SETATTR", **every, "path": f"{tree}/to", "status": "NFS3_OK"},
    ]


def test_changes_by_version_4_are_recorded_alike(made: Callable[..., Audited], tree: Path) -> None:
    it = made()
    client = it.client()
    every = {"host": "192.0.2.7", "uid": 1000, "acting_uid": 1000, "export": "/data"}
    root = client.run(putrootfh(), lookup("data"), lookup("a"), lookup("b")).status
    assert root == "OK"
    assert it.taken() == [{"kind": "mount", "operation": "LOOKUP", **every, "path": str(tree), "status": "NFS4_OK"}]
    data = putrootfh(), lookup("data")
    assert client.run(*data, create("new", 2)).status == "OK"
    assert client.run(*data, create("new", 2)).status == "EXIST"
    assert client.run(*data, lookup("a"), savefh(), *data, rename("b", "moved")).status == "OK"
    assert client.run(*data, remove("new")).status == "OK"
    assert client.run(*data, lookup("moved"), setattr_({33: (0o700).to_bytes(4, "big")})).status == "PERM"
    assert client.run(*data, open_(b"owner", READ, name="file", create=GUARDED)).status == "OK"
    assert client.run(*data, open_(b"owner", READ, name="file")).status == "OK"
    assert client.run(*data, lookup("file"), savefh(), *data, link("more")).status == "OK"
    where = {"path": str(tree), "name": "new"}
    assert [record for record in it.taken() if record["kind"] != "mount"] == [
        {"kind": "create", "operation": "CREATE", **every, **where, "status": "NFS4_OK"},
        {"kind": "create", "operation": "CREATE", **every, **where, "status": "NFS4ERR_EXIST"},
        {
            "kind": "rename", "operation": "RENAME", **every, "path": f"{tree}/a", "name": "b", "to_path": str(tree),
            "to_name": "moved", "status": "NFS4_OK",
        },
        {"kind": "remove", "operation": "REMOVE", **every, **where, "status": "NFS4_OK"},
        {"kind": "setattr", "operation": "SETATTR", **every, "path": f"{tree}/moved", "status": "NFS4ERR_PERM"},
        {"kind": "create", "operation": "OPEN", **every, "path": str(tree), "name": "file", "status": "NFS4_OK"},
        {
            "kind": "create", "operation": "LINK", **every, "path": f"{tree}/file", "to_path": str(tree),
            "to_name": "more", "status": "NFS4_OK",
        },
    ]  # fmt: skip


def test_refused_calls_are_recorded_and_those_that_the_kernel_refuses_are_not(
    made: Callable[..., Audited], tree: Path
) -> None:
    it = made("refused", hosts=(ip_network("192.0.2.1/32"),))
    server, client = it.server, it.client()
    root = server.mount("/data", peer="192.0.2.1")
    tree.chmod(0o700)
    mine = {"uid": 1000, "acting_uid": None, "export": "/data"}
    assert server.status("remove", v3.REMOVE3args(server.dirop(root, "x")), as_=ALICE, peer="192.0.2.1") == "ACCES"
    assert it.taken() == []
    assert server.call("mnt", "/data", as_=ALICE, peer="192.0.2.9").fhs_status.name == "MNT3ERR_ACCES"
    read = v3.READ3args(v3.nfs_fh3(root), 0, 1)
    assert server.status("read", read, as_=ALICE, peer="192.0.2.9") == "ACCES"
    assert client.run(putrootfh(), lookup("data")).status == "ACCESS"
    refused = {"kind": "refused", **mine, "status": "EACCES"}
    hosts = ["192.0.2.9", "192.0.2.9", "192.0.2.7"]
    assert it.taken() == [{**refused, "host": host} for host in hosts]


def test_refusals_of_an_export_of_a_url_that_a_reload_adds_are_recorded(made: Callable[..., Audited]) -> None:
    it = made("refused")
    nowhere = (ip_network("192.0.2.1/32"),)
    change = ExportsChange(
        it.server.services,
        it.conversation.service,
        [Export(name="/u", url="file:///usr", read_only=True, hosts=nowhere)],
    )
    change.plan()
    change.install(1)
    assert it.server.call("mnt", "/u", as_=ALICE).fhs_status.name == "MNT3ERR_ACCES"
    assert [(record["export"], record["status"]) for record in it.taken()] == [("/u", "EACCES")]


def test_a_call_with_another_flavor_is_recorded_with_its_refusal(made: Callable[..., Audited]) -> None:
    it = made("refused", "remove", security=(SecurityFlavor.KRB5,))
    server, client = it.server, it.client()
    dirop = server.dirop(server.mount("/data"), "hello.txt")
    with pytest.raises(CredentialTooWeak):
        server.call("remove", v3.REMOVE3args(dirop), as_=ALICE)
    assert client.run(putrootfh(), lookup("data")).status == "WRONGSEC"
    assert [(record["kind"], record["status"]) for record in it.taken()] == [
        ("refused", "AUTH_TOOWEAK"), ("remove", "AUTH_TOOWEAK"), ("refused", "AUTH_TOOWEAK"),
    ]  # fmt: skip
    proved = AuthGss(principal="alice@EXAMPLE", flavor=SecurityFlavor.KRB5, user=LocalUser(1000, 1000))
    assert server.status("remove", v3.REMOVE3args(dirop), as_=proved) == "OK"
    (record,) = it.taken()
    assert (record["principal"], record["uid"], record["acting_uid"]) == ("alice@EXAMPLE", None, 1000)


@each_case("terms", [{"hosts": ()}, {"security": (SecurityFlavor.KRB5,), "anonymous_uid": 2222}])
def test_a_mount_that_no_rule_admits_acts_as_the_first_rule_for_the_host_has_it(
    made: Callable[..., Audited], terms: dict[str, Any]
) -> None:
    krb5 = AccessTerms(principals=("bob@EXAMPLE",), security=(SecurityFlavor.KRB5,), anonymous_uid=1111)
    it = made("mount", "remove", rules=(AccessTerms(hosts=(), anonymous_uid=3333), krb5), **terms)
    dirop = it.server.dirop(it.server.mount("/data", as_=ALICE), "hello.txt")
    grant = it.server.services.nfs.exports.trees[0].admit_mount(it.server.contexts[-1], 3)
    assert [grant.identity.uid, *(record["acting_uid"] for record in it.taken())] == [1111, 1111]
    with pytest.raises(CredentialTooWeak):
        it.server.call("remove", v3.REMOVE3args(dirop), as_=ALICE)
    assert [record["acting_uid"] for record in it.taken()] == [None]


def test_a_call_at_which_the_server_fails_is_recorded(
    made: Callable[..., Audited], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = made("mount", "remove")
    server = it.server
    gone = v3.REMOVE3args(server.dirop(server.mount("/data"), "none"))
    it.taken()
    exports = server.services.nfs.exports
    for failing, method in ((exports.trees[0], "admit_mount"), (exports, "locate")):
        monkeypatch.setattr(failing, method, None)
    for procedure, args in (("mnt", "/data"), ("remove", gone)):
        with pytest.raises(TypeError):
            server.call(procedure, args)
    assert [(record["operation"], record["status"]) for record in it.taken()] == [
        ("MNT", "SYSTEM_ERR"), ("REMOVE", "SYSTEM_ERR"),
    ]  # fmt: skip


def test_names_of_clients_break_no_record(made: Callable[..., Audited]) -> None:
    it = made("remove")
    server, client = it.server, it.client()
    root = server.mount("/data")
    names = [b'a"\n}{\x1b[2J\0', b"\xff\xfe", "gr\u00fcn \u202e".encode(), b"\\ud800"]
    for name in names:
        server.status("remove", v3.REMOVE3args(server.dirop(root, name.decode("utf-8", "surrogateescape"))), as_=ALICE)
    of_three = it.taken()
    for name in names:
        client.run(putrootfh(), lookup("data"), (28).to_bytes(4, "big") + opaque(name))
    of_four = it.taken()
    for record in (of_three, of_four):
        found = [bytes.fromhex(each.get("name_octets", "")) or each["name"].encode() for each in record]
        assert found == names
        assert [each["name"] for each in record][1] == "\ufffd\ufffd"
    proved = AuthGss(principal="a" * 5000, flavor=SecurityFlavor.SYS)
    server.status("remove", v3.REMOVE3args(server.dirop(root, "none")), as_=proved)
    assert [each["principal"] for each in it.taken()] == ["a" * MNTPATHLEN]


def test_calls_that_are_not_wanted_are_not_touched(made: Callable[..., Audited]) -> None:
    it = made("rename")
    assert replaced(it.server) == ["rename"]
    assert "mnt" not in vars(it.server.services.mount)
    assert [number for number in HANDLERS if it.conversation.service.handlers[number] is not HANDLERS[number]] == [29]
    it.server.mount("/data")
    assert it.taken() == []


def test_another_audit_takes_the_place_of_the_former_and_one_of_nothing_leaves_nothing(
    made: Callable[..., Audited],
) -> None:
    it = made("rename", "refused", hosts=[ip_network("127.0.0.1")])
    client = it.client()
    root = it.server.mount("/data")
    gone = v3.REMOVE3args(it.server.dirop(root, "none"))
    service, admission = it.conversation.service, it.server.services.nfs.exports.parts.admission

    def change(*kinds: str) -> None:
        audit = Audit(kinds, it.lines.append, lambda: 1_700_000_000_123_456_789)
        audit.watch(it.server.services)
        watch_compounds(audit, service)

    def records() -> list[str]:
        it.server.status("remove", gone)
        it.server.call("mnt", "/data", peer="192.0.2.9")
        client.run(putrootfh(), lookup("other"), remove("none"))
        return [f"{each['kind']} {each.get('operation')}" for each in it.taken()]

    assert records() == ["refused None"]
    change("remove", "mount")
    assert records() == ["remove REMOVE", "mount MNT", "mount LOOKUP", "remove REMOVE"]
    change("remove", "refused")
    change("remove", "refused")
    assert records() == ["remove REMOVE", "refused None", "remove REMOVE"]
    change()
    assert records() == []
    assert (replaced(it.server), "mnt" in vars(it.server.services.mount)) == ([], False)
    assert vars(admission).keys() & {"check", "check_mount"} == set()
    assert service.handlers is HANDLERS


# The command


def test_the_command_writes_the_log_that_its_settings_ask_for(start: Any, tmp_path: Path) -> None:
    def given(*words: str) -> Any:
        args = build_parser().parse_args(["serve", str(tmp_path), *words])
        effective(args).put_into(args)
        return args

    assert table.AUDIT_KINDS == AUDIT_KINDS
    server = start()
    log = AccessLog(server.services, None, given())
    log.close()
    assert log.lost is None
    assert replaced(server) == []
    words = ("--access-log", str(tmp_path / "log"), "--audit", "mount", "--audit", "remove")
    with contextlib.closing(AccessLog(server.services, None, given(*words))):
        server.status("rmdir", v3.RMDIR3args(server.dirop(server.mount(), "none")))
        server.create(server.mount(), "file")
    with pytest.raises(OSError, match=r"cannot write the access log: .*/none/log: no such file .*; name a file in a"):
        AccessLog(server.services, None, given("--access-log", str(tmp_path / "none/log")))
    found = [json.loads(line)["operation"] for line in (tmp_path / "log").read_text().splitlines()]
    assert found == ["MNT", "RMDIR", "MNT"]


@each_case(
    ("settings", "fault"),
    [
        ('access-log = "log"', ""),
        ('access-log = "journal"', ""),
        ('audit = ["mount"]', "1: audit has no effect without access-log; set it"),
        ('access-log = "none/log"', "1: there is no directory {0}/none; make it"),
        ('access-log = "data"', "1: {0}/data is no regular file; name another one"),
        ('access-log = "log"\naudit = ["read"]', "2: audit is 'read'; write"),
    ],
)
def test_mistakes_about_the_access_log_are_found(tmp_path: Path, settings: str, fault: str) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    file = tmp_path / "c.toml"
    file.write_text(f'{settings}\nstate-dir = "state"\n[[export]]\nname = "/a"\ndirectory = "data"\n')
    args = build_parser().parse_args(["serve", "--config", str(file)])
    found = effective(args)
    found.put_into(args)
    told = [str(each).removeprefix(f"{file}:") for each in find_mistakes(args, found)]
    assert [each[: len(fault.format(tmp_path))] for each in told] == ([fault.format(tmp_path)] if fault else [])
