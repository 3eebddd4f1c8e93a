"""`rpcrdma check`."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock
from xml.etree import ElementTree as ET

import pytest
from fake_servers import OBLIGING, FakeServer, Frame, null_reply, serving

from rpcrdma.cli.main import build_parser
from rpcrdma.errors import ConnectFailed, HostNotFound
from rpcrdma_lab.check import CATALOGUE, Abilities
from rpcrdma_lab.check.reports import as_html, as_json, as_junit
from rpcrdma_lab.check.verdicts import FAILURES, Result, Verdict
from rpcrdma_lab.commands.check import judging
from rpcrdma_lab.scripted import Outcome, Passage
from support.cases import each_case
from support.command_process import HANG_S, CommandProcess

if TYPE_CHECKING:
    from support.commands import Command, Ran, StartServer

SIMPLE = "program SIMPLE { version SIMPLE_3 { void NOTHING(void) = 0; } = 3; } = 100003;"
IN_NO_HURRY = ("--timeout", "300")
"""An answer of a machine under load comes late, and is an answer."""


@pytest.fixture(scope="module")
def ours(start: StartServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The URL of a server of ours, which logs the mistakes of checks, and its directory."""
    root = tmp_path_factory.mktemp("data")
    (root / "file").write_bytes(bytes(6000))
    with start(root, tmp_path_factory.mktemp("state")) as served:
        yield f"{served.urls['rdma']}/?mountport={served.urls['tcp'].rpartition(':')[2]}", root
        assert served.stop() == 0


@contextmanager
def in_a_thread(server: FakeServer) -> Iterator[str]:
    """The URL of the server."""
    urls: list[str] = []
    started, loops = threading.Event(), []
    ended = asyncio.Event()

    async def main() -> None:
        async with serving(server) as target:
            urls.append(f"rdma://{target.host}:{target.port}")
            loops.append(asyncio.get_running_loop())
            started.set()
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=[main()])
    thread.start()
    assert started.wait(HANG_S)
    try:
        yield urls[0]
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(HANG_S)


@pytest.fixture(scope="module")
def broken() -> Iterator[str]:
    """The URL of a server that accepts everything."""
    with in_a_thread(OBLIGING) as url:
        yield url


def not_shown(ran: Ran) -> list[dict[str, Any]]:
    """The rows of a report in JSON on checks that were not run, or that the server has failed."""
    others = {verdict.value for verdict in (*FAILURES, Verdict.NOT_SEEN)}
    return [row for row in ran.json["checks"] if row["verdict"] in others]


@pytest.mark.thorough
def test_a_server_that_conforms_ends_with_0_and_a_summary(command: Command, ours: tuple[str, Path]) -> None:
    ran = command.run("check", ours[0], *IN_NO_HURRY)
    lines = ran.lines
    assert ran.status == 0, ran.text
    assert lines[0] == f"{ours[0]}: {len(CATALOGUE)} checks, versions 1 and 2"
    assert "violates" not in "\n".join(lines)
    assert "ignores" not in "\n".join(lines)


@pytest.mark.thorough
def test_violations_end_with_1_and_show_cause_section_and_messages(command: Command, broken: str) -> None:
    ran = command.run("check", broken, "--only", "v1.type.5", "--only", "v1.null", "--details", *IN_NO_HURRY)
    assert ran.status == 1
    assert "1 conforms, 1 violates a MUST" in ran.text
    statement = "RFC 8166 4.5.2 (V1-60, MUST): A header of a known version that does not decode gets ERR_CHUNK."
    title = "v1.type.5: An unknown type is refused"
    assert f"{title}\n    {statement}\n    expected RDMA_ERROR with ERR_CHUNK; found" in ran.text
    assert ran.text.count(">|") == 2, "the start-up and the call"
    assert "00000001 00000020 00000005" in ran.text.replace("\n" + " " * 19, " ")
    reached = ran.text.partition("\nstatements:\n")[2]
    assert "  V1-60 (RFC 8166 4.5.2)\n    violates a MUST: v1.type.5\n" in reached


