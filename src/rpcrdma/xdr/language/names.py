"""Maps the names of an interface definition to names that Python allows."""

from __future__ import annotations

import keyword
from collections.abc import Container

__all__ = ["definition_name", "enumerator_name", "field_name", "method_name", "module_name"]

_TAKEN = frozenset(
    {
        # Module-level names of the generated code itself.
        "Any", "Awaitable", "Buffer", "CallContext", "CallMethod", "ClientStub", "Composite", "DecodeError", "Decoder",
        "Encoder", "Final", "Layout", "LocalProtocolError", "MAX_DEPTH", "Memory", "OctetsMax", "PROGRAM", "Procedure",
        "ProcedureUnavailable", "Program", "ReplyBound", "Service", "SyncClientStub", "TypeAlias", "VoidCallMethod",
        "annotations", "attrgetter", "dataclass", "enum",
        "bool", "bytearray", "bytes", "float", "int", "isinstance", "len", "list", "max", "memoryview", "min", "range",
        "str", "type",
        # Local names of generated functions.
        "arm_value", "dec", "depth", "enc", "field", "group_values", "list_item", "tag", "value", "wire_value",
    }
)  # fmt: skip


def module_name(name: str) -> str:
    """Returns the Python name of a constant, type or program version of a definition.

    Names that Python or generated code uses, and names that end with an underscore, get the prefix `xdr_`.
    """
    return f"xdr_{name}" if keyword.iskeyword(name) or name in _TAKEN or name.endswith("_") else name


def field_name(name: str) -> str:
    """Returns the Python name of a structure's member: its own, with "_" behind a Python keyword and "mro".

    A name that is one of these and underscores gets one more, so that no two members have the same Python name.
    """
    return f"{name}_" if _is_no_field(name.rstrip("_")) else name


def definition_name(field: str) -> str:
    """Returns a member's name in the definition from `field`, its Python name; the inverse of `field_name`."""
    return field[:-1] if _is_no_field(field.rstrip("_")) else field


def _is_no_field(name: str) -> bool:
    # A dataclass takes `type.mro` for the default value of a field of that name.
    return keyword.iskeyword(name) or name == "mro"


def enumerator_name(name: str) -> str:
    """Returns the Python name of an enumerator: its own, with "_" behind a keyword, "mro", "name" and "value"."""
    return f"{name}_" if keyword.iskeyword(name) or name in {"mro", "name", "value"} else name


def method_name(procedure: str, taken: Container[str]) -> str:
    """Returns the Python method name of a procedure: lower case, without a prefix such as `NFSPROC3_`.

    The prefix ends at the first underscore, with `PROC` or `PROC` and digits before it. The prefix stays if the name
    without it is in `taken`, the names of other methods and procedures, or begins with no letter. If the whole name in
    lower case is in `taken` as well, the case stays, too. A Python keyword gets "_" appended.

    >>> method_name("NFSPROC3_READ", ())
    'read'
    """
    prefix, _, rest = procedure.partition("_")
    short = rest.lower() if rest and prefix.rstrip("0123456789").endswith("PROC") else procedure.lower()
    for name in (short, procedure.lower()):
        method = field_name(name)
        if name[0].isalpha() and method not in taken:
            return method
    return field_name(procedure)
