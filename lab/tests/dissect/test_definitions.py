"""The descriptions of headers: each says everything, and they say the same as the codecs."""

from __future__ import annotations

import re
from pathlib import Path

from rpcrdma.rtr import messages, properties
from rpcrdma.rtr.messages import ReportCode, Way
from rpcrdma.transport.dialects import header_v1, header_v2
from rpcrdma.xdr.language import compile_source, model
from rpcrdma_lab.dissect.definitions import compiled_text, definition
from rpcrdma_lab.dissect.headers import header_versions
from rpcrdma_lab.dissect.xdr_walk import FORMATS
from support.cases import each_case

FOLDER = Path(definition.__wrapped__.__code__.co_filename).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.x"))
TYPEDEFS_OF_RPC = {"hex32"}
EXTENSION = "rpcrdma_rtr"
DESCRIBED = [(name,) for name in NAMES if name != EXTENSION]
DESCRIBED.append(("rpcrdma2", EXTENSION))
each = each_case("names", DESCRIBED)


def test_there_is_one_for_each_version_for_an_extension_and_for_rpc() -> None:
    assert NAMES == ["rpc", "rpcrdma1", "rpcrdma2", "rpcrdma_rtr"]


@each
def test_each_section_is_one_of_one_document(names: tuple[str, ...]) -> None:
    described = definition(*names)
    sections = {note.section for note in described.notes.values()}
    assert sections
    assert [
        section for section in sections if not re.fullmatch(r"(RFC \d+|version-two-00|rtrext) [A-Z\d.]+", section)
    ] == []


@each
def test_they_compile_without_a_warning(names: tuple[str, ...]) -> None:
    text = compiled_text(*names)
    assert compile_source(text, source_name=f"{names[-1]}.x", default_limit=1 << 20).warnings == []


@each
def test_every_member_and_every_code_has_a_meaning_and_a_section(names: tuple[str, ...]) -> None:
    found = definition(*names)
    noted = set(found.notes)
    wanted: set[tuple[str, str]] = {(kind, code) for kind, codes in found.codes.items() for code in codes.values()}
    for owner, item in found.classes.items():
        if isinstance(item, model.Struct):
            wanted |= {(owner, member.name) for member in item.members}
        else:
            wanted |= {(owner, item.discriminant.name)}
            wanted |= {
                (owner, arm.name) for arm in [*item.arms, item.default] if arm is not None and arm.type is not None
            }
    missing = wanted - noted
    # The note of a union stands behind its discriminant.
    assert missing == set()
    assert all(
        note.meaning and re.fullmatch(r"\S+( \d+)? [A0-9][.0-9]*", note.section) for note in found.notes.values()
    )


@each_case("name", NAMES)
def test_every_typedef_has_a_format(name: str) -> None:
    text = (FOLDER / f"{name}.x").read_text()
    assert set(re.findall(r"^typedef .* (\w+);", text, re.MULTILINE)) <= FORMATS.keys()


@each_case(("version", "module"), [("1", header_v1), ("2", header_v2)])
def test_types_and_codes_are_those_of_the_codec(version: str, module: object) -> None:
    found = header_versions()[version]
    assert str(found.number) == version[0]
    types = found.definition.codes["header_type"]
    extended = found.definition.codes.get("more_header_type", {})
    types = {value: name for value, name in types.items() if value not in extended}
    assert {name: value for value, name in types.items()} == {
        name: value for name, value in vars(module).items() if re.fullmatch(r"RDMA2?_[A-Z_]+", name)
    }


def test_error_codes_of_version_2_are_those_of_the_codec() -> None:
    assert set(definition("rpcrdma2").codes["error_code"]) == set(header_v2.ERRORS._by_code)


def test_code_points_of_the_extension_are_those_of_the_codec() -> None:
    """Its enumerations belong to those of the version that it extends."""
    found = header_versions()["2"].definition
    types = {name.removeprefix("ROPT_"): value for value, name in found.codes["more_header_type"].items()}
    of_transmissions = {name: getattr(messages, name) for name in ("XMTREQ", "XMTRESP", "XMTCONT", "REPTERR")}
    assert types == of_transmissions
    assert found.codes["header_type"].items() > found.codes["more_header_type"].items()
    numbers = [
        properties.RTR_SUPPORT,
        properties.RECEIVE_STRUCTURE,
        properties.REQUEST_RECEIVE_LIMIT,
        properties.RESPONSE_SEND_LIMIT,
    ]
    assert list(found.codes["more_property_id"]) == numbers
    assert found.codes["property_id"].items() > found.codes["more_property_id"].items()
    values = found.classes["property_value"]
    assert isinstance(values, model.Union)
    assert [value for arm in values.arms[-4:] for value, _ in arm.values] == numbers
    assert list(found.codes["support_flag"]) == list(properties.Support)
    assert list(found.codes["optr_err"]) == list(ReportCode)
    assert list(found.codes["xmddp_type"])[:4] == list(Way)


def test_what_an_extension_adds_is_not_there_without_it() -> None:
    assert 0x101 not in definition("rpcrdma2").codes["header_type"]
