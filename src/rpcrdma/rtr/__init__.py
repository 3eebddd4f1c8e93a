"""The round-trip extension of version 2: messages in several Sends, and data placed by Sends.

The extension implements draft-dnoveck-nfsv4-rpcrdma-rtrext-01, with the defects of its XDR corrected, and its code
points moved to 0x101 and up, which the protocol does not use. It builds on the exports of `rpcrdma.transport`, like any
extension.
"""

from rpcrdma.rtr.config import EXTENSION_CHOICES, Costs, Preference, RoundTripConfig, extension_choice
from rpcrdma.rtr.extension import RoundTrip, all_extensions

__all__ = [
    "EXTENSION_CHOICES",
    "Costs",
    "Preference",
    "RoundTrip",
    "RoundTripConfig",
    "all_extensions",
    "extension_choice",
]
