"""Whether the hosts of a connection authenticate each other."""

from __future__ import annotations

import enum
from collections.abc import Mapping

__all__ = ["TAKES_PART", "HostPolicy"]


class HostPolicy(enum.Enum):
    """The policy of one side for the mutual authentication of the hosts of a connection."""

    OFF = "off"
    OPTIONAL = "optional"
    """The hosts authenticate if the peer takes part; then a failure ends the connection."""
    REQUIRED = "required"


TAKES_PART: Mapping[tuple[HostPolicy, bool], bool | None] = {
    (HostPolicy.OFF, False): False,
    (HostPolicy.OFF, True): False,
    (HostPolicy.OPTIONAL, False): False,
    (HostPolicy.OPTIONAL, True): True,
    (HostPolicy.REQUIRED, False): None,
    (HostPolicy.REQUIRED, True): True,
}
"""Whether the hosts authenticate, by this side's policy and by whether the peer has announced that it takes part; None:
the connection ends."""
