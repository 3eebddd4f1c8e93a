"""Definitions of any size, depth and wording compile to modules that load, or get errors with a place."""

from __future__ import annotations

import contextlib
import cProfile
import keyword
from collections.abc import Callable

import pytest

from rpcrdma.errors import DecodeError
from rpcrdma.file_limits import (
    XDR_BOUND_PRAGMAS_MAX,
    XDR_CLASSES_NESTED_MAX,
    XDR_DEFINITION_CHARACTERS_MAX,
    XDR_HINTS_MAX,
    XDR_ITEMS_NESTED_MAX,
    XDR_NAME_CHARACTERS_MAX,
    XDR_NAME_COMPARED_CHARACTERS_MAX,
    XDR_REMARKS_MAX,
    XDR_UNION_TYPES_MAX,
)
from rpcrdma.rpc.loaded_interface import LoadedInterface, load_interface
from rpcrdma.xdr.codec import Decoder, Encoder
from rpcrdma.xdr.language import LanguageError, compile_source
from rpcrdma.xdr.language.json_form import JsonMismatch, JsonReader
from rpcrdma.xdr.language.json_shape import data_paths, shape
from support.cases import each_case


def loaded(text: str) -> LoadedInterface:
    return load_interface(text, source_name="t.x")


def errors(text: str) -> list[str]:
    with pytest.raises(LanguageError) as caught:
        compile_source(text, source_name="t.x")
    return [remark.message for remark in caught.value.diagnostics]


def many(count: int, each: Callable[[int], str]) -> str:
    return "".join(map(each, range(count)))


# Names

KINDS = """
const {n}_c = 1;
enum {n}_e {{ {n}_one = -1, {n}_two = 2 }};
typedef int {n}_i;
typedef int *{n}_maybe;
typedef {n}_e {n}_several<5>;
typedef string {n}_text<9>;
typedef {n}_text *{n}_maybe_text;
typedef {n}_several *{n}_maybe_several;
typedef double {n}_d[3];
typedef hyper {n}_rows<4>;
struct {n}_s {{ {n}_maybe {n}_a; {n}_rows {n}_b; opaque {n}_f[7]; {n}_s *{n}_next; }};
union {n}_u switch ({n}_e {n}_tag) {{ case {n}_one: {n}_s {n}_v; case {n}_two: {n}_maybe_several {n}_w; }};
program {n}_P {{ version {n}_V {{ {n}_u {n}_F({n}_s, {n}_maybe_text) = 1; {n}_d {n}_G({n}_several) = 2; }} = 1; }} = 9;
"""


@each_case("length", [1, 40, 60, 90, 119, 120, 121, XDR_NAME_CHARACTERS_MAX - 14])
def test_names_of_any_length_compile(length: int) -> None:
    name = "n" * length
    module = loaded(KINDS.format(n=name)).classes
    encoder = Encoder()
    tag = module[f"{name}_e"][f"{name}_two"]
    module[f"encode_{name}_u"](encoder, module[f"{name}_u"](tag, [tag]))
    found = module[f"decode_{name}_u"](Decoder(b"".join(encoder.gather())))
    assert found.value == [tag]


def test_a_name_that_is_longer_is_refused() -> None:
    assert errors(f"typedef int {'n' * (XDR_NAME_CHARACTERS_MAX + 1)};") == [
        f"a name has {XDR_NAME_CHARACTERS_MAX + 1} characters, {XDR_NAME_CHARACTERS_MAX} are the most"
    ]


WORDS = [
    word
    for word in [*keyword.kwlist, *keyword.softkwlist, "attrgetter", "mro", "self", "ReplyBound", "OctetsMax"]
    if word[0].isalpha() and word != "case"
]


