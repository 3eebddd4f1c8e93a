"""A service whose one procedure must not run twice: each call takes the next ticket for a token of its own."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import CallContext, Service, in_worker
from rpcrdma.xdr.codec import Decoder, Encoder

NUMBER = 0x20BADBEE
DATA_OCTETS_MAX = 1 << 15

Order = tuple[int, int, bytes]
"""The client, its token, and data that the result returns reversed."""
Taken = tuple[int, bytes]
"""The ticket, and the reversed data."""


def encode_order(enc: Encoder, value: Order) -> None:
    enc.u32(value[0], "client")
    enc.u32(value[1], "token")
    enc.bulk(value[2], DATA_OCTETS_MAX, "data")


def decode_order(dec: Decoder) -> Order:
    return dec.u32("client"), dec.u32("token"), bytes(dec.bulk(DATA_OCTETS_MAX, "data"))


def encode_placed(enc: Encoder, value: Taken) -> None:
    enc.u32(value[0], "ticket")
    enc.bulk(value[1], DATA_OCTETS_MAX, "data")


def decode_placed(dec: Decoder) -> Taken:
    return dec.u32("ticket"), bytes(dec.bulk(DATA_OCTETS_MAX, "data"))


def encode_long(enc: Encoder, value: Taken) -> None:
    enc.u32(value[0], "ticket")
    enc.opaque(value[1], DATA_OCTETS_MAX, "data")


def decode_long(dec: Decoder) -> Taken:
    return dec.u32("ticket"), bytes(dec.opaque(DATA_OCTETS_MAX, "data"))


def placed_bound(args: Order) -> ReplyBound:
    return ReplyBound(8, (len(args[2]),))


def long_bound(args: Order) -> ReplyBound:
    return ReplyBound(8 + len(args[2]) + 4)


def procedure(number: int, method: str, result: Any) -> Procedure[Order, Taken]:
    return Procedure(NUMBER, 1, number, f"TICKET_{method.upper()}", method, encode_order, decode_order, *result)


PLACED = procedure(1, "placed", (encode_placed, decode_placed, placed_bound))
"""The data is returned in a Write chunk if it does not fit inline."""
LONG = procedure(2, "long", (encode_long, decode_long, long_bound))
"""The data is returned in a Reply chunk if it does not fit inline."""
LATER = procedure(3, "later", (encode_placed, decode_placed, placed_bound))
"""`PLACED`, in a worker thread of the server."""
PROGRAM = Program(NUMBER, 1, "TICKET_V1", {each.number: each for each in (PLACED, LONG, LATER)})


class Tickets(Service):
    """Counts the runs of each call: one octet for each token."""

    PROGRAM = PROGRAM

    def __init__(self) -> None:
        self.runs: dict[int, bytearray] = {}
        """For each client, how often each of its tokens came."""
        self.taken = 0
        self._lock = threading.Lock()

    def _take(self, client: int, token: int) -> int:
        with self._lock:
            runs = self.runs.setdefault(client, bytearray())
            if token >= len(runs):
                runs.extend(bytes(token + 1 - len(runs)))
            runs[token] = min(runs[token] + 1, 255)
            self.taken += 1
            return self.taken

    def placed(self, args: Order, context: CallContext) -> tuple[int, memoryview]:
        data = context.buffer(len(args[2]))
        data[:] = args[2][::-1]
        return self._take(args[0], args[1]), data

    @in_worker
    def later(self, args: Order, context: CallContext) -> tuple[int, bytes]:
        return self._take(args[0], args[1]), args[2][::-1]

    def long(self, args: Order, context: CallContext) -> Taken:
        return self._take(args[0], args[1]), args[2][::-1]

    def summary(self) -> dict[str, Any]:
        """Tokens that came once and more than once, by client."""
        return {
            "taken": self.taken,
            "once": {client: runs.count(1) for client, runs in self.runs.items()},
            "tokens": {client: len(runs) for client, runs in self.runs.items()},
            "runs": dict(sum((Counter(runs) for runs in self.runs.values()), Counter())),
        }
