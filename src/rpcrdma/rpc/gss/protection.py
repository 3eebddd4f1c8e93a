"""Why a call under RPCSEC_GSS is refused, dropped or delayed at the server."""

from __future__ import annotations

from collections.abc import Callable

from rpcrdma.rpc.auth import AuthStat
from rpcrdma.rpc.gss.context_turns import ContextTurns

__all__ = ["CallDropped", "CallWaits", "CredentialRefused"]


class CredentialRefused(Exception):
    """The credential or verifier of a call fails a check; the server answers with AUTH_ERROR and `stat`."""

    def __init__(self, stat: AuthStat) -> None:
        super().__init__(stat.name)
        self.stat = stat


class CallDropped(Exception):
    """The server does not answer the call: its sequence number was used before, or is below the window."""


class CallWaits(Exception):
    """The call's RPCSEC_GSS context is in use, or the work on the call takes long; open the call again after the work.

    Args:
        turns: runs one use of the context at a time: call `turns.use(work, done, octets=octets)`, and open the call
            again in your function `done`, which gets the outcome of `work`.
        work: removes the protection of the arguments; does nothing if the call only waits for other uses.
        octets: the octets that `work` checksums or decrypts; 0 if it does nothing.
    """

    def __init__(self, turns: ContextTurns, work: Callable[[], None], octets: int) -> None:
        super().__init__("the context is in use")
        self.turns = turns
        self.work = work
        self.octets = octets
