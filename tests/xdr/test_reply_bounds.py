"""How large results and arguments get by the compiler: never less than they have, nor more if that can be said."""

from __future__ import annotations

import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rpcrdma.limits import WRITE_CHUNKS_MAX
from rpcrdma.rpc.program import OctetsMax
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.xdr.codec import Encoder
from support.cases import each_case
from support.compiled import load

UNBOUNDED = 0xFFFFFFFF


def bound(result: str, definitions: str = "", args: str = "void", given: Any = None) -> ReplyBound:
    """Of the one procedure of a program, called with `given`."""
    module = load(f"{definitions}\nprogram P {{ version V {{ {result} CALL({args}) = 1; }} = 1; }} = 7;")
    found: ReplyBound = module.CALL.reply_bound(given)
    return found


PLAIN = {
    "void": 0,
    "int": 4,
    "bool": 4,
    "e": 4,
    "unsigned hyper": 8,
    "double": 8,
    "three": 4,
    "text": 4 + 12,
    "numbers": 4 + 5 * 8,
    "table": 3 * 16,
    "maybe": 4 + 4 + 12,
    "pair": 8 + 4 + 12,
    "choice": 4 + 8 + 16,
    "chain": 7 * (4 + 4) + 4,
    "endless": UNBOUNDED,
    "tree": UNBOUNDED,
    "huge": UNBOUNDED,
}
DEFINITIONS = """
enum e { A = 1, B = 2 };
typedef opaque three[3];
typedef string text<10>;
typedef hyper numbers<5>;
typedef text table[3];
typedef text *maybe;
struct pair { hyper a; text b; };
union choice switch (e tag) { case A: pair p; case B: void; };
struct link { int value; link *next; };
typedef link *chain;
pragma limit chain 7;
struct other { int value; other *next; };
typedef other *endless;
struct tree { tree *left; tree *right; };
typedef pair huge<4294967295>;
"""


@each_case(("kind", "octets"), PLAIN.items())
def test_what_is_in_the_stream_is_counted_with_its_words_and_padding(kind: str, octets: int) -> None:
    assert bound(kind, DEFINITIONS) == ReplyBound(octets)


ITEMS = """
typedef opaque data<1001>;
struct one { data d; int n; };
pragma ddp one.d;
struct two { one a; int x; one b; };
struct late { data d; };
pragma limit late.d 5;
pragma ddp late.d;
union some switch (bool b) { case TRUE: one o; case FALSE: late l; };
union or_none switch (bool b) { case TRUE: one o; case FALSE: hyper h<100>; };
struct moves { or_none first; late second; };
struct fixed { one o[3]; };
struct many { one o<40>; late l; };
"""


@each_case(
    ("kind", "results", "items"),
    [
        ("one", 4 + 4, (1001,)),
        ("two", 8 + 4 + 8, (1001, 1001)),
        ("late", 4, (5,)),
        ("some", 4 + 8, (1001,)),
        # The arm without an eligible item is larger than the part of the other one that stays in the stream.
        ("or_none", 4 + 4 + 800, (1001,)),
        # Where the first item is missing, the second one is the first.
        ("moves", 4 + 804 + 4, (1001, 5)),
        ("fixed", 3 * 8, (1001, 1001, 1001)),
        ("many", 4 + 40 * 8 + 4 + (40 - WRITE_CHUNKS_MAX) * 1004 + 8, (1001,) * WRITE_CHUNKS_MAX),
    ],
)
def test_what_may_be_placed_is_counted_by_itself(kind: str, results: int, items: tuple[int, ...]) -> None:
    assert bound(kind, ITEMS) == ReplyBound(results, items)


def test_the_larger_of_two_items_is_expected_where_either_may_come_first() -> None:
    definitions = (
        ITEMS + "struct turned { some s; };\nunion u switch (bool b) { case TRUE: late l; case FALSE: void; };"
    )
    definitions += "struct shift { u first; one second; };"
    assert bound("shift", definitions) == ReplyBound(4 + 4 + 8, (1001, 1001))


