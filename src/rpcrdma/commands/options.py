"""Options that several commands share, and the settings of a connection that they make."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rpcrdma.commands.arguments import host_and_port, microseconds, port_number, seconds
from rpcrdma.commands.setting import Renewal, Setting, ValueType
from rpcrdma.rpc.gss.flavors import SECURITY_NAMES

if TYPE_CHECKING:
    from rpcrdma.aio.client.connect import ConnectOptions
    from rpcrdma.aio.host_options import HostAuthentication

__all__ = [
    "BUSY_POLL",
    "CRC",
    "EXTENSION",
    "HOSTS_TITLE",
    "HOST_AUTH",
    "LOG_LEVEL",
    "LOG_LEVELS",
    "MOUNT_IN_CLEAR",
    "PROVIDER",
    "RPCRDMA_VERSION",
    "SHARED_DEFAULTS",
    "TLS_CA",
    "TLS_CERT",
    "TLS_KEY",
    "TLS_NAME",
    "VERSIONS",
    "XPRTSEC",
    "XPRTSEC_WORDS",
    "add_exclude",
    "add_host_options",
    "add_json",
    "add_shared_options",
    "connect_options",
    "host_authentication",
    "log_level",
]

LOG_LEVELS = ("debug", "info", "warning", "error")

VERSIONS = ("auto", "1", "2")
"""`rpcrdma.transport.VERSION_CHOICES`, which --help would take long to import; a test compares them."""

XPRTSEC_WORDS = ("none", "tls", "mtls")
"""`rpcrdma.rpc.host_identity.XPRTSEC_CHOICES`; a test compares them."""

HOSTS_TITLE = "certificates of hosts (TLS over TCP, host authentication over RDMA)"
"""The title of the options about certificates in a help."""

LOG_LEVEL = Setting(
    name="log-level",
    choices=LOG_LEVELS,
    default_text="warning; serve: info",
    example="info",
    help="the least severe messages that go to standard error",
    renewal=Renewal.HANG_UP,
)
PROVIDER = Setting(
    name="provider",
    choices=("auto", "iwarp", "verbs"),
    default="auto",
    default_text="auto",
    help="RDMA provider: iwarp is the software RNIC over TCP, verbs the RDMA devices of this machine; auto takes "
    "verbs where a device reaches the address, else iwarp",
)
BUSY_POLL = Setting(
    name="busy-poll",
    kind=ValueType.NUMBER,
    parse=microseconds,
    default=0,
    default_text="0, at most 1000000",
    metavar="MICROSECONDS",
    help="RDMA devices: look for completions for so long before sleeping, for less latency and more processor time",
)
RPCRDMA_VERSION = Setting(
    name="rpcrdma-version",
    choices=VERSIONS,
    default="auto",
    default_text="auto",
    metavar="VERSION",
    help=f"version of RPC-over-RDMA: {', '.join(VERSIONS)}; auto takes the newest that the server speaks",
)
EXTENSION = Setting(
    name="extension",
    choices=("auto", "rtr", "off"),
    default="auto",
    default_text="auto",
    metavar="CHOICE",
    help="round-trip extension of version 2: auto uses it for calls that it makes faster, rtr for all bulk data that "
    "it can carry, off never",
)
CRC = Setting(
    name="crc",
    kind=ValueType.SWITCH,
    default=True,
    option="--no-crc",
    constant=False,
    help="do not ask for the software RNIC's CRC32C, where another layer protects the data as well, or the peer "
    "has none (Linux siw); the CRC is used nevertheless if the peer asks for it",
)
XPRTSEC = Setting(
    name="xprtsec",
    choices=XPRTSEC_WORDS,
    default="none",
    default_text="none",
    help="protection of connections over TCP: TLS, or TLS with a certificate of this host as well; never less than "
    "that",
)
MOUNT_IN_CLEAR = Setting(
    name="mount-in-clear",
    kind=ValueType.SWITCH,
    default=False,
    constant=True,
    help="with --xprtsec, ask MOUNT in the clear, as Linux servers need it; NFS stays in TLS",
)
TLS_CERT = Setting(
    name="tls-cert",
    also=("--host-cert",),
    attribute="host_cert",
    parse=Path,
    metavar="FILE",
    help="certificate of this host in PEM, followed by those of the intermediate authorities",
)
TLS_KEY = Setting(
    name="tls-key",
    also=("--host-key",),
    attribute="host_key",
    parse=Path,
    metavar="FILE",
    default_text="in the same file",
    help="its private key",
)
TLS_CA = Setting(
    name="tls-ca",
    also=("--host-ca",),
    attribute="host_ca",
    parse=Path,
    metavar="FILE",
    help="certificates of the authorities that sign the peer's certificate (default for TLS: those of the system)",
)
TLS_NAME = Setting(
    name="tls-name",
    also=("--host-name",),
    attribute="host_names",
    many=True,
    metavar="NAME",
    default_text="the URL's host",
    help="DNS name, IP address or URI that the server's certificate must have; may be repeated",
)
HOST_AUTH = Setting(
    name="host-auth",
    choices=("off", "optional", "required"),
    default_text="required if there are certificates and nothing asks for --xprtsec, else off",
    help="host authentication in version 2 of RPC-over-RDMA, by both hosts",
)

_HOST_DEFAULTS: dict[str, Any] = dict.fromkeys(("host_auth", "host_cert", "host_key", "host_ca", "host_names"))
SHARED_DEFAULTS: Final[Mapping[str, Any]] = {
    **{
        each.dest: each.default
        for each in (PROVIDER, BUSY_POLL, RPCRDMA_VERSION, EXTENSION, CRC, LOG_LEVEL, XPRTSEC, MOUNT_IN_CLEAR)
    },
    **_HOST_DEFAULTS,
    "mount_port": None,
    "reserved_port": False,
    "sec": None,
    "timeout": None,
    "connect_timeout": None,
    "pcap": None,
    "client_metrics": None,
    "verbose": 0,
    "beside_errors": {},
}
"""The values of options that no command line has set."""


def add_shared_options(
    parser: argparse.ArgumentParser, *, top: bool = False, connects: bool = True, shown: bool = False
) -> None:
    """Adds the options that may stand before or after a command's name to a parser: of connections, and of logging.

    An option that a command line lacks leaves its attribute unset; the parser of the whole command line sets that to
    its value in `SHARED_DEFAULTS`.

    Args:
        parser: The parser of a command, or of all commands.
        top: Whether `parser` is that of all commands, whose help always has the options of logging.
        connects: Whether to add the options of connections.
        shown: Whether the help shows the options of a command that connects; False: it names `rpcrdma help connection`
            instead.
    """
    groups = []
    if connects:
        connection = parser.add_argument_group("connection", argument_default=argparse.SUPPRESS)
        _add_connection_options(connection)
        groups += [connection, add_host_options(parser)]
    logging = _add_logging_options(parser)
    if not top:
        groups.append(logging)
    if connects and not shown:
        for group in groups:
            for action in group._group_actions:  # noqa: SLF001 - argparse has no public list of them
                action.help = argparse.SUPPRESS
        groups[0].description = "rpcrdma help connection shows the options of the connection and of logging"


def log_level(args: argparse.Namespace) -> str:
    """Returns the name of the `logging` level ("INFO") that `--log-level`, or else `-v`, asks for.

    Without both it is INFO for the command `serve`, WARNING for others.
    """
    default = "info" if args.command == "serve" else "warning"
    return str(args.log_level or {0: default, 1: "info"}.get(args.verbose, "debug")).upper()


def _add_logging_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("logging", argument_default=argparse.SUPPRESS)
    LOG_LEVEL.add_to(group)
    group.add_argument(
        "-v",
        "--verbose",
        action="count",
        help="log more: -v is info (connections, mounts), -vv debug (each call of a client)",
    )
    return group


def _add_connection_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    for setting in (PROVIDER, BUSY_POLL, RPCRDMA_VERSION, EXTENSION):
        setting.add_to(group)
    add(
        "--mount-port",
        type=port_number,
        metavar="PORT",
        help="TCP port of the MOUNT service (default: the address of NFS; if refused there, 20048, or the port "
        "that rpcbind names)",
    )
    add(
        "--sec",
        choices=SECURITY_NAMES,
        help="security flavor: krb5 proves the user with Kerberos, krb5i also protects data from changes, krb5p "
        "encrypts, sys does none of these (default: the first of the export's flavors for which there is a ticket, or "
        "sys; sys where there is no export)",
    )
    add(
        "--reserved-port",
        action="store_true",
        help="connect from a port below 1024, as Linux servers demand unless they export with `insecure`; needs root",
    )
    CRC.add_to(group)
    add(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="how long to wait for each reply (default: 60); after 3 s without any a warning is printed; an NFS server "
        "that replies that it is not ready, as after a restart, is asked again for up to 200 s",
    )
    add(
        "--connect-timeout",
        type=seconds,
        metavar="SECONDS",
        help="how long to wait for the connection (default: 10, or what --timeout says)",
    )
    add("--pcap", type=Path, metavar="FILE", help="record the RDMA connections for Wireshark; needs no privileges")
    add(
        "--client-metrics",
        type=host_and_port,
        metavar="HOST:PORT",
        help="offer call statistics to Prometheus and `rpcrdma stats` while the command runs; port 0: a free one",
    )


def add_host_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Adds `--xprtsec`, `--host-auth` and the options for certificates to a parser; returns their group."""
    group = parser.add_argument_group(HOSTS_TITLE, argument_default=argparse.SUPPRESS)
    for setting in (XPRTSEC, MOUNT_IN_CLEAR, TLS_CERT, TLS_KEY, TLS_CA, TLS_NAME, HOST_AUTH):
        setting.add_to(group)
    return group


