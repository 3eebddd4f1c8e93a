"""Mistakes in our server about the data and the messages of its replies, and the checks that must catch each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from rpcrdma.transport import introduction, responder
from rpcrdma.transport.message_credits import MessageWindow
from rpcrdma.verbs.protection_domain import Access
from rpcrdma.xdr.codec import BulkItem, Payload

__all__ = ["WRONG_REPLIES"]

PutIn = Callable[[pytest.MonkeyPatch], None]


def inline_as_well(take: Callable[[BulkItem], int]) -> Callable[[pytest.MonkeyPatch], None]:
    """Has so many octets of each placed item, or of its padding, inline as well."""

    def put_in(patch: pytest.MonkeyPatch) -> None:
        right = Payload.gather

        def gather(self: Payload, leave_out: Iterable[BulkItem] = ()) -> list[Any]:
            left_out = list(leave_out)
            return [*right(self, left_out), *(bytes(take(item)) for item in left_out)]

        patch.setattr(Payload, "gather", gather)

    return put_in


def reading_after_the_reply(patch: pytest.MonkeyPatch) -> None:
    right = responder.Responder.reply

    def reply(self: responder.Responder, incoming: Any, payload: Payload) -> bool:
        reads, own = incoming.chunks.reads, self._session
        done = right(self, incoming, payload)
        for chunk in reads:
            (handle, length, offset), *_ = chunk.segments
            sink = own.pd.register(memoryview(bytearray(length)), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
            own.qp.post_read(incoming, sink, 0, length, handle, offset)
        return done

    patch.setattr(responder.Responder, "reply", reply)


def credits_of_its_own(patch: pytest.MonkeyPatch) -> None:
    right = MessageWindow.on_arrival

    def on_arrival(self: MessageWindow, message: Any) -> bool:
        found = right(self, message)
        self.balance += 3
        return found

    patch.setattr(MessageWindow, "on_arrival", on_arrival)


def telling_less_than_it_sends(patch: pytest.MonkeyPatch) -> None:
    right = introduction.encode_properties
    patch.setattr(introduction, "encode_properties", lambda own, rows: right(own._replace(send_octets=1024), rows))


WRONG_REPLIES: Mapping[str, tuple[PutIn, tuple[str, ...]]] = {
    "has placed data inline as well": (
        inline_as_well(lambda item: len(item.data)),
        ("v1.read.5-into-8", "v2.read.5-into-5"),
    ),
    "leaves the padding of placed data inline": (
        inline_as_well(lambda item: -len(item.data) % 4),
        ("v1.read.5-into-8", "v2.read.5-into-5"),
    ),
    "reads chunks after the reply": (reading_after_the_reply, ("v1.write.withdrawn",)),
    "sends more messages than were granted": (credits_of_its_own, ("v2.credits.exhausted",)),
    "tells less than it sends": (telling_less_than_it_sends, ("v2.read.maximum-send-size",)),
}
"""The mistakes and the ids of checks, by name."""
