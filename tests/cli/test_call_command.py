"""`rpcrdma call`: JSON in and out over every transport, refusals before a call, and answers of servers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma.rpc.loaded_interface import load_interface
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Answering, Command, Served, Serving

PROBE = """
enum colour { RED = -1, GREEN = 2 };
struct entry { string name<>; entry *next; };
union choice switch (colour which) { case RED: hyper size; case GREEN: opaque raw<>; };
struct all { entry *entries; choice chosen; double ratio; bool yes; int from; };
struct blob { unsigned int sum; opaque data<>; };
pragma ddp blob.data;
program PROBE {
    version PROBE_V1 { void PROBEPROC_NULL(void) = 0; all PROBEPROC_ECHO(all) = 1; } = 1;
    version PROBE_V2 {
        void PROBEPROC_NULL(void) = 0; all PROBEPROC_ECHO(all) = 1; blob PROBEPROC_REVERSE(blob) = 2;
        blob PROBEPROC_MAKE(unsigned int) = 3; colour PROBEPROC_COLOUR(void) = 4; int PROBEPROC_SUM(int, int) = 5;
        unsigned int PROBEPROC_COUNT(blob) = 6;
    } = 2;
} = 0x20000d01;
"""
LOADED = load_interface(PROBE, source_name="probe.x")
ALL = {
    "entries": [{"name": "a"}, {"name": "\u00e9"}],
    "chosen": {"which": "RED", "size": 1 << 62},
    "ratio": "NaN",
    "yes": True,
    "from": -1,
}


class Probe(LOADED.classes["PROBE_V2_Service"]):  # type: ignore[misc]
    def echo(self, args: Any, _context: object) -> Any:
        return args

    def reverse(self, args: Any, _context: object) -> Any:
        data = bytes(args.data)[::-1]
        return LOADED.classes["blob"](sum=sum(data), data=data)

    def make(self, args: int, _context: object) -> Any:
        return LOADED.classes["blob"](sum=0, data=bytes(args))

    def count(self, args: Any, _context: object) -> int:
        return len(args.data)

    def sum(self, args: Any, _context: object) -> int:
        return int(args.arg1 + args.arg2)


@pytest.fixture(scope="module", name="urls")
def urls_fixture(serving: Serving) -> Iterator[dict[str, str]]:
    with serving([Probe()]) as urls:
        yield urls


@pytest.fixture(name="here")
def here_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "probe.x").write_text(PROBE)
    return tmp_path


@pytest.fixture(params=["rdma-1", "rdma-2", "tcp"], name="over")
def over_fixture(request: pytest.FixtureRequest, urls: dict[str, str]) -> list[str]:
    """The first words of a command line: the version and the URL."""
    scheme, _, version = request.param.partition("-")
    return [*(["--rpcrdma-version", version] if version else []), "call", urls[scheme]]


@pytest.mark.thorough
def test_arguments_and_results_are_json(over: list[str], here: Path, command: Command) -> None:
    assert command.done(*over, "probe.x", "PROBEPROC_NULL").text == "null\n"
    assert command.done(*over, "probe.x", "echo", json.dumps(ALL)).json == ALL
    assert command.done(*over, "probe.x", "SUM", '{"arg1": 2, "arg2": "-0x5"}').json == -3


@pytest.mark.thorough
@each_case("place", range(6))
def test_options_may_stand_anywhere(place: int, urls: dict[str, str], here: Path, command: Command) -> None:
    words = ["call", urls["tcp"], "probe.x", "sum", '{"arg1": 1, "arg2": 2}']
    assert command.done(*words[:place], "--timeout", "300", *words[place:]).json == 3
    ran = command.run(*words, "4", "--timeout", "300")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "error: unrecognized arguments: 4")


@pytest.mark.thorough
def test_bulk_data_come_from_files_and_go_to_files(over: list[str], here: Path, command: Command) -> None:
    sent = bytes(range(256)) * 2048
    (here / "in.bin").write_bytes(sent)
    counted = command.done(*over, "probe.x", "count", '{"sum": 0, "data": "@in.bin"}', "--reply-max", "1k")
    assert counted.json == len(sent), "the bound of results is none for arguments"
    ran = command.done(*over, "probe.x", "reverse", '{"sum": 0, "data": "@in.bin"}', "--save", "result.data=out.bin")
    assert ran.json == {"sum": sum(sent), "data": "@out.bin"}
    assert (here / "out.bin").read_bytes() == sent[::-1]
    again = command.done(*over, "probe.x", "reverse", ran.text, "--save", "result.data=back.bin", "--json").json
    assert (again["procedure"], again["program"], again["version"]) == ("PROBEPROC_REVERSE", 0x20000D01, 2)
    assert (again["url"], again["result"]["data"]) == (over[-1], "@back.bin")
    assert (here / "back.bin").read_bytes() == sent


@pytest.mark.thorough
def test_arguments_come_from_standard_input(
    urls: dict[str, str], here: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"sum": 1, "data": "text:abc"}'))
    ran = command.done("call", urls["tcp"], "probe.x", "reverse", "-", "--hex")
    assert ran.json == {"sum": sum(b"cba"), "data": "hex:636261"}
    assert command.run("call", urls["tcp"], "-", "reverse", "-").err == (
        "error: FILE.x and JSON cannot both come from standard input\n"
    )


def test_standard_input_that_is_no_text_is_refused(
    here: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8"))
    ran = command.run("call", "tcp://127.0.0.1:1", "probe.x", "reverse", "-")
    assert (ran.status, ran.err) == (2, "error: arguments: not UTF-8 text\n")


@pytest.mark.thorough
def test_a_chosen_version_that_is_not_offered_is_named(urls: dict[str, str], here: Path, command: Command) -> None:
    ran = command.run("call", urls["rdma"], "probe.x", "null", "--program-version", "1")
    assert (ran.status, ran.err) == (
        1,
        (
            f"error: {urls['rdma']}: the server refused the call: the responder offers version 2 of the program\n"
            "hint: --program-version N calls another version, if FILE.x has it\n"
        ),
    )
    ran = command.run("call", urls["tcp"], "mount3.x", "null", "--json")
    assert (ran.status, ran.json["error"]["kind"]) == (1, "call_refused")
    assert ran.json["error"]["hint"] == f"rpcrdma programs {urls['tcp']} lists the programs of the server"


BAD_USE: dict[str, tuple[list[str], int, str]] = {
    "missing member": (
        ["probe.x", "echo", json.dumps({**ALL, "chosen": {"which": "RED"}})],
        2,
        "error: arguments.chosen.size: missing\nhint: it is hyper\n",
    ),
    "no arguments": (
        ["probe.x", "sum"],
        2,
        'error: arguments: PROBEPROC_SUM takes some\nhint: they look like {"arg1": "int", "arg2": "int"}\n',
    ),
    "no such procedure": (
        ["probe.x", "ecco"],
        2,
        "error: probe.x has no procedure ecco\nhint: did you mean PROBEPROC_ECHO?\n",
    ),
    "no such program": (
        ["probe.x", "echo", "--program", "7"],
        2,
        "error: probe.x defines no program 7\nhint: it defines PROBE (536874241)\n",
    ),
    "nothing to save": (
        ["probe.x", "reverse", "{}", "--save", "result.date=x"],
        2,
        "error: the result of PROBEPROC_REVERSE has no opaque data at result.date\nhint: it has some at result.data\n",
    ),
    "two files for one path": (
        ["probe.x", "reverse", "{}", "--save", "result.data=a", "--save", "result.data=b"],
        2,
        "error: --save has two files for result.data; leave one out\n",
    ),
    "one file for two paths": (
        ["probe.x", "reverse", "{}", "--save", "result.data=a", "--save", "result.more=a"],
        2,
        "error: --save has a for two paths; name another file\n",
    ),
    "save without a file": (
        ["probe.x", "reverse", "{}", "--save", "result.data"],
        2,
        (
            "error: argument --save: 'result.data' is not PATH=FILE: write result.data=data.bin\n"
            "hint: rpcrdma call --help shows how to use it\n"
        ),
    ),
    "missing file": (
        ["probe.x", "reverse", '{"sum": 0, "data": "@gone"}'],
        1,
        "error: gone: no such file or directory\n",
    ),
    "no definition": (["gone.x", "echo"], 1, "error: gone.x: no such file or directory\n"),
    "bad definition": (
        ["bad.x", "echo"],
        1,
        (
            "error: bad.x:1:12: type none is not defined\n  struct a { none b; };\n             ^^^^\n"
            "error: bad.x does not compile\n"
            "hint: rpcrdma xdr lint checks definitions; --lenient takes malformed ones whose meaning is clear\n"
        ),
    ),
}


@pytest.mark.thorough
@each_case(("words", "status", "said"), BAD_USE.values())
def test_what_cannot_be_called_is_told_before_a_connection_is_made(
    words: list[str], status: int, said: str, here: Path, command: Command, nobody_listens: int
) -> None:
    (here / "bad.x").write_text("struct a { none b; };\n")
    ran = command.run("call", f"tcp://127.0.0.1:{nobody_listens}", *words)
    assert (ran.status, ran.err) == (status, said)


@pytest.mark.thorough
def test_data_that_a_result_lacks_are_missed_and_files_that_cannot_be_written_named(
    urls: dict[str, str], here: Path, command: Command
) -> None:
    green = {**ALL, "chosen": {"which": "GREEN", "raw": "AAE="}}
    words = ["call", urls["tcp"], "probe.x", "echo"]
    ran = command.run(*words, json.dumps(ALL), "--save", "result.chosen.raw=raw.bin")
    assert (ran.status, ran.json) == (1, ALL)
    assert ran.err == "error: this result has nothing at result.chosen.raw\nhint: raw.bin was not written\n"
    ran = command.run(*words, json.dumps(green), "--save", "result.chosen.raw=none/raw.bin")
    assert (ran.status, ran.json) == (1, green), "what the call brought is shown all the same"
    assert ran.err == "error: none/raw.bin: no such file or directory\n"


@pytest.mark.thorough
def test_results_that_do_not_decode_are_one_line(over: list[str], here: Path, command: Command) -> None:
    """The server answers with another definition's result."""
    (here / "other.x").write_text(PROBE.replace("all PROBEPROC_ECHO(all)", "colour PROBEPROC_ECHO(all)"))
    ran = command.run(*over, "other.x", "echo", json.dumps(ALL))
    assert ran.status == 4
    assert ran.err.splitlines() == [
        f"error: {over[-1]}: the peer broke the protocol: colour at offset 24: need a value of enum colour, have 1",
        "hint: or other.x does not define the program of this server",
    ]


