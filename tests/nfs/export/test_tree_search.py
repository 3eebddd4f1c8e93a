"""The walk through an export passes over what is mounted below it, in whatever state that is."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs.export.file_handle import object_identity
from rpcrdma.nfs.export.tree_search import directory_entries
from support.cases import each_case


@each_case("error", [errno.EHOSTDOWN, errno.EIO, errno.ETIMEDOUT])
def test_a_mount_below_an_export_whose_server_is_down_is_passed_over(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "name").touch()
    real = os.open

    def fail(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if path == b"below" and not flags & os.O_PATH:
            raise OSError(error, os.strerror(error))
        assert not (path == b"below" and flags & os.O_DIRECTORY), "an automounter would be asked again"
        return real(path, flags, *args, **options)

    root = os.open(tmp_path, os.O_RDONLY)
    try:
        mount = object_identity(root)[1]
        assert [entry.name for entry in directory_entries(root, b"below", mount)] == ["name"]
        monkeypatch.setattr(os, "open", fail)
        assert not list(directory_entries(root, b"below", mount + 1))
        with pytest.raises(OSError, match=os.strerror(error)):
            list(directory_entries(root, b"below", mount))
    finally:
        os.close(root)
