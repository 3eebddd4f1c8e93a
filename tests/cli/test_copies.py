"""What `get` and `put` tell of trees."""

from __future__ import annotations

import errno

import pytest

from rpcrdma.aio.files.tree_work import CopyReport
from rpcrdma.cli.copies import Copies
from rpcrdma.cli.exit_status import ExitStatus
from rpcrdma.nfs.errors import nfs_error
from rpcrdma.nfs.v3 import nfsstat3


@pytest.mark.parametrize(
    ("path", "error", "told"),
    [
        ("in/a", PermissionError(errno.EACCES, "Permission denied", "a"), "in/a: permission denied"),
        ("in/a", nfs_error(nfsstat3.NFS3ERR_ROFS, "/b/a"), "in/a: /b/a: read-only file system"),
        ("/b/a", nfs_error(nfsstat3.NFS3ERR_STALE, "/b/a"), "/b/a: stale file handle"),
        ("in/a", OSError(errno.ENOSPC, "No space left on device"), "in/a: no space left on device"),
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
