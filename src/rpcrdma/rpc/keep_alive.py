"""When a silent server is asked whether it is there, and when it is given up: deadlines, without a clock or a call."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["KeepAlive"]


class KeepAlive:
    """Detects that the server of one connection is silent; has deadlines, but no clock of its own.

    After a wait of `idle_s` seconds without a reply, `ask` makes a NULL call. If then neither it nor another call is
    answered for `reply_s` seconds, `give_up` is called once, and there are no further deadlines. While other calls are
    answered, the NULL call may take longer: it may wait behind slow ones.

    Args:
        idle_s: the seconds of a wait, at whose end `ask` is called or the next wait begins; None or 0: never ask.
        reply_s: the seconds for which the reply to the NULL call, or any other, is awaited.
        replies: returns a count that rises with each reply on the connection.
        ask: makes a NULL call, whose end the owner reports by `answered`; returns False if it makes none: then the next
            wait of `idle_s` begins.
        give_up: ends the connection.
        asked: whether a NULL call has already been made on the connection, before any other.
    """

    __slots__ = ("_ask", "_asked", "_counted", "_deadline_s", "_give_up", "_idle_s", "_replies", "_reply_s", "given_up")

    def __init__(
        self,
        idle_s: float | None,
        reply_s: float,
        *,
        replies: Callable[[], int],
        ask: Callable[[], bool],
        give_up: Callable[[], None],
        asked: bool = False,
    ) -> None:
        self._idle_s = idle_s
        self._reply_s = reply_s
        self._replies = replies
        self._ask = ask
        self._give_up = give_up
        self._asked = asked
        self.given_up = False
        """Whether no reply came in time after the NULL call."""
        self._counted = replies()
        self._deadline_s: float | None = None

    def next_deadline_s(self, now_s: float) -> float | None:
        """Returns the time at which `on_time` must be called; None if it need not be called.

        Call this again after `on_time` and `answered`. None is returned after `give_up`, and if no reply is awaited and
        `idle_s` is None or 0.

        Args:
            now_s: the present time in seconds of any monotonic clock. A wait that has begun since the last call of this
                method counts from this time.
        """
        if self._deadline_s is None and not self.given_up:
            wait_s = self._reply_s if self._asked else self._idle_s
            if wait_s:
                self._deadline_s = now_s + wait_s
        return self._deadline_s

    def on_time(self, now_s: float) -> None:
        """Calls `ask` at the end of a wait without a reply, or `give_up` if the NULL call was made and is unanswered.

        If a reply to any call has arrived since the wait began, only the next wait begins: of `reply_s` while the NULL
        call is unanswered. No effect before the deadline. `now_s`: the time of the clock of `next_deadline_s`.
        """
        if self._deadline_s is None or now_s < self._deadline_s:
            return
        self._deadline_s = None
        if (replies := self._replies()) != self._counted:
            self._counted = replies
        elif self._asked:
            self.given_up = True
            self._give_up()
        else:
            self._asked = self._ask()

    def answered(self) -> None:
        """Ends the wait for the reply to the NULL call, which may be a refusal; the wait of `idle_s` begins anew."""
        self._asked = False
        self._counted = self._replies()
        self._deadline_s = None
