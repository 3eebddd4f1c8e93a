"""Definitions loaded at run time: the procedure that a name means, and the errors for unknown names."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.rpc.loaded_interface import LoadedInterface, load_interface
from rpcrdma.xdr.language import model
from support.cases import each_case

SOURCE = """
struct place { int x; };
struct everything { place where<>; };
program FIRST { version FIRST_V1 { void FIRSTPROC_NULL(void) = 0; place FIRSTPROC_GET(everything) = 1; } = 1;
                version FIRST_V2 { void FIRSTPROC_NULL(void) = 0; place FIRSTPROC_GET(place) = 1; } = 2; } = 0x20000001;
program SECOND { version SECOND_V1 { void SECONDPROC_NULL(void) = 0; int add(int, int) = 7; } = 1; } = 0x20000002;
"""


@pytest.fixture(name="loaded", scope="module")
def loaded_fixture() -> LoadedInterface:
    return load_interface(SOURCE, source_name="some.x")


def test_procedures_are_found_by_name(loaded: LoadedInterface) -> None:
    found = loaded.procedure("FIRSTPROC_GET")
    assert (found.version.number, found.procedure.program, found.procedure.number) == (2, 0x20000001, 1)
    assert loaded.procedure("get", version=1).types.arguments == model.ClassRef("everything")
    assert loaded.procedure("ADD").procedure.number == 7
    assert loaded.procedure("firstproc_get").version.number == 2
    for program in ("SECOND", "0x20000002", str(0x20000002)):
        assert loaded.procedure("null", program=program).version.name == "SECOND_V1"


@each_case(
    ("name", "choice", "message", "hint"),
    [
        ("GTE", {}, "some.x has no procedure GTE", "did you mean FIRSTPROC_GET?"),
        ("xyzzy", {}, "some.x has no procedure xyzzy", "it has FIRSTPROC_NULL, FIRSTPROC_GET, SECONDPROC_NULL, add"),
        (
            "null",
            {},
            "null is a procedure of FIRST and of SECOND",
            "choose one by procedure(program=...), such as FIRST",
        ),
        (
            "get",
            {"program": "THIRD"},
            "some.x defines no program THIRD",
            "it defines FIRST (536870913), SECOND (536870914)",
        ),
        (
            "get",
            {"version": 3},
            "some.x defines no version 3",
            "it defines FIRST version 1, FIRST version 2, SECOND version 1",
        ),
    ],
)
def test_what_is_not_found_is_told(
    loaded: LoadedInterface, name: str, choice: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(LocalProtocolError) as raised:
        loaded.procedure(name, **choice)
    assert (str(raised.value), raised.value.__notes__) == (message, [hint])


def test_a_definition_without_programs_has_no_procedure() -> None:
    with pytest.raises(LocalProtocolError, match=r"types\.x defines no program"):
        load_interface("struct s { int a; };", source_name="types.x").procedure("null")


def test_messages_are_the_only_bound_of_what_has_none() -> None:
    source = "typedef opaque all<>; program P { version V { all GET(void) = 1; } = 1; } = 7;"
    for limit, most in ((None, (1 << 32) - 1), (9, 16)):
        found = load_interface(source, source_name="p.x", default_limit=limit).procedure("get")
        assert found.procedure.reply_bound(None).results == most
        assert found.types.result == model.AliasRef("all", model.VariableOpaque((1 << 32) - 1 if limit is None else 9))


@each_case("procedures", [11, 12, 13, 14])
def test_of_many_procedures_twelve_are_named(procedures: int) -> None:
    listed = " ".join(f"void P{number}(void) = {number};" for number in range(1, procedures + 1))
    loaded = load_interface(f"program P {{ version V {{ {listed} }} = 1; }} = 0x20000001;", source_name="some.x")
    with pytest.raises(LocalProtocolError) as raised:
        loaded.procedure("xyzzy")
    named = ", ".join(f"P{number}" for number in range(1, min(procedures, 12) + 1))
    more = f" and {procedures - 12} more" if procedures > 12 else ""
    assert raised.value.__notes__ == [f"it has {named}{more}"]


def test_each_definition_is_a_module_of_its_own_and_leaves_none_behind() -> None:
    first, other = (load_interface(SOURCE, source_name=name) for name in ("one.x", "other.x"))
    assert (first.module.source_name, other.module.source_name) == ("one.x", "other.x")
    assert first.classes["place"].__module__ != other.classes["place"].__module__
    assert first.classes["place"].__module__ not in sys.modules
    assert first.warnings == other.warnings
