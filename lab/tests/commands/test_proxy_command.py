"""`rpcrdma proxy`: messages that its rules select meet a fault, and all others go through unchanged."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from dissected_captures import GETATTR, READ, call, dissected, reply
from rpcrdma.cli.main import main
from rpcrdma.commands import ExitStatus
from rpcrdma.wire.checksum import crc32c
from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.commands.proxy.relay import DelayLine, _Halves
from rpcrdma_lab.commands.proxy.rules import Decision, RuledConnection, read_rules
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.simulation.worlds.faults import Side
from rpcrdma_lab.simulation.worlds.scenario import ScenarioError
from support.cases import each_case
from support.command_process import HANG_S, CommandProcess
from support.octets import words
from support.raw_capture import CLIENT, SERVER, HandMadeCapture
from support.raw_iwarp import fpdu, startup_frame, tagged, untagged
from support.simulated import run_in_virtual_time

if TYPE_CHECKING:
    from support.commands import Served, StartServer

SIDES = (Side.CLIENT, Side.SERVER)


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> list[Message]:
    """A GETATTR, and a READ into two segments; messages 1 and 2 are MPA's."""
    file = tmp_path_factory.mktemp("talk") / "talk.pcap"
    chunk = words(0, 1, 2, 0x55, 64, 0, 0x2000, 0x56, 64, 0, 0x3000, 0, 0)
    with HandMadeCapture(file) as made:
        made.send(CLIENT, call(7, GETATTR))
        made.send(SERVER, reply(7))
        made.send(CLIENT, call(8, READ, chunk))
        made.write(SERVER, 0x55, 0x2000, bytes(64))
        made.write(SERVER, 0x56, 0x3000, bytes(10))
        made.send(SERVER, reply(8))
    return dissected(file)


def met(talk: list[Message], rule: str, *, step_s: float = 0.0) -> list[int]:
    """The numbers of the messages that one rule selects."""
    rules, _ = read_rules(f"[[fault]]\n{rule}", "rules.toml", 0)
    ruled = RuledConnection(rules)
    found = []
    for message in talk:
        side = SIDES[message.source != talk[0].source]
        if ruled.decide(side, message, bytes(100), step_s * message.number).words:
            found.append(message.number)
    return found


def test_keys_select_messages(talk: list[Message]) -> None:
    selected = {
        "": [1, 2, 3, 4, 5, 6, 7, 8],
        'side = "server"': [2, 4, 6, 7, 8],
        'operation = "startup"': [1, 2],
        'operation = "send"': [3, 4, 5, 8],
        'operation = "send"\nnumber = 3': [5],
        'operation = "write"': [6, 7],
        'chunk = "Write chunk 1"\nsegment = 2': [7],
        'message = "reply"': [4, 8],
        'message = "call"\nside = "server"': [],
        'procedure = "read"': [5, 6, 7, 8],
        'procedure = "NFS_V3 GETATTR"': [3, 4],
        "call = 2": [5, 6, 7, 8],
        'call = 2\noperation = "write"\nsegment = 2': [7],
    }
    for keys, numbers in selected.items():
        assert met(talk, f'kind = "drop"\n{keys}') == numbers, keys


def test_times_and_counts_of_the_worlds_hold(talk: list[Message]) -> None:
    assert met(talk, 'kind = "delay"\ndelay_s = 1\nat_s = 0.3\nfor_s = 0.2', step_s=0.1) == [3, 4, 5]
    assert met(talk, 'kind = "cut"\nside = "server"\nafter_operations = 3') == [7, 8]
    assert met(talk, 'kind = "cut"\nside = "client"\nafter_octets = 300') == [5]


