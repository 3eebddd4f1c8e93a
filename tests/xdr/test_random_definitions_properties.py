"""Random definitions compile, and random values of them survive encoding and decoding."""

from __future__ import annotations

import contextlib
import math
import re
import struct
import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcrdma.errors import DecodeError, RpcRdmaError
from rpcrdma.xdr.codec import Decoder, Encoder, PlacedByPosition, PlacedInOrder
from rpcrdma.xdr.language import LanguageError, compile_source

# Each example compiles a definition: half of the usual number.
HALF = settings(max_examples=settings.default.max_examples // 2)
F32 = st.floats(width=32, allow_nan=False)


@dataclass
class Kind:
    """A type: the words before and after the name in a declaration, and its values, given the compiled module."""

    before: str
    after: str
    values: Any  # (module) -> strategy


def constant(strategy: st.SearchStrategy[Any]) -> Any:
    return lambda _module: strategy


SIMPLE = [
    Kind("int", "", constant(st.integers(-(1 << 31), (1 << 31) - 1))),
    Kind("unsigned int", "", constant(st.integers(0, (1 << 32) - 1))),
    Kind("hyper", "", constant(st.integers(-(1 << 63), (1 << 63) - 1))),
    Kind("unsigned hyper", "", constant(st.integers(0, (1 << 64) - 1))),
    Kind("bool", "", constant(st.booleans())),
    Kind("float", "", constant(F32)),
    Kind("double", "", constant(st.floats(allow_nan=False))),
]
OPAQUE = [
    *[Kind("opaque", f"[{n}]", constant(st.binary(min_size=n, max_size=n))) for n in (1, 4, 7, 70)],
    Kind("opaque", "<9>", constant(st.binary(max_size=9))),
    Kind("string", "<9>", constant(st.text(st.characters(codec="ascii"), max_size=9))),
]


class Definition:
    """Draws the text of a definition; `types` are the names that may be used so far, with their values."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.text: list[str] = []
        self.types: list[Kind] = list(SIMPLE)
        self.names: dict[str, Any] = {}
        for number in range(data.draw(st.integers(1, 5))):
            add = data.draw(st.sampled_from([self.add_enum, self.add_struct, self.add_union, self.add_list]))
            add(f"t{number}")

    def kind(self) -> Kind:
        """Any type that a member may have."""
        shape = self.data.draw(st.sampled_from(["plain", "plain", "opaque", "fixed", "variable", "optional"]))
        if shape == "opaque":
            return self.data.draw(st.sampled_from(OPAQUE))
        base = self.data.draw(st.sampled_from(self.types))
        if shape == "fixed":
            n = self.data.draw(st.integers(1, 3))
            return Kind(base.before, f"[{n}]", lambda m: st.lists(base.values(m), min_size=n, max_size=n))
        if shape == "variable":
            return Kind(base.before, "<3>", lambda m: st.lists(base.values(m), max_size=3))
        if shape == "optional":
            return Kind(f"{base.before} *", "", lambda m: st.none() | base.values(m))
        return base

    def members(self) -> tuple[str, dict[str, Any]]:
        kinds = [self.kind() for _ in range(self.data.draw(st.integers(1, 6)))]
        lines = [f"    {kind.before} m{i}{kind.after};" for i, kind in enumerate(kinds)]
        return "\n".join(lines), {f"m{i}": kind.values for i, kind in enumerate(kinds)}

    def add(self, name: str, values: Any) -> None:
        self.types.append(Kind(name, "", values))
        self.names[name] = values

    def add_enum(self, name: str) -> None:
        numbers = self.data.draw(st.lists(st.integers(-9, 9), min_size=1, max_size=4, unique=True))
        self.text.append(f"enum {name} {{ {', '.join(f'{name}_{i} = {n}' for i, n in enumerate(numbers))} }};")
        self.add(name, lambda m: st.sampled_from(getattr(m, name)))

    def add_struct(self, name: str) -> None:
        text, values = self.members()
        self.text.append(f"struct {name} {{\n{text}\n}};")
        self.add(name, lambda m: st.builds(getattr(m, name), **{key: made(m) for key, made in values.items()}))

    def add_union(self, name: str) -> None:
        arms = {number: self.kind() for number in self.data.draw(st.lists(st.integers(-3, 3), min_size=1, unique=True))}
        lines = [f"    case {n}: {kind.before} a{i}{kind.after};" for i, (n, kind) in enumerate(arms.items())]
        default = self.data.draw(st.booleans())
        lines += ["    default: void;"] * default
        self.text.append(f"union {name} switch (int which) {{\n" + "\n".join(lines) + "\n};")

        def values(module: Any) -> st.SearchStrategy[Any]:
            cls = getattr(module, name)
            made = [kind.values(module).map(lambda value, n=n: cls(n, value)) for n, kind in arms.items()]
            return st.one_of([*made, *([st.builds(cls, st.integers(100, 200), st.none())] * default)])

        self.add(name, values)

    def add_list(self, name: str) -> None:
        text, values = self.members()
        self.text.append(f"struct l_{name} {{\n{text}\n    l_{name} *link;\n}};\ntypedef l_{name} *{name};")

        def lists(module: Any) -> st.SearchStrategy[Any]:
            fields = {key: made(module) for key, made in values.items()}
            return st.lists(st.builds(getattr(module, f"l_{name}"), **fields), max_size=3)

        self.add(name, lists)


def load(text: str) -> Any:
    module = types.ModuleType("random_definition")
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, "random_definition.py", "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module


def data_members(definition: Definition) -> list[str]:
    """The members of variable length, as pragmas name them."""
    found = []
    for text in definition.text:
        owner = text.split()[1]
        found += [f"{owner}.{name}" for name in re.findall(r"(?:opaque|string) (\w+)<9>;", text)]
    return found


@HALF
@given(data=st.data())
def test_values_of_random_definitions_survive(data: st.DataObject) -> None:
    definition = Definition(data)
    placed = [f"pragma ddp {member};" for member in data_members(definition) if data.draw(st.booleans())]
    module = load(compile_source("\n".join([*definition.text, *placed]), source_name="random.x").text)
    name = data.draw(st.sampled_from(sorted(definition.names)))
    value = data.draw(definition.names[name](module))
    encoder = Encoder()
    getattr(module, f"encode_{name}")(encoder, value)
    stream, items = b"".join(encoder.gather()), encoder.items
    assert encoder.length == len(stream)
    for decoder in (
        Decoder(stream),
        Decoder(encoder.reduced, placed=PlacedByPosition({item.position: memoryview(item.data) for item in items})),
        Decoder(encoder.reduced, placed=PlacedInOrder([memoryview(item.data) for item in items])),
    ):
        assert getattr(module, f"decode_{name}")(decoder) == value
        decoder.done(name)
    if stream:
        with pytest.raises(DecodeError):
            getattr(module, f"decode_{name}")(Decoder(stream[: data.draw(st.integers(0, len(stream) - 1))]))


@HALF
@given(data=st.data())
def test_no_result_is_larger_than_the_compiler_says(data: st.DataObject) -> None:
    definition = Definition(data)
    limits = [f"pragma limit {name} 3;" for name in re.findall(r"typedef l_\w+ \*(\w+);", "\n".join(definition.text))]
    members = data_members(definition)
    placed = [member for member in members if data.draw(st.booleans())]
    name = data.draw(st.sampled_from(sorted(definition.names)))
    program = f"struct ask {{ unsigned int n; }};\nprogram P {{ version V {{ {name} CALL(ask) = 1; }} = 1; }} = 7;"
    text = [*definition.text, *limits, *(f"pragma ddp {member};" for member in placed), program]
    module = load(compile_source("\n".join(text), source_name="random.x").text)
    bound = module.CALL.reply_bound(module.ask(9))
    encoder = Encoder()
    module.CALL.encode_result(encoder, data.draw(definition.names[name](module)))
    payload = encoder
    kept = len(bound.items)
    in_stream = sum((len(item.data) + 3) & ~3 for item in payload.items[kept:])
    assert len(payload.reduced) + in_stream <= bound.results
    assert all(len(item.data) <= most for item, most in zip(payload.items, bound.items, strict=False))
    # The arguments repeat the limit that stands in the definition.
    bounded = []
    for member in members:
        with contextlib.suppress(LanguageError):
            # Refused if the member is in no result.
            compile_source("\n".join([*text, f"pragma bound {member} ask.n;"]), source_name="random.x")
            bounded.append(f"pragma bound {member} ask.n;")
    module = load(compile_source("\n".join([*text, *bounded]), source_name="random.x").text)
    assert module.CALL.reply_bound(module.ask(9)) == bound
    assert module.CALL.reply_bound(module.ask(1 << 31)) == bound
    smaller = module.CALL.reply_bound(module.ask(0))
    assert smaller.results <= bound.results
    assert all(one <= other for one, other in zip(smaller.items, bound.items, strict=True))


@HALF
@given(data=st.data(), octets=st.binary(max_size=200))
def test_random_octets_decode_or_are_refused(data: st.DataObject, octets: bytes) -> None:
    definition = Definition(data)
    module = load(compile_source("\n".join(definition.text), source_name="random.x").text)
    name = data.draw(st.sampled_from(sorted(definition.names)))
    with contextlib.suppress(DecodeError):
        value = getattr(module, f"decode_{name}")(Decoder(octets))
        encoder = Encoder()
        getattr(module, f"encode_{name}")(encoder, value)
        # A NaN is not equal to itself.
        assert repr(getattr(module, f"decode_{name}")(Decoder(b"".join(encoder.gather())))) == repr(value)


WORDS = """
struct union enum typedef const program version pragma ddp limit bound octets switch case default void opaque string
int unsigned hyper float double quadruple bool long a b c 0 1 -1 0x 09 { } ( ) [ ] < > ; : , = * . /* */ % # TRUE FALSE
"""


@given(words=st.lists(st.sampled_from(WORDS.split()), max_size=40), lenient=st.booleans())
def test_any_text_compiles_or_has_errors_with_places(words: list[str], *, lenient: bool) -> None:
    text = " ".join(words)
    try:
        remarks = compile_source(text, source_name="any.x", lenient=lenient).warnings
    except LanguageError as error:
        remarks = error.diagnostics
    for remark in remarks:
        assert remark.place.line == 1
        assert 1 <= remark.place.column <= len(text) + 1


@given(value=F32)
def test_floats_of_32_bits_are_exact(value: float) -> None:
    module = load(compile_source("typedef float t;", source_name="f.x").text)
    encoder = Encoder()
    module.encode_t(encoder, value)
    assert bytes(encoder.reduced) == struct.pack(">f", value)
    back = module.decode_t(Decoder(encoder.reduced))
    assert back == value
    assert math.copysign(1, back) == math.copysign(1, value)


def test_errors_of_the_compiler_are_the_librarys() -> None:
    assert issubclass(LanguageError, RpcRdmaError)
