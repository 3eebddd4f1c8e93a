"""Errors and warnings of the compiler: exact text, line, column and caret."""

from __future__ import annotations

import re

import pytest

from rpcrdma.xdr.language import LanguageError, compile_source
from support.cases import each_case


def told(marked: str, message: str, hint: str = "") -> tuple[str, str]:
    """A definition, and what is told of the place that stands between these «marks» in it."""
    before, inside, after = re.split("[«»]", marked)
    start = before.rpartition("\n")[2]
    line = start + inside + after.partition("\n")[0]
    carets = re.sub(r"[^\t]", " ", start) + "^" * max(1, len(inside))
    text = f"t.x:{before.count(chr(10)) + 1}:{len(start) + 1}: {message}\n  {line}\n  {carets}"
    return before + inside + after, text + (f"\nhint: {hint}" if hint else "")


def refused(source: str, *, lenient: bool = False) -> LanguageError:
    with pytest.raises(LanguageError) as raised:
        compile_source(source, source_name="t.x", lenient=lenient)
    return raised.value


BOUNDED = (
    "struct q { unsigned int n; string s<4>; int i; };\nstruct r { opaque d<9>; int i; int a<3>; };\n"
    "program P { version V { r F(q) = 1; } = 1; } = 1;\n"
)

# (definition with its fault marked, the message, the hint if there is one)
ERRORS: list[tuple[str, ...]] = [
    ("struct s {\n    int a;\n    «;»\n};", "expected a type or '}', found ';'"),
    ("struct s {\n\tint a\n\t«int» b;\n};", "expected ';', '<' or '[', found 'int'"),
    ("struct s {\n    int a;«»", "expected a type or '}', found end of file"),
    (
        "«int» a;",
        "expected 'const', 'enum', 'pragma', 'program', 'struct', 'typedef', 'union' or end of file, found 'int'",
    ),
    ("const A = 1; «/*» so it goes", "comment without an end"),
    (
        "«#»define A 1",
        "unexpected character '#'",
        "lines of a preprocessor are not part of the language: let it run before (cpp -P)",
    ),
    ("const «_»A = 1;", "unexpected character '_'", "a name begins with a letter"),
    ("const A = «019»;", "'019' is not a number", "decimal, 0x hexadecimal or 0 octal"),
    ("const A = 1;\nstruct «A» { int a; };", "A is defined twice", "first in line 1"),
    ("enum e { A = 1 };\nenum f { «A» = 1 };", "A is defined twice", "first in line 1"),
    ("const list = 1;\nconst «xdr_list» = 2;", "two definitions would be called xdr_list in Python", "rename one"),
    (
        "struct xdr_list { int a; };\nstruct «list» { hyper a; };",
        "two definitions would be called xdr_list in Python",
        "rename one",
    ),
    ("struct s {\n    int a;\n    bool «a»;\n};", "member a is defined twice", "first in line 2"),
    ("struct s { int «switch»; };", "'switch' is a reserved word"),
    ("struct colour { int a; };\nstruct s { «color» c; };", "type color is not defined", "did you mean colour?"),
    ("typedef «uin32_t» foo;", "type uin32_t is not defined"),
    ("const A = «M»;", "constant M is not defined", "-D M=N gives it a value"),
    ("const A = «A»;", "constant A is defined by itself"),
    ("typedef opaque a[«-1»];", "-1 is not a size: 0 to 4294967295"),
    ("enum e { A = «0x80000000» };", "2147483648 does not fit a signed 32-bit integer"),
    ("struct s { opaque «data»<>; };", "s.data has no limit", "write <N>, or add: pragma limit s.data N;"),
    ("typedef string «path»<>;", "path has no limit", "write <N>, or add: pragma limit path N;"),
    ("struct «s» { int a; s b; };", "s contains itself", "use a pointer: s *member;"),
    ("typedef a b; typedef «b» a;", "typedef b is defined by itself"),
    *(
        (definition, "the elements of s.v take no octets", "a peer could claim any number of them")
        for definition in (
            "typedef opaque z[0]; struct «s» { z v<9>; };",
            "typedef int z[0]; struct «s» { z v[9]; };",
            "struct z { opaque a[0]; }; struct y { z a; z b[0]; }; union «s» switch (bool k) { case TRUE: y v<9>; };",
        )
    ),
    ("typedef «void»;", "a typedef needs a type and a name"),
    (
        "typedef «quadruple» q;",
        "quadruple is not supported: Python has no type for it",
        "opaque name[16] carries the octets",
    ),
    ("union u switch (hyper «h») { case 1: void; };", "a discriminant is an int, unsigned int, enum or bool"),
    ("union u switch («void») { case 1: void; };", "a discriminant is an int, unsigned int, enum or bool"),
    (
        "enum e { RED = 1 }; enum f { GREEN = 1 };\nunion u switch (e k) { case «GREEN»: void; };",
        "in enum e, GREEN is not defined",
    ),
    ("enum e { RED = 1 };\nunion u switch (e k) { case «2»: void; };", "enum e has no value 2"),
    ("union u switch (bool b) { case «1»: void; };", "a bool is TRUE or FALSE, not 1"),
    ("union u switch (unsigned n) { case «-1»: void; };", "-1 is out of the discriminant's range, 0 to 4294967295"),
    (
        "union u switch (int n) {\n    case 1: void;\n    case «0x1»: void;\n};",
        "case 1 occurs twice",
        "first in line 2",
    ),
    (
        "program P { version V { void A(void) = 0; } = «0»; } = 1;",
        "a version number is not zero",
        "RFC 5531 section 8.1",
    ),
    (
        "program P {\nversion V { void A(void) = 0; } = 1;\nversion W { void A(void) = 0; } = «1»;\n} = 1;",
        "V has version number 1 too",
    ),
    ("program P { version V {\nvoid A(void) = 0;\nvoid B(void) = «0»;\n} = 1; } = 1;", "A has procedure number 0 too"),
    (
        "program P { version V {\nvoid A(void) = 0;\nvoid «A»(void) = 1;\n} = 1; } = 1;",
        "A is defined twice",
        "first in line 2",
    ),
    ("program P { version V { void A(void) = 0; } = 1; } = «-1»;", "-1 is not a program number: 0 to 4294967295"),
    ("struct s { opaque d<4>; };\npragma ddp «t».d;", "type t is not defined"),
    ("struct s { opaque data<4>; };\npragma ddp s.«dats»;", "member dats is not defined", "did you mean data?"),
    (
        "struct in { opaque d<4>; };\nstruct out { in inner; };\npragma ddp «out.inner.d»;",
        "a pragma names a type and one member of it, TYPE.member: 'out.inner.d' goes deeper",
        "name the type of member 'inner' instead: TYPE.d",
    ),
    (
        (
            "struct q { unsigned n; unsigned m; };\nstruct r { opaque d<9>; };\n"
            "program P { version V { r F(q) = 1; } = 1; } = 1;\npragma bound r.d q.n;\npragma bound r.«d» q.m;"
        ),
        "a second bound for r.d by q",
    ),
    (
        "typedef opaque r<9>;\nstruct q { unsigned int n; };\npragma bound «r».d q.n;",
        "r is neither a structure nor a union",
    ),
    ("struct s { opaque d<4>; };\npragma limit s.d 1;\npragma limit «s».d 2;", "a second pragma for s.d"),
    ("struct s { int d; };\npragma limit s.«d» 1;", "d is not of variable length"),
    (
        "union u switch (int n) { case 1: int c; default: int d; };\npragma limit u.«d» 1;",
        "d is not of variable length",
    ),
    ("struct s { opaque d<4>; };\npragma limit s.d «-1»;", "-1 is not a limit: 0 to 4294967295"),
    (
        "struct s { int d<4>; };\npragma pairs s.d s.«d»;",
        "d is no array<> of structures or unions, whose elements can be paired",
    ),
    (
        "struct s { int d; };\npragma ddp s.«d»;",
        "s.d cannot be placed directly",
        "only members of type opaque<> or string<> can",
    ),
    (
        "typedef opaque d<4>;\npragma ddp «d»;",
        "d cannot be placed directly",
        "only members of type opaque<> or string<> can",
    ),
    *(
        (BOUNDED + pragma, *message)
        for pragma, *message in [
            ("pragma bound «x».d q.n;", "type x is not defined"),
            ("pragma bound r.d «qq».n;", "type qq is not defined"),
            ("pragma bound r.«e» q.n;", "member e is not defined"),
            ("pragma bound r.d q.«m»;", "member m is not defined"),
            ("pragma bound «r» q.n;", "which member of r?", "r.member"),
            ("pragma bound r.«i» q.n;", "r.i is not of variable length"),
            ("pragma bound r.«d» octets q.n;", "r.d has no elements", "without the word octets, its length is bounded"),
            (
                "pragma bound r.d q.«s»;",
                "q.s bounds nothing",
                "only an unsigned integer, or an opaque<>, array or list, whose length counts, can",
            ),
            (
                "pragma bound r.d q.«i»;",
                "q.i bounds nothing",
                "only an unsigned integer, or an opaque<>, array or list, whose length counts, can",
            ),
            ("pragma bound q.«s» r.a;", "no procedure that takes r returns q.s"),
        ]
    ),
]


