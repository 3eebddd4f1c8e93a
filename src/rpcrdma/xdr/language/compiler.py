"""Runs all stages of the compiler in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rpcrdma.xdr.language.checker import check
from rpcrdma.xdr.language.diagnostics import Diagnostic
from rpcrdma.xdr.language.generator import generate
from rpcrdma.xdr.language.parser import parse

__all__ = ["CompiledModule", "compile_source"]


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """The text of a generated Python module, and the compiler's warnings, as `compile_source` returns them."""

    text: str
    warnings: Sequence[Diagnostic]


def compile_source(
    text: str, *, source_name: str, lenient: bool = False, default_limit: int | None = None
) -> CompiledModule:
    """Compiles an interface definition to the text of a Python module; the same input gives the same output.

    Returns the text and the warnings.

    Args:
        text: the definition (RFC 4506, RFC 5531).
        source_name: the file name for messages and the first line of the output.
        lenient: whether malformed definitions whose meaning is clear, as in drafts, cause warnings instead of errors.
        default_limit: the most octets or elements of items without a limit; None: such items are errors.

    Raises:
        LanguageError: the definition is faulty; names the first syntax error, or else the first XDR_REMARKS_MAX faults.
    """
    specification = parse(text, source_name)
    module, warnings = check(specification, text, source_name, lenient=lenient, default_limit=default_limit)
    return CompiledModule(generate(module), warnings)