@each_case(
    ("kind", "value"),
    [
        ("pair", lambda m: m.pair(1, "x" * 10)),
        ("choice", lambda m: m.choice(m.e.A, m.pair(1, "x" * 10))),
        ("chain", lambda m: [m.link(1)] * 7),
        ("numbers", lambda m: [1] * 5),
        ("maybe", lambda m: "x" * 10),
        ("two", lambda m: m.two(m.one(bytes(1001), 1), 2, m.one(bytes(1001), 3))),
        ("or_none", lambda m: m.or_none(False, [1] * 100)),
        ("moves", lambda m: m.moves(m.or_none(False, [1] * 100), m.late(bytes(5)))),
    ],
)
def test_the_largest_result_has_exactly_as_many_octets(kind: str, value: Callable[[Any], Any]) -> None:
    text = f"{DEFINITIONS}{ITEMS}\nprogram P {{ version V {{ {kind} CALL(void) = 1; }} = 1; }} = 7;"
    module = load(text)
    payload = Encoder()
    module.CALL.encode_result(payload, value(module))
    expected = module.CALL.reply_bound(None)
    assert len(payload.reduced) == expected.results
    assert all(len(item.data) <= most for item, most in zip(payload.items, expected.items, strict=False))


def test_the_most_octets_by_the_definition_count_bulk_items() -> None:
    expected = {kind: (None if octets == UNBOUNDED else octets, 0) for kind, octets in PLAIN.items()}
    expected |= {
        "one": (4 + 1004 + 4, 1004),
        "two": (2 * 1012 + 4, 2 * 1004),
        # The arms are compared with their bulk items, which the largest one need not have.
        "or_none": (4 + 1012, 1004),
        "wide": (4 + 4 + 1600, 1004),
        "many": (4 + 40 * 1012 + 12, WRITE_CHUNKS_MAX * 1004),
        "endless_beside": (None, 1004),
    }
    more = """union wide switch (bool b) { case TRUE: one o; case FALSE: hyper h<200>; };
        struct endless_beside { one o; endless e; };"""
    calls = "".join(f"void G{n}({kind}) = {n}; {kind} T{n}(void) = {n + 100};" for n, kind in enumerate(expected))
    module = load(f"{DEFINITIONS}{ITEMS}{more}program P {{ version V {{ {calls} }} = 1; }} = 7;")
    for number, (kind, (most, bulk)) in enumerate(expected.items()):
        taken, given = (module.V.procedures[each].octets_max for each in (number, number + 100))
        assert (taken, given) == (OctetsMax(most, bulk, 0), OctetsMax(0, 0, most)), kind


BOUNDED = """
struct list_entry { int value; list_entry *next; };
struct answer {
    opaque data<1000000>;
    string text<100>;
    hyper array<50>;
    list_entry *chain;
    list_entry *octets_of_it;
};
pragma ddp answer.data;
pragma limit answer.chain 20;
pragma limit answer.octets_of_it 30;
struct ask { unsigned int most; unsigned hyper far; opaque same<64>; hyper several<9>; };
pragma bound answer.data ask.most;
pragma bound answer.text ask.far;
pragma bound answer.array ask.several;
pragma bound answer.chain ask.same;
pragma bound answer.octets_of_it octets ask.most;
"""


@each_case(
    ("most", "far", "same", "several", "expected"),
    [
        (0, 0, 0, 0, ReplyBound(4 + 4 + 4 + 4 + 4, (0,))),
        (100, 5, 3, 2, ReplyBound(4 + 4 + 8 + 4 + 2 * 8 + 3 * 8 + 4 + 100 + 4, (100,))),
        # The definition's own limits hold as well.
        (1 << 31, 1 << 60, 64, 90, ReplyBound(4 + 4 + 100 + 4 + 400 + 160 + 4 + 240 + 4, (1000000,))),
    ],
)
def test_the_arguments_say_how_much_comes_back(
    most: int, far: int, same: int, several: int, expected: ReplyBound
) -> None:
    given = SimpleNamespace(most=most, far=far, same=bytes(same), several=[0] * several)
    assert bound("answer", BOUNDED, "ask", given) == expected


