"""Making lost connections again, without sockets and on a clock that jumps from one event to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma import errors
from rpcrdma.aio.client import connect as connect_module
from rpcrdma.aio.client.connection import Connection
from rpcrdma.aio.client.reconnecting import ReconnectPolicy
from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import CallTimeout, ConnectFailed, DecodeError, MessageTooLong, TransportClosed
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.testing.virtual import now_s
from rpcrdma.transport import Call, TransportStatistics
from rpcrdma.transport.refusals import ChunkRefused, VersionRefused
from support.cases import each_case
from support.loops import in_virtual_time
from support.waiting import time_passes

NULL = 0
URL = parse_url("rdma://192.0.2.1")


def procedure(number: int) -> Procedure[Any, Any]:
    void: Any = None
    return Procedure(9, 1, number, f"PROCEDURE_{number}", "method", void, void, void, void)


PROGRAM = Program(9, 1, "PROGRAM", {})
ONE = procedure(1)
NULL_PROCEDURE = procedure(NULL)


class FakeLine:
    """A connection that answers as `answer` says, and notes the calls: (time, procedure number, XID, time-out)."""

    def __init__(self, answer: Callable[[FakeLine, int], Any]) -> None:
        self.answer = answer
        self.calls: list[tuple[float, int, int, float | None]] = []
        self.exposed: set[int] = set()
        self.xids_kept = self.exposed
        self.closed = False
        self.end_reason = ""
        self.ended = asyncio.Event()
        self.released = asyncio.Event()
        self.released.set()
        self.timer = DeadlineTimer(asyncio.get_running_loop())
        self.statistics = TransportStatistics()

    async def start(self, call: Call) -> Any:
        assert not call.placement
        if self.closed:
            raise TransportClosed("it has ended")
        call.future = self
        xid, number = call.xid, call.procedure.number
        timeout_s = None if call.deadline_s is None else call.deadline_s - asyncio.get_running_loop().time()
        self.calls.append((now_s(), number, xid, timeout_s))
        self.exposed.add(xid)
        try:
            result = self.answer(self, number)
            if result is not Ellipsis:
                if isinstance(result, Exception):
                    raise result
                return result
            async with asyncio.timeout(timeout_s):
                await self.ended.wait()
            raise TransportClosed(self.end_reason)
        except TimeoutError:
            raise CallTimeout("no reply") from None
        finally:
            self.exposed.discard(xid)

    def lose(self, reason: str = "lost") -> None:
        self.closed = True
        self.end_reason = reason
        self.timer.stop()
        self.ended.set()

    def abort(self, reason: str) -> None:
        self.lose(reason)

    async def close(self) -> None:
        self.lose("closed")

    async def wait_closed(self) -> None:
        await self.ended.wait()
        await self.released.wait()


def answering(line: FakeLine, number: int) -> Any:
    return number


def silent(line: FakeLine, number: int) -> Any:
    """But for the NULL call on a new connection."""
    return number if number == NULL else ...


def dead(line: FakeLine, number: int) -> Any:
    return ...


def breaking(line: FakeLine, number: int) -> Any:
    if number == NULL:
        return NULL
    line.lose()
    return TransportClosed("nonsense", protocol_error=True)


def ending(line: FakeLine, number: int) -> Any:
    line.lose()
    return TransportClosed("lost")


class Peer:
    """Hands out one line after another, or the error that is scripted in its place; the last entry repeats."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.lines: list[FakeLine] = []
        self.dialled: list[float] = []

    async def dial(self) -> FakeLine:
        self.dialled.append(now_s())
        entry = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(entry, Exception):
            raise entry
        self.lines.append(FakeLine(entry))
        return self.lines[-1]

    async def caller(self, program: Program | None = PROGRAM, **policy: Any) -> Connection:
        policy = {"random": lambda: 1.0, "keepalive_s": None} | policy
        options = {"warn_after_s": policy.pop("warn_after_s", None)}
        return Connection(URL, await self.dial(), self.dial, ReconnectPolicy(**policy), program, **options)


REFUSED = ConnectFailed("connection refused")


def test_the_delays_double_up_to_a_bound_and_any_part_of_them_may_be_waited() -> None:
    policy = ReconnectPolicy(random=lambda: 1.0)
    assert [policy.delay_s(failures) for failures in range(5)] == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert policy.delay_s(9) == policy.delay_s(10**9) == 30.0
    assert ReconnectPolicy(random=lambda: 0.25).delay_s(2) == 0.1
    assert all(0 <= ReconnectPolicy().delay_s(3) < 0.8 for _ in range(100))


