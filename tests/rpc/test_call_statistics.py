"""Outcomes of calls, counted by procedure and status: every number that is told, and sums of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rpcrdma.limits import CALL_OUTCOMES_MAX, CALL_STATUSES_MAX
from rpcrdma.nfs import mount, v3
from rpcrdma.rpc.call_statistics import (
    CANCELLED,
    CONNECTION_LOST,
    NOT_SENT,
    OTHER,
    SUCCESS,
    TIMEOUT,
    CallCounts,
    CallStatistics,
    OperationStatistics,
    added_up,
    by_procedure,
    in_order,
)
from rpcrdma.rpc.program import Procedure, null_procedure
from rpcrdma.transport import Call
from support.cases import each_case

pytestmark = pytest.mark.usefixtures("bounded_looks")

MS = 1_000_000
PLACE = (v3.READ.program, v3.READ.version, v3.READ.name)


def counted(statistics: CallStatistics) -> dict[tuple[str, str], OperationStatistics]:
    return {(each.procedure, each.status): each for each in statistics.snapshot()}


@each_case("served", [False, True])
def test_a_call_that_did_not_wait_and_one_that_did(served: bool) -> None:
    statistics = CallStatistics(served=served)
    counts = statistics.of_status(v3.READ, 0)
    counts.add(2 * MS)
    counts.add_parts(3 * MS, 5 * MS)
    counts.bytes_sent += 100
    counts.bytes_recv += 9000
    (read,) = statistics.snapshot()
    assert (read.procedure, read.status, read.ops, read.trans, read.errors) == ("NFSPROC3_READ", SUCCESS, 2, 2, 0)
    assert (read.bytes_sent, read.bytes_recv) == (100, 9000)
    rest, none = (read.handler, read.rtt) if served else (read.rtt, read.handler)
    assert [(part.count, part.sum_ns, part.max_ns) for part in (read.queue, rest, read.execute)] == [
        (2, 3 * MS, 3 * MS),
        (2, 7 * MS, 5 * MS),
        (2, 10 * MS, 8 * MS),
    ]
    assert none.count == 0
    assert read.queue.quantile_ns(0.5) < 256
    told = read.as_json()
    assert (told["queue_ms"], told["execute_ms"], told["execute_us"]["max"]) == (3, 10, 8000.0)
    assert ("handler_ms" in told) is served
    for more_ns, whole_ms in ((990 * MS - 1, 999), (1, 1000), (MS - 1, 1000), (1, 1001)):
        counts.add(more_ns)
        (read,) = statistics.snapshot()
        assert read.as_json()["execute_ms"] == whole_ms


def test_statuses_are_counted_apart_and_come_after_success() -> None:
    statistics = CallStatistics()
    for status in (v3.nfsstat3.NFS3ERR_STALE, v3.nfsstat3.NFS3ERR_NOENT, v3.nfsstat3.NFS3_OK, "SYSTEM_ERR"):
        statistics.of_status(v3.LOOKUP, status).add(MS)
    statistics.of(v3.LOOKUP, TIMEOUT).add(MS)
    told = statistics.snapshot()
    assert [each.status for each in told] == [SUCCESS, "NFS3ERR_NOENT", "NFS3ERR_STALE", "SYSTEM_ERR", TIMEOUT]
    (lookup,) = by_procedure(told)
    assert (lookup.status, lookup.ops, lookup.errors, lookup.timeouts) == ("", 5, 4, 1)
    assert (lookup.rtt.count, lookup.execute.count) == (4, 5), "a round trip that never ended is none"


def ended_call(transmissions: int, sent_ns: int, status: int | str = 0) -> Call:
    call = Call(v3.READ, None)
    call.status, call.transmissions = status, transmissions
    call.began_ns, call.sent_ns, call.ended_ns = 10 * MS, sent_ns, 15 * MS
    call.octets_sent, call.octets_received = 100 * transmissions, 50
    return call


@each_case(
    ("sending", "outcome", "times_ms"),
    [
        # Sent at once, and again later; sent again at once; never sent, so that it has waited all its time.
        ((2, 12 * MS), (SUCCESS, 1, 2, 0, 200, 50), (2, 3, 5)),
        ((2, 10 * MS), (SUCCESS, 1, 2, 0, 200, 50), (0, 5, 5)),
        ((0, 0, CONNECTION_LOST), (CONNECTION_LOST, 1, 0, 1, 0, 50), (5, 0, 5)),
        ((1, 10 * MS), (SUCCESS, 1, 1, 0, 100, 50), (0, 5, 5)),
    ],
)
def test_a_call_is_one_operation_however_often_it_was_sent(
    sending: tuple[Any, ...], outcome: tuple[Any, ...], times_ms: tuple[int, ...]
) -> None:
    statistics = CallStatistics()
    for times in (1, 2):
        statistics.count(ended_call(*sending))
        (read,) = statistics.snapshot()
        told = (read.ops, read.trans, read.errors, read.bytes_sent, read.bytes_recv)
        assert (read.status, *told) == (outcome[0], *(times * each for each in outcome[1:]))
        assert [part.sum_ns for part in (read.queue, read.rtt, read.execute)] == [
            times * each * MS for each in times_ms
        ]


def test_a_round_trip_has_a_reply_whatever_the_status_is_named() -> None:
    statistics, served = CallStatistics(), CallStatistics(served=True)
    for sending in ((0, 0, "TOO_LONG"), (1, 10 * MS, "TOO_LONG"), (1, 12 * MS, OTHER), (1, 12 * MS, "RDMA_ERROR")):
        for octets in (0, 50):
            call = ended_call(*sending)
            call.octets_received = octets
            if call.transmissions or not octets:
                statistics.count(call)
                served.count(call)
    told = [(each.ops, each.rtt.count, each.rtt.sum_ns, each.execute.sum_ns) for each in statistics.snapshot()]
    assert told == [(2, 1, 3 * MS, 10 * MS), (3, 1, 5 * MS, 15 * MS), (2, 1, 3 * MS, 10 * MS)]
    assert [each.handler.count for each in served.snapshot()] == [2, 3, 2]


def procedure(name: str, program: int = 200_000, version: int = 1) -> Procedure[None, None]:
    return replace(null_procedure(program, version), name=name)


def test_what_is_counted_apart_is_bounded() -> None:
    statistics = CallStatistics()
    for number in range(2 * CALL_OUTCOMES_MAX):
        statistics.of(procedure(f"P{number}"), SUCCESS).add(MS)
        statistics.of(procedure(f"P{number}"), f"E{number}").add(MS)
    told = counted(statistics)
    assert len(told) == CALL_OUTCOMES_MAX + 2
    assert told[OTHER, SUCCESS].ops + told[OTHER, OTHER].ops == 3 * CALL_OUTCOMES_MAX
    assert sum(each.ops for each in told.values()) == 4 * CALL_OUTCOMES_MAX


def test_statuses_that_a_peer_chooses_leave_room_for_others() -> None:
    statistics = CallStatistics()
    for number in range(2 * CALL_OUTCOMES_MAX):
        statistics.of(v3.LOOKUP, f"E{number}").add(MS)
    for status in (SUCCESS, TIMEOUT, CONNECTION_LOST):
        statistics.of(v3.LOOKUP, status).add(MS)
    statistics.of(v3.READ, SUCCESS).add(MS)
    told = counted(statistics)
    assert len(told) == CALL_STATUSES_MAX + 5
    assert told[v3.LOOKUP.name, OTHER].ops == 2 * CALL_OUTCOMES_MAX - CALL_STATUSES_MAX
    kept = [(v3.LOOKUP.name, SUCCESS), (v3.LOOKUP.name, TIMEOUT), (v3.READ.name, SUCCESS)]
    assert [told[each].ops for each in kept] == [1, 1, 1]
    # A row that has its place keeps it.
    statistics.of(v3.LOOKUP, "E0").add(MS)
    assert counted(statistics)[v3.LOOKUP.name, "E0"].ops == 2


def test_results_with_a_status_are_counted_by_it() -> None:
    """NFS and MOUNT; a structure with a number in it tells nothing, nor does a program without a result."""
    without = {each.name for each in v3.PROGRAM.procedures.values() if each.status is None}
    assert without == {v3.NULL.name}
    assert [each.name for each in mount.PROGRAM.procedures.values() if each.status is not None] == ["MOUNTPROC3_MNT"]
    statistics = CallStatistics()
    for result in (
        mount.mountres3(mount.mountstat3.MNT3ERR_ACCES, None),
        mount.mountres3(mount.mountstat3.MNT3_OK, None),
    ):
        assert mount.MNT.status is not None
        statistics.of_status(mount.MNT, mount.MNT.status(result)).add(MS)
    assert [(each.procedure, each.status) for each in statistics.snapshot()] == [
        ("MOUNTPROC3_MNT", SUCCESS),
        ("MOUNTPROC3_MNT", "MNT3ERR_ACCES"),
    ]


def counts() -> CallCounts:
    """Two calls that did not wait, one that did, one that took no time."""
    made = CallCounts()
    made.note(100, 1000, 1999 * MS)
    made.note(200, 3000, 2 * MS)
    made.bytes_sent += 7
    made.bytes_recv += 9
    made.add_parts(4 * MS, 8 * MS)
    made.add(0)
    made.sent_again += 2
    return made


@each_case("status", [SUCCESS, "NFS3ERR_STALE", TIMEOUT, CANCELLED, CONNECTION_LOST, NOT_SENT, OTHER])
@each_case("served", [False, True])
def test_every_number_is_told(status: str, served: bool) -> None:
    told = counts().snapshot_as(PLACE, status, served=served).as_json()
    replied = status in {SUCCESS, "NFS3ERR_STALE", OTHER}
    assert {name: value for name, value in told.items() if not name.endswith("_us")} == {
        "program": 100003,
        "version": 3,
        "procedure": "NFSPROC3_READ",
        "status": status,
        "ops": 4,
        "trans": 6,
        "timeouts": 4 if status == TIMEOUT else 0,
        "bytes_sent": 307,
        "bytes_recv": 4009,
        "queue_ms": 4,
        "rtt_ms": 2009 if replied and not served else 0,
        **({"handler_ms": 2009} if served else {}),
        "execute_ms": 2013,
        "errors": 0 if status == SUCCESS else 4,
    }
    assert told["execute_us"]["max"] == 1_999_000.0
    assert told["queue_us"]["max"] == 4_000.0


@each_case("calls", [1, 127, 128, 129, 300])
def test_calls_that_are_noted_are_counted_however_many_there_are(calls: int) -> None:
    made = CallCounts()
    for number in range(calls):
        made.note(1, 2, number)
        assert sum(made.buckets) == (number + 1) // 128 * 128, "noted calls are counted at the latest after 128"
    told = made.snapshot_as(PLACE, SUCCESS, served=False)
    assert (told.ops, told.bytes_sent, told.bytes_recv) == (calls, calls, 2 * calls)
    assert told.queue.counts == (calls, *[0] * 127)
    assert (told.rtt.sum_ns, told.rtt.max_ns) == (sum(range(calls)), calls - 1)
    # A snapshot counts nothing twice.
    assert made.snapshot_as(PLACE, SUCCESS, served=False) == told


def operation(**changes: object) -> OperationStatistics:
    made = counts().snapshot_as(PLACE, SUCCESS, served=False)
    return OperationStatistics(**{**{name: getattr(made, name) for name in type(made).__slots__}, **changes})


def test_operations_are_in_order_of_names_and_success_comes_first() -> None:
    changes: list[dict[str, object]] = [
        {"procedure": "B"},
        {"status": "Z"},
        {"version": 4},
        {"status": "B"},
        {},
        {"program": 5},
    ]
    operations = [operation(**{"procedure": "A"} | change) for change in changes]
    assert [operations.index(each) for each in in_order(operations)] == [5, 4, 3, 1, 2, 0]


def test_sums_are_for_each_procedure_or_for_each_status() -> None:
    operations = [operation(), operation(status="X"), operation(), operation(version=4), operation(program=9)]
    assert [(each.program, each.version, each.status, each.ops) for each in by_procedure(operations)] == [
        (100003, 3, "", 12),
        (100003, 4, "", 4),
        (9, 3, "", 4),
    ]
    assert [(each.program, each.version, each.status, each.ops) for each in added_up(operations)] == [
        (9, 3, SUCCESS, 4),
        (100003, 3, SUCCESS, 8),
        (100003, 3, "X", 4),
        (100003, 4, SUCCESS, 4),
    ]


def test_so_many_successes_are_found_by_a_look_and_no_more() -> None:
    statistics = CallStatistics()
    for number in range(CALL_OUTCOMES_MAX + 3):
        statistics.of_success(replace(v3.READ, number=number))
        assert len(statistics.successes) == min(number + 1, CALL_OUTCOMES_MAX)
