"""TLS in `rpcrdma serve`: the protection that exports ask for, certificates, and the URLs to listen at."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rpcrdma.cli.export_options import Exported
from rpcrdma.cli.settings.table import DEFAULT_LISTEN
from rpcrdma.commands.options import host_authentication
from rpcrdma.rpc.host_identity import XPRTSEC_CHOICES, XprtSec

if TYPE_CHECKING:
    from rpcrdma.aio.host_options import HostAuthentication

__all__ = ["hosts_of", "least_protection", "listen_at", "weakest_protection"]


def weakest_protection(exports: Sequence[Exported]) -> XprtSec:
    """Returns the least TLS protection (none, tls, mtls) with which any of `exports` admits calls; "none" if empty."""
    return min((export.least_protection for export in exports), key=XPRTSEC_CHOICES.index, default="none")


def least_protection(exports: Sequence[Exported]) -> XprtSec:
    """Returns the least TLS protection with which the server answers any call over TCP, MOUNT included.

    It is `weakest_protection`, or "none" if an export permits MOUNT in the clear (`mount_in_clear`).
    """
    return "none" if any(export.mount_in_clear for export in exports) else weakest_protection(exports)


def hosts_of(args: argparse.Namespace) -> HostAuthentication:
    """Returns the server's certificates, authorities and policy, from the settings in `args`.

    Unless `host-auth` says otherwise, they are for TLS alone if an export asks for TLS or there are no authorities;
    otherwise also for host authentication over RDMA.
    """
    in_tls = any(rule.xprtsec != "none" for export in args.exports for rule in export.admitting)
    hosts = host_authentication(args, in_tls=in_tls)
    return hosts if in_tls or hosts.authorities is not None else host_authentication(args, in_tls=True)


def listen_at(args: argparse.Namespace) -> list[str]:
    """Returns the URLs `args.listen`; by default tcp:// at loopback, and rdma:// unless all exports want TLS."""
    if args.listen:
        return [str(url) for url in args.listen]
    return [url for url in DEFAULT_LISTEN if url.startswith("tcp://") or weakest_protection(args.exports) == "none"]
