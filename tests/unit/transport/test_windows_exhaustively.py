"""Every interleaving of two endpoints with small windows: none gets stuck, and no message comes without a receive.

A state is all there is of two endpoints and of the messages between them; a step is whatever one of them can do next.
The windows are the real ones. What is around them does as the outbox does: a message is not begun before the one that
was begun has ended, then errors go first, then replies, then calls. Several calls, or several replies, may go in one
message where a scenario says so. Grants may stand anywhere. An endpoint takes its
messages in their order, whenever it likes, and its handlers answer in any order.

As a program, the file explores the larger spaces, too:  python tests/unit/transport/test_windows_exhaustively.py
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from random import Random
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcrdma.limits import SPARE_RECEIVES
from rpcrdma.transport.message import Cause, Inbound, Kind, Outgoing, OutgoingError, OutgoingProperties, Refusal
from rpcrdma.transport.message_windows import CumulativeWindow, IncrementalWindow

Window: TypeAlias = IncrementalWindow | CumulativeWindow

ERROR, DROPPED, PROPERTIES = 0, -1, -2
"""Instead of a number of pieces: a call is answered with an error, or never; or it is no call but properties."""

_COUNTERS = 1 << 32


class _Call(Outgoing):
    kind = Kind.CALL


class _Reply(Outgoing):
    kind = Kind.REPLY


_SENT = {
    Kind.CALL: _Call(1, answers_call=False),
    Kind.REPLY: _Reply(1, answers_call=True),
    Kind.ERROR: OutgoingError(1, 2, Refusal(Cause.SYSTEM), answers_call=True),
    Kind.PROPERTIES: OutgoingProperties(1, ()),
}


class Call(NamedTuple):
    """A call in so many pieces, and its answer; the handler first makes and awaits a call of its own if it is `nested`.

    `wakes` is the answer that the handler gives which awaits this call; None if no handler does.
    """

    pieces: int
    answer: int
    nested: bool = False
    wakes: int | None = None


class Side(NamedTuple):
    """What an endpoint has to do: calls of handlers and of others, in whichever order, and answers.

    `sending` is the message that has begun: its kind, the pieces that are left, and what it tells the peer. `ready` and
    `waiting` are the answers of handlers that may answer, and of those that await a call.
    """

    calls: tuple[Call, ...]
    handler_calls: tuple[Call, ...] = ()
    errors: tuple[int | None, ...] = ()
    replies: tuple[tuple[int, int | None], ...] = ()
    sending: tuple[Kind, int, Any] | None = None
    ready: tuple[tuple[int, int | None], ...] = ()
    waiting: tuple[tuple[int, int | None], ...] = ()

    @property
    def idle(self) -> bool:
        """Whether everything is done."""
        return not any(self)


Message: TypeAlias = tuple[Kind, int, Any]
"""Its kind, its credit word and what it tells the peer."""
State: TypeAlias = tuple[tuple[tuple[int, ...], ...], tuple[tuple[Message, ...], ...], tuple[Side, ...]]
"""Of two windows, of the messages that either endpoint has sent and its peer has not taken, and of both endpoints."""


class Stuck(AssertionError):
    """Work is left, and nothing that the endpoints do by themselves goes on with it."""


class Endless(AssertionError):
    """The endpoints send one grant after another."""


class Overrun(AssertionError):
    """A message may come without a receive."""


class Unpaid(AssertionError):
    """A message, or a call, came for which no credit was given."""


class Space:
    """All states that two endpoints with certain calls to make can come to."""

    def __init__(
        self, windows: tuple[Window, Window], work: tuple[tuple[Call, ...], tuple[Call, ...]], together: int = 1
    ) -> None:
        self._windows = windows
        self._together = together
        self._drops = any(call.answer == DROPPED for calls in work for call in calls)
        self._cumulative = isinstance(windows[0], CumulativeWindow)
        self._fields = ("balance", "outstanding", "in_flight", "unanswered", "_heard", "allowed", "_arriving")
        if not self._cumulative:
            self._fields += ("_unproven",)
        if together > 1:
            self._fields += ("_learns",)
            _introduce(*windows)
        self._save: Callable[[Window], tuple[int, ...]] = attrgetter(*self._fields)
        self._start: State = (
            (self._save(windows[0]), self._save(windows[1])),
            ((), ()),
            (Side(work[0]), Side(work[1])),
        )

    def explore(self) -> int:
        """Counts the states. Depth first, so that one which leads back to itself is found."""
        on_path = {self._start: True}
        path = [(self._start, self._steps(self._start))]
        while path:
            state, steps = path[-1]
            for following in steps:
                before = on_path.get(following)
                if before:
                    raise Endless([step for step, _ in path])
                if before is None:
                    on_path[following] = True
                    path.append((following, self._steps(following)))
                    break
            else:
                path.pop()
                on_path[state] = False
        return len(on_path)

    def walk(self, choose: Callable[[list[State]], State]) -> int:
        """Goes one way to its end, and counts the steps."""
        state, count = self._start, 0
        while steps := list(self._steps(state)):
            state = choose(steps)
            count += 1
        return count

    def _load(self, state: State, end: int) -> Window:
        """The window of one end as it is in that state, in which both have sent nothing by their counters.

        Only differences of counters matter. So states that differ in nothing else are the same.
        """
        window = self._windows[end]
        window.balance, window.outstanding, window.in_flight, window.unanswered, *more = state[0][end]
        window._heard, window.allowed, window._arriving, *more = more
        window.receives_wanted = window.outstanding + 1 + SPARE_RECEIVES
        if self._cumulative:
            window._sent = 0
            window._received = -len(state[1][1 - end]) % _COUNTERS
        else:
            window._unproven, *more = more
        if more:
            (window._learns,) = more
        return window

    def _next(self, state: State, end: int, side: Side, *, sent: Message | None = None, taken: bool = False) -> State:
        """The state after something that one end did."""
        windows, channels, sides = list(state[0]), list(state[1]), list(state[2])
        windows[end] = self._save(self._windows[end])
        sides[end] = side
        if sent is not None:
            channels[end] += (sent,)
            if self._cumulative:
                channels[1 - end] = tuple(
                    [(kind, (word - 1) % _COUNTERS, told) for kind, word, told in channels[1 - end]]
                )
            outstanding = windows[1 - end][1]
            if len(channels[end]) > outstanding + 1:
                raise Overrun(state)
            assert self._windows[end].receives_wanted >= windows[end][1] + 1 + SPARE_RECEIVES
        if taken:
            channels[1 - end] = channels[1 - end][1:]
        return tuple(windows), tuple(channels), tuple(sides)

    def _steps(self, state: State) -> Iterator[State]:
        moved = False
        for end in 0, 1:
            for following in self._own_steps(state, end):
                moved = True
                yield following
        if not moved:
            self._check_rest(state)
        for end, side in enumerate(state[2]):
            for answer in sorted(set(side.ready), key=repr):
                moved = True
                yield self._answer(state, end, answer)
        if not moved and not all(side.idle for side in state[2]):
            raise Stuck(state)

    def _check_rest(self, state: State) -> None:
        """Only handlers can go on: then a call waits only if there are as many as its maker or its taker wants.

        One whose peer drops calls may wait for its other calls to be answered: it cannot know which of them never will.
        """
        for end, side in enumerate(state[2]):
            if side.sending or side.errors or side.replies:
                raise Stuck(state)
            if (side.calls or side.handler_calls) and not self._drops:
                window, peer = self._load(state, end), self._windows[1 - end]
                unanswered = state[0][1 - end][3]
                if window.in_flight < window.requested and unanswered < peer.granted:
                    raise Stuck(state)

    def _own_steps(self, state: State, end: int) -> Iterator[State]:
        """What an endpoint does without its handlers."""
        window = self._load(state, end)
        if window.refresh_due:
            word = window.grant_word()
            yield self._next(state, end, state[2][end], sent=(Kind.GRANT, word, None))
        if state[1][1 - end]:
            yield self._take(state, end)
        yield from self._send(state, end)

    def _send(self, state: State, end: int) -> Iterator[State]:
        """The next Send of the outbox."""
        side = state[2][end]
        if side.sending is not None:
            kind, pieces, told = side.sending
            word = self._load(state, end).admit_piece(_SENT[kind])
            if word is not None:
                yield self._sent(state, end, side, kind, pieces, told, word)
            return
        begun: list[tuple[Kind, int, Any, Side]] = []
        if side.errors:
            begun.append((Kind.ERROR, 1, side.errors[0], side._replace(errors=side.errors[1:])))
        elif side.replies:
            (pieces, wakes), *rest = side.replies
            begun.append((Kind.REPLY, pieces, wakes, side._replace(replies=tuple(rest))))
        else:
            if side.calls:
                begun.append(_begin(side.calls[0], side._replace(calls=side.calls[1:])))
            if side.handler_calls:
                begun.append(_begin(side.handler_calls[0], side._replace(handler_calls=side.handler_calls[1:])))
        for kind, pieces, told, after in begun:
            word = self._load(state, end).admit(_SENT[kind])
            if word is not None:
                yield self._sent(state, end, after, kind, pieces, told, word)
        if not side.errors:
            yield from self._send_together(state, end, side)

    def _send_together(self, state: State, end: int, side: Side) -> Iterator[State]:
        """The next Send of several replies or, if there are none, of several calls."""
        for count in range(2, self._together + 1):
            some: tuple[Any, ...] = side.replies[:count] if side.replies else side.calls[:count]
            window = self._load(state, end)
            if len(some) < count or any(one[0] != 1 for one in some):
                return
            if side.replies:
                kind, told = Kind.REPLY, tuple(wakes for _, wakes in some)
                after = side._replace(replies=side.replies[count:])
            elif window.in_flight + count <= window.allowed and all(call.answer != PROPERTIES for call in some):
                kind, told, after = Kind.CALL, some, side._replace(calls=side.calls[count:])
            else:
                return
            word = window.admit_several(_SENT[kind], count)
            if word is not None:
                yield self._next(state, end, after, sent=(Kind.EXTENSION, word, (kind, told)))

    def _sent(self, state: State, end: int, side: Side, kind: Kind, pieces: int, told: Any, word: int) -> State:
        if pieces > 1:
            side = side._replace(sending=(kind, pieces - 1, told))
            return self._next(state, end, side, sent=(Kind.PIECE, word, None))
        return self._next(state, end, side._replace(sending=None), sent=(kind, word, told))

    def _take(self, state: State, end: int) -> State:
        """The oldest message that has come."""
        kind, word, told = state[1][1 - end][0]
        side = state[2][end]
        window = self._load(state, end)
        message = Inbound(kind, 1, word, 2)
        if not window.on_arrival(message):
            raise Unpaid(state)
        if kind is Kind.EXTENSION:
            of_all, several = told
            for one in several:
                side = _taken(state, window, side, of_all, one)
        else:
            side = _taken(state, window, side, kind, told)
        return self._next(state, end, side, taken=True)

    def _answer(self, state: State, end: int, answer: tuple[int, int | None]) -> State:
        """A handler is done."""
        self._load(state, end)
        side = state[2][end]
        ready = list(side.ready)
        ready.remove(answer)
        pieces, wakes = answer
        if pieces == ERROR:
            side = side._replace(ready=tuple(ready), errors=(*side.errors, wakes))
        else:
            side = side._replace(ready=tuple(ready), replies=(*side.replies, answer))
        return self._next(state, end, side)


def _introduce(first: Window, second: Window) -> None:
    """Both tell their properties, before which none may send several calls or replies in one message."""
    for sender, receiver in ((first, second), (second, first)):
        word = sender.admit(_SENT[Kind.PROPERTIES])
        assert word is not None
        assert receiver.on_arrival(Inbound(Kind.PROPERTIES, 1, word, 2))


def _taken(state: State, window: Window, side: Side, kind: Kind, told: Any) -> Side:
    """What an endpoint has to do after a message that has come."""
    message = Inbound(kind, 1, 0, 2)
    if kind is Kind.CALL:
        if not window.on_received(message):
            raise Unpaid(state)
        answer = (told.answer, told.wakes)
        if told.answer == DROPPED:
            window.on_dropped()
        elif told.nested:
            own = Call(1, 1, wakes=told.answer)
            return side._replace(
                waiting=tuple(sorted([*side.waiting, answer], key=repr)), handler_calls=(*side.handler_calls, own)
            )
        else:
            return side._replace(ready=tuple(sorted([*side.ready, answer], key=repr)))
    elif kind in {Kind.REPLY, Kind.ERROR}:
        assert window.on_received(message)
        if told is not None:
            waiting = list(side.waiting)
            waiting.remove((told, None))
            ready = tuple(sorted([*side.ready, (told, None)], key=repr))
            return side._replace(waiting=tuple(waiting), ready=ready)
    return side


def _begin(call: Call, after: Side) -> tuple[Kind, int, Call, Side]:
    """What is sent for a call, and its maker afterwards."""
    return Kind.PROPERTIES if call.answer == PROPERTIES else Kind.CALL, call.pieces, call, after


class Scenario(NamedTuple):
    """Of either endpoint: calls that it wants in flight, calls that it grants, and the calls that it makes.

    Up to so many calls, or replies, go `together`; where that is more than one, the connection stands.
    """

    first: tuple[int, int]
    second: tuple[int, int]
    calls: tuple[Call, ...]
    peer_calls: tuple[Call, ...]
    together: int = 1

    def space(self, kind: type[Window]) -> Space:
        """With two windows of a kind."""
        return Space((kind(*self.first), kind(*self.second)), (self.calls, self.peer_calls), self.together)


NESTED = Call(1, 1, nested=True)
PLAIN = Call(1, 1)

SCENARIOS = {
    "pieces both ways": Scenario((2, 1), (1, 1), (Call(2, 2), Call(3, 2)), (PLAIN,)),
    "long and short ones": Scenario((1, 1), (1, 1), (Call(3, 3), PLAIN), (Call(2, 3),)),
    "a handler that calls": Scenario((3, 1), (3, 3), (Call(1, 2, nested=True), Call(2, 1), PLAIN), (Call(1, 2),)),
    "long replies": Scenario((3, 3), (3, 2), (PLAIN, PLAIN), (Call(1, 2),) * 3),
    "more calls than credits": Scenario((5, 1), (1, 1), (PLAIN,) * 6, (PLAIN,)),
    "more calls than credits, and a long reply": Scenario((5, 1), (1, 1), (PLAIN,) * 6, (Call(1, 3), PLAIN)),
    "handlers that call at both ends": Scenario((2, 2), (2, 2), (NESTED, PLAIN), (NESTED, PLAIN)),
    "errors": Scenario((3, 1), (1, 2), (Call(1, ERROR),) * 3 + (PLAIN, Call(2, ERROR)), (Call(1, ERROR),)),
    "dropped calls": Scenario((12, 1), (1, 2), (Call(1, DROPPED), Call(2, DROPPED)) * 4 + (PLAIN,), ()),
    "dropped calls and others": Scenario((6, 1), (1, 2), (Call(1, ERROR), Call(1, DROPPED)) * 2 + (PLAIN,), (PLAIN,)),
    "properties": Scenario(
        (1, 2), (1, 1), (Call(1, PROPERTIES), Call(2, 2)), (Call(2, PROPERTIES), Call(1, PROPERTIES))
    ),
    "one long call each": Scenario((1, 2), (1, 1), (Call(4, 1),), (Call(6, 1),)),
    "calls together": Scenario((6, 1), (1, 3), (PLAIN,) * 6, (), together=3),
    "calls of both ends together": Scenario((3, 2), (2, 3), (PLAIN,) * 3, (PLAIN,) * 2, together=3),
    "calls together, with long replies": Scenario((4, 1), (1, 3), (Call(1, 2), *[PLAIN] * 3), (), together=3),
    "calls together, whose handlers call": Scenario((3, 2), (2, 2), (NESTED, PLAIN, PLAIN), (PLAIN,), together=2),
}
LARGER_SCENARIOS = {
    "every kind of answer": Scenario(
        (3, 2), (2, 2), (Call(2, ERROR), Call(1, 2, nested=True), PLAIN), (Call(1, 2), Call(2, 1), Call(1, ERROR))
    ),
    "three calls each": Scenario((3, 1), (3, 1), (Call(1, 2, nested=True),) * 2 + (NESTED,), (Call(1, 2),) * 3),
    "two handlers that call": Scenario((6, 2), (2, 2), (NESTED,) * 2 + (PLAIN,) * 3, (Call(1, 2), PLAIN)),
    "errors and handlers that call": Scenario(
        (6, 2), (2, 2), (Call(1, ERROR),) * 6 + (Call(2, ERROR),), (NESTED, NESTED)
    ),
    "long calls": Scenario((2, 2), (2, 2), (Call(5, 2), Call(1, 3)), (Call(4, 1), Call(1, 3))),
}

WINDOWS = (IncrementalWindow, CumulativeWindow)


def small_windows(*calls: tuple[Call, ...]) -> Iterator[Scenario]:
    """The same calls, with windows of every size from 1 to 3."""
    for sizes in itertools.product((1, 2, 3), repeat=4):
        yield Scenario(sizes[:2], sizes[2:], *calls)


@pytest.mark.req("V2-4", "V2-7", "V2-44")
@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_interleaving_comes_to_its_end(name: str, kind: type[Window]) -> None:
    floor = 50 if "drop" in name else 200
    assert SCENARIOS[name].space(kind).explore() > floor


@pytest.mark.req("V2-4", "V2-7", "V2-44")
@pytest.mark.parametrize("kind", WINDOWS)
def test_small_windows_of_every_size_come_to_their_end(kind: type[Window]) -> None:
    count = 0
    for scenario in small_windows((Call(1, 2, nested=True),), (Call(3, 1),)):
        count += scenario.space(kind).explore()
    assert count > 15_000


@pytest.mark.req("V2-4", "V2-7", "V2-44")
@given(data=st.data(), seed=st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_long_conversations_come_to_their_end(data: st.DataObject, seed: int) -> None:
    sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))
    calls = st.builds(
        Call,
        st.integers(1, 12),
        st.sampled_from((1, 1, 1, 2, 5, 12, ERROR, PROPERTIES)),
        nested=st.just(False),
        wakes=st.none(),
    )
    own_calls = st.lists(calls | st.just(NESTED) | st.just(Call(2, 3, nested=True)), min_size=1, max_size=12)
    scenario = Scenario(
        data.draw(sizes),
        data.draw(sizes),
        tuple(data.draw(own_calls)),
        tuple(data.draw(st.lists(calls, max_size=12))),
    )
    kind = data.draw(st.sampled_from(WINDOWS))
    # Now one kind of step is preferred, now another: else no long queues come about.
    random = Random(seed)
    preferred = 0

    def choose(steps: list[State]) -> State:
        nonlocal preferred
        if random.random() < 0.1:
            preferred = random.randrange(4)
        return steps[preferred % len(steps)]

    least = sum(call.pieces for call in scenario.calls + scenario.peer_calls)
    assert scenario.space(kind).walk(choose) >= 2 * least


class CallsUnbounded:
    """Calls may take the credits for answers."""

    __slots__ = ()

    def admit(self, message: Outgoing) -> int | None:
        if message.kind is Kind.CALL:
            self.allowed = self.requested
        return super().admit(message)


class NoGrants:
    """Credits travel in the headers of other messages only."""

    __slots__ = ()
    refresh_due = False


class GrantsAtHalf:
    """A grant waits until half is owed even where nothing is left."""

    __slots__ = ()

    @property
    def _refreshable(self) -> bool:
        return self._heard and self.owed > 1 and self.owed >= self.outstanding


class GrantsAtOnce:
    """Whatever is owed is granted."""

    __slots__ = ()

    @property
    def refresh_due(self) -> bool:
        return self._grant_passes and self._heard and self.owed > 0


class GrantsUnproven:
    """A grant does not wait for a sign that the one before has arrived."""

    __slots__ = ()

    @property
    def refresh_due(self) -> bool:
        return self._refreshable


class NoneOver:
    """The peer gets credits for calls and answers only."""

    __slots__ = ()

    def __init__(self, requested: int, granted: int) -> None:
        super().__init__(requested, granted)
        self._base = granted


class NoneForAnswers:
    """The peer has to keep credits back for its answers."""

    __slots__ = ()
    _base = property(lambda self: self.granted + 1 - self.in_flight, lambda _self, _value: None)


class AnswersReserved:
    """Calls are bounded by the answers that are owed, of which each keeps a credit, and not by what the peer takes."""

    __slots__ = ()

    def admit(self, message: Outgoing) -> int | None:
        if message.kind is Kind.CALL:
            self.allowed = self.requested if self.balance > self.unanswered else 0
        return super().admit(message)


class ErrorsGive:
    """Errors bring credits, which their receiver does not look at."""

    __slots__ = ()
    errors_give = True


class UncountedIsRoom:
    """A message that has just come is taken for room for one more call."""

    __slots__ = ()

    def on_arrival(self, message: Inbound | None) -> bool:
        taken = super().on_arrival(message)
        self._count(Kind.PROPERTIES)
        return taken


class OnePaid:
    """Of several calls in one message only one counts."""

    __slots__ = ()

    def admit_several(self, first: Outgoing, _count: int) -> int | None:
        return self.admit(first)


class SendsAnyway:
    """Messages go out without credits."""

    __slots__ = ()

    def admit_piece(self, _message: Outgoing) -> int:
        return self._word(self._give())


class SendsOneAnyway:
    """One message goes out without a credit, for which there is a receive: that for grants."""

    __slots__ = ()

    def admit_piece(self, message: Outgoing) -> int | None:
        return self._word(self._give()) if self.balance == 0 else super().admit_piece(message)


@pytest.mark.parametrize(
    ("mistake", "kinds", "name", "outcome"),
    [
        (CallsUnbounded, WINDOWS, "more calls than credits", Stuck),
        (NoGrants, WINDOWS, "pieces both ways", Stuck),
        (GrantsAtHalf, WINDOWS, "pieces both ways", Stuck),
        (GrantsAtOnce, WINDOWS[1:], "pieces both ways", Endless),
        (GrantsAtOnce, WINDOWS[:1], "dropped calls", Stuck),
        (GrantsUnproven, WINDOWS[:1], "one long call each", Overrun),
        (NoneOver, WINDOWS, "a handler that calls", Stuck),
        (NoneForAnswers, WINDOWS, "long replies", Stuck),
        (AnswersReserved, WINDOWS[:1], "errors and handlers that call", Stuck),
        (ErrorsGive, WINDOWS[:1], "errors", Stuck),
        (UncountedIsRoom, WINDOWS, "more calls than credits, and a long reply", Stuck),
        (OnePaid, WINDOWS, "calls together", Stuck),
        (SendsAnyway, WINDOWS, "long and short ones", Overrun),
        (SendsOneAnyway, WINDOWS, "long and short ones", Unpaid),
    ],
)
def test_mistakes_in_the_policy_are_found(
    mistake: type, kinds: tuple[type[Window], ...], name: str, outcome: type[AssertionError]
) -> None:
    for kind in kinds:
        wrong = type(mistake.__name__, (mistake, kind), {"__slots__": ()})
        with pytest.raises(outcome):
            (SCENARIOS | LARGER_SCENARIOS)[name].space(wrong).explore()


def main() -> None:
    """Explores the larger spaces, too, and says how large they are."""
    for kind in WINDOWS:
        explored = {name: [scenario] for name, scenario in (SCENARIOS | LARGER_SCENARIOS).items()}
        explored["every size"] = list(
            small_windows((Call(2, 3, nested=True), Call(3, 1)), (Call(1, 2), Call(2, ERROR)))
        )
        for name, scenarios in explored.items():
            begun = time.perf_counter()
            count = sum(scenario.space(kind).explore() for scenario in scenarios)
            sys.stdout.write(f"{kind.__name__}: {name}: {count} states, {time.perf_counter() - begun:.1f} s\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
