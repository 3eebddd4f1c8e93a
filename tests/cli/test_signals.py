"""Commands that a signal ends, in processes of their own: unfinished files are removed on both sides."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma.cli import event_loop, serve, stop_requests
from rpcrdma.cli.copies import naming_partial_files
from rpcrdma.cli.daemon_threads import DaemonThreads
from rpcrdma.cli.event_loop import HeldHangUp, Stopped, holding_hang_ups, run_async
from rpcrdma.cli.main import main
from rpcrdma.cli.stop_requests import handle_hang_ups, stop_on_signals
from rpcrdma.commands.failures import describe
from support.cases import each_case
from support.command_process import HANG_S, CommandProcess

if TYPE_CHECKING:
    from support.commands import Served, StartServer

HUGE = 8 << 30
"""Octets of a file without blocks: a copy takes long enough to be ended in any case."""


def unfinished(*directories: Path) -> list[Path]:
    return [
        found
        for directory in directories
        for found in directory.rglob("*")
        if re.fullmatch(r"\.rpcrdma-[0-9a-f]+\.part", found.name)
    ]


@contextlib.contextmanager
def command(served: Served, *arguments: str, ignoring: signal.Signals | None = None) -> Iterator[CommandProcess]:
    """The running command."""
    port = served.urls["tcp"].rpartition(":")[2]
    line = ["--mount-port", port, *arguments]
    with CommandProcess(line, ignoring=ignoring, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        yield process


def wait_until(process: CommandProcess, condition: Callable[[], object], what: str) -> None:
    """Waits for something that the running process brings about."""
    while not condition():
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(0.02)
            assert process.stderr is not None
            raise AssertionError(f"ended with {status} before {what}: {process.stderr.read().decode()}")


def ended(process: CommandProcess) -> tuple[int, str]:
    status, _, said = process.ended()
    return status, said.decode()


def files_in(top: Path) -> list[Path]:
    return [path for path in top.rglob("*") if path.is_file()]


def huge_files(top: Path) -> Path:
    (top / "below").mkdir(parents=True)
    for name in ("one", "two", "below/three"):
        (top / name).touch()
        os.truncate(top / name, HUGE)
    return top


@pytest.fixture
def served(start: StartServer, tmp_path: Path) -> Iterator[Served]:
    root = tmp_path / "root"
    root.mkdir()
    with start(root, tmp_path / "state") as running:
        yield running


SAID = {signal.SIGTERM: "error: terminated\n", signal.SIGINT: "error: interrupted\n", signal.SIGHUP: "error: hung up\n"}


@pytest.mark.parametrize(
    ("number", "direction", "scheme", "what"),
    [
        pytest.param(signal.SIGTERM, "put", "rdma", "tree", marks=pytest.mark.journey),
        pytest.param(signal.SIGINT, "get", "tcp", "tree", marks=pytest.mark.journey),
        *(
            pytest.param(*case, marks=pytest.mark.thorough)
            for case in (
                (signal.SIGTERM, "put", "tcp", "file"),
                (signal.SIGTERM, "get", "rdma", "file"),
                (signal.SIGHUP, "put", "rdma", "tree"),
            )
        ),
    ],
)
def test_a_copy_that_is_ended_leaves_nothing_unfinished(
    served: Served, tmp_path: Path, number: signal.Signals, direction: str, scheme: str, what: str
) -> None:
    source = huge_files((tmp_path if direction == "put" else served.root) / "source")
    name = "source" if what == "tree" else "source/one"
    (tmp_path / "copies").mkdir()
    if direction == "put":
        arguments = ["put", str(tmp_path / name), f"{served.urls[scheme]}/copy"]
    else:
        arguments = ["get", f"{served.urls[scheme]}/{name}", str(tmp_path / "copies" / "copy")]
    with command(served, *arguments) as process:
        wait_until(process, lambda: unfinished(tmp_path), "unfinished file")
        process.send_signal(number)
        assert ended(process) == (128 + number, SAID[number])
    assert unfinished(tmp_path) == []
    assert [path for path in (served.root / "copy", tmp_path / "copies") if path.is_file() or files_in(path)] == []
    assert len(files_in(source)) == 3


@pytest.mark.thorough
def test_a_process_that_ignores_interrupts_is_terminated_all_the_same(served: Served, tmp_path: Path) -> None:
    huge_files(tmp_path / "source")
    url = f"{served.urls['rdma']}/copy"
    with command(served, "put", str(tmp_path / "source"), url, ignoring=signal.SIGINT) as process:
        wait_until(process, lambda: unfinished(served.root), "unfinished file")
        process.send_signal(signal.SIGINT)
        size = sum(path.stat().st_size for path in unfinished(served.root))
        wait_until(
            process,
            lambda: sum(path.stat().st_size for path in unfinished(served.root)) > size,
            "progress after a signal that is ignored",
        )
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (143, "error: terminated\n")
    assert unfinished(served.root) == []


@pytest.mark.thorough
def test_a_second_signal_ends_the_command_at_once(served: Served, tmp_path: Path) -> None:
    """While it waits for a server that does not answer whether the unfinished file is removed."""
    huge_files(tmp_path / "source")
    with command(served, "put", str(tmp_path / "source"), f"{served.urls['rdma']}/copy") as process:
        wait_until(process, lambda: unfinished(served.root), "unfinished file")
        served.process.send_signal(signal.SIGSTOP)
        try:
            # Two that differ: equal ones may arrive as one.
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
            status, said = ended(process)
        finally:
            served.process.send_signal(signal.SIGCONT)
    assert status in {130, 143}
    assert said == "error: aborted; unfinished files were not removed\n"


@pytest.mark.thorough
def test_a_copy_goes_on_at_the_server_that_takes_the_place_of_a_killed_one(
    start: StartServer, tmp_path: Path, nobody_listens: int
) -> None:
    root, source, address = tmp_path / "root", tmp_path / "source", f"tcp://127.0.0.1:{nobody_listens}"
    root.mkdir()
    source.write_bytes(bytes(range(256)) * (64 << 12))
    starting = functools.partial(start, root, tmp_path / "state", "--listen", address)
    with starting() as killed, command(killed, "put", str(source), f"{address}/copy") as process:
        wait_until(process, lambda: any(path.stat().st_size for path in unfinished(root)), "unfinished file")
        killed.process.kill()
        killed.finish()
        with starting() as served:
            assert ended(process) == (0, "")
            assert served.stop() == 0
    assert [path.name for path in root.iterdir()] == ["copy"]
    assert (root / "copy").read_bytes() == source.read_bytes()


@pytest.mark.thorough
@each_case("number", [signal.SIGTERM, signal.SIGINT])
def test_cat_ends_although_nobody_reads_what_it_prints(served: Served, number: signal.Signals) -> None:
    if not (served.root / "source").exists():
        huge_files(served.root / "source")
    with command(served, "cat", f"{served.urls['rdma']}/source/one") as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"\0"
        process.send_signal(number)
        assert process.wait(HANG_S) == 128 + number


def test_a_signal_leaves_no_loop_open_that_is_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    made: list[asyncio.AbstractEventLoop] = []
    right = asyncio.new_event_loop

    def new_event_loop() -> asyncio.AbstractEventLoop:
        made.append(right())
        os.kill(os.getpid(), signal.SIGTERM)
        return made[0]

    async def never() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.events, "new_event_loop", new_event_loop)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(Stopped, match="SIGTERM"):
            run_async(never())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [loop.is_closed() for loop in made] == [True]


def test_an_interrupted_copy_that_keeps_partial_files_says_so_and_how_to_go_on() -> None:
    async def copy(*, resume: bool) -> None:
        with naming_partial_files(argparse.Namespace(resume=resume)):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    for resume in (False, True):
        with pytest.raises(Stopped) as stopped:
            run_async(copy(resume=resume))
        message, hint, status = describe(stopped.value)
        assert (message, status) == ("terminated", 143)
        assert hint.startswith("with --resume the partial copy of a large file stays") is resume
        assert bool(hint) is resume


def test_a_hangup_does_not_abort_a_stop_that_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)

    async def main() -> None:
        stop, all_came = asyncio.Event(), asyncio.Event()
        on_signal = stop_on_signals(stop)
        handle_hang_ups(None, lambda: on_signal(signal.SIGHUP))
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, all_came.set)
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        await all_came.wait()
        assert stop.is_set()
        assert exits == []
        os.kill(os.getpid(), signal.SIGTERM)
        all_came.clear()
        os.kill(os.getpid(), signal.SIGUSR1)
        await all_came.wait()
        assert exits == [143]

    asyncio.run(main())


_ABORTED = """\
import asyncio, contextlib, signal, sys
from rpcrdma.cli.event_lines import error_lines, server_events
from rpcrdma.cli.stop_requests import stop_on_signals
from rpcrdma.commands import console