@pytest.mark.thorough
def test_the_report_as_json_junit_and_html(command: Command, broken: str, tmp_path: Path) -> None:
    junit, page = tmp_path / "report.xml", tmp_path / "report.html"
    arguments = ["check", broken, "--only", "v1.type.*", "--only", "v1.read.inline", "--json", *IN_NO_HURRY]
    ran = command.run(*arguments, "--junit", str(junit), "--html", str(page))
    report = ran.json
    verdicts = {row["id"]: row["verdict"] for row in report["checks"]}
    assert verdicts["v1.type.5"] == "violates a MUST"
    assert verdicts["v1.type.msgp"] == "ignores a SHOULD"
    assert verdicts["v1.read.inline"] == "not seen"
    assert report["statements"]["V1-60"] == "violates a MUST"
    row = next(row for row in report["checks"] if row["id"] == "v1.type.5")
    assert (row["statements"], row["sections"]) == (["V1-60"], ["RFC 8166 4.5.2"])
    assert [message["sender"] for message in row["messages"]] == ["check", "server", "check", "server"]
    suite = ET.fromstring(junit.read_text())
    failures = sum(verdict == "violates a MUST" for verdict in verdicts.values())
    assert (suite.get("tests"), suite.get("failures")) == (str(len(verdicts)), str(failures))
    assert len(suite.findall("testcase/failure")) == failures
    quoted = f"RFC 8166 4.5.2 (V1-60, MUST): {row['statement_texts']['V1-60']}"
    assert any((each.text or "").startswith(f"{quoted}\n") for each in suite.findall("testcase/failure"))
    text = page.read_text()
    facts = 'data-check="v1.type.5" data-verdict="violates a MUST" data-statements="V1-60" data-failed="yes"'
    assert f"<article {facts}>" in text
    assert f"<blockquote>{quoted}</blockquote>" in text
    row = '<td>V1-69<td>RFC 8166 4.6.1<td class="v2">ignores a SHOULD<td>ignores a SHOULD: v1.type.msgp'
    assert row in text.partition("<h2>Statements</h2>")[2]
    assert 'name="viewport"' in text, "it fits a narrow screen"
    assert not re.search(r"https?://| src=|<link", text), "one file of its own"


def test_checks_are_chosen_by_pattern_and_listed(command: Command) -> None:
    lines = command.done("check", "--list", "--only", "v1.type.*", "--skip", "*.done*").lines
    assert lines[0].split() == ["check", "statements", "rule"]
    assert all(line.startswith("v1.type.") and ".done" not in line for line in lines[1:])
    rows = command.done("check", "--list", "--only", "v1.type.5", "--json").json_lines
    assert rows[0]["conversation"]["steps"][0]["say"]["header"] == {"type": 5}


@pytest.mark.thorough
def test_what_may_stop_a_server_needs_leave(command: Command, ours: tuple[str, Path]) -> None:
    ran = command.run("check", ours[0], "--only", "v1.nomsg.*", "--json", *IN_NO_HURRY)
    unseen = not_shown(ran)
    assert [row["id"] for row in unseen] == ["v1.nomsg.empty-segment"]
    assert ran.status == 0
    assert "--risky" in unseen[0]["cause"]


@pytest.mark.thorough
def test_a_program_of_ones_own_is_judged_by_its_empty_procedure(
    command: Command, ours: tuple[str, Path], tmp_path: Path
) -> None:
    definition = tmp_path / "simple.x"
    definition.write_text(SIMPLE)
    ran = command.run("check", ours[0], "--program", str(definition), "--only", "v1.*", "--json", *IN_NO_HURRY)
    assert ran.status == 0, not_shown(ran)
    assert ran.json["verdicts"]["conforms"] > 50
    assert {row["cause"] for row in ran.json["checks"] if row["id"] == "v1.read.inline"} != {None}


@pytest.mark.thorough
def test_a_program_that_the_server_lacks_is_told_with_the_remedy(
    command: Command, ours: tuple[str, Path], tmp_path: Path
) -> None:
    definition = tmp_path / "absent.x"
    definition.write_text(SIMPLE.replace("100003", "200000"))
    ran = command.run("check", ours[0], "--program", str(definition), "--only", "v2.null")
    assert ran.status == 1
    assert (
        "error: the server refused the call: it does not offer program 200000\nhint: rpcrdma programs rdma://"
        in ran.err
    )


@pytest.mark.thorough
def test_a_report_that_cannot_be_written_is_told_before_the_run(
    command: Command, nobody_listens: int, tmp_path: Path
) -> None:
    ran = command.run("check", f"rdma://127.0.0.1:{nobody_listens}", "--junit", str(tmp_path / "absent" / "a.xml"))
    assert ran.status == 1
    assert "absent/a.xml: no such file or directory" in ran.err


