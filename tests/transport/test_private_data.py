"""Private data of RFC 8797."""

from __future__ import annotations

import pytest

from rpcrdma.transport.config import TransportConfig
from rpcrdma.transport.private_data import Agreement, PrivateData, agree, decode_private_data, encode_private_data
from support.cases import each_case

# The private data of a Linux client and a Linux server (6.12).
LINUX_CLIENT = bytes.fromhex("f6ab0e18 01010303")
LINUX_SERVER = bytes.fromhex("f6ab0e18 01000303")


def test_bytes_of_a_linux_client_and_server() -> None:
    assert decode_private_data(LINUX_CLIENT) == PrivateData(True, 4096, 4096)
    assert decode_private_data(LINUX_SERVER) == PrivateData(False, 4096, 4096)
    assert encode_private_data(PrivateData(True, 4096, 4096)) == LINUX_CLIENT
    for octets in (4096, 5119):
        # Rounded down to a multiple of 1024.
        assert encode_private_data(PrivateData(False, octets, octets)) == LINUX_SERVER


def test_both_ends_of_ours_agree_on_more_than_linux_and_linux_gets_its_own_sizes() -> None:
    """A READ or WRITE of 32 KiB and its headers then go in one message, as in version 2."""
    own = TransportConfig().abilities
    assert TransportConfig().private_data() == bytes.fromhex("f6ab0e18 01012323")
    assert agree(own, own) == Agreement(36864, 36864, True)
    for linux, invalidation in ((LINUX_CLIENT, True), (LINUX_SERVER, False)):
        assert agree(own, decode_private_data(linux)) == Agreement(4096, 4096, invalidation)


@pytest.mark.req("PD-3")
def test_reserved_bits_are_sent_as_zero() -> None:
    assert encode_private_data(PrivateData(True, 1024, 1024))[5] == 1
    assert encode_private_data(PrivateData(False, 1024, 1024))[5] == 0


@pytest.mark.req("PD-4")
def test_reserved_bits_are_ignored() -> None:
    assert decode_private_data(bytes.fromhex("f6ab0e18 01fe0303")) == PrivateData(False, 4096, 4096)
    assert decode_private_data(bytes.fromhex("f6ab0e18 01ff0303")) == PrivateData(True, 4096, 4096)


@pytest.mark.req("PD-9", "PD-10")
@each_case("before", range(9))
@each_case("after", range(3))
def test_message_is_found_at_any_offset(before: int, after: int) -> None:
    assert decode_private_data(b"\xf6" * before + LINUX_CLIENT + b"z" * after) == PrivateData(True, 4096, 4096)


@pytest.mark.req("PD-8", "PD-9", "PD-10")
@each_case(
    "octets",
    [
        b"",
        b"something else altogether",
        *(LINUX_CLIENT[:length] for length in range(8)),
        b"pad" + LINUX_CLIENT[:7],
        bytes.fromhex("f6ab0e18 00010303"),
        bytes.fromhex("f6ab0e18 02010303"),
        bytes.fromhex("180eabf6 01010303"),
        # One octet of the identifier is another.
        *(LINUX_CLIENT[:at] + b"\0" + LINUX_CLIENT[at + 1 :] for at in range(4)),
    ],
)
def test_foreign_or_incomplete_data_is_no_private_data(octets: bytes) -> None:
    assert decode_private_data(octets) is None


@pytest.mark.req("PD-10")
def test_search_goes_on_after_another_version() -> None:
    assert decode_private_data(bytes.fromhex("f6ab0e18 02") + LINUX_SERVER) == PrivateData(False, 4096, 4096)


@pytest.mark.req("PD-8", "V1-11", "PD-1")
def test_without_private_data_the_defaults_hold() -> None:
    own = PrivateData(True, 65536, 65536)
    assert agree(own, None) == Agreement(1024, 1024, False)


@pytest.mark.req("PD-5", "PD-7", "V1-10")
@each_case("mine", [False, True])
@each_case("theirs", [False, True])
def test_thresholds_are_the_smaller_and_invalidation_needs_both(mine: bool, theirs: bool) -> None:
    own = PrivateData(mine, 8192, 2048)
    peer = PrivateData(theirs, 4096, 3072)
    assert agree(own, peer) == Agreement(3072, 2048, mine and theirs)
