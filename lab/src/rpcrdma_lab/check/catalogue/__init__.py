"""All checks, by the parts of the protocol that they test; each check is data.

Shared by the functions that make checks: `name` is the check's identifier, or what follows the prefix of its family,
and `title` its expected behaviour as text. `statements` and `needs` are identifiers of the tested statements and of the
check's conditions, separated by spaces. `conversation` has further keys of the conversation (docs/send.md).
"""

from __future__ import annotations

from rpcrdma_lab.check.catalogue import (
    calls,
    chunks,
    clients,
    clients_credits,
    clients_reverse,
    clients_round_trips,
    clients_version_2,
    frames,
    headers,
    reverse,
    round_trips,
    start_up,
    version_2,
    version_2_headers,
)
from rpcrdma_lab.check.entry import Check

__all__ = ["CATALOGUE", "CLIENT_CATALOGUE"]

CATALOGUE: tuple[Check, ...] = (
    *start_up.CHECKS,
    *frames.CHECKS,
    *headers.CHECKS,
    *calls.CHECKS,
    *chunks.CHECKS,
    *version_2_headers.CHECKS,
    *version_2.CHECKS,
    *round_trips.CHECKS,
    *reverse.CHECKS,
)
"""The checks of servers in the order in which they run."""

# The last checks of version 2 refuse it, after which a client may speak version 1.
CLIENT_CATALOGUE: tuple[Check, ...] = (
    *clients.CLIENT_CHECKS,
    *clients_reverse.CLIENT_CHECKS,
    *clients_credits.CLIENT_CHECKS,
    *clients_round_trips.CLIENT_CHECKS,
    *clients_version_2.CLIENT_CHECKS,
)
"""The checks of clients in the order in which their connections meet them."""
