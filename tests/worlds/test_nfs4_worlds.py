"""Worlds of NFS version 4.1 with faults keep every promise, and run alike each time."""

from __future__ import annotations

from collections import Counter

import pytest
from run_nfs4_worlds import judged

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("part", range(4))
def test_worlds_with_faults_keep_every_promise(part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(10 * part + 1, 10 * part + 11):
        outcome = judged(seed, twice=seed % 5 == 0)
        assert outcome.violations == [], f"python tests/worlds/run_nfs4_worlds.py --seed {seed}"
        seen.update(outcome.counts)
    # The oracles had something to judge.
    assert min(seen[what] for what in ("opens", "locks", "records", "changes", "starts")) > 10
