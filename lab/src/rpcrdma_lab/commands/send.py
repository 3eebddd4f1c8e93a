"""`rpcrdma send`: runs a scripted exchange with a server, and shows both sides as ladders."""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpcrdma.commands import CommandParser, ExitStatus, add_json, connect_options, console, read_text, service_url
from rpcrdma_lab.commands.capture_input import add_decoding_options, settings_for

if TYPE_CHECKING:
    from rpcrdma import ConnectOptions, PacketCapture
    from rpcrdma_lab.dissect.connection import Settings
    from rpcrdma_lab.dissect.exchanges import Exchange
    from rpcrdma_lab.scripted import Outcome, RawTarget

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma send rdma://server null.json
  rpcrdma send --given size=4096 rdma://server read.json
  rpcrdma send rdma://server/export/file check-of-a-read.json
  rpcrdma send --json --pcap talk.pcap rdma://server broken.json
  echo '{"steps": [{"say": {"rpc": {}}}, {"hear": {"message": {}}}]}' | rpcrdma send rdma://server -
"""
_ANSWER_S = 5.0
_NFS = {"program": 100003, "program_version": 3}
_OF_EXPORT = frozenset(("file", "content", "written", "write_position", "fresh", "owner"))
"""Names of values that are found in the export of the URL, as by `rpcrdma check`; the last four need --write."""
_FORM = 'a conversation is {"steps": [...]}; examples/conversations has some'


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma send` to its parser."""
    parser.describe(run, "URL FILE", _EXAMPLES)
    parser.add_argument(
        "url",
        type=service_url,
        metavar="URL",
        help="rdma://HOST[:PORT][/PATH]; PATH is for conversations with a file, and leads to it or to its directory",
    )
    parser.add_argument("file", metavar="FILE", help="a conversation as JSON, - for standard input; docs/send.md")
    parser.add_argument(
        "--given",
        type=_given,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a number, or octets as hex:DIGITS, for the places where the conversation says {'given': NAME}",
    )
    parser.add_argument(
        "--write", metavar="DIR", help="make the files to be written in this directory of the export, and remove them"
    )
    add_decoding_options(parser)
    add_json(parser)


