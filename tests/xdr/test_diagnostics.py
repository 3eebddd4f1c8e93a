"""Errors and warnings of the compiler: exact text, line, column and caret."""

from __future__ import annotations

import pytest

from rpcrdma.xdr.language import LanguageError, compile_source

# fault: (definition, all messages about it)
ERRORS: dict[str, tuple[str, str]] = {
    "no type": (
        "struct s {\n    int a;\n    ;\n};",
        "error: t.x:3:5: expected a type or '}', found ';'\n      ;\n      ^",
    ),
    "no semicolon": (
        "struct s {\n\tint a\n\tint b;\n};",
        "error: t.x:3:2: expected ';', '<' or '[', found 'int'\n  \tint b;\n  \t^^^",
    ),
    "end of file": (
        "struct s {\n    int a;",
        "error: t.x:2:11: expected a type or '}', found end of file\n      int a;\n            ^",
    ),
    "not a definition": (
        "int a;",
        (
            "error: t.x:1:1: expected 'const', 'enum', 'pragma', 'program', 'struct', 'typedef', 'union' or end "
            "of file, "
            "found 'int'\n  int a;\n  ^^^"
        ),
    ),
    "comment without end": (
        "const A = 1; /* so it goes",
        "error: t.x:1:14: comment without an end\n  const A = 1; /* so it goes\n               ^^",
    ),
    "comment of another language": (
        "// of C++",
        "error: t.x:1:1: unexpected character '/'\n  // of C++\n  ^\nhint: a comment is /* written so */",
    ),
    "preprocessor": (
        "#define A 1",
        (
            "error: t.x:1:1: unexpected character '#'\n  #define A 1\n  ^\n"
            "hint: lines of a preprocessor are not part of the language: let it run before (--cpp)"
        ),
    ),
    "name with underscore": (
        "const _A = 1;",
        "error: t.x:1:7: unexpected character '_'\n  const _A = 1;\n        ^\nhint: a name begins with a letter",
    ),
    "bad octal": (
        "const A = 019;",
        (
            "error: t.x:1:11: '019' is not a number\n  const A = 019;\n            ^^^\n"
            "hint: decimal, 0x hexadecimal or 0 octal"
        ),
    ),
    "defined twice": (
        "const A = 1;\nstruct A { int a; };",
        "error: t.x:2:8: A is defined twice\n  struct A { int a; };\n         ^\nhint: first in line 1",
    ),
    "enumerator defined twice": (
        "enum e { A = 1 };\nenum f { A = 1 };",
        "error: t.x:2:10: A is defined twice\n  enum f { A = 1 };\n           ^\nhint: first in line 1",
    ),
    "member defined twice": (
        "struct s {\n    int a;\n    bool a;\n};",
        "error: t.x:3:10: member a is defined twice\n      bool a;\n           ^\nhint: first in line 2",
    ),
    "reserved word as a name": (
        "struct s { int switch; };",
        "error: t.x:1:16: 'switch' is a reserved word\n  struct s { int switch; };\n                 ^^^^^^",
    ),
    "unknown type": (
        "struct colour { int a; };\nstruct s { color c; };",
        (
            "error: t.x:2:12: type color is not defined\n  struct s { color c; };\n             ^^^^^\n"
            "hint: did you mean colour?"
        ),
    ),
    "unknown constant": (
        "const A = M;",
        "error: t.x:1:11: constant M is not defined\n  const A = M;\n            ^\nhint: -D M=N gives it a value",
    ),
    "constant by itself": (
        "const A = A;",
        "error: t.x:1:11: constant A is defined by itself\n  const A = A;\n            ^",
    ),
    "negative size": (
        "typedef opaque a[-1];",
        "error: t.x:1:18: -1 is not a size: 0 to 4294967295\n  typedef opaque a[-1];\n                   ^^",
    ),
    "enumerator out of range": (
        "enum e { A = 0x80000000 };",
        (
            "error: t.x:1:14: 2147483648 does not fit a signed 32-bit integer\n"
            "  enum e { A = 0x80000000 };\n               ^^^^^^^^^^"
        ),
    ),
    "unbounded member": (
        "struct s { opaque data<>; };",
        (
            "error: t.x:1:19: s.data has no limit\n  struct s { opaque data<>; };\n                    ^^^^\n"
            "hint: write <N>, or add: pragma limit s.data N;"
        ),
    ),
    "unbounded typedef": (
        "typedef string path<>;",
        (
            "error: t.x:1:16: path has no limit\n  typedef string path<>;\n                 ^^^^\n"
            "hint: write <N>, or add: pragma limit path N;"
        ),
    ),
    "infinite": (
        "struct s { int a; s b; };",
        "error: t.x:1:8: s contains itself\n  struct s { int a; s b; };\n         ^\nhint: use a pointer: s *member;",
    ),
    "typedef by itself": (
        "typedef a b; typedef b a;",
        "error: t.x:1:22: typedef b is defined by itself\n  typedef a b; typedef b a;\n                       ^",
    ),
    "typedef of nothing": (
        "typedef void;",
        "error: t.x:1:9: a typedef needs a type and a name\n  typedef void;\n          ^^^^",
    ),
    "quadruple": (
        "typedef quadruple q;",
        (
            "error: t.x:1:9: quadruple is not supported: Python has no type for it\n"
            "  typedef quadruple q;\n          ^^^^^^^^^\nhint: opaque name[16] carries the octets"
        ),
    ),
    "discriminant": (
        "union u switch (hyper h) { case 1: void; };",
        (
            "error: t.x:1:23: a discriminant is an int, unsigned int, enum or bool\n"
            "  union u switch (hyper h) { case 1: void; };\n                        ^"
        ),
    ),
    "void discriminant": (
        "union u switch (void) { case 1: void; };",
        (
            "error: t.x:1:17: a discriminant is an int, unsigned int, enum or bool\n"
            "  union u switch (void) { case 1: void; };\n                  ^^^^"
        ),
    ),
    "case of another enumeration": (
        "enum e { RED = 1 }; enum f { GREEN = 1 };\nunion u switch (e k) { case GREEN: void; };",
        (
            "error: t.x:2:29: in enum e, GREEN is not defined\n"
            "  union u switch (e k) { case GREEN: void; };\n                              ^^^^^"
        ),
    ),
    "case that is no value": (
        "enum e { RED = 1 };\nunion u switch (e k) { case 2: void; };",
        (
            "error: t.x:2:29: enum e has no value 2\n  union u switch (e k) { case 2: void; };\n"
            "                              ^"
        ),
    ),
    "case of a bool": (
        "union u switch (bool b) { case 1: void; };",
        (
            "error: t.x:1:32: a bool is TRUE or FALSE, not 1\n"
            "  union u switch (bool b) { case 1: void; };\n                                 ^"
        ),
    ),
    "case out of range": (
        "union u switch (unsigned n) { case -1: void; };",
        (
            "error: t.x:1:36: -1 is out of the discriminant's range, 0 to 4294967295\n"
            "  union u switch (unsigned n) { case -1: void; };\n                                     ^^"
        ),
    ),
    "case twice": (
        "union u switch (int n) {\n    case 1: void;\n    case 0x1: void;\n};",
        "error: t.x:3:10: case 1 occurs twice\n      case 0x1: void;\n           ^^^\nhint: first in line 2",
    ),
    "version zero": (
        "program P { version V { void A(void) = 0; } = 0; } = 1;",
        (
            "error: t.x:1:47: a version number is not zero\n"
            "  program P { version V { void A(void) = 0; } = 0; } = 1;\n"
            "                                                ^\nhint: RFC 5531 section 8.1"
        ),
    ),
    "version twice": (
        "program P {\nversion V { void A(void) = 0; } = 1;\nversion W { void A(void) = 0; } = 1;\n} = 1;",
        (
            "error: t.x:3:35: V has version number 1 too\n"
            "  version W { void A(void) = 0; } = 1;\n                                    ^"
        ),
    ),
    "procedure number twice": (
        "program P { version V {\nvoid A(void) = 0;\nvoid B(void) = 0;\n} = 1; } = 1;",
        "error: t.x:3:16: A has procedure number 0 too\n  void B(void) = 0;\n                 ^",
    ),
    "procedure twice": (
        "program P { version V {\nvoid A(void) = 0;\nvoid A(void) = 1;\n} = 1; } = 1;",
        "error: t.x:3:6: A is defined twice\n  void A(void) = 1;\n       ^\nhint: first in line 2",
    ),
    "program number": (
        "program P { version V { void A(void) = 0; } = 1; } = -1;",
        (
            "error: t.x:1:54: -1 is not a program number: 0 to 4294967295\n"
            "  program P { version V { void A(void) = 0; } = 1; } = -1;\n"
            "                                                       ^^"
        ),
    ),
    "pragma without type": (
        "struct s { opaque d<4>; };\npragma ddp t.d;",
        "error: t.x:2:12: type t is not defined\n  pragma ddp t.d;\n             ^",
    ),
    "pragma without member": (
        "struct s { opaque data<4>; };\npragma ddp s.dats;",
        (
            "error: t.x:2:14: member dats is not defined\n  pragma ddp s.dats;\n               ^^^^\n"
            "hint: did you mean data?"
        ),
    ),
    "pragma too deep": (
        "struct in { opaque d<4>; };\nstruct out { in inner; };\npragma ddp out.inner.d;",
        (
            "error: t.x:3:12: a pragma names a type and one member of it, TYPE.member: 'out.inner.d' goes deeper\n"
            "  pragma ddp out.inner.d;\n"
            "             ^^^^^^^^^^^\n"
            "hint: name the type of member 'inner' instead: TYPE.d"
        ),
    ),
    **{
        f"bound: {what}": (
            "struct q { unsigned int n; string s<4>; int i; };\nstruct r { opaque d<9>; int i; int a<3>; };\n"
            "program P { version V { r F(q) = 1; } = 1; } = 1;\n" + pragma,
            f"error: t.x:4:{column}: {text}\n  {pragma}\n  {' ' * (column - 1)}{'^' * carets}{hint}",
        )
        for what, pragma, column, carets, text, hint in [
            ("no such type", "pragma bound x.d q.n;", 14, 1, "type x is not defined", ""),
            (
                "no such argument type",
                "pragma bound r.d qq.n;",
                18,
                2,
                "type qq is not defined",
                "",
            ),
            ("no such member", "pragma bound r.e q.n;", 16, 1, "member e is not defined", ""),
            ("no such argument", "pragma bound r.d q.m;", 20, 1, "member m is not defined", ""),
            ("no member", "pragma bound r q.n;", 14, 1, "which member of r?", "\nhint: r.member"),
            ("no length", "pragma bound r.i q.n;", 16, 1, "r.i is not of variable length", ""),
            (
                "no elements",
                "pragma bound r.d octets q.n;",
                16,
                1,
                "r.d has no elements",
                "\nhint: without the word octets, its length is bounded",
            ),
            (
                "a string",
                "pragma bound r.d q.s;",
                20,
                1,
                "q.s bounds nothing",
                "\nhint: only an unsigned integer, or an opaque<>, array or list, whose length counts, can",
            ),
            (
                "a signed number",
                "pragma bound r.d q.i;",
                20,
                1,
                "q.i bounds nothing",
                "\nhint: only an unsigned integer, or an opaque<>, array or list, whose length counts, can",
            ),
            ("no procedure", "pragma bound q.s r.a;", 16, 1, "no procedure that takes r returns q.s", ""),
        ]
    },
    "bound twice": (
        (
            "struct q { unsigned int n; unsigned int m; };\nstruct r { opaque d<9>; };\n"
            "program P { version V { r F(q) = 1; } = 1; } = 1;\npragma bound r.d q.n;\npragma bound r.d q.m;"
        ),
        "error: t.x:5:16: a second bound for r.d by q\n  pragma bound r.d q.m;\n                 ^",
    ),
    "bound of a typedef": (
        "typedef opaque r<9>;\nstruct q { unsigned int n; };\npragma bound r.d q.n;",
        "error: t.x:3:14: r is neither a structure nor a union\n  pragma bound r.d q.n;\n               ^",
    ),
    "pragma twice": (
        "struct s { opaque d<4>; };\npragma limit s.d 1;\npragma limit s.d 2;",
        "error: t.x:3:14: a second pragma for s.d\n  pragma limit s.d 2;\n               ^",
    ),
    "limit of something fixed": (
        "struct s { int d; };\npragma limit s.d 1;",
        "error: t.x:2:16: d is not of variable length\n  pragma limit s.d 1;\n                 ^",
    ),
    "limit out of range": (
        "struct s { opaque d<4>; };\npragma limit s.d -1;",
        "error: t.x:2:18: -1 is not a limit: 0 to 4294967295\n  pragma limit s.d -1;\n                   ^^",
    ),
    "ddp of a number": (
        "struct s { int d; };\npragma ddp s.d;",
        (
            "error: t.x:2:14: s.d cannot be placed directly\n  pragma ddp s.d;\n               ^\n"
            "hint: only members of type opaque<> or string<> can"
        ),
    ),
    "ddp of a typedef": (
        "typedef opaque d<4>;\npragma ddp d;",
        (
            "error: t.x:2:12: d cannot be placed directly\n  pragma ddp d;\n             ^\n"
            "hint: only members of type opaque<> or string<> can"
        ),
    ),
}


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
    "struct s { int a }": "",
    "const = 4;": "",
}


