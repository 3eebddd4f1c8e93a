"""`rpcrdma send`: conversations that a user has written, said to a server, and shown as ladders."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma.cli.main import main
from rpcrdma_lab.check import Abilities, export_files
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Served, StartServer

EXAMPLES = Path(__file__).parents[3] / "examples" / "conversations"
NULL: dict[str, Any] = {"say": {"rpc": {}}}
ANSWERED: dict[str, Any] = {"hear": {"message": {"rpc": {"accepted": 0}}}}
NOWHERE = "rdma://127.0.0.1:1"
Sent = tuple[int, str, str]


@pytest.fixture(scope="module")
def peer(start: StartServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that may complain."""
    with start(tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("state")) as served:
        yield served


@pytest.fixture
def sent(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Sent]:
    """Sends a conversation, to `peer` unless a URL is given: (status, standard output, standard error)."""

    def send(conversation: object, *options: str, url: str | None = None) -> Sent:
        url = url or request.getfixturevalue("peer").urls["rdma"]
        file = tmp_path / "conversation.json"
        file.write_text(conversation if isinstance(conversation, str) else json.dumps(conversation))
        try:
            status = main(["send", *options, url, str(file)])
        except SystemExit as ended:
            status = int(ended.code or 0)
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return send


@pytest.mark.thorough
@each_case("path", sorted(EXAMPLES.glob("*.json")))
def test_the_examples_come_out_as_they_expect(path: Path, sent) -> None:
    status, _, err = sent(json.loads(path.read_text()))
    assert (status, err) == (0, "all answers are as expected\n")


@pytest.mark.thorough
def test_the_ladder_shows_both_sides(sent) -> None:
    status, out, _ = sent({"steps": [NULL, ANSWERED]})
    assert status == 0
    lines = out.splitlines()
    (title,) = [line for line in lines if line.startswith("2. ")]
    assert title.startswith("2. NFS_V3 NULL, xid 0x0badcafe: SUCCESS after ")
    assert any("Send, RDMA_MSG call -" in line and line.endswith(">|") for line in lines)
    assert any("Send, RDMA_MSG reply -" in line and "|<-" in line for line in lines)


@pytest.mark.thorough
def test_another_answer_is_told_with_the_step_and_both_sides(sent) -> None:
    steps = [NULL, ANSWERED, NULL, {"hear": {"message": {"header": {"type": 4}}}}]
    status, out, err = sent({"steps": steps})
    assert status == 1
    assert "NFS_V3 NULL" in out, "the ladder helps to find the reason"
    assert err.startswith("error: steps[3]: expected ")
    assert "RDMA_MSG" in err


@pytest.mark.thorough
def test_mistakes_are_shown_as_the_rules_that_they_break(sent) -> None:
    steps = [NULL, ANSWERED, {"say": {"header": {"xid": 5}, "rpc": {"xid": 6}}}, {"hear": {"message": {}}}]
    _, out, _ = sent({"steps": steps}, "--json")
    exchanges = json.loads(out)["exchanges"]
    faults = [fault for one in exchanges for message in one["messages"] for fault in message["faults"]]
    assert "V1-38" in [fault["requirement"] for fault in faults]


@pytest.mark.thorough
def test_json_has_the_verdict_the_passages_and_the_calls(sent) -> None:
    status, out, err = sent({"steps": [NULL, ANSWERED]}, "--json")
    assert (status, err) == (0, "")
    report = json.loads(out)
    assert list(report) == ["as_expected", "failure", "passages", "exchanges"]
    assert (report["as_expected"], report["failure"]) == (True, None)
    assert [passage["ours"] for passage in report["passages"]] == [True, False, True, False]
    assert [one["procedure"] for one in report["exchanges"]] == [None, "NFS_V3 NULL"]
    status, out, _ = sent({"steps": [NULL, {"hear": {"message": {"rpc": {"accepted": 1}}}}]}, "--json")
    report = json.loads(out)
    assert status == 1
    assert (report["as_expected"], report["failure"]["step"]) == (False, 1)


@pytest.mark.thorough
def test_silence_is_told_after_the_time_that_is_given(sent) -> None:
    status, _, err = sent({"steps": [{"hear": {"message": {}}}]}, "--timeout", "0.5")
    assert status == 1
    assert "found nothing for 0.5 s" in err


@pytest.mark.thorough
def test_values_are_given_on_the_command_line(sent) -> None:
    call = {"say": {"header": {"xid": {"given": "number"}}, "rpc": {"args": {"given": "data"}}}}
    answer = {"hear": {"message": {"header": {"xid": 0x77}, "rpc": {"accepted": 0}}}}
    status, out, err = sent({"steps": [call, answer]}, "--given", "number=0x77", "--given", "data=hex:", "--json")
    assert status == 0, err
    assert json.loads(out)["exchanges"][1]["xid"] == 0x77
    status, _, err = sent({"steps": [call]})
    assert status == 2
    assert "the conversation needs values that are not given: data, number\nhint: --given NAME=VALUE" in err