def test_the_most_octets_by_the_definition_leave_out_what_arguments_say() -> None:
    module = load(f"{BOUNDED} program P {{ version V {{ answer GET(ask) = 1; }} = 1; }} = 7;")
    results = 4 + 1_000_000 + 4 + 100 + 4 + 50 * 8 + 20 * 8 + 4 + 30 * 8 + 4
    assert module.GET.octets_max == OctetsMax(4 + 8 + 4 + 64 + 4 + 9 * 8, 0, results)


def test_opaque_arguments_say_by_their_octets_how_much_comes_back() -> None:
    text = "struct ask { opaque same<64>; }; struct answer { int a<64>; }; pragma bound answer.a ask.same;"
    given = SimpleNamespace(same=array.array("d", [1.0, 2.0]))
    assert bound("answer", text, "ask", given) == ReplyBound(4 + 4 * 16)


@each_case("arms", ["case 0: twice b; default: once a;", "case 0: once a; default: twice b;"])
def test_a_bound_counts_as_often_as_the_member_that_it_bounds(arms: str) -> None:
    text = f"""
        struct ask {{ unsigned int most; }};
        struct twice {{ opaque one<1000>; opaque two<1000>; }};
        struct once {{ opaque one<1000>; opaque more[16]; }};
        union either switch (int n) {{ {arms} }};
        pragma bound twice.one ask.most;
        pragma bound twice.two ask.most;
        pragma bound once.one ask.most;
    """
    for most in (0, 8, 1000):
        assert bound("either", text, "ask", SimpleNamespace(most=most)).results >= 4 + max(8 + 2 * most, 20 + most)


def test_a_bound_is_for_the_procedures_that_take_those_arguments() -> None:
    text = """
        struct ask { unsigned int most; };
        struct other { unsigned int most; };
        struct answer { opaque data<1000>; };
        union outer switch (int status) { case 0: answer ok; default: hyper why[40]; };
        pragma bound answer.data ask.most;
        pragma bound answer.data other.most;
        program P { version V {
            answer ONE(ask) = 1;
            answer TWO(void) = 2;
            outer THREE(ask) = 3;
            answer FOUR(other) = 4;
            answer FIVE(ask, int) = 5;
        } = 1; } = 7;
    """
    module = load(text)
    ask = module.ask(17)
    assert module.ONE.reply_bound(ask) == ReplyBound(4 + 20)
    assert module.TWO.reply_bound(None) == ReplyBound(1004)
    assert module.THREE.reply_bound(ask) == ReplyBound(4 + 320)
    assert module.THREE.reply_bound(module.ask(500)) == ReplyBound(4 + 4 + 500)
    assert module.FOUR.reply_bound(module.other(1)) == ReplyBound(8)
    assert module.FIVE.reply_bound(module.FIVE_args(ask, 1)) == ReplyBound(1004)


def test_what_is_used_often_is_measured_once() -> None:
    levels = "".join(f"struct s{n + 1} {{ s{n} a; s{n} b; }};" for n in range(24))
    assert bound("s24", f"struct s0 {{ int a; }}; {levels}") == ReplyBound(4 << 24)


def test_what_no_line_can_say_is_taken_at_its_most() -> None:
    names = [f"a_member_with_quite_a_long_name_{number}" for number in range(4)]
    members = " ".join(f"opaque {name}<1000>;" for name in names)
    arguments = " ".join(f"unsigned int {name};" for name in names)
    pragmas = "\n".join(f"pragma bound answer.{name} ask.{name};" for name in names)
    arms = " ".join(f"case {number}: answer arm{number};" for number in range(2))
    text = f"""struct answer {{ {members} }}; struct ask {{ {arguments} }}; {pragmas}
        struct second {{ answer a; hyper b; }};
        union either switch (int n) {{ {arms} default: second s; }};"""
    given = SimpleNamespace(**dict.fromkeys(names, 8))
    assert bound("answer", text, "ask", given) == ReplyBound(4 * 12)
    # One sum of terms is larger than the other for all arguments.
    assert bound("either", text, "ask", given) == ReplyBound(4 + 4 * 12 + 8)
    many = f"{text} typedef answer lots<10>;"
    assert bound("lots", many, "ask", given) == ReplyBound(4 + 10 * 4 * 1004)
