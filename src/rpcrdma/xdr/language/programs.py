"""Generated programs: procedures as data, typed clients, a base class for services."""

from __future__ import annotations

from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.declarations import annotation
from rpcrdma.xdr.language.message_sizes import MessageSizes
from rpcrdma.xdr.language.names import module_name
from rpcrdma.xdr.language.writer import Writer

__all__ = ["ProgramWriter"]

_PLAIN = {"i": "int", "I": "unsigned_int", "q": "hyper", "Q": "unsigned_hyper", "f": "float", "d": "double"}


class ProgramWriter:
    """Writes the generated code of a module's RPC programs to `out`; `names` collects the Python names to export."""

    def __init__(self, module: model.Module, out: Writer) -> None:
        self.module = module
        self.out = out
        self.names: list[str] = []
        self._sizes = MessageSizes(module)
        self._may_succeed = {item.name for item in module.enums if any(value == 0 for _, value in item.members)}
        """Names of the enumerations that have a value 0."""
        self._constants = (
            set(module.constants)
            | set(module.classes)
            | set(module.aliases)
            | {item.name for item in module.enums}
            | {version.name for version in module.versions}
        )
        """Names that no further procedure gets."""
        self._taken = (
            self._constants
            | {version.program for version in module.versions}
            | {procedure.name for version in module.versions for procedure in version.procedures}
        )

    def plain_types(self) -> dict[str, model.Type | None]:
        """Returns the argument and result types without codec functions of their own, such as bool and void (None).

        The keys are the names for the functions that `CodecWriter.plain` is to write: "unsigned_int" for
        `_encode_unsigned_int` and `_decode_unsigned_int`.
        """
        plain: dict[str, model.Type | None] = {}
        for version in self.module.versions:
            for procedure in version.procedures:
                for kind in (procedure.arguments, procedure.result):
                    if (name := _plain_name(kind)) is not None:
                        plain[name] = kind
        return plain

    def write(self) -> None:
        """Writes procedures, clients and service of every program version, and adds their names to `names`.

        If the module has one version of one program only, writes and adds `PROGRAM`, too, as another name of the
        version's `Program`.
        """
        for version in self.module.versions:
            names = {
                procedure.name: name
                if (name := module_name(procedure.name)) not in self._constants
                else f"{version.name}_{procedure.name}"
                for procedure in version.procedures
            }
            self._constants.update(names.values())
            self._write_procedures(version, names)
            self._write_clients(version, names)
            self._write_service(version)
        if len(self.module.versions) == 1:
            self.out.blank(2)
            self.out.line(f"PROGRAM: Final = {self.module.versions[0].name}")
            self.names.append("PROGRAM")

    def _write_procedures(self, version: model.ProgramVersion, names: dict[str, str]) -> None:
        out = self.out
        bounds = {procedure: self._write_bound(procedure, names[procedure.name]) for procedure in version.procedures}
        out.blank(2)
        for procedure in version.procedures:
            kinds = f"Procedure[{annotation(procedure.arguments)}, {annotation(procedure.result)}]"
            with out.block(f"{names[procedure.name]}: Final[{kinds}] = Procedure("):
                out.line(f"program={version.program_number},")
                out.line(f"version={version.number},")
                out.line(f"number={procedure.number},")
                out.line(f'name="{procedure.name}",')
                out.line(f'method="{procedure.method}",')
                for what, kind in (("args", procedure.arguments), ("result", procedure.result)):
                    out.line(f"encode_{what}={_function('encode', kind)},")
                    out.line(f"decode_{what}={_function('decode', kind)},")
                out.line(f"bound={bounds[procedure]},")
                out.line(f"octets_max={self._octets_max(procedure)},")
                if (status := self._status_of(procedure)) is not None:
                    out.line(f'status=attrgetter("{status}"),')
            out.line(")")
            self.names.append(names[procedure.name])
        for procedure in version.procedures:
            short = procedure.method.upper()
            if short not in self._taken:
                self._taken.add(short)
                self.names.append(short)
                out.line(f"{short}: Final = {names[procedure.name]}")
        out.blank()
        with out.block(f"{version.name}: Final = Program("):
            out.line(f"number={version.program_number},")
            out.line(f"version={version.number},")
            out.line(f'name="{version.name}",')
            out.line("procedures={")
            for procedure in version.procedures:
                out.line(f"    {procedure.number}: {names[procedure.name]},")
            out.line("},")
        out.line(")")
        self.names += [version.name, *(f"{version.name}_{kind}" for kind in ("Client", "Service", "SyncClient"))]

    def _write_bound(self, procedure: model.Procedure, name: str) -> str:
        """Returns the expression for `Procedure.bound`: a `ReplyBound`, or the name of a function.

        Writes that function, if the size of the result depends on the arguments; `name` is the procedure's Python name.
        """
        extent = self._sizes.of_result(procedure)
        sizes = [extent.size, *extent.items]
        if not any(size.terms for size in sizes):
            numbers = ", ".join(str(size) for size in extent.items)
            items = f", ({numbers}{',' * (len(extent.items) == 1)})" if numbers else ""
            return f"ReplyBound({extent.size}{items})"
        out, function = self.out, f"_bound_{name.lower()}"
        out.blank(2)
        with out.block(f"def {function}(args: {annotation(procedure.arguments)}) -> ReplyBound:"):
            texts = []
            for index, size in enumerate(sizes):
                if len(size.terms) < 2:
                    texts.append(str(size))
                    continue
                local = "results" if not index else f"item{index}"
                out.line(f"{local} = {size.number}")
                for term in size.terms:
                    out.line(f"{local} += {term.text}")
                texts.append(local)
            if extent.items:
                given = f"({', '.join(texts[1:])}{',' * (len(texts) == 2)})"
                out.call("return ReplyBound(", [texts[0], given])
            else:
                out.line(f"return ReplyBound({texts[0]})")
        return function

    def _octets_max(self, procedure: model.Procedure) -> str:
        arguments, results = (self._sizes.most(kind) for kind in (procedure.arguments, procedure.result))
        return f"OctetsMax({arguments}, {self._sizes.most_bulk(procedure.arguments)}, {results})"

    def _status_of(self, procedure: model.Procedure) -> str | None:
        """Returns the name of the result's member that holds its status; None if there is no such member.

        That is the discriminant of a result that is a union, if its enumeration has a value 0.
        """
        kind = None if procedure.result is None else model.strip(procedure.result)
        item = self.module.classes[kind.name] if isinstance(kind, model.ClassRef) else None
        if not isinstance(item, model.Union):
            return None
        discriminant = model.strip(item.discriminant.type)
        known = isinstance(discriminant, model.EnumRef) and discriminant.name in self._may_succeed
        return item.discriminant.name if known else None

    def _write_clients(self, version: model.ProgramVersion, names: dict[str, str]) -> None:
        out, name = self.out, version.name
        out.blank(2)
        with out.block(f"class _{name}_Methods:"):
            for procedure in version.procedures:
                kind = "VoidCallMethod" if procedure.arguments is None else "CallMethod"
                out.line(f"{procedure.method} = {kind}({names[procedure.name]})")
        for suffix, base, through in (
            ("Client", "ClientStub", "`Caller`, and awaits them"),
            ("SyncClient", "SyncClientStub", "connection of `rpcrdma.sync`"),
        ):
            out.blank(2)
            with out.block(f"class {name}_{suffix}(_{name}_Methods, {base}):"):
                out.line(
                    f'"""Calls the procedures of {version.program} version {version.number} through a {through}."""'
                )

    def _write_service(self, version: model.ProgramVersion) -> None:
        out = self.out
        out.blank(2)
        with out.block(f"class {version.name}_Service(Service):"):
            offered = f"{version.program} version {version.number}"
            out.line(f'"""Base of services for {offered}: override the procedures to offer."""')
            out.blank()
            out.line(f"PROGRAM = {version.name}")
            for procedure in version.procedures:
                kind = annotation(procedure.result)
                out.blank()
                out.call(
                    f"def {procedure.method}(",
                    ["self", f"args: {annotation(procedure.arguments)}", "context: CallContext"],
                    f") -> Awaitable[{kind}] | {kind}:",
                )
                with out.block():
                    out.line(f'"""Answers {procedure.name}."""')
                    if procedure.number == 0 and procedure.arguments is None and procedure.result is None:
                        out.line("return None")
                    else:
                        out.line(f'raise ProcedureUnavailable("{procedure.name}")')


def _plain_name(kind: model.Type | None) -> str | None:
    match kind:
        case None:
            return "void"
        case model.Number(code):
            return _PLAIN[code]
        case model.Boolean():
            return "bool"
        case model.LinkedList(entry):
            return f"{entry}_list"
        case model.FixedOpaque():
            return "opaque"
        case model.VariableOpaque():
            return "octets"
        case model.Text():
            return "string"
        case _:
            return None


def _function(verb: str, kind: model.Type | None) -> str:
    plain = _plain_name(kind)
    if plain is not None:
        return f"_{verb}_{plain}"
    return f"{verb}_{annotation(kind)}"
