"""Runs a scripted conversation with a client that has connected: the other side of `run_conversation`.

docs/send.md describes the steps "serve" and "answer", which only these conversations have.
"""

from __future__ import annotations

import itertools
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from rpcrdma.errors import LocalProtocolError, RemoteProtocolError
from rpcrdma_lab.limits import RAW_CALL_OCTETS_MAX, RAW_WAITING_MAX
from rpcrdma_lab.scripted.conversation import BOTH_PRIVATE, LeftCourse, LiveConversation, Outcome
from rpcrdma_lab.scripted.form import check_conversation
from rpcrdma_lab.scripted.layouts import LAYOUTS, is_call, is_continued
from rpcrdma_lab.scripted.matching import difference
from rpcrdma_lab.scripted.messages import read_rpc
from rpcrdma_lab.scripted.own_time import within
from rpcrdma_lab.scripted.peer_interface import Heard, Log, ScriptedPeer
from rpcrdma_lab.scripted.program_over_tcp import ProgramOverTcp
from rpcrdma_lab.scripted.served_call import (
    CONTINUE,
    REQUEST,
    PlannedReply,
    Segment,
    joined_call,
    placed_items,
    planned_reply,
    read_segments,
    segments_of_items,
)
from rpcrdma_lab.scripted.values import Names, number, octets

__all__ = ["PeerMaker", "ServingConversation"]

_INLINE_OCTETS = {"1": 1024, "2": 4096}
"""By protocol version, the inline threshold in octets of a client whose private data states none (RFC 8166, 3.3.2)."""
_GARBAGE_ARGS = 4
_NO_CALL = "the client made no call of this kind"
_NO_ANSWER = "the program behind gives no answer"
_TOO_LONG = f"the client's calls have more than {RAW_CALL_OCTETS_MAX} octets"
_ROUNDS = 8
"""Pauses in which further calls may come at once: a client that mounts begins with calls one by one."""

_Fields: TypeAlias = Mapping[str, Any]
PeerMaker: TypeAlias = Callable[[Log, Names], ScriptedPeer]
"""Makes the peer for a client's connection; arguments are the log of the peer and the names that steps refer to."""


