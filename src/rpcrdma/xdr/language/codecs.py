"""Generated encode_T and decode_T: straight-line functions over the runtime's Encoder and Decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.declarations import annotation
from rpcrdma.xdr.language.groups import DecodedGroup, EncodedGroup, decode_group, encode_group, slots_of
from rpcrdma.xdr.language.values import ValueWriter
from rpcrdma.xdr.language.writer import Item

__all__ = ["CodecWriter"]

_MOST_SLOTS = 120

_ArmWriter: TypeAlias = Callable[[model.Arm], None]
_Refuse: TypeAlias = Callable[[], None]


class CodecWriter(ValueWriter):
    """Writes the codec functions of a module's types, and collects in `layouts` the struct layouts that they use."""

    @contextmanager
    def _head(self, verb: str, name: str, arguments: str, result: str) -> Iterator[None]:
        """Writes the head of a codec function; within the context the caller writes the body.

        Args:
            verb: "encode" or "decode".
            name: the name of the type. If it contains itself, the function gets a check of the depth.
            arguments: the parameters of the function in Python, separated by ", ".
            result: the annotation of its result.
        """
        out = self.out
        recursive = name in self.module.recursive
        self._loops = 0
        self._locals.clear()
        out.blank(2)
        depth = ["depth: int = 0"] if recursive else []
        out.call(f"def {verb}_{name}(", [*arguments.split(", "), *depth], f") -> {result}:")
        with out.block():
            if recursive:
                refusal = f'LocalProtocolError(f"{name}: more than {{MAX_DEPTH}} levels")'
                if verb == "decode":
                    refusal = f'DecodeError("{name}", dec.pos - dec.start, f"at most {{MAX_DEPTH}} levels", "more")'
                out.line("if depth > MAX_DEPTH:")
                out.line(f"    raise {refusal}")
            yield

    # Enumerations and typedefs

    def enum(self, item: model.Enum) -> None:
        """Writes encode_E and decode_E of an enumeration E; their parameter `field` names the value in errors."""
        ref = model.EnumRef(item.name, any(value < 0 for _, value in item.members))
        self._owner = item.name
        with self._head("encode", item.name, f'enc: Encoder, value: {item.name}, field: str = "{item.name}"', "None"):
            self.out.line(f"if value not in _{item.name}_BY_VALUE:")
            self._raise_local("{field}", "{value!r} is no value of enum " + item.name)
            if ref.signed:
                self.out.line(f"enc.put({self._layout('i', [item.name])}, value)")
            else:
                self.out.line("enc.u32(value, field)")
        with self._head("decode", item.name, f'dec: Decoder, field: str = "{item.name}"', item.name):
            self._decode_enum(ref, "value", "field", quoted=False)
            self.out.line("return value")

    def alias(self, name: str, kind: model.Type) -> None:
        """Writes encode_T and decode_T of the typedef T = `name` with the type `kind`."""
        self._owner = name
        with self._head("encode", name, f"enc: Encoder, value: {name}", "None"):
            self._encode(kind, "value", name)
        with self._head("decode", name, "dec: Decoder", name):
            self._return(self._decode(kind, name), name)

    def plain(self, function: str, kind: model.Type | None) -> None:
        """Writes `_encode_F` and `_decode_F`, F being `function`, for a type without a name; `kind` None is void."""
        self._owner = ""
        self.out.blank(2)
        unused = "_" if kind is None else ""
        with self.out.block(
            f"def _encode_{function}({unused}enc: Encoder, {unused}value: {annotation(kind)}) -> None:"
        ):
            if kind is None:
                self.out.line('"""Void: nothing to write."""')
            else:
                self._encode(kind, "value", function)
        self.out.blank(2)
        with self.out.block(f"def _decode_{function}({unused}dec: Decoder) -> {annotation(kind)}:"):
            if kind is None:
                self.out.line('"""Void: nothing to read."""')
            else:
                self._return(self._decode(kind, function), annotation(kind))

    # Structures

    def struct(self, item: model.Struct) -> None:
        """Writes encode_T and decode_T of a structure T; adjacent fixed-size members share a `struct` format."""
        self._owner = item.name
        with self._head("encode", item.name, f"enc: Encoder, value: {item.name}", "None"):
            for run in self._runs(item):
                self._encode_run(run, item.name)
            if not item.members and item.name not in self.module.recursive:
                self.out.line('"""Writes nothing: the structure has no members."""')
        with self._head("decode", item.name, "dec: Decoder", item.name):
            values: list[Item] = []
            for index, run in enumerate(self._runs(item)):
                values += self._decode_run(run, item.name, f"group_values{index or ''}")
            self.out.call(f"return {item.name}(", values)

    def _runs(self, item: model.Struct) -> list[list[model.Member]]:
        """Returns the members of a structure in runs, in order: adjacent fixed-size members, or one other member each.

        A run has at most 120 values.
        """
        runs: list[list[model.Member]] = []
        slots = 0
        for member in item.members:
            count = slots_of(member.type, self.module)
            if count is not None and slots and slots + count <= _MOST_SLOTS:
                runs[-1].append(member)
                slots += count
            else:
                runs.append([member])
                slots = count or 0
        return runs

    def _is_group(self, run: list[model.Member]) -> bool:
        """Returns whether one `struct` format (`Layout`) serves the members `run`.

        It does for several fixed-size values, and for a member that is a structure of one such value.
        """
        slots = sum(slots_of(member.type, self.module) or 0 for member in run)
        return slots > 1 or (len(run) == 1 and slots == 1 and isinstance(model.strip(run[0].type), model.ClassRef))

    def _encode_run(self, run: list[model.Member], owner: str) -> None:
        if not self._is_group(run):
            for member in run:
                self._encode(member.type, f"value.{member.name}", f"{owner}.{member.name}")
            return
        group = EncodedGroup()
        for member in run:
            encode_group(member.type, f"value.{member.name}", f"{owner}.{member.name}", group, self.module)
        for condition, label, complaint in group.checks:
            self.out.line(f"if {condition}:")
            self._raise_local(label, complaint)
        self.out.call("enc.put(", [self._layout(group.format, group.fields), *group.values])

    def _decode_run(self, run: list[model.Member], owner: str, tuple_name: str) -> list[Item]:
        if not self._is_group(run):
            (member,) = run
            local = self._unused_local(f"{member.name}_")
            kind = model.strip(member.type)
            label = f"{owner}.{member.name}"
            if isinstance(kind, model.EnumRef):
                self._decode_enum(kind, local, label)
            else:
                self._assign(local, self._decode(kind, label))
            return [local]
        encoded = EncodedGroup()
        group = DecodedGroup(self._unused_local)
        values: list[Item] = []
        for member in run:
            label = f"{owner}.{member.name}"
            encode_group(member.type, "", label, encoded, self.module)
            values.append(decode_group(member.type, tuple_name, label, f"{member.name}_", group, self.module))
        layout = self._layout(encoded.format, encoded.fields)
        first, last = encoded.fields[0], encoded.fields[-1].removeprefix(f"{owner}.")
        label = first if len(encoded.fields) == 1 else f"{first}..{last}"
        self.out.call(f"{tuple_name} = dec.take(", [layout, f'"{label}"'])
        for check, slot, before, field, local in group.checks:
            place = f"dec.pos - dec.start - {group.octets - before}"
            item = f"{tuple_name}[{slot}]"
            if check == "bool":
                self.out.line(f"if {item} > 1:")
                arguments = [f'"{field}"', place, '"0 or 1"', f"str({item})"]
            else:
                self.out.line(f"{local} = _{check}_BY_VALUE.get({item})")
                self.out.line(f"if {local} is None:")
                arguments = [f'"{field}"', place, f'"a value of enum {check}"', f"str({item})"]
            with self.out.block():
                self.out.call("raise DecodeError(", arguments)
        return values

    # Unions

    def union(self, item: model.Union) -> None:
        """Writes encode_T and decode_T of a union T, as comparisons of the discriminant with the values of the arms."""
        self._owner = item.name
        out = self.out
        discriminant = item.discriminant
        kind = model.strip(discriminant.type)
        label = f"{item.name}.{discriminant.name}"
        with self._head("encode", item.name, f"enc: Encoder, value: {item.name}", "None"):
            out.line(f"tag = value.{discriminant.name}")
            out.line("arm_value: Any = value.value")

            def encode_arm(arm: model.Arm) -> None:
                if len(arm.values) == 1 and isinstance(kind, model.EnumRef | model.Boolean):
                    out.line(f"enc.reduced += {_word(arm.values[0][0])}")
                elif arm.values and isinstance(kind, model.EnumRef) and not kind.signed:
                    out.line(f'enc.u32(tag, "{label}")')
                else:
                    self._encode(discriminant.type, "tag", label)
                self._encode_arm(arm, f"{item.name}.{arm.name}" if arm.name else item.name)

            refuse = f'f"{label}: {{tag!r}} is no case of union {item.name}"'
            self._chain(item, kind, encode_arm, lambda: out.call("raise LocalProtocolError(", [refuse]), after="return")
        with self._head("decode", item.name, "dec: Decoder", item.name):
            if isinstance(kind, model.EnumRef):
                self._decode_enum(kind, "tag", label)
            else:
                self._assign("tag", self._decode(kind, label))

            def decode_arm(arm: model.Arm) -> None:
                if arm.type is None:
                    out.call(f"return {item.name}(", ["tag", "None"])
                    return
                out.call(f"return {item.name}(", ["tag", self._decode(arm.type, f"{item.name}.{arm.name}")])

            arguments = [f'"{label}"', "dec.pos - dec.start - 4", f'"a case of union {item.name}"', "str(int(tag))"]
            self._chain(item, kind, decode_arm, lambda: out.call("raise DecodeError(", arguments))

    def _chain(
        self, item: model.Union, kind: model.Type, write_arm: _ArmWriter, refuse: _Refuse, *, after: str = ""
    ) -> None:
        out = self.out
        arms = list(item.arms)
        every = isinstance(kind, model.Boolean) and sum(len(arm.values) for arm in arms) == 2
        if every and len(arms) == 1:
            write_arm(arms[0])
            return
        for index, arm in enumerate(arms):
            if every and index == len(arms) - 1:
                write_arm(arm)
                return
            with out.block(f"if {_condition(arm, kind)}:"):
                write_arm(arm)
                if after:
                    out.line(after)
        if item.default is not None:
            write_arm(item.default)
        else:
            refuse()

    def _encode_arm(self, arm: model.Arm, label: str) -> None:
        out = self.out
        kind = None if arm.type is None else model.strip(arm.type)
        if kind is None:
            out.line("if arm_value is not None:")
            self._raise_local(label, "{type(arm_value).__name__} given, the arm is void")
            return
        if isinstance(kind, model.ClassRef):
            out.line(f"if not isinstance(arm_value, {kind.name}):")
            self._raise_local(label, f"{{type(arm_value).__name__}} given, the arm is {kind.name}")
        elif isinstance(kind, model.FixedOpaque | model.VariableOpaque):
            # Any object with the buffer protocol is octets: only the values of other arms are refused here.
            out.line("if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):")
            self._raise_local(label, "{type(arm_value).__name__} given, the arm is opaque")
        elif isinstance(kind, model.Text):
            out.line("if not isinstance(arm_value, str):")
            self._raise_local(label, "{type(arm_value).__name__} given, the arm is a string")
        elif isinstance(kind, model.FixedArray | model.VariableArray | model.LinkedList):
            out.line("if not isinstance(arm_value, list):")
            self._raise_local(label, "{type(arm_value).__name__} given, the arm is a list")
        self._encode(kind, "arm_value", label)


def _word(value: int) -> str:
    """Returns the Python bytes literal of a discriminant's four octets; negative values as two's complement."""
    return 'b"' + "".join(f"\\x{octet:02x}" for octet in (value & 0xFFFFFFFF).to_bytes(4)) + '"'


def _condition(arm: model.Arm, kind: model.Type) -> str:
    numbers = [value for value, _ in arm.values]
    if isinstance(kind, model.Boolean):
        return "tag" if numbers == [1] else "not tag"
    if len(numbers) == 1:
        return f"tag == {numbers[0]}"
    return f"tag in {{{', '.join(map(str, numbers))}}}"