@in_virtual_time
async def test_unanswered_calls_go_again_with_their_identifier_and_what_is_left_of_their_time() -> None:
    peer = Peer(silent, REFUSED, REFUSED, answering)
    caller = await peer.caller()
    calls = [asyncio.ensure_future(caller.call(ONE, None, timeout_s=10)) for _ in range(3)]
    await time_passes(1)
    peer.lines[0].lose()
    assert await asyncio.gather(*calls) == [1, 1, 1]
    assert peer.dialled == pytest.approx([0, 1.1, 1.3, 1.7])
    first, second = (sorted(xid for _, number, xid, _ in line.calls if number) for line in peer.lines)
    assert first == second
    assert [left for _, number, _, left in peer.lines[1].calls if number] == pytest.approx([8.3] * 3)
    assert caller.reconnects == 1
    assert caller._present is peer.lines[1]
    await caller.close()


@in_virtual_time
async def test_an_idle_connection_is_made_again_in_a_while_and_at_once_for_a_call() -> None:
    peer = Peer(answering)
    caller = await peer.caller(random=lambda: 0.5, max_s=30)
    await time_passes(1)
    peer.lines[0].lose()
    await time_passes(20)
    # Half of the longest delay.
    assert peer.dialled == pytest.approx([0, 16])
    peer.lines[1].lose()
    await time_passes(5)
    assert await caller.call(ONE, None) == 1
    assert peer.dialled[2:] == pytest.approx([26])
    peer.lines[2].lose()
    await caller.wait_reconnected(caller.reconnects)
    assert peer.dialled[3:] == pytest.approx([26.05])
    await caller.close()


@in_virtual_time
async def test_an_idle_connection_on_which_the_server_may_call_is_made_again_soon() -> None:
    peer = Peer(answering)
    caller = await peer.caller()
    caller._keeper._takes_calls = True
    for line in range(3):
        await time_passes(1)
        peer.lines[line].lose()
    await time_passes(10)
    # No call has come: a server that accepts connections and drops them is asked less and less often.
    assert peer.dialled == pytest.approx([0, 1.1, 2.2, 3.4])
    assert await caller.call(ONE, None) == 1
    peer.lines[3].lose()
    await time_passes(1)
    assert peer.dialled[4:] == pytest.approx([13.1])
    await caller.close()


@in_virtual_time
async def test_a_call_after_a_time_without_calls_does_not_wait_as_long_as_the_attempts_had_come_to() -> None:
    peer = Peer(answering, *[REFUSED] * 9, answering)
    caller = await peer.caller()
    peer.lines[0].lose()
    await time_passes(60)
    # 30 s, then 0.2 s, and twice as long each time: the next attempt would be at 81 s.
    assert peer.dialled == pytest.approx([0, 30, 30.2, 30.6, 31.4, 33, 36.2, 42.6, 55.4])
    first = asyncio.ensure_future(caller.call(ONE, None))
    await time_passes(0.05)
    assert peer.dialled[9:] == pytest.approx([60])
    # A second one beside it changes nothing: attempts for calls that wait are spaced out as before.
    second = asyncio.ensure_future(caller.call(ONE, None))
    assert await asyncio.gather(first, second) == [1, 1]
    assert peer.dialled[9:] == pytest.approx([60, 60.2])
    await caller.close()


@in_virtual_time
async def test_a_call_that_comes_while_an_attempt_fails_gets_another_at_once() -> None:
    peer = Peer(answering, *[REFUSED] * 5, answering)
    caller = await peer.caller()
    dial = caller._keeper._dial

    async def slowly() -> Any:
        await time_passes(1)
        return await dial()

    caller._keeper._dial = slowly
    peer.lines[0].lose()
    await time_passes(34)
    assert peer.dialled == pytest.approx([0, 31, 32.2, 33.6])
    await time_passes(1)  # in the attempt that begins at 34.4 s
    assert await caller.call(ONE, None) == 1
    assert peer.dialled[4:] == pytest.approx([35.4, 36.4, 37.6])
    await caller.close()


