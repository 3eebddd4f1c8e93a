"""The definitions mark exactly the items of RFC 8267 section 4 as eligible for direct placement."""

from __future__ import annotations

import re

import pytest

from rpcrdma.commands.definition import own_definition


def eligible(definition: str) -> set[str]:
    return set(re.findall(r"^\s*pragma\s+ddp\s+(\S+?)\s*;", own_definition(definition).read_text(), re.MULTILINE))


@pytest.mark.req("NF-1")
def test_nfs3_places_file_data_and_symbolic_links() -> None:
    arguments = {"WRITE3args.data", "symlinkdata3.symlink_data"}
    results = {"READ3resok.data", "READLINK3resok.data"}
    assert eligible("nfs3.x") == arguments | results


@pytest.mark.req("NF-1")
def test_mount_places_nothing() -> None:
    assert eligible("mount3.x") == set()


@pytest.mark.req("NF-1")
def test_nfs4_places_file_data_and_symbolic_links() -> None:
    arguments = {"WRITE4args.data", "createtype4.linkdata"}
    results = {"READ4resok.data", "READLINK4resok.link"}
    assert eligible("nfs4.x") == arguments | results
