"""What users choose: whether the extension is offered, and how it is used."""

from __future__ import annotations

from collections.abc import Sequence

from rpcrdma.rtr.choice import Preference
from rpcrdma.rtr.config import RoundTripConfig
from rpcrdma.rtr.extension import NAME, RoundTrip
from rpcrdma.transport import Extension, TransportConfig, check_extensions

__all__ = ["EXTENSION_CHOICES", "all_extensions", "extension_choice"]

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


def all_extensions(choice: str, transport: TransportConfig, others: Sequence[Extension]) -> list[Extension]:
    """The round-trip extension as chosen, for connections with these settings, and `others`.

    It is left out for "off", and where a user has made it with settings of its own.

    Raises:
        ValueError: see `extension_choice`.
        LocalProtocolError: extensions use the same codes.
    """
    extensions = list(others)
    if extension_choice(choice) != "off" and all(other.name != NAME for other in others):
        config = RoundTripConfig(preference=_PREFERENCES[choice])
        extensions.append(RoundTrip(config, receive_octets=transport.offered_receive_octets).extension)
    check_extensions(extensions)
    return extensions