def test_words_of_python_and_of_generated_code_are_names() -> None:
    def each(form: str) -> str:
        return "".join(form.format(n=number, word=word) for number, word in enumerate(WORDS))

    assert len(WORDS) > 35
    loaded(each("const {word} = 1;"))
    loaded(f"enum e {{ {each('{word} = {n},')[:-1]} }}; struct s {{ {each('int {word};')} int *y; }}; typedef s t;")
    loaded(
        each(
            "struct {word} {{ int x; }}; typedef {word} *a{n}; union u{n} switch (int {word}) {{ case 1: {word} b; }};"
        )
    )
    typedefs = each("typedef int {word}<3>;")
    loaded(f"{typedefs} program P {{ version V {{ {each('{word} F{n}({word}) = {n};')} }} = 1; }} = 9;")
    found = loaded(f"program P {{ version V {{ {each('bool {word}(int) = {n};')} }} = 1; }} = 9;")
    assert [found.procedure(word).types.number for word in WORDS] == list(range(len(WORDS)))
    for word in WORDS:
        found = loaded(f"program {word} {{ version V {{ bool A(int) = 1; int B(int, bool) = 2; }} = 1; }} = 9;")
        assert found.procedure("A").types.name == "A"
        loaded(f"program P {{ version {word} {{ bool A(int) = 1; }} = 1; }} = 9;")


def test_names_that_are_one_in_python_are_told() -> None:
    assert errors("enum e { None = 1, None_ = 2 };") == ["None_ is defined twice"]


def test_the_name_of_a_file_does_not_become_code() -> None:
    text = compile_source("const A = 1;", source_name='a"""\nimport os\\\udcff.x').text
    assert text.splitlines()[0] == '"""Generated from a____import_os__.x by `rpcrdma xdr compile`: do not edit."""'
    compile(text.encode(), "t", "exec")


# Constants


@each_case(
    ("text", "told"),
    [
        ("const A = A;", ["constant A is defined by itself"]),
        ("const A = B; const B = A;", ["constant A is defined by itself"]),
        ("const A = B; const B = C; const C = D; const D = C;", ["constant C is defined by itself"]),
        ("const X = A; const A = B; const B = A; enum e { Y = B };", ["constant B is defined by itself"]),
        ("enum e { X = Y, Y = X };", ["constant Y is not defined"]),
        ("const A = X; enum e { X = A };", ["constant X is not defined"]),
        ("typedef A B; typedef B A;", ["typedef B is defined by itself"]),
        ("typedef A *B; typedef B A<3>;", ["typedef B is defined by itself"]),
    ],
)
def test_names_that_stand_for_each_other_are_told(text: str, told: list[str]) -> None:
    assert errors(text) == told


def test_constants_may_stand_for_later_ones() -> None:
    chain = many(3000, lambda number: f"const C{number} = C{number + 1};\n")
    assert loaded(f"{chain}const C3000 = 7;").classes["C0"] == 7


@each_case("digits", ["9" * 20, "9" * 5000, "0x1" + "0" * 16, "0x" + "f" * 5000, "0" + "7" * 5000])
@each_case("sign", ["", "-"])
def test_numbers_beyond_64_bits_are_told(digits: str, sign: str) -> None:
    told = ["the number does not fit 64 bits, which are the most of any type"]
    assert errors(f"const A = {sign}{digits};") == told
    assert errors(f"typedef opaque a<{sign}{digits}>;") == told


def test_the_largest_numbers_are_taken() -> None:
    text = f"const A = {(1 << 64) - 1}; const B = {-(1 << 63)}; const C = 0x{'f' * 16}; const D = 01{'7' * 21};"
    found = loaded(text).classes
    assert [found[name] for name in "ABCD"] == [(1 << 64) - 1, -(1 << 63), (1 << 64) - 1, (1 << 64) - 1]


# Depth


def structures_in_place(depth: int) -> str:
    return "struct a " + "{ struct " * (depth - 1) + "{ int x; }" + " y; }" * (depth - 1) + ";"


def unions_in_place(depth: int) -> str:
    switch = "switch (int d) { case 0: "
    return f"union a {switch}" + f"union {switch}" * (depth - 1) + "int x; }" + " y; }" * (depth - 1) + ";"


