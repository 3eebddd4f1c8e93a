"""A directory that does not answer holds up no other export, is named by a reload, and does not outlive the server."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.cli import export_sources, serve
from rpcrdma.cli.daemon_threads import DaemonThreads
from rpcrdma.cli.export_options import Exported, reached_source
from rpcrdma.cli.export_sources import ExportSources
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.settings import check_paths
from rpcrdma.cli.settings.check import at_start, find_mistakes
from rpcrdma.cli.settings.effective import Effective, effective
from rpcrdma.cli.settings.file import Value
from rpcrdma.cli.waiting_exports import WaitingExports
from support.cases import each_case
from support.command_process import HANG_S


def settings(folder: Path, *names: str, more: str = "") -> Effective:
    for name in names:
        (folder / name).mkdir(exist_ok=True)
    file = folder / "c.toml"
    file.write_text("".join(f'[[export]]\nname = "/{name}"\ndirectory = "{name}"\n{more}' for name in names))
    args = build_parser().parse_args(["serve", "--config", str(file), "--state-dir", str(folder / "state")])
    found = effective(args)
    found.put_into(args)
    return found


class Silence:
    """Directories whose names begin with "hung" answer after `end`; `asked` has the names that threads asked for."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.asked: list[str] = []

    def reached(self, export: Exported) -> Path | None:
        self.asked.append(export.name)
        if export.name.startswith("/hung"):
            assert self.end.wait(HANG_S)
        return reached_source(export)


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silence]:
    silence = Silence()
    monkeypatch.setattr(export_sources, "reached_source", silence.reached)
    yield silence
    silence.end.set()


def test_many_that_are_silent_hold_up_none_that_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silence: Silence
) -> None:
    found = settings(tmp_path, *(f"hung{number}" for number in range(40)), "well")
    monkeypatch.setattr(export_sources, "EXPORT_ANSWERS_S", HANG_S)
    monkeypatch.setattr(export_sources, "_PATIENCE_S", 0.01)
    reached = silence.reached

    def well_ends_silence(export: Exported) -> Path | None:
        if export.name == "/well":
            silence.end.set()
        return reached(export)

    monkeypatch.setattr(export_sources, "reached_source", well_ends_silence)
    sources = ExportSources()
    sources.look(found.exports)
    assert sorted(silence.asked) == sorted(export.name for export in found.exports), "each is asked once"
    assert [sources.directory_of(export) for export in found.exports] == [export.source for export in found.exports]


def test_an_export_that_does_not_answer_is_served_when_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, silence: Silence
) -> None:
    found = settings(tmp_path, "hung", "well")
    args = build_parser().parse_args(["serve", "--config", str(tmp_path / "c.toml")])
    found.put_into(args)
    sources = ExportSources()
    sources.look(found.exports[1:])
    monkeypatch.setattr(export_sources, "EXPORT_ANSWERS_S", 0)
    # Those that answer have answered, so that none is waited for.
    monkeypatch.setattr(sources, "look", lambda exports, **_: ExportSources.look(sources, exports, again=False))
    assert at_start(args, found, sources) == []
    waiting = WaitingExports(found.exports, None, sources)
    for _ in range(3):
        assert [export.name for export in waiting.ready()] == ["/well"]
    (message,) = caplog.messages
    assert message.startswith("/hung is not served: the directory of /hung does not answer; mend its file system; it ")
    monkeypatch.setattr(export_sources, "EXPORT_ANSWERS_S", HANG_S)
    silence.end.set()
    assert [export.name for export in waiting.ready()] == ["/hung", "/well"]
    assert silence.asked.count("/hung") == 1, "no further thread has waited for it"


@each_case(
    ("more", "served", "is_warning"),
    [("", (), True), ("", ("/hung",), False), ('missing = "fail"\n', (), False)],
)
def test_a_check_names_what_does_not_answer_and_its_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    silence: Silence,
    more: str,
    served: tuple[str, ...],
    is_warning: bool,
) -> None:
    found = settings(tmp_path, "hung", more=more)
    args = build_parser().parse_args(["serve", "--config", str(tmp_path / "c.toml")])
    found.put_into(args)
    for name in ("EXPORT_ANSWERS_S", "EXPORT_NEEDED_ANSWERS_S"):
        monkeypatch.setattr(export_sources, name, 0)
    (mistake,) = find_mistakes(args, found, None, ExportSources(), served)
    assert str(mistake).startswith(f"{tmp_path}/c.toml:1: the directory of /hung does not answer; mend its file system")
    assert mistake.is_warning is is_warning


