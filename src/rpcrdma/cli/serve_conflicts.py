"""Settings with which `rpcrdma serve` cannot do what they say, though each alone is valid: its start refuses them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from rpcrdma.cli.serve_protection import hosts_of, listen_at, weakest_protection
from rpcrdma.commands import describe
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.limits import RPC_CONNECTIONS_MAX

__all__ = ["Conflict", "conflicts"]


class Conflict(NamedTuple):
    """A conflict between settings: the `setting` to blame, the cause, and the remedy, both with options (--tls-ca).

    The setting is one of the server, or "xprtsec", which exports and rules have.
    """

    setting: str
    cause: str
    remedy: str


def conflicts(args: argparse.Namespace) -> Iterator[Conflict]:
    """Yields a conflict for each setting that cannot take effect with the others.

    Such a setting requires one that is missing, is not possible beside another one, or needs more open files than this
    process may have. `args` are parsed arguments with the values of all settings, and `exports`, which may be empty.
    """
    yield from _conflicts_of_hosts(args)
    yield from _conflicts_of_connections(args.connections)
    if args.pcap is not None:
        yield from _conflicts_of_capture(args)


def _conflicts_of_hosts(args: argparse.Namespace) -> Iterator[Conflict]:
    from rpcrdma.aio.host_options import NO_TLS_OVER_RDMA  # noqa: PLC0415 - only where TLS is wanted

    wanted = [rule.xprtsec for export in args.exports for rule in export.admitting]
    hosts = hosts_of(args)
    asks_for_hosts = hosts.policy in {"optional", "required"}
    name_authorities = "name the file of theirs (--tls-ca)"
    if weakest_protection(args.exports) != "none" and any(url.startswith("rdma://") for url in listen_at(args)):
        cause, _, remedy = NO_TLS_OVER_RDMA.partition("; ")
        yield Conflict("xprtsec", f"--xprtsec is for tcp://: {cause}", f"leave out --listen rdma://, or {remedy}")
    if hosts.certificate is None:
        name_files = "name its files (--tls-cert, --tls-key)"
        if any(choice != "none" for choice in wanted):
            yield Conflict("xprtsec", "TLS takes a certificate of this host", name_files)
        if hosts.key is not None:
            yield Conflict("tls-key", "the certificate of the key is missing", "name its file (--tls-cert)")
        if hosts.authorities is not None:
            cause = "a server that judges hosts by authorities takes a certificate of its own"
            yield Conflict("tls-ca", cause, name_files)
        if asks_for_hosts:
            yield Conflict("host-auth", "host authentication takes a certificate of this host", name_files)
    if hosts.authorities is None:
        if "mtls" in wanted:
            cause = "there are no authorities that may vouch for clients"
            yield Conflict("xprtsec", cause, name_authorities)
        if hosts.names:
            # Without them clients would get in whatever their names are, even without a certificate.
            cause = "there are no authorities that may vouch for the names of clients"
            yield Conflict("tls-name", cause, name_authorities)
        if asks_for_hosts:
            cause = "host authentication takes authorities that may vouch for clients"
            yield Conflict("host-auth", cause, name_authorities)
    try:
        hosts.check_version(args.rpcrdma_version, "RdmaServerConfig")
    except HostAuthenticationFailed as error:
        message, hint, _ = describe(error)
        yield Conflict("rpcrdma-version", message, hint)


def _conflicts_of_connections(connections: int) -> Iterator[Conflict]:
    """Yields a conflict if the hard limit of open files permits no `connections` over RDMA and as many over TCP.

    Yields none for up to 1024 `connections`, the default: the server then accepts as many as the limit permits.
    """
    if connections <= RPC_CONNECTIONS_MAX:
        return
    from rpcrdma.aio.server.connection_limits import connections_permitted, descriptors_for  # noqa: PLC0415

    if connections_permitted(connections) < connections:
        cause = f"too few open files are allowed for {connections} connections of RDMA and of TCP each"
        yield Conflict("connections", cause, f"raise the hard limit: ulimit -Hn {descriptors_for(connections)}")


def _conflicts_of_capture(args: argparse.Namespace) -> Iterator[Conflict]:
    """Yields a conflict for a provider whose packets --pcap cannot record."""
    from rpcrdma.aio.urls import parse_url  # noqa: PLC0415 - only for a capture

    for url in (parse_url(text, listens=True) for text in listen_at(args)):
        if url.scheme == "rdma" and (url.provider or args.provider) == "verbs":
            setting = "provider" if url.provider is None else "listen"
            cause = "--pcap records the packets of the software RNIC alone, not those of provider verbs"
            yield Conflict(setting, cause, "leave out --pcap, or take provider iwarp")
            return
