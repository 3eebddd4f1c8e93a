"""`rpcrdma serve`: serves directories and file systems of fsspec by NFS versions 3, 4.1 and 4.2."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import gc
import logging
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rpcrdma.cli.daemon_threads import DaemonThreads, in_time
from rpcrdma.cli.event_loop import run_async
from rpcrdma.cli.export_options import Exported
from rpcrdma.cli.export_sources import ExportSources
from rpcrdma.cli.observation import capturing
from rpcrdma.cli.running_server import RunningServer, certificates_in_time, idle_s, names_of_exports, plain_addresses
from rpcrdma.cli.serve_admin import AdminAnswers
from rpcrdma.cli.serve_announcements import announce, announce_event, announce_export
from rpcrdma.cli.serve_audit import AccessLog
from rpcrdma.cli.serve_conflicts import conflicts
from rpcrdma.cli.serve_health import ServerHealth
from rpcrdma.cli.serve_protection import hosts_of, least_protection, listen_at
from rpcrdma.cli.serve_registration import register
from rpcrdma.cli.serve_reload import ConfigurationReload
from rpcrdma.cli.served_exports import ServedExports
from rpcrdma.cli.service_manager import ServiceManager
from rpcrdma.cli.settings.check import at_start, find_mistakes, report
from rpcrdma.cli.settings.effective import Effective, effective
from rpcrdma.cli.settings.options import add_settings
from rpcrdma.cli.stop_requests import handle_hang_ups, stop_at_eof, stop_on_signals
from rpcrdma.cli.waiting_exports import WaitingExports
from rpcrdma.commands import CommandParser, ExitStatus, add_json, console, describe
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed
from rpcrdma.limits import PATH_ANSWERS_S, RDMA_IDLE_S, RPC_IDLE_S
from rpcrdma.rpc.gss.flavors import SecurityFlavor

if TYPE_CHECKING:
    from rpcrdma.aio.server.admin_socket import AdminSocket
    from rpcrdma.aio.server.metrics import MetricsExporter
    from rpcrdma.aio.server.serve import Server
    from rpcrdma.nfs.server import NfsServices, ServerState
    from rpcrdma.nfs.server.services import ServedNfs
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
_IDLE_S = 5.0
"""How often files that are no longer in use are closed: the space of deleted ones is free only then."""
_CLOSING_S = 5.0
"""Seconds after which a further thread closes files, if the first one is still waiting for a file system."""
_DRAIN_S = 10.0
"""Seconds for calls in progress after the server was asked to stop."""
_SWITCH_S = 0.0005
"""After how long a thread that computes makes way for another one. A call waits for that after each system call that
blocks, behind all threads that compute: Python's own 5 ms make tenths of a second of it."""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma serve` to `parser`."""
    parser.describe(run, "[DIR]", _EXAMPLES, connects=False)
    add = parser.add_argument
    add_settings(parser)
    add(
        "--check",
        action="store_true",
        help="check the settings, directories and certificates, print all mistakes, and start no server",
    )
    add(
        "--pcap", type=Path, metavar="FILE", default=argparse.SUPPRESS, help="record all RDMA connections for Wireshark"
    )
    add("--stop-at-eof", action="store_true", help="stop when standard input ends, for programs that start a server")
    add_json(
        parser,
        "one JSON object a line for each event: listening, metrics, exported, connected, secured, disconnected, "
        "refused, certificates, reload, grace, grace_over, revoked, stopping, stopped, error",
    )
    parser.set_defaults(beside_errors={"event": "error"})


