"""The log of a server about its calls: failed handlers, replies that cannot be sent, messages that are no calls."""

from __future__ import annotations

import logging

from rpcrdma.aio.answering.buffer_pool import OutOfBuffers
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.errors import TransportClosed
from rpcrdma.rpc.service import CredentialTooWeak, ProcedureUnavailable
from rpcrdma.xdr.codec import Payload

__all__ = ["AnswerLog"]


class AnswerLog:
    """Logs calls of the peer that end in an unusual way; `LimitedLog` bounds the lines of each kind per minute.

    `logger` is the destination. The `HandlerRunner` of a server, or of a client with services, makes the object.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._log = LimitedLog(logger)
        self.flush = self._log.flush

    def failed(self, call: ServerCall, error: BaseException) -> Payload:
        """Returns the error reply (`call.failure(error)`) to a call whose handler raised `error`, and logs the failure.

        Nothing is logged for `ProcedureUnavailable` and `CredentialTooWeak`, which are ordinary refusals, nor for
        `OutOfBuffers` and `TransportClosed` after the call's connection has ended. Otherwise `OutOfBuffers` (no memory)
        is logged as a WARNING, and any other error as an ERROR with its traceback. The caller sends the reply.
        """
        name = _name(call)
        if call.ended and isinstance(error, OutOfBuffers | TransportClosed):
            pass  # with its connection the memory or the peer that the handler needed has ended: no fault
        elif isinstance(error, OutOfBuffers):
            # Clients bring this about, not the handler.
            self._log.log(logging.WARNING, "buffers", "%s was answered with SYSTEM_ERR: %s", name, error)
        elif not isinstance(error, ProcedureUnavailable | CredentialTooWeak):
            kind = f"{name} {type(error).__qualname__}"
            became = "; its connection has ended" if call.ended else " and was answered with SYSTEM_ERR"
            self._log.log(logging.ERROR, kind, f"%s failed{became}", name, error=error)
        return call.failure(error)

    def unfit_reply(self, call: ServerCall, why: str) -> None:
        """Logs a warning that the reply to `call` could not be sent; `why` has the cause and the setting to change."""
        name = _name(call)
        self._log.log(logging.WARNING, "unfit " + name, "the reply to %s could not be sent: %s", name, why)

    def out_of_memory(self, call: ServerCall) -> None:
        """Logs a warning that `call` is answered with SYSTEM_ERR, as there is no memory for its arguments or reply."""
        name = _name(call)
        self._log.log(logging.WARNING, "memory " + name, "%s was answered with SYSTEM_ERR: no memory is left", name)

    def long_call(self, peer: str, why: str) -> None:
        """Logs a warning about a call that was answered with GARBAGE_ARGS because it is too long.

        `peer` is the caller's HOST:PORT; `why` names the bound and its setting.
        """
        self._log.log(logging.WARNING, "too long", "a call of %s was answered with GARBAGE_ARGS: %s", peer, why)

    def no_call(self, peer: str) -> None:
        """Logs a warning that the other end, `peer` (HOST:PORT), sent a message that is no RPC call and was dropped."""
        self._log.log(logging.WARNING, "no call", "%s sent a message that is no call", peer)


def _name(call: ServerCall) -> str:
    return call.route.name if call.procedure is None else call.procedure.name
