"""Interface definitions as commands take them: read, preprocessed if asked for, and complained about."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpcrdma.commands import console
from rpcrdma.commands.arguments import uint32
from rpcrdma.file_limits import XDR_FILE_OCTETS_MAX

if TYPE_CHECKING:
    from rpcrdma.xdr.language import Diagnostic
    from rpcrdma.xdr.language.preprocessed import Preprocessed

__all__ = [
    "OWN_DEFINITIONS",
    "DefinitionText",
    "add_definition_options",
    "own_definition",
    "own_definition_text",
    "read_definition",
    "read_regular_file",
    "read_text",
]

OWN_DEFINITIONS = {
    "nfs3.x": "v3/nfs3.x",
    "nfs4.x": "v4/nfs4.x",
    "mount3.x": "mount3.x",
    "port_mapper.x": "port_mapper.x",
}
"""The definitions that come with the library, with their paths in `rpcrdma.nfs`."""

_STANDARD_INPUT = "<stdin>"
"""The preprocessor's name for text that it is given."""


def own_definition(name: str) -> Path:
    """Returns the path of an XDR definition that comes with the library; `name` is a key of `OWN_DEFINITIONS`."""
    # Importing the package would import the client and the server.
    return Path(__file__).parents[1] / "nfs" / OWN_DEFINITIONS[name]


def own_definition_text(name: str) -> str:
    """Returns the text of an XDR definition that comes with the library; `name` is a key of `OWN_DEFINITIONS`.

    The text of "nfs4.x" is changed for tools that decode whole messages: it declares COMPOUND, which the file lacks,
    with the operations that this library supports, and has no callback program.
    """
    text = own_definition(name).read_text(encoding="utf-8")
    if name != "nfs4.x":
        return text
    from rpcrdma.nfs.v4.definition import with_compound  # noqa: PLC0415

    return with_compound(text)


@dataclass(frozen=True, slots=True)
class DefinitionText:
    """The text of an interface definition, for the compiler and for messages about it.

    Args:
        file: The name of the file as the user wrote it; "-" is standard input.
        source: The content of the file.
        preprocessed: The output of the C preprocessor; None if it was not run.
    """

    file: str
    source: str
    preprocessed: Preprocessed | None = None

    @property
    def text(self) -> str:
        """The text for the compiler: the output of the preprocessor, or else the content of the file."""
        return self.source if self.preprocessed is None else self.preprocessed.text

    @property
    def name(self) -> str:
        """The name for the compiler's messages: the file's name without directories, or "standard input"."""
        return "standard input" if self.file == "-" else Path(self.file).name

    def show(self, remarks: Sequence[Diagnostic]) -> None:
        """Prints the compiler's errors and warnings on standard error.

        Each has the number and the text of the line that it is about, in the file before the preprocessor.
        """
        for remark in remarks:
            located, file, source = self._located(remark)
            console.write_error(f"{located.render(source, file)}\n")

    def as_json(self, remarks: Sequence[Diagnostic]) -> list[dict[str, Any]]:
        """Returns a dictionary for JSON of each of the compiler's errors and warnings.

        The keys are severity, file, line, column, length, message and hint. Lines and columns count from 1, in the file
        before the preprocessor.
        """
        rows = []
        for remark in remarks:
            located, file, _ = self._located(remark)
            row: dict[str, Any] = {"severity": located.severity, "file": file}
            row |= {"line": located.place.line, "column": located.place.column, "length": located.place.length}
            rows.append({**row, "message": located.message, "hint": located.hint})
        return rows

    def _located(self, remark: Diagnostic) -> tuple[Diagnostic, str, str]:
        remark = replace(remark, hint=console.in_options(remark.hint))
        if self.preprocessed is None:
            return remark, self.file, self.source
        located, file, source = self.preprocessed.located(remark, self._source_of)
        return located, self.file if file == _STANDARD_INPUT else file, source

    def _source_of(self, file: str) -> str | None:
        if file in {self.file, _STANDARD_INPUT}:
            return self.source
        try:
            # The output of the preprocessor names it, which may be any file of this machine.
            return str(read_regular_file(file, XDR_FILE_OCTETS_MAX), "utf-8")
        except (OSError, ValueError):
            return None


