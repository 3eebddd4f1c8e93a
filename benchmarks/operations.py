"""RDMA operations of each operation of the demonstration: Sends, RDMA Reads and Writes, registrations, round trips.

Each is made once, on a connection of each version. The numbers are the differences of both ends' counters
(`TransportStatistics`) before and after it, so they are the same on every machine. Round trips are exchanges
that have to wait for each other: a call and its reply, and one more where the server fetches an argument by
RDMA Read, all of which go out together. A refused call that is sent again would be one more as well.

`--write docs/versions.md` puts the table of versions 1 and 2 there, both without the round-trip extension, and
`--write docs/round-trips.md` that of READ and WRITE in version 2 without it and with it for all data that it carries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

import nfs_servers
import pages

import rpcrdma
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.nfs import mount, v3
from rpcrdma.nfs.client.attributes import set_attributes
from rpcrdma.rpc.program import Procedure
from rpcrdma.transport import VERSION_CHOICES, TransportStatistics

A = TypeVar("A")
R = TypeVar("R")

VERSIONS = tuple(choice for choice in VERSION_CHOICES if choice != "auto")
EXTENDED = "2, by Send"
SIZES = tuple(kibibytes << 10 for kibibytes in (1, 4, 32, 64, 128, 1024))
LISTED_FILES = 200
WARM_UP_CALLS = 4
"""Credits are settled after these: a server of version 2 gives all that it gives with the first replies."""
NOTHING_SET = set_attributes()
NO_GUARD = v3.sattrguard3(False, None)
EXTENSION_PAGE = "round-trips.md"
_RESENT = ("resent_long", "resent_without_chunks", "resent_in_segments", "resent_larger")


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of one operation, of both ends."""

    operation: str
    version: str
    sends: int
    rdma_reads: int
    rdma_writes: int
    registrations: int
    round_trips: int


class Meter:
    """Makes operations on one connection, and keeps the numbers of each."""

    def __init__(self, server: rpcrdma.Server, connection: rpcrdma.Connection, version: str) -> None:
        self._server = server
        self._connection = connection
        self._version = version
        self.rows: list[Row] = []

    def _counted(self) -> tuple[TransportStatistics, TransportStatistics]:
        own = self._connection.statistics
        assert own is not None, "an RDMA connection"
        return replace(own), self._server.statistics().counters

    async def make(self, name: str, procedure: Procedure[A, R], arguments: A, into: bytearray | None = None) -> R:
        """One call; its reply."""
        before = self._counted()
        reply = await self._connection.call(procedure, arguments, into=into)
        client, server = (_difference(*ends) for ends in zip(before, self._counted(), strict=True))
        again = sum(getattr(client, name) for name in _RESENT)
        self.rows.append(
            Row(
                name,
                self._version,
                client.sends + server.sends,
                server.rdma_reads,
                server.rdma_writes,
                client.registrations + server.registrations,
                1 + (server.rdma_reads > 0) + again,
            )
        )
        return reply


def _difference(before: TransportStatistics, after: TransportStatistics) -> TransportStatistics:
    names = [field.name for field in fields(TransportStatistics)]
    return TransportStatistics(**{name: getattr(after, name) - getattr(before, name) for name in names})


async def copy_out(meter: Meter, root: v3.nfs_fh3) -> None:
    """The operations that copy a tree from the server."""
    information = await meter.make("FSINFO", v3.FSINFO, v3.FSINFO3args(root))
    await meter.make("GETATTR", v3.GETATTR, v3.GETATTR3args(root))
    found = await meter.make("LOOKUP", v3.LOOKUP, v3.LOOKUP3args(v3.diropargs3(root, "data")))
    page = information.value.dtpref
    listing = v3.READDIRPLUS3args(root, 0, bytes(8), page, page)
    await meter.make(f"READDIRPLUS, {LISTED_FILES} files", v3.READDIRPLUS, listing)
    link = await meter.make("LOOKUP", v3.LOOKUP, v3.LOOKUP3args(v3.diropargs3(root, "link")))
    del meter.rows[-1]
    await meter.make("READLINK", v3.READLINK, v3.READLINK3args(link.value.object))
    for size in SIZES:
        arguments = v3.READ3args(found.value.object, 0, size)
        await meter.make(f"READ, {size >> 10} KiB", v3.READ, arguments, bytearray(size))


