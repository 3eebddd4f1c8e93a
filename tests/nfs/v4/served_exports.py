"""Directories of a scratch tree, exported by a server of version 4 in memory, and a client of it."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

from conversation import Conversation
from rpcrdma.nfs.export.access_terms import Export
from rpcrdma.nfs.export.server_exports import ServerExports
from rpcrdma.nfs.export.server_state import open_state
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from support.nfs4_client import Client, Reply

__all__ = ["CHANGE", "FILEID", "FSID", "MODE", "MOUNTED_ON", "SIZE", "Served", "names", "u32", "u64"]

CHANGE, SIZE, FSID, FILEID, MODE, MOUNTED_ON = 1 << 3, 1 << 4, 1 << 8, 1 << 20, 1 << 33 - 32, 1 << 55 - 32
"""Bits of attributes in their words."""


class Served:
    """A server of directories below `place`, and a client of it; the server gives no delegations at first."""

    def __init__(self, place: Path, *exports: dict[str, Any]) -> None:
        self.place = place
        self.state = open_state(place / "state", os.urandom)
        local = self.local = ServerExports(
            [Export(**{"directory": place / "files", "root_squash": False} | export) for export in exports], self.state
        )
        self.local.parts.leases.files_max = 0
        self.server = Conversation(files=PseudoRoot(local, 5))  # type: ignore[arg-type]
        self.client: Client = self.server.client().start()

    def change_exports(self, *exports: dict[str, Any]) -> None:
        """Serves these exports instead, as after a reload."""
        full = [Export(**{"directory": self.place / "files", "root_squash": False} | export) for export in exports]
        self.local.install(self.local.plan(full))
        self.server.service.exports.renew(9)  # type: ignore[attr-defined]

    def run(self, *operations: bytes, minor: int = 1) -> Reply:
        return self.client.run(*operations, minor=minor)

    def status(self, *operations: bytes) -> str:
        return self.run(*operations).status


def names(reply: Reply) -> list[bytes]:
    return sorted(entry[1] for entry in reply.value(26)[0])


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def u64(value: int) -> bytes:
    return struct.pack(">Q", value)
