"""Registers the programs of a server at this machine's rpcbind (RFC 1833), over its local socket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers.sockets import connected_socket, local_socket
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import ConnectFailed, LocalProtocolError, RpcRdmaError
from rpcrdma.limits import RPCBIND_ANSWERS_S, RPCBIND_LOOK_S, RPCBIND_OTHER_SERVER_S
from rpcrdma.nfs import mount, port_mapper, v3
from rpcrdma.nfs.universal_address import host_in, port_in, universal_address
from rpcrdma.rpc.program import Program
from rpcrdma.wire.peer_text import printable

__all__ = ["ProgramNetid", "RegisteredPrograms", "places_of"]

_LOGGER = logging.getLogger("rpcrdma.server")

_RPCBIND_SOCKET: Final = "/run/rpcbind.sock"
_NFS = v3.NFS_V3.number
_MOUNT = mount.MOUNT_V3.number
_NAMES = {_NFS: "NFS", _MOUNT: "MOUNT"}
_USUAL_PORTS = {(_NFS, "tcp"): 2049, (_NFS, "rdma"): 20049, (_MOUNT, "tcp"): 20048}
"""The ports that clients expect, by program number and URL scheme; a listener there is preferred to others."""
_SUPERUSER = "superuser"
"""rpcbind's name for the owner with UID 0; its name for another owner is the UID."""


class ProgramNetid(NamedTuple):
    """The key of a registration at rpcbind (RFC 1833): the numbers of a program and its version, and a netid.

    The network identifier `netid` is "tcp", "tcp6", "rdma" or "rdma6".
    """

    program: int
    version: int
    netid: str

    def __str__(self) -> str:
        return f"{_NAMES.get(self.program, self.program)} {self.version} over {self.netid}"


def places_of(
    programs: Iterable[Program], listening: Sequence[str], *, loopback: bool = True
) -> dict[ProgramNetid, str]:
    """Returns the universal addresses (RFC 5665 section 5.2.3) to register for an NFS server.

    The key of each is (program, version, netid). NFS is registered over TCP and RDMA, MOUNT over TCP alone, where all
    clients of version 3 ask for it. Of several addresses of one transport, a wildcard address is preferred, then the
    port that clients expect; "::" stands for IPv4 as well. A loopback address is taken only if there is no other, a
    link-local address never. Raises LocalProtocolError (a URL is malformed) or ValueError (a URL has a host name).

    Args:
        programs: the programs of the server; programs other than NFS and MOUNT are left out.
        listening: the URLs at which the server listens, with IP addresses in place of host names.
        loopback: whether loopback addresses, which only this machine reaches, are registered.
    """
    best: dict[ProgramNetid, tuple[tuple[bool, bool, bool], str]] = {}
    for program in programs:
        for listener in listening:
            url = parse_url(listener, listens=True)
            if program.number not in _NAMES or (program.number == _MOUNT and url.scheme == "rdma"):
                continue
            usual = _USUAL_PORTS[program.number, url.scheme]
            for host in (url.host, "0.0.0.0") if url.host == "::" else (url.host,):  # noqa: S104 - no socket is bound
                address = ip_address(host)
                if address.is_link_local or (address.is_loopback and not loopback):
                    continue
                netid = f"{url.scheme}6" if isinstance(address, IPv6Address) else url.scheme
                rank = (address.is_loopback, not address.is_unspecified, url.port != usual)
                place = ProgramNetid(program.number, program.version, netid)
                found = (rank, universal_address(host, url.port))
                if place not in best or rank < best[place][0]:
                    best[place] = found
    return {place: address for place, (_, address) in best.items()}


