"""Turns lines of exports(5), the file of Linux's own NFS server, into `[[export]]` tables of the configuration file."""

from __future__ import annotations

import argparse
import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rpcrdma.cli.export_options import export_name, host_or_network, parse_security
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.commands.options import XPRTSEC_WORDS

__all__ = ["in_toml"]

_WORD: Final = re.compile(r'(?:"[^"]*"|\\.|[^\s"\\])+', re.DOTALL)
_CLIENT: Final = re.compile(r"([^()]*)(?:\((.*)\))?")
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")
_TERMS: Final[dict[str, tuple[str, Any]]] = {
    "rw": ("access", "rw"),
    "ro": ("access", "ro"),
    "secure": ("reserved-port", True),
    "insecure": ("reserved-port", False),
    "sync": ("sync", True),
    "async": ("sync", False),
    "root_squash": ("squash", "root"),
    "no_root_squash": ("squash", "none"),
    "all_squash": ("squash", "all"),
    "mp": ("mount-point", True),
    "mountpoint": ("mount-point", True),
}
"""Options of exports(5) that our files can express, with the key and the value there."""
_OF_WHOLE_EXPORT: Final = {"sync": "async", "reserved-port": "insecure"}
"""Terms that rules cannot have, which are true without an option, and the options that make them false."""
_OF_ALL_FLAVORS: Final = frozenset({"sync", "mount-point"})
"""Terms that hold for all flavors, also behind `sec=`; the others hold for those of the `sec=` before them."""
_DEFAULTS: Final[dict[str, Any]] = {
    "access": "ro",
    "squash": "root",
    "anonuid": 65534,
    "anongid": 65534,
    "sec": ["sys"],
    "xprtsec": "none",
}
"""The terms of a client without options, by the keys of a rule."""
_WITHOUT_EFFECT: Final = frozenset(
    {"no_subtree_check", "wdelay", "no_wdelay", "no_all_squash", "hide"} | {"no_acl", "auth_nlm", "secure_locks"}
)
"""Options that change nothing in this server."""
_NUMBERS: Final = frozenset({"anonuid", "anongid"})
"""Options whose value is the number of a user or group; the term has the same name."""
_HEAD: Final = """\
# Made of {name}.
"""


