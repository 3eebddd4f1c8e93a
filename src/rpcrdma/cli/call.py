"""`rpcrdma call`: one call of any ONC RPC program, by its interface definition."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpcrdma.cli.event_loop import run_async
from rpcrdma.commands import (
    CommandParser,
    ExitStatus,
    add_json,
    connect_options,
    console,
    octets,
    service_url,
)
from rpcrdma.commands.arguments import positive_count
from rpcrdma.commands.definition import (
    OWN_DEFINITIONS,
    add_definition_options,
    own_definition,
    read_definition,
    read_regular_file,
)
from rpcrdma.errors import DecodeError, LocalProtocolError, MessageTooLong, RpcRdmaError
from rpcrdma.file_limits import JSON_FILE_OCTETS_MAX
from rpcrdma.limits import REPLY_OCTETS_MAX

if TYPE_CHECKING:
    from rpcrdma.aio.client.connect import ConnectOptions
    from rpcrdma.aio.urls import Url
    from rpcrdma.rpc.loaded_interface import LoadedInterface, LoadedProcedure
    from rpcrdma.wire.buffers import Buffer

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma call rdma://server nfs3.x NFSPROC3_NULL
  rpcrdma call tcp://server mount3.x export
  rpcrdma call tcp://server:20048 mount3.x mnt '"/data"'
  rpcrdma call rdma://server nfs3.x lookup '{"what": {"dir": {"data": "hex:0100"}, "name": "notes"}}'
  rpcrdma call rdma://server nfs3.x read --save result.resok.data=notes - < arguments.json
  rpcrdma call tcp://server --cpp --lenient /usr/include/rpcsvc/rquota.x rquotaproc_getquota '{...}'

JSON follows the types of the definition: structures are objects, enumerations names, opaque data Base64 or "hex:00ff",
"text:words", "@FILE". docs/cli.md describes all forms.
"""
_INDEX = re.compile(r"\[\d+\]")


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma call` to `parser`."""
    parser.describe(run, "URL FILE.x PROCEDURE [JSON]", _EXAMPLES)
    # JSON may follow options: before Python 3.12.7 an optional argument was taken as absent at the first option.
    parser.options_anywhere = True
    parser.add_argument(
        "url",
        type=service_url,
        metavar="URL",
        help="rdma://HOST[:PORT] or tcp://HOST[:PORT]; over TCP without PORT the server's port mapper is asked",
    )
    parser.add_argument(
        "file",
        metavar="FILE.x",
        help="the program's interface definition; - is standard input. Where there is no such file, "
        f"{', '.join(OWN_DEFINITIONS)} are the library's",
    )
    parser.add_argument(
        "procedure", metavar="PROCEDURE", help="its name in FILE.x, or the part after PROC_; upper or lower case"
    )
    parser.add_argument("arguments", nargs="?", metavar="JSON", help="the arguments; - is standard input")
    parser.add_argument("--program", metavar="PROGRAM", help="name or number, where FILE.x has several")
    parser.add_argument(
        "--program-version",
        type=positive_count,
        metavar="N",
        help="version of the program (default: the newest in FILE.x that has the procedure)",
    )
    parser.add_argument(
        "--reply-max",
        type=octets,
        metavar="SIZE",
        help="the largest result to make room for, where FILE.x allows larger ones (default: 4 MiB)",
    )
    parser.add_argument(
        "--save",
        type=_save,
        action="append",
        default=[],
        metavar="PATH=FILE",
        help='write the opaque data at PATH, such as result.data, to FILE; "@FILE" stands in the result then',
    )
    parser.add_argument("--hex", action="store_true", help="show opaque data in hexadecimal instead of Base64")
    add_definition_options(parser, "without it only the reply's size bounds them")
    add_json(parser, "one JSON object with the procedure and its result")


def _save(text: str) -> tuple[str, Path]:
    path, equals, file = text.partition("=")
    if not equals or not path or not file:
        raise argparse.ArgumentTypeError(f"{text!r} is not PATH=FILE: write result.data=data.bin")
    return path, Path(file)


def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma call`: makes one RPC by its interface definition, and prints its result; returns the exit status.

    If the definition cannot be read, or has errors, these are printed, and the result is `ExitStatus.FAILED`.

    Raises:
        LocalProtocolError: definition and arguments are both to come from standard input; the definition has no such
            procedure; or the arguments or paths of --save do not fit the procedure.
        RpcRdmaError: the connection or the call failed.
        OSError: a file that the arguments name ("@FILE") cannot be read, a file of --save cannot be written, or the
            result, which is printed all the same, has no data for it.
    """
    from rpcrdma.rpc.loaded_interface import load_interface  # noqa: PLC0415
    from rpcrdma.xdr.language import LanguageError  # noqa: PLC0415

    if args.file == args.arguments == "-":
        raise LocalProtocolError("FILE.x and JSON cannot both come from standard input")
    if args.file in OWN_DEFINITIONS and not Path(args.file).exists():
        args.file = str(own_definition(args.file))
    source = read_definition(args)
    if source is None:
        return ExitStatus.FAILED
    try:
        loaded = load_interface(
            source.text, source_name=source.name, lenient=args.lenient, default_limit=args.default_limit
        )
    except LanguageError as error:
        source.show(error.diagnostics)
        more = "" if args.lenient else "; --lenient takes malformed ones whose meaning is clear"
        return console.error(f"{args.file} does not compile", f"rpcrdma xdr lint checks definitions{more}")
    if len(loaded.warnings) > 1:
        places = f"{len(loaded.warnings)} places"
        console.talk(f"warning: {args.file} is malformed in {places}; rpcrdma xdr lint --lenient shows them")
    else:
        source.show(loaded.warnings)
    call = _Call(args, loaded, loaded.procedure(args.procedure, program=args.program, version=args.program_version))
    call.prepare()
    return run_async(call.run())


@dataclass(slots=True)
class _Call:
    args: argparse.Namespace
    loaded: LoadedInterface
    found: LoadedProcedure
    value: Any = None
    octets: int = 0
    """The octets of the encoded arguments."""
    saved: set[str] = field(default_factory=set)
    failures: list[OSError] = field(default_factory=list)

    def prepare(self) -> None:
        """Reads the arguments of the call from JSON and encodes them, before anything is sent.

        Raises:
            JsonMismatch: the arguments are missing, no JSON, or not of the types of the procedure's arguments.
            LocalProtocolError: `--save` has a path or file twice, or a path at which the result has no opaque data.
            OSError: a file that the JSON names ("@FILE") cannot be read.
        """
        from rpcrdma.xdr.codec import Encoder  # noqa: PLC0415
        from rpcrdma.xdr.language.json_form import JsonReader  # noqa: PLC0415

        self._check_saves()
        reader = JsonReader(
            self.loaded.module,
            self.loaded.classes,
            # pathlib raises for users that are unknown.
            read_file=lambda name: read_regular_file(os.path.expanduser(name), JSON_FILE_OCTETS_MAX),  # noqa: PTH111
        )
        self.value = reader.read(self.found.types.arguments, self._document(), "arguments")
        encoder = Encoder()
        self.found.procedure.encode_args(encoder, self.value)
        self.octets = encoder.length

    def _document(self) -> Any:
        from rpcrdma.xdr.language.json_form import JsonMismatch, parse_json  # noqa: PLC0415
        from rpcrdma.xdr.language.json_shape import shape  # noqa: PLC0415

        text = self.args.arguments
        if text == "-":
            try:
                text = sys.stdin.read(JSON_FILE_OCTETS_MAX + 1)
            except UnicodeDecodeError:
                raise JsonMismatch("arguments", "not UTF-8 text") from None
        if text is not None:
            if len(text) > JSON_FILE_OCTETS_MAX:
                raise JsonMismatch("arguments", f"longer than {JSON_FILE_OCTETS_MAX >> 20} MiB")
            return parse_json(text, "arguments")
        kind = self.found.types.arguments
        if kind is not None:
            like = json.dumps(shape(self.loaded.module, kind))
            raise JsonMismatch("arguments", f"{self.found.types.name} takes some", f"they look like {like}")
        return None

    def _check_saves(self) -> None:
        from rpcrdma.xdr.language.json_shape import data_paths  # noqa: PLC0415

        known = list(dict.fromkeys(data_paths(self.loaded.module, self.found.types.result, "result")))
        seen: set[str | Path] = set()
        for path, file in self.args.save:
            if path in seen:
                raise LocalProtocolError(f"--save has two files for {path}; leave one out")
            if file in seen:
                raise LocalProtocolError(f"--save has {file} for two paths; name another file")
            seen.update((path, file))
            if _INDEX.sub("[]", path) not in known:
                error = LocalProtocolError(f"the result of {self.found.types.name} has no opaque data at {path}")
                error.add_note(f"it has some at {', '.join(known)}" if known else "it has none anywhere")
                raise error

    async def run(self) -> ExitStatus:
        """Connects, makes the call, prints its result, and writes the files of `--save`; returns `ExitStatus.DONE`.

        Raises:
            RpcRdmaError: the connection or the call failed; some errors have a note with advice.
            OSError: a file cannot be written, or the result has no data for it; the result was printed all the same.
        """
        from rpcrdma.aio.client.connect import connect  # noqa: PLC0415

        options = self._options()
        url = await self._located(options)
        async with connect(str(url), self.loaded.classes[self.found.version.name], options=options) as connection:
            try:
                result = await connection.call(self.found.procedure, self.value)
            except RpcRdmaError as error:
                self._advise(error)
                raise
            self._print(url, result)
        return ExitStatus.DONE

    def _options(self) -> ConnectOptions:
        from rpcrdma.rpc.message import CALL_HEADER_OCTETS  # noqa: PLC0415
        from rpcrdma.transport import TransportConfig  # noqa: PLC0415

        most = self.args.reply_max or REPLY_OCTETS_MAX
        # A lost connection is not made again: other servers than this library's may run a repeated call twice.
        return replace(
            connect_options(self.args),
            reconnect=False,
            record_octets_max=max(most, self.octets) + 2 * CALL_HEADER_OCTETS + 1024,
            transport=TransportConfig(reply_octets_max=most),
        )

    async def _located(self, options: ConnectOptions) -> Url:
        """Returns the user's URL; a tcp:// URL without a port gets the program's port from the host's port mapper.

        Raises:
            ConnectFailed: no port mapper answers, or it does not know the program; or `options.xprtsec` asks for TLS,
                which the port mapper lacks, and `options.mount_in_clear` does not permit to ask it without TLS.
            RpcRdmaError: the port mapper's answer is malformed (DecodeError), or not there in time (CallTimeout).
        """
        from rpcrdma.nfs.client.port_mapper import check_may_be_asked, registered_port  # noqa: PLC0415

        url: Url = self.args.url
        if url.scheme != "tcp" or url.port_given:
            return url
        check_may_be_asked(options)
        version = self.found.version
        port = await registered_port(
            url.host, version.program_number, version.number, timeout_s=options.connect_timeout_s
        )
        return replace(url, port=port, port_given=True)

    def _advise(self, error: RpcRdmaError) -> None:
        from rpcrdma.errors import (  # noqa: PLC0415
            GarbageArguments,
            NoSuchProcedure,
            ProgramMismatch,
            ProgramUnavailable,
        )
        from rpcrdma.transport import ChunkRefused  # noqa: PLC0415

        match error:
            case MessageTooLong() | ChunkRefused():
                error.add_note("--reply-max SIZE makes room for a larger result")
            case ProgramMismatch() | NoSuchProcedure():
                error.add_note("--program-version N calls another version, if FILE.x has it")
            case ProgramUnavailable():
                error.add_note(f"rpcrdma programs {self.args.url} lists the programs of the server")
            case DecodeError() | GarbageArguments():
                error.add_note(f"or {self.args.file} does not define the program of this server")
            case _:
                pass

    def _print(self, url: Url, result: Any) -> None:
        from rpcrdma.xdr.language.json_form import JsonWriter  # noqa: PLC0415

        writer = JsonWriter(self.loaded.module, hexadecimal=self.args.hex, keep=self._keep)
        document = writer.write(self.found.types.result, result, "result")
        if self.args.json:
            version = self.found.version
            called = {"url": str(url), "program": version.program_number, "version": version.number}
            console.json_line({**called, "procedure": self.found.types.name, "result": document})
        else:
            console.write(json.dumps(document, indent=2) + "\n")
        for error in self.failures:
            raise error
        for path, file in self.args.save:
            if path not in self.saved:
                raise FileNotFoundError(f"this result has nothing at {path}; {file} was not written")

    def _keep(self, path: str, data: Buffer) -> str | None:
        file = dict(self.args.save).get(path)
        if file is None:
            return None
        self.saved.add(path)
        try:
            file.write_bytes(data)
        except OSError as error:
            # The call has run: its result is shown all the same.
            self.failures.append(error)
            return None
        return f"@{file}"
