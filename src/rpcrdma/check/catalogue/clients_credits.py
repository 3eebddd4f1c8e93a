"""Checks of the credits of version 2 before clients, in both drafts: one credit for each message (section 4.3.1).

The first draft's headers grant further credits, those of the last draft tell how many messages may have been sent since
the connection began. A message that only grants is no reply. {"given": "messages"} are the client's messages so far.
"""

from __future__ import annotations

from typing import Any

from rpcrdma.check.answers import hear, say
from rpcrdma.check.catalogue.clients import serving_together
from rpcrdma.check.catalogue.clients_version_2 import DraftClient
from rpcrdma.check.catalogue.version_2 import DRAFTS
from rpcrdma.check.entry import Check, Step

__all__ = ["CLIENT_CHECKS"]

_QUIET: Step = {"quiet": {"milliseconds": {"given": "pause_ms"}}}
_LONG_PAUSE = {"milliseconds": {"given": "long_pause_ms"}}
"""How long the second of two calls at once is awaited."""
_LARGEST = (1 << 31) - 2
_IN_PIECES = "the client's calls come in several messages"
_ONE_AT_A_TIME = "the client made no 2 calls at once"


class _Credits:
    """The grants of one draft."""

    def __init__(self, client: DraftClient) -> None:
        self.client = client
        self._first = client.first_draft

    def more(self, messages: int) -> dict[str, Any]:
        """The field of a header that allows so many messages beyond the messages of the client so far."""
        return {"give": messages} if self._first else {"credit": {"given": "messages", "plus": messages}}

    def grant(self, messages: int, xid: int = 0) -> Step:
        """A message that only grants credits."""
        kind = {"type": 1} if self._first else {"type": 5}
        return say(header={"xid": xid, **kind, **self.more(messages)}, body="")

    def together(self, messages: int) -> Step:
        """So many calls at once; each reply before grants one more message."""
        inline, long, piece = self.client.calls
        each = [inline, long, {**piece, "unmet": _IN_PIECES}]
        return serving_together(each, messages, **self.more(1 if self._first else messages + 1))

    def answer_to(self, index: int, more: int) -> Step:
        """The reply to one of the calls that have come at once."""
        return {"answer": {"to": f"call.{index}", "header": self.more(more)}}

    @property
    def another(self) -> Step:
        """Another call, from a client that makes two at once."""
        return hear(*self.client.other, {"quiet": _LONG_PAUSE, "unmet": _ONE_AT_A_TIME})

    @property
    def last_other(self) -> list[dict[str, Any]]:
        """Another call, with which the check is over."""
        return [{**each, "last": True} for each in self.client.other]

    def checks(self) -> list[Check]:
        """The checks of this draft."""
        client = self.client
        first, reply, alone = self._first, client.reply, client.alone
        most = {"give": 0xFFFF} if first else self.more(_LARGEST)
        checks = [
            alone("credits.grant", "A grant without a reply allows the next call", "V2-4 V2-47 V2-6", _QUIET,
                  self.grant(4), self.another),
            # A client may keep its last credit for a message that only grants.
            alone("credits.one-by-one", "With one credit no second call comes before a grant, with three no fourth one",
                  "V2-4", reply(**self.more(1)), client.next, _QUIET, reply(**self.more(3)), self.together(2),
                  hear(*client.calls, _QUIET), _QUIET, self.answer_to(0, 8), self.together(2)),
            alone("credits.none", "After a reply without credits no call comes before a grant", "V2-4 V2-44",
                  reply(**self.more(0)), _QUIET, self.grant(2), client.next),
            alone("credits.largest", "The largest grants are taken", "V2-6" if first else "V2-A15", reply(**most),
                  client.next, reply(**most), client.next),
            client.first("credits.in-pieces", "A continued call waits for credits between its messages", "V2-44 V2-4",
                         client.told(**client.one_call), self._first_piece, _QUIET, self.grant(1),
                         hear({"message": {"header": {"version": 2, "xid": {"heard": "header.xid"}}}}),
                         needs="program"),
        ]  # fmt: skip
        if first:
            checks.append(
                alone("credits.of-an-error", "The credits of an error are ignored", "V2-49",
                      say(header={"xid": {"heard": "header.xid"}, "type": 4, "error": client.draft.codes["SYSTEM"],
                                  "flags": 1, "give": 9}), _QUIET, self.grant(2), client.next)
            )  # fmt: skip
        else:
            checks.append(
                alone("credits.behind", "A grant of fewer messages than have been sent allows none", "V2-A15 V2-4",
                      reply(**self.more(-1)), _QUIET, self.grant(2), client.next)
            )  # fmt: skip
            checks.append(
                alone("credits.grant-with-xid", "The XID of a grant is ignored, and its credits count", "V2-A11 V2-4",
                      _QUIET, self.grant(4, xid=7), hear(*self.last_other, {"quiet": _LONG_PAUSE}), self.grant(4),
                      # A client that takes this grant alone has passed over the first one.
                      hear({"quiet": _LONG_PAUSE, "unmet": _ONE_AT_A_TIME}))
            )  # fmt: skip
        return checks

    @property
    def _first_piece(self) -> Step:
        """Answers calls one by one until one has begun that is continued."""
        client = self.client
        return {"serve": {"each": client.calls, "until": {"header": client.piece}, "header": self.more(1)}}


CLIENT_CHECKS: tuple[Check, ...] = tuple(each for draft in DRAFTS for each in _Credits(DraftClient(draft)).checks())
"""The checks in the order in which connections meet them."""