def test_a_check_and_a_start_name_a_state_directory_that_does_not_answer_and_ask_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings(tmp_path, "well")
    args = build_parser().parse_args(["serve", "--config", str(tmp_path / "c.toml")])
    found.put_into(args)
    end, begun = threading.Event(), threading.Semaphore(0)
    asked: list[Callable[[Path], Any]] = []

    def hangs(look: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def late(path: Path) -> Any:
            asked.append(look)
            begun.release()
            assert end.wait(HANG_S)
            return look(path)

        return late

    monkeypatch.setitem(check_paths._UNFIT, "state-dir", hangs(check_paths._UNFIT["state-dir"]))  # type: ignore[index]
    monkeypatch.setattr(check_paths, "_place_of_state", hangs(check_paths._place_of_state))
    monkeypatch.setattr(check_paths, "PATH_ANSWERS_S", 0)
    sources = ExportSources()
    silence = f"{tmp_path}/state does not answer within 0 s; mend its file system, or set another state-dir"
    for _ in range(3):
        for mistakes in (at_start(args, found, sources), find_mistakes(args, found, None, sources)):
            assert mistakes == [("command line", silence, False)]
    for _ in range(2):
        assert begun.acquire(timeout=HANG_S)
    assert len(asked) == 2, "no further thread has waited for it"
    monkeypatch.setattr(check_paths, "PATH_ANSWERS_S", HANG_S)
    end.set()
    assert at_start(args, found, sources) == find_mistakes(args, found, None, sources) == []


@each_case("name", [*check_paths.PATHS, *check_paths.FILES_OF_HOSTS])
def test_each_path_of_the_settings_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found = settings(tmp_path, "well")
    end = threading.Event()
    monkeypatch.setitem(check_paths._UNFIT, name, lambda _: str(end.wait(HANG_S)))  # type: ignore[index]
    monkeypatch.setattr(check_paths, "PATH_ANSWERS_S", 0)
    found = found._replace(server={**found.server, name: Value(tmp_path / "silent", "c.toml:7")})
    (mistake,) = check_paths.PathLooks(found, [name], DaemonThreads()).faults([name])
    end.set()
    remedy = f"mend its file system, or set another {name}"
    assert str(mistake) == f"c.toml:7: {tmp_path}/silent does not answer within 0 s; {remedy}"
    assert not mistake.is_warning


def test_a_silent_state_directory_does_not_outlast_the_end_of_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers, kept = threading.Event(), contextlib.ExitStack()
    kept.callback(answers.wait, HANG_S)
    monkeypatch.setattr(serve, "_DRAIN_S", 0)
    serve._close_kept(argparse.Namespace(state_dir=Path("/state")), kept)
    answers.set()
    assert caplog.messages == ["/state does not answer within 0 s; clients that hold nothing stay recorded there"]


HANGS = """\
import sys, time
from pathlib import Path
from rpcrdma.cli import export_sources

def is_silent(export):
    return (Path(export.source) / "silent").exists()

def hangs(export):
    while is_silent(export):
        time.sleep(0.02)
    return reached(export)

def look(self, exports, **options):
    exports = [*exports]
    # What answers is waited for on any machine, and what does not on none.
    export_sources.EXPORT_NEEDED_ANSWERS_S = 0 if any(map(is_silent, exports)) else 60
    whole_look(self, exports, **options)

reached, export_sources.reached_source = export_sources.reached_source, hangs
whole_look, export_sources.ExportSources.look = export_sources.ExportSources.look, look
from rpcrdma.cli.main import run
sys.exit(run())
"""
"""A server for which directories with a file `silent` do not answer while they have it."""


@pytest.mark.thorough
def test_a_reload_that_a_directory_holds_up_is_refused_and_the_server_ends(tmp_path: Path) -> None:
    settings(tmp_path, "one", "two")
    options = ["--config", str(tmp_path / "c.toml"), "--state-dir", str(tmp_path / "state")]
    with subprocess.Popen(
        [sys.executable, "-c", HANGS, "serve", "--json", "--listen", "tcp://127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None

        def event(name: str) -> dict[str, Any]:
            assert process.stdout is not None
            events = map(json.loads, process.stdout)
            return next(each for each in events if each["event"] == name)

        try:
            assert [event("exported")["name"] for _ in range(2)] == ["/one", "/two"]
            for is_silent in (True, False, True):
                if is_silent:
                    (tmp_path / "two/silent").touch()
                else:
                    (tmp_path / "two/silent").unlink()
                process.send_signal(signal.SIGHUP)
                reload = event("reload")
                assert reload["ok"] is not is_silent
                messages = {fault["place"]: fault["message"] for fault in reload.get("faults", ())}
                if is_silent:
                    assert messages[f"{tmp_path}/c.toml:4"].startswith("the directory of /two does not answer; ")
            process.send_signal(signal.SIGTERM)
            assert event("stopped")
            assert process.wait(HANG_S) == 0
        finally:
            process.kill()
