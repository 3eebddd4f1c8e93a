"""The arguments of `rpcrdma serve` for exports, the hosts allowed, and the directory of its state."""

from __future__ import annotations

import argparse
import errno
import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from rpcrdma.cli.daemon_threads import in_time
from rpcrdma.limits import EXPORT_ANSWERS_S
from rpcrdma.rpc.gss.flavors import SECURITY_NAMES, SecurityFlavor, security_flavor
from rpcrdma.rpc.host_identity import XPRTSEC_CHOICES, Transport, XprtSec, host_name, protects

__all__ = [
    "ALL_HOSTS", "SQUASHED", "ExportArgument", "Exported", "ExportedRule", "RuleArgument", "absolute_export_name",
    "certificate_name", "default_state_dir", "directory_path", "existing_directory", "export_name", "fsspec_url",
    "host_or_network", "parse_export", "parse_root", "parse_security", "principal", "reached_source",
    "served_directory",
]  # fmt: skip

_ACCESS: Final = ("none", "ro", "rw")
_SQUASH: Final = ("all", "root", "none")
"""The values of `squash`, from the fewest rights to the most."""

ALL_HOSTS: Final = "*"
"""The host of a rule that stands for all hosts."""
SQUASHED: Final = ("root", "all", "none")
"""The callers that act as the anonymous user."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")
"""The beginning of a URL of fsspec: s3://bucket, zip::s3://bucket/file. A directory of such a name is ./NAME."""


