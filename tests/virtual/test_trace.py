"""The trace: numbers, chains of causes, and the text by which two runs are compared."""

from __future__ import annotations

from rpcrdma.testing.virtual import NO_CAUSE, EventKind, Trace


def test_a_chain_has_an_event_and_all_its_causes_from_the_first_on() -> None:
    trace = Trace()
    call = trace.add(EventKind.CALL, "client", at_s=0.0, text="NULL")
    trace.add(EventKind.NOTE, "client", at_s=0.0)
    post = trace.add(EventKind.POST, "client", at_s=0.5, cause=call)
    leave = trace.add(EventKind.LEAVE, "client", at_s=1.0, cause=post, cost_s=0.5)
    assert [event.number for event in trace.chain(leave)] == [call, post, leave]
    assert trace.chain(NO_CAUSE) == []


def test_traces_are_equal_exactly_if_all_their_events_are() -> None:
    def traced(**change: object) -> Trace:
        trace = Trace()
        trace.add(EventKind.CALL, "client", at_s=0.25)
        event = {"at_s": 0.5, "cause": 0, "connection": 1, "octets": 2, "cost_s": 0.25, "text": "send"}
        trace.add(EventKind.POST, "client", **{**event, **change})  # type: ignore[arg-type]
        return trace

    same = traced()
    assert (traced().octets(), traced().digest()) == (same.octets(), same.digest())
    assert same.octets() == b"0 0.25 client call <-1 #-1 0 0.0 \n1 0.5 client post <0 #1 2 0.25 send\n"
    assert len(same.digest()) == 16
    changes: list[dict[str, object]] = [
        {"at_s": 0.5000000001}, {"cause": NO_CAUSE}, {"connection": 2}, {"octets": 3}, {"cost_s": 0.0}, {"text": "x"},
    ]  # fmt: skip
    for change in changes:
        other = traced(**change)
        assert other.octets() != same.octets(), change
        assert other.digest() != same.digest(), change


def test_a_trace_that_is_off_keeps_nothing() -> None:
    trace = Trace(enabled=False)
    assert trace.add(EventKind.NOTE, "client", at_s=0.0) == NO_CAUSE
    assert trace.events == []
