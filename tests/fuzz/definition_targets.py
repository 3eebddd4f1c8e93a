"""Fuzz targets: interface definitions and JSON documents, which come from others."""

from __future__ import annotations

import functools
import itertools

from decoder_targets import FuzzTarget
from rpcrdma.rpc.loaded_interface import LoadedInterface, load_interface
from rpcrdma.xdr.codec import Encoder
from rpcrdma.xdr.language import LanguageError, compile_source, extract
from rpcrdma.xdr.language.json_form import JsonMismatch, JsonReader, JsonWriter, parse_json
from rpcrdma.xdr.language.json_shape import data_paths, shape
from rpcrdma.xdr.language.preprocessed import read_preprocessed

__all__ = ["DEFINITIONS"]

_WORDS = """
const enum struct union switch case default typedef program version void pragma
int unsigned hyper bool float double opaque string long char quadruple uint32
limit ddp bound octets { } { } ( ) < > [ ] ; ; ; ; : ,
= * . 0 1 2 3 -1 07 0xffffffff 99999999999999999999 TRUE FALSE
a b c A B C E F P V 9 None None_ class mro value
"""
WORDS = (
    *_WORDS.split(),
    *("n" * 60, "m" * 130, '"text"', "/*", "*/", "%", "\n", "#"),
    *("struct a {", "} ;", "typedef int", "case 0 :", "switch ( int d ) {"),
    *("program P { version V {", "} = 1 ; } = 9 ;", "a F ( a ) = 1 ;", "a *", "a <>", "b [ 2 ] ;", "union"),
)
"""What definitions consist of, and more often what closes something."""


def check(text: str, *, lenient: bool, default_limit: int | None) -> None:
    try:
        compiled = compile_source(text, source_name="t.x", lenient=lenient, default_limit=default_limit)
    except LanguageError as refused:
        error = refused
    else:
        assert lenient or not compiled.warnings
        check_loaded(load_interface(text, source_name="t.x", lenient=lenient, default_limit=default_limit))
        return
    assert all(remark.place.line >= 1 for remark in error.diagnostics)
    assert all(line.replace("\t", "").isprintable() for line in str(error).split("\n"))


def check_loaded(found: LoadedInterface) -> None:
    for version in found.module.versions:
        for procedure in version.procedures:
            shape(found.module, procedure.arguments)
            list(data_paths(found.module, procedure.result, "result"))


def definition(data: bytes) -> None:
    """The first octet has the options, the rest is the text."""
    text = data[1:].decode(errors="replace")
    options = data[0] if data else 0
    extract(text)
    text = read_preprocessed(text, "t.x").text if options & 4 else text
    check(text, lenient=bool(options & 1), default_limit=9 if options & 2 else None)


def words(data: bytes) -> None:
    """Each octet is a word of the language."""
    text = " ".join(WORDS[octet % len(WORDS)] for octet in data[1:400])
    options = data[0] if data else 0
    check(text, lenient=bool(options & 1), default_limit=9 if options & 2 else None)


KINDS = """
enum e { ONE = 1, MINUS = -1 }; typedef string text<9>; typedef opaque fixed[3];
struct entry { int class; entry *next; }; struct tree { unsigned hyper value; tree *left; text names<3>; text *maybe; };
union u switch (e tag) { case ONE: entry *list; case MINUS: tree root; };
struct all { u first; opaque data<5>; fixed f; bool b[2]; double d; float g<2>; hyper h; };
program P { version V { void F(all) = 1; } = 1; } = 9;
"""
DOCUMENT = """{"first": {"tag": "ONE", "list": [{"class": 1}, {"class": "0x10"}]}, "data": "hex:00ff", "f": "AAAA",
"b": [true, false], "d": 1.5, "g": ["NaN", -1e9], "h": -5}"""


@functools.cache
def kinds() -> LoadedInterface:
    return load_interface(KINDS, source_name="kinds.x")


def document(data: bytes) -> None:
    """A JSON document of a type that has all others; a document that is read is written, and reads the same."""
    found = kinds()
    procedure = found.procedure("F")
    reader = JsonReader(found.module, found.classes)
    try:
        value = reader.read(procedure.types.arguments, parse_json(data.decode(errors="surrogateescape"), "t"), "t")
    except JsonMismatch:
        return
    procedure.procedure.encode_args(Encoder(), value)
    written = JsonWriter(found.module).write(procedure.types.arguments, value, "t")
    assert (
        JsonWriter(found.module).write(
            procedure.types.arguments, reader.read(procedure.types.arguments, written, "t"), "t"
        )
        == written
    )


def spelt(text: str) -> bytes:
    """The octets by which `words` makes a text of its words, which single spaces part."""
    parts = text.split(" ")
    found = bytearray(1)
    while parts:
        count, number = max(
            (len(word.split(" ")), number)
            for number, word in enumerate(WORDS)
            if parts[: len(word.split(" "))] == word.split(" ")
        )
        found.append(number)
        del parts[:count]
    return bytes(found)


_SEEDS = [
    "const A = 1 ; typedef int a < A > ; struct b { a c ; b * E ; } ;",
    "enum a { A = 1 , B = 2 } ; union b switch ( a c ) { case A : int E ; case B : void ; default : int F ; } ;",
    "struct a { int b ; } ; program P { version V { a F ( a ) = 1 ; void E ( int , bool ) = 2 ; } = 1 ; } = 9 ;",
    "struct a { opaque b < > ; unsigned c ; } ; pragma limit a . b 3 ; pragma ddp a . b ;",
]

DEFINITIONS = [
    FuzzTarget(
        "xdr_definition",
        definition,
        [
            b"\0" + KINDS.encode(),
            *(options + seed.encode() for options, seed in itertools.product((b"\1", b"\2"), _SEEDS)),
            b'\4# 1 "a.x"\nconst A = 0x1; # 7 "b.x" 2\n/// const B = "x";',
        ],
    ),
    FuzzTarget("xdr_definition_words", words, list(map(spelt, _SEEDS))),
    FuzzTarget("xdr_json_document", document, [DOCUMENT.encode(), b"{}", b'"@x"']),
]
