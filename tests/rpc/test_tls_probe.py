"""The probe with AUTH_TLS and its answers, octet for octet (RFC 9289 section 4.1)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.errors import DecodeError, RemoteProtocolError
from rpcrdma.rpc.auth import AuthStat
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.host_identity import XPRTSEC_CHOICES, protects
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import Service
from rpcrdma.rpc.tls_probe import PORT_MAPPER, answer_probe, is_probe, offers_tls, probe_call, refuse_in_clear

XID = 0x01020304
PROBE = bytes.fromhex("01020304 00000000 00000002 20000003 00000001 00000000 00000007 00000000 00000000 00000000")
"""By hand: xid, CALL, RPC version 2, program, version, procedure 0, AUTH_TLS and AUTH_NONE with empty bodies."""
OFFER = bytes.fromhex("01020304 00000001 00000000 00000000 00000008 5354415254544c53 00000000")
"""By hand: xid, REPLY, MSG_ACCEPTED, AUTH_NONE with the eight octets STARTTLS, SUCCESS."""


class Nothing(Service):
    PROGRAM = Program(0x20000003, 1, "NOTHING_V1", {})


DISPATCHER = Dispatcher([Nothing()])


def changed(message: bytes, word: int, value: int) -> bytes:
    return message[: 4 * word] + value.to_bytes(4, "big") + message[4 * word + 4 :]


def denial(stat: AuthStat) -> bytes:
    """By hand: xid, REPLY, MSG_DENIED, AUTH_ERROR."""
    return bytes.fromhex("01020304 00000001 00000001 00000001") + stat.to_bytes(4, "big")


@pytest.mark.req("TLS-2", "TLS-3")
def test_the_probe_is_a_null_call_with_empty_bodies() -> None:
    assert probe_call(XID, 0x20000003, 1) == PROBE
    assert is_probe(PROBE)
    # Where no other program is known; its number is that of RFC 1833 section 3.
    assert PORT_MAPPER == (100000, 2)


def test_only_calls_of_version_2_with_auth_tls_are_probes() -> None:
    for word, value in ((1, 1), (2, 3), (6, 0), (6, 1), (6, 6)):
        assert not is_probe(changed(PROBE, word, value)), (word, value)
    for length in range(28):
        assert not is_probe(PROBE[:length]), length


@pytest.mark.req("TLS-4")
def test_a_server_with_tls_accepts_it_with_starttls() -> None:
    answer = answer_probe(PROBE, DISPATCHER)
    assert (answer.reply, answer.begins) == (OFFER, True)


@pytest.mark.req("TLS-4")
def test_tls_is_offered_also_where_the_program_is_not() -> None:
    other_program, other_version = (answer_probe(changed(PROBE, word, 99), DISPATCHER) for word in (3, 4))
    assert other_program.reply == OFFER[:-4] + bytes.fromhex("00000001")
    assert other_version.reply == OFFER[:-4] + bytes.fromhex("00000002 00000001 00000001")
    assert other_program.begins
    assert other_version.begins


@pytest.mark.req("TLS-9")
def test_auth_tls_with_another_procedure_is_a_bad_credential() -> None:
    answer = answer_probe(changed(PROBE, 5, 1), DISPATCHER)
    assert (answer.reply, answer.begins) == (denial(AuthStat.AUTH_BADCRED), False)


def test_a_probe_with_a_body_or_a_verifier_is_denied() -> None:
    body = changed(PROBE, 7, 4)[:32] + b"body" + PROBE[32:]
    assert answer_probe(body, DISPATCHER) == (denial(AuthStat.AUTH_BADCRED), False)
    verified = changed(PROBE, 9, 4) + b"body"
    assert answer_probe(verified, DISPATCHER) == (denial(AuthStat.AUTH_BADVERF), False)
    assert answer_probe(changed(PROBE, 8, 1), DISPATCHER) == (denial(AuthStat.AUTH_BADVERF), False)
    assert not answer_probe(changed(PROBE, 7, 404) + bytes(404), DISPATCHER).begins


def test_a_probe_of_another_length_has_no_answer() -> None:
    for length in range(28, len(PROBE)):
        with pytest.raises(DecodeError):
            answer_probe(PROBE[:length], DISPATCHER)
    with pytest.raises(DecodeError, match="probe for TLS"):
        answer_probe(PROBE + bytes(4), DISPATCHER)


@pytest.mark.req("TLS-5", "TLS-7")
def test_a_client_goes_on_only_after_an_accepted_reply_with_starttls() -> None:
    assert offers_tls(OFFER, XID)
    assert offers_tls(changed(OFFER, 7, 1), XID), "PROG_UNAVAIL offers TLS as well"
    without = bytes.fromhex("01020304 00000001 00000000 00000000 00000000 00000000")
    for reply in (
        without,
        denial(AuthStat.AUTH_REJECTEDCRED),
        changed(OFFER, 3, 1),
        changed(OFFER, 6, int.from_bytes(b"TLZ!", "big")),
        changed(OFFER, 4, 12) + bytes(4),
    ):
        assert not offers_tls(reply, XID), reply.hex()


def test_other_replies_are_errors() -> None:
    for reply in (changed(OFFER, 0, 5), changed(OFFER, 1, 0), changed(OFFER, 4, 404), *(OFFER[:n] for n in range(32))):
        with pytest.raises(DecodeError):
            offers_tls(reply, XID)


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_octets_raise_protocol_errors_alone(head: bytes, tail: bytes) -> None:
    for message in (head, PROBE[: len(head) % 40] + tail, OFFER[: len(head) % 32] + tail):
        for decode in (lambda data: answer_probe(data, DISPATCHER), lambda data: offers_tls(data, XID)):
            with contextlib.suppress(RemoteProtocolError):
                decode(message)
        is_probe(message)
        refuse_in_clear(message)


def test_calls_in_the_clear_are_refused_by_what_they_lack() -> None:
    assert refuse_in_clear(PROBE[:24]) == denial(AuthStat.AUTH_TOOWEAK)
    assert refuse_in_clear(OFFER) is None
    assert refuse_in_clear(PROBE[:7]) is None


def test_a_stronger_protection_serves_for_a_weaker_one() -> None:
    held = [(present, wanted) for present in XPRTSEC_CHOICES for wanted in XPRTSEC_CHOICES if protects(present, wanted)]
    assert held == [
        ("none", "none"), ("tls", "none"), ("tls", "tls"), ("mtls", "none"), ("mtls", "tls"), ("mtls", "mtls"),
    ]  # fmt: skip
