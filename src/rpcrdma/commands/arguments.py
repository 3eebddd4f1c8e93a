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
    """Returns whether `text` begins as the URL of a server, rdma:// or tcp://, and is not a local path."""
    return text.startswith(("rdma://", "tcp://"))


def no_url(text: str) -> ExitStatus:
    """Prints an error that the argument `text` is no URL, and the form of URLs; returns the exit status USAGE."""
    from rpcrdma.aio.urls import url_form  # noqa: PLC0415

    return console.error(f"{text} is not a URL", url_form(text), status=ExitStatus.USAGE)


def local_name(text: str) -> str:
    """Returns an argument that names a local file or directory.

    Raises:
        argparse.ArgumentTypeError: it is empty, which would name the current directory.
    """
    if not text:
        raise argparse.ArgumentTypeError("the name of a file or directory is empty")
    return text


def service_url(text: str) -> Url:
    """Parses the URL of a server; for another text argparse.ArgumentTypeError shows the form of URLs."""
    return _url(text, listens=False)


def listening_url(text: str) -> Url:
    """Parses a URL at which a server is to listen; for another text argparse.ArgumentTypeError shows the form."""
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
    """Parses a port number from 1 to 65535; another text is an argparse.ArgumentTypeError."""
    return _whole_number(text, 1, 65535, "is not a port: a number from 1 to 65535")


def host_and_port(text: str) -> tuple[str, int]:
    """Parses HOST:PORT, an IPv6 address in brackets; the port may be 0.

    Raises:
        argparse.ArgumentTypeError: the text has another form.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or not host or not _is_number(port) or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT: write 127.0.0.1:9400 or [::1]:9400")
    return host, int(port)


def program_number(text: str) -> int:
    """Parses the number of an RPC program, decimal or with 0x; another text is an argparse.ArgumentTypeError."""
    return uint32(text, "is not a program number")


def uint32(text: str, complaint: str, *, largest: int = 0xFFFFFFFF) -> int:
    """Parses an unsigned number of 32 bits, decimal or with 0x, 0o or 0b, up to the `largest` that is accepted.

    Raises:
        argparse.ArgumentTypeError: The text is no such number; the message is the quoted text and the `complaint`.
    """
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= largest:
        raise argparse.ArgumentTypeError(f"{text!r} {complaint}")
    return number


def user_number(text: str) -> int:
    """Returns the number of a user: the name of a user of this machine, or a number from 0 to 2^32 - 2.

    The kernel takes 2^32 - 1 for no user. Another text is an argparse.ArgumentTypeError.
    """
    import pwd  # noqa: PLC0415 - commands of clients start without it

    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        return uint32(text, "is no user of this machine, and no number from 0 to 4294967294", largest=0xFFFFFFFE)


def group_number(text: str) -> int:
    """Returns the number of a group: the name of a group of this machine, or a number from 0 to 2^32 - 2.

    Another text is an argparse.ArgumentTypeError.
    """
    import grp  # noqa: PLC0415

    try:
        return grp.getgrnam(text).gr_gid
    except KeyError:
        return uint32(text, "is no group of this machine, and no number from 0 to 4294967294", largest=0xFFFFFFFE)


def positive_count(text: str) -> int:
    """Parses a whole decimal number of at least 1; another text is an argparse.ArgumentTypeError."""
    return _whole_number(text, 1, float("inf"), "is not a number of at least 1")


def seconds(text: str) -> float:
    """Parses a positive, finite number of seconds; another text is an argparse.ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


def seconds_or_never(text: str) -> float:
    """Parses a positive, finite number of seconds, or 0 for never; another text is an argparse.ArgumentTypeError."""
    if text.strip() in {"0", "0.0"}:
        return 0.0
    try:
        return seconds(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, nor 0 for never") from None


def microseconds(text: str) -> int:
    """Parses a whole number of microseconds from 0 to 1000000; another text is an argparse.ArgumentTypeError."""
    return _whole_number(text, 0, 1_000_000, "is not a number of microseconds from 0 to 1000000")


def octal_mode(text: str) -> int:
    """Parses file permissions in octal, 0 to 7777; another text is an argparse.ArgumentTypeError."""
    try:
        value = int(text, 8)
    except ValueError:
        value = -1
    if not 0 <= value <= 0o7777:
        raise argparse.ArgumentTypeError(f"{text!r} is not a mode: octal digits such as 755")
    return value


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


def octets(text: str) -> int:
    """Parses a size of at least 1 octet: 500000, 50M (decimal) or 64Mi (binary).

    Raises:
        argparse.ArgumentTypeError: the text has another form.
    """
    digits = text.rstrip("kKmMgGiIbB")
    unit = text[len(digits) :].lower().removesuffix("b")
    if not _is_number(digits) or unit not in _UNITS or int(digits) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write 500000, 50M or 64Mi")
    return int(digits) * _UNITS[unit]
