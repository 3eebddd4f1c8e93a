"""Statistics of a procedure's calls: every number, and sums of them."""

from __future__ import annotations

import itertools
from dataclasses import asdict, replace

import pytest

from rpcrdma.limits import CALL_OUTCOMES_MAX
from rpcrdma.nfs import v3
from rpcrdma.rpc import call_statistics
from rpcrdma.rpc.call_statistics import (
    CANCELLED,
    CONNECTION_LOST,
    DROPPED,
    NOT_SENT,
    OTHER,
    REFUSED,
    REPEATED,
    SUCCESS,
    TIMEOUT,
    CallCounts,
    CallStatistics,
    OperationStatistics,
    added_up,
    by_procedure,
    in_order,
    together,
)
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.histogram import Histogram, bucket_of
from support.cases import each_case

MS = 1_000_000
PLACE = (v3.READ.program, v3.READ.version, v3.READ.name)


@pytest.fixture(autouse=True)
def _bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting comes to an end: 3000 looks for a bucket are more than any test here needs."""
    looks = itertools.count(1)

    def look(duration_ns: int) -> int:
        assert next(looks) < 3000
        return bucket_of(duration_ns)

    monkeypatch.setattr(call_statistics, "bucket_of", look)


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


@pytest.mark.parametrize("status", [SUCCESS, "NFS3ERR_STALE", TIMEOUT, CANCELLED, CONNECTION_LOST, NOT_SENT, OTHER])
@pytest.mark.parametrize("served", [False, True])
def test_every_number_is_told(status: str, served: bool) -> None:
    told = counts().snapshot_as(PLACE, status, served=served).as_json()
    replied = status in {SUCCESS, "NFS3ERR_STALE"}
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


def test_a_call_that_had_nothing_to_wait_for_did_not_wait() -> None:
    made = CallCounts()
    made.add_parts(0, 5 * MS)
    told = made.snapshot_as(PLACE, SUCCESS, served=False)
    assert (told.ops, told.rtt.sum_ns, told.execute.sum_ns) == (1, 5 * MS, 5 * MS)
    assert (told.queue.count, told.queue.sum_ns) == (1, 0)
    assert made._waited is None


def test_milliseconds_are_those_that_are_full() -> None:
    for full in (0, 1, 2, 17):
        for more in (0, MS - 1):
            times = Histogram(counts=(1, *[0] * 127), sum_ns=full * MS + more)
            told = operation(queue=times, rtt=times, handler=times, execute=times).as_json()
            assert [told[f"{name}_ms"] for name in ("queue", "rtt", "handler", "execute")] == [full] * 4


@pytest.mark.parametrize("calls", [1, 127, 128, 129, 300])
def test_calls_that_are_noted_are_counted_however_many_there_are(calls: int) -> None:
    made = CallCounts()
    for number in range(calls):
        made.note(1, 2, number)
        assert len(made._recent) < 384
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
    operations = [
        operation(procedure="B"),
        operation(procedure="A", status="Z"),
        operation(procedure="A", version=4),
        operation(procedure="A", status="B"),
        operation(procedure="A"),
        operation(procedure="A", program=5),
    ]
    assert [operations.index(each) for each in in_order(operations)] == [5, 4, 3, 1, 2, 0]


def test_sums_are_of_every_number() -> None:
    one, other = operation(), operation(status="X", errors=4, timeouts=3)
    total = together([one, other])
    assert (total.program, total.version, total.procedure, total.status) == (*PLACE, "")
    numbers = ("ops", "trans", "timeouts", "bytes_sent", "bytes_recv", "errors")
    assert [getattr(total, name) for name in numbers] == [8, 12, 3, 614, 8018, 4]
    for name in ("queue", "rtt", "handler", "execute"):
        assert getattr(total, name) == getattr(one, name) + getattr(other, name)
    assert together([one], "S") == operation(status="S")


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


@each_case("status", [TIMEOUT, CANCELLED, CONNECTION_LOST, NOT_SENT, REPEATED, DROPPED, REFUSED])
def test_statuses_of_our_own_have_their_names(status: str) -> None:
    statistics = CallStatistics()
    statistics.of(v3.READ, status).add(MS)
    (told,) = statistics.snapshot()
    assert told.status == status == status.upper()


def test_so_many_successes_are_found_by_a_look_and_no_more() -> None:
    statistics = CallStatistics()
    for number in range(CALL_OUTCOMES_MAX + 3):
        statistics.of_success(replace(v3.READ, number=number))
        assert len(statistics.successes) == min(number + 1, CALL_OUTCOMES_MAX)


def test_successes_are_found_again() -> None:
    statistics = CallStatistics()
    found = statistics.of_success(v3.READ)
    assert statistics.successes == {v3.READ: found}
    assert statistics.of_status(v3.READ, 0) is found
    assert statistics.of(v3.READ, SUCCESS) is found


def test_a_responder_tells_the_time_of_handlers() -> None:
    dispatcher = Dispatcher([])
    dispatcher.statistics.of(v3.READ, SUCCESS).add(5 * MS)
    (told,) = dispatcher.statistics.snapshot()
    assert asdict(told)["handler"]["sum_ns"] == 5 * MS
    assert told.rtt.count == 0


def test_noted_calls_are_counted_at_the_latest_after_128() -> None:
    noted = CallStatistics().of_success(v3.READ)
    for number in range(1, 300):
        noted.note(1, 10, 1000)
        counted = number // 128 * 128
        assert (noted.bytes_sent, noted.bytes_recv, sum(noted.buckets)) == (counted, 10 * counted, counted)


def test_calls_of_an_unknown_procedure_have_no_program() -> None:
    statistics = CallStatistics(served=True)
    statistics.of(None, "PROC_UNAVAIL").add(MS)
    (told,) = statistics.snapshot()
    assert (told.program, told.version, told.procedure, told.status) == (0, 0, OTHER, "PROC_UNAVAIL")
