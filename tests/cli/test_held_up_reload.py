"""A reload that a file system holds up ends with a message that names it, and a long one keeps no call waiting."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rpcrdma.aio.drivers import audit_log
from rpcrdma.cli import export_sources, running_server, serve_audit, serve_reload, served_exports
from rpcrdma.cli.daemon_threads import DaemonThreads
from rpcrdma.nfs.export import giving_way
from rpcrdma.nfs.server.exports_change import ExportsChange
from support.command_process import HANG_S
from support.reloading import FILE, LISTENING, ONE, TWO, Reloading
from support.waiting import until


def test_a_disk_that_does_not_answer_refuses_a_reload_and_holds_up_no_later_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = threading.Event()
    closed = []

    def discard(change: ExportsChange) -> None:
        closed.append(change)

    monkeypatch.setattr(ExportsChange, "discard", discard)

    class Late:
        def __init__(self, *_: object) -> None:
            assert end.wait(HANG_S)

        def close(self) -> None:
            closed.append(self)

    async def reload() -> None:
        asyncio.get_running_loop().set_default_executor(DaemonThreads())
        reloading = Reloading(file, "--state-dir", str(file.parent / "state"))
        reloading.server.renew_handlers = lambda: None
        text = 'access-log = "log"\n' + FILE + TWO

        async def refused(module: Any, bound: str, owner: Any, step: str, told: str) -> None:
            with monkeypatch.context() as patch:
                patch.setattr(module, bound, 0)
                patch.setattr(owner, step, Late)
                *_, status = await reloading.again(text)
            assert status.startswith(f"STATUS=reload refused: c.toml:{told}"), status
            assert reloading.names == ["/one"]

        await refused(serve_reload, "CONFIGURATION_READ_S", serve_reload, "_examined", " reading it, and looking at")
        await refused(serve_audit, "PATH_ANSWERS_S", audit_log, "AuditFile", "1: cannot write the access log: ")
        await refused(running_server, "PATH_ANSWERS_S", reloading, "_renew", " the certificate None, ")
        await refused(served_exports, "EXPORTS_CHANGE_S", ExportsChange, "plan", " opening new exports, and")
        assert (await reloading.again(text))[-1] == f"STATUS={LISTENING}"
        assert reloading.names == ["/one", "/two"]
        end.set()
        await until(lambda: len(closed) == 2)
        assert {type(each) for each in closed} == {Late, ExportsChange}
        reloading.log.close()

    asyncio.run(reload())


async def test_removed_exports_that_no_thread_can_close_are_a_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    waiting, change = cast("Any", SimpleNamespace()), cast("Any", SimpleNamespace(retire=None))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        await served_exports.ServedExports(waiting, None, waiting, [], waiting)._retire(change)
    (record,) = caplog.records
    assert "not closed before the server ends: no further thread can be started; raise the limit" in record.getMessage()
    assert record.exc_info is None


def test_a_state_directory_that_stands_still_refuses_reloads_and_has_the_addresses_in_use_afterwards(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = threading.Event()
    noted: list[list[str]] = []

    def serve(addresses: list[str], _exports: list[str]) -> None:
        assert end.wait(HANG_S)
        noted.append(addresses)

    async def reload() -> None:
        asyncio.get_running_loop().set_default_executor(DaemonThreads())
        reloading = Reloading(file, "--state-dir", str(file.parent / "state"))
        database = SimpleNamespace(serve=serve)
        reloading.running._nfs4 = SimpleNamespace(state=SimpleNamespace(database=database))  # type: ignore[assignment]
        with monkeypatch.context() as patch:
            patch.setattr(running_server, "PATH_ANSWERS_S", 0)
            for port in (2049, 2050):
                *_, status = await reloading.again(FILE.replace(":0", f":{port}"))
                told = (
                    f"c.toml: the state directory {file.parent}/state has not taken a note for the next run within 0 s"
                )
                assert status.startswith(f"STATUS=reload refused: {told}; mend its file system, and reload"), status
        end.set()
        await until(lambda: len(noted) == 4)
        assert noted[1:] == [["tcp://127.0.0.1:0"]] * 3, "whichever thread is the last one"
        assert (await reloading.again(FILE.replace(":0", ":2049")))[-1] == f"STATUS={LISTENING}"
        assert noted[-1] == ["tcp://127.0.0.1:2049"]

    asyncio.run(reload())


def test_a_reload_without_a_further_thread_is_refused_with_a_remedy(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = threading.Thread.start

    async def reload() -> None:
        asyncio.get_running_loop().set_default_executor(DaemonThreads())
        reloading = Reloading(file)
        for more in itertools.count():
            left = iter(range(more))

            def limited(thread: threading.Thread, left: Iterator[int] = left) -> None:
                if next(left, None) is None:
                    raise RuntimeError("can't start new thread")
                start(thread)

            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", limited)
                *_, status = await reloading.again(FILE + TWO)
            if reloading.ended[-1]:
                break
            told = "no further thread can be started; raise the limit on tasks (ulimit -u, TasksMax=), or free memory"
            assert status == f"STATUS=reload refused: c.toml: {told}"
        assert more > 5
        assert "Traceback" not in caplog.text

    asyncio.run(reload())


def test_long_work_of_a_reload_pauses_for_the_event_loop_at_each_export_and_each_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: Counter[str] = Counter()
    monkeypatch.setattr(giving_way, "monotonic", itertools.count().__next__)
    # A further thread would begin without a pause.
    monkeypatch.setattr(export_sources, "_PATIENCE_S", HANG_S)
    monkeypatch.setattr(giving_way, "sleep", lambda _: paused.update([sys._getframe(2).f_code.co_qualname]))
    more = [f"more{number}" for number in range(20)]
    (file.parent / "exports.d").mkdir()
    for name in more:
        (file.parent / name).mkdir()
        text = ONE.replace('"one"', f'"../{name}"').replace("/one", f"/{name}")
        (file.parent / f"exports.d/{name}.toml").write_text(text)

    async def reload() -> None:
        asyncio.get_running_loop().set_default_executor(DaemonThreads())
        reloading = Reloading(file)
        assert set(paused) == {"ExportSources._work"}, "the other loops ran in the event loop"
        await reloading.again()
        assert len(reloading.names) == 21
        await reloading.again()

    asyncio.run(reload())
    loops = {
        "read_configuration", "ExportSources._work", "find_mistakes", "_exposed_state", "_real", "ServerExports.plan"
    }  # fmt: skip
    assert {loop for loop, pauses in paused.items() if pauses >= 2 * (len(more) - 1)} == loops, paused
