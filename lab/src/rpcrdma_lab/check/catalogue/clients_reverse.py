"""Checks of clients by reverse calls of the server (RFC 8167, and section 4.5 of version 2's draft -01).

A client of version 1 does not announce whether it accepts such calls: it answers each of them, or discards it. Clients
of version 2 announce it by property 5. Either way the client's own calls continue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from rpcrdma_lab.check.answers import hear, say
from rpcrdma_lab.check.catalogue.clients import CALLS
from rpcrdma_lab.check.catalogue.clients_version_2 import Version2Client
from rpcrdma_lab.check.catalogue.version_2 import CODES
from rpcrdma_lab.check.entry import Check, Step, check

__all__ = ["CLIENT_CHECKS"]

_XID = {"given": "call.xid"}
_REVERSE_XID = {**_XID, "plus": 1000}
_CALL = {"program": 0x40000000, "version": 1}
"""The NULL procedure of the program by which NFSv4 servers call their clients."""
_CALL_OCTETS = 40
_CALLS_MAX = 8
"""The most calls that a client of version 2 may make before its reply."""
_SILENCE = {"quiet": {"milliseconds": {"given": "pause_ms"}}}
_ENDED = {"end": {}, "reading": "ended-after-reverse-call", "last": True}
_SOURCE = {"source": {"octets": 64, "may": "read"}}
_SINK = {"sink": {"octets": 64, "may": "write"}}
_SEGMENT = {"memory": "sink"}
_ENTRY = {"memory": "source", "position": _CALL_OCTETS}
_SUPPORT, _NO_SUPPORT = "the client takes reverse calls", "the client takes no reverse calls"
_GRANTED_MAX = 64
_MANY_GRANTED = f"the client grants more than {_GRANTED_MAX} reverse calls"


class _Client(ABC):
    """Makes patterns, steps and checks for reverse calls (RFC 8167) to clients of one protocol version.

    `calls` are patterns of the client's calls, `refusals` the error codes by which it may refuse chunks, and `replying`
    the header fields of its replies to reverse calls. The attribute `others` has patterns of calls whose XID differs
    from that of the call named "call".

    Shared by the methods:
        name: the check's identifier after "client.reverse." or "client.v2.reverse.".
        title: the expected behaviour as text.
        statements: the identifiers of the tested statements, separated by spaces; a wrong answer breaks the first.
    """

    def __init__(self, calls: Sequence[Mapping[str, Any]], refusals: Sequence[int], **replying: Any) -> None:
        self.calls = calls
        self.refusals = refusals
        self._replying = replying
        others = [{**each["message"]["header"], "xid": {"not": _XID}} for each in calls]
        self.others = [
            {"message": {**each["message"], "header": other}} for each, other in zip(calls, others, strict=True)
        ]

    @property
    def any(self) -> Step:
        """The step that waits for a call of the client, which stays unanswered; later steps refer to it as "call"."""
        return {"serve": {"each": [{**each, "as": "call"} for each in self.calls]}}

    def called(self, xid: Any = _REVERSE_XID, **message: Any) -> Step:
        """Returns a step that sends a reverse call; `xid`, its XID, is a number or {"given": NAME, "plus": NUMBER}.

        By default the XID is that of the call named "call", plus 1000. "header" and "rpc" of `message` replace fields
        of the usual headers; "body", octets, replaces the whole RPC message.
        """
        header = {"xid": xid, **message.pop("header", {})}
        if "body" not in message:
            message["rpc"] = {**_CALL, "xid": xid, **message.get("rpc", {})}
        return say(header=header, **message)

    def reply(self, *xids: Any) -> dict[str, Any]:
        """Returns the pattern of a reply to a reverse call with one of `xids`.

        Without arguments the XID is that of the call named "call", plus 1000, as `called` has it by default.
        """
        header = {"xid": {"any": list(xids or (_REVERSE_XID,))}, **self._replying}
        return {"message": {"header": header, "rpc": {"direction": 1, "same_xid": 1}, "invalidates": None}}

    def refused(self, *codes: int) -> dict[str, Any]:
        """Returns the pattern of an RDMA_ERROR with one of the error codes `codes`, by which a client refuses a call.

        The call is a reverse call of the step `called`, with the default XID of that step.
        """
        header = {"xid": _REVERSE_XID, "type": 4, "error": {"any": list(codes)}}
        return {"message": {"header": header, "invalidates": None}}

    @abstractmethod
    def answered(self, *answers: Mapping[str, Any], times: int = 1) -> list[Step]:
        """Returns steps that expect the answers to `times` reverse calls sent before, and a further call of the client.

        Each answer must match one of the patterns `answers`. After all answers the steps answer the client's first
        call. In version 1 they also permit silence, or the end of the connection, in place of an answer.
        """

    @abstractmethod
    def passed_over(self, *answers: Mapping[str, Any]) -> list[Step]:
        """Returns steps that expect silence or a match of `answers`, answer the client's last call, and await another.

        The connection may end instead. In version 2 a further call may stand for the silence, and is answered then.
        """

    @abstractmethod
    def check(self, name: str, title: str, statements: str, *steps: Step, **conversation: Any) -> Check:
        """Returns a check whose `steps` follow a call of the client."""

    def after(self, *answers: Mapping[str, Any]) -> Step:
        """Returns the step that expects a call of `others`, the connection's end, or a late match of `answers`."""
        return hear(*answers, *self.others, {**_ENDED, "last": False})

    def with_chunks(self, name: str, what: str, statements: str, memory: Mapping[str, Any], **header: Any) -> Check:
        """Returns a check of a reverse call with a chunk for which its procedure has no data.

        `what` describes the chunk in the title, `memory` has the memory regions by name (docs/send.md), and `header`
        the header fields with the chunk.
        """
        title = f"A reverse call with {what} is refused or answered"
        answers = self.answered(self.refused(*self.refusals), self.reply())
        return self.check(name, title, statements, self.called(header=header), *answers, memory=memory)


