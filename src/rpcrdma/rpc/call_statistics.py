"""Statistics of the calls of one side by procedure and status, under the names of Linux's /proc/self/mountstats.

Of each kind of outcome there is one `CallCounts`, made when it first occurs, so that counting a call makes no objects.
Where a call did not wait, its whole time is counted once: it stands for the round trip (or the handler's time) and for
the execution alike. Only calls that waited have their parts counted apart.

Procedures are those of the programs that this side serves or calls, and statuses those of their definitions. How many
of them are counted apart is bounded all the same, so that no peer chooses how much is held and reported.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from rpcrdma.limits import CALL_OUTCOMES_MAX, CALL_STATUSES_MAX
from rpcrdma.rpc.histogram import BUCKETS, Histogram, bucket_of, bucket_start_ns
from rpcrdma.rpc.program import Procedure

__all__ = [
    "CANCELLED",
    "CONNECTION_LOST",
    "DROPPED",
    "NOT_SENT",
    "OTHER",
    "REFUSED",
    "REPEATED",
    "SUCCESS",
    "TIMEOUT",
    "CallCounts",
    "CallStatistics",
    "Durations",
    "OperationStatistics",
    "added_up",
    "by_procedure",
    "in_order",
    "together",
]

SUCCESS = "SUCCESS"
"""The status of a call with a result whose own status, if it has one, is 0."""
TIMEOUT = "TIMEOUT"
CANCELLED = "CANCELLED"
CONNECTION_LOST = "CONNECTION_LOST"
"""The status of a call that was lost with its connection and was not sent again."""
NOT_SENT = "NOT_SENT"
REPEATED = "REPEATED"
"""The status of a repeated call that is answered with the reply to the first one."""
DROPPED = "DROPPED"
"""The status of a call without a reply: its connection has ended, or its reply is sent to a repeat."""
REFUSED = "REFUSED"
"""The status of a call that the transport refused."""
OTHER = "other"
"""The name for unknown procedures, and for all procedures and statuses over the bound."""

_RECENT_MAX = 384
"""Numbers of calls that are noted, three for each: some 12 KiB for each procedure until they are counted, in 30
microseconds."""

_UNREPLIED = frozenset({TIMEOUT, CANCELLED, CONNECTION_LOST, NOT_SENT})
_OWN = _UNREPLIED | {SUCCESS, REPEATED, DROPPED, REFUSED, OTHER}
"""The statuses that no peer can add to: they take no part in the bound on those of one procedure."""

_Where: TypeAlias = tuple[int, int, str]
"""A procedure: program, version and name. Names alone may be those of several programs, or of two versions of one."""
_UNKNOWN: _Where = (0, 0, OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStatistics:
    """A snapshot of the calls of one procedure that ended with one status; `CallStatistics.snapshot` makes it.

    A client's `execute` is the sum of `queue` and the time from the last Send on (`rtt`, unless left out); a server's
    `execute` is the sum of `queue` and `handler`.
    """

    program: int
    """Program number; 0 for "other"."""
    version: int
    """Program version; 0 for "other"."""
    procedure: str
    """Name in the interface definition, or "other"."""
    status: str
    """"SUCCESS", the error of the procedure or the RPC layer ("NFS3ERR_NOENT", "SYSTEM_ERR"), or the reason for a
    missing reply ("TIMEOUT"); at a server also "REPEATED", a repeated call answered with the reply to the first one.
    "other": statuses beyond the bound; "": all statuses together."""
    ops: int
    """Calls that have ended."""
    trans: int
    """Transmissions of these calls; at a server equal to `ops`."""
    timeouts: int
    """Calls without a reply within their time limit."""
    bytes_sent: int
    """Octets of the RPC messages that this side sent, each counted once, with chunks, without transport headers."""
    bytes_recv: int
    """Octets of the RPC messages that this side received, with chunks, without transport headers."""
    queue: Histogram
    """Client: time from the call to its last Send, or to its end if it was never sent: waits for a credit or a
    connection, and earlier tries. Server: waiting for a thread, a task or memory, or for RPCSEC_GSS to open the
    call."""
    rtt: Histogram
    """Client: time from the last Send of the call to its RPC reply; calls without a reply are left out."""
    handler: Histogram
    """Server: the rest of `execute`: the time of the handler, with decoding, encoding and the reply's protection by
    RPCSEC_GSS."""
    execute: Histogram
    """Client: time from the call to its end. Server: from the arrival of the call to the handover of its reply."""
    errors: int
    """Calls that did not end with SUCCESS."""

    def as_json(self) -> dict[str, Any]:
        """Returns a dictionary of the fields by name, for JSON, with each time under two names.

        `queue_ms` (and `rtt_ms`, `handler_ms`, `execute_ms`) is the sum in whole milliseconds, as in mountstats;
        `queue_us` has mean, percentiles and maximum in microseconds (`Histogram.as_json`). `handler` is left out if it
        has no durations.
        """
        times = {"queue": self.queue, "rtt": self.rtt, "handler": self.handler, "execute": self.execute}
        times = {name: histogram for name, histogram in times.items() if histogram.count or name != "handler"}
        return {
            "program": self.program,
            "version": self.version,
            "procedure": self.procedure,
            "status": self.status,
            "ops": self.ops,
            "trans": self.trans,
            "timeouts": self.timeouts,
            "bytes_sent": self.bytes_sent,
            "bytes_recv": self.bytes_recv,
            **{f"{name}_ms": histogram.sum_ns // 1_000_000 for name, histogram in times.items()},
            "errors": self.errors,
            **{f"{name}_us": histogram.as_json() for name, histogram in times.items()},
        }


class Durations:
    """Counts durations of 0 ns or more, in the buckets of a `Histogram`; unlike that it is mutable."""

    __slots__ = ("buckets", "max_ns", "sum_ns")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        self.sum_ns = 0
        self.max_ns = 0

    def add(self, duration_ns: int) -> None:
        """Counts one duration, in nanoseconds, at least 0."""
        self.sum_ns += duration_ns
        if duration_ns > self.max_ns:  # noqa: PLR1730 - max() takes three times as long
            self.max_ns = duration_ns
        self.buckets[bucket_of(duration_ns)] += 1

    def add_all(self, durations_ns: list[int]) -> None:
        """Counts several durations in nanoseconds, faster than `add` does one by one; sorts the list in place."""
        if not durations_ns:
            return
        durations_ns.sort()
        self.sum_ns += sum(durations_ns)
        self.max_ns = max(self.max_ns, durations_ns[-1])
        begin = 0
        while begin < len(durations_ns):
            index = bucket_of(durations_ns[begin])
            end = len(durations_ns)
            if index + 1 < BUCKETS:
                end = bisect_left(durations_ns, bucket_start_ns(index + 1), begin)
            self.buckets[index] += end - begin
            begin = end

    def snapshot(self) -> Histogram:
        """Returns a copy of the counts so far as an immutable `Histogram`."""
        return Histogram(counts=tuple(self.buckets), sum_ns=self.sum_ns, max_ns=self.max_ns)


class CallCounts(Durations):
    """The counts of the calls of one procedure with one status.

    The base class counts the durations of replied calls that did not wait before they were sent or handled. A
    caller counts a call either by `note`, which is the cheapest way, or by adding to `bytes_sent`, `bytes_recv` and
    `sent_again` (its transmissions after the first) and calling `add` or `add_parts`.
    """

    __slots__ = ("_recent", "_waited", "bytes_recv", "bytes_sent", "sent_again")

    def __init__(self) -> None:
        super().__init__()
        # Of calls that are noted and not yet counted: octets sent, octets received and nanoseconds of each.
        self._recent: list[int] = []
        self.bytes_sent = 0
        self.bytes_recv = 0
        self.sent_again = 0
        """The transmissions of these calls, less one for each call."""
        self._waited: tuple[Durations, Durations, Durations] | None = None

    def note(self, octets_sent: int, octets_received: int, duration_ns: int) -> None:
        """Records a successful call that did not wait; the call is counted later, together with others.

        Calls with other statuses are not recorded here: the list of calls takes memory, and a peer can provoke many
        statuses.

        Args:
            octets_sent: octets of the RPC message that this side sent: at a client the call, at a server the reply.
            octets_received: octets of the message that this side received: at a client the reply, at a server the call.
            duration_ns: the time of the whole call in nanoseconds.
        """
        recent = self._recent
        recent += (octets_sent, octets_received, duration_ns)
        if len(recent) >= _RECENT_MAX:
            self._recent = []
            self._count_all(recent)

    def _count_all(self, recent: list[int]) -> None:
        self.bytes_sent += sum(recent[0::3])
        self.bytes_recv += sum(recent[1::3])
        self.add_all(recent[2::3])

    def add_parts(self, queue_ns: int, rest_ns: int, *, replied: bool = True) -> None:
        """Counts the time of a call in two parts, in nanoseconds.

        Args:
            queue_ns: the time for which the call waited before it was sent or handled; 0: it did not wait.
            rest_ns: the time after the wait: until the call's end at a client, the time of the handler at a server.
            replied: False for a call that ended at a client without a reply: `rest_ns` is then no round trip.
        """
        if replied and not queue_ns:
            self.add(rest_ns)
            return
        if self._waited is None:
            self._waited = Durations(), Durations(), Durations()
        queue, rest, execute = self._waited
        queue.add(queue_ns)
        if replied:
            rest.add(rest_ns)
        execute.add(queue_ns + rest_ns)

    def _settled(self) -> CallCounts:
        """Returns a copy in which the calls that `note` has only recorded so far are counted as well.

        The copy lacks `sent_again` and the times of calls that waited before they were sent or, at a server, handled,
        or ended without a reply. This object does not change, since another thread may count in it.
        """
        copy = CallCounts()
        copy.buckets = self.buckets[:]
        copy.sum_ns, copy.max_ns = self.sum_ns, self.max_ns
        copy.bytes_sent, copy.bytes_recv = self.bytes_sent, self.bytes_recv
        copy._count_all(self._recent[:])
        return copy

    def snapshot_as(self, where: _Where, status: str, *, served: bool) -> OperationStatistics:
        """Returns an immutable copy of the counts so far.

        Args:
            where: program number, program version and procedure name that the copy gets.
            status: the name of the status that the copy gets, such as "SUCCESS".
            served: True for the calls that a server received: the time of a call without its wait becomes `handler`
                instead of `rtt`.
        """
        settled = self._settled()
        direct = settled.snapshot()
        at_once = Histogram(counts=(direct.count, *[0] * (BUCKETS - 1)))
        if self._waited is None:
            queue, rest, execute = at_once, direct, direct
        else:
            waited, rests, whole = (durations.snapshot() for durations in self._waited)
            queue, rest, execute = at_once + waited, direct + rests, direct + whole
        ops = execute.count
        nothing = Histogram()
        program, version, procedure = where
        return OperationStatistics(
            program=program,
            version=version,
            procedure=procedure,
            status=status,
            ops=ops,
            trans=ops + self.sent_again,
            timeouts=ops if status == TIMEOUT else 0,
            bytes_sent=settled.bytes_sent,
            bytes_recv=settled.bytes_recv,
            queue=queue,
            rtt=nothing if served or status in _UNREPLIED else rest,
            handler=rest if served else nothing,
            execute=execute,
            errors=0 if status == SUCCESS else ops,
        )


class CountedCall(Protocol):
    """A call that has ended, as `CallStatistics.count` needs it; times are in nanoseconds of one monotonic clock."""

    @property
    def procedure(self) -> Procedure[Any, Any] | None:
        """The procedure of the call; None if this side does not know the procedure: then `status` is not 0."""

    status: int | str
    """0 or an enumeration member of value 0 for success, another status of the result, or the name of a failure."""
    octets_sent: int
    octets_received: int
    began_ns: int
    """The time when the call was made or, at a server, arrived."""
    sent_ns: int
    """The time when the call was last sent (0: never); at a server the end of its last wait for memory, a thread or a
    task, or `began_ns` without a wait."""
    ended_ns: int
    """The time when the call ended."""

    @property
    def transmissions(self) -> int:
        """The number of times that the call was sent, 0 if never; at a server 1."""


class CallStatistics:
    """The counts of all calls that one side makes, or, with `served`, of all that it gets with a readable header.

    At most CALL_OUTCOMES_MAX pairs of procedure and status have counts of their own, and of one procedure at most
    CALL_STATUSES_MAX statuses besides those with a constant in this module. Calls beyond these bounds are counted under
    the name "other", as `of` describes.
    """

    __slots__ = ("_outcomes", "_served", "_statuses", "successes")

    def __init__(self, *, served: bool = False) -> None:
        self._served = served
        self._outcomes: dict[tuple[_Where, str], CallCounts] = {}
        # How many statuses of each procedure are told apart, other than our own.
        self._statuses: dict[_Where, int] = {}
        self.successes: dict[Procedure[Any, Any], CallCounts] = {}
        """The counts of successful calls by procedure, found by `of_success`; a look-up here saves that search."""

    def of_success(self, procedure: Procedure[Any, Any]) -> CallCounts:
        """Returns the `CallCounts` of a procedure's successful calls, and enters them in `successes`, a fast index.

        The object is that of `of` for SUCCESS. It is not entered if `successes` has CALL_OUTCOMES_MAX entries.
        """
        counts = self.of(procedure, SUCCESS)
        if len(self.successes) < CALL_OUTCOMES_MAX:
            self.successes[procedure] = counts
        return counts

    def of(self, procedure: Procedure[Any, Any] | None, status: str) -> CallCounts:
        """Returns the `CallCounts` of a procedure's calls (None: unknown procedure) with the status named `status`.

        The counts are made at the first use. The statuses with a constant in this module, such as SUCCESS and TIMEOUT,
        are always counted by name. Of others, a procedure has at most CALL_STATUSES_MAX; a further one is counted as
        status "other" of the procedure. If there are CALL_OUTCOMES_MAX pairs of procedure and status, a further pair is
        counted for the procedure "other", with status "other" unless the status has a constant.
        """
        where = _UNKNOWN if procedure is None else (procedure.program, procedure.version, procedure.name)
        return self._outcomes.get((where, status)) or self._of_new(where, status)

    def _of_new(self, where: _Where, status: str) -> CallCounts:
        told = self._statuses.get(where, 0)
        if status not in _OWN and told >= CALL_STATUSES_MAX:
            status = OTHER
        if len(self._outcomes) >= CALL_OUTCOMES_MAX and (where, status) not in self._outcomes:
            where, status = _UNKNOWN, status if status in _OWN else OTHER
        counts = self._outcomes.get((where, status))
        if counts is None:
            counts = self._outcomes[where, status] = CallCounts()
            if status not in _OWN:
                self._statuses[where] = told + 1
        return counts

    def of_status(self, procedure: Procedure[Any, Any] | None, status: int | str) -> CallCounts:
        """Returns the `CallCounts` of a procedure's calls with a status, or "other" where `of` has no room.

        Args:
            procedure: the procedure; None: unknown.
            status: the name of a failure; or the status of a result, as a member of its enumeration, which is counted
                by name, or as another int. 0 is success.
        """
        if procedure is not None and not status:
            return self.successes.get(procedure) or self.of_success(procedure)
        return self.of(procedure, status.name if isinstance(status, enum.Enum) else str(status))

    def count(self, call: CountedCall) -> None:
        """Adds octets, times and transmissions of an ended call to the counts of the call's procedure and status."""
        procedure, status = call.procedure, call.status
        sent_ns = call.sent_ns or call.ended_ns
        waited_ns = sent_ns - call.began_ns
        if procedure is not None and not (status or waited_ns or call.transmissions != 1):
            counts = self.successes.get(procedure) or self.of_success(procedure)
            counts.note(call.octets_sent, call.octets_received, call.ended_ns - sent_ns)
            return
        counts = self.of_status(procedure, status)
        counts.sent_again += call.transmissions - 1
        counts.bytes_recv += call.octets_received
        if call.transmissions:
            counts.bytes_sent += call.octets_sent
        replied = self._served or call.octets_received > 0
        counts.add_parts(waited_ns, call.ended_ns - sent_ns, replied=replied)

    def snapshot(self) -> tuple[OperationStatistics, ...]:
        """Returns the counts so far of each pair of procedure and status, in the order of `in_order`.

        Pairs without any call are left out. Any thread may call this.
        """
        # A list at once: other threads may ask while the event loop counts.
        outcomes = list(self._outcomes.items())
        found = (counts.snapshot_as(*key, served=self._served) for key, counts in outcomes)
        return in_order(operation for operation in found if operation.ops or operation.trans)


