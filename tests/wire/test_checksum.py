"""CRC-32C against published values, whole and in pieces."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder

import pytest

from rpcrdma.wire import checksum, crc32c
from support.cases import each_case

# The check value of CRC catalogues, and those of iSCSI's data digests (RFC 3720 appendix B.4).
GOLDEN = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]
# The FPDUs of RFC 5044 section 4.4, from the marker or the length up to the CRC.
FPDUS = [
    ("00000000 002a 4143 00000000 00000000 00000001 00000000" + "00" * 24, 0x83992352, "52239983"),
    ("002a 4143 00000000 00000000 00000002 00000000 00000014" + "00" * 24, 0x98589284, "84925898"),
]


@pytest.mark.req("MPA-24")
@each_case(("data", "value"), GOLDEN)
def test_digests_are_the_published_ones(data: bytes, value: int) -> None:
    assert crc32c(data) == value
    assert crc32c(memoryview(bytearray(data))) == value


@pytest.mark.req("MPA-24")
@each_case(("octets", "value", "wire"), FPDUS)
def test_digests_of_fpdus_go_out_with_their_least_octet_first(octets: str, value: int, wire: str) -> None:
    digest = crc32c(bytes.fromhex(octets))
    assert digest == value
    assert digest.to_bytes(4, "little") == bytes.fromhex(wire)


def test_a_digest_goes_on_from_the_one_before() -> None:
    data = bytes(range(256)) * 3
    whole = crc32c(data)
    for cut in (0, 1, 7, 8, 255, 500, len(data)):
        assert crc32c(data[cut:], crc32c(data[:cut])) == whole
    octet_by_octet = 0
    for octet in data:
        octet_by_octet = crc32c(bytes([octet]), octet_by_octet)
    assert octet_by_octet == whole


def test_one_bit_changes_the_digest() -> None:
    data = bytearray(64)
    digests = {crc32c(data)}
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        digests.add(crc32c(data))
        data[bit // 8] ^= 1 << bit % 8
    assert len(digests) == 8 * len(data) + 1


@pytest.mark.thorough
def test_no_parser_of_mail_is_loaded_for_it() -> None:
    program = "import sys, rpcrdma.wire; print(sorted({'email', 'importlib.metadata'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@each_case("missing", ["crc32c", "crc32c._crc32c"])
def test_where_the_extension_module_is_not_found_the_package_is_taken(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Finder:
        @staticmethod
        def find_spec(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
            return None if name == missing else PathFinder.find_spec(name, path)

    monkeypatch.setattr(checksum, "PathFinder", Finder)
    monkeypatch.delitem(sys.modules, "crc32c", raising=False)
    found = checksum._find()
    assert found is sys.modules["crc32c"].crc32c
    assert found(b"123456789") == 0xE3069283
