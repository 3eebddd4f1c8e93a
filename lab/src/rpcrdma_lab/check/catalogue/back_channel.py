"""Steps that make a server of NFSv4.1 call its client: it recalls a delegation (RFC 8881 sections 10.4 and 20.2).

A client with a session opens an empty file for reading, and gets a delegation. A WRITE of NFSv3 conflicts with the
delegation, so that the server recalls it over the back channel, which is the session's connection. A server may grant
no delegation of the file for some time after that: Linux does so for half a minute. So each conversation uses another
file, whose handle is given as "fresh". NFSv4.1 accepts the handles of NFSv3.

The clients of all conversations have the same owner and different verifiers: the server takes each for a restart of the
client before, and drops the state of a conversation that has failed (RFC 8881 section 2.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rpcrdma_lab.check.answers import hear, say
from rpcrdma_lab.check.entry import Step

__all__ = ["ONE_HOLDER", "RELEASE", "TWO_HOLDERS", "CallTrigger"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTrigger:
    """Steps by which a client makes a server call it, with patterns for that reverse call (RFC 8167)."""

    steps: Sequence[Step]
    """The steps; the last one is the call that triggers the reverse call."""
    answer: dict[str, Any]
    """The pattern of the answer to the last step."""
    parts: Sequence[Any]
    """The parts of the reverse call's arguments, each [NAME, KIND]; `parts_of` describes the kinds."""
    results: Any
    """The octets (docs/send.md) of the results of a reply to the reverse call."""
    ending: Sequence[Step]
    """The steps by which the client removes its state from the server."""


_XID = {"given": "xid"}
_CREDENTIAL = {"given": "credential"}
_FRESH = {"opaque": {"given": "fresh"}}
_CLOSE, _DELEGRETURN, _OPEN, _PUTFH = 4, 8, 18, 22
_EXCHANGE_ID, _CREATE_SESSION, _DESTROY_SESSION, _SEQUENCE, _DESTROY_CLIENTID = 42, 43, 44, 53, 57
_RECLAIM_COMPLETE = 58
_CB_RECALL, _CB_SEQUENCE = 4, 11
_CALLBACK_PROGRAM = 0x4000_0041
_BACK_CHANNEL = 2
"""CREATE_SESSION4_FLAG_CONN_BACK_CHAN."""
_READ, _WANT_READ_DELEGATION = 1, 0x100
_BY_HANDLE = 4
"""CLAIM_FH: OPEN of the current filehandle."""
_READ_DELEGATION = {"words": [1]}
_CURRENT_STATEID = {"words": [1, 0, 0, 0]}
_FORE = {"words": [0, 0x10000, 0x10000, 4096, 8, 1, 0]}
"""Attributes of the fore channel: padding; sizes of call, reply and cached reply; operations; slots.

No RDMA Read depth.
"""
_BACK = {"words": [0, 4068, 4068, 4068, 8, 1, 0]}
"""Attributes of the back channel: 4,068 octets fit inline in a message of 4,096 with its transport header."""
_WRITE_AT = 12
"""The XID of the WRITE, counted from the first; two holders use six XIDs each before."""
_WRITE_XID = {**_XID, "plus": _WRITE_AT}
_FILE_SYNC = 2
_NO_DELEGATION = "the server gave no delegation of the file this time"


def _compound(plus: int, *operations: Any) -> Step:
    """Returns a step that sends a COMPOUND of minor version 1; `plus` is added to the XID of the check's first call.

    Each of `operations` has the octets (docs/send.md) of one operation.
    """
    args = [{"words": [0, 1, len(operations)]}, *operations]
    rpc = {"program": 100003, "version": 4, "procedure": 1, "credential": _CREDENTIAL, "args": args}
    return say(header={"xid": {**_XID, "plus": plus}}, rpc=rpc)


def _answer(plus: int, **rpc: Any) -> dict[str, Any]:
    """Returns the pattern of an accepted reply with the check's first XID + `plus`; `rpc` has further RPC fields."""
    return {"message": {"header": {"xid": {**_XID, "plus": plus}}, "rpc": {"direction": 1, "accepted": 0, **rpc}}}


def _succeeded(plus: int, name: str, *parts: Any, **wanted: Any) -> dict[str, Any]:
    """Returns the pattern of a successful COMPOUND reply; in later steps {"given": "`name`.PART"} is a part of it.

    `plus` is added to the XID of the check's first call. `parts` divide the results after status, tag and count of
    operations, as [PART, KIND] each; KIND is the length in octets, "opaque" or "words" (see `parts_of`). `wanted` has,
    by the name PART, octets (docs/send.md) that parts must have.
    """
    answer = _answer(plus, result_status=0)
    answer["message"]["parts"] = wanted
    return {**answer, "as": name, "parts": [["status", 4], ["tag", "opaque"], ["count", 4], *parts]}


