"""Directories of this machine and file systems of fsspec, exported by one server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsspec_rig import CONTEXT, Store
from rpcrdma.nfs.export.access_terms import Export
from rpcrdma.nfs.export.server_exports import ServerExports
from rpcrdma.nfs.export.server_state import open_state
from rpcrdma.nfs.server import build_services


@pytest.fixture(autouse=True)
def _empty_store() -> Iterator[None]:
    Store.clear()
    yield
    Store.clear()


def test_directories_and_urls_are_exported_side_by_side(tmp_path: Path) -> None:
    Store(skip_instance_cache=True).pipe(
        {f"/bucket/{path}": b"data" for path in ("a.txt", "empty", "many/one", "deep/er/b.bin", "deep/other")}
    )
    local = tmp_path / "local"
    local.mkdir()
    (local / "here").write_bytes(b"")
    with contextlib.closing(open_state(tmp_path / "state", os.urandom)) as state:
        services = build_services(
            [
                Export(name="/store", url="store://bucket", read_only=True),
                Export(name="/local", directory=local),
                Export(name="/store/deep", url="store://bucket/deep", read_only=True),
            ],
            state=state,
        )
        exports = services.nfs.exports
        assert [tree.export.name for tree in exports.trees] == ["/store", "/local", "/store/deep"]
        seen = {}
        for tree in exports.trees:
            node, who = exports.locate(tree.root.handle, CONTEXT)
            assert node is not None
            assert node.tree is tree
            tree.admit_mount(CONTEXT, 3)
            seen[tree.export.name] = len(list(node.entries(who, 2, detailed=False)))
        assert seen == {"/store": 4, "/local": 1, "/store/deep": 2}
        waits = [exports.waits_for(tree.root.handle) for tree in exports.trees]
        assert len({*waits}) == 3
        exports.close_idle()
        assert services.nfs.close() == []
        for twice in ({"url": "store://bucket", "read_only": True}, {"directory": local}):
            with pytest.raises(ValueError, match="two exports have the name /x"):
                build_services(
                    [
                        Export(name="/x", url="store://bucket", read_only=True),
                        Export(name="/x", **twice),  # type: ignore[arg-type]
                    ],
                    state=state,
                )
        with pytest.raises(ValueError, match=r"^/41829 and /161060 look alike in file handles"):
            build_services([Export(name=name, directory=local) for name in ("/41829", "/161060")], state=state)


def test_a_call_in_a_directory_whose_name_goes_over_to_a_url_keeps_the_rights_of_its_user(tmp_path: Path) -> None:
    Store(skip_instance_cache=True).pipe("/bucket/a", b"")
    (tmp_path / "local").mkdir()
    with contextlib.closing(open_state(tmp_path / "state", os.urandom)) as state:
        exports = ServerExports([Export(name="/x", directory=tmp_path / "local")], state)
        (tree,) = exports.trees
        before = tree.admit(CONTEXT, 3), tree.admit_mount(CONTEXT, 3)
        gone = exports.install(exports.plan([Export(name="/x", url="store://bucket", read_only=True)]))
        assert gone == {tree}
        after = tree.admit(CONTEXT, 3), tree.admit_mount(CONTEXT, 3)
        assert [each and each.identity for each in after] == [each and each.identity for each in before]
        assert exports.retire(gone, close=True) == exports.close() == []
