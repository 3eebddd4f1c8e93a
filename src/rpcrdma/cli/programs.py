"""`rpcrdma programs`: the programs in a host's port mapper, and which of them and of the well-known ones answer."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rpcrdma.commands import CommandParser, ExitStatus, add_json, connect_options, console, service_url
from rpcrdma.commands.arguments import port_number, program_number
from rpcrdma.errors import CallTimeout, ConnectFailed, RpcError, RpcRdmaError
from rpcrdma.limits import PROBED_PROGRAMS_MAX, PROBED_VERSIONS_MAX

if TYPE_CHECKING:
    from rpcrdma.aio.client.connect import Connection, ConnectOptions
    from rpcrdma.aio.urls import Scheme, Url
    from rpcrdma.nfs.client.port_mapper import Registration

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma programs tcp://server                 the programs of its port mapper, and which answer
  rpcrdma programs rdma://server:20049          and the programs that answer over RDMA at this port
  rpcrdma programs --json --program 0x20000b10 rdma://server
"""
_NAMES = {
    100000: "portmapper", 100001: "rstatd", 100002: "rusersd", 100003: "nfs", 100004: "ypserv", 100005: "mountd",
    100007: "ypbind", 100008: "walld", 100011: "rquotad", 100012: "sprayd", 100017: "rexd", 100021: "nlockmgr",
    100024: "status", 100026: "bootparam", 100029: "keyserv", 100227: "nfs_acl",
}  # fmt: skip
_LOOKED_FOR = (100003, 100005, 100021, 100024, 100227)
"""Programs that are asked for at the URL's own port, registered or not: those of an NFS server."""
_NO_VERSION = 0xFFFFFFFF
"""A version that no program has: the refusal names those that there are (PROG_MISMATCH)."""
_AT_A_TIME = 16
_PROBED_NETIDS: dict[str, Scheme] = {"tcp": "tcp", "tcp6": "tcp", "rdma": "rdma", "rdma6": "rdma"}


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma programs` to `parser`."""
    parser.describe(run, "URL", _EXAMPLES)
    parser.add_argument(
        "url",
        type=service_url,
        metavar="URL",
        help="rdma://HOST[:PORT] or tcp://HOST[:PORT]; a program that answers at PORT is listed even if the port "
        "mapper does not know of it",
    )
    parser.add_argument(
        "--program",
        dest="numbers",
        type=program_number,
        action="append",
        default=[],
        metavar="NUMBER",
        help="look for this program at the URL's port, too; may be repeated",
    )
    parser.add_argument(
        "--port-mapper",
        type=port_number,
        default=111,
        metavar="PORT",
        help="TCP port of the port mapper (default: %(default)s)",
    )
    add_json(parser)


@dataclass(frozen=True, slots=True)
class _Target:
    """A program to be probed at one port of the host."""

    scheme: Scheme
    port: int
    program: int


@dataclass(slots=True)
class _Probed:
    """The answers of a target: the versions of the program that answered, and the others with the reasons why not."""

    answered: set[int]
    failed: dict[int, str]
    unreachable: Exception | None = None
    """The error if the target answered no call; else None."""


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma programs`: prints the RPC programs of the host of `args.url`; returns the exit status.

    It asks the port mapper, then calls those of its programs that TCP or RDMA reaches, and at the URL's port also the
    well-known ones and those of --program; PROBED_PROGRAMS_MAX (256) at most.

    Raises:
        RpcRdmaError: the port mapper cannot be asked or lists nothing, and nothing answers at the URL's port, not even
            by a refusal; the port mapper cannot be asked, and the URL has no such port (tcp:// without one); or the
            port mapper's answer is malformed.
    """
    from rpcrdma.nfs.client.port_mapper import check_may_be_asked, registrations  # noqa: PLC0415

    url: Url = args.url
    options = replace(connect_options(args), reconnect=False)
    listed: list[Registration] = []
    mapper: dict[str, Any] = {"port": args.port_mapper, "version": None, "error": None}
    try:
        check_may_be_asked(options)
        timeout_s = options.connect_timeout_s
        mapper["version"], listed = await registrations(url.host, port=args.port_mapper, timeout_s=timeout_s)
    except (CallTimeout, ConnectFailed) as error:
        if not _own_port(url):
            error.add_note(f"or name a port of the server to ask: {_shown(url)}:PORT")
            raise
        mapper["error"] = str(error).partition("; ")[0]
    wanted: dict[_Target, set[int]] = {}
    netids = _probed_netids(url.host, mapper["version"])
    for each in listed:
        if (scheme := netids.get(each.netid)) and each.port is not None:
            wanted.setdefault(_Target(scheme, each.port, each.program), set()).add(each.version)
    if _own_port(url):
        numbers = dict.fromkeys([*args.numbers, *_LOOKED_FOR, *(each.program for each in listed)])
        own = {_Target(url.scheme, url.port, number): set[int]() for number in numbers}
        # Those at the URL's own port come first: they were asked for.
        wanted = {target: wanted.get(target, set()) for target in own} | wanted
    limited = asyncio.Semaphore(_AT_A_TIME)
    targets = dict(list(wanted.items())[:PROBED_PROGRAMS_MAX])
    async with asyncio.TaskGroup() as group:
        tasks = {
            target: group.create_task(_probe(url.host, target, versions, options, limited))
            for target, versions in targets.items()
        }
    probed = {target: task.result() for target, task in tasks.items()}
    own_error = _error_at(url, probed)
    if own_error is not None and not listed:
        raise own_error
    rows = _rows(url, listed, probed, args.numbers, netids)
    if args.json:
        reason = None if own_error is None else str(own_error)
        console.json_line({"url": _shown(url), "error": reason, "port_mapper": mapper, "programs": rows})
        return ExitStatus.DONE
    if mapper["error"] is not None:
        console.talk(f"note: {mapper['error']}; only the URL's own port was asked")
    if own_error is not None:
        console.talk(f"note: nothing answers at {url}: {own_error}")
    _print(rows)
    return ExitStatus.DONE


def _probed_netids(host: str, mapper_version: int | None) -> dict[str, Scheme]:
    """Returns the URL schemes of the transports that can be probed at `host`, by netid such as "rdma6".

    They are those of the address family of `host`, or all if `host` is a name, or `mapper_version` is 2, in which port
    mappers know no IPv6. `mapper_version` is the version in which the port mapper answered; None: it did not answer.
    """
    from rpcrdma.nfs.client.port_mapper import WITHOUT_IPV6, reaches  # noqa: PLC0415

    every = _PROBED_NETIDS.items()
    return {netid: scheme for netid, scheme in every if mapper_version == WITHOUT_IPV6 or reaches(host, netid)}


def _shown(url: Url) -> str:
    """Returns the text of a URL; without a port if a tcp:// URL names none, as no program is called at its default."""
    return str(url) if _own_port(url) else f"{url.scheme}://{url.authority.removesuffix(f':{url.port}')}"


def _own_port(url: Url) -> bool:
    """Returns whether programs at the URL's port are probed: always over RDMA, over TCP if the URL names the port."""
    return url.scheme == "rdma" or url.port_given


def _at(url: Url, target: _Target) -> bool:
    return _own_port(url) and (target.scheme, target.port) == (url.scheme, url.port)


def _error_at(url: Url, probed: dict[_Target, _Probed]) -> Exception | None:
    """Returns the first error in `probed` at the port of `url`; None if any call there was answered, or refused."""
    failures = [probe.unreachable for target, probe in probed.items() if _at(url, target)]
    return failures[0] if all(failures) and failures else None


async def _probe(
    host: str, target: _Target, versions: set[int], options: ConnectOptions, limited: asyncio.Semaphore
) -> _Probed:
    """Makes NULL calls of the program `target` at `host`; returns the versions that answer, and why others do not.

    The first call has a version that does not exist, whose refusal names the server's versions; those and `versions`
    are called. `limited` bounds the probes at a time. Errors are part of the result, and not raised.
    """
    from rpcrdma.aio.client.connect import connect  # noqa: PLC0415
    from rpcrdma.aio.urls import Url  # noqa: PLC0415
    from rpcrdma.rpc.program import null_procedure  # noqa: PLC0415

    timeout_s = options.connect_timeout_s
    probed = _Probed(set(), {})
    offered: set[int] | None = None
    async with limited:
        try:
            async with connect(str(Url(scheme=target.scheme, host=host, port=target.port)), options=options) as there:
                offered = await _offered(there, target.program, timeout_s)
                for version in sorted(versions | offered):
                    try:
                        await there.call(null_procedure(target.program, version), None, timeout_s=timeout_s)
                    except RpcError as error:
                        probed.failed[version] = console.in_options(error.message)
                    else:
                        probed.answered.add(version)
        except RpcRdmaError as error:
            for version in versions.union(offered or ()) - probed.answered:
                probed.failed.setdefault(version, console.in_options(error.message))
            if offered is None:
                probed.unreachable = error
    return probed


async def _offered(connection: Connection, program: int, timeout_s: float) -> set[int]:
    """Returns the versions that a server names when it refuses a version of `program` that does not exist.

    Of a longer range, returns the lowest PROBED_VERSIONS_MAX (32). The set is empty if the server names no versions.

    Raises:
        CallTimeout, TransportClosed: the server has not answered within `timeout_s` seconds, or the connection ended.
    """
    from rpcrdma.errors import ProgramMismatch  # noqa: PLC0415
    from rpcrdma.rpc.program import null_procedure  # noqa: PLC0415

    try:
        await connection.call(null_procedure(program, _NO_VERSION), None, timeout_s=timeout_s)
    except ProgramMismatch as error:
        return set(range(error.low, min(error.high, error.low + PROBED_VERSIONS_MAX - 1) + 1))
    except RpcError:
        pass
    return set()


def _rows(
    url: Url,
    listed: Iterable[Registration],
    probed: dict[_Target, _Probed],
    wanted: Iterable[int],
    netids: Mapping[str, Scheme],
) -> list[dict[str, Any]]:
    rows = []
    seen: set[tuple[_Target, int]] = set()
    for each in listed:
        scheme = netids.get(each.netid)
        probe = None
        if scheme is not None and each.port is not None:
            target = _Target(scheme, each.port, each.program)
            seen.add((target, each.version))
            probe = probed.get(target)
        row = _row(each.program, each.version, each.netid, each.port, probe)
        rows.append({**row, "address": each.address, "owner": each.owner, "registered": True})
    for target, probe in probed.items():
        versions = probe.answered | set(probe.failed)
        for version in sorted(versions):
            if (target, version) not in seen:
                row = _row(target.program, version, target.scheme, target.port, probe)
                rows.append({**row, "address": None, "owner": None, "registered": False})
        if target.program in wanted and _at(url, target) and not versions:
            row = _row(target.program, None, target.scheme, target.port, None)
            error = "not offered here" if probe.unreachable is None else str(probe.unreachable)
            rows.append({**row, "answers": False, "error": error, "address": None, "owner": None, "registered": False})
    return sorted(rows, key=lambda row: (row["program"], row["version"] or 0, row["netid"], row["port"] or 0))


def _row(program: int, version: int | None, netid: str, port: int | None, probe: _Probed | None) -> dict[str, Any]:
    answers = None if probe is None or version is None else version in probe.answered
    error = None if probe is None or version is None else probe.failed.get(version)
    row = {"program": program, "name": _NAMES.get(program), "version": version, "netid": netid, "port": port}
    return row | {"answers": answers, "error": error}


def _print(rows: list[dict[str, Any]]) -> None:
    words = {True: "yes", False: "no", None: "not asked"}
    table = [
        (
            str(row["program"]),
            "-" if row["version"] is None else str(row["version"]),
            row["name"] or "-",
            row["netid"],
            row["address"] or "-" if row["port"] is None else str(row["port"]),
            "yes" if row["registered"] else "no",
            words[row["answers"]] + (f": {row['error']}" if row["error"] else ""),
        )
        for row in rows
    ]
    if not table:
        console.talk("no programs")
        return
    console.table(
        table, right=[0, 1, 4], headings=("program", "version", "name", "transport", "port", "registered", "answers")
    )
