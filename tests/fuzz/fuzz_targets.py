"""Every fuzz target."""

from __future__ import annotations

from decoder_targets import DECODERS
from definition_targets import DEFINITIONS
from dialect_targets import DIALECTS
from dissect_targets import DISSECTORS
from endpoint_targets import ENDPOINT_MACHINES
from gss_targets import GSS
from host_targets import HOST_MACHINES
from iwarp_targets import IWARP_MACHINES
from message_endpoint_targets import MESSAGE_ENDPOINT_MACHINES
from nfs4_conversation_targets import NFS4_CONVERSATIONS
from nfs4_targets import NFS4
from rtr_targets import ROUND_TRIP
from transmission_targets import TRANSMISSION_MACHINES

TARGETS = [
    *DECODERS,
    *DEFINITIONS,
    *DISSECTORS,
    *DIALECTS,
    *ROUND_TRIP,
    *IWARP_MACHINES,
    *ENDPOINT_MACHINES,
    *MESSAGE_ENDPOINT_MACHINES,
    *TRANSMISSION_MACHINES,
    *HOST_MACHINES,
    *GSS,
    *NFS4,
    *NFS4_CONVERSATIONS,
]
