"""`rpcrdma proxy`: forwards connections to a server, and makes faults by rules."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rpcrdma.commands import CommandParser, ExitStatus, add_json, console, read_text, service_url
from rpcrdma_lab.commands.capture_input import add_decoding_options, settings_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rpcrdma_lab.commands.proxy.rules import Decision, ProxyRule
    from rpcrdma_lab.dissect.fields import Message
    from rpcrdma_lab.simulation.worlds.faults import Side

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma proxy --listen rdma://127.0.0.1:20050 --to rdma://server --rules faults.toml
  rpcrdma proxy --json --seed 7 --listen rdma://0.0.0.0 --to rdma://server:20051 --rules worlds.toml
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma proxy` to its parser."""
    parser.describe(run, "--listen URL --to URL [--rules FILE]", _EXAMPLES, connects=False)
    for option, words in (("--listen", "where clients connect; port 0 is any"), ("--to", "the server")):
        parser.add_argument(option, type=service_url, required=True, metavar="URL", help=f"{words}: rdma://HOST[:PORT]")
    parser.add_argument("--rules", metavar="FILE", help="faults as TOML, - for standard input (default: none)")
    parser.add_argument("--seed", type=int, default=0, help="draws values from ranges in the rules (default: 0)")
    add_decoding_options(parser)
    add_json(parser, "one JSON object for each event, a line each")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma proxy` with parsed arguments until a signal cancels it; then returns the exit status DONE.

    Prints an error and returns USAGE if a URL is not rdma://, or FAILED if the proxy cannot listen at its address, a
    file of --rules or --program cannot be read, or one of --program is wrong or defines no program. The cancellation
    raises nothing.

    Raises:
        ScenarioError, AddedExtensionFailed: the rules or the extension are malformed.
        OSError: an event cannot be printed.
    """
    from rpcrdma.commands import cannot_listen, describe  # noqa: PLC0415
    from rpcrdma_lab.commands.proxy.relay import Relay  # noqa: PLC0415
    from rpcrdma_lab.commands.proxy.rules import read_rules  # noqa: PLC0415

    for url in (args.listen, args.to):
        if url.scheme != "rdma":
            return console.error(f"{url} is not rdma://", "the proxy forwards iWARP", status=ExitStatus.USAGE)
    settings = settings_for(args)
    text = read_text(args.rules) if args.rules is not None else ""
    if text is None or settings is None:
        return ExitStatus.FAILED
    rules, left_out = read_rules(text, args.rules, args.seed) if args.rules is not None else ([], [])
    if left_out:
        console.talk(f"warning: no proxy can make {', '.join(left_out)}; left out")
    teller = _Teller(str(args.to), rules, as_json=args.json)
    relay = Relay((args.to.host, args.to.port), rules, settings, teller.told, teller.unreachable)
    try:
        server = await asyncio.start_server(relay.take, args.listen.host, args.listen.port)
    except (OSError, UnicodeError) as error:
        message, hint, _ = describe(cannot_listen(str(args.listen), error))
        return console.error(message, hint)
    port = server.sockets[0].getsockname()[1]
    _say(args, {"event": "listening", "url": str(replace(args.listen, port=port)), "rules": len(rules)})
    try:
        await teller.failure
    except asyncio.CancelledError:
        # A signal is the usual end.
        pass
    finally:
        server.close()
    if unmet := teller.unmet():
        console.talk(f"warning: no message met {', '.join(unmet)}")
    return ExitStatus.DONE


def _say(args: argparse.Namespace, event: dict[str, object]) -> None:
    if args.json:
        console.json_line(event)
    else:
        console.talk(f"listening at {event['url']}, {event['rules']} rules")


class _Teller:
    """Prints the faults that the proxy makes, and connections whose server cannot be reached, as text or JSON."""

    def __init__(self, server: str, rules: Sequence[ProxyRule], *, as_json: bool) -> None:
        self._server = server
        self._unmet = {rule.name: f"{rule.name} ({rule.kind})" for rule in rules}
        self._as_json = as_json
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Ends with the error at which printing failed: raised within a connection, it would end that one alone."""

    def told(self, connection: int, at_s: float, side: Side, message: Message, decision: Decision) -> None:
        """Prints the faults, `decision.words`, that the proxy makes in one message; `Relay` calls this method.

        `side` has sent the message. `connection` is the number of the connection, and `at_s` its age in seconds. The
        rules of these faults are left out of `unmet` from now on.
        """
        for name in decision.rules:
            self._unmet.pop(name, None)
        if self._as_json:
            event = {"event": "fault", "connection": connection, "at_s": round(at_s, 6), "side": str(side)}
            event |= {"message": message.number, "summary": message.summary, "faults": decision.words}
            self._print(console.json_line, event)
            return
        words = ", ".join(decision.words)
        line = f"{at_s:.6f} connection {connection}, {side}: {words}: #{message.number} {message.summary}"
        self._print(console.data, line)

    def unreachable(self, connection: int, error: OSError | UnicodeError) -> None:
        """Prints that the connection with number `connection` ends, and why the server cannot be reached: `error`."""
        cause = "not a host name" if isinstance(error, UnicodeError) else error.strerror or str(error) or "no answer"
        cause = cause.lower()
        if self._as_json:
            event = {"event": "unreachable", "connection": connection, "url": self._server, "cause": cause}
            self._print(console.json_line, event)
            return
        console.talk(f"connection {connection} ends: cannot connect to {self._server}: {cause}")

    def _print(self, write: Callable[[Any], None], value: object) -> None:
        try:
            write(value)
        except OSError as error:
            if not self.failure.done():
                self.failure.set_exception(error)

    def unmet(self) -> list[str]:
        """Returns "NAME (KIND)", as "fault[0] (drop)", of each rule that no message has met so far."""
        return list(self._unmet.values())
