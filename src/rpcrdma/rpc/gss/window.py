"""The sequence window of a context: each number is taken once (RFC 2203 section 5.3.3.1)."""

from __future__ import annotations

__all__ = ["SequenceWindow"]


class SequenceWindow:
    """The sequence window of one context (RFC 2203 section 5.3.3.1).

    It accepts each of the `size` numbers up to the highest accepted one once, and all higher numbers.
    """

    __slots__ = ("_highest", "_seen", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._highest = -1
        # Bit n is set when the number `_highest - n` was seen.
        self._seen = 0

    def take(self, number: int) -> bool:
        """Accepts the sequence number of a call whose header was verified, and returns True.

        Returns False, and changes nothing, if the number was accepted before or is below the window.
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
