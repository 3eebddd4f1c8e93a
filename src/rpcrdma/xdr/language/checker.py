"""The meaning of an interface definition: names, constants, bounds, recursion.

`check` continues after an error, so that one run reports many. Containment is checked only if no definition of a
type has an error, bounds only if there is no error at all.
"""

from __future__ import annotations

from dataclasses import replace

from rpcrdma.xdr.language import model, syntax
from rpcrdma.xdr.language.bounds import resolve_bounds
from rpcrdma.xdr.language.containment import check_containment
from rpcrdma.xdr.language.diagnostics import Diagnostic, LanguageError, SourceSpan, first_remarks
from rpcrdma.xdr.language.names import field_name, method_name, module_name
from rpcrdma.xdr.language.resolver import Resolver
from rpcrdma.xdr.language.symbols import Symbols

__all__ = ["check"]

_MAX_U32 = 0xFFFFFFFF


def check(
    specification: syntax.Specification,
    source: str,
    source_name: str,
    *,
    lenient: bool = False,
    default_limit: int | None = None,
) -> tuple[model.Module, list[Diagnostic]]:
    """Resolves the names, bounds and types of a definition.

    Args:
        specification: The syntax tree, of `parse`.
        source: The text that it was made of, for error messages.
        source_name: The name of the text, for error messages.
        lenient: Whether deviations from the language whose meaning is clear are warnings, not errors.
        default_limit: The bound, in octets or elements, of items for which neither the definition nor a pragma states
            one; None makes these items errors.

    Returns:
        The module that the definition describes, and up to XDR_REMARKS_MAX warnings; a further one counts the rest.

    Raises:
        LanguageError: the definition is wrong; its `diagnostics` are the first XDR_REMARKS_MAX errors in source order,
            and one that counts the rest.
    """
    symbols = Symbols(specification)
    resolver = Resolver(symbols, source_name, default_limit)
    resolver.resolve_types()
    module = resolver.module
    resolved = not symbols.errors
    for definition in specification.definitions:
        if isinstance(definition, syntax.Program):
            _resolve_program(definition, resolver)
    if resolved:
        # Programs may define types of arguments and results in place.
        check_containment(module, symbols)
    resolver.check_pragmas()
    if not symbols.errors:
        resolve_bounds(module, symbols)
    remarks = [
        replace(remark, severity="warning" if lenient else "error")
        for remark in [*specification.deviations, *symbols.deviations]
    ]
    if symbols.errors or (remarks and not lenient):
        errors = symbols.errors if lenient else [*symbols.errors, *remarks]
        raise LanguageError(errors, source, source_name)
    return module, first_remarks(remarks)


def _resolve_program(program: syntax.Program, resolver: Resolver) -> None:
    symbols = resolver.symbols
    number = _number(program.number, "a program number", resolver)
    numbers: dict[int, str] = {}
    for version in program.versions:
        version_number = _number(version.number, "a version number", resolver)
        if version_number == 0:
            symbols.error(version.number.place, "a version number is not zero", "RFC 5531 section 8.1")
        if version_number in numbers:
            symbols.error(version.number.place, f"{numbers[version_number]} has version number {version_number} too")
        numbers[version_number] = version.name.name
        procedures = _resolve_procedures(version, resolver)
        resolver.module.versions.append(
            model.ProgramVersion(program.name.name, number, module_name(version.name.name), version_number, procedures)
        )


def _resolve_procedures(version: syntax.Version, resolver: Resolver) -> tuple[model.Procedure, ...]:
    symbols = resolver.symbols
    places: dict[str, SourceSpan] = {}
    numbers: dict[int, str] = {}
    # In the class of a client, a method hides the constant of a procedure that is called like it.
    taken = {spelt(procedure.name.name) for procedure in version.procedures for spelt in (module_name, field_name)}
    procedures: list[model.Procedure] = []
    for procedure in version.procedures:
        name = procedure.name.name
        if name in places:
            symbols.errors.append(Diagnostic.repeated(procedure.name.place, f"{name} is defined twice", places[name]))
        places[name] = procedure.name.place
        number = _number(procedure.number, "a procedure number", resolver)
        if number in numbers:
            symbols.error(procedure.number.place, f"{numbers[number]} has procedure number {number} too")
        numbers[number] = name
        taken -= {module_name(name), field_name(name)}
        method = method_name(name, taken)
        taken.add(method)
        result = None if procedure.result is None else resolver.specifier(procedure.result, f"{name}_result")
        procedures.append(
            model.Procedure(name, method, number, _resolve_arguments(procedure, version, resolver), result)
        )
    return tuple(procedures)


def _resolve_arguments(procedure: syntax.Procedure, version: syntax.Version, resolver: Resolver) -> model.Type | None:
    """Returns the type of a procedure's arguments; None for void.

    Several arguments become a structure PROCEDURE_args (VERSION_PROCEDURE_args, if that name is taken) with the members
    arg1, arg2 ..., which is added to the resolver's module.
    """
    owner = f"{procedure.name.name}_args"
    kinds = [resolver.specifier(kind, owner) for kind in procedure.arguments]
    if len(kinds) < 2:
        return kinds[0] if kinds else None
    if owner in resolver.symbols.definitions or owner in resolver.module.classes:
        owner = f"{version.name.name}_{owner}"
    members = [model.Member(field_name(f"arg{index}"), kind) for index, kind in enumerate(kinds, 1)]
    resolver.module.classes[owner] = model.Struct(owner, members)
    return model.ClassRef(owner)


def _number(value: syntax.Value, what: str, resolver: Resolver) -> int:
    number = resolver.symbols.evaluate(value)
    if resolver.symbols.exceeds(number, 0, _MAX_U32):
        resolver.symbols.error(value.place, f"{number} is not {what}: 0 to {_MAX_U32}")
    return number
