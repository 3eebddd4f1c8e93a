"""The outcome of the demonstration: one JSON object, or one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rpcrdma.aio.connections.negotiated import Negotiated
from rpcrdma.commands import console
from rpcrdma.transport import TransportStatistics

__all__ = ["Outcome", "as_json", "print_report"]

_SHOWN_MISMATCHES = 10
_RESENT = ("resent_long", "resent_without_chunks", "resent_in_segments", "resent_larger", "resent_plain")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of `rpcrdma demo`, with the transport counters of both sides.

    `source` names the tree; `files` and `octets` are its size, which was moved each way. `get_s` and `put_s` are the
    seconds of the copies out and back, `seconds` those from before the start of the server until after its end.
    `mismatches` are the paths at which a copy differs from the tree, each behind "fetched: " or "returned: ".
    """

    source: str
    files: int
    octets: int
    mismatches: list[str]
    get_s: float
    put_s: float
    seconds: float
    negotiated: Negotiated
    client: TransportStatistics
    server: dict[str, int]
    """The server's counters, by the names of `TransportStatistics`."""


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Returns the report of `rpcrdma demo --json`, a JSON object with the numbers of `outcome`."""
    client, server = outcome.client, outcome.server
    return {
        "version": outcome.negotiated.version,
        "provider": outcome.negotiated.provider,
        "source": outcome.source,
        "files": outcome.files,
        "bytes": outcome.octets,
        "mismatches": len(outcome.mismatches),
        "seconds": round(outcome.seconds, 3),
        "get_bytes_per_s": round(outcome.octets / outcome.get_s),
        "put_bytes_per_s": round(outcome.octets / outcome.put_s),
        "calls": {
            "total": client.calls,
            "short": client.calls_short,
            "read_chunk": client.calls_read_chunk,
            "write_chunk": client.calls_write_chunk,
            "long_call": client.calls_long,
            "long_reply": client.replies_long,
            "continued": client.messages_continued + server.get("messages_continued", 0),
            "resent": sum(getattr(client, name) for name in _RESENT),
            "placed_by_send": client.items_sent_in_segments + client.items_in_segments,
        },
        "chosen": {
            "inline": client.calls - client.calls_by_rdma - client.calls_by_send,
            "rdma": client.calls_by_rdma,
            "send": client.calls_by_send,
        },
        "rdma": {
            "sends": client.sends + server.get("sends", 0),
            "pieces": client.pieces_sent + server.get("pieces_sent", 0),
            "grants": client.grants_sent + server.get("grants_sent", 0),
            "reads": server.get("rdma_reads", 0),
            "writes": server.get("rdma_writes", 0),
            "registrations": client.registrations,
            "remote_invalidations": client.remote_invalidations,
        },
        "credits": {"requested": outcome.negotiated.credits_requested, "granted": outcome.negotiated.credits_granted},
    }


def _of_both(outcome: Outcome, name: str) -> str:
    """Returns the counter `name` of `TransportStatistics` at both sides, as text such as "client 5, server 4"."""
    return f"client {getattr(outcome.client, name):,}, server {outcome.server.get(name, 0):,}"


def print_report(outcome: Outcome) -> None:
    """Prints the outcome as a table, and if copies differ an error on standard error with up to ten differing paths."""
    facts, client = as_json(outcome), outcome.client
    calls, chosen, rdma, granted = facts["calls"], facts["chosen"], facts["rdma"], facts["credits"]
    continued, grants = (_of_both(outcome, name) for name in ("messages_continued", "grants_sent"))
    rows: list[tuple[str, str, str]] = [
        ("files", f"{outcome.files:,}", "copied out and back"),
        ("bytes", f"{outcome.octets:,}", "each way"),
        ("mismatches", f"{len(outcome.mismatches):,}", "SHA-256 of every file, both copies"),
        ("seconds", f"{outcome.seconds:.2f}", f"out {outcome.get_s:.2f}, back {outcome.put_s:.2f}"),
        ("throughput out", console.readable_rate(outcome.octets, outcome.get_s), "server to client"),
        ("throughput back", console.readable_rate(outcome.octets, outcome.put_s), "client to server"),
        ("calls", f"{calls['total']:,}", "of one connection; the next ones by form"),
        ("  short", f"{calls['short']:,}", "call and reply without a chunk"),
        ("  read chunk", f"{calls['read_chunk']:,}", "argument pulled by RDMA Read"),
        ("  write chunk", f"{calls['write_chunk']:,}", "result placed by RDMA Write"),
        ("  long call", f"{calls['long_call']:,}", "call in a Position-Zero Read chunk"),
        ("  long reply", f"{calls['long_reply']:,}", "reply in a Reply chunk"),
        (
            "  continued",
            f"{calls['continued']:,}",
            f"messages in several Sends ({continued}), {rdma['pieces']:,} more in all",
        ),
        (
            "  placed by Send",
            f"{calls['placed_by_send']:,}",
            f"arguments {client.items_sent_in_segments:,}, results {client.items_in_segments:,}: round-trip extension",
        ),
        ("  sent again", f"{calls['resent']:,}", "refused by the server in another form"),
        ("went inline", f"{chosen['inline']:,}", "calls with data in the message itself, or without any"),
        ("went by RDMA", f"{chosen['rdma']:,}", "calls with data that the server read or wrote"),
        ("went by Send", f"{chosen['send']:,}", "calls with data in segments of Sends: round-trip extension"),
        ("RDMA Sends", f"{rdma['sends']:,}", "of both sides"),
        ("RDMA Reads", f"{rdma['reads']:,}", "by the server"),
        ("RDMA Writes", f"{rdma['writes']:,}", "by the server"),
        ("registrations", f"{rdma['registrations']:,}", "memory exposed by the client"),
        ("invalidated remotely", f"{rdma['remote_invalidations']:,}", "handles ended along with the reply"),
        ("credits granted", f"{granted['granted']:,}", f"of {granted['requested']:,} requested"),
        ("credit grants", f"{rdma['grants']:,}", f"messages with nothing else ({grants})"),
        ("version", str(facts["version"]), "of RPC-over-RDMA"),
        ("provider", facts["provider"], "software RNIC over TCP" if facts["provider"] == "iwarp" else ""),
    ]
    console.table(rows, right=(1,))
    if outcome.mismatches:
        console.error(f"{len(outcome.mismatches)} files did not arrive as they were")
        for path in outcome.mismatches[:_SHOWN_MISMATCHES]:
            console.talk(f"  {path}")
