"""Every interleaving of two endpoints with small windows: none gets stuck, and no message comes without a receive.

A state is all there is of two endpoints and of the messages between them; a step is whatever one of them can do next.
The windows are the real ones. What is around them does as the outbox does: a message is not begun before the one that
was begun has ended, then errors go first, then replies, then calls. Grants may stand anywhere. An endpoint takes its
messages in their order, whenever it likes, and its handlers answer in any order. Groups of an extension go out at once
when there is a credit for each of their messages: a call for which there are too few goes in one message instead, the
reply to it has to wait.

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

GROUP = 1000
"""Added to a number of pieces: they are the messages of a group. A call promises the credits for such an answer."""

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

    @property
    def promises(self) -> int:
        """Messages of the answer beyond the first one that need a promise."""
        return self.answer - GROUP - 1 if self.answer > GROUP else 0


class Answered(NamedTuple):
    """What the last message of a group tells that is a reply: who is woken, and what promise has ended."""

    wakes: int | None
    promises: int


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


_PROMISE_FIELDS = ("_base", "_promises", "_most_promised", "_learns")


class Space:
    """All states that two endpoints with certain calls to make can come to."""

    def __init__(self, windows: tuple[Window, Window], work: tuple[tuple[Call, ...], tuple[Call, ...]]) -> None:
        self._windows = windows
        self._drops = any(call.answer == DROPPED for calls in work for call in calls)
        self._promises = any(call.promises for calls in work for call in calls)
        self._cumulative = isinstance(windows[0], CumulativeWindow)
        self._fields = ("balance", "outstanding", "in_flight", "unanswered", "_heard", "allowed", "_arriving")
        if not self._cumulative:
            self._fields += ("_unproven",)
        if self._promises:
            self._fields += _PROMISE_FIELDS
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
            window._base, window._promises, window._most_promised, window._learns = more
        return window

    def _next(self, state: State, end: int, side: Side, *sent: Message, taken: bool = False) -> State:
        """The state after something that one end did; what it `sent` has gone out at once."""
        windows, channels, sides = list(state[0]), list(state[1]), list(state[2])
        windows[end] = self._save(self._windows[end])
        sides[end] = side
        if sent:
            channels[end] += sent
            if self._cumulative:
                # The windows count what they have sent from there on.
                before = len(sent)
                channels[1 - end] = tuple(
                    [(kind, (word - before) % _COUNTERS, told) for kind, word, told in channels[1 - end]]
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
            yield self._next(state, end, state[2][end], (Kind.GRANT, word, None))
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
            window = self._load(state, end)
            word = window.admit(_SENT[kind])
            if word is None:
                continue
            if isinstance(told, Call) and (pieces > GROUP or told.promises):
                group, call = _as_carried(window, told)
                if call.promises:
                    window.promise(call.promises)
                window.take_back(_SENT[kind])
                word = window.admit(_SENT[kind])
                assert word is not None
                yield self._sent_group(state, end, after, kind, group, call, word)
            elif kind is Kind.REPLY and pieces > GROUP:
                if pieces - GROUP <= window.balance + 1:
                    answered = Answered(told, pieces - GROUP - 1)
                    yield self._sent_group(state, end, after, kind, pieces - GROUP, answered, word)
            else:
                yield self._sent(state, end, after, kind, pieces, told, word)

    def _sent_group(self, state: State, end: int, side: Side, kind: Kind, group: int, told: Any, word: int) -> State:
        """All messages of a group, of which there is a credit for each."""
        words = [word]
        for _ in range(group - 1):
            further = self._windows[end].admit_piece(_SENT[kind])
            assert further is not None
            words.append(further)
        sent = [(Kind.EXTENSION, each, None) for each in words[:-1]]
        return self._next(state, end, side, *sent, (Kind.EXTENSION, words[-1], told))

    def _sent(self, state: State, end: int, side: Side, kind: Kind, pieces: int, told: Any, word: int) -> State:
        if pieces > 1:
            side = side._replace(sending=(kind, pieces - 1, told))
            return self._next(state, end, side, (Kind.PIECE, word, None))
        return self._next(state, end, side._replace(sending=None), (kind, word, told))

    def _take(self, state: State, end: int) -> State:
        """The oldest message that has come."""
        kind, word, told = state[1][1 - end][0]
        side = state[2][end]
        window = self._load(state, end)
        message = Inbound(kind, 1, word, 2)
        if not window.on_arrival(message):
            raise Unpaid(state)
        if kind is Kind.EXTENSION and told is not None:
            # The message that has come in a group.
            kind = Kind.CALL if isinstance(told, Call) else Kind.REPLY
            message = Inbound(kind, 1, word, 2)
            if isinstance(told, Answered):
                window.promise(-told.promises)
                told = told.wakes
            elif told.promises:
                window.on_promised()
        if kind is Kind.CALL:
            if not window.on_received(message):
                raise Unpaid(state)
            answer = (told.answer, told.wakes)
            if told.answer == DROPPED:
                window.on_dropped()
            elif told.nested:
                own = Call(1, 1, wakes=told.answer)
                side = side._replace(
                    waiting=tuple(sorted([*side.waiting, answer], key=repr)), handler_calls=(*side.handler_calls, own)
                )
            else:
                side = side._replace(ready=tuple(sorted([*side.ready, answer], key=repr)))
        elif kind in {Kind.REPLY, Kind.ERROR}:
            assert window.on_received(message)
            if told is not None:
                waiting = list(side.waiting)
                waiting.remove((told, None))
                side = side._replace(waiting=tuple(waiting), ready=tuple(sorted([*side.ready, (told, None)], key=repr)))
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


def _as_carried(window: Window, call: Call) -> tuple[int, Call]:
    """In how many messages a call goes, and how: as an extension decides that by the credits that there are."""
    group = call.pieces - GROUP if call.pieces > GROUP else 1
    if group > window.balance + 1:
        group = 1
    if call.promises > window.promises_left:
        call = call._replace(answer=1)
    return group, call


def _begin(call: Call, after: Side) -> tuple[Kind, int, Call, Side]:
    """What is sent for a call, and its maker afterwards."""
    return Kind.PROPERTIES if call.answer == PROPERTIES else Kind.CALL, call.pieces, call, after


class Scenario(NamedTuple):
    """Of either endpoint: calls that it wants in flight, calls that it grants, and the calls that it makes.

    The first one may promise so many messages of answers beyond the first of each.
    """

    first: tuple[int, int]
    second: tuple[int, int]
    calls: tuple[Call, ...]
    peer_calls: tuple[Call, ...]
    promises: int = 0

    def space(self, kind: type[Window]) -> Space:
        """With two windows of a kind."""
        windows = kind(*self.first), kind(*self.second)
        windows[0].widen(self.promises)
        return Space(windows, (self.calls, self.peer_calls))


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
}
GROUPS = {
    "a reply in a group": Scenario((1, 0), (0, 1), (Call(1, GROUP + 3),) * 2, (), 6),
    "notices use up what a reply needs": Scenario((1, 0), (0, 1), (Call(1, GROUP + 4),), (Call(1, PROPERTIES),) * 5, 9),
    "calls in groups": Scenario((2, 0), (0, 3), (Call(GROUP + 3, 1), Call(GROUP + 2, GROUP + 3), PLAIN), (), 6),
    "groups both ways": Scenario((2, 0), (0, 4), (Call(GROUP + 2, GROUP + 3),) * 3, (Call(1, PROPERTIES),), 8),
    "groups and long ones": Scenario((2, 1), (1, 2), (Call(GROUP + 2, GROUP + 2), Call(3, 3)), (Call(2, 2),), 4),
    "groups and errors": Scenario(
        (3, 1), (1, 3), (Call(GROUP + 3, ERROR), Call(2, GROUP + 3), Call(1, ERROR)), (PLAIN,), 8
    ),
    "more promises than are left": Scenario((3, 0), (0, 2), (Call(1, GROUP + 3),) * 4, (Call(1, PROPERTIES),) * 2, 5),
    "a handler that calls, and answers in a group": Scenario(
        (2, 2), (1, 2), (Call(GROUP + 2, GROUP + 2, nested=True), Call(1, GROUP + 2)), (), 4
    ),
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


@pytest.mark.req("V2-4", "V2-7", "RT-3")
@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("name", GROUPS)
def test_groups_that_go_when_all_their_credits_are_there_come_to_their_end(name: str, kind: type[Window]) -> None:
    assert GROUPS[name].space(kind).explore() >= 20


@pytest.mark.req("V2-4", "V2-7", "RT-3")
@given(data=st.data(), seed=st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_long_conversations_in_groups_come_to_their_end(data: st.DataObject, seed: int) -> None:
    calls = st.builds(
        Call,
        st.sampled_from((1, 1, 3, GROUP + 1, GROUP + 2, GROUP + 4, GROUP + 8)),
        st.sampled_from((1, 4, ERROR, GROUP + 2, GROUP + 5, GROUP + 8)),
        nested=st.just(False),
        wakes=st.none(),
    )
    notices = st.sampled_from([Call(pieces, PROPERTIES) for pieces in (1, 2, 3)])
    scenario = Scenario(
        (data.draw(st.integers(1, 9)), data.draw(st.integers(0, 1))),
        (data.draw(st.integers(0, 1)), data.draw(st.integers(1, 12))),
        tuple(data.draw(st.lists(calls, min_size=1, max_size=12))),
        # The properties, from which the peer learns how many calls there may be: groups do not teach that.
        (Call(1, PROPERTIES), *data.draw(st.lists(notices, max_size=12))),
        data.draw(st.integers(0, 40)),
    )
    random = Random(seed)
    assert scenario.space(data.draw(st.sampled_from(WINDOWS))).walk(random.choice) >= len(scenario.calls)


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


class NoneOverPromises:
    """The peer gets as many credits for a reply as that needs, and no more."""

    __slots__ = ()

    def promise(self, messages: int) -> None:
        self._base += messages
        self._promises -= messages


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
        (SendsAnyway, WINDOWS, "long and short ones", Overrun),
        (SendsOneAnyway, WINDOWS, "long and short ones", Unpaid),
        (NoneOverPromises, WINDOWS, "notices use up what a reply needs", Stuck),
    ],
)
def test_mistakes_in_the_policy_are_found(
    mistake: type, kinds: tuple[type[Window], ...], name: str, outcome: type[AssertionError]
) -> None:
    for kind in kinds:
        wrong = type(mistake.__name__, (mistake, kind), {"__slots__": ()})
        with pytest.raises(outcome):
            (SCENARIOS | GROUPS | LARGER_SCENARIOS)[name].space(wrong).explore()


def main() -> None:
    """Explores the larger spaces, too, and says how large they are."""
    for kind in WINDOWS:
        explored = {name: [scenario] for name, scenario in (SCENARIOS | GROUPS | LARGER_SCENARIOS).items()}
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
