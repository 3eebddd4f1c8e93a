"""When a silent server is asked whether it is there, and when it is given up: deadlines, without a clock or a call."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["KeepAlive"]


class KeepAlive:
    """Checks that replies arrive on one connection.

    After `idle_s` seconds without a reply (None or 0: never), `ask` is called to make a NULL call; it returns whether
    it does. That call must be answered (`answered`) within `reply_s` seconds, or else `give_up` is called once, and
    there are no more deadlines. `replies` returns a count that rises with each reply.

    With `asked` a NULL call has been made on the connection before anything else.
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
        """Whether the NULL call was not answered in time."""
        self._counted = replies()
        self._deadline_s: float | None = None

    def next_deadline_s(self, now_s: float) -> float | None:
        """Returns the time of the next `on_time`; None: never.

        A wait that began since the last call counts from `now_s`.
        """
        if self._deadline_s is None and not self.given_up:
            wait_s = self._reply_s if self._asked else self._idle_s
            if wait_s:
                self._deadline_s = now_s + wait_s
        return self._deadline_s

    def on_time(self, now_s: float) -> None:
        """Calls `ask` or `give_up` if that is due."""
        if self._deadline_s is None or now_s < self._deadline_s:
            return
        self._deadline_s = None
        if self._asked:
            self.given_up = True
            self._give_up()
        elif (replies := self._replies()) != self._counted:
            self._counted = replies
        else:
            self._asked = self._ask()

    def answered(self) -> None:
        """Ends the wait for the answer to the NULL call, which may be a refusal: silence has the next deadline."""
        self._asked = False
        self._counted = self._replies()
        self._deadline_s = None
