"""The parts of a running server that other settings change, and the limits of such a change."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from rpcrdma.cli.daemon_threads import in_time
from rpcrdma.cli.export_options import Exported, ExportedRule
from rpcrdma.cli.host_names import HostNames, network_of
from rpcrdma.cli.serve_audit import AccessLog, opened_log
from rpcrdma.cli.serve_protection import hosts_of, least_protection, listen_at
from rpcrdma.cli.served_exports import ServedExports
from rpcrdma.cli.settings.effective import DEFAULT, Effective
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.cli.settings.table import OF_EXPORTS, OF_SERVER
from rpcrdma.commands.options import log_level
from rpcrdma.commands.setting import Renewal, Setting
from rpcrdma.limits import PATH_ANSWERS_S, RDMA_IDLE_S, RPC_IDLE_S
from rpcrdma.rpc.host_identity import XPRTSEC_CHOICES, XprtSec

if TYPE_CHECKING:
    from rpcrdma.aio.server.serve import Server
    from rpcrdma.aio.urls import Url
    from rpcrdma.nfs.server.registration import RegisteredPrograms
    from rpcrdma.nfs.v4.server.service import Nfs4Service

__all__ = [
    "RunningServer",
    "certificates_in_time",
    "changes_of_exports",
    "idle_s",
    "names_of_exports",
    "plain_addresses",
]

_JUDGING: Final = frozenset({"tls-ca", "tls-name"})
"""The settings that decide which certificates of hosts are believed."""


class RunningServer:
    """A running `rpcrdma serve` with its present settings, some of which can be changed while it runs.

    Args:
        args: the settings in use, as parsed arguments.
        server: the server.
        exports: its exports.
        nfs4: the service of NFS version 4; None: it is not offered.
        registered: its programs at rpcbind; None: they are not registered.
        log: its access log.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        server: Server,
        exports: ServedExports,
        nfs4: Nfs4Service | None,
        registered: RegisteredPrograms | None,
        log: AccessLog,
    ) -> None:
        self._args = args
        self._server = server
        self._exports = exports
        self._nfs4 = nfs4
        self._registered = registered
        self._log = log
        self._noting = threading.Lock()
        """Is held by the thread that stores `_note`, which may never end."""
        self._note: tuple[list[str], list[str]] = [], []
        """The addresses and exports that were noted last for the next run of the server."""
        self._has_keys = any(flavor.service is not None for export in args.exports for flavor in export.security)
        hosts = hosts_of(args)
        self._offers_tls = hosts.certificate is not None
        self._judges_hosts = hosts.authorities is not None
        self._listens_at = listen_at(args)
        self._requires_hosts = hosts.wanted.value == "required"

    @property
    def exports(self) -> ServedExports:
        """The exports that the server serves, and the means to change them."""
        return self._exports

    @property
    def status(self) -> str:
        """A line for people with the URLs at which the server listens, such as "listening at tcp://[::]:2049"."""
        return f"listening at {', '.join(self._server.listening)}"

    def takes(self, before: Effective, found: Effective, path: str) -> tuple[Effective, list[Mistake]]:
        """Returns the new settings that the running server can take, and a mistake (place, text) for each other change.

        Settings and exports whose change needs a restart are in the result as they are now; new exports that need one
        are left out. If no export were left, the result has all present exports. Changes nothing; `apply` does.

        Args:
            before: the settings in use.
            found: the settings by the present content of its files.
            path: the configuration file, as the place of mistakes about values that the files no longer set.
        """
        waiting: list[Mistake] = []
        server = dict(found.server)
        args = argparse.Namespace(**vars(self._args))
        found.put_into(args)
        kept = set()
        for setting in OF_SERVER:
            value, old = server[setting.name], before.server[setting.name]
            if value.value != old.value and not self._takes_at_once(setting, old.value, value.value, args):
                waiting.append(_restart(path if value.origin == DEFAULT else value.origin, setting.name))
                server[setting.name] = old
                kept.add(setting.name)
        judges = self._judges_hosts and kept.isdisjoint(_JUDGING)
        requires = hosts_of(args).wanted.value == "required" and not self._requires_hosts
        known = {export.name: export for export in before.exports}
        exports: list[Exported] = []
        for export in found.exports:
            old_export = known.get(export.name)
            if export == old_export:
                exports.append(export)
                continue
            fitting, lacking = self._fitting(export, old_export, judges=judges, requires=requires)
            waiting += lacking
            exports += fitting
        if not exports:
            # All of them wait for a restart, and so does the removal of the present ones.
            exports = list(before.exports)
        return found._replace(server=server, exports=tuple(exports)), waiting

    def _takes_at_once(self, setting: Setting, old: Any, new: Any, args: argparse.Namespace) -> bool:
        if setting.renewal is Renewal.INCREASE:
            return bool(new >= old)
        if setting.name == "listen":
            return not _share_a_port(self._listens_at, listen_at(args), self._args.provider)
        return setting.renewal is Renewal.HANG_UP

    def _fitting(
        self, export: Exported, old: Exported | None, *, judges: bool, requires: bool
    ) -> tuple[list[Exported], list[Mistake]]:
        """Returns an export as the server can take it without a restart, and a mistake for each change that needs one.

        The list has `export` if no change needs a restart. Else the whole export waits for the restart, as some new
        terms without the others might admit everybody: the list has `old`, or is empty if `old` is None.

        Args:
            export: the export by the new settings.
            old: the export of the same name that is in use, with other terms; None: there is none.
            judges: whether the server judges certificates of hosts now, and by the `tls-ca` and `tls-name` of the new
                settings; if not, terms about certificates need a restart.
            requires: whether the server will ask all hosts for a certificate after a restart, and does not yet; then
                the export needs the restart in any case.
        """
        place = export.origins[""]
        waiting = []
        if requires:
            waiting.append(_restart(place, f"{export.name} with host authentication"))
        for name in self._lacks(export, judges=judges):
            origin = export.origins[name]
            waiting.append(_restart(place if origin == DEFAULT else origin, f"{name} of {export.name}"))
        waiting += [
            _restart(rule.origins[""], f"a rule of {export.name}")
            for rule in export.rules
            if self._lacks(rule, judges=judges)
        ]
        if waiting:
            return ([] if old is None else [old]), waiting
        return [export], waiting

    def _lacks(self, rule: ExportedRule, *, judges: bool) -> list[str]:
        """Returns those of "sec", "xprtsec" and "certificates" in `rule` that the server cannot check until a restart.

        It lacks the Kerberos keys or the files of certificates. `judges`: whether it judges certificates of hosts.
        """
        lacking = []
        if not self._has_keys and any(flavor.service is not None for flavor in rule.flavors):
            lacking.append("sec")
        if rule.xprtsec != "none" and not (judges if rule.xprtsec == "mtls" else self._offers_tls):
            lacking.append("xprtsec")
        if rule.certificates and not judges:
            lacking.append("certificates")
        return lacking

    async def apply(
        self, found: Effective, names: HostNames, renew: Callable[[], Callable[[], None]] | None = None
    ) -> None:
        """Changes the running server to settings that `takes` has returned: to all of them, or to none if this raises.

        Then, if an export was removed, given another directory or taken from version 4, waits for its closing, after
        the end of all running calls, 10 s at most: a cancellation meanwhile changes nothing back.

        Args:
            found: the settings.
            names: looks up names of hosts.
            renew: reads the certificates again, or raises HostAuthenticationFailed, and returns a function that uses
                them; None: there are no certificates.

        Raises:
            HostAuthenticationFailed: a certificate is unfit.
            ConnectFailed, LocalProtocolError: the server cannot listen at an address.
            NoAccessLog: the access log cannot be written.
            ValueError, OSError: an export cannot be served, or data of a removed export is lost; TimeoutError: a file
                system does not answer.
        """
        server, before, args = self._server, self._args, argparse.Namespace(**vars(self._args))
        found.put_into(args)
        at = listen_at(args)
        added = [url for url in at if url not in self._listens_at]
        old_least = _least(before.exports, self._listens_at)
        # Where hosts have to prove themselves, TCP is open for the sake of the protection at the start.
        least = _least(before.exports if self._requires_hosts else args.exports, at)
        # Lower protection goes before an address that has none; the exports themselves ask for more.
        server.require(min(old_least, least, key=XPRTSEC_CHOICES.index))
        log = None
        try:
            await server.listen(*added)
            if args.access_log != before.access_log:
                log = await asyncio.to_thread(opened_log, args.access_log)
            await asyncio.to_thread(self._note_for_next_run, at, [*before.exports, *args.exports])
            use = _nothing if renew is None else await asyncio.to_thread(certificates_in_time, args, renew)
            left = await self._exports.replace(args.exports, names, use)
        except BaseException:
            server.stop_listening(*added)
            server.require(old_least)
            if log is not None:
                log.close()
            with contextlib.suppress(TimeoutError):
                # What does not answer in time takes this note when it does.
                await asyncio.to_thread(self._note_for_next_run, self._listens_at, before.exports)
            raise
        # Nothing is awaited from the change of the exports on, so that no cancellation divides it from the others.
        if log is not None or args.audit != before.audit:
            self._log.use(args, log)
            server.renew_handlers()
        # An address of RDMA goes before protection that it does not have.
        server.stop_listening(*(url for url in self._listens_at if url not in at))
        server.require(least)
        self._listens_at = at
        self._set_limits(args)
        logging.getLogger().setLevel(log_level(args))
        vars(before).update(vars(args))
        if self._registered is not None:
            self._registered.look_soon()
        await left()

    def _note_for_next_run(self, at: list[str], exports: list[Exported]) -> None:
        """Stores the URLs `at` and the exports in the state directory, by which the next run recognises its clients.

        Blocks, 30 s at most. No effect without version 4. A failure of the disk is logged, and not raised.

        Raises:
            TimeoutError: the state directory does not answer; when it does, the newest note is stored.
        """
        if self._nfs4 is None:
            return
        database = self._nfs4.state.database
        # With the earlier exports, lest clients be lost if the server dies before it has changed them.
        self._note = plain_addresses(at), names_of_exports(exports)

        def store() -> None:
            # A thread that had to wait for an earlier one stores the newest note, too.
            with self._noting:
                database.serve(*self._note)

        late = (
            f"the state directory {self._args.state_dir} has not taken a note for the next run within "
            f"{PATH_ANSWERS_S:g} s; mend its file system, and reload again"
        )
        in_time(store, PATH_ANSWERS_S, late)

    def _set_limits(self, args: argparse.Namespace) -> None:
        from rpcrdma.aio.server.connection_limits import raise_file_limit  # noqa: PLC0415

        self._server.set_limits(
            connections_max=raise_file_limit(args.connections),
            connections_per_host=args.connections_per_host,
            calls_per_host=args.calls_per_host,
            rdma_idle_s=idle_s(args, RDMA_IDLE_S),
            tcp_idle_s=idle_s(args, RPC_IDLE_S),
            memory_octets_max=args.memory,
        )