@in_virtual_time
async def test_calls_that_a_server_takes_and_drops_are_spaced_out() -> None:
    def dropping(line: FakeLine, number: int) -> Any:
        return NULL if number == NULL else ending(line, number)

    peer = Peer(answering, dropping)
    caller = await peer.caller()
    assert await caller.call(ONE, None) == 1
    peer.lines[0].lose()
    with pytest.raises(CallTimeout):
        await caller.call(ONE, None, timeout_s=20)
    assert len(peer.dialled) < 12
    await caller.close()


@in_virtual_time
async def test_a_call_ends_at_its_deadline_wherever_it_is() -> None:
    peer = Peer(silent, silent, REFUSED)
    caller = await peer.caller()
    call = asyncio.ensure_future(caller.call(ONE, None, timeout_s=5))
    await time_passes(1)
    peer.lines[0].lose("cut")
    with pytest.raises(CallTimeout, match=r"PROCEDURE_1: no reply within the call's deadline.*cut"):
        await call
    assert now_s() == pytest.approx(5)
    peer.lines[1].lose("cut")
    with pytest.raises(CallTimeout, match=r"connection was lost.*connection refused"):
        await caller.call(ONE, None, timeout_s=5)
    assert now_s() == pytest.approx(10)
    await caller.close()


@in_virtual_time
async def test_the_limits_that_the_user_sets_end_calls_earlier() -> None:
    peer = Peer(silent)
    caller = await peer.caller(retransmissions=2)
    call = asyncio.ensure_future(caller.call(ONE, None, timeout_s=99))
    for line in range(3):
        await time_passes(5)
        peer.lines[line].lose(f"cut {line}")
    with pytest.raises(TransportClosed, match="cut 2"):
        await call
    await caller.close()

    peer = Peer(silent, REFUSED, REFUSED, REFUSED, REFUSED, answering)
    caller = await peer.caller(for_s=1.0)
    call = asyncio.ensure_future(caller.call(ONE, None))
    await asyncio.sleep(0)
    peer.lines[0].lose("cut")
    with pytest.raises(TransportClosed, match=r"could not be made again: connection refused"):
        await call
    lost = len(peer.dialled)
    await time_passes(1000)
    assert len(peer.dialled) == lost
    # The next call begins anew.
    assert await caller.call(ONE, None) == 1
    await caller.close()


@in_virtual_time
async def test_a_call_that_makes_the_peer_break_the_protocol_does_not_go_on_for_ever() -> None:
    peer = Peer(breaking)
    caller = await peer.caller()
    await caller.call(procedure(NULL), None)
    with pytest.raises(TransportClosed, match="nonsense") as caught:
        await caller.call(ONE, None)
    assert caught.value.protocol_error
    assert sum(len([call for call in line.calls if call[1]]) for line in peer.lines) == 3
    await caller.close()


def refusing(refusal: Exception) -> Callable[[FakeLine, int], Any]:
    """ONE is refused, all else answered."""

    def answer(line: FakeLine, number: int) -> Any:
        assert len(line.calls) < 9, "it is called again and again"
        return refusal if number == ONE.number else number

    return answer


_OF_RPC = (errors.GarbageArguments(), errors.RemoteSystemError(), errors.ProgramUnavailable())


@pytest.mark.req("NF-13")
@each_case("refusal", [ChunkRefused(), VersionRefused(2, 3), *_OF_RPC])
@in_virtual_time
async def test_a_refused_call_fails_at_once_and_is_never_repeated(refusal: Exception) -> None:
    peer = Peer(refusing(refusal))
    caller = await peer.caller()
    with pytest.raises(type(refusal)):
        await caller.call(ONE, None)
    assert now_s() == 0
    await time_passes(1000)
    assert [number for _, number, _, _ in peer.lines[0].calls] == [ONE.number]
    assert len(peer.lines) == 1, "a refusal is no reason to connect again"
    # The next call is another one.
    assert await caller.call(procedure(2), None) == 2
    assert [number for _, number, _, _ in peer.lines[0].calls] == [ONE.number, 2]
    await caller.close()


@in_virtual_time
async def test_a_peer_that_breaks_the_protocol_before_its_first_answer_is_not_asked_again() -> None:
    peer = Peer(breaking)
    caller = await peer.caller()
    with pytest.raises(TransportClosed, match="nonsense") as caught:
        await caller.call(ONE, None)
    assert caught.value.protocol_error
    await time_passes(1000)
    assert len(peer.lines) == 1, "but by the next call"
    assert await caller.call(procedure(NULL), None) == NULL
    assert len(peer.lines) == 2
    await caller.close()


