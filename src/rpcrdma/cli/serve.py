"""`rpcrdma serve`: serves directories and file systems of fsspec by NFS versions 3, 4.1 and 4.2."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpcrdma.cli.event_loop import run_async
from rpcrdma.cli.export_options import (
    Exported,
    allowed_networks,
    default_state_dir,
    existing_directory,
    parse_export,
    parse_root,
    parse_security,
)
from rpcrdma.cli.serve_protection import (
    DEFAULT_LISTEN,
    asked_for,
    hosts_of,
    least_of,
    listen_at,
    renew_on_hang_up,
    unfit,
)
from rpcrdma.commands import CommandParser, ExitStatus, add_json, console, describe, octets
from rpcrdma.commands.arguments import host_and_port, listening_url, positive_count, seconds, seconds_or_never
from rpcrdma.commands.options import (
    add_busy_poll,
    add_extension,
    add_host_options,
    add_no_crc,
    add_provider,
    add_rpcrdma_version,
)
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed
from rpcrdma.limits import BUFFER_OCTETS_MAX, RDMA_IDLE_S, RPC_CONNECTIONS_MAX, RPC_IDLE_S
from rpcrdma.rpc.gss.flavors import SecurityFlavor

if TYPE_CHECKING:
    from rpcrdma.aio.server.metrics import MetricsExporter
    from rpcrdma.aio.server.serve import Server
    from rpcrdma.nfs.server import NfsServices, ServerState
    from rpcrdma.nfs.v4.server.service import Nfs4Service

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma serve /srv/data
  rpcrdma serve --export home=/home --export pub=/srv/pub:ro \\
      --listen rdma://0.0.0.0 --listen tcp://0.0.0.0:20048 --allow 192.0.2.0/24
  rpcrdma serve --export data=s3://bucket/prefix
  rpcrdma serve --sec krb5p:krb5i --keytab /etc/krb5.keytab /srv/data
  rpcrdma serve --read-only --json /srv/data \\
      --listen rdma://127.0.0.1:0 --listen tcp://127.0.0.1:0

access rights:
  A server that runs as a user has that user's rights for all calls. A server
  that runs as root takes the rights of each caller, and those of the user
  nobody for root unless --no-root-squash is given. With --sec sys users are
  not authenticated: serve networks that you trust, or hosts with certificates.
  With --sec krb5, krb5i and krb5p Kerberos proves them.

in TLS, for clients with a certificate of the authority:
  rpcrdma serve --xprtsec mtls --tls-cert server.pem --tls-key server-key.pem \\
      --tls-ca authority.pem --listen tcp://0.0.0.0:20048 /srv/data

a Linux client mounts it, by version 4.2:
  mount -t nfs -o rdma HOST:/ /mnt
  mount -t nfs -o proto=tcp,port=20048 HOST:/ /mnt
"""
_LOGGER = logging.getLogger("rpcrdma.server")
_NFS_PORT = 2049
"""The port of NFS over TCP: rpc.gssd makes contexts there, for mounts over RDMA as well (RFC 8166 section 8.2.2.1)."""
_WORKERS = 8
_IDLE_S = 5.0
"""How often files that are no longer in use are closed: the space of deleted ones is free only then."""
_MEMORY_MIN = 8 << 20
"""Room for a few calls of the largest size."""
_DRAIN_S = 10.0
"""Seconds for calls in progress after the server was asked to stop."""
_SWITCH_S = 0.0005
"""After how long a thread that computes makes way for another one. A call waits for that after each system call that
blocks, behind all threads that compute: Python's own 5 ms make tenths of a second of it."""


