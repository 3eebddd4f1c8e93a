"""Ladders of traces."""

from __future__ import annotations

from rpcrdma.testing.virtual import EventKind, Trace
from rpcrdma_lab.simulation.worlds.ladder import ladder


def trace() -> Trace:
    made = Trace()
    call = made.add(EventKind.CALL, "client-0", at_s=0.0, text="transfer 1")
    post = made.add(EventKind.POST, "client-0", at_s=0.0, cause=call, text="send")
    leave = made.add(EventKind.LEAVE, "client-0", at_s=0.001, cause=post, octets=60, text="send")
    arrive = made.add(EventKind.ARRIVE, "server-0", at_s=0.002, cause=leave, octets=60, text="send")
    back = made.add(EventKind.LEAVE, "server-0", at_s=0.003, cause=arrive, octets=9, text="send")
    made.add(EventKind.ARRIVE, "client-0", at_s=0.004, cause=back, octets=9, text="send")
    # Recorded before it is over.
    made.add(EventKind.CRASH, "server-0", at_s=0.0025)
    return made


def test_a_ladder_has_a_column_for_each_node_and_an_arrow_for_each_message() -> None:
    assert ladder(trace()) == [
        "                           client-0                          server-0",
        "  0.000000000          call transfer 1                          |",
        "  0.002000000                 |-------- send, 60 octets ------->|",
        "  0.002500000                 |                               crash",
        "  0.004000000                 |<-------- send, 9 octets --------|",
    ]


def test_a_ladder_ends_at_a_time_and_says_how_much_it_leaves_out() -> None:
    assert ladder(trace(), lines_max=0)[1:] == ["(4 earlier events)"]
    assert ladder(trace(), until_s=0.003, lines_max=2)[1:] == [
        "(1 earlier events)",
        "  0.002000000                 |-------- send, 60 octets ------->|",
        "  0.002500000                 |                               crash",
    ]
