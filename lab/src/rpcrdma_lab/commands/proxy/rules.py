"""The rules of a proxy: which messages of a connection meet a fault, read from the files of the simulated worlds."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.simulation.worlds.faults import FIELDS, Fault, FaultKind, FaultRule, Side
from rpcrdma_lab.simulation.worlds.scenario import ScenarioError, ScenarioTable, read_table

__all__ = ["Decision", "ProxyRule", "RuledConnection", "read_rules"]

_TIMED = {"delay": FaultKind.DELAY, "cut": FaultKind.CUT}
_KINDS = (*_TIMED, "drop", "flip")
_CHUNK = re.compile(r"Write chunk [1-9]\d*|Read chunk at [1-9]\d*|Position-Zero Read chunk|Call chunk|Reply chunk")
"""The names that `rpcrdma decode` gives to chunks."""
_OPERATIONS = {
    "startup": ("MPA ",),
    "send": ("Send",),
    "read-request": ("RDMA Read Request",),
    "read-response": ("RDMA Read Response",),
    "write": ("RDMA Write",),
    "terminate": ("Terminate",),
}
_MESSAGES = ("call", "reply", "error", "grant")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRule:
    """A fault (`kind`: "delay", "cut", "drop" or "flip"), and the selection of messages that meet it.

    `name` is the rule's place in its file, as "fault[0]". The fields from `side` to `number` select messages; an empty
    or None one selects all. `side` is the sender, "client" or "server", `operation` such as "send" or "read-request",
    and `message` "call", "reply", "error" or "grant". `procedure`, `call` and `chunk` (as "Write chunk 1") are those of
    the RPC call that a message belongs to, and `segment` is the number of the segment in the chunk. `connection` counts
    the connections of the proxy, `call` the calls of a connection, and `number` the messages of a connection that the
    other fields select, at the times of `fault`. All four numbers are from 1 on. A flip inverts bit `bit` (0: the
    lowest) of octet `octet` (negative: from the end); then `repair` corrects the CRC. `fault` has the times and values
    of a delay or a cut.
    """

    name: str
    kind: str
    side: str = ""
    operation: str = ""
    message: str = ""
    procedure: str = ""
    chunk: str = ""
    connection: int | None = None
    call: int | None = None
    segment: int | None = None
    number: int | None = None
    octet: int = -1
    bit: int = 0
    repair: bool = False
    fault: Fault | None = None


def read_rules(text: str, file: str, seed: int) -> tuple[list[ProxyRule], list[str]]:
    """Returns (the rules in a TOML text that a proxy can apply, descriptions "fault[NUMBER] (KIND)" of the others).

    `file` is the text's name for errors; `seed` determines the values that are drawn from ranges in the rules.

    Raises:
        ScenarioError: the text is malformed, or has no rules of either sort.
    """
    listed = read_table(text, file).take("fault", [])
    choose = random.Random(seed)  # noqa: S311 - a seed draws the same values again
    rules, left_out = [], []
    if not isinstance(listed, list) or not listed:
        raise ScenarioError(file, "fault", "tables of the form [[fault]]", listed)
    for number, given in enumerate(listed):
        name = f"fault[{number}]"
        table = ScenarioTable(file, f"{name}.", given)
        kind = table.choice("kind", dict.fromkeys((*_KINDS, *FaultKind)))
        if kind in _KINDS:
            rules.append(_rule(table, name, kind, choose))
        else:
            left_out.append(f"{name} ({kind})")
    return rules, left_out


def _rule(table: ScenarioTable, name: str, kind: str, choose: random.Random) -> ProxyRule:
    side = table.choice("side", Side, "")
    fault = _fault(table, _TIMED[kind], side, choose) if kind in _TIMED else None
    rule = ProxyRule(
        name=name,
        kind=kind,
        side=side,
        operation=table.choice("operation", _OPERATIONS, ""),
        message=table.choice("message", _MESSAGES, ""),
        procedure=_text(table, "procedure"),
        chunk=_text(table, "chunk"),
        connection=_count(table, "connection"),
        call=_count(table, "call"),
        segment=_count(table, "segment"),
        number=_count(table, "number"),
        fault=fault,
        **(_place(table) if kind == "flip" else {}),
    )
    if rule.chunk and not _CHUNK.fullmatch(rule.chunk):
        table.fail("chunk", "a name such as 'Write chunk 1', 'Read chunk at 40' or 'Reply chunk'", rule.chunk)
    table.done()
    return rule


def _fault(table: ScenarioTable, kind: FaultKind, side: str, choose: random.Random) -> Fault:
    given = [key for key in sorted(FIELDS[kind]) if table.take(key, None) is not None]
    if kind is FaultKind.DELAY and "delay_s" not in given:
        table.fail("delay_s", "the seconds by which messages are late", None)
    rule = FaultRule(
        kind=kind,
        weight=table.number("weight", 1.0),
        sides=(Side(side),) if side else tuple(Side),
        values={key: table.range(key, None, least=0) for key in given},
        silent=table.flag("silent") if kind is FaultKind.CUT else False,
    )
    return rule.draw(choose, 1, 1)


def _place(table: ScenarioTable) -> dict[str, Any]:
    """Returns the fields "octet", "bit" and "repair" of `ProxyRule`, taken from the table of a rule of kind "flip".

    Raises:
        ScenarioError: a value is wrong.
    """
    bit = _whole(table, "bit", 0)
    if not 0 <= bit < 8:
        table.fail("bit", "a number from 0 to 7", bit)
    return {"octet": _whole(table, "octet", -1), "bit": bit, "repair": table.flag("repair")}


def _text(table: ScenarioTable, key: str) -> str:
    value = table.take(key, "")
    if not isinstance(value, str):
        table.fail(key, "text", value)
    return str(value)


def _whole(table: ScenarioTable, key: str, default: int) -> int:
    value = table.take(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        table.fail(key, "a whole number", value)
    return int(value)


def _count(table: ScenarioTable, key: str) -> int | None:
    if table.take(key, None) is None:
        return None
    value = _whole(table, key, 0)
    if value < 1:
        table.fail(key, "a number from 1 on", value)
    return value


@dataclass(slots=True)
class Decision:
    """The treatment of a message: the octets to forward after `delay_s` seconds, and whether to `cut` the connection.

    `silent` says that the ends get no notice of the cut. `rules` are the names of the rules met, `words` describe them.
    """

    data: bytearray
    delay_s: float = 0.0
    cut: bool = False
    silent: bool = False
    rules: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


class RuledConnection:
    """Decides which rules each message of one connection meets, and counts the messages for that.

    `number` is the number of the connection in the proxy, from 1 on.
    """

    def __init__(self, rules: Sequence[ProxyRule], number: int = 1) -> None:
        self._rules = [rule for rule in rules if rule.connection in {None, number}]
        self._matches = [0] * len(self._rules)
        self._operations = dict.fromkeys(Side, 0)
        self._octets = dict.fromkeys(Side, 0)
        self._calls: dict[int, tuple[int, str]] = {}
        """For the message number of a call, the call's number in the connection and its procedure."""
        self._called = 0

    def decide(self, side: Side, message: Message, octets: bytes, now_s: float, forwarded: int = 0) -> Decision:
        """Counts a message that `side` has sent; returns what all rules that select it do to it: octets, delay, cut.

        `octets` are those of the message on the wire, and `now_s` is the time in seconds since the connection began. If
        no rule selects the message, its octets are forwarded as they are, at once. `forwarded` is the number of octets
        of the message that were forwarded before `octets`: if there are any, the message is neither dropped nor
        changed, as `words` of the decision then say.
        """
        decision = Decision(bytearray(octets))
        if message.protocol != "mpa":
            self._operations[side] += 1
        self._octets[side] += forwarded + len(octets)
        call = self._call_of(message)
        for place, rule in enumerate(self._rules):
            if rule.side and rule.side != side:
                continue
            if self._meets(place, rule, side, message, call, now_s):
                self._apply(rule, message, decision, forwarded)
        return decision

    def _call_of(self, message: Message) -> tuple[int, str]:
        facts = message.facts
        if facts.get("message") == "call":
            self._called += 1
            self._calls[message.number] = self._called, facts.get("procedure") or ""
            while len(self._calls) > limits.CAPTURE_CALLS_MAX:
                del self._calls[next(iter(self._calls))]
            return self._calls[message.number]
        number = facts.get("serves", {}).get("call", facts.get("answers"))
        return self._calls.get(number, (0, ""))

    def _meets(
        self, place: int, rule: ProxyRule, side: Side, message: Message, call: tuple[int, str], now_s: float
    ) -> bool:
        fault = rule.fault
        if fault is not None:
            if now_s < fault.at_s or (fault.for_s and now_s > fault.at_s + fault.for_s):
                return False
            if fault.after_operations is not None and self._operations[side] < fault.after_operations:
                return False
            if fault.after_octets is not None and self._octets[side] < fault.after_octets:
                return False
        if not _is_selected(rule, message, call):
            return False
        self._matches[place] += 1
        return rule.number in {None, self._matches[place]}

    @staticmethod
    def _apply(rule: ProxyRule, message: Message, decision: Decision, forwarded: int) -> None:
        failure = ""
        if forwarded and rule.kind in {"drop", "flip"}:
            failure = f"not made, the first {forwarded} octets were forwarded before"
        elif rule.kind == "drop":
            decision.data.clear()
        elif rule.kind == "flip":
            failure = _flip(decision.data, rule, is_frame=message.protocol != "mpa")
        elif rule.fault is not None and rule.kind == "delay":
            decision.delay_s += rule.fault.delay_s
        elif rule.fault is not None:
            decision.cut, decision.silent = True, rule.fault.silent
        decision.rules.append(rule.name)
        decision.words.append(f"{rule.kind} ({rule.name}{failure and ': '}{failure})")


