"""`rpcrdma programs`: entries of a port mapper, programs that answer, and mappers with too long or useless answers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma.limits import PROBED_PROGRAMS_MAX, PROBED_VERSIONS_MAX
from rpcrdma.nfs import mount, port_mapper, v3
from rpcrdma.nfs.port_mapper import binding, binding_entry, mapping, mapping_entry
from rpcrdma.rpc.program import Program, null_procedure
from rpcrdma.rpc.service import ProcedureUnavailable, Service
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Command, Serving

pytestmark = pytest.mark.thorough


class Nfs(v3.NFS_V3_Service):
    pass


class Mount(mount.MOUNT_V3_Service):
    OVER_RDMA = False


class OldMapper(port_mapper.PORT_MAPPER_V2_Service):
    """Its lists are made by the test, as those of the others."""

    OVER_RDMA = False
    listed: list[mapping_entry] = []  # noqa: RUF012 - for a test's instance

    def dump(self, args: None, context: object) -> list[mapping_entry]:
        return self.listed


class Rpcbind(port_mapper.RPCBIND_V4_Service):
    OVER_RDMA = False
    listed: list[binding_entry] = []  # noqa: RUF012 - for a test's instance

    def dump(self, args: None, context: object) -> list[binding_entry]:
        return self.listed


class Rpcbind3(port_mapper.RPCBIND_V3_Service):
    OVER_RDMA = False

    def dump(self, args: None, context: object) -> list[binding_entry]:
        return Rpcbind.listed[:1]


class Versions(Service):
    """Versions 3 and 5 of a program, of which the first is refused."""

    def __init__(self, version: int) -> None:
        self.PROGRAM = Program(0x20000D02, version, "VERSIONS", {0: null_procedure(0x20000D02, version)})
        self.version = version

    def null(self, args: None, context: object) -> None:
        if self.version == 3:
            raise ProcedureUnavailable("NULL")


class Leaving(Service):
    """Ends the connection of each call."""

    PROGRAM = Program(0x20000D04, 2, "LEAVING", {0: null_procedure(0x20000D04, 2)})

    def null(self, args: None, context: Any) -> None:
        context.client.abort("the test ends it")


@pytest.fixture(scope="module", name="nfs")
def nfs_fixture(serving: Serving) -> Iterator[dict[str, str]]:
    with serving([Nfs(), Mount(), Versions(3), Versions(5), Leaving()]) as urls:
        yield urls


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def bound(program: int, version: int, netid: str, port: int, host: str = "0.0.0.0") -> binding_entry:
    return binding_entry(binding(program, version, netid, f"{host}.{port >> 8}.{port & 255}", "superuser"))


def listed(report: dict[str, Any], *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(row[key] for key in keys) for row in report["programs"]]


def test_registered_programs_are_asked_where_they_are(
    nfs: dict[str, str], serving: Serving, command: Command, nobody_listens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rdma, tcp = port_of(nfs["rdma"]), port_of(nfs["tcp"])
    # The host in an address counts for nothing: only the URL's is ever connected to.
    entries = [
        bound(100003, 3, "tcp", tcp, "192.0.2.1"), bound(100003, 4, "tcp", tcp), bound(100003, 3, "udp", tcp),
        bound(100003, 3, "rdma", rdma), bound(100005, 3, "tcp", nobody_listens), bound(100021, 4, "tcp", 0),
        bound(100003, 3, "tcp6", nobody_listens, "::"), bound(100003, 5, "tcp6", tcp, "::"),
        binding_entry(binding(100000, 4, "local", "/run/\x9brpcbind.sock", "")),
    ]  # fmt: skip
    monkeypatch.setattr(Rpcbind, "listed", entries)
    with serving([Rpcbind(), Rpcbind3()]) as mapper:
        words = ["programs", "tcp://127.0.0.1", "--port-mapper", str(port_of(mapper["tcp"]))]
        report = command.done(*words, "--json").json
        table = command.done(*words).lines
    assert report["port_mapper"] == {"port": port_of(mapper["tcp"]), "version": 4, "error": None}
    assert report["url"] == "tcp://127.0.0.1", "no port was given, and only those registered are asked"
    assert listed(report, "program", "version", "netid", "port", "answers", "registered") == [
        (100000, 4, "local", None, None, True),
        (100003, 3, "rdma", rdma, True, True),
        (100003, 3, "tcp", tcp, True, True),
        (100003, 3, "tcp6", nobody_listens, None, True),
        (100003, 3, "udp", tcp, None, True),
        (100003, 4, "tcp", tcp, False, True),
        (100003, 5, "tcp6", tcp, None, True),
        (100005, 3, "tcp", nobody_listens, False, True),
        (100021, 4, "tcp", None, None, True),
    ]
    errors = [row["error"] for row in report["programs"] if row["error"]]
    assert errors[0] == "the responder offers version 3 of the program"
    assert "connection refused" in errors[1]
    assert table[0].split() == ["program", "version", "name", "transport", "port", "registered", "answers"]
    assert table[1].split() == ["100000", "4", "portmapper", "local", "/run/\\x9brpcbind.sock", "yes", "not", "asked"]
    assert table[3].split() == ["100003", "3", "nfs", "tcp", str(tcp), "yes", "yes"]


@pytest.mark.req("V1-84")
@each_case(
    ("host", "any_host", "own", "others"), [("127.0.0.1", "0.0.0.0", "rdma", "rdma6"), ("[::1]", "::", "rdma6", "rdma")]
)
def test_the_netids_of_rdma_lead_to_services_of_either_family_of_addresses(
    host: str, any_host: str, own: str, others: str, serving: Serving, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving([Nfs()], host) as nfs, serving([Rpcbind()], host) as mapper:
        port = port_of(nfs["rdma"])
        entries = [bound(100003, 3, netid, port, any_host) for netid in (own, others)]
        monkeypatch.setattr(Rpcbind, "listed", entries)
        words = ["programs", f"tcp://{host}", "--port-mapper", str(port_of(mapper["tcp"])), "--json"]
        report = command.done(*words).json
    assert set(listed(report, "netid", "port", "answers")) == {(own, port, True), (others, port, None)}


@pytest.mark.parametrize(("services", "version", "rows"), [([Rpcbind3], 3, 1), ([OldMapper], 2, 2)])
def test_older_port_mappers_are_understood(
    services: list[type[Service]], version: int, rows: int, nfs: dict[str, str], serving: Serving, command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    tcp = port_of(nfs["tcp"])
    monkeypatch.setattr(Rpcbind, "listed", [bound(100003, 3, "tcp", tcp)])
    old = [mapping_entry(mapping(100003, 3, 6, tcp)), mapping_entry(mapping(100003, 3, 99, 1 << 16))]
    monkeypatch.setattr(OldMapper, "listed", old)
    with serving([each() for each in services]) as mapper:
        words = ["programs", "tcp://127.0.0.1", "--port-mapper", str(port_of(mapper["tcp"])), "--json"]
        report = command.done(*words).json
    assert report["port_mapper"]["version"] == version
    expected = [(3, "99", None, None), (3, "tcp", tcp, True)][2 - rows :]
    assert listed(report, "version", "netid", "port", "answers") == expected


@pytest.mark.parametrize("scheme", ["rdma", "tcp"])
def test_the_port_of_the_url_is_asked_without_a_port_mapper(
    scheme: str, nfs: dict[str, str], command: Command, nobody_listens: int
) -> None:
    words = ["programs", nfs[scheme], "--port-mapper", str(nobody_listens), "--program", "0x20000d02"]
    ran = command.done(*words, "--program", "7", "--program", "0x20000d04", "--json")
    mounted = [(100005, 3, scheme, True, None)] if scheme == "tcp" else []
    *rows, (program, version, netid, answers, error) = listed(
        ran.json, "program", "version", "netid", "answers", "error"
    )
    # Its refusal named the version, for which the connection has ended.
    assert (program, version, netid, answers) == (0x20000D04, 2, scheme, False)
    assert "not offered" not in error
    assert rows == [
        (7, None, scheme, False, "not offered here"),
        (100003, 3, scheme, True, None),
        *mounted,
        (0x20000D02, 3, scheme, False, "the responder does not offer the procedure"),
        (0x20000D02, 4, scheme, False, "the responder offers versions 3 to 5 of the program"),
        (0x20000D02, 5, scheme, True, None),
    ]
    assert "connection refused" in ran.json["port_mapper"]["error"]
    ran = command.done(*words)
    assert ran.err.startswith("note: cannot connect to 127.0.0.1:")
    assert len(ran.err.splitlines()) == 1


def test_a_program_that_claims_many_versions_has_few_of_them_asked(
    serving: Serving, command: Command, nobody_listens: int
) -> None:
    with serving([Versions(1), Versions(1 << 31)]) as urls:
        words = ["programs", urls["tcp"], "--port-mapper", str(nobody_listens), "--program", "0x20000d02", "--json"]
        report = command.done(*words).json
    expected = [(version, version == 1) for version in range(1, PROBED_VERSIONS_MAX + 1)]
    assert listed(report, "version", "answers") == expected


def test_nothing_to_ask_is_status_3(command: Command, nobody_listens: int) -> None:
    mapper = ["--port-mapper", str(nobody_listens)]
    ran = command.run("programs", "tcp://127.0.0.1", *mapper)
    assert (ran.status, ran.err.splitlines()[1]) == (
        3,
        "hint: or name a port of the server to ask: tcp://127.0.0.1:PORT",
    )
    ran = command.run("programs", "tcp://[::1]", *mapper)
    assert ran.err.endswith("tcp://[::1]:PORT\n")
    for scheme in ("rdma", "tcp"):
        ran = command.run("programs", f"{scheme}://127.0.0.1:{nobody_listens}", *mapper)
        assert (ran.status, len(ran.err.splitlines())) == (3, 2)


def test_a_port_of_the_url_that_does_not_answer_is_told_beside_the_list(
    serving: Serving, command: Command, nobody_listens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rpcbind, "listed", [bound(100003, 3, "udp", 2049)])
    with serving([Rpcbind()]) as mapper:
        words = ["programs", f"rdma://127.0.0.1:{nobody_listens}", "--port-mapper", str(port_of(mapper["tcp"]))]
        ran = command.done(*words)
        assert "connection refused" in command.done(*words, "--json").json["error"]
    assert ran.err.startswith(f"note: nothing answers at rdma://127.0.0.1:{nobody_listens}: ")
    assert len(ran.lines) == 2


def test_a_mapper_that_lists_thousands_has_few_of_them_asked(
    serving: Serving, command: Command, nobody_listens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rpcbind, "listed", [bound(number, 1, "tcp", nobody_listens) for number in range(4096)])
    with serving([Rpcbind()]) as mapper:
        words = ["programs", "tcp://127.0.0.1", "--port-mapper", str(port_of(mapper["tcp"])), "--json"]
        report = command.done(*words).json
    answers = [row["answers"] for row in report["programs"]]
    assert (answers.count(False), answers.count(None)) == (PROBED_PROGRAMS_MAX, 4096 - PROBED_PROGRAMS_MAX)


def test_calls_find_their_port_at_the_port_mapper(
    nfs: dict[str, str], serving: Serving, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    tcp = port_of(nfs["tcp"])
    entries = [(3, "tcp", 1), (5, "tcp6", 1), (5, "tcp", tcp)]
    monkeypatch.setattr(Rpcbind, "listed", [bound(0x20000D02, version, *each) for version, *each in entries])
    definition = "program P { version V { void NULL(void) = 0; } = 5; } = 0x20000d02;"
    other = "program P { version V { void NULL(void) = 0; } = 5; } = 0x20000d03;"
    with serving([Rpcbind()]) as mapper:
        monkeypatch.setattr("rpcrdma.nfs.client.port_mapper.PORT_MAPPER_PORT", port_of(mapper["tcp"]))
        for text, status in ((definition, 0), (other, 3)):
            monkeypatch.setattr("sys.stdin", io.StringIO(text))
            ran = command.run("call", "tcp://127.0.0.1", "-", "NULL")
            assert ran.status == status
    assert ran.err == (
        "error: 127.0.0.1 has no program 536874243 over TCP registered at its port mapper\n"
        "hint: write the port of the server: tcp://127.0.0.1:PORT\n"
    )
