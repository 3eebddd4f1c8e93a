"""SIGHUP at `serve --config`: which changes a running server takes, and how it reports the others and mistakes."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma.cli import serve_reload
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.serve_reload import ConfigurationReload
from rpcrdma.cli.service_manager import ServiceManager
from rpcrdma.cli.settings.effective import effective
from rpcrdma.cli.settings.table import OF_SERVER
from rpcrdma.commands.setting import Renewal
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.file_limits import CONFIGURATION_FAULTS_MAX
from support.cases import each_case
from support.command_process import HANG_S
from support.loops import in_virtual_time
from support.waiting import time_passes

if TYPE_CHECKING:
    from support.commands import StartServer

FILE = """\
log-level = "info"
workers = 4
listen = ["tcp://127.0.0.1:0"]
[[export]]
name = "/one"
directory = "one"
"""
LISTENING = "listening at tcp://127.0.0.1:2049"


class Manager(ServiceManager):
    """Keeps the notifications in place of sending them."""

    def __init__(self) -> None:
        super().__init__({})
        self.told: list[str] = []

    def tell(self, *assignments: str) -> None:
        """Keeps the notification, without the time."""
        self.told += [each for each in assignments if not each.startswith("MONOTONIC_USEC=")]


class Reloading:
    """The reloads of a server with a configuration file; `renewals` counts those of the certificates."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        given = build_parser().parse_args(["serve", "--config", str(path), *options])
        self.reload = ConfigurationReload(argparse.Namespace(**vars(given)), effective(given))
        self.manager = Manager()
        self.renewals = 0
        self.events: list[dict[str, Any]] = []

    def _renew(self) -> None:
        self.renewals += 1

    async def again(self, text: str | None = None, *, requests: int = 1) -> list[str]:
        """Reloads after a change of the file; returns the notifications."""
        if text is not None:
            self.path.write_text(text)
        run = self.reload.run(self.manager, LISTENING, self._renew, lambda event, _: self.events.append(event))
        task = asyncio.create_task(run)
        for _ in range(requests):
            self.reload.request()
        await time_passes(1)
        task.cancel()
        told, self.manager.told = self.manager.told, []
        return [line.replace(str(self.path), "c.toml") for line in told]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    path = tmp_path / "c.toml"
    path.write_text(FILE)
    level = logging.getLogger().level
    yield path
    logging.getLogger().setLevel(level)


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
        ('"/one"', '"/two"', "c.toml:4: the new export /two needs a restart (and 1 more)"),
        ('"one"', '"two"', "c.toml:4: the source of /one needs a restart"),
        ('"one"\n', '"one"\naccess = "ro"\n', "c.toml:7: access of /one needs a restart"),
        ("[[export]]", '[defaults]\naccess = "ro"\n[[export]]', "c.toml:5: access of /one needs a restart"),
        ("workers", "# a comment moves all lines\nworkers", None),
    ],
)
def test_a_change_that_the_server_cannot_take_is_named_with_its_line(
    file: Path, caplog: pytest.LogCaptureFixture, old: str, new: str, waiting: str | None
) -> None:
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
        assert await reloading.again(FILE) == ["RELOADING=1", "READY=1", f"STATUS={LISTENING}"]

    reload()
    logged = [record.message.replace(str(file), "c.toml") for record in caplog.records]
    assert logged[:1] == ([] if waiting is None else [waiting.partition(" (")[0]])
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_a_removed_export_is_named(file: Path) -> None:
    file.write_text(FILE + '[[export]]\nname = "/two"\ndirectory = "two"\n')

    @in_virtual_time
    async def reload() -> None:
        told = await Reloading(file).again(FILE)
        assert told[-1] == "STATUS=reloaded, but c.toml: the removal of the export /two needs a restart"

    reload()


@each_case(
    ("text", "status"),
    [
        (FILE.replace("info", "loud"), '1: log-level is \'loud\'; write "debug", "info", "warning" or "error"'),
        ("workers = 0\nlog-level", "2: this is no TOML"),
        (FILE.replace('"one"', '"absent"') + "squish = 1\n", "7: unknown key"),
        (FILE.replace("info", "error").replace('"one"', '"absent"\nmissing = "fail"'), "4: /"),
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

    reloading._renew = unfit  # type: ignore[method-assign]
    *_, status = await reloading.again(FILE.replace("info", "error"))
    assert status.startswith("STATUS=reload refused: default: no certificate in s.pem")
    assert logging.getLogger().level != logging.ERROR


@in_virtual_time
async def test_many_requests_at_once_are_one_reading(file: Path) -> None:
    assert await Reloading(file).again(requests=100) == ["RELOADING=1", "READY=1", f"STATUS={LISTENING}"]


@in_virtual_time
async def test_a_fault_of_the_program_ends_no_later_reload(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reloading = Reloading(file)
    with monkeypatch.context() as patch:
        patch.setattr(serve_reload, "find_mistakes", lambda *_: 1 / 0)
        assert await reloading.again() == ["RELOADING=1", "READY=1", "STATUS=reload refused: see the log"]
    assert await reloading.again() == ["RELOADING=1", "READY=1", f"STATUS={LISTENING}"]


@in_virtual_time
async def test_the_lines_of_a_reload_are_bounded(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    reloading = Reloading(file)
    await reloading.again("".join(f"a{number} = 1\n" for number in range(CONFIGURATION_FAULTS_MAX + 5)))
    assert len(caplog.records) == CONFIGURATION_FAULTS_MAX + 1
    assert caplog.records[-1].message == "and 5 more"
    assert len(reloading.events[0]["faults"]) == CONFIGURATION_FAULTS_MAX


def test_a_reload_applies_each_setting_of_its_class() -> None:
    # `ConfigurationReload` applies these by name.
    assert [each.name for each in OF_SERVER if each.renewal is Renewal.HANG_UP] == ["log-level"]


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
            for text, status in ((FILE + "x = 1", "STATUS=reload refused: "), (FILE, "STATUS=listening at ")):
                file.write_text(text)
                served.process.send_signal(signal.SIGHUP)
                beginning = manager.recv(4096).decode().splitlines()
                assert beginning[0] == "RELOADING=1"
                assert int(beginning[1].removeprefix("MONOTONIC_USEC=")) > 0
                assert manager.recv(4096).decode().startswith(f"READY=1\n{status}")
            assert served.stop() == 0
    assert [event["ok"] for event in served.events if event["event"] == "reload"] == [False, True]
