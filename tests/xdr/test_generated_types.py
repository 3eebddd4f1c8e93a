"""The compiler's output for each construct of the language: octets, Python types, refusals."""

from __future__ import annotations

import array
import dataclasses
import re
import sys
import tomllib
import typing
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.xdr.codec import Decoder, Encoder, PlacedByPosition
from rpcrdma.xdr.language import compile_source
from support.cases import each_case
from support.compiled import assert_octets, load, octets, whole

# The definitions of RFC 4506 section 7, in our layout.
FILE = """
const MAXUSERNAME = 32; const MAXFILELEN = 65535; const MAXNAMELEN = 255;
enum filekind { TEXT = 0, DATA = 1, EXEC = 2 };
union filetype switch (filekind kind) {
    case TEXT: void;
    case DATA: string creator<MAXNAMELEN>;
    case EXEC: string interpretor<MAXNAMELEN>;
};
struct file {
    string filename<MAXNAMELEN>;
    filetype type;
    string owner<MAXUSERNAME>;
    opaque data<MAXFILELEN>;
};
"""
VECTOR = tomllib.loads((Path(__file__).parents[1] / "vectors/xdr/file.toml").read_text())["file"]
GOLDEN = bytes.fromhex(VECTOR["hex"])


def golden_file(module: Any) -> Any:
    kind = module.filekind(VECTOR["kind"])
    return module.file(
        filename=VECTOR["filename"],
        type=module.filetype(kind, VECTOR["interpretor"]),
        owner=VECTOR["owner"],
        data=VECTOR["data"].encode(),
    )


def test_the_example_of_rfc_4506_has_its_octets() -> None:
    module = load(FILE)
    assert_octets(module, "file", golden_file(module), VECTOR["hex"])
    with pytest.raises(DecodeError, match="value at offset 48: need end of data, have 4 more octets"):
        whole(module.decode_file, GOLDEN + bytes(4))


def test_constants_are_decimal_hexadecimal_and_octal() -> None:
    module = load("const D = 10; const N = -10; const H = 0xfF; const O = 017; const Z = 0; const C = D;")
    assert (module.D, module.N, module.H, module.O, module.Z, module.C) == (10, -10, 255, 15, 0, 10)


def test_comments_and_passed_lines_are_ignored() -> None:
    module = load("/* one *//**/ /* two\n ** lines */\n%#include <rpc/rpc.h>\nconst A /* of */ = 1;\n% int x;\n")
    assert module.A == 1


# definition of type t, a value, its octets
SINGLE: dict[str, tuple[str, Any, str]] = {
    "int": ("typedef int t;", -2, "fffffffe"),
    "unsigned int": ("typedef unsigned int t;", 0xFFFFFFFF, "ffffffff"),
    "unsigned": ("typedef unsigned t;", 1, "00000001"),
    "hyper": ("typedef hyper t;", -2, "fffffffffffffffe"),
    "unsigned hyper": ("typedef unsigned hyper t;", 1 << 63, "8000000000000000"),
    "float": ("typedef float t;", 1.5, "3fc00000"),
    "double": ("typedef double t;", -2.0, "c000000000000000"),
    "bool": ("typedef bool t;", True, "00000001"),
    "uint32": ("typedef uint32 t;", 5, "00000005"),
    "int64": ("typedef int64 t;", -1, "ffffffffffffffff"),
    "fixed opaque": ("typedef opaque t[3];", b"abc", "61626300"),
    "long fixed opaque": ("typedef opaque t[65];", b"x" * 65, "78" * 65 + "000000"),
    "opaque": ("typedef opaque t<9>;", b"abcde", "00000005 6162636465000000"),
    "string": ("typedef string t<9>;", "né", "00000003 6ec3a900"),
    "fixed array": ("typedef int t[2];", [1, -1], "00000001 ffffffff"),
    "variable array": ("typedef hyper t<2>;", [1], "00000001 0000000000000001"),
    "array of strings": ("typedef string s<3>; typedef s t<2>;", ["a", ""], "00000002 00000001 61000000 00000000"),
    "array of arrays": ("typedef int row[2]; typedef row t<2>;", [[1, 2]], "00000001 00000001 00000002"),
    "array of bools": ("typedef bool t[2];", [True, False], "00000001 00000000"),
    "array of optionals": ("typedef int *one; typedef one t[2];", [None, 5], "00000000 00000001 00000005"),
    "optional, absent": ("typedef int *t;", None, "00000000"),
    "optional, present": ("typedef int *t;", 7, "00000001 00000007"),
    "optional string": ("typedef string s<4>; typedef s *t;", "ab", "00000001 00000002 61620000"),
    "empty array": ("typedef int t[0];", [], ""),
}


