"""What users choose: whether the extension is offered, and how it is used."""

from __future__ import annotations

from rpcrdma.rtr.choice import Preference
from rpcrdma.rtr.config import RoundTripConfig
from rpcrdma.rtr.extension import RoundTrip
from rpcrdma.transport import Extension, TransportConfig

__all__ = ["EXTENSION_CHOICES", "extension_choice", "round_trips"]

EXTENSION_CHOICES = ("auto", "rtr", "off")
_PREFERENCES = {"auto": Preference.AUTO, "rtr": Preference.SEGMENTS}


def extension_choice(choice: str) -> str:
    """`choice` itself.

    Raises:
        ValueError: it is none of `EXTENSION_CHOICES`.
    """
    if choice not in EXTENSION_CHOICES:
        raise ValueError(f"extension {choice!r}: choose one of {', '.join(EXTENSION_CHOICES)}")
    return choice


def round_trips(choice: str, transport: TransportConfig) -> list[Extension]:
    """The round-trip extension as chosen, for connections with these settings; nothing for "off".

    Raises:
        ValueError: see `extension_choice`.
    """
    if extension_choice(choice) == "off":
        return []
    config = RoundTripConfig(preference=_PREFERENCES[choice])
    return [RoundTrip(config, receive_octets=transport.offered_receive_octets).extension]
