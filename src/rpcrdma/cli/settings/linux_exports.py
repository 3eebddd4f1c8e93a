"""Turns lines of exports(5), the file of Linux's own NFS server, into `[[export]]` tables of the configuration file."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from rpcrdma.cli.export_options import absolute_export_name, export_name, host_or_network, parse_security
from rpcrdma.cli.host_names import HostKey, HostKeys, network_of
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.commands.options import XPRTSEC_WORDS

__all__ = ["in_toml"]

_WORD: Final = re.compile(r'(?:"[^"]*"|\\.|[^\s"\\])+', re.DOTALL)
_CLIENT: Final = re.compile(r"([^()]*)(?:\((.*)\))?")
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")
_ALL_SQUASH: Final = "all-squash"
"""No key: Linux has a flag for all users beside that for root, which holds whatever the order of their options is."""
_TERMS: Final[dict[str, tuple[str, Any]]] = {
    "rw": ("access", "rw"),
    "ro": ("access", "ro"),
    "secure": ("reserved-port", True),
    "insecure": ("reserved-port", False),
    "sync": ("sync", True),
    "async": ("sync", False),
    "root_squash": ("squash", "root"),
    "no_root_squash": ("squash", "none"),
    "all_squash": (_ALL_SQUASH, True),
    "no_all_squash": (_ALL_SQUASH, False),
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
    {"no_subtree_check", "wdelay", "no_wdelay", "hide", "no_acl", "auth_nlm", "secure_locks"}
)
"""Options that change nothing in this server."""
_ELSEWHERE: Final = frozenset({"refer", "replicas"})
"""Options that lead clients to other servers."""
_NO_ACCESS: Final = {"access": "none"}
"""The terms of a client that is left out."""
_NUMBERS: Final = frozenset({"anonuid", "anongid"})
"""Options whose value is the number of a user or group; the term has the same name."""
_HEAD: Final = """\
# Made of {name}.
"""


def in_toml(text: str, name: str) -> tuple[str, list[Mistake]]:
    """Converts lines of exports(5) to `[[export]]` tables; returns (text in TOML, mistakes in the order of lines).

    There is a mistake for each client and option that the tables cannot express. Clients with equal options share a
    rule, and all lines of a directory one export. A client that is left out has a rule without access; if its hosts are
    unknown, clients that Linux looks for later are left out as well. A directory without a client that can be expressed
    is left out. Thus no table admits more hosts, or grants more, than its lines.

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
    tables = [export.tables() for export in exports.values()]
    return _HEAD.format(name=name) + "".join("\n" + table for table in tables if table), [
        fault for _, fault in sorted(faults, key=lambda each: each[0])
    ]


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
    """A client of an export: a host, a network or "" (all), with its terms, by keys of the configuration file.

    `written` is the client in exports(5). `host` is None if the configuration file cannot name its hosts. A client that
    is left out has the terms `_NO_ACCESS`.
    """

    place: _Place
    written: str
    host: str | None
    terms: dict[str, Any]

    @property
    def kind(self) -> int:
        """The rank of the client's kind, as Linux looks for clients.

        0 for a host name, 1 for an address, a network or a word that is no client, 2 for a pattern or a netgroup, 3 for
        all hosts, 4 for gss/.
        """
        if self.host is None:
            return 4 if self.written.startswith("gss/") else 2 if _is_group(self.written) else 1
        return 3 if not self.host else 0 if network_of(self.host) is None else 1


def _is_group(client: str) -> bool:
    """Returns whether a client of exports(5) is a netgroup or a pattern."""
    return client.startswith("@") or any(letter in client for letter in "*?[")


