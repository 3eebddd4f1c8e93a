"""Every type of NFSv3 and MOUNT: values survive encoding and decoding, whole, reduced and cut short."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcrdma.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from rpcrdma.nfs import mount, v3
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Encoder, Payload, PlacedByPosition, PlacedInOrder
from support.cases import each_case

# Facts that the annotations lack: members of fixed length, and 64-bit ones.
FIXED = {"verf", "cookieverf"}
WIDE = {
    *("size", "used", "fsid", "fileid", "offset", "cookie", "maxfilesize"),
    *("tbytes", "fbytes", "abytes", "tfiles", "ffiles", "afiles"),
}
SIGNED = {"auth_flavors"}
TEXT = st.binary(max_size=20).map(lambda data: data.decode("utf-8", "surrogateescape"))
# Octets that are UTF-8 together with others may decode differently than they were made; a decoded value is stable.
STABLE = TEXT.map(lambda text: text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape"))


def strategy(kind: Any, name: str) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind == Buffer:
        return st.binary(max_size=40)
    if origin is types.UnionType:
        return st.one_of([strategy(argument, name) for argument in arguments])
    if origin is list:
        return st.lists(strategy(arguments[0], name), max_size=3)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return dataclass_strategy(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        type(None): st.none(),
        bool: st.booleans(),
        str: STABLE,
        bytes: st.binary(min_size=8, max_size=8) if name in FIXED else st.binary(max_size=64),
        int: st.integers(0, 0xFFFFFFFFFFFFFFFF if name in WIDE else 0x7FFFFFFF if name in SIGNED else 0xFFFFFFFF),
    }
    return simple[kind]


@functools.cache
def dataclass_strategy(kind: Any) -> st.SearchStrategy[Any]:
    hints = hints_of(kind)
    if "value" in hints:
        return union_strategy(kind, hints)
    return st.builds(kind, **{name: strategy(hint, name) for name, hint in hints.items()})


def union_strategy(kind: Any, hints: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Each value of the discriminant with the arm that belongs to it: the one that can be encoded."""
    arms = typing.get_args(hints["value"]) or (hints["value"],)
    tags = (False, True) if hints[discriminant(kind)] is bool else tuple(hints[discriminant(kind)])
    name = {"createhow3": "verf", "set_size3": "size"}.get(kind.__name__, "value")
    return st.one_of(
        [
            st.builds(kind, st.just(tag), strategy(arm, name))
            for tag in tags
            for arm in arms
            if is_encodable(kind, kind(tag, sample(arm)))
        ]
    )


@functools.cache
def hints_of(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, vars(v3 if kind.__module__ == v3.__name__ else mount))


def discriminant(kind: Any) -> str:
    return dataclasses.fields(kind)[0].name