async def main():
    on_signal = stop_on_signals(asyncio.Event())
    on_signal(signal.SIGINT)
    on_signal(signal.SIGTERM)

json = "--json" in sys.argv
console.errors_as_json({"event": "error"} if json else None)
with error_lines(), server_events() if json else contextlib.nullcontext():
    asyncio.run(main())
"""


@pytest.mark.thorough
@each_case("json", [False, True])
def test_a_server_that_is_aborted_says_so(json: bool) -> None:
    """Though threads write its lines, which end with the process."""
    command = [sys.executable, "-c", _ABORTED, *(["--json"] if json else [])]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (ran.returncode, ran.stderr) == (143, "error: aborted; calls in progress were not answered\n")
    assert ran.stdout.startswith('{"event": "error"') is json


@each_case("held", [False, True])
@each_case(
    ("inherited", "terminals", "outcome"),
    [
        (signal.SIG_DFL, [True, False], "stop"),
        (signal.SIG_DFL, [True, True], "renew"),
        (signal.SIG_DFL, [False], "renew"),
        (signal.SIG_IGN, [True, False], "renew"),
    ],
)
def test_a_server_whose_terminal_is_gone_stops_and_others_read_their_files_again(
    monkeypatch: pytest.MonkeyPatch, inherited: signal.Handlers, terminals: list[bool], outcome: str, held: bool
) -> None:
    """Also where the signal comes while the server starts."""
    if held and inherited is signal.SIG_IGN:
        return
    answers = iter(terminals)
    for module in (event_loop, stop_requests):
        monkeypatch.setattr(module, "has_terminal", lambda: next(answers))

    async def work() -> str:
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        handle_hang_ups(lambda: done.set_result("renew"), lambda: done.set_result("stop"))
        if not held:
            signal.raise_signal(signal.SIGHUP)
        return await done

    signal.signal(signal.SIGHUP, inherited)
    with holding_hang_ups() if held else contextlib.nullcontext():
        if held:
            signal.raise_signal(signal.SIGHUP)
        assert run_async(work()) == outcome


def test_a_server_is_not_ended_by_a_hang_up_before_it_has_read_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[bool] = []

    def run(_args: object) -> int:
        signal.raise_signal(signal.SIGHUP)
        held = signal.getsignal(signal.SIGHUP)
        came.append(isinstance(held, HeldHangUp) and held.received)
        return 0

    monkeypatch.setattr(serve, "run", run)
    signal.signal(signal.SIGHUP, lambda *_: came.append(False))
    assert main(["serve", "/srv"]) == 0
    assert came == [True]
    # Other commands are ended, also where they have such a word.
    monkeypatch.setattr("rpcrdma.cli.ls.run", lambda _args: signal.raise_signal(signal.SIGHUP) or 0)
    assert main(["ls", "rdma://serve/", "--tls-name", "serve"]) == 0
    assert came == [True, False]


def test_a_server_under_nohup_outlives_its_terminal() -> None:
    async def work() -> None:
        handle_hang_ups(None, lambda: pytest.fail("it has hung up"))
        signal.raise_signal(signal.SIGHUP)
        await asyncio.sleep(0)

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with holding_hang_ups():
        run_async(work())
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.thorough
def test_the_end_of_its_terminal_stops_a_server_in_an_orderly_way(tmp_path: Path) -> None:
    """Both the signal and the loss of standard output and error."""
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    line = [sys.executable, "-m", "rpcrdma", "serve", "--state-dir", str(state), str(root)]
    line += ["--listen", "rdma://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"]
    ours, theirs = pty.openpty()
    # The leader of a session takes the first terminal that it opens as its own.
    line = ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(theirs), *line]
    process = subprocess.Popen(line, start_new_session=True)
    try:
        with os.fdopen(ours, "rb") as screen:
            # The last line that the server prints before it waits.
            assert any(b" exporting " in said for said in screen)
            os.close(theirs)
        assert process.wait(HANG_S) == 0
    finally:
        process.kill()
        process.wait()


def test_a_sweep_that_fails_keeps_no_later_one_from_running(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serve, "_IDLE_S", 0)
    swept: list[int] = []
    failed: list[int] = []

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def fail() -> None:
            failed.append(1)
            raise OSError("the disk has failed")

        def sweep() -> None:
            swept.append(1)
            if len(swept) > 1 and len(failed) > 2:
                loop.call_soon_threadsafe(stop.set)

        services: Any = SimpleNamespace(nfs=SimpleNamespace(close_idle=fail))
        nfs4: Any = SimpleNamespace(sweep=sweep, close_ended=bool, exports=None)

        async def look() -> list[int]:
            return [len(swept)]

        exports: Any = SimpleNamespace(look=look)
        looked.extend([export async for export in serve._wait(stop, services, nfs4, exports)])

    looked: list[Any] = []
    asyncio.run(main())
    assert looked, "exports that are served from then on are told"
    assert len(swept) >= 2
    assert caplog.messages == ["cannot close idle files: the disk has failed"], "told once"
    assert caplog.records[0].exc_info is None


def test_neither_a_store_nor_a_disk_that_does_not_answer_holds_up_leases_or_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "_IDLE_S", 0)
    never = threading.Event()

    async def main() -> list[Any]:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.set_default_executor(DaemonThreads())
        swept: list[int] = []

        def sweep() -> None:
            swept.append(1)
            if len(swept) > 2:
                loop.call_soon_threadsafe(stop.set)

        services: Any = SimpleNamespace(nfs=SimpleNamespace(close_idle=never.wait))
        nfs4: Any = SimpleNamespace(sweep=sweep, close_ended=never.wait)
        exports: Any = SimpleNamespace(look=asyncio.Event().wait)
        async with asyncio.timeout(HANG_S):
            return [export async for export in serve._wait(stop, services, nfs4, exports)]

    # The loop ends while the thread waits.
    assert asyncio.run(main()) == []
    never.set()


def test_a_file_system_that_hangs_when_a_file_is_closed_keeps_no_file_of_others_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "_IDLE_S", 0)
    monkeypatch.setattr(serve, "_CLOSING_S", 0)
    never = threading.Event()

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.set_default_executor(DaemonThreads())
        closed: list[str] = []

        def closes(what: str) -> Callable[[], object]:
            def close() -> None:
                closed.append(what)
                if closed.count(what) == 1:
                    never.wait()
                elif min(map(closed.count, ("idle", "ended"))) > 1:
                    loop.call_soon_threadsafe(stop.set)

            return close

        services: Any = SimpleNamespace(nfs=SimpleNamespace(close_idle=closes("idle")))
        nfs4: Any = SimpleNamespace(sweep=bool, close_ended=closes("ended"))
        exports: Any = SimpleNamespace(look=asyncio.Event().wait)
        async with asyncio.timeout(HANG_S):
            assert [export async for export in serve._wait(stop, services, nfs4, exports)] == []

    asyncio.run(main())
    never.set()