class _Export:
    """An export `name` of the directory `path`, first at `place`; `in_toml` adds clients of all lines to `clients`."""

    def __init__(self, place: _Place, name: str, path: str) -> None:
        self._place = place
        self._name = name
        self._path = path
        self.clients: list[_Client] = []

    def tables(self) -> str:
        """Returns the TOML tables of the export and its rules; adds mistakes about options that they cannot express.

        If no client has access, adds a mistake and returns "", so that the export is left out.
        """
        groups = self._groups()
        granted = [terms for _, terms in groups if terms != _NO_ACCESS]
        if not granted:
            self._place.fault(f"no client of {self._path} can be expressed; it is left out")
            return ""
        head: dict[str, Any] = {"name": self._name, "directory": self._path}
        # A term of the whole export: what one client must not see without its file system, no other client sees.
        mounted = [terms.pop("mount-point", False) for terms in granted]
        if any(mounted):
            head["mount-point"] = True
        # The export has each term that it would take from [defaults] otherwise, where TLS can only be asked for.
        head |= {key: default for key, default in _DEFAULTS.items() if key != "xprtsec"}
        for key, option in _OF_WHOLE_EXPORT.items():
            head[key] = any(terms.get(key, True) for terms in granted)
            if len({terms.get(key, True) for terms in granted}) > 1:
                self._place.fault(f"{option} for some clients of {self._path} cannot be expressed; none has it")
        *others, (hosts, last) = groups
        if len(groups) == 1:
            return _table("[[export]]", head | last | ({} if hosts == [""] else {"hosts": hosts}))
        if hosts != [""]:
            others, last = groups, _NO_ACCESS
        # A rule has each term that another one or the export has, since it would take those of the export.
        keys = [key for key in _DEFAULTS if any(key in terms for _, terms in groups)]
        return _table("[[export]]", head | {key: last[key] for key in last if key not in _OF_WHOLE_EXPORT}) + "".join(
            "\n" + _table("[[export.rule]]", {"hosts": hosts} | {key: terms.get(key, _DEFAULTS[key]) for key in keys})
            for hosts, terms in others
        )

    def _groups(self) -> list[tuple[list[str], dict[str, Any]]]:
        """Returns groups (hosts, terms that they share), in the order in which Linux looks for a client (`kind`).

        The list [""] stands for all hosts. Neighbours with equal terms are one group. Groups without access at the end
        are left out, but not an only group. A client equal to, or within, an earlier one of its kind is in no group; if
        its terms differ, adds a mistake. A client behind one whose hosts are unknown loses access, with a mistake, if
        it has more rights than that one.
        """
        unknown: list[_Client] = []
        keys, firsts = HostKeys(), dict[tuple[int, HostKey], tuple[int, _Client]]()
        groups: list[tuple[list[str], dict[str, Any]]] = []
        for number, client in enumerate(sorted(self.clients, key=lambda each: each.kind)):
            host, terms = client.host, client.terms
            if host is None:
                unknown.append(client)
                continue
            above = [firsts[at] for key in keys.over(host) if (at := (client.kind, key)) in firsts]
            if above:
                _, first = min(above)
                if first.terms != terms:
                    client.place.fault(
                        f"{client.written} is a part of {first.written} before it; its own options are left out"
                    )
                continue
            firsts[client.kind, keys.add(host)] = number, client
            wider = next((each for each in unknown if terms not in (each.terms, each.terms | {"access": "ro"})), None)
            if wider is not None and terms != _NO_ACCESS:
                hidden = f"hosts of {wider.written}, which cannot be expressed"
                client.place.fault(f"{client.written} may have {hidden}; it is left out, too")
                terms = _NO_ACCESS
            if groups and groups[-1][1] == terms:
                groups[-1] = [*groups[-1][0], host] if host else [""], terms
            else:
                groups.append(([host], terms))
        while len(groups) > 1 and groups[-1][1] == _NO_ACCESS:
            groups.pop()
        return groups


