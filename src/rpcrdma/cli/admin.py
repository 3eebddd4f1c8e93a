"""`rpcrdma admin`: asks a running server of this machine, over its local socket, and revokes the state of a client."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from rpcrdma.cli.serve_admin import admin_socket_path
from rpcrdma.cli.settings.check import report
from rpcrdma.cli.settings.effective import DEFAULT, effective
from rpcrdma.cli.settings.table import ADMIN, STATE_DIR
from rpcrdma.commands import CommandParser, ExitStatus, add_json, console
from rpcrdma.limits import ADMIN_ANSWER_OCTETS_MAX, ADMIN_ANSWER_S

__all__ = ["add_arguments"]

_EXAMPLES = """\
examples:
  rpcrdma admin status
  rpcrdma admin clients --config /etc/rpcrdma/rpcrdma.toml
  rpcrdma admin revoke 5f3a91c200000007
"""
_EXAMPLES_OF_STATUS = """\
  rpcrdma admin status
  rpcrdma admin status --json | jq .connections
"""
_EXAMPLES_OF_CLIENTS = """\
  rpcrdma admin clients
  rpcrdma admin clients --json | jq '.clients[] | select(.locks > 0) | .id'

The first table has a line for each address with connections, version 4 clients
or mounts of version 3, which are those that the MOUNT program has seen in this
run of the server. Octets are those of the present connections; over RDMA, those
of bulk data alone.

The second table has the clients of version 4: the client id, the address, the
name and the principal that it has given itself, the version, its sessions, the
slots in use and all slots, the calls in these sessions, what it holds, and how
long ago it has renewed its lease. courteous: its lease has passed, and it keeps
what it holds until that is in the way of another client.
"""
_EXAMPLES_OF_EXPORTS = """\
  rpcrdma admin exports
"""
_EXAMPLES_OF_REVOKE = """\
  rpcrdma admin revoke 5f3a91c200000007

