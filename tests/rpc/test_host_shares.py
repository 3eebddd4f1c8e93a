"""Which hosts count as one, and what each of them may have of that which is for all."""

from __future__ import annotations

from rpcrdma.rpc.host_shares import HostShares, names_of_host, network_of
from support.cases import each_case


@each_case(
    "address, network",
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::1", "::/64"),
        ("fe80::1%eth0", "fe80::/64%eth0"),
        ("", ""),
        ("/run/nfs:1", "/run/nfs:1"),
    ],
)
def test_an_ipv6_address_counts_with_its_network_of_64_bits_and_any_other_alone(address: str, network: str) -> None:
    assert network_of(address) == network
    assert names_of_host(address) == (address, network)[: 1 + (network != address)]


def taken(shares: HostShares, address: str) -> int:
    """What a host has got that takes all that it may have."""
    names = names_of_host(address)
    while shares.left(names) > 0:
        shares.add(names, 1)
    return shares.held(address)


def test_a_host_may_have_half_of_what_others_leave() -> None:
    shares = HostShares(1000)
    assert [taken(shares, f"192.0.2.{number}") for number in range(4)] == [500, 250, 125, 63]
    assert shares.used == 938
    shares.add(("192.0.2.0",), -500)
    assert taken(shares, "192.0.2.9") == 281
    shares = HostShares(1000)
    for number in range(1000):
        assert shares.left((f"192.0.2.{number}",)) > 0, "each has one"
        shares.add((f"192.0.2.{number}",), 1)


def test_one_machine_with_many_ipv6_addresses_has_half_as_well_and_one_address_leaves_some_to_its_neighbours() -> None:
    shares = HostShares(1000)
    held = [taken(shares, f"2001:db8::{number}") for number in range(50)]
    assert held[0] == 334
    assert held[1] > 80
    assert sum(held) == shares.held("2001:db8::/64") == 500
    assert taken(shares, "2001:db8:0:1::1") > 150
