"""Captures: the packets that an analyser finds in the file."""

from __future__ import annotations

import asyncio
import os
import random
import struct
from pathlib import Path

import pytest

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.aio.server.serve import serve
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext

_REQUEST = b"MPA ID Req Frame" + bytes([0x40, 1, 0, 3]) + b"abc"
_REPLY = b"MPA ID Rep Frame" + bytes([0x40, 1, 0, 0])


def fpdu(payload: bytes) -> bytes:
    """An FPDU with a CRC field that is not checked here."""
    return len(payload).to_bytes(2, "big") + payload + bytes(-(2 + len(payload)) % 4) + b"CRC!"


def packets(path: Path) -> list[bytes]:
    """The IP packets of a capture file."""
    data = path.read_bytes()
    magic, _, _, _, _, _, link_type = struct.unpack_from("<IHHiIII", data)
    assert (magic, link_type) == (0xA1B23C4D, 101)
    found = []
    at = 24
    while at < len(data):
        _, _, length, original = struct.unpack_from("<IIII", data, at)
        assert length == original
        found.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return found


def segment(packet: bytes) -> tuple[int, int, int, int, int, bytes]:
    """(source port, destination port, sequence, acknowledged, flags, payload) of an IPv4 packet."""
    assert packet[0] == 0x45
    assert int.from_bytes(packet[2:4], "big") == len(packet)
    ones = sum(struct.unpack(">10H", packet[:20]))
    assert (ones & 0xFFFF) + (ones >> 16) == 0xFFFF, "the IP header's checksum"
    source, destination, sequence, acknowledged, _, flags = struct.unpack_from(">HHIIBB", packet, 20)
    return source, destination, sequence, acknowledged, flags, packet[40:]