def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma serve`: serves the exports of the settings until it is asked to stop; returns the exit status.

    A signal or, with --stop-at-eof, the end of standard input asks it to stop. With --check, it checks the settings and
    starts no server. Mistakes in the settings, and a ConnectFailed, as of an address in use, are printed.

    Raises:
        LocalProtocolError: an option before the word `serve` has a value that is for clients alone.
        OSError: the state directory, the access log or an export that must be there cannot be used.
    """
    if args.config is not None and not args.check:
        # Those who read the log, or ask the running server, do not know its working directory.
        args.config = args.config.absolute()
    given = argparse.Namespace(**vars(args))
    found = effective(args)
    found.put_into(args)
    if args.check:
        return report(find_mistakes(args, found), as_json=args.json)
    sources = ExportSources()
    if (status := report(at_start(args, found, sources), as_json=False)) is not ExitStatus.DONE:
        return status
    faults = [(conflict.cause, conflict.remedy) for conflict in conflicts(args)]
    for fault in faults:
        console.error(*fault, status=ExitStatus.USAGE)
    if faults:
        return ExitStatus.USAGE
    if args.log_level is not None:
        logging.getLogger().setLevel(args.log_level.upper())
    reload = None if args.config is None else ConfigurationReload(given, found)
    try:
        from rpcrdma.cli.event_lines import error_lines, server_events  # noqa: PLC0415

        with error_lines(), server_events() if args.json else contextlib.nullcontext() as args.events:
            return run_async(_serve(args, found, reload, sources))
    except ConnectFailed as error:
        # The error's own status means that a client could not connect; this is a server that cannot start.
        message, hint, _ = describe(error)
        return console.error(message, hint)


async def _serve(
    args: argparse.Namespace, found: Effective, reload: ConfigurationReload | None, sources: ExportSources
) -> int:
    from rpcrdma.aio.security_options import KerberosKeys  # noqa: PLC0415
    from rpcrdma.aio.server.connection_limits import descriptors_for, raise_file_limit  # noqa: PLC0415
    from rpcrdma.aio.server.rdma_server import RdmaServerConfig  # noqa: PLC0415
    from rpcrdma.aio.server.serve import ServeOptions, serve  # noqa: PLC0415
    from rpcrdma.aio.server.tcp_server import TcpServerConfig  # noqa: PLC0415
    from rpcrdma.iwarp import IwarpConfig  # noqa: PLC0415
    from rpcrdma.nfs.server import build_services  # noqa: PLC0415
    from rpcrdma.verbs.device_config import VerbsConfig  # noqa: PLC0415

    if (fitting := raise_file_limit(args.connections)) < args.connections:
        limit = f"ulimit -Hn {descriptors_for(args.connections)}"
        _LOGGER.warning("%d connections of RDMA and of TCP each, as few files may be open (%s)", fitting, limit)
        args.connections = fitting
    sys.setswitchinterval(_SWITCH_S)
    # A file system that does not answer keeps the process from its end no more than from its other work.
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    stop = asyncio.Event()
    on_signal = stop_on_signals(stop)
    if args.stop_at_eof:
        stop_at_eof(stop)
    async with contextlib.AsyncExitStack() as stack:
        kept = contextlib.ExitStack()
        stack.callback(_close_kept, args, kept)
        with found.blamed("state-dir"):
            state = kept.enter_context(contextlib.closing(_open_state(args)))
        waiting = WaitingExports(args.exports, None if reload is None else reload.names, sources)
        if not (ready := waiting.ready()):
            return console.error("no export can be served", "the warnings above have the causes")
        services = build_services(ready, state=state)
        nfs4 = _nfs4(args, services, state)
        if nfs4 is not None:
            kept.callback(nfs4.close)
        with found.blamed("access-log"):
            audit = stack.enter_context(contextlib.closing(AccessLog(services, nfs4, args)))
        offered = [*(services if "3" in args.nfs else ()), *([nfs4] if nfs4 is not None else ())]
        stack.enter_context(capturing(args))
        hosts = hosts_of(args)
        options = ServeOptions(
            workers=args.workers,
            calls_per_host=args.calls_per_host,
            rdma=RdmaServerConfig(
                provider=args.provider,
                iwarp=IwarpConfig(crc=args.crc),
                verbs=VerbsConfig(busy_poll_s=args.busy_poll / 1e6),
                connections_max=args.connections,
                connections_per_host=args.connections_per_host,
                idle_s=idle_s(args, RDMA_IDLE_S),
                capture=args.capture,
                host_authentication=hosts,
                rpcrdma_version=args.rpcrdma_version,
                extension=args.extension,
            ),
            tcp=TcpServerConfig(
                connections_max=args.connections,
                connections_per_host=args.connections_per_host,
                idle_s=idle_s(args, RPC_IDLE_S),
                xprtsec=least_protection(args.exports),
                host_authentication=hosts,
            ),
            memory_octets_max=args.memory,
            security=_flavors(args),
            kerberos=KerberosKeys(keytab=args.keytab),
            count_calls=args.metrics is not None,
            drain_s=_DRAIN_S,
        )
        database = None if nfs4 is None else nfs4.state.database
        health = ServerHealth(lambda: args.exports, lambda: exports.absent, hosts.certificate, audit, database)
        stack.callback(health.close)
        with found.blamed("listen"):
            server = await serve(offered, listen_at(args), options=options)
        # They are closed if anything fails before the server stops in order.
        parts = await stack.enter_async_context(contextlib.AsyncExitStack())
        parts.push_async_callback(server.close)
        exports = ServedExports(services, nfs4, waiting, ready, server.settle)
        with found.blamed("register"):
            registered = await register(args.register, offered, server)
        if registered is not None:
            parts.push_async_callback(registered.close)
        with found.blamed("metrics"):
            metrics = _start_metrics(args, server, health)
        if metrics is not None:
            parts.push_async_callback(metrics.close)
        answers = AdminAnswers(args, server, services, nfs4, health.away, reload)
        with found.blamed("admin"):
            admin = await answers.start()
        parts.push_async_callback(_close_admin, admin)
        renew = None if hosts.certificate is None else _renewal(args, server)
        handle_hang_ups(renew if reload is None else reload.request, lambda: on_signal(signal.SIGHUP))
        served = [export for export in args.exports if export not in waiting.absent]
        as_callers = services.nfs.exports.parts.callers.switches
        announce(args, served, server, metrics, as_callers=as_callers)
        manager = ServiceManager()
        running = RunningServer(args, server, exports, nfs4, registered, audit)
        if gc.get_freeze_count():
            # As in `main.run`: what is loaded lives until the end. A collection that looks through it, which a reload
            # brings about, keeps calls waiting for tens of milliseconds.
            gc.freeze()
        manager.ready(running.status)
        health.start()
        health.ready(registered)
        reloads = None
        if reload is not None:
            reload.on_end = health.configuration_read
            health.configuration_read(True)
            certificates = None if hosts.certificate is None else server.read_certificates
            announced = functools.partial(announce_event, args)
            reloads = asyncio.create_task(reload.run(manager, running, certificates, announced))
        async for export in _wait(stop, services, nfs4, exports):
            announce_export(args, export, as_callers=as_callers)
        if reloads is not None:
            reloads.cancel()
        await exports.close()
        health.stopping()
        manager.tell("STOPPING=1")
        announce_event(args, {"event": "stopping"}, "stopping: running calls are answered first")
        parts.pop_all()
        if registered is not None:
            await registered.close()
        await server.close()
        if metrics is not None:
            await metrics.close()
        failures, _ = await asyncio.gather(_closed(services.nfs), _close_admin(admin))
    for failure in failures:
        console.error(*describe(failure)[:2])
    announce_event(args, {"event": "stopped"}, "stopped")
    return ExitStatus.FAILED if failures else ExitStatus.DONE


def _start_metrics(args: argparse.Namespace, server: Server, health: ServerHealth) -> MetricsExporter | None:
    if args.metrics is None:
        return None
    from rpcrdma.aio.server.metrics import MetricsExporter  # noqa: PLC0415

    exporter = MetricsExporter(server, health.state)
    exporter.start(*args.metrics)
    return exporter


def _open_state(args: argparse.Namespace) -> ServerState:
    from rpcrdma.nfs.server import ServerState, open_state  # noqa: PLC0415

    try:
        late = f"{args.state_dir} does not answer within {PATH_ANSWERS_S:g} s"
        opening = functools.partial(open_state, args.state_dir, secrets.token_bytes)
        return in_time(opening, PATH_ANSWERS_S, late, ServerState.close)
    except OSError as error:
        message, hint, _ = describe(error)
        remedy = hint or "name another place with --state-dir"
        raise OSError(f"cannot use the state directory: {message}; {remedy}") from None


def _flavors(args: argparse.Namespace) -> list[SecurityFlavor]:
    """Returns the security flavors that the server admits: those of Kerberos only if an export asks for one."""
    needs_keys = any(flavor.service is not None for export in args.exports for flavor in export.security)
    return [flavor for flavor in SecurityFlavor if needs_keys or flavor.service is None]


def _nfs4(args: argparse.Namespace, services: NfsServices, state: ServerState) -> Nfs4Service | None:
    """Returns the service of NFS version 4 over the exports of `services`; None if the settings do not want it."""
    if "4" not in args.nfs:
        return None
    from rpcrdma.nfs.server.services import build_nfs4  # noqa: PLC0415

    return build_nfs4(
        services.nfs,
        state,
        args.state_dir,
        secrets.token_bytes,
        time.monotonic,
        time.time_ns,
        addresses=plain_addresses(listen_at(args)),
        exports=names_of_exports(args.exports),
    )


async def _closed(nfs: ServedNfs) -> list[OSError]:
    """Commits all data and closes files; returns an OSError for each failure, a single one if 10 s (_DRAIN_S) pass."""
    closing = asyncio.ensure_future(asyncio.to_thread(nfs.close))
    await asyncio.wait((closing,), timeout=_DRAIN_S)
    if not closing.done():
        text = f"the disks have not taken all data within {_DRAIN_S:g} s"
        return [OSError(f"{text}; clients send again what they have not committed")]
    return [OSError(f"written data may be lost: {describe(failure)[0]}") for failure in closing.result()]


async def _close_admin(admin: AdminSocket | None) -> None:
    """Closes the socket for administrators; after 10 s (_DRAIN_S) without an answer of its disk it logs a warning."""
    try:
        if admin is not None:
            await asyncio.wait_for(admin.close(), _DRAIN_S)
    except TimeoutError:
        _LOGGER.warning("the directory of the socket for rpcrdma admin does not answer within %g s", _DRAIN_S)


def _close_kept(args: argparse.Namespace, kept: contextlib.ExitStack) -> None:
    """Closes `kept`, the stored state and the NFSv4 service; after 10 s (_DRAIN_S) logs a warning and returns."""
    late = f"{args.state_dir} does not answer within {_DRAIN_S:g} s; clients that hold nothing stay recorded there"
    try:
        in_time(kept.close, _DRAIN_S, late)
    except TimeoutError as error:
        _LOGGER.warning("%s", error)


async def _wait(
    stop: asyncio.Event, services: NfsServices, nfs4: Nfs4Service | None, exports: ServedExports
) -> AsyncIterator[Exported]:
    """Waits until `stop` is set; every 5 s closes idle files, ends expired leases and looks for missing exports.

    A file is idle if no call has used it for 5 s. Files of version 4 whose opens and delegations have ended are closed,
    too. `nfs4` is the service of version 4; None: it is not offered.

    Yields:
        Each export that was missing and is served from now on.
    """
    found: asyncio.Queue[Exported | None] = asyncio.Queue()

    async def look() -> None:
        for export in await exports.look():
            found.put_nowait(export)

    works: dict[str, Callable[[], Awaitable[object]]] = {"look for exports": look}
    works["close idle files"] = functools.partial(_close_files, services.nfs.close_idle)
    if nfs4 is not None:
        works["end leases"] = functools.partial(asyncio.to_thread, nfs4.sweep)
        works["close files of ended clients"] = functools.partial(_close_files, nfs4.close_ended)
    # A disk or a store that does not answer must hold up neither leases nor the end.
    tasks = [asyncio.create_task(_regularly(what, work)) for what, work in works.items()]
    stopping = asyncio.create_task(stop.wait())
    stopping.add_done_callback(lambda _: found.put_nowait(None))
    try:
        while (export := await found.get()) is not None:
            yield export
    finally:
        for task in (*tasks, stopping):
            task.cancel()


async def _close_files(close: Callable[[], object]) -> None:
    """Calls `close` in a thread, and waits for its end, `_CLOSING_S` (5) seconds at most; raises its exception.

    A file system that hangs when a file is closed has that thread waiting; the next call closes other files.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSING_S):
            await asyncio.to_thread(close)


async def _regularly(what: str, work: Callable[[], Awaitable[object]]) -> None:
    """Calls and awaits `work` every 5 s until this is cancelled; logs the exceptions of `work` as "cannot `what`: ...".

    An exception is logged once while it repeats; with a traceback, unless it is an OSError.
    """
    logged = ""
    while True:
        await asyncio.sleep(_IDLE_S)
        try:
            await work()
            logged = ""
        except Exception as error:  # the next time may succeed, and the server goes on
            message = describe(error)[0]
            if message != logged:
                unexpected = None if isinstance(error, OSError) else error
                _LOGGER.exception("cannot %s: %s", what, message, exc_info=unexpected)
            logged = message


def _renewal(args: argparse.Namespace, server: Server) -> Callable[[], None]:
    """Returns a function that starts a task, which reads the certificates again in a thread and puts them to use.

    The task prints an error or reports success; the tasks of several calls run one after the other.
    """
    turn, running = asyncio.Lock(), set[asyncio.Task[None]]()

    async def renew() -> None:
        async with turn:
            try:
                use = await asyncio.to_thread(certificates_in_time, args, server.read_certificates)
                use()
            except (HostAuthenticationFailed, OSError) as error:
                message, hint, _ = describe(error)
                console.error(f"{message} (the certificates that were read before stay in use)", hint)
            else:
                announce_event(args, {"event": "certificates"}, "the certificates were read again")

    def start() -> None:
        task = asyncio.create_task(renew())
        running.add(task)
        task.add_done_callback(running.discard)

    return start
