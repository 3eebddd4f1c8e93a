"""Several RPC messages in one transmission as `rpcrdma decode` tells them: each is a call or a reply by itself."""

from __future__ import annotations

import pytest

from rpcrdma.batches.code_points import BATCH, BATCH_LIMIT
from rpcrdma.batches.messages import encode_batch
from rpcrdma.dissect.connection import Settings
from rpcrdma.dissect.message import Message
from rpcrdma.dissect.rpc_header import ProgramNames
from rpcrdma.nfs import v3
from support.octets import words

CLIENT, SERVER = 0, 1
GETATTR, LOOKUP = 1, 3


def call(xid: int, procedure: int = GETATTR) -> bytes:
    return words(xid, 0, 2, 100003, 3, procedure, 0, 0, 0, 0)


def reply(xid: int) -> bytes:
    return words(xid, 1, 0, 0, 0, 0)


def batch(*messages: bytes, flags: int = 0, xid: int = 7) -> bytes:
    return words(xid, 2, 0x00200020, BATCH, flags) + encode_batch(messages)


def limit(count: int) -> bytes:
    return words(1, 2, 0x00200020, 5, 0, 1, BATCH_LIMIT, 4, count)


class Talk:
    """A conversation whose beginning was seen; each end takes `taken` RPC messages in one transmission."""

    def __init__(self, taken: int = 64) -> None:
        self.conversation = Settings("2", ProgramNames([v3.PROGRAM])).conversation()
        self.number = 0
        for end in (CLIENT, SERVER):
            told = self.say(end, limit(taken))
            assert told.faults == []
        shown = [one.shown for group in told.groups for one in group.walk() if one.name == "rtr_batch_limit"]
        assert shown == [str(taken)]

    def say(self, end: int, octets: bytes) -> Message:
        self.number += 1
        message = Message("rdmap", "", number=self.number)
        self.conversation.send(end, octets, message)
        return message


def test_each_reply_is_matched_with_its_call() -> None:
    talk = Talk()
    asked = talk.say(CLIENT, batch(call(7), call(8), call(9, LOOKUP)))
    assert asked.faults == []
    assert asked.summary == "ROPT_BATCH xid 0x00000007: 2 x call NFS_V3 GETATTR; call NFS_V3 LOOKUP"
    assert [group.name for group in asked.groups[1:]] == ["RPC message 1", "RPC message 2", "RPC message 3"]
    assert [one["procedure"] for one in asked.facts["messages"]] == ["NFS_V3 GETATTR"] * 2 + ["NFS_V3 LOOKUP"]
    alone = talk.say(CLIENT, words(10, 2, 0x00200020, 0, 0, 0, 0, 0, 0) + call(10))
    answered = talk.say(SERVER, batch(reply(9), reply(10), flags=1, xid=9))
    assert answered.faults == []
    assert [one["answers"] for one in answered.facts["messages"]] == [asked.number, alone.number]
    assert answered.summary.startswith("ROPT_BATCH xid 0x00000009: reply to NFS_V3 LOOKUP")
    single = talk.say(SERVER, words(8, 2, 0x00200020, 0, 1, 0, 0, 0, 0) + reply(8))
    assert single.facts["answers"] == asked.number
    unknown = talk.say(SERVER, batch(reply(7), reply(8), flags=1))
    assert [one["answers"] for one in unknown.facts["messages"]] == [asked.number, None]


BROKEN = {
    "none at all": (batch(), ("batch_messages", "there is no RPC message")),
    "another XID": (batch(call(8), call(7)), ("rdma_xid", "the first RPC message has XID 0x00000008")),
    "a reply among calls": (batch(call(7), reply(8)), ("batched_rpc", "RESPONSE does not fit to a reply")),
    "calls with RESPONSE": (batch(call(7), flags=1), ("batched_rpc", "RESPONSE does not fit to a call")),
    "more than are taken": (
        batch(call(7), call(8), call(9)),
        ("batch_messages", "3 RPC messages, the receiver takes 2"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_rule_is_told_once_with_its_section(name: str) -> None:
    octets, expected = BROKEN[name]
    message = Talk(2).say(CLIENT, octets)
    assert [(fault.field, fault.reason, fault.section) for fault in message.faults] == [(*expected, "rtissues 4")]


def test_what_is_cut_off_is_told_where_it_ends() -> None:
    whole = batch(call(7), call(8))
    for length in range(20, len(whole)):
        message = Talk().say(CLIENT, whole[:length])
        assert len(message.faults) == 1, length
    (fault,) = Talk().say(CLIENT, whole + bytes(4)).faults
    assert fault.offset == len(whole)


def test_without_properties_the_number_of_messages_is_not_judged() -> None:
    conversation = Settings("2", ProgramNames([v3.PROGRAM])).conversation()
    message = Message("rdmap", "", number=1)
    conversation.send(CLIENT, batch(*(call(7 + index) for index in range(70))), message)
    assert message.faults == []
    assert message.summary.endswith("70 x call NFS_V3 GETATTR")


def without_flags(octets: bytes) -> bytes:
    """The same message as the last draft has it."""
    kind = int.from_bytes(octets[12:16])
    return octets[:8] + words(1000, 7 if kind == 5 else kind) + octets[20:]


@pytest.mark.parametrize(
    ("messages", "faults"),
    [
        ([call(7), call(8), call(9)], []),
        ([reply(7), reply(8)], []),
        ([call(7), reply(8), call(9)], ["what is before it does not fit to a reply"]),
        ([reply(7), call(8)], ["what is before it does not fit to a call"]),
        ([call(7)] * 5, ["5 RPC messages, the receiver takes 4"]),
        ([call(8)], ["the first RPC message has XID 0x00000008"]),
    ],
)
def test_without_flags_the_first_message_says_what_all_are(messages: list[bytes], faults: list[str]) -> None:
    conversation = Settings("2-07", ProgramNames([v3.PROGRAM])).conversation()
    for end in (CLIENT, SERVER):
        told = Message("rdmap", "")
        conversation.send(end, without_flags(limit(4)), told)
        assert told.faults == []
    message = Message("rdmap", "")
    conversation.send(CLIENT, without_flags(batch(*messages)), message)
    assert [fault.reason for fault in message.faults] == faults
    assert [one["message"] for one in message.facts["messages"]] == [
        "call" if octets[7] == 0 else "reply" for octets in messages
    ]