class ServingConversation(LiveConversation):
    """The server's side of a scripted conversation: a client has connected, and scripted steps answer its calls.

    Args:
        make_peer: makes the peer that sends and receives on the connection.
        timeout_s: seconds for which a step waits for the client.
        program: a server over TCP that makes the RPC replies; None makes each reply a success without results.
        given: values that steps refer to as {"given": NAME}, by name.
    """

    def __init__(
        self,
        make_peer: PeerMaker,
        *,
        timeout_s: float,
        program: ProgramOverTcp | None = None,
        given: Mapping[str, int | bytes] | None = None,
    ) -> None:
        names = Names({"private_data": BOTH_PRIVATE, "xid": 0, **(given or {})})
        outcome = Outcome()
        peer = make_peer(outcome.passages, names)
        peer.takes_version = True
        super().__init__(peer, names, timeout_s, outcome, initiates=False)
        self._program = program
        self._waiting: deque[Heard] = deque()
        self._inline_octets: int | None = None
        self._call: Mapping[str, Any] = {}
        self._planned: tuple[Mapping[str, Any], PlannedReply] | None = None
        self._startup: Mapping[str, Any] = {}
        self._unmet = ""
        """The precondition that silence or an end shows to be unmet now; empty if it shows none."""

    async def start(self, fields: Mapping[str, Any]) -> None:
        """Waits for the client's start-up message, and accepts the connection with `fields` in the reply.

        If the first event within `timeout_s` is not a start-up message with the right key, nothing is sent, and
        `outcome.failure` is set with the step -1.

        Args:
            fields: values of the reply's fields, by name ("startup" in docs/send.md), in place of the usual ones.

        Raises:
            LocalProtocolError: a field is malformed.
        """
        if not await self.run([{"hear": {"startup": self._peer.request}}]):
            failure = self.outcome.failure
            assert failure is not None
            self.outcome.failure = replace(failure, step=-1)
            return
        request = self._names.heard
        data = request["data"]
        known = data[:5] == BOTH_PRIVATE[:5] and len(data) >= len(BOTH_PRIVATE)
        if known:
            self._inline_octets = (data[7] + 1) * 1024
        self._names.given["inline_octets"] = self._inline_octets or _INLINE_OCTETS["1"]
        self._startup = {**request, "invalidation": int(known and data[5] & 1)}
        await self._peer.accept(request, fields, "startup")

    async def spoken_version(self) -> str | None:
        """Waits for the client's first event after the start-up; returns the protocol version of its message.

        Returns "2" for version 2, "1" for every other version, and None if the event is no message or nothing arrives
        within `timeout_s`. The event stays queued for the first step.
        """
        try:
            async with within(self._timeout_s):
                heard = await self._awaited()
        except TimeoutError:
            return None
        self._waiting.append(heard)
        return self._peer.version if heard.kind == "message" else None

    async def answer(self, conversation: Mapping[str, Any]) -> Outcome:
        """Runs the steps of a conversation with the client, closes the connection, and returns `outcome`, with the log.

        If a step fails, the further steps are left out, and `outcome.failure` describes it. No step runs if `start`,
        which accepts the connection, has failed. If `spoken_version` was called, and found another version than that of
        the conversation, the client's message is first answered with RDMA_ERROR and ERR_VERS.

        Args:
            conversation: the conversation as JSON-like data (see docs/send.md).

        Raises:
            LocalProtocolError: `conversation` is malformed; the error's text names the field. The connection is closed.
        """
        try:
            check_conversation(conversation, serves=True)
            self.register(conversation.get("memory", {}))
            version = conversation.get("version", "1")
            if self._waiting and self._waiting[0].kind == "message" and self._peer.version != version:
                await self._refuse_version(version)
            await self.run(conversation["steps"])
        finally:
            await self.close()
        return self.outcome

    async def _refuse_version(self, version: str) -> None:
        header = self._waiting.popleft().fields["header"]
        self._peer.version = version
        spoken = LAYOUTS[version].defaults["version"]
        refusal = {"type": 4, "error": 1, "numbers": [spoken, spoken]}
        told = {name: header.get(name, 0) for name in ("xid", "version")}
        await self._say({"header": {**told, **refusal}}, "version")

    async def _step(self, step: Mapping[str, Any], where: str) -> None:
        if "serve" in step:
            await self._serve(step["serve"], f"{where}.serve")
        elif "answer" in step:
            await self._answer(step["answer"], f"{where}.answer", refuses=self._peer.version != "1")
        else:
            await super()._step(step, where)

    async def _serve(self, content: Mapping[str, Any], where: str) -> None:
        together = number(content.get("together", 0), self._names, f"{where}.together")
        each = content["each"] if isinstance(content["each"], list) else [content["each"]]
        self._unmet = f"the client made no {together} calls at once" if together else _NO_CALL
        try:
            async with within(self._timeout_s):
                if together:
                    await self._serve_together(together, each, content, where)
                else:
                    await self._serve_until(each, content, where)
        except TimeoutError:
            found = f"none for {self._timeout_s:g} s"
            raise LeftCourse("a call of the awaited kind", found, silent=True, unmet=self._unmet) from None
        except LeftCourse as left:
            failure = left.failure
            if (failure.silent or failure.ended) and not failure.unmet:
                left.failure = replace(failure, unmet=self._unmet)
            raise

    async def _serve_together(self, together: int, each: list[_Fields], content: _Fields, where: str) -> None:
        quiet = {"quiet": {"milliseconds": {"given": "pause_ms"}}}
        for _ in range(_ROUNDS):
            await self._hear(each, f"{where}.each")
            calls = [self._call]
            while len(calls) < together:
                await self._hear([*each, quiet], f"{where}.each")
                if self._call is calls[-1]:
                    break
                calls.append(self._call)
            self._names.named |= {f"call.{index}": call for index, call in enumerate(calls)}
            if len(calls) == together:
                return
            for index in range(len(calls)):
                await self._answer({"header": content.get("header", {}), "to": f"call.{index}"}, where)
        raise LeftCourse(f"{together} calls at once", f"fewer in {_ROUNDS} pauses", silent=True)

    async def _serve_until(self, each: list[_Fields], content: _Fields, where: str) -> None:
        most = number(content["most"], self._names, f"{where}.most") if "most" in content else None
        for index in itertools.count():
            await self._hear(each, f"{where}.each")
            if difference(content.get("until", {}), self._names.heard, self._names) is None:
                return
            if index == most:
                raise LeftCourse("a message of the awaited kind", f"none with {index} calls")
            await self._answer({"header": content.get("header", {})}, where)

    async def _hear(self, patterns: Sequence[Mapping[str, Any]], where: str) -> None:
        await super()._hear(patterns, where)
        heard = self._names.heard
        if "header" in heard and "broken" not in heard and is_call(self._peer.version, heard):
            self._call = heard

    async def _answer(self, content: Mapping[str, Any], where: str, *, refuses: bool = True) -> None:
        content = dict(content)
        to, given = content.pop("to", None), content.pop("reply", None)
        call = self._call if to is None else self._names.message(to, where)
        if not call:
            raise LocalProtocolError(f"{where}: expected a step before that hears a call, found none")
        unmet, self._unmet = self._unmet, ""
        if given is not None or self._planned is None or self._planned[0] is not call:
            reply = None if given is None else octets(given, self._names, f"{where}.reply")
            self._planned = call, await self._replied(call, reply)
        planned = self._planned[1]
        if planned.refused_octets and not refuses:
            found = f"none for the {planned.refused_octets} octets of the reply"
            statement = "" if call["header"].get("writes") else "V1-51"
            raise LeftCourse("a call with room for its reply", found, statement=statement)
        for segment, data in planned.writes:
            await self._peer.write(segment["handle"], segment["offset"], data)
        header = {"xid": call["header"]["xid"], **planned.header, **content.get("header", {})}
        await self._say({"body": planned.body.hex(), **content, "header": header}, where)
        self._unmet = unmet

    async def _replied(self, call: Mapping[str, Any], given: bytes | None) -> PlannedReply:
        """Receives the rest of a call, reads its chunks, and returns header, inline part and RDMA Writes of the reply.

        Nothing of the reply is sent yet.

        Args:
            call: the fields of the call's first message, as `read_message` returns them.
            given: the RPC message of the reply; None asks the TCP server, or without one makes a success of no results.

        Raises:
            LeftCourse: the call or its chunks are malformed, too long or late, or the TCP server fails, takes longer
                than `timeout_s` or answers GARBAGE_ARGS.
        """
        try:
            if call["header"]["type"] == REQUEST:
                message = await self._joined_request(call)
            else:
                call = await self._whole(call)
                message = joined_call(call["body"], await self._read_all(read_segments(call["header"])))
        except RemoteProtocolError as error:
            raise LeftCourse("a call whose chunks stand for items", str(error)) from None
        rpc = read_rpc(message)
        if "broken" in rpc or rpc["direction"] != 0:
            raise LeftCourse("an RPC call in a message and its chunks", f"{len(message)} octets that are none")
        version = self._peer.version
        reply = message[:4] + struct.pack(">5I", 1, 0, 0, 0, 0) if given is None else given
        if given is None and self._program is not None:
            self._unmet = _NO_ANSWER
            try:
                async with within(self._timeout_s):
                    reply = await self._program.answer(message)
            except OSError as error:
                found = str(error) or f"none for {self._timeout_s:g} s"
                raise LeftCourse("an answer of the program", found, unmet=f"{_NO_ANSWER} ({found})") from None
            if reply[8:12] == bytes(4) and int.from_bytes(reply[20:24]) == _GARBAGE_ARGS:
                raise LeftCourse("a call whose arguments the program can decode", "GARBAGE_ARGS")
        return planned_reply(version, {**call, "rpc": rpc}, reply, self._inline_octets or _INLINE_OCTETS[version])

    async def _joined_request(self, request: Mapping[str, Any]) -> bytes:
        """Receives the further messages of a Transmit Request; returns the whole RPC call with all its items.

        `request` has the fields of the first message. Items are taken from segments of the receive buffers, or from the
        client's memory by RDMA Read.

        Raises:
            LeftCourse: the call exceeds the limits of octets or messages, a further message is no Transmit Continue or
                fails, or an RDMA Read fails.
            RemoteProtocolError: an item's position or segments are wrong.
        """
        transmissions = await self._all_of(request, lambda found: len(found) < request["header"]["count"])
        others = [each["header"]["type"] for each in transmissions[1:] if each["header"]["type"] != CONTINUE]
        if others:
            raise LeftCourse("a Transmit Continue", f"a message of the type {others[0]}")
        payload = b"".join(each["body"][: each["header"]["payload_octets"]] for each in transmissions)
        parts = placed_items(transmissions, self._own_buffer)
        return joined_call(payload, parts + await self._read_all(segments_of_items(request["header"])))

    async def _whole(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        """Receives the further messages of a call while MORE is set, and returns the fields of the last message.

        `call` has the fields of the first message. "body" of the result has the payloads of all messages, joined.

        Raises:
            LeftCourse: the call exceeds the limits of octets or messages, or the next event does not continue the call.
        """
        version = self._peer.version
        found = await self._all_of(call, lambda found: is_continued(version, found[-1]["header"]))
        return {**found[-1], "body": b"".join(each["body"] for each in found)}

    async def _all_of(self, first: _Fields, goes_on: Callable[[list[_Fields]], bool]) -> list[_Fields]:
        """Returns the fields of all messages of a call; receives further ones while `goes_on(FIELDS SO FAR)` is True.

        Raises:
            LeftCourse: the call exceeds the limits of octets or messages, or a further message fails.
        """
        found = [first]
        while goes_on(found):
            found.append(await self._further(first["header"]["xid"]))
            if sum(len(each["body"]) for each in found) > RAW_CALL_OCTETS_MAX:
                raise LeftCourse("a shorter call", _TOO_LONG, unmet=_TOO_LONG)
            if len(found) > RAW_WAITING_MAX:
                raise LeftCourse("a call in fewer messages", f"more than {RAW_WAITING_MAX} messages")
        return found

    async def _further(self, xid: int) -> Mapping[str, Any]:
        """Waits for the next message of the call with this XID, and returns its fields, as `read_message` does.

        Raises:
            LeftCourse: nothing arrives in time, or the event is not a well-formed message with this XID.
        """
        expected = f"more messages of call {xid:#x}"
        try:
            async with within(self._timeout_s):
                heard = await self._next()
        except TimeoutError:
            raise LeftCourse(expected, f"nothing for {self._timeout_s:g} s", silent=True) from None
        if heard.kind != "message" or "broken" in heard.fields or heard.fields["header"]["xid"] != xid:
            raise self._left(expected, heard)
        return heard.fields

    async def _read_all(self, segments: Sequence[Segment]) -> list[tuple[int, bytes]]:
        """Reads segments of the client's memory, and returns (Position, octets) of each.

        Raises:
            LeftCourse: the segments exceed `RAW_CALL_OCTETS_MAX` together, or the RDMA Read of one fails.
        """
        if sum(segment["length"] for segment in segments) > RAW_CALL_OCTETS_MAX:
            raise LeftCourse("a shorter call", _TOO_LONG, unmet=_TOO_LONG)
        return [(segment["position"], await self._read(segment)) for segment in segments]

    async def _read(self, segment: Segment) -> bytes:
        """Reads a segment of the client's memory by RDMA Read, and returns its octets.

        Messages that arrive meanwhile are queued for later steps.

        Raises:
            LeftCourse: the response is wrong, incomplete or late, more than `RAW_WAITING_MAX` messages wait, or another
                event than a message arrives instead.
        """
        length = segment["length"]
        handle = await self._peer.read(segment["handle"], segment["offset"], length)
        data = bytearray()
        expected = f"an RDMA Read Response of {length} octets"
        try:
            async with within(self._timeout_s):
                while True:
                    heard = await super()._awaited()
                    if heard.kind == "message":
                        if len(self._waiting) >= RAW_WAITING_MAX:
                            raise LeftCourse(expected, f"more than {RAW_WAITING_MAX} messages before it")
                        self._waiting.append(heard)
                        continue
                    piece = heard.fields
                    if heard.kind != "read_response":
                        raise self._left(expected, heard)
                    if (piece["handle"], piece["offset"]) != (handle, len(data)):
                        raise LeftCourse(expected, f"one to {piece['handle']:#x} at {piece['offset']}")
                    data += piece["payload"]
                    if len(data) > length or (piece["last"] and len(data) < length):
                        raise LeftCourse(expected, f"{len(data)} octets")
                    if piece["last"]:
                        return bytes(data)
        except TimeoutError:
            raise LeftCourse(expected, f"nothing for {self._timeout_s:g} s", silent=True) from None

    async def _awaited(self) -> Heard:
        heard = self._waiting.popleft() if self._waiting else await super()._awaited()
        if heard.kind != "message":
            return heard
        return replace(heard, fields={**heard.fields, "startup": self._startup})

    async def _begins_within(self, seconds: float) -> bool:
        return bool(self._waiting) or await super()._begins_within(seconds)