def test_each_start_up_frame_and_each_fpdu_is_one_segment_however_the_octets_came(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    capture = PacketCapture(path)
    stream = capture.stream(("192.0.2.1", 1000), ("192.0.2.2", 20049), active=True)
    for octet in _REQUEST:
        stream.sent([bytes([octet])], 1)
    stream.received([bytearray(_REPLY + bytes(50))], len(_REPLY))
    stream.sent([fpdu(b"first"), memoryview(fpdu(b"second")), b"not sent"], len(fpdu(b"first") + fpdu(b"second")))
    whole = fpdu(b"x" * 1000)
    stream.received([whole[:7], whole[7:]], len(whole))
    stream.close()
    capture.close()
    segments = [segment(packet) for packet in packets(path)]
    assert [flags for *_, flags, _ in segments[:3]] == [2, 18, 16]
    assert [(source, data) for source, _, _, _, _, data in segments if data] == [
        (1000, _REQUEST),
        (20049, _REPLY),
        (1000, fpdu(b"first")),
        (1000, fpdu(b"second")),
        (20049, whole),
    ]
    assert [flags for *_, flags, _ in segments[-2:]] == [17, 17]


def test_sequence_numbers_have_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    capture = PacketCapture(path)
    stream = capture.stream(("192.0.2.1", 1000), ("192.0.2.2", 20049), active=False)
    stream.received([_REQUEST], len(_REQUEST))
    stream.sent([_REPLY], len(_REPLY))
    stream.received([fpdu(b"a")], len(fpdu(b"a")))
    stream.close()
    capture.close()
    following = {1000: 0, 20049: 0}
    for source, _, sequence, _, flags, data in map(segment, packets(path)):
        assert sequence == following[source]
        following[source] += len(data) + bool(flags & 3)


def test_the_longest_fpdu_that_has_arrived_in_part_is_recorded_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    capture = PacketCapture(path)
    stream = capture.stream(("192.0.2.1", 1000), ("192.0.2.2", 20049), active=False)
    stream.received([_REQUEST], len(_REQUEST))
    whole = fpdu(bytes(0xFFFF))
    stream._sent.sequence = 0xFFFFFFFF
    stream.received([whole], len(whole) - 1)
    stream.close()
    capture.close()
    segments = [segment(packet) for packet in packets(path)]
    assert b"".join(data for *_, data in segments) == _REQUEST + whole[:-1]
    assert [acknowledged for source, _, _, acknowledged, *_ in segments if source == 20049][-1] == 0


def test_an_octet_stream_over_ipv6_is_recorded_too(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    capture = PacketCapture(path)
    capture.stream(("2001:db8::1", 1), ("2001:db8::2", 2), active=True).close()
    capture.close()
    for packet in packets(path):
        assert packet[0] >> 4 == 6
        assert int.from_bytes(packet[4:6], "big") == len(packet) - 40


def test_a_closed_capture_drops_what_comes_later(tmp_path: Path) -> None:
    capture = PacketCapture(tmp_path / "x.pcap")
    stream = capture.stream(("192.0.2.1", 1), ("192.0.2.2", 2), active=True)
    capture.close()
    size = (tmp_path / "x.pcap").stat().st_size
    stream.sent([_REQUEST], len(_REQUEST))
    assert (tmp_path / "x.pcap").stat().st_size == size


def test_a_file_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PacketCapture(tmp_path / "no" / "x.pcap")


def test_a_capture_that_cannot_be_written_ends_early_and_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    for octets in (10, 1 << 16):
        capture = PacketCapture("/dev/full")
        stream = capture.stream(("192.0.2.1", 1), ("192.0.2.2", 2), active=True)
        stream.sent([bytes(octets)], octets)
        stream.sent([bytes(octets)], octets)
        stream.close()
        capture.close()
        assert caplog.messages == ["/dev/full ends early: No space left on device"]
        caplog.clear()


def test_a_pipe_whose_reader_stops_reading_ends_the_capture_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpcrdma.aio.drivers.capture._READER_MS", 0)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    capture = PacketCapture(tmp_path / "pipe")
    stream = capture.stream(("192.0.2.1", 1), ("192.0.2.2", 2), active=True)
    stream.sent([_REQUEST], len(_REQUEST))
    for _ in range(20):
        stream.sent([fpdu(bytes(60_000))], len(fpdu(bytes(60_000))))
    stream.close()
    capture.close()
    assert caplog.messages == [f"{tmp_path}/pipe ends early: its reader takes no more"]
    assert os.read(reader, 1 << 20).startswith(struct.pack("<I", 0xA1B23C4D))
    os.close(reader)


class OneFile(v3.NFS_V3_Service):
    """READ gives this data."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        resok = v3.READ3resok(v3.post_op_attr(False, None), args.count, True, self.data[: args.count])
        return v3.READ3res(v3.nfsstat3.NFS3_OK, resok)


@pytest.mark.thorough
def test_bulk_that_is_received_many_frames_at_a_time_is_recorded_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    data = random.Random(1).randbytes(1 << 20)

    async def main() -> None:
        options = ConnectOptions(capture=capture)
        async with (
            serve([OneFile(data)], ["rdma://127.0.0.1:0"]) as server,
            connect(server.listening[0], v3.PROGRAM, options=options) as client,
        ):
            memory = bytearray(len(data))
            await client.call(v3.READ, v3.READ3args(v3.nfs_fh3(b"file"), 0, len(data)), into=memory)
            assert memory == data

    capture = PacketCapture(path)
    asyncio.run(main())
    capture.close()
    server_port = next(segment(packet)[1] for packet in packets(path))
    stream = b"".join(part for source, *_, part in map(segment, packets(path)) if source == server_port)
    # The payloads of the FPDUs that carry the file, without their frames.
    carried = b""
    position = 20 + int.from_bytes(stream[18:20])
    while position < len(stream):
        length = int.from_bytes(stream[position : position + 2])
        if stream[position + 2] & 0x80:
            carried += stream[position + 16 : position + 2 + length]
        position += (length + 5 & ~3) + 4
    assert carried == data