@each_case(("source", "value", "expected"), SINGLE.values())
def test_a_typedef_a_member_and_an_arm_of_each_type(source: str, value: Any, expected: str) -> None:
    module = load(
        f"{source} struct s1 {{ int before; t member; hyper after; }};"
        "union u switch (int n) { case -1: t member; default: void; };"
    )
    assert_octets(module, "t", value, expected)
    assert_octets(module, "s1", module.s1(before=1, member=value, after=2), f"00000001 {expected} 0000000000000002")
    assert_octets(module, "u", module.u(-1, value), f"ffffffff {expected}")


FIXED = """
enum colour { RED = -1, GREEN = 5 };
enum size { SMALL = 1, BIG = 2 };
struct point { int x; hyper y; };
struct shape { unsigned id; bool filled; colour edge; size measure; point centre; opaque mark[3]; int turns[2]; };
"""
SHAPE = bytes.fromhex("00000009 00000001 ffffffff 00000002 00000003 0000000000000004 61626300 00000007 fffffff8")


def shape(module: Any) -> Any:
    return module.shape(9, True, module.colour.RED, module.size.BIG, module.point(3, 4), b"abc", [7, -8])


def test_a_run_of_fixed_members_is_one_layout() -> None:
    module = load(FIXED)
    assert_octets(module, "shape", shape(module), SHAPE.hex())
    text = compile_source(FIXED, source_name="f.x").text
    assert '_LAYOUT_3: Final = Layout.of(\n    ">IIiIiq3s1x2i",' in text
    assert text.count("group_values = dec.take(") == 2


@each_case(
    ("at", "word", "message"),
    [
        (4, 2, "shape.filled at offset 4: need 0 or 1, have 2"),
        (8, 0, "shape.edge at offset 8: need a value of enum colour, have 0"),
        (12, 3, "shape.measure at offset 12: need a value of enum size, have 3"),
    ],
)
def test_bad_values_in_a_run_name_field_and_offset(at: int, word: int, message: str) -> None:
    module = load(FIXED)
    data = SHAPE[:at] + word.to_bytes(4) + SHAPE[at + 4 :]
    with pytest.raises(DecodeError) as raised:
        module.decode_shape(Decoder(b"\xff" * 4 + data, 4))
    assert str(raised.value) == message


def test_a_short_run_names_its_fields() -> None:
    with pytest.raises(DecodeError, match=r"shape.id\.\.turns\[1\] at offset 0: need 40 octets, have 39"):
        load(FIXED).decode_shape(Decoder(SHAPE[:-1]))


@each_case(
    ("change", "message"),
    [
        ({"id": -1}, "shape.id: -1 does not fit its XDR type"),
        ({"edge": None}, "shape.edge: None is no value of enum colour"),
        ({"mark": b"ab"}, "shape.mark: 2 octets given, the type has 3"),
        ({"turns": [1]}, "shape.turns: 1 elements given, the type has 2"),
        ({"turns": [1, 1 << 31]}, "shape.turns[1]: 2147483648 does not fit its XDR type"),
    ],
)
def test_values_that_do_not_fit_a_run_are_named(change: dict[str, Any], message: str) -> None:
    module = load(FIXED)
    with pytest.raises(LocalProtocolError) as raised:
        octets(module.encode_shape, dataclasses.replace(shape(module), **change))
    assert str(raised.value) == message


def test_enumerations_are_int_enums() -> None:
    module = load("enum e { A = 1, B = 2, name = 3, mro = 4 }; enum n { C = -1 };")
    assert list(module.e) == [1, 2, 3, 4]
    assert [member.name for member in module.e] == ["A", "B", "name_", "mro_"]
    assert_octets(module, "n", module.n.C, "ffffffff")
    assert isinstance(module.decode_n(Decoder(b"\xff" * 4)), module.n)
    with pytest.raises(DecodeError, match="e at offset 0: need a value of enum e, have 9"):
        module.decode_e(Decoder(b"\0\0\0\x09"))
    with pytest.raises(LocalProtocolError, match="x: 9 is no value of enum e"):
        module.encode_e(Encoder(), 9, "x")


