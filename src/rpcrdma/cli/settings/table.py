"""The table of all settings of `rpcrdma serve`: its parser, its configuration file and their documentation use it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from rpcrdma.cli.export_options import (
    SQUASHED,
    absolute_export_name,
    certificate_name,
    default_state_dir,
    directory_path,
    fsspec_url,
    host_or_network,
    parse_security,
    principal,
)
from rpcrdma.cli.settings.credentials import credential_or_path
from rpcrdma.commands import octets
from rpcrdma.commands.arguments import (
    group_number,
    host_and_port,
    listening_url,
    positive_count,
    seconds,
    seconds_or_never,
    user_number,
)
from rpcrdma.commands.options import (
    BUSY_POLL,
    CRC,
    EXTENSION,
    HOST_AUTH,
    LOG_LEVEL,
    MOUNT_IN_CLEAR,
    PROVIDER,
    RPCRDMA_VERSION,
    TLS_CA,
    TLS_CERT,
    TLS_KEY,
    TLS_NAME,
    VERSIONS,
    XPRTSEC,
)
from rpcrdma.commands.setting import Renewal, Setting, ValueType
from rpcrdma.limits import (
    BUFFER_OCTETS_MAX,
    CONNECTIONS_OF_HOST_MIN,
    CONNECTIONS_OF_HOST_PARTS,
    RDMA_IDLE_S,
    RPC_CONNECTIONS_MAX,
    RPC_IDLE_S,
    SERVER_WORKERS,
)
from rpcrdma.nfs.export.export_limits import NFS_FSSPEC_VALID_S
from rpcrdma.rpc.host_identity import TRANSPORTS

__all__ = [
    "ADMIN", "AUDIT_KINDS", "DEFAULT_LISTEN", "HOST_SETTINGS", "NAME_OF_EXPORT", "OF_EXPORTS", "OF_RULES", "OF_SERVER",
    "SOURCES_OF_EXPORT", "STATE_DIR",
]  # fmt: skip

DEFAULT_LISTEN: Final = ("rdma://127.0.0.1:20049", "tcp://127.0.0.1:20048")
"""The URLs at which a server listens by default."""
_MEMORY_MIN: Final = 8 << 20
"""Room for a few calls of the largest size, in octets."""


def _memory(text: str) -> int:
    size = octets(text)
    if size < _MEMORY_MIN:
        raise argparse.ArgumentTypeError(f"{text!r} is too small; allow at least {_MEMORY_MIN >> 20}Mi")
    return size


def _path_or(*words: str) -> Callable[[str], Path | str]:
    """Returns a parser of option values, which returns a text in `words` as it is, and any other as a `Path`."""
    return lambda text: text if text in words else Path(text)


AUDIT_KINDS: Final = ("mount", "refused", "create", "remove", "rename", "setattr")
"""The kinds of records, as `rpcrdma.nfs.server.audit` has them, which the parser does not import."""

_ANONYMOUS: Final = 65534
"""The user and group nobody, as `rpcrdma.nfs.export` has them, which the parser does not import."""

_HOSTS = replace(
    TLS_NAME,
    parse=certificate_name,
    default_text="any",
    help="DNS name, IP address or URI that a client's certificate must have; may be repeated",
)


def _of_unit(setting: Setting) -> Setting:
    """Returns a copy of a setting whose value is a file's path; the copy accepts credential:NAME (systemd) as well."""
    return replace(
        setting,
        parse=credential_or_path,
        help=f"{setting.help}; credential:NAME is the file of LoadCredential=NAME:FILE in the unit of systemd",
    )


HOST_SETTINGS: Final = (
    _of_unit(replace(TLS_CERT, renewal=Renewal.CONTENT)),
    _of_unit(replace(TLS_KEY, renewal=Renewal.CONTENT)),
    _of_unit(
        replace(
            TLS_CA, help="certificates of the authorities that sign the peer's certificate", renewal=Renewal.CONTENT
        )
    ),
    _HOSTS,
    HOST_AUTH,
)
"""Settings of the server about certificates."""

STATE_DIR: Final = Setting(
    name="state-dir",
    parse=Path,
    metavar="DIR",
    default=default_state_dir,
    default_text="$XDG_STATE_HOME/rpcrdma, /var/lib/rpcrdma for root",
    help="where to keep the key of the file handles and clients of version 4",
)


