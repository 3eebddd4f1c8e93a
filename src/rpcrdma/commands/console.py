"""The command's output: results go to standard output, messages to standard error; with `--json` errors to both."""

from __future__ import annotations

import contextlib
import enum
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rpcrdma.wire.peer_text import printable

__all__ = [
    "NOTICE",
    "OPTIONS",
    "ExitStatus",
    "announce",
    "counted",
    "data",
    "error",
    "errors_as_json",
    "errors_through",
    "in_journal",
    "in_options",
    "is_of_output",
    "journal_lines",
    "json_line",
    "names",
    "naming_standard_output",
    "prepare",
    "printable",
    "readable_octets",
    "readable_rate",
    "shown",
    "table",
    "talk",
    "write",
    "write_error",
]

_NOT_UTF8 = re.compile(r"[\udc80-\udcff]+")
_PROSE = frozenset({"message", "hint"})

OPTIONS: Final[Mapping[str, str]] = {
    "HostAuthentication(certificate=...)": "--tls-cert",
    "HostAuthentication(key=...)": "--tls-key",
    "HostAuthentication(authorities=...)": "--tls-ca",
    "HostAuthentication(names=...)": "--tls-name",
    'HostAuthentication(policy="optional")': "--host-auth optional",
    'ConnectOptions(rpcrdma_version="auto")': "--rpcrdma-version auto",
    'RdmaServerConfig(rpcrdma_version="auto")': "--rpcrdma-version auto",
    'ConnectOptions(xprtsec="none")': "--xprtsec none",
    'ConnectOptions(xprtsec="mtls")': "--xprtsec mtls",
    "TcpServerConfig(xprtsec=...)": "--xprtsec",
    "ConnectOptions(security=...)": "--sec",
    'ConnectOptions(security="sys")': "--sec sys",
    "ConnectOptions(mount_in_clear=True)": "--mount-in-clear",
    "ConnectOptions(reserved_port=True)": "--reserved-port",
    "Export(mount_in_clear=True)": "--mount-in-clear",
    "procedure(program=...)": "--program",
    "start a MetricsExporter for the server": "start the server with --metrics HOST:PORT",
    "(cpp -P)": "(--cpp)",
}
"""Words of the library's messages, with their replacements in the command's messages."""

_NOTICE = 25
NOTICE: Final[Mapping[str, Any]] = {"priority": _NOTICE}
"""`extra` of log records about the life of a server: in the journal they have a higher priority than other news."""
_SYSLOG_PRIORITIES = ((40, 3), (30, 4), (_NOTICE, 5), (20, 6), (0, 7))
"""The least level of logging, and the priority of syslog(3)."""

_PARAMETER: Final = re.compile("|".join(map(re.escape, OPTIONS)))

_STANDARD_OUTPUT: Final = "standard output"

_error_object: Mapping[str, Any] | None = None
"""Items beside `error` in an error's object on standard output; None: errors go to standard error only."""

_put_error: Callable[[dict[str, Any]], object] | None = None
"""Takes the objects of errors in place of standard output; None: they are printed there."""


class ExitStatus(enum.IntEnum):
    """The exit status of every command; 128 + N if signal N ended it (SIGPIPE: its output was closed), as in shells."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_CONNECTED = 3
    """No connection could be made."""
    PROTOCOL_VIOLATION = 4
    """This side or the peer broke the protocol."""
    HUNG_UP = 129
    """The terminal has ended."""
    INTERRUPTED = 130
    READER_GONE = 141
    """The reader of standard output has closed it."""
    TERMINATED = 143


def prepare() -> None:
    """Sets up the process's standard streams, before anything is printed.

    Standard output is encoded in UTF-8 in every locale, with "surrogateescape": file names that are not UTF-8 are
    written as their octets. Standard error has escapes for characters that its encoding lacks. Standard input is UTF-8,
    too, as files are; other octets raise UnicodeDecodeError. Streams that are closed become /dev/null.
    """
    # uvloop aborts with a file of its own under one of these numbers.
    number = 0
    while number <= 2:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The number of the stream may be that of another file by now.
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode, closefd=False))  # noqa: SIM115 - it stays open
    for stream, settings in (
        (sys.stdin, {"encoding": "utf-8", "errors": "strict"}),
        (sys.stdout, {"encoding": "utf-8", "errors": "surrogateescape"}),
        (sys.stderr, {"errors": "backslashreplace"}),
    ):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(**settings)


def shown(name: str) -> str:
    """Returns a file name for standard output: control characters are escaped if that is a terminal, else unchanged."""
    return printable(name) if sys.stdout.isatty() else name


@contextlib.contextmanager
def naming_standard_output() -> Iterator[None]:
    """Context manager: sets `filename` of an OSError that leaves the block to "standard output", if it has none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or _STANDARD_OUTPUT
        raise


