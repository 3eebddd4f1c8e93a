"""Arguments and results of long messages, which chunks or several messages carry, and of messages under RPCSEC_GSS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dissected_captures import dissected
from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.exchanges import Exchange, Exchanges
from rpcrdma_lab.dissect.headers import MemorySegment
from rpcrdma_lab.dissect.long_messages import LongMessage, Room
from rpcrdma_lab.dissect.rpc_body import Interfaces
from support.cases import each_case
from support.octets import words
from support.raw_capture import CLIENT, SERVER, HandMadeCapture

PROGRAM = "program ECHO { version ECHO_V1 { text SAY(text) = 1; } = 1; } = 77;"
DEFINITION = f"struct text {{ opaque octets<>; unsigned int end; }}; {PROGRAM}"
MSG, NOMSG = 0, 1
RPCSEC_GSS = 6
KRB5, KRB5I, KRB5P = 1, 2, 3


def text(octets: int) -> bytes:
    """Arguments or results: so many octets, and a word behind them."""
    return words(octets) + bytes(octets) + bytes(-octets % 4) + words(0xE0D)


def call(body: bytes, credential: bytes = words(0, 0)) -> bytes:
    return words(7, 0, 2, 77, 1, 1) + credential + words(0, 0) + body


def reply(body: bytes) -> bytes:
    return words(7, 1, 0, 0, 0, 0) + body


def header(kind: int, lists: bytes = words(0, 0, 0)) -> bytes:
    return words(7, 1, 32, kind) + lists


def read_list(*segments: tuple[int, int]) -> bytes:
    """Segments of a Position-Zero Read chunk: handle and length, all at offset 0x1000."""
    entries = [words(1, 0, handle, length, 0, 0x1000) for handle, length in segments]
    return b"".join(entries) + words(0, 0, 0)


def reply_chunk(*segments: tuple[int, int]) -> bytes:
    entries = [words(handle, length, 0, 0x1000) for handle, length in segments]
    return words(0, 0, 1, len(segments)) + b"".join(entries)


class Talk:
    """One call and its reply in a capture, and the explanation of them."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "talk.pcap"

    def explained(self, *messages: tuple[Any, ...]) -> Exchange:
        """The exchange of messages ("send", end, octets) and ("read" or "write", handle, place, data)."""
        with HandMadeCapture(self.file) as made:
            for kind, *given in messages:
                if kind == "send":
                    made.send(*given)
                elif kind == "write":
                    handle, place, data = given
                    made.write(SERVER, handle, 0x1000 + place, data)
                else:
                    handle, place, data = given
                    made.read(SERVER, (handle, 0x1000 + place), (0x42, 0), data)
        names = Interfaces()
        names.add(DEFINITION, "echo.x")
        (exchange,) = [one for one in Exchanges().each(dissected(self.file, names)) if one.xid is not None]
        return exchange


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def shown(exchange: Exchange, part: str) -> dict[str, int] | None:
    """The length of the octets, and the word behind them; None without a body."""
    body = exchange.body(part)
    if body is None:
        return None
    octets, end = body.fields[0].value, body.number("end")
    return {"octets": len(octets) if isinstance(octets, bytes) else -1, "end": end or 0}


def notes(exchange: Exchange) -> list[str]:
    return [note for message in exchange.messages for note in message.notes]


def test_a_long_call_is_read_to_its_end_from_several_segments_and_reads(talk: Talk) -> None:
    whole = call(text(3001))
    lists = read_list((0x99, 2000), (0x9A, len(whole) - 2000))
    exchange = talk.explained(
        ("send", CLIENT, header(NOMSG, lists)),
        ("read", 0x99, 0, whole[:1500]),
        ("read", 0x99, 1500, whole[1500:2000]),
        ("read", 0x9A, 0, whole[2000:]),
        ("send", SERVER, header(MSG) + reply(text(3))),
    )
    assert shown(exchange, "arguments") == {"octets": 3001, "end": 0xE0D}
    assert exchange.procedure == "ECHO_V1 SAY"
    assert not exchange.faults


def test_a_long_reply_is_read_to_its_end_from_several_segments_and_writes(talk: Talk) -> None:
    whole = reply(text(3001))
    segments = [(0x99, 2000), (0x9A, 4000)]
    used = [(0x99, 2000), (0x9A, len(whole) - 2000)]
    exchange = talk.explained(
        ("send", CLIENT, header(MSG, reply_chunk(*segments)) + call(text(3))),
        ("write", 0x99, 0, whole[:1500]),
        ("write", 0x99, 1500, whole[1500:2000]),
        ("write", 0x9A, 0, whole[2000:]),
        ("send", SERVER, header(NOMSG, reply_chunk(*used))),
    )
    assert shown(exchange, "results") == {"octets": 3001, "end": 0xE0D}
    assert exchange.outcome == "SUCCESS"
    assert not exchange.faults