ADMIN: Final = Setting(
    name="admin",
    parse=_path_or("off"),
    metavar="PATH",
    default_text="admin.sock in the directory of state-dir",
    help="the local socket at which the server answers rpcrdma admin, for its owner and root alone; off: none",
)

OF_SERVER: Final[tuple[Setting, ...]] = (
    Setting(
        name="listen",
        parse=listening_url,
        many=True,
        metavar="URL",
        renewal=Renewal.HANG_UP,
        default_text=f"{' and '.join(DEFAULT_LISTEN)}; with --xprtsec the latter alone",
        example=DEFAULT_LISTEN,
        help="where to listen, port 0 for a free one; [::] is every address, of IPv4 as well; ?provider=NAME at the "
        "end of rdma:// goes before --provider; may be repeated",
    ),
    Setting(
        name="nfs",
        choices=("3,4", "3", "4"),
        default="3,4",
        default_text="3,4",
        metavar="VERSIONS",
        help="versions of NFS: 3 with MOUNT, 4 (4.1 and 4.2) with locks, or 3,4",
    ),
    STATE_DIR,
    ADMIN,
    _of_unit(
        Setting(
            name="keytab",
            metavar="FILE",
            default_text="the system's, /etc/krb5.keytab",
            help="keys of the Kerberos principal nfs/HOST",
        )
    ),
    PROVIDER,
    BUSY_POLL,
    replace(
        RPCRDMA_VERSION,
        help=f"version of RPC-over-RDMA: {', '.join(VERSIONS)}; auto speaks the version of each client, any other "
        "choice is the only version spoken",
    ),
    replace(
        EXTENSION, help="round-trip extension of version 2: auto and rtr offer it, and the client chooses; off does not"
    ),
    replace(CRC, file_help="whether the software RNIC asks for its CRC32C"),
    Setting(
        name="workers",
        kind=ValueType.NUMBER,
        parse=positive_count,
        metavar="N",
        default=SERVER_WORKERS,
        default_text=str(SERVER_WORKERS),
        help="threads for file system calls that block",
    ),
    Setting(
        name="connections",
        kind=ValueType.NUMBER,
        parse=positive_count,
        metavar="N",
        default=RPC_CONNECTIONS_MAX,
        default_text=str(RPC_CONNECTIONS_MAX),
        renewal=Renewal.HANG_UP,
        help="the largest number of client connections, for RDMA and for TCP each",
    ),
    Setting(
        name="connections-per-host",
        kind=ValueType.NUMBER,
        parse=positive_count,
        metavar="N",
        renewal=Renewal.HANG_UP,
        default_text=f"1/{CONNECTIONS_OF_HOST_PARTS} of --connections, at least {CONNECTIONS_OF_HOST_MIN}",
        example=RPC_CONNECTIONS_MAX // CONNECTIONS_OF_HOST_PARTS,
        help="the largest number of connections of one address, for RDMA and for TCP each",
    ),
    Setting(
        name="calls-per-host",
        kind=ValueType.NUMBER,
        parse=positive_count,
        metavar="N",
        renewal=Renewal.HANG_UP,
        default_text=f"none; hosts take turns, and leave one of {SERVER_WORKERS} threads to others",
        example=SERVER_WORKERS // 2,
        help="the largest number of calls of one host that have a thread at a time, of all its connections; further "
        "ones wait; an IPv6 network of 64 bits is one host",
    ),
    Setting(
        name="idle-timeout",
        kind=ValueType.SECONDS,
        parse=seconds_or_never,
        metavar="SECONDS",
        default_text=f"{RDMA_IDLE_S:g} for RDMA, {RPC_IDLE_S:g} for TCP",
        example=int(RDMA_IDLE_S),
        renewal=Renewal.HANG_UP,
        help="end connections that are idle for this long, 0: never",
    ),
    Setting(
        name="memory",
        kind=ValueType.SIZE,
        parse=_memory,
        metavar="SIZE",
        default=BUFFER_OCTETS_MAX,
        default_text=f"{BUFFER_OCTETS_MAX >> 20}Mi, at least {_MEMORY_MIN >> 20}Mi",
        renewal=Renewal.INCREASE,
        help="memory for the data of all calls in progress, for arguments and for results each; further calls wait",
    ),
    Setting(
        name="register",
        choices=("auto", "yes", "no"),
        default="auto",
        default_text="auto",
        help="register NFS and MOUNT at rpcbind, which tells clients of version 3 the ports: auto if the server runs "
        "as root and other machines reach it, with a warning if that fails; yes in any case, and without success the "
        "server does not start",
    ),
    Setting(
        name="metrics",
        parse=host_and_port,
        metavar="HOST:PORT",
        help="offer statistics to Prometheus at /metrics there; /healthz is 200 while the server takes calls, "
        '/readyz while its exports with missing = "fail" are there as well; port 0 for a free one (needs the package '
        "prometheus-client)",
    ),
    Setting(
        name="access-log",
        parse=_path_or("off", "journal"),
        metavar="FILE",
        default="off",
        default_text="off",
        renewal=Renewal.HANG_UP,
        help="write a line of JSON for each mount, change of a name or of attributes, and refused call to FILE, or to "
        "the journal of systemd (journal); a file that is renamed is made anew",
    ),
    Setting(
        name="audit",
        choices=AUDIT_KINDS,
        many=True,
        metavar="KIND",
        default=AUDIT_KINDS,
        default_text="all",
        renewal=Renewal.HANG_UP,
        help=f"the calls in the access log: {', '.join(AUDIT_KINDS)}; may be repeated",
        file_help=f"the calls in the access log: {', '.join(AUDIT_KINDS)}",
    ),
    *HOST_SETTINGS,
    LOG_LEVEL,
)
"""The settings of the whole server."""

