"""RoCEv2 connections: messages from packets, the other direction's queue pair, lost and repeated packets."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import pytest

from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.capture_dissector import CaptureDissector
from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, CapturedPacket, read_packets
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.exchanges import Exchanges
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.dissect.packets import RoceDatagram, transport_unit
from rpcrdma_lab.dissect.roce_connections import RoceConnections
from support import raw_roce
from support.functions_entered import functions_entered
from support.octets import words
from support.raw_roce import CLIENT, CLIENT_QP, MTU, SERVER, SERVER_QP, HandMadeRoce, ack, datagram, packet, reach

RAW_IP = 101
HANDLE = 0x55
LISTS = words(0, 1, 1, HANDLE, 4000, 0, 0x1000, 0, 0)
CALL = words(7, 1, 32, 0) + LISTS + words(7, 0, 2, 100003, 3, 6, 0, 0, 0, 0) + bytes(300)
REPLY = words(7, 1, 32, 0) + LISTS + words(7, 1, 0, 0, 0, 0, 0)
SET_UP = 3
"""Messages of connection management before the first message."""


def connected(first: int = 100) -> HandMadeRoce:
    """A connection whose set-up is in the capture."""
    made = HandMadeRoce(first=first)
    made.set_up()
    return made


def dissected(made: HandMadeRoce, step_s: float = 0.0) -> list[Message]:
    dissector = CaptureDissector(Settings())
    packets = (CapturedPacket(round(at * step_s * 1e9), RAW_IP, octets, 0) for at, octets in enumerate(made.packets))
    return list(dissector.messages(packets))


def names(messages: list[Message]) -> list[str]:
    return [message.summary.partition(",")[0].partition(":")[0] for message in messages]


def conversation() -> HandMadeRoce:
    """A call in two packets, an RDMA Write in three, and a reply that ends the memory."""
    made = connected()
    made.send(CLIENT, CALL)
    made.rdma_write(SERVER, HANDLE, 0x1000, bytes(3 * MTU))
    made.send(SERVER, REPLY, invalidated=HANDLE)
    return made


WHOLE = ["Send", "RDMA Write", "Send with Invalidate"]


def test_packets_become_the_messages_that_they_are_parts_of() -> None:
    messages = dissected(conversation())
    assert names(messages) == ["CM Request", "CM Reply", "CM Ready To Use", *WHOLE]
    call, data, reply = messages[SET_UP:]
    assert (call.source, call.destination) == ("192.0.2.1 QP 17", "192.0.2.2 QP 18")
    assert call.facts["message"] == "call"
    assert call.facts["segments"] == 2
    assert (data.facts["handle"], data.facts["offset"], data.facts["octets"]) == (HANDLE, 0x1000, 3 * MTU)
    assert data.facts["serves"] == {"call": call.number, "chunk": "Write chunk 1", "segment": 1}
    assert reply.facts["answers"] == call.number
    assert reply.facts["invalidated_handle"] == HANDLE
    assert not any(message.faults for message in messages)


def test_in_a_whole_capture_a_first_message_with_another_xid_is_wrong() -> None:
    made = connected()
    made.send(CLIENT, words(7, 2, 32, 0, 0, 0, 0, 0, 0) + words(8, 0, 2, 100003, 3, 0, 0, 0, 0, 0))
    (message,) = dissected(made)[SET_UP:]
    assert [fault.field for fault in message.faults] == ["rdma_xid"]
    assert not any("not in the capture" in note or "as far as captured" in note for note in message.notes)


def test_an_rdma_read_and_its_response_serve_one_chunk() -> None:
    made = connected()
    made.send(CLIENT, words(7, 1, 32, 0) + words(1, 40, HANDLE, 700, 0, 0x1000, 0, 0, 0) + CALL[-340:])
    made.rdma_read(SERVER, HANDLE, 0x1000, bytes(700))
    made.send(SERVER, REPLY)
    call, request, response, reply = dissected(made)[SET_UP:]
    assert request.facts["asked"] == response.facts["octets"] == 700
    assert request.facts["serves"] == response.facts["serves"]
    assert request.facts["serves"]["call"] == call.number == reply.facts["answers"]
    assert (request.source, response.source) == (call.destination, call.source)


def test_repeated_packets_change_nothing() -> None:
    made = conversation()
    expected = [message.as_json() for message in dissected(made)]
    made.packets = [each for each in made.packets for _ in range(2)]
    assert [message.as_json() for message in dissected(made)] == expected


def test_a_packet_that_comes_late_is_put_in_its_place() -> None:
    made = conversation()
    for place in range(SET_UP, len(made.packets) - 1):
        made = conversation()
        made.packets[place], made.packets[place + 1] = made.packets[place + 1], made.packets[place]
        messages = dissected(made)
        assert sorted(names(messages)[SET_UP:]) == sorted(WHOLE)
        assert not any(message.faults for message in messages)


def test_a_lost_packet_that_is_sent_again_leaves_no_trace() -> None:
    made = conversation()
    # All from the lost packet on are sent again.
    made.packets[SET_UP + 3 : SET_UP + 3] = [made.packets[SET_UP + 4], *made.packets[SET_UP + 3 : SET_UP + 5]]
    assert names(dissected(made))[SET_UP:] == WHOLE


def test_a_packet_that_was_not_captured_is_told_when_a_later_one_is_acknowledged() -> None:
    made = conversation()
    del made.packets[SET_UP]
    messages = dissected(made)
    assert names(messages)[SET_UP:] == ["1 packets are missing in the capture", *WHOLE[1:]]
    assert not any(message.faults for message in messages)


def test_messages_behind_a_missing_packet_keep_their_times() -> None:
    times = {message.summary: message.time_s for message in dissected(conversation(), 1.0)}
    made = conversation()
    del made.packets[SET_UP + 3]  # the first one of the RDMA Write
    gap, reply = dissected(made, 1.0)[SET_UP + 1 :]
    assert names([gap, reply]) == ["1 packets are missing in the capture", WHOLE[2]]
    assert (gap.time_s, reply.time_s) == (SET_UP + 3.0, times[reply.summary] - 1.0)


def test_a_response_that_was_not_captured_whole_is_told_at_the_end() -> None:
    for end in (CLIENT, SERVER):
        made = connected()
        (_, _, second, _) = made.rdma_read(end, HANDLE, 0x1000, bytes(3 * MTU))
        del made.packets[second]
        request, gap = dissected(made)[SET_UP:]
        assert names([request, gap]) == ["RDMA Read Request", "1 packets are missing in the capture"]
        assert (gap.source, gap.destination) == (request.destination, request.source)


def test_numbers_begin_anew_after_the_largest_one() -> None:
    made = connected(first=(1 << 24) - 1)
    made.send(CLIENT, CALL)
    made.send(CLIENT, CALL)
    assert names(dissected(made))[SET_UP:] == ["Send", "Send"]


def test_a_connection_without_its_set_up_is_found_by_an_acknowledge() -> None:
    made = conversation()
    del made.packets[:SET_UP]
    messages = dissected(made)
    assert names(messages) == WHOLE
    assert {message.connection for message in messages} == {1}
    assert messages[2].facts["answers"] == messages[0].number


def test_a_connection_without_its_set_up_is_found_by_any_packet_of_a_response() -> None:
    made = HandMadeRoce(first=(1 << 24) - 1)
    made.rdma_read(CLIENT, HANDLE, 0x1000, bytes(3 * MTU))
    del made.packets[1:3]
    assert [message.source for message in dissected(made)] == ["192.0.2.1 QP 17", "192.0.2.2 QP 18"]


def test_a_connection_without_its_set_up_is_found_among_many_with_near_numbers() -> None:
    made = HandMadeRoce()
    for number in range(50):
        made.add(CLIENT, packet(0x04, 0x200 + number, 100 + number, CALL))
    made.add(SERVER, packet(0x11, CLIENT_QP, 120, ack()))
    found = [message.destination for message in dissected(made) if message.source == f"192.0.2.1 QP {CLIENT_QP}"]
    assert found == [f"192.0.2.2 QP {0x200 + 20}"]


def work_for_the_last(made: HandMadeRoce) -> int:
    """The functions that the last packet takes."""
    connections = RoceConnections(Settings())
    for octets in made.packets:
        unit = transport_unit(RAW_IP, octets, 0)
        assert isinstance(unit, RoceDatagram)
        work = functions_entered(lambda unit=unit: list(connections.take(unit, None)))
    return work


def test_waiting_packets_of_other_connections_add_no_work_to_a_response() -> None:
    made = HandMadeRoce()
    for number in range(500):
        made.add(CLIENT, packet(0x04, 0x200 + number % 50, 100 + number))
    made.add(SERVER, packet(0x11, CLIENT_QP, 5000, ack()))
    assert work_for_the_last(made) < 200


def test_waiting_packets_of_other_responses_add_no_work_to_a_packet() -> None:
    made = connected()
    for number in range(10):
        made.add(SERVER, packet(0x0C, CLIENT_QP, 5000 + 50 * number, reach(HANDLE, 0, 50 * MTU)))
        for place in range(1, 49):
            made.add(CLIENT, packet(0x0E, SERVER_QP, 5000 + 50 * number + place, bytes(MTU)))
    made.packets += made.packets[-1:]
    assert work_for_the_last(made) < 500


def test_both_ends_may_have_the_same_queue_pair_number() -> None:
    made = HandMadeRoce()
    made.add(CLIENT, packet(0x04, CLIENT_QP, 100, CALL[:MTU]))
    made.add(SERVER, packet(0x11, CLIENT_QP, 100, ack()))
    (call,) = dissected(made)
    assert (call.source, call.destination) == ("192.0.2.1 QP 17", "192.0.2.2 QP 17")


def test_one_direction_alone_is_shown() -> None:
    made = conversation()
    made.packets = [each for each in made.packets[SET_UP:] if each[12:16] == bytes([192, 0, 2, 1])]
    (call,) = dissected(made)
    assert (call.source, call.destination) == ("192.0.2.1", "192.0.2.2 QP 18")


def test_queue_pairs_may_be_used_again() -> None:
    first, second = conversation(), conversation()
    # Packets of the RDMA Write and the reply wait for this one until the end of the first connection.
    del first.packets[SET_UP + 3], first.packets[-1]
    second.packets[0] = datagram(CLIENT, second.packets[0][28:-4].replace((1).to_bytes(8), (99).to_bytes(8)))
    second.packets[1] = datagram(SERVER, second.packets[1][28:-4].replace((2).to_bytes(8), (98).to_bytes(8)))
    first.packets += second.packets
    messages = dissected(first)
    left = ["Send", "1 packets are missing in the capture", "Send with Invalidate"]
    assert names(messages)[SET_UP:] == [*left, "CM Request", "CM Reply", *WHOLE]
    assert [message.connection for message in messages] == [1] * (SET_UP + 3) + [2] * 5


def test_packets_before_the_set_up_of_their_queue_pair_are_of_a_connection_before_it() -> None:
    made = HandMadeRoce()
    made.add(CLIENT, packet(0x04, SERVER_QP, 7, CALL[:MTU]))
    made.set_up()
    made.send(CLIENT, CALL)
    messages = dissected(made)
    assert names(messages) == ["CM Request", "Send", "CM Reply", "CM Ready To Use", "Send"]
    assert [message.connection for message in messages] == [1, 2, 1, 1, 1]


def test_queue_pairs_of_one_address_answer_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_roce, "_ADDRESSES", (bytes([127, 0, 0, 1]),) * 2)
    made = HandMadeRoce()
    made.add(SERVER, packet(0x04, CLIENT_QP, 100, CALL[:MTU]))
    made.add(SERVER, packet(0x11, CLIENT_QP, 100, ack()))
    assert [message.destination for message in dissected(made)] == ["127.0.0.1 QP 17"]
    made.add(CLIENT, packet(0x04, SERVER_QP, 100, CALL[:MTU]))
    made.add(SERVER, packet(0x11, CLIENT_QP, 100, ack()))
    assert {(message.source, message.connection) for message in dissected(made)} == {
        ("127.0.0.1 QP 17", 1),
        ("127.0.0.1 QP 18", 1),
    }


def test_negative_acknowledges_are_told() -> None:
    made = conversation()
    for syndrome in (0x60, 0x62, 0x21):
        made.acknowledge(CLIENT, syndrome)
    again, refused, not_ready = dissected(made)[-3:]
    assert again.summary == "NAK, asks for the packets from number 5003 on again"
    assert refused.facts["error"] == "a remote access error"
    assert "no receive is ready" in not_ready.summary
    assert "error" not in again.facts


def test_a_refused_connection_is_told() -> None:
    made = connected()
    del made.packets[1:]
    made.manage(SERVER, 0x12, struct.pack(">IIHH", 0, CLIENT_QP, 0, 8))
    request, refused = dissected(made)
    assert request.summary == "CM Request, port 20049"
    assert refused.facts["error"] == "the connection is refused, reason 8 (no such service)"
    assert refused.source == "192.0.2.2"


def test_a_packet_with_a_wrong_icrc_is_shown_and_not_taken() -> None:
    made = conversation()
    broken = bytearray(made.packets[SET_UP])
    broken[60] ^= 1
    made.packets.insert(SET_UP, bytes(broken))
    messages = dissected(made)
    assert [fault.field for fault in messages[SET_UP].faults] == ["ICRC"]
    assert names(messages)[SET_UP + 1 :] == WHOLE


def test_rules_of_the_places_of_packets() -> None:
    cases = {
        "SEND Middle": [packet(0x01, SERVER_QP, 100, bytes(MTU))],
        "SEND Only": [packet(0x00, SERVER_QP, 100, bytes(MTU)), packet(0x04, SERVER_QP, 101)],
        "RDMA Write Last": [packet(0x00, SERVER_QP, 100, bytes(MTU)), packet(0x08, SERVER_QP, 101)],
        "RDMA Read Request": [
            packet(0x06, SERVER_QP, 100, reach(1, 0, 512) + bytes(MTU)),
            packet(0x0C, SERVER_QP, 101, reach(1, 0, 4)),
        ],
        "0x15 is reserved": [packet(0x15, SERVER_QP, 100, bytes(28))],
    }
    for words_, transports in cases.items():
        made = connected()
        for transport in transports:
            made.add(CLIENT, transport)
        reasons = [fault.reason for message in dissected(made) for fault in message.faults]
        assert any(words_.lower() in reason.lower() for reason in reasons), (words_, reasons)


def test_a_message_of_many_wrong_packets_tells_only_so_many_faults() -> None:
    made = connected()
    last = 101 + lab_limits.DISSECTED_FAULTS_MAX + 9
    made.add(CLIENT, packet(0x00, SERVER_QP, 100, bytes(MTU)))
    for psn in range(101, last):
        made.add(CLIENT, packet(0x07, SERVER_QP, psn, bytes(MTU)))
    made.add(CLIENT, packet(0x02, SERVER_QP, last))
    assert len(dissected(made)[SET_UP].faults) <= lab_limits.DISSECTED_FAULTS_MAX + 1


def test_congestion_notifications_change_no_exchange() -> None:
    made = conversation()
    expected = dissected(made)
    for place in range(SET_UP, len(made.packets))[::-1]:
        for sender, receiver in ((CLIENT, SERVER_QP), (SERVER, CLIENT_QP)):
            made.packets.insert(place, datagram(sender, packet(0x81, receiver, 0, bytes(16))))
    messages = dissected(made)
    others = [message for message in messages if message.summary != "congestion notification"]
    assert [message.summary for message in others] == [message.summary for message in expected]
    assert len(messages) == len(expected) + 2 * (len(made.packets) - SET_UP) // 3
    assert not any(exchange.failed for exchange in Exchanges().each(messages))


def test_a_capture_with_congestion_notifications_alone_is_roce() -> None:
    made = HandMadeRoce()
    for _ in range(2):
        made.add(SERVER, packet(0x81, CLIENT_QP, 0, bytes(16)))
    assert names(dissected(made)) == ["congestion notification"] * 2


def test_an_operation_without_a_counterpart_in_rdmap_has_its_place_in_the_order() -> None:
    atomic, write, flush = bytes(28), reach(1, 0, 8) + bytes(8), bytes(4) + reach(1, 0, 8)
    codes = {0x13: atomic, 0x14: atomic, 0x1C: flush, 0x1D: write}
    made = connected()
    for psn, (code, rest) in enumerate(codes.items(), 100):
        made.add(CLIENT, packet(code, SERVER_QP, psn, rest))
        made.add(SERVER, packet(0x12, CLIENT_QP, psn, ack() + bytes(8)))
    made.add(CLIENT, packet(0x04, SERVER_QP, 100 + len(codes), CALL[:MTU]))
    messages = dissected(made)[SET_UP:]
    assert names(messages) == ["Atomic Compare and Swap", "Atomic Fetch and Add", "Flush", "Atomic Write", "Send"]
    assert not any(message.faults for message in messages[:-1])


def test_reserved_operation_codes_alone_break_a_rule() -> None:
    """IBA 9.2.1: codes of other transports, of manufacturers, and of connections between queue pairs of other kinds."""
    given = {*range(0x15), 0x16, 0x17, 0x1C, 0x1D, *range(0x20, 0x2C), *range(0x40, 0x56), 0x64, 0x65, 0x81}
    given |= {*range(0xA0, 0xB5), 0xB6, 0xB7, 0xBC, 0xBD, *range(0xC0, 0x100)}
    for code in range(256):
        made = connected()
        made.add(CLIENT, packet(code, SERVER_QP, 100, bytes(44)))
        faults = [fault.reason for message in dissected(made) for fault in message.faults]
        assert any("is reserved" in reason for reason in faults) == (code not in given), hex(code)


def told_after(made: HandMadeRoce) -> int:
    """The packets that are read when the first message behind the set-up is told."""
    dissector = CaptureDissector(Settings())
    source = (CapturedPacket(0, RAW_IP, octets, 0) for octets in made.packets)
    next(message for message in dissector.messages(source) if message.protocol != "cm")
    return dissector.packets


def test_packets_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = connected()
    most = lab_limits.CAPTURE_WAITING_PACKETS_MAX
    for number in range(most + 5):
        made.add(CLIENT, packet(0x04, SERVER_QP, 101 + number, CALL[:MTU]))
    assert told_after(made) == SET_UP + most + 1
    monkeypatch.setattr(lab_limits, "CAPTURE_HELD_OCTETS_MAX", 2 * MTU)
    assert told_after(made) == SET_UP + 3
    # A further Reply drops what waits, and its octets count no more.
    moved, other = connected(), HandMadeRoce()
    other.set_up(server_qp=SERVER_QP + 1)
    moved.packets += [made.packets[SET_UP], other.packets[1]]
    for psn in range(101, 105):
        moved.add(CLIENT, packet(0x04, SERVER_QP + 1, psn, CALL[:MTU]))
    assert told_after(moved) == SET_UP + 2 + 3


def test_directions_without_a_partner_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = HandMadeRoce()
    most = lab_limits.CAPTURE_WAITING_PACKETS_MAX
    for number in range(most + 5):
        made.add(CLIENT, packet(0x04, SERVER_QP, number, CALL[:MTU]))
    assert told_after(made) == most + 1
    monkeypatch.setattr(lab_limits, "CAPTURE_CONNECTIONS_MAX", 2)
    made = HandMadeRoce()
    for number in range(5):
        made.add(CLIENT, packet(0x04, SERVER_QP + number, 1, CALL[:MTU]))
    assert told_after(made) == 3


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = HandMadeRoce()
    for number in range(3):
        made.set_up(client_qp=0x200 + number, server_qp=0x300 + number)
        if number == 0:
            made.add(CLIENT, packet(0x04, 0x300, 101, CALL[:MTU]))
    made.manage(CLIENT, 0x15, struct.pack(">II", 0x200, 0x300))
    made.add(CLIENT, packet(0x04, 0x300, 100, CALL[:MTU]))
    messages = dissected(made)
    assert [message.connection for message in messages[-3:]] == [1, 1, 1]
    monkeypatch.setattr(lab_limits, "CAPTURE_CONNECTIONS_MAX", 2)
    messages = dissected(made)
    # The first of them is forgotten: its end is left out, and its packet belongs to no known connection.
    assert names(messages)[-2:] == ["CM Ready To Use", "Send"]
    assert messages[-1].connection == 4
    # What waited on it is told before it is forgotten.
    gap = names(messages).index("1 packets are missing in the capture")
    assert names(messages)[gap + 1 : gap + 3] == ["Send", "CM Request"]
    assert [message.connection for message in messages[gap : gap + 3]] == [1, 1, 3]


def test_repetitions_of_management_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_limits, "CAPTURE_CONNECTIONS_MAX", 2)
    made = connected()
    made.packets.append(made.packets[2])
    assert len(dissected(made)) == SET_UP
    made.packets.append(made.packets[0])
    assert len(dissected(made)) == SET_UP + 1
    made = connected()
    made.send(CLIENT, CALL)
    for _ in range(2):
        made.manage(CLIENT, 0x14, struct.pack(">II", CLIENT_QP, SERVER_QP))
    made.packets.append(made.packets[1])
    made.send(SERVER, REPLY)
    made.send(CLIENT, CALL)
    messages = dissected(made)
    assert names(messages)[SET_UP:] == ["Send", "CM Ready To Use", "CM Ready To Use", "Send", "Send"]
    assert {message.connection for message in messages} == {1}


def test_rdma_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_limits, "CAPTURE_READS_MAX", 1)
    made = two_reads()
    assert names(dissected(made))[SET_UP:] == ["RDMA Read Request", "RDMA Read Request", "RDMA Read Response"]
    made = connected()
    (_, first, *_) = made.rdma_read(SERVER, HANDLE, 0x1000, bytes(3 * MTU))
    made.rdma_read(SERVER, HANDLE, 0x2000, bytes(300))
    del made.packets[first]
    messages = dissected(made)[SET_UP:]
    assert names(messages) == [
        "RDMA Read Request",
        "1 packets are missing in the capture",
        "RDMA Read Request",
        "RDMA Read Response",
    ]
    assert [message.source == messages[0].source for message in messages] == [True, False, True, False]


def two_reads() -> HandMadeRoce:
    """Two requests, and then both responses."""
    made = connected()
    made.rdma_read(SERVER, HANDLE, 0x1000, bytes(300))
    made.rdma_read(SERVER, HANDLE, 0x2000, bytes(301))
    first, second = made.packets[SET_UP : SET_UP + 3], made.packets[SET_UP + 3 :]
    made.packets[SET_UP:] = [first[0], second[0], *first[1:], *second[1:]]
    return made


def test_responses_belong_to_the_requests_with_their_numbers() -> None:
    messages = dissected(two_reads())[SET_UP:]
    assert [message.facts["octets"] for message in messages[2:]] == [300, 301]
    made = two_reads()
    # The first response is sent again, since its first packet was lost.
    made.packets[SET_UP + 2 :] = [*made.packets[SET_UP + 4 :], *made.packets[SET_UP + 2 : SET_UP + 4]]
    assert [message.facts["octets"] for message in dissected(made)[SET_UP + 2 :]] == [301, 300]


def test_padding_is_no_payload_and_a_wake_up_is_named() -> None:
    made = connected()
    made.add(CLIENT, packet(0x04, SERVER_QP, 100, b"seventeen octets!", solicited=True))
    (message,) = dissected(made)[SET_UP:]
    assert message.octets == b"seventeen octets!"
    assert message.summary.startswith("Send with Solicited Event,")


def test_a_message_with_a_missing_packet_is_left_out() -> None:
    made = connected()
    (_, middle, _) = made.send(CLIENT, CALL + bytes(MTU))
    del made.packets[middle]
    assert names(dissected(made))[SET_UP:] == ["1 packets are missing in the capture"]


def test_credits_are_not_judged_behind_missing_packets() -> None:
    made = connected()
    grants_one = REPLY.replace(words(32), words(1), 1)
    replies = []
    for xid in (7, 8):
        made.send(CLIENT, CALL.replace(words(7), words(xid)))
        replies += made.send(SERVER, grants_one.replace(words(7), words(xid)))
    made.send(CLIENT, CALL.replace(words(7), words(9)))
    made.send(SERVER, grants_one.replace(words(7), words(9)))
    assert not any(message.faults for message in dissected(made))
    del made.packets[replies[1]]
    messages = dissected(made)
    assert any("missing" in message.summary for message in messages)
    assert not any("in flight" in fault.reason for message in messages[:-1] for fault in message.faults)


def test_packets_that_waited_come_in_their_order() -> None:
    made = connected()
    made.send(CLIENT, CALL)
    made.send(SERVER, REPLY)
    made.send(CLIENT, CALL)
    # Without the set-up and all acknowledges but the last one.
    made.packets = [each for each in made.packets[SET_UP:-1] if len(each) > 60] + made.packets[-1:]
    call, answer, _ = dissected(made)
    assert answer.facts["answers"] == call.number


@pytest.mark.thorough
def test_any_octets_raise_nothing() -> None:
    chance = random.Random(4791)
    made = conversation()
    for at, whole in enumerate(made.packets):
        for length in range(0, len(whole), 7):
            other = conversation()
            other.packets[at] = whole[:length]
            dissected(other)
    for _ in range(300):
        other = conversation()
        at = chance.randrange(len(other.packets))
        transport = bytearray(other.packets[at][28:-4])
        for _ in range(3):
            transport[chance.randrange(len(transport))] = chance.randrange(256)
        other.packets[at] = datagram(chance.randrange(2), bytes(transport))
        for message in dissected(other):
            assert all(fault.reason for fault in message.faults)


def test_a_packet_that_was_not_captured_whole_counts_its_octets(tmp_path: Path) -> None:
    made = connected()
    for place in (*made.send(CLIENT, CALL), *made.rdma_write(SERVER, HANDLE, 0x1000, bytes(200))):
        made.packets[place] = made.packets[place][:100]
    made.write(tmp_path / "cut.pcap")
    file = io.BytesIO((tmp_path / "cut.pcap").read_bytes())
    dissector = CaptureDissector(Settings())
    *_, call, data = dissector.messages(read_packets(file, file.read(MAGIC_OCTETS)))
    assert (call.notes, call.faults) == (["not captured whole, and not decoded"], [])
    assert data.facts["octets"] == 200
    assert len(data.octets) < 200
    assert dissector.cut_packets == 3


def test_acknowledges_alone_are_no_messages() -> None:
    made = HandMadeRoce()
    made.add(CLIENT, packet(0x11, SERVER_QP, 5, ack()))
    made.add(SERVER, packet(0x11, CLIENT_QP, 6, ack()))
    assert dissected(made) == []
