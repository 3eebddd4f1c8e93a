"""Generated modules equal the compiler's present output for their definitions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from packages import LAB, ROOT
from rpcrdma.xdr.language import compile_source

PLACES = tuple(ROOT / name for name in ("src", "lab", "examples", "tests"))
# Definitions that are read when they are needed: nothing is generated from them.
READ_AS_THEY_ARE = {LAB / "dissect", ROOT / "tests/interop/kernel"}
DEFINITIONS = sorted(path for place in PLACES for path in place.rglob("*.x"))


def generated_modules() -> dict[Path, Path]:
    """Each generated module with the definition that its first line names."""
    found = {}
    for path in sorted(path for place in PLACES for path in place.rglob("*.py")):
        with path.open() as file:
            if source := re.match(r'"""Generated from (\S+\.x) ', file.readline()):
                found[path] = path.with_name(source[1])
    return found


GENERATED = generated_modules()


@pytest.mark.parametrize("module", GENERATED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_generated_modules_are_fresh(module: Path) -> None:
    definition = GENERATED[module]
    compiled = compile_source(definition.read_text(encoding="utf-8"), source_name=definition.name)
    # Compared as a whole: a difference of many lines would take long to explain.
    assert (module.read_text(encoding="utf-8") == compiled.text) is True, (
        f"{definition.name} has changed: tools/generate.sh"
    )


def test_every_definition_has_its_module() -> None:
    generated_from = [path for path in DEFINITIONS if path.parent not in READ_AS_THEY_ARE]
    assert sorted(GENERATED.values()) == sorted(generated_from)
