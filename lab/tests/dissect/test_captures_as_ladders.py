"""The captures of lab/tests/captures explain themselves as they did when they were recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rpcrdma.cli.main import main
from rpcrdma_lab.dissect.capture_dissector import CaptureDissector
from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, read_packets
from rpcrdma_lab.dissect.connection import Settings

FOLDER = Path(__file__).parents[1] / "captures"
sys.path.insert(0, str(FOLDER))
from record import NAMES, capture_of, options_of  # noqa: E402


def explained(name: str, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    status = main(["explain", *options_of(name), *options, str(capture_of(name))])
    return status, capsys.readouterr().out


def test_each_kind_has_a_capture_and_a_ladder() -> None:
    captures, ladders = ({path.stem for path in FOLDER.glob(f"*{suffix}")} for suffix in (".pcap*", ".txt"))
    assert captures == ladders == set(NAMES)


SOME = ("v1-long-call", "extension-read", "broken")


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(SOME, id="some"),
        pytest.param(sorted(set(NAMES) - set(SOME)), id="others", marks=pytest.mark.thorough),
    ],
)
def test_a_capture_is_explained_as_its_golden_text(names: list[str], capsys) -> None:
    for name in names:
        status, out = explained(name, capsys)
        assert out == (FOLDER / f"{name}.txt").read_text(), "record.py --explain writes the ladders anew"
        assert status == {"broken": 4, "cut": 1}.get(name, 0)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param({"v2-continued-call"}, id="some"),
        pytest.param(
            set(NAMES) - {"v2-continued-call", "broken", "terminate", "cut"}, id="others", marks=pytest.mark.thorough
        ),
    ],
)
def test_a_packet_that_was_not_captured_makes_no_message_wrong(names: set[str]) -> None:
    for name in sorted(names):
        with capture_of(name).open("rb") as file:
            packets = list(read_packets(file, file.read(MAGIC_OCTETS)))
        for place in range(len(packets)):
            for captured in (packets[:place] + packets[place + 1 :], packets[place:]):
                wrong = [str(one) for found in CaptureDissector(Settings()).messages(captured) for one in found.faults]
                assert wrong == [], (name, place)


def test_every_line_fits_into_a_draft() -> None:
    for path in FOLDER.glob("*.txt"):
        text = path.read_text()
        assert text.isascii(), path
        assert max(map(len, text.splitlines())) <= 72, path


def test_the_bulk_data_of_each_call_is_where_the_header_says(capsys) -> None:
    where = {
        "v1-read": ("results", "6001 octets, in Write chunk 1"),
        "v1-write": ("arguments", "6001 octets, in Read chunk at 80"),
        "v2-read": ("results", "6001 octets, in Write chunk 1"),
        "extension-read": ("results", "20001 octets, in item [0]"),
        "extension-write": ("arguments", "20001 octets, in item [0]"),
    }
    for name, (part, expected) in where.items():
        _, out = explained(name, capsys, "--json")
        (call,) = [found for found in map(json.loads, out.splitlines()) if found["xid"] is not None]
        body = call[part].get("resok", call[part])
        assert body["data"] == expected, name
        assert body["count"] == int(expected.split()[0])


def test_the_page_about_decode_names_each_fact(capsys) -> None:
    page = (FOLDER.parents[2] / "docs" / "decode.md").read_text()
    for name in ("v1-read", "extension-read", "v2-continued-call", "broken"):
        _, out = explained(name, capsys, "--json")
        facts = {
            fact for call in map(json.loads, out.splitlines()) for one in call["messages"] for fact in one["facts"]
        }
        assert [fact for fact in sorted(facts) if f"`{fact}`" not in page] == [], name


def test_the_page_about_ladders_shows_one_of_them() -> None:
    page = (FOLDER.parents[2] / "docs" / "decode.md").read_text()
    assert (FOLDER / "v1-read.txt").read_text().split("\n\n")[1] in page
