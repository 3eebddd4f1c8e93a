"""Clients before the scripted server: ours conforms, and each check catches a broken one."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import itertools
from collections.abc import Sequence
from pathlib import Path

import local_streams
import pytest
from broken_clients import (
    ALL_CAUGHT,
    HEARD,
    NO_CREDITS,
    NULL,
    OTHER,
    READ,
    READ_TO_SINK,
    REPLIED,
    SINK,
    SOURCE,
    UNTIL_THE_END,
    WITH_CHUNKS,
    BrokenClient,
    Connecting,
    Files,
    Message,
    ScriptedClient,
    before,
    held,
    ids_of,
    read_of,
)

from dissected_captures import dissected
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.aio.drivers.provider import Provider
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import Url, parse_url
from rpcrdma.errors import RpcRdmaError
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import Service
from rpcrdma_lab.check import CLIENT_CATALOGUE, Check, ClientTrial, Result, TrialOptions, Verdict, listening
from rpcrdma_lab.check.catalogue.version_2 import CONNPROP
from rpcrdma_lab.check.verdicts import FRAMES_NOT_SEEN
from rpcrdma_lab.scripted import RawTarget, ServingConversation, open_conversation, run_conversation
from support import raw_calls
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.raw_iwarp import startup_frame
from support.waiting import until

TRIALS = 6
"""Scripted servers of one run."""


def judged(
    versions: str,
    checks: Sequence[Check],
    services: Sequence[Service] = (),
    *,
    provider: Provider | None = None,
    extension: str = "auto",
) -> list[Result]:
    """The verdicts on our client, which answers reverse calls by its `services`."""

    async def calls(url: str) -> None:
        options = ConnectOptions(
            rpcrdma_version=versions,
            reconnect=False,
            call_timeout_s=60,
            services=services,
            provider=provider or "iwarp",
            extension=extension,
        )
        async with connect(url, v3.PROGRAM, options=options) as connection:
            for _ in range(2):
                together = (connection.call(v3.NULL, None) for _ in range(6))
                await asyncio.gather(*together, return_exceptions=True)
                for procedure, args in WITH_CHUNKS:
                    with contextlib.suppress(RpcRdmaError):
                        await connection.call(procedure, args)

    async def tried(part: Sequence[Check], behind: Url) -> list[Result]:
        address = (behind.host, behind.port)
        trial_options = TrialOptions(timeout_s=60.0, behind=address, risky=True, provider=provider)
        trial = ClientTrial(part, trial_options)
        async with listening(trial, "127.0.0.1", 0) as (host, port):
            while not trial.done.is_set():
                with contextlib.suppress(RpcRdmaError):
                    await calls(f"rdma://{host}:{port}")
        return trial.results()

    async def main() -> list[Result]:
        async with serve([Files()], ["tcp://127.0.0.1:0"]) as server:
            behind = parse_url(server.listening[0])
            # Trials at the same time share their pauses.
            parts = [checks[index::TRIALS] for index in range(TRIALS)]
            found = await asyncio.gather(*(tried(part, behind) for part in parts if part))
        return list(itertools.chain(*found))

    return local_streams.run(main())


def needs_services(check: Check) -> bool:
    """Whether a check judges clients that take reverse calls."""
    if check.id == "client.reverse.as-many-as-granted":
        return True
    return fnmatch.fnmatchcase(check.id, "client.v2*.reverse.*") and not check.id.endswith(".without-support")


def judged_as_needed(versions: str, checks: Sequence[Check], provider: Provider | None = None) -> list[Result]:
    """The verdicts on our client, with services or the round-trip extension for the checks that need them."""
    extended = [each for each in checks if ".rtr." in each.id]
    of_services = [each for each in checks if needs_services(each)]
    others = [each for each in checks if each not in extended and each not in of_services]
    return [
        *judged(versions, others, provider=provider),
        *judged(versions, of_services, [Files()], provider=provider),
        *judged(versions, extended, provider=provider, extension="rtr"),
    ]


@pytest.mark.thorough
def test_our_client_conforms() -> None:
    again = [each for each in CLIENT_CATALOGUE if each.id.startswith("client.reverse.")]
    results = [*judged_as_needed("auto", CLIENT_CATALOGUE), *judged("auto", again, [Files()])]
    wrong = [result for result in results if result.verdict is not Verdict.CONFORMS]
    assert [(result.check.id, result.verdict.value, result.cause) for result in wrong] == []


@pytest.mark.thorough
def test_over_a_device_checks_above_frames_conform_and_others_are_not_seen() -> None:
    results = judged_as_needed("auto", CLIENT_CATALOGUE, VerbsProvider(DeviceInMemory()))
    found = {result.check.id: (result.verdict, result.cause) for result in results}
    right, not_seen = (Verdict.CONFORMS, ""), (Verdict.NOT_SEEN, FRAMES_NOT_SEEN)
    assert found == {check.id: not_seen if check.of_frames else right for check in CLIENT_CATALOGUE}


@pytest.mark.thorough
def test_a_check_that_refers_to_a_field_that_the_client_has_not_sent_ends_alone() -> None:
    empty: Message = {"header": {"reply": []}, "rpc": {}}
    calls, longer = before(BrokenClient(empty), "client.calls client.reply-chunk.longer")
    assert (calls.verdict, longer.verdict) == (Verdict.CONFORMS, Verdict.INCONCLUSIVE)
    assert "expected a number in 'header.reply.0.handle', found null" in longer.cause
    assert longer.passages


@pytest.mark.thorough
def test_a_program_behind_that_ends_its_connections_is_no_matter_of_the_client() -> None:
    async def program(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def main() -> list[Result]:
        behind = (await asyncio.start_server(program, "127.0.0.1", 0)).sockets[0].getsockname()
        checks = [each for each in CLIENT_CATALOGUE if each.id == "client.one-credit.read"]
        trial = ClientTrial(checks, TrialOptions(timeout_s=60.0, behind=behind))
        async with listening(trial, "127.0.0.1", 0) as (host, port):
            while not trial.done.is_set():
                await BrokenClient(NULL).connect(host, port)
        return trial.results()

    (result,) = local_streams.run(main())
    assert result.verdict is Verdict.NOT_SEEN
    assert result.cause.startswith("the program behind gives no answer (")


def test_each_check_has_a_broken_client() -> None:
    assert {each.id for each in CLIENT_CATALOGUE} == set[str]().union(*(ids_of(each[2]) for each in ALL_CAUGHT))


@pytest.mark.thorough
@each_case(("client", "patterns"), [row[1:] for row in ALL_CAUGHT])
def test_a_broken_client_is_caught(client: Connecting, patterns: str) -> None:
    missed = [each for each in before(client, patterns) if each.verdict not in {Verdict.VIOLATES, Verdict.IGNORES}]
    assert [(each.check.id, each.verdict.value, each.cause) for each in missed] == []


@pytest.mark.thorough
@each_case(
    ("client", "patterns", "cause"),
    [
        (
            BrokenClient({"header": {"type": 5, "properties": [[5, {"words": [1]}]]}}, NULL, version="2"),
            "client.v2.reverse.without-support",
            "the client takes reverse calls",
        ),
        (BrokenClient(NULL), "client.one-call-* client.one-credit", "the client made no 2 calls at once"),
        (BrokenClient(READ, then=(NULL,)), "client.one-credit.read", "the client made no 2 calls at once"),
        *(
            (BrokenClient(READ, private=private), "client.invalidate.own*", "the client offers no remote invalidation")
            for private in ("f6ab0e1801000303", "f6ab0e1802010303", "")
        ),
    ],
)
def test_a_client_without_the_condition_of_a_check_is_not_judged(client: Connecting, patterns: str, cause: str) -> None:
    """The check is tried on further connections before."""
    results = before(client, patterns)
    assert {(each.verdict, each.cause) for each in results} == {(Verdict.NOT_SEEN, f"{cause} on 3 connections")}


@pytest.mark.thorough
def test_a_client_that_makes_no_call_after_a_reverse_call_does_not_conform() -> None:
    """Its own call is answered once."""
    tells: Message = {"say": {"header": {"type": CONNPROP, "properties": [[5, {"words": [1]}]]}}}
    told: Message = {"hear": {"message": {"header": {"type": CONNPROP}}}}
    client = ScriptedClient(tells, told, {"say": NULL}, HEARD, REPLIED, UNTIL_THE_END, version="2")
    (result,) = before(client, "client.v2.reverse.undirected")
    assert (result.verdict, client.failures) == (Verdict.INCONCLUSIVE, [None])


@pytest.mark.thorough
def test_a_call_without_room_for_its_reply_breaks_the_statement_of_that() -> None:
    for name in ("client.calls", "client.reply.msgp"):
        (result,) = before(BrokenClient(read_of(9001)), name)
        assert (result.verdict, result.statements) == (Verdict.VIOLATES, ("V1-51",)), result.cause


@pytest.mark.thorough
def test_silence_after_a_wrong_start_up_is_no_lack_of_calls() -> None:
    (result,) = before(ScriptedClient(UNTIL_THE_END, startup={"flags": 0x10}), "client.startup.request-key")
    assert (result.verdict, result.cause.partition("found ")[2]) == (Verdict.INCONCLUSIVE, "nothing for 60 s")


@pytest.mark.thorough
def test_a_long_call_whose_chunk_has_no_call_is_caught() -> None:
    long: Message = {"header": {"type": 1, "reads": [{"position": 0, "memory": "source", "length": 4}]}}
    assert held("client.long-call", {"say": long}, UNTIL_THE_END, memory=SOURCE)[1] is Verdict.VIOLATES


@pytest.mark.thorough
def test_a_fault_of_the_checker_ends_its_check_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        raise KeyError("a field")

    monkeypatch.setattr(ServingConversation, "_be_quiet", fails)
    one_credit, calls = before(BrokenClient(NULL), "client.calls client.one-credit")[::-1]
    assert (one_credit.verdict, one_credit.cause) == (
        Verdict.INCONCLUSIVE,
        "the check itself failed: KeyError('a field')",
    )
    assert calls.verdict is Verdict.CONFORMS


@pytest.mark.thorough
def test_a_client_that_demands_markers_gets_them() -> None:
    steps = ({"say": NULL}, REPLIED, OTHER, REPLIED)
    assert held("client.calls", *steps, startup={"flags": 0xD0}) == (None, Verdict.CONFORMS)


@pytest.mark.thorough
def test_a_client_may_take_as_many_reads_as_a_reply_asks_for() -> None:
    write: Message = {"header": {"xid": 1, "reads": [{"position": 44, "memory": "source"}]}, "rpc": {"procedure": 7}}
    steps = ({"say": NULL}, REPLIED, {"say": write}, UNTIL_THE_END)
    assert held("client.startup.depth", *steps, memory=SOURCE) == (None, Verdict.CONFORMS)


@pytest.mark.thorough
def test_a_broken_client_is_caught_over_a_device() -> None:
    _, verdict = held("client.calls", {"say": NO_CREDITS}, provider=VerbsProvider(DeviceInMemory()))
    assert verdict is Verdict.VIOLATES


@pytest.mark.thorough
def test_over_a_device_memory_of_the_client_is_written_and_invalidated() -> None:
    steps: tuple[Message, ...] = (
        {"say": READ_TO_SINK},
        {"hear": {"message": {"invalidates": {"given": "sink.handle"}}}},
        {"memory": {"sink": {"data": {"zeros": 64}}}},
        OTHER,
    )
    provider = VerbsProvider(DeviceInMemory())
    assert held("client.invalidate.own-handle", *steps, memory=SINK, provider=provider) == (None, Verdict.CONFORMS)


def test_a_trial_without_a_check_that_can_be_met_is_over() -> None:
    checks = [check for check in CLIENT_CATALOGUE if "program" in check.needs]
    assert ClientTrial(checks, TrialOptions(timeout_s=60.0)).done.is_set()


@pytest.mark.thorough
def test_other_connections_do_not_end_the_check_of_one(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[Verdict]:
        checks = [each for each in CLIENT_CATALOGUE if each.id in {"client.calls", "client.startup.rejected"}]
        told: list[Result] = []
        trial = ClientTrial(checks, TrialOptions(timeout_s=60.0), told.append)
        async with listening(trial, "127.0.0.1", 0) as (host, port):
            calling = await open_conversation({"steps": []}, RawTarget(host=host, port=port))
            assert await calling.run([{"say": NULL}, REPLIED])
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(startup_frame("Req", 0x50, 2, bytes.fromhex("00100010") + raw_calls.BOTH_PRIVATE))
            await reader.readexactly(20)
            for _ in range(4):
                await run_conversation(
                    {"steps": [{"say": NULL}, {"hear": {"end": {}}}]}, RawTarget(host=host, port=port)
                )
            (await asyncio.open_connection(host, port))[1].close()
            await until(lambda: "its start-up failed: the connection is closed" in caplog.text)
            assert not trial.done.is_set()
            writer.transport.abort()
            await until(lambda: told)
            assert not trial.done.is_set()
            assert await calling.run([OTHER, REPLIED])
            await trial.done.wait()
            await calling.close()
        return [each.verdict for each in trial.results()]

    assert local_streams.run(main()) == [Verdict.CONFORMS] * 2


@pytest.mark.thorough
def test_connections_of_another_version_end_no_trial_that_goes_on() -> None:
    ids = {"client.v2.reply.other-version", "client.v2.reply.other-xid"}
    new = BrokenClient({"header": {"type": CONNPROP}}, then=(NULL,), version="2")

    async def main() -> list[Result]:
        checks = [each for each in CLIENT_CATALOGUE if each.id in ids]
        trial = ClientTrial(checks, TrialOptions(timeout_s=60.0))
        async with listening(trial, "127.0.0.1", 0) as (host, port):
            for client in (BrokenClient(NULL), BrokenClient(NULL), new, BrokenClient(NULL), new):
                assert not trial.done.is_set()
                await client.connect(host, port)
        return trial.results()

    assert {result.verdict for result in local_streams.run(main())} == {Verdict.VIOLATES}


@pytest.mark.thorough
async def test_a_capture_tells_the_mistakes_of_the_check_from_those_of_the_client(tmp_path: Path) -> None:
    file = tmp_path / "trial.pcap"
    capture = PacketCapture(file)
    checks = [each for each in CLIENT_CATALOGUE if each.id == "client.reply.unknown-type"]
    trial = ClientTrial(checks, TrialOptions(timeout_s=60.0, capture=capture))
    async with listening(trial, "127.0.0.1", 0) as (host, port):
        await BrokenClient(NULL).connect(host, port)
        await trial.done.wait()
    capture.close()
    messages = dissected(file)
    server = f"{host}:{port}"
    assert {message.source == server for message in messages} == {True, False}
    assert all(("deliberate" in message.facts) == (message.source == server) for message in messages)


def test_a_client_that_stays_away_is_not_judged() -> None:
    trial = ClientTrial(CLIENT_CATALOGUE, TrialOptions(timeout_s=60.0))
    assert {result.verdict for result in trial.results()} == {Verdict.NOT_SEEN}
