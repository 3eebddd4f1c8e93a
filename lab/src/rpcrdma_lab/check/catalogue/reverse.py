"""Checks of the reverse direction (RFC 8167, and section 4.5 of version 2's draft -01).

Replies to no call and messages without a direction can be sent to any server. The other checks need a server that calls
its client: servers of NFSv4.1 recall a delegation, as `back_channel` describes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rpcrdma_lab.check.answers import accepted, afterwards, hear, say
from rpcrdma_lab.check.catalogue.back_channel import ONE_HOLDER, RELEASE, TWO_HOLDERS, CallTrigger
from rpcrdma_lab.check.catalogue.version_2 import V2
from rpcrdma_lab.check.entry import Check, Conversation, Step, check

__all__ = ["CHECKS", "PROPERTIES", "release", "trial"]

_XID = {"given": "xid"}
_CALLED = {"given": "call.xid"}
PROPERTIES: Sequence[Any] = ([2, {"words": [4096]}], [5, {"words": [1]}])
"""The properties that the checks announce; property 5 is support of reverse calls without chunks."""
_OF_NFS = "NF-14"
"""The statement of RFC 8267 that each check of a back channel in version 1 tests."""
_REFUSED: dict[str, Any] = {"message": {"header": {"type": 4}}}
_QUIET: Step = {"quiet": {"milliseconds": 100}}
_RECALLS_COME: Step = {"quiet": {"milliseconds": 300}}
"""Waits for the second of two recalls, which independent tasks of the server send."""


class _First:
    """Makes the messages, patterns and checks of the reverse direction in protocol version 1."""

    version = "1"

    def accepted(self, plus: int = 0) -> dict[str, Any]:
        return accepted(plus=plus)

    def afterwards(self, plus: int = 1) -> list[Step]:
        return afterwards(plus)

    def call(self) -> dict[str, Any]:
        return {"version": 1, "type": 0, "credit": {"min": 1}, "reads": [], "writes": [], "reply": None}

    def reply(self, **fields: Any) -> dict[str, Any]:
        return dict(fields)

    def check(self, name: str, title: str, statements: str, *steps: Step, **conversation: Any) -> Check:
        return check(f"v1.{name}", title, statements, *steps, **conversation)


class _Second:
    """Makes the messages, patterns and checks of the reverse direction in protocol version 2."""

    version = "2"

    def accepted(self, plus: int = 0) -> dict[str, Any]:
        return V2.accepted(plus)

    def afterwards(self, plus: int = 1) -> list[Step]:
        return V2.afterwards(plus)

    def call(self) -> dict[str, Any]:
        return {"version": 2, "type": 0, "flags": 0, "reads": [], "writes": [], "reply": None}

    def reply(self, **fields: Any) -> dict[str, Any]:
        return {"flags": 1, **fields}

    def check(self, name: str, title: str, statements: str, *steps: Step, **conversation: Any) -> Check:
        return V2.first(name, title, statements, V2.told(*PROPERTIES), V2.introduction[1], *steps, **conversation)


_Speaker = _First | _Second


def _called(speaker: _Speaker, trigger: CallTrigger, **fields: Any) -> dict[str, Any]:
    """Returns the pattern of a reverse call in the version of `speaker`; later steps refer to the call as "call".

    `trigger.parts` are the named parts of the call's arguments; `fields` are further fields of the pattern.
    """
    rpc = {"direction": 0, "rpc_version": 2, "same_xid": 1}
    message = {"header": speaker.call(), "rpc": rpc, "invalidates": None, **fields}
    return {"message": message, "as": "call", "parts": list(trigger.parts)}


def _made_to_call(speaker: _Speaker, trigger: CallTrigger, **fields: Any) -> list[Step]:
    """Returns the steps of `trigger` that make the server call its client, and steps that expect this reverse call.

    The reply to the last step of `trigger` may arrive before or after the reverse call. `speaker` makes the patterns of
    its protocol version, and `fields` are further fields of the reverse call's pattern.
    """
    either = hear(_called(speaker, trigger, **fields), trigger.answer)
    return [*trigger.steps, either, either]


def _reply(speaker: _Speaker, trigger: CallTrigger, *, rpc: Mapping[str, Any] | None = None, **message: Any) -> Step:
    """Returns a step that replies to the reverse call, with the results of `trigger`, in the version of `speaker`.

    `rpc` replaces fields of the RPC reply, and "header" of `message` fields of the transport header. Others of
    `message` are further fields of the message.
    """
    header = speaker.reply(**{"xid": _CALLED, **message.pop("header", {})})
    return say(header=header, rpc={"xid": _CALLED, "accepted": 0, "results": trigger.results, **(rpc or {})}, **message)


def _going_on_or(speaker: _Speaker, plus: int, *others: dict[str, Any]) -> list[Step]:
    """Returns steps that make a NULL call, in the version of `speaker`, and expect its reply or a match of `others`.

    `plus` is added to the XID of the check's first call; `others` are patterns.
    """
    call, answer = speaker.afterwards(plus)
    return [call, hear(*answer["hear"], *others)]


def _of_back_channel(
    speaker: _Speaker, name: str, title: str, statements: str, *steps: Step, **conversation: Any
) -> Check:
    of_nfs = f" {_OF_NFS}" if speaker.version == "1" else ""
    named = f"back-channel.{name}", f"{title} (NFSv4.1)", f"{statements}{of_nfs}"
    return speaker.check(*named, *steps, needs="recall write", **conversation)


def _to_a_caller(speaker: _Speaker, trigger: CallTrigger) -> list[Check]:
    """Returns the checks of a server that makes reverse calls, which `trigger` causes, in the version of `speaker`."""
    going_on = speaker.afterwards(16)
    begin = _made_to_call(speaker, trigger)
    repeated = {**_called(speaker, trigger), "last": True}

    def reply(**fields: Any) -> Step:
        return _reply(speaker, trigger, **fields)

    def made(name: str, title: str, statements: str, *steps: Step) -> Check:
        return _of_back_channel(speaker, name, title, statements, *begin, *steps, *trigger.ending)

    def refused(name: str, title: str, statements: str, *wrong: Step) -> Check:
        # Until it has the delegation back, a server may repeat a recall whose reply was wrong.
        steps = ({**step, "hear": [*step["hear"], repeated]} if "hear" in step else step
                 for step in (*going_on, *trigger.ending))  # fmt: skip
        return _of_back_channel(speaker, name, title, statements, *begin, *wrong, *steps)

    def perhaps_refused(name: str, title: str, statements: str, wrong: Step, refusal: dict[str, Any]) -> Check:
        # A server with several threads may refuse the wrong reply after it has answered later calls.
        going_on_or_refused = _going_on_or(speaker, 16, refusal, repeated)
        return _of_back_channel(
            speaker, f"reply.{name}", title, statements, *begin, wrong, answered, *going_on_or_refused
        )

    def discarded(name: str, title: str, statements: str, *wrong: Step) -> Check:
        return refused(f"reply.{name}", title, statements, *wrong, answered)

    first, second = speaker.version == "1", speaker.version == "2"
    none = {"credit": 0} if speaker.version == "1" else {"give": 0}
    other = {**_CALLED, "plus": 1}
    answered = reply()
    # Calls as long as the session's back channel permits are Short messages.
    header_statements = "BD-5 BD-4 BD-12 BD-20 NF-15" if first else "V2-A6 V2-76"
    checks = [
        _of_back_channel(speaker, "call", "A reverse call has a right header", header_statements,
                         *_made_to_call(speaker, trigger, octets={"max": 4096}), answered, *going_on, *trigger.ending),
        made("same-xid", "A call with the XID of the reverse call is answered", "BD-1 BD-21",
             say(header={"xid": _CALLED}, rpc={"xid": _CALLED}),
             hear({"message": {"header": {"xid": _CALLED}, "rpc": {"direction": 1, "accepted": 0}}}), answered,
             *going_on),
        discarded("other-xid", "A reply with another XID is discarded", "BD-7",
                  reply(header={"xid": other}, rpc={"xid": other})),
        discarded("other-xid-within", "A reply whose RPC header has another XID is discarded", "BD-7",
                  reply(rpc={"xid": other})),
        discarded("twice", "A second reply is discarded", "BD-7", answered),
        made("reply.no-credits", "A reply that grants nothing leaves the connection as it is", "BD-12 BD-2",
             reply(header=none), *going_on),
    ]  # fmt: skip
    cut = "cut", "A reply that ends within its header is discarded", "BD-14 BD-3"
    if not first:
        checks.append(discarded(*cut, reply(cut=24)))
    else:
        short = {**_REFUSED, "reading": "short-message-refused"}
        checks += [
            perhaps_refused(*cut, reply(cut=24), short),
            perhaps_refused("other-version", "A reply of version 9 is discarded, or its version refused", "BD-6 V1-59",
                            reply(header={"version": 9}), _REFUSED),
            refused("error", "ERR_CHUNK ends the reverse call alone", "BD-9 BD-3",
                    say(header={"xid": _CALLED, "type": 4, "error": 2, "credit": 0})),
        ]  # fmt: skip
    if second:
        checks.append(
            perhaps_refused("without-response", "A reply without RESPONSE is discarded or refused", "V2-38",
                            reply(header={"flags": 0}), _REFUSED)
        )  # fmt: skip
    return checks


def _one_call_at_a_time(trigger: CallTrigger) -> Check:
    """Returns a check that of two reverse calls, which `trigger` causes, the second waits for the first reply."""
    speaker = _First()
    steps = [*_made_to_call(speaker, trigger), _RECALLS_COME, _reply(speaker, trigger, header={"credit": 1}),
             hear(_called(speaker, trigger)), _reply(speaker, trigger), *afterwards(16), *trigger.ending]  # fmt: skip
    title = "No second reverse call comes before the first reply"
    return _of_back_channel(speaker, "one-credit", title, "BD-18 V1-8", *steps)


def trial(version: str) -> Conversation:
    """Returns a conversation that succeeds if a server recalls delegations on their holder's connection.

    The form of the reverse call is not judged. `version` is the protocol version, "1" or "2".
    """
    speaker = _First() if version == "1" else _Second()
    called = {"message": {"rpc": {"direction": 0}}, "as": "call", "parts": ONE_HOLDER.parts}
    either = hear(called, ONE_HOLDER.answer)
    steps = [*ONE_HOLDER.steps, either, either, _reply(speaker, ONE_HOLDER), *ONE_HOLDER.ending]
    return _with_back_channel(version, steps)


def release(version: str) -> Conversation:
    """Returns a conversation by which a server drops the state of the clients of earlier conversations.

    Each of these clients creates a session as after a restart, and destroys it. `version` is the protocol version, "1"
    or "2".
    """
    return _with_back_channel(version, RELEASE)


def _with_back_channel(version: str, steps: Sequence[Step]) -> Conversation:
    if version == "1":
        return {"steps": steps}
    return {"version": version, "steps": [V2.told(*PROPERTIES), V2.introduction[1], *steps]}


def _to_anyone(speaker: _Speaker) -> list[Check]:
    """Returns the checks with reverse-direction messages that no server expects, in the version of `speaker`."""
    reply = {"header": speaker.reply(), "rpc": {"accepted": 0}}
    statements = "BD-7 BD-11" if speaker.version == "1" else "V2-A6"
    none = {"credit": 0} if speaker.version == "1" else {"give": 0}
    alone = {"body": {"words": [_XID]}}
    return [
        speaker.check("reverse.reply.to-no-call", "A reply to no call is discarded", statements,
                      say(**reply), *speaker.afterwards()),
        speaker.check("reverse.reply.grants-nothing", "A reply to no call that grants nothing is discarded",
                      "BD-3 BD-2",
                      say(**{**reply, "header": speaker.reply(**none)}), *speaker.afterwards()),
        speaker.check("reverse.undirected", "A message that is neither call nor reply is discarded or refused", "BD-3",
                      say(header={}, rpc={"direction": 2}), *_going_on_or(speaker, 1, _REFUSED)),
        speaker.check("reverse.xid-alone", "A message that ends behind its second XID is discarded or refused",
                      "BD-14 BD-3", say(header={}, **alone), *_going_on_or(speaker, 1, _REFUSED)),
    ]  # fmt: skip


def _uninvited() -> Check:
    steps = [say(rpc={}), hear(accepted()), _QUIET, *afterwards()]
    return check("v1.reverse.uninvited", "Without a cause no reverse call comes", "BD-11 BD-22", *steps)


_SPEAKERS: tuple[_Speaker, ...] = (_First(), _Second())

CHECKS: tuple[Check, ...] = (
    _uninvited(),
    *(each for speaker in _SPEAKERS for each in _to_anyone(speaker)),
    _one_call_at_a_time(TWO_HOLDERS),
    *(each for speaker in _SPEAKERS for each in _to_a_caller(speaker, ONE_HOLDER)),
)
"""Checks of the reverse direction, of servers."""
