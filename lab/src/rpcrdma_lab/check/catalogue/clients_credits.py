"""Checks of how clients use the credits of version 2: one credit for each message (section 4.3.1).

Headers grant further credits. A message that only grants credits is no reply.
"""

from __future__ import annotations

from rpcrdma_lab.check.answers import hear, say
from rpcrdma_lab.check.catalogue.clients import serving_together
from rpcrdma_lab.check.catalogue.clients_version_2 import Version2Client
from rpcrdma_lab.check.catalogue.version_2 import CODES
from rpcrdma_lab.check.entry import Check, Step

__all__ = ["CLIENT_CHECKS"]

_QUIET: Step = {"quiet": {"milliseconds": {"given": "pause_ms"}}}
_LONG_PAUSE = {"milliseconds": {"given": "long_pause_ms"}}
"""The time to wait for the second of two simultaneous calls."""
_IN_PIECES = "the client's calls come in several messages"
_ONE_AT_A_TIME = "the client made no 2 calls at once"


_CLIENT = Version2Client()


def _grant(messages: int) -> Step:
    """Returns a step that sends a message that only grants credits, for `messages` further messages of the client."""
    return say(header={"xid": 0, "type": 1, "give": messages}, body="")


def _together(messages: int) -> Step:
    """Returns a step that waits until the client has `messages` calls, of one message each, outstanding.

    They stay unanswered. If fewer arrive, the step answers each, with a further credit. A client that makes a call in
    several messages is not judged.
    """
    inline, long, piece = _CLIENT.calls
    return serving_together([inline, long, {**piece, "unmet": _IN_PIECES}], messages, give=1)


def _answer_to(index: int, more: int) -> Step:
    """Returns a step that answers call `index` (from 0) of the last `_together` step, and adds `more` credits."""
    return {"answer": {"to": f"call.{index}", "header": {"give": more}}}


_ANOTHER = hear(*_CLIENT.other, {"quiet": _LONG_PAUSE, "unmet": _ONE_AT_A_TIME})
"""The step that expects another call; the check is not met by clients that make one call at a time."""
_FIRST_PIECE: Step = {"serve": {"each": _CLIENT.calls, "until": {"header": _CLIENT.continued}, "header": {"give": 1}}}
"""The step that answers calls until the first message of a continued call arrives."""


def _checks() -> list[Check]:
    client, reply, alone = _CLIENT, _CLIENT.reply, _CLIENT.alone
    return [
        alone("credits.grant", "A grant without a reply allows the next call", "V2-4 V2-47 V2-6", _QUIET,
              _grant(4), _ANOTHER),
        # A client may keep its last credit for a message that only grants.
        alone("credits.one-by-one", "With one credit no second call comes before a grant, with three no fourth one",
              "V2-4", reply(give=1), client.next, _QUIET, reply(give=3), _together(2),
              hear(*client.calls, _QUIET), _QUIET, _answer_to(0, 8), _together(2)),
        alone("credits.none", "After a reply without credits no call comes before a grant", "V2-4 V2-44",
              reply(give=0), _QUIET, _grant(2), client.next),
        alone("credits.largest", "The largest grants are taken", "V2-6", reply(give=0xFFFF),
              client.next, reply(give=0xFFFF), client.next),
        client.first("credits.in-pieces", "A continued call waits for credits between its messages", "V2-44 V2-4",
                     client.told(**client.one_call), _FIRST_PIECE, _QUIET, _grant(1),
                     hear({"message": {"header": {"version": 2, "xid": {"heard": "header.xid"}}}}),
                     needs="program"),
        alone("credits.of-an-error", "The credits of an error are ignored", "V2-49",
              say(header={"xid": {"heard": "header.xid"}, "type": 4, "error": CODES["SYSTEM"],
                          "flags": 1, "give": 9}), _QUIET, _grant(2), client.next),
    ]  # fmt: skip


CLIENT_CHECKS: tuple[Check, ...] = tuple(_checks())
"""The checks of version 2's credits, in the order in which connections are used for them."""