def add_arguments(parser: CommandParser) -> None:
    """Adds the command's arguments."""
    parser.describe(run, "[DIR]", _EXAMPLES, connects=False)
    add = parser.add_argument
    add("directory", nargs="?", type=parse_root, metavar="DIR", help="directory, or URL of fsspec, to export as /")
    add(
        "--export",
        action="append",
        default=[],
        type=parse_export,
        metavar="NAME=DIR[:ro][:sec=FLAVORS][:xprtsec=tls]",
        help="export DIR as /NAME, with :ro read-only, with :sec= for these security flavors, with :xprtsec=tls or "
        "mtls over connections in TLS alone; a URL of fsspec in place of DIR, such as s3://bucket/prefix, is exported "
        "read-only, and takes the package of its protocol; may be repeated",
    )
    add(
        "--fsspec-valid",
        type=seconds,
        default=argparse.SUPPRESS,
        metavar="SECONDS",
        help="how long names, sizes and times of a URL's objects are used before they are asked for again: so much "
        "later changes are seen (default: 5)",
    )
    add(
        "--listen",
        action="append",
        type=listening_url,
        metavar="URL",
        help="where to listen, port 0 for a free one; [::] is every address, of IPv4 as well; ?provider=NAME at the "
        f"end of rdma:// goes before --provider; may be repeated (default: {' and '.join(DEFAULT_LISTEN)}; with "
        "--xprtsec the latter alone)",
    )
    add(
        "--allow",
        action="append",
        default=[],
        metavar="HOST/NET",
        help="let only these addresses, networks or hosts mount; may be repeated (default: all)",
    )
    add("--read-only", action="store_true", help="export read-only")
    add(
        "--no-root-squash",
        action="store_true",
        help="grant root's rights to callers with UID 0 (default: those of the user nobody)",
    )
    add(
        "--nfs",
        choices=("3,4", "3", "4"),
        metavar="VERSIONS",
        default="3,4",
        help="versions of NFS, 3,4 or 3 or 4: 3 is version 3 with MOUNT, which the commands of this package need, 4 is "
        "4.1 and 4.2 with locks (default: %(default)s)",
    )
    add(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="where to keep the key of the file handles and clients of version 4 (default: $XDG_STATE_HOME/rpcrdma, "
        "/var/lib/rpcrdma for root)",
    )
    add(
        "--async",
        dest="asynchronous",
        action="store_true",
        help="answer before new names and attributes are on the disk: faster, but lost if the machine fails",
    )
    add(
        "--sec",
        type=parse_security,
        metavar="FLAVORS",
        help="security flavors of exports without their own, the preferred first, such as krb5p:krb5i; krb5 proves "
        "users, krb5i protects data from changes, krb5p encrypts, sys does none of these (default: sys)",
    )
    add(
        "--keytab",
        type=Path,
        metavar="FILE",
        help="keys of the Kerberos principal nfs/HOST (default: the system's, /etc/krb5.keytab)",
    )
    add_provider(parser)
    add_busy_poll(parser)
    add_rpcrdma_version(
        parser,
        "version of RPC-over-RDMA: %(choices)s; auto speaks the version of each client, any other choice "
        "is the only version spoken (default: auto)",
    )
    add_extension(
        parser,
        "round-trip extension of version 2: auto and rtr offer it, and the client chooses; off does not "
        "(default: auto)",
    )
    add_no_crc(parser)
    add_host_options(parser, serves=True)
    add(
        "--workers",
        type=positive_count,
        default=_WORKERS,
        metavar="N",
        help="threads for file system calls that block (default: %(default)s)",
    )
    add(
        "--connections",
        type=positive_count,
        default=RPC_CONNECTIONS_MAX,
        metavar="N",
        help="the largest number of client connections, for RDMA and for TCP each (default: %(default)s)",
    )
    add(
        "--idle-timeout",
        type=seconds_or_never,
        default=argparse.SUPPRESS,
        metavar="SECONDS",
        help="end connections that are idle for this long, 0: never "
        f"(default: {RDMA_IDLE_S:g} for RDMA, {RPC_IDLE_S:g} for TCP)",
    )
    add(
        "--memory",
        type=octets,
        default=BUFFER_OCTETS_MAX,
        metavar="SIZE",
        help="memory for the data of all calls in progress, for arguments and for results each; further calls wait "
        f"(default: {BUFFER_OCTETS_MAX >> 20}Mi, at least {_MEMORY_MIN >> 20}Mi)",
    )
    add(
        "--pcap",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="record all RDMA connections for Wireshark",
    )
    add(
        "--metrics",
        type=host_and_port,
        metavar="HOST:PORT",
        help="offer statistics to Prometheus at /metrics there; /healthz is 200 while the server takes calls; "
        "port 0 for a free one (needs the package prometheus-client)",
    )
    add("--stop-at-eof", action="store_true", help="stop when standard input ends, for programs that start a server")
    add_json(
        parser,
        "one JSON object a line for each event: listening, metrics, exported, connected, secured, disconnected, "
        "refused, certificates, grace, grace_over, stopping, stopped, error",
    )
    parser.set_defaults(beside_errors={"event": "error"})


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    exports = list(args.export)
    if args.directory is not None:
        exports.insert(0, args.directory)
    if not exports:
        return console.error("nothing to serve", "name a directory, or use --export NAME=DIR", status=ExitStatus.USAGE)
    names = [export.name for export in exports]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        return console.error(f"two exports have the same name: {twice}", status=ExitStatus.USAGE)
    if (fault := unfit(args, exports)) is not None:
        return console.error(*fault, status=ExitStatus.USAGE)
    if args.memory < _MEMORY_MIN:
        return console.error(
            f"--memory is too small: {args.memory} octets",
            f"allow at least {_MEMORY_MIN >> 20}Mi",
            status=ExitStatus.USAGE,
        )
    if not args.json:
        return run_async(_serve(args, exports))
    from rpcrdma.cli.event_lines import server_events  # noqa: PLC0415

    with server_events() as args.events:
        return run_async(_serve(args, exports))