def test_a_long_message_with_a_hole_or_beyond_the_bound_shows_its_beginning(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = reply(text(3001))
    messages = [
        ("send", CLIENT, header(MSG, reply_chunk((0x99, 4000))) + call(text(3))),
        ("write", 0x99, 0, whole[:1500]),
        ("write", 0x99, 2000, whole[2000:]),
        ("send", SERVER, header(NOMSG, reply_chunk((0x99, len(whole))))),
    ]
    for _ in range(2):
        exchange = talk.explained(*messages)
        assert exchange.outcome == "SUCCESS"
        assert shown(exchange, "results") == {"octets": -1, "end": 0}
        assert not exchange.faults
        assert notes(exchange)[-1].startswith("grants")
        monkeypatch.setattr(lab_limits, "DISSECTED_MESSAGE_OCTETS_MAX", 1400)
        messages[1:3] = [("write", 0x99, 0, whole)]


def test_the_room_of_answered_calls_is_used_again() -> None:
    room = Room(10)
    segment = MemorySegment(1, 6, 0)
    first, second, third = (LongMessage(room) for _ in range(3))
    first.add(1, 0, bytearray(b"first!"), 6)
    second.add(1, 0, bytearray(b"second"), 6)
    assert first.joined([segment]).whole
    assert second.joined([segment]).data == b"seco"
    assert not second.joined([segment]).whole
    first.leave()
    third.add(1, 0, bytearray(b"third."), 6)
    assert third.joined([segment]).whole


def test_octets_behind_a_hole_are_left_out() -> None:
    message = LongMessage(Room(100))
    message.add(1, 0, bytearray(b"ab"), 2)
    message.add(1, 4, bytearray(b"ef"), 2)
    message.add(2, 0, bytearray(b"gh"), 2)
    joined = message.joined([MemorySegment(1, 6, 0), MemorySegment(2, 2, 0)])
    assert (joined.data, joined.octets) == (b"ab", 8)


def gss(service: int, procedure: int = 0) -> bytes:
    """A credential of RPCSEC_GSS version 1."""
    return words(RPCSEC_GSS, 24, 1, procedure, 5, service, 4, 0x01020304)


def sealed(service: int, body: bytes) -> bytes:
    """The body under a service, with a checksum of four octets."""
    if service == KRB5:
        return body
    wrapped = words(4 + len(body), 5) + body
    return wrapped + words(4, 0xC0C0C0C0) if service == KRB5I else wrapped


@each_case(("service", "readable"), [(KRB5, True), (KRB5I, True), (KRB5P, False), (9, None)])
def test_bodies_under_rpcsec_gss_are_read_unless_they_are_private(
    talk: Talk, service: int, readable: bool | None
) -> None:
    exchange = talk.explained(
        ("send", CLIENT, header(MSG) + call(sealed(service, text(30)), gss(service))),
        ("send", SERVER, header(MSG) + reply(sealed(service, text(31)))),
    )
    expected = [{"octets": 30, "end": 0xE0D}, {"octets": 31, "end": 0xE0D}] if readable else [None, None]
    assert [shown(exchange, part) for part in ("arguments", "results")] == expected
    private = [f"the {part} are private (RPCSEC_GSS)" for part in ("arguments", "results")]
    assert [note for note in notes(exchange) if "private" in note] == (private if readable is False else [])
    assert not any("do not follow" in note for note in notes(exchange))


def test_a_long_call_with_integrity_is_read_to_its_end(talk: Talk) -> None:
    whole = call(sealed(KRB5I, text(3001)), gss(KRB5I))
    exchange = talk.explained(
        ("send", CLIENT, header(NOMSG, read_list((0x99, len(whole))))),
        ("read", 0x99, 0, whole),
        ("send", SERVER, header(MSG) + reply(sealed(KRB5I, text(3)))),
    )
    assert shown(exchange, "arguments") == {"octets": 3001, "end": 0xE0D}
    assert shown(exchange, "results") == {"octets": 3, "end": 0xE0D}


def test_the_messages_of_a_context_have_no_arguments(talk: Talk) -> None:
    exchange = talk.explained(("send", CLIENT, header(MSG) + call(words(4, 0x70707070), gss(KRB5I, 1))))
    assert exchange.body("arguments") is None
    assert "the arguments belong to a context of RPCSEC_GSS" in notes(exchange)


def test_lengths_of_a_body_with_integrity_that_lie(talk: Talk) -> None:
    for body in (b"", words(4), words(0), words(3, 5), words(0xFFFFFFFF, 5) + text(30), words(16, 5) + text(30)):
        exchange = talk.explained(("send", CLIENT, header(MSG) + call(body, gss(KRB5I))))
        assert exchange.procedure == "ECHO_V1 SAY"
        assert not exchange.faults