@pytest.mark.thorough
def test_an_interrupted_run_has_its_report(tmp_path: Path) -> None:
    last = threading.Event()

    def answer(frame: Frame, _received: int) -> bytes:
        if frame.payload[12:16] == b"\xff" * 4:  # v1.type.largest
            last.set()
            return b""
        return null_reply(frame.xid)

    junit = tmp_path / "report.xml"
    with in_a_thread(FakeServer(answer)) as url:
        command = ["check", url, "--json", "--junit", str(junit), "--timeout", "3600"]
        command += ["--only", "v1.type.5", "--only", "v1.type.largest", "--only", "v1.null"]
        with CommandProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert last.wait(HANG_S)
            status, out, err = process.ended(signal.SIGINT)
    assert (status, err) == (130, b"error: interrupted\n")
    rows = {row["id"]: (row["verdict"], row["cause"]) for row in json.loads(out)["checks"]}
    unseen = ("not seen", "the command was interrupted before it")
    assert rows.pop("v1.type.5")[0] == "violates a MUST"
    assert rows == {"v1.null": ("conforms", None), "v1.type.largest": unseen}
    assert len(ET.fromstring(junit.read_text()).findall("testcase")) == 3


@each_case("ended", ["in the run", "before it"])
async def test_the_report_is_written_before_the_server_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: str
) -> None:
    """To remove files from a server that answers no more takes long, and a second signal ends the process."""
    left, begun, waiting = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def prepared(*_: object, **__: object) -> AsyncIterator[Abilities]:
        abilities = Abilities()
        try:
            yield abilities
        finally:
            waiting.set()
            await left.wait()
            abilities.notes.append("remove a file")

    async def endless(*_: object, **__: object) -> dict[str, Outcome]:
        begun.set()
        await asyncio.Event().wait()
        return {}

    spoken = AsyncMock(return_value={"1": Outcome(heard={"header": {}})}) if ended == "in the run" else endless
    monkeypatch.setattr(judging, "prepared_export", prepared)
    monkeypatch.setattr(judging, "spoken_versions", spoken)
    monkeypatch.setattr(judging, "run_checks", endless)
    report = tmp_path / "report.xml"
    command = ["check", "rdma://192.0.2.1/", "--only", "v1.null", "--junit", str(report), "--html", str(tmp_path / "h")]
    args = build_parser().parse_args(command)
    args.capture = None
    running = asyncio.ensure_future(judging.judge(args))
    await begun.wait()
    running.cancel()
    await waiting.wait()
    assert len(ET.fromstring(report.read_text()).findall("testcase/skipped")) == 1
    assert "the command was interrupted before it" in (tmp_path / "h").read_text()
    assert "not seen: 1 check, as the command was interrupted before it" in capsys.readouterr().out
    left.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert capsys.readouterr() == ("", "note: remove a file\n")
    assert report.exists()


async def test_a_file_that_stays_behind_is_noted_beside_the_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def prepared(*_: object, **__: object) -> AsyncIterator[Abilities]:
        abilities = Abilities(notes=["no file is known"])
        try:
            yield abilities
        finally:
            abilities.notes.append("remove a file")

    monkeypatch.setattr(judging, "prepared_export", prepared)
    monkeypatch.setattr(judging, "spoken_versions", AsyncMock(side_effect=OSError("gone")))
    args = build_parser().parse_args(["check", "rdma://192.0.2.1/", "--only", "v1.null"])
    args.capture = None
    with pytest.raises(ConnectFailed):
        await judging.judge(args)
    assert capsys.readouterr() == ("", "note: remove a file\n")


async def test_the_report_on_clients_is_written_before_their_connections_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    @asynccontextmanager
    async def listening(*_: object) -> AsyncIterator[tuple[str, int]]:
        yield "192.0.2.1", 1
        told.append(capsys.readouterr().out)

    monkeypatch.setattr(judging, "listening", listening)
    command = ["check", "--listen", "rdma://192.0.2.1:1", "--only", "client.calls"]
    args = build_parser().parse_args(command)
    args.capture = None
    running = asyncio.ensure_future(judging.judge(args))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    await running
    assert "1 not seen" in told[0]


@pytest.mark.thorough
def test_a_run_that_fails_before_its_checks_has_its_files(
    command: Command, nobody_listens: int, tmp_path: Path
) -> None:
    files = {name: tmp_path / name for name in ("junit", "html")}
    options = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    assert command.run("check", f"rdma://127.0.0.1:{nobody_listens}", *options).status == 3
    assert all("the run ended before it: " in path.read_text() for path in files.values())


