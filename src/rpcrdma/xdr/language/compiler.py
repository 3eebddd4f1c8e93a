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
    """The text of a generated Python module, and the compiler's warnings."""

    text: str
    warnings: Sequence[Diagnostic]


def compile_source(
    text: str, *, source_name: str, lenient: bool = False, default_limit: int | None = None
) -> CompiledModule:
    """Compiles an interface definition; the same input gives the same output.

    `source_name` stands in messages and in the first line of the output. `lenient` takes the malformed
    dialect of drafts with warnings. `default_limit` bounds items without a limit of their own.

    Raises:
        LanguageError: names every error with its place.
    """
    specification = parse(text, source_name)
    module, warnings = check(specification, text, source_name, lenient=lenient, default_limit=default_limit)
    return CompiledModule(generate(module), warnings)
