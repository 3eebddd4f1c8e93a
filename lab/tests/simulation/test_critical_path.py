"""The account of calls, from traces made by hand."""

from __future__ import annotations

import pytest

from rpcrdma.testing.virtual import EventKind, Trace
from rpcrdma_lab.simulation.critical_path import CallAccount, account, critical_path, path_in_words

CLIENT, SERVER = "client", "server"


class Story:
    """A trace made of steps; each follows from the step before unless it names another one."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.last = -1

    def step(
        self, kind: EventKind, node: str, at_s: float, text: str = "", *, cause: int | None = None, octets: int = 0
    ) -> int:
        after = self.last if cause is None else cause
        self.last = self.trace.add(kind, node, at_s=at_s, cause=after, text=text, octets=octets)
        return self.last

    def beside(self, kind: EventKind, node: str, at_s: float, cause: int, text: str = "", octets: int = 0) -> int:
        return self.trace.add(kind, node, at_s=at_s, cause=cause, text=text, octets=octets)

    def message(self, sender: str, receiver: str, at_s: float, text: str = "send", octets: int = 100) -> int:
        """A message of one second on its way, which is posted at `at_s`; its arrival."""
        self.step(EventKind.POST, sender, at_s, text)
        self.step(EventKind.LEAVE, sender, at_s, text, octets=octets)
        arrival = self.step(EventKind.ARRIVE, receiver, at_s + 1, text)
        self.beside(EventKind.ACKNOWLEDGE, sender, at_s + 2, arrival, octets=10)
        return arrival


def interrupts(found: CallAccount) -> tuple[int, int, int]:
    """Those of the responder and of the requester on the path, and all beside it."""
    requester, responder = found.requester, found.responder
    return responder.interrupts, requester.interrupts, requester.interrupts_beside + responder.interrupts_beside


def short_call() -> tuple[Trace, int, int]:
    """A call in one Send, its reply in another."""
    story = Story()
    called = story.step(EventKind.CALL, CLIENT, 0)
    story.message(CLIENT, SERVER, 0)
    story.step(EventKind.INTERRUPT, SERVER, 3)
    story.step(EventKind.HANDLE, SERVER, 7)
    story.message(SERVER, CLIENT, 7)
    story.step(EventKind.INTERRUPT, CLIENT, 10)
    story.step(EventKind.COMPLETE, CLIENT, 10)
    returned = story.step(EventKind.RETURN, CLIENT, 10)
    return story.trace, called, returned


def test_a_short_call_is_one_round_trip_with_an_interrupt_at_each_end() -> None:
    trace, called, returned = short_call()
    found = account(trace.events, [called], [returned])
    assert (found.round_trips, found.one_way_trips) == (1, 2)
    assert interrupts(found) == (1, 1, 0)
    assert (found.sends, found.reads, found.writes) == (2, 0, 0)
    assert (found.acknowledgements, found.acknowledgements_on_path) == (2, 0)
    assert (found.messages, found.octets, found.acknowledgement_octets) == (2, 200, 20)


def test_the_parts_of_a_latency_add_up_to_it() -> None:
    trace, called, returned = short_call()
    found = account(trace.events, [called], [returned])
    parts = {part: seconds for part, seconds in found.parts_s.items() if seconds}
    assert parts == {"distance": 2, "interrupts": 4, "server": 4}
    assert found.latency_s == 10


def test_each_step_of_a_path_belongs_to_one_part_of_the_latency() -> None:
    story = Story()
    called = story.step(EventKind.CALL, CLIENT, 0)
    # The durations are 1, 2, 4 and so on, so that each sum stands for its steps.
    for number, kind in enumerate(
        (
            EventKind.REGISTER,
            EventKind.POST,
            EventKind.LEAVE,
            EventKind.ARRIVE,
            EventKind.INVALIDATE_REMOTE,
            EventKind.INTERRUPT,
            EventKind.COMPLETE,
            EventKind.COPY,
            EventKind.HANDLE,
            EventKind.INVALIDATE_LOCAL,
            EventKind.ACKNOWLEDGE,
            EventKind.NOTE,
        )
    ):
        story.step(kind, CLIENT, (2 << number) - 1)
    returned = story.step(EventKind.RETURN, CLIENT, 4095)
    assert account(story.trace.events, [called], [returned]).parts_s == {
        "registration": 1,
        "sending": 2 + 4,
        "distance": 8 + 1024,
        "invalidation": 16 + 512,
        "interrupts": 32,
        "waiting": 0 + 64,
        "copying": 128,
        "server": 256,
        "other": 2048,
    }


def test_a_path_in_words_has_microseconds_since_its_call_and_names_each_node_once() -> None:
    story = Story()
    story.step(EventKind.CALL, CLIENT, 5.0)
    story.step(EventKind.POST, CLIENT, 5.0000015)
    story.step(EventKind.ARRIVE, SERVER, 5.000002)
    story.step(EventKind.RETURN, CLIENT, 5.000003)
    assert path_in_words(story.trace.events) == "client call 0, post 1.5, server arrive 2, client return 3"


def test_an_rdma_read_adds_a_round_trip_and_an_interrupt_at_the_responder() -> None:
    story = Story()
    called = story.step(EventKind.CALL, CLIENT, 0)
    story.step(EventKind.REGISTER, CLIENT, 1)
    story.message(CLIENT, SERVER, 1)
    story.step(EventKind.INTERRUPT, SERVER, 3)
    story.step(EventKind.REGISTER, SERVER, 4)
    story.step(EventKind.POST, SERVER, 4, "rdma-read")
    story.step(EventKind.LEAVE, SERVER, 4, "rdma-read")
    story.step(EventKind.ARRIVE, CLIENT, 5, "rdma-read")
    story.step(EventKind.LEAVE, CLIENT, 5, "read-response")
    story.step(EventKind.ARRIVE, SERVER, 6, "read-response")
    read = story.step(EventKind.INTERRUPT, SERVER, 7)
    story.beside(EventKind.INVALIDATE_LOCAL, SERVER, 8, read)
    story.beside(EventKind.REGISTER, SERVER, 9, read)
    story.step(EventKind.HANDLE, SERVER, 9)
    story.message(SERVER, CLIENT, 9, "send with invalidate")
    story.step(EventKind.INVALIDATE_REMOTE, CLIENT, 11)
    story.step(EventKind.INTERRUPT, CLIENT, 12)
    returned = story.step(EventKind.RETURN, CLIENT, 12)
    found = account(story.trace.events, [called], [returned])
    assert (found.round_trips, interrupts(found)) == (2, (2, 1, 0))
    assert (found.requester.registrations, found.responder.registrations, found.registrations) == (1, 1, 3)
    assert (found.requester.registrations_beside, found.responder.registrations_beside) == (0, 1)
    assert (found.requester.remote_invalidations, found.responder.remote_invalidations) == (1, 0)
    assert (found.responder.local_invalidations, found.responder.local_invalidations_beside) == (0, 1)
    assert (found.sends, found.reads, found.writes) == (2, 1, 0)


def test_a_completion_that_an_interrupt_takes_along_waits_for_that_interrupt() -> None:
    story = Story()
    called = story.step(EventKind.CALL, CLIENT, 0)
    story.message(CLIENT, SERVER, 0)
    asked = story.step(EventKind.INTERRUPT, SERVER, 2)
    first = story.message(SERVER, CLIENT, 2)
    interrupt = story.step(EventKind.INTERRUPT, CLIENT, 5)
    story.beside(EventKind.COMPLETE, CLIENT, 5, interrupt)
    story.last = asked
    second = story.message(SERVER, CLIENT, 3)
    story.step(EventKind.COMPLETE, CLIENT, 7)
    returned = story.step(EventKind.RETURN, CLIENT, 7)
    found = account(story.trace.events, [called], [returned])
    assert [event.number for event in found.path if event.kind is EventKind.ARRIVE][1:] == [second]
    assert first not in [event.number for event in found.path]
    assert interrupts(found) == (1, 1, 0)
    parts = {part: seconds for part, seconds in found.parts_s.items() if seconds}
    assert parts == {"distance": 2, "interrupts": 2, "waiting": 2, "sending": 1}


def test_a_completion_that_arrives_after_the_last_interrupt_waits_for_busy_software_only() -> None:
    story = Story()
    called = story.step(EventKind.CALL, CLIENT, 0)
    story.beside(EventKind.INTERRUPT, CLIENT, 1, called)
    story.message(SERVER, CLIENT, 1)
    story.step(EventKind.COMPLETE, CLIENT, 5)
    returned = story.step(EventKind.RETURN, CLIENT, 5)
    found = account(story.trace.events, [called], [returned])
    assert interrupts(found) == (0, 0, 1)
    assert ("interrupts" in found.parts_s, found.parts_s["waiting"]) == (False, 3)


def test_what_follows_from_the_return_is_no_part_of_the_call() -> None:
    trace, _, returned = short_call()
    trace.add(EventKind.POST, CLIENT, at_s=11, cause=returned, text="send")
    trace.add(EventKind.POST, CLIENT, at_s=11, text="send")
    assert account(trace.events, [0], [returned]).sends == 2


def test_calls_made_at_once_end_with_the_last_return_and_share_interrupts() -> None:
    story = Story()
    calls = [story.step(EventKind.CALL, CLIENT, at_s, cause=-1) for at_s in (0, 0.25)]
    arrivals = []
    for called, at_s in zip(calls, (1, 2), strict=True):
        story.last = called
        arrivals.append(story.message(CLIENT, SERVER, at_s))
    interrupt = story.step(EventKind.INTERRUPT, SERVER, 5, cause=arrivals[1])
    returns = []
    for at_s in (6, 7):
        story.last = interrupt
        story.message(SERVER, CLIENT, at_s)
        returns.append(story.step(EventKind.RETURN, CLIENT, at_s + 1))
        # The program goes on with the first result while it waits for the second one.
        story.step(EventKind.POST, CLIENT, at_s + 1, "send")
    found = account(story.trace.events, calls, returns)
    assert (found.latency_s, found.one_way_trips, interrupts(found)) == (8, 2, (1, 0, 0))
    assert found.sends == 4
    assert sum(found.parts_s.values()) == found.latency_s


def test_a_return_that_no_call_has_caused_is_refused() -> None:
    trace = Trace()
    called = trace.add(EventKind.CALL, CLIENT, at_s=0)
    returned = trace.add(EventKind.RETURN, CLIENT, at_s=1)
    with pytest.raises(ValueError, match="event 1 does not follow from a call"):
        critical_path(trace.events, [called], returned)
    with pytest.raises(ValueError, match="at least one call"):
        account(trace.events, [], [returned])