async def _serve(args: argparse.Namespace, exports: list[Exported]) -> int:
    from rpcrdma.aio.security_options import KerberosKeys  # noqa: PLC0415
    from rpcrdma.aio.server.admission import descriptors_for, raise_file_limit  # noqa: PLC0415
    from rpcrdma.aio.server.rdma_server import RdmaServerConfig  # noqa: PLC0415
    from rpcrdma.aio.server.serve import ServeOptions, serve  # noqa: PLC0415
    from rpcrdma.aio.server.tcp_server import TcpServerConfig  # noqa: PLC0415
    from rpcrdma.iwarp import IwarpConfig  # noqa: PLC0415
    from rpcrdma.nfs.server.watch_service import WatchService  # noqa: PLC0415
    from rpcrdma.verbs.device_config import VerbsConfig  # noqa: PLC0415

    if (fitting := raise_file_limit(args.connections)) < args.connections:
        limit = f"ulimit -Hn {descriptors_for(args.connections)}"
        if args.connections > RPC_CONNECTIONS_MAX:
            return console.error(
                f"too few open files are allowed for {args.connections} connections of RDMA and of TCP each",
                f"raise the hard limit: {limit}",
            )
        _LOGGER.warning("%d connections of RDMA and of TCP each, as few files may be open (%s)", fitting, limit)
        args.connections = fitting
    sys.setswitchinterval(_SWITCH_S)
    stop = asyncio.Event()
    on_signal = _stop_on_signals(stop)
    if args.stop_at_eof:
        _stop_at_eof(stop)
    with contextlib.ExitStack() as stack:
        state = stack.enter_context(contextlib.closing(_open_state(args)))
        services = _services(args, exports, state)
        watch = WatchService(services.nfs.local)
        nfs4 = _nfs4(args, exports, services, state)
        if nfs4 is not None:
            stack.callback(nfs4.close)
        offered = [*(services if "3" in args.nfs else ()), *([nfs4] if nfs4 is not None else ()), watch]
        hosts = hosts_of(args, exports)
        options = ServeOptions(
            workers=args.workers,
            rdma=RdmaServerConfig(
                provider=args.provider,
                iwarp=IwarpConfig(crc=not args.no_crc),
                verbs=VerbsConfig(busy_poll_s=args.busy_poll / 1e6),
                connections_max=args.connections,
                idle_s=getattr(args, "idle_timeout", RDMA_IDLE_S),
                capture=args.capture,
                host_authentication=hosts,
                rpcrdma_version=args.rpcrdma_version,
                extension=args.extension,
            ),
            tcp=TcpServerConfig(
                connections_max=args.connections,
                idle_s=getattr(args, "idle_timeout", RPC_IDLE_S),
                xprtsec=least_of(args, exports),
                host_authentication=hosts,
            ),
            memory_octets_max=args.memory,
            security=sorted({flavor for export in exports for flavor in _security(args, export)}, reverse=True),
            kerberos=KerberosKeys(keytab=args.keytab),
            count_calls=args.metrics is not None,
            drain_s=_DRAIN_S,
        )
        try:
            server = await serve(offered, listen_at(args, exports), options=options)
            metrics = await _start_metrics(args, server)
        except ConnectFailed as error:
            # The error's own status means that a client could not connect; this is a server that cannot start.
            message, hint, _ = describe(error)
            return console.error(message, hint)
        if hosts.certificate is not None:
            renew_on_hang_up(lambda: _renew(args, server), lambda: on_signal(signal.SIGHUP))
        _announce(args, exports, server, metrics, as_callers=services.nfs.local.parts.callers.switches)
        await _wait(stop, services, nfs4)
        _event(args, {"event": "stopping"}, "stopping: running calls are answered first")
        await watch.close()
        await server.close()
        if metrics is not None:
            await metrics.close()
        failures = await asyncio.to_thread(services.nfs.close)
    for failure in failures:
        message, _, _ = describe(failure)
        console.error(f"written data may be lost: {message}")
    _event(args, {"event": "stopped"}, "stopped")
    return ExitStatus.FAILED if failures else ExitStatus.DONE


