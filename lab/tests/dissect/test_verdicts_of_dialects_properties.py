"""`rpcrdma decode` marks each message as wrong that an endpoint would refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from header_vectors import load_headers, octets_of
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.dialects.v2 import Version2
from rpcrdma.transport.message import Cause, Kind
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.hex_text import hex_messages
from support.cases import each_case

FILES = {"1": "headers.toml", "2": "headers_v2.toml"}
DIALECTS = {"1": Version1, "2": Version2}
BOUNDS_OF_OURS = {Cause.READ_CHUNKS, Cause.WRITE_CHUNKS, Cause.SEGMENTS}


def rpc(xid: bytes, direction: int) -> bytes:
    """The header of a call, or of its reply."""
    rest = (2, 100003, 3, 1, 0, 0, 0, 0) if direction == 0 else (0, 0, 0, 0)
    return xid + b"".join(word.to_bytes(4) for word in (direction, *rest))


CASES = [
    (version, octets_of(vector))
    for version, file in FILES.items()
    for table in ("header", "malformed")
    for vector in load_headers(file)[table]
]


def compare(version: str, octets: bytes) -> None:
    found = DIALECTS[version]().decode(octets)
    if found is None or found.kind is not Kind.UNREADABLE or found.refusal is None:
        return
    if found.refusal.cause in BOUNDS_OF_OURS or (found.refusal.cause is Cause.VERSION and found.version == 1):
        return  # a bound of ours; or a message that is right in another version
    (message,) = hex_messages(octets, Settings(), iwarp=False)
    assert message.faults, octets.hex()


@pytest.mark.thorough
@each_case(("version", "octets"), CASES)
def test_vectors_with_and_without_an_rpc_message_and_with_each_word_changed(version: str, octets: bytes) -> None:
    for payload in (b"", rpc(octets[:4], 0), rpc(octets[:4], 1), rpc(b"abcd", 0)):
        compare(version, octets + payload)
        for at in range(0, len(octets), 4):
            for word in (0, 1, 2, 3, 4, 77, 0xFFFFFFFF):
                compare(version, octets[:at] + word.to_bytes(4) + octets[at + 4 :] + payload)


@given(
    st.sampled_from(list(FILES)),
    st.lists(st.integers(0, 13) | st.integers(0, 0xFFFFFFFF), min_size=1, max_size=30),
    st.integers(0, 1),
)
def test_any_words(version: str, words: list[int], direction: int) -> None:
    octets = b"".join(word.to_bytes(4) for word in words)
    compare(version, octets)
    compare(version, octets + rpc(octets[:4], direction))
    fixed = octets[:4] + int(version).to_bytes(4) + octets[4:]
    compare(version, fixed + rpc(fixed[:4], direction))
