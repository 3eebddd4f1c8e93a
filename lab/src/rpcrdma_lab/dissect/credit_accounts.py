"""Credit accounts of both ends of a connection, by the rules of each version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.headers import Header

__all__ = ["CreditAccount", "CreditsSaid", "account_for"]


@dataclass(frozen=True, slots=True)
class CreditsSaid:
    """The credits of a message: a note for readers and facts for programs.

    `beyond` describes by how much the message exceeds its grant; "" if it does not.
    """

    note: str
    facts: dict[str, Any]
    beyond: str = ""
    requirement: str = ""
    """The identifier of the rule that `beyond` breaks in the conformance ledger; "" if it has none."""


class _Calls:
    """The account of version 1: each reply states how many calls may be unanswered, 1 before the first reply.

    An RDMA_ERROR states none (RFC 8166 section 3.3.1, RFC 8167 section 4.1).
    """

    version = "1"

    def __init__(self) -> None:
        self._granted = [1, 1]
        self._unanswered: tuple[dict[int, None], dict[int, None]] = ({}, {})

    def add(self, end: int, header: Header, *, is_call: bool | None) -> CreditsSaid | None:
        if is_call is None or header.xid is None:
            return None
        value = header.number("rdma_credit")
        if not is_call:
            self._unanswered[1 - end].pop(header.xid, None)
            if header.kind == "RDMA_ERROR":
                return None
            self._granted[1 - end] = value
            return CreditsSaid(f"grants {value} credits", {"granted": value})
        waiting = self._unanswered[end]
        waiting[header.xid] = None
        if len(waiting) > limits.CAPTURE_CALLS_MAX:
            del waiting[next(iter(waiting))]
        note = f"requests {value} credits, {len(waiting)} in flight"
        granted = self._granted[end]
        beyond = f"{len(waiting)} calls in flight, {granted} were granted" if len(waiting) > granted else ""
        return CreditsSaid(note, {"requested": value, "in_flight": len(waiting), "granted": granted}, beyond, "V1-2")


class _Increments:
    """The account of version 2: a message uses one credit of its sender, and grants its receiver further ones.

    But an error grants none, and a message that does nothing but grant credits uses none. Each end begins with one.
    """

    version = "2"

    def __init__(self) -> None:
        self._balance = [1, 1]

    def add(self, end: int, header: Header, *, is_call: bool | None) -> CreditsSaid | None:
        del is_call
        is_grant = header.kind == "RDMA2_NOMSG" and not header.xid
        beyond = ""
        if not is_grant:
            self._balance[end] -= 1
            if self._balance[end] < 0:
                beyond = f"{-self._balance[end]} messages more than were granted"
        word = header.number("rdma_credit")
        given = 0 if header.kind == "RDMA2_ERROR" else word & 0xFFFF
        self._balance[1 - end] += given
        note = f"grants {given} more credits; the sender has {max(self._balance[end], 0)} left"
        facts = {"granted": given, "outstanding_max": word >> 16, "left": self._balance[end]}
        return CreditsSaid(note, facts, beyond)


CreditAccount: TypeAlias = _Calls | _Increments
"""An account of both directions of one connection. Its method `add` counts a message that `end` (0 or 1) has sent.

It returns the message's credits, in words and numbers, and any excess; None if the message neither requests nor grants
credits, like an error of version 1. `is_call` says whether its RPC message is a call; None: it carries none, or the RPC
message cannot be decoded.
"""


def account_for(version: str | None) -> CreditAccount:
    """Returns a new account by the rules of `version`, "1" or "2"; None stands for "1"."""
    return _Increments() if version == _Increments.version else _Calls()
