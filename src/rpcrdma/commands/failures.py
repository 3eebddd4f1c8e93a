"""Messages, hints and exit statuses of failures, for users and for programs that read JSON."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any

from rpcrdma.commands import console
from rpcrdma.commands.console import ExitStatus
from rpcrdma.errors import (
    AuthError,
    CallTimeout,
    ConnectFailed,
    HostAuthenticationFailed,
    LocalProtocolError,
    NoAnswer,
    ProgramUnavailable,
    RemoteProtocolError,
    RpcError,
    RpcRdmaError,
    TransportClosed,
    UserAuthenticationFailed,
)
from rpcrdma.nfs.errors import NfsError
from rpcrdma.rpc.auth import AuthStat

__all__ = ["as_json", "describe", "readable_path", "tell", "with_remedy"]

_TRACEBACK_HINT = "set RPCRDMA_TRACEBACK=1 to see its origin, and please report it"

_PATH_SHOWN_MAX = 600
"""Characters of a path in a message; JSON has the whole path."""

_TOO_WEAK_HINT = (
    "it asks for more protection: TLS (--xprtsec tls), TLS with a certificate of this host "
    "(--xprtsec mtls --tls-cert FILE), or Kerberos (--sec krb5p)"
)

_ROOT_SQUASH_HINT = (
    "root has no privileges there: the server maps root to the user nobody, or runs as a user (rpcrdma serve --help); "
    "or the export takes ports below 1024 alone (--reserved-port)"
)
"""The hint for every permission error of root; refusals of hosts by MOUNT have notes of their own. Linux refuses other
ports with EPERM, our server with EACCES."""

_SIGNALS = {
    signal.SIGHUP: ("hung up", ExitStatus.HUNG_UP),
    signal.SIGINT: ("interrupted", ExitStatus.INTERRUPTED),
    signal.SIGTERM: ("terminated", ExitStatus.TERMINATED),
}

_HINTS_BY_ERRNO = {
    errno.EROFS: "the export is read-only",
    errno.ESTALE: "the file was removed or the export changed since it was looked up; try again",
    errno.EDQUOT: "the quota on the server is used up",
}


def tell(error: BaseException, *, in_report: bool = False) -> ExitStatus:
    """Prints an exception on standard error, and as JSON on standard output if `errors_as_json` has been set.

    `in_report`: whether to print no JSON, since the command has the failure in its own report. Returns the exit status
    that the failure leads to.
    """
    message, hint, status = describe(error)
    return console.error(message, hint, status=status, facts=as_json(error), in_report=in_report)


def as_json(error: BaseException) -> dict[str, Any]:
    """Returns an exception as a dictionary for JSON.

    The keys are kind, message, path, url, errno, hint and exit_status; unknown values are None. `kind` is one of a few
    words ("not_connected"), `errno` a name such as "ENOENT". An ExceptionGroup has the values of its first error.
    """
    message, hint, status = describe(error)
    if isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    path = number = None
    if isinstance(error, OSError):
        number = error.errno
        path = None if _has_no_path(error) else os.fsdecode(error.filename)
    return {
        "kind": _kind(error),
        "message": message,
        "path": path,
        "url": getattr(error, "url", None),
        "errno": None if number is None else errno.errorcode.get(number, str(number)),
        "hint": hint or None,
        "exit_status": int(status),
    }


_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (HostAuthenticationFailed, "host_not_authenticated"),
    (UserAuthenticationFailed, "user_not_authenticated"),
    (ConnectFailed, "not_connected"),
    (RemoteProtocolError, "protocol_violation"),
    (TransportClosed, "connection_lost"),
    (CallTimeout, "timeout"),
    (RpcError, "call_refused"),
    (LocalProtocolError, "usage"),
    (MemoryError, "out_of_memory"),
    (RpcRdmaError, "failed"),
    (ExceptionGroup, "failed"),
    (OSError, "file"),
    (KeyboardInterrupt, "interrupted"),
)


def _kind(error: BaseException) -> str:
    if isinstance(error, TransportClosed) and error.protocol_error:
        return "protocol_violation"
    return next((kind for types, kind in _KINDS if isinstance(error, types)), "internal")


def describe(error: BaseException) -> tuple[str, str, ExitStatus]:
    """Returns (message, hint, exit status) of an error; parameters of the library become options ("--tls-key").

    The hint is "" if there is none. The message begins with the URL or path that the error has, if any; that of a
    `ConnectFailed` does not.

    Args:
        error: Any exception. If it has notes, they are the hint. An ExceptionGroup has the values of its first error,
            with the number of the others in the message.
    """
    message, hint, status = _describe(error)
    if isinstance(error, RpcRdmaError) and not isinstance(error, ConnectFailed) and error.url is not None:
        message = f"{readable_path(error.url)}: {message}"
    # A note, added where the error arose, is a better hint than the one for its kind.
    notes = getattr(error, "__notes__", ())
    return console.in_options(message), console.in_options("; ".join(notes) or hint), status


def _describe(error: BaseException) -> tuple[str, str, ExitStatus]:
    if isinstance(error, KeyboardInterrupt):
        message, status = _SIGNALS[getattr(error, "number", signal.SIGINT)]
        return message, "", status
    if isinstance(error, ConnectFailed) and not (isinstance(error, NoAnswer) and error.protocol_error):
        unfit = getattr(error, "cause", "") == "configuration"
        return *with_remedy(str(error)), ExitStatus.USAGE if unfit else ExitStatus.NOT_CONNECTED
    if isinstance(error, RemoteProtocolError):
        rule = f" (RFC {error.rfc})" if error.rfc else ""
        return f"the peer broke the protocol: {error.message}{rule}", "", ExitStatus.PROTOCOL_VIOLATION
    if isinstance(error, TransportClosed):
        if error.protocol_error:
            message, hint = with_remedy(error.message)
            return f"one side broke the protocol: {message}", hint, ExitStatus.PROTOCOL_VIOLATION
        return (
            f"the connection ended: {error.message}",
            "whether the last calls took effect is unknown",
            ExitStatus.FAILED,
        )
    if isinstance(error, CallTimeout):
        return error.message, "the server may be overloaded; --timeout waits longer", ExitStatus.FAILED
    if isinstance(error, RpcError):
        message, hint = error.message, ""
        if isinstance(error, AuthError) and error.stat is AuthStat.AUTH_TOOWEAK:
            message, hint = message.partition("; ")[0], _TOO_WEAK_HINT
        elif isinstance(error, ProgramUnavailable):
            hint = (
                "rpcrdma programs URL lists what a server offers; rpcrdma ping --program NUMBER calls another program"
            )
        return f"the server refused the call: {message}", hint, ExitStatus.FAILED
    if isinstance(error, RpcRdmaError):
        return error.message, "", ExitStatus.USAGE if isinstance(error, LocalProtocolError) else ExitStatus.FAILED
    if isinstance(error, ExceptionGroup):
        message, hint, status = describe(error.exceptions[0])
        others = len(error.exceptions) - 1
        return message + (f" (and {others} more like it)" if others else ""), hint, status
    if isinstance(error, OSError):
        message, hint = _os_error(error)
        if isinstance(error, NfsError) and error.errno in {errno.EACCES, errno.EPERM} and os.geteuid() == 0:
            hint = hint or _ROOT_SQUASH_HINT
        return message, hint or _HINTS_BY_ERRNO.get(error.errno or 0, ""), ExitStatus.FAILED
    if isinstance(error, MemoryError):
        return "out of memory", "", ExitStatus.FAILED
    return f"internal error: {type(error).__name__}: {error}", _TRACEBACK_HINT, ExitStatus.FAILED


def with_remedy(text: str) -> tuple[str, str]:
    """Splits a message at its last "; " and returns (cause, remedy); the remedy is "" without "; "."""
    message, semicolon, hint = text.rpartition("; ")
    return (message, hint) if semicolon else (text, "")


def _os_error(error: OSError) -> tuple[str, str]:
    if error.strerror is None and error.errno is None:
        return with_remedy(str(error) or type(error).__name__)
    cause, hint = with_remedy(error.strerror or os.strerror(error.errno or 0))
    if cause[1:2].islower() or cause[1:2] == " ":
        cause = cause[0].lower() + cause[1:]
    if _has_no_path(error):
        return cause, hint
    # A path of a server would read like one of this machine.
    name = readable_path(getattr(error, "url", None) or error.filename)
    if error.filename2 is not None:
        second = getattr(error, "url2", None) or error.filename2
        return f"{name} -> {readable_path(second)}: {cause}", hint
    return f"{name}: {cause}", hint


def _has_no_path(error: OSError) -> bool:
    """Returns whether an error names no path; `filename` may also be the number of a file descriptor."""
    return error.filename is None or isinstance(error.filename, int)


def readable_path(path: object) -> str:
    """Returns a path (str, bytes or `Path`) as text, not escaped, with the middle left out beyond 600 characters."""
    name = os.fsdecode(path) if isinstance(path, (str, bytes)) else str(path)
    half = _PATH_SHOWN_MAX // 2
    return name if len(name) <= _PATH_SHOWN_MAX else f"{name[:half]} [...] {name[-half:]}"
