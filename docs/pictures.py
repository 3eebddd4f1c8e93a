"""Draws the pictures of the documentation: `python docs/pictures.py [DIRECTORY]`.

The sequence diagrams show conversations that take place while this program runs: a READ and a WRITE of 64 KiB in each
version of RPC-over-RDMA, recorded and decoded by the library. The state diagrams show the library's transition tables,
and the diagram of layers the rows of `LAYERS`, which a test holds against the rule for imports.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import enum
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drawings import Arrow, layer_diagram, sequence_diagram, state_diagram

import rpcrdma
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.iwarp import states as iwarp_states
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from rpcrdma.transport import call_states, connection_states
from rpcrdma_lab.dissect.capture_dissector import CaptureDissector
from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, read_packets
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.dissect.rpc_body import Interfaces

OCTETS = 1 << 16
HANDLE = v3.nfs_fh3(b"a file's handle!")
NO_ATTRIBUTES = v3.post_op_attr(False, None)

WAYS = {
    "1": ("version 1", "1", "off"),
    "2": ("version 2", "2", "off"),
    "2-extension": ("version 2 with the round-trip extension", "2", "rtr"),
}
"""Suffixes of file names, with the words of the title, the version, and the choice of the extension."""

TABLES: Mapping[str, tuple[str, Mapping[tuple[Any, Any], Any]]] = {
    "calls": ("A call at its requester", call_states.TRANSITIONS),
    "connection": ("A connection of RPC-over-RDMA", connection_states.TRANSITIONS),
    "iwarp": ("A connection of the software RNIC", iwarp_states.TRANSITIONS),
}


LAYERS: tuple[Mapping[str, str], ...] = (
    {"lab/commands": "check, decode, explain, proxy, roundtrips, send"},
    {"lab/simulation": "round trips and worlds", "lab/check": "verdicts on servers and clients"},
    {"lab/scripted": "conversations as data", "lab/dissect": "captures to annotated messages"},
    {"lab/limits": "bounds on captures and peers"},
    {"cli": "the command"},
    {"fsspec": "rdma:// for data tools"},
    {"sync": "without an event loop", "commands": "what all commands share"},
    {
        "rpcrdma": "the names that programs import",
        "testing": "suites, and a fabric in virtual time",
    },
    {
        "nfs": "NFSv3 and MOUNT: interfaces, server, client",
        "provider": "names for authors of providers",
    },
    {
        "aio": "connections, clients and servers on asyncio",
        "extension": "names for authors of extensions",
    },
    {"rtr": "the round-trip extension of version 2"},
    {"transport": "RPC-over-RDMA", "iwarp": "the software RNIC"},
    {"rpc": "ONC RPC", "verbs": "the vocabulary of RDMA"},
    {"xdr": "the data representation and its compiler"},
    {"wire": "cursors over octets, gather lists, CRC-32C"},
    {
        "errors": "every exception",
        "deferred": "names at first use",
        "limits": "bounds on a peer's claims",
        "file_limits": "bounds on a file's claims",
    },
)
"""The layers from the top down, with a few words on each; layers of one row do not know each other."""

WITHOUT_EFFECTS = (10, "below this line: no sockets, no clocks, no threads, no random numbers")
"""The number of rows above the line, and its words."""


class _OneFile(v3.NFS_V3_Service):
    """Answers READ and WRITE of one file in memory."""

    IDEMPOTENT = frozenset({v3.READ.number, v3.WRITE.number})

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:  # noqa: ARG002
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NO_ATTRIBUTES, args.count, True, bytes(args.count)))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:  # noqa: ARG002
        unchanged = v3.wcc_data(v3.pre_op_attr(False, None), NO_ATTRIBUTES)
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, v3.WRITE3resok(unchanged, args.count, args.stable, bytes(8)))


async def _converse(version: str, extension: str, path: Path) -> None:
    serve = rpcrdma.ServeOptions(rdma=RdmaServerConfig(rpcrdma_version=version))
    with contextlib.closing(rpcrdma.PacketCapture(path)) as capture:
        connect = rpcrdma.ConnectOptions(rpcrdma_version=version, extension=extension, capture=capture)
        async with (
            rpcrdma.serve([_OneFile()], ["rdma://127.0.0.1:0"], options=serve) as server,
            rpcrdma.connect(server.listening[0], v3.PROGRAM, options=connect) as connection,
        ):
            await connection.call(v3.READ, v3.READ3args(HANDLE, 0, OCTETS), into=bytearray(OCTETS))
            stable = v3.stable_how.UNSTABLE
            await connection.call(v3.WRITE, v3.WRITE3args(HANDLE, 0, OCTETS, stable, bytes(OCTETS)))


def _messages(path: Path) -> list[Message]:
    settings = Settings(Interfaces(["nfs3.x"]))
    with path.open("rb") as file:
        return list(CaptureDissector(settings).messages(read_packets(file, file.read(MAGIC_OCTETS))))


def _arrows(messages: list[Message], procedure: str) -> Iterator[Arrow]:
    """The messages of the one call of `procedure`."""
    client = messages[0].source
    call = next(message for message in messages if message.facts.get("procedure") == procedure)
    for message in messages:
        if message.facts.get("xid") == call.facts["xid"]:
            assert not message.faults, message
            yield _arrow(message, to_right=message.source == client)


def _arrow(message: Message, *, to_right: bool) -> Arrow:
    facts = message.facts
    if "serves" in facts:
        operation = message.summary.partition(",")[0]
        if operation == "RDMA Read Request":
            return Arrow(to_right, operation, (f"for the {facts['serves']['chunk']}",))
        return Arrow(to_right, f"{operation}, {facts['octets']:,} octets", (facts["serves"]["chunk"],), bulk=True)
    operation = message.summary.partition(" xid ")[0]
    role = {"call": "call", "reply": "reply"}.get(facts.get("message", ""), "part of a message")
    procedure = facts.get("procedure", "").removeprefix("NFS_V3 ")
    details = [f"{facts['octets']:,} octets"]
    if facts.get("placed_octets"):
        details.append(f"{facts['placed_octets']:,} of them placed in the receive buffer's segments")
    if "invalidated_handle" in facts:
        details.append("invalidates the handle")
    bulk = facts["octets"] > OCTETS // 8
    return Arrow(to_right, f"{operation}: {role} {procedure}".strip(), (", ".join(details),), bulk=bulk)


def conversations() -> Iterator[tuple[str, str]]:
    """(file name, SVG) of READ and WRITE in each version."""
    with tempfile.TemporaryDirectory(prefix="rpcrdma-pictures-") as directory:
        for suffix, (title, version, extension) in WAYS.items():
            path = Path(directory) / f"{suffix}.pcap"
            asyncio.run(_converse(version, extension, path))
            messages = _messages(path)
            for procedure in ("READ", "WRITE"):
                arrows = list(_arrows(messages, f"NFS_V3 {procedure}"))
                yield (
                    f"{procedure.lower()}-{suffix}.svg",
                    sequence_diagram(f"{procedure} of 64 KiB, {title}", ("client", "server"), arrows),
                )


def words(member: enum.Enum) -> str:
    """The name of a state or an input, as the documentation shows it."""
    return member.name.lower().replace("_", " ")


def state_diagrams() -> Iterator[tuple[str, str]]:
    """(file name, SVG) of each transition table."""
    for name, (title, transitions) in TABLES.items():
        named = {(words(state), words(given)): words(after) for (state, given), after in transitions.items()}
        first = next(iter(transitions))[0]
        yield f"states-{name}.svg", state_diagram(title, [words(state) for state in type(first)], named)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path(__file__).parent / "pictures")
    directory = parser.parse_args().directory
    directory.mkdir(exist_ok=True)
    layers = layer_diagram("Imports go downward", LAYERS, WITHOUT_EFFECTS)
    for name, picture in (*conversations(), *state_diagrams(), ("layers.svg", layers)):
        (directory / name).write_text(picture)


if __name__ == "__main__":
    main()
