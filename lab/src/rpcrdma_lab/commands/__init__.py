"""The commands for engineers of protocols, as the entry point group `rpcrdma.commands` names them."""

from __future__ import annotations

from typing import Final

__all__ = ["COMMANDS"]

COMMANDS: Final = {
    "check": ("rpcrdma_lab.commands.check", "judge a server by the statements of the specifications"),
    "roundtrips": (
        "rpcrdma_lab.commands.roundtrips",
        "count the round trips, interrupts and registrations of calls in a simulated network",
    ),
    "decode": (
        "rpcrdma_lab.commands.decode",
        "show the messages in a packet capture or in hex text, field by field, with their faults",
    ),
    "explain": (
        "rpcrdma_lab.commands.explain",
        "show each call in a packet capture as a ladder: its Sends, RDMA Reads and Writes, chunks and credits",
    ),
    "send": (
        "rpcrdma_lab.commands.send",
        "say a conversation, message by message, to a server: right ones and deliberately wrong ones",
    ),
    "proxy": (
        "rpcrdma_lab.commands.proxy",
        "forward connections to a server, and delay, drop, change or cut what rules select",
    ),
}
"""The commands by name, each with its module and a summary."""