def add_definition_options(command: argparse.ArgumentParser, default_limit: str) -> None:
    """Adds the options for reading an XDR definition to a parser.

    `default_limit` is text that ends the help of --default-limit, and says what happens without this option, which has
    no default.
    """
    command.add_argument(
        "--default-limit",
        type=_limit,
        metavar="N",
        help=f"bound of variable-length items that have none, in octets or elements; {default_limit}",
    )
    command.add_argument(
        "--lenient", action="store_true", help="take malformed definitions whose meaning is clear, with warnings"
    )
    command.add_argument(
        "--cpp", action="store_true", help="run the C preprocessor first, for #include, #define and #ifdef"
    )
    command.add_argument(
        "-D", dest="defines", metavar="NAME[=VALUE]", action="append", default=[], help="define a macro; means --cpp"
    )
    command.add_argument(
        "-I",
        dest="directories",
        metavar="DIR",
        action="append",
        default=[],
        help="look for included files there, too; means --cpp",
    )


def _limit(text: str) -> int:
    return uint32(text, "is not a number from 0 to 4294967295")


def read_definition(args: argparse.Namespace) -> DefinitionText | None:
    """Reads the XDR definition in the file `args.file` ("-": standard input), through cpp if options ask for it.

    Returns None after an error, which it has printed. `args` has the options of `add_definition_options`.
    """
    source = read_text(args.file)
    if source is None or not (args.cpp or args.defines or args.directories):
        return None if source is None else DefinitionText(args.file, source)
    # Few definitions need it.
    from rpcrdma.commands.failures import tell  # noqa: PLC0415
    from rpcrdma.commands.preprocessor import PreprocessorFailed, preprocess  # noqa: PLC0415
    from rpcrdma.xdr.language.preprocessed import read_preprocessed  # noqa: PLC0415

    # A pipe, such as that of <(...) in a shell, has been read to its end.
    given = source if args.file == "-" or not Path(args.file).is_file() else None
    try:
        output = preprocess(args.file, given, defines=args.defines, directories=args.directories)
    except PreprocessorFailed as error:
        tell(error)
        return None
    return DefinitionText(args.file, source, read_preprocessed(output, args.file))


def read_text(file: str) -> str | None:
    """Reads a text file in UTF-8, or standard input for "-", of at most 64 Mi characters.

    Returns:
        The text, without the byte order mark of some editors; None if it cannot be read or is longer, after printing an
        error.
    """
    from rpcrdma.commands.failures import tell  # noqa: PLC0415

    try:
        if file == "-":
            text = sys.stdin.read(XDR_FILE_OCTETS_MAX + 1)
        else:
            with Path(file).open(encoding="utf-8") as opened:
                text = opened.read(XDR_FILE_OCTETS_MAX + 1)
    except OSError as error:
        tell(error)
    except UnicodeDecodeError:
        console.error(f"{file}: not UTF-8 text")
    else:
        if len(text) <= XDR_FILE_OCTETS_MAX:
            return text.removeprefix("\ufeff")
        console.error(f"{file}: longer than {XDR_FILE_OCTETS_MAX >> 20} MiB")
    return None


def read_regular_file(file: str, most: int) -> bytes:
    """Returns the content of a regular file of at most `most` octets.

    Raises:
        OSError: the file is longer, cannot be read, or is a device or pipe, which may have no end.
        ValueError: no file can have this name.
    """
    # A pipe that has no writer is opened at once, too.
    with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file; copy its contents into one", file)
        octets = opened.read(most + 1)
    if len(octets) > most:
        raise OSError(errno.EFBIG, f"longer than {most >> 20} MiB", file)
    return octets