class _First(_Client):
    """Makes the checks of reverse calls to clients of version 1.

    Until the server's first reply such a client makes one call only: its second call shows that it took this reply.
    """

    def __init__(self) -> None:
        super().__init__(CALLS, [2], version=1, credit={"min": 1})

    def answered(self, *answers: Mapping[str, Any], times: int = 1) -> list[Step]:
        return [*([hear(*answers, _SILENCE, _ENDED)] * (times - 1)), *self.passed_over(*answers)]

    def passed_over(self, *answers: Mapping[str, Any]) -> list[Step]:
        return [hear(*answers, _SILENCE, _ENDED), {"answer": {}}, self.after(*answers)]

    def check(self, name: str, title: str, statements: str, *steps: Step, **conversation: Any) -> Check:
        return check(f"client.reverse.{name}", title, statements, self.any, *steps, **conversation)


class _Second(_Client):
    """Makes the checks of reverse calls to clients of version 2, which may make further calls in the meantime."""

    def __init__(self) -> None:
        self.client = Version2Client()
        names = ("READ_CHUNKS", "WRITE_CHUNKS", "SEGMENTS", "WRITE_RESOURCE", "REPLY_RESOURCE")
        super().__init__(self.client.calls, [CODES[name] for name in names], version=2, flags=1)

    def answered(self, *answers: Mapping[str, Any], times: int = 1) -> list[Step]:
        until = {"header": {"flags": 1}}
        serve = {"serve": {"each": [*answers, *self.calls], "until": until, "most": _CALLS_MAX}}
        return [*[serve] * times, {"answer": {"to": "call"}}, hear(*self.others)]

    def passed_over(self, *answers: Mapping[str, Any]) -> list[Step]:
        return [hear(*answers, _SILENCE, _ENDED, *self.others), {"answer": {}}, self.after(*answers)]

    def check(
        self, name: str, title: str, statements: str, *steps: Step, support: bool = True, **conversation: Any
    ) -> Check:
        """Returns a check of clients that announce support of reverse calls or, if `support` is False, no support.

        The `steps` follow a call of the client.
        """
        client = self.client
        told = client.properties["message"]
        without = {"words": [0]}  # Without the property the level is 1.
        lacking = {"5": without if support else {"not": without}}
        unmet = {"message": {**told, "header": {**told["header"], "properties": lacking}}}
        properties = hear({**unmet, "unmet": _NO_SUPPORT if support else _SUPPORT}, client.properties)
        # A client whose first message gets no answer may take the server for one without version 2.
        # With more credits it might have made before the reverse call what counts as a call after it.
        steps = (client.told(xid=1, **client.one_call), properties, self.any, *steps)
        return client.whole(f"reverse.{name}", title, statements, *steps, **conversation)