def certificates_in_time(args: argparse.Namespace, renew: Callable[[], Callable[[], None]]) -> Callable[[], None]:
    """Calls `renew`, which reads the certificates of `args`, in a thread; returns its result, a function to use them.

    Blocks, PATH_ANSWERS_S (30) seconds at most.

    Raises:
        HostAuthenticationFailed: a file is unfit.
        TimeoutError: the files do not answer.
    """
    late = (
        f"the certificate {args.host_cert}, its key or its authorities do not answer within {PATH_ANSWERS_S:g} s; mend "
        "their file system"
    )
    return in_time(renew, PATH_ANSWERS_S, late)


def _nothing() -> None:
    """Does nothing, where there are no certificates to be read."""


def idle_s(args: argparse.Namespace, default: float) -> float | None:
    """Returns the setting `idle_timeout`: the seconds after which an idle connection ends; None, for 0: it never does.

    Without the setting, returns `default`.
    """
    return (default if args.idle_timeout is None else args.idle_timeout) or None


def plain_addresses(urls: Iterable[str]) -> list[str]:
    """Returns each of `urls` up to its "?": the addresses, without providers, at which clients find the next run."""
    return [url.partition("?")[0] for url in urls]


def names_of_exports(exports: Iterable[Exported]) -> list[str]:
    """Returns NAME=SOURCE of each export as a quoted ASCII literal, by which a later run recognises the export."""
    return [ascii(f"{export.name}={export.shown}") for export in exports]


