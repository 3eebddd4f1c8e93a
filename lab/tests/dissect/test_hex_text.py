"""Hex text in the forms that programs print."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest

from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.hex_text import TEXT_MAX, NotHex, read_hex
from support.cases import each_case

OCTETS = bytes.fromhex("0a0b0c0d 00000002 00200020 00000000 00000000 deadbeef")


@each_case(
    "text",
    [
        OCTETS.hex(),
        OCTETS.hex(" "),
        OCTETS.hex(" ", 4).upper(),
        OCTETS.hex(":"),
        "0a0b0c0d 00000002 | 00200020 00000000\n\n  00000000\tdeadbeef  # a comment: 77\n",
        ", ".join(f"0x{octet:02x}" for octet in OCTETS),
        '"' + "".join(f"\\x{octet:02x}" for octet in OCTETS) + '"',
    ],
)
def test_digits_however_they_are_grouped(text: str) -> None:
    assert read_hex(text) == (OCTETS, "hex digits")


DUMPS = {
    "xxd": ["xxd"],
    "xxd, octets": ["xxd", "-g1"],
    "xxd, plain": ["xxd", "-p"],
    "hexdump": ["hexdump", "-C", "-v"],
    "od, octal offsets": ["od", "-v", "-t", "x1"],
    "od, hex offsets": ["od", "-v", "-A", "x", "-t", "x1"],
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", DUMPS)
def test_dumps_of_other_programs(name: str) -> None:
    command = DUMPS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(reason=f"needs {command[0]}")
    for length in (1, 15, 16, 17, 100, 1000):
        octets = random.Random(length).randbytes(length)
        text = subprocess.run(command, input=octets, capture_output=True, check=True).stdout.decode("ascii", "replace")
        assert read_hex(text).octets == octets


XXD = """\
00000010: 6465 6164 6265 6566 3031 3233 3435 3637  deadbeef01234567
00000020: 6162                                     ab
"""
HEXDUMP = """\
00000000  64 65 61 64 62 65 65 66  30 31 32 33 34 35 36 37  |deadbeef01234567|
00000010  61 62                                             |ab|
00000012
"""
OD = """\
0000000 64 65 61 64 62 65 65 66 30 31 32 33 34 35 36 37
0000020 61 62
0000022
"""
WIRESHARK = """\
0000   64 65 61 64 62 65 65 66 30 31 32 33 34 35 36 37   deadbeef01234567
0010   61 62                                             ab
"""


@each_case(
    ("text", "form"),
    [
        (XXD, "a dump of xxd"),
        (HEXDUMP, "a dump with offsets"),
        (OD, "a dump with octal offsets"),
        (WIRESHARK, "a dump with offsets"),
    ],
)
def test_characters_that_look_like_digits_are_no_octets(text: str, form: str) -> None:
    found = read_hex(text)
    if text == WIRESHARK:
        # Its last line ends with characters that may as well be an octet.
        assert found.octets.startswith(b"deadbeef01234567ab")
    else:
        assert found.octets == b"deadbeef01234567ab"
    assert found.form == form


def test_a_star_stands_for_lines_like_the_one_before_it() -> None:
    zeros = f"0000000{' 00' * 16}\n*\n"
    assert read_hex(f"{zeros}0000100 61\n0000101\n").octets == bytes(64) + b"a"
    assert read_hex(f"{zeros}0000100\n").octets == bytes(64)
    for offset in ("0000102", "77777777"):
        with pytest.raises(NotHex, match=r"line 2: '\*' is no hex digit"):
            read_hex(f"{zeros}{offset} 61\n")


@each_case(
    ("text", "reason"),
    [
        ("", "no hex digit"),
        ("# only a comment\n\n", "no hex digit"),
        ("0a0b0", "5 hex digits are no whole octets"),
        ("0a0b\nhello\n", "line 2: 'h' is no hex digit"),
        ("0000000 0201 0403\n0000004\n", "16-bit words"),
        ("#" * (TEXT_MAX + 1), "more than 5242880 characters"),
        ("ff" * (lab_limits.DISSECTED_MESSAGE_OCTETS_MAX + 1), "1048577 octets, hex text may have 1048576"),
    ],
)
def test_other_text_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(NotHex, match=reason):
        read_hex(text)


def test_words_that_look_like_offsets_are_octets_where_they_do_not_rise() -> None:
    text = "00000000 00000002\n00400008 00000001\n"
    assert read_hex(text) == (bytes.fromhex(text), "hex digits")