NAME_OF_EXPORT: Final = Setting(
    name="name",
    parse=absolute_export_name,
    option=None,
    help="the name under which clients mount the export: /NAME, or / for the root",
    renewal=Renewal.HANG_UP,
)
SOURCES_OF_EXPORT: Final = (
    Setting(
        name="directory",
        parse=directory_path,
        option=None,
        help="the directory of this machine",
        renewal=Renewal.HANG_UP,
    ),
    Setting(
        name="url",
        parse=fsspec_url,
        option=None,
        help="the URL of a file system of fsspec, which is read-only",
        renewal=Renewal.HANG_UP,
    ),
)
"""The settings of which an export has exactly one."""


def _taken_at_once(*settings: Setting) -> tuple[Setting, ...]:
    """Returns copies of settings, marked so that a running server takes changed values at SIGHUP, without a restart."""
    return tuple(replace(setting, renewal=Renewal.HANG_UP) for setting in settings)


_OF_EXPORTS_AND_RULES: Final[tuple[Setting, ...]] = (
    Setting(
        name="access",
        choices=("rw", "ro", "none"),
        default="rw",
        option="--read-only",
        constant="ro",
        help="export read-only",
        file_help="rw: clients may change files; ro: they may only read them; none: they are refused",
    ),
    Setting(
        name="squash",
        choices=SQUASHED,
        default="root",
        option="--no-root-squash",
        constant="none",
        help="grant root's rights to callers with UID 0 (default: those of the user nobody)",
        file_help="callers that act as the anonymous user: root, all, or none",
    ),
    Setting(
        name="anonuid",
        kind=ValueType.ACCOUNT,
        parse=user_number,
        default=_ANONYMOUS,
        default_text=str(_ANONYMOUS),
        option=None,
        help="the name or number of the user as which squashed callers act",
    ),
    Setting(
        name="anongid",
        kind=ValueType.ACCOUNT,
        parse=group_number,
        default=_ANONYMOUS,
        default_text=str(_ANONYMOUS),
        option=None,
        help="the name or number of the group as which squashed callers act",
    ),
    Setting(
        name="sec",
        parse=parse_security,
        separator=":",
        metavar="FLAVORS",
        default_text="sys",
        example=("sys",),
        help="security flavors of exports without their own, the preferred first, such as krb5p:krb5i; krb5 proves "
        "users, krb5i protects data from changes, krb5p encrypts, sys does none of these",
        file_help="security flavors, the preferred first: krb5 proves users, krb5i protects data from changes, krb5p "
        "encrypts, sys does none of these",
    ),
    replace(
        XPRTSEC,
        default_text="none; TLS is offered if there is a certificate",
        help="the least protection of connections over TCP: TLS, or TLS with a certificate of the client as well; an "
        "export may ask for its own",
        file_help="the least protection of connections over TCP: TLS, or TLS with a certificate of the client as well",
    ),
    Setting(
        name="hosts",
        many=True,
        parse=host_or_network,
        metavar="HOST/NET",
        option="--allow",
        default=(),
        default_text="all",
        example=("*",),
        help="let only these addresses, networks or hosts mount; may be repeated",
        file_help='the addresses, networks and names of hosts that the rule is for, or "*" for all; those of an export '
        "itself are for its last rule",
    ),
)
"""The settings that an export and each of its rules may have."""

