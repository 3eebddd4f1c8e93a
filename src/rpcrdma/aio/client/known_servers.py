"""The version of RPC-over-RDMA that a server speaks, or its silence over a provider: finding out is paid for once."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from rpcrdma import limits
from rpcrdma.transport import TransportStatistics

__all__ = ["KnownServers", "ServerPlace"]

ServerPlace: TypeAlias = tuple[str, str, int]
"""The provider's name, the server's host and its port."""


class _Found(NamedTuple):
    """A server's version of RPC-over-RDMA (None: it was silent), and the loop time in seconds at which it was found.

    `proof` is None for a stated version. For a guess it has the counters of the connection whose calls confirm the
    guess.
    """

    version: str | None
    at_s: float
    proof: TransportStatistics | None = None


class KnownServers:
    """Remembers, for the last `servers_max` servers, the version of RPC-over-RDMA, or that the server was silent.

    The methods' `now_s` is the present time in seconds of a monotonic clock. An entry expires after `again_s` seconds,
    since the server may offer another version or provider by then; `version_of` and `is_silent` ignore expired entries.
    """

    def __init__(self, *, servers_max: int = limits.SERVERS_KNOWN_MAX, again_s: float = limits.SERVER_AGAIN_S) -> None:
        self._servers_max = servers_max
        self._again_s = again_s
        self._found: dict[ServerPlace, _Found] = {}

    def __len__(self) -> int:
        return len(self._found)

    def version_of(self, server: ServerPlace, now_s: float) -> str | None:
        """Returns the name of the RPC-over-RDMA version that the server speaks; None if unknown, expired or a guess.

        `server` is provider, host and port. A version recorded by `guessed` is a guess until a call on the connection
        in that version has been answered.
        """
        found = self._found.get(server)
        if found is None or now_s - found.at_s >= self._again_s:
            return None
        return None if found.proof is not None and not found.proof.calls else found.version

    def speaks(self, server: ServerPlace, version: str) -> bool:
        """Returns whether the entry of the server (provider, host, port) names this version, even if old or a guess."""
        found = self._found.get(server)
        return found is not None and found.version == version

    def found(self, server: ServerPlace, version: str, now_s: float) -> None:
        """Records that the server (provider, host, port) stated at the time `now_s` that it speaks this version."""
        self._keep(server, _Found(version, now_s))

    def guessed(self, server: ServerPlace, version: str, now_s: float, proof: TransportStatistics) -> None:
        """Records `version` as a guess for a server (provider, host, port) that did not answer a newer version.

        `proof` has the counters of the connection in `version`: the guess holds as soon as they count an answered call.
        No effect if `version_of` knows a version of the server. Any other entry is replaced, also one of silence.
        """
        if self.version_of(server, now_s) is None:
            self._keep(server, _Found(version, now_s, proof))

    def left_unanswered(self, server: ServerPlace, now_s: float) -> None:
        """Records that `server` (provider, host, port) was silent over this provider, but reached over another one.

        The record replaces any entry for the server and this provider, also one of a known version.
        """
        self._keep(server, _Found(None, now_s))

    def is_silent(self, server: ServerPlace, now_s: float) -> bool:
        """Returns whether an unexpired entry says that `server` (provider, host, port) is silent over this provider."""
        found = self._found.get(server)
        return found is not None and found.version is None and now_s - found.at_s < self._again_s

    def forget(self, server: ServerPlace) -> None:
        """Removes the entry of a server (provider, host, port), which has proved wrong; no effect if there is none."""
        self._found.pop(server, None)

    def clear(self) -> None:
        """Removes the entries of all servers."""
        self._found.clear()

    def _keep(self, server: ServerPlace, found: _Found) -> None:
        self._found.pop(server, None)
        self._found[server] = found
        if len(self._found) > self._servers_max:
            del self._found[next(iter(self._found))]
