"""Worlds: good builds pass, runs repeat to the octet, and each checker notices a build that is broken on purpose."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.aio.answering import answering
from rpcrdma.aio.answering.buffer_pool import BufferShare
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.errors import LocalProtocolError
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.rpc.reply_cache import CallKey, ReplyCache
from rpcrdma.testing.virtual import EventKind, Message, MessageKind, VirtualLoop, loop
from rpcrdma.testing.virtual.queue_pair import SimulatedQueuePair
from rpcrdma.transport.call_credits import CallWindow
from rpcrdma.transport.exposure import Exposure
from rpcrdma.transport.receive_buffers import ReceiveBuffers
from rpcrdma.verbs import SoftwareProtectionDomain
from rpcrdma_lab.simulation.worlds.checkers.exposure import ExposureWatcher
from rpcrdma_lab.simulation.worlds.fault_maker import FaultMaker
from rpcrdma_lab.simulation.worlds.faults import Fault, FaultKind, Side
from rpcrdma_lab.simulation.worlds.history import History
from rpcrdma_lab.simulation.worlds.many_worlds import judged
from rpcrdma_lab.simulation.worlds.plan import ClientPlan, Kept, Plan, PlannedCall, ServerPlan
from rpcrdma_lab.simulation.worlds.scenario import named_scenario
from rpcrdma_lab.simulation.worlds.world import Result, run_world
from rpcrdma_lab.simulation.worlds.world_client import RECOVERED_S

VERSIONS = ("auto", "1", "2")


def call(number: int, work: str, octets: int = 8000, **changes: Any) -> PlannedCall:
    return PlannedCall(number, work, octets, 0.0, into=True, stable=True, name=0)._replace(**changes)


def plan(*calls: PlannedCall, version: str = "1", faults: tuple[Fault, ...] = (), **changes: Any) -> Plan:
    """One client of one server; `changes` are those of the client."""
    values: dict[str, Any] = {"extension": "off", "credits": 8, "at_once": 1} | changes
    client = ClientPlan(number=0, server=0, version=version, calls=calls, **values)
    server = ServerPlan(number=0, credits=client.credits, memory_octets=1 << 24)
    return Plan(seed=1, profile="machine-room", servers=(server,), clients=(client,), faults=faults)


def fault(kind: FaultKind, side: Side = Side.CLIENT, **values: Any) -> Fault:
    return Fault(kind=kind, side=side, client=0, server=0, **values)


def complaints(result: Result) -> set[str]:
    return {violation.checker for violation in result.violations}


EVERYTHING = tuple(
    call(number, work, name=number % 3)
    for number, work in enumerate(
        ("null", "transfer", "statement", "extract", "write", "read", "write", "rename", "remove", "list")
    )
)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("extension", ["off", "rtr"])
def test_every_kind_of_work_is_done_without_a_complaint(version: str, extension: str) -> None:
    result = run_world(plan(*EVERYTHING, version=version, extension=extension, at_once=3))
    assert not result.violations
    # Joining, the end and the bank's notices are calls as well.
    assert result.calls > len(EVERYTHING)


@pytest.mark.thorough
def test_a_world_runs_the_same_way_in_every_process() -> None:
    program = (
        "from rpcrdma_lab.simulation.worlds.many_worlds import judged; "
        "from rpcrdma_lab.simulation.worlds.plan import Kept; "
        "from rpcrdma_lab.simulation.worlds.scenario import named_scenario; "
        "print(*[judged(named_scenario('mixed'), seed, Kept()).trace.digest() for seed in (3, 5)])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert len(set(found.pop().split())) == 2


FAULTS = (
    fault(FaultKind.CUT, after_octets=3000),
    fault(FaultKind.CUT, Side.SERVER, after_operations=4, silent=True),
    fault(FaultKind.CUT, at_s=0.0002),
    fault(FaultKind.DELAY, at_s=0.0001, for_s=2.0, delay_s=0.01),
    fault(FaultKind.CRASH, Side.SERVER, at_s=0.0002, for_s=3.0),
    fault(FaultKind.SLOW_REGISTRATION, for_s=1.0, delay_s=0.01),
    fault(FaultKind.FAILING_REGISTRATION, for_s=0.0005),
    fault(FaultKind.FAILING_REGISTRATION, Side.SERVER, for_s=0.0005),
    fault(FaultKind.EXHAUSTED_MEMORY, Side.SERVER, for_s=0.0005),
    fault(FaultKind.STALLED_APPLICATION, Side.SERVER, for_s=70.0),
    fault(FaultKind.STALLED_READER, Side.SERVER, at_s=0.0001, for_s=40.0),
    fault(FaultKind.CLOCK_JUMP, at_s=0.0001, for_s=100.0),
    fault(FaultKind.WITHHELD_GRANTS, Side.SERVER, for_s=40.0),
)


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
def test_every_fault_happens_and_is_borne(version: str) -> None:
    assert {each.kind for each in FAULTS} == set(FaultKind)
    good = run_world(plan(*EVERYTHING, version=version, at_once=2))
    for each in FAULTS:
        result = run_world(plan(*EVERYTHING, version=version, at_once=2, faults=(each,)))
        assert result.faults == 1, each
        assert result.trace.digest() != good.trace.digest(), each
        assert not result.violations, each


def test_no_fault_explains_a_failure_of_the_last_calls() -> None:
    delay = fault(FaultKind.DELAY, at_s=0.25, for_s=2.0, delay_s=0.01)
    result = run_world(plan(call(0, "null"), faults=(delay,)))
    began_s = [each.at_s for each in result.trace.events if each.kind is EventKind.CALL and "transfer" in each.text]
    assert min(began_s) > delay.at_s + delay.for_s + RECOVERED_S


@pytest.mark.parametrize("lasts", [((1.0, 4.0), (2.0, 1.0)), ((1.0, 2.0), (2.0, 3.0))])
def test_faults_of_one_kind_at_one_node_last_until_the_last_of_them_ends(
    lasts: tuple[tuple[float, float], ...],
) -> None:
    clock, down = VirtualLoop(), set[int]()
    host = SimpleNamespace(registered_octets_max=None, registered_octets=5, stall=lambda _: None)
    provider = SimpleNamespace(withholds_grants=False)
    kinds = [(each.kind, each.side) for each in FAULTS if each.for_s and each.kind is not FaultKind.CLOCK_JUMP]
    faults = [fault(*each, at_s=at_s, for_s=for_s, delay_s=1.0) for each in set(kinds) for at_s, for_s in lasts]
    maker = FaultMaker(tuple(faults), {}, History())
    nodes: Any = (lambda _: host, lambda _: provider)
    maker.start(clock, *nodes, lambda number, _kept: down.add(number), down.remove)
    found = []

    def look() -> None:
        with pytest.raises(LocalProtocolError) if 1 < clock.time() < 5 else nullcontext():
            maker.on_register("server-0", 1)
        message = Message(1, 0, "client-0", "server-0", MessageKind.SEND, b"")
        found.append(
            (
                maker.on_message(message).delay_s,
                bool(down),
                host.registered_octets_max,
                maker.application_stalled_until_s(0) > clock.time(),
                provider.withholds_grants,
            )
        )

    for at_s in (0.5, 1.5, 2.5, 3.5, 4.5, 5.5):
        clock.call_at(at_s, look)
    clock.run_until_idle()
    none, all_ = (0.0, False, None, False, False), (1.0, True, 5, True, True)
    assert found == [none, all_, all_, all_, all_, none]


# Builds that are broken on purpose

TRANSFERS = tuple(call(number, "transfer") for number in range(4))
CUTS = tuple(fault(FaultKind.CUT, Side.SERVER, after_operations=number) for number in range(2, 12))


def one_of(plans: list[Plan]) -> set[str]:
    """The checkers that complain in some of these worlds."""
    return set[str]().union(*(complaints(run_world(each)) for each in plans))


@pytest.mark.thorough
def test_a_call_that_runs_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [plan(*TRANSFERS, faults=(cut,)) for cut in CUTS]
    assert not one_of(plans)
    monkeypatch.setattr(ReplyCache, "find", lambda *_: None)
    assert "calls" in one_of(plans)


@pytest.mark.thorough
def test_a_call_that_is_lost_with_its_connection_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RdmaConnection, "_on_call_failed", lambda *_: None)
    result = run_world(plan(*TRANSFERS, faults=(CUTS[3],)))
    assert complaints(result) == {"progress", "calls"}
    assert any("transfer 1 to server 0 never ended" in violation.text for violation in result.violations)


def test_a_reply_to_another_call_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply cache looks at the procedure alone."""

    def without_xid(client: str, xid: int, procedure: Any, stream: Any) -> CallKey:
        return CallKey(client, 0, procedure.program, procedure.version, procedure.number, 0, 0)

    def addressed(answered: ServerCall, reply: Any) -> None:
        reply.reduced[:4] = answered.xid.to_bytes(4, "big")
        answer(answered, reply)

    answer = ServerCall.answer
    monkeypatch.setattr(answering, "call_key", without_xid)
    monkeypatch.setattr(ServerCall, "answer", addressed)
    result = run_world(plan(*(call(number, "statement") for number in range(2))))
    assert any("statement 1 to server 0 got the reply of entry" in each.text for each in result.violations)