def host_authentication(args: argparse.Namespace, *, in_tls: bool = False) -> HostAuthentication:
    """Returns the certificates, trust and policy of this host that parsed arguments set; missing options are unset.

    `in_tls`: whether the certificates are for TLS, so that host authentication over RDMA is off unless `--host-auth`
    says otherwise.
    """
    from rpcrdma.aio.host_options import HostAuthentication  # noqa: PLC0415

    given = {name: getattr(args, name, default) for name, default in _HOST_DEFAULTS.items()}
    policy = given["host_auth"]
    if policy is None and in_tls:
        policy = "off"
    return HostAuthentication(
        policy=policy,
        certificate=given["host_cert"],
        key=given["host_key"],
        authorities=given["host_ca"],
        names=tuple(given["host_names"] or ()),
    )


def add_exclude(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the option `--exclude`, which may be repeated, to a parser; `what` is the beginning of the option's help."""
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help=f"{what} whose name matches PATTERN (*, ?, [...]), with all entries below; a PATTERN with a slash, "
        "other than at its end, is compared with the path from the top of the tree; may be repeated",
    )


def add_json(parser: argparse.ArgumentParser, what: str = "the result as one JSON object") -> None:
    """Adds the switch `--json` to a parser; `what` describes the output with this option, for the option's help."""
    parser.add_argument("--json", action="store_true", help=f"print {what}")


