"""`pragma bound`: members of a call's arguments that bound members of its result."""

from __future__ import annotations

from rpcrdma.xdr.language import model, syntax
from rpcrdma.xdr.language.diagnostics import SourceSpan
from rpcrdma.xdr.language.names import field_name, module_name
from rpcrdma.xdr.language.symbols import Symbols

__all__ = ["resolve_bounds"]


def resolve_bounds(module: model.Module, symbols: Symbols) -> None:
    """Fills `module.bounds` from `pragma bound` lines: the `Bound` of each (result class, member, arguments class).

    Pragmas with wrong names or types, repeated ones, and those for whose classes there is no procedure, become errors
    in `symbols`.
    """
    returned: dict[str, set[str]] = {}
    for pragma in symbols.bounds:
        bounded = _member(module, symbols, pragma.target)
        argument = _member(module, symbols, pragma.argument)
        if bounded is None or argument is None:
            continue
        result_class, result_member, kind = bounded
        arguments_class, argument_member, argument_kind = argument
        if not _can_be_bounded(symbols, pragma, kind):
            continue
        if arguments_class not in returned:
            returned[arguments_class] = _returned(module, arguments_class)
        counted = isinstance(argument_kind, model.VariableArray | model.LinkedList) * "len({})"
        if isinstance(argument_kind, model.VariableOpaque):
            counted = "memoryview({}).nbytes"
        if not counted and not (isinstance(argument_kind, model.Number) and argument_kind.code in "IQ"):
            symbols.error(
                _place(pragma.argument),
                f"{_spelt(pragma.argument)} bounds nothing",
                "only an unsigned integer, or an opaque<>, array or list, whose length counts, can",
            )
        elif result_class not in returned[arguments_class]:
            symbols.error(
                _place(pragma.target),
                f"no procedure that takes {pragma.argument.type.name} returns {_spelt(pragma.target)}",
            )
        elif (key := (result_class, result_member, arguments_class)) in module.bounds:
            symbols.error(
                _place(pragma.target), f"a second bound for {_spelt(pragma.target)} by {pragma.argument.type.name}"
            )
        else:
            module.bounds[key] = model.Bound(argument_member, counted, pragma.octets)


def _member(module: model.Module, symbols: Symbols, target: syntax.Target) -> tuple[str, str, model.Type] | None:
    """Returns (class, member, type) of the member that a pragma names: Python names, and the type without typedefs.

    Returns None, and adds an error to `symbols`, if there is no such member.
    """
    name = module_name(target.type.name)
    item = module.classes.get(name)
    if item is None:
        if target.type.name in symbols.definitions:
            symbols.error(target.type.place, f"{target.type.name} is neither a structure nor a union")
        else:
            symbols.unknown("type", target.type.name, target.type.place, symbols.definitions)
        return None
    if target.member is None:
        symbols.error(target.type.place, f"which member of {target.type.name}?", f"{target.type.name}.member")
        return None
    wanted = field_name(target.member.name)
    members: dict[str, model.Type] = {}
    if isinstance(item, model.Struct):
        members = {member.name: member.type for member in item.members}
    else:
        members = {arm.name: arm.type for arm in [*item.arms, item.default] if arm is not None and arm.type is not None}
    if wanted not in members:
        symbols.unknown("member", target.member.name, target.member.place, members)
        return None
    return name, wanted, model.strip(members[wanted])


def _can_be_bounded(symbols: Symbols, pragma: syntax.BoundPragma, kind: model.Type) -> bool:
    elements = isinstance(kind, model.VariableArray | model.LinkedList)
    if pragma.octets and not elements:
        hint = "without the word octets, its length is bounded" if _is_data(kind) else ""
        symbols.error(_place(pragma.target), f"{_spelt(pragma.target)} has no elements", hint)
        return False
    if not elements and not _is_data(kind):
        symbols.error(_place(pragma.target), f"{_spelt(pragma.target)} is not of variable length")
        return False
    return True


def _is_data(kind: model.Type) -> bool:
    return isinstance(kind, model.VariableOpaque | model.Text)


def _returned(module: model.Module, arguments_class: str) -> set[str]:
    """Returns the names of the classes in the results of the procedures that take `arguments_class`."""
    results: set[str] = set()
    for version in module.versions:
        for procedure in version.procedures:
            if procedure.arguments is None or procedure.result is None:
                continue
            found = model.class_in(procedure.result)
            if found is not None and model.strip(procedure.arguments) == model.ClassRef(arguments_class):
                results.add(found)
    return model.reachable(module, results)


def _spelt(target: syntax.Target) -> str:
    return target.type.name if target.member is None else f"{target.type.name}.{target.member.name}"


def _place(target: syntax.Target) -> SourceSpan:
    return (target.member or target.type).place