def test_a_failure_that_no_fault_explains_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise LocalProtocolError("too many regions")

    monkeypatch.setattr(Exposure, "_register", refuse)
    assert "calls" in complaints(run_world(plan(*TRANSFERS)))


def test_a_server_that_grants_more_than_it_can_receive_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    post = ReceiveBuffers.post
    monkeypatch.setattr(ReceiveBuffers, "post", lambda receives, wanted: post(receives, min(wanted, 1)))
    calls = tuple(call(number, "transfer", 100) for number in range(40))
    assert "credits" in complaints(run_world(plan(*calls, at_once=20, credits=20)))


def test_an_end_that_posts_more_and_more_receives_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    replace = ReceiveBuffers.replace

    def twice(receives: ReceiveBuffers) -> None:
        replace(receives)
        replace(receives)

    monkeypatch.setattr(ReceiveBuffers, "replace", twice)
    result = run_world(plan(*(call(number, "null") for number in range(150))))
    assert any("server-0 has posted" in violation.text for violation in result.violations)


def test_a_client_that_ignores_grants_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    received = CallWindow.on_received

    def generous(window: CallWindow, message: Any) -> bool:
        result = received(window, message)
        window.allowed = 1000
        return result

    monkeypatch.setattr(CallWindow, "on_received", generous)
    calls = tuple(call(number, "null") for number in range(30))
    assert "rules" in complaints(run_world(plan(*calls, at_once=20)))