def in_order(operations: Iterable[OperationStatistics]) -> tuple[OperationStatistics, ...]:
    """Returns the statistics sorted by procedure name, program number and version.

    Those of one procedure follow each other with SUCCESS first, the others by the name of the status.
    """

    def place(each: OperationStatistics) -> tuple[str, int, int, bool, str]:
        return each.procedure, each.program, each.version, each.status != SUCCESS, each.status

    return tuple(sorted(operations, key=place))


def together(operations: Iterable[OperationStatistics], status: str = "") -> OperationStatistics:
    """Returns one object with the sums of `operations`, which are statistics of one procedure, and the given status.

    Raises:
        ValueError: `operations` is empty.
    """
    first, *others = operations
    total = {name: getattr(first, name) for name in OperationStatistics.__slots__}
    for operation in others:
        for name in _SUMMED:
            total[name] += getattr(operation, name)
    return OperationStatistics(**{**total, "status": status})


_SUMMED = tuple(
    name for name in OperationStatistics.__slots__ if name not in {"program", "version", "procedure", "status"}
)


def by_procedure(operations: Iterable[OperationStatistics]) -> tuple[OperationStatistics, ...]:
    """Adds up the statistics of each procedure over its statuses.

    Args:
        operations: such as `Connection.statistics.operations`.

    Returns:
        One object for each procedure, with status "", in the order in which the procedures first occur.
    """
    return tuple(together(each) for each in _grouped(operations, ("program", "version", "procedure")))


def added_up(operations: Iterable[OperationStatistics]) -> tuple[OperationStatistics, ...]:
    """Adds up the statistics that have the same procedure and status, such as those of several connections.

    Returns one object for each pair of procedure and status, in the order of `in_order`.
    """
    groups = _grouped(operations, ("program", "version", "procedure", "status"))
    return in_order(together(each, each[0].status) for each in groups)


def _grouped(operations: Iterable[OperationStatistics], names: tuple[str, ...]) -> list[list[OperationStatistics]]:
    found: dict[tuple[int | str, ...], list[OperationStatistics]] = {}
    for operation in operations:
        found.setdefault(tuple(getattr(operation, name) for name in names), []).append(operation)
    return list(found.values())
