"""Wireshark's dissector of InfiniBand and `rpcrdma explain` say the same of captures of RoCEv2 between Linux guests."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from rpcrdma.cli.main import main
from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, read_packets
from rpcrdma_lab.dissect.cm_messages import read_cm_message
from rpcrdma_lab.dissect.packets import RoceDatagram, transport_unit
from rpcrdma_lab.dissect.roce_packets import RocePacket, read_packet

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: make interop"),
]
CAPTURES = sorted((Path(__file__).parents[1] / "captures").glob("roce-*.pcap"))


def fields(capture: Path, *names: str) -> list[list[str]]:
    """The values of these fields in each packet; several of one packet are separated by a comma."""
    listed = [argument for name in names for argument in ("-e", name)]
    command = ["tshark", "-r", str(capture), "-T", "fields", "-E", "separator=/t", *listed]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def packets(capture: Path) -> list[RocePacket]:
    found = []
    with capture.open("rb") as file:
        for one in read_packets(file, file.read(MAGIC_OCTETS)):
            datagram = transport_unit(one.link_type, one.data)
            assert isinstance(datagram, RoceDatagram)
            packet = read_packet(datagram)
            assert packet is not None
            found.append(packet)
    return found


def number(packet: RocePacket, name: str) -> int | None:
    """The value of a field in any header."""
    return next((found for group in packet.fields() if (found := group.number(name)) is not None), None)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_the_headers_of_each_packet(capture: Path) -> None:
    names = {
        "OpCode": "infiniband.bth.opcode",
        "DestQP": "infiniband.bth.destqp",
        "PSN": "infiniband.bth.psn",
        "VA": "infiniband.reth.va",
        "DMALen": "infiniband.reth.dmalen",
        "Syndrome": "infiniband.aeth.syndrome",
    }
    table = fields(capture, *names.values(), "infiniband.reth.r_key", "infiniband.ieth")
    ours = packets(capture)
    assert len(table) == len(ours) > 40
    for row, packet in zip(table, ours, strict=True):
        assert not packet.damaged
        theirs = [int(value, 0) if value else None for value in row[: len(names)]]
        assert theirs == [number(packet, name) for name in names]
        # The key that a Send ends has no field of a number.
        key, ended = row[len(names) :]
        expected = int(key, 0) if key else int(ended.split(",")[0], 16) if ended else None
        assert expected == number(packet, "R_Key")


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_the_set_up_of_each_connection(capture: Path) -> None:
    names = ("localqpn", "startpsn", "pppmtu", "responderres", "initdepth", "serviceid.dport")
    ours = ("Local QPN", "Starting PSN", "Path Packet Payload MTU", "Responder Resources", "Initiator Depth")
    table = [row for row in fields(capture, *(f"infiniband.cm.req.{name}" for name in names)) if row[0]]
    requests = [said for one in packets(capture) if one.queue_pair == 1 and (said := read_cm_message(one)) is not None]
    requests = [said for said in requests if said.is_request]
    assert len(requests) == len(table) > 0
    for row, said in zip(table, requests, strict=True):
        expected = [*(said.number(name) for name in ours), said.number("ServiceID") & 0xFFFF]
        assert [int(value, 0) for value in row] == expected


@pytest.mark.parametrize("name", ["roce-linux-client", "roce-linux-server"])
def test_the_calls(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    capture = next(path for path in CAPTURES if path.stem == name)
    main(["explain", "--json", str(capture)])
    ours = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    table = fields(capture, "rpc.xid", "rpc.msgtyp", "rpc.program")
    # ERR_VERS of the server, which Linux has before the call in version 1, is no RPC.
    theirs = [int(xid, 0) for xid, kind, _ in table if kind == "0"]
    assert theirs == [call["xid"] for call in ours if call["xid"] is not None]
