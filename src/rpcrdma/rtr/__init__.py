"""The round-trip extension of version 2: messages continued over several Sends, and data placed by Sends.

draft-dnoveck-nfsv4-rpcrdma-rtrext-01, with the defects of its XDR corrected and its code points moved to 0x101 and up,
where nothing of the protocol is. It is an extension like any other: it uses what `rpcrdma.transport` exports.
"""

from rpcrdma.rtr.choice import Costs, Preference
from rpcrdma.rtr.config import RoundTripConfig
from rpcrdma.rtr.extension import RoundTrip
from rpcrdma.rtr.offer import EXTENSION_CHOICES, all_extensions, extension_choice

__all__ = [
    "EXTENSION_CHOICES",
    "Costs",
    "Preference",
    "RoundTrip",
    "RoundTripConfig",
    "all_extensions",
    "extension_choice",
]
