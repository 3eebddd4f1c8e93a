"""Settings of the transport: their bounds, to the last octet, and their defaults."""

from __future__ import annotations

from dataclasses import fields
from math import nan
from typing import Any

import pytest

from rpcrdma import limits
from rpcrdma.transport.config import OFFERED_OCTETS_MIN, TransportConfig
from rpcrdma.transport.private_data import decode_private_data
from support.cases import each_case

WORD_MAX = (1 << 32) - 1

DEFAULTS: dict[str, Any] = {
    "inline_send_octets": 36864,
    "inline_receive_octets": 36864,
    "offered_send_octets": 36 << 10,
    "offered_receive_octets": 36 << 10,
    "in_messages_octets_max": None,
    "credits_requested": 256,
    "credits_granted": 128,
    "reverse_credits_requested": 16,
    "reverse_credits_granted": 16,
    "reverse_chunks": False,
    "segment_octets_max": 1 << 20,
    "read_chunks_max": limits.READ_CHUNKS_MAX - 1,
    "remote_invalidation": True,
    "call_octets_pulled_max": limits.CALL_OCTETS_PULLED_MAX,
    "reply_octets_max": limits.REPLY_OCTETS_MAX,
    "stalled_s": limits.RDMA_STALLED_S,
}


def test_settings_that_are_not_given_have_the_values_of_the_manual() -> None:
    config = TransportConfig()
    assert {field.name: getattr(config, field.name) for field in fields(config)} == DEFAULTS
    assert OFFERED_OCTETS_MIN == 4096


@pytest.mark.req("V1-3", "V2-8")
@each_case(
    ("name", "taken", "refused"),
    [
        ("inline_send_octets", [1024, 2048, 4096, 262144], [0, 1023, 1025, 1536, 262143, 262145, 263168]),
        ("inline_receive_octets", [1024, 2048, 4096, 262144], [0, 1023, 1025, 1536, 262143, 262145, 263168]),
        ("offered_send_octets", [4096, 4097, 262143, 262144], [0, 1024, 4095, 262145]),
        ("offered_receive_octets", [4096, 4097, 262143, 262144], [0, 1024, 4095, 262145]),
        ("credits_requested", [1, 2, WORD_MAX], [-1, 0, WORD_MAX + 1]),
        ("credits_granted", [1, 2, WORD_MAX], [-1, 0, WORD_MAX + 1]),
        ("reverse_credits_requested", [1, 2, WORD_MAX], [-1, 0, WORD_MAX + 1]),
        ("reverse_credits_granted", [1, 2, WORD_MAX], [-1, 0, WORD_MAX + 1]),
        ("segment_octets_max", [1, 2, WORD_MAX], [-1, 0, WORD_MAX + 1]),
        ("read_chunks_max", [0, 1], [-1]),
        ("call_octets_pulled_max", [1, 2], [-1, 0]),
        ("reply_octets_max", [1, 2], [-1, 0]),
        ("in_messages_octets_max", [None, 0, 1], [-1]),
        ("stalled_s", [0.5, 1.0], [0.0, -0.5, nan]),
    ],
)
def test_each_setting_has_its_bounds(name: str, taken: list[Any], refused: list[Any]) -> None:
    for value in taken:
        assert getattr(TransportConfig(**{name: value}), name) == value
    for value in refused:
        with pytest.raises(ValueError, match=f"^{name} must be "):
            TransportConfig(**{name: value})


@each_case("invalidation", [False, True])
@each_case(("send", "receive"), [(1024, 4096), (8192, 2048), (262144, 262144)])
def test_the_peer_is_told_the_inline_sizes_and_nothing_else(send: int, receive: int, invalidation: bool) -> None:
    config = TransportConfig(inline_send_octets=send, inline_receive_octets=receive, remote_invalidation=invalidation)
    told = decode_private_data(config.private_data())
    assert told == config.abilities == (invalidation, send, receive)
