"""`rpcrdma xdr`: the XDR compiler."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rpcrdma.commands import CommandParser, DefinitionText, ExitStatus, console, read_text
from rpcrdma.commands.definition import add_definition_options, read_definition

if TYPE_CHECKING:
    from rpcrdma.xdr.language import CompiledModule, Diagnostic

__all__ = ["add_arguments"]

_EXAMPLES = """examples:
  rpcrdma xdr compile counter.x                       write counter.py beside it
  rpcrdma xdr compile nfs3.x -o v3.py --check         fail unless v3.py is up to date
  rpcrdma xdr extract rfc8166.txt -o rpcrdma1.x       pull the definition out of a specification
  rpcrdma xdr lint --lenient --json draft.x           its errors and warnings, for a program to read
  rpcrdma xdr lint --cpp -DSIZE=64 -Iinclude host.x   with #include, #define and #ifdef in it
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the subcommands of `rpcrdma xdr` (compile, lint, extract) to `parser`.

    Each sets the attribute `run` of the parsed arguments: a function that takes these and returns the exit status.
    """
    parser.description = "The XDR compiler: RFC 4506 with RFC 5531 programs, to typed Python."
    parser.epilog = _EXAMPLES
    commands = parser.add_subparsers(title="commands", dest="xdr_command", required=True, metavar="COMMAND")

    command = commands.add_parser("compile", help="write a Python module", description="Compile FILE.x to Python.")
    _add_definition(command)
    command.add_argument("-o", "--output", metavar="OUT.py", help="default: beside FILE.x; - is standard output")
    command.add_argument("--check", action="store_true", help="write nothing; fail unless OUT.py is up to date")
    command.set_defaults(run=_compile)

    command = commands.add_parser("lint", help="report errors and warnings", description="Check FILE.x.")
    _add_definition(command)
    command.add_argument("--json", action="store_true", help="one JSON object on standard output")
    command.set_defaults(run=_lint)

    command = commands.add_parser(
        "extract", help='pull the "///" lines out of a specification', description="Pull the XDR out of SPEC.txt."
    )
    command.add_argument("file", metavar="SPEC.txt", help="a specification as text or HTML; - is standard input")
    command.add_argument("-o", "--output", metavar="OUT.x", help="default: standard output")
    command.set_defaults(run=_extract)


def _add_definition(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", metavar="FILE.x", help="the interface definition; - is standard input")
    add_definition_options(command, "without it they are errors")


def _compile(arguments: argparse.Namespace) -> int:
    if arguments.file == "-" and arguments.output is None:
        arguments.output = "-"
    from rpcrdma.xdr.language import LanguageError  # noqa: PLC0415

    source = read_definition(arguments)
    if source is None:
        return ExitStatus.FAILED
    try:
        compiled = _compiled(source, arguments)
    except LanguageError as error:
        source.show(error.diagnostics)
        return ExitStatus.FAILED
    source.show(compiled.warnings)
    output = arguments.output or str(Path(arguments.file).with_suffix(".py"))
    if _is_input(output, arguments.file):
        return console.error(f"{output} is the definition itself", "name another file with -o")
    if not arguments.check:
        return _write(output, compiled.text)
    present = read_text(output)
    if present is None or present == compiled.text:
        return ExitStatus.FAILED if present is None else ExitStatus.DONE
    return console.error(
        f"{output} differs from the code that {arguments.file} compiles to", "compile it without --check"
    )


def _compiled(source: DefinitionText, arguments: argparse.Namespace) -> CompiledModule:
    # The compiler brings its parser with it, which no other command needs.
    from rpcrdma.xdr.language import compile_source  # noqa: PLC0415

    return compile_source(
        source.text, source_name=source.name, lenient=arguments.lenient, default_limit=arguments.default_limit
    )


def _lint(arguments: argparse.Namespace) -> int:
    from rpcrdma.xdr.language import LanguageError  # noqa: PLC0415

    source = read_definition(arguments)
    if source is None:
        return ExitStatus.FAILED
    remarks: Sequence[Diagnostic]
    try:
        remarks = _compiled(source, arguments).warnings
    except LanguageError as error:
        remarks = error.diagnostics
    failed = any(remark.severity == "error" for remark in remarks)
    if arguments.json:
        console.json_line({"file": arguments.file, "ok": not failed, "diagnostics": source.as_json(remarks)})
    else:
        source.show(remarks)
    return ExitStatus.FAILED if failed else ExitStatus.DONE


def _extract(arguments: argparse.Namespace) -> int:
    from rpcrdma.xdr.language import extract  # noqa: PLC0415

    source = read_text(arguments.file)
    if source is None:
        return ExitStatus.FAILED
    text = extract(source)
    if not text:
        hint = 'specifications mark it with "///" at the start of each line'
        return console.error(f"{arguments.file} has no XDR in it", hint)
    output = arguments.output or "-"
    if _is_input(output, arguments.file):
        return console.error(f"{output} is the specification itself", "name another file with -o")
    return _write(output, text)


def _is_input(output: str, file: str) -> bool:
    return "-" not in {output, file} and Path(output).is_file() and Path(output).samefile(file)


def _write(file: str, text: str) -> int:
    if file == "-":
        console.write(text)
    else:
        Path(file).write_text(text, encoding="utf-8")
    return ExitStatus.DONE
