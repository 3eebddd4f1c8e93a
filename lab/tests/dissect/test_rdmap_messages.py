"""DDP segments: the messages that they form, and each rule that one can break."""

from __future__ import annotations

import pytest

from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.mpa_stream import Fpdu, MpaHalf, MpaTerms
from rpcrdma_lab.dissect.rdmap_messages import RdmapHalf, RdmapMessage
from support.cases import each_case
from support.raw_iwarp import fpdu, read_request, tagged, terminate, untagged


def messages(*segments: bytes, half: RdmapHalf | None = None) -> list[RdmapMessage]:
    stream = MpaHalf(MpaTerms())
    stream.expect_fpdus_unless_startup(b"")
    half = half or RdmapHalf()
    units = list(stream.feed(b"".join(map(fpdu, segments))))
    assert len(units) == len(segments)
    return [found for unit in units if isinstance(unit, Fpdu) and (found := half.add(unit)) is not None]


def faults(*segments: bytes) -> list[tuple[str, str]]:
    return [(fault.field, fault.section) for one in messages(*segments) for fault in one.faults]


def test_a_send_of_several_segments_is_joined() -> None:
    (message,) = messages(
        untagged(3, 0, 1, b"abc", last=False),
        untagged(3, 0, 1, b"defg", offset=3, last=False),
        untagged(3, 0, 1, b"", offset=7),
    )
    assert (message.name, bytes(message.data), message.octets, message.segments) == ("Send", b"abcdefg", 7, 3)
    assert message.faults == []
    assert message.invalidated is None


def test_a_send_with_invalidate_names_its_handle() -> None:
    (message,) = messages(untagged(4, 0, 1, b"x", invalidate=0x12345678))
    assert message.invalidated == 0x12345678
    assert message.is_send


def test_tagged_segments_are_joined_and_their_beginning_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_limits, "DISSECTED_MESSAGE_OCTETS_MAX", 1024)
    first, second = messages(
        tagged(0, 7, 1000, bytes(1000), last=False), tagged(0, 7, 2000, bytes(1000)), tagged(2, 8, 0, b"")
    )
    assert (first.handle, first.offset, first.octets, len(first.data)) == (7, 1000, 2000, 1024)
    assert (second.name, second.octets) == ("RDMA Read Response", 0)
    assert first.faults == second.faults == []


def test_a_read_request_shows_its_header() -> None:
    (message,) = messages(read_request(1, 0x11, 0x1000, 4096, 0x22, 0x2000))
    numbers = [field.value for field in message.groups[1].fields]
    assert numbers == [0x11, 0x1000, 4096, 0x22, 0x2000]
    assert message.faults == []


@each_case("read_header", [False, True])
def test_a_terminate_shows_what_it_quotes(read_header: bool) -> None:
    stream = MpaHalf(MpaTerms())
    stream.expect_fpdus_unless_startup(b"")
    (unit,) = stream.feed(terminate(0x0101, read_request(1, 1, 0, 1, 2, 0), read_header=read_header))
    assert isinstance(unit, Fpdu)
    message = RdmapHalf().add(unit)
    assert message is not None
    assert message.faults == []
    assert message.words == "RDMA Read outside the bounds of the memory (0/1/01)"
    names = [field.name for field in message.groups[1].fields][7:]
    quoted = ["DDP Segment Length", "Terminated DDP Header", "Terminated RDMA Header"]
    assert names == quoted[: 3 if read_header else 2]
    assert message.groups[1].size == message.octets


SEND = untagged(3, 0, 1, b"a")


@each_case(
    ("segments", "told"),
    [
        ([untagged(3, 0, 1, b"a", ddp_version=2)], ("DV", "RFC 5041 4.1")),
        ([untagged(3, 0, 1, b"a", rdmap_version=0)], ("RV", "RFC 5040 4.1")),
        ([b"\x45" + SEND[1:]], ("Rsvd", "RFC 5041 4.1")),
        ([SEND[:1] + b"\x53" + SEND[2:]], ("Rsv", "RFC 5040 4.1")),
        ([untagged(3, 0, 1, b"a", invalidate=9)], ("Invalidate STag", "RFC 5040 4.1")),
        ([untagged(8, 0, 1, bytes(8), invalidate=9)], ("Invalidate STag", "RFC 7306 4.1")),
        ([untagged(15, 0, 1)], ("Opcode", "RFC 5040 4.1")),
        ([untagged(0, 0, 1)], ("T", "RFC 5040 4.1")),
        ([tagged(3, 0, 0)], ("T", "RFC 5040 4.1")),
        ([untagged(3, 1, 1)], ("QN", "RFC 5040 4.1")),
        ([untagged(3, 0, 2)], ("MSN", "RFC 5041 4.3")),
        ([SEND, SEND], ("MSN", "RFC 5041 4.3")),
        ([untagged(3, 0, 1, b"a", offset=5)], ("MO", "RFC 5041 5.2")),
        ([untagged(3, 0, 1, b"a", last=False), untagged(3, 0, 1, b"a", offset=2)], ("MO", "RFC 5041 5.2")),
        ([untagged(3, 0, 1, b"a", last=False), untagged(3, 0, 2, b"a", offset=1)], ("MSN", "RFC 5041 5.3")),
        ([tagged(0, 7, 0, b"abcd", last=False), tagged(0, 7, 5)], ("TO", "RFC 5041 5.2")),
        ([tagged(0, 7, 0, b"abcd", last=False), tagged(0, 8, 4)], ("STag", "RFC 5041 5.3")),
        ([untagged(1, 1, 1, bytes(27))], ("SrcTO", "RFC 5040 4.4")),
        ([untagged(1, 1, 1, bytes(29))], ("RDMA Read Request", "RFC 5040 4.4")),
        ([untagged(7, 2, 1, bytes(3))], ("Reserved", "RFC 5040 4.8")),
        ([b"\x41\x43" + bytes(14)], ("MO", "RFC 5041 4.3")),
    ],
)
def test_a_broken_rule_is_told_with_its_section(segments: list[bytes], told: tuple[str, str]) -> None:
    assert faults(*segments) == [told]


def test_numbers_may_begin_anywhere_in_a_late_capture_and_wrap() -> None:
    half = RdmapHalf()
    half.late = True
    found = messages(untagged(3, 0, 0xFFFFFFFF, b"a"), untagged(3, 0, 0, b"a"), untagged(3, 0, 2, b"a"), half=half)
    assert [bool(message.faults) for message in found] == [False, False, True]


def test_only_so_much_of_a_send_is_kept() -> None:
    part = bytes(60_000)
    count = lab_limits.DISSECTED_MESSAGE_OCTETS_MAX // len(part) + 2
    segments = [untagged(3, 0, 1, part, offset=len(part) * n, last=n == count - 1) for n in range(count)]
    (message,) = messages(*segments)
    assert len(message.data) == lab_limits.DISSECTED_MESSAGE_OCTETS_MAX
    assert message.octets == count * len(part)
    assert {fault.reason for fault in message.faults} == {
        "the message has more than 1048576 octets, the rest is left out"
    }


def test_a_message_of_many_wrong_segments_tells_only_so_many_faults() -> None:
    count = lab_limits.DISSECTED_FAULTS_MAX * 3
    (message,) = messages(*(tagged(0, 7, 9 * n, last=n == count - 1) for n in range(count)))
    assert lab_limits.DISSECTED_FAULTS_MAX <= len(message.faults) <= lab_limits.DISSECTED_FAULTS_MAX + 1