@each_case(
    ("members", "value", "message"),
    [
        ("e a;", (9,), "s.a: 9 is no value of enum e"),
        ("e a; int b;", (9, 1), "s.a: 9 is no value of enum e"),
        ("bool a;", (4,), "s.a: 4 is no bool"),
        ("int b; bool a;", (1, 4), "s.a: 4 is no bool"),
        ("bool a<2>;", ([True, 4],), "s.a: 4 is no bool"),
    ],
)
def test_what_the_peer_would_refuse_is_not_encoded(members: str, value: tuple[Any, ...], message: str) -> None:
    module = load(f"enum e {{ A = 1 }}; struct s {{ {members} }};")
    with pytest.raises(LocalProtocolError, match=message):
        module.encode_s(Encoder(), module.s(*value))


UNION = """
enum kind { ONE = 1, TWO = 2, THREE = 3, FOUR = 4 };
struct body { int a; };
union u switch (kind k) { case ONE: body b; case TWO: case THREE: int n; case FOUR: void; };
union part switch (kind k) { case ONE: int n; };
union other switch (kind k) { case ONE: int n; default: body b; };
"""


@each_case(
    ("tag", "value", "expected"),
    [(1, "body", "00000001 00000007"), (2, 7, "00000002 00000007"), (3, 7, "00000003 00000007"), (4, None, "00000004")],
)
def test_each_arm_of_a_union(tag: int, value: Any, expected: str) -> None:
    module = load(UNION)
    assert_octets(module, "u", module.u(module.kind(tag), module.body(7) if value == "body" else value), expected)


def test_a_discriminant_without_an_arm_is_refused() -> None:
    module = load(UNION)
    with pytest.raises(DecodeError, match=r"part.k at offset 0: need a case of union part, have 2"):
        module.decode_part(Decoder(b"\0\0\0\2"))
    with pytest.raises(DecodeError, match=r"part.k at offset 0: need a value of enum kind, have 9"):
        module.decode_part(Decoder(b"\0\0\0\x09"))
    with pytest.raises(LocalProtocolError, match=r"part.k: <kind.TWO: 2> is no case of union part"):
        octets(module.encode_part, module.part(module.kind.TWO, 7))


def test_the_default_arm_takes_the_rest_of_the_enumeration_only() -> None:
    module = load(UNION)
    item = module.other(module.kind.FOUR, module.body(7))
    assert whole(module.decode_other, octets(module.encode_other, item)) == item
    with pytest.raises(DecodeError, match="need a value of enum kind, have 9"):
        module.decode_other(Decoder(b"\0\0\0\x09\0\0\0\7"))
    with pytest.raises(LocalProtocolError, match=r"other.k: 9 is no value of enum kind"):
        octets(module.encode_other, module.other(9, module.body(7)))


@each_case(
    ("definition", "tag", "value", "message"),
    [
        (UNION, 1, 7, "u.b: int given, the arm is body"),
        (UNION, 1, None, "u.b: NoneType given, the arm is body"),
        (UNION, 2, None, "u.n: None does not fit its XDR type"),
        (UNION, 4, 7, "u: int given, the arm is void"),
        *(
            (f"union u switch (int n) {{ case 1: {declaration}; }};", 1, 7, f"u.a: int given, the arm is {arm}")
            for arm, declaration in [
                ("opaque", "opaque a<4>"),
                ("opaque", "opaque a[4]"),
                ("a string", "string a<4>"),
                ("a list", "int a<4>"),
            ]
        ),
    ],
)
def test_a_value_of_another_arm_is_the_callers_error(definition: str, tag: int, value: Any, message: str) -> None:
    module = load(definition)
    with pytest.raises(LocalProtocolError) as raised:
        octets(module.encode_u, module.u(module.kind(tag) if definition is UNION else tag, value))
    assert str(raised.value) == message


def test_a_bool_union_keeps_its_discriminant() -> None:
    module = load("union o switch (bool present) { case TRUE: int n; case FALSE: void; };")
    assert [field.name for field in dataclasses.fields(module.o)] == ["present", "value"]
    assert_octets(module, "o", module.o(True, 7), "00000001 00000007")
    assert_octets(module, "o", module.o(False, None), "00000000")
    with pytest.raises(DecodeError, match=r"o.present at offset 0: need 0 or 1, have 2"):
        module.decode_o(Decoder(b"\0\0\0\2"))


