"""SIGHUP at `serve --config`: which changes a running server takes, and how it reports the others and mistakes."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from local_tcp import with_threads
from rpcrdma.aio.client.connect import connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.cli import running_server, serve_reload
from rpcrdma.cli.settings import check
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.nfs import v3
from support.cases import each_case
from support.command_process import HANG_S
from support.functions_entered import functions_entered
from support.loops import in_virtual_time
from support.reloading import FILE, LISTENING, ONE, TWO, Reloading
from support.waiting import time_passes, until

if TYPE_CHECKING:
    from support.commands import StartServer
    from support.host_pair import Hosts

RULE = '[[export.rule]]\nhosts = ["192.0.2.1"]\naccess = "ro"\n'


@in_virtual_time
async def test_the_level_of_the_log_and_certificates_are_taken_without_a_restart(file: Path) -> None:
    reloading = Reloading(file)
    assert await reloading.again(FILE.replace("info", "error")) == ["RELOADING=1", "READY=1", f"STATUS={LISTENING}"]
    assert logging.getLogger().level == logging.ERROR
    assert reloading.events.pop() == {"event": "reload", "ok": True, "applied": ["log-level"], "needs_restart": []}
    await reloading.again(FILE.partition("\n")[2])
    assert logging.getLogger().level == logging.INFO, "the default of serve"
    assert reloading.renewals == 2
    await reloading.again()
    assert reloading.events.pop()["applied"] == []


@in_virtual_time
async def test_the_command_line_goes_before_a_changed_file(file: Path) -> None:
    logging.getLogger().setLevel("WARNING")
    reloading = Reloading(file, "--log-level", "warning", "--workers", "4")
    told = await reloading.again(FILE.replace("info", "debug").replace("workers = 4", "workers = 5"))
    assert told[-1] == f"STATUS={LISTENING}"
    assert logging.getLogger().level == logging.WARNING


@each_case(
    ("old", "new", "waiting"),
    [
        ("workers = 4", "workers = 5", "c.toml:2: workers needs a restart"),
        ("workers = 4\n", "", "c.toml: workers needs a restart"),
        ("workers = 4\n", 'workers = 4\nmemory = "32Mi"\n', "c.toml:3: memory needs a restart"),
        ('"one"\n', '"one"\nsec = ["krb5p"]\n', "c.toml:7: sec of /one needs a restart"),
        ("[[export]]", '[defaults]\nsec = ["krb5p"]\n[[export]]', "c.toml:5: sec of /one needs a restart"),
        ('"one"\n', '"one"\n' + TWO + 'sec = ["krb5i"]\n', "c.toml:10: sec of /two needs a restart"),
        ('"one"\n', '"one"\n' + RULE + 'sec = ["krb5"]\n', "c.toml:7: a rule of /one needs a restart"),
        (ONE, TWO + 'sec = ["krb5i"]\n', "c.toml:7: sec of /two needs a restart"),
        ("workers", "# a comment moves all lines\nworkers", None),
    ],
)
def test_a_change_that_the_server_cannot_take_is_named_with_its_line(
    file: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    old: str,
    new: str,
    waiting: str | None,
) -> None:
    monkeypatch.setattr(check, "is_installed", lambda _package: True)
    file.write_text(FILE)
    caplog.clear()

    @in_virtual_time
    async def reload() -> None:
        reloading = Reloading(file)
        assert old in FILE
        expected = LISTENING if waiting is None else f"reloaded, but {waiting}"
        changed = FILE.replace(old, new)
        for _ in range(2):  # the running server has the old value at the second reading as well
            assert await reloading.again(changed) == ["RELOADING=1", "READY=1", f"STATUS={expected}"]
        assert reloading.names == ["/one"]
        assert await reloading.again(FILE) == ["RELOADING=1", "READY=1", f"STATUS={LISTENING}"]
        assert reloading.ended == [True] * 3

    reload()
    logged = [record.message.replace(str(file), "c.toml") for record in caplog.records]
    assert logged[:1] == ([] if waiting is None else [waiting.partition(" (")[0]])
    assert all(record.levelno == logging.WARNING for record in caplog.records)


@in_virtual_time
async def test_exports_and_their_terms_are_taken_at_once_and_all_else_waits(file: Path) -> None:
    reloading = Reloading(file)
    await reloading.again(FILE.replace("workers = 4", "workers = 5") + 'access = "ro"\n' + TWO)
    event = reloading.events.pop()
    assert event["applied"] == ["access of /one", "the new export /two"]
    assert [each["message"] for each in event["needs_restart"]] == ["workers needs a restart"]
    assert reloading.names == ["/one", "/two"]
    assert [tree.export.read_only for tree in reloading.services.nfs.exports.trees] == [True, False]
    await reloading.again(FILE.replace("one", "two"))
    assert reloading.events.pop()["applied"] == ["the removal of /one"]
    await reloading.again(FILE.replace('"one"', '"two"'))
    assert reloading.events.pop()["applied"] == ["the new export /one", "the removal of /two"]
    await reloading.again(FILE)
    assert reloading.events.pop()["applied"] == ["the source of /one"]
    await reloading.again(FILE + RULE)
    assert reloading.events.pop()["applied"] == ["a rule of /one"]
    (tree,) = reloading.services.nfs.exports.trees
    assert [rule.read_only for rule in tree.export.rules] == [True]


@in_virtual_time
async def test_an_export_that_waits_for_a_restart_is_opened_to_nobody_else_meanwhile(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "is_installed", lambda _package: True)
    before = FILE + 'hosts = ["192.0.2.1"]\naccess = "ro"\n'
    reloading = Reloading(file)
    await reloading.again(before)
    (tree,) = reloading.services.nfs.exports.trees
    terms = tree.export
    for after in (
        FILE + 'hosts = ["*"]\nsec = ["krb5p"]\n',
        FILE + '[[export.rule]]\nhosts = ["192.0.2.2"]\naccess = "none"\n[[export.rule]]\nsec = ["krb5p"]\n',
    ):
        assert "needs a restart" in (await reloading.again(after))[-1]
        assert reloading.events.pop()["applied"] == []
        assert [tree.export for tree in reloading.services.nfs.exports.trees] == [terms]


CERTIFICATE = 'tls-cert = "CERTIFICATE"\nhost-auth = "off"\n'
JUDGED = CERTIFICATE + 'tls-ca = "AUTHORITIES"\n'
NAMES = 'tls-name = ["a.example"]\n'
OF_HOST = '[[export.rule]]\ncertificates = ["kiosk.example"]\naccess = "none"\n'
REQUIRED = JUDGED.replace('host-auth = "off"\n', "")


@each_case(
    ("before", "after", "waiting"),
    [
        (FILE, JUDGED + FILE + OF_HOST, ["tls-cert", "tls-ca", "host-auth", "a rule of /one"]),
        (JUDGED + FILE, NAMES + JUDGED + FILE + TWO + 'xprtsec = "mtls"\n', ["tls-name", "xprtsec of /two"]),
        (JUDGED + FILE, REQUIRED + FILE + TWO, ["host-auth", "/two with host authentication"]),
        (CERTIFICATE + FILE, REQUIRED + FILE + TWO, ["tls-ca", "host-auth", "/two with host authentication"]),
        # Exports that stay as they are need no restart, nor do rules for which the server is prepared.
        (JUDGED + FILE + OF_HOST, NAMES + JUDGED + FILE + OF_HOST, ["tls-name"]),
        (JUDGED + FILE, JUDGED + FILE + OF_HOST, []),
    ],
)
def test_what_certificates_are_to_close_is_not_open_until_the_server_judges_them(
    file: Path, hosts: Hosts, before: str, after: str, waiting: list[str]
) -> None:
    def text(shown: str) -> str:
        return shown.replace('"CERTIFICATE"', f'"{hosts.server}"').replace("AUTHORITIES", str(hosts.authority.path))

    file.write_text(text(before))

    @in_virtual_time
    async def reload() -> None:
        reloading = Reloading(file)
        for _ in range(2):
            await reloading.again(text(after))
            event = reloading.events.pop()
            assert [each["message"].removesuffix(" needs a restart") for each in event["needs_restart"]] == waiting
            assert reloading.names == ["/one"]
            (tree,) = reloading.services.nfs.exports.trees
            assert len(tree.export.rules) == (OF_HOST in (before if waiting else after))

    reload()


def test_exports_over_tls_alone_are_taken_while_an_address_of_rdma_is_kept(file: Path, hosts: Hosts) -> None:
    certificate = CERTIFICATE.replace("CERTIFICATE", str(hosts.server))
    before = certificate + FILE.replace("tcp://127.0.0.1:0", 'rdma://[::]:20049", "tcp://[::]:2049')
    after = certificate + FILE.replace("tcp://127.0.0.1:0", "tcp://0.0.0.0:2049") + 'xprtsec = "tls"\n'
    file.write_text(before)

    @in_virtual_time
    async def reload() -> None:
        reloading = Reloading(file)
        for text in (after, after + 'access = "ro"\n'):
            assert "listen needs a restart" in (await reloading.again(text))[-1]
            assert reloading.server.changes == []
            (tree,) = reloading.services.nfs.exports.trees
            assert tree.export.xprtsec == "tls"

    reload()


@in_virtual_time
async def test_hosts_stay_refused_while_their_names_cannot_be_looked_up(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[str] = []

    def look_up(*_: Any, **__: Any) -> list[Any]:
        if not addresses:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    addresses[:] = ["192.0.2.1"]
    reloading = Reloading(file)
    await reloading.again(FILE + '[[export.rule]]\nhosts = ["untrusted.example"]\naccess = "none"\n')
    # A reload without an answer hands the addresses on to the next one.
    for found, expected in (([], "192.0.2.1"), ([], "192.0.2.1"), (["192.0.2.2"], "192.0.2.2"), ([], "192.0.2.2")):
        addresses[:] = found
        await reloading.again()
        (tree,) = reloading.services.nfs.exports.trees
        assert [str(each) for rule in tree.export.rules for each in rule.hosts or ()] == [f"{expected}/32"]


@in_virtual_time
async def test_an_export_comes_without_a_reload_while_the_path_of_another_leads_elsewhere_or_nowhere(
    file: Path,
) -> None:
    async def fails(_: object) -> None:
        raise OSError("no disk")

    (file.parent / "two").rmdir()
    reloading = Reloading(file)
    await reloading.again(FILE + TWO + TWO.replace("two", "three"))
    (one,) = reloading.services.nfs.exports.trees
    (file.parent / "one").rename(file.parent / "moved")
    plan = reloading.exports._plan
    for name in ("two", "three"):
        (file.parent / name).mkdir()
        if name == "two":
            # It is found, and a disk fails before it is served.
            reloading.exports._plan = fails  # type: ignore[method-assign]
            assert await reloading.exports.look() == []
            reloading.exports._plan = plan  # type: ignore[method-assign]
        assert [export.name for export in await reloading.exports.look()] == [f"/{name}"]
        # A reload alone takes another directory, and lets go of the present one.
        assert next(iter(reloading.services.nfs.exports.trees)) is one
        (file.parent / "one").mkdir(exist_ok=True)
    assert reloading.names == ["/one", "/two", "/three"]


@in_virtual_time
async def test_addresses_and_limits_are_taken_at_once(file: Path) -> None:
    reloading = Reloading(file)
    more = FILE.replace(":0", ':2049", "tcp://127.0.0.1:2050') + TWO
    more = 'connections = 9\nconnections-per-host = 3\ncalls-per-host = 2\nidle-timeout = 7\nmemory = "1Gi"\n' + more
    await reloading.again(more)
    assert reloading.events.pop()["applied"] == [
        "listen", "connections", "connections-per-host", "calls-per-host", "idle-timeout", "memory",
        "the new export /two",
    ]  # fmt: skip
    assert reloading.server.changes == [
        "+tcp://127.0.0.1:2049", "+tcp://127.0.0.1:2050", "-tcp://127.0.0.1:0"
    ]  # fmt: skip
    assert reloading.server.limits == {
        "connections_max": 9, "connections_per_host": 3, "calls_per_host": 2, "rdma_idle_s": 7, "tcp_idle_s": 7,
        "memory_octets_max": 1 << 30,
    }  # fmt: skip
    # An address that is taken by another server refuses all, and the others are given back.
    reloading.server.changes.clear()
    reloading.server.unfit = "tcp://127.0.0.1:3"
    told = await reloading.again(FILE.replace(":0", ":3"))
    assert told[-1].startswith("STATUS=reload refused: c.toml:3: cannot listen at tcp://127.0.0.1:3")
    assert reloading.names == ["/one", "/two"]
    assert reloading.server.changes == ["-tcp://127.0.0.1:3"]
    assert reloading.ended == [True, False]
    assert await reloading.again(more) == ["RELOADING=1", "READY=1", f"STATUS={LISTENING}"]
    assert reloading.events.pop()["applied"] == []


@with_threads
async def test_an_access_log_is_turned_on_and_off_and_moved_at_once_also_onto_a_full_disk(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(name: str) -> list[str]:
        """The names in the records of a log, such as "on" of the removal of this name."""
        return [json.loads(line)["name"] for line in (file.parent / name).read_text().splitlines()]

    full, write = {"full"}, os.write

    def write_unless_full(fd: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{fd}").readlink().name in full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)

    monkeypatch.setattr(os, "write", write_unless_full)
    reloading = Reloading(file)
    services = reloading.services
    root = v3.nfs_fh3(services.nfs.exports.trees[0].root.handle)

    async def reload(settings: str, *applied: str) -> None:
        caplog.clear()
        assert (await reloading.again(settings + FILE))[-1].startswith("STATUS=listening at ")
        assert reloading.events.pop()["applied"] == [*applied]

    async with (
        serve(services, ["tcp://127.0.0.1:0"]) as server,
        connect(server.listening[0], v3.PROGRAM) as client,
    ):
        reloading.running._server = server

        async def remove(name: str) -> None:
            # A name that is not there, or that this user may not remove.
            reply = await client.call(v3.REMOVE, v3.REMOVE3args(v3.diropargs3(root, name)))
            assert reply.status in {v3.nfsstat3.NFS3ERR_NOENT, v3.nfsstat3.NFS3ERR_ACCES}

        await remove("before")
        assert reloading.log.lost is None
        for name in ("first", "second"):
            await reload(f'access-log = "{name}"\n', "access-log")
            await remove("on")
            await until(lambda name=name: written(name) == ["on"])
            if name == "first":
                await reload('access-log = "off"\n', "access-log")
                assert vars(services.nfs).keys() & {"remove", "mkdir"} == set()
                assert "check" not in vars(services.nfs.exports.parts.admission)
                await remove("off")
        # Each full disk is told of, also where one follows another.
        for lost in (1, 2):
            await reload('access-log = "full"\n', "access-log")
            await remove("lost")
            await until(lambda: "records of the access log are lost: no space left on device" in caplog.messages)
            assert reloading.log.lost == lost
            if lost == 1:
                await reload('access-log = "third"\n', "access-log")
                await remove("third")
                await until(lambda: written("third") == ["third"])
                assert "the access log goes elsewhere; 1 records were lost" in caplog.messages
        full.clear()
        await remove("room")
        await until(lambda: "the access log is written again; 2 records were lost" in caplog.messages)
        assert written("full") == ["room"]
        # Other kinds of records.
        await reload('access-log = "full"\naudit = ["mount"]\n', "audit")
        await remove("unwanted")
        unfit = f'audit = ["remove"]\naccess-log = "none/log"\n{FILE}'
        with monkeypatch.context() as patch:
            patch.setattr(check.PathLooks, "faults", lambda *_: ())
            told = (await reloading.again(unfit))[-1]
        assert told.startswith("STATUS=reload refused: c.toml:2: cannot write the access log: ")
        assert told.endswith("(access-log)")
        await remove("refused reload")
        await reload('access-log = "full"\naudit = ["remove"]\n', "audit")
        await remove("wanted")
        reloading.log.close()
        assert (written("second"), written("third"), written("full")) == (["on"], ["third"], ["room", "wanted"])


@each_case(
    ("old", "new", "at_once"),
    [
        ("tcp://[::]:2049", "tcp://0.0.0.0:2049", False),
        ("tcp://0.0.0.0:2049", "tcp://[::]:2049", False),
        ("tcp://[::]:2049", "tcp://0.0.0.0:2050", True),
        ("tcp://[::]:0", "tcp://0.0.0.0:0", True),
        ("tcp://[::]:2049", "rdma://0.0.0.0:2049?provider=verbs", True),
        ("tcp://192.0.2.1:2049", "tcp://192.0.2.2:2049", True),
    ],
)
def test_one_port_is_not_divided_anew_between_the_families(file: Path, old: str, new: str, at_once: bool) -> None:
    file.write_text(FILE.replace("tcp://127.0.0.1:0", old))

    @in_virtual_time
    async def reload() -> None:
        reloading = Reloading(file)
        told = await reloading.again(FILE.replace("tcp://127.0.0.1:0", new))
        assert (told[-1] == f"STATUS={LISTENING}") is at_once, told
        assert reloading.server.changes == ([f"+{new}", f"-{old}"] if at_once else [])

    reload()


@in_virtual_time
async def test_the_service_manager_hears_of_the_end_once_removed_exports_are_closed(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tree,) = Reloading(file).services.nfs.exports.trees
    assert "root" in vars(tree)
    reloading = Reloading(file)
    (tree,) = reloading.services.nfs.exports.trees
    await reloading.again(FILE.replace("one", "two"))
    assert "root" not in vars(tree), "it is closed"
    # A call that hangs keeps the next reload from nothing, and the export is closed at its end.
    (tree,) = reloading.services.nfs.exports.trees
    reloading.server.busy = 3
    assert await reloading.again(FILE) == ["RELOADING=1", "READY=1", f"STATUS={LISTENING}"]
    assert caplog.messages[-1].startswith("removed exports are not closed yet: calls of the server, ")
    assert "root" in vars(tree)
    await until(lambda: "root" not in vars(tree))
    await reloading.exports.close()


@each_case("waits_for_calls", [False, True])
def test_a_cancelled_reload_has_changed_all_or_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, waits_for_calls: bool
) -> None:
    file.write_text(FILE)

    @in_virtual_time
    async def reload() -> None:
        logging.getLogger().setLevel("INFO")
        reloading = Reloading(file)
        noted: list[list[str]] = []
        database = SimpleNamespace(serve=lambda addresses, _exports: noted.append(addresses))
        reloading.running._nfs4 = SimpleNamespace(state=SimpleNamespace(database=database))  # type: ignore[assignment]
        planned = asyncio.Event()

        async def plan(_change: object) -> None:
            planned.set()
            await asyncio.Future()

        if waits_for_calls:
            reloading.server.busy = 3
        else:
            monkeypatch.setattr(reloading.exports, "_plan", plan)
        reloading.path.write_text(FILE.replace("info", "error").replace(":0", ":2049").replace("one", "two"))
        reloading.reload.request()
        run = reloading.reload.run(reloading.manager, reloading.running, reloading._renew, lambda *_: None)
        task = asyncio.create_task(run)
        await until(lambda: reloading.names == ["/two"] if waits_for_calls else planned.is_set())
        await time_passes(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        added, removed = "tcp://127.0.0.1:2049", "tcp://127.0.0.1:0"
        assert reloading.server.changes == [f"+{added}", f"-{removed if waits_for_calls else added}"]
        assert reloading.names == ["/two" if waits_for_calls else "/one"]
        assert logging.getLogger().level == (logging.ERROR if waits_for_calls else logging.INFO)
        assert noted == [[added], *([] if waits_for_calls else [[removed]])]
        await reloading.exports.close()

    reload()


@each_case(
    ("text", "status"),
    [
        (FILE.replace("info", "loud"), '1: log-level is \'loud\'; write "debug", "info", "warning" or "error"'),
        ("workers = 0\nlog-level", "2: this is no TOML"),
        (FILE.replace('"one"', '"absent"') + "squish = 1\n", "7: unknown key"),
        (FILE.replace("info", "error").replace('"one"', '"absent"\nmissing = "fail"'), "4: /"),
        (FILE.replace("workers", f'access-log = "{"a" * 256}"\nworkers'), "2: /"),
        (FILE.replace("workers", "connections = 1000000000000\nworkers"), "2: too few open files are allowed"),
        (FILE.replace("workers", 'host-auth = "optional"\nworkers'), "2: host authentication takes a certificate"),
        ("", " there is no export"),
    ],
)
def test_a_bad_file_changes_nothing(file: Path, caplog: pytest.LogCaptureFixture, text: str, status: str) -> None:
    file.write_text(FILE)
    logging.getLogger().setLevel("INFO")
    caplog.clear()

    @in_virtual_time
    async def reload() -> None:
        reloading = Reloading(file)
        beginning, ready, told = await reloading.again(text)
        assert (beginning, ready) == ("RELOADING=1", "READY=1")
        assert told.startswith(f"STATUS=reload refused: c.toml:{status}"), told
        assert reloading.renewals == 0
        (event,) = reloading.events
        assert (event["event"], event["ok"]) == ("reload", False)
        assert caplog.records[0].message == f"{event['faults'][0]['place']}: {event['faults'][0]['message']}"
        assert caplog.records[0].levelno == logging.ERROR
        assert await reloading.again(FILE) == ["RELOADING=1", "READY=1", f"STATUS={LISTENING}"]

    reload()
    assert logging.getLogger().level == logging.INFO


@in_virtual_time
async def test_a_certificate_that_became_unfit_after_the_check_refuses_the_reload(file: Path) -> None:
    reloading = Reloading(file)

    def unfit() -> None:
        raise HostAuthenticationFailed("no certificate in s.pem")

    noted: list[list[str]] = []
    database = SimpleNamespace(serve=lambda addresses, _exports: noted.append(addresses))
    reloading.running._nfs4 = SimpleNamespace(state=SimpleNamespace(database=database))  # type: ignore[assignment]
    reloading._renew = unfit  # type: ignore[method-assign, assignment]
    *_, status = await reloading.again(FILE.replace("info", "error").replace(":0", ":2049") + TWO)
    assert noted == [["tcp://127.0.0.1:2049"], ["tcp://127.0.0.1:0"]], (
        "clients are found again by the addresses that stay"
    )
    assert status.startswith("STATUS=reload refused: default: no certificate in s.pem")
    assert reloading.names == ["/one"]
    assert logging.getLogger().level != logging.ERROR


@in_virtual_time
async def test_many_requests_at_once_are_one_reading(file: Path) -> None:
    assert await Reloading(file).again(requests=100) == ["RELOADING=1", "READY=1", f"STATUS={LISTENING}"]


@in_virtual_time
async def test_a_fault_of_the_program_refuses_a_reload_as_any_mistake_and_ends_no_later_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reloading = Reloading(file)
    for module, step in ((serve_reload, "find_mistakes"), (running_server, "listen_at")):
        with monkeypatch.context() as patch:
            patch.setattr(module, step, lambda *_: 1 / 0)
            *_, status = await reloading.again(FILE + TWO)
        text = "internal error: ZeroDivisionError: division by zero; please report it with the log"
        assert status == f"STATUS=reload refused: c.toml: {text}"
        entry = {"place": str(file), "message": text, "severity": "error"}
        assert reloading.events.pop() == {"event": "reload", "ok": False, "faults": [entry]}
        assert reloading.ended.pop() is False
        assert reloading.names == ["/one"]
    assert await reloading.again(FILE) == ["RELOADING=1", "READY=1", f"STATUS={LISTENING}"]


@each_case(
    ("directory", "bound"),
    [(lambda number: f"d{number}", 1000), (lambda number: f"d{number + 1000}", 1300)],
)
def test_a_reading_enters_few_functions_for_each_export_a_present_or_a_new_one(
    file: Path, monkeypatch: pytest.MonkeyPatch, directory: Callable[[int], str], bound: int
) -> None:
    async def at_once(work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return work(*arguments, **options)

    def text(number: int, directory: Callable[[int], str]) -> str:
        tables = []
        for each in range(number):
            (file.parent / directory(each)).mkdir(exist_ok=True)
            tables.append(f'[[export]]\nname = "/e{each}"\ndirectory = "{directory(each)}"\naccess = "none"\n{RULE}')
        return FILE + "".join(tables)

    # The profile is one of this thread.
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    entered = []
    for number in (10, 40):
        file.write_text(text(number, lambda each: f"d{each}"))
        reloading = Reloading(file)
        file.write_text(text(number, directory))
        read = reloading.reload._read(reloading.running, None, lambda *_: None)
        entered.append(functions_entered(lambda read=read: asyncio.run(read)))
        assert len(reloading.names) == number + 1
    # 200 exports have 100 ms, in which some 300,000 functions are entered.
    assert entered[1] - entered[0] < 30 * bound


@pytest.mark.thorough
def test_sighup_reloads_and_stops_no_server(
    start: StartServer, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(HANG_S)
        monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
        with start(tmp_path / "one", tmp_path / "state", "--config", str(file)) as served:
            assert manager.recv(4096).startswith(b"READY=1\n")
            audited = f'access-log = "log"\n{FILE}'
            for text, status in ((FILE + "x = 1", "STATUS=reload refused: "), (audited, "STATUS=listening at ")):
                file.write_text(text)
                served.process.send_signal(signal.SIGHUP)
                beginning = manager.recv(4096).decode().splitlines()
                assert beginning[0] == "RELOADING=1"
                assert int(beginning[1].removeprefix("MONOTONIC_USEC=")) > 0
                assert manager.recv(4096).decode().startswith(f"READY=1\n{status}")
            assert served.stop() == 0
    reloads = [event for event in served.events if event["event"] == "reload"]
    assert ([event["ok"] for event in reloads], reloads[1]["applied"]) == ([False, True], ["access-log"])
    assert (tmp_path / "log").stat().st_size == 0
