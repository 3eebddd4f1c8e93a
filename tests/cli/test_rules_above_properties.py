"""The rules that no call can match: which of the rules above each random one is named as the reason."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.cli.export_options import ExportedRule
from rpcrdma.cli.settings.rules import contradictions
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from support.cases import each_case
from support.functions_entered import functions_entered

HOSTS = ["*", "h", "i", "0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/9", "10.0.0.7", "10.128.0.0/9", "::/0", "2001:db8::/32",
         "2001:db8::7", "::ffff:10.0.0.7"]  # fmt: skip
PRINCIPALS = ["*@A", "a@A", "b@A", "*@B", "a@B"]
CERTIFICATES = ["a", "b", "c"]


def some_of(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), max_size=3, unique=True)


def mistakes(rules: Sequence[Sequence[Sequence[str]]]) -> list[tuple[str, str]]:
    """Returns the number of each rule that no call can match, and that of the rule above; each has three lists."""
    made = [
        ExportedRule(
            access="ro", squash="root", anonuid=0, anongid=0, sec=(SecurityFlavor.KRB5,), xprtsec="none",
            hosts=hosts, principals=principals, certificates=certificates, origins={"": str(number)},
        )
        for number, (hosts, principals, certificates) in enumerate(rules)
    ]  # fmt: skip
    export: Any = SimpleNamespace(rules=made)
    return [
        (fault.place, fault.text.partition("that of ")[2].partition(";")[0])
        for fault in contradictions(export, has_authorities=True)
    ]


def is_within(host: str, other: str) -> bool:
    try:
        narrow, wide = (ipaddress.ip_network(each) for each in (host, other))
    except ValueError:
        return host == other
    return narrow.version == wide.version and narrow.subnet_of(wide)  # type: ignore[arg-type]


def is_named(name: str, other: str) -> bool:
    return other in {name, f"*@{name.rpartition('@')[2]}"}


def are_all(names: Sequence[str]) -> bool:
    return not names or "*" in names or {"0.0.0.0/0", "::/0"} <= {*names}


def covers(wide: Sequence[Sequence[str]], narrow: Sequence[Sequence[str]]) -> bool:
    kinds: list[Callable[[str, str], bool]] = [is_within, is_named, is_named]
    for within, some, others in zip(kinds, wide, narrow, strict=True):
        if not are_all(some):
            if are_all(others):
                return False
            if not all(any(within(each, other) for other in some) for each in others):
                return False
    return True


@given(st.lists(st.tuples(some_of(HOSTS), some_of(PRINCIPALS), some_of(CERTIFICATES)), max_size=12))
def test_a_rule_is_refused_exactly_behind_the_first_rule_that_takes_all_its_calls(
    rules: list[tuple[list[str], list[str], list[str]]],
) -> None:
    expected = []
    for number, rule in enumerate(rules):
        above = next((other for other, wide in enumerate(rules[:number]) if covers(wide, rule)), None)
        if above is not None:
            expected.append((str(number), str(above)))
    assert mistakes(rules) == expected


def test_both_networks_of_all_addresses_are_all_hosts() -> None:
    networks = ["0.0.0.0/0", "::/0"]
    for wide, narrow in ((networks, ["*"]), (networks, ["h"]), ([], networks)):
        assert mistakes([(wide, [], []), (narrow, [], [])]) == [("1", "0")]
    assert mistakes([(networks[:1], [], []), (["*"], [], [])]) == []


@each_case(
    "rule",
    [
        lambda number: ([f"10.{number >> 8}.{number & 255}.0/24"], [], []),
        lambda number: ([f"10.0.{number & 255}.7", f"2001:db8:{number:x}::/48"], [], []),
        lambda number: (["10.0.0.7", f"h{number}"], [], []),
        lambda number: (["*"], [f"u{number}@A"], []),
        lambda number: ([], [f"u{number}@A"], [f"h{number & 3}"]) if number & 1 else ([f"h{number}"], [], []),
        lambda number: ([f"10.{number >> 8}.{each}.7" for each in range(100)], [], []),
        lambda number: (["10.0.0.7"], [], []),
    ],
)
@pytest.mark.thorough
def test_the_search_for_rules_that_no_call_can_match_takes_time_in_proportion_to_their_number(
    rule: Callable[[int], Sequence[Sequence[str]]],
) -> None:
    few, many = (
        functions_entered(lambda number=number: mistakes([rule(each) for each in range(number)]))
        for number in (60, 240)
    )
    assert many < 5 * few