def _of_all_versions(client: _Client, call: str, xid: str, undirected: str, chunks: str) -> list[Check]:
    """Returns the checks of reverse calls that both protocol versions have, for the version of `client`.

    `call`, `xid`, `undirected` and `chunks` are identifiers of the tested statements on calls, on equal XIDs, on
    messages without a direction, and on chunks.
    """
    called, reply = client.called, client.reply
    three = [{**_XID, "plus": 1000 + index} for index in range(3)]
    return [
        client.check("call", "A reverse call gets a right reply, and calls go on", call,
                     called(), *client.answered(reply())),
        client.check("same-xid", "A reverse call with the XID of the client's call is no reply to that call", xid,
                     called(_XID), *client.answered(reply(_XID))),
        client.check("three-at-once", "Reverse calls beyond the credits leave the client's calls as they are",
                     f"BD-18 {call}", *map(called, three), *client.answered(reply(*three), times=3)),
        client.check("undirected", "A message that is neither call nor reply is discarded or refused", undirected,
                     called(rpc={"direction": 2}), *client.passed_over(client.refused(2))),
        client.check("xid-alone", "A message that ends behind its second XID is discarded or refused", undirected,
                     called(body={"words": [_REVERSE_XID]}), *client.passed_over(client.refused(2))),
        client.with_chunks("read-chunk", "a Read chunk", chunks, _SOURCE, reads=[_ENTRY]),
        client.with_chunks("write-chunk", "a Write chunk", chunks, _SINK, writes=[[_SEGMENT]]),
        client.with_chunks("reply-chunk", "a Reply chunk", chunks, _SINK, reply=[_SEGMENT]),
    ]  # fmt: skip


def _as_many_as_granted(client: _First) -> Check:
    """Returns a check that a client answers as many reverse calls at once as its reply to a first one grants.

    The client's own call is answered after the reverse calls are sent. Clients that do not reply to the first one, or
    grant more than 64, are not judged. `client` makes the steps.
    """

    def granting(**credit: int) -> dict[str, Any]:
        message = client.reply()["message"]
        return {"message": {**message, "header": {**message["header"], "credit": credit}}}

    granted, numbered = {"heard": "header.credit"}, {"min": 5000, "max": 5000 + _GRANTED_MAX}
    patterns = [client.reply(numbered), *CALLS]
    reply = {"serve": {"each": patterns, "until": {"rpc": {"direction": 1}}, "most": _CALLS_MAX}}
    return client.check(
        "as-many-as-granted",
        "As many reverse calls as the client grants are answered beside the reply to its own call",
        "BD-15",
        client.called(),
        hear(
            granting(min=1, max=_GRANTED_MAX),
            {**granting(min=_GRANTED_MAX), "unmet": _MANY_GRANTED},
            {**_SILENCE, "unmet": _NO_SUPPORT},
            {"end": {}, "unmet": _NO_SUPPORT},
        ),
        {"repeat": {"times": granted, "steps": [client.called({"given": "index", "plus": 5000})]}},
        {"answer": {}},
        {"repeat": {"times": granted, "steps": [reply]}},
    )


def _of_version_1() -> list[Check]:
    client = _First()
    many = {"credit": 64}
    return [
        *_of_all_versions(client, "BD-7 BD-6 BD-12 BD-22", "BD-22 BD-1 BD-21", "BD-3 BD-14", "BD-9"),
        _as_many_as_granted(client),
        client.check("grants-nothing", "The credits that a reverse call asks for allow no call of the client",
                     "BD-2 V1-8", client.called(header=many), hear(client.reply(), _SILENCE, _ENDED),
                     *client.passed_over()),
        client.check("undirected.grants-nothing", "The credits of a message without a direction are ignored",
                     "BD-3 V1-8", client.called(header=many, rpc={"direction": 2}),
                     hear(client.refused(2), _SILENCE, _ENDED), *client.passed_over()),
        client.check("other-version", "A reverse call of version 9 is discarded, or its version refused", "BD-4 V1-59",
                     client.called(header={"version": 9}), *client.passed_over(client.refused(1))),
    ]  # fmt: skip


def _of_version_2() -> list[Check]:
    client = _Second()
    return [
        *_of_all_versions(client, "V2-A6 V2-76 V2-77", "V2-A6 BD-1", "V2-38", "V2-A8"),
        client.check("without-support", "A client without support of reverse calls goes on after one", "V2-A7 BD-22",
                     client.called(), *client.passed_over(client.refused(3, 4)), support=False),
        client.check("response", "A reverse call with RESPONSE is discarded", "V2-38",
                     client.called(header={"flags": 1}), *client.passed_over()),
    ]  # fmt: skip


CLIENT_CHECKS: tuple[Check, ...] = (*_of_version_1(), *_of_version_2())
"""The checks of reverse calls, in the order in which connections are used for them."""
