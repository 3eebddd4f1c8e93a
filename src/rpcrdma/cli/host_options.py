"""The options for host authentication, of commands that connect and of `serve`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpcrdma.aio.host_options import HostAuthentication

__all__ = ["HOST_DEFAULTS", "add_host_options", "host_authentication"]

HOST_DEFAULTS: dict[str, Any] = {
    "host_auth": None,
    "host_cert": None,
    "host_key": None,
    "host_ca": None,
    "host_names": None,
}


def add_host_options(parser: argparse.ArgumentParser, *, serves: bool = False) -> argparse._ArgumentGroup:
    """Adds `--host-auth` and the options that it needs; their group."""
    group = parser.add_argument_group("host authentication (RPC-over-RDMA version 2)")
    add = group.add_argument
    add(
        "--host-auth",
        choices=("off", "optional", "required"),
        default=argparse.SUPPRESS,
        help="host authentication with certificates, by both hosts (default: required if another of these options is "
        "given, else off)",
    )
    add(
        "--host-cert",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="certificate of this host in PEM, followed by those of the intermediate authorities",
    )
    add(
        "--host-key",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="its private key (default: in the same file)",
    )
    add(
        "--host-ca",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="certificates of the authorities that sign the peer's certificate",
    )
    add(
        "--host-name",
        dest="host_names",
        action="append",
        metavar="NAME",
        default=argparse.SUPPRESS,
        help="DNS name, IP address or URI that a client's certificate must have; may be repeated (default: any)"
        if serves
        else "DNS name, IP address or URI that the server's certificate must have; may be repeated (default: the "
        "URL's host)",
    )
    return group


def host_authentication(args: argparse.Namespace) -> HostAuthentication:
    """The settings that the options make."""
    from rpcrdma.aio.host_options import HostAuthentication  # noqa: PLC0415

    given = {name: getattr(args, name, default) for name, default in HOST_DEFAULTS.items()}
    return HostAuthentication(
        policy=given["host_auth"],
        certificate=given["host_cert"],
        key=given["host_key"],
        authorities=given["host_ca"],
        names=tuple(given["host_names"] or ()),
    )
