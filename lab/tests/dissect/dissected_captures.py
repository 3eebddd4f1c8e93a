"""Calls and replies in version 1 for captures made by hand, and the messages of such a capture."""

from __future__ import annotations

import io
from pathlib import Path

from rpcrdma_lab.dissect.capture_dissector import CaptureDissector
from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, read_packets
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.dissect.rpc_body import Interfaces
from support.octets import words

__all__ = ["GETATTR", "READ", "call", "dissected", "reply"]

GETATTR, READ = 1, 6


def call(xid: int, procedure: int = GETATTR, lists: bytes = words(0, 0, 0)) -> bytes:
    """A call of NFSv3 without arguments."""
    return words(xid, 1, 32, 0) + lists + words(xid, 0, 2, 100003, 3, procedure, 0, 0, 0, 0)


def reply(xid: int) -> bytes:
    """A successful reply without results."""
    return words(xid, 1, 32, 0, 0, 0, 0) + words(xid, 1, 0, 0, 0, 0)


def dissected(path: Path, names: Interfaces | None = None) -> list[Message]:
    """The messages of a capture; programs have the names of NFSv3 unless others are given."""
    data = io.BytesIO(path.read_bytes())
    dissector = CaptureDissector(Settings(names or Interfaces(["nfs3.x"])))
    return list(dissector.messages(read_packets(data, data.read(MAGIC_OCTETS))))