async def copy_back(meter: Meter, root: v3.nfs_fh3) -> None:
    """The operations that copy a tree to the server."""
    where = v3.diropargs3(root, "new")
    made = await meter.make(
        "CREATE", v3.CREATE, v3.CREATE3args(where, v3.createhow3(v3.createmode3.UNCHECKED, NOTHING_SET))
    )
    handle = made.value.obj.value
    for size in SIZES:
        arguments = v3.WRITE3args(handle, 0, size, v3.stable_how.UNSTABLE, bytes(size))
        await meter.make(f"WRITE, {size >> 10} KiB", v3.WRITE, arguments)
    await meter.make("COMMIT", v3.COMMIT, v3.COMMIT3args(handle, 0, 0))
    await meter.make("SETATTR", v3.SETATTR, v3.SETATTR3args(handle, NOTHING_SET, NO_GUARD))
    await meter.make("RENAME", v3.RENAME, v3.RENAME3args(where, v3.diropargs3(root, "renamed")))
    await meter.make("MKDIR", v3.MKDIR, v3.MKDIR3args(v3.diropargs3(root, "directory"), NOTHING_SET))
    link = v3.SYMLINK3args(v3.diropargs3(root, "new link"), v3.symlinkdata3(NOTHING_SET, "renamed"))
    await meter.make("SYMLINK", v3.SYMLINK, link)


async def measured(name: str) -> list[Row]:
    """The operations in one version, one after the other."""
    version, extension = ("2", "rtr") if name == EXTENDED else (name, "off")
    connect = rpcrdma.ConnectOptions(rpcrdma_version=version, extension=extension)
    with tempfile.TemporaryDirectory(prefix="rpcrdma-bench-") as directory:
        exported = Path(directory)
        (exported / "data").write_bytes(bytes(SIZES[-1]))
        (exported / "link").symlink_to("data")
        for number in range(LISTED_FILES - 2):
            (exported / f"file {number:03}").touch()
        options = rpcrdma.ServeOptions(rdma=RdmaServerConfig(rpcrdma_version=version))
        async with nfs_servers.in_process(exported, options) as server:
            url, tcp_url = server.listening
            async with rpcrdma.connect(tcp_url, mount.PROGRAM) as connection:
                mounted = await connection.call(mount.MNT, "/")
            root = v3.nfs_fh3(mounted.value.fhandle)
            async with rpcrdma.connect(url, v3.PROGRAM, options=connect) as connection:
                for _ in range(WARM_UP_CALLS):
                    await connection.call(v3.NULL, None)
                meter = Meter(server, connection, name)
                await copy_out(meter, root)
                await copy_back(meter, root)
    return meter.rows


def rows() -> list[Row]:
    """The rows of all versions."""
    return [row for name in (*VERSIONS, EXTENDED) for row in asyncio.run(measured(name))]


def markdown(table: list[Row], before: str = "1", after: str = "2", start: tuple[str, ...] = ("",)) -> str:
    """Each count in one version, and in the other where it is another one, of operations with names that begin so."""
    names = [field.name for field in fields(Row)][2:]
    lines = [
        "| | Sends | RDMA Reads | RDMA Writes | registrations | round trips |\n",
        "|---|" + "---|" * len(names) + "\n",
    ]
    found = {(row.operation, row.version): row for row in table}
    for operation in dict.fromkeys(row.operation for row in table if row.operation.startswith(start)):
        first, second = found[operation, before], found[operation, after]
        pairs = ((getattr(first, name), getattr(second, name)) for name in names)
        cells = (f"{old} → **{new}**" if old != new else f"{old}" for old, new in pairs)
        lines.append(f"| {operation} | {' | '.join(cells)} |\n")
    return "".join(lines)


def table_for(page: Path, table: list[Row]) -> str:
    """The one that the page has."""
    if page.name == EXTENSION_PAGE:
        return markdown(table, "2", EXTENDED, ("READ, ", "WRITE, "))
    return markdown(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    parser.add_argument(
        "--write", type=Path, nargs="+", metavar="PAGE", help="put the table between its marks in pages"
    )
    options = parser.parse_args()
    table = rows()
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=2))
    elif options.write:
        for page in options.write:
            pages.put(page, Path(__file__).name, table_for(page, table))
    else:
        print(markdown(table), end="")


if __name__ == "__main__":
    main()
