"""Generated statements and expressions that write and read one value of any type."""

from __future__ import annotations

import re

from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.writer import Writer

__all__ = ["ValueWriter"]


class ValueWriter:
    """Base of `CodecWriter`: writes the Python statements and expressions that encode and decode single values.

    `layouts` has the name of each `struct` layout that the generated code uses, by its format and field names.
    """

    def __init__(self, module: model.Module, out: Writer) -> None:
        self.module = module
        self.out = out
        self.layouts: dict[tuple[str, tuple[str, ...]], str] = {}
        self._owner = ""
        self._loops = 0
        self._locals: set[str] = set()

    # Names and bits of text

    def _unused_local(self, name: str) -> str:
        """Returns `name`, with underscores behind it until it is no other variable of the function, nor a class."""
        while name in self._locals or name in self.module.classes:
            name += "_"
        self._locals.add(name)
        return name

    def _layout(self, form: str, fields: list[str]) -> str:
        key = (form, tuple(fields))
        if key not in self.layouts:
            self.layouts[key] = f"_LAYOUT_{len(self.layouts) + 1}"
        return self.layouts[key]

    def _encoder_of(self, name: str) -> str:
        """Returns the Python expression of a function that encodes the structure or union `name`.

        Generated code calls it with (enc, value).
        """
        if name in self.module.recursive and self._owner in self.module.recursive:
            return f"lambda enc, entry: encode_{name}(enc, entry, depth + 1)"
        return f"encode_{name}"

    def _decoder_of(self, name: str) -> str:
        if name in self.module.recursive and self._owner in self.module.recursive:
            return f"lambda dec: decode_{name}(dec, depth + 1)"
        return f"decode_{name}"

    def _deeper(self, name: str) -> str:
        both = name in self.module.recursive and self._owner in self.module.recursive
        return ", depth + 1" if both else ""

    def _raise_local(self, label: str, complaint: str) -> None:
        text = f"{label}: {complaint}"
        quoted = f'f"{text}"' if "{" in complaint else f'"{text}"'
        with self.out.block():
            self.out.call("raise LocalProtocolError(", [quoted])

    def _decode_enum(self, kind: model.EnumRef, local: str, label: str, *, quoted: bool = True) -> None:
        field = f'"{label}"' if quoted else label
        if kind.signed:
            self.out.line(f"wire_value = dec.take({self._layout('i', [kind.name])}, {field})[0]")
        else:
            self.out.line(f"wire_value = dec.u32({field})")
        self.out.line(f"{local} = _{kind.name}_BY_VALUE.get(wire_value)")
        with self.out.block(f"if {local} is None:"):
            self.out.call(
                "raise DecodeError(",
                [field, "dec.pos - dec.start - 4", f'"a value of enum {kind.name}"', "str(wire_value)"],
            )

    def _encode(self, kind: model.Type, value: str, label: str) -> None:
        """Writes to `out` the statements that encode one value.

        Args:
            kind: the type of the value.
            value: the Python expression of the value.
            label: the value's name in errors.
        """
        out = self.out
        kind = model.strip(kind)
        field = f'"{label}"'
        match kind:
            case model.Number("I"):
                out.call("enc.u32(", [value, field])
            case model.Boolean():
                out.line(f"if {value} not in {{0, 1}}:")
                self._raise_local(label, f"{{{value}!r}} is no bool")
                out.call("enc.u32(", [value, field])
            case model.Number(code):
                out.call("enc.put(", [self._layout(code, [label]), value])
            case model.EnumRef(name):
                out.call(f"encode_{name}(", ["enc", value, field])
            case model.FixedOpaque(length):
                out.call("enc.fixed(", [value, str(length), field])
            case model.VariableOpaque(limit, ddp) | model.Text(limit, ddp):
                method = ("bulk_" if ddp else "") + "string" if isinstance(kind, model.Text) else _opaque(ddp=ddp)
                out.call(f"enc.{method}(", [value, str(limit), field])
            case model.ClassRef(name):
                out.line(f"encode_{name}(enc, {value}{self._deeper(name)})")
            case model.LinkedList(entry, limit, filled):
                least = ["filled=True"] if filled else []
                out.call("enc.linked_list(", [value, self._encoder_of(entry), str(limit), field, *least])
            case model.Optional(element):
                out.line(f"if {value} is None:")
                out.line(f"    enc.u32(0, {field})")
                with out.block("else:"):
                    out.line(f"enc.u32(1, {field})")
                    self._encode(element, value, label)
            case model.FixedArray(element, length):
                out.line(f"if len({value}) != {length}:")
                self._raise_local(label, f"{{len({value})}} elements given, the type has {length}")
                self._encode_elements(element, value, label)
            case model.VariableArray(element, limit, paired):
                out.call("enc.count(", [f"len({value})", str(limit), field])
                self._encode_elements(element, f"enc.paired({value})" if paired else value, label)

    def _encode_elements(self, element: model.Type, value: str, label: str) -> None:
        kind = model.strip(element)
        if isinstance(kind, model.Number):
            self.out.call("enc.numbers(", [f'"{kind.code}"', value, f'"{label}"'])
            return
        # Every loop of a function has a variable of its own: it has a type of its own.
        item = f"list_item{self._loops or ''}"
        self._loops += 1
        with self.out.block(f"for {item} in {value}:"):
            self._encode(element, item, label)

    def _decode(self, kind: model.Type, label: str) -> str:
        """Returns the Python expression that decodes one value of a type; `label` is the value's name in errors."""
        kind = model.strip(kind)
        field = f'"{label}"'
        match kind:
            case model.Number("I"):
                return f"dec.u32({field})"
            case model.Number("Q"):
                return f"dec.u64({field})"
            case model.Number(code):
                return f"dec.take({self._layout(code, [label])}, {field})[0]"
            case model.Boolean():
                return f"dec.boolean({field})"
            case model.EnumRef(name):
                return f"decode_{name}(dec, {field})"
            case model.FixedOpaque(length):
                return f"dec.fixed({length}, {field})"
            case model.VariableOpaque(limit, ddp):
                return f"dec.{_opaque(ddp=ddp)}({limit}, {field})"
            case model.Text(limit, ddp):
                return f"dec.{'bulk_' if ddp else ''}string({limit}, {field})"
            case model.ClassRef(name):
                return f"decode_{name}(dec{self._deeper(name)})"
            case model.LinkedList(entry, limit, filled):
                least = ", filled=True" if filled else ""
                return f"dec.linked_list({self._decoder_of(entry)}, {limit}, {field}{least})"
            case model.Optional(element):
                return f"({self._decode(element, label)} if dec.boolean({field}) else None)"
            case model.FixedArray(element, length):
                return self._decode_elements(element, str(length), label)
            case model.VariableArray(element, limit, paired):
                count = f"dec.count({limit}, {field})"
                elements = self._decode_elements(element, count, label)
                return elements.replace(f"range({count})", f"dec.paired({count})") if paired else elements
            case model.AliasRef():
                raise AssertionError(kind)

    def _decode_elements(self, element: model.Type, count: str, label: str) -> str:
        kind = model.strip(element)
        if isinstance(kind, model.Number):
            return f'dec.numbers("{kind.code}", {count}, "{label}")'
        return f"[{self._decode(element, label)} for _ in range({count})]"

    def _return(self, expression: str, kind: str) -> None:
        if expression.startswith(("dec.take(", "dec.numbers(")):
            self._statement(f"value: {kind} = ", expression)
            self.out.line("return value")
        else:
            self._statement("return ", expression)

    def _assign(self, local: str, expression: str) -> None:
        self._statement(f"{local} = ", expression)

    def _statement(self, before: str, expression: str) -> None:
        if expression.startswith("(") and expression.endswith(" else None)"):
            expression = expression[1:-1]
        if self.out.fits(before + expression):
            self.out.line(before + expression)
            return
        opening = re.match(r"dec\.\w+\(|\[", expression)
        end = 0 if opening is None else _end_of_brackets(expression, opening.end() - 1)
        if opening is None or expression[end:] not in {"", "[0]"}:
            self.out.line(f"{before}(")
            self.out.line(f"    {expression}")
            self.out.line(")")
            return
        self.out.line(f"{before}{opening[0]}")
        self.out.line(f"    {expression[opening.end() : end - 1]}")
        self.out.line(expression[end - 1 :])


def _end_of_brackets(expression: str, opening: int) -> int:
    """Returns the index behind the bracket that closes the bracket at index `opening`; AssertionError without one."""
    depth = 0
    for index in range(opening, len(expression)):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(expression[index], 0)
        if depth == 0:
            return index + 1
    raise AssertionError(expression)


def _opaque(*, ddp: bool) -> str:
    return "bulk" if ddp else "opaque"