def record(body: bytes) -> bytes:
    return (len(body) | 1 << 31).to_bytes(4, "big") + body


ACCEPTED = b"XID " + bytes.fromhex("00000001 00000000 00000000 00000000 00000000")
GARBAGE = {
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "nothing": b"",
    "too few octets": record(ACCEPTED + b"\0\0"),
    "half a record": record(ACCEPTED)[:9],
}


@pytest.mark.thorough
@each_case("reply", GARBAGE.values())
def test_garbage_is_told_in_one_line(reply: bytes, here: Path, command: Command, answering: Answering) -> None:
    with answering(reply) as url:
        ran = command.run("call", url, "probe.x", "colour", "--timeout", "300", "--json")
    assert ran.status in ({1, 3} if reply in {b"", GARBAGE["half a record"]} else {4})
    assert ran.err.startswith("error: ")
    assert len(ran.err.splitlines()) <= 2, ran.err
    (told,) = ran.json_lines
    assert told["error"]["exit_status"] == ran.status


@pytest.mark.thorough
def test_files_are_read_and_written_through_the_nfs_definition(server: Served, here: Path, command: Command) -> None:
    (server.root / "called").write_bytes(b"as NFSv3 has it" * 100)
    words = ["call", server.urls["tcp"], "mount3.x", "mnt", '"/"']
    root = command.done(*words).json["mountinfo"]["fhandle"]
    nfs = ["call", server.urls["rdma"], "nfs3.x"]
    found = command.done(*nfs, "lookup", json.dumps({"what": {"dir": {"data": root}, "name": "called"}})).json
    assert found["status"] == "NFS3_OK"
    args = {"file": found["resok"]["object"], "offset": 0, "count": 4096}
    read = command.done(*nfs, "read", json.dumps(args), "--save", "result.resok.data=copy").json
    assert (read["resok"]["count"], (here / "copy").read_bytes()) == (1500, b"as NFSv3 has it" * 100)
    missing = command.done(*nfs, "lookup", json.dumps({"what": {"dir": {"data": root}, "name": "none"}})).json
    assert missing["status"] == "NFS3ERR_NOENT"
    (here / "nfs3.x").write_text("struct s { int a; };")
    assert command.run(*nfs, "null").err == "error: nfs3.x defines no program\n", "a file of the name comes first"


@pytest.mark.thorough
def test_malformed_definitions_are_taken_on_request_with_warnings(
    urls: dict[str, str], here: Path, command: Command
) -> None:
    (here / "c.x").write_text(PROBE.replace("int from", "long from"))
    ran = command.run("call", urls["tcp"], "c.x", "null")
    assert (ran.status, ran.err.splitlines()[0]) == (1, "error: c.x:5:69: 'long' is no type of the language")
    ran = command.done("call", urls["tcp"], "c.x", "null", "--lenient")
    assert ran.err.startswith("warning: c.x:5:69: 'long' is no type of the language\n")
    (here / "c.x").write_text(PROBE.replace("int from", "long from").replace("int sum", "long sum"))
    ran = command.done("call", urls["tcp"], "c.x", "null", "--lenient")
    assert ran.err == "warning: c.x is malformed in 2 places; rpcrdma xdr lint --lenient shows them\n"