@each_case("error", ERRORS)
def test_errors_name_their_place(error: tuple[str, ...]) -> None:
    source, expected = told(*error)
    assert str(refused(source)) == f"error: {expected}"


HINTS = {
    "struct s { string name; };": "a string has a limit: string name<N>",
    "struct s { string name[8]; };": "a string has a limit: string name<N>",
    "struct s { opaque data; };": "opaque data have a length, name[N], or a limit, name<N>",
    "struct s { string *name; };": "what is optional has a name of its own: typedef string text<N>; and text *name",
    "typedef string<64> name;": "the limit follows the name: name<N>",
    "struct s { int a, b; };": "each member has a declaration of its own",
    "struct s { int a[2][3]; };": "an array of arrays has a name for the inner one: typedef int row[3];",
    "struct s { };": "it has at least one member",
    "union u switch (int a) { };": "it has at least one member",
    "union u switch (int a) { case 1: };": "an arm without a member is void: case N: void;",
    "enum e { A = 1 << 2 };": "a value is a number or a name; there are no expressions",
    "const A = 1 + 2;": "a value is a number or a name; there are no expressions",
    "struct s *p;": "a typedef names the pointer: typedef struct name *pointer;",
    "program P { version V { void F(int a) = 1; } = 1; } = 7;": "the types of arguments have no names",
    "program P { version V { void F() = 1; } = 1; } = 7;": "void stands for no arguments",
    "program P { version V { int *F(void) = 1; } = 1; } = 7;": "what is optional has a name: typedef int *maybe;",
    "program P { void F(void) = 1; } = 7;": "procedures belong to versions: version NAME { ... } = 1;",
    "program P { version V { string F(void) = 1; } = 1; } = 7;": "typedef string text<N>;",
    "program P { version V { void F(opaque) = 1; } = 1; } = 7;": "typedef opaque text<N>;",
    "program P { version V { void F(string<9>) = 1; } = 1; } = 7;": "a typedef names it: typedef string name<N>;",
    "program P { version V { void F(int, opaque<9>) = 1; } = 1; } = 7;": "a typedef names it: typedef opaque name<N>;",
    "program P { version V { void F(void) = 1; string<9> G(void) = 2; } = 1; } = 7;": (
        "a typedef names it: typedef string name<N>;"
    ),
    "program P { version V { void F(int a[3]) = 1; } = 1; } = 7;": "a typedef names it: typedef int name<N>;",
    "union u switch (int a) { case 1: string<4> x; };": "the limit follows the name: name<N>",
    "struct s { int a }": "",
    "const = 4;": "",
}


