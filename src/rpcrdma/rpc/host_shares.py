"""The shares of hosts in what a server holds for all of them, so that one host does not take what others need.

A host is an address. A machine with IPv6 has as many addresses as it likes in its network of 64 bits (RFC 8981), while
all machines of a data centre may be in one such network. So what the addresses of such a network hold together counts
as well, beside that of each address: a bound by address alone would bound no machine, and one by network alone would
let one machine take what its neighbours need. This is the rule for each bound by address. Turns among waiting calls
count addresses alone; lines of the log, and the calls of one host in threads, networks alone (`network_of`).
"""

from __future__ import annotations

import functools
import ipaddress
from typing import Final

__all__ = ["HostShares", "names_of_host", "network_of"]

_NETWORK_BITS: Final = 64


@functools.lru_cache(maxsize=1024)
def names_of_host(address: str) -> tuple[str, ...]:
    """Returns the names under which a host counts: its address, and for IPv6 also its network of 64 bits.

    Examples: ("192.0.2.7",); ("2001:db8::7", "2001:db8::/64").

    Args:
        address: the address as text; a zone such as that of "fe80::1%eth0" is part of both names. For other text, such
            as the path of a local socket, the text is the only name.
    """
    if ":" not in address:
        return (address,)
    text, _, zone = address.partition("%")
    try:
        network = ipaddress.ip_network((text, _NETWORK_BITS), strict=False)
    except ValueError:
        return (address,)
    return address, f"{network}%{zone}" if zone else str(network)


def network_of(address: str) -> str:
    """Returns the network of 64 bits of an IPv6 address, such as "2001:db8::/64"; any other text as it is."""
    return names_of_host(address)[-1]


class HostShares:
    """The amounts of one resource, such as locks, that each host holds; all hosts together may hold `most`.

    A host that adds small amounts while `left` is above 0 may have half of what others leave: one alone half of all, a
    second one a quarter, a third one an eighth. So there is room for a host that has none, unless some dozen hosts act
    together. With IPv6 what an address holds counts twice, for itself and in its network: one address alone may have a
    third of all, its network half.
    """

    __slots__ = ("_held", "most", "used")

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        """The amount that all hosts together hold."""
        self._held: dict[str, int] = {}

    def held(self, name: str) -> int:
        """Returns how much of the resource an address, or a network with all its addresses (`names_of_host`), holds."""
        return self._held.get(name, 0)

    def left(self, names: tuple[str, ...]) -> int:
        """Returns the most that a host may add at once to the amount that it holds; 0 or less: nothing.

        It is the part of `most` that all hosts together leave, less the amounts that the host's address and, for IPv6,
        its network hold; so an addition lessens it by twice the amount added, with IPv6 thrice. `names` are those that
        `names_of_host` returns.
        """
        left = self.most - self.used
        for name in names:
            left -= self._held.get(name, 0)
        return left

    def add(self, names: tuple[str, ...], amount: int) -> None:
        """Adds `amount` to the amount that the host with these `names` (of `names_of_host`) holds; `left` is unchecked.

        A negative `amount` gives a part back.
        """
        self.used += amount
        for name in names:
            held = self._held.get(name, 0) + amount
            if held:
                self._held[name] = held
            else:
                self._held.pop(name, None)
