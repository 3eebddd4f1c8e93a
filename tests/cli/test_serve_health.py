"""The health of a server: readiness, exports that go away, and certificates that expire."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rpcrdma
from rpcrdma.aio.server.metrics import Health
from rpcrdma.cli import export_sources
from rpcrdma.cli.export_options import Exported
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.serve_health import ServerHealth, expiry_warning
from rpcrdma.cli.settings.check import find_mistakes
from rpcrdma.cli.settings.effective import effective
from rpcrdma.cli.waiting_exports import WaitingExports
from rpcrdma.limits import EXPORT_NEEDED_ANSWERS_S
from support.command_process import HANG_S
from support.host_certificates import Authority

DAY_S = 86400
CONFIGURATION = """
[[export]]
name = "/must"
directory = "must"
missing = "fail"
[[export]]
name = "/may"
directory = "may"
[[export]]
name = "/late"
directory = "late"
"""


def test_a_server_is_ready_while_the_exports_are_there_that_must_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for name in ("must", "may"):
        (tmp_path / name).mkdir()
    (tmp_path / "c.toml").write_text(CONFIGURATION)
    exports = effective(build_parser().parse_args(["serve", "--config", str(tmp_path / "c.toml")])).exports
    waiting = WaitingExports(exports)
    waiting.ready()
    health = ServerHealth(lambda: exports, lambda: waiting.absent, None)
    assert health.state().unready == "the server starts"
    health.look()
    registered: Any = SimpleNamespace(complete=False)
    health.ready(registered)
    there = {"/must": True, "/may": True, "/late": False}
    assert health.state() == Health("", there, registered=False, version=rpcrdma.__version__)
    caplog.clear()
    (tmp_path / "may").rmdir()
    health.look()
    assert health.state() == Health("", {**there, "/may": False}, registered=False, version=rpcrdma.__version__)
    (tmp_path / "must").rmdir()
    health.look()
    health.look()
    cause = f"/must is away: {tmp_path}/must: no such file or directory"
    assert health.state().unready == cause
    # What `rpcrdma admin` shows.
    assert sorted(health.away()) == ["/late", "/may", "/must"]
    assert caplog.messages == [f"/may is away: {tmp_path}/may: no such file or directory", cause]
    (tmp_path / "must").mkdir()
    health.look()
    assert (health.state().unready, caplog.messages[-1]) == ("", "/must is there again")
    health.stopping()
    assert health.state().unready == "the server stops"


def test_a_file_system_that_does_not_answer_makes_its_export_alone_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "well").mkdir()
    arguments = [f"--export=hung={tmp_path}", f"--export=well={tmp_path / 'well'}"]
    hung, well = exports = effective(build_parser().parse_args(["serve", *arguments])).exports
    end, asked, now_s = threading.Event(), threading.Semaphore(0), [0.0]
    reached = export_sources.reached_source

    def silent(export: Exported) -> Path | None:
        asked.release()
        if export is hung:
            assert end.wait(HANG_S)
        return reached(export)

    monkeypatch.setattr(export_sources, "reached_source", silent)
    monkeypatch.setattr(export_sources, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(export_sources, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    health = ServerHealth(lambda: exports, lambda: (), None)
    sources = health._sources
    first = threading.Thread(target=health.look)
    first.start()
    for _ in exports:
        assert asked.acquire(timeout=HANG_S)
    with sources._changed:
        assert sources._changed.wait_for(lambda: not sources.is_silent(well), HANG_S)
    assert (health.away(), sources.is_silent(hung)) == ({}, True)
    now_s[0] = EXPORT_NEEDED_ANSWERS_S
    with sources._changed:
        sources._changed.notify_all()
    first.join(HANG_S)
    cause = {"/hung": "the directory of /hung does not answer"}
    assert health.away() == cause
    (tmp_path / "well").rmdir()
    health.look()
    assert health.away() == {**cause, "/well": f"{tmp_path / 'well'}: no such file or directory"}
    end.set()
    with sources._changed:
        assert sources._changed.wait_for(lambda: not sources.is_silent(hung), HANG_S)
    health.look()
    assert list(health.away()) == ["/well"]


def test_a_server_is_not_ready_while_it_cannot_write_what_must_survive() -> None:
    database: Any = SimpleNamespace(failure="")
    health = ServerHealth(lambda: (), lambda: (), None, None, database)
    health.ready(None)
    for failure, written in (("", True), ("/s/clients.sqlite3: database or disk is full", False), ("", True)):
        database.failure = failure
        assert (health.state().unready, health.state().state_written) == (failure, written)


def test_readings_of_the_configuration_are_reported() -> None:
    now_s = [5.0]
    health = ServerHealth(lambda: (), lambda: (), None, wall_clock=lambda: now_s[0])

    def told() -> tuple[bool | None, float | None]:
        return health.state().reload_taken, health.state().reload_taken_at_s

    assert told() == (None, None), "a server without a configuration file"
    for now_s[0], taken, expected in ((6.0, True, (True, 6.0)), (7.0, False, (False, 6.0)), (8.0, True, (True, 8.0))):
        health.configuration_read(taken)
        assert told() == expected


def test_an_expiring_certificate_is_reported_once_a_day(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate = Authority(tmp_path).issue("host.example", days=(-1, 30))
    now_s = [time.time()]
    health = ServerHealth(lambda: (), lambda: (), certificate, wall_clock=lambda: now_s[0])
    begin_s = now_s[0]
    for day in (0, 15.9, 16.1, 16.1001, 17.2, 31):
        now_s[0] = begin_s + day * DAY_S
        health.look()
    assert [message.split()[1] for message in caplog.messages] == ["expires", "expires", "has"]
    assert caplog.messages[0].endswith(" UTC; renew the certificate")
    expires_s = health.state().certificate_expires_s
    assert expires_s is not None
    assert abs(expires_s - begin_s - 30 * DAY_S) < 300
    certificate.write_text("")
    health.look()
    assert health.state().certificate_expires_s is None
    assert expiry_warning(certificate, now_s[0]) is None


def test_a_check_warns_of_an_expiring_certificate(tmp_path: Path) -> None:
    certificate = Authority(tmp_path).issue("host.example", days=(-1, 13))
    (tmp_path / "exported").mkdir()
    args = build_parser().parse_args(
        ["serve", "--tls-cert", str(certificate), "--tls-key", str(certificate), f"{tmp_path}/exported"]
    )
    found = effective(args)
    found.put_into(args)
    (warning,) = find_mistakes(args, found)
    assert warning.is_warning
    assert warning.text.startswith(f"{certificate} expires at ")