def _is_selected(rule: ProxyRule, message: Message, call: tuple[int, str]) -> bool:
    facts = message.facts
    served: dict[str, Any] = facts.get("serves", {})
    role = "error" if "error" in facts else facts.get("message")
    ordinal, procedure = call
    return (
        (not rule.operation or message.summary.startswith(_OPERATIONS[rule.operation]))
        and (not rule.message or role == rule.message)
        and (not rule.procedure or rule.procedure.lower() in {procedure.lower(), procedure.lower().rpartition(" ")[2]})
        and (not rule.chunk or served.get("chunk") == rule.chunk)
        and rule.call in {None, ordinal}
        and rule.segment in {None, served.get("segment")}
    )


def _flip(data: bytearray, rule: ProxyRule, *, is_frame: bool) -> str:
    """Flips the bit of `data` that `rule` names, in place; with `rule.repair` corrects the CRC of its FPDU.

    Returns a description of what could not be done; "" if everything was done. `is_frame` says whether `data` is made
    of FPDUs; False for an MPA Request or Reply, which has no CRC.
    """
    if not -len(data) <= rule.octet < len(data):
        return f"not made, the message has {len(data)} octets"
    frame = _frame_at(data, rule.octet % len(data)) if rule.repair and is_frame else None
    data[rule.octet] ^= 1 << rule.bit
    if frame is not None:
        end = frame.stop - 4
        data[end : frame.stop] = crc32c(data[frame.start : end]).to_bytes(4, "little")
    return "digest not repaired" if rule.repair and is_frame and frame is None else ""


def _frame_at(data: bytearray, place: int) -> slice | None:
    """Returns the slice of the FPDU in `data`, CRC included, that holds the octet at index `place`.

    None if an FPDU up to there is not whole or its CRC is wrong, as with markers or without CRCs.
    """
    start = 0
    while start + 6 <= len(data):
        end = start + (int.from_bytes(data[start : start + 2]) + 5 & ~3) + 4
        digest = int.from_bytes(data[end - 4 : end], "little")
        if end > len(data) or crc32c(data[start : end - 4]) != digest:
            return None
        if place < end:
            return slice(start, end)
        start = end
    return None