def test_ranges_are_drawn_by_the_seed() -> None:
    text = '[[fault]]\nkind = "cut"\nafter_octets = [1, 1000000]\n'
    drawn = [[rule.fault for rule in read_rules(text, "rules.toml", seed)[0]] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_faults_that_no_proxy_makes_are_left_out() -> None:
    text = '[[fault]]\nkind = "crash"\nfor_s = 1\n[[fault]]\nkind = "drop"\n'
    rules, left_out = read_rules(text, "rules.toml", 0)
    assert [rule.name for rule in rules] == ["fault[1]"]
    assert left_out == ["fault[0] (crash)"]


def test_the_scenarios_of_the_worlds_are_read() -> None:
    folder = Path(__file__).parents[2] / "src" / "rpcrdma_lab" / "simulation" / "worlds" / "scenarios"
    for path in folder.glob("*.toml"):
        rules, left_out = read_rules(path.read_text(), path.name, 0)
        assert rules
        assert left_out


@each_case(
    ("text", "message"),
    [
        ("", "fault: need tables of the form [[fault]]"),
        ("[[", "the file: need TOML"),
        ('[[fault]]\nkind = "melt"', "fault[0].kind: need one of delay, cut, drop, flip"),
        ('[[fault]]\nkind = "drop"\nmassage = "call"', "fault[0].massage: need one of"),
        ('[[fault]]\nkind = "drop"\ncall = -1', "fault[0].call: need a number from 1 on"),
        ('[[fault]]\nkind = "drop"\nnumber = 0', "fault[0].number: need a number from 1 on"),
        ('[[fault]]\nkind = "drop"\nbit = 1', "fault[0].bit: need one of"),
        ('[[fault]]\nkind = "drop"\nchunk = "write chunk 1"', "fault[0].chunk: need a name such as 'Write chunk 1'"),
        ('[[fault]]\nkind = "flip"\nbit = 8', "fault[0].bit: need a number from 0 to 7"),
        ('[[fault]]\nkind = "delay"', "fault[0].delay_s: need the seconds by which messages are late"),
        ('[[fault]]\nkind = "delay"\ndelay_s = 1\nsilent = true', "fault[0].silent: need one of"),
        ('[[fault]]\nkind = "drop"\ncall = "x"', "fault[0].call: need a whole number"),
        ('[[fault]]\nkind = "drop"\nchunk = 3', "fault[0].chunk: need text"),
        ('[[fault]]\nkind = "delay"\ndelay_s = -1', "fault[0].delay_s: need a number"),
    ],
)
def test_rules_that_are_none_are_refused_with_their_key(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read_rules(text, "rules.toml", 0)
    assert f"rules.toml: {message}" in str(refused.value)


def test_a_bit_is_flipped_in_the_digest_or_with_the_digest_made_right(talk: list[Message]) -> None:
    frame = fpdu(untagged(3, 0, 1, call(7, GETATTR)))
    (digest,), _ = read_rules('[[fault]]\nkind = "flip"\nbit = 3', "rules.toml", 0)
    changed = RuledConnection([digest]).decide(Side.CLIENT, talk[2], frame, 0.0).data
    assert changed[:-1] == frame[:-1]
    assert changed[-1] == frame[-1] ^ 8
    (repaired,), _ = read_rules('[[fault]]\nkind = "flip"\noctet = 20\nrepair = true', "rules.toml", 0)
    changed = RuledConnection([repaired]).decide(Side.CLIENT, talk[2], frame, 0.0).data
    assert changed[20] == frame[20] ^ 1
    assert crc32c(changed[:-4]) == int.from_bytes(changed[-4:], "little")
    second = fpdu(untagged(3, 0, 1, bytes(50), offset=64))
    (within,), _ = read_rules('[[fault]]\nkind = "flip"\noctet = -9\nrepair = true', "rules.toml", 0)
    changed = RuledConnection([within]).decide(Side.CLIENT, talk[2], frame + second, 0.0).data
    assert changed[: len(frame)] == frame
    assert changed[-9] == second[-9] ^ 1
    assert crc32c(changed[len(frame) : -4]) == int.from_bytes(changed[-4:], "little")


def test_a_flip_that_could_not_be_made_or_repaired_says_so(talk: list[Message]) -> None:
    frame = fpdu(untagged(3, 0, 1, call(7, GETATTR)))
    (beyond,), _ = read_rules('[[fault]]\nkind = "flip"\noctet = 5000', "rules.toml", 0)
    decision = RuledConnection([beyond]).decide(Side.CLIENT, talk[2], frame, 0.0)
    assert decision.data == frame
    assert decision.words == [f"flip (fault[0]: not made, the message has {len(frame)} octets)"]
    (repaired,), _ = read_rules('[[fault]]\nkind = "flip"\noctet = 20\nrepair = true', "rules.toml", 0)
    marked = bytes(4) + frame
    decision = RuledConnection([repaired]).decide(Side.CLIENT, talk[2], marked, 0.0)
    assert decision.data[20] == marked[20] ^ 1
    assert decision.words == ["flip (fault[0]: digest not repaired)"]


class Sink:
    """The writer of one end, with the times at which octets leave."""

    def __init__(self) -> None:
        self.transport = Mock()
        self.left: list[tuple[float, bytes]] = []

    def write(self, data: bytes) -> None:
        self.left.append((round(asyncio.get_running_loop().time(), 6), bytes(data)))

    async def drain(self) -> None:
        pass

    def write_eof(self) -> None:
        self.write(b"end")


def test_each_message_is_late_by_its_own_delay_and_none_overtakes() -> None:
    async def main() -> list[tuple[float, bytes]]:
        sink: Any = Sink()
        line = DelayLine(sink)
        start = asyncio.get_running_loop().time()
        for data, delay_s in ((b"1", 0.0), (b"2", 0.02), (b"3", 0.02), (b"4", 0.0)):
            await line.send(Decision(bytearray(data), delay_s))
        await line.send(Decision(bytearray(b"5")), last=True)
        await line.deliver()
        return [(round(at - start, 6), data) for at, data in sink.left]

    left = run_in_virtual_time(main())
    assert left == [(0.0, b"1"), *((0.02, data) for data in (b"2", b"3", b"4", b"5", b"end"))]


def test_messages_that_wait_for_their_delay_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_limits, "PROXY_DELAYED_OCTETS_MAX", 10)

    async def main() -> list[float]:
        sink: Any = Sink()
        line = DelayLine(sink)
        loop = asyncio.get_running_loop()
        start = loop.time()
        taken = []

        async def take() -> None:
            for last in (False, False, True):
                await line.send(Decision(bytearray(6), 1.0), last=last)
                taken.append(round(loop.time() - start, 6))

        async with asyncio.TaskGroup() as group:
            group.create_task(take())
            group.create_task(line.deliver())
        return taken

    # The second message leaves at 1 s with the first one; only then the third is taken.
    assert run_in_virtual_time(main()) == [0.0, 1.0, 1.0]


@each_case(("cut", "last"), [(True, False), (False, True)])
async def test_a_cut_and_an_end_wait_for_the_octets_before_them(*, cut: bool, last: bool) -> None:
    """The receiver is slow: its system takes a part of the octets only."""
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    far.setblocking(False)
    _, sink = await asyncio.open_connection(sock=near)
    line = DelayLine(sink)
    await line.send(Decision(bytearray(50_000), cut=cut), last=last)
    delivering = asyncio.ensure_future(line.deliver())
    while not delivering.done():
        await asyncio.get_running_loop().sock_recv(far, 1024)
    assert (delivering.exception() is not None) == cut
    assert sink.transport.get_write_buffer_size() == 0
    sink.transport.abort()
    far.close()


def test_only_whole_messages_are_dropped_or_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a longer one has left before its rules are known."""
    monkeypatch.setattr(lab_limits, "PROXY_HELD_OCTETS_MAX", 100)
    kinds = ('"drop"', '"flip"', '"delay"\ndelay_s = 1', '"cut"\nafter_octets = 280')
    text = "".join(f'[[fault]]\noperation = "write"\nkind = {kind}\n' for kind in kinds)
    halves = _Halves(RuledConnection(read_rules(text, "rules.toml", 0)[0]), Settings())
    start, end, short = (
        fpdu(tagged(0, 7, offset, bytes(octets), last=last))
        for offset, octets, last in ((0, 200, False), (200, 50, True), (0, 50, True))
    )
    (none, first), (_, second) = [*halves.taken(0, start), *halves.taken(0, end)]
    assert (none, first) == (None, Decision(bytearray(start)))
    assert (second.data, second.delay_s, second.cut) == (end, 1, True)
    told = f"not made, the first {len(start)} octets were forwarded before"
    assert second.words[:2] == [f"drop (fault[0]: {told})", f"flip (fault[1]: {told})"]
    ((_, third),) = halves.taken(0, short)
    assert third.data == b""


def test_octets_behind_a_start_up_frame_of_another_revision_are_forwarded() -> None:
    halves = _Halves(RuledConnection([]), Settings())
    frame, rest = startup_frame("Req", 0x40, 9), fpdu(untagged(3, 0, 1))[:9]
    assert [bytes(decision.data) for _, decision in halves.taken(0, frame + rest)] == [frame, rest]


@pytest.fixture(scope="module")
def peer(start: StartServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("root")
    (root / "file").write_bytes(bytes(range(250)) * 400)
    with start(root, tmp_path_factory.mktemp("state")) as served:
        yield served


Proxied = Callable[[str], Any]


@pytest.fixture
def proxied(peer: Served, tmp_path: Path) -> Proxied:
    """With rules, or without: (URL of the proxy, list of its events, filled when it has ended)."""

    @contextmanager
    def run(rules: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        file = tmp_path / "rules.toml"
        file.write_text(rules)
        command = ["proxy", "--json", "--listen", "rdma://127.0.0.1:0", "--to", peer.urls["rdma"]]
        command += ["--rules", str(file)] if rules else []
        events: list[dict[str, Any]] = []
        with CommandProcess(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            yield f"{url}+{peer.urls['tcp'].rpartition(':')[2]}", events
            status, told, _ = process.ended(signal.SIGTERM)
        events += map(json.loads, told.splitlines())
        assert status == 0

    return run


@pytest.mark.thorough
def test_a_file_is_copied_through_delays_and_a_cut(proxied: Proxied, peer: Served, tmp_path: Path) -> None:
    rules = """
        [[fault]]
        kind = "delay"
        message = "reply"
        delay_s = 0.005
        [[fault]]
        kind = "cut"
        procedure = "READ"
        message = "call"
        connection = 1
    """
    with proxied(rules) as (url, events):
        assert main(["get", f"{url}/file", str(tmp_path / "copy")]) == 0
    assert (tmp_path / "copy").read_bytes() == (peer.root / "file").read_bytes()
    told = [word for event in events for word in event["faults"]]
    assert "delay (fault[0])" in told
    assert "cut (fault[1])" in told
    assert max(event["connection"] for event in events) > 1, "the client has connected again"


@pytest.mark.thorough
def test_a_dropped_write_is_noticed_as_missing_data(proxied: Proxied, peer: Served, tmp_path: Path) -> None:
    with proxied('[[fault]]\nkind = "drop"\noperation = "write"\nprocedure = "READ"\n') as (url, events):
        assert main(["get", f"{url}/file", str(tmp_path / "copy")]) == 0
    dropped = [event for event in events if event["event"] == "fault"]
    assert dropped
    assert {event["summary"].partition(",")[0] for event in dropped} == {"RDMA Write"}
    assert (tmp_path / "copy").read_bytes() != (peer.root / "file").read_bytes(), "nothing below the file can notice it"


@pytest.mark.thorough
def test_a_wrong_digest_ends_the_connection(proxied: Proxied, capsys) -> None:
    rules = '[[fault]]\nkind = "flip"\nside = "server"\noperation = "send"\n'
    with proxied(rules) as (url, events):
        assert main(["ping", "-c", "1", "--timeout", "60", url.partition("+")[0]]) != 0
    assert events[0]["faults"] == ["flip (fault[0])"]
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.thorough
def test_without_a_match_nothing_changes(proxied: Proxied, peer: Served, tmp_path: Path) -> None:
    for name, rules in (("one", '[[fault]]\nkind = "drop"\nprocedure = "REMOVE"\n'), ("none", "")):
        with proxied(rules) as (url, events):
            assert main(["get", f"{url}/file", str(tmp_path / name)]) == 0
        assert events == []
        assert (tmp_path / name).read_bytes() == (peer.root / "file").read_bytes()


def test_both_urls_are_of_rdma(tmp_path: Path, capsys) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('[[fault]]\nkind = "drop"\n')
    command = ["proxy", "--listen", "tcp://127.0.0.1:0", "--to", "rdma://127.0.0.1:1", "--rules", str(file)]
    assert main(command) == 2
    assert "is not rdma://" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_port_in_use_or_what_is_no_host_name_is_told_with_advice(capsys) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        url = f"rdma://127.0.0.1:{sock.getsockname()[1]}"
        assert main(["proxy", "--listen", url, "--to", "rdma://127.0.0.1:1"]) == 1
    complaint, advice = capsys.readouterr().err.splitlines()
    assert complaint == f"error: cannot listen at {url}: address already in use by this process"
    assert advice.startswith("hint: listen there once, or choose another port")
    assert main(["proxy", "--listen", "rdma://my..host", "--to", "rdma://127.0.0.1:1"]) == 1
    assert "not a host name\nhint: choose" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_signal_ends_the_proxy_in_words_beside_an_open_connection(peer: Served, tmp_path: Path) -> None:
    """Its connections end, and rules that no message has met are named."""
    file = tmp_path / "rules.toml"
    file.write_text('[[fault]]\nkind = "drop"\nprocedure = "RAED"\n')
    command = ["proxy", "--listen", "rdma://127.0.0.1:0", "--to", peer.urls["rdma"], "--rules", str(file)]
    with CommandProcess(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[2].rstrip(",").removeprefix("rdma://").split(":")
        with socket.create_connection((address[0], int(address[1]))) as client:
            client.settimeout(HANG_S)
            client.sendall(b"MPA ID Req Frame" + bytes([0x40, 1, 0, 0]))
            assert client.recv(16) == b"MPA ID Rep Frame"
            process.send_signal(signal.SIGTERM)
            complaints = process.stderr.read()
            assert process.wait(HANG_S) == 0
    assert complaints == "warning: no message met fault[0] (drop)\n"


@pytest.mark.thorough
@pytest.mark.parametrize(("host", "cause"), [("127.0.0.1", "connection refused"), ("my..host", "not a host name")])
def test_a_server_that_cannot_be_reached_is_told(host: str, cause: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        server = f"rdma://{host}:{nobody.getsockname()[1]}"
        command = ["proxy", "--json", "--listen", "rdma://127.0.0.1:0", "--to", server]
        with CommandProcess(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            host, port = url.removeprefix("rdma://").split(":")
            with socket.create_connection((host, int(port))):
                event = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            assert process.wait(HANG_S) == 0
    assert event == {"event": "unreachable", "connection": 1, "url": server, "cause": cause}


@pytest.mark.thorough
def test_the_proxy_ends_when_the_reader_of_its_events_has_gone() -> None:
    command = ["proxy", "--json", "--listen", "rdma://127.0.0.1:0", "--to", "rdma://127.0.0.1:1"]
    with CommandProcess(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        host, port = json.loads(process.stdout.readline())["url"].removeprefix("rdma://").split(":")
        process.stdout.close()
        with socket.create_connection((host, int(port))):
            assert process.wait(HANG_S) == ExitStatus.READER_GONE
