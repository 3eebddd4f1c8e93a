"""The sequence window of a context: each number is taken once (RFC 2203 section 5.3.3.1)."""

from __future__ import annotations

__all__ = ["SequenceWindow"]


class SequenceWindow:
    """Accepts the `size` numbers up to the highest seen, each once, and all higher ones."""

    __slots__ = ("_highest", "_seen", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._highest = -1
        # Bit n is set when the number `_highest - n` was seen.
        self._seen = 0

    def take(self, number: int) -> bool:
        """Returns whether the number of a call is new and not below the window, and notes it: it is not new again.

        The header of the call must have been verified.
        """
        ahead = number - self._highest
        if ahead > 0:
            # A shift by more than the window would only make zeros.
            self._seen = (self._seen << min(ahead, self.size) | 1) & ((1 << self.size) - 1)
            self._highest = number
            return True
        # A number far below the window would make an integer of 256 MiB.
        if -ahead >= self.size or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True