def test_a_bool_union_with_one_arm_refuses_the_other_value() -> None:
    module = load("union o switch (bool present) { case TRUE: int n; };")
    with pytest.raises(DecodeError, match=r"o.present at offset 0: need a case of union o, have 0"):
        module.decode_o(Decoder(b"\0\0\0\0"))
    with pytest.raises(LocalProtocolError, match=r"o.present: False is no case of union o"):
        octets(module.encode_o, module.o(False, None))


LIST = """
struct entry { int number; entry *next; };
struct directory { entry *entries; bool eof; };
pragma limit directory.entries 3;
typedef entry *chain;
struct turned { string name<9>; turned_list next; };
typedef turned *turned_list;
struct both { entry first; chain rest; };
"""


def test_linked_lists_are_python_lists() -> None:
    module = load(LIST)
    assert [field.name for field in dataclasses.fields(module.entry)] == ["number"]
    item = module.directory([module.entry(7), module.entry(8)], True)
    assert_octets(module, "directory", item, "00000001 00000007 00000001 00000008 00000000 00000001")
    # Through a typedef.
    value = [module.turned("a"), module.turned("b")]
    assert_octets(module, "turned_list", value, "00000001 00000001 61000000 00000001 00000001 62000000 00000000")
    # Outside a pointer there is at least one entry.
    assert_octets(module, "both", module.both([module.entry(7)], []), "00000007 00000000 00000000")
    with pytest.raises(LocalProtocolError, match=r"both.first: no entries, the type has at least one"):
        octets(module.encode_both, module.both([], []))


def test_a_limit_bounds_a_linked_list() -> None:
    module = load(LIST)
    entries = [module.entry(number) for number in range(4)]
    with pytest.raises(LocalProtocolError, match=r"directory.entries: 4 entries, the limit is 3"):
        octets(module.encode_directory, module.directory(entries, True))
    with pytest.raises(DecodeError, match=r"directory.entries at offset 28: need at most 3 entries, have more"):
        module.decode_directory(Decoder(bytes.fromhex("00000001 00000000") * 4 + bytes(8)))


def test_long_lists_are_read_and_written_without_recursion() -> None:
    module = load(LIST)
    entries = [module.entry(number) for number in range(sys.getrecursionlimit() * 3)]
    assert whole(module.decode_chain, octets(module.encode_chain, entries)) == entries


TREE = "struct tree { int key; tree *left; tree *right; };"


def nested(module: Any, levels: int) -> Any:
    tree = None
    for level in range(levels):
        tree = module.tree(level, tree, None)
    return tree


def test_recursive_types_are_bounded_in_depth() -> None:
    module = load(TREE)
    tree = nested(module, module.MAX_DEPTH + 1)
    assert whole(module.decode_tree, octets(module.encode_tree, tree)) == tree
    with pytest.raises(LocalProtocolError, match="tree: more than 64 levels"):
        octets(module.encode_tree, nested(module, module.MAX_DEPTH + 2))
    with pytest.raises(DecodeError, match="tree at offset 520: need at most 64 levels, have more"):
        module.decode_tree(Decoder(bytes.fromhex("00000001 00000001") * 100_000))


def test_recursion_through_a_list_of_another_type_is_bounded() -> None:
    module = load("struct item { node child; item *next; }; union node switch (bool b) { case TRUE: item *items; };")
    value = module.node(True, [module.item(module.node(True, [])), module.item(module.node(True, []))])
    assert whole(module.decode_node, octets(module.encode_node, value)) == value
    with pytest.raises(DecodeError, match="need at most 64 levels"):
        module.decode_node(Decoder(b"\0\0\0\1" * 10_000))


def test_anonymous_bodies_are_named_after_their_place() -> None:
    module = load(
        """
        struct s {
            struct { int a; } inner;
            enum { X = 1 } kind;
            union switch (bool b) { case TRUE: struct { int c; } deep; case FALSE: void; } choice;
        };
        typedef struct { int d; } t;
        typedef enum { Y = 2 } e;
        """
    )
    item = module.s(module.s_inner(1), module.s_kind.X, module.s_choice(True, module.s_choice_deep(3)))
    assert_octets(module, "s", item, "00000001 00000001 00000001 00000003")
    assert whole(module.decode_t, b"\0\0\0\4") == module.t(4)
    assert whole(module.decode_e, b"\0\0\0\2") is module.e.Y


