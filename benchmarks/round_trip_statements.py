"""The statements of draft-dnoveck-nfsv4-rpcrdma-rtissues-02, each with the measurement that shows whether it holds.

Here are sections 1 and 2; `round_trip_proposals.py` adds the others. Each statement is a function that measures, and
says whether the result agrees. The calls run in virtual time (`rpcrdma_lab.simulation`), so the results are the same on
every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from round_trip_laboratory import (
    LONG_CALL,
    LONG_REPLY,
    READ,
    SHORT,
    V1,
    V1_LOCAL,
    WRITE,
    Laboratory,
    first_of,
    latencies,
    many,
    shown,
    us,
)

from rpcrdma.testing.virtual import PROFILES, EventKind


class Statement(NamedTuple):
    """One statement; `measure` returns the result in words and whether it agrees. `why` explains a difference."""

    section: str
    says: str
    command: str
    why: str
    measure: Callable[[Laboratory], tuple[str, bool]]


STATEMENTS: list[Statement] = []
"""In the order of the draft."""


def states(
    section: str, says: str, command: str = "--miles 1", why: str = ""
) -> Callable[[Callable[[Laboratory], tuple[str, bool]]], None]:
    """Registers a statement with its measurement; `command` are the options of `rpcrdma roundtrips` that show it."""

    def add(measure: Callable[[Laboratory], tuple[str, bool]]) -> None:
        STATEMENTS.append(Statement(section, says, command, why, measure))

    return add


# 1. Preliminaries


@states("1.2", "The round trip takes 16 µs a mile.", "--miles 0, --miles 30")
def _(lab: Laboratory) -> tuple[str, bool]:
    near, far = (lab(SHORT, V1, miles=miles).latency_s for miles in (0.0, 30.0))
    slope = (far - near) / 30
    return f"a short call takes {us(slope)} longer for each mile", abs(slope - 16e-6) < 1e-9


@states("1.2", "With faster storage, round trips take a larger part of a request's time.", "from Python: server_s")
def _(lab: Laboratory) -> tuple[str, bool]:
    shares = []
    for server_s in (1e-3, 1e-4, 1e-6):
        found = lab(WRITE, V1, server_s=server_s)
        shares.append(found.parts_s["distance"] / found.latency_s)
    words = ", ".join(f"{share:.0%}" for share in shares)
    return f"{words} of a WRITE, if the server takes 1 ms, 100 µs and 1 µs", shares == sorted(shares)


@states("1.2", "In campus and metropolitan networks the round trip becomes an issue.", "--profile metropolitan")
def _(lab: Laboratory) -> tuple[str, bool]:
    shares = []
    for profile in PROFILES:
        found = lab(WRITE, V1, profile=profile, miles=PROFILES[profile].miles)
        shares.append(found.parts_s["distance"] / found.latency_s)
    words = ", ".join(f"{share:.0%} ({profile})" for profile, share in zip(PROFILES, shares, strict=True))
    return f"distance is {words} of a WRITE's time", shares[0] < 0.1 < shares[1] < shares[2]


# 2. The present


@states("2.1", "Four kinds of requests use explicit RDMA: bulk data and long messages, of requests and of replies.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = {name: lab(name, V1) for name in (WRITE, READ, LONG_CALL, LONG_REPLY, SHORT)}
    words = ", ".join(f"{name}: {many(one.reads, 'Read')}, {many(one.writes, 'Write')}" for name, one in found.items())
    return words, all((one.reads + one.writes == 0) is (name == SHORT) for name, one in found.items())


@states("2.2", "WRITE: the requester registers its memory first.", "--miles 1 --paths")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(WRITE, V1)
    before = first_of(found, EventKind.REGISTER) < first_of(found, EventKind.LEAVE)
    return (
        (
            f"{many(found.requester.registrations, 'registration')} of the requester on the path, before the first "
            f"Send; {found.responder.registrations} of the responder later, for the memory that it reads into"
        ),
        before and found.requester.registrations == 1,
    )


@states("2.2", "WRITE: the request is acknowledged, but only its way to the responder counts.", "--miles 1 --paths")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(WRITE, V1)
    return (
        f"{found.acknowledgements} acknowledgements, {found.acknowledgements_on_path} on the path",
        found.acknowledgements > 0 and not found.acknowledgements_on_path,
    )


@states("2.2", "WRITE: the RDMA Read adds a round trip and a notification of the responder.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found, short = latencies(lab(WRITE, V1)), latencies(lab(SHORT, V1))
    more = tuple(a - b for a, b in zip(found, short, strict=True))
    words = f"{many(more[0], 'round trip')}, {more[1]} and {more[2]} interrupts more than a short call"
    return words, more == (1, 1, 0)


@states("2.2", "Without remote invalidation, the requester ends the registration after it was notified of the reply.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(WRITE, V1_LOCAL)
    kinds = [event.kind for event in found.path if event.node == "client"]
    after = EventKind.INVALIDATE_LOCAL in kinds[kinds.index(EventKind.INTERRUPT) :]
    words = many(found.requester.local_invalidations, "local invalidation")
    return f"{words} of the requester on the path, after its interrupt", after


@states("2.2", "With Send with Invalidate, the RNIC ends it before it notifies the requester.", "--miles 1 --paths")
def _(lab: Laboratory) -> tuple[str, bool]:
    found, local = lab(WRITE, V1), lab(WRITE, V1_LOCAL)
    kinds = [event.kind for event in found.path if event.node == "client"]
    before = EventKind.INTERRUPT in kinds[kinds.index(EventKind.INVALIDATE_REMOTE) :]
    saved = local.latency_s - found.latency_s
    return (
        (
            f"{many(found.requester.remote_invalidations, 'remote invalidation')} on the path, before the interrupt; "
            f"{us(saved)} less than with local invalidation"
        ),
        before and saved > 0,
    )


@states("2.2", "In all, WRITE takes 2 round trips, 2 interrupts of the responder and 1 of the requester.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(WRITE, V1)
    return shown(found), latencies(found) == (2, 2, 1)


@states("2.2", "A request without explicit RDMA takes 1 round trip and 1 interrupt at each end.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(SHORT, V1)
    return shown(found), latencies(found) == (1, 1, 1)


@states("2.2", "A long request has the costs of a WRITE, without direct placement.")
def _(lab: Laboratory) -> tuple[str, bool]:
    long, write = lab(LONG_CALL, V1), lab(WRITE, V1)
    same = (latencies(long), long.registrations, long.reads) == (latencies(write), write.registrations, write.reads)
    return f"{shown(long)}, {many(long.registrations, 'registration')}, {many(long.reads, 'Read')}", same


@states("2.2", "A long reply is similar to a READ.")
def _(lab: Laboratory) -> tuple[str, bool]:
    long, read = lab(LONG_REPLY, V1), lab(READ, V1)
    same = (latencies(long), long.registrations, long.writes) == (latencies(read), read.registrations, read.writes)
    return f"{shown(long)}, {many(long.registrations, 'registration')}, {many(long.writes, 'Write')}", same


@states("2.3", "READ: the RDMA Write takes a one-way latency; the Send of the reply follows immediately.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(READ, V1)
    return (
        (
            f"{many(found.writes, 'Write')}, {found.one_way_trips} one-way trips, "
            f"{many(found.acknowledgements_on_path, 'acknowledgement')} on the path"
        ),
        (found.writes, found.one_way_trips, found.acknowledgements_on_path) == (1, 2, 0),
    )


@states("2.3", "READ: memory is invalidated by the peer or by the requester itself.")
def _(lab: Laboratory) -> tuple[str, bool]:
    remote, local = lab(READ, V1), lab(READ, V1_LOCAL)
    return (
        f"{us(remote.latency_s)} with remote, {us(local.latency_s)} with local invalidation",
        (
            remote.requester.remote_invalidations,
            remote.requester.local_invalidations,
            local.requester.remote_invalidations,
            local.requester.local_invalidations,
        )
        == (1, 0, 0, 1),
    )


@states("2.3", "But for registration and invalidation, READ takes the time of a request without explicit RDMA.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(READ, V1)
    return f"{shown(found)}, {many(found.registrations, 'registration')}", latencies(found) == (1, 1, 1)
