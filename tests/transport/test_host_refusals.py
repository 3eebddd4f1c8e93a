"""The tables of OpenSSL's verification errors, and of the errors that hosts send each other."""

from __future__ import annotations

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