@in_virtual_time
async def test_what_never_answers_is_given_up_after_three_connections() -> None:
    peer = Peer(ending)
    caller = await peer.caller()
    with pytest.raises(TransportClosed, match="lost") as caught:
        await caller.call(ONE, None)
    assert not caught.value.protocol_error
    assert len(peer.lines) == 3
    assert now_s() < 1
    await caller.close()


@in_virtual_time
async def test_a_cancelled_call_is_fenced_and_never_sent_again() -> None:
    peer = Peer(silent, REFUSED, answering)
    caller = await peer.caller()
    sent, waiting = (asyncio.ensure_future(caller.call(ONE, None)) for _ in range(2))
    await time_passes(1)
    sent.cancel()
    await asyncio.wait([sent])
    assert len(peer.lines[0].exposed) == 1
    peer.lines[0].lose()
    await time_passes(0.05)
    waiting.cancel()
    await asyncio.wait([waiting])
    await time_passes(10)
    assert peer.lines[0].exposed == set()
    assert [number for _, number, _, _ in peer.lines[1].calls] == [NULL]
    await caller.close()


@in_virtual_time
async def test_memory_is_exposed_again_only_after_it_was_fenced() -> None:
    seen: list[int] = []

    def watching(line: FakeLine, number: int) -> Any:
        seen.append(len(peer.lines[0].exposed))
        return number

    peer = Peer(silent, watching)
    caller = await peer.caller()
    call = asyncio.ensure_future(caller.call(ONE, None, into=bytearray(4)))
    await time_passes(1)
    peer.lines[0].lose()
    await call
    assert seen == [0, 0]
    await caller.close()


@in_virtual_time
async def test_keep_alive_asks_when_idle_and_leaves_a_server_that_does_not_answer() -> None:
    peer = Peer(answering, answering)
    caller = await peer.caller(keepalive_s=60.0, keepalive_reply_s=20.0)
    await time_passes(200)
    assert [(at, number) for at, number, _, _ in peer.lines[0].calls] == [(60, 0), (120, 0), (180, 0)]
    peer.lines[0].answer = dead
    call = asyncio.ensure_future(caller.call(ONE, None))
    assert await call == 1
    assert now_s() == pytest.approx(240 + 20 + 0.1)
    assert "did not answer within 20 s" in peer.lines[0].end_reason
    await caller.close()


ANSWERS = [
    errors.ProgramUnavailable(),
    DecodeError("NULL", 24, "0 octets", "4"),
    MessageTooLong(1 << 20, 1 << 10, "record_octets_max", received=True),
]


@each_case("answer", ANSWERS)
@in_virtual_time
async def test_any_answer_keeps_a_connection_alive_and_calls_make_asking_needless(answer: Exception) -> None:
    peer = Peer(lambda _line, number: answer if number == NULL else number)
    caller = await peer.caller(None, keepalive_s=60.0)
    await time_passes(100)
    assert peer.lines[0].calls == []
    for _ in range(10):
        await caller.call(ONE, None)
        await time_passes(30)
    assert NULL not in [number for _, number, _, _ in peer.lines[0].calls]
    await time_passes(200)
    assert NULL in [number for _, number, _, _ in peer.lines[0].calls]
    assert caller.reconnects == 0
    peer.lines[0].lose()
    assert await caller.call(ONE, None) == 1
    assert caller.reconnects == 1
    await caller.close()


@in_virtual_time
async def test_a_new_connection_that_does_not_answer_is_not_used() -> None:
    peer = Peer(silent, dead, answering)
    caller = await peer.caller(keepalive_reply_s=20.0)
    call = asyncio.ensure_future(caller.call(ONE, None))
    await asyncio.sleep(0)
    peer.lines[0].lose()
    assert await call == 1
    assert [number for _, number, _, _ in peer.lines[1].calls] == [NULL]
    assert peer.lines[1].closed
    assert caller.reconnects == 1
    await caller.close()


@in_virtual_time
async def test_closing_ends_what_waits_and_what_follows() -> None:
    for script in ([silent], [silent, REFUSED]):
        peer = Peer(*script)
        caller = await peer.caller()
        call = asyncio.ensure_future(caller.call(ONE, None))
        await time_passes(1)
        if len(script) > 1:
            peer.lines[0].lose()
            await time_passes(1)
        await caller.close()
        await caller.close()
        with pytest.raises(TransportClosed):
            await call
        with pytest.raises(TransportClosed, match="this side"):
            await caller.call(ONE, None)