@each_case(("source", "hint"), HINTS.items())
def test_what_was_probably_meant_is_hinted_at(source: str, hint: str) -> None:
    assert [remark.hint for remark in refused(source).diagnostics] == [hint]


def test_a_bare_string_takes_the_default_limit_in_the_lenient_dialect() -> None:
    source = "program P { version V { string F(string) = 1; } = 1; } = 7;"
    compiled = compile_source(source, source_name="t.x", lenient=True, default_limit=9)
    assert [remark.message for remark in compiled.warnings] == [
        "string is no type without a limit; taken as string<9>"
    ] * 2
    named = compile_source(source.replace("string", "s") + "typedef string s<9>;", source_name="t.x")
    assert not named.warnings


# Placement without the length or the presence word that stays in the stream
@pytest.mark.req("V1-16", "V1-17", "V2-17", "V2-18")
@each_case(
    "source",
    [
        "union u switch (bool b) { case FALSE: void; }; struct s { u choice; };\npragma ddp s.«choice»;",
        "typedef opaque data<8>; struct s { data *maybe; };\npragma ddp s.«maybe»;",
    ],
)
def test_unions_and_optional_data_cannot_be_placed_directly(source: str) -> None:
    member = source[source.index("«") + 1 : -2]
    source, text = told(
        source, f"s.{member} cannot be placed directly", "only members of type opaque<> or string<> can"
    )
    assert str(refused(source)) == f"error: {text}"


@each_case(
    ("source", "name"),
    [
        ("struct a { int b; }; const encode_a = 1;", "encode_a"),
        ("const V_Client = 1; program P { version V { int F(int) = 1; } = 1; } = 9;", "V_Client"),
        ("const F_args = 1; program P { version V { int F(int, int) = 1; } = 1; } = 9;", "F_args"),
    ],
)
def test_names_that_generated_code_needs_are_told(source: str, name: str) -> None:
    with pytest.raises(LanguageError, match=f"t.x:1:1: two objects of the Python module would be called {name}\n"):
        compile_source(source, source_name="t.x")


