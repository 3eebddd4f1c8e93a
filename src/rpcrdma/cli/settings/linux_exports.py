"""Turns lines of exports(5), the file of Linux's own NFS server, into `[[export]]` tables of the configuration file."""

from __future__ import annotations

import argparse
import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from rpcrdma.cli.export_options import absolute_export_name, export_name, host_or_network, parse_security
from rpcrdma.cli.host_names import HostKey, HostKeys
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
    """Converts lines of exports(5) to `[[export]]` tables; returns (text in TOML, mistakes in the order of lines).

    There is a mistake for each client and option that the tables cannot express. Clients with equal options share a
    rule, and all lines of a directory one export. A line without a client that can be expressed is left out: no table
    admits more hosts, or grants more, than its lines.

    Args:
        text: lines of exports(5).
        name: the name of their file, for the places of mistakes and the heading.
    """
    faults: list[tuple[int, Mistake]] = []
    exports: dict[str, _Export] = {}
    for number, line in _logical_lines(text):
        place = _Place(name, number, faults)
        found = _Line(place).export(line)
        if found is not None:
            exported, path, clients = found
            exports.setdefault(exported, _Export(place, exported, path)).clients += clients
    tables = ["\n" + export.tables() for export in exports.values()]
    return _HEAD.format(name=name) + "".join(tables), [fault for _, fault in sorted(faults, key=lambda each: each[0])]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields (number of its first line, from 1; text without comments) of each logical line that is not empty.

    A backslash at the end of a line continues it. A # begins a comment where a word could begin, outside of quotation
    marks; a comment ends with its line, also behind a backslash.
    """
    whole, began = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        began = began if whole else number
        whole, is_comment = _without_comment(whole + line, len(whole))
        if whole.endswith("\\") and not is_comment:
            whole = whole[:-1] + " "
            continue
        if whole.strip():
            yield began, whole
        whole = ""
    if whole.strip():
        yield began, whole


def _without_comment(line: str, start: int) -> tuple[str, bool]:
    """Returns (`line` up to the comment that begins at or after the index `start`, whether there is such a comment)."""
    is_quoted = line.count('"', 0, start) % 2 == 1
    for at in range(start, len(line)):
        if line[at] == '"':
            is_quoted = not is_quoted
        elif line[at] == "#" and not is_quoted and (at == 0 or line[at - 1].isspace() or line[at - 1] == ")"):
            return line[:at], True
    return line, False


class _Place(NamedTuple):
    """A logical line of the file `name`, at its first line `number`; mistakes there are added to `faults`."""

    name: str
    number: int
    faults: list[tuple[int, Mistake]]

    def fault(self, text: str) -> None:
        """Adds a mistake at this place; `text` has the cause and the remedy."""
        self.faults.append((self.number, Mistake(f"{self.name}:{self.number}", text)))


class _Client(NamedTuple):
    """A client of an export: a host, a network or "" (all), with its terms, by keys of the configuration file."""

    place: _Place
    host: str
    terms: dict[str, Any]

    @property
    def kind(self) -> int:
        """The rank of the client's kind, as Linux looks for clients: 0 for a host, 1 for a network, 2 for all hosts."""
        return 2 if not self.host else 1 if "/" in self.host else 0