async def _start_metrics(args: argparse.Namespace, server: Server) -> MetricsExporter | None:
    if args.metrics is None:
        return None
    from rpcrdma.aio.server.metrics import MetricsExporter  # noqa: PLC0415

    exporter = MetricsExporter(server)
    try:
        exporter.start(*args.metrics)
    except BaseException:
        await server.close(0)
        raise
    return exporter


def _open_state(args: argparse.Namespace) -> ServerState:
    from rpcrdma.nfs.server import open_state  # noqa: PLC0415

    directory = args.state_dir or default_state_dir()
    try:
        return open_state(directory, secrets.token_bytes)
    except OSError as error:
        message, hint, _ = describe(error)
        remedy = hint or "name another place with --state-dir"
        raise OSError(f"cannot keep the key of the file handles: {message}; {remedy}") from None


def _services(args: argparse.Namespace, exports: list[Exported], state: ServerState) -> NfsServices:
    from rpcrdma.nfs.export.export import VALID_S  # noqa: PLC0415
    from rpcrdma.nfs.server import Export, build_services  # noqa: PLC0415

    hosts = tuple(allowed_networks(args.allow))
    return build_services(
        [
            Export(
                name=export.name,
                directory=existing_directory(export.source) if isinstance(export.source, Path) else None,
                url=export.source if isinstance(export.source, str) else None,
                valid_s=getattr(args, "fsspec_valid", VALID_S),
                read_only=_is_read_only(args, export),
                synchronous=not args.asynchronous,
                root_squash=not args.no_root_squash,
                hosts=hosts,
                xprtsec=asked_for(args, export),
                mount_in_clear=args.mount_in_clear,
                security=_security(args, export),
            )
            for export in exports
        ],
        state=state,
    )


def _nfs4(
    args: argparse.Namespace, exports: list[Exported], services: NfsServices, state: ServerState
) -> Nfs4Service | None:
    """Returns the service of version 4 over the same exports; None unless it is wanted."""
    if "4" not in args.nfs:
        return None
    from rpcrdma.nfs.server.services import build_nfs4  # noqa: PLC0415

    # A provider after "?" is no part of an address, and nobody finds a free port again.
    listening = [url.partition("?")[0] for url in listen_at(args, exports)]
    lasting = [url for url in listening if not url.endswith(":0")]
    return build_nfs4(
        services.nfs,
        state,
        (args.state_dir or default_state_dir()) if lasting else None,
        secrets.token_bytes,
        time.monotonic,
        time.time_ns,
        addresses=lasting,
        exports=[ascii(f"{export.name}={export.shown}") for export in exports],
    )


def _is_read_only(args: argparse.Namespace, export: Exported) -> bool:
    return bool(args.read_only or export.read_only or isinstance(export.source, str))


def _security(args: argparse.Namespace, export: Exported) -> tuple[SecurityFlavor, ...]:
    from rpcrdma.nfs.export.export import UNPROVED  # noqa: PLC0415

    flavors: tuple[SecurityFlavor, ...] | None = export.security or args.sec
    return UNPROVED if flavors is None else flavors