def changes_of_exports(before: Effective, found: Effective) -> Iterator[str]:
    """Yields a phrase for each difference between the exports of `before` and of `found`, such as "access of /data"."""
    old = {export.name: export for export in before.exports}
    for export in found.exports:
        known = old.pop(export.name, None)
        if known is None:
            yield f"the new export {export.name}"
            continue
        if export == known:
            continue
        if export.source != known.source:
            yield f"the source of {export.name}"
        if export.rules != known.rules:
            yield f"a rule of {export.name}"
        yield from (
            f"{setting.name} of {export.name}"
            for setting in OF_EXPORTS
            if getattr(export, setting.dest) != getattr(known, setting.dest)
        )
    yield from (f"the removal of {name}" for name in old)


def _restart(place: str, change: str) -> Mistake:
    return Mistake(place, f"{change} needs a restart", is_warning=True)


def _least(exports: Sequence[Exported], at: Iterable[str]) -> XprtSec:
    """Returns the TLS protection that the server asks for with these exports at the URLs `at`.

    It is "none" if a URL of `at` is for RDMA, where there is no TLS: exports then refuse calls without TLS themselves.
    """
    return "none" if any(url.startswith("rdma") for url in at) else least_protection(exports)


def _share_a_port(old: Iterable[str], new: Iterable[str], provider: str) -> bool:
    """Returns whether a server that listens at the URLs `old` needs a restart to listen at `new`.

    A socket at [::] takes IPv4 only if no other socket has the port. And a new address must not contain one that it
    replaces, whose socket is closed last; names may lead to any address. The software RNIC has ports of TCP: `provider`
    is that of URLs that name none.
    """
    from rpcrdma.aio.urls import parse_url  # noqa: PLC0415

    def is_of_tcp(url: Url) -> bool:
        return url.scheme == "tcp" or (url.provider or provider) != "verbs"

    before, after = ({parse_url(text, listens=True) for text in urls} for urls in (old, new))
    for url in before ^ after:
        at_port = [each for each in before | after if each.port and each.port == url.port]
        alike = [each for each in at_port if each.scheme == url.scheme]
        if any(each.host == "::" for each in alike) and any(":" not in each.host for each in alike):
            return True
        # A port of TCP may pass from one transport to the other, too.
        rivals = [*alike, *(each for each in at_port if is_of_tcp(url) and is_of_tcp(each))]
        others = {each.host for each in rivals if each in before - after} if url in after else set()
        if others and (url.host in others or any(_is_wide(host) for host in (url.host, *others))):
            return True
    return False


def _is_wide(host: str) -> bool:
    """Returns whether `host`, of a URL, is more than one address, or a name that may lead to several."""
    network = network_of(host)
    return network is None or network.network_address.is_unspecified
