"""Records of any length in fragments of any length, from a stream that is cut anywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.rpc.record import RecordReceiver


def deliver(receiver: RecordReceiver, stream: bytes, cuts: list[int]) -> list[bytes]:
    records = []
    turn = 0
    view = memoryview(stream)
    while view:
        wanted = cuts[turn % len(cuts)] if cuts else len(view)
        turn += 1
        received = 0
        for buffer in receiver.next_buffers():
            count = min(len(buffer), len(view), wanted - received)
            buffer[:count] = view[:count]
            view = view[count:]
            received += count
        receiver.bytes_received(received)
        while (record := receiver.next_record()) is not None:
            records.append(bytes(record))
    return records


@given(
    st.lists(st.tuples(st.integers(1, 100_000), st.lists(st.integers(0, 40_000), max_size=4)), max_size=6),
    st.lists(st.integers(1, 50_000), max_size=6),
)
def test_records_in_fragments_of_any_length(messages: list[tuple[int, list[int]]], cuts: list[int]) -> None:
    stream, whole = bytearray(), []
    for size, fragments in messages:
        message = (bytes(range(251)) * 400)[:size]
        whole.append(message)
        for length in fragments:
            part, message = message[:length], message[length:]
            stream += len(part).to_bytes(4, "big") + part
        stream += (1 << 31 | len(message)).to_bytes(4, "big") + message
    # Fragments are counted for each record anew.
    receiver = RecordReceiver(fragments_max=5)
    assert deliver(receiver, bytes(stream), cuts) == whole
    assert not receiver.mid_record