def _given(text: str) -> tuple[str, int | bytes]:
    name, equals, value = text.partition("=")
    try:
        if name and equals:
            return name, bytes.fromhex(value[4:]) if value.startswith("hex:") else int(value, 0)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE: write size=4096, or handle=hex:01020304")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma send` with parsed arguments, and prints the messages of both sides.

    Returns the exit status: DONE if all answers are as expected; FAILED if not, or if a definition of --program cannot
    be used; NOT_CONNECTED if the start-up of iWARP failed and the conversation does not script it with "startup"; USAGE
    for wrong arguments, a file without a conversation, or a value that the conversation needs and neither --given nor
    the server has. Errors have been printed, unless the status is DONE.

    Raises:
        RpcRdmaError: the conversation or --add-extension is malformed, or the server cannot be reached.
        OSError: a file in the export cannot be found or created, or the capture cannot be written.
    """
    from rpcrdma_lab.commands.connecting import connecting  # noqa: PLC0415
    from rpcrdma_lab.scripted import RawTarget, run_conversation  # noqa: PLC0415
    from rpcrdma_lab.scripted.form import check_conversation, names_wanted  # noqa: PLC0415

    wrong = _wrong_usage(args)
    if wrong:
        return console.error(*wrong, status=ExitStatus.USAGE)
    conversation = _read_conversation(args.file)
    if conversation is None:
        return ExitStatus.USAGE
    check_conversation(conversation)
    version = conversation.get("version", "1")
    options = connect_options(args)
    args.rpcrdma_version = version
    settings = settings_for(args)
    if settings is None:
        return ExitStatus.FAILED
    with tempfile.TemporaryDirectory(prefix="rpcrdma-send-") as directory:
        # The file of --pcap may be a pipe, or end early as its disk is full.
        path = Path(directory) / "sent.pcap"
        capture = _captured(path, args.capture)
        target = RawTarget(
            host=args.url.host,
            port=args.url.port,
            timeout_s=_ANSWER_S if args.timeout is None else args.timeout,
            crc=args.crc,
            capture=capture,
        )
        try:
            async with _known(args, names_wanted(conversation), options, target) as (known, missing):
                if missing:
                    told = f"the conversation needs values that are not given: {', '.join(sorted(missing))}"
                    return console.error(told, "--given NAME=VALUE; docs/send.md", status=ExitStatus.USAGE)
                with connecting(target):
                    outcome = await run_conversation(conversation, target, known)
        finally:
            capture.close()
        status = _report(args, outcome, list(_exchanges(path, settings)))
        unstarted = outcome.failure is not None and outcome.failure.step < 0 and "startup" not in conversation
        return ExitStatus.NOT_CONNECTED if unstarted else status


def _wrong_usage(args: argparse.Namespace) -> tuple[str, str] | None:
    if args.url.scheme != "rdma":
        return "messages with headers need rdma://", f"rdma://{args.url.host}"
    if args.provider == "verbs":
        return "the frames of send are its own, over TCP", "rpcrdma check --provider verbs judges over an RDMA device"
    if args.rpcrdma_version != "auto":
        return "the conversation names its version", 'write "version": "2" in it, and leave out --rpcrdma-version'
    return None


@contextlib.asynccontextmanager
async def _known(
    args: argparse.Namespace, wanted: set[str], options: ConnectOptions, target: RawTarget
) -> AsyncIterator[tuple[dict[str, int | bytes], set[str]]]:
    """Context manager: enters with (values of a conversation by name, the names of `wanted` that have no value).

    The values are those of --given, and for other names of `wanted` those that `rpcrdma check` finds: of files at the
    URL's path, and of the protocol versions that the server speaks at `target`. At exit the files created for --write
    are removed. The console notes which of them could not be removed, and a file that is not found without --write,
    which leaves its names without a value.

    Raises:
        RpcRdmaError: the server cannot be reached at `target`, or does not offer NFS; with --write, a call failed.
        OSError: nothing is at the URL's path (`FileNotFoundError`), or a file for --write cannot be created.
    """
    from rpcrdma_lab.check import spoken_versions  # noqa: PLC0415
    from rpcrdma_lab.check.abilities import Abilities  # noqa: PLC0415
    from rpcrdma_lab.check.export_files import own_credential, prepared_export  # noqa: PLC0415
    from rpcrdma_lab.commands.connecting import connecting  # noqa: PLC0415

    given = dict(args.given)
    wanted = wanted - given.keys()
    abilities = Abilities(given={**_NFS, "credential": own_credential()})

    def note() -> None:
        while abilities.notes:
            console.talk(f"note: {abilities.notes.pop(0)}")

    async with contextlib.AsyncExitStack() as stack:
        if wanted & _OF_EXPORT:
            fresh_files = int("fresh" in wanted)
            preparing = prepared_export(
                args.url, options, mount_port=args.mount_port, write=args.write, fresh_files=fresh_files
            )
            # After the removal of the files.
            stack.callback(note)
            abilities = await stack.enter_async_context(preparing)
            abilities.given |= _NFS
            if abilities.fresh_files:
                abilities.given["fresh"] = abilities.fresh_files.pop()
            note()
        if wanted - abilities.given.keys() - _OF_EXPORT:
            with connecting(target):
                abilities.add_spoken(await spoken_versions(replace(target, capture=None), abilities.given))
        yield {**abilities.given, **given}, wanted - abilities.given.keys()


def _read_conversation(file: str) -> dict[str, Any] | None:
    """Returns the conversation in a JSON file, or that of the check in the file; None after printing an error.

    "-" is standard input. A conversation with "serve" or "answer", which judge clients, is an error as well.
    """
    text = read_text(file)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        console.error(f"{file}: not JSON: {error}", _FORM, status=ExitStatus.USAGE)
        return None
    if not isinstance(found, dict):
        console.error(f"{file}: not a conversation", _FORM, status=ExitStatus.USAGE)
        return None
    # A check, as `rpcrdma check --list --json` prints it.
    inner = found.get("conversation", found)
    conversation = inner if isinstance(inner, dict) else found
    steps = conversation.get("steps")
    listed = steps if isinstance(steps, list) else ()
    if any(isinstance(step, dict) and step.keys() & {"serve", "answer"} for step in listed):
        told = f"{file}: a conversation that judges clients"
        console.error(told, "rpcrdma check --listen URL --only ID holds it", status=ExitStatus.USAGE)
        return None
    return conversation


def _captured(path: Path, other: PacketCapture | None) -> PacketCapture:
    """Returns a capture to the file `path`, which passes its packets on to the capture `other` unless that is None."""
    from rpcrdma import PacketCapture  # noqa: PLC0415

    class Both(PacketCapture):
        def write_packet(self, packet: bytes) -> None:
            super().write_packet(packet)
            if other is not None:
                other.connections = max(other.connections, self.connections)
                other.write_packet(packet)

    return Both(path)


def _exchanges(path: Path, settings: Settings) -> Iterator[Exchange]:
    from rpcrdma_lab.dissect.capture_dissector import CaptureDissector  # noqa: PLC0415
    from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, read_packets  # noqa: PLC0415
    from rpcrdma_lab.dissect.exchanges import Exchanges  # noqa: PLC0415

    with path.open("rb") as file:
        packets = read_packets(file, file.read(MAGIC_OCTETS))
        yield from Exchanges().each(CaptureDissector(settings).messages(packets))


def _report(args: argparse.Namespace, outcome: Outcome, exchanges: list[Exchange]) -> int:
    from rpcrdma_lab.dissect.exchange_text import exchange_lines  # noqa: PLC0415

    failure = outcome.failure
    if args.json:
        _print_json(outcome, exchanges)
    else:
        for exchange in exchanges:
            for line in exchange_lines(exchange):
                console.data(line)
    if failure is not None:
        place = "the start-up" if failure.step < 0 else f"steps[{failure.step}]"
        hint = "check that a server of RPC-over-RDMA with iWARP listens there" if failure.step < 0 else ""
        return console.error(f"{place}: expected {failure.expected}, found {failure.found}", hint, in_report=True)
    if not args.json:
        console.talk("all answers are as expected")
    return ExitStatus.DONE


def _print_json(outcome: Outcome, exchanges: list[Exchange]) -> None:
    failure = outcome.failure
    names = ("step", "expected", "found", "silent")
    console.json_line(
        {
            "as_expected": failure is None,
            "failure": None if failure is None else {name: getattr(failure, name) for name in names},
            "passages": [
                {"at_s": round(one.at_s, 6), "ours": one.ours, "text": one.text, "octets": one.octets.hex()}
                for one in outcome.passages
            ],
            "exchanges": [exchange.as_json() for exchange in exchanges],
        }
    )
