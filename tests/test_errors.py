"""Errors are copied, and cross from one process to another, with all arguments of their classes."""

from __future__ import annotations

import copy
import pickle

from rpcrdma.errors import (
    DecodeError,
    HostAuthenticationFailed,
    MessageTooLong,
    NoAnswer,
    OutOfMemory,
    ProgramMismatch,
    RemoteAccessError,
    RpcRdmaError,
)
from support.cases import each_case

ERRORS = [
    DecodeError("field", 4, "a length", "7", rfc="4506 4.9"),
    HostAuthenticationFailed("who is it?", cause="expired", alert=b"\1"),
    MessageTooLong(9, 8, "message_octets_max", received=True),
    NoAnswer("gone", protocol_error=True),
    OutOfMemory("too much"),
    ProgramMismatch(2, 3),
    RemoteAccessError("out of bounds", 1, 2, 3),
    RpcRdmaError("why"),
]


@each_case("error", ERRORS)
def test_errors_can_be_copied_and_pickled(error: RpcRdmaError) -> None:
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert other is not error
        assert (type(other), str(other), other.args, vars(other)) == (type(error), str(error), error.args, vars(error))
