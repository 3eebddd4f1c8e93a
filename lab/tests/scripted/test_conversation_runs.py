"""Scripted conversations with a server on a real socket: the course that is expected, and the step that leaves it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from rpcrdma.testing.virtual import VirtualLoop
from rpcrdma_lab.scripted import Failure, Outcome, RawTarget, run_conversation
from rpcrdma_lab.scripted.conversation import LiveConversation
from rpcrdma_lab.scripted.peer_interface import Heard
from rpcrdma_lab.scripted.values import Names
from support.cases import each_case

NULL: dict[str, Any] = {"say": {"rpc": {}}}
ANSWERED: dict[str, Any] = {"hear": {"message": {"header": {"type": 0}, "rpc": {"accepted": 0}}}}
CONTENT = bytes(range(250)) * 20
NONE = v3.post_op_attr(False, None)


class Files(v3.NFS_V3_Service):
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = context.buffer(args.count)
        data[:] = CONTENT[: args.count]
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NONE, args.count, False, data))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        self.written.append(bytes(args.data))
        result = v3.WRITE3resok(
            v3.wcc_data(v3.pre_op_attr(False, None), NONE), len(args.data), v3.stable_how.FILE_SYNC, b"verifier"
        )
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, result)


def held(conversation: dict[str, Any], files: Files | None = None) -> Outcome:
    async def main() -> Outcome:
        async with serve([files or Files()], ["rdma://127.0.0.1:0"]) as server:
            url = parse_url(server.listening[0])
            target = RawTarget(host=url.host, port=url.port, timeout_s=60)
            return await run_conversation(conversation, target, {"size": 5000})

    return asyncio.run(main())


READ = {"rpc": {"procedure": 6, "args": [{"opaque": {"text": "h"}}, {"longs": [0]}, {"words": [5000]}]}}


@pytest.mark.thorough
def test_an_answer_as_expected_is_no_failure_and_all_is_logged() -> None:
    outcome = held({"steps": [NULL, ANSWERED]})
    assert outcome.failure is None
    assert [passage.ours for passage in outcome.passages] == [True, False, True, False]
    assert "RDMA_MSG" in outcome.passages[2].text


@pytest.mark.thorough
def test_the_step_that_leaves_the_course_is_told_with_both_sides() -> None:
    wrong = {"hear": {"message": {"rpc": {"accepted": 1}}}}
    failure = held({"steps": [NULL, ANSWERED, NULL, wrong]}).failure
    assert failure is not None
    assert (failure.step, failure.silent) == (3, False)
    assert "rpc.accepted is 0 instead of 1" in failure.found


@pytest.mark.thorough
def test_parts_of_results_are_compared_and_used_in_later_messages() -> None:
    read = [["status", 4], ["attributes", 4], ["count", 4], ["end", 4], ["data", "opaque"]]
    wanted = {"status": "00000000", "data": CONTENT[:500].hex()}
    first = {"hear": {"message": {"parts": wanted}, "parts": read, "as": "read"}}
    args = [{"opaque": {"given": "read.data", "first": 2}}, {"longs": [0]}, {"given": "read.count"}]
    sized = {"rpc": {"procedure": 6, "args": [{"opaque": {"text": "h"}}, {"longs": [0]}, {"words": [500]}]}}
    again = {"hear": {"message": {"parts": {"count": {"heard": "parts.count"}}}, "parts": read}}
    steps: list[Any] = [{"say": sized}, first, {"say": {"rpc": {"procedure": 6, "args": args}}}, again]
    assert held({"steps": steps}).failure is None
    wanted["status"] = "00000001"
    failure = held({"steps": steps}).failure
    assert failure is not None
    assert "parts.status is 00000000 instead of 00000001" in failure.found


@pytest.mark.thorough
def test_written_memory_is_compared() -> None:
    chunk = {"memory": {"sink": {"octets": 5000, "may": "write"}}}
    steps = [
        {"say": {"header": {"writes": [[{"memory": "sink"}]]}, **READ}},
        {"hear": {"message": {"header": {"writes": [[{"length": {"given": "size"}}]]}}}},
    ]
    data = {"memory": {"sink": {"written": 5000, "data": CONTENT.hex()}}}
    assert held({**chunk, "steps": [*steps, data]}).failure is None
    for wrong in ({"written": 4999}, {"data": "01"}):
        assert held({**chunk, "steps": [*steps, {"memory": {"sink": wrong}}]}).failure is not None


def write_call(octets: int, **chunk: Any) -> dict[str, Any]:
    """WRITE of so many octets in a Read chunk."""
    args = [{"opaque": {"text": "h"}}, {"longs": [0]}, {"words": [octets, 2, octets]}]
    return {"header": {"reads": [{"position": 68, **chunk}]}, "rpc": {"procedure": 7, "args": args}}


SERVED: dict[str, Any] = {"hear": {"message": {"rpc": {"accepted": 0}}}}


@pytest.mark.thorough
@each_case("size", [64, 5000])
def test_memory_is_read_by_the_server(size: int) -> None:
    files, memory = Files(), {"source": {"content": {"pattern": size}}}
    outcome = held({"memory": memory, "steps": [{"say": write_call(size, memory="source")}, SERVED]}, files)
    assert outcome.failure is None
    assert [len(data) for data in files.written] == [size]


@pytest.mark.thorough
def test_the_steps_answer_reads_that_the_peer_leaves_to_them() -> None:
    sink = {"handle": {"given": "read.sink"}, "offset": {"given": "read.sink_offset"}}
    files = Files()
    steps = [
        {"say": write_call(64, memory="source")},
        {"hear": {"read_request": {"length": 64, "handle": {"given": "source.handle"}}, "as": "read"}},
        {"say": {"payload": {"pattern": 64}, "ddp": {"opcode": "read_response", **sink}}},
        SERVED,
    ]
    assert held({"memory": {"source": {"octets": 64, "answered": False}}, "steps": steps}, files).failure is None
    assert [len(data) for data in files.written] == [64]


@pytest.mark.thorough
def test_an_answer_that_breaks_a_statement_is_told_with_it() -> None:
    failure = held({"steps": [NULL, {"hear": [{"end": {}}, {"message": {}, "breaks": "RD-15"}]}]}).failure
    assert failure is not None
    assert (failure.statement, failure.expected) == ("RD-15", "the end of the connection")


@pytest.mark.thorough
def test_reading_memory_that_is_not_registered_is_refused() -> None:
    call = write_call(64, handle=9, length=64)
    assert held({"steps": [{"say": call}, {"hear": {"refused": {}}}, {"hear": {"end": {}}}]}).failure is None


@pytest.mark.thorough
def test_memory_that_is_withdrawn_is_reached_no_more() -> None:
    read = {"header": {"writes": [[{"memory": "sink"}]]}, **READ}
    again = {**read, "header": {**read["header"], "xid": 8}}
    answered = {"hear": {"message": {"header": {"writes": [[{"length": 5000}]]}}}}
    withdrawn = {"memory": {"sink": {"written": 5000, "withdrawn": True}}}
    steps = [{"say": read}, answered, withdrawn, withdrawn, {"say": again}, {"hear": {"refused": {}}}]
    assert held({"memory": {"sink": {"octets": 5000, "may": "write"}}, "steps": steps}).failure is None


@pytest.mark.thorough
def test_version_2_is_spoken_field_by_field() -> None:
    steps = [
        {"say": {"header": {"type": 5, "properties": [[2, {"words": [4096]}]]}}},
        {"hear": {"message": {"header": {"type": 5}}}},
        NULL,
        ANSWERED,
    ]
    assert held({"version": "2", "steps": steps}).failure is None


class ScriptedLoop(VirtualLoop):
    """A loop whose process may be suspended, so that time passes without a turn."""

    suspended_s = 0.0

    def time(self) -> float:
        return super().time() + self.suspended_s


class OtherSide:
    """A peer of a conversation that has begun."""

    version = "1"
    started = True

    async def remind(self) -> None:
        pass


class SilentPeer(OtherSide):
    """Says nothing, ever."""

    async def next(self) -> Heard:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


class TellingPeer(SilentPeer):
    """Tells these events, and nothing more."""

    version = "2"

    def __init__(self, *events: Heard) -> None:
        self._events = [*events]

    async def next(self) -> Heard:
        if not self._events:
            return await super().next()
        return self._events.pop(0) if self._events[0].kind != "end" else self._events[0]


class SuspendedPeer(OtherSide):
    """A peer whose process is suspended for longer than a pause, and then hears a message."""

    async def next(self) -> Heard:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScriptedLoop)
        await asyncio.sleep(0)
        loop.suspended_s += 1.0
        for _ in range(5):
            await asyncio.sleep(0)
        return Heard("message", {"header": {"type": 0, "xid": 7, "version": 1}, "octets": 28})


def failed(peer: OtherSide, *steps: dict[str, Any]) -> tuple[Failure, float]:
    """How the steps leave the course, and after how many seconds."""

    async def main() -> tuple[Failure, float]:
        live = LiveConversation(cast("Any", peer), Names(), 5.0, Outcome(), initiates=False)
        assert not await live.run(steps)
        assert live.outcome.failure is not None
        return live.outcome.failure, asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=ScriptedLoop) as runner:
        begun_s = runner.get_loop().time()
        failure, ended_s = runner.run(main())
        return failure, ended_s - begun_s


def test_silence_is_told_after_the_time_to_wait() -> None:
    failure, waited_s = failed(SilentPeer(), {"hear": {"end": {}}})
    assert (failure.found, failure.silent, waited_s) == ("nothing for 5 s", True, 5.0)


@each_case("step", [{"quiet": {"milliseconds": 500}}, {"hear": [{"quiet": {"milliseconds": 500}}]}])
def test_a_pause_is_not_over_while_this_process_had_no_processor(step: dict[str, Any]) -> None:
    assert failed(SuspendedPeer(), step)[0].found == "RDMA_MSG, xid 0x00000007"


GRANT = Heard("message", {"header": {"type": 1, "xid": 0, "version": 2}, "octets": 36})
ENDED = Heard("end", {"how": "closed", "partial": b""})
PROPERTIES = Heard("message", {"header": {"type": 5, "xid": 7, "version": 2}, "octets": 36})
BROKEN = Heard("broken", {"cause": "the CRC of an FPDU is wrong", "statement": "MPA-24", "recommended": False})
PAUSE: dict[str, Any] = {"quiet": {"milliseconds": 500}}


def test_a_message_that_only_grants_credits_ends_no_pause() -> None:
    """It needs no credit, so that it may come at any time."""
    found = failed(TellingPeer(GRANT, ENDED), PAUSE, {"hear": {"message": {}}})[0].found
    assert found == "the connection is closed"
    for second, found in ((BROKEN, "the CRC of an FPDU is wrong"), (PROPERTIES, "RDMA2_CONNPROP, xid 0x00000007")):
        assert failed(TellingPeer(GRANT, second), PAUSE)[0].found == found


def test_a_mistake_in_a_frame_breaks_its_own_statement_in_a_pause_as_well() -> None:
    assert failed(TellingPeer(BROKEN), PAUSE)[0].statement == "MPA-24"
