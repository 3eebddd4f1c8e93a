"""The errors that hosts send each other, the bounds on values, the contexts that serve, and the names shown."""

from __future__ import annotations

import ssl

import pytest

from rpcrdma import limits
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.transport.config import Role
from rpcrdma.transport.host_authentication import HostAuthenticator, _listed, prepare_context
from rpcrdma.transport.host_policy import HostPolicy
from rpcrdma.transport.host_refusals import REFUSALS, HostCause, alert_in, cause_of, refused, refused_by_peer
from support.cases import each_case


@each_case(
    ("reason", "verify_code", "cause"),
    [
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", None, HostCause.NO_CERTIFICATE),
        ("UNSUPPORTED_PROTOCOL", None, HostCause.VERSION),
        ("WRONG_SSL_VERSION", None, HostCause.VERSION),
        ("VERSION_TOO_LOW", None, HostCause.VERSION),
        ("NO_APPLICATION_PROTOCOL", None, HostCause.OTHER_USE),
        ("WRONG_VERSION_NUMBER", None, HostCause.NOT_TLS),
        ("UNKNOWN_PROTOCOL", None, HostCause.NOT_TLS),
        ("HTTP_REQUEST", None, HostCause.NOT_TLS),
        ("HTTPS_PROXY_REQUEST", None, HostCause.NOT_TLS),
        ("BAD_RECORD_TYPE", None, HostCause.NOT_TLS),
        ("PACKET_LENGTH_TOO_LONG", None, HostCause.NOT_TLS),
        ("UNEXPECTED_MESSAGE", None, HostCause.UNEXPECTED),
        ("UNEXPECTED_RECORD", None, HostCause.UNEXPECTED),
        ("BAD_SIGNATURE", None, HostCause.HANDSHAKE),
        ("", None, HostCause.HANDSHAKE),
        ("CERTIFICATE_VERIFY_FAILED", 9, HostCause.NOT_YET_VALID),
        ("CERTIFICATE_VERIFY_FAILED", 10, HostCause.EXPIRED),
        # X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, DEPTH_ZERO_SELF_SIGNED_CERT, SELF_SIGNED_CERT_IN_CHAIN,
        # UNABLE_TO_GET_ISSUER_CERT_LOCALLY, UNABLE_TO_VERIFY_LEAF_SIGNATURE, CERT_UNTRUSTED and three mismatches of
        # issuer, key and serial number
        *(("CERTIFICATE_VERIFY_FAILED", code, HostCause.UNKNOWN_ISSUER) for code in (2, 18, 19, 20, 21, 27)),
        *(("CERTIFICATE_VERIFY_FAILED", code, HostCause.UNKNOWN_ISSUER) for code in (29, 30, 31)),
        ("CERTIFICATE_VERIFY_FAILED", 23, HostCause.REVOKED),
        # INVALID_CA, PATH_LENGTH_EXCEEDED, INVALID_PURPOSE, CERT_REJECTED and others
        *(("CERTIFICATE_VERIFY_FAILED", code, HostCause.UNFIT) for code in (3, 17, 22, 24, 25, 26, 28, 32)),
    ],
)
def test_what_openssl_finds(reason: str, verify_code: int | None, cause: HostCause) -> None:
    assert cause_of(reason, verify_code) is cause


@each_case(
    ("alert", "name", "words"),
    [
        (10, "UNEXPECTED_MESSAGE", "it did not expect what it was sent"),
        (40, "HANDSHAKE_FAILURE", "the handshake cannot be completed"),
        (42, "BAD_CERTIFICATE", "it does not accept the certificate of this side"),
        (43, "UNSUPPORTED_CERTIFICATE", "does not serve to authenticate it"),
        (44, "CERTIFICATE_REVOKED", "is revoked"),
        (45, "CERTIFICATE_EXPIRED", "has expired, or is not valid yet"),
        (46, "CERTIFICATE_UNKNOWN", "it does not accept the certificate of this side"),
        (48, "UNKNOWN_CA", "it does not know the authority"),
        (49, "ACCESS_DENIED", "it expects another host"),
        (50, "DECODE_ERROR", "it cannot read what it was sent"),
        (51, "DECRYPT_ERROR", "it found a signature or a digest to be wrong"),
        (70, "PROTOCOL_VERSION", "no version of TLS in common"),
        (116, "CERTIFICATE_REQUIRED", "it wants a certificate of this side"),
        (120, "NO_APPLICATION_PROTOCOL", "the handshake was begun for another protocol"),
    ],
)
def test_an_alert_means_the_same_by_its_number_and_by_its_name(alert: int, name: str, words: str) -> None:
    """RFC 8446 section 6.2 has the numbers."""
    told = str(refused_by_peer(alert))
    assert words in told
    assert str(refused_by_peer(name)) == told
    assert told.count("; ") == 1


def test_an_alert_that_is_not_known_is_shown() -> None:
    assert "TLS alert 80" in str(refused_by_peer(80))
    assert "TLS alert INTERNAL_ERROR" in str(refused_by_peer("INTERNAL_ERROR"))


@each_case(
    ("cause", "alert"),
    [
        (HostCause.ABSENT, 116),
        (HostCause.NO_CERTIFICATE, 116),
        (HostCause.EXPIRED, 45),
        (HostCause.NOT_YET_VALID, 45),
        (HostCause.REVOKED, 44),
        (HostCause.UNKNOWN_ISSUER, 48),
        (HostCause.UNFIT, 43),
        (HostCause.WRONG_NAME, 49),
        (HostCause.VERSION, 70),
        (HostCause.OTHER_USE, 120),
        (HostCause.NOT_TLS, 50),
        (HostCause.HANDSHAKE, 40),
        (HostCause.UNEXPECTED, 10),
        (HostCause.TOO_LONG, 40),
    ],
)
def test_what_the_peer_is_told(cause: HostCause, alert: int) -> None:
    error = refused(cause, "a; b")
    assert error.alert == b"\x15\x03\x03\x00\x02\x02" + bytes((alert,))
    assert alert_in(error.alert) == alert
    assert (error.cause, str(error).count("; ")) == (cause.value, 1)
    assert "(a, b)" in str(error)


def test_every_cause_has_its_words() -> None:
    assert set(REFUSALS) == set(HostCause) - {HostCause.REFUSED}


@each_case(
    "value", [b"", b"\x15\x03\x03\x00\x02\x02", b"\x15\x03\x03\x00\x02\x02\x30\x00", b"\x16\x03\x03\x00\x02\x02\x30"]
)
def test_what_is_no_alert(value: bytes) -> None:
    assert alert_in(value) is None


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


@each_case("role", [Role.SERVER, Role.CLIENT])
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
