"""A server of NFSv4.1 made of octets, which recalls delegations over its back channel, right or wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fake_servers import Frame, null_reply

from rpcrdma_lab.scripted import make_message, read_message
from rpcrdma_lab.scripted.values import Names

__all__ = ["Recalling", "closed", "ignored"]

_HEADER = 12
"""Octets before the first operation of a COMPOUND: tag, minor version and number of operations."""
_JUKEBOX = 10008

Answer = Callable[[Frame], "Sequence[bytes] | None"]


def ignored(_frame: Frame) -> Sequence[bytes]:
    """A message that is no right reply has no answer."""
    return []


def closed(_frame: Frame) -> None:
    """It ends the connection."""


class Recalling:
    """Gives a delegation for each OPEN, and recalls all of them after a WRITE of NFSv3, one after the other.

    `otherwise` is for messages that are neither a call nor the right reply to a recall. `within` is the XID of the RPC
    headers of recalls, if that is another one. `at_once`: recalls do not wait for replies. `takes_calls`: a call with
    the XID of a recall counts as its reply. Without `delegates` no delegation is given, without `recalls` none is
    recalled. `holders` are the sessions with a delegation, which the first client's EXCHANGE_ID ends.
    """

    def __init__(
        self,
        otherwise: Answer = ignored,
        *,
        within: int | None = None,
        at_once: bool = False,
        takes_calls: bool = False,
        delegates: bool = True,
        recalls: bool = True,
    ) -> None:
        self._otherwise = otherwise
        self._within = {} if within is None else {"xid": within}
        self._at_once = at_once
        self._takes_calls = takes_calls
        self._delegates = delegates
        self._makes_recalls = recalls
        self.holders: list[bytes] = []
        self._waiting: list[bytes] = []
        self._recalled: dict[int, bytes] = {}
        """The session of each recall without a reply, by XID."""

    def __call__(self, frame: Frame, _received: int) -> Sequence[bytes] | None:
        """The answer to a frame."""
        found = read_message("1", frame.payload)
        rpc = found.get("rpc", {})
        if frame.segment[0] & 0x80:
            return []
        if found["header"].get("type") != 0 or "broken" in found or rpc.get("direction") != 0:
            return self._replied(frame, found["header"], rpc)
        if self._takes_calls and rpc["xid"] in self._recalled:
            return self._next_recall(rpc["xid"])
        match rpc["version"], rpc["procedure"]:
            case 4, 1:
                return [self._made({"header": {"xid": frame.xid}, "rpc": self._compound(rpc["args"])})]
            case 3, 7:
                write = {"accepted": 0, "results": {"words": [_JUKEBOX, 0, 0]}}
                return [self._made({"header": {"xid": frame.xid}, "rpc": write}), *self.recall(frame.xid)]
        return [null_reply(frame.xid)]

    def recall(self, last_xid: int) -> list[bytes]:
        """The first of recalls of all delegations, whose XID is made of `last_xid`, or all if they do not wait."""
        self._waiting = list(self.holders) if self._makes_recalls else []
        return self._recalls(last_xid)

    def _compound(self, args: bytes) -> dict[str, Any]:
        operation = int.from_bytes(args[_HEADER : _HEADER + 4])
        first = args[_HEADER + 4 :]
        results: list[Any] = [{"words": [0, 0, 1, operation, 0]}]
        if operation == 42:
            # The verifier is a client's id, in addition to the last digit of its owner.
            owner_octets = int.from_bytes(first[8:12])
            number = int(first[12 : 12 + owner_octets][-1:])
            if number == 0:
                self.holders.clear()
            results += [{"longs": [number << 32 | int.from_bytes(first[:8])]}, {"words": [1, 0, 0, 0]}]
        elif operation == 43:
            results += [first[:8].hex() * 2, {"words": [1, 2]}]
        elif operation == 53 and args[48:52] == bytes.fromhex("0000003a"):
            session = first[:16]
            self.holders.append(session)
            results = [{"words": [0, 0, 5, 53, 0]}, session.hex(), {"zeros": 20}, {"words": [58, 0, 22, 0, 18, 0]}]
            delegation = [{"words": [1]}, session.hex()] if self._delegates else [{"words": [3, 1]}]
            results += [{"zeros": 40}, {"words": [2, 0, 0]}, *delegation, {"zeros": 40}]
        return {"accepted": 0, "results": results}

    def _replied(self, frame: Frame, header: dict[str, Any], rpc: dict[str, Any]) -> Sequence[bytes] | None:
        session = self._recalled.get(frame.xid, b"")
        results = self._octets({"words": [0]}, {"opaque": {"text": "recall"}}, {"words": [2, 11, 0]}, session.hex(),
                               {"words": [1, 0, 0, 0, 4, 0]})  # fmt: skip
        right = {"type": 0, "version": 1}.items() <= header.items() and header["credit"] > 0
        if right and session and rpc.get("xid") == frame.xid and rpc.get("results") == results:
            return self._next_recall(frame.xid)
        return self._otherwise(frame)

    def _next_recall(self, xid: int) -> Sequence[bytes]:
        del self._recalled[xid]
        return self._recalls(xid)

    def _recalls(self, last_xid: int) -> list[bytes]:
        made = []
        while self._waiting and (self._at_once or not made):
            session = self._waiting.pop(0)
            xid = 0x5EED + last_xid + len(made)
            args = [{"opaque": {"text": "recall"}}, {"words": [1, 0, 2, 11]}, session.hex(), {"words": [1, 0, 0, 0, 0]},
                    {"words": [4]}, session.hex(), {"words": [0, 0]}]  # fmt: skip
            rpc = {"program": 0x4000_0041, "version": 1, "procedure": 1, "args": args, **self._within}
            made.append(self._made({"header": {"xid": xid}, "rpc": rpc}))
            self._recalled[xid] = session
        return made

    def _octets(self, *parts: Any) -> bytes:
        return make_message("1", {"header": None, "body": list(parts)}, Names())

    def _made(self, message: dict[str, Any]) -> bytes:
        return make_message("1", message, Names())