def results_in_place(depth: int) -> str:
    body = "{ struct " * (depth - 1) + "{ int x; }" + " y; }" * (depth - 1)
    return f"program P {{ version V {{ struct {body} F(void) = 1; }} = 1; }} = 9;"


def structures_by_name(depth: int) -> str:
    return (
        many(depth - 1, lambda number: f"struct s{number} {{ s{number + 1} m; }};")
        + f"struct s{depth - 1} {{ int x; }};"
    )


def lists_by_name(depth: int) -> str:
    return many(depth - 1, lambda number: f"struct s{number} {{ int y; s{number + 1} *m; }};") + (
        f"struct s{depth - 1} {{ int x; }};"
    )


def circle_of_structures(depth: int) -> str:
    return many(depth, lambda number: f"struct s{number} {{ s{(number + 1) % depth} *m; int x; }};")


def typedefs(depth: int) -> str:
    return (
        "typedef int t0;"
        + many(depth - 1, lambda number: f"typedef t{number} t{number + 1};")
        + (f"program P {{ version V {{ t{depth - 1} F(t{depth - 1}) = 1; }} = 1; }} = 9;")
    )


def typedefs_backwards(depth: int) -> str:
    return many(depth - 1, lambda number: f"typedef t{number + 1} t{number};") + f"typedef int t{depth - 1};"


@pytest.mark.thorough
@each_case(
    "nested",
    [
        structures_in_place,
        unions_in_place,
        results_in_place,
        structures_by_name,
        lists_by_name,
        circle_of_structures,
        typedefs,
        typedefs_backwards,
    ],
)
def test_classes_and_typedefs_have_a_depth_that_is_told(nested: Callable[[int], str]) -> None:
    text = nested(XDR_CLASSES_NESTED_MAX)
    found = loaded(text)
    for version in found.module.versions:
        for procedure in version.procedures:
            shape(found.module, procedure.result)
    for depth in (XDR_CLASSES_NESTED_MAX + 2, 300, 3000):
        (told,) = set(errors(nested(depth)))
        assert told.endswith(f"nested more than {XDR_CLASSES_NESTED_MAX} levels deep")


@each_case("form", ["typedef {} *{};", "typedef {} {}<3>;", "typedef {} {}[2];"])
def test_arrays_and_pointers_have_a_depth_that_is_told(form: str) -> None:
    def nested(depth: int) -> str:
        return "typedef bool t0;" + many(depth, lambda number: form.format(f"t{number}", f"t{number + 1}"))

    text = nested(XDR_ITEMS_NESTED_MAX) + f"struct s {{ int a; t{XDR_ITEMS_NESTED_MAX} b; }};"
    assert loaded(text).classes["s"] is not None
    for depth in (XDR_ITEMS_NESTED_MAX + 1, 300):
        told = errors(nested(depth))
        assert told[0] == f"arrays and pointers are nested more than {XDR_ITEMS_NESTED_MAX} levels deep"


def test_values_as_deep_as_types_may_be_decode_and_deeper_ones_are_refused() -> None:
    arrays = "".join(f"typedef t{number} t{number + 1}<2>;" for number in range(1, XDR_ITEMS_NESTED_MAX))
    found = loaded(f"typedef s *t1; {arrays} struct s {{ t{XDR_ITEMS_NESTED_MAX} m; int v; }};").classes

    def octets(depth: int) -> bytes:
        return b"\0\0\0\1" * XDR_ITEMS_NESTED_MAX * depth + bytes(4) + bytes(4) * (depth + 1)

    decoder = Decoder(octets(64))
    value = found["decode_s"](decoder)
    decoder.done("s")
    encoder = Encoder()
    found["encode_s"](encoder, value)
    assert bytes(encoder.reduced) == octets(64)
    with pytest.raises(DecodeError, match="at most 64 levels"):
        found["decode_s"](Decoder(octets(65)))


