"""Outcomes of calls, counted by procedure and status."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpcrdma.limits import CALL_OUTCOMES_MAX, CALL_STATUSES_MAX
from rpcrdma.nfs import mount, v3
from rpcrdma.rpc.call_statistics import (
    CONNECTION_LOST,
    OTHER,
    SUCCESS,
    TIMEOUT,
    CallStatistics,
    Durations,
    OperationStatistics,
    added_up,
    by_procedure,
)
from rpcrdma.rpc.program import Procedure, null_procedure
from rpcrdma.transport import Call
from support.cases import each_case

MS = 1_000_000


def counted(statistics: CallStatistics) -> dict[tuple[str, str], OperationStatistics]:
    return {(each.procedure, each.status): each for each in statistics.snapshot()}


@pytest.mark.parametrize("served", [False, True])
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


def test_a_call_that_is_lost_and_sent_again_is_one_operation_sent_twice() -> None:
    statistics = CallStatistics()
    statistics.count(ended_call(2, 12 * MS))
    (read,) = statistics.snapshot()
    assert (read.status, read.ops, read.trans, read.errors, read.bytes_sent) == (SUCCESS, 1, 2, 0, 200)
    assert (read.queue.sum_ns, read.rtt.sum_ns, read.execute.sum_ns) == (2 * MS, 3 * MS, 5 * MS)


def test_a_call_that_is_sent_again_at_once_is_counted_as_sent_twice() -> None:
    statistics = CallStatistics()
    statistics.count(ended_call(2, 10 * MS))
    (read,) = statistics.snapshot()
    assert (read.ops, read.trans, read.queue.sum_ns, read.rtt.sum_ns) == (1, 2, 0, 5 * MS)


def test_a_call_that_was_never_sent_has_waited_all_its_time() -> None:
    statistics = CallStatistics()
    statistics.count(ended_call(0, 0, CONNECTION_LOST))
    (read,) = statistics.snapshot()
    assert (read.status, read.ops, read.trans, read.errors, read.bytes_sent) == (CONNECTION_LOST, 1, 0, 1, 0)
    assert (read.queue.sum_ns, read.rtt.sum_ns, read.execute.sum_ns) == (5 * MS, 0, 5 * MS)


def test_a_call_that_did_not_wait_is_noted_with_its_octets() -> None:
    statistics = CallStatistics()
    for _ in range(2):
        statistics.count(ended_call(1, 10 * MS))
    (read,) = statistics.snapshot()
    assert (read.status, read.ops, read.trans, read.bytes_sent, read.bytes_recv) == (SUCCESS, 2, 2, 200, 100)
    assert (read.queue.sum_ns, read.rtt.sum_ns) == (0, 10 * MS)


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


def test_procedures_of_one_name_are_told_apart_by_program_and_version() -> None:
    statistics = CallStatistics()
    for program, version in ((1, 1), (1, 2), (2, 1)):
        statistics.of_status(procedure("GET", program, version), 0).add(program * MS)
    told = statistics.snapshot()
    assert [(each.program, each.version, each.ops, each.procedure) for each in told] == [
        (1, 1, 1, "GET"),
        (1, 2, 1, "GET"),
        (2, 1, 1, "GET"),
    ]
    assert len(by_procedure(told)) == 3
    assert (told[2].as_json()["program"], told[2].as_json()["version"]) == (2, 1)


def test_what_several_connections_have_counted_adds_up() -> None:
    several = [CallStatistics(), CallStatistics()]
    for number, statistics in enumerate(several, 1):
        statistics.of_status(v3.LOOKUP, 0).add(number * MS)
        statistics.of_status(v3.LOOKUP, v3.nfsstat3.NFS3ERR_NOENT).bytes_sent += number
        statistics.of_status(v3.LOOKUP, v3.nfsstat3.NFS3ERR_NOENT).add(MS)
    success, absent = added_up(operation for statistics in several for operation in statistics.snapshot())
    assert (success.status, success.ops, success.rtt.sum_ns, success.rtt.max_ns) == (SUCCESS, 2, 3 * MS, 2 * MS)
    assert (absent.status, absent.ops, absent.bytes_sent) == ("NFS3ERR_NOENT", 2, 3)


@each_case("scale", [1, 300, 10**5, 10**9, 10**13])
def test_many_calls_at_once_are_counted_as_one_after_another(scale: int) -> None:
    durations_ns = [(number * number * 7919) % 1000 * scale for number in range(500)]
    statistics, one_by_one = CallStatistics(), Durations()
    counts = statistics.of_success(v3.READ)
    for number, duration_ns in enumerate(durations_ns):
        one_by_one.add(duration_ns)
        counts.note(number, 2 * number, duration_ns)
    # Being read changes nothing: the reader may be another thread than the one that counts.
    for _ in range(2):
        (read,) = statistics.snapshot()
        assert (read.ops, read.rtt, read.execute) == (500, one_by_one.snapshot(), one_by_one.snapshot())
        assert (read.bytes_sent, read.bytes_recv) == (sum(range(500)), 2 * sum(range(500)))
    assert counts.snapshot().count < 500, "some were noted only"


def test_results_with_a_status_are_counted_by_it() -> None:
    """NFS, MOUNT and watching; a structure with a number in it tells nothing, nor does a program without a result."""
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