class _Export:
    """An export `name` of the directory `path`; `place` is its first line, `clients` are those of all its lines."""

    def __init__(self, place: _Place, name: str, path: str) -> None:
        self._place = place
        self._name = name
        self._path = path
        self.clients: list[_Client] = []

    def tables(self) -> str:
        """Returns the TOML tables of the export and its rules; adds mistakes about options that they cannot express."""
        groups = self._groups()
        head: dict[str, Any] = {"name": self._name, "directory": self._path}
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
                self._place.fault(f"{option} for some clients of {self._path} cannot be expressed; none has it")
        *others, (hosts, last) = groups
        if hosts != [""]:
            others, last = groups, {"access": "none"}
        # A rule has each term that another one or the export has, since it would take those of the export.
        keys = [key for key in _DEFAULTS if any(key in terms for _, terms in groups)]
        return _table("[[export]]", head | {key: last[key] for key in last if key not in _OF_WHOLE_EXPORT}) + "".join(
            "\n" + _table("[[export.rule]]", {"hosts": hosts} | {key: terms.get(key, _DEFAULTS[key]) for key in keys})
            for hosts, terms in others
        )

    def _groups(self) -> list[tuple[list[str], dict[str, Any]]]:
        """Returns groups (hosts, terms that they share), in the order in which Linux looks for a client.

        Hosts precede networks, and these precede all hosts, which are [""]. Neighbours with equal terms are one group.
        A client equal to, or within, an earlier one of its kind is left out; if its terms differ, adds a mistake.
        """
        clients: list[_Client] = []
        keys, numbers = HostKeys(), dict[tuple[int, HostKey], int]()
        for client in self.clients:
            above = [numbers[at] for key in keys.over(client.host) if (at := (client.kind, key)) in numbers]
            if not above:
                numbers[client.kind, keys.add(client.host)] = len(clients)
                clients.append(client)
            elif (first := clients[min(above)]).terms != client.terms:
                part, whole = client.host or "*", first.host or "*"
                client.place.fault(f"{part} is a part of {whole} before it; its own options are left out")
        groups: list[tuple[list[str], dict[str, Any]]] = []
        for client in sorted(clients, key=lambda each: each.kind):
            if groups and groups[-1][1] == client.terms:
                hosts = groups[-1][0]
                groups[-1] = [*hosts, client.host] if client.host else [""], client.terms
            else:
                groups.append(([client.host], client.terms))
        return groups


class _Line:
    """A parser of one logical line of exports(5), which is at `place`; adds its mistakes to `place.faults`."""

    def __init__(self, place: _Place) -> None:
        self._place = place
        self._fault = place.fault

    def export(self, line: str) -> tuple[str, str, list[_Client]] | None:
        """Returns (name, directory, clients) of the export in `line`; None, adding a mistake, if it is left out.

        `name` is the directory's path in the form of `export_name`, by which clients mount it. A line is left out if
        its path cannot be that of an export, or if none of its clients can be expressed.
        """
        if line.count('"') % 2:
            self._fault("a quotation mark has no counterpart; the line is left out")
            return None
        words = _WORD.findall(line)
        octets = words[0].replace('"', "").encode("utf-8", "surrogateescape")
        path = _OCTAL.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), octets).decode("utf-8", "surrogateescape")
        name = export_name(path)
        if not path.startswith("/") or name is None or not path.isprintable():
            self._fault(f"{words[0]} is not the path of a directory in UTF-8; the line is left out")
            return None
        try:
            absolute_export_name(name)
        except argparse.ArgumentTypeError as error:
            self._fault(f"{error}; the line is left out")
            return None
        clients = self._clients(words[1:])
        if not clients:
            self._fault(f"no client of {path} can be expressed; the line is left out")
            return None
        return name, path, clients

    def _clients(self, words: list[str]) -> list[_Client]:
        """Returns the clients in `words`, the words of a line after its directory, in their order.

        A word is a client, such as "host(rw)", or has options for all later clients, such as "-sync". Without words,
        the client is "*". Clients that cannot be expressed are left out, with a mistake.
        """
        defaults = ""
        clients = []
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
            if host is not None and terms is not None:
                clients.append(_Client(self._place, host, terms))
        return clients

    def _host(self, client: str) -> str | None:
        """Returns a host as the configuration file has it, "" for all hosts; None, adding a mistake, if it cannot."""
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
        """Returns the terms for a client's options, such as "rw,sync", by keys of the configuration file.

        Adds a mistake for each option that no key expresses. None: without that option a table would grant more than
        the line does, so that the client has to be left out.
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


def _table(header: str, keys: Mapping[str, Any]) -> str:
    return "\n".join([header, *(f"{key} = {_written(value)}" for key, value in keys.items()), ""])


def _written(value: Any) -> str:
    """Returns the TOML text of a value, whose strings have the escapes of JSON."""
    return "".join(
        letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in json.dumps(value, ensure_ascii=False)
    )
