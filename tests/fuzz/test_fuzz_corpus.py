"""The kept corpus of the fuzzers, and the seeds they start from, go through every target without a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz_targets import TARGETS
from support.cases import each_case

pytestmark = pytest.mark.thorough

CORPUS = Path(__file__).parent / "corpus"
KEPT_OCTETS_MAX = 300_000


@each_case("target", TARGETS)
def test_a_target_takes_its_corpus(target) -> None:
    assert target.seeds
    cases = [path.read_bytes() for path in sorted((CORPUS / target.name).iterdir())]
    assert cases
    for case in (*target.seeds, *cases, b""):
        target.run(case)


def test_the_corpus_is_small_and_belongs_to_targets() -> None:
    assert {path.name for path in CORPUS.iterdir()} == {target.name for target in TARGETS}
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < KEPT_OCTETS_MAX
