"""The kept corpus of the fuzzers, and the seeds they start from, go through every target without a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

import dissect_targets
from fuzz_targets import TARGETS
from support.cases import each_case

pytestmark = pytest.mark.thorough

CORPORA = (Path(__file__).parent / "corpus", Path(dissect_targets.__file__).parent / "corpus")
CASES = {folder.name: folder for corpus in CORPORA for folder in corpus.iterdir()}
KEPT_OCTETS_MAX = 300_000


@each_case("target", TARGETS)
def test_a_target_takes_its_corpus(target) -> None:
    assert target.seeds
    cases = [path.read_bytes() for path in sorted(CASES[target.name].iterdir())]
    assert cases
    for case in (*target.seeds, *cases, b""):
        target.run(case)


def test_the_corpus_is_small_and_belongs_to_targets() -> None:
    assert CASES.keys() == {target.name for target in TARGETS}
    assert sum(path.stat().st_size for folder in CASES.values() for path in folder.iterdir()) < KEPT_OCTETS_MAX