def in_toml(text: str, name: str) -> tuple[str, list[Mistake]]:
    """Converts lines of exports(5) to `[[export]]` tables; returns their text, and the mistakes.

    There is a mistake for each client and option that the tables cannot express. Clients with other options than others
    have a rule of their own. A line without a client that can be expressed is left out: no table admits more hosts, or
    grants more, than its line.

    Args:
        text: lines of exports(5).
        name: the name of their file.
    """
    faults: list[Mistake] = []
    tables = []
    for number, line in _logical_lines(text):
        found = _Line(f"{name}:{number}", faults).tables(line)
        if found is not None:
            tables.append("\n" + found)
    return _HEAD.format(name=name) + "".join(tables), faults


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields each logical line with the number of its first line, without comments; empty ones are left out.

    A backslash at the end of a line continues it, and # begins a comment.
    """
    whole, began = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        began = began if whole else number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        whole += line.partition("#")[0]
        if whole.strip():
            yield began, whole
        whole = ""
    if whole.strip():
        yield began, whole


class _Line:
    """The conversion of one logical line of exports(5), at `place` (FILE:LINE); adds mistakes to `faults`."""

    def __init__(self, place: str, faults: list[Mistake]) -> None:
        self._place = place
        self._faults = faults

    def tables(self, line: str) -> str | None:
        """Returns the TOML tables of the export in `line` and its rules; None, noting a mistake, if impossible."""
        words = _WORD.findall(line)
        octets = words[0].replace('"', "").encode("utf-8", "surrogateescape")
        path = _OCTAL.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), octets).decode("utf-8", "surrogateescape")
        name = export_name(path)
        if not path.startswith("/") or name is None or not path.isprintable():
            self._fault(f"{words[0]} is not the path of a directory in UTF-8; the line is left out")
            return None
        groups = self._groups(words[1:])
        if not groups:
            self._fault(f"no client of {path} can be expressed; the line is left out")
            return None
        head: dict[str, Any] = {"name": name, "directory": path}
        # A term of the whole export: what one client must not see without its file system, no other client sees.
        mounted = [terms.pop("mount-point", False) for _, terms in groups]
        if any(mounted):
            head["mount-point"] = True
        if len(groups) == 1:
            hosts, terms = groups[0]
            return _table("[[export]]", head | terms | ({} if hosts == [""] else {"hosts": hosts}))
        for key, option in _OF_WHOLE_EXPORT.items():
            values = [terms[key] for _, terms in groups if key in terms]
            if values:
                head[key] = any(terms.get(key, True) for _, terms in groups)
            if len({terms.get(key, True) for _, terms in groups}) > 1:
                self._fault(f"{option} for some clients of {path} cannot be expressed; none has it")
        *others, (hosts, last) = groups
        if hosts != [""]:
            others, last = groups, {"access": "none"}
        # A rule has each term that another one or the export has, since it would take those of the export.
        keys = [key for key in _DEFAULTS if any(key in terms for _, terms in groups)]
        return _table("[[export]]", head | {key: last[key] for key in last if key not in _OF_WHOLE_EXPORT}) + "".join(
            "\n" + _table("[[export.rule]]", {"hosts": hosts} | {key: terms.get(key, _DEFAULTS[key]) for key in keys})
            for hosts, terms in others
        )

    def _groups(self, words: list[str]) -> list[tuple[list[str], dict[str, Any]]]:
        """Returns groups of hosts with the terms that they share, in the order in which Linux looks for a client.

        Hosts precede networks, and these precede all hosts, which are [""]. Neighbours with equal terms are one group.
        `words` are those of a line behind its directory: clients, as "host(rw)", and options of all, as "-sync". Terms
        are values by keys of the configuration file.
        """
        defaults = ""
        clients: list[tuple[int, str, dict[str, Any]]] = []
        for word in words or ["*"]:
            if word.startswith("-"):
                defaults = word[1:]
                continue
            found = _CLIENT.fullmatch(word)
            if found is None:
                self._fault(f"{word} is no client; it is left out")
                continue
            host = self._host(found[1])
            terms = self._terms(",".join(filter(None, [defaults, found[2]])))
            if host is None or terms is None:
                continue
            kind = 2 if not host else 1 if "/" in host else 0
            above = next((each for each in clients if each[0] == kind and _is_within(host, each[1])), None)
            if above is None:
                clients.append((kind, host, terms))
            elif above[2] != terms:
                self._fault(f"{host or '*'} is a part of {above[1] or '*'} before it; its own options are left out")
        groups: list[tuple[list[str], dict[str, Any]]] = []
        for _, host, terms in sorted(clients, key=lambda each: each[0]):
            if groups and groups[-1][1] == terms:
                groups[-1] = [*groups[-1][0], host] if host else [""], terms
            else:
                groups.append(([host], terms))
        return groups

    def _host(self, client: str) -> str | None:
        """Returns a host as the configuration file has it, "" for all hosts; None, noting a mistake, if it cannot."""
        if client in {"", "*"}:
            return ""
        if not client.isprintable():
            self._fault(f"{client} is no client; it is left out")
            return None
        if client.startswith("@"):
            self._fault(f"the netgroup {client} cannot be expressed; name its hosts")
            return None
        if client.startswith("gss/"):
            self._fault(f"{client} cannot be expressed; write sec=")
            return None
        if any(letter in client for letter in "*?["):
            self._fault(f"the pattern {client} cannot be expressed; name hosts or networks")
            return None
        if "/" in client:
            try:
                return str(ipaddress.ip_network(client, strict=False))
            except ValueError:
                self._fault(f"{client} is no network; it is left out")
                return None
        if "," in client:
            self._fault(f"{client} is left out: exports(5) has no lists of hosts; write each, with its options, apart")
            return None
        try:
            return host_or_network(client)
        except argparse.ArgumentTypeError as error:
            self._fault(f"{error}; it is left out")
            return None

    def _terms(self, options: str) -> dict[str, Any] | None:
        """Returns the terms of a client's options, as "rw,sync", by keys of the configuration file; notes mistakes.

        None: a table would grant them to more callers than the line does, so that the client is left out.
        """
        terms: dict[str, Any] = {"access": "ro", "reserved-port": True}
        sections = 0
        words = [*filter(None, options.split(","))]
        several = sum(word.startswith("sec=") for word in words) > 1
        for option in words:
            word, _, value = option.partition("=")
            if word in _TERMS and not value:
                key, meant = _TERMS[word]
                if several and sections and key not in _OF_ALL_FLAVORS:
                    self._fault(f"{word} after sec= is for some flavors alone; write an export for each")
                    return None
                terms[key] = meant
            elif word in _NUMBERS and re.fullmatch(r"-?[0-9]+", value) and abs(int(value)) < 1 << 32:
                # Linux takes -2 for the last but one number.
                terms[word] = int(value) % (1 << 32)
            elif word == "sec":
                sections += 1
                try:
                    parse_security(value)
                except argparse.ArgumentTypeError as error:
                    self._fault(f"{option}: {error}; the client is left out")
                    return None
                if sections > 1:
                    self._fault(f"a second {option} cannot be expressed; the client is left out")
                    return None
                terms["sec"] = value.split(":")
            elif word == "xprtsec" and value and set(value.split(":")) <= set(XPRTSEC_WORDS):
                terms["xprtsec"] = min(value.split(":"), key=XPRTSEC_WORDS.index)
            elif word not in _WITHOUT_EFFECT and not (word == "fsid" and value not in {"0", "root"}):
                self._fault(f"the option {option} cannot be expressed; it is left out")
        return terms

    def _fault(self, text: str) -> None:
        self._faults.append(Mistake(self._place, text))


def _table(header: str, keys: Mapping[str, Any]) -> str:
    return "\n".join([header, *(f"{key} = {_written(value)}" for key, value in keys.items()), ""])


def _is_within(host: str, other: str) -> bool:
    """Returns whether the addresses of `host` are among those of `other`; both are hosts, networks or "" (all)."""
    if host == other:
        return True
    if "/" not in host:
        return False
    inner, outer = ipaddress.ip_network(host), ipaddress.ip_network(other)
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _written(value: Any) -> str:
    """Returns the TOML text of a value, whose strings have the escapes of JSON."""
    return "".join(
        letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in json.dumps(value, ensure_ascii=False)
    )