@dataclass(frozen=True, slots=True)
class _Holder:
    """An NFSv4.1 client that holds a delegation; `number`, 0 or 1, determines its XIDs and the names of its values."""

    number: int

    def _compound(self, place: int, *operations: Any) -> Step:
        return _compound(6 * self.number + place, *operations)

    def _succeeded(self, place: int, name: str, *parts: Any, **wanted: Any) -> Step:
        return hear(_succeeded(6 * self.number + place, f"{name}-{self.number}", *parts, **wanted))

    def _given(self, name: str, part: str) -> dict[str, Any]:
        return {"given": f"{name}-{self.number}.{part}"}

    def _sequence(self, number: int) -> list[Any]:
        return [{"words": [_SEQUENCE]}, self._given("session", "id"), {"words": [number, 0, 0, 0]}]

    @property
    def _owner(self) -> dict[str, Any]:
        return {"opaque": [{"given": "owner"}, {"text": f"-{self.number}"}]}

    @property
    def _known(self) -> list[Step]:
        """Steps that create the client's session, with a back channel on this connection."""
        client, sequence = self._given("client", "id"), self._given("client", "sequence")
        program = [{"words": [_CALLBACK_PROGRAM, 1, 1, 0]}, {"opaque": {"text": "check"}}, {"words": [0, 0, 0]}]
        flags = {"words": [_BACK_CHANNEL]}
        return [
            self._compound(0, [{"words": [_EXCHANGE_ID]}, {"longs": [_XID]}, self._owner, {"words": [0, 0, 0]}]),
            self._succeeded(0, "client", ["operation", 8], ["id", 8], ["sequence", 4]),
            self._compound(1, [{"words": [_CREATE_SESSION]}, client, sequence, flags, _FORE, _BACK, *program]),
            self._succeeded(1, "session", ["operation", 8], ["id", 16], ["sequence", 4], ["flags", 4], flags=flags),
        ]

    @property
    def holding(self) -> list[Step]:
        """Steps by which the client gets a read delegation of the empty file with the handle {"given": "fresh"}.

        The check is not judged if the server opens the file without a delegation.
        """
        access = [_OPEN, 0, _READ | _WANT_READ_DELEGATION, 0]
        opening = [{"words": access}, self._given("client", "id"), self._owner, {"words": [0, _BY_HANDLE]}]
        closing = [{"words": [_CLOSE, 0]}, _CURRENT_STATEID]
        before = [["sequence", 44], ["reclaimed", 8], ["file", 8], ["operation", 8], ["stateid", 16], ["change", 24]]
        opened = _succeeded(6 * self.number + 2, f"opened-{self.number}", *before, ["set", "words"],
                            ["delegation", 4], ["delegated", 16], delegation=_READ_DELEGATION)  # fmt: skip
        none = {**_answer(6 * self.number + 2, result_status=0), "unmet": _NO_DELEGATION}
        return [
            *self._known,
            self._compound(2, self._sequence(1), {"words": [_RECLAIM_COMPLETE, 0]}, [{"words": [_PUTFH]}, _FRESH],
                           opening, closing),
            hear(opened, none),
        ]  # fmt: skip

    @property
    def returning(self) -> list[Step]:
        """Steps by which the client returns the delegation, and destroys its session and client ID."""
        delegation = [{"words": [_DELEGRETURN]}, self._given("opened", "delegated")]
        return [
            self._compound(3, self._sequence(2), [{"words": [_PUTFH]}, _FRESH], delegation),
            hear(_answer(6 * self.number + 3)),
            *self._leaving,
        ]

    @property
    def _leaving(self) -> list[Step]:
        return [
            self._compound(4, [{"words": [_DESTROY_SESSION]}, self._given("session", "id")]),
            hear(_answer(6 * self.number + 4)),
            self._compound(5, [{"words": [_DESTROY_CLIENTID]}, self._given("client", "id")]),
            hear(_answer(6 * self.number + 5)),
        ]

    @property
    def restarted(self) -> list[Step]:
        """Steps by which the client appears as restarted, which drops its state at the server, and leaves.

        It creates a session, and destroys the session and its client ID.
        """
        return [*self._known, *self._leaving]


def _recalled(*holders: _Holder) -> CallTrigger:
    """Returns steps and patterns by which a WRITE of NFSv3 makes the server recall the delegations of `holders`."""
    args = [_FRESH, {"longs": [0]}, {"words": [1, _FILE_SYNC]}, {"opaque": "00"}]
    write = {"program": 100003, "version": 3, "procedure": 7, "credential": _CREDENTIAL, "args": args}
    results = [{"words": [0]}, {"opaque": {"given": "call.tag"}}, {"words": [2, _CB_SEQUENCE, 0]},
               {"given": "call.slot"}, {"words": [0, 0, _CB_RECALL, 0]}]  # fmt: skip
    return CallTrigger(
        steps=[*(step for each in holders for step in each.holding), say(header={"xid": _WRITE_XID}, rpc=write)],
        answer=_answer(_WRITE_AT),
        # The slot is that of CB_SEQUENCE: session, sequence number and number of the slot.
        parts=[["tag", "opaque"], ["count", 12], ["operation", 4], ["slot", 24]],
        results=results,
        ending=[step for each in holders for step in each.returning],
    )


ONE_HOLDER = _recalled(_Holder(0))
"""The trigger of one recall."""
TWO_HOLDERS = _recalled(_Holder(0), _Holder(1))
"""The trigger of two recalls at once, each in its own session, so that the slots of a session do not delay one."""


RELEASE: Sequence[Step] = [step for number in range(2) for step in _Holder(number).restarted]
"""Steps that make the server drop the state of clients of earlier conversations."""
