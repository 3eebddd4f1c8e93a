"""How TLS protects a connection (RFC 9289 section 4.2), in the words of Linux's mount option `xprtsec`."""

from __future__ import annotations

from typing import Final, Literal, get_args

__all__ = ["XPRTSEC_CHOICES", "XprtSec", "protects"]

XprtSec = Literal["none", "tls", "mtls"]
"""No protection; TLS with the certificate of the server; TLS with the certificates of both hosts."""
XPRTSEC_CHOICES: Final[tuple[XprtSec, ...]] = get_args(XprtSec)
"""From the weakest to the strongest."""


def protects(present: XprtSec, wanted: XprtSec) -> bool:
    """Returns whether a connection with the protection `present` is good enough for a use that asks for `wanted`."""
    return XPRTSEC_CHOICES.index(present) >= XPRTSEC_CHOICES.index(wanted)