def test_all_errors_are_named_in_order_of_their_places() -> None:
    error = refused("struct s {\n    one a;\n    opaque b<>;\n    two c[N];\n};\n")
    said = [(remark.place.line, remark.place.column, remark.message) for remark in error.diagnostics]
    assert said == [
        (2, 5, "type one is not defined"),
        (3, 12, "s.b has no limit"),
        (4, 5, "type two is not defined"),
        (4, 11, "constant N is not defined"),
    ]


# (definition with its defect marked, a definition in the language that means the same, the message, the hint)
DRAFTS: list[tuple[str, ...]] = [
    (
        "const FLAG           «0x00000001»;",
        "const FLAG = 1;",
        "constant FLAG lacks '=' before its value",
        "const FLAG = ...;",
    ),
    ("const «uint32» FLAG = 1;", "const FLAG = 1;", "constant FLAG is given a type, 'uint32'", "const FLAG = ...;"),
    (
        "const «unsigned int» FLAG = 1;",
        "const FLAG = 1;",
        "constant FLAG is given a type, 'unsigned int'",
        "const FLAG = ...;",
    ),
    ("struct «prefix»\n    uint32 a;\n};", "struct prefix { uint32 a; };", "struct prefix lacks '{' after its name"),
    (
        "union u switch (int n)\n    case «1»: int a;\n};",
        "union u switch (int n) { case 1: int a; };",
        "union lacks '{' before its first arm",
    ),
    (
        "enum «e» { A = 1 }\nenum f { B = 1 };",
        "enum e { A = 1 }; enum f { B = 1 };",
        "';' is missing after the definition of e",
    ),
    (
        "typedef «propid» uint32;\nstruct s { propid a; };",
        "typedef uint32 propid; struct s { propid a; };",
        "typedef has the new name before the type: typedef uint32 propid;",
    ),
    (
        "typedef «propid» unsigned int;",
        "typedef unsigned int propid;",
        "typedef has the new name before the type: typedef unsigned int propid;",
    ),
    (
        "struct s { int a; };\ntypedef «t» s;",
        "struct s { int a; }; typedef s t;",
        "typedef has the new name before the type: typedef s t;",
    ),
    (
        "typedef «u_short» t;",
        "typedef unsigned int t;",
        "u_short is a type of rpcgen, not of the language; taken as unsigned int",
    ),
    (
        "union u switch (int n) {\n    case 1: int most;\n    case 2: hyper «most»;\n};",
        "union u switch (int n) { case 1: int most; case 2: hyper more; };",
        "member most occurs twice in union u",
        "first in line 2",
    ),
    (
        "enum e { A = 1, B = 2 };\nunion u switch (e k) {\n  case A:\n    int a;\n    int «b»;\n  case B: void;\n};",
        "enum e { A = 1, B = 2 }; union u switch (e k) { case A: struct { int a; int b; } A; case B: void; };",
        "an arm of a union has one declaration, this one has more",
        "put them into a struct; taken as one",
    ),
    (
        "struct s {\n    uint32«;»   length;\n};",
        "struct s { uint32 length; };",
        "';' between the type and the name of member length",
        "remove it",
    ),
    (
        "const A = 1;\nunion u switch («errcode» e) { case A: int a; default: void; };",
        "const A = 1; union u switch (unsigned e) { case A: int a; default: void; };",
        "type errcode is not defined; taken as unsigned int",
    ),
    (
        "struct s { «unsigned long» a; };",
        "struct s { unsigned int a; };",
        "'long' is no type of the language",
        "int has 32 bits, hyper has 64; taken as int",
    ),
    (
        "struct s { «unsigned char» a; };",
        "struct s { unsigned int a; };",
        "'unsigned char' is no type of the language",
        "taken as unsigned int",
    ),
    ("struct s { «short» a; };", "struct s { int a; };", "'short' is no type of the language", "taken as int"),
    (
        "struct s { «bool_t» a; };",
        "struct s { bool a; };",
        "bool_t is a type of rpcgen, not of the language; taken as bool",
    ),
    (
        "struct s { «u_short» a; };",
        "struct s { unsigned int a; };",
        "u_short is a type of rpcgen, not of the language; taken as unsigned int",
    ),
    (
        "struct s { «netobj» a; };",
        "struct s { opaque a<1024>; };",
        "netobj is a type of rpcgen, not of the language; taken as opaque<1024>",
    ),
    (
        'const MODULUS = «"d4a0"»;\nconst A = 1;',
        "const A = 1;",
        "constant MODULUS is a text, which nothing can use; left out",
    ),
    (
        "enum e { A = 4, «B» };",
        "enum e { A = 4, B = 5 };",
        "B has no value",
        "taken as one more than the one before it, as in C",
    ),
    (
        "enum e { «A», B = 7 };",
        "enum e { A = 0, B = 7 };",
        "A has no value",
        "taken as one more than the one before it, as in C",
    ),
    ("struct s { int a; };\ntypedef struct s «s»;", "struct s { int a; };", "typedef gives s its own name; left out"),
    (
        "struct s { «rpcprog_t» a; };",
        "struct s { unsigned int a; };",
        "rpcprog_t is a type of rpcgen, not of the language; taken as unsigned int",
    ),
    (
        'const A = 1; «//» one; struct {\n/* // */ %#include "a" // b\nconst B = 2; // two',
        "const A = 1; const B = 2;",
        "'//' begins no comment in the language",
        "a comment is /* written so */",
    ),
    (
        "namespace «outer» { const A = 1; struct s { int namespace; }; }\nconst B = 2;",
        "const A = 1; struct s { int namespace; }; const B = 2;",
        "'namespace' is no word of the language",
        "its definitions are taken without it",
    ),
    (
        "program P { version V { int ADD(int «a») = 1; } = 1; } = 3;",
        "program P { version V { int ADD(int) = 1; } = 1; } = 3;",
        "argument a has a name",
        "the types of arguments have no names",
    ),
]