@each_case("order", [1, -1])
def test_anonymous_bodies_have_other_names_than_types_and_constants(order: int) -> None:
    parts = [
        "struct s { struct { int a; } inner; enum { X = 1 } kind; struct { struct { int b; } d; } c; };",
        "struct s_inner { hyper b; s_inner *next; };",
        "enum s_kind { Y = 2 };",
        "const s_c_d = 5;",
    ]
    module = load("".join(parts[::order]))
    item = module.s(module.s_inner_2(1), module.s_kind_2.X, module.s_c(module.s_c_d_2(3)))
    assert_octets(module, "s", item, "00000001 00000001 00000003")
    assert whole(module.decode_s_inner, bytes(8)) == module.s_inner(0)
    assert (list(module.s_kind), module.s_c_d) == ([module.s_kind.Y], 5)


def test_the_name_of_the_bound_on_recursion_is_no_other_constants() -> None:
    module = load("const MAX_DEPTH = 3; struct node { int a; node *left; node *right; };")
    assert (module.xdr_MAX_DEPTH, module.MAX_DEPTH) == (3, 64)


def test_names_that_python_keeps_for_itself_get_an_underscore() -> None:
    module = load("struct list { int from; opaque class<4>; int list; }; typedef list bytes; struct in { bytes is; };")
    item = module.xdr_list(from_=1, class_=b"ab", list=2)
    assert whole(module.decode_xdr_list, octets(module.encode_xdr_list, item)) == item
    assert whole(module.decode_xdr_in, octets(module.encode_xdr_in, module.xdr_in(is_=item))) == module.xdr_in(item)


@each_case(
    ("members", "value"),
    [
        ("inner a; e a_b;", (0, 1)),
        ("inner a; string word<4>; e a_b;", (0, "word", 1)),
        ("inner a; string a_b<4>;", (0, "word")),
        ("inner a; e a_b_; e a_b;", (1, 0, 1)),
        ("e xdr_inner; inner_ pair;", (1, (0, 7))),
    ],
)
def test_members_and_members_of_members_keep_their_values_whatever_their_names(members: str, value: Any) -> None:
    module = load(
        f"enum e {{ X = 0, Y = 1 }}; struct inner {{ e b; }}; struct inner_ {{ e b; int c; }};struct s {{ {members} }};"
    )
    item = module.s(*value)
    for field, kind in module.s.__annotations__.items():
        given = getattr(item, field)
        if kind == "inner":
            setattr(item, field, module.inner(given))
        elif kind == "xdr_inner_":
            setattr(item, field, module.xdr_inner_(*given))
    assert whole(module.decode_s, octets(module.encode_s, item)) == item


def test_a_discriminant_called_value_makes_way_for_the_arm() -> None:
    module = load("union u switch (int value) { case 1: int a; };")
    assert whole(module.decode_u, octets(module.encode_u, module.u(value_=1, value=2))) == module.u(1, 2)


def test_annotations_resolve_to_the_documented_types() -> None:
    module = load(
        """
        typedef unsigned hyper id; typedef string text<9>;
        struct s { id a; text b; opaque c<4>; opaque d<4>; int e<4>; int *f; bool g; double h; };
        pragma ddp s.d;
        union u switch (int n) { case 1: s a; case 2: int *b; default: void; };
        """
    )
    hints = typing.get_type_hints(module.s, vars(module))
    assert hints["a"] is int
    assert hints["b"] is str
    assert hints["c"] is bytes
    assert hints["d"] == bytes | bytearray | memoryview
    assert hints["e"] == list[int]
    assert hints["f"] == int | None
    assert hints["g"] is bool
    assert hints["h"] is float
    assert typing.get_type_hints(module.u, vars(module))["value"] == module.s | int | None


OPTIONAL = """
struct holder { opaque data<8>; };
struct args { holder *maybe; unsigned after; };
pragma ddp holder.data;
"""


