"""`rpcrdma explain`, and the options by which it and `decode` choose calls."""

from __future__ import annotations

import io
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.cli.main import main
from rpcrdma_lab.dissect import exchange_page
from support.cases import each_case
from support.octets import words
from support.raw_capture import CLIENT, SERVER, HandMadeCapture

GETATTR, LOOKUP, READ = 1, 3, 6
NFS3ERR_STALE, ERR_CHUNK = 70, 2


def call(xid: int, procedure: int = GETATTR, program: int = 100003) -> bytes:
    header = words(xid, 1, 32, 0, 0, 0, 0)
    return header + words(xid, 0, 2, program, 3, procedure, 0, 0, 0, 0) + words(4, 0x01020304)


def reply(xid: int, status: int, credits_: int = 32) -> bytes:
    return words(xid, 1, credits_, 0, 0, 0, 0) + words(xid, 1, 0, 0, 0, 0) + words(status)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Two GETATTRs, one of which fails; a refused READ; a call of another program; a reply that breaks a rule."""
    file = tmp_path / "calls.pcap"
    with HandMadeCapture(file) as made:
        made.send(CLIENT, call(0x10))
        made.send(SERVER, reply(0x10, NFS3ERR_STALE))
        made.send(CLIENT, call(0x11, READ) + words(0, 0, 10))
        made.send(SERVER, words(0x11, 1, 32, 4, ERR_CHUNK))
        made.send(CLIENT, call(0x12, 1, 77))
        made.send(SERVER, reply(0x12, 5))
        made.send(CLIENT, call(0x13, 0))
        made.send(SERVER, reply(0x13, 0)[:-4])
        made.send(CLIENT, call(0x14, 0))
        made.send(SERVER, reply(0x14, 0, 0)[:-4])
    return file


def ran(capsys: pytest.CaptureFixture[str], command: str, *options: str | Path) -> tuple[int, str, str]:
    status = main([command, *map(str, options)])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def xids(out: str) -> list[int]:
    return [found["xid"] for found in map(json.loads, out.splitlines()) if found["xid"] is not None]


def test_each_call_is_a_ladder_in_the_order_of_the_calls(capsys, capture) -> None:
    status, out, err = ran(capsys, "explain", capture)
    assert status == 4
    titles = [line for line in out.splitlines() if line[:1].isdigit()]
    assert [title.partition(" after")[0] for title in titles] == [
        "1. Messages outside of calls",
        "2. NFS_V3 GETATTR, xid 0x00000010: NFS3ERR_STALE",
        "3. NFS_V3 READ, xid 0x00000011: ERR_CHUNK",
        "4. program 77 version 3 procedure 1, xid 0x00000012: SUCCESS",
        "5. NFS_V3 NULL, xid 0x00000013: SUCCESS",
        "6. NFS_V3 NULL, xid 0x00000014: SUCCESS",
    ]
    assert "  arguments: file 0x01020304, offset 0, count 10" in out.splitlines()
    assert "[RFC 8166 3.3.1, V1-3]" in out
    assert err == "5 calls, 3 exchanges that failed, 1 broken rule\n"


def test_json_is_one_object_a_call_with_the_same_keys(capsys, capture) -> None:
    status, out, err = ran(capsys, "explain", "--json", capture)
    assert (status, err) == (4, "")
    found = [json.loads(line) for line in out.splitlines()]
    assert {frozenset(one) for one in found} == {
        frozenset(
            (
                *("exchange", "connection", "requester", "responder", "xid", "version", "procedure"),
                *("start_s", "elapsed_s", "outcome", "failed", "arguments", "results", "messages"),
            )
        )
    }
    stale = found[1]
    assert stale["results"] == {"status": "NFS3ERR_STALE"}
    assert stale["arguments"] == {"object": {"data": "01020304"}}
    assert (stale["outcome"], stale["failed"]) == ("NFS3ERR_STALE", True)
    (fault,) = [fault for one in found for message in one["messages"] for fault in message["faults"]]
    assert (fault["section"], fault["requirement"]) == ("RFC 8166 3.3.1", "V1-3")


def test_calls_are_chosen_by_xid_procedure_and_failure(capsys, capture) -> None:
    chosen: dict[tuple[str, ...], list[int]] = {
        ("--xid", "0x11"): [0x11],
        ("--xid", "17"): [0x11],
        ("--xid", "0x99"): [],
        ("--procedure", "null"): [0x13, 0x14],
        ("--procedure", "NFS_V3 GETATTR"): [0x10],
        ("--errors",): [0x10, 0x11, 0x14],
        ("--errors", "--procedure", "NULL"): [0x14],
    }
    for options, expected in chosen.items():
        _, out, _ = ran(capsys, "explain", "--json", *options, capture)
        assert xids(out) == expected, options
        _, out, _ = ran(capsys, "decode", "--json", *options, capture)
        messages = [json.loads(line) for line in out.splitlines()[1:]]
        assert [one["facts"]["xid"] for one in messages] == [xid for xid in expected for _ in range(2)], options


def test_a_choice_that_fits_no_call_names_the_procedures(capsys, capture) -> None:
    told = "warning: no call of NOSUCH; there are GETATTR, NULL, READ, program 77 version 3 procedure 1"
    for command in ("explain", "decode"):
        _, out, err = ran(capsys, command, "--json", "--procedure", "NOSUCH", "--xid", "9", capture)
        assert xids("".join(line for line in out.splitlines(keepends=True) if "input" not in line)) == []
        assert err.splitlines() == ["warning: no call with XID 0x00000009", told]
    _, _, err = ran(capsys, "explain", "--json", "--procedure", "GETATTR", "--xid", "0x13", capture)
    assert err == "", "each fits to a call"


def test_decode_chooses_without_changing_its_verdict(capsys, capture) -> None:
    status, out, err = ran(capsys, "decode", "--brief", "--xid", "0x10", capture)
    assert status == 4
    assert [line[:2] for line in out.splitlines()] == ["#3", "#4"]
    assert err.splitlines()[-1] == "12 messages, 1 with something wrong"


def test_programs_of_other_definitions_are_read(capsys, capture, tmp_path) -> None:
    definition = tmp_path / "own.x"
    definition.write_text(
        "enum answer { FINE = 0, TIRED = 5 };\nstruct name { opaque it<8>; };\n"
        "program OWN { version OWN_V3 { answer ASK(name) = 1; } = 3; } = 77;\n"
    )
    _, out, _ = ran(capsys, "explain", "--program", definition, "--procedure", "ask", capture)
    assert "4. OWN_V3 ASK, xid 0x00000012: TIRED after" in out
    assert "arguments: it 0x01020304" in out
    _, out, _ = ran(capsys, "explain", "--json", "--program", definition, "--errors", capture)
    assert xids(out) == [0x10, 0x11, 0x12, 0x14], "a status that is not zero is an error"


@each_case(
    ("text", "message"),
    [
        (None, "no such file"),
        ("struct {", "the definition cannot be read\nhint: rpcrdma xdr lint "),
        ("const A = 1;", "defines no program"),
    ],
)
def test_a_definition_that_is_of_no_use_is_refused(capsys, capture, tmp_path, text: str | None, message: str) -> None:
    definition = tmp_path / "own.x"
    if text is not None:
        definition.write_text(text)
    for command in ("explain", "decode"):
        status, out, err = ran(capsys, command, "--program", definition, capture)
        assert (status, out) == (1, "")
        assert message in err.lower()


@each_case("xid", ["x", "-1", "0x100000000"])
def test_an_xid_has_32_bits(capsys, capture, xid: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explain", f"--xid={xid}", str(capture)])
    assert ended.value.code == 2
    assert "is no XID" in capsys.readouterr().err


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.data: dict[str, Any] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][1].get("id") == "messages" and not self.data:
            self.data = json.loads(data)


def test_the_page_needs_no_other_file_and_has_all_messages(capsys, capture, tmp_path) -> None:
    file = tmp_path / "calls.html"
    status, out, err = ran(capsys, "explain", "--html", file, capture)
    assert (status, out) == (4, "")
    assert f"{file} has 6 exchanges" in err
    page = _Page()
    page.feed(file.read_text())
    assert [attributes for _, attributes in page.elements if {"src", "href"} & attributes.keys()] == []
    shown = [attributes["data-message"] for _, attributes in page.elements if "data-message" in attributes]
    assert shown == list(page.data) == [str(number) for number in range(1, 13)]
    exchanges = [attributes for tag, attributes in page.elements if tag == "details"]
    assert [one["data-failed"] for one in exchanges] == ["no", "yes", "yes", "no", "no", "yes"]
    assert json.loads(exchanges[-1]["data-rules"] or "") == ["V1-3, RFC 8166 3.3.1"]
    stale = page.data["4"]
    assert bytes.fromhex(stale["hex"]) == reply(0x10, NFS3ERR_STALE)
    results = next(group for group in stale["groups"] if group["name"].endswith("results"))
    (status_row,) = results["fields"]
    place = results["base"] + status_row[1]
    assert bytes.fromhex(stale["hex"])[place : place + status_row[2]] == words(NFS3ERR_STALE)


def test_a_page_that_cannot_be_written_is_told_before_the_packets_are_read(
    capsys, capture, tmp_path, monkeypatch
) -> None:
    read = []
    monkeypatch.setattr(exchange_page, "exchange_page", lambda *_: read.append(1))
    status, _, err = ran(capsys, "explain", "--html", tmp_path / "absent" / "calls.html", capture)
    assert (status, read) == (1, [])
    assert "absent/calls.html: no such file or directory" in err


def test_a_page_is_not_left_empty_and_what_it_has_is_replaced_at_the_end(
    capsys, capture, tmp_path, monkeypatch
) -> None:
    new, old = tmp_path / "new.html", tmp_path / "old.html"
    old.write_text("x" * 1_000_000)

    def unreadable(*_: object) -> None:
        raise OSError(5, "Input/output error")

    for page, left in ((new, False), (old, True)):
        with monkeypatch.context() as patch:
            patch.setattr(exchange_page, "exchange_page", unreadable)
            assert ran(capsys, "explain", "--html", page, capture)[0] == 1
        assert page.exists() == left
        ran(capsys, "explain", "--html", page, capture)
    assert new.read_bytes() == old.read_bytes()


def test_the_reader_of_a_named_pipe_gets_the_page(capsys, capture, tmp_path) -> None:
    pipe = tmp_path / "page"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as other:
        reading = other.submit(pipe.read_text)
        assert ran(capsys, "explain", "--html", pipe, capture)[0] == 4
        assert "</html>" in reading.result()


def test_the_page_goes_to_standard_output_and_names_a_capture_whose_name_is_no_utf_8(capsys, capture, tmp_path) -> None:
    file = Path(f"{capture}\udcff")
    file.write_bytes(capture.read_bytes())
    status, out, err = ran(capsys, "explain", "--html", "-", file)
    assert (status, err.splitlines()[0]) == (4, "standard output has 6 exchanges")
    assert "<title>Calls in calls.pcap\\xff</title>" in out


def test_the_panel_of_a_narrow_window_is_below_the_ladders(capsys, capture, tmp_path) -> None:
    file = tmp_path / "calls.html"
    ran(capsys, "explain", "--html", file, capture)
    style = file.read_text().partition("</style>")[0]
    assert style.index("aside {") < style.index("@media (max-width: 1080px)"), "the later one of two rules counts"


def test_a_capture_that_is_cut_off_is_explained_up_to_there(capsys, capture, tmp_path) -> None:
    file, page = tmp_path / "cut.pcap", tmp_path / "cut.html"
    file.write_bytes(capture.read_bytes()[: capture.read_bytes().rindex(words(0x11, 1, 32, 4))])
    damaged = "error: the capture is damaged at octet "
    for options in ((), ("--html", page)):
        status, out, err = ran(capsys, "explain", "--errors", *options, file)
        told = out or page.read_text()
        assert status == 1
        assert "no answer" in told
        assert err.splitlines()[-2] == "2 calls, 2 exchanges that failed, 0 broken rules"
        assert err.splitlines()[-1].startswith(damaged)
    status, out, err = ran(capsys, "decode", "--brief", "--xid", "0x11", file)
    assert (status, out[:2]) == (1, "#5")
    assert damaged in err


def test_html_and_json_exclude_each_other(capsys, capture, tmp_path) -> None:
    status, _, err = ran(capsys, "explain", "--json", "--html", tmp_path / "page.html", capture)
    assert status == 2
    assert "exclude each other" in err


def test_other_input_is_refused(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"0a0b0c0d")))
    status, _, err = ran(capsys, "explain")
    assert status == 1
    assert err == (
        "error: the input is neither pcap nor pcapng\n"
        "hint: rpcrdma decode takes hex text; a compressed capture must be decompressed first\n"
    )
