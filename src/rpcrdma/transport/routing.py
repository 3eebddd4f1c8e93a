"""The handler of each received message, as a table; other messages are silently discarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from rpcrdma.transport.config import Role
from rpcrdma.transport.extensions import Extensions
from rpcrdma.transport.introduction import Introduction
from rpcrdma.transport.message import Inbound, Kind
from rpcrdma.transport.negotiation import State
from rpcrdma.transport.requester import Requester
from rpcrdma.transport.responder import Responder

__all__ = ["ROUTES", "Halves", "Handler", "Route", "routes"]

Handler: TypeAlias = Callable[[Inbound, int | None], bool]
"""Handles (message, invalidated handle); False to discard the message."""


class Halves(NamedTuple):
    """The handlers of one end: its requester and responder, None for an unused direction.

    The others are the beginning of the connection, and its extensions, if any.
    """

    requester: Requester | None
    responder: Responder | None
    introduction: Introduction
    extensions: Extensions | None


Route: TypeAlias = Callable[[Halves], Handler | None]


def _called(halves: Halves) -> Handler | None:
    return None if halves.responder is None else halves.responder.on_call


def _answered(halves: Halves) -> Handler | None:
    return None if halves.requester is None else halves.requester.on_reply


def _refused(halves: Halves) -> Handler | None:
    return None if halves.requester is None else halves.requester.on_refused


def _unreadable(halves: Halves) -> Handler | None:
    return None if halves.responder is None else halves.responder.on_unreadable


def _unreadable_call(halves: Halves) -> Handler | None:
    return None if halves.responder is None else halves.responder.on_unreadable_call


def _told(halves: Halves) -> Handler | None:
    return halves.introduction.on_properties


def _not_taken(halves: Halves) -> Handler | None:
    return halves.introduction.on_refused


def _granted(halves: Halves) -> Handler | None:
    return halves.introduction.on_grant


def _continued(halves: Halves) -> Handler | None:
    return halves.introduction.on_piece


def _extended(halves: Halves) -> Handler | None:
    return None if halves.extensions is None else halves.extensions.on_message


_WITH_PROPERTIES = (State.INTRODUCING, State.AUTHENTICATING, State.OPEN)

ROUTES: Mapping[tuple[Kind, Role, State], Route] = {
    (Kind.CALL, Role.SERVER, State.OPEN): _called,
    (Kind.CALL, Role.CLIENT, State.OPEN): _called,
    (Kind.REPLY, Role.SERVER, State.OPEN): _answered,
    (Kind.REPLY, Role.CLIENT, State.OPEN): _answered,
    (Kind.ERROR, Role.SERVER, State.OPEN): _refused,
    (Kind.ERROR, Role.CLIENT, State.OPEN): _refused,
    (Kind.ERROR, Role.CLIENT, State.INTRODUCING): _not_taken,
    (Kind.ERROR, Role.CLIENT, State.AUTHENTICATING): _not_taken,
    (Kind.EXTENSION, Role.SERVER, State.OPEN): _extended,
    (Kind.EXTENSION, Role.CLIENT, State.OPEN): _extended,
    # A server answers, as a responder must; a client discards, as a requester must, all but certain calls.
    (Kind.UNREADABLE, Role.CLIENT, State.OPEN): _unreadable_call,
    (Kind.UNREADABLE, Role.SERVER, State.AWAITING): _unreadable,
    **{(Kind.UNREADABLE, Role.SERVER, state): _unreadable for state in _WITH_PROPERTIES},
    **{(Kind.PROPERTIES, role, state): _told for role in Role for state in _WITH_PROPERTIES},
    **{(Kind.GRANT, role, state): _granted for role in Role for state in _WITH_PROPERTIES},
    **{(Kind.PIECE, role, state): _continued for role in Role for state in _WITH_PROPERTIES},
}


def routes(role: Role, state: State, halves: Halves) -> list[Handler | None]:
    """Returns the handlers of one end in one state, indexed by the kind of the message."""
    found = (ROUTES.get((kind, role, state)) for kind in Kind)
    return [None if route is None else route(halves) for route in found]