@pytest.mark.req("V1-16", "V2-17")
def test_optional_data_are_placed_and_their_presence_word_stays() -> None:
    module = load(OPTIONAL)
    for value, stream, positions in (
        (module.args(module.holder(b"data!"), 7), "00000001 00000005 00000007", [8]),
        (module.args(None, 7), "00000000 00000007", []),
    ):
        payload = Encoder()
        module.encode_args(payload, value)
        assert bytes(payload.reduced) == bytes.fromhex(stream)
        assert [item.position for item in payload.items] == positions
        assert [bytes(item.data) for item in payload.items] == [b"data!"] * len(positions)
        placed = PlacedByPosition({at: memoryview(b"data!") for at in positions})
        assert whole(module.decode_args, payload.reduced, placed=placed) == value


@pytest.mark.req("V1-16", "V2-17")
@each_case("position", [0, 4])
def test_optional_data_whose_presence_word_was_placed_with_them_do_not_decode(position: int) -> None:
    """In a Read chunk is the word alone, at the place of either word, or it and the following octets."""
    module = load(OPTIONAL)
    stream = bytes.fromhex("00000001 00000004") + b"data" + bytes.fromhex("00000007")
    for end in (position + 4, 12):
        placed = PlacedByPosition({position: memoryview(stream)[position:end]})
        with pytest.raises(DecodeError):
            whole(module.decode_args, stream[:position] + stream[end:], placed=placed)


OPAQUE = """
struct fixed { int n; opaque a[16]; int m; };
struct several { opaque a<16>; opaque b<16>; };
union u switch (int n) { case 1: opaque a<16>; case 2: opaque b[16]; };
pragma ddp several.b;
"""


def test_opaque_members_and_arms_take_octets_of_any_format() -> None:
    module, doubles = load(OPAQUE), array.array("d", [1.0, 2.0])
    uncounted = doubles.tobytes()
    counted = b"\0\0\0\x10" + uncounted
    for encode, value, expected in (
        (module.encode_fixed, module.fixed(1, doubles, 2), b"\0\0\0\1" + uncounted + b"\0\0\0\2"),
        (module.encode_several, module.several(doubles, doubles), counted + counted),
        (module.encode_u, module.u(1, doubles), b"\0\0\0\1" + counted),
        (module.encode_u, module.u(2, doubles), b"\0\0\0\2" + uncounted),
    ):
        assert octets(encode, value) == expected


def test_pragma_limits_replace_those_of_typedefs() -> None:
    module = load("typedef opaque data<100>; struct s { data d; }; pragma limit s.d 4;")
    assert octets(module.encode_data, b"12345")
    with pytest.raises(LocalProtocolError, match=r"s.d: 5 octets, the limit is 4"):
        octets(module.encode_s, module.s(b"12345"))


def test_a_default_limit_bounds_what_nothing_else_does() -> None:
    module = load("typedef opaque data<>; typedef opaque bounded<9>;", default_limit=4)
    with pytest.raises(DecodeError, match="data at offset 0: need at most 4, have 5"):
        module.decode_data(Decoder(b"\0\0\0\5hello\0\0\0"))
    assert module.decode_bounded(Decoder(b"\0\0\0\5hello\0\0\0")) == b"hello"


def test_the_table_of_types_in_the_tutorial_is_what_the_compiler_makes() -> None:
    page = (Path(__file__).parents[2] / "docs/first-program.md").read_text()
    rows = re.findall(r"^\| `([a-z]+ .*?;)` \| `(.*?)`(.*) \|$", page, re.MULTILINE)
    assert len(rows) == 9
    module = load("".join(definition for definition, _, _ in rows))
    for _, written, _ in rows:
        value = eval(written, vars(module))
        assert octets(getattr(module, f"encode_{type(value).__name__}"), value)
    assert octets(module.encode_found, module.found(module.status.BUSY, None))


def test_structures_and_unions_are_dataclasses() -> None:
    module = load(
        "struct Composite { int n; string s<9>; }; struct alike { int n; string s<9>; }; struct none { void; };"
    )
    value = module.xdr_Composite(1, s="a")
    assert value == dataclasses.replace(module.xdr_Composite(2, "a"), n=1)
    assert value != dataclasses.replace(value, s="b")
    assert value != module.alike(1, "a")
    assert value != (1, "a")
    assert dataclasses.astuple(value) == (1, "a")
    assert repr(value) == "xdr_Composite(n=1, s='a')"
    match value:
        case module.xdr_Composite(1, text):
            assert text == "a"
    assert not hasattr(value, "__dict__")
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)
    assert typing.get_type_hints(module.xdr_Composite) == {"n": int, "s": str}