@each_case(("marked", "meaning", "message", "hint"), [row if row[3:] else (*row, "") for row in DRAFTS])
def test_defects_of_drafts_are_errors_and_warnings_in_the_lenient_dialect(
    marked: str, meaning: str, message: str, hint: str
) -> None:
    source, expected = told(marked, message, hint)
    assert str(refused(source)) == f"error: {expected}"
    compiled = compile_source(source, source_name="t.x", lenient=True)
    assert [remark.render(source, "t.x") for remark in compiled.warnings] == [f"warning: {expected}"]
    right = compile_source(meaning, source_name="t.x")
    assert not right.warnings
    assert compiled.text == right.text.replace("u.more", "u.most")


def test_a_union_with_its_default_alone_has_one_arm_in_the_lenient_dialect() -> None:
    source, text = told(
        "union u switch (int n) { «default»: int a; };",
        "a union has at least one case before its default",
        "case N: void;",
    )
    assert str(refused(source)) == f"error: {text}"
    compiled = compile_source(source, source_name="t.x", lenient=True)
    assert [remark.render(source, "t.x") for remark in compiled.warnings] == [f"warning: {text}"]
    other = compile_source("union u switch (int n) { case 1: void; default: int a; };", source_name="t.x").text
    assert compiled.text != other
    assert compiled.text.count("def ") == other.count("def ")


def test_an_undefined_constant_is_the_only_error_wherever_it_stands() -> None:
    source = """enum e { A = NA, B, C = NC };
struct s { int a[NS]; opaque b<NT>; };
union u switch (int n) { case NX: void; case NY: int a; case 1: int b; };
union w switch (e k) { case A: void; case B: int a; };
const D = ND;
const F = D;
program P { version V { int ADD(int) = NP; int SUB(int) = NQ; } = NV; version W { int MUL(int) = 1; } = NW; } = NN;
"""
    missing = ["NA", "NC", "NS", "NT", "NX", "NY", "ND", "NP", "NQ", "NV", "NW", "NN"]
    found = sorted(remark.message for remark in refused(source, lenient=True).diagnostics)
    assert found == sorted(f"constant {name} is not defined" for name in missing)


@each_case(
    "error",
    [
        (
            "enum e { TYPE_DIRECT = 1 };\nunion u switch (e k)\n    case «TPYE_DIRECT»: void;\n};",
            "in enum e, TPYE_DIRECT is not defined",
            "did you mean TYPE_DIRECT?",
        ),
        ("struct s { «segment» a; };", "type segment is not defined"),
    ],
)
def test_a_misspelt_name_stays_an_error_in_the_lenient_dialect(error: tuple[str, ...]) -> None:
    source, expected = told(*error)
    assert str(refused(source, lenient=True)) == f"error: {expected}"


@each_case(
    ("source", "messages"),
    [
        ("typedef A x;\ntypedef B x;", ["type A is not defined", "x is defined twice"]),
        ("typedef x x;\ntypedef A x;", ["type A is not defined"]),
    ],
)
def test_typedefs_that_might_all_be_turned_round_leave_no_type_undefined_by_that(
    source: str, messages: list[str]
) -> None:
    assert [remark.message for remark in refused(source, lenient=True).diagnostics] == messages
