"""Which binding speaks for which program.

A program of your own gets one like this, before its first call:

    register_binding(PROGRAM.number, PROGRAM.version, lambda procedure, args: ReplyBound(64, (args.count,)))
"""

from __future__ import annotations

from typing import Any

from rpcrdma.rpc.program import Procedure
from rpcrdma.transport.message_bounds import Binding, ReplyBound

__all__ = ["DEFAULT_RESULTS_OCTETS_MAX", "binding_for", "default_binding", "register_binding"]

DEFAULT_RESULTS_OCTETS_MAX = 64 * 1024
"""What the results of a program without a binding may take; larger ones are refused by the server with ERR_CHUNK."""

_BINDINGS: dict[tuple[int, int], Binding] = {}


def default_binding(results_octets_max: int = DEFAULT_RESULTS_OCTETS_MAX) -> Binding:
    """A binding for any program: nothing is placed directly, every result takes at most `results_octets_max` octets.

    A result larger than an inline message then comes in a Reply chunk.
    """
    bound = ReplyBound(results_octets_max)

    def bind(procedure: Procedure[Any, Any], args: Any) -> ReplyBound:
        del procedure, args
        return bound

    return bind


_DEFAULT = default_binding()
_VOID = ReplyBound(0)


def _null_or_default(procedure: Procedure[Any, Any], args: Any) -> ReplyBound:
    # Procedure 0 takes and returns nothing in every program (RFC 5531 section 12.1).
    return _DEFAULT(procedure, args) if procedure.number else _VOID


def register_binding(program: int, version: int, binding: Binding) -> None:
    """Makes `binding` speak for one version of a program, in place of what spoke for it before."""
    _BINDINGS[program, version] = binding


def binding_for(program: int, version: int, otherwise: Binding = _null_or_default) -> Binding:
    """The binding of a program; where none is registered one that expects up to 64 KiB and places nothing."""
    return _BINDINGS.get((program, version), otherwise)