@pytest.mark.thorough
def test_writing_leaves_the_directory_as_it_was(command: Command, ours: tuple[str, Path]) -> None:
    before = sorted(ours[1].iterdir())
    ran = command.run("check", ours[0], "--write", ".", "--risky", "--only", "v1.*", "--json", *IN_NO_HURRY)
    assert (ran.status, not_shown(ran)) == (0, [])
    assert sorted(ours[1].iterdir()) == before


@pytest.mark.thorough
def test_a_port_in_use_or_no_host_name_is_refused_with_the_remedy_and_an_earlier_report_stays(
    command: Command, ours: tuple[str, Path], tmp_path: Path
) -> None:
    new, old = tmp_path / "new.html", tmp_path / "old.xml"
    old.write_text("earlier")
    url = ours[0].partition("/?")[0]
    ran = command.run("check", "--listen", "rdma://my..host")
    assert ran.status == 3
    assert "not a host name\nhint: choose" in ran.err
    ran = command.run("check", "--listen", url, "--html", str(new), "--junit", str(old))
    assert (ran.status, new.exists(), old.read_text()) == (3, False, "earlier")
    assert re.search(r"address already in use by \S+ \(pid \d+\)\nhint: stop it, or choose another port", ran.err)


@pytest.mark.thorough
@each_case("host", ["my..host", "a" * 64])
async def test_a_program_whose_host_has_no_address_is_refused_before_the_run(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "listening", None)
    command = ["check", "--listen", "rdma://192.0.2.1:1", "--behind", f"tcp://{host}:1"]
    args = build_parser().parse_args(command)
    args.capture = None
    with pytest.raises(HostNotFound, match="not a host name; check the host name"):
        await judging.judge(args)


@pytest.mark.thorough
def test_a_path_that_is_not_there_is_an_error(command: Command, ours: tuple[str, Path]) -> None:
    ran = command.run("check", ours[0].replace("/?", "/absent?"), "--only", "v1.null")
    assert ran.status == 1
    assert ran.err.endswith("/absent: no such file or directory\n")


@pytest.mark.thorough
@each_case(
    ("arguments", "status", "said"),
    [
        (["check"], 2, "no server is named"),
        (["check", "tcp://127.0.0.1"], 2, "not RPC-over-RDMA"),
        (["check", "rdma://127.0.0.1", "--behind", "tcp://127.0.0.1"], 2, "add --listen"),
        (["check", "--listen", "rdma://127.0.0.1:0", "--behind", "rdma://127.0.0.1"], 2, "not reached over TCP"),
        (["check", "--listen", "tcp://127.0.0.1:0"], 2, "not RPC-over-RDMA"),
        (["check", "--listen", "rdma://127.0.0.1:0", "--write", "scratch"], 2, "are for servers"),
        (["check", "--listen", "rdma://127.0.0.1:0", "--program", "absent.x"], 2, "are for servers"),
        (["check", "rdma://127.0.0.1", "--only", "nothing"], 2, "no check matches"),
        (["check", "rdma://127.0.0.1:PORT", "--provider", "verbs"], 3, "no RDMA device reaches it"),
        (["check", "rdma://my..host"], 3, "not a host name\nhint: check the address"),
        (["check", "rdma://127.0.0.1:PORT"], 3, "hint: check that the server runs and listens there"),
    ],
)
def test_usage_and_servers_that_do_not_answer(
    command: Command, nobody_listens: int, arguments: list[str], status: int, said: str
) -> None:
    ran = command.run(*(each.replace("PORT", str(nobody_listens)) for each in arguments))
    assert ran.status == status
    assert said in ran.err


def test_reports_hold_no_characters_of_a_peer_that_act_on_a_reader() -> None:
    hostile = "\x1b]0;\x07\udcff</pre><script>'\"&"
    passage = Passage(0.0, False, hostile, b"octets")
    each = (Verdict.VIOLATES, Verdict.NOT_SEEN, Verdict.DIFFERS)
    results = [Result(check=CATALOGUE[0], verdict=verdict, cause=hostile, passages=[passage]) for verdict in each]
    report = as_json(hostile, ["2"], [hostile], results)
    page, junit = as_html(report), as_junit(hostile, results)
    assert page.count("<script") == as_html(as_json("url", ["2"], [], [])).count("<script")
    for text in (page, junit):
        assert "\\x1b]0;\\x07\\xff&lt;/pre&gt;" in text
        assert not [letter for letter in text if not letter.isprintable() and letter != "\n"]
    assert ET.fromstring(junit).get("name") == "rpcrdma check \\x1b]0;\\x07\\xff</pre><script>'\"&"
