"""Codes of Terminate, and which settings a connection can have."""

from __future__ import annotations

import math

import pytest

from rpcrdma.iwarp.config import READS_MAX, IwarpConfig, ReadyFrame
from rpcrdma.iwarp.terminate import Code, TerminateMessage
from support.cases import each_case

pytestmark = pytest.mark.in_python

# Layer, type and code: RFC 5040 section 4.8, RFC 5041 section 7.2, RFC 5044 section 8 and RFC 6581 section 8.
CODES = """
0000 LOCAL_CATASTROPHIC
0100 PROTECTION_STAG   0101 PROTECTION_BOUNDS  0102 PROTECTION_RIGHTS  0103 PROTECTION_STREAM
0104 PROTECTION_WRAP   0109 PROTECTION_INVALIDATE                      01FF PROTECTION_UNSPECIFIED
0205 OPERATION_VERSION 0206 OPERATION_OPCODE   0207 OPERATION_STREAM   0208 OPERATION_GLOBAL
0209 OPERATION_INVALIDATE                      02FF OPERATION_UNSPECIFIED
1000 DDP_CATASTROPHIC
1100 TAGGED_STAG       1101 TAGGED_BOUNDS      1102 TAGGED_STREAM      1103 TAGGED_WRAP     1104 TAGGED_VERSION
1201 UNTAGGED_QUEUE    1202 UNTAGGED_NO_BUFFER 1203 UNTAGGED_MSN       1204 UNTAGGED_MO
1205 UNTAGGED_TOO_LONG 1206 UNTAGGED_VERSION
2001 MPA_CLOSED        2002 MPA_CRC            2003 MPA_MARKER         2004 MPA_FRAME       2005 MPA_CATASTROPHIC
2006 INSUFFICIENT_IRD  2007 NO_MATCHING_RTR
"""


@pytest.mark.req("DDP-18")
def test_codes_have_the_numbers_of_the_specifications() -> None:
    words = CODES.split()
    assert {code.name: f"{code.value:04X}" for code in Code} == dict(zip(words[1::2], words[::2], strict=True))


@each_case("code", Code)
def test_each_code_has_words_of_its_own(code: Code) -> None:
    words = TerminateMessage(code=code).words
    assert words.endswith(f" ({code >> 12}/{code >> 8 & 15}/{code & 255:02x})")
    assert not words.startswith("unknown")
    assert sum(TerminateMessage(code=other).words.split(" (")[0] == words.split(" (")[0] for other in Code) == 1


def test_a_code_without_a_definition_is_shown_as_its_numbers() -> None:
    assert TerminateMessage(code=0x2FAB).words == "unknown error (2/15/ab)"


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
        ({"startup_timeout_s": 0.0}, "startup_timeout_s"),
        ({"startup_timeout_s": -1.0}, "startup_timeout_s"),
        ({"nudge_after_s": -0.001}, "nudge_after_s"),
        ({"startup_timeout_s": math.nan}, "startup_timeout_s"),
        ({"nudge_after_s": math.nan}, "nudge_after_s"),
        ({"ready_frames": ReadyFrame(0)}, "ready_frames"),
        ({"peer_to_peer": True, "enhanced": False}, "peer_to_peer"),
    ],
)
def test_a_setting_beyond_its_bound_is_named(settings: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}"):
        IwarpConfig(**settings)  # type: ignore[arg-type]
