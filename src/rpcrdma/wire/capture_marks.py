"""The mark of an end in a packet capture whose mistakes are deliberate."""

from __future__ import annotations

__all__ = ["DELIBERATE"]

DELIBERATE = bytes.fromhex("fd08 52504d4b 0100")
"""A TCP option in a recorded SYN: the end that sends it makes mistakes on purpose, as `check` and `send` do.

Option 253 is for experiments, and "RPMK" the identifier of this one (RFC 6994 section 3). No real packet has it: the
packets of our captures are made of the octets of a stream.
"""