@pytest.mark.parametrize(("source", "hint"), HINTS.items(), ids=HINTS)
def test_what_was_probably_meant_is_hinted_at(source: str, hint: str) -> None:
    with pytest.raises(LanguageError) as raised:
        compile_source(source, source_name="t.x")
    assert [remark.hint for remark in raised.value.diagnostics] == [hint]


def test_a_bare_string_takes_the_default_limit_in_the_lenient_dialect() -> None:
    source = "program P { version V { string F(string) = 1; } = 1; } = 7;"
    compiled = compile_source(source, source_name="t.x", lenient=True, default_limit=9)
    assert [remark.message for remark in compiled.warnings] == [
        "string is no type without a limit; taken as string<9>"
    ] * 2
    named = compile_source(source.replace("string", "s") + "typedef string s<9>;", source_name="t.x")
    assert not named.warnings


@pytest.mark.parametrize(("source", "expected"), ERRORS.values(), ids=ERRORS)
def test_errors_name_their_place(source: str, expected: str) -> None:
    with pytest.raises(LanguageError) as raised:
        compile_source(source, source_name="t.x")
    assert str(raised.value) == expected


@pytest.mark.req("V1-17", "V2-18")
def test_a_union_cannot_be_placed_directly() -> None:
    source = "union u switch (bool b) { case FALSE: void; }; struct s { u choice; };\npragma ddp s.choice;"
    with pytest.raises(LanguageError, match=r"t\.x:2:14: s\.choice cannot be placed directly"):
        compile_source(source, source_name="t.x")