def test_values_that_are_none_are_refused(sent) -> None:
    for wrong in ("number", "=1", "number=x", "data=hex:0"):
        status, _, err = sent({"steps": []}, "--given", wrong, url=NOWHERE)
        assert status == 2
        assert "is not NAME=VALUE" in err


@pytest.mark.thorough
def test_a_check_is_a_conversation(sent, capsys) -> None:
    assert main(["check", "--list", "--json", "--only", "v1.type.5"]) == 0
    status, out, err = sent(capsys.readouterr().out, "--json")
    assert status == 0, err
    outcomes = [exchange["outcome"] for exchange in json.loads(out)["exchanges"]]
    assert outcomes == [None, "ERR_CHUNK", "SUCCESS"]


@pytest.mark.thorough
@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_a_capture_that_cannot_be_read_again_changes_no_ladder(sent, device: str) -> None:
    status, out, _ = sent({"steps": [NULL, ANSWERED]}, "--pcap", device)
    assert status == 0
    assert "2. NFS_V3 NULL" in out


@pytest.mark.thorough
def test_the_capture_is_kept_where_pcap_says(sent, tmp_path: Path, capsys) -> None:
    file = tmp_path / "talk.pcap"
    status, out, _ = sent({"steps": [NULL, ANSWERED]}, "--pcap", str(file))
    assert status == 0
    assert main(["explain", str(file)]) == 0
    shown, kept = (re.sub(r"\d+(\.\d+)? u?s\b", "", text).split() for text in (out, capsys.readouterr().out))
    assert shown == kept


@each_case(
    ("conversation", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a conversation"),
        ("[" * 100_000, "not JSON"),
        ({}, "steps"),
        ({"steps": [{"shout": {}}]}, "steps[0]"),
        ({"steps": [{"serve": {"each": []}}]}, "hint: rpcrdma check --listen URL --only ID holds it"),
    ],
)
def test_what_is_no_conversation_is_refused_with_the_place(sent, conversation: object, message: str) -> None:
    status, out, err = sent(conversation, url=NOWHERE)
    assert (status, out) == (2, "")
    assert message in err


@pytest.mark.thorough
def test_checks_find_their_files_and_limits_as_rpcrdma_check_does(start: StartServer, tmp_path: Path, capsys) -> None:
    """Each of these refers to values of another kind: an export's, those of --write, and those of the server."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_bytes(bytes(range(250)) * 40)
    checks = ("v1.read.failed", "v1.read.5-into-8", "v1.write.1000", "v1.credits.all-granted", "v2.rtr.null")
    checks += ("v1.back-channel.error",)
    with start(root, tmp_path / "state") as served:
        url = f"{served.urls['rdma']}+{served.urls['tcp'].rpartition(':')[2]}/"
        for check in checks:
            assert main(["check", "--list", "--json", "--only", check]) == 0
            file = tmp_path / "check.json"
            file.write_text(capsys.readouterr().out)
            assert main(["send", url, "--write", ".", str(file)]) == 0, (check, capsys.readouterr().err)
            assert capsys.readouterr().err == "all answers are as expected\n"
        assert [path.name for path in root.iterdir()] == ["file"]


def test_a_file_that_stays_behind_is_noted(sent, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def prepared(*_: object, **__: object) -> AsyncIterator[Abilities]:
        abilities = Abilities(notes=["no file"])
        yield abilities
        abilities.notes.append("remove a file")

    monkeypatch.setattr(export_files, "prepared_export", prepared)
    _, _, err = sent({"steps": [{"say": {"body": {"given": "written"}}}]}, url=NOWHERE)
    assert [line for line in err.splitlines() if line.startswith("note: ")] == ["note: no file", "note: remove a file"]


def test_options_that_the_conversation_decides_are_refused(sent) -> None:
    for options in (("--provider", "verbs"), ("--rpcrdma-version", "2")):
        status, out, err = sent({"steps": []}, *options, url=NOWHERE)
        assert (status, out) == (2, "")
        assert "\nhint: " in err


@pytest.mark.thorough
def test_a_listener_that_speaks_no_rdma_is_no_connection(sent, peer: Served) -> None:
    status, _, err = sent({"steps": []}, "--timeout", "1", url=peer.urls["tcp"].replace("tcp://", "rdma://"))
    assert status == 3
    assert "hint: check that a server of RPC-over-RDMA with iWARP listens there" in err


@pytest.mark.thorough
@each_case("pcap", [False, True])
def test_what_is_no_host_name_is_no_connection(sent, tmp_path: Path, pcap: bool) -> None:
    options = ["--pcap", str(tmp_path / "capture.pcap")] if pcap else []
    status, _, err = sent({"steps": []}, *options, url="rdma://my..host")
    assert status == 3
    assert "not a host name\nhint: check the address" in err


def test_headers_need_rdma(sent) -> None:
    status, _, err = sent({"steps": []}, url="tcp://127.0.0.1:1")
    assert status == 2
    assert "rdma://" in err


@pytest.mark.thorough
def test_a_conversation_comes_from_standard_input(peer: Served, monkeypatch, capsys) -> None:
    text = json.dumps({"steps": [NULL, ANSWERED]})
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["send", peer.urls["rdma"], "-"]) == 0
    assert "as expected" in capsys.readouterr().err
