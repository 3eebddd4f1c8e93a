"""All states that two endpoints with small windows can come to, and the ways through them.

A state is the whole of two endpoints and of the messages between them; a step is any action that one of them can take.
The windows are the real ones. Their surroundings act as the outbox does: a message is not begun before the one that
was begun has ended, then errors go first, then replies, then calls. Grants may stand anywhere. An endpoint takes its
messages in their order, whenever it likes, and its handlers answer in any order.

Groups of an extension go out at once when there is a credit for each of their messages: a call for which there are too
few goes in one message instead, the reply to it has to wait. Several calls, or several replies, may go together in one
message where a scenario says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from rpcrdma.limits import SPARE_RECEIVES
from rpcrdma.rtr.requests import Promises
from rpcrdma.transport.call_credits import CallWindow
from rpcrdma.transport.message import Cause, Inbound, Kind, Outgoing, OutgoingError, OutgoingProperties, Refusal
from rpcrdma.transport.message_credits import MessageWindow

__all__ = [
    "DROPPED",
    "ERROR",
    "GROUP",
    "NESTED",
    "PLAIN",
    "PROPERTIES",
    "Call",
    "Scenario",
    "Space",
    "State",
    "admitted",
]

ERROR, DROPPED, PROPERTIES = 0, -1, -2
"""Instead of a number of pieces: a call is answered with an error, or never; or it is no call but properties."""

GROUP = 1000
"""Added to a number of pieces: they are the messages of a group. A call promises the credits for such an answer."""


def admitted(window: MessageWindow | CallWindow, message: Outgoing) -> int | None:
    """The credit word of a message; None if it has to wait, by the rule of the outbox."""
    if window.balance <= 0 or (message.kind is Kind.CALL and window.in_flight >= window.allowed):
        return None
    return window.admit(message)


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
_RECEIVED = {kind: Inbound(kind, 1, 0, 2) for kind in (Kind.CALL, Kind.REPLY, Kind.ERROR)}


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
    """The effect of a group's last message, if that is a reply: the calls that go on, and the ended promise."""

    wakes: int | None
    promises: int


class Together(NamedTuple):
    """The effect of a message that holds several calls or several replies."""

    kind: Kind
    several: tuple[Any, ...]


