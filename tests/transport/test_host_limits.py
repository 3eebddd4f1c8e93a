"""How much a peer may send to authenticate itself, which contexts serve, and how many of its names are shown."""

from __future__ import annotations

import ssl

import pytest

from rpcrdma import limits
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.transport.authenticator import HostPolicy
from rpcrdma.transport.config import Role
from rpcrdma.transport.host_authentication import HostAuthenticator, _listed, prepare_context
from rpcrdma.transport.host_refusals import alert_in
from support.cases import each_case


def counting() -> HostAuthenticator:
    return HostAuthenticator(None, Role.SERVER, HostPolicy.OFF)


@each_case("octets", [0, 1, limits.HOST_AUTHENTICATION_OCTETS_MAX // 3])
def test_so_many_values_may_come_and_not_one_more(octets: int) -> None:
    machine = counting()
    for _ in range(limits.HOST_AUTHENTICATION_VALUES_MAX):
        machine._count(bytes(octets))
    with pytest.raises(HostAuthenticationFailed, match=f"more than {limits.HOST_AUTHENTICATION_VALUES_MAX} values"):
        machine._count(b"")


@each_case("first", [0, 1, 1000, limits.HOST_AUTHENTICATION_OCTETS_MAX])
def test_so_many_octets_may_come_and_not_one_more(first: int) -> None:
    left = limits.HOST_AUTHENTICATION_OCTETS_MAX - first
    machine = counting()
    machine._count(bytes(first))
    machine._count(bytes(left))
    machine = counting()
    machine._count(bytes(first))
    with pytest.raises(HostAuthenticationFailed, match=f"more than {limits.HOST_AUTHENTICATION_OCTETS_MAX} octets"):
        machine._count(bytes(left + 1))


def test_four_names_are_shown_each_to_its_80th_character() -> None:
    assert _listed([]) == "no host"
    names = ["a", "b" * 80, "c" * 81, "d\n"]
    shown = ["a", "b" * 80, "c" * 80, "d\\x0a"]
    for count in range(1, 5):
        assert _listed(names[:count]) == ", ".join(shown[:count])
    assert _listed([*names, "e"]) == ", ".join(shown) + " and 1 more"
    assert _listed([*names, "e", "f"]) == ", ".join(shown) + " and 2 more"


FIT = {Role.CLIENT: ssl.PROTOCOL_TLS_CLIENT, Role.SERVER: ssl.PROTOCOL_TLS_SERVER}


@each_case("role", Role)
def test_a_context_for_its_side_is_prepared_and_one_for_the_other_refused(role: Role) -> None:
    for each, protocol in FIT.items():
        context = ssl.SSLContext(protocol)
        if each is role:
            assert prepare_context(context, role) is context
            assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)
            assert context.minimum_version == ssl.TLSVersion.TLSv1_3
            if role is Role.SERVER:
                # No session is ever resumed.
                assert context.num_tickets == 0
        else:
            with pytest.raises(ValueError, match=f"not for a {role.value}; make it with ssl.{FIT[role].name}"):
                prepare_context(context, role)


@each_case("newest", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.MAXIMUM_SUPPORTED])
@each_case("role", Role)
def test_a_context_must_allow_tls_1_3(role: Role, newest: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(FIT[role])
    context.maximum_version = newest
    prepare_context(context, role)
    context = ssl.SSLContext(FIT[role])
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ValueError, match=r"does not allow TLS 1\.3"):
        prepare_context(context, role)


@each_case("at", range(6))
def test_an_alert_is_told_by_its_type_and_length_in_any_version(at: int) -> None:
    # TLS record: type, two octets of version, two of length, level; the description follows.
    value = bytearray(b"\x15\x03\x03\x00\x02\x02\x30")
    assert alert_in(bytes(value)) == 0x30
    value[at] ^= 1
    assert alert_in(bytes(value)) == (0x30 if at in {1, 2, 5} else None)
