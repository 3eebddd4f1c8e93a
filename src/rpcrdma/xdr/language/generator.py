"""Generates the text of a Python module from a checked definition: deterministic, typed, in the project's format."""

from __future__ import annotations

import re
from collections import Counter

from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.codecs import CodecWriter
from rpcrdma.xdr.language.declarations import write_aliases, write_classes, write_constants, write_enums
from rpcrdma.xdr.language.diagnostics import Diagnostic, LanguageError, SourceSpan
from rpcrdma.xdr.language.programs import ProgramWriter
from rpcrdma.xdr.language.writer import Writer

__all__ = ["generate"]

# Rules that generated code cannot keep: names are the interface definition's, codecs come without docstrings.
# Which of these rules are violated depends on the definition, hence RUF100 (unused noqa).
_NOQA = "# ruff: noqa: A001, A002, A003, ARG001, ARG002, D103, E741, N801, N802, N815, N816, RUF100"


def generate(module: model.Module) -> str:
    """Returns the text of the Python module generated for a checked definition.

    Raises:
        LanguageError: two objects of the module would have one name.
    """
    body = Writer()
    programs = ProgramWriter(module, body)
    codecs = Writer()
    writer = CodecWriter(module, codecs)
    for item in module.enums:
        writer.enum(item)
    for item_class in module.classes.values():
        if isinstance(item_class, model.Struct):
            writer.struct(item_class)
        else:
            writer.union(item_class)
    for name, kind in module.aliases.items():
        writer.alias(name, kind)
    for function, plain in programs.plain_types().items():
        writer.plain(function, plain)

    write_constants(module, body)
    if module.recursive:
        body.blank()
        body.line("MAX_DEPTH: Final = 64")
    write_enums(module, body)
    write_classes(module, body)
    write_aliases(module, body)
    if writer.layouts:
        body.blank(1 if module.aliases else 2)
    for (form, fields), name in writer.layouts.items():
        body.call(f"{name}: Final = Layout.of(", [f'">{form}"', *(f'"{field}"' for field in fields)])
    body.lines += codecs.lines
    if module.versions:
        programs.write()

    out = Writer()
    # A name of a file may have any characters.
    source_name = re.sub(r"[^\w.,+-]", "_", module.source_name)
    out.line(f'"""Generated from {source_name} by `rpcrdma xdr compile`: do not edit."""')
    out.blank()
    out.line(_NOQA)
    out.blank()
    _write_imports(out, body.text(), programs=bool(module.versions))
    _write_all(module, programs, out)
    out.lines += body.lines
    return out.text()


def _write_imports(out: Writer, text: str, *, programs: bool) -> None:
    used = set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"\n]*"', '""', text)))
    out.line("from __future__ import annotations")
    out.blank()
    standard = []
    if "enum" in used:
        standard.append("import enum")
    if programs:
        standard.append("from collections.abc import Awaitable")
    if "dataclass" in used:
        standard.append("from dataclasses import dataclass")
    if "attrgetter" in used:
        standard.append("from operator import attrgetter")
    typing = sorted(used & {"Any", "Final", "TypeAlias"})
    if typing:
        standard.append(f"from typing import {', '.join(typing)}")
    for line in standard:
        out.line(line)
    if standard:
        out.blank()
    errors = sorted(used & {"DecodeError", "LocalProtocolError"})
    if errors:
        out.line(f"from rpcrdma.errors import {', '.join(errors)}")
    if programs:
        always = {"CallContext", "ClientStub", "OctetsMax", "Procedure", "ProcedureUnavailable", "Program"}
        always |= {"ReplyBound", "Service", "SyncClientStub"}
        out.call("from rpcrdma.rpc import (", sorted(always | used & {"CallMethod", "VoidCallMethod"}), ")")
    codec = sorted(used & {"Buffer", "Composite", "Decoder", "Encoder", "Layout", "Memory"})
    if codec:
        out.line(f"from rpcrdma.xdr import {', '.join(codec)}")
    if codec:
        out.blank()


def _write_all(module: model.Module, programs: ProgramWriter, out: Writer) -> None:
    types = [item.name for item in module.enums] + list(module.classes)
    types += [name for name in module.aliases if name not in types]
    names = [*module.constants, *types, *programs.names]
    names += ["MAX_DEPTH"] * bool(module.recursive)
    names += [f"{verb}_{name}" for verb in ("decode", "encode") for name in types]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        found = Diagnostic(SourceSpan(1, 1), f"two objects of the Python module would be called {twice}", "rename one")
        raise LanguageError([found], "", module.source_name)
    out.line("__all__ = [")
    for name in sorted(names, key=_export_order):
        out.line(f'    "{name}",')
    out.line("]")


def _export_order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """Returns the sort key of a name in `__all__`: constants, then classes, then other names.

    Digits compare as numbers.
    """
    group = 0 if name.isupper() else 1 if name[0].isupper() else 2
    pieces = re.findall(r"\d+|\D+", name)
    return group, [(0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in pieces]