def test_structures_without_members_are_results() -> None:
    text = "struct e { e *next; }; struct v { void; }; program P { version V { e F(v) = 1; v G(e) = 2; } = 1; } = 9;"
    found = loaded(text)
    assert (found.procedure("F").types.number, found.procedure("G").types.number) == (1, 2)


@pytest.mark.thorough
def test_unions_of_more_types_than_python_can_nest_load() -> None:
    count = 2000
    text = many(count, lambda number: f"struct s{number} {{ int a; }};")
    text += f"union u switch (int d) {{ {many(count, lambda number: f'case {number}: s{number} m{number};')} }};"
    found = loaded(text).classes
    encoder = Encoder()
    found["encode_u"](encoder, found["u"](count - 1, found[f"s{count - 1}"](5)))
    assert bytes(encoder.reduced) == (count - 1).to_bytes(4, "big") + bytes([0, 0, 0, 5])
    few = compile_source(
        text.replace(f"case {XDR_UNION_TYPES_MAX - 1}:", "default: void; }; union w switch (int d) { case 5:"),
        source_name="t.x",
    )
    assert "value: Any" in few.text
    assert "\n        s0\n        | s1\n" in few.text


def test_documents_of_types_that_branch_at_each_level_are_shown() -> None:
    depth = XDR_CLASSES_NESTED_MAX
    text = many(depth - 1, lambda number: f"struct s{number} {{ s{number + 1} a; s{number + 1} b; }};")
    text += f"struct s{depth - 1} {{ opaque x<5>; }}; program P {{ version V {{ s0 F(s0) = 1; }} = 1; }} = 9;"
    found = loaded(text)
    kind = found.procedure("F").types.arguments
    assert list(shape(found.module, kind)) == ["a", "b"]
    assert next(iter(data_paths(found.module, kind, "result"))).startswith("result.a.a.a")
    assert len(list(data_paths(found.module, kind, "result"))) < 10_000
    with pytest.raises(JsonMismatch, match=r"arguments\.a: missing"):
        JsonReader(found.module, found.classes).read(kind, {}, "arguments")


# Size

SIZES = {
    "constants": lambda count: many(count, lambda number: f"const C{number} = {number};"),
    "constants of constants": lambda count: (
        many(count, lambda number: f"const C{number} = C{number + 1};") + f"const C{count} = 1;"
    ),
    "typedefs": lambda count: many(count, lambda number: f"typedef int t{number}<3>;"),
    "enumerators": lambda count: f"enum e {{ {', '.join(f'E{number} = {number}' for number in range(count))} }};",
    "enumerations": lambda count: many(count, lambda number: f"enum e{number} {{ E{number} }};"),
    "cases": lambda count: (
        f"enum e {{ {', '.join(f'E{number} = {number}' for number in range(count))} }};"
        f"union u switch (e d) {{ {many(count, lambda number: f'case E{number}: int m{number};')} }};"
    ),
    "members": lambda count: f"enum e {{ A = 0 }}; struct s {{ {many(count, lambda number: f'e m{number};')} }};",
    "structures": lambda count: many(count, lambda number: f"struct s{number} {{ int a; s{number // 2} *b; }};"),
    "structures in a row": lambda count: (
        many(count, lambda number: f"struct s{number} {{ s{number + 1} m; }};") + f"struct s{count} {{ int x; }};"
    ),
    "structures that contain each other": lambda count: many(
        count, lambda number: f"struct s{number} {{ s{(number + 1) % count} *m; int x; }};"
    ),
    "procedures": lambda count: (
        "struct s { int a; }; program P { version V {"
        + many(count, lambda number: f"s F{number}(s) = {number};")
        + "} = 1; } = 9;"
    ),
    "versions": lambda count: (
        "program P {"
        + many(count, lambda number: f"version V{number} {{ int F{number}(int) = 1; }} = {number + 1};")
        + "} = 9;"
    ),
    "results": lambda count: (
        many(count, lambda number: f"struct s{number} {{ int a; }};")
        + f"struct all {{ {many(count, lambda number: f's{number} m{number};')} }}; program P {{ version V {{"
        + many(count, lambda number: f"all F{number}(s{number}) = {number};")
        + "} = 1; } = 9;"
    ),
    "bounded results": lambda count: (
        many(count, lambda number: f"struct s{number} {{ int a; }};")
        + f"struct all {{ {many(count, lambda number: f's{number} m{number};')} opaque d<9>; }};"
        + "struct a { unsigned n; }; program P { version V {"
        + many(count, lambda number: f"all F{number}(a) = {number};")
        + "} = 1; } = 9; struct other { opaque d<9>; };"
        + "pragma bound all.d a.n; pragma bound other.d a.n;"
    ),
    "anonymous types of one name": lambda count: (
        "program P { version V { int F(" + ", ".join(["struct { int a; }"] * count) + ") = 1; } = 1; } = 9;"
    ),
    "procedures of one name": lambda count: (
        "program P { version V {"
        + many(count, lambda number: f"int {''.join('aA'[number >> bit & 1] for bit in range(9))}(int) = {number};")
        + "} = 1; } = 9;"
    ),
    "pragmas": lambda count: (
        f"struct s {{ {many(count, lambda number: f'opaque m{number}<>;')} }};"
        + many(count, lambda number: f"pragma limit s.m{number} 5;")
    ),
    "names that are not defined": lambda count: many(count, lambda number: f"const C{number} = D{number};"),
    "types that are not defined": lambda count: many(count, lambda number: f"struct C{number} {{ D{number} a; }};"),
    "names that are defined twice": lambda count: "const A = 1;" * count,
}


