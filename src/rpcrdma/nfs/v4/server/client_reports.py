"""The clients of a server of version 4 as its administrator sees them, and the revocation of one client's state.

The functions hold the lock of the state for the copy of one client's states at a time, which takes the longest client
0.1 ms: calls go on in between. They may be called in any thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from rpcrdma.nfs.export.file_handle import HandleSeal
from rpcrdma.nfs.v4.server.clients import Client, Held, Holdings
from rpcrdma.nfs.v4.server.sessions import Nfs4Session
from rpcrdma.nfs.v4.server.state import State
from rpcrdma.nfs.v4.session_slots import SlotState

__all__ = ["ClientReport", "clients_of", "held_by_export", "revoke_client"]

_NAME_OCTETS_MAX: Final = 128
"""Octets of a client's own name that are shown: Linux's has some 40, with its version, host and a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """A client of the server as its administrator sees it, which `clients_of` makes."""

    id: str
    """The client id, in 16 hexadecimal digits."""
    address: str
    """The network address from which the client sent its EXCHANGE_ID."""
    name: str
    """The owner string of the client (`co_ownerid`), at most 128 octets, with octets that are not ASCII escaped."""
    principal: str
    state: str
    """The value of the client's `ClientState`, such as "confirmed"."""
    versions: tuple[str, ...]
    """The versions of NFS of the client's sessions, such as "4.2"."""
    sessions: int
    slots: int
    slots_in_use: int
    calls: int
    """The number of COMPOUNDs that ran in the slots of the client's present sessions, modulo 2^32 for each slot."""
    holdings: Holdings
    revoked: int
    """The number of states that the client has lost and whose stateids it has not freed yet."""
    silent_s: float
    """The seconds since the client renewed its lease."""


def clients_of(state: State, now_s: float) -> list[ClientReport]:
    """Returns a report on each client.

    First makes clients whose lease has passed by `now_s` courteous (they keep their state for now), or ends them if
    they are unconfirmed. Takes the lock of the state for one client at a time; calls may run in between.

    Args:
        state: the state of the server; the caller does not hold its lock.
        now_s: the present time in seconds, by the monotonic clock of `state`.

    Returns:
        The reports, in the order in which the clients became known.
    """
    return [_report(client, *_copied(state, client), now_s) for client in _clients(state, now_s)]


def held_by_export(state: State, now_s: float) -> dict[bytes, Holdings]:
    """Counts the opens, locked ranges and delegations of all clients by export, without revoked ones.

    First makes clients courteous whose lease has passed by `now_s`: they keep what they hold, and count.

    Args:
        state: the state of the server; the caller does not hold its lock.
        now_s: the present time in seconds, by the monotonic clock of `state`.

    Returns:
        The three numbers, by the four octets that name the export in its filehandles (`HandleSeal.export_in`). Exports
            on which clients have no states are left out.
    """
    found: defaultdict[bytes, Holdings] = defaultdict(Holdings)
    for client in _clients(state, now_s):
        for held in _copied(state, client)[0]:
            found[HandleSeal.export_in(held.handle)].add(held)
    return found


def revoke_client(state: State, number: str, now_s: float) -> ClientReport | None:
    """Revokes the opens, locks and delegations of a client, or ends a client whose lease has passed; may block.

    Raises OSError if the disk does not delete the client from the recovery database; then nothing is revoked.

    Args:
        state: the state of the server; the caller does not hold its lock.
        number: the client id, in 16 hexadecimal digits (`ClientReport.id`).
        now_s: the present time in seconds, by the monotonic clock of `state`.

    Returns:
        The report on the client before this call, whose `holdings` count the states that this call has revoked or
            ended; None if there is no such client.
    """
    client = next((each for each in _clients(state, now_s) if _number(each) == number), None)
    if client is None:
        return None
    found = _report(client, *_copied(state, client), now_s)
    lost = state.revoke_all(client)
    if lost is None:
        raise OSError("the disk does not delete the client, and nothing was revoked; free space on the disk")
    return replace(found, holdings=lost)


def _number(client: Client) -> str:
    return f"{client.id:016x}"


def _clients(state: State, now_s: float) -> list[Client]:
    with state.locked():
        state.clients.pass_leases(now_s)
        return list(state.clients.by_id.values())


def _copied(state: State, client: Client) -> tuple[list[Held], list[Nfs4Session]]:
    """Returns lists of the states (revoked ones included) and the sessions of a client; takes the lock of the state."""
    with state.lock:
        return list(client.held.values()), [state.sessions.find(number) for number in client.sessions]


def _report(client: Client, held: Iterable[Held], sessions: list[Nfs4Session], now_s: float) -> ClientReport:
    holdings = Holdings()
    for each in held:
        holdings.add(each)
    slots = [slot for session in sessions for slot in session.slots]
    owner = client.introduction.owner
    return ClientReport(
        id=_number(client),
        address=client.introduction.address,
        name=repr(owner[:_NAME_OCTETS_MAX])[2:-1] + ("..." if len(owner) > _NAME_OCTETS_MAX else ""),
        principal=client.introduction.principal,
        state=client.state.value,
        versions=tuple(sorted({f"4.{session.back_channel.minor_version}" for session in sessions})),
        sessions=len(sessions),
        slots=len(slots),
        slots_in_use=sum(slot.state is SlotState.BUSY for slot in slots),
        calls=sum(slot.sequence for slot in slots),
        holdings=holdings,
        revoked=sum(client.lost.values()),
        silent_s=max(0.0, now_s - client.renewed_s),
    )
