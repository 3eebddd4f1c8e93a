"""Which version of RPC-over-RDMA a server was found to speak, so that finding out is paid for once."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from rpcrdma import limits
from rpcrdma.transport import TransportStatistics

__all__ = ["KnownVersions", "ServerPlace"]

ServerPlace: TypeAlias = tuple[str, str, int]
"""The provider's name, the server's host and its port."""


class _Found(NamedTuple):
    """A server's version, and when it was found. After a guess, `proof` counts the calls answered in that version."""

    version: str
    at_s: float
    proof: TransportStatistics | None


class KnownVersions:
    """Of the `servers_max` servers that were connected to last: the name of the version that each speaks.

    Times are those of any clock that goes on evenly. An entry is forgotten after `again_s` seconds: a server may
    have learnt another version since, and one that still knows it costs no more than a server that is met first.
    """

    def __init__(
        self, *, servers_max: int = limits.VERSIONS_KNOWN_MAX, again_s: float = limits.VERSION_AGAIN_S
    ) -> None:
        self._servers_max = servers_max
        self._again_s = again_s
        self._found: dict[ServerPlace, _Found] = {}

    def __len__(self) -> int:
        return len(self._found)

    def version_of(self, server: ServerPlace, now_s: float) -> str | None:
        """The version that the server speaks; None if that is to be found out."""
        found = self._found.get(server)
        if found is None or now_s - found.at_s >= self._again_s:
            return None
        return None if found.proof is not None and not found.proof.calls else found.version

    def found(self, server: ServerPlace, version: str, now_s: float) -> None:
        """The server has said that it speaks this version."""
        self._keep(server, _Found(version, now_s, None))

    def guessed(self, server: ServerPlace, version: str, now_s: float, proof: TransportStatistics) -> None:
        """The server has lost or left unanswered the first message of a newer version.

        If that is the one it is known by, it shall be asked again next time: any connection may be lost. Else the guess
        holds as soon as a call has been answered, as `proof` will tell.
        """
        if self.version_of(server, now_s) in (None, version):
            self._keep(server, _Found(version, now_s, proof))
        else:
            self.forget(server)

    def forget(self, server: ServerPlace) -> None:
        """Discards the entry of a server that proved wrong."""
        self._found.pop(server, None)

    def clear(self) -> None:
        """Forgets all servers."""
        self._found.clear()

    def _keep(self, server: ServerPlace, found: _Found) -> None:
        self._found.pop(server, None)
        self._found[server] = found
        if len(self._found) > self._servers_max:
            del self._found[next(iter(self._found))]