class RegisteredPrograms:
    """Keeps the programs of a server registered at this machine's rpcbind, from `start` to `close`.

    A task compares the registrations with the server's addresses every `RPCBIND_LOOK_S` (60) seconds. rpcbind has an
    owner for each registration, the user who made it. A registration of the same user at another address is replaced
    unless a server answers there over TCP: then no registration of that version of the program is made. A registration
    of another user is replaced, with a warning, if this process runs as root, and stays otherwise. A registration that
    is not made is a fault, which `start` or the task reports.

    Args:
        programs: the programs of the server; programs other than NFS and MOUNT are left out.
        listening: the URLs at which the server listens; the caller may change the list, which is read for each
            comparison.
        loopback: whether loopback addresses are registered.
        owner: rpcbind's name for the user of this process: the UID in decimal, or "superuser"; None determines it.
    """

    def __init__(
        self, programs: Sequence[Program], listening: Sequence[str], *, loopback: bool = True, owner: str | None = None
    ) -> None:
        self._programs = programs
        self._listening = listening
        self._loopback = loopback
        self._owner = owner or (str(os.geteuid()) if os.geteuid() else _SUPERUSER)
        self._held: dict[ProgramNetid, str] = {}
        self._faults: list[str] = []
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def held(self) -> Mapping[ProgramNetid, str]:
        """A copy of this server's registrations, as far as rpcbind has answered, with their universal addresses.

        One whose call got no answer is among them, since rpcbind may have it.
        """
        return dict(self._held)

    @property
    def complete(self) -> bool:
        """Whether rpcbind had all wanted registrations after the last comparison; False if none was wanted."""
        return bool(self._held) and not self._faults

    async def start(self, *, required: bool) -> None:
        """Registers the programs at rpcbind, and starts the task that keeps them registered there until `close`.

        Raises ConnectFailed, only with `required`: a program could not be registered; the others are removed again, no
        task is started, and the message names cause and remedy.

        Args:
            required: whether a fault is raised; else it is logged, and the task tries again.
        """
        try:
            faults = await self._look()
        except BaseException:
            await self.close()
            raise
        if required and faults:
            await self.close()
            raise ConnectFailed(faults[0])
        self._tell(faults)
        self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Ends the task, and removes the registrations that still lead to this server.

        If rpcbind fails, or does not answer within `RPCBIND_ANSWERS_S` (3) seconds, they stay there, and a warning is
        logged.
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if not self._held:
            return
        try:
            async with asyncio.timeout(RPCBIND_ANSWERS_S), self._rpcbind() as rpcbind:
                await self._remove(rpcbind, await _listed(rpcbind), list(self._held))
        except (RpcRdmaError, OSError) as error:
            _LOGGER.warning("registrations stay at rpcbind, and mislead clients: %s", self._cause(error))

    def look_soon(self) -> None:
        """Lets the task compare the registrations at once, after a change of the URLs at which the server listens.

        Returns without waiting for the comparison. To be called in the event loop.
        """
        self._changed.set()

    async def _keep(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RPCBIND_LOOK_S):
                    await self._changed.wait()
            self._changed.clear()
            self._tell(await self._look())

    def _tell(self, faults: list[str]) -> None:
        """Keeps `faults`, texts, for `complete`; logs each of them unless the list equals that of the last call."""
        if faults != self._faults:
            self._faults = faults
            for fault in faults:
                _LOGGER.warning("%s", fault)

    async def _look(self) -> list[str]:
        """Connects to rpcbind, and changes its registrations by `_compare`.

        A failure of rpcbind is a fault, too, and so is a URL of the server that is malformed or has a host name.

        Returns:
            Texts of the faults for the log, each with its remedy; empty if all wanted programs are registered.
        """
        try:
            wanted = places_of(self._programs, self._listening, loopback=self._loopback)
        except (LocalProtocolError, ValueError) as error:
            return [f"no program can be registered: {error}; name the server's URLs with IP addresses"]
        try:
            async with asyncio.timeout(RPCBIND_ANSWERS_S), self._rpcbind() as rpcbind:
                return await self._compare(rpcbind, wanted)
        except (RpcRdmaError, OSError) as error:
            return [f"{self._cause(error)}; {'start' if isinstance(error, ConnectFailed) else 'restart'} rpcbind"]

    def _rpcbind(self) -> TcpConnection:
        return TcpConnection(local_socket(_RPCBIND_SOCKET), active=True, results=BufferPool(), arguments=BufferPool())

    def _cause(self, error: Exception) -> str:
        if isinstance(error, ConnectFailed):
            return f"there is no rpcbind: {error}"
        cause = f"no answer within {RPCBIND_ANSWERS_S:g} s" if isinstance(error, TimeoutError) else str(error)
        return f"rpcbind at {_RPCBIND_SOCKET} fails: {cause}"

    def _is_ours(self, present: port_mapper.binding | None, address: str) -> bool:
        return present is not None and (present.addr, present.owner) == (address, self._owner)

    async def _compare(self, rpcbind: TcpConnection, wanted: Mapping[ProgramNetid, str]) -> list[str]:
        """Registers wanted programs that rpcbind lacks or has for others; removes own registrations no longer wanted.

        `rpcbind` is a connection, `wanted` a result of `places_of`. Returns texts of the faults, for the log; raises
        RpcRdmaError or OSError if a call fails.
        """
        present = await _listed(rpcbind)
        await self._remove(rpcbind, present, [place for place in self._held if place not in wanted])
        elsewhere = await self._served_elsewhere(present, {place[:2] for place in wanted})
        faults: list[str] = []
        new: list[str] = []
        for place, address in wanted.items():
            found = present.get(place)
            other = elsewhere.get(place[:2])
            if not self._is_ours(found, address):
                self._held.pop(place, None)
                if other is not None:
                    faults.append(
                        f"rpcbind leads clients of {place} to another server of this user, at {other}, and keeps doing "
                        "so; stop that server"
                    )
                    continue
                # Before the call, which may be cancelled: rpcbind may carry it out all the same.
                self._held[place] = address
                if (refused := await self._register(rpcbind, place, address, found)) is not None:
                    faults.append(refused)
                    del self._held[place]
                    continue
                new.append(f"{place} at {address}")
            self._held[place] = address
        if new:
            _LOGGER.info("registered at rpcbind: %s", ", ".join(new))
        return faults

    async def _register(
        self, rpcbind: TcpConnection, place: ProgramNetid, address: str, found: port_mapper.binding | None
    ) -> str | None:
        """Registers `place`, a (program, version, netid), at a universal address; first removes `found`, if not None.

        `found` is the registration of `place` in rpcbind's list. Returns None if rpcbind registers `place`, else the
        text of the fault: rpcbind refuses that, or first the removal of a `found` of another user. Raises RpcRdmaError
        or OSError if a call over `rpcbind`, a connection, fails.
        """
        if found is not None:
            removed = await rpcbind.call(port_mapper.RPCBPROC_UNSET, _binding(place))
            if found.owner != self._owner:
                had = "had" if removed else "has"
                where = f"rpcbind {had} {place} at {printable(found.addr)}, registered by user {printable(found.owner)}"
                if not removed:
                    remedy = f"rpcinfo -d {place.program} {place.version}"
                    return f"{where}, and leads clients there; remove that registration as root ({remedy})"
                _LOGGER.warning("%s; this server of root has taken its place", where)
        if await rpcbind.call(port_mapper.RPCBPROC_SET, _binding(place, address, self._owner)):
            return None
        return f"rpcbind refuses to register {place} at {address}; its own log may have the reason"

    async def _remove(
        self,
        rpcbind: TcpConnection,
        present: Mapping[ProgramNetid, port_mapper.binding],
        places: Sequence[ProgramNetid],
    ) -> None:
        """Removes the registrations of `places`, keys of `self._held`, at rpcbind, and drops these keys.

        Leaves a registration there that is no longer this server's according to `present`, rpcbind's list. Drops each
        key after the call for it; raises RpcRdmaError or OSError if a call fails, and keeps its key and the later ones.
        """
        for place in places:
            if self._is_ours(present.get(place), self._held[place]):
                await rpcbind.call(port_mapper.RPCBPROC_UNSET, _binding(place))
            del self._held[place]

    async def _served_elsewhere(
        self, present: Mapping[ProgramNetid, port_mapper.binding], wanted: Set[tuple[int, int]]
    ) -> dict[tuple[int, int], str]:
        """Returns addresses at which other servers of the same user accept TCP connections, by (program, version).

        The addresses are universal ones. Tries to connect to the registrations over TCP in `present`, rpcbind's list,
        of the (program, version) pairs in `wanted`, except those at a TCP port of this server.
        """
        own_ports = {parse_url(each, listens=True).port for each in self._listening if each.startswith("tcp://")}
        asked = [
            (place[:2], bound.addr)
            for place, bound in present.items()
            if place[:2] in wanted and place.netid in {"tcp", "tcp6"}
            if bound.owner == self._owner and port_in(bound.addr) not in own_ports
        ]
        answers = await asyncio.gather(*(_answers(address) for _, address in asked))
        return {program: printable(address) for (program, address), found in zip(asked, answers, strict=True) if found}


async def _listed(rpcbind: TcpConnection) -> dict[ProgramNetid, port_mapper.binding]:
    entries = await rpcbind.call(port_mapper.RPCBIND_V4_RPCBPROC_DUMP, None)
    return {ProgramNetid(entry.bound.prog, entry.bound.vers, entry.bound.netid): entry.bound for entry in entries}


def _binding(place: ProgramNetid, address: str = "", owner: str = "") -> port_mapper.binding:
    return port_mapper.binding(*place, address, owner)


async def _answers(address: str) -> bool:
    """Returns whether a server accepts a TCP connection at a universal address; False if the address is malformed.

    A wildcard address stands for the loopback address. Any failure to connect is False as well, and so is no answer
    within `RPCBIND_OTHER_SERVER_S` (1) seconds.
    """
    port = port_in(address)
    try:
        host = ip_address(host_in(address))
    except ValueError:
        return False
    if port is None:
        return False
    loopback = "127.0.0.1" if host.version == 4 else "::1"
    try:
        async with asyncio.timeout(RPCBIND_OTHER_SERVER_S):
            (await connected_socket(loopback if host.is_unspecified else str(host), port)).close()
    except (ConnectFailed, TimeoutError):
        return False
    return True
