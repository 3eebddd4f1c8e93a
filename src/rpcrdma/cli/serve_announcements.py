"""What `rpcrdma serve` says of itself: lines for people, or with --json one JSON object for each event."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpcrdma.cli.export_options import Exported
from rpcrdma.cli.serve_protection import hosts_of
from rpcrdma.commands import console
from rpcrdma.rpc.gss.flavors import SecurityFlavor

if TYPE_CHECKING:
    from rpcrdma.aio.server.metrics import MetricsExporter
    from rpcrdma.aio.server.serve import Server

__all__ = ["announce", "announce_event", "announce_export"]

_LOGGER = logging.getLogger("rpcrdma.server")
_NFS_PORT = 2049
"""The port of NFS over TCP: rpc.gssd makes contexts there, for mounts over RDMA as well (RFC 8166 section 8.2.2.1)."""


def announce(
    args: argparse.Namespace,
    exports: list[Exported],
    server: Server,
    metrics: MetricsExporter | None,
    *,
    as_callers: bool,
) -> None:
    """Announces where a server listens, its metrics and its exports, and hints at what clients will lack over TCP.

    With `args.json`, events are put into `args.events`, and there are no hints. Without it, the addresses and the
    metrics are printed on standard output (under systemd in the journal) and the hints on standard error; exports are
    logged at level INFO. Raises OSError if standard output refuses the text.

    Args:
        args: the settings.
        exports: the exports that are served now.
        server: the running server.
        metrics: the exporter of metrics; None without one.
        as_callers: whether calls act with the rights of their callers, as they do where root runs the server.
    """
    for url in server.listening:
        used = server.providers[url]
        if args.json:
            providers = [each._asdict() for each in used]
            args.events.put({"event": "listening", "url": url, "providers": providers})
        else:
            over = f" over {' and '.join(map(str, used))}" if used else ""
            console.announce(f"listening at {url}{over}")
    if metrics is not None:
        if args.json:
            args.events.put({"event": "metrics", "url": metrics.url})
        else:
            console.announce(f"metrics at {metrics.url}")
    for export in exports:
        announce_export(args, export, as_callers=as_callers)
    if hosts_of(args).wanted.value == "required" and not args.json:
        console.talk("hosts have to authenticate themselves: over TCP there is nothing without --xprtsec mtls")
    proved = any(flavor.service is not None for export in args.exports for flavor in export.security)
    over_rdma = any(url.startswith("rdma://") for url in server.listening)
    at_nfs_port = any(url.startswith("tcp://") and url.endswith(f":{_NFS_PORT}") for url in server.listening)
    if proved and over_rdma and not at_nfs_port and not args.json:
        console.talk(
            f"hint: Linux clients of rdma:// prove users over TCP at port {_NFS_PORT}: add --listen tcp://HOST"
        )
    over_tcp = any(url.startswith("tcp://") for url in server.listening)
    if "4" not in args.nfs and not over_tcp and not args.json:
        console.talk("hint: Linux clients ask MOUNT over TCP alone: add --listen tcp://HOST:20048")
    console.write(flush=True)


def announce_export(args: argparse.Namespace, export: Exported, *, as_callers: bool) -> None:
    """Announces an export that is served from now on: its name, its directory or URL, and the terms of its use.

    Args:
        args: the settings; with `args.json` an event is put into `args.events`, else a line is logged at level INFO.
        export: the export.
        as_callers: whether calls act with the rights of their callers, as they do where root runs the server.
    """
    directory, is_local = export.shown, isinstance(export.source, Path)
    mode = {"rw": "read-write", "ro": "read-only", "none": "no-access"}[export.most_access]
    security = [str(flavor) for flavor in export.security if flavor is not SecurityFlavor.NONE]
    announce_event(
        args,
        {
            "event": "exported",
            "name": export.name,
            "directory": directory,
            "mode": mode,
            "security": security,
            "acts_as_caller": as_callers and is_local,
            "root_squash": as_callers and is_local and all(rule.squash != "none" for rule in export.admitting),
            "xprtsec": export.least_protection,
            "rules": len(export.rules),
        },
        f"exporting {directory} as {export.name}, {mode}{_proof(security)}{_in_tls(export)}{_by_rules(export)}; "
        f"{_acting(export, as_callers=as_callers)}",
    )


def _by_rules(export: Exported) -> str:
    count = len(export.rules)
    return f", by {count} {'rule' if count == 1 else 'rules'}" if count else ""


def _in_tls(export: Exported) -> str:
    words = {"none": "", "tls": ", over TLS alone", "mtls": ", over TLS with a certificate of the client alone"}
    return words[export.least_protection]


def _proof(security: list[str]) -> str:
    return "" if security == ["sys"] else f", sec={':'.join(security)}"


def _acting(export: Exported, *, as_callers: bool) -> str:
    if export.most_access == "none":
        return "everybody is refused"
    if not isinstance(export.source, Path):
        return "everybody may read all"
    if not as_callers:
        return f"everybody acts as user {os.geteuid()}"
    if len({(rule.squash, rule.anonuid) for rule in export.admitting}) > 1:
        return "callers act as the rule for them says"
    return {
        "root": "callers act as themselves, root as nobody",
        "none": "callers act as themselves, root too",
        "all": f"everybody acts as user {export.admitting[0].anonuid}",
    }[export.admitting[0].squash]


def announce_event(args: argparse.Namespace, event: dict[str, Any], text: str) -> None:
    """Announces an event: with `args.json` it puts `event` into `args.events`, else it logs `text` at level INFO."""
    if args.json:
        args.events.put(event)
    else:
        _LOGGER.info("%s", text, extra=console.NOTICE)
