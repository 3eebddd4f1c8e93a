"""The statements of draft-dnoveck-nfsv4-rpcrdma-rtissues-02 about its proposals: sections 3 to 5."""

from __future__ import annotations

from round_trip_laboratory import (
    AT_ONCE,
    BATCHED,
    BOTH_4,
    BOTH_8,
    COMPOUND,
    CONTINUED,
    LONG_CALL,
    LONG_REPLY,
    ONE_SIDED,
    READ,
    REQUESTS,
    RESPONSES,
    SHORT,
    SIZE,
    SLABS,
    TWO_REPLIES,
    V1,
    V2,
    WITHOUT,
    WRITE,
    Laboratory,
    acknowledgement_share,
    latencies,
    many,
    request_octets,
    shown,
    us,
    wire_octets,
)
from round_trip_statements import STATEMENTS, states

from rpcrdma.testing.virtual import EventKind
from rpcrdma_lab.simulation.critical_path import CallAccount
from rpcrdma_lab.simulation.measured_calls import CALLS_AT_ONCE, OPERATIONS, TRANSFERS

__all__ = ["STATEMENTS"]

TWO_MESSAGES = 6000
"""Octets of a long reply that takes two messages of 4,096 octets."""


# 3. Near-term work


@states("3.1", "The target is a request without explicit RDMA: acknowledgements do not count.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(SHORT, V2)
    parts = sum(found.parts_s.get(part, 0.0) for part in ("distance", "interrupts", "server"))
    return (
        f"{shown(found)}; distance, interrupts and server are {parts / found.latency_s:.0%} of the time",
        latencies(found) == (1, 1, 1) and not found.acknowledgements_on_path and parts / found.latency_s > 0.9,
    )


@states("3.1", "Only requests with RDMA Read take more: 1 round trip and 1 interrupt of the responder.")
def _(lab: Laboratory) -> tuple[str, bool]:
    short = latencies(lab(SHORT, V2))
    more = {
        name: tuple(a - b for a, b in zip(latencies(lab(name, V2)), short, strict=True))
        for name in (WRITE, LONG_CALL, READ, LONG_REPLY)
    }
    words = ", ".join(f"{name} +{extra[0]:g} +{extra[1]}" for name, extra in more.items())
    return words, more == {WRITE: (1, 1, 0), LONG_CALL: (1, 1, 0), READ: (0, 0, 0), LONG_REPLY: (0, 0, 0)}


@states("3.1", "Registration and invalidation are needed by all requests with explicit RDMA.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = {name: lab(name, V2).registrations for name in (WRITE, LONG_CALL, READ, LONG_REPLY)}
    return ", ".join(f"{name} {count}" for name, count in found.items()), all(found.values())


@states(
    "3.1",
    "Depending on their costs, Sends are better than RDMA Writes in some implementations, in others not.",
    "from Python: registration_s",
)
def _(lab: Laboratory) -> tuple[str, bool]:
    words, signs = [], set()
    for registration_s in (0.1e-6, 5e-6):
        costs = {"registration_s": registration_s, "local_invalidation_s": registration_s}
        by_write = lab(READ, V2, **costs).latency_s
        by_send = lab(READ, BOTH_8, **costs).latency_s
        signs.add(by_send < by_write)
        words.append(f"{us(by_send)} by Send, {us(by_write)} by Write at {registration_s * 1e6:g} µs")
    return f"READ with costs of registration: {'; '.join(words)}", signs == {True, False}


@states("3.2", "Message continuation avoids the latency and the overhead of Position-Zero Read chunks.")
def _(lab: Laboratory) -> tuple[str, bool]:
    before, after = lab(LONG_CALL, V2), lab(LONG_CALL, CONTINUED)
    return (
        (
            f"{shown(before)}, {many(before.registrations, 'registration')} become {shown(after)}, "
            f"{many(after.registrations, 'registration')}"
        ),
        latencies(after) == (1, 1, 1) and not after.registrations,
    )


@states("3.2", "For Reply chunks, it reduces overhead only: a reply of two messages.", "--miles 1 --size 6000")
def _(lab: Laboratory) -> tuple[str, bool]:
    before, after = (lab(LONG_REPLY, variant, size=TWO_MESSAGES) for variant in (V2, CONTINUED))
    registrations = [many(one.registrations, "registration") for one in (before, after)]
    return (
        f"{shown(after)}, as before; {registrations[0]} become {registrations[1]}",
        latencies(before) == latencies(after) and before.registrations > after.registrations == 0,
    )


@states("3.2", "For Reply chunks, it reduces overhead only: a reply of three messages.")
def _(lab: Laboratory) -> tuple[str, bool]:
    before, after = (lab(LONG_REPLY, variant) for variant in (V2, CONTINUED))
    return f"{shown(before)} become {shown(after)}", latencies(before) == latencies(after)


@states("3.2", "N transmissions take N + 1 internode latencies, but they are pipelined.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(LONG_CALL, CONTINUED)
    return (
        f"{found.sends} Sends, {found.one_way_trips} one-way trips on the path",
        found.sends > 2 == found.one_way_trips,
    )


@states("3.2", "The second transmission of a reply does not wait for an acknowledgement.", "--miles 1 --size 6000")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(LONG_REPLY, CONTINUED, size=TWO_MESSAGES)
    on_path = many(found.acknowledgements_on_path, "acknowledgement")
    return (
        f"{found.sends} Sends, {found.acknowledgements} acknowledgements, {on_path} on the path",
        found.acknowledgements == found.sends > 2 and not found.acknowledgements_on_path,
    )


@states("3.2", "The interrupt of the second transmission does not extend the latency.", "--miles 1 --size 6000 --paths")
def _(lab: Laboratory) -> tuple[str, bool]:
    end = lab(LONG_REPLY, CONTINUED, size=TWO_MESSAGES).requester
    words = (
        f"{many(end.interrupts, 'interrupt')} of the requester for both, {many(end.interrupts_beside, 'further one')}"
    )
    return words, (end.interrupts, end.interrupts_beside) == (1, 0)


@states(
    "3.2", "A Send of 1 KiB completes about 200 ns after the one before it, at 40 Gb/s.", "from Python: two replies"
)
def _(lab: Laboratory) -> tuple[str, bool]:
    # Replies of 1,024 octets with their headers, which the server sends one after the other without a pause.
    found = lab(TWO_REPLIES, V1, size=968, server_s=0.0)
    arrivals = sorted(
        event.at_s for event in found.followed if event.kind is EventKind.ARRIVE and event.node == "client"
    )
    gap_s = arrivals[-1] - arrivals[-2]
    interrupts = found.requester.interrupts + found.requester.interrupts_beside
    return (
        f"{gap_s * 1e9:.0f} ns with the headers of the network, {many(interrupts, 'interrupt')} for both",
        150e-9 < gap_s < 250e-9 and interrupts == 1,
    )


@states("3.3", "With send-based placement, an 8 KiB WRITE or READ needs no explicit RDMA.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = {name: lab(name, BOTH_8) for name in (WRITE, READ)}
    words = ", ".join(f"{name}: {shown(one)}, {many(one.registrations, 'registration')}" for name, one in found.items())
    return words, all(
        (latencies(one), one.reads, one.writes, one.registrations, one.sends) == ((1, 1, 1), 0, 0, 0, 2)
        for one in found.values()
    )


def copied(found: CallAccount, node: str) -> int:
    """The octets that a node copied out of receive buffers."""
    return sum(event.octets for event in found.followed if event.kind is EventKind.COPY and event.node == node)


@states(
    "3.3",
    "The data is placed in a segment of the receive buffer: 8 KiB.",
    "from Python",
    "the library copies messages of up to 16 KiB on purpose, as a view of a message keeps its receive buffers occupied "
    "([Memory](round-trips.md#memory))",
)
def _(lab: Laboratory) -> tuple[str, bool]:
    octets = copied(lab(WRITE, BOTH_8), "server")
    return f"WRITE: {octets} octets copied by the server", not octets


@states("3.3", "The data is placed in a segment of the receive buffer: 32 KiB in eight segments.", "from Python")
def _(lab: Laboratory) -> tuple[str, bool]:
    placed, continued = (copied(lab(WRITE, variant, size=1 << 15), "server") for variant in (SLABS, CONTINUED))
    return f"WRITE: {placed} octets copied by the server, {continued} with continuation", not placed


@states("3.3", "The sender adds padding, so that the data begins at the segment.")
def _(lab: Laboratory) -> tuple[str, bool]:
    octets = request_octets(lab(WRITE, BOTH_8))
    plain = request_octets(lab(WRITE, "defaults"))
    return (
        f"the request has {octets} octets: 1,024 for headers and padding, and the data; {plain} without padding",
        octets == 1024 + SIZE > plain,
    )


@states("3.3", "Segments of 4 KiB: an 8 KiB WRITE takes two transmissions.")
def _(lab: Laboratory) -> tuple[str, bool]:
    small, large = lab(WRITE, BOTH_4), lab(WRITE, BOTH_8)
    return (
        (
            f"{small.sends} Sends instead of {large.sends}, {shown(small)}; {us(small.latency_s)} instead of "
            f"{us(large.latency_s)}"
        ),
        (small.sends, large.sends, latencies(small)) == (3, 2, (1, 1, 1)),
    )


@states("3.4", "Together both features carry larger READs and WRITEs.", "--miles 1 --size 32Ki")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = {name: lab(name, BOTH_8, size=32768) for name in (WRITE, READ)}
    words = ", ".join(f"{name}: {one.sends} Sends, {shown(one)}" for name, one in found.items())
    # The interrupt for the first transmission may be over before the last one arrives.
    return words, all(
        one.round_trips == 1 and one.sends == 5 and not one.registrations and max(latencies(one)) <= 1
        for one in found.values()
    )


@states("3.4", "They carry COMPOUNDs with several IO operations.")
def _(lab: Laboratory) -> tuple[str, bool]:
    before, after = lab(COMPOUND, V2), lab(COMPOUND, BOTH_8)
    return (
        (
            f"{TRANSFERS} transfers in one request: {shown(before)}, {many(before.registrations, 'registration')} "
            f"become {shown(after)}, {many(after.registrations, 'registration')}"
        ),
        (latencies(after), after.registrations) == ((1, 1, 1), 0) and before.round_trips == 2,
    )


@states("3.4", "They carry messages whose payload is longer than usual.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(LONG_CALL, BOTH_4, size=16384)
    return f"a long call of 16 KiB: {found.sends} Sends, {shown(found)}", latencies(found) == (1, 1, 1)


@states("3.4", "An item may extend over segments of different receive buffers.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(READ, BOTH_4)
    return f"READ of 8 KiB in segments of 4 KiB: a reply of {found.sends - 1} transmissions", found.sends == 3


@states("3.5", "Peers without the features work as in version 2 without the extension.", "from Python")
def _(lab: Laboratory) -> tuple[str, bool]:
    pairs = [(lab(operation.name, ONE_SIDED), lab(operation.name, WITHOUT)) for operation in OPERATIONS]
    same = sum(
        (one.sends, one.reads, one.writes, one.registrations, latencies(one))
        == (other.sends, other.reads, other.writes, other.registrations, latencies(other))
        for one, other in pairs
    )
    return f"{same} of {len(pairs)} operations with the same counts", same == len(pairs)


@states("3.5", "A client may send requests by send-based placement without accepting such replies.")
def _(lab: Laboratory) -> tuple[str, bool]:
    write, read = lab(WRITE, REQUESTS), lab(READ, REQUESTS)
    words = f"WRITE: {many(write.reads, 'Read')}; READ: {many(read.writes, 'Write')}"
    return words, (write.reads, read.writes) == (0, 1)


@states("3.5", "Avoiding RDMA Read gains more than avoiding RDMA Write.")
def _(lab: Laboratory) -> tuple[str, bool]:
    write = lab(WRITE, V2).latency_s - lab(WRITE, REQUESTS).latency_s
    read = lab(READ, V2).latency_s - lab(READ, RESPONSES).latency_s
    return f"WRITE takes {us(write)} less, READ {us(read)}", write > read


@states("3.5", "If the responder must place by Send, the requester registers no memory for results.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(READ, RESPONSES)
    return f"{many(found.registrations, 'registration')} for READ", not found.registrations


@states("3.5", "A responder may continue a reply instead of using a Reply chunk.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(LONG_REPLY, CONTINUED)
    return f"long reply: {many(found.writes, 'Write')}", not found.writes


@states("3.5", "Chunks remain in use, also with the extension.", "--miles 1 --size 256Ki")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(WRITE, REQUESTS, size=1 << 18)
    words = f"WRITE of 256 KiB: {many(found.reads, 'Read')}, {many(found.registrations, 'registration')}"
    return words, found.reads > 0


# 4. Possible future development


@states("4", "On a connected service each message is acknowledged.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = {name: lab(name, V1) for name in (SHORT, READ, WRITE)}
    words = ", ".join(f"{name}: {many(one.acknowledgements, 'acknowledgement')}" for name, one in found.items())
    # The response to an RDMA Read is its acknowledgement.
    return words, all(one.acknowledgements == one.sends + one.writes for one in found.values())


@states(
    "4", "Without acknowledgements (unreliable datagrams) the latency is the same.", "from Python: acknowledged=False"
)
def _(lab: Laboratory) -> tuple[str, bool]:
    pairs = [(lab(SHORT, V2), lab(SHORT, V2, acknowledged=False))]
    pairs += [(lab(WRITE, BOTH_8), lab(WRITE, BOTH_8, acknowledged=False))]
    difference = max(abs(one.latency_s - other.latency_s) for one, other in pairs)
    left = sum(other.acknowledgements for _, other in pairs)
    words = f"short call and WRITE by Send: a difference of {us(difference)}, {many(left, 'acknowledgement')}"
    return words, difference < 1e-12 and not left


@states("4", "Acknowledgements take little of the bandwidth for usual messages.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = {name: lab(name, V1) for name in (READ, WRITE)}
    shares = {name: acknowledgement_share(one) for name, one in found.items()}
    words = ", ".join(f"{share:.1%} of the octets of an 8 KiB {name}" for name, share in shares.items())
    return words, all(share < 0.05 for share in shares.values())


@states("4", "For small messages they may matter.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(SHORT, V1)
    share = acknowledgement_share(found)
    return f"{share:.1%} of the octets of a short call", share > 0.05


@states("4", "Then several RPC messages in one transmission are better.", "--miles 1 --add-extension " + "BATCHES")
def _(lab: Laboratory) -> tuple[str, bool]:
    alone, batched = lab(AT_ONCE, V2), lab(AT_ONCE, BATCHED)
    return (
        (
            f"{CALLS_AT_ONCE} calls: {alone.sends} Sends become {batched.sends}, {alone.acknowledgements} "
            f"acknowledgements {batched.acknowledgements}, {wire_octets(alone)} octets {wire_octets(batched)}"
        ),
        (alone.sends, batched.sends) == (2 * CALLS_AT_ONCE, 2) and wire_octets(batched) < wire_octets(alone),
    )


@states("4", "They share the cost of the RNIC and of interrupts.", "from Python: coalescing=False")
def _(lab: Laboratory) -> tuple[str, bool]:
    alone, batched = (lab(AT_ONCE, variant, coalescing=False) for variant in (V2, BATCHED))
    coalesced = lab(AT_ONCE, V2)
    counts = [
        sum(end.interrupts + end.interrupts_beside for end in (one.requester, one.responder))
        for one in (alone, coalesced, batched)
    ]
    return (
        f"interrupts of {CALLS_AT_ONCE} calls: {counts[0]}, with coalescing {counts[1]}, in one Send each {counts[2]}",
        counts[2] == 2 < counts[1] < counts[0],
    )


# 5. Summary


@states("5", "The number of round trips matters less than their part of the latency.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(LONG_CALL, CONTINUED)
    return (
        (
            f"a continued long call has {found.acknowledgements} acknowledged Sends, and "
            f"{many(found.round_trips, 'round trip')} in its latency"
        ),
        found.acknowledgements > found.round_trips == 1,
    )


@states("5", "Where latency is no issue, the features reduce overhead.")
def _(lab: Laboratory) -> tuple[str, bool]:
    before, after = lab(READ, V2), lab(READ, BOTH_8)
    words = [many(one.registrations, "registration") for one in (before, after)]
    return (
        f"READ: {shown(after)} as before, {words[0]} become {words[1]}",
        latencies(before) == latencies(after) and before.registrations > after.registrations,
    )


@states("5", "The features bring latency and overhead back to the baseline.")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = {name: lab(name, BOTH_8) for name in (WRITE, READ, LONG_CALL, LONG_REPLY)}
    short = latencies(lab(SHORT, BOTH_8))
    same = all(latencies(one) == short and not one.registrations for one in found.values())
    return f"{', '.join(found)}: {shown(found[WRITE])}, no registrations", same


@states("5", "Send-based placement is restricted to transfers of limited size.", "--miles 1 --size 64Ki")
def _(lab: Laboratory) -> tuple[str, bool]:
    within, beyond = lab(WRITE, REQUESTS, size=7 * 4096), lab(WRITE, REQUESTS, size=1 << 16)
    return (
        f"with segments of 4 KiB: 28 KiB by {within.sends - 1} Sends, 64 KiB by {many(beyond.reads, 'Read')}",
        not within.reads and beyond.reads > 0,
    )


@states("5", "A large message in many Sends ties up credits.", "--miles 1 --size 512Ki")
def _(lab: Laboratory) -> tuple[str, bool]:
    found = lab(WRITE, CONTINUED, size=1 << 19)
    return f"WRITE of 512 KiB: {found.sends} Sends, {shown(found)}: it waits for credits", found.round_trips > 1
