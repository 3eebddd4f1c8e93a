"""From a layout to the transmissions of a group: gather lists over the payload, the padding and the bulk items."""

from __future__ import annotations

from collections.abc import Sequence

from rpcrdma.rtr.code_points import XMTCONT
from rpcrdma.rtr.layout import Layout
from rpcrdma.rtr.messages import TransmitContinue, encode_transmit_continue
from rpcrdma.transport import Transmission
from rpcrdma.wire.buffers import Buffer

__all__ = ["CONTINUE_OCTETS", "ITEM_OCTETS", "LOCATION_OCTETS", "SEGMENT_OCTETS", "transmissions"]

CONTINUE_OCTETS = 12
"""Of a Transmit Continue."""
ITEM_OCTETS = 12
"""Of the entry of one item, its location not counted."""
LOCATION_OCTETS = 8
"""Of a location in segments, the numbers of these not counted."""
SEGMENT_OCTETS = 16
"""Of one segment of memory in a list of them."""

_ZEROS = memoryview(bytes(1 << 18))
"""What is sent before placeable segments: nothing of this side's memory shows (section 11)."""


def transmissions(
    layout: Layout,
    lead: int,
    prefix: int,
    header: bytes,
    stream: bytes | bytearray,
    items: Sequence[Buffer],
    *,
    answers: bool,
) -> list[Transmission]:
    """The messages of a group: the first one of type `lead` with `header`, then those that continue it.

    `prefix` octets stand before a header, `stream` is the whole payload, `items` are the octets of those that the
    layout has. Nothing of them is copied.
    """
    assert prefix + len(header) == layout.header, "the layout is for a header of another length"
    group: list[Transmission] = []
    position = 0
    header_type = lead
    for index, (payload, parts) in enumerate(layout.frames):
        if index:
            header = encode_transmit_continue(TransmitContinue(index, lead, payload))
            header_type = XMTCONT
        body: list[Buffer] = [header + stream[position : position + payload] if payload else header]
        position += payload
        for padding, item, start, end in parts:
            if padding:
                body.append(_ZEROS[:padding])
            data = items[item]
            body.append(data if end - start == len(data) else memoryview(data)[start:end])
        group.append(Transmission(header_type, body, answers))
    return group
