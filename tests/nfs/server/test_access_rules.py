"""Rules of an export: versions 3 and 4 and MOUNT obey the first one that matches a call, all alike."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conversation import Conversation, FakeConnection, with_version_4
from rpcrdma.nfs import v3
from rpcrdma.nfs.export import access_control, export_limits
from rpcrdma.nfs.export.access_control import HostAdmission
from rpcrdma.nfs.export.access_terms import AccessTerms, Export, ExportTerms
from rpcrdma.nfs.export.grant import Grant, ServingUser
from rpcrdma.nfs.export.tree import Refused
from rpcrdma.rpc.auth import AuthGss, AuthNone, AuthSys, Credential, LocalUser
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.host_identity import CallOrigin, HostIdentity, Transport, XprtSec
from rpcrdma.rpc.service import CredentialTooWeak
from served_directory import Server
from support.cases import each_case
from support.nfs4_client import (
    WRITE,
    Client,
    access,
    close,
    create_session,
    exchange_id,
    getfh,
    lookup,
    open_,
    putfh,
    putrootfh,
    readdir,
    secinfo,
    secinfo_no_name,
    write,
)

SYS, KRB5, KRB5P, NONE = SecurityFlavor.SYS, SecurityFlavor.KRB5, SecurityFlavor.KRB5P, SecurityFlavor.NONE
USER = AuthSys(uid=os.geteuid(), gid=os.getegid())
NO_DELEGATION = 0x400
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")


def networks(*texts: str) -> tuple[Any, ...]:
    return tuple(map(ipaddress.ip_network, texts))


def proved(principal: str, flavor: SecurityFlavor = KRB5P) -> AuthGss:
    return AuthGss(principal=principal, flavor=flavor, user=LocalUser(os.geteuid(), os.getegid()))


def certificate(name: str) -> HostIdentity:
    return HostIdentity(dns_names=(name,), addresses=(), uris=(), subject="", issuer="", channel_binding=bytes(32))


def origin(
    host: str = "192.0.2.7", name: str = "", transport: Transport = "tcp", xprtsec: XprtSec | None = None, **more: Any
) -> CallOrigin:
    """The origin of calls; with the name of a certificate over TLS."""
    identity = certificate(name) if name else None
    over = xprtsec or ("mtls" if name and transport == "tcp" else "none")
    return CallOrigin(host, transport, xprtsec=over, identity=identity, **more)


class Both:
    """A server of both versions over one directory, exported as /d."""

    def __init__(self, start: Callable[..., Server], tree: Path, tmp_path: Path, **terms: Any) -> None:
        self.terms = {"root_squash": False} | terms
        self.directory = tree
        self.server = start([self.export("/d", **self.terms)])
        self.four: Conversation = with_version_4(self.server, tmp_path)
        # A host that no rule admits has its session from a time at which one did.
        self.four.service.exports.check_host = lambda _context: None  # type: ignore[method-assign]
        (self.tree,) = self.server.services.nfs.exports.trees
        self.clients = 0

    def export(self, name: str, **terms: Any) -> Export:
        return Export(name=name, directory=self.directory, **terms)

    def three(self, name: str, args: Any, who: Credential, source: CallOrigin) -> str:
        """The status of a call of version 3 or MOUNT."""
        try:
            reply = self.server.call(name, args, as_=who, peer=source.host, **_without_host(source))
        except CredentialTooWeak:
            return "TOOWEAK"
        status = reply.fhs_status if name == "mnt" else reply.status
        return str(status.name).removeprefix("NFS3ERR_").removeprefix("NFS3_").removeprefix("MNT3ERR_")

    def client(self, who: Credential, source: CallOrigin) -> Client:
        connection = FakeConnection()
        connection.origin = source
        self.clients += 1
        return self.four.client(f"client-{self.clients}", credential=who, connection=connection).start()


def _without_host(source: CallOrigin) -> dict[str, Any]:
    return {key: value for key, value in source._asdict().items() if key != "host"}


RULES = (
    AccessTerms(hosts=networks("192.0.2.66"), denied=True),
    AccessTerms(hosts=networks("192.0.2.7"), root_squash=False, security=(SYS, KRB5P)),
    AccessTerms(certificates=("trusted.example",), xprtsec="mtls", root_squash=False),
    AccessTerms(principals=("bob@LAB",), denied=True, security=(KRB5P,)),
    AccessTerms(hosts=networks("198.51.100.0/24"), principals=("*@LAB",), security=(KRB5P,), root_squash=False),
    AccessTerms(hosts=networks("198.51.100.8"), xprtsec="tls", read_only=True),
    AccessTerms(hosts=networks("198.51.100.0/24", "192.0.2.0/24"), read_only=True),
)
CALLERS: tuple[tuple[str, Credential, CallOrigin, str], ...] = (
    ("the first rule is no other host's", USER, origin("192.0.2.66"), "none"),
    ("an IPv4 address in IPv6 is that address", USER, origin("::ffff:192.0.2.66"), "none"),
    ("a host", USER, origin("192.0.2.7"), "rw"),
    ("a host, over RDMA", USER, origin("192.0.2.7", transport="rdma"), "rw"),
    ("a host, by another flavor", proved("eve@OTHER"), origin("192.0.2.7"), "rw"),
    ("a host, by a flavor that its rule does not take", proved("eve@OTHER", KRB5), origin("192.0.2.7"), "weak"),
    ("a certificate", USER, origin("203.0.113.1", "trusted.example"), "rw"),
    ("another certificate", USER, origin("203.0.113.1", "other.example"), "none"),
    ("a certificate of a wildcard", USER, origin("203.0.113.1", "*.example"), "none"),
    ("a certificate without TLS, proved over RDMA", USER, origin("203.0.113.1", "trusted.example", "rdma"), "none"),
    ("a principal", proved("alice@LAB"), origin("198.51.100.1"), "rw"),
    ("a principal that an earlier rule refuses", proved("bob@LAB"), origin("198.51.100.1"), "none"),
    ("a principal of another realm", proved("alice@LAB.OTHER"), origin("198.51.100.1"), "weak"),
    ("a principal without a realm, of its name", proved("LAB"), origin("198.51.100.1"), "weak"),
    ("a principal of another host", proved("alice@LAB"), origin("203.0.113.1"), "none"),
    ("a principal by a flavor that its rule does not take", proved("alice@LAB", KRB5), origin("198.51.100.1"), "weak"),
    ("no principal: a later rule", USER, origin("198.51.100.1"), "ro"),
    ("TLS that is missing", USER, origin("198.51.100.8"), "plain"),
    ("TLS", USER, origin("198.51.100.8", xprtsec="tls"), "ro"),
    ("a network", USER, origin("192.0.2.8"), "ro"),
    ("no rule", USER, origin("203.0.113.1"), "none"),
)
"""Name, credential and origin of a caller, and what it may do; "weak": it should use another flavor."""


@needs_root
def test_mount_and_both_versions_obey_the_first_rule_that_matches(
    start: Callable[..., Server], tree: Path, tmp_path: Path
) -> None:
    both = Both(start, tree, tmp_path, rules=RULES, denied=True)
    file = v3.nfs_fh3(both.server.lookup(both.server.mount("/d", peer="192.0.2.7"), "hello.txt", peer="192.0.2.7"))
    data = v3.WRITE3args(file, 0, 1, v3.stable_how.FILE_SYNC, b"h")
    sized = v3.SETATTR3args(file, both.server.sattr(mode=0o644), v3.sattrguard3(False, None))
    seen: dict[str, list[Any]] = {}
    expected: dict[str, list[Any]] = {}
    for name, who, source, may in CALLERS:
        passes = may in {"rw", "ro"}
        three = "OK" if passes else "TOOWEAK" if may == "weak" else "ACCES"
        four = "OK" if passes else "WRONGSEC" if may == "weak" else "ACCESS"
        change_3, change_4 = ("ROFS", "ROFS") if may == "ro" else (three, four)
        client = both.client(who, source)
        opened = client.run(putfh(file.data), open_(b"o", WRITE | NO_DELEGATION))
        written = "NOFILE"
        if opened.status == "OK":
            stateid = opened.value(18)["stateid"]
            written = client.run(putfh(file.data), write(stateid, 0, b"h")).status
            client.run(putfh(file.data), close(stateid))
        answered = both.server.call
        rights_3 = rights_4 = None
        if passes:
            reply = answered("access", v3.ACCESS3args(file, 0x3F), as_=who, peer=source.host, **_without_host(source))
            rights_3 = reply.value.access
            rights_4 = client.run(putfh(file.data), access(0x3F)).value(3)[1]
        seen[name] = [
            both.three("getattr", v3.GETATTR3args(file), who, source),
            both.three("read", v3.READ3args(file, 0, 10), who, source),
            both.three("write", data, who, source),
            both.three("setattr", sized, who, source),
            client.run(putrootfh(), lookup("d")).status,
            client.run(putfh(file.data), getfh()).status,
            opened.status,
            written,
            rights_3,
            rights_4,
        ]
        rights = {"rw": 0x0D, "ro": 0x01}.get(may)
        expected[name] = [three, three, change_3, change_3, four, four, change_4]
        expected[name] += ["OK" if may == "rw" else "NOFILE", rights, rights]
    assert seen == expected


class Call:
    """The part of a call that admission looks at."""

    def __init__(self, who: Credential = USER, source: CallOrigin | None = None) -> None:
        self.credential = who
        self.client = SimpleNamespace(origin=source or origin())


def admitted(terms: ExportTerms, who: Credential = USER, source: CallOrigin | None = None, **more: Any) -> Grant | str:
    """The rights of a call, or the word for its refusal."""
    call: Any = Call(who, source)
    try:
        return HostAdmission(lambda _user: ServingUser()).check(terms, call, **more)
    except Refused:
        return "refused"
    except CredentialTooWeak:
        return "weak"


def test_mount_lets_in_each_host_that_some_rule_fits_whatever_it_proves_and_names_the_flavors() -> None:
    terms = ExportTerms(name="/d", rules=RULES, denied=True)
    admission = HostAdmission(lambda _user: ServingUser())
    seen: dict[str, list[str] | None] = {}
    for name, _, source, _ in CALLERS:
        call: Any = Call(AuthNone(), source)
        try:
            admission.check_mount(terms, call)
            seen[name] = [*map(str, admission.flavors(terms, call))]
        except Refused:
            seen[name] = None
    refused = {name for name, _, _, may in CALLERS if may == "none"}
    assert {name for name, found in seen.items() if found is None} == refused - {
        "a principal that an earlier rule refuses"
    }
    # Those of all rules that a caller of the host may match, in their order; a rule for all callers is the last one.
    assert seen["a host"] == ["sys", "krb5p"]
    assert seen["a principal"] == ["krb5p", "sys", "none"]


def test_a_caller_without_a_proof_is_asked_for_one_if_a_rule_for_principals_fits_its_host() -> None:
    rule = AccessTerms(hosts=networks("192.0.2.0/24"), principals=("*@LAB",), security=(SYS, KRB5P))
    terms = ExportTerms(name="/d", rules=(rule,), denied=True)
    assert admitted(terms) == "weak"
    assert admitted(terms, USER, origin("198.51.100.1")) == "refused"
    assert admitted(terms, proved("a@OTHER")) == "refused"
    assert isinstance(admitted(terms, proved("a@LAB")), Grant)
    call: Any = Call()
    assert HostAdmission(lambda _user: ServingUser()).flavors(terms, call) == [KRB5P]


@each_case(
    ("terms", "source", "version", "passes"),
    [
        ({"transports": ("rdma",)}, origin(), 3, False),
        ({"transports": ("rdma",)}, origin(transport="rdma"), 3, True),
        ({"transports": ("tcp",)}, origin(transport="rdma"), 4, False),
        ({"versions": (4,)}, origin(), 3, False),
        ({"versions": (4,)}, origin(), 4, True),
        ({"versions": (3,)}, origin(), 4, False),
        ({"reserved_port": True}, origin(), 3, False),
        ({"reserved_port": True}, origin(reserved_port=True), 3, True),
        ({"reserved_port": True}, origin(transport="rdma"), 3, True),
        ({"hosts": ()}, origin(), 3, False),
    ],
)
def test_an_export_is_closed_to_other_versions_transports_and_ports(
    terms: dict[str, Any], source: CallOrigin, version: int, passes: bool
) -> None:
    export = ExportTerms(name="/d", **terms)
    assert isinstance(admitted(export, USER, source, version=version), Grant) is passes


def test_a_proof_of_the_user_takes_the_place_of_a_port_of_root() -> None:
    terms = ExportTerms(name="/d", reserved_port=True, security=(SYS, KRB5))
    assert isinstance(admitted(terms, proved("a@LAB", KRB5)), Grant)


def test_a_caller_acts_as_the_rule_says_and_not_as_the_export_does() -> None:
    users: list[Any] = []

    def noted(user: Any) -> ServingUser:
        users.append(user)
        return ServingUser()

    rules = (
        AccessTerms(hosts=networks("192.0.2.1"), root_squash=False),
        AccessTerms(hosts=networks("192.0.2.2"), all_squash=True, anonymous_uid=7, anonymous_gid=8),
    )
    terms = ExportTerms(name="/d", rules=rules, anonymous_uid=9)
    admission = HostAdmission(noted)
    for host in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        call: Any = Call(AuthSys(uid=0, gid=0), origin(host))
        admission.check(terms, call)
    assert users == [(0, 0, ()), (7, 8, ()), (9, 65534, ())]


def test_the_rules_are_looked_through_once_for_an_origin_with_a_principal(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str | None] = []
    matching = ExportTerms.matching

    def noted(self: ExportTerms, source: CallOrigin, principal: str | None) -> AccessTerms | None:
        looked.append(principal)
        return matching(self, source, principal)

    monkeypatch.setattr(ExportTerms, "matching", noted)
    monkeypatch.setattr(access_control, "NFS_DECISIONS_MAX", 3)
    assert export_limits.NFS_DECISIONS_MAX == 1024
    admission = HostAdmission(lambda _user: ServingUser())
    terms = ExportTerms(name="/d", rules=RULES)
    other = dataclasses.replace(terms, denied=True)

    def check(terms: ExportTerms, who: Credential, host: str) -> None:
        call: Any = Call(who, origin(host))
        with contextlib.suppress(Refused, CredentialTooWeak):
            admission.check(terms, call)

    for _ in range(3):
        for number in range(2):
            check(terms, AuthSys(uid=number, gid=7), "192.0.2.7")
        check(terms, proved("a@LAB"), "192.0.2.7")
        check(terms, USER, "203.0.113.1")
    assert looked == [None, "a@LAB", None]
    # Other terms of the name, as after a reload, are looked through, also if a thread still has the former ones.
    check(other, USER, "203.0.113.1")
    check(terms, USER, "203.0.113.1")
    assert looked[3:] == [None, None]
    for number in range(20):
        check(terms, USER, f"192.0.2.{number}")
        assert len(admission._known) <= 3
    admission.forget()
    assert not admission._known
    assert admission.latest.terms is None


def test_a_call_of_the_same_caller_asks_no_rule(start: Callable[..., Server], tree: Path, tmp_path: Path) -> None:
    both = Both(start, tree, tmp_path, rules=(AccessTerms(hosts=networks("192.0.2.0/24")),), denied=True)
    call: Any = Call()
    call.may_block = True
    entered: list[str] = []

    def note(frame: Any, event: str, _argument: Any) -> None:
        if event == "call":
            entered.append(frame.f_code.co_name)

    for _ in range(3):
        entered.clear()
        sys.setprofile(note)
        both.server.services.nfs.exports.locate(both.tree.root.handle, call)
        sys.setprofile(None)
    assert entered == ["locate", "is_inside"]


@needs_root
def test_exports_that_are_hidden_or_of_one_version_are_shown_to_nobody_else(
    start: Callable[..., Server], tree: Path, tmp_path: Path
) -> None:
    exports = [
        Export(name=name, directory=tree, root_squash=False, **terms)
        for name, terms in (
            ("/shown", {"hosts": networks("192.0.2.0/24"), "rules": (AccessTerms(hosts=networks("::1")),)}),
            ("/closed", {"rules": (AccessTerms(hosts=networks("192.0.2.0/24")),), "denied": True}),
            ("/nobody", {"hosts": ()}),
            ("/none", {"denied": True}),
            ("/hidden", {"hidden": True}),
            ("/deep/hidden", {"hidden": True}),
            ("/three", {"versions": (3,)}),
            ("/four", {"versions": (4,), "security": (KRB5,)}),
        )
    ]
    server = start(exports)
    listed = {node.ex_dir: [group.gr_name for group in node.ex_groups] for node in server.call("export")}
    assert listed == {"/shown": ["::1/128", "192.0.2.0/24"], "/closed": ["192.0.2.0/24"], "/three": []}
    four = with_version_4(server, tmp_path)
    client = four.client(credential=USER).start()
    entries = client.run(putrootfh(), readdir()).value(26)[0]
    assert [entry[1] for entry in entries] == [b"closed", b"four", b"nobody", b"none", b"shown"]
    assert client.run(putrootfh(), lookup("hidden"), getfh()).status == "OK"
    assert client.run(putrootfh(), lookup("deep"), lookup("hidden"), getfh()).status == "OK"
    assert client.run(putrootfh(), lookup("deep"), readdir()).value(26)[0] == []
    assert client.run(putrootfh(), lookup("three")).status == "NOENT"
    three, handle = server.mount("/three"), server.services.nfs.exports.trees[-1].root.handle
    assert client.run(putfh(three)).status == "ACCESS"
    assert server.mount("/hidden") == client.handle("hidden")
    assert str(server.call("mnt", "/four").fhs_status.name) == "MNT3ERR_ACCES"
    assert server.getattr_status(handle, as_=proved("a@LAB", KRB5)) == "ACCES"


@needs_root
def test_version_4_names_the_flavors_of_the_rules_that_fit_the_host(
    start: Callable[..., Server], tree: Path, tmp_path: Path
) -> None:
    rules = (
        AccessTerms(hosts=networks("192.0.2.0/24"), principals=("*@LAB",), security=(KRB5P,)),
        AccessTerms(hosts=networks("192.0.2.0/24", "203.0.113.0/24"), security=(SYS,)),
    )
    both = Both(start, tree, tmp_path, rules=rules, denied=True)
    seen = {}
    for host in ("192.0.2.7", "203.0.113.7", "198.51.100.7"):
        client = both.client(USER, origin(host))
        by_name = client.run(putrootfh(), secinfo("d"))
        of_current = client.run(putrootfh(), lookup("d"), secinfo_no_name())
        seen[host] = [
            reply.status if reply.status != "OK" else len(reply.results[-1][-1]) for reply in (by_name, of_current)
        ]
    assert seen == {"192.0.2.7": [2, 2], "203.0.113.7": [1, 1], "198.51.100.7": ["ACCESS", "ACCESS"]}


@needs_root
def test_a_host_that_may_use_no_export_of_version_4_is_no_client_and_the_log_has_its_refusal(
    start: Callable[..., Server], tree: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def export(name: str, *hosts: str, **terms: Any) -> Export:
        return Export(name=name, directory=tree, hosts=networks(*hosts), **terms)

    of_lab = AccessTerms(hosts=networks("203.0.113.7"), principals=("*@LAB",), security=(KRB5P,))
    trusted = AccessTerms(certificates=("trusted.example",), xprtsec="mtls")
    server = start(
        [
            export("/one", "192.0.2.1", rules=(of_lab, trusted)),
            export("/two", "192.0.2.2"),
            export("/three", "192.0.2.3", versions=(3,)),
        ]
    )
    four = with_version_4(server, tmp_path)
    clients = {}

    def introduced(name: str, source: CallOrigin) -> str:
        connection = FakeConnection()
        connection.origin = source
        client = clients[name] = four.client(name, credential=USER, connection=connection)
        return client.compound(exchange_id(client.owner, client.verifier)).status

    assert introduced("a", origin("192.0.2.1")) == introduced("b", origin("192.0.2.2", transport="rdma")) == "OK"
    assert introduced("c", origin("203.0.113.7")) == "OK", "a user of it may prove to be one of the lab"
    assert introduced("d", origin("198.51.100.7", "trusted.example")) == "OK"
    assert not caplog.records
    for number in range(3):
        assert introduced(f"{number}", origin("198.51.100.7")) == "PERM"
    assert introduced("3", origin("192.0.2.3")) == "PERM"
    assert [record.args[:2] for record in caplog.records] == [  # type: ignore[index]
        ("198.51.100.7", "/one"),
        ("192.0.2.3", "/one"),
    ]
    assert len(four.state.clients.by_id) == 4
    exports = server.services.nfs.exports
    exports.install(exports.plan([export("/two", "198.51.100.7")]))
    four.service.exports.renew(1)
    assert introduced("4", origin("198.51.100.7")) == "OK"
    assert clients["a"].compound(create_session(next(iter(four.state.clients.by_id)), 1)).status == "STALE_CLIENTID"


def test_terms_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for wrong in (
        {"principals": ("alice",)},
        {"principals": ("al*@LAB",)},
        {"certificates": ("*.example",)},
        {"xprtsec": "ssl"},
    ):
        with pytest.raises(ValueError, match=r"principal|name of a host|xprtsec"):
            AccessTerms(**wrong)
    for other in ({"transports": ()}, {"transports": ("udp",)}, {"versions": (2,)}, {"groups": "Server"}):
        with pytest.raises(ValueError, match=r"transports|versions|groups"):
            ExportTerms(name="/d", **other)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot be written"):
        Export(name="/d", url="memory://x", read_only=True, rules=(AccessTerms(),))
