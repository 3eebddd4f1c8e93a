"""The JSON form of each XDR type, and the errors of documents that do not fit, with their place."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from rpcrdma.rpc.loaded_interface import LoadedInterface, load_interface
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.json_form import JsonMismatch, JsonReader, JsonWriter, parse_json
from rpcrdma.xdr.language.json_shape import shape
from support.cases import each_case

SOURCE = """
enum status { OK = 0, NOT_FOUND = -2 };
struct place { string dir<8>; opaque handle<4>; };
struct entry { string name<8>; entry *next; };
union result switch (status code) { case OK: hyper size; case NOT_FOUND: void; };
struct all {
    place where; status state; bool flag; int from; unsigned hyper big; float f; double d; opaque key[2];
    entry *entries; place *also; result outcome; int pair[2]; int few<2>;
};
"""
WHOLE = model.ClassRef("all")
ALL: dict[str, Any] = {
    "where": {"dir": "a", "handle": "AAH/"},
    "state": "NOT_FOUND",
    "flag": True,
    "from": -5,
    "big": (1 << 64) - 1,
    "f": 0.5,
    "d": -0.0,
    "key": "AAE=",
    "entries": [{"name": "b"}, {"name": "c"}],
    "also": None,
    "outcome": {"code": "OK", "size": -(1 << 63)},
    "pair": [1, 2],
    "few": [],
}


@pytest.fixture(name="loaded", scope="module")
def loaded_fixture() -> LoadedInterface:
    return load_interface(SOURCE, source_name="all.x")


def read(loaded: LoadedInterface, document: Any, kind: model.Type | None = WHOLE) -> Any:
    return JsonReader(loaded.module, loaded.classes).read(kind, document, "arguments")


def write(loaded: LoadedInterface, value: Any, **options: Any) -> Any:
    return JsonWriter(loaded.module, **options).write(model.ClassRef("all"), value, "result")


def with_(**changes: Any) -> dict[str, Any]:
    return {**ALL, **changes}


def test_every_type_has_its_form(loaded: LoadedInterface) -> None:
    value = read(loaded, ALL)
    assert (value.where.handle, value.from_, value.entries[1].name) == (b"\0\1\xff", -5, "c")
    assert value.outcome.value == -(1 << 63)
    assert json.dumps(write(loaded, value)) == json.dumps(ALL), "keys are in the order of the definition"


def test_keys_are_the_names_of_the_definition() -> None:
    names = load_interface(
        "union u switch (int value_) { case 1: int class_; }; struct s { u mro; int from; int from_; };",
        source_name="names.x",
    )
    document = {"mro": {"value_": 1, "class_": 2}, "from": 3, "from_": 4}
    value = read(names, document, model.ClassRef("s"))
    assert (value.mro_.value, value.from_, value.from__) == (2, 3, 4)
    assert JsonWriter(names.module).write(model.ClassRef("s"), value, "result") == document
    assert list(shape(names.module, model.ClassRef("s"))) == list(document)


def test_what_is_void_is_null_and_what_is_optional_may_be_left_out(loaded: LoadedInterface) -> None:
    assert read(loaded, {key: value for key, value in ALL.items() if key != "also"}).also is None
    assert read(loaded, None, None) is None
    assert read(loaded, {}, None) is None
    assert JsonWriter(loaded.module).write(None, None, "result") is None
    with pytest.raises(JsonMismatch, match=r"^arguments: \[1\] given where nothing is taken$"):
        read(loaded, [1], None)


def test_octets_have_several_forms(loaded: LoadedInterface) -> None:
    reader = JsonReader(loaded.module, loaded.classes, read_file={"f": b"file"}.__getitem__)
    for document, octets in {
        "hex:00ff": b"\0\xff", "hex:": b"", "text:\u00e9": b"\xc3\xa9", "": b"", "@f": b"file", "AP8=": b"\0\xff"
    }.items():  # fmt: skip
        value = reader.read(model.ClassRef("place"), {"dir": "", "handle": document}, "arguments")
        assert value.handle == octets


def test_octets_are_written_as_asked(loaded: LoadedInterface) -> None:
    value = read(loaded, ALL)
    assert write(loaded, value, hexadecimal=True)["where"]["handle"] == "hex:0001ff"
    asked = []

    def keep(path: str, data: Buffer) -> str | None:
        asked.append((path, bytes(data)))
        return "@out" if path == "result.key" else None

    assert write(loaded, value, keep=keep)["key"] == "@out"
    assert asked == [("result.where.handle", b"\0\1\xff"), ("result.key", b"\0\1")]


def test_strings_that_are_no_utf8_are_objects(loaded: LoadedInterface) -> None:
    value = read(loaded, with_(where={"dir": {"base64": "/w=="}, "handle": ""}))
    assert value.where.dir == "\udcff"
    assert write(loaded, value)["where"]["dir"] == {"base64": "/w=="}


def test_numbers_without_a_json_number_are_words(loaded: LoadedInterface) -> None:
    value = read(loaded, with_(f="-Infinity", d="NaN", big="0xffffffffffffffff"))
    assert math.isnan(value.d)
    written = write(loaded, value)
    assert (written["f"], written["d"], written["big"]) == ("-Infinity", "NaN", (1 << 64) - 1)


BASE64 = 'octets are Base64, or "hex:00ff", "text:words" or "@FILE"'
# (a document, the place and its fault, the hint if there is one)
MISFITS: list[tuple[Any, ...]] = [
    (with_(where={"handle": ""}), "where.dir: missing", "it is string<8>"),
    (with_(where={"dir": "", "handel": ""}), "where.handel: unknown", "did you mean handle?"),
    (with_(zzz=1), "zzz: unknown", "there is where, state, flag, from, big, f, d, key and 5 more"),
    (with_(where="a"), 'where: "a" is not an object, as place is', 'it is {"dir": "string<8>", "handle": "opaque<4>"}'),
    (with_(state="ok"), 'state: "ok" is no value of enum status', "did you mean OK?"),
    (with_(state="NOT_FUOND"), 'state: "NOT_FUOND" is no value of enum status', "did you mean NOT_FOUND?"),
    (with_(state=7), "state: 7 is no value of enum status", "one of OK, NOT_FOUND"),
    (with_(state=False), "state: false is no value of enum status", "one of OK, NOT_FOUND"),
    (with_(flag=1), "flag: 1 is neither true nor false"),
    (with_(**{"from": 1 << 31}), "from: 2147483648 is not an int: -2147483648 to 2147483647"),
    (with_(**{"from": True}), "from: true is not an int: -2147483648 to 2147483647"),
    (with_(**{"from": 1.0}), "from: 1.0 is not an int: -2147483648 to 2147483647"),
    (with_(big=-1), "big: -1 is not an unsigned hyper: 0 to 18446744073709551615"),
    (with_(f=1e39), "f: 1e+39 is too large for a float"),
    (with_(d=10**400), "d: 1" + "0" * 39 + "... is too large for a double"),
    (with_(f="nan"), 'f: "nan" is not a number', "or one of NaN, Infinity, -Infinity"),
    (with_(key="hex:00"), "key: 1 octets given, the type has 2"),
    (with_(where={"dir": "", "handle": "hex:0102030405"}), "where.handle: 5 octets given, the limit is 4"),
    (with_(key="A"), 'key: "A" is not octets in Base64', BASE64),
    (with_(key="A*A=="), 'key: "A*A==" is not octets in Base64', BASE64),
    (with_(where={"dir": {"base64": "A*A=="}, "handle": ""}), 'where.dir: "A*A==" is not Base64'),
    (with_(where={"dir": {"base64": 1}, "handle": ""}), "where.dir: 1 is not Base64"),
    (with_(where={"dir": "\u00e9" * 5, "handle": ""}), "where.dir: 10 octets given, the limit is 8"),
    (with_(where={"dir": 1, "handle": ""}), "where.dir: 1 is not a string"),
    (with_(where={"dir": "\ud800", "handle": ""}), 'where.dir: "\\ud800" has characters that have no octets'),
    (with_(entries=[{"name": "a"}, {"nam": 1}]), "entries[1].nam: unknown", "did you mean name?"),
    (with_(entries={}), "entries: {} is not an array", 'it is [{"name": "string<8>"}]'),
    (with_(pair=[1]), "pair: 1 elements given, the type has 2"),
    (with_(few=[1, 2, 3]), "few: 3 elements given, the limit is 2"),
    (with_(outcome={"code": "NOT_FOUND", "size": 1}), "outcome.size: unknown", "there is code"),
    (with_(outcome={"code": "OK"}), "outcome.size: missing", "it is hyper"),
    (with_(outcome={"size": 1}), "outcome.code: missing", "it is enum status"),
]


@each_case("misfit", MISFITS)
def test_misfits_name_their_place(loaded: LoadedInterface, misfit: tuple[Any, ...]) -> None:
    document, message, *hints = misfit
    with pytest.raises(JsonMismatch) as raised:
        read(loaded, document)
    assert str(raised.value) == f"arguments.{message}"
    assert getattr(raised.value, "__notes__", [""])[0] == "".join(hints)


def test_of_two_names_for_a_value_the_first_is_written_and_both_are_read() -> None:
    loaded = load_interface("enum e { OLD = 1, NEW = 1 };", source_name="e.x")
    kind = model.EnumRef("e", signed=False)
    for document in ("OLD", "NEW", 1):
        value = JsonReader(loaded.module, loaded.classes).read(kind, document, "arguments")
        assert JsonWriter(loaded.module).write(kind, value, "result") == "OLD"


@each_case(
    ("text", "message"),
    [
        ("{", "arguments: not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        ('{"a": 1, "a": 2}', 'arguments: an object has "a" twice'),
        ("[NaN]", "arguments: NaN is no number in JSON"),
        ("[" * 100_000, "arguments: nested too deeply"),
        ("1" * 5000, "arguments: not JSON: Exceeds the limit"),
    ],
)
def test_what_is_not_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(JsonMismatch) as raised:
        parse_json(text, "arguments")
    assert str(raised.value).startswith(message)