@dataclass(frozen=True, slots=True)
class RuleArgument:
    """An access rule as a configuration file has it; `own` has the settings that it sets, by `ExportedRule` attribute.

    `origins` has the place (FILE:LINE) of the rule under "", and that of each setting in `own` by attribute.
    `mistaken_terms` are the attributes whose values in the file are mistakes; they are not in `own`.
    """

    own: Mapping[str, Any]
    origins: Mapping[str, str]
    mistaken_terms: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ExportArgument:
    """An export as the command line or a file has it; `own` are the settings that it sets, by attribute of `Exported`.

    `source` is a directory or a URL of fsspec. `origins` has the place (FILE:LINE) of the export under "", those of its
    keys "name" and "directory" or "url", and that of each setting in `own`; it is empty for exports of the command
    line. `mistaken`: whether the export's table has mistakes. `mistaken_terms` are the attributes with mistaken values,
    which are not in `own`. Without a valid name in the file, `name` is the place of the export.
    """

    name: str
    source: Path | str
    own: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    rules: Sequence[RuleArgument] = ()
    mistaken: bool = False
    mistaken_terms: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRule:
    """An access rule of an export with the values of all settings.

    `sec` has the security flavors admitted, the preferred one first; None: AUTH_SYS and AUTH_NONE. `access` is "none",
    "ro" or "rw". `squash` is "root", "all" or "none": the callers that act as `anonuid`, the anonymous user. A caller
    has to match one element of each of `hosts` ("*" is all), `principals` and `certificates` that is not empty.
    """

    access: str
    squash: str
    anonuid: int
    anongid: int
    sec: tuple[SecurityFlavor, ...] | None
    xprtsec: XprtSec
    hosts: Sequence[str]
    principals: Sequence[str] = ()
    certificates: Sequence[str] = ()
    origins: Mapping[str, str] = field(compare=False)
    """The place (FILE:LINE, "command line" or "default") of the rule or export under "", of each setting by attribute;
    of an export in a file also of its keys "name" and "directory" or "url"."""
    mistaken: frozenset[str] = field(default=frozenset(), compare=False)
    """The attributes with mistaken values in a file; they have defaults instead, in a rule the export's values."""

    @property
    def flavors(self) -> tuple[SecurityFlavor, ...]:
        """The security flavors with which the rule admits calls, the preferred one first."""
        from rpcrdma.nfs.export.access_terms import UNPROVED  # noqa: PLC0415

        return UNPROVED if self.sec is None else self.sec

    def gives_less_than(self, other: ExportedRule) -> bool:
        """Returns whether `other` gives other or more rights than this rule, or asks for less proof.

        More rights are more access or less squash; other rights are those of another anonymous user or group. Less
        proof is weaker TLS, or a security flavor that this rule does not admit. False if `other` gives no access.
        """
        return other.access != "none" and (
            _ACCESS.index(other.access) > _ACCESS.index(self.access)
            or _SQUASH.index(other.squash) > _SQUASH.index(self.squash)
            or (other.anonuid, other.anongid) != (self.anonuid, self.anongid)
            or not protects(other.xprtsec, self.xprtsec)
            or not {*other.flavors} <= {*self.flavors}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported(ExportedRule):
    """An export of a server with the values of all settings; the export's own terms act as the last of its `rules`.

    `name` is the path by which clients mount it. `source` is a directory of this machine, or the URL of a file system
    of fsspec, whose answers are used for `fsspec_valid` seconds. `versions` (3, 4) of NFS serve it over `transports`.
    `sync`: whether replies wait for the disk. `mount_in_clear`: whether MOUNT is answered without TLS. `hidden`:
    whether lists leave it out. `reserved_port`: whether TCP calls that prove no user must have a port below 1024.
    `groups`: whether a user's groups are those of the call ("client") or of the server's database ("server").
    `mount_point`: whether a file system must be mounted at `source`. `missing` is "fail" if no server starts without
    `source`, else "skip".
    """

    name: str
    source: Path | str
    rules: Sequence[ExportedRule] = ()
    sync: bool
    mount_in_clear: bool
    transports: Sequence[Transport]
    versions: Sequence[int]
    hidden: bool
    reserved_port: bool
    groups: Literal["client", "server"]
    fsspec_valid: float
    mount_point: bool
    missing: str

    @property
    def admitting(self) -> list[ExportedRule]:
        """The `rules`, then the export itself, except those with `access` "none"; all of them if each has it."""
        rules = [*self.rules, self]
        return [rule for rule in rules if rule.access != "none"] or rules

    @property
    def all_hosts(self) -> list[str]:
        """The hosts of all rules and of the export itself, repeated ones too, without the "*" for all hosts."""
        return [host for rule in (*self.rules, self) for host in rule.hosts if host != ALL_HOSTS]

    @property
    def restrained_hosts(self) -> list[str]:
        """The hosts, not "*", of rules that give less (`gives_less_than`) than a later rule or the export itself."""
        restraining: list[ExportedRule] = []
        # From the last rule up, each with one rule for each of the few combinations of terms below it.
        below: dict[object, ExportedRule] = {}
        for rule in (self, *reversed(self.rules)):
            if any(rule.gives_less_than(each) for each in below.values()):
                restraining.append(rule)
            terms = (rule.access, rule.squash, rule.anonuid, rule.anongid, rule.xprtsec, rule.flavors)
            below.setdefault(terms, rule)
        return [host for rule in reversed(restraining) for host in rule.hosts if host != ALL_HOSTS]

    @property
    def most_access(self) -> str:
        """The most access that a rule, or the export itself, gives: "none", "ro" or "rw"; never "rw" for a URL."""
        most = max((rule.access for rule in self.admitting), key=_ACCESS.index)
        return "ro" if most == "rw" and isinstance(self.source, str) else most

    @property
    def is_read_only(self) -> bool:
        """Whether every change is refused; always True for the URL of a file system of fsspec."""
        return self.most_access != "rw"

    @property
    def security(self) -> tuple[SecurityFlavor, ...]:
        """The security flavors with which a rule or, after the rules, the export itself admits calls, each once."""
        return tuple(dict.fromkeys(flavor for rule in self.admitting for flavor in rule.flavors))

    @property
    def least_protection(self) -> XprtSec:
        """The least TLS protection with which any rule, or the export itself as the last one, admits calls."""
        return min((rule.xprtsec for rule in self.admitting), key=XPRTSEC_CHOICES.index)

    @property
    def shown(self) -> str:
        """The source for people: an absolute path, or a URL without its password."""
        if isinstance(self.source, Path):
            return str(self.source.absolute())
        from rpcrdma.nfs.export.fsspec_store import shown_url  # noqa: PLC0415

        return shown_url(self.source)


def _one_of(choices: Sequence[str], complaint: str) -> Callable[[str], str]:
    """Returns a parser that takes one of `choices` and returns it.

    The parser raises ArgumentTypeError for any other word; the message is the quoted word, `complaint` and the choices.
    """

    def parse(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} {complaint}: {', '.join(choices)}")
        return text

    return parse


def parse_security(text: str) -> tuple[SecurityFlavor, ...]:
    """Parses a list of security flavors such as krb5p:krb5i, the preferred flavor first.

    Raises:
        ArgumentTypeError: a flavor is unknown, or named twice.
    """
    try:
        found = tuple(security_flavor(name) for name in text.split(":"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} names a security flavor twice")
    return found


def _parse_hosts(text: str) -> list[str]:
    hosts = [each.replace("[", "").replace("]", "") for each in text.split(",")]
    if not all(hosts):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty host: write 192.0.2.7,10.0.0.0/8,[2001:db8::]/32")
    return [host_or_network(host) for host in hosts]


_HOSTS: Final = re.compile(r"(.+):hosts=((?:[^:\[\]]|\[[0-9a-fA-F:.]*\])*)", re.DOTALL)
"""A list of hosts at the end of an export, with the addresses of IPv6 in brackets."""
_HOST_NAME: Final = re.compile(r"[\w-]+(\.[\w-]+)*\.?")
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_SWITCHES: Final = {"ro": ("access", "ro"), "rw": ("access", "rw")}
"""Options without a value: the field of `Exported`, and its value."""
_VALUED: Final[dict[str, tuple[str, Callable[[str], Any], frozenset[str]]]] = {
    "sec": ("sec", parse_security, frozenset(SECURITY_NAMES)),
    "squash": ("squash", _one_of(SQUASHED, "squashes nobody"), frozenset()),
    "xprtsec": ("xprtsec", _one_of(XPRTSEC_CHOICES, "is no protection by TLS"), frozenset()),
}
"""Options with a value: the field, the parser, and words that may continue the value after a colon."""


def parse_export(text: str) -> ExportArgument:
    """Parses NAME=DIR or NAME=URL, with options each after a colon, into an export of the command line.

    The options are ro, rw, sec=FLAVOR[:FLAVOR]..., xprtsec=none, tls or mtls, squash=root, all or none, and
    hosts=HOST[,HOST].... They are read from the end, so that a directory may have colons in its name. In that case this
    looks whether the directory exists, which may block, EXPORT_ANSWERS_S (5) seconds at most.

    Raises:
        ArgumentTypeError: `text` is no export, or has an invalid or repeated option; or it ends in DIR:WORD, DIR
            exists, DIR:WORD does not, and WORD is no option.
    """
    name, equals, directory = text.partition("=")
    if not equals or not directory:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an export: write NAME=DIR, NAME=URL, or NAME=DIR:ro for read-only"
        )
    path = export_name(name)
    if path is None or path == "/":
        raise argparse.ArgumentTypeError(f"{text!r}: the name must be a path such as data or home/data")
    _check_name(path)
    fields: dict[str, Any] = {}
    while (found := _last_option(directory)) is not None:
        directory, field, value = found
        if field in fields:
            raise argparse.ArgumentTypeError(f"{text!r} has two options for one thing")
        fields[field] = value
    rest, colon, word = directory.rpartition(":")
    if ":hosts=" in directory:
        # Of an address of IPv6 that has no brackets, the last colon is one of its own.
        rest, colon, word = directory.partition(":hosts=")
    # The start and the check name a disk that does not answer, as for every directory.
    with suppress(TimeoutError):
        if colon and in_time(lambda: _is_alone(rest, directory), EXPORT_ANSWERS_S, ""):
            known = ", ".join((*_SWITCHES, *(f"{name}=" for name in (*_VALUED, "hosts"))))
            cause = f"there is no option {word!r}, and no such directory: use {known}"
            if colon != ":":
                cause = f"{word!r} is no list of hosts: write 192.0.2.7,10.0.0.0/8,[2001:db8::]/32"
            raise argparse.ArgumentTypeError(f"{text!r}: {cause}")
    source = _source(directory)
    if isinstance(source, str) and fields.get("access") == "rw":
        raise argparse.ArgumentTypeError(f"{text!r}: a URL is exported read-only: leave out :rw")
    return ExportArgument(path, source, fields)


def _is_alone(path: str, other: str) -> bool:
    # Unlike `Path.is_dir`, this raises nothing where the user may not look.
    return os.path.isdir(path) and not os.path.lexists(other)  # noqa: PTH112


def parse_root(text: str) -> ExportArgument:
    """Parses DIR or URL, which is exported as /; raises ArgumentTypeError if `text` is empty, or begins with ~."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a file or directory is empty")
    return ExportArgument("/", _source(text))


def export_name(text: str) -> str | None:
    """Returns `text` as the name of an export, with one slash before it and none at its end; "/" for "" and "/".

    None: a part between slashes is empty, "." or "..".
    """
    parts = text.strip("/").split("/")
    if parts != [""] and any(part in {"", ".", ".."} for part in parts):
        return None
    return "/" + "/".join(parts)


def absolute_export_name(text: str) -> str:
    """Returns `text` unchanged if it is the name of an export in a configuration file: "/", "/NAME" or deeper.

    Raises:
        ArgumentTypeError: `text` has another form, or no client can mount an export of this name.
    """
    name = export_name(text)
    if name is None or name != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of an export; write {name or '/NAME'}")
    _check_name(name)
    return name


def _check_name(name: str) -> None:
    """Raises ArgumentTypeError if clients of some NFS version cannot mount an export of this name."""
    from rpcrdma.nfs.export.access_terms import check_name  # noqa: PLC0415

    try:
        check_name(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def fsspec_url(text: str) -> str:
    """Returns `text` if it begins as a URL of fsspec, PROTOCOL:// or PROTOCOL::; else raises ArgumentTypeError."""
    if not _URL.match(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL; write PROTOCOL://PATH, or directory for a directory")
    return text


def directory_path(text: str) -> Path:
    """Returns the path of a directory, which need not exist; raises ArgumentTypeError if `text` begins with ~."""
    if text.startswith("~"):
        raise argparse.ArgumentTypeError(f"{text!r}: ~ is not expanded here; write the whole path, or ./~ for a name")
    return Path(text)


def host_or_network(text: str) -> str:
    """Returns `text` unchanged if a rule may have it as a host: an address, a network, a host name, or * for all.

    Texts that the system's resolver alone takes for addresses are refused: 010.0.0.1 (8.0.0.1), and 10.1 (10.0.0.1).

    Raises:
        ArgumentTypeError: `text` is none of these, or has the zone of an address (%eth0).
    """
    from rpcrdma.cli.host_names import network_of  # noqa: PLC0415 - only a server has hosts

    is_name = text == ALL_HOSTS or (_HOST_NAME.fullmatch(text) and not _NUMBER.fullmatch(text.rpartition(".")[2]))
    if network_of(text) is None and not is_name:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no host: write an address such as 192.0.2.7 or 2001:db8::7, a network such as"
            f" 192.0.2.0/24, a name without wildcards, or * for all hosts"
        )
    if "%" in text:
        raise argparse.ArgumentTypeError(f"{text!r}: rules do not tell interfaces apart: leave out % and what follows")
    return text


def principal(text: str) -> str:
    """Returns `text` unchanged if it is a principal of a rule, user@REALM or *@REALM; else raises ArgumentTypeError."""
    from rpcrdma.nfs.export.access_terms import check_principal  # noqa: PLC0415

    try:
        return check_principal(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def certificate_name(text: str) -> str:
    """Returns `text` unchanged if it is a DNS name, an IP address or a URI; else raises ArgumentTypeError."""
    try:
        host_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _source(text: str) -> Path | str:
    return text if _URL.match(text) else directory_path(text)


def _last_option(text: str) -> tuple[str, str, Any] | None:
    """Splits the last option off DIR[:OPTION]... or URL[:OPTION]...: returns (the text before it, attribute, value).

    The attribute is the one of `Exported` that the option sets to the value. None: the text ends with no option.

    Raises:
        ArgumentTypeError: the value of the option is invalid.
    """
    if (found := _HOSTS.fullmatch(text)) is not None:
        return found[1], "hosts", _parse_hosts(found[2])
    rest, colon, word = text.rpartition(":")
    if not colon or not rest:
        return None
    if word in _SWITCHES:
        return rest, *_SWITCHES[word]
    value: list[str] = []
    while colon and rest:
        key, equals, first = word.partition("=")
        if equals and key in _VALUED:
            field, parse, _ = _VALUED[key]
            return rest, field, parse(":".join([first, *value]))
        if not any(word in words for _, _, words in _VALUED.values()):
            return None
        value.insert(0, word)
        rest, colon, word = rest.rpartition(":")
    return None


def existing_directory(directory: Path) -> Path:
    """Returns the absolute path of an existing directory, without symbolic links.

    Raises:
        OSError: `directory` is no directory, or cannot be read and searched; the error has the absolute path.
    """
    from rpcrdma.nfs.export.mount_table import real_path  # noqa: PLC0415 - only a server has directories

    try:
        # `Path.resolve` tells of a circle of links by an error of its own.
        found = Path(real_path(directory, strict=True))
        if not stat.S_ISDIR(found.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(found, os.R_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        # It names the first missing part of the path.
        error.filename = str(directory.absolute())
        raise
    return found


def served_directory(export: Exported) -> Path | None:
    """Returns the absolute path of an export's directory, without symbolic links; None for a URL. May block.

    Raises:
        OSError: the directory does not exist, cannot be read, or must be a mount point (`mount_point`) and is none.
    """
    if isinstance(export.source, str):
        return None
    directory = existing_directory(export.source)
    # Clients of a network file system remember names, and would not notice that its server is gone; this asks it.
    os.statvfs(directory)
    if export.mount_point and not directory.is_mount():
        raise OSError(f"{directory}: no file system is mounted there; mount it")
    return directory


def reached_source(export: Exported) -> Path | None:
    """Returns an export's directory, absolute, without symbolic links; asks the store of a URL, returns None. Blocks.

    Raises:
        OSError: the directory cannot be served, the store does not answer, or has no directory at the URL.
    """
    if isinstance(export.source, str):
        from rpcrdma.nfs.export.fsspec_store import FsspecStore  # noqa: PLC0415 - the libraries take their time

        FsspecStore(export.source, {}, time.time_ns)
    return served_directory(export)


def default_state_dir() -> Path:
    """Returns the default directory for the state that must survive a restart of a server.

    It is $XDG_STATE_HOME/rpcrdma if that variable is an absolute path, else /var/lib/rpcrdma for root, and
    ~/.local/state/rpcrdma for others. It need not exist. Raises OSError if this user has no home directory.
    """
    if (base := Path(os.environ.get("XDG_STATE_HOME", ""))).is_absolute():
        return base / "rpcrdma"
    try:
        return Path("/var/lib/rpcrdma") if os.geteuid() == 0 else Path.home() / ".local" / "state" / "rpcrdma"
    except RuntimeError:
        raise OSError("this user has no home directory for the server's state; name one with --state-dir") from None
