"""Turns lines of exports(5), the file of Linux's own NFS server, into `[[export]]` tables of the configuration file."""

from __future__ import annotations

import argparse
import ipaddress
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from rpcrdma.cli.export_options import export_name, parse_security
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.commands.options import XPRTSEC_WORDS

__all__ = ["in_toml"]

_WORD: Final = re.compile(r'(?:"[^"]*"|\\.|[^\s"\\])+', re.DOTALL)
_CLIENT: Final = re.compile(r"([^()]*)(?:\((.*)\))?")
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")
_TERMS: Final[dict[str, tuple[str, Any]]] = {
    "rw": ("access", "rw"),
    "ro": ("access", "ro"),
    "sync": ("sync", True),
    "async": ("sync", False),
    "root_squash": ("squash", "root"),
    "no_root_squash": ("squash", "none"),
    "all_squash": ("squash", "all"),
}
"""Options with a term of ours: its key and its value."""
_WITHOUT_EFFECT: Final = frozenset(
    {"insecure", "secure", "no_subtree_check", "wdelay", "no_wdelay", "no_all_squash", "hide"}
    | {"no_acl", "auth_nlm", "secure_locks"}
)
"""Options that change nothing in this server. The head of the output names `secure`, which is Linux's default."""
_NUMBERS: Final = frozenset({"anonuid", "anongid"})
"""Options whose value is the number of a user or group; the term has the same name."""
_HEAD: Final = """\
# Made of {name}. A client may use any port here, as with the option `insecure`.
"""


def in_toml(text: str, name: str) -> tuple[str, list[Mistake]]:
    """Returns the tables, and a fault for each client and option that they cannot express.

    Clients of one line with other options than its first client are left out, and so is a line without a client that
    can be expressed: no table admits more hosts, or grants more, than its line.

    Args:
        text: lines of exports(5).
        name: the name of their file.
    """
    faults: list[Mistake] = []
    tables = []
    for number, line in _logical_lines(text):
        table = _Line(f"{name}:{number}", faults).table(line)
        if table is not None:
            tables.append("\n[[export]]\n" + "".join(f"{key} = {_written(value)}\n" for key, value in table.items()))
    return _HEAD.format(name=name) + "".join(tables), faults


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines with their numbers: a backslash at an end continues a line, # begins a comment."""
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
    """One line of exports(5)."""

    def __init__(self, place: str, faults: list[Mistake]) -> None:
        self._place = place
        self._faults = faults

    def table(self, line: str) -> dict[str, Any] | None:
        """Returns the keys of a table; None if the line has none."""
        words = _WORD.findall(line)
        octets = words[0].replace('"', "").encode("utf-8", "surrogateescape")
        path = _OCTAL.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), octets).decode("utf-8", "surrogateescape")
        name = export_name(path)
        if not path.startswith("/") or name is None or not path.isprintable():
            self._fault(f"{words[0]} is not the path of a directory in UTF-8; the line is left out")
            return None
        defaults = ""
        groups: dict[str, tuple[dict[str, Any], list[str]]] = {}
        for word in words[1:] or ["*"]:
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
                groups.setdefault(repr(terms), (terms, []))[1].append(host)
        if not groups:
            self._fault(f"no client of {path} can be expressed; the line is left out")
            return None
        (terms, hosts), *others = groups.values()
        for _, more in others:
            clients = " ".join(host or "*" for host in more)
            self._fault(
                f"{clients} of {path} has other options than {hosts[0] or '*'}; one export has one set of terms"
            )
        table = {"name": name, "directory": path, **terms}
        return table if "" in hosts else table | {"hosts": list(dict.fromkeys(hosts))}

    def _host(self, client: str) -> str | None:
        """Returns a host as our files write it: "" for all; None if it cannot be expressed."""
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
        return client

    def _terms(self, options: str) -> dict[str, Any] | None:
        """Returns the terms of a client's options; None if a table would grant them to more callers than the line."""
        terms: dict[str, Any] = {"access": "ro"}
        sections = 0
        for option in filter(None, options.split(",")):
            word, _, value = option.partition("=")
            if word in _TERMS:
                if sections:
                    self._fault(f"{word} after sec= is for some flavors alone; write an export for each")
                    return None
                key, meant = _TERMS[word]
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


def _written(value: Any) -> str:
    """Returns a value in TOML, whose texts have the escapes of JSON."""
    return "".join(
        letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in json.dumps(value, ensure_ascii=False)
    )
