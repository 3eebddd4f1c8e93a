"""The handler of each received message, as a table; other messages are silently discarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MethodType
from typing import NamedTuple, TypeAlias, TypeVar

from rpcrdma.transport.config import Role
from rpcrdma.transport.connection_extensions import Extensions
from rpcrdma.transport.connection_states import State
from rpcrdma.transport.introduction import Introduction
from rpcrdma.transport.message import Inbound, Kind
from rpcrdma.transport.requester import Requester
from rpcrdma.transport.responder import Responder

__all__ = ["ROUTES", "Halves", "Handler", "Route", "routes"]

Handler: TypeAlias = Callable[[Inbound, int | None], bool]
"""A function that handles a message: gets the message and the handle that its Send invalidated, or None; returns False
if it has not: `_on_unclaimed` of the endpoint then discards most messages, and ends the connection for a handle."""


class Halves(NamedTuple):
    """The objects of one endpoint that handle received messages.

    `requester` and `responder` are None for a direction without calls, `extensions` is None without any; `introduction`
    handles the beginning of the connection.
    """

    requester: Requester | None
    responder: Responder | None
    introduction: Introduction
    extensions: Extensions | None


Route: TypeAlias = Callable[[Halves], Handler | None]


Half = TypeVar("Half")


def _route(half: Callable[[Halves], Half | None], method: Callable[[Half, Inbound, int | None], bool]) -> Route:
    """Makes a function that returns, for the `Halves` of an endpoint, `method` bound to one of these objects.

    `half` selects the object. The function returns None for an endpoint without this object.
    """

    def handler(halves: Halves) -> Handler | None:
        owner = half(halves)
        return None if owner is None else MethodType(method, owner)

    return handler


_called = _route(lambda halves: halves.responder, Responder.on_call)
_answered = _route(lambda halves: halves.requester, Requester.on_reply)
_refused = _route(lambda halves: halves.requester, Requester.on_refused)
_unreadable = _route(lambda halves: halves.responder, Responder.on_unreadable)
_unreadable_call = _route(lambda halves: halves.responder, Responder.on_unreadable_call)
_told = _route(lambda halves: halves.introduction, Introduction.on_properties)
_not_taken = _route(lambda halves: halves.introduction, Introduction.on_refused)
_granted = _route(lambda halves: halves.introduction, Introduction.on_grant)
_continued = _route(lambda halves: halves.introduction, Introduction.on_piece)
_extended = _route(lambda halves: halves.extensions, Extensions.on_message)

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
    """Returns the functions of `halves`, the parts of an endpoint, for messages received in one state, by `Kind`.

    The list is indexed by `Kind`. None in place of a function: messages of this kind are left to `_on_unclaimed` of the
    endpoint, which discards most.
    """
    found = (ROUTES.get((kind, role, state)) for kind in Kind)
    return [None if route is None else route(halves) for route in found]