@pytest.mark.req("V1-16", "V2-17")
def test_optional_data_cannot_be_placed_together_with_their_presence_word() -> None:
    source = "typedef opaque data<8>; struct s { data *maybe; };\npragma ddp s.maybe;"
    with pytest.raises(LanguageError, match=r"t\.x:2:14: s\.maybe cannot be placed directly"):
        compile_source(source, source_name="t.x")


def test_all_errors_are_named_in_order_of_their_places() -> None:
    source = "struct s {\n    one a;\n    opaque b<>;\n    two c[N];\n};\n"
    with pytest.raises(LanguageError) as raised:
        compile_source(source, source_name="t.x")
    said = [(remark.place.line, remark.place.column, remark.message) for remark in raised.value.diagnostics]
    assert said == [
        (2, 5, "type one is not defined"),
        (3, 12, "s.b has no limit"),
        (4, 5, "type two is not defined"),
        (4, 11, "constant N is not defined"),
    ]


# defect: (definition, the message about it, a definition in the language that means the same)
DRAFTS: dict[str, tuple[str, str, str]] = {
    "constant without =": (
        "const FLAG           0x00000001;",
        (
            "t.x:1:22: constant FLAG lacks '=' before its value\n  const FLAG           0x00000001;\n"
            "                       ^^^^^^^^^^\nhint: const FLAG = ...;"
        ),
        "const FLAG = 1;",
    ),
    "constant with a type": (
        "const uint32 FLAG = 1;",
        (
            "t.x:1:7: constant FLAG is given a type, 'uint32'\n  const uint32 FLAG = 1;\n        ^^^^^^\n"
            "hint: const FLAG = ...;"
        ),
        "const FLAG = 1;",
    ),
    "constant with a type of the language": (
        "const unsigned int FLAG = 1;",
        (
            "t.x:1:7: constant FLAG is given a type, 'unsigned int'\n  const unsigned int FLAG = 1;\n"
            "        ^^^^^^^^^^^^\n"
            "hint: const FLAG = ...;"
        ),
        "const FLAG = 1;",
    ),
    "struct without {": (
        "struct prefix\n    uint32 a;\n};",
        "t.x:1:8: struct prefix lacks '{' after its name\n  struct prefix\n         ^^^^^^",
        "struct prefix { uint32 a; };",
    ),
    "union without {": (
        "union u switch (int n)\n    case 1: int a;\n};",
        "t.x:2:10: union lacks '{' before its first arm\n      case 1: int a;\n           ^",
        "union u switch (int n) { case 1: int a; };",
    ),
    "definition without ;": (
        "enum e { A = 1 }\nenum f { B = 1 };",
        "t.x:1:6: ';' is missing after the definition of e\n  enum e { A = 1 }\n       ^",
        "enum e { A = 1 }; enum f { B = 1 };",
    ),
    "reversed typedef": (
        "typedef propid uint32;\nstruct s { propid a; };",
        (
            "t.x:1:9: typedef has the new name before the type: typedef uint32 propid;\n"
            "  typedef propid uint32;\n          ^^^^^^"
        ),
        "typedef uint32 propid; struct s { propid a; };",
    ),
    "reversed typedef of a type of the language": (
        "typedef propid unsigned int;",
        (
            "t.x:1:9: typedef has the new name before the type: typedef unsigned int propid;\n"
            "  typedef propid unsigned int;\n          ^^^^^^"
        ),
        "typedef unsigned int propid;",
    ),
    "reversed typedef of a struct": (
        "struct s { int a; };\ntypedef t s;",
        "t.x:2:9: typedef has the new name before the type: typedef s t;\n  typedef t s;\n          ^",
        "struct s { int a; }; typedef s t;",
    ),
    "member name twice in a union": (
        "union u switch (int n) {\n    case 1: int most;\n    case 2: hyper most;\n};",
        (
            "t.x:3:19: member most occurs twice in union u\n      case 2: hyper most;\n                    ^^^^\n"
            "hint: first in line 2"
        ),
        "union u switch (int n) { case 1: int most; case 2: hyper more; };",
    ),
    "several declarations in an arm": (
        (
            "enum e { A = 1, B = 2 };\nunion u switch (e k) {\n    case A:\n        int a;\n        int b;\n"
            "    case B: void;\n};"
        ),
        (
            "t.x:5:13: an arm of a union has one declaration, this one has more\n          int b;\n              ^\n"
            "hint: put them into a struct; taken as one"
        ),
        "enum e { A = 1, B = 2 }; union u switch (e k) { case A: struct { int a; int b; } A; case B: void; };",
    ),
    "; in a declaration": (
        "struct s {\n    uint32;   length;\n};",
        (
            "t.x:2:11: ';' between the type and the name of member length\n      uint32;   length;\n            ^\n"
            "hint: remove it"
        ),
        "struct s { uint32 length; };",
    ),
    "undefined discriminant": (
        "const A = 1;\nunion u switch (errcode e) { case A: int a; default: void; };",
        (
            "t.x:2:17: type errcode is not defined; taken as unsigned int\n"
            "  union u switch (errcode e) { case A: int a; default: void; };\n                  ^^^^^^^"
        ),
        "const A = 1; union u switch (unsigned e) { case A: int a; default: void; };",
    ),
    "long": (
        "struct s { unsigned long a; };",
        (
            "t.x:1:12: 'long' is no type of the language\n  struct s { unsigned long a; };\n"
            "             ^^^^^^^^^^^^^\n"
            "hint: int has 32 bits, hyper has 64; taken as int"
        ),
        "struct s { unsigned int a; };",
    ),
    "type of C in two words": (
        "struct s { unsigned char a; };",
        (
            "t.x:1:12: 'unsigned char' is no type of the language\n  struct s { unsigned char a; };\n"
            "             ^^^^^^^^^^^^^\nhint: taken as unsigned int"
        ),
        "struct s { unsigned int a; };",
    ),
    "signed type of C": (
        "struct s { short a; };",
        (
            "t.x:1:12: 'short' is no type of the language\n  struct s { short a; };\n             ^^^^^\n"
            "hint: taken as int"
        ),
        "struct s { int a; };",
    ),
    "truth of C": (
        "struct s { bool_t a; };",
        (
            "t.x:1:12: bool_t is a type of rpcgen, not of the language; taken as bool\n"
            "  struct s { bool_t a; };\n             ^^^^^^"
        ),
        "struct s { bool a; };",
    ),
    "type of C": (
        "struct s { u_short a; };",
        (
            "t.x:1:12: u_short is a type of rpcgen, not of the language; taken as unsigned int\n"
            "  struct s { u_short a; };\n             ^^^^^^^"
        ),
        "struct s { unsigned int a; };",
    ),
    "data of C": (
        "struct s { netobj a; };",
        (
            "t.x:1:12: netobj is a type of rpcgen, not of the language; taken as opaque<1024>\n"
            "  struct s { netobj a; };\n             ^^^^^^"
        ),
        "struct s { opaque a<1024>; };",
    ),
    "constant that is a text": (
        'const MODULUS = "d4a0";\nconst A = 1;',
        (
            "t.x:1:17: constant MODULUS is a text, which nothing can use; left out\n"
            '  const MODULUS = "d4a0";\n                  ^^^^^^'
        ),
        "const A = 1;",
    ),
    "enumerator without a value": (
        "enum e { A = 4, B };",
        (
            "t.x:1:17: B has no value\n  enum e { A = 4, B };\n                  ^\n"
            "hint: taken as one more than the one before it, as in C"
        ),
        "enum e { A = 4, B = 5 };",
    ),
    "first enumerator without a value": (
        "enum e { A, B = 7 };",
        (
            "t.x:1:10: A has no value\n  enum e { A, B = 7 };\n           ^\n"
            "hint: taken as one more than the one before it, as in C"
        ),
        "enum e { A = 0, B = 7 };",
    ),
    "typedef that names itself": (
        "struct s { int a; };\ntypedef struct s s;",
        "t.x:2:18: typedef gives s its own name; left out\n  typedef struct s s;\n                   ^",
        "struct s { int a; };",
    ),
}


