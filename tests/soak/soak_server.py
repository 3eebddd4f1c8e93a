"""The server of the soak test: `soak_server.py DIR VERSION`. Commands come line by line, answers in JSON."""

from __future__ import annotations

import asyncio
import functools
import json
import secrets
import sys
from pathlib import Path
from typing import Any

from process_state import look, queue_pairs, regions_registered
from rpcrdma.aio.answering import answering
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.cli.event_loop import run_async
from rpcrdma.nfs.export import object_tree
from rpcrdma.nfs.server import Export, build_services, open_state
from rpcrdma.rpc.reply_cache import CallKey, KnownCall, ReplyCache
from ticket_service import Tickets

KEPT_S = 20.0
"""Short, so that the cache is as full as it gets when the warm-up is over."""
KEPT_OCTETS = 8 << 20
"""Half of the default for the same reason: kept replies of all lengths come and go, which leaves gaps between them in
memory, some mebibytes more as long as there are more of them."""
GONE_MAX = 1024
"""Low for the same reason: how many handles of removed objects the server remembers, by default 65,536."""


class Repeats:
    """Counts the outcomes in the reply cache: `kept` replies, `running` calls, and calls whose reply is `gone`."""

    def __init__(self) -> None:
        self.kept = self.running = self.gone = 0
        find = ReplyCache.find

        def counting(cache: ReplyCache, key: CallKey, now_s: float) -> KnownCall | None:
            known = find(cache, key, now_s)
            if known is not None:
                self.running += known.running
                self.kept += not known.running and known.reply is not None
                self.gone += not known.running and known.reply is None
            return known

        ReplyCache.find = counting  # type: ignore[method-assign]


def state(server: Server, tickets: Tickets, repeats: Repeats) -> dict[str, Any]:
    told = server.statistics()
    return {
        "regions": regions_registered(),
        "queue_pairs": queue_pairs(),
        "rdma_connections": told.rdma.connections,
        "tcp_connections": told.tcp.connections,
        "calls": told.rdma.calls + told.tcp.calls,
        "rdma_reads": told.counters.rdma_reads,
        "rdma_writes": told.counters.rdma_writes,
        "replies_long": told.counters.replies_long,
        "messages_continued": told.counters.messages_continued,
        "pieces_received": told.counters.pieces_received,
        "grants_sent": told.counters.grants_sent,
        "items_by_send": [told.counters.items_in_segments, told.counters.items_sent_in_segments],
        "reports": told.counters.reports_sent + told.counters.reports_received,
        "buffer_octets_lent": told.buffer_octets_lent,
        "repeats": vars(repeats),
        "tickets": tickets.summary(),
    }


async def main() -> None:
    top = Path(sys.argv[1])
    object_tree.NFS_GONE_MAX = GONE_MAX
    answering.ReplyCache = functools.partial(ReplyCache, age_s=KEPT_S, octets_max=KEPT_OCTETS)
    tickets, repeats = Tickets(), Repeats()
    keys = open_state(top / "state", secrets.token_bytes)
    services = build_services(
        [Export(name="/", directory=top / "export", root_squash=False, synchronous=False)], state=keys
    )
    options = ServeOptions(
        drain_s=1,
        rdma=RdmaServerConfig(rpcrdma_version=sys.argv[2]),
    )
    listen = ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]
    async with serve([*services, tickets], listen, options=options) as server:
        print(json.dumps(server.listening), flush=True)
        while command := await asyncio.to_thread(sys.stdin.readline):
            if command == "look\n":
                print(json.dumps(look()), flush=True)
            else:
                print(json.dumps(state(server, tickets, repeats)), flush=True)
    services.nfs.close()
    keys.close()


if __name__ == "__main__":
    run_async(main())