CLIENT is the id of a client of version 4 from `rpcrdma admin clients`: it loses
its opens, locks and delegations, and others get them at once. The client stays
connected, learns of its loss with its next call, and may open files again. One
without a lease is forgotten. Or CLIENT is the address of a host: its mounts of
version 3, which hold nothing, leave the list.
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the subcommands of `rpcrdma admin` (status, clients, exports, revoke), with their arguments, to `parser`."""
    parser.epilog = _EXAMPLES
    commands = parser.add_subparsers(title="commands", dest="admin_command", required=True, metavar="COMMAND")
    for word, show, arguments, examples, summary in (
        ("status", _show_status, "", _EXAMPLES_OF_STATUS, "show what the server serves, and how busy it is"),
        ("clients", _show_clients, "", _EXAMPLES_OF_CLIENTS, "list the clients and what they hold"),
        ("exports", _show_exports, "", _EXAMPLES_OF_EXPORTS, "list the exports and what is held there"),
        ("revoke", _show_revoked, "CLIENT", _EXAMPLES_OF_REVOKE, "revoke opens, locks and delegations of a client"),
    ):
        command = commands.add_parser(
            word,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}, for the owner of the server and root.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.describe(functools.partial(_ask, show=show), arguments, examples, connects=False)
        if arguments:
            command.add_argument("client", metavar="CLIENT", help="a client id, or the address of a host")
        command.add_argument(
            "--config", type=Path, metavar="FILE", help="the configuration file of the server (default: no file)"
        )
        for setting in (STATE_DIR, ADMIN):
            setting.add_to(command)
        add_json(command)


def _ask(args: argparse.Namespace, show: Callable[[Mapping[str, Any]], None]) -> int:
    """Sends the request of the subcommand in `args` to the running server, and prints its answer; returns the status.

    `show` prints the content of the answer, a JSON object, for people; with --json the object itself is printed. Errors
    are printed, not raised. Mistakes in the configuration are printed as warnings; as errors, and nothing is sent, if
    they leave the path of the socket unknown. The result is the exit status of the command.
    """
    args.directory = None
    found = effective(args)
    errors = [fault for fault in found.faults if not fault.is_warning]
    needed = {"admin"} if found.server["admin"].origin != DEFAULT else {"admin", "state-dir"}
    if needed & found.mistaken_settings:
        status = report(errors, as_json=False)
        console.talk("hint: --admin PATH finds the server without its file")
        return status
    # The server runs with earlier content of its file.
    report([fault._replace(is_warning=True) for fault in errors], as_json=False)
    path = admin_socket_path(found.server["admin"].value, found.server["state-dir"].value)
    if path is None:
        origin = found.server["admin"].origin
        return console.error(f"the server has no admin socket ({origin}: admin is off)", "set admin, and restart it")
    request = {"ask": args.admin_command} | ({"client": args.client} if "client" in args else {})
    try:
        answer = _exchanged(path, request)
    except PermissionError:
        return console.error(
            f"{path} is for the owner of the server and root", "run this command as that user", status=ExitStatus.FAILED
        )
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        hint = "start rpcrdma serve, or name its file with --config, its state directory with --state-dir"
        return console.error(f"no server answers at {path}", hint, status=ExitStatus.NOT_CONNECTED)
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", "") or str(error)
        cause = "it does not answer" if isinstance(error, TimeoutError) else cause
        return console.error(f"{path}: {cause}", "the log of the server may say more", status=ExitStatus.NOT_CONNECTED)
    if not answer["ok"]:
        return console.error(answer["message"], answer["hint"])
    if args.json:
        console.json_line(answer["answer"])
        return ExitStatus.DONE
    try:
        show(answer["answer"])
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        # An update of the package leaves an earlier server running.
        cause = f"{path}: its answer is that of another version of rpcrdma"
        return console.error(cause, "restart the server, or ask with --json")
    return ExitStatus.DONE


def _exchanged(path: Path, request: Mapping[str, str]) -> dict[str, Any]:
    """Sends a request to the admin socket at `path`, and returns the server's answer, a JSON object.

    The request has "ask", the name of a subcommand, and for revoke "client". The answer has "ok"; if that is true, also
    "answer", a JSON object, else "message" and "hint", texts for people.

    Raises:
        OSError: there is no connection, or the server is silent for ADMIN_ANSWER_S (30) seconds.
        ValueError: the answer is cut off, too long, or no answer of `rpcrdma serve`; the message is a clause without
            the path, such as "its answer is too long".
    """
    import json  # noqa: PLC0415
    import socket  # noqa: PLC0415

    from rpcrdma.aio.server.admin_socket import reachable_path  # noqa: PLC0415

    with reachable_path(path) as (_, address), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(ADMIN_ANSWER_S)
        sock.connect(address)
        sock.sendall(json.dumps(request).encode() + b"\n")
        data = bytearray()
        while not data.endswith(b"\n"):
            octets = sock.recv(1 << 16)
            if not octets:
                raise ValueError("it has closed the connection" if not data else "its answer is cut off")
            data += octets
            if len(data) > ADMIN_ANSWER_OCTETS_MAX:
                raise ValueError("its answer is too long")
    try:
        answer = json.loads(data)
        texts = () if answer["ok"] else (answer["message"], answer["hint"])
        is_one = all(isinstance(text, str) for text in texts) if texts else isinstance(answer["answer"], dict)
    except (ValueError, RecursionError, TypeError, LookupError):
        is_one = False
    if not is_one:
        raise ValueError("its answer is no answer of rpcrdma")
    found: dict[str, Any] = answer
    return found


def _show_status(found: Mapping[str, Any]) -> None:
    grace, reload, exports = found["grace"], found["last_reload"], found["exports"]
    connections, calls, memory = found["connections"], found["calls"], found["memory"]
    rows = [
        ("server", f"rpcrdma {found['version']}, process {found['pid']}, up {_span(found['uptime_s'])}"),
        *(("listening", url) for url in found["listening"]),
        ("configuration", found["config"] or "command line"),
    ]
    if reload is not None:
        from datetime import datetime  # noqa: PLC0415

        when = datetime.fromtimestamp(reload["unix_s"]).astimezone().isoformat(" ", "seconds")
        rows.append(("last reload", f"{when}, {reload['result']}"))
    if grace is not None:
        left = f"{_span(grace['left_s'])} left, {grace['awaited']} clients awaited"
        rows.append(("grace period", left if grace["active"] else "over"))
        rows.append(("clients", f"{found['clients']} of version 4"))
    absent = f", absent: {', '.join(exports['absent'])}" if exports["absent"] else ""
    rows += [
        ("connections", f"{connections['rdma']} over RDMA, {connections['tcp']} over TCP"),
        ("calls", f"{calls['rdma']} over RDMA, {calls['tcp']} over TCP, {calls['running']} running"),
        (
            "memory",
            f"{console.readable_octets(memory['used_bytes'])} of {console.readable_octets(memory['limit_bytes'])}",
        ),
        ("exports", f"{exports['available']} available{absent}"),
    ]
    console.table(rows)


def _show_clients(found: Mapping[str, Any]) -> None:
    if not found["hosts"]:
        console.talk("no clients")
        return
    headings = ("address", "versions", "rdma", "tcp", "calls", "received", "sent", "mounts of version 3")
    rows = [
        (
            host["address"],
            ",".join(host["versions"]) or "-",
            str(host["rdma_connections"]),
            str(host["tcp_connections"]),
            str(host["calls"]),
            console.readable_octets(host["bytes_received"]),
            console.readable_octets(host["bytes_sent"]),
            " ".join(host["mounts"]) or "-",
        )
        for host in found["hosts"]
    ]
    console.table(rows, headings=headings, right=range(2, 7))
    if not found["clients"]:
        return
    console.data("")
    columns = (
        "client", "address", "name", "principal", "version", "sessions", "slots", "calls", "opens", "locks",
        "delegations", "lease",
    )  # fmt: skip
    clients = [
        (
            client["id"],
            client["address"],
            client["name"],
            client["principal"],
            ",".join(client["versions"]) or "-",
            str(client["sessions"]),
            f"{client['slots_in_use']}/{client['slots']}",
            *(str(client[name]) for name in ("calls", "opens", "locks", "delegations")),
            _lease(client),
        )
        for client in found["clients"]
    ]
    console.table(clients, headings=columns, right=range(5, 11))


def _lease(client: Mapping[str, Any]) -> str:
    notes = [] if client["state"] == "confirmed" else [client["state"]]
    notes += [f"{client['revoked']} revoked"] if client["revoked"] else []
    return ", ".join([_span(client["silent_s"]), *notes])


def _show_exports(found: Mapping[str, Any]) -> None:
    if not found["exports"]:
        console.talk("no exports")
        return
    rows = [
        (
            export["name"],
            export["source"],
            export["access"],
            "yes" if export["available"] else "no",
            *(str(export[name]) for name in ("opens", "locks", "delegations")),
        )
        for export in found["exports"]
    ]
    headings = ("export", "source", "access", "available", "opens", "locks", "delegations")
    console.table(rows, headings=headings, right=range(4, 7), names=[0, 1])


def _show_revoked(found: Mapping[str, Any]) -> None:
    name = f" ({found['name']} at {found['address']})" if found["name"] else ""
    lost = [console.counted(found[f"{noun}s"], noun) for noun in ("open", "lock", "delegation")]
    lost += [console.counted(len(found["mounts"]), "mount")] if found["mounts"] else []
    console.data(f"revoked of {found['client']}{name}: {', '.join(lost)}")


def _span(seconds: float) -> str:
    """Returns the text of a duration in seconds: "45 s", or from 60 s on "0:01:30" and "1 day, 3:12:05"."""
    return f"{seconds:.0f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
