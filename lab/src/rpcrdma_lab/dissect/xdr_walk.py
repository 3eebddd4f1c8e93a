"""Decodes a header along its XDR definition: fields up to the first fault, and the reason of the fault.

It uses the definition alone and shares no code with the codecs of `rpcrdma.transport`, so that each can be compared
with the other.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import TypeAlias

from rpcrdma.errors import DecodeError
from rpcrdma.xdr import Reader
from rpcrdma.xdr.language import model
from rpcrdma_lab import limits
from rpcrdma_lab.dissect.definitions import Definition, Note
from rpcrdma_lab.dissect.fields import Field, FieldFault, octets_shown

__all__ = ["FLAG_WORDS", "FORMATS", "Walk"]

XDR = "RFC 4506"


FLAG_WORDS = {"flag_word": "header_flag", "support_word": "support_flag", "segment_word": "segment_flag"}
"""Typedefs of words that consist of flags, with the enumeration of the flags."""


def _flags(enumeration: str) -> Callable[[int, Definition], str]:
    def shown(value: int, definition: Definition) -> str:
        flags = definition.codes[enumeration]
        names = [name for bit, name in flags.items() if value & bit]
        unknown = value & ~sum(flags)
        return f"{value:#x} ({', '.join(names + [f'unknown {unknown:#x}'] * bool(unknown)) or 'none'})"

    return shown


FORMATS: dict[str, Callable[[int, Definition], str]] = {
    "hex32": lambda value, _: f"{value:#010x}",
    "hex64": lambda value, _: f"{value:#018x}",
    "credit_pair": lambda value, _: f"{value & 0xFFFF} more, {value >> 16} at most",
    **{typedef: _flags(enumeration) for typedef, enumeration in FLAG_WORDS.items()},
}
"""Functions that format numbers, by typedef of the definition."""

_Path: TypeAlias = list[Field]


def _signed(word: int, octets: int) -> int:
    return word - (1 << 8 * octets) if word >> 8 * octets - 1 else word


class _FaultFound(Exception):
    """Raised within a walk when the octets do not follow the definition from here on; the fault is in `Walk.faults`."""


class Walk:
    """Decodes XDR items in `data`, from octet `start` on, one after another, by a definition.

    Offsets of fields and faults count from `start`. The first fault ends the decoding of an item, and is added to
    `faults`. Too many fields, or fields nested too deeply, are a fault, too (`limits.DISSECTED_FIELDS_MAX`,
    `limits.DISSECTED_DEPTH_MAX`).
    """

    def __init__(self, definition: Definition, data: bytes, start: int = 0) -> None:
        self.definition = definition
        self.faults: list[FieldFault] = []
        self._reader = Reader(data, start)
        self._room = limits.DISSECTED_FIELDS_MAX
        self._depth = 0

    @property
    def pos(self) -> int:
        """The offset of the next octet to be decoded, from the beginning of `data`, not from `start`."""
        return self._reader.pos

    @property
    def remaining(self) -> int:
        """The number of octets from `pos` up to the end of the walk."""
        return self._reader.remaining

    def structure(self, name: str, shown_as: str | None = None) -> Field:
        """Decodes the structure or union `name` of the definition, and returns it as a field.

        If a fault is added to `faults`, the field is incomplete. `shown_as` is the name of the field; None takes
        `name`.
        """
        return self.item(model.ClassRef(name), shown_as or name)

    def item(self, kind: model.Type, name: str) -> Field:
        """Decodes an item of the XDR type `kind`, and returns it as a field with this name.

        If a fault is added to `faults`, the field is incomplete.
        """
        top: _Path = []
        with contextlib.suppress(_FaultFound):
            self._value(kind, name, Note("", ""), top)
        return top[0]

    def done(self, what: str, note: Note) -> None:
        """Adds a fault to `faults` if octets remain and there is no other fault: all octets should have been decoded.

        `what` is the name of the field for the fault, and the section of `note` its citation.
        """
        if self._reader.remaining and not self.faults:
            self.faults.append(FieldFault(what, self._at, f"{self._reader.remaining} more octets follow", note.section))

    def rest(self, name: str) -> Field:
        """Takes all octets that remain, and returns them as one field with this name."""
        at, data = self._at, self._reader.octets(self._reader.remaining, name)
        return Field(name, at, len(data), data, octets_shown(data))

    @property
    def _at(self) -> int:
        return self._reader.pos - self._reader.start

    def _fail(self, field: Field, offset: int, reason: str, section: str) -> _FaultFound:
        field.faults.append(reason)
        self.faults.append(FieldFault(field.name, offset, reason, section))
        return _FaultFound()

    def _word(self, field: Field, octets: int = 4) -> int:
        try:
            return self._reader.u32(field.name) if octets == 4 else self._reader.u64(field.name)
        except DecodeError as error:
            raise self._fail(field, self._at, f"{error.need} needed, {error.have} left", field.section) from None

    def _octets(self, field: Field, length: int) -> bytes:
        try:
            data = self._reader.octets(length, field.name)
        except DecodeError as error:
            raise self._fail(field, self._at, f"{error.need} needed, {error.have} left", field.section) from None
        return data

    def _value(self, kind: model.Type, name: str, note: Note, into: _Path) -> Field:
        """Decodes an item of the type `kind` to a field with this name, and meaning and section of `note`; returns it.

        The field is appended to the list `into` before it is decoded, so that a faulty field is shown, too.

        Raises:
            _FaultFound: the item does not follow the definition, or exceeds the limits.
        """
        typedef = ""
        while isinstance(kind, model.AliasRef):
            typedef = typedef or kind.name
            kind = kind.type
        field = Field(name, self._at, meaning=note.meaning, section=note.section)
        into.append(field)
        if self._depth == limits.DISSECTED_DEPTH_MAX:
            raise self._fail(field, self._at, f"more than {limits.DISSECTED_DEPTH_MAX} levels", "")
        self._depth += 1
        try:
            self._read(field, kind, typedef)
        finally:
            self._depth -= 1
            field.size = self._at - field.offset
        return field

    def _read(self, field: Field, kind: model.Type, typedef: str) -> None:
        self._room -= 1
        if self._room < 0:
            raise self._fail(field, self._at, f"more than {limits.DISSECTED_FIELDS_MAX} fields", "")
        match kind:
            case model.Number():
                self._number(field, kind, FORMATS.get(typedef))
            case model.Boolean():
                field.value = int(self._present(field))
                field.shown = "true" if field.value else "false"
            case model.EnumRef(name=enumeration, signed=signed):
                self._enumeration(field, enumeration, signed=signed)
            case model.FixedOpaque(length=length):
                field.value = self._padded(field, length)
                field.shown = octets_shown(field.value)
            case model.FixedArray(element=element, length=length):
                for number in range(length):
                    self._value(element, f"[{number}]", Note("", field.section), field.fields)
            case model.VariableOpaque(limit=limit):
                field.value = self._variable(field, limit)
                field.shown = octets_shown(field.value)
            case model.Text(limit=limit):
                field.value = self._variable(field, limit).decode("ascii", "backslashreplace")
                field.shown = field.value
            case model.VariableArray(element=element, limit=limit):
                self._array(field, element, limit)
            case model.LinkedList(entry=entry):
                self._list(field, entry)
            case model.Optional(element=element):
                if self._present(field):
                    self._inside(field, element)
                else:
                    field.shown = "none"
            case model.ClassRef(name=owner):
                self._class(field, owner)
            case _:
                raise AssertionError(kind)

    def _number(self, field: Field, kind: model.Number, shown: Callable[[int, Definition], str] | None) -> None:
        word = self._word(field, kind.octets)
        if kind.code in "fd":
            field.value = field.shown = str(struct.unpack(f">{kind.code}", word.to_bytes(kind.octets))[0])
            return
        field.value = _signed(word, kind.octets) if kind.code in "iq" else word
        field.shown = str(field.value) if shown is None else shown(field.value, self.definition)

    def _enumeration(self, field: Field, enumeration: str, *, signed: bool) -> None:
        word = self._word(field)
        value = field.value = _signed(word, 4) if signed else word
        code = self.definition.codes[enumeration].get(value)
        if code is None:
            field.shown = f"{value} (unknown)"
            return
        said = self.definition.note(enumeration, code)
        field.shown = f"{value} ({code}: {said.meaning})" if said.meaning else f"{value} ({code})"
        field.section = said.section

    def _variable(self, field: Field, limit: int) -> bytes:
        length = self._word(field)
        if length > limit:
            raise self._fail(field, field.offset, f"{length} octets, at most {limit} are allowed", field.section)
        return self._padded(field, length)

    def _padded(self, field: Field, length: int) -> bytes:
        data = self._octets(field, length)
        if any(self._octets(field, -length & 3)):
            raise self._fail(field, self._at - (-length & 3), "the padding is not zero", f"{XDR} 4.10")
        return data

    def _present(self, field: Field) -> bool:
        offset = self._at
        word = self._word(field)
        if word > 1:
            raise self._fail(field, offset, f"{word} where 0 (nothing follows) or 1 is needed", f"{XDR} 4.19")
        return bool(word)

    def _array(self, field: Field, element: model.Type, limit: int) -> None:
        count = self._word(field)
        field.shown = f"{count} of them"
        if count > limit:
            raise self._fail(field, field.offset, f"{count} elements, at most {limit} are allowed", field.section)
        # An element takes four octets or more, so a count that lies is found out before anything is made of it.
        if count * 4 > self._reader.remaining:
            left = self._reader.remaining
            raise self._fail(field, field.offset, f"{count} elements do not fit into {left} octets", field.section)
        for number in range(count):
            self._value(element, f"[{number}]", Note("", field.section), field.fields)

    def _list(self, field: Field, entry: str) -> None:
        number = 0
        while self._present(field):
            group = Field(f"[{number}]", self._at - 4, section=field.section)
            field.fields.append(group)
            number += 1
            field.shown = f"{number} of them"
            try:
                self._members(group, entry)
            finally:
                group.size = self._at - group.offset
        field.shown = field.shown or "none"

    def _inside(self, field: Field, element: model.Type) -> None:
        """Decodes the content, of type `element`, of an optional item; moves its fields, faults and text to `field`.

        Raises:
            _FaultFound: the content does not follow the definition, or exceeds the limits; the fields decoded before
                the fault have been moved.
        """
        inner: _Path = []
        try:
            self._value(element, field.name, Note(field.meaning, field.section), inner)
        finally:
            field.fields = inner[0].fields
            field.faults += inner[0].faults
            field.shown = inner[0].shown

    def _class(self, field: Field, owner: str) -> None:
        item = self.definition.classes[owner]
        if isinstance(item, model.Struct):
            self._members(field, owner)
            return
        said = self.definition.note(owner, item.discriminant.name)
        code = self._value(item.discriminant.type, item.discriminant.name, said, field.fields)
        arms = [arm for arm in item.arms if code.value in [value for value, _ in arm.values]]
        arm = arms[0] if arms else item.default
        if arm is None:
            raise self._fail(code, code.offset, f"{code.shown} is no value that it can have", said.section)
        if arm.type is not None:
            self._value(arm.type, arm.name, self.definition.note(owner, arm.name), field.fields)

    def _members(self, field: Field, owner: str) -> None:
        item = self.definition.classes[owner]
        assert isinstance(item, model.Struct)
        for member in item.members:
            self._value(member.type, member.name, self.definition.note(owner, member.name), field.fields)
