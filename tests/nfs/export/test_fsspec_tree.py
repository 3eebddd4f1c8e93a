"""Exported file systems of fsspec: objects, handles, listings, changes underneath, and hostile stores."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.registry import known_implementations

from fsspec_rig import AT_ONCE, CONTEXT, ME, Clock, Store, Web, content, exported, found, located, names_in, refused
from rpcrdma.nfs.export import export_limits, fsspec_store
from rpcrdma.nfs.export.access_terms import ANONYMOUS, Export
from rpcrdma.nfs.export.fsspec_store import missing_package, shown_url
from rpcrdma.nfs.export.server_exports import ServerExports
from rpcrdma.nfs.export.server_state import open_state
from rpcrdma.nfs.export.tree import (
    BAD_HANDLE,
    LOOKUP,
    MODIFY,
    READ,
    Change,
    Create,
    CreateHow,
    FileKind,
    Make,
    Node,
    Refused,
    Stable,
    Wanted,
    check_changeable,
)
from support.cases import each_case


@pytest.fixture(autouse=True)
def _empty_store() -> Iterator[None]:
    Store.clear()
    yield
    Store.clear()


@pytest.fixture
def files() -> Store:
    """bucket/a.txt, bucket/deep/er/b.bin, bucket/empty."""
    store = Store(skip_instance_cache=True)
    store.pipe({"/bucket/a.txt": b"hello", "/bucket/deep/er/b.bin": bytes(range(256)) * 1000, "/other/secret": b"no"})
    store.mkdir("/bucket/empty")
    Store.calls.clear()
    return store


@each_case("url", ["store://bucket", "store://bucket/", "file", "zip"])
def test_a_tree_shows_the_names_kinds_sizes_and_octets_of_a_file_system(url: str, tmp_path: Path) -> None:
    Store(skip_instance_cache=True).pipe({"/bucket/a.txt": b"hello", "/bucket/deep/er/b.bin": b"1234567"})
    local = tmp_path / "local"
    (local / "deep" / "er").mkdir(parents=True)
    (local / "a.txt").write_bytes(b"hello")
    (local / "deep" / "er" / "b.bin").write_bytes(b"1234567")
    if url == "zip":
        archive = fsspec.filesystem("zip", fo=f"{tmp_path}/files.zip", mode="w", skip_instance_cache=True)
        archive.pipe({"a.txt": b"hello", "deep/er/b.bin": b"1234567"})
        archive.close()
    url = {"file": f"file://{local}", "zip": f"zip://::file://{tmp_path}/files.zip"}.get(url, url)
    with exported(tmp_path / "state", url) as exports:
        root = found(exports)
        assert sorted(names_in(root)) == [b"a.txt", b"deep"]
        assert (root.kind, found(exports, b"deep", b"er").kind) == (FileKind.DIRECTORY, FileKind.DIRECTORY)
        for path, octets in (((b"a.txt",), b"hello"), ((b"deep", b"er", b"b.bin"), b"1234567")):
            node = found(exports, *path)
            attributes = node.attributes()
            assert content(node) == octets
            assert (node.kind, attributes.size, attributes.mode) == (FileKind.FILE, len(octets), 0o444)
            assert (attributes.uid, attributes.gid) == (ANONYMOUS, ANONYMOUS)
            assert attributes.fsid == exports.trees[0].fsid
        assert root.attributes().mode == 0o555
        assert found(exports, b"deep", b"..", b"deep", b".", b"er").handle == found(exports, b"deep", b"er").handle
        assert found(exports, b"deep").parent().handle == root.handle == root.parent().handle
        assert refused(lambda: found(exports, b"none")) == errno.ENOENT
        assert refused(lambda: found(exports, b"a.txt", b"x")) == errno.ENOTDIR


def test_a_web_server_is_listed_and_never_asked_for_names_that_it_does_not_list(tmp_path: Path) -> None:
    pages = {"a": b"hello", "deep/er/b": b"1234567", "deep/c": b"", "deep/%2e": b"x"}
    Web.pages.clear()
    Web.pages.update({f"web://host/top/{page}": data for page, data in pages.items()})
    Web.pages["web://host/secret"] = Web.pages["web://host/top/..%2fsecret/x"] = b"no"
    with exported(tmp_path, "web://host/top/") as exports:
        root = found(exports)
        assert {entry.name: entry.attributes is None for entry in root.entries(ME, 2, detailed=True)} == {
            b"a": True,
            b"deep": False,
            b"..%2fsecret": False,
        }
        assert content(found(exports, b"a")) == b"hello"
        assert content(found(exports, b"deep", b"er", b"b")) == b"1234567"
        assert found(exports, b"deep", b"er", b"..").handle == found(exports, b"deep").handle
        Web.asked.clear()
        for name in (b"none", b"..%2fsecret?", b"%2e%2e", b"a?query", b"top"):
            assert refused(lambda name=name: root.lookup(ME, name, at_once=False)) == errno.ENOENT  # type: ignore[misc]
        assert set(Web.asked) <= {"web://host/top/"}
        # A page that is listed and not there, as one of a broken link: the directory is not stale.
        deep = found(exports, b"deep")
        assert names_in(deep)
        del Web.pages["web://host/top/deep/c"]
        assert refused(lambda: deep.lookup(ME, b"c", at_once=False)) == errno.ENOENT
        handle = found(exports, b"deep", b"er").handle
        file = found(exports, b"deep", b"er", b"b").handle
    with exported(tmp_path, "web://host/top/") as exports:
        for same, kind in ((handle, FileKind.DIRECTORY), (file, FileKind.FILE)):
            node = located(exports, same, CONTEXT)
            assert node is not None
            assert (node.kind, node.handle) == (kind, same)
        Web.pages.clear()
        exports.remote.nodes.drop_all()
        assert refused(lambda: located(exports, file, CONTEXT)) == errno.ESTALE
        assert refused(lambda: list(located(exports, handle, CONTEXT).entries(ME, 2, detailed=True))) == errno.ESTALE
    with (
        contextlib.closing(open_state(tmp_path, os.urandom)) as state,
        pytest.raises(OSError, match="nothing is there"),
    ):
        ServerExports([Export(name="/", url="web://host/top/", read_only=True)], state)


def test_symbolic_links_of_a_local_file_system_are_links(tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.mkdir()
    (local / "file").write_bytes(b"12345")
    (local / "link").symlink_to("file")
    (local / "up").symlink_to("..")
    os.mkfifo(local / "fifo")
    with exported(tmp_path / "state", f"file://{local}") as exports:
        assert sorted(names_in(found(exports))) == [b"file", b"link", b"up"]
        listed = {entry.name: entry for entry in found(exports).entries(ME, 2, detailed=True)}
        for name, target in ((b"link", b"file"), (b"up", b"..")):
            node = found(exports, name)
            assert (node.kind, node.read_link(), node.attributes().size) == (FileKind.SYMLINK, target, len(target))
            assert refused(lambda node=node: node.open(ME, READ, at_once=False)) == errno.EINVAL  # type: ignore[misc]
            assert refused(lambda node=node: node.lookup(ME, b"file", at_once=False)) == errno.ENOTDIR  # type: ignore[misc]
            there = listed[name]
            assert (there.handle, there.attributes.change) == (node.handle, node.attributes().change)  # type: ignore[union-attr]
        exports.remote.nodes.drop_all()
        again = located(exports, listed[b"up"].handle or b"", CONTEXT)
        assert again is not None
        assert again.read_link() == b".."
        assert refused(found(exports, b"file").read_link) == errno.EINVAL
        assert refused(lambda: found(exports, b"fifo")) == errno.ENOENT


def test_names_that_stand_for_no_single_entry_are_refused_before_the_library_is_asked(
    files: Store, tmp_path: Path
) -> None:
    with exported(tmp_path) as exports:
        root = found(exports)
        Store.calls.clear()
        for name, number in (
            (b"", errno.EACCES),
            (b"../other", errno.EACCES),
            (b"deep/er", errno.EACCES),
            (b"a\0", errno.EACCES),
            (b"n" * 256, errno.ENAMETOOLONG),
        ):
            assert refused(lambda name=name: root.lookup(ME, name, at_once=False)) == number  # type: ignore[misc]
        assert not Store.calls
        for name in (b"..%2fother", b"store::other", b"*", b"[a]*", b"~", b"a.txt "):
            assert refused(lambda name=name: root.lookup(ME, name, at_once=False)) == errno.ENOENT  # type: ignore[misc]
        with pytest.raises(Refused):
            found(exports, *[b"n" * 200] * 25)


def test_paths_are_bounded(files: Store, tmp_path: Path) -> None:
    deep = ["d" * 200] * 20
    files.pipe("/bucket/" + "/".join([*deep, "e" * 70, "f"]), b"")
    with exported(tmp_path) as exports:
        last = found(exports, *(name.encode() for name in deep), b"e" * 70)
        assert len(last.path) <= export_limits.NFS_FSSPEC_PATH_OCTETS_MAX
        assert refused(lambda: last.lookup(ME, b"f" * 30, at_once=False)) == errno.ENAMETOOLONG
        files.pipe(f"/bucket/{last.path}/" + "g" * 30, b"")
        assert names_in(last) == [b"f"]
        assert [entry.name for entry in last.entries(ME, 2, detailed=True)] == [b"f"]


def test_nothing_in_the_tree_can_be_changed(files: Store, tmp_path: Path) -> None:
    with exported(tmp_path) as exports:
        root, file = found(exports), found(exports, b"a.txt")
        opened = file.open(ME, READ, at_once=True)
        calls = [
            lambda: check_changeable(exports.trees[0].admit(CONTEXT, 3)),
            lambda: file.open(ME, READ | MODIFY, at_once=False),
            lambda: opened.write(b"x", 0, Stable.UNSTABLE, Change(), judge=True),
            lambda: opened.commit(Change()),
            lambda: root.create(ME, b"new", Create(CreateHow.UNCHECKED), Change()),
            lambda: root.make(ME, b"new", Make(FileKind.DIRECTORY), Wanted(), Change()),
            lambda: root.remove(ME, b"a.txt", Change(), is_directory=None),
            lambda: root.rename(ME, b"a.txt", root, b"b", Change(), Change()),
            lambda: file.link(ME, root, b"b", Change()),
            lambda: file.set_attributes(ME, Wanted(size=0), Change()),
        ]
        assert [refused(call) for call in calls] == [errno.EROFS] * len(calls)
        assert file.opened_for_writing() is None
        assert root.access(ME, 0x3F) == READ | LOOKUP
        assert file.access(ME, 0x3F) == READ
        assert refused(lambda: root.open(ME, READ, at_once=False)) == errno.EISDIR
    with pytest.raises(ValueError, match="read_only=True"):
        Export(name="/", url="store://bucket")


def test_an_export_has_a_directory_or_a_url(tmp_path: Path) -> None:
    for more in ({}, {"directory": tmp_path, "url": "store://bucket"}):
        with pytest.raises(ValueError, match="either a directory or a url"):
            Export(name="/", read_only=True, **more)  # type: ignore[arg-type]
    one, two = (
        Export(name="/", read_only=True, url="store://bucket", storage_options={"secret": key}) for key in ("k1", "k2")
    )
    assert (hash(one), one != two, "k1" in repr(one)) == (hash(two), True, False)
    with pytest.raises(ValueError, match="0 or more"):
        Export(name="/", read_only=True, url="store://bucket", valid_s=-1)


def test_handles_hold_over_a_restart_and_are_sealed(files: Store, tmp_path: Path) -> None:
    with exported(tmp_path) as exports:
        nodes: list[Node] = [found(exports), found(exports, b"a.txt"), found(exports, b"deep", b"er", b"b.bin")]
        entries = list(found(exports, b"deep").entries(ME, 2, detailed=True))
        nodes += [located(exports, entry.handle or b"", CONTEXT) for entry in entries]
    with exported(tmp_path) as exports:
        for before in nodes:
            node = located(exports, before.handle, CONTEXT)
            assert node is not None
            assert (node.handle, node.attributes().number) == (before.handle, before.attributes().number)
            assert (node.kind, node.parent().handle) == (before.kind, before.parent().handle)
        handle = nodes[1].handle
        assert refused(lambda: located(exports, handle[:-1] + bytes([handle[-1] ^ 1]), CONTEXT)) == BAD_HANDLE
        assert refused(lambda: located(exports, b"", CONTEXT)) == BAD_HANDLE
        assert max(len(node.handle) for node in nodes) <= 64
    # Without the places the root alone is found; the handles of the others are stale, not somebody else's.
    for path in tmp_path.glob("places*"):
        path.unlink()
    with exported(tmp_path) as exports:
        assert located(exports, nodes[0].handle, CONTEXT) is not None
        for before in nodes[1:]:
            assert refused(lambda before=before: located(exports, before.handle, CONTEXT)) == errno.ESTALE  # type: ignore[misc]
        # They are good again once they are looked up.
        assert found(exports, b"a.txt").handle == handle


def test_the_handles_of_another_url_are_stale(files: Store, tmp_path: Path) -> None:
    files.pipe("/elsewhere/a.txt", b"not this one")
    with exported(tmp_path) as exports:
        handle = found(exports, b"a.txt").handle
    with exported(tmp_path, "store://elsewhere") as exports:
        assert refused(lambda: located(exports, handle, CONTEXT)) == errno.ESTALE
        assert found(exports, b"a.txt").handle != handle


def test_places_that_lead_in_a_circle_end(files: Store, tmp_path: Path) -> None:
    with exported(tmp_path) as exports:
        one, two = found(exports, b"deep"), found(exports, b"deep", b"er")
        exports.remote.places.remember(one.handle, two.handle, b"deep")
        exports.remote.nodes.drop_all()
        assert refused(lambda: located(exports, two.handle, CONTEXT)) == errno.ESTALE


def test_the_path_of_a_file_and_of_a_directory_are_two_objects(files: Store, tmp_path: Path) -> None:
    clock = Clock()
    with exported(tmp_path, clock=clock) as exports:
        file = found(exports, b"a.txt")
        files.rm("/bucket/a.txt")
        files.pipe("/bucket/a.txt/below", b"")
        clock.now_s += 5
        assert refused(lambda: located(exports, file.handle, CONTEXT)) == errno.ESTALE
        now = found(exports, b"a.txt")
        assert (now.kind, now.handle != file.handle) == (FileKind.DIRECTORY, True)
        assert now.attributes().number != file.attributes().number


def test_the_library_is_asked_once_in_the_stated_time_and_never_at_once(files: Store, tmp_path: Path) -> None:
    clock = Clock()
    with exported(tmp_path, clock=clock, valid_s=5) as exports:
        root = exports.trees[0].root
        assert root.lookup(ME, b"a.txt", at_once=True) is None
        handle = found(exports, b"a.txt").handle
        Store.calls.clear()
        for node in (located(exports, handle, AT_ONCE), root.lookup(ME, b"a.txt", at_once=True)):
            assert node is not None
            assert node.attributes().size == 5
        names_in(root), names_in(root)
        assert Store.calls == {"ls": 1}
        clock.now_s += 4.9
        assert located(exports, handle, AT_ONCE) is not None
        clock.now_s += 0.1
        assert located(exports, handle, AT_ONCE) is None
        assert located(exports, handle, CONTEXT) is not None
        assert Store.calls == {"ls": 1, "info": 1}
        inner = found(exports, b"deep", b"er")
        exports.remote.nodes.drop_all()
        assert inner.lookup(ME, b"..", at_once=True) is None
        assert found(exports, b"deep").handle == inner.parent().handle


def test_a_listing_with_attributes_leaves_no_question_about_its_objects(files: Store, tmp_path: Path) -> None:
    with exported(tmp_path) as exports:
        entries = list(found(exports).entries(ME, 0, detailed=True))
        Store.calls.clear()
        for entry in entries:
            assert entry.handle is not None
            node = located(exports, entry.handle, AT_ONCE)
            assert node is not None
            assert node.attributes() is entry.attributes
        assert not Store.calls


def test_changes_underneath_are_seen_after_the_stated_time(files: Store, tmp_path: Path) -> None:
    clock = Clock()
    with exported(tmp_path, clock=clock, valid_s=5) as exports:
        root, file, gone = found(exports), found(exports, b"a.txt"), found(exports, b"deep", b"er", b"b.bin")
        opened = file.open(ME, READ, at_once=False)
        assert content(file) == b"hello"
        assert sorted(names_in(root)) == [b"a.txt", b"deep", b"empty"]
        files.pipe("/bucket/a.txt", b"HELLO")
        files.pipe("/bucket/new", b"")
        files.rm("/bucket/deep/er/b.bin")
        clock.now_s += 5
        now, root_now = located(exports, file.handle, CONTEXT), located(exports, root.handle, CONTEXT)
        assert now is not None
        assert root_now is not None
        assert content(now) == b"HELLO"
        before, after = file.attributes(), now.attributes()
        assert before.change != after.change
        assert before.ctime_ns != after.ctime_ns
        assert opened.attributes() is before
        assert sorted(names_in(root_now)) == [b"a.txt", b"empty", b"new"]
        assert root.attributes().change != root_now.attributes().change
        assert root.attributes().ctime_ns != root_now.attributes().ctime_ns
        assert refused(lambda: located(exports, gone.handle, CONTEXT)) == errno.ESTALE
        assert refused(lambda: found(exports, b"deep", b"er", b"b.bin")) == errno.ENOENT


def test_a_new_content_is_read_after_the_system_clock_was_set_back(
    files: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, now_s = Clock(), 1_500_000_000
    Store.answers["info"] = lambda path, **_: {
        "name": path,
        "type": "file" if path.endswith(".txt") else "directory",
        "size": 5,
        "mtime": now_s,
    }
    with exported(tmp_path, clock=clock) as exports:
        monkeypatch.setattr(time, "time_ns", lambda: now_s * 10**9)
        file = found(exports, b"a.txt")
        assert content(file) == b"hello"
        files.pipe("/bucket/a.txt", b"HELLO")
        clock.now_s += 5
        now = located(exports, file.handle, CONTEXT)
        assert now is not None
        assert content(now) == b"HELLO"


def test_an_object_that_has_not_changed_stays_in_its_state(files: Store, tmp_path: Path) -> None:
    clock = Clock()
    with exported(tmp_path, clock=clock) as exports:
        file = found(exports, b"a.txt")
        assert content(file) == b"hello"
        listed = next(entry for entry in found(exports).entries(ME, 2, detailed=True) if entry.name == b"a.txt")
        clock.now_s += 60
        now = located(exports, file.handle, CONTEXT)
        assert now is not None
        states = [each for each in (file.attributes(), now.attributes(), listed.attributes) if each is not None]
        assert len({(state.change, state.ctime_ns, state.mtime_ns) for state in states}) == 1
        assert content(now) == b"hello"
        assert Store.calls["cat_file"] == 1


def test_a_file_without_time_and_identity_counts_as_changed_after_the_stated_time(files: Store, tmp_path: Path) -> None:
    Store.answers["info"] = lambda path, **_: {
        "name": path,
        "type": "file" if path.endswith(".txt") else "directory",
        "size": 5,
    }
    clock = Clock()
    with exported(tmp_path, clock=clock) as exports:
        file = found(exports, b"a.txt")
        assert content(file) == b"hello"
        assert file.attributes().mtime_ns == exports.remote.started_ns
        files.pipe("/bucket/a.txt", b"HELLO")
        clock.now_s += 5
        now = located(exports, file.handle, CONTEXT)
        assert now is not None
        assert content(now) == b"HELLO"
        assert now.attributes().ctime_ns != file.attributes().ctime_ns


def test_a_file_that_is_cut_while_it_is_read_is_asked_for_again(files: Store, tmp_path: Path) -> None:
    with exported(tmp_path) as exports:
        file = found(exports, b"deep", b"er", b"b.bin")
        files.pipe("/bucket/deep/er/b.bin", b"short")
        assert refused(lambda: content(file)) == errno.EAGAIN
        now = located(exports, file.handle, AT_ONCE)
        assert now is not None
        assert content(now) == b"short"
        files.rm("/bucket/deep/er/b.bin")
        exports.remote.blocks.drop_all()
        assert refused(lambda: content(now)) == errno.ESTALE


def test_the_libraries_own_listings_are_not_believed(files: Store, tmp_path: Path) -> None:
    asked: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "invalidate_cache", lambda self, path=None: asked.append(path))
        with exported(tmp_path) as exports:
            found(exports, b"a.txt")
            names_in(found(exports))
    assert asked == ["/bucket/a.txt", "/bucket"]


def test_a_listing_goes_on_after_a_restart_and_a_change(files: Store, tmp_path: Path) -> None:
    files.pipe({f"/bucket/many/{number}": b"x" * number for number in range(30)})
    with exported(tmp_path) as exports:
        directory = found(exports, b"many")
        listed = list(directory.entries(ME, 0, detailed=True))
        part = directory.entries(ME, 0, detailed=False)
        assert next(iter(part)).handle is None
        assert not part.complete
        assert refused(lambda: found(exports, b"a.txt").entries(ME, 0, detailed=False)) == errno.ENOTDIR
    files.rm(f"/bucket/many/{listed[5].name.decode()}")
    with exported(tmp_path) as exports:
        assert names_in(found(exports, b"many"), listed[5].cookie) == [entry.name for entry in listed[6:]]


def test_an_export_whose_objects_are_all_gone_is_an_empty_directory(files: Store, tmp_path: Path) -> None:
    clock = Clock()
    with exported(tmp_path, "store://other", clock=clock) as exports:
        files.rm("/other", recursive=True)
        clock.now_s += 5
        root = found(exports)
        assert names_in(root) == []
        assert refused(lambda: found(exports, b"secret")) == errno.ENOENT


def test_passwords_of_urls_are_not_shown(tmp_path: Path) -> None:
    assert shown_url("ftp://user:secret@host/a:b@c") == "ftp://user:...@host/a:b@c"
    assert shown_url("zip://::ftp://u:pass@h/x.zip") == "zip://::ftp://u:...@h/x.zip"
    assert shown_url("ftp://u@corp:p@s:s@h/x and http://h:80/x") == "ftp://u@corp:...@h/x and http://h:80/x"
    with (
        contextlib.closing(open_state(tmp_path, os.urandom)) as state,
        pytest.raises(OSError, match="cannot export ftp:") as caught,
    ):
        ServerExports([Export(name="/", url="ftp://me:secret@nowhere.invalid:x/y", read_only=True)], state)
    assert "secret" not in str(caught.value)


@each_case(
    ("url", "text"),
    [
        ("nonsense://x", "nonsense://x: Protocol not known: nonsense"),
        ("store://none", "cannot export store://none: nothing is there"),
        ("store://bucket/x", "it is no directory"),
        (
            "store-needs-a-package://x",
            "cannot export store-needs-a-package://x: Install storelib: pip install storelib",
        ),
        ("file:///none/such", "nothing is there"),
    ],
)
def test_a_url_that_cannot_be_exported_names_the_cause(url: str, text: str, tmp_path: Path) -> None:
    Store.clear()
    Store(skip_instance_cache=True).pipe("/bucket/x", b"")
    missing = {"class": "storelib_that_is_missing.Store", "err": "Install storelib: pip install storelib"}
    with pytest.MonkeyPatch.context() as patch, contextlib.closing(open_state(tmp_path, os.urandom)) as state:
        patch.setitem(known_implementations, "store-needs-a-package", missing)
        with pytest.raises(OSError, match="cannot export") as caught:
            ServerExports([Export(name="/", url=url, read_only=True)], state)
    assert text in str(caught.value)


def test_a_missing_package_is_told_of_without_the_metadata_of_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ImportError("Install s3fs to access S3")
    for protocol in ("s3", "s3a"):
        assert missing_package(protocol, error) == "Install s3fs to access S3: pip install 'fsspec[s3]'"
    assert missing_package("https", error).endswith(": pip install 'fsspec[http]'")
    monkeypatch.setattr(sys, "meta_path", [])
    assert missing_package("s3", error) == "Install s3fs to access S3"


def test_without_fsspec_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with (
        contextlib.closing(open_state(tmp_path, os.urandom)) as state,
        pytest.raises(
            OSError, match="cannot export s3://b: the package fsspec is not installed: run pip install fsspec"
        ),
    ):
        ServerExports([Export(name="/", url="s3://b", read_only=True)], state)


def test_a_library_for_one_thread_gets_an_instance_for_each(files: Store, tmp_path: Path) -> None:
    made: list[Store] = []
    with pytest.MonkeyPatch.context() as patch:
        original = Store.__init__

        def counted(self: Store, *arguments: Any, **options: Any) -> None:
            made.append(self)
            original(self, *arguments, **options)

        patch.setattr(Store, "__init__", counted)
        with exported(tmp_path) as exports:
            store = exports.trees[0].store
            for _ in range(5):
                names_in(found(exports, b"deep"))
            assert len(made) == 1
            with store._lent() as one, store._lent() as two, store._lent() as three:
                assert len({id(each) for each in (one, two, three)}) == 3
            assert len(made) == 3
            patch.setattr(fsspec_store, "NFS_FSSPEC_INSTANCES_MAX", 2)
            with store._lent(), store._lent(), store._lent():
                pass
            assert len(store._idle) == 2


def test_the_objects_in_memory_are_bounded(
    files: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpcrdma.nfs.export.fsspec_tree.NFS_FSSPEC_OBJECTS_MAX", 50)
    files.pipe({f"/bucket/many/{number}": b"" for number in range(200)})
    with exported(tmp_path) as exports:
        entries = list(found(exports, b"many").entries(ME, 2, detailed=True))
        assert len(exports.remote.nodes.held) <= 50
        for entry in entries:
            assert entry.handle is not None
            assert located(exports, entry.handle, CONTEXT) is not None
        exports.close_idle()
        exports.close_idle()
        assert not exports.remote.nodes.held