class _Line:
    """A parser of one logical line of exports(5), which is at `place`; adds its mistakes to `place.faults`."""

    def __init__(self, place: _Place) -> None:
        self._place = place
        self._fault = place.fault

    def export(self, line: str) -> tuple[str, str, list[_Client]] | None:
        """Returns (name, directory, clients) of the export in `line`; None, adding a mistake, if it is left out.

        `name` is the directory's path in the form of `export_name`, by which clients mount it. A line is left out if
        its path cannot be that of an export.
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
        return name, path, self._clients(words[1:], name)

    def _clients(self, words: list[str], name: str) -> list[_Client]:
        """Returns the clients in `words`, the words of a line after its directory, in their order.

        A word is a client, such as "host(rw)", or has options for all later clients, such as "-sync". Without words,
        the client is "*". Clients that cannot be expressed have no access, with a mistake. `name` is the export's.
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
                clients.append(_Client(self._place, word, None, _NO_ACCESS))
                continue
            host = self._host(found[1])
            terms = self._terms(",".join(filter(None, [defaults, found[2]])), name)
            clients.append(_Client(self._place, found[1] or "*", host, _NO_ACCESS if terms is None else terms))
        return clients

    def _host(self, client: str) -> str | None:
        """Returns `client` in the form of a configuration file, "" for all; None, with a mistake, if there is none."""
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
        if _is_group(client):
            self._fault(f"the pattern {client} cannot be expressed; name hosts or networks")
            return None
        if "/" in client:
            if (network := network_of(client)) is None:
                self._fault(f"{client} is no network; it is left out")
                return None
            return str(network)
        if "," in client:
            self._fault(f"{client} is left out: exports(5) has no lists of hosts; write each, with its options, apart")
            return None
        try:
            return host_or_network(client)
        except argparse.ArgumentTypeError as error:
            self._fault(f"{error}; it is left out")
            return None

    def _terms(self, options: str, name: str) -> dict[str, Any] | None:
        """Returns the terms for a client's options, such as "rw,sync", by keys; `name` is that of the export.

        Adds a mistake for each option that no key expresses. None: without that option a table might grant more than
        the line does, so that the client has to be left out.
        """
        terms: dict[str, Any] = {"access": "ro", "reserved-port": True}
        sections = 0
        words = [*filter(None, options.split(","))]
        several = sum(word.startswith("sec=") for word in words) > 1
        for option in words:
            word, _, value = option.partition("=")
            if word in _TERMS and _TERMS[word][0] == "mount-point" and value[:1] == "/" and export_name(value) == name:
                # The directory itself, which is the default.
                value = ""
            if word in _TERMS and not value:
                key, meant = _TERMS[word]
                if several and sections and key not in _OF_ALL_FLAVORS:
                    self._fault(f"{word} after sec= is for some flavors alone; write an export for each")
                    return None
                terms[key] = meant
            elif word in _NUMBERS and (number := _number(value)) is not None:
                terms[word] = number
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
            elif word in _ELSEWHERE or (word in {"mp", "mountpoint", "xprtsec"} and value):
                self._fault(f"the option {option} cannot be expressed; the client is left out")
                return None
            elif word not in _WITHOUT_EFFECT and not (word == "fsid" and value not in {"0", "root"}):
                self._fault(f"the option {option} cannot be expressed; it is left out")
        if terms.pop(_ALL_SQUASH, False):
            terms["squash"] = "all"
        return terms


def _number(value: str) -> int | None:
    """Returns the user or group number of the text `value`, 2^32 - 2 for "-2"; None if it is none, as for "-1"."""
    if not re.fullmatch(r"-?[0-9]{1,10}", value) or abs(int(value)) >= 1 << 32:
        return None
    number = int(value) % (1 << 32)
    return None if number == (1 << 32) - 1 else number


def _table(header: str, keys: Mapping[str, Any]) -> str:
    return "\n".join([header, *(f"{key} = {_written(value)}" for key, value in keys.items()), ""])


def _written(value: Any) -> str:
    """Returns the TOML text of a string, integer, Boolean or list of these; escapes unprintable characters."""
    return "".join(
        letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in json.dumps(value, ensure_ascii=False)
    )
