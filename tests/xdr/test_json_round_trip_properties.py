"""The JSON of any value reads as a value with the same octets."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.errors import LocalProtocolError
from rpcrdma.rpc.loaded_interface import load_interface
from rpcrdma.xdr.codec import Decoder, Encoder
from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.json_form import JsonMismatch, JsonReader, JsonWriter, parse_json
from rpcrdma.xdr.language.json_shape import arm_key, arm_of, data_paths, discriminant_key, shape

EVERYTHING = """
enum colour { RED = -1, GREEN = 2, ALSO_GREEN = 3 };
typedef opaque key[5];
typedef string short_text<3>;
struct entry { string name<7>; hyper size; entry *next; };
struct filled { int n; filled *next; };
struct tree { unsigned int leaf; tree *left; tree *right; };
union by_bool switch (bool value) { case TRUE: double value; case FALSE: void; };
union by_int switch (int which) { case -1: float which; case 2: case 3: colour from; default: opaque rest<3>; };
union by_colour switch (colour c) { case RED: key k; case GREEN: int pair[2]; default: void; };
struct all {
    int class; unsigned int import; unsigned hyper big; bool yes; float f; double d; colour c; key k; opaque o<9>;
    string text<9>; entry *list; filled at_least_one; tree *t; by_bool b; by_int i; by_colour u; hyper fixed[3];
    colour many<3>; by_int unions<2>; short_text *maybe_text; key *maybe; opaque placed<9>;
};
pragma ddp all.placed;
"""
LOADED = load_interface(EVERYTHING, source_name="everything.x")
BITS = {"i": 32, "I": 32, "q": 64, "Q": 64}


@functools.cache
def values(kind: model.Type, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of a type; deep in a type that contains itself, optional ones are none."""
    match model.strip(kind):
        case model.Number("f"):
            return st.floats(width=32, allow_nan=False) | st.just(math.nan)
        case model.Number("d"):
            return st.floats(allow_nan=False) | st.just(math.nan)
        case model.Number(code):
            bits = BITS[code]
            low = 0 if code.isupper() else -(1 << bits - 1)
            return st.integers(low, low + (1 << bits) - 1)
        case model.Boolean():
            return st.booleans()
        case model.EnumRef(name):
            return st.sampled_from(LOADED.classes[name])
        case model.FixedOpaque(length):
            return st.binary(min_size=length, max_size=length)
        case model.VariableOpaque(limit):
            return st.binary(max_size=min(limit, 40))
        case model.Text(limit):
            data = st.binary(max_size=min(limit, 12)) | st.text(max_size=min(limit, 40) // 4).map(str.encode)
            return data.map(lambda octets: octets.decode("utf-8", "surrogateescape"))
        case model.ClassRef(name):
            return of_class(name, depth + 1)
        case model.Optional(element):
            return st.none() if depth > 3 else st.none() | values(element, depth)
        case model.FixedArray(element, length):
            return st.lists(values(element, depth), min_size=length, max_size=length)
        case model.VariableArray(element, limit):
            return st.lists(values(element, depth), max_size=min(limit, 3))
        case model.LinkedList(entry, _, filled):
            return st.lists(values(model.ClassRef(entry), depth), min_size=filled, max_size=3)
        case other:
            raise AssertionError(other)


def of_class(name: str, depth: int) -> st.SearchStrategy[Any]:
    made, item = LOADED.classes[name], LOADED.module.classes[name]
    if isinstance(item, model.Struct):
        return st.builds(made, **{member.name: values(member.type, depth) for member in item.members})

    def chosen(tag: Any) -> st.SearchStrategy[Any]:
        arm = arm_of(item, int(tag))
        if arm is None:
            return st.nothing()
        return st.builds(made, st.just(tag), st.none() if arm.type is None else values(arm.type, depth))

    labels = [value for arm in item.arms for value, _ in arm.values]
    kind = model.strip(item.discriminant.type)
    tags = values(kind) if isinstance(kind, model.Boolean | model.EnumRef) else st.sampled_from([*labels, 9])
    return tags.filter(lambda tag: arm_of(item, int(tag)) is not None).flatmap(chosen)


def octets(name: str, value: Any) -> bytes:
    encoder = Encoder()
    LOADED.classes[f"encode_{name}"](encoder, value)
    return b"".join(bytes(part) for part in encoder.gather())


@given(data=st.data(), hexadecimal=st.booleans())
def test_values_of_every_type_survive_as_json(data: st.DataObject, *, hexadecimal: bool) -> None:
    kinds = {**{name: model.ClassRef(name) for name in LOADED.module.classes}, **LOADED.module.aliases}
    name = data.draw(st.sampled_from(sorted(kinds)))
    before = octets(name, data.draw(values(kinds[name])))
    decoder = Decoder(before)
    received = LOADED.classes[f"decode_{name}"](decoder)
    decoder.done(name)
    document = JsonWriter(LOADED.module, hexadecimal=hexadecimal).write(kinds[name], received, "result")
    text = json.dumps(document, allow_nan=False)
    text.encode()
    read = JsonReader(LOADED.module, LOADED.classes).read(kinds[name], parse_json(text, "result"), "result")
    assert octets(name, read) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["RED", "AA=="]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["value", "which", "c", "k", "name", "size", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(document=JSON, data=st.data())
def test_any_document_is_read_or_refused_with_its_place(document: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(LOADED.module.classes)))
    refused = None
    try:
        value = JsonReader(LOADED.module, LOADED.classes).read(model.ClassRef(name), document, "arguments")
        octets(name, value)
    except JsonMismatch as error:
        refused = error
    if refused is not None:
        assert refused.path.startswith("arguments")
        assert "\n" not in str(refused)


@given(text=st.text(max_size=30))
def test_any_text_is_json_or_refused(text: str) -> None:
    refused = None
    try:
        assert parse_json(text, "arguments") == json.loads(text)
    except LocalProtocolError as error:
        refused = error
    assert refused is None or str(refused).startswith("arguments: ")


def test_shapes_and_paths_are_of_every_type() -> None:
    for name in LOADED.module.classes:
        json.dumps(shape(LOADED.module, model.ClassRef(name)))
    assert list(data_paths(LOADED.module, model.ClassRef("all"), "r")) == [
        "r.k", "r.o", "r.i.rest", "r.u.k", "r.unions[].rest", "r.maybe", "r.placed",
    ]  # fmt: skip
    union = LOADED.module.classes["by_bool"]
    assert isinstance(union, model.Union)
    assert (discriminant_key(union), arm_key(union, union.arms[0])) == ("value", "value_")