class Side(NamedTuple):
    """The duties of an endpoint: calls of handlers and of others, in any order, and answers.

    `sending` is the message that has begun: its kind, the pieces that are left, and its words to the peer. `ready` and
    `waiting` are the answers of handlers that may answer, and of handlers that await a call.
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
        self,
        windows: tuple[MessageWindow, MessageWindow],
        promises: tuple[Promises, Promises],
        work: tuple[tuple[Call, ...], tuple[Call, ...]],
        together: int = 1,
        reserved: int = 0,
    ) -> None:
        self._windows = windows
        self._promises = promises
        self._together = together
        self._reserved = reserved
        self._drops = any(call.answer == DROPPED for calls in work for call in calls)
        self._fields = ("balance", "outstanding", "in_flight", "unanswered", "_heard", "allowed", "_arriving", "low")
        self._fields += ("_unproven",)
        self._promising = reserved > 0 or any(call.promises for calls in work for call in calls)
        if self._promising or together > 1:
            self._fields += ("_learns",)
        if self._promising:
            self._fields += ("_base",)
        if together > 1:
            _introduce(*windows)
        self._get: Callable[[MessageWindow], tuple[int, ...]] = attrgetter(*self._fields)
        self._start: State = ((self._save(0), self._save(1)), ((), ()), (Side(work[0]), Side(work[1])))

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

    def _load(self, state: State, end: int) -> MessageWindow:
        """The window of one end as it is in that state."""
        window = self._windows[end]
        window.balance, window.outstanding, window.in_flight, window.unanswered, *more = state[0][end]
        window._heard, window.allowed, window._arriving, window.low, window._unproven, *more = more
        window.receives_wanted = window.outstanding + 1 + SPARE_RECEIVES
        if more:
            window._learns, *more = more
        if more:
            promises = self._promises[end]
            window._base, promises._unreserved, promises._longest = more
            promises._take(0)
        return window

    def _save(self, end: int) -> tuple[int, ...]:
        """All that one end remembers."""
        promises = self._promises[end]
        promised = (promises._unreserved, promises._longest) if self._promising else ()
        return (*self._get(self._windows[end]), *promised)

    def _next(self, state: State, end: int, side: Side, *sent: Message, taken: bool = False) -> State:
        """The state after an action of one end; the messages that it `sent` have gone out at once."""
        windows, channels, sides = list(state[0]), list(state[1]), list(state[2])
        windows[end] = self._save(end)
        sides[end] = side
        if sent:
            channels[end] += sent
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
        """The steps of an endpoint without its handlers."""
        window = self._load(state, end)
        if window.low and window.refresh_due:
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
            window = self._load(state, end)
            if window.balance > 0:
                yield self._sent(state, end, side, kind, pieces, told, window.admit_piece(_SENT[kind]))
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
            if window.balance <= 0 or (kind is Kind.CALL and window.in_flight >= window.allowed):
                continue
            if isinstance(told, Call) and (pieces > GROUP or told.promises):
                group, call = _as_carried(window, self._promises[end], told)
                if call.promises:
                    self._promises[end].make(call.promises)
                yield self._sent_group(state, end, after, kind, group, call)
            elif kind is Kind.REPLY and pieces > GROUP:
                if pieces - GROUP <= window.balance:
                    answered = Answered(told, pieces - GROUP - 1)
                    yield self._sent_group(state, end, after, kind, pieces - GROUP, answered)
            else:
                yield self._sent(state, end, after, kind, pieces, told, window.admit(_SENT[kind]))
        if self._together > 1 and not side.errors:
            yield from self._send_together(state, end, side)

    def _send_together(self, state: State, end: int, side: Side) -> Iterator[State]:
        """The next Send of several replies or, if there are none, of several calls."""
        for count in range(2, self._together + 1):
            some: tuple[Any, ...] = side.replies[:count] if side.replies else side.calls[:count]
            window = self._load(state, end)
            if len(some) < count or not all(map(_is_short, some)):
                return
            if side.replies:
                kind, told = Kind.REPLY, tuple(wakes for _, wakes in some)
                after = side._replace(replies=side.replies[count:])
            elif window.in_flight + count <= window.allowed and all(call.answer != PROPERTIES for call in some):
                kind, told, after = Kind.CALL, some, side._replace(calls=side.calls[count:])
            else:
                return
            if window.balance > 0:
                word = window.admit_several(_SENT[kind], count)
                yield self._next(state, end, after, (Kind.EXTENSION, word, Together(kind, told)))

    def _sent_group(self, state: State, end: int, side: Side, kind: Kind, group: int, told: Any) -> State:
        """All messages of a group, of which there is a credit for each."""
        words = [self._windows[end].admit(_SENT[kind])]
        words += [self._windows[end].admit_piece(_SENT[kind]) for _ in range(group - 1)]
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
        if not window.on_arrival(Inbound(kind, 1, word, 2)):
            raise Unpaid(state)
        if kind is Kind.PIECE and end == 0 and window._base == window.granted + 1:
            window.reserve(self._reserved)
        if isinstance(told, Together):
            for one in told.several:
                side = _received(state, window, side, told.kind, one)
        elif isinstance(told, Answered):
            self._promises[end].end(told.promises)
            side = _received(state, window, side, Kind.REPLY, told.wakes)
        elif isinstance(told, Call) and kind is Kind.EXTENSION:
            if told.promises:
                window.stop_learning()
            side = _received(state, window, side, Kind.CALL, told)
        elif kind in _RECEIVED:
            side = _received(state, window, side, kind, told)
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


def _introduce(first: MessageWindow, second: MessageWindow) -> None:
    """Both tell their properties, before which none may send several calls or replies in one message."""
    for sender, receiver in ((first, second), (second, first)):
        word = sender.admit(_SENT[Kind.PROPERTIES])
        assert receiver.on_arrival(Inbound(Kind.PROPERTIES, 1, word, 2))


def _received(state: State, window: MessageWindow, side: Side, kind: Kind, told: Any) -> Side:
    """The duties of an endpoint after a call, or an answer, has arrived."""
    within = window.on_received(_RECEIVED[kind])
    ready, waiting, handler_calls = list(side.ready), list(side.waiting), side.handler_calls
    if kind is Kind.CALL:
        if not within:
            raise Unpaid(state)
        answer = (told.answer, told.wakes)
        if told.answer == DROPPED:
            window.on_dropped()
        elif told.nested:
            waiting.append(answer)
            handler_calls = (*handler_calls, Call(1, 1, wakes=told.answer))
        else:
            ready.append(answer)
    else:
        assert within
        if told is not None:
            waiting.remove((told, None))
            ready.append((told, None))
    # In an order of their own: which of them came first makes no difference.
    in_order = tuple(sorted(ready, key=repr)), tuple(sorted(waiting, key=repr))
    return side._replace(ready=in_order[0], waiting=in_order[1], handler_calls=handler_calls)


def _is_short(one: Call | tuple[int, int | None]) -> bool:
    """Whether a call, or a reply, may go together with others: it is one message, and promises no credits."""
    return one[0] == 1 and not (isinstance(one, Call) and one.promises)


def _as_carried(window: MessageWindow, promises: Promises, call: Call) -> tuple[int, Call]:
    """In how many messages a call goes, and how: as an extension decides that by the credits that there are."""
    group = call.pieces - GROUP if call.pieces > GROUP else 1
    if group > window.balance:
        group = 1
    if call.promises > promises.left:
        call = call._replace(answer=1)
    return group, call


def _begin(call: Call, after: Side) -> tuple[Kind, int, Call, Side]:
    """The messages of a call, and the state of its maker afterwards."""
    return Kind.PROPERTIES if call.answer == PROPERTIES else Kind.CALL, call.pieces, call, after


class Scenario(NamedTuple):
    """Of either endpoint: calls that it wants in flight, calls that it grants, and the calls that it makes.

    The first one may promise so many messages of answers beyond the first of each. Up to so many calls, or replies, go
    `together`; where that is more than one, the connection stands. After the first piece of a message, the first one
    lets its peer send `reserved` more messages.
    """

    first: tuple[int, int]
    second: tuple[int, int]
    calls: tuple[Call, ...]
    peer_calls: tuple[Call, ...]
    promises: int = 0
    together: int = 1
    reserved: int = 0

    def space(self) -> Space:
        """All states that two endpoints with these windows and calls can come to."""
        windows = MessageWindow(*self.first, self.promises + self.reserved), MessageWindow(*self.second, 0)
        promises = Promises(self.promises, windows[0].reserve), Promises(0, windows[1].reserve)
        return Space(windows, promises, (self.calls, self.peer_calls), self.together, self.reserved)


NESTED = Call(1, 1, nested=True)
PLAIN = Call(1, 1)
