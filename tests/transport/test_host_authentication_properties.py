"""Host authentication under any values, and the comparison of names under any names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_targets import play
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.rpc.host_identity import HostIdentity, HostName, host_name, is_named
from rpcrdma.transport import Role
from rpcrdma.transport.authenticator import HostPolicy
from rpcrdma.transport.host_authentication import HandshakeState, HostAuthenticator
from rpcrdma.transport.host_refusals import alert_in

LABELS = st.builds("".join, st.tuples(st.sampled_from("az"), st.text("az09-", max_size=8), st.sampled_from("az09")))
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)


@given(st.sampled_from(Role), st.binary(max_size=80))
def test_a_peer_that_damages_values_raises_one_error(role: Role, case: bytes) -> None:
    play(role, case)


@given(st.one_of(st.none(), st.binary(max_size=20)), st.lists(st.binary(max_size=20), max_size=4))
def test_a_side_that_is_off_heeds_alerts_alone(announced: bytes | None, values: list[bytes]) -> None:
    machine = HostAuthenticator(None, Role.SERVER, HostPolicy.OFF)
    if announced is not None and alert_in(announced) is not None:
        with pytest.raises(HostAuthenticationFailed):
            machine.begin(announced)
        return
    assert machine.begin(announced) is None
    assert machine.state is HandshakeState.UNAUTHENTICATED
    for value in values:
        with pytest.raises(HostAuthenticationFailed):
            machine.receive(value)


def presenting(*dns_names: str) -> HostIdentity:
    return HostIdentity(dns_names=dns_names, addresses=(), uris=(), subject="", issuer="", channel_binding=b"")


@given(NAMES, NAMES)
def test_a_host_is_itself_and_no_other(name: str, other: str) -> None:
    assert host_name(name) == HostName("DNS", name)
    assert is_named(presenting(name.upper()), [host_name(name)])
    assert is_named(presenting(name), [host_name(other)]) is (name == other)


@given(NAMES, NAMES)
def test_a_wildcard_stands_for_one_label(parent: str, name: str) -> None:
    first, _, rest = name.partition(".")
    assert is_named(presenting(f"*.{parent}"), [host_name(name)]) is (rest == parent and "." in parent)
    assert is_named(presenting(f"*.{parent}"), [host_name(f"{first}.{parent}")]) is ("." in parent)
