"""Conversations as data: messages field by field, right or wrong, and the answers that are expected to them.

A conversation is a mapping as in JSON. `make_message` and `read_message` encode and decode transport headers, `frames`
does so for the layers below, `run_conversation` acts as a client of a server, and `ServingConversation` as a server of
a client. Nothing here uses the codecs of `rpcrdma.transport`, `rpcrdma.iwarp` or `rpcrdma.rpc`, so that a mistake there
does not hide itself.
"""

from __future__ import annotations

from rpcrdma_lab.scripted.answering import PeerMaker, ServingConversation
from rpcrdma_lab.scripted.conversation import (
    Failure,
    LiveConversation,
    Outcome,
    RawTarget,
    open_conversation,
    run_conversation,
)
from rpcrdma_lab.scripted.messages import make_message, read_message
from rpcrdma_lab.scripted.peer import RawPeer
from rpcrdma_lab.scripted.peer_interface import Heard, Passage, RawMemory, ScriptedPeer
from rpcrdma_lab.scripted.program_over_tcp import ProgramOverTcp
from rpcrdma_lab.scripted.queue_pair_peer import QueuePairPeer

__all__ = [
    "Failure",
    "Heard",
    "LiveConversation",
    "Outcome",
    "Passage",
    "PeerMaker",
    "ProgramOverTcp",
    "QueuePairPeer",
    "RawMemory",
    "RawPeer",
    "RawTarget",
    "ScriptedPeer",
    "ServingConversation",
    "make_message",
    "open_conversation",
    "read_message",
    "run_conversation",
]
