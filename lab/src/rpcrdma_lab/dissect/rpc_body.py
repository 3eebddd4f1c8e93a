"""Arguments and results of RPC calls as annotated fields, along the interface definition (`*.x`) of their program."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from rpcrdma.commands import own_definition_text
from rpcrdma.xdr.language import check, model, parse
from rpcrdma_lab.dissect.definitions import Definition
from rpcrdma_lab.dissect.fields import Field
from rpcrdma_lab.dissect.xdr_walk import Walk

__all__ = ["Body", "Called", "Interfaces", "Part", "WholeItem"]

_MESSAGE_IS_THE_BOUND = 0xFFFFFFFF


Called: TypeAlias = tuple[int, int, int]
"""Numbers of a program, its version and a procedure."""


class Part(enum.Enum):
    """The part of an RPC message after its header: the arguments of a call, or the results of a reply."""

    ARGUMENTS = "arguments"
    RESULTS = "results"


class WholeItem(NamedTuple):
    """A data item of a message that is in a chunk instead of the payload.

    `chunk` is the chunk's name, `length` the octets in the chunk, and `position` the item's Position; None if it has
    none.
    """

    chunk: str
    length: int
    position: int | None = None


class Body(NamedTuple):
    """The annotated fields of arguments or results.

    `remark` says why the octets do not follow the interface definition, "" if they do. It is no fault of the message,
    since the program that receives the body judges that.
    """

    group: Field
    remark: str


class Interfaces:
    """The known interface definitions (XDR language), by numbers of program and version.

    Args:
        own: definitions of this library that are known, by their files, such as "nfs3.x".
    """

    def __init__(self, own: Iterable[str] = ()) -> None:
        self._known: dict[tuple[int, int], tuple[model.ProgramVersion, Definition]] = {}
        self._unread: dict[tuple[int, int], tuple[Callable[[], str], str]] = {}
        for file in own:
            self.add(own_definition_text(file), file)

    def add_when_met(self, program: int, version: int, text: Callable[[], str], file: str) -> None:
        """Adds an interface definition that is compiled only when `name` or `body` needs this program and version.

        `text` returns the definition's text then; `file` is its name for error texts. If the text cannot be compiled,
        those methods raise LanguageError. A definition that `add` adds takes precedence.
        """
        self._unread[program, version] = text, file

    def _find(self, program: int, version: int) -> tuple[model.ProgramVersion, Definition] | None:
        key = program, version
        if key in self._unread and key not in self._known:
            text, file = self._unread[key]
            self.add(text(), file)
        return self._known.get(key)

    def add(self, text: str, file: str) -> list[model.ProgramVersion]:
        """Compiles a definition, adds its program versions in place of known ones, and returns these versions.

        Args:
            text: the definition in the XDR language.
            file: the name of the definition for error texts.

        Raises:
            LanguageError: the definition cannot be compiled.
        """
        module, _ = check(parse(text, file), text, file, default_limit=_MESSAGE_IS_THE_BOUND)
        codes = {item.name: {value: code for code, value in item.members} for item in module.enums}
        definition = Definition(file, module.classes, codes, {})
        for version in module.versions:
            self._known[version.program_number, version.number] = version, definition
        return module.versions

    def name(self, program: int, version: int, procedure: int) -> str:
        """Returns the name of a procedure by its numbers, such as "NFS_V3 READ".

        Unknown parts are named by number, as in "program 5 version 1 procedure 2".

        Raises:
            LanguageError: a definition added by `add_when_met` cannot be compiled.
        """
        known = self._find(program, version)
        if known and (found := self._procedure(known, procedure)):
            return _name(known[0], found)
        # Procedure 0 does nothing in every program (RFC 5531 section 12.1).
        shown = f"procedure {procedure}" if procedure else "NULL"
        return f"{known[0].name if known else f'program {program} version {version}'} {shown}"

    def body(
        self, called: Called, part: Part, data: bytes, start: int, items: Sequence[WholeItem], *, whole: bool
    ) -> Body | None:
        """Decodes arguments or results as far as possible; returns None if they are void or the procedure is unknown.

        Args:
            called: the numbers of the program, its version and the procedure.
            part: arguments or results.
            data: the RPC message, as far as it is available.
            start: the octet of `data` at which the body begins; field offsets count from the start of `data`, too.
            items: the items in chunks, which `data` lacks.
            whole: whether `data` has the end of the message; if not, octets that cannot be decoded make no `remark`.

        Raises:
            LanguageError: a definition added by `add_when_met` cannot be compiled.
        """
        known = self._find(*called[:2])
        procedure = self._procedure(known, called[2])
        kind = None if procedure is None else procedure.arguments if part is Part.ARGUMENTS else procedure.result
        if known is None or procedure is None or kind is None:
            return None
        walk = _BodyWalk(known[1], data, start, items)
        read = walk.item(kind, part.value)
        group = read if read.fields else Field("", 0, read.size, fields=[read])
        group.name = f"{_name(known[0], procedure)} {part.value}"
        remark = ""
        if walk.faults and whole:
            remark = f"{walk.faults[0].field}: {walk.faults[0].reason}"
        elif walk.remaining and not walk.faults:
            remark = f"{walk.remaining} more octets follow"
        for one in group.walk():
            one.offset += start
            one.faults.clear()
        return Body(group, f"the {part.value} do not follow {known[1].document}: {remark}" if remark else "")

    @staticmethod
    def _procedure(known: tuple[model.ProgramVersion, Definition] | None, number: int) -> model.Procedure | None:
        return next((one for one in known[0].procedures if one.number == number), None) if known else None


def _name(version: model.ProgramVersion, procedure: model.Procedure) -> str:
    # Methods that would be words of Python end with an underscore.
    return f"{version.name} {procedure.method.upper().rstrip('_')}"


class _BodyWalk(Walk):
    """Decodes a body from which the data items in `items` are missing because they are in chunks."""

    def __init__(self, definition: Definition, data: bytes, start: int, items: Sequence[WholeItem]) -> None:
        super().__init__(definition, data, start)
        self._data = data
        self._missing = [item for item in items if item.length]
        self._removed = 0

    def _read(self, field: Field, kind: model.Type, typedef: str) -> None:
        if isinstance(kind, model.VariableOpaque | model.Text) and self._missing:
            item = self._missing[0]
            length = int.from_bytes(self._data[self.pos : self.pos + 4])
            # A chunk may hold the padding of the item, too (RFC 8166 section 3.4.5.2).
            if item.length in {length, length + (-length & 3)} and item.position in {
                None,
                self.pos + 4 + self._removed,
            }:
                del self._missing[0]
                self._word(field)
                self._removed += length + (-length & 3)
                field.value, field.shown = "", f"{length} octets, in {item.chunk}"
                return
        super()._read(field, kind, typedef)