def is_of_output(error: BaseException | None) -> bool:
    """Returns whether an error is one that `naming_standard_output` has named, so that no other file has failed."""
    # Not by equality: a file may have that name.
    return isinstance(error, OSError) and error.filename is _STANDARD_OUTPUT


def write(text: str = "", *, flush: bool = False) -> None:
    """Writes `text` to standard output, unchanged, without a line end; then flushes the stream if `flush` is set.

    Raises:
        OSError: The stream refused the text. The error's `filename` is "standard output".
    """
    with naming_standard_output():
        # A terminal that is gone refuses even nothing.
        if text:
            sys.stdout.write(text)
        if flush:
            sys.stdout.flush()


def names(found: Sequence[str]) -> None:
    """Prints file names on standard output, one a line; control characters are escaped on a terminal alone.

    Raises OSError if the stream refuses them. For no names it prints nothing.
    """
    if sys.stdout.isatty():
        found = [printable(name) for name in found]
    write("\n".join([*found, ""]))


def data(line: str) -> None:
    """Prints one line on standard output, control characters escaped; raises OSError if the stream refuses it."""
    write(printable(line) + "\n")


def json_line(value: Any) -> None:
    """Prints a value as JSON (`json_text`) on a line of standard output, and flushes it; raises OSError if refused."""
    write(json_text(value) + "\n", flush=True)


def json_text(value: Any) -> str:
    """Returns a value, of types that `json.dumps` takes, as a JSON document on one line.

    Octets of names that are no UTF-8 are shown as in URLs (%FF). A dictionary with such a name as a value also gets the
    whole name in Base64, under its key with `_base64` added; texts under "message" and "hint" are excepted.
    """
    import json  # noqa: PLC0415 - most commands print none

    text = json.dumps(value)
    if "\\udc" in text:
        text = json.dumps(_expressible(value))
    return text


def _expressible(value: Any) -> Any:
    """Returns `value` with surrogates, which stand for octets that are not UTF-8, written as %FF.

    In dictionaries the octets of each such text are added in Base64, under its key with `_base64` appended, except for
    the keys "message" and "hint".
    """
    import base64  # noqa: PLC0415
    from urllib.parse import quote  # noqa: PLC0415

    if isinstance(value, str):
        return _NOT_UTF8.sub(lambda found: quote(found[0], safe="", errors="surrogateescape"), value)
    if isinstance(value, (list, tuple)):
        return [_expressible(item) for item in value]
    if not isinstance(value, dict):
        return value
    expressed = {}
    for key, item in value.items():
        expressed[key] = _expressible(item)
        if isinstance(item, str) and key not in _PROSE and _NOT_UTF8.search(item):
            expressed[f"{key}_base64"] = base64.b64encode(item.encode("utf-8", "surrogateescape")).decode()
    return expressed


def talk(line: str, *, level: int = 20) -> None:
    """Prints one line on standard error, with control characters escaped, and flushes the stream.

    `level` is a level of `logging`; 20 is INFO. It suppresses no line: it becomes the line's priority if standard error
    is systemd's journal. A line that the stream refuses is lost.
    """
    text = printable(line)
    write_error((journal_lines(text, level) if in_journal() else text) + "\n")


def write_error(text: str) -> None:
    """Writes `text` to standard error, unchanged, without a line end, and flushes the stream; loses what it refuses."""
    # Whoever reads the results may still be there.
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def announce(line: str) -> None:
    """Prints one line on standard output, control characters escaped; raises OSError if the stream refuses it.

    If standard error is systemd's journal, prints it there instead, with the priority of a notice.
    """
    if in_journal():
        talk(line, level=_NOTICE)
    else:
        data(line)


def in_journal() -> bool:
    """Returns whether standard error is systemd's journal, by the variable JOURNAL_STREAM."""
    with contextlib.suppress(OSError):
        status = os.fstat(2)
        return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
    return False