def connect_options(args: argparse.Namespace) -> ConnectOptions:
    """Returns the `ConnectOptions` that the shared options of a command make.

    Args:
        args: The parsed arguments of a command that connects. Its attributes `capture`, an open packet capture, and
            `metrics_told`, the object that gets the metrics of connections, may be missing or None.
    """
    from rpcrdma.aio.client.connect import ConnectOptions  # noqa: PLC0415
    from rpcrdma.commands.call_log import call_logger  # noqa: PLC0415
    from rpcrdma.iwarp import IwarpConfig  # noqa: PLC0415
    from rpcrdma.verbs.device_config import VerbsConfig  # noqa: PLC0415

    times_s = {"connect_timeout_s": args.connect_timeout or args.timeout, "call_timeout_s": args.timeout}
    return ConnectOptions(
        provider=args.provider,
        reserved_port=args.reserved_port,
        capture=getattr(args, "capture", None),
        metrics=getattr(args, "metrics_told", None),
        on_call=call_logger(),
        iwarp=IwarpConfig(crc=args.crc),
        xprtsec=args.xprtsec,
        mount_in_clear=args.mount_in_clear,
        host_authentication=host_authentication(args, in_tls=args.xprtsec != "none"),
        verbs=VerbsConfig(busy_poll_s=args.busy_poll / 1e6),
        rpcrdma_version=args.rpcrdma_version,
        extension=args.extension,
        security=args.sec,
        **{name: time_s for name, time_s in times_s.items() if time_s is not None},
    )