OF_RULES: Final = _taken_at_once(
    *_OF_EXPORTS_AND_RULES,
    Setting(
        name="principals",
        many=True,
        parse=principal,
        option=None,
        default_text="all callers",
        help="the Kerberos principals that the rule is for: user@REALM, or *@REALM for all of a realm",
    ),
    Setting(
        name="certificates",
        many=True,
        parse=certificate_name,
        option=None,
        default_text="all hosts",
        help="the names that the rule is for: the certificate of the client's host has one of these DNS names, IP "
        "addresses or URIs",
    ),
)
"""The settings of one rule; those that it leaves out come from its export, and those for callers hold for all."""

OF_EXPORTS: Final = _taken_at_once(
    *_OF_EXPORTS_AND_RULES,
    Setting(
        name="sync",
        kind=ValueType.SWITCH,
        default=True,
        option="--async",
        constant=False,
        help="answer before new names and attributes are on the disk: faster, but lost if the machine fails",
        file_help="whether new names and attributes are on the disk before the reply; otherwise they are lost if the "
        "machine fails",
    ),
    replace(MOUNT_IN_CLEAR, help="answer MOUNT in the clear for exports that ask for TLS, as Linux clients need it"),
    Setting(
        name="transports",
        many=True,
        choices=TRANSPORTS,
        default=TRANSPORTS,
        default_text="both",
        option=None,
        help="the transports over which NFS serves the export: tcp, rdma; MOUNT serves it over both",
    ),
    Setting(
        name="versions",
        many=True,
        kind=ValueType.NUMBER,
        parse=int,
        choices=("3", "4"),
        default=(3, 4),
        default_text="both",
        option=None,
        help="the versions of NFS that serve the export: 3 with MOUNT, and 4 for 4.1 and 4.2",
    ),
    Setting(
        name="hidden",
        kind=ValueType.SWITCH,
        default=False,
        default_text="false",
        option=None,
        help="leave the export out of the list of exports, and out of listings of the directory above it; clients that "
        "know its name may mount it",
    ),
    Setting(
        name="reserved-port",
        kind=ValueType.SWITCH,
        default=False,
        default_text="false",
        option=None,
        help="take calls over TCP that prove no user from ports below 1024 alone, as exports(5) does by default",
    ),
    Setting(
        name="groups",
        choices=("client", "server"),
        default="client",
        default_text="client",
        option=None,
        help="the groups of users without Kerberos: client takes those of the call, which are 16 at most; server takes "
        "those of the user database of the server, which must run as root",
    ),
    Setting(
        name="fsspec-valid",
        kind=ValueType.SECONDS,
        parse=seconds,
        metavar="SECONDS",
        default=NFS_FSSPEC_VALID_S,
        default_text=f"{NFS_FSSPEC_VALID_S:g}",
        help="how long names, sizes and times of a URL's objects are used before they are asked for again; a change "
        "of an object is seen after at most this time",
    ),
    Setting(
        name="mount-point",
        kind=ValueType.SWITCH,
        default=False,
        default_text="false",
        option=None,
        help="serve the directory only while a file system is mounted there",
    ),
    Setting(
        name="missing",
        choices=("skip", "fail"),
        default="skip",
        default_text="skip",
        option=None,
        help="without the directory, the store or the address of a host: skip serves the other exports, and this one "
        "when it is there; fail starts no server",
    ),
)
"""The settings of one export; an option of the command line, and `[defaults]` in a file, sets it for all exports."""