@in_virtual_time
async def test_closing_waits_until_a_connection_without_an_answer_has_released_its_memory() -> None:
    peer = Peer(silent, dead)
    caller = await peer.caller()
    call = asyncio.ensure_future(caller.call(ONE, None))
    await time_passes(1)
    peer.lines[0].lose()
    await time_passes(1)
    peer.lines[1].released.clear()
    closing = asyncio.ensure_future(caller.close())
    await time_passes(1)
    assert peer.lines[1].closed
    assert not closing.done()
    peer.lines[1].released.set()
    await closing
    with pytest.raises(TransportClosed):
        await call


@in_virtual_time
async def test_a_bug_while_connecting_leaves_nobody_waiting() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    peer = Peer(silent, KeyError("bug"))
    caller = await peer.caller()
    call = asyncio.ensure_future(caller.call(ONE, None))
    await asyncio.sleep(0)
    peer.lines[0].lose()
    with pytest.raises(TransportClosed, match="bug"):
        await call
    with pytest.raises(TransportClosed):
        await caller.call(ONE, None)
    assert [type(error) for error in told] == [KeyError]
    await caller.close()


@in_virtual_time
async def test_a_silence_is_warned_of_once_and_again_only_if_it_lasts_twice_as_long(caplog: Any) -> None:
    def warnings() -> list[str]:
        return [record.message for record in caplog.records if record.levelname == "WARNING"]

    peer = Peer(silent, REFUSED)
    caller = await peer.caller(warn_after_s=3.0)
    calls = [asyncio.ensure_future(caller.call(ONE, None, timeout_s=60 if number else None)) for number in range(3)]
    await time_passes(2.9)
    assert warnings() == []
    await time_passes(0.2)
    told = (
        f"{URL}: no answer to PROCEDURE_1 for 3 s, like 2 other calls; the connection has not ended, and the call has"
    )
    assert warnings() == [f"{told} no time limit"]
    await time_passes(50)
    assert len(warnings()) == 1
    assert [type(end) for end in await asyncio.gather(*calls[1:], return_exceptions=True)] == [CallTimeout] * 2
    calls[0].cancel()
    # Slow answers: not once for each.
    assert await caller.call(NULL_PROCEDURE, None) == NULL
    for wait_s, count in ((5, 1), (5, 1), (9, 2)):
        with pytest.raises(CallTimeout):
            await caller.call(ONE, None, timeout_s=wait_s)
        await time_passes(2)
        assert len(warnings()) == count, wait_s
        assert await caller.call(NULL_PROCEDURE, None) == NULL
    # What goes on while the server is away.
    peer.lines[0].lose("reset by the peer")
    with pytest.raises(CallTimeout):
        await caller.call(ONE, None, timeout_s=20)
    assert warnings()[-1].partition(" for 12 s; ")[2] == (
        "the connection was lost (connection refused) and is made again if the server is back, and the call fails 20 s "
        "after it was made"
    )
    await caller.close()


@in_virtual_time
async def test_a_silence_of_0_s_stands_for_no_warning(caplog: Any) -> None:
    caller = await Peer(silent).caller(warn_after_s=0.0)
    with pytest.raises(CallTimeout):
        await caller.call(ONE, None, timeout_s=20)
    assert not caplog.records
    await caller.close()


@in_virtual_time
async def test_answers_in_time_and_stalls_of_this_process_are_no_silence(caplog: Any) -> None:
    peer = Peer(answering)
    caller = await peer.caller(warn_after_s=3.0)
    for _ in range(20):
        assert await caller.call(ONE, None) == 1
        await time_passes(0.7)
    await time_passes(60)
    peer.lines[0].answer = silent
    call = asyncio.ensure_future(caller.call(ONE, None, timeout_s=100))
    await time_passes(0)
    # Looks come late on a loop that stalls, and one of them is not three.
    caller._silence._look()
    caller._silence._look()
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    call.cancel()
    await caller.close()


@in_virtual_time
async def test_a_host_that_does_not_answer_while_connecting_is_warned_of(
    caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dial(*_arguments: Any) -> Any:
        await time_passes(8)
        raise REFUSED

    monkeypatch.setattr(connect_module, "_dial", dial)
    with pytest.raises(ConnectFailed):
        await connect_module.connect(str(URL))
    told = f"{URL}: no answer for 3 s; an attempt to connect fails after 10 s"
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [told]
