"""Every fuzz target."""

from __future__ import annotations

from decoder_targets import DECODERS
from dialect_targets import DIALECTS
from dissect_targets import DISSECTORS
from endpoint_targets import ENDPOINT_MACHINES
from iwarp_targets import IWARP_MACHINES

TARGETS = [*DECODERS, *DISSECTORS, *DIALECTS, *IWARP_MACHINES, *ENDPOINT_MACHINES]
