"""The deadlines of a connection's keep-alive: times go in, nothing here waits."""

from __future__ import annotations

from rpcrdma.rpc.keep_alive import KeepAlive
from support.cases import each_case

NOW_S = 1000.0


class Watched:
    """A connection of which only the replies are seen; notes the actions of its keep-alive."""

    def __init__(self, idle_s: float | None = 60.0, *, asked: bool = False, askable: bool = True) -> None:
        self.replies = 5
        self.askable = askable
        self.did: list[str] = []
        self.keep_alive = KeepAlive(
            idle_s,
            20.0,
            replies=lambda: self.replies,
            ask=self.ask,
            give_up=lambda: self.did.append("given up"),
            **({"asked": True} if asked else {}),
        )

    def ask(self) -> bool:
        self.did.append("asked")
        return self.askable

    def passes(self, *times_s: float) -> None:
        """The timer looks at each of these times, and reports the due ones; seconds from the start."""
        for time_s in times_s:
            self.keep_alive.on_time(NOW_S + time_s)
            self.keep_alive.next_deadline_s(NOW_S + time_s)

    @property
    def deadline_s(self) -> float | None:
        """As the timer has it; seconds from the start."""
        due_s = self.keep_alive.next_deadline_s(NOW_S + 1e6)
        return None if due_s is None else due_s - NOW_S


def test_silence_is_asked_about_once_and_then_the_server_is_given_up() -> None:
    watched = Watched()
    watched.keep_alive.on_time(NOW_S)
    watched.passes(0)
    assert watched.deadline_s == 60
    watched.passes(59.9)
    assert watched.did == []
    watched.passes(60)
    assert watched.did == ["asked"]
    assert watched.deadline_s == 80
    watched.passes(79.9)
    assert not watched.keep_alive.given_up
    watched.passes(80)
    assert watched.did == ["asked", "given up"]
    assert watched.keep_alive.given_up
    assert watched.deadline_s is None
    watched.passes(1e9)
    assert watched.did == ["asked", "given up"]


@each_case("counted", [0, 1])
def test_an_answer_begins_the_silence_anew_and_is_no_later_reply(counted: int) -> None:
    watched = Watched()
    watched.passes(0, 60)
    watched.replies += counted
    watched.keep_alive.answered()
    watched.passes(61)
    assert watched.deadline_s == 121
    watched.passes(80)
    assert watched.did == ["asked"]
    watched.passes(121)
    assert watched.did == ["asked", "asked"]


def test_any_reply_makes_asking_needless() -> None:
    watched = Watched()
    watched.passes(0)
    for minute in range(1, 10):
        watched.replies += 1
        watched.passes(60 * minute)
    assert watched.did == []
    watched.passes(600)
    assert watched.did == ["asked"]


def test_a_server_that_answers_other_calls_is_not_given_up_while_the_null_call_waits_behind_them() -> None:
    watched = Watched()
    watched.passes(0, 60)
    for late_s in (80, 100, 120):
        watched.replies += 1
        watched.passes(late_s)
    assert watched.did == ["asked"]
    watched.passes(139.9)
    assert not watched.keep_alive.given_up
    watched.passes(140)
    assert watched.did == ["asked", "given up"]


@each_case("idle_s", [None, 0.0])
def test_without_an_interval_nothing_is_asked_but_a_first_call_must_be_answered(idle_s: float | None) -> None:
    assert Watched(idle_s).deadline_s is None
    watched = Watched(idle_s, asked=True)
    watched.passes(0)
    assert watched.deadline_s == 20
    watched.keep_alive.answered()
    assert watched.deadline_s is None
    watched = Watched(idle_s, asked=True)
    watched.passes(0, 20)
    assert watched.did == ["given up"]


def test_where_nothing_can_be_asked_nothing_is_given_up() -> None:
    watched = Watched(askable=False)
    watched.passes(0, 60, 80, 120, 180)
    assert watched.did == ["asked", "asked", "asked"]
    assert watched.deadline_s == 240
