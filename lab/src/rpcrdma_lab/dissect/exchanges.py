"""Groups the messages of captures by call: the call, the RDMA operations on its chunks, and the reply or the error.

A message outside of calls, such as a start-up frame, a grant or a Terminate, is in a group of its connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.fields import Field, FieldFault, Message

__all__ = ["Exchange", "Exchanges"]

_DONE = "SUCCESS"
_FIELD_OCTETS = 300


@dataclass(slots=True)
class Exchange:
    """The messages of one RPC call of a connection; or, if `xid` is None, messages of a connection outside of calls.

    `number` counts exchanges, and `connection` connections, from 1 on. `requester` and `responder` are the addresses of
    caller and other end; outside of calls, those of the first message's sender and receiver. `whole` says that the
    reply was seen or, outside of calls, that a call followed the messages.
    """

    number: int
    connection: int
    requester: str
    responder: str
    xid: int | None = None
    messages: list[Message] = field(default_factory=list)
    whole: bool = False

    @property
    def start_s(self) -> float | None:
        """The time of the first message in seconds since the first packet of the capture; None if it has no time."""
        return self.messages[0].time_s

    @property
    def elapsed_s(self) -> float | None:
        """The seconds from the call to its reply or error; None if either is missing or has no time."""
        found: float | None = self._fact("elapsed_s")
        return found

    @property
    def version(self) -> str | None:
        """The version of RPC-over-RDMA, such as "1"; None if unknown."""
        found: str | None = self._fact("version")
        return found

    @property
    def procedure(self) -> str | None:
        """The name of the called procedure, such as "NFS_V3 READ"; None if the call was not seen or not decoded."""
        found: str | None = self._fact("procedure")
        return found

    @property
    def outcome(self) -> str | None:
        """The error, else result status, else reply status of the last message that has one, such as "SUCCESS".

        Without such a message, "answered" or "no answer" for a call, and None for messages outside of calls.
        """
        for message in reversed(self.messages):
            if error := message.facts.get("error"):
                return str(error).partition(":")[0]
            if outcome := message.facts.get("status") or message.facts.get("outcome"):
                return str(outcome)
        return None if self.xid is None else "answered" if self.whole else "no answer"

    @property
    def faults(self) -> list[tuple[Message, FieldFault]]:
        """The broken rules, each with the message that breaks it, without those that a checker breaks deliberately."""
        return [each for each in self._all_faults if not each[0].facts.get("deliberate")]

    @property
    def deliberate_faults(self) -> list[tuple[Message, FieldFault]]:
        """The rules that a checker such as `rpcrdma check` breaks deliberately, each with its message."""
        return [each for each in self._all_faults if each[0].facts.get("deliberate")]

    @property
    def _all_faults(self) -> list[tuple[Message, FieldFault]]:
        return [(message, fault) for message in self.messages for fault in message.faults]

    @property
    def failed(self) -> bool:
        """Whether a rule is broken, an error is reported, or a call has no reply, or one without success.

        Success is accept_stat SUCCESS, and 0 as the status with which the results of most protocols begin; what was not
        decoded counts as success. Rules that a checker breaks deliberately do not count.
        """
        facts = [message.facts for message in self.messages]
        reported = any(
            "error" in one or one.get("outcome", _DONE) not in {_DONE, None} or one.get("status_code") for one in facts
        )
        return bool(self.faults) or reported or (self.xid is not None and not self.whole)

    def body(self, part: str) -> Field | None:
        """Returns the decoded fields of the RPC arguments or results; None if absent or not decoded.

        `part` is "arguments" or "results".
        """
        groups = [group for message in self.messages for group in message.groups]
        return next((group for group in groups if group.name.endswith(f" {part}")), None)

    def is_of(self, procedure: str) -> bool:
        """Returns whether the call is of `procedure`, as "NFS_V3 READ" or "READ", or has that operation in a COMPOUND.

        Upper and lower case are the same.
        """
        own = (self.procedure or "").lower()
        last = own.rpartition(" ")[2]
        return procedure.lower() in {own, last, *last.split("+")}

    def _fact(self, name: str) -> Any:
        return next((message.facts[name] for message in self.messages if message.facts.get(name) is not None), None)

    def as_json(self) -> dict[str, Any]:
        """Returns the exchange as a JSON object, whose keys are always the same; unknown values are None.

        The keys are "exchange" (the number), "connection", "requester", "responder", "xid", "version", "procedure",
        "start_s", "elapsed_s", "outcome", "failed", "arguments", "results" and "messages". The last has the messages as
        `Message.as_json` does, with "from_requester" in place of "headers" and "connection".
        """
        arguments, results = self.body("arguments"), self.body("results")
        return {
            "exchange": self.number,
            "connection": self.connection,
            "requester": self.requester or None,
            "responder": self.responder or None,
            "xid": self.xid,
            "version": self.version,
            "procedure": self.procedure,
            "start_s": None if self.start_s is None else round(self.start_s, 9),
            "elapsed_s": self.elapsed_s,
            "outcome": self.outcome,
            "failed": self.failed,
            "arguments": None if arguments is None else _plain(arguments),
            "results": None if results is None else _plain(results),
            "messages": [self._message(message) for message in self.messages],
        }

    def _message(self, message: Message) -> dict[str, Any]:
        described = message.as_json()
        described["from_requester"] = message.source == self.requester
        del described["headers"], described["connection"]
        return described


def _plain(item: Field) -> Any:
    """Returns a decoded field as a JSON value without its offsets: octets as hex, enumerations by name."""
    if item.fields:
        names = [one.name for one in item.fields]
        if names[0] == "[0]":
            return [_plain(one) for one in item.fields]
        return {one.name: _plain(one) for one in item.fields}
    if isinstance(item.value, bytes):
        return item.value.hex()
    if item.shown in {"true", "false"} and isinstance(item.value, int):
        return bool(item.value)
    if isinstance(item.value, int) and item.shown.endswith(")"):
        # An enumeration: its number, and its name in parentheses.
        return item.shown.partition("(")[2][:-1]
    return item.value if item.value != "" else item.shown


def _is_part(message: Message) -> bool:
    """Returns whether a message that is no call or reply has part of one (by MORE, or the round-trip extension)."""
    facts = message.facts
    is_rpc = "CONNPROP" not in (facts.get("type") or "") and "error" not in facts and bool(facts.get("xid"))
    return is_rpc and ("transmission" in facts or facts.get("sequence", {}).get("complete") is False)


def _is_of_reply(pieces: list[Message]) -> bool:
    return pieces[0].facts.get("part_of") == "reply"


def _held_octets(message: Message) -> int:
    """Returns an estimate of the memory in octets that a message and its fields take."""
    fields = (one.value for group in message.groups for one in group.walk())
    values = sum(_FIELD_OCTETS + (len(value) if isinstance(value, bytes | str) else 0) for value in fields)
    return len(message.octets) + values


class Exchanges:
    """Groups messages by RPC call, and yields these exchanges in the order in which they begin, each when it has ended.

    Messages outside of calls are an exchange of their connection. It ends when a call begins on the connection, or when
    any later call has ended, so that it delays no calls.
    """

    def __init__(self) -> None:
        self._count = 0
        self._held: dict[int, int] = {}
        """The memory in octets of each message that is held, by the message's number."""
        self._held_octets = 0
        self._open: dict[int, Exchange] = {}
        self._whole: dict[int, Exchange] = {}
        """The exchanges in `_open` that have ended, by number, in the order of their ends."""
        self._calls: dict[int, Exchange] = {}
        """The open exchanges of calls, by the number of the call's message."""
        self._of_connections: dict[int, Exchange] = {}
        self._pieces: dict[tuple[int, str, int | None], list[Message]] = {}
        """The messages of unfinished RPC messages in several pieces, by connection, sender and XID."""

    def each(self, messages: Iterable[Message]) -> Iterator[Exchange]:
        """Yields all exchanges, the messages of one RPC call each, in `messages`, which are numbered in order."""
        for message in messages:
            yield from self.add(message)
        yield from self.finish()

    def add(self, message: Message) -> Iterator[Exchange]:
        """Adds the next message, and yields exchanges that have ended, each after those that began before it.

        If too many messages or octets are held, ended exchanges are yielded out of this order, or the oldest one before
        its end. The numbers of messages must ascend.
        """
        octets = self._held[message.number] = _held_octets(message)
        self._held_octets += octets
        self._take(message)
        yield from self._ended()

    def finish(self) -> Iterator[Exchange]:
        """Yields the remaining exchanges, ended or not, at the end of input, in the order of their first messages."""
        calls = {(call.connection, call.responder, call.xid): call for call in self._calls.values()}
        for key, pieces in self._pieces.items():
            if key in calls and _is_of_reply(pieces):
                calls[key].messages += pieces
            else:
                self._begin_with(pieces)
        yield from sorted(self._open.values(), key=lambda exchange: exchange.messages[0].number)

    def _take(self, message: Message) -> None:
        facts = message.facts
        xid = facts.get("xid")
        role = facts.get("message")
        served = facts.get("serves", {}).get("call")
        if served in self._calls:
            self._calls[served].messages.append(message)
        elif "answers" in facts and facts["answers"] in self._calls:
            exchange = self._calls.pop(facts["answers"])
            self._with_pieces(exchange, message)
            self._end(exchange)
        elif role == "call":
            exchange = self._begin(message, xid=xid)
            self._calls[message.number] = exchange
            self._with_pieces(exchange, message)
        elif role == "reply":
            exchange = self._begin(message, xid=xid, answer=True)
            self._with_pieces(exchange, message)
            self._end(exchange)
        elif role is None and _is_part(message):
            self._pieces.setdefault((message.connection, message.source, xid), []).append(message)
        else:
            known = self._of_connections.get(message.connection)
            exchange = known or self._begin(message)
            exchange.messages.append(message)
            self._of_connections[message.connection] = exchange

    def _with_pieces(self, exchange: Exchange, message: Message) -> None:
        pieces = self._pieces.pop((message.connection, message.source, exchange.xid), [])
        exchange.messages += [*pieces, message]

    def _begin(self, message: Message, *, xid: int | None = None, answer: bool = False) -> Exchange:
        before = self._of_connections.pop(message.connection, None)
        if before is not None:
            self._end(before)
        self._count += 1
        ends = (message.destination, message.source) if answer else (message.source, message.destination)
        exchange = self._open[self._count] = Exchange(self._count, message.connection, *ends, xid)
        return exchange

    def _begin_with(self, pieces: list[Message]) -> Exchange:
        exchange = self._begin(pieces[0], xid=pieces[0].facts.get("xid"), answer=_is_of_reply(pieces))
        exchange.messages = pieces
        return exchange

    def _end(self, exchange: Exchange) -> None:
        exchange.whole = True
        self._whole[exchange.number] = exchange

    def _ended(self) -> Iterator[Exchange]:
        while True:
            found = next(iter(self._open.values()), None)
            if found is None or not found.whole:
                if self._is_full():
                    found = next(iter(self._whole.values()), None) or self._oldest()
                elif found is None or found.xid is not None or not self._whole:
                    return
            if not found.whole:
                for message in found.messages:
                    self._calls.pop(message.number, None)
                if self._of_connections.get(found.connection) is found:
                    del self._of_connections[found.connection]
            del self._open[found.number]
            self._whole.pop(found.number, None)
            self._held_octets -= sum(self._held.pop(message.number) for message in found.messages)
            yield found

    def _oldest(self) -> Exchange:
        """Returns the open exchange that began first.

        If the parts of an unfinished RPC message are older than all open exchanges, moves them to a new exchange, and
        returns that. There must be an open exchange, or parts.
        """
        found = next(iter(self._open.values()), None)
        pieces = next(iter(self._pieces.values()), None)
        if pieces is not None and (found is None or pieces[0].number < found.messages[0].number):
            del self._pieces[next(iter(self._pieces))]
            return self._begin_with(pieces)
        assert found is not None
        return found

    def _is_full(self) -> bool:
        held = len(self._held) > limits.EXPLAINED_MESSAGES_MAX
        return held or self._held_octets > limits.EXPLAINED_HELD_OCTETS_MAX
