"""The Wireshark dissector of version 2: the text `dissector.lua` with tables made from an XDR definition.

`rpcrdma decode` uses the same definition, so both show the same fields under the same names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rpcrdma.xdr.language import model
from rpcrdma_lab import limits
from rpcrdma_lab.dissect.definitions import Definition
from rpcrdma_lab.dissect.headers import HeaderVersion
from rpcrdma_lab.dissect.rule_table import RULES, Rule
from rpcrdma_lab.dissect.xdr_walk import FLAG_WORDS

__all__ = ["lua_dissector"]

_PREFIX = "rpcrdma2"
_CHUNKS = (
    "rdma_reads",
    "rdma_writes",
    "rdma_reply",
    "rdma_provisional_writes",
    "rdma_provisional_reply",
)
_MASKS = {
    "credit_pair": (
        ("granted", "messages that the receiver may send besides", 0x0000FFFF),
        ("max", "messages at a time at most", 0xFFFF0000),
    )
}


def lua_dissector(version: HeaderVersion) -> str:
    """Returns the Wireshark dissector of protocol version 2, which `version` describes, as the text of a Lua file."""
    definition = version.definition
    tables = "\n\n".join(
        [
            f"local FIELDS = {_fields(definition)}",
            f"local PARTS = {_parts(definition)}",
            f"local STRUCTS = {_structs(definition)}",
            f"local UNIONS = {_unions(definition)}",
            f"local TYPES = {_by_number(definition.codes['header_type'])}",
            f"local ERRORS = {_by_number(definition.codes['error_code'])}",
            f"local WITH_PAYLOAD = {_set(version.with_payload)}",
            f"local POSITIONS = {_set(['rdma_position'])}",
            f"local RULES = {_rules(RULES[version.name])}",
            f"local CHUNKS = {{ {', '.join(json.dumps(name) for name in _CHUNKS)} }}",
        ]
    )
    text = Path(__file__).with_name("dissector.lua").read_text(encoding="utf-8")
    replacements = {
        "@DOCUMENT@": f"draft-ietf-nfsv4-rpcrdma-{definition.document}",
        "@JOINED_MAX@": str(limits.DISSECTED_MESSAGE_OCTETS_MAX),
        "@TABLES@": tables,
    }
    for mark, replacement in replacements.items():
        text = text.replace(mark, replacement)
    return text


def _members(definition: Definition) -> Iterator[tuple[str, model.Member]]:
    """Yields (name of structure or union, member) for each member of a structure, each discriminant and each arm.

    Arms without a type are left out.
    """
    for name, item in definition.classes.items():
        if isinstance(item, model.Struct):
            yield from ((name, member) for member in item.members)
            continue
        yield name, item.discriminant
        for arm in [*item.arms, item.default]:
            if arm is not None and arm.type is not None:
                yield name, model.Member(arm.name, arm.type)


def _fields(definition: Definition) -> str:
    lines = {}
    for owner, member in _members(definition):
        made = _proto_field(definition, owner, member)
        if made is not None:
            lines[member.name] = made
        for name, meaning, mask in _masked(definition, member):
            lines[name] = (
                f'ProtoField.uint32("{_PREFIX}.{_short(name)}", {json.dumps(name)}, base.DEC, nil, {mask:#x}, '
                f"{json.dumps(meaning)})"
                if mask.bit_count() > 1
                else f'ProtoField.bool("{_PREFIX}.{_short(name)}", {json.dumps(name)}, 32, nil, {mask:#x}, '
                f"{json.dumps(meaning)})"
            )
    return _table(f"[{json.dumps(name)}] = {made}" for name, made in lines.items())


def _short(name: str) -> str:
    return name.removeprefix("rdma_").lower()


def _masked(definition: Definition, member: model.Member) -> Iterator[tuple[str, str, int]]:
    """Yields (MEMBER.PART, meaning, mask) for each part of a member that is a word of flags or of several numbers.

    Yields nothing for a member of another type. `definition`, the XDR definition of the member, names the flags.
    """
    typedef = member.type.name if isinstance(member.type, model.AliasRef) else ""
    for part, meaning, mask in _MASKS.get(typedef, ()):
        yield f"{member.name}.{part}", meaning, mask
    flags = FLAG_WORDS.get(typedef)
    if flags is not None:
        for bit, name in definition.codes[flags].items():
            yield f"{member.name}.{name}", definition.note(flags, name).meaning, bit


def _proto_field(definition: Definition, owner: str, member: model.Member) -> str | None:
    kind = model.strip(member.type)
    if isinstance(kind, model.VariableArray) and isinstance(kind.element, model.Number):
        kind = kind.element
    note = definition.note(owner, member.name)
    about = json.dumps(f"{note.meaning} [{note.section}]")
    start = f'"{_PREFIX}.{_short(member.name)}", "{member.name}"'
    if isinstance(kind, model.EnumRef):
        codes = [
            f"[{value}] = {json.dumps(f'{name} ({definition.note(kind.name, name).meaning})')}"
            for value, name in definition.codes[kind.name].items()
        ]
        return f"ProtoField.uint32({start}, base.DEC, {{ {', '.join(codes)} }}, nil, {about})"
    if isinstance(kind, model.Number):
        typedef = member.type.name if isinstance(member.type, model.AliasRef) else ""
        shown = "base.HEX" if typedef else "base.DEC"
        return f"ProtoField.uint{kind.octets * 8}({start}, {shown}, nil, nil, {about})"
    if isinstance(kind, model.VariableOpaque):
        return f"ProtoField.bytes({start}, base.SPACE, {about})"
    return None


def _parts(definition: Definition) -> str:
    found = {}
    for _, member in _members(definition):
        names = [json.dumps(name) for name, _, _ in _masked(definition, member)]
        if names and isinstance(member.type, model.AliasRef):
            found[member.type.name] = names
    return _table(f"{name} = {{ {', '.join(names)} }}" for name, names in found.items())


def _structs(definition: Definition) -> str:
    return _table(
        f"{name} = {_table((_member(member) for member in item.members), 1)}"
        for name, item in definition.classes.items()
        if isinstance(item, model.Struct)
    )


def _unions(definition: Definition) -> str:
    found = []
    for name, item in definition.classes.items():
        if isinstance(item, model.Union):
            arms = [
                f"[{value}] = {_member(model.Member(arm.name, arm.type)) if arm.type is not None else 'false'}"
                for arm in item.arms
                for value, _ in arm.values
            ]
            parts = [f"discriminant = {_member(item.discriminant)}", f"arms = {_table(arms, 2)}"]
            if item.default is not None:
                parts.append("default = false")
            found.append(f"{name} = {_table(parts, 1)}")
    return _table(found)


def _member(member: model.Member) -> str:
    """Returns the Lua table, as text, that describes a member to the decoder in `dissector.lua`."""
    typedef = member.type.name if isinstance(member.type, model.AliasRef) else ""
    kind = model.strip(member.type)
    match kind:
        case model.Number():
            said = f'kind = "u{kind.octets * 8}"'
        case model.EnumRef():
            said = 'kind = "u32"'
        case model.VariableOpaque():
            said = 'kind = "opaque"'
        case model.ClassRef(name):
            said = f'kind = "struct", of = "{name}"'
        case model.LinkedList(entry=name):
            said = f'kind = "list", of = "{name}"'
        case model.Optional(element=model.ClassRef(name)):
            said = f'kind = "optional", of = "{name}"'
        case model.VariableArray(element=model.Number(octets=4)):
            said = 'kind = "numbers"'
        case model.VariableArray(element=model.ClassRef(name)):
            said = f'kind = "array", of = "{name}"'
        case _:
            raise AssertionError(kind)
    formatted = f', format = "{typedef}"' if typedef else ""
    return f'{{ name = "{member.name}", {said}{formatted} }}'


def _by_number(names: Mapping[int, str]) -> str:
    return _table(f"[{value}] = {json.dumps(name)}" for value, name in names.items())


def _rules(rules: Iterable[Rule]) -> str:
    rows = []
    for rule in rules:
        facts = [f"[{json.dumps(fact.removeprefix('not '))}] = {_bool(fact)}" for fact in rule.facts]
        kinds = f"kinds = {_set(rule.kinds)}, " if rule.kinds else ""
        reason = rule.reason.format(kind="{kind}", rpc_xid=_LuaXid())
        rows.append(
            f'{{ {kinds}facts = {{ {", ".join(facts)} }}, member = "{rule.member}", '
            f"reason = {json.dumps(f'{reason} [{rule.section}]')} }}"
        )
    return _table(rows)


def _bool(fact: str) -> str:
    return "false" if fact.startswith("not ") else "true"


class _LuaXid:
    """A placeholder for an XID in a format string: any format specification yields "{rpc_xid}"."""

    def __format__(self, _spec: str) -> str:
        return "{rpc_xid}"


def _set(names: Iterable[str]) -> str:
    return f"{{ {', '.join(f'{name} = true' for name in sorted(names))} }}"


def _table(rows: Iterable[str], level: int = 0) -> str:
    indent = "    " * (level + 1)
    lines = "".join(f"{indent}{row},\n" for row in rows)
    return f"{{\n{lines}{'    ' * level}}}" if lines else "{}"
