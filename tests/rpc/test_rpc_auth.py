"""AUTH_SYS bodies."""

from __future__ import annotations

import pytest

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.rpc import auth
from rpcrdma.rpc.auth import NO_AUTH, AuthNone, AuthSys, OpaqueAuth, decode_auth_sys, encode_auth_sys, opaque_auth
from rpcrdma.xdr.codec import Encoder
from support.cases import each_case

BODY = bytes.fromhex("0000000a 00000005 686f7374 31000000 000003e8 000003e9 00000003 00000004 00000018 0000001b")
IDENTITY = AuthSys(stamp=10, machine="host1", uid=1000, gid=1001, gids=(4, 24, 27))


@pytest.mark.req("OR-2", "OR-3")
def test_an_identity_is_encoded_and_decoded() -> None:
    assert opaque_auth(AuthNone()) == OpaqueAuth(0, b"") == NO_AUTH
    assert opaque_auth(IDENTITY) == OpaqueAuth(1, BODY)
    assert decode_auth_sys(BODY) == IDENTITY
    for body in (*(BODY[:end] for end in range(len(BODY))), BODY + bytes(4)):
        with pytest.raises(DecodeError):
            decode_auth_sys(body)
    # What is not stated is zero or empty.
    stated = AuthSys(uid=7, gid=8)
    assert (stated.stamp, stated.machine, stated.gids) == (0, "", ())
    assert opaque_auth(stated) == (1, bytes(4) + bytes(4) + b"\0\0\0\7" + b"\0\0\0\10" + bytes(4))
    # A machine name that is no UTF-8.
    body = bytes.fromhex("00000000 00000002 fffe0000 00000000 00000000 00000000")
    assert opaque_auth(decode_auth_sys(body)).body == body


def test_the_bounds_can_be_reached_and_not_exceeded() -> None:
    largest = AuthSys(machine="m" * 255, uid=0xFFFFFFFF, gid=0xFFFFFFFF, gids=tuple(range(16)))
    assert decode_auth_sys(opaque_auth(largest).body) == largest
    body = bytes(4) + (256).to_bytes(4, "big") + bytes(256 + 12)
    with pytest.raises(DecodeError, match="machinename"):
        decode_auth_sys(body)
    with pytest.raises(DecodeError, match="gids"):
        decode_auth_sys(bytes(16) + (17).to_bytes(4, "big") + bytes(17 * 4))


def test_groups_are_counted_before_they_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "GIDS_MAX", 3)
    enc = Encoder()
    with pytest.raises(LocalProtocolError, match="4 groups given, AUTH_SYS carries 3"):
        encode_auth_sys(enc, AuthSys(uid=1, gid=1, gids=(1, 2, 3, 4)))
    assert not enc.reduced


@each_case(
    "identity",
    [
        AuthSys(uid=1, gid=1, gids=tuple(range(17))),
        AuthSys(uid=1, gid=1, machine="m" * 256),
        AuthSys(uid=-1, gid=1),
        AuthSys(uid=1, gid=1 << 32),
        AuthSys(uid=1, gid=1, gids=(-2,)),
        AuthSys(uid=1, gid=1, stamp=1 << 32),
    ],
)
def test_what_a_credential_cannot_carry_is_the_callers_error(identity: AuthSys) -> None:
    with pytest.raises(LocalProtocolError):
        encode_auth_sys(Encoder(), identity)
