"""A missing directory, or a host without an address, keeps no other export from being served."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from rpcrdma.cli.host_names import HostNames
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.served_exports import ServedExports
from rpcrdma.cli.settings.effective import effective
from rpcrdma.cli.settings.rules import doubts
from rpcrdma.cli.waiting_exports import WaitingExports
from rpcrdma.nfs.export.file_access import Callers
from rpcrdma.nfs.export.server_state import open_state
from rpcrdma.nfs.server import Export, NfsServices, build_services
from rpcrdma.nfs.server.exports_change import ExportsChange
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.rpc.host_identity import CallOrigin
from support.cases import each_case


def waiting(folder: Path, text: str, names: HostNames | None = None) -> WaitingExports:
    file = folder / "c.toml"
    file.write_text(text)
    found = effective(build_parser().parse_args(["serve", "--config", str(file)]))
    assert found.faults == []
    return WaitingExports(found.exports, names)


def table(name: str, *more: str) -> str:
    return "\n".join(["[[export]]", f'name = "{name}"', f'directory = "dirs{name}"', *more, ""])


@contextmanager
def served(found: WaitingExports, folder: Path) -> Iterator[NfsServices]:
    with closing(open_state(folder / "state", bytes)) as state:
        services = build_services(found.ready(), state=state)
        yield services
        services.nfs.close()


def names(services: NfsServices) -> list[str]:
    return [tree.export.name for tree in services.nfs.exports.trees]


def look(found: WaitingExports, services: NfsServices, above: PseudoRoot | None = None, now_ns: int = 0) -> set[str]:
    """Serves what can be served by now; returns the names of new exports."""
    before = {export.name for export in found.absent}
    change = ExportsChange(services, None, found.ready())
    change.plan()
    change.install(now_ns)
    if above is not None:
        above.renew(now_ns)
    return before - {export.name for export in found.absent}


@pytest.mark.parametrize("url", ["", '[[export]]\nname = "/url"\nurl = "file:///usr"\n'])
def test_an_export_is_served_when_its_directory_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    (tmp_path / "dirs" / "a").mkdir(parents=True)
    found = waiting(tmp_path, table("/a") + table("/late/b") + url)
    with served(found, tmp_path) as services:
        at_first = ["/a", *(["/url"] if url else [])]
        assert names(services) == at_first
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        directory = tmp_path / "dirs/late/b"
        assert caplog.messages == [
            f"/late/b is not served: {directory}: no such file or directory; it will be once that is mended"
        ]
        above = PseudoRoot(services.nfs.exports, 5)
        number, a = above.root.attributes().number, above.at((b"a",))
        mounted_on, handle = above.mounted_on(a), above.root.handle
        assert look(found, services, above, 6) == set()
        assert len(caplog.records) == 1, "told once"
        assert above.names_below(()) == [name[1:].encode() for name in at_first]
        directory.mkdir(parents=True)
        assert look(found, services, above, 7) == {"/late/b"}
        # In the order of the file.
        assert names(services) == ["/a", "/late/b", *at_first[1:]]
        assert above.names_below(()) == sorted([name[1:].encode() for name in at_first] + [b"late"])
        # Clients that know the root see that it has changed, and that it is the same.
        root = above.root.attributes()
        assert (root.number, root.change, above.root.handle) == (number, 7, handle)
        assert above.mounted_on(above.at((b"a",))) == mounted_on
        late = above.at((b"late", b"b"))
        assert above.export_of(late.handle) is late.tree
        assert above.mounted_on(late) not in {None, mounted_on, number, above.at((b"late",)).attributes().number}
        assert look(found, services, above, 8) == set()


def test_a_url_is_served_when_its_store_is_there_and_stays_while_it_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "dirs" / "a").mkdir(parents=True)
    store = tmp_path / "store"
    settings = table("/a") + f'[[export]]\nname = "/url"\nurl = "file://{store}"\n'
    found = waiting(tmp_path, settings)
    with served(found, tmp_path) as services:
        assert names(services) == ["/a"]
        (message,) = caplog.messages
        assert message.startswith(f"/url is not served: cannot export file://{store}: nothing is there")
        assert message.endswith("or correct the URL; it will be once that is mended")
        store.mkdir()
        assert look(found, services) == {"/url"}
        tree = services.nfs.exports.trees[1]
        store.rmdir()
        # A reload makes all exports anew.
        again = WaitingExports(found.exports, served=found.ready())
        look(again, services)
        assert services.nfs.exports.trees[1] is tree


def host(name: str) -> CallOrigin:
    return CallOrigin(name, "tcp")


def test_hosts_without_an_address_are_admitted_once_they_have_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: dict[str, str] = {}

    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        if host not in addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (addresses[host], 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    for name in ("a", "b"):
        (tmp_path / "dirs" / name).mkdir(parents=True)
    found = waiting(tmp_path, table("/a", 'hosts = ["one"]') + table("/b", 'hosts = ["one", "192.0.2.1"]'))
    with served(found, tmp_path) as services:
        a, b = services.nfs.exports.trees
        assert a.export.matching(host("192.0.2.7"), None) is None
        assert [b.export.fits(host(name)) for name in ("192.0.2.1", "192.0.2.7")] == [True, False]
        assert [message.partition(" (")[0] for message in caplog.messages] == [
            f"{name} does not admit one: neither an address, a network nor a host name" for name in ("/a", "/b")
        ]
        look(found, services)
        assert not a.export.fits(host("192.0.2.7"))
        addresses["one"] = "192.0.2.7"
        look(found, services)
        assert [tree.export.hosts for tree in (a, b)] == [
            (ipaddress.ip_network("192.0.2.7/32"),),
            (ipaddress.ip_network("192.0.2.7/32"), ipaddress.ip_network("192.0.2.1/32")),
        ]
        assert services.nfs.exports.parts.admission._known == {}, "an earlier refusal is forgotten"


RULE = '[[export.rule]]\nhosts = ["one"]\n'


@each_case(
    ("terms", "waits"),
    [
        (f'{RULE}access = "none"', True),
        (f'{RULE}access = "ro"', True),
        (f'{RULE}squash = "all"', True),
        (f'squash = "all"\nanonuid = 0\n{RULE}anonuid = 65534', True),
        (f'squash = "all"\n{RULE}anongid = 7', True),
        (f'{RULE}xprtsec = "mtls"', True),
        (f'{RULE}sec = ["krb5p"]', True),
        (f'{RULE}access = "ro"\n[[export.rule]]\naccess = "none"', True),
        (f'access = "ro"\n{RULE}access = "rw"\nsquash = "none"', False),
        (f'access = "none"\n{RULE}access = "ro"', False),
    ],
)
def test_no_host_has_the_rights_of_a_later_rule_because_its_name_has_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terms: str, waits: bool
) -> None:
    known: list[Any] = []

    def look_up(*_: Any, **__: Any) -> list[Any]:
        if not known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    (tmp_path / "dirs/a").mkdir(parents=True, exist_ok=True)
    names = HostNames()
    found = waiting(tmp_path, table("/a", terms), names)
    assert [export.name for export in found.ready()] == ([] if waits else ["/a"])
    (mistake,) = (each for each in doubts(found.exports[0], names) if "host name" in each.text)
    assert mistake.is_warning is not waits
    known.append((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 0)))
    (export,) = found.ready()
    assert [str(each) for each in export.rules[0].hosts or ()] == ["192.0.2.7/32"]


def test_a_mount_point_is_served_while_something_is_mounted_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / "dirs" / name).mkdir(parents=True)
    mounted: set[str] = set()
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name in mounted)
    found = waiting(tmp_path, table("/a") + table("/b", "mount-point = true"))
    with served(found, tmp_path) as services:
        assert names(services) == ["/a"]
        mounted.add("b")
        look(found, services)
        assert names(services) == ["/a", "/b"]


def test_an_export_that_cannot_be_served_keeps_no_other_waiting_and_counts_as_absent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfit = {"/bad"}

    def try_out(_callers: object, export: Export) -> None:
        if export.name in unfit:
            raise PermissionError(errno.EPERM, "the server cannot act as user 65534")

    monkeypatch.setattr(Callers, "try_out", try_out)
    (tmp_path / "dirs/a").mkdir(parents=True)
    found = waiting(tmp_path, table("/a") + table("/bad") + table("/b"))
    with served(found, tmp_path) as services:

        async def looks() -> None:
            exports = ServedExports(services, None, found, found.ready(), AsyncMock())
            for name in ("bad", "b"):
                (tmp_path / "dirs" / name).mkdir()
            caplog.clear()
            assert [export.name for export in await exports.look()] == ["/b"]
            assert names(services) == exports.names == ["/a", "/b"]
            assert [export.name for export in exports.absent] == ["/bad"]
            assert await exports.look() == []
            text = "/bad is not served: the server cannot act as user 65534; it will be once that is mended"
            assert caplog.messages == [text], "told once"
            unfit.clear()
            assert [export.name for export in await exports.look()] == ["/bad"]
            assert (names(services), exports.absent) == (["/a", "/bad", "/b"], [])

        asyncio.run(looks())


def test_an_export_that_must_be_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "dirs" / "a").mkdir(parents=True)
    place = re.escape(f"{tmp_path}/c.toml:4: ")
    with pytest.raises(OSError, match=f"{place}.*/dirs/b: no such file"):
        waiting(tmp_path, table("/a") + table("/b", 'missing = "fail"')).ready()
    url = f'[[export]]\nname = "/url"\nurl = "file://{tmp_path}/gone"\nmissing = "fail"\n'
    with pytest.raises(OSError, match=f"{place}cannot export file://.*; check that the store runs"):
        waiting(tmp_path, table("/a") + url).ready()
    with pytest.raises(OSError, match="no file system is mounted there; mount it"):
        waiting(tmp_path, table("/a", 'missing = "fail"', "mount-point = true")).ready()
    # Of the command line every export must be there.
    found = effective(build_parser().parse_args(["serve", "--export", f"b={tmp_path}/dirs/b"]))
    with pytest.raises(FileNotFoundError):
        WaitingExports(found.exports).ready()
