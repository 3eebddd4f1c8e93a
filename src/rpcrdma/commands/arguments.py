"""The kinds of arguments of commands: functions for the `type` of argparse."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rpcrdma.commands import console
from rpcrdma.commands.console import ExitStatus
from rpcrdma.errors import LocalProtocolError

if TYPE_CHECKING:
    from rpcrdma.aio.urls import Url

__all__ = [
    "group_number",
    "host_and_port",
    "is_url",
    "listening_url",
    "local_name",
    "microseconds",
    "no_url",
    "octal_mode",
    "octets",
    "port_number",
    "positive_count",
    "program_number",
    "seconds",
    "seconds_or_never",
    "service_url",
    "uint32",
    "user_number",
]


def is_url(text: str) -> bool:
    """Returns whether `text` begins with rdma:// or tcp://, as the URL of a server does and a local path does not."""
    return text.startswith(("rdma://", "tcp://"))


def no_url(text: str) -> ExitStatus:
    """Prints an error that the argument `text` is no URL, and a hint with the form; returns the exit status USAGE."""
    from rpcrdma.aio.urls import url_form  # noqa: PLC0415

    return console.error(f"{text} is not a URL", url_form(text), status=ExitStatus.USAGE)


def local_name(text: str) -> str:
    """Returns `text`, the name of a local file or directory, unchanged; it need not exist.

    Raises:
        argparse.ArgumentTypeError: `text` is empty, which would name the current directory.
    """
    if not text:
        raise argparse.ArgumentTypeError("the name of a file or directory is empty")
    return text


def service_url(text: str) -> Url:
    """Parses the URL of a server, rdma:// or tcp://; raises argparse.ArgumentTypeError for another text."""
    return _url(text, listens=False)


def listening_url(text: str) -> Url:
    """Parses a URL at which a server is to listen, which may end with ?provider=NAME.

    Raises argparse.ArgumentTypeError for another text.
    """
    return _url(text, listens=True)


def _url(text: str, *, listens: bool) -> Url:
    from rpcrdma.aio.urls import parse_url  # noqa: PLC0415

    try:
        return parse_url(text, listens=listens)
    except LocalProtocolError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_DIGITS_MAX = 20
"""Enough for 64 bits; Python refuses to convert thousands of digits."""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def _whole_number(text: str, least: int, most: float, complaint: str) -> int:
    if not _is_number(text) or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} {complaint}")
    return int(text)


def port_number(text: str) -> int:
    """Parses a decimal port number from 1 to 65535; raises argparse.ArgumentTypeError for another text."""
    return _whole_number(text, 1, 65535, "is not a port: a number from 1 to 65535")


def host_and_port(text: str) -> tuple[str, int]:
    """Parses HOST:PORT, with an IPv6 address in brackets, and returns (host without brackets, port); the port may be 0.

    Raises:
        argparse.ArgumentTypeError: the text has another form.
    """
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_fit = bare and "[" not in bare and "]" not in bare and (":" not in bare or bare != host)
    if not colon or not is_fit or not _is_number(port) or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT: write 127.0.0.1:9400 or [::1]:9400")
    return bare, int(port)


def program_number(text: str) -> int:
    """Parses the number of an RPC program, from 0 to 2^32 - 1: decimal, or with the prefix 0x, 0o or 0b.

    Raises argparse.ArgumentTypeError for another text.
    """
    return uint32(text, "is not a program number")


def uint32(text: str, complaint: str, *, largest: int = 0xFFFFFFFF) -> int:
    """Parses a number from 0 to `largest`, decimal or with the prefix 0x, 0o or 0b.

    Raises:
        argparse.ArgumentTypeError: `text` is no such number; the message is the quoted text, followed by `complaint`.
    """
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= largest:
        raise argparse.ArgumentTypeError(f"{text!r} {complaint}")
    return number


def user_number(text: str) -> int:
    """Returns the user ID that `text` names: the name of a user of this machine, or a number from 0 to 2^32 - 2.

    For the kernel 2^32 - 1 means no user. Raises argparse.ArgumentTypeError for another text.
    """
    import pwd  # noqa: PLC0415 - commands of clients start without it

    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        return uint32(text, "is no user of this machine, and no number from 0 to 4294967294", largest=0xFFFFFFFE)


def group_number(text: str) -> int:
    """Returns the group ID that `text` names: the name of a group of this machine, or a number from 0 to 2^32 - 2.

    Raises argparse.ArgumentTypeError for another text.
    """
    import grp  # noqa: PLC0415

    try:
        return grp.getgrnam(text).gr_gid
    except KeyError:
        return uint32(text, "is no group of this machine, and no number from 0 to 4294967294", largest=0xFFFFFFFE)


def positive_count(text: str) -> int:
    """Parses a whole decimal number of at least 1; raises argparse.ArgumentTypeError for another text."""
    return _whole_number(text, 1, float("inf"), "is not a number of at least 1")


def seconds(text: str) -> float:
    """Parses a positive, finite number of seconds; raises argparse.ArgumentTypeError for another text."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


def seconds_or_never(text: str) -> float:
    """Parses a positive, finite number of seconds; returns 0.0, which means never, for "0" and "0.0".

    Raises argparse.ArgumentTypeError for another text.
    """
    if text.strip() in {"0", "0.0"}:
        return 0.0
    try:
        return seconds(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, nor 0 for never") from None


def microseconds(text: str) -> int:
    """Parses a whole number of microseconds from 0 to 1000000; raises argparse.ArgumentTypeError for another text."""
    return _whole_number(text, 0, 1_000_000, "is not a number of microseconds from 0 to 1000000")


def octal_mode(text: str) -> int:
    """Parses file permissions in octal digits, 0 to 7777; raises argparse.ArgumentTypeError for another text."""
    try:
        value = int(text, 8)
    except ValueError:
        value = -1
    if not 0 <= value <= 0o7777:
        raise argparse.ArgumentTypeError(f"{text!r} is not a mode: octal digits such as 755")
    return value


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


def octets(text: str) -> int:
    """Parses a size, such as 500000, 50M (decimal) or 64Mi (binary), and returns it in octets.

    The units are k, M, G, Ki, Mi and Gi, in either case, perhaps followed by B.

    Raises:
        argparse.ArgumentTypeError: the text has another form, or the size is 0.
    """
    digits = text.rstrip("kKmMgGiIbB")
    unit = text[len(digits) :].lower().removesuffix("b")
    if not _is_number(digits) or unit not in _UNITS or int(digits) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write 500000, 50M or 64Mi")
    return int(digits) * _UNITS[unit]
