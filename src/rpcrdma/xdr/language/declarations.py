"""Generated declarations: constants, enumerations, dataclasses, aliases."""

from __future__ import annotations

from rpcrdma.file_limits import XDR_UNION_TYPES_MAX
from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.names import enumerator_name
from rpcrdma.xdr.language.writer import WIDTH, Writer

__all__ = ["annotation", "write_aliases", "write_classes", "write_constants", "write_enums"]


def annotation(kind: model.Type | None) -> str:
    """Returns the Python annotation, as text, for values of a type; None stands for void."""
    match kind:
        case None:
            return "None"
        case model.AliasRef(name) | model.EnumRef(name) | model.ClassRef(name):
            return name
        case model.Number(code):
            return "float" if code in "fd" else "int"
        case model.Boolean():
            return "bool"
        case model.Text():
            return "str"
        case model.VariableOpaque(ddp=True):
            return "Buffer"
        case model.FixedOpaque() | model.VariableOpaque():
            return "bytes"
        case model.FixedArray(element) | model.VariableArray(element):
            return f"list[{annotation(element)}]"
        case model.Optional(element):
            return _joined([annotation(element), "None"])
        case model.LinkedList(entry):
            return f"list[{entry}]"


def _joined(kinds: list[str]) -> str:
    parts = [part for kind in kinds for part in _split(kind)]
    unique = [part for part in dict.fromkeys(parts) if part != "None"]
    return " | ".join(unique + ["None"] * ("None" in parts))


def _split(kind: str) -> list[str]:
    return [kind] if "[" in kind else kind.split(" | ")


def write_constants(module: model.Module, out: Writer) -> None:
    """Writes `NAME: Final = value` to `out` for each constant of the module."""
    if module.constants:
        out.blank()
    for name, value in module.constants.items():
        out.line(f"{name}: Final = {value}")


def write_enums(module: model.Module, out: Writer) -> None:
    """Writes an IntEnum class to `out` for each enumeration, and a private dictionary from values to its members."""
    for item in module.enums:
        out.blank(2)
        with out.block(f"class {item.name}(enum.IntEnum):"):
            out.line(f'"""XDR enum `{item.name}`."""')
            out.blank()
            for name, value in item.members:
                out.line(f"{enumerator_name(name)} = {value}")
        out.blank(2)
        out.line(f"_{item.name}_BY_VALUE: Final = {{int(member): member for member in {item.name}}}")


def write_classes(module: model.Module, out: Writer) -> None:
    """Writes a dataclass to `out` for each structure and union of the module."""
    for item in module.classes.values():
        out.blank(2)
        out.line("@dataclass(slots=True, repr=False, eq=False)")
        with out.block(f"class {item.name}(Composite):"):
            if isinstance(item, model.Struct):
                out.line(f'"""XDR struct `{item.name}`."""')
                if item.members:
                    out.blank()
                for member in item.members:
                    out.line(f"{member.name}: {annotation(member.type)}")
            else:
                out.line(f'"""XDR union `{item.name}`, switched by `{item.discriminant.name}`."""')
                out.blank()
                out.line(f"{item.discriminant.name}: {annotation(item.discriminant.type)}")
                _write_value(item, out)


def _write_value(item: model.Union, out: Writer) -> None:
    arms = [*item.arms, *([item.default] if item.default else [])]
    kinds = _joined([annotation(arm.type) for arm in arms])
    if kinds.count(" | ") >= XDR_UNION_TYPES_MAX:
        kinds = "Any"
    line = f"value: {kinds}"
    if 4 * out.indent + len(line) <= WIDTH:
        out.line(line)
        return
    out.line("value: (")
    for index, kind in enumerate(kinds.split(" | ")):
        out.line(f"    {'| ' if index else ''}{kind}")
    out.line(")")


def write_aliases(module: model.Module, out: Writer) -> None:
    """Writes typedefs to `out` as type aliases; everything that they name must have been written before."""
    if module.aliases:
        out.blank(2 if module.classes or module.enums else 1)
    for name, kind in module.aliases.items():
        out.line(f"{name}: TypeAlias = {annotation(kind)}")