def test_a_grant_that_was_lost_with_its_connection_binds_no_client() -> None:
    """The first reply grants 4, the second one 1: the connection was cut before that, and the client goes on."""
    calls = (call(0, "null", pause_s=0.009), call(1, "statement", 800, into=False), call(2, "remove", stable=False))
    faults = (
        fault(FaultKind.WITHHELD_GRANTS, Side.SERVER, at_s=0.0005, for_s=10.0),
        fault(FaultKind.CUT, after_operations=4, silent=True),
    )
    result = run_world(plan(*calls, faults=faults, credits=4, at_once=3))
    assert result.faults == len(faults)
    assert not result.violations


def test_memory_that_is_exposed_after_its_call_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer's RNIC would end one of the handles along with its reply."""
    post_send = SimulatedQueuePair.post_send

    def without_invalidation(queue_pair: Any, wr: object, gather: Any, **options: Any) -> None:
        post_send(queue_pair, wr, gather, **options | {"invalidate": None})

    monkeypatch.setattr(SimulatedQueuePair, "post_send", without_invalidation)
    calls = call(0, "transfer"), call(1, "statement")
    assert not run_world(plan(*calls)).violations
    monkeypatch.setattr(Exposure, "end", lambda *_: None)
    result = run_world(plan(*calls))
    for text in ("client-0 went on after transfer 0", "client-0 went on after statement 1", "left 0x"):
        assert any(text in violation.text for violation in result.violations), text
    # No driver is closed.
    monkeypatch.setattr(ExposureWatcher, "closed", lambda *_: None)
    result = run_world(plan(*calls))
    assert any("client-0 has ended its calls and left 0x" in violation.text for violation in result.violations)


