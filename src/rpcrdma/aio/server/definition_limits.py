"""Compares definitions of programs with the longest calls and replies that a server takes and sends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from rpcrdma.rpc.message import CALL_HEADER_OCTETS, REPLY_HEADER_OCTETS
from rpcrdma.rpc.program import OctetsMax
from rpcrdma.rpc.service import Service
from rpcrdma.transport import TransportConfig

__all__ = ["MessageLimit", "limits_over_rdma", "limits_over_tcp", "messages_refused"]


_INLINE_OCTETS = 4096
"""The largest message that peers such as Linux send inline, however large the receives are."""


class MessageLimit(NamedTuple):
    """A server's limit on the octets of calls or replies over one transport."""

    part: Literal["calls", "replies"]
    transport: str
    inline_octets: int
    """Headers and arguments beside bulk items do not count if they have no more octets than this: they go inline."""
    octets: int
    """The limit in octets."""
    setting: str
    """The parameter of the Python interface that sets the limit."""


def limits_over_rdma(config: TransportConfig, memory_octets_max: int) -> list[MessageLimit]:
    """Returns a list of one limit, on calls: the lower of `config.call_octets_pulled_max` and `memory_octets_max`.

    There is none on replies: over RDMA each call states the largest reply. `memory_octets_max` is that of
    `ServeOptions`.
    """
    limit = min(
        (config.call_octets_pulled_max, "RdmaServerConfig(transport=TransportConfig(call_octets_pulled_max=...))"),
        (memory_octets_max, "ServeOptions(memory_octets_max=...)"),
    )
    return [MessageLimit("calls", "RDMA", min(config.inline_receive_octets, _INLINE_OCTETS), *limit)]


def limits_over_tcp(record_octets_max: int) -> list[MessageLimit]:
    """Returns the limits on calls and on replies over TCP, in this order, both `record_octets_max` octets."""
    limit = record_octets_max, "TcpServerConfig(record_octets_max=...)"
    return [MessageLimit("calls", "TCP", 0, *limit), MessageLimit("replies", "TCP", 0, *limit)]


def messages_refused(service: Service, limits: Iterable[MessageLimit]) -> str:
    """Returns clauses, joined by "; ", on the limits that messages of `service` can exceed by its definition.

    There is one clause for each exceeded limit, about the procedure with the longest message; "" if none is exceeded.
    Left out are services with `OWN_LIMITS`, procedures that the service does not offer, and arguments and results to
    which the definition sets no bound, since these exceed any limit.
    """
    if service.OWN_LIMITS:
        return ""
    refused = []
    for limit in limits:
        beyond = [(octets, name) for name, most in _offered(service) if (octets := _beyond(limit, most))]
        if beyond:
            octets, name = max(beyond)
            what = f"{limit.part} of up to {octets} octets over {limit.transport}"
            refused.append(f"{name} with {what}, where {limit.setting} is {limit.octets}")
    return "; ".join(refused)


def _offered(service: Service) -> list[tuple[str, OctetsMax]]:
    """Returns (name, bounds) for each procedure whose method the service overrides, so that it offers the procedure.

    The bounds are octets of arguments, of their bulk items, and of results. Procedures without bounds (`octets_max`
    None) are left out.
    """
    program, kind = service.PROGRAM, type(service)
    base = next(each for each in kind.__mro__ if Service in each.__bases__)
    generated = base if base.__name__ == f"{program.name}_Service" else Service
    return [
        (each.name, each.octets_max)
        for each in program.procedures.values()
        if each.octets_max is not None and getattr(kind, each.method, None) is not getattr(generated, each.method, None)
    ]


def _beyond(limit: MessageLimit, most: OctetsMax) -> int:
    """Returns the octets of the longest call or reply (`limit.part`) of a procedure if they exceed `limit`; else 0.

    `most` has the bounds of the procedure's definition; without a bound 0 is returned. Octets beside bulk items do not
    count against the limit if they are sent inline, that is if there are at most `limit.inline_octets` of them.
    """
    if limit.part == "calls":
        octets, bulk, header = most.arguments, most.bulk_arguments, CALL_HEADER_OCTETS
    else:
        octets, bulk, header = most.results, 0, REPLY_HEADER_OCTETS
    if octets is None:
        return 0
    rest = header + octets - bulk
    return bulk + rest if bulk + rest * (rest > limit.inline_octets) > limit.octets else 0
