"""Holds a scripted conversation with a client that has connected: the other side of `run_conversation`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rpcrdma.errors import LocalProtocolError
from rpcrdma.scripted.conversation import Failure, LiveConversation, Outcome
from rpcrdma.scripted.layouts import LAYOUTS
from rpcrdma.scripted.peer import RawPeer
from rpcrdma.scripted.values import Names

__all__ = ["answer_conversation"]

_CRC_ENHANCED = 0x50
_PRIVATE_DATA = bytes.fromhex("f6ab0e18 01 01 03 03")
_REPLY = {"key": {"text": "MPA ID Rep Frame"}}


async def answer_conversation(
    conversation: Mapping[str, Any],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    timeout_s: float,
    given: Mapping[str, int | bytes] | None = None,
) -> Outcome:
    """The conversation with one client, whose end is not awaited; step -1 is its start-up.

    "startup" has the fields of the MPA Reply that differ. {"heard": "header.xid"} is the XID of the call that was heard
    last, which replies have to name.

    Raises:
        LocalProtocolError: the conversation is not one; the message names the field.
    """
    version = conversation.get("version", "1")
    if version not in LAYOUTS:
        raise LocalProtocolError(f"version {version!r} is none of {', '.join(LAYOUTS)}")
    names = Names({"private_data": _PRIVATE_DATA, "startup_flags": _CRC_ENHANCED, "xid": 0, **(given or {})})
    outcome = Outcome()
    peer = RawPeer(reader, writer, version, outcome.passages, names)
    live = LiveConversation(peer, names, timeout_s, outcome, initiates=False)
    live.register(conversation.get("memory", {}))
    begin = [{"hear": {"startup": {"key": {"text": "MPA ID Req Frame"}}}}]
    begin.append({"say": {"startup": {**_REPLY, **conversation.get("startup", {})}}})
    if await live.run(begin):
        await live.run(conversation["steps"])
    elif outcome.failure is not None:
        outcome.failure = Failure(-1, outcome.failure.expected, outcome.failure.found, outcome.failure.silent)
    await live.close()
    return outcome