@pytest.mark.parametrize(("source", "expected", "meaning"), DRAFTS.values(), ids=DRAFTS)
def test_defects_of_drafts_are_errors(source: str, expected: str, meaning: str) -> None:
    with pytest.raises(LanguageError) as raised:
        compile_source(source, source_name="t.x")
    assert str(raised.value) == f"error: {expected}"


@pytest.mark.parametrize(("source", "expected", "meaning"), DRAFTS.values(), ids=DRAFTS)
def test_defects_of_drafts_are_warnings_in_the_lenient_dialect(source: str, expected: str, meaning: str) -> None:
    compiled = compile_source(source, source_name="t.x", lenient=True)
    assert [remark.render(source, "t.x") for remark in compiled.warnings] == [f"warning: {expected}"]
    right = compile_source(meaning, source_name="t.x")
    assert not right.warnings
    assert compiled.text == right.text.replace("u.more", "u.most")


def test_a_misspelt_case_stays_an_error_in_the_lenient_dialect() -> None:
    source = "enum e { TYPE_DIRECT = 1 };\nunion u switch (e k)\n    case TPYE_DIRECT: void;\n};"
    with pytest.raises(LanguageError) as raised:
        compile_source(source, source_name="t.x", lenient=True)
    assert str(raised.value) == (
        "error: t.x:3:10: in enum e, TPYE_DIRECT is not defined\n      case TPYE_DIRECT: void;\n"
        "           ^^^^^^^^^^^\n"
        "hint: did you mean TYPE_DIRECT?"
    )


def test_an_undefined_type_of_a_member_stays_an_error_in_the_lenient_dialect() -> None:
    with pytest.raises(LanguageError, match=r"t\.x:1:12: type segment is not defined"):
        compile_source("struct s { segment a; };", source_name="t.x", lenient=True)