def sample(kind: Any) -> Any:
    """Any value of a type."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = hints_of(kind)
        if "value" not in hints:
            return kind(*map(sample, hints.values()))
        arms = typing.get_args(hints["value"]) or (hints["value"],)
        tag = sample(hints[discriminant(kind)])
        return next(item for arm in arms if is_encodable(kind, item := kind(tag, sample(arm))))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    plain: dict[Any, Any] = {type(None): None, bool: False, int: 0, str: "", bytes: bytes(8), Buffer: b""}
    return plain.get(kind, [])


def is_encodable(kind: Any, value: Any) -> bool:
    """Whether the arm fits the discriminant."""
    try:
        encode(kind, value)
    except LocalProtocolError:
        return False
    return True


def encode(kind: Any, value: Any) -> Payload:
    encoder = Encoder()
    module = v3 if kind.__module__ == v3.__name__ else mount
    getattr(module, f"encode_{kind.__name__}")(encoder, value)
    return encoder


def decode(kind: Any, decoder: Decoder) -> Any:
    module = v3 if kind.__module__ == v3.__name__ else mount
    value = getattr(module, f"decode_{kind.__name__}")(decoder)
    decoder.done(kind.__name__)
    return value


CLASSES = [
    getattr(module, name)
    for module in (v3, mount)
    for name in module.__all__
    if isinstance(getattr(module, name), type) and dataclasses.is_dataclass(getattr(module, name))
]
# A hundred types are tried: a quarter of the usual examples each.
FEWER = settings(max_examples=settings.default.max_examples // 4)
EACH = each_case("kind", CLASSES)


@pytest.mark.thorough
@EACH
@FEWER
@given(data=st.data())
def test_values_survive_in_one_piece_reduced_and_placed(kind: Any, data: st.DataObject) -> None:
    value = data.draw(dataclass_strategy(kind))
    payload = encode(kind, value)
    stream = b"".join(payload.gather())
    assert payload.length == len(stream)
    assert len(stream) % 4 == 0
    assert decode(kind, Decoder(stream)) == value
    by_position = PlacedByPosition({item.position: memoryview(item.data) for item in payload.items})
    assert decode(kind, Decoder(payload.reduced, placed=by_position)) == value
    in_order = PlacedInOrder([memoryview(item.data) for item in payload.items])
    assert decode(kind, Decoder(payload.reduced, placed=in_order)) == value


@pytest.mark.thorough
@EACH
@FEWER
@given(data=st.data())
def test_values_cut_short_are_refused(kind: Any, data: st.DataObject) -> None:
    stream = b"".join(encode(kind, data.draw(dataclass_strategy(kind))).gather())
    length = data.draw(st.integers(0, len(stream) - 1))
    with pytest.raises(DecodeError):
        decode(kind, Decoder(stream[:length]))


@pytest.mark.thorough
@EACH
@FEWER
@given(octets=st.binary(max_size=200), words=st.lists(st.sampled_from([0, 1, 2, 3, 5, 8]), max_size=30))
def test_any_octets_decode_or_are_refused(kind: Any, octets: bytes, words: list[int]) -> None:
    for stream in (octets, b"".join(word.to_bytes(4) for word in words)):
        try:
            value = decode(kind, Decoder(stream))
        except RemoteProtocolError:
            continue
        assert decode(kind, Decoder(b"".join(encode(kind, value).gather()))) == value


def test_only_the_items_of_rfc_8267_may_be_placed() -> None:
    handle, attributes = v3.nfs_fh3(b"f"), v3.post_op_attr(attributes_follow=False, value=None)
    nothing = v3.sattr3(
        v3.set_mode3(set_it=False, value=None),
        v3.set_uid3(set_it=False, value=None),
        v3.set_gid3(set_it=False, value=None),
        v3.set_size3(set_it=False, value=None),
        v3.set_atime(v3.time_how.DONT_CHANGE, None),
        v3.set_mtime(v3.time_how.DONT_CHANGE, None),
    )
    eligible = {
        "WRITE3args": v3.WRITE3args(handle, 0, 4, v3.stable_how.UNSTABLE, b"data"),
        "symlinkdata3": v3.symlinkdata3(nothing, "data"),
        "READ3resok": v3.READ3resok(attributes, 4, True, b"data"),
        "READLINK3resok": v3.READLINK3resok(attributes, "data"),
    }
    for value in eligible.values():
        assert [bytes(item.data) for item in encode(type(value), value).items] == [b"data"]
    hinted = {kind.__name__ for kind in CLASSES if Buffer in hints_of(kind).values()}
    assert hinted == {"WRITE3args", "READ3resok"}


PROCEDURES = """
NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME LINK READDIR
READDIRPLUS FSSTAT FSINFO PATHCONF COMMIT
"""


def test_procedures_have_the_numbers_of_rfc_1813() -> None:
    for number, name in enumerate(PROCEDURES.split()):
        procedure = v3.PROGRAM.procedures[number]
        assert (procedure.name, procedure.method) == (f"NFSPROC3_{name}", name.lower())
        assert (procedure.program, procedure.version) == (100003, 3)
        assert getattr(v3, name) is procedure
