"""Interface definitions compiled and loaded at run time, for programs that learn their interface only then."""

from __future__ import annotations

import difflib
import itertools
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rpcrdma.errors import LocalProtocolError
from rpcrdma.rpc.program import Procedure
from rpcrdma.xdr.language import Diagnostic, model
from rpcrdma.xdr.language.checker import check
from rpcrdma.xdr.language.generator import generate
from rpcrdma.xdr.language.parser import parse

__all__ = ["LoadedInterface", "LoadedProcedure", "load_interface"]

_MESSAGE_IS_THE_BOUND = 0xFFFFFFFF
_NAMED_MAX = 12
_NUMBERS = itertools.count(1)


class LoadedProcedure(NamedTuple):
    """A procedure of a loaded definition, its program version, and the types of its arguments and result."""

    version: model.ProgramVersion
    types: model.Procedure
    procedure: Procedure[Any, Any]


@dataclass(frozen=True, slots=True)
class LoadedInterface:
    """A compiled and loaded definition, as `load_interface` returns it.

    Args:
        module: the model of the definition.
        classes: the objects of the generated module by name: types, programs, services and clients.
        warnings: the compiler's warnings.
    """

    module: model.Module
    classes: Mapping[str, Any]
    warnings: Sequence[Diagnostic]

    def procedure(self, name: str, *, program: str | None = None, version: int | None = None) -> LoadedProcedure:
        """Finds a procedure by its name in any case, whole or without a prefix such as NFSPROC3_ ("getattr").

        Args:
            name: the name. If procedures have exactly this name, others are not considered.
            program: a program's name, or its number as text; None: any program.
            version: the program's version; None: the newest version that has the procedure.

        Returns:
            The procedure with its types.

        Raises:
            LocalProtocolError: the program, the version or the procedure is unknown, or procedures of several programs
                have the name; the message or its note lists the candidates.
        """
        versions = self._versions(program, version)
        every = [(each, found) for each in versions for found in each.procedures]
        candidates = [pair for pair in every if pair[1].name == name]
        candidates = candidates or [pair for pair in every if name.lower() in _spellings(pair[1])]
        if not candidates:
            raise self._no_procedure(name, versions)
        programs = {each.program: each.program_number for each, _ in candidates}
        if len(programs) > 1:
            raise _error(
                f"{name} is a procedure of {' and of '.join(programs)}",
                f"choose one by procedure(program=...), such as {next(iter(programs))}",
            )
        chosen, found = max(candidates, key=lambda candidate: candidate[0].number)
        return LoadedProcedure(chosen, found, self.classes[chosen.name].procedures[found.number])

    def _versions(self, program: str | None, version: int | None) -> list[model.ProgramVersion]:
        versions = self.module.versions
        if not versions:
            raise _error(f"{self.module.source_name} defines no program", "")
        if program is not None:
            known = ", ".join({f"{each.program} ({each.program_number})": None for each in versions})
            number = _number(program)
            versions = [each for each in versions if each.program == program or each.program_number == number]
            if not versions:
                raise _error(f"{self.module.source_name} defines no program {program}", f"it defines {known}")
        if version is not None:
            known = ", ".join(f"{each.program} version {each.number}" for each in versions)
            versions = [each for each in versions if each.number == version]
            if not versions:
                raise _error(f"{self.module.source_name} defines no version {version}", f"it defines {known}")
        return versions

    def _no_procedure(self, name: str, versions: Sequence[model.ProgramVersion]) -> LocalProtocolError:
        names = list(dict.fromkeys(found.name for each in versions for found in each.procedures))
        spelt = {each: found.name for version in versions for found in version.procedures for each in _spellings(found)}
        close = difflib.get_close_matches(name.lower(), spelt, 1, 0.6)
        more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
        known = f"did you mean {spelt[close[0]]}?" if close else f"it has {', '.join(names[:_NAMED_MAX])}{more}"
        return _error(f"{self.module.source_name} has no procedure {name}", known)


def load_interface(
    text: str, *, source_name: str, lenient: bool = False, default_limit: int | None = None
) -> LoadedInterface:
    """Compiles an interface definition in the XDR language and loads the generated Python module.

    Args:
        text: the definition (RFC 4506, RFC 5531).
        source_name: the file name for messages.
        lenient: whether malformed definitions whose meaning is clear, as in drafts, cause warnings instead of errors.
        default_limit: the most octets or elements of variable-length items without a bound; None: the message alone
            bounds them.

    Returns:
        The model of the definition, the classes and procedures by name, and the compiler's warnings.

    Raises:
        LanguageError: the definition is faulty; the error has line and column.
    """
    limit = _MESSAGE_IS_THE_BOUND if default_limit is None else default_limit
    module, warnings = check(parse(text, source_name), text, source_name, lenient=lenient, default_limit=limit)
    loaded = types.ModuleType(f"{__name__}_{next(_NUMBERS)}")
    # The generated text consists of names and numbers of the language, and of the file's name, which may be anything.
    module.source_name = loaded.__name__
    code = compile(generate(module), f"<{loaded.__name__}>", "exec")
    module.source_name = source_name
    # Dataclasses look their module up there while they are made.
    sys.modules[loaded.__name__] = loaded
    try:
        exec(code, loaded.__dict__)  # noqa: S102 - code that the compiler has just made
    finally:
        del sys.modules[loaded.__name__]
    return LoadedInterface(module, vars(loaded), warnings)


def _spellings(procedure: model.Procedure) -> tuple[str, str]:
    return procedure.name.lower(), procedure.method


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _error(message: str, hint: str) -> LocalProtocolError:
    error = LocalProtocolError(message)
    if hint:
        error.add_note(hint)
    return error
