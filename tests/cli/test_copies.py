"""The messages of `get` and `put` about trees."""

from __future__ import annotations

import argparse
import errno
import json
import sys
from collections import Counter

import pytest

from rpcrdma.cli.copies import Copies
from rpcrdma.commands import console
from rpcrdma.commands.console import ExitStatus
from rpcrdma.limits import NFS_TREE_FAILURES_MAX, NFS_TREE_FAILURES_OCTETS_MAX
from rpcrdma.nfs.client import NotCarried
from rpcrdma.nfs.client.trees.tree_work import CopyReport
from rpcrdma.nfs.errors import nfs_error
from rpcrdma.nfs.v3 import nfsstat3
from support.cases import each_case

LONG = "/start" + "/d" * 5000 + "/end"


@each_case(
    ("path", "error", "told"),
    [
        ("in/a", PermissionError(errno.EACCES, "Permission denied", "a"), "in/a: permission denied"),
        ("in/a", nfs_error(nfsstat3.NFS3ERR_ROFS, "/b/a"), "in/a: /b/a: read-only file system"),
        ("/b/a", nfs_error(nfsstat3.NFS3ERR_STALE, "/b/a"), "/b/a: stale file handle"),
        (LONG, OSError(errno.EMFILE, "Too deep", LONG), LONG[:300] + " [...] " + LONG[-300:] + ": too deep"),
        ("in/a", OSError(errno.ENOSPC, "No space left on device"), "in/a: no space left on device"),
        # `os.scandir` of a descriptor names that.
        ("in/a", OSError(errno.EIO, "Input/output error", 7), "in/a: input/output error"),
        # A path that is a part of a word or of another path.
        ("on", ConnectionResetError(errno.ECONNRESET, "Connection reset"), "on: connection reset"),
        ("/a/b", nfs_error(nfsstat3.NFS3ERR_NOENT, "/a/b/c"), "/a/b: /a/b/c: no such file or directory"),
    ],
)
def test_each_failure_is_told_with_the_whole_path_once(
    path: str, error: OSError, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = CopyReport()
    report.failed(path, error)
    copies = Copies(lambda _octets: None)
    copies.add_tree(report)
    assert capsys.readouterr().err.splitlines()[0] == f"error: {told}"
    assert copies.status is ExitStatus.FAILED


def test_what_is_not_printed_is_counted_also_beyond_the_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_error_object", {})
    report = CopyReport()
    for number in range(NFS_TREE_FAILURES_MAX + 500):
        report.passed_over(f"in/{number}")
    for path in ("long" * NFS_TREE_FAILURES_OCTETS_MAX, "b", "c"):
        report.failed(path, OSError(errno.EIO, "Input/output error"))
    copies = Copies(lambda _octets, _files: None)
    copies.add_tree(report)
    copies.failures.tell_of_tree([failure.error for failure in report.failures], report.failures_total, "failures")
    said = capsys.readouterr()
    assert said.out == "", "the failures are in the report"
    told = [line for line in said.err.splitlines() if " more " in line]
    assert told == ["and 1,480 more left out", "and 2 more not copied", "error: 2 more failures"]
    copies.report(argparse.Namespace(json=True))
    facts = json.loads(capsys.readouterr().out)
    assert (facts["skipped_total"], len(facts["skipped"])) == (NFS_TREE_FAILURES_MAX + 500, NFS_TREE_FAILURES_MAX)


def test_links_to_copies_are_counted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    copies = Copies(lambda _octets, _files: None)
    copies.add_tree(CopyReport(files=5, hard_links=3))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    copies.report(argparse.Namespace(json=False))
    assert capsys.readouterr().err.startswith("5 files (3 of them links to others), 0 bytes in ")


def test_what_nfs_does_not_carry_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    copies = Copies(lambda _octets: None)
    for _ in range(2):
        report = CopyReport(not_carried=Counter({NotCarried.HOLES: 600, NotCarried.TIMES: 1}))
        copies.add_tree(report)
    assert copies.report(argparse.Namespace(json=True)) == ExitStatus.DONE
    said = capsys.readouterr()
    assert said.err == (
        "warning: copies over NFSv3 lose properties of the originals: holes (1,200), times outside 1970 to 2106 (2)\n"
    )
    assert json.loads(said.out)["not_carried"] == {
        "holes": 1200, "hard_links": 0, "times": 2, "extended_attributes": 0, "owners": 0, "special_bits": 0
    }  # fmt: skip


def test_the_copy_of_a_file_takes_no_place_that_is_taken_or_a_directorys() -> None:
    copies = Copies(lambda _octets, _files: None)
    copies.take_file_place("dir", "dir/a", directory=True, taken=False)
    copies.take_file_place("dir/", "dir/b", directory=True, taken=False)
    copies.take_file_place("new", "new", directory=False, taken=False)
    for dest, target, directory, taken, error in (
        ("dir", "dir", True, True, IsADirectoryError),
        ("dir", "dir/below", True, True, IsADirectoryError),
        ("new/", "new/", False, False, NotADirectoryError),
        ("dir", "dir/a", True, False, FileExistsError),
    ):
        with pytest.raises(error):
            copies.take_file_place(dest, target, directory=directory, taken=taken)
