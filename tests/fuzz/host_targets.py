"""Fuzz target: host authentication of either side, against a peer whose values are damaged as the case says."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from case_script import Script
from decoder_targets import FuzzTarget
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.transport import Role
from rpcrdma.transport.host_authentication import HandshakeState
from rpcrdma.transport.host_policy import HostPolicy
from support.host_pair import Hosts, Pair

__all__ = ["HOST_MACHINES", "play"]

VALUES_MAX = 6
POLICIES = tuple(HostPolicy)


@functools.cache
def hosts() -> Hosts:
    with tempfile.TemporaryDirectory() as directory:
        made = Hosts(Path(directory))
        # Contexts keep the content of the files.
        made.contexts = (made.context(Role.CLIENT), made.context(Role.SERVER))
    return made


def damaged(script: Script, value: bytes | None) -> bytes | None:
    """The value, or the variant of a hostile peer."""
    how = script.below(8)
    if how < 4:
        return value
    value = value or b""
    at = script.number(2) % (len(value) + 1)
    if how == 4:
        return value[:at]
    if how == 5:
        return value[:at] + script.octets(script.below(32)) + value[at:]
    if how == 6:
        return value[:at] + script.octets(script.below(8)) + value[at + script.below(64) :]
    return script.octets(script.number(2))


def play(role: Role, data: bytes) -> None:
    """The machine of `role` may only raise its one error, and authenticates no host but the good one."""
    script = Script(data)
    good = hosts()
    policies = (POLICIES[script.below(3)], HostPolicy.REQUIRED)
    pair = Pair(good, policies=policies if role is Role.CLIENT else policies[::-1], contexts=good.contexts)
    mine, other = (pair.client, pair.server) if role is Role.CLIENT else (pair.server, pair.client)
    answer = mine.announce()
    error: HostAuthenticationFailed | None = None
    value = other.begin(answer or b"") if role is Role.CLIENT else other.announce()
    try:
        answer = mine.begin(damaged(script, value))
        for _ in range(VALUES_MAX):
            assert answer is None or len(answer) < 4096
            value = None
            if answer is not None and not other.finished and other.state is not HandshakeState.FAILED:
                try:
                    value = other.begin(answer) if other.state is HandshakeState.WAITING else other.receive(answer)
                except HostAuthenticationFailed as failure:
                    value = failure.alert
            value = damaged(script, value)
            if value is None:
                break
            answer = mine.receive(value)
    except HostAuthenticationFailed as failure:
        error = failure
    if error is not None:
        assert str(error).isprintable()
        assert len(error.alert) in {0, 7}
        assert mine.state is HandshakeState.FAILED
        assert mine.peer is None
    if mine.peer is not None:
        assert mine.finished
        assert f"{'server' if role is Role.CLIENT else 'client'}.example" in mine.peer.names


HOST_MACHINES = [
    FuzzTarget(
        f"machine_host_authentication_{role.value}",
        lambda data, role=role: play(role, data),  # type: ignore[misc]
        [
            bytes(16),
            bytes((2, *bytes(16))),
            bytes((2, 0, 4, 0, 90)),
            bytes((1, 0, 6, 0, 50, 1, 0xFF, 0)),
            bytes((2, 0, 7, 0, 7)) + b"\x15\x03\x03\x00\x02\x02\x2d",
            bytes((2, 0, 0, 5, 0, 9, 4)) + b"\x16\x03\x03\x00",
        ],
    )
    for role in (Role.CLIENT, Role.SERVER)
]
"""One target for each side."""
