"""What is wrong with a transmission, as it is told to its sender (section 9.5)."""

from __future__ import annotations

from typing import NoReturn

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.rtr.messages import Report, ReportCode, TransmissionId

__all__ = ["Fault", "expected", "out_of_range"]


class Fault(RemoteProtocolError):
    """A group of transmissions cannot be taken: `code` and `words` are those of its Report Error."""

    def __init__(self, code: ReportCode, *words: int) -> None:
        self.code = code
        self.words = words
        super().__init__(f"{code.name.lower().replace('_', ' ')} {words}", rfc="rtrext 9.5")

    def report(self, bad: TransmissionId, lead: TransmissionId | None) -> Report:
        """The report about a transmission."""
        return Report(bad, lead, self.code, self.words)


def expected(code: ReportCode, need: int, have: int) -> NoReturn:
    """Raises the fault of a field that has to have one value."""
    raise Fault(code, need, have)


def out_of_range(code: ReportCode, value: int, least: int, most: int) -> NoReturn:
    """Raises the fault of a field that has to be within a range; within it, `value` is not aligned."""
    raise Fault(code, value, max(0, least) & 0xFFFFFFFF, max(0, most) & 0xFFFFFFFF)