@pytest.mark.thorough
@each_case("name", SIZES)
def test_the_work_grows_as_the_definition_does(name: str) -> None:
    def work(count: int) -> int:
        """The number of calls."""
        profile = cProfile.Profile()
        text = SIZES[name](count)
        with profile, contextlib.suppress(LanguageError):
            compile_source(text, source_name="t.x")
        return sum(entry.callcount for entry in profile.getstats())

    # First-time caching does not count, and neither do hints, of which there is a fixed number.
    work(10)
    few, some, more = (work(count) for count in (100, 200, 300))
    assert more - some < 1.3 * (some - few)


@each_case("text", ["const A = 1; ", "/* ", "%", "/*" + "* " * 99, '"', "{", "a"])
def test_a_definition_that_is_too_long_is_refused(text: str) -> None:
    count = XDR_DEFINITION_CHARACTERS_MAX // len(text) + 1
    (told,) = errors(text * count)
    assert told.endswith(f"characters, {XDR_DEFINITION_CHARACTERS_MAX} are the most")


@each_case("filling", ["a", "*", "* ", "a*", "/", "*\n"])
def test_a_comment_of_any_length_is_read_once(filling: str) -> None:
    inside = filling * (XDR_DEFINITION_CHARACTERS_MAX // 2 // len(filling))
    assert compile_source(f"/*{inside}*/ const A = 1;", source_name="t.x").warnings == []
    assert errors(f"const B = 1; /*{inside}") == ["comment without an end"]


@each_case("text", ['const A = "', "%", "const A = ", "struct s { ", "union u switch (", "/", "program"])
def test_what_is_not_closed_is_told(text: str) -> None:
    if text == "%":
        assert compile_source(text + "x" * 100_000, source_name="t.x").warnings == []
    else:
        assert errors(text + "x " * 100_000)


def test_so_many_errors_and_warnings_are_told_and_the_rest_is_counted() -> None:
    told = errors(many(1000, lambda number: f"const C{number} = D{number};\n"))
    assert told[:2] == ["constant D0 is not defined", "constant D1 is not defined"]
    assert told[XDR_REMARKS_MAX:] == [f"{1000 - XDR_REMARKS_MAX} more are not shown"]
    text = many(1000, lambda number: f"const C{number} {number};\n")
    warnings = compile_source(text, source_name="t.x", lenient=True).warnings
    assert len(warnings) == XDR_REMARKS_MAX + 1
    assert (warnings[-1].message, warnings[-1].severity) == (f"{1000 - XDR_REMARKS_MAX} more are not shown", "warning")


def test_a_bound_within_each_of_many_levels_is_taken_at_its_most() -> None:
    levels = many(24, lambda number: f"struct s{number + 1} {{ s{number} a; s{number} b; }};")
    text = f"struct a {{ unsigned n; }}; struct s0 {{ opaque d<9>; }}; {levels} pragma bound s0.d a.n;"
    calls = "program P { version V { s3 F(a) = 1; s24 G(a) = 2; } = 1; } = 9;"
    found = loaded(text + calls).classes
    assert found["F"].reply_bound(found["a"](1)).results == 8 * 8
    assert found["G"].reply_bound(found["a"](1)).results == (1 << 24) * 16


def test_for_few_and_short_unknown_names_a_similar_one_is_looked_for() -> None:
    def hints(name: str, count: int) -> list[str]:
        uses = many(count, lambda number: f"typedef {name} t{number}<3>;")
        with pytest.raises(LanguageError) as caught:
            compile_source(f"struct {name}s {{ int a; }}; {uses}", source_name="t.x")
        return [remark.hint for remark in caught.value.diagnostics]

    name = "n" * XDR_NAME_COMPARED_CHARACTERS_MAX
    assert hints(name, XDR_HINTS_MAX + 5) == [f"did you mean {name}s?"] * XDR_HINTS_MAX + [""] * 5
    assert hints(f"{name}n", 1) == [""]


def test_bounds_have_a_number() -> None:
    text = "struct a { unsigned n; }; struct r { opaque m<9>; }; program P { version V { r F(a) = 1; } = 1; } = 9;"
    assert f"there are more than {XDR_BOUND_PRAGMAS_MAX} bounds" in errors(
        text + "pragma bound r.m a.n;" * (XDR_BOUND_PRAGMAS_MAX + 1)
    )


# Errors as people see them


def test_of_a_long_line_the_part_around_the_error_is_shown() -> None:
    text = "const A = 1; " * 1000
    with pytest.raises(LanguageError) as caught:
        compile_source(f"{text}$ {text}", source_name="t.x")
    heading, line, carets = str(caught.value).splitlines()
    assert heading.startswith("error: t.x:1:13001: unexpected character '$'")
    assert (line[:5], line[-3:], len(line)) == ("  ...", "...", 208)
    assert line[carets.index("^")] == "$"


def test_a_long_name_in_a_message_is_cut() -> None:
    with pytest.raises(LanguageError) as caught:
        compile_source(f"const A = {'n' * 900};", source_name="t.x")
    assert max(map(len, str(caught.value).splitlines())) < 450


@each_case("control", ["\x1b[2J", "\x9b2J", "\u202e", "\x00", "\r"])
@each_case("text", ["const A = 1 {} $;", 'const A = "{}";', "% {}\nconst A = A;", "\t{}\tconst = 1;", "{}$"])
def test_no_control_character_of_a_definition_is_shown(control: str, text: str) -> None:
    with pytest.raises(LanguageError) as caught:
        compile_source(text.format(control), source_name=f"{control}.x")
    assert all(line.replace("\t", "").isprintable() for line in str(caught.value).split("\n"))


def test_carets_stand_below_what_is_shown_for_control_characters() -> None:
    with pytest.raises(LanguageError) as caught:
        compile_source("\t/* \x1b[1m */\tconst A = A;", source_name="t.x")
    _, line, carets = str(caught.value).splitlines()
    assert line == "  \t/* \\x1b[1m */\tconst A = A;"
    assert carets == "  \t" + " " * len("/* \\x1b[1m */") + "\t          ^"
