"""The answers of a responder that are not results, as a caller meets them (RFC 5531 section 9)."""

from __future__ import annotations

from rpcrdma.errors import RpcError
from rpcrdma.rpc.auth import AuthStat

__all__ = [
    "AuthError",
    "GarbageArguments",
    "NoSuchProcedure",
    "ProgramMismatch",
    "ProgramUnavailable",
    "RemoteSystemError",
    "RpcVersionMismatch",
]


class ProgramUnavailable(RpcError):
    """PROG_UNAVAIL: the responder does not offer the program on this transport."""

    def __init__(self) -> None:
        super().__init__("the responder does not offer the program")


class ProgramMismatch(RpcError):
    """PROG_MISMATCH: the responder offers other versions of the program, from `low` to `high`."""

    def __init__(self, low: int, high: int) -> None:
        versions = f"version {low}" if low == high else f"versions {low} to {high}"
        super().__init__(f"the responder offers {versions} of the program")
        self.low = low
        self.high = high


class NoSuchProcedure(RpcError):
    """PROC_UNAVAIL: the responder's program does not offer the procedure."""

    def __init__(self) -> None:
        super().__init__("the responder does not offer the procedure")


class GarbageArguments(RpcError):
    """GARBAGE_ARGS: the responder could not decode the arguments, and has not run the call."""

    def __init__(self, hint: str = "") -> None:
        super().__init__(f"the responder could not decode the arguments{hint}")


class RemoteSystemError(RpcError):
    """SYSTEM_ERR: something failed at the responder; whether the call took effect is unknown."""

    def __init__(self) -> None:
        super().__init__("the responder failed to carry out the call (SYSTEM_ERR); its log may say why")


class RpcVersionMismatch(RpcError):
    """RPC_MISMATCH: the responder speaks other versions of RPC, from `low` to `high`."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__(f"the responder speaks RPC versions {low} to {high}")
        self.low = low
        self.high = high


class AuthError(RpcError):
    """AUTH_ERROR: the responder refused the credential or the verifier; `stat` says why.

    `stat` is a plain int for a code that RFC 5531 does not define.
    """

    def __init__(self, stat: AuthStat | int) -> None:
        name = stat.name if isinstance(stat, AuthStat) else str(stat)
        if stat == AuthStat.AUTH_TOOWEAK:
            name += "; it asks for more protection"
        super().__init__(f"the responder refused the credential: {name}")
        self.stat = stat
