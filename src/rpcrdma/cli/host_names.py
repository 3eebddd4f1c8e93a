"""Addresses of names of hosts, with a limit of time that the system's resolver lacks."""

from __future__ import annotations

import errno
import ipaddress
import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, TypeAlias

from rpcrdma.cli.daemon_threads import start_daemon
from rpcrdma.limits import HOST_NAME_ANSWERS_S, HOST_NAME_VALID_S, HOST_NAMES_AT_ONCE

__all__ = ["WRITE_ADDRESS", "HostKey", "HostKeys", "HostNames", "Network", "network_of"]

WRITE_ADDRESS: Final = "correct the name, or write its address"
"""The remedy for a host name without an address."""

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
HostKey: TypeAlias = str | tuple[int, int, int]
"""A name, or a network: the version of IP, the length of its prefix, and the prefix as a number."""
_NETWORKS_KEPT: Final = 1 << 14
"""Networks that are parsed once, though each rule is compared with all above it."""


class HostNames:
    """Looks up IP addresses of host names in threads, and remembers them for `HOST_NAME_VALID_S` seconds. Thread-safe.

    The system's resolver may take minutes where no name server answers; callers wait for `HOST_NAME_ANSWERS_S` seconds
    at most. A name that has had an address keeps it while it cannot be looked up again.

    Args:
        clock: returns the time in seconds, for the age of addresses.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._found: dict[str, tuple[float, tuple[str, ...]]] = {}
        """The addresses of names, with the time of the answer."""
        self._faults: dict[str, str] = {}
        """The causes of the newest failures."""
        self._names: set[str] = set()
        """The names that were looked up last."""
        self._asked: dict[str, None] = {}
        """The names that are being looked up."""
        self._queue: deque[str] = deque()
        """Those names in `_asked` that no thread looks up yet."""
        self._threads = 0

    def renewed(self) -> HostNames:
        """Returns a new object whose `look_up` asks for all names anew.

        In that object, a name from the last `look_up` of this one keeps its present addresses until it is found again.
        """
        renewed = HostNames(self._clock)
        with self._changed:
            found = {name: each for name, (_, each) in self._found.items() if name in self._names}
        renewed._found = {name: (-math.inf, each) for name, each in found.items()}
        return renewed

    def look_up(self, hosts: Iterable[str]) -> None:
        """Looks up those of `hosts` that are names whose addresses are unknown or over 30 minutes old, 16 at a time.

        Waits for the answers, `HOST_NAME_ANSWERS_S` (5) seconds at most; later ones are taken when they come.
        `networks_of` returns the failures. Raises OSError if no further thread can be started.
        """
        ends_s = time.monotonic() + HOST_NAME_ANSWERS_S
        names = {host for host in hosts if network_of(host) is None}
        with self._changed:
            self._names = names
            old_s = self._clock() - HOST_NAME_VALID_S
            wanted = {name for name in names if name not in self._found or self._found[name][0] <= old_s}
            for name in wanted - self._asked.keys():
                self._asked[name] = None
                self._queue.append(name)
            while self._queue and self._threads < min(HOST_NAMES_AT_ONCE, len(self._asked)):
                # One that hangs must not keep the interpreter from its end.
                start_daemon(self._work, "rpcrdma names")
                self._threads += 1
            while not wanted.isdisjoint(self._asked) and (left_s := ends_s - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def networks_of(self, hosts: Iterable[str]) -> tuple[list[Network], list[OSError]]:
        """Returns the networks of `hosts`, and an OSError for each name without an address; asks no name server.

        Each host is a name, an address or a network. A name has a network for each address that `look_up` has found.
        """
        networks: list[Network] = []
        unknown: list[OSError] = []
        for host in hosts:
            if (network := network_of(host)) is not None:
                networks.append(network)
                continue
            with self._changed:
                _, found = self._found.get(host, (0.0, ()))
                cause = self._faults.get(host, f"no answer within {HOST_NAME_ANSWERS_S:g} s")
            networks += map(ipaddress.ip_network, found)
            if not found:
                text = f"neither an address, a network nor a host name ({cause})"
                unknown.append(OSError(errno.EINVAL, text, host))
        return networks, unknown

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    self._threads -= 1
                    return
                name = self._queue.popleft()
            found, fault = _asked_for(name)
            with self._changed:
                if found:
                    self._found[name] = self._clock(), found
                    self._faults.pop(name, None)
                else:
                    self._faults[name] = fault
                del self._asked[name]
                self._changed.notify_all()


def _asked_for(name: str) -> tuple[tuple[str, ...], str]:
    """Asks the system's resolver, which may block, for a name; returns (addresses, cause of their absence if none)."""
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return (), getattr(error, "strerror", None) or str(error)
    found = tuple(dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in answers))
    return found, os.strerror(errno.ENOENT)


@lru_cache(_NETWORKS_KEPT)
def network_of(host: str) -> Network | None:
    """Returns the network of `host`, the text of an address or a network; None if it is neither, such as a name.

    A network ends with "/" and its prefix length or its mask; None also for a mask of the host's bits (0.0.0.255).
    """
    try:
        network = ipaddress.ip_network(host, strict=False)
    except ValueError:
        return None
    mask = host.partition("/")[2]
    # Python takes a mask of the host's bits as well, where others read the bits that have to be equal.
    return None if "." in mask and mask != str(network.netmask) else network


class HostKeys:
    """Makes dictionary keys of hosts, by which the hosts that contain another one are found without comparing all."""

    def __init__(self) -> None:
        self._lengths: dict[int, set[int]] = {4: set(), 6: set()}
        """The lengths of the prefixes of all networks that were added, by the version of IP."""

    def add(self, host: str) -> HostKey:
        """Returns the key of `host`, a name, an address or a network.

        From now on `over` returns this key, among others, for each host that `host` contains.
        """
        if (network := network_of(host)) is None:
            return host
        self._lengths[network.version].add(network.prefixlen)
        return _prefix(network, network.prefixlen)

    def over(self, host: str) -> list[HostKey]:
        """Returns the keys of those added hosts that are or contain `host`; others may be among them."""
        if (network := network_of(host)) is None:
            return [host]
        return [_prefix(network, length) for length in self._lengths[network.version] if length <= network.prefixlen]


def _prefix(network: Network, length: int) -> HostKey:
    return network.version, length, int(network.network_address) >> (network.max_prefixlen - length)