def journal_lines(text: str, level: int) -> str:
    """Returns `text` with "<N>" before each line: N is the priority for a level of `logging` (sd-daemon(3))."""
    priority = next(priority for least, priority in _SYSLOG_PRIORITIES if level >= least)
    return "\n".join(f"<{priority}>{line}" for line in text.split("\n"))


def in_options(text: str) -> str:
    """Returns a message of the library with command-line options ("--tls-key") in place of the keys of `OPTIONS`."""
    return _PARAMETER.sub(lambda found: OPTIONS[found[0]], text)


def errors_as_json(beside: Mapping[str, Any] | None) -> None:
    """Sets whether `error` also prints a JSON object on standard output, from now on in this process.

    `beside` has the items of the object beside "error"; None: no object is printed.
    """
    global _error_object  # noqa: PLW0603 - the process has one standard output
    _error_object = beside


def errors_through(put: Callable[[dict[str, Any]], object] | None) -> None:
    """Has `error` give its JSON objects to `put` from now on, in place of printing them; None: it prints them."""
    global _put_error  # noqa: PLW0603 - see `errors_as_json`
    _put_error = put


def error(
    message: str,
    hint: str = "",
    *,
    status: ExitStatus = ExitStatus.FAILED,
    facts: Mapping[str, Any] | None = None,
    in_report: bool = False,
) -> ExitStatus:
    """Prints an error on standard error, and as a JSON object on standard output if `errors_as_json` says so.

    `errors_through` may have set another receiver of the object. An OSError of standard output is not raised.

    Args:
        message: The cause.
        hint: The remedy; "" if there is none.
        status: The exit status that is to follow.
        facts: The value of the item "error" in the JSON object; None: one made of message, hint and status.
        in_report: Whether to print no JSON object, since the command has the error in its own report.

    Returns:
        `status`, for the caller to exit with.
    """
    talk(f"error: {message}", level=40)
    if hint:
        talk(f"hint: {hint}", level=40)
    if _error_object is not None and not in_report:
        if facts is None:
            kind = "usage" if status is ExitStatus.USAGE else "failed"
            facts = {"kind": kind, "message": message, "path": None, "url": None, "errno": None, "hint": hint or None}
            facts |= {"exit_status": int(status)}
        # It may be standard output itself that has failed.
        with contextlib.suppress(OSError):
            (_put_error or json_line)({**_error_object, "error": facts})
    return status


def table(
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    headings: Sequence[str] = (),
    names: Collection[int] = (),
) -> None:
    """Prints rows of text in aligned columns on standard output; raises OSError if the stream refuses them.

    On a terminal, headings are bold unless NO_COLOR is set.

    Args:
        rows: The cells of each row, the same number in all; control characters, but in `names`, are escaped.
        right: Indices, from 0, of columns that are aligned to the right.
        headings: The first row, which is printed without `rows` as well; empty: none.
        names: Indices, from 0, of columns of file names; their control characters are escaped only on a terminal.
    """
    body = [[(shown if at in names else printable)(cell) for at, cell in enumerate(row)] for row in rows]
    every = [list(headings), *body] if headings else body
    if not every:
        return
    widths = [max(len(cell) for cell in column) for column in zip(*every, strict=True)]
    to_right = set(right)
    bold = bool(headings) and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for number, row in enumerate(every):
        cells = [
            cell.rjust(width) if column in to_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        write(f"\x1b[1m{line}\x1b[0m\n" if bold and number == 0 else f"{line}\n")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun, such as "1 call" or "1,000 calls".

    Args:
        number: The number.
        noun: The noun for one.
        plural: The noun for other numbers; "": `noun` with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def readable_octets(octets: float) -> str:
    """Returns a number of octets as text in decimal units, bytes to TB, such as "54.2 MB"."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if octets < 1000:
            return f"{octets:.0f} bytes" if unit == "bytes" else f"{octets:.1f} {unit}"
        octets /= 1000
    return f"{octets:.1f} TB"


def readable_rate(octets: float, seconds: float) -> str:
    """Returns the rate of `octets` in `seconds` as text, such as "54.2 MB/s"; "-" if `seconds` is not positive."""
    return f"{readable_octets(octets / seconds)}/s" if seconds > 0 else "-"