async def _wait(stop: asyncio.Event, services: NfsServices, nfs4: Nfs4Service | None) -> None:
    """Waits for `stop`; meanwhile closes files that are no longer in use, and ends leases."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_IDLE_S):
                await stop.wait()
                return
        await asyncio.to_thread(services.nfs.close_idle)
        if nfs4 is not None:
            await asyncio.to_thread(nfs4.sweep)


def _announce(
    args: argparse.Namespace,
    exports: list[Exported],
    server: Server,
    metrics: MetricsExporter | None,
    *,
    as_callers: bool,
) -> None:
    for url in server.listening:
        used = server.providers[url]
        if args.json:
            providers = [each._asdict() for each in used]
            args.events.put({"event": "listening", "url": url, "providers": providers})
        else:
            over = f" over {' and '.join(map(str, used))}" if used else ""
            console.data(f"listening at {url}{over}")
    if metrics is not None:
        if args.json:
            args.events.put({"event": "metrics", "url": metrics.url})
        else:
            console.data(f"metrics at {metrics.url}")
    for export in exports:
        directory, is_local = export.shown, isinstance(export.source, Path)
        mode = "read-only" if _is_read_only(args, export) else "read-write"
        flavors = _security(args, export)
        security = [str(flavor) for flavor in flavors if flavor is not SecurityFlavor.NONE]
        _event(
            args,
            {
                "event": "exported",
                "name": export.name,
                "directory": directory,
                "mode": mode,
                "security": security,
                "acts_as_caller": as_callers and is_local,
                "root_squash": as_callers and is_local and not args.no_root_squash,
                "xprtsec": asked_for(args, export),
            },
            f"exporting {directory} as {export.name}, {mode}{_proof(security)}{_in_tls(args, export)}; "
            f"{_acting(args, as_callers=as_callers) if is_local else 'everybody may read all'}",
        )
    if hosts_of(args, exports).wanted.value == "required" and not args.json:
        console.talk("hosts have to authenticate themselves: over TCP there is nothing without --xprtsec mtls")
    proved = any(flavor.service is not None for export in exports for flavor in _security(args, export))
    over_rdma = any(url.startswith("rdma://") for url in server.listening)
    at_nfs_port = any(url.startswith("tcp://") and url.endswith(f":{_NFS_PORT}") for url in server.listening)
    if proved and over_rdma and not at_nfs_port and not args.json:
        console.talk(
            f"hint: Linux clients of rdma:// prove users over TCP at port {_NFS_PORT}: add --listen tcp://HOST"
        )
    if "4" not in args.nfs and not any(url.startswith("tcp://") for url in server.listening):
        console.talk("hint: Linux clients ask MOUNT over TCP alone: add --listen tcp://HOST:20048")
    sys.stdout.flush()


def _in_tls(args: argparse.Namespace, export: Exported) -> str:
    return {
        "none": "",
        "tls": ", over TLS alone",
        "mtls": ", over TLS with a certificate of the client alone",
    }[asked_for(args, export)]


def _proof(security: list[str]) -> str:
    return "" if security == ["sys"] else f", sec={':'.join(security)}"


def _acting(args: argparse.Namespace, *, as_callers: bool) -> str:
    if not as_callers:
        return f"everybody acts as user {os.geteuid()}"
    return f"callers act as themselves, root {'too' if args.no_root_squash else 'as nobody'}"


def _event(args: argparse.Namespace, event: dict[str, Any], text: str) -> None:
    if args.json:
        args.events.put(event)
    else:
        _LOGGER.info("%s", text)


def _renew(args: argparse.Namespace, server: Server) -> None:
    try:
        server.reload_certificates()
    except HostAuthenticationFailed as error:
        message, hint, _ = describe(error)
        console.error(f"{message} (the certificates that were read before stay in use)", hint)
    else:
        _event(args, {"event": "certificates"}, "the certificates were read again")


def _stop_on_signals(stop: asyncio.Event) -> Callable[[int], None]:
    """Sets `stop` on a signal; returns the function that handles one."""
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if stop.is_set():
            if number == signal.SIGHUP:
                # The end of a terminal sends two of them: one is the kernel's, the other the shell's.
                return
            # Threads may be stuck in a file system: no orderly way out is left.
            console.error("aborted; calls in progress were not answered")
            os._exit(128 + number)
        stop.set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # A server under nohup outlives its terminal.
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    return on_signal


def _stop_at_eof(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    if sys.__stdin__ is None:
        # It was closed when the process began, and its number may be that of any other file.
        stop.set()
        return

    def readable() -> None:
        if _at_eof():
            loop.remove_reader(0)
            stop.set()

    def read_to_end() -> None:
        while not _at_eof():
            pass
        # The loop is closed where a signal was faster.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)

    try:
        loop.add_reader(0, readable)
    except PermissionError:
        # Files and some devices cannot be waited for, /dev/null among them: they are always readable.
        threading.Thread(target=read_to_end, name="standard input", daemon=True).start()


def _at_eof() -> bool:
    """Reads standard input; returns True at its end, or if it cannot be read, such as a closed terminal."""
    try:
        return not os.read(0, 1 << 16)
    except BlockingIOError:
        return False
    except OSError:
        return True
