"""Errors of the Kerberos library, in place of which a fake one stands."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rpcrdma.aio import kerberos
from rpcrdma.rpc.gss.mechanism import GssFailure
from support.cases import each_case


class _ClockError(Exception):
    """The error of the Kerberos library about a peer with another time."""

    maj_code = 0xD0000
    min_code = -1765328384 + 37


@each_case("time", [b"20260231000000", b"00000101000000", b"20261231235960", b"99999999999999"])
def test_a_time_of_the_peer_that_does_not_exist_is_not_told(time: bytes) -> None:
    def step(_token: bytes) -> bytes:
        raise _ClockError

    library = SimpleNamespace(exceptions=SimpleNamespace(GSSError=_ClockError))
    context = kerberos._KerberosContext(library, SimpleNamespace(step=step), "server")
    with pytest.raises(GssFailure, match="differ too much; set them"):
        context.step(b"\xa4\x11\x18\x0f" + time + b"Z")