def test_data_that_arrives_after_its_call_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler takes longer than the call waits; its data goes to the memory that the caller uses again."""
    stalled = fault(FaultKind.STALLED_APPLICATION, Side.SERVER, for_s=70.0)
    world = plan(call(0, "statement"), faults=(stalled,))
    assert not run_world(world).violations
    monkeypatch.setattr(SoftwareProtectionDomain, "abandon", lambda *_: None)
    result = run_world(world)
    for text in ("lets its peer touch 8000 octets", "or the buffer after its call"):
        assert any(text in violation.text for violation in result.violations), text


def test_an_access_outside_of_what_is_exposed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server misses the place, and the client's domain looks at the handle alone."""
    post_write = SimulatedQueuePair.post_write

    def beside(queue_pair: Any, wr: object, gather: Any, handle: int, offset: int, **options: Any) -> None:
        post_write(queue_pair, wr, gather, handle, offset + 8, **options)

    def anything(domain: Any, handle: int, _offset: int, length: int, _access: Any) -> memoryview:
        return domain.regions[handle].view[:length]

    monkeypatch.setattr(SimulatedQueuePair, "post_write", beside)
    monkeypatch.setattr(SoftwareProtectionDomain, "find", anything)
    result = run_world(plan(call(0, "statement")))
    assert any("client-0 lets its peer touch 8000 octets" in violation.text for violation in result.violations)


def test_memory_that_is_exposed_beside_the_buffer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    register = Exposure._register

    def too_much(exposure: Exposure, buffer: Any, access: Any) -> Any:
        whole = buffer.obj if isinstance(buffer, memoryview) else buffer
        return register(exposure, whole, access)

    monkeypatch.setattr(Exposure, "_register", too_much)
    result = run_world(plan(call(0, "statement")))
    assert any("exposes memory beside" in violation.text for violation in result.violations)


def test_writes_that_a_crash_has_lost_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client does not look at the write verifier, which changes with each start of the server."""
    write = NfsProcedures.write

    async def forgetful(procedures: NfsProcedures, *args: Any) -> Any:
        result = await write(procedures, *args)
        result.verf = bytes(8)
        return result

    async def careless(procedures: NfsProcedures, node: Any) -> bytes:
        await commit(procedures, node)
        return bytes(8)

    commit = NfsProcedures.commit
    long = call(0, "write", 60000, stable=False, pause_s=0.01)
    crashed = plan(long, faults=(fault(FaultKind.CRASH, Side.SERVER, at_s=0.015, for_s=0.1),))
    assert not run_world(crashed).violations
    monkeypatch.setattr(NfsProcedures, "write", forgetful)
    monkeypatch.setattr(NfsProcedures, "commit", careless)
    assert {"files", "results"} <= complaints(run_world(crashed))


def test_a_file_that_is_closed_without_a_commit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lazy(procedures: NfsProcedures, node: Any) -> bytes:
        return (1).to_bytes(8, "big")

    monkeypatch.setattr(NfsProcedures, "commit", lazy)
    result = run_world(plan(call(0, "write", 60000, stable=False)))
    assert any("not all of it is on the disk" in violation.text for violation in result.violations)


def test_buffers_that_a_server_keeps_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BufferShare, "release", lambda *_: None)
    result = run_world(plan(call(0, "statement")))
    assert any("octets of buffers are not given back" in violation.text for violation in result.violations)


def test_an_error_of_the_package_itself_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(RdmaConnection, "_on_reply", broken)
    assert "errors" in complaints(run_world(plan(call(0, "null"))))


def test_a_world_that_takes_too_long_ends_whatever_it_does_at_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a callback, whose exceptions the event loop only reports."""
    monkeypatch.setattr(RdmaConnection, "_on_reply", lambda *_: signal.raise_signal(signal.SIGVTALRM))
    with pytest.raises(RuntimeError, match="processor time"):
        judged(named_scenario("mixed"), 3, Kept())


def test_data_that_arrives_changed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    post_write = SimulatedQueuePair.post_write

    def reversed_data(queue_pair: Any, wr: object, gather: Any, *args: Any, **options: Any) -> None:
        post_write(queue_pair, wr, [b"".join(gather)[::-1]], *args, **options)

    monkeypatch.setattr(SimulatedQueuePair, "post_write", reversed_data)
    assert "results" in complaints(run_world(plan(call(0, "statement"))))


def test_a_run_that_does_not_repeat_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "random", SimpleNamespace(Random=lambda _seed: random.SystemRandom()))
    result = judged(named_scenario("mixed"), 3, Kept(), twice=True)
    assert "repetition" in complaints(result)
