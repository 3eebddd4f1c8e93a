"""RDMA Writes are placed in order and not reported at their target; limits of posted and received work."""

from __future__ import annotations

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.iwarp import MpaRole
from rpcrdma.verbs import Access
from support.cases import each_case
from support.raw_iwarp import completions_of, connected, fpdu, tagged, untagged


@pytest.mark.req("RD-5", "DDP-3")
def test_writes_to_the_same_place_land_in_their_order_before_what_follows_them() -> None:
    raw = connected(MpaRole.RESPONDER)
    region = raw.pd.register(bytearray(10), Access.REMOTE_WRITE)
    raw.qp.post_receive("done", memoryview(bytearray(4)))
    writes = [(0, b"aaaaaaaaaa"), (3, b"bbbb"), (5, b"ccc"), (4, b""), (0, b"d")]
    stream = b"".join(fpdu(tagged(0, region.handle, region.offset + at, data)) for at, data in writes)
    for octet in stream:
        raw.give(bytes([octet]))
        assert completions_of(raw.qp) == []
    raw.give(fpdu(untagged(3, 0, 1, b"done")))
    assert [completion.wr for completion in completions_of(raw.qp)] == ["done"]
    assert bytes(region.view) == b"daabbcccaa"


@each_case(
    ("handle", "offset", "length", "possible"),
    [
        (0, 0, 1, True),
        (0xFFFFFFFF, 0, 1, True),
        (7, (1 << 64) - 1, 1, True),
        (7, 1 << 64, 0, True),
        (-1, 0, 1, False),
        (1 << 32, 0, 1, False),
        (7, -1, 1, False),
        (7, (1 << 64) - 1, 2, False),
    ],
)
def test_work_is_posted_up_to_the_last_handle_and_the_last_offset(
    handle: int, offset: int, length: int, possible: bool
) -> None:
    raw = connected()
    sink = raw.pd.register(bytearray(8), Access.REMOTE_WRITE)
    if possible:
        raw.qp.post_write(1, [bytes(length)], handle, offset)
        raw.qp.post_read(2, sink, 0, length, handle, offset)
        return
    with pytest.raises(LocalProtocolError, match="no memory can be at handle"):
        raw.qp.post_write(1, [bytes(length)], handle, offset)
    with pytest.raises(LocalProtocolError, match="no memory can be at handle"):
        raw.qp.post_read(2, sink, 0, length, handle, offset)
