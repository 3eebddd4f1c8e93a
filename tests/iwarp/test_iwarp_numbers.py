"""Codes of Terminate, and which settings a connection can have."""

from __future__ import annotations

import pytest

from rpcrdma.iwarp.config import READS_MAX, ULPDU_OCTETS_MAX, ULPDU_OCTETS_MIN, IwarpConfig, ReadyFrame
from rpcrdma.iwarp.startup import FrameKind, StartupFrame, answer, ask
from rpcrdma.iwarp.terminate import Code, TerminateMessage
from support.cases import each_case

pytestmark = pytest.mark.in_python

CODES = {
    # RFC 5040 section 4.8.
    (0, 0): {0x00: "LOCAL_CATASTROPHIC"},
    (0, 1): {
        0x00: "PROTECTION_STAG",
        0x01: "PROTECTION_BOUNDS",
        0x02: "PROTECTION_RIGHTS",
        0x03: "PROTECTION_STREAM",
        0x04: "PROTECTION_WRAP",
        0x09: "PROTECTION_INVALIDATE",
        0xFF: "PROTECTION_UNSPECIFIED",
    },
    (0, 2): {
        0x05: "OPERATION_VERSION",
        0x06: "OPERATION_OPCODE",
        0x07: "OPERATION_STREAM",
        0x08: "OPERATION_GLOBAL",
        0x09: "OPERATION_INVALIDATE",
        0xFF: "OPERATION_UNSPECIFIED",
    },
    # RFC 5041 section 7.2.
    (1, 0): {0x00: "DDP_CATASTROPHIC"},
    (1, 1): {
        0x00: "TAGGED_STAG",
        0x01: "TAGGED_BOUNDS",
        0x02: "TAGGED_STREAM",
        0x03: "TAGGED_WRAP",
        0x04: "TAGGED_VERSION",
    },
    (1, 2): {
        0x01: "UNTAGGED_QUEUE",
        0x02: "UNTAGGED_NO_BUFFER",
        0x03: "UNTAGGED_MSN",
        0x04: "UNTAGGED_MO",
        0x05: "UNTAGGED_TOO_LONG",
        0x06: "UNTAGGED_VERSION",
    },
    # RFC 5044 section 8 and RFC 6581 section 8.
    (2, 0): {
        0x01: "MPA_CLOSED",
        0x02: "MPA_CRC",
        0x03: "MPA_MARKER",
        0x04: "MPA_FRAME",
        0x05: "MPA_CATASTROPHIC",
        0x06: "INSUFFICIENT_IRD",
        0x07: "NO_MATCHING_RTR",
    },
}


@pytest.mark.req("DDP-18")
def test_codes_have_the_numbers_of_the_specifications() -> None:
    numbers = {
        name: layer << 12 | kind << 8 | code for (layer, kind), codes in CODES.items() for code, name in codes.items()
    }
    assert {code.name: code.value for code in Code} == numbers


@each_case("code", Code)
def test_each_code_has_words_of_its_own(code: Code) -> None:
    words = TerminateMessage(code=code).words
    assert words.endswith(f" ({code >> 12}/{code >> 8 & 15}/{code & 255:02x})")
    assert not words.startswith("unknown")
    assert sum(TerminateMessage(code=other).words.split(" (")[0] == words.split(" (")[0] for other in Code) == 1


def test_a_code_without_a_definition_is_shown_as_its_numbers() -> None:
    assert TerminateMessage(code=0x2FAB).words == "unknown error (2/15/ab)"


def test_limits_are_those_of_the_specifications() -> None:
    assert READS_MAX == 0x3FFE
    assert (ULPDU_OCTETS_MIN, ULPDU_OCTETS_MAX) == (128, 64768)


@each_case(
    "settings",
    [
        {"inbound_reads": 0},
        {"inbound_reads": READS_MAX},
        {"outbound_reads": 0},
        {"outbound_reads": READS_MAX},
        {"first_send_pause_s": 0.0},
        {"first_send_pause_s": 9.99, "startup_timeout_s": 10.0},
        {"nudge_after_s": 0.0},
        {"nudge_after_s": 0.5},
        {"ready_frames": ReadyFrame.SEND},
        {"peer_to_peer": True, "enhanced": True},
        {"peer_to_peer": False, "enhanced": False},
    ],
)
def test_a_setting_at_its_bound_is_taken(settings: dict[str, object]) -> None:
    config = IwarpConfig(**settings)  # type: ignore[arg-type]
    assert {name: getattr(config, name) for name in settings} == settings


@pytest.mark.req("EM-11")
@each_case(
    ("settings", "name"),
    [
        ({"inbound_reads": -1}, "inbound_reads"),
        ({"inbound_reads": READS_MAX + 1}, "inbound_reads"),
        ({"outbound_reads": -1}, "outbound_reads"),
        ({"outbound_reads": READS_MAX + 1}, "outbound_reads"),
        ({"first_send_pause_s": -0.001}, "first_send_pause_s"),
        ({"first_send_pause_s": 10.0, "startup_timeout_s": 10.0}, "first_send_pause_s"),
        ({"nudge_after_s": -0.001}, "nudge_after_s"),
        ({"ready_frames": ReadyFrame(0)}, "ready_frames"),
        ({"peer_to_peer": True, "enhanced": False}, "peer_to_peer"),
    ],
)
def test_a_setting_beyond_its_bound_is_named(settings: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}"):
        IwarpConfig(**settings)  # type: ignore[arg-type]


@each_case("reject", [False, True])
def test_an_answer_rejects_only_if_it_is_told_to(reject: bool) -> None:
    config = IwarpConfig()
    asked = ask(config, b"asked")
    said = {"reject": True} if reject else {}
    reply, _ = answer(asked, config, b"told", **said)
    assert isinstance(reply, StartupFrame)
    assert (reply.kind, reply.reject, reply.private_data) == (FrameKind.REPLY, reject, b"told")
