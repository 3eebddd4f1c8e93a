"""Headers and whole calls with any content, sizes, thresholds and segment lengths."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.endpoint_pair import EndpointPair, message
from rpcrdma.transport import ReplyArrived, ReplyBound, TransportConfig

LENGTHS = st.integers(0, 12) | st.integers(950, 1100) | st.integers(3900, 4200) | st.integers(0, 30_000)
CONFIGS = st.builds(
    TransportConfig,
    inline_send_octets=st.sampled_from([1024, 2048, 4096, 16384]),
    inline_receive_octets=st.sampled_from([1024, 2048, 4096, 16384]),
    segment_octets_max=st.sampled_from([1500, 4096, 1 << 20]),
    remote_invalidation=st.booleans(),
)
PARTS = st.lists(st.tuples(st.integers(0, 2000).map(lambda n: 4 * n), LENGTHS), max_size=3)


def parts(shape: list[tuple[int, int]], seed: int) -> list[tuple[bytes, bytes]]:
    pattern = bytes((seed + n * 31 + n // 256) & 0xFF for n in range(30_000))
    return [(pattern[-plain:] if plain else b"", pattern[:item]) for plain, item in shape]


@pytest.mark.req("V1-37")
@given(CONFIGS, CONFIGS, PARTS, PARTS, st.data())
def test_what_is_said_is_what_is_heard(
    client: TransportConfig,
    server: TransportConfig,
    call_shape: list[tuple[int, int]],
    reply_shape: list[tuple[int, int]],
    data: st.DataObject,
) -> None:
    pair = EndpointPair(client, server).connect()
    arguments, results = parts(call_shape, 1), parts(reply_shape, 100)
    slack = data.draw(st.sampled_from([0, 1, 5000]))
    bound = ReplyBound(
        sum(len(plain) + 4 for plain, _ in results) + slack, tuple(len(item) + slack for _, item in results)
    )
    into = [bytearray(len(item) + slack) if data.draw(st.booleans()) else None for _, item in results]
    try:
        pair.client.call(7, message(7, 0, *arguments), bound, into)
    except LocalProtocolError:
        # Small segments make headers that fit no message: refused before anything is exposed.
        assert not pair.client_pd.regions
        assume(False)
    (incoming,) = pair.arrived()
    decoder = incoming.decoder
    decoder.octets(8, "start")
    for plain, item in arguments:
        assert decoder.octets(len(plain), "plain") == plain
        assert decoder.bulk(1 << 20, "item") == item
    decoder.done("call")
    pair.server.reply(incoming, message(7, 1, *results))
    pair.run()
    (event,) = pair.client_events()
    assert isinstance(event, ReplyArrived)
    decoder = event.decoder
    decoder.octets(8, "start")
    for (plain, item), memory in zip(results, into, strict=True):
        assert decoder.octets(len(plain), "plain") == plain
        assert decoder.bulk(1 << 20, "item") == item
        assert memory is None or memory[: len(item)] == item
    decoder.done("reply")
    assert not pair.client_pd.regions
    assert not pair.server_pd.regions
