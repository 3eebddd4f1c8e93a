"""The interface `rpcrdma.nfs.export.tree`: all trees keep the same rules."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fsspec_rig import AT_ONCE, CONTEXT, ME, located
from rpcrdma.nfs.export import local_files, open_object
from rpcrdma.nfs.export.abilities import Extended, XattrHow
from rpcrdma.nfs.export.access_terms import Export
from rpcrdma.nfs.export.exports import Exports
from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.server_exports import ServerExports
from rpcrdma.nfs.export.server_state import open_state
from rpcrdma.nfs.export.tree import (
    BAD_HANDLE,
    LOOKUP,
    MODIFY,
    NOT_SYNC,
    OFFSET_MAX,
    READ,
    REFUSALS,
    SERVER_TIME,
    Change,
    Create,
    CreateHow,
    FileKind,
    Make,
    Node,
    OpenFile,
    Stable,
    Wanted,
)
from support.cases import each_case

SECOND = 1_000_000_000


@contextlib.contextmanager
def exported(kind: str, tmp_path: Path, **terms: Any) -> Iterator[Exports]:
    """An empty tree of a kind."""
    if kind == "memory":
        yield MemoryTree(lambda: 1.0)
        return
    directory = Path(tmp_path, f"export-{len(list(tmp_path.iterdir()))}")
    directory.mkdir()
    with contextlib.closing(open_state(tmp_path / "state", os.urandom)) as state:
        exports = ServerExports([Export(name="/", directory=directory, root_squash=False, **terms)], state)
        yield exports
        assert exports.close() == []


each_kind = each_case("kind", ["local", "memory"])


@contextlib.contextmanager
def filled(kind: str, tmp_path: Path) -> Iterator[Exports]:
    """A tree of any kind, read-only ones included: a/file with data, a/link to it, and thirty files in a/many."""
    if kind != "fsspec":
        with exported(kind, tmp_path) as exports:
            above = made(root_of(exports), b"a")
            created(above, b"file", b"data")
            made(above, b"link", FileKind.SYMLINK, target=b"file")
            many = made(above, b"many")
            for number in range(30):
                created(many, b"%d" % number)
            yield exports
        return
    above = tmp_path / "export" / "a"
    (above / "many").mkdir(parents=True)
    (above / "file").write_bytes(b"data")
    (above / "link").symlink_to("file")
    for number in range(30):
        (above / "many" / str(number)).touch()
    with contextlib.closing(open_state(tmp_path / "state", os.urandom)) as state:
        exports = ServerExports([Export(name="/", url=f"file://{tmp_path}/export", read_only=True)], state)
        yield exports
        assert exports.close() == []


each_filled_kind = each_case("kind", ["local", "memory", "fsspec"])


def root_of(exports: Exports) -> Node:
    return exports.trees[0].root


def created(directory: Node, name: bytes, data: bytes = b"", how: CreateHow = CreateHow.GUARDED) -> Node:
    verifier = bytes(8) if how is CreateHow.EXCLUSIVE else b""
    node = directory.create(ME, name, Create(how, Wanted(mode=0o644), verifier), Change())
    if data:
        write(node, data)
    return node


def made(directory: Node, name: bytes, kind: FileKind = FileKind.DIRECTORY, **more: Any) -> Node:
    node = directory.make(ME, name, Make(kind, **more), Wanted(), Change())
    assert node is not None
    return node


def opened(node: Node, wanted: int) -> OpenFile:
    file = node.open(ME, wanted, at_once=False)
    assert file is not None
    return file


def write(node: Node, data: bytes, offset: int = 0, stable: Stable = Stable.FILE_SYNC) -> Any:
    file = opened(node, MODIFY)
    with ME.identity:
        return file.write(data, offset, stable, Change(), judge=True)


def content(node: Node) -> bytes:
    into = bytearray(100)
    return bytes(into[: opened(node, READ).read(memoryview(into), 0, at_once=False)])


def found(directory: Node, *names: bytes) -> Node:
    for name in names:
        node = directory.lookup(ME, name, at_once=False)
        assert node is not None
        directory = node
    return directory


def names_in(directory: Node, after: int = 0) -> list[bytes]:
    return [entry.name for entry in directory.entries(ME, after, detailed=False)]


def refused(call: Callable[[], object]) -> int | None:
    """The number of the refusal of a call."""
    with pytest.raises(REFUSALS) as caught:
        call()
    return caught.value.errno


@each_kind
def test_a_handle_that_is_not_ours_and_one_of_a_removed_object_are_told_apart(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        handle = created(root, b"file").handle
        root.remove(ME, b"file", Change(), is_directory=False)
        assert refused(lambda: located(exports, handle, CONTEXT)) == errno.ESTALE
        assert refused(lambda: located(exports, b"strange", CONTEXT)) == BAD_HANDLE


@each_kind
def test_names_that_stand_for_no_single_entry_are_refused(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        created(root, b"file")
        for name, number in (
            (b"", errno.EACCES),
            (b"a/b", errno.EACCES),
            (b"a\0b", errno.EACCES),
            (b"n" * 256, errno.ENAMETOOLONG),
        ):
            calls: list[Callable[[], object]] = [
                lambda name=name: root.lookup(ME, name, at_once=False),  # type: ignore[misc]
                lambda name=name: created(root, name),  # type: ignore[misc]
                lambda name=name: made(root, name),  # type: ignore[misc]
                lambda name=name: root.remove(ME, name, Change(), is_directory=None),  # type: ignore[misc]
                lambda name=name: root.rename(ME, b"file", root, name, Change(), Change()),  # type: ignore[misc]
                lambda name=name: root.rename(ME, name, root, b"new", Change(), Change()),  # type: ignore[misc]
                lambda name=name: found(root, b"file").link(ME, root, name, Change()),  # type: ignore[misc]
            ]
            for call in calls:
                assert refused(call) == number, name
        assert refused(lambda: created(root, b".")) == refused(lambda: made(root, b"..")) == errno.EEXIST
        assert sorted(names_in(root)) == [b".", b"..", b"file"]


@each_kind
def test_a_change_has_the_attributes_before_and_after(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        change = Change()
        root.make(ME, b"a", Make(FileKind.DIRECTORY), Wanted(), change)
        assert change.before is not None
        assert change.after is not None
        assert (change.before.number, change.after.number) == (root.attributes().number,) * 2
        assert change.after.change == root.attributes().change
        failed = Change()
        assert refused(lambda: root.make(ME, b"a", Make(FileKind.DIRECTORY), Wanted(), failed)) == errno.EEXIST
        assert failed.before is not None
        assert failed.after is not None
        never = Change()
        assert (
            refused(lambda: created(root, b"f").make(ME, b"a", Make(FileKind.DIRECTORY), Wanted(), never))
            == errno.ENOTDIR
        )
        assert (never.before, never.after) == (None, None)


@each_kind
def test_the_change_attribute_moves_with_every_change_alone(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        file = created(root, b"file")
        seen = [file.attributes().change]
        for number in range(20):
            write(file, b"%d" % (number % 10))
            seen.append(file.attributes().change)
            file.set_attributes(ME, Wanted(mode=0o600 + number % 2), Change())
            seen.append(file.attributes().change)
        assert seen == sorted(set(seen))
        listed = [root.attributes().change]
        for number in range(20):
            created(root, b"new-%d" % number)
            listed.append(root.attributes().change)
        assert listed == sorted(set(listed))
        again = located(exports, file.handle, CONTEXT)
        assert again is not None
        assert again.attributes().change == opened(file, READ).attributes().change == seen[-1]
        # What changes nothing moves nothing.
        file.link(ME, root, b"other", Change())
        before = [(each.attributes().change, each.attributes().size) for each in (file, root)]
        assert write(file, b"", 99).octets == 0
        assert created(root, b"file", how=CreateHow.UNCHECKED).handle == file.handle
        root.rename(ME, b"file", root, b"other", Change(), Change())
        assert [(each.attributes().change, each.attributes().size) for each in (file, root)] == before


@each_kind
def test_a_file_is_created_in_three_ways(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        file = created(root, b"file", b"data")
        assert refused(lambda: created(root, b"file")) == errno.EEXIST
        same = root.create(ME, b"file", Create(CreateHow.UNCHECKED, Wanted(mode=0o600)), Change())
        assert (same.handle, content(file)) == (file.handle, b"data")
        root.create(ME, b"file", Create(CreateHow.UNCHECKED, Wanted(size=2)), Change())
        assert content(file) == b"da"
        once = Create(CreateHow.EXCLUSIVE, verifier=b"\x11" * 8)
        first, again = (root.create(ME, b"once", once, Change()) for _ in range(2))
        assert first.handle == again.handle
        other = Create(CreateHow.EXCLUSIVE, verifier=b"\x22" * 8)
        assert refused(lambda: root.create(ME, b"once", other, Change())) == errno.EEXIST
        too_large = Create(CreateHow.GUARDED, Wanted(size=OFFSET_MAX + 1))
        assert refused(lambda: root.create(ME, b"large", too_large, Change())) == errno.EFBIG
        assert refused(lambda: found(root, b"large")) == errno.ENOENT
        made(root, b"directory")
        made(root, b"link", FileKind.SYMLINK, target=b"file")
        for how in CreateHow:
            for name in (b"directory", b"link"):
                call = lambda: created(root, name, how=how)  # noqa: B023, E731
                assert refused(call) == errno.EEXIST, (name, how)


@each_kind
def test_other_objects_have_their_kinds(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        link = made(root, b"link", FileKind.SYMLINK, target=b"a/\xff/..")
        assert (link.kind, link.attributes().kind, link.read_link()) == (
            FileKind.SYMLINK,
            FileKind.SYMLINK,
            b"a/\xff/..",
        )
        fifo = made(root, b"fifo", FileKind.FIFO)
        assert found(root, b"fifo").attributes().kind is FileKind.FIFO
        assert refused(fifo.read_link) == errno.EINVAL
        assert refused(lambda: opened(fifo, READ)) == refused(lambda: opened(link, MODIFY)) == errno.EINVAL
        assert refused(lambda: opened(root, READ)) == errno.EISDIR
        assert refused(lambda: made(root, b"no", FileKind.SYMLINK, target=b"a\0b")) == errno.EACCES
        assert refused(lambda: made(root, b"file", FileKind.FILE)) == errno.EINVAL


@each_kind
def test_attributes_are_set_alone_and_together(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        file = created(root_of(exports), b"file", b"data")
        far = (1 << 32) * SECOND + 7
        file.set_attributes(ME, Wanted(mode=0o4711, size=6, atime=-SECOND, mtime=far), Change())
        attributes = file.attributes()
        shown = (attributes.mode, attributes.size, attributes.atime_ns, attributes.mtime_ns, attributes.links)
        assert shown == (0o4711, 6, -SECOND, far, 1)
        assert content(file) == b"data\0\0"
        file.set_attributes(ME, Wanted(atime=SERVER_TIME), Change())
        assert file.attributes().atime_ns > 0
        assert (file.attributes().mtime_ns, file.attributes().mode) == (far, 0o4711)
        assert (
            refused(lambda: file.set_attributes(ME, Wanted(mode=0), Change(), guard=lambda before: False)) == NOT_SYNC
        )
        assert stat.S_IMODE(file.attributes().mode) == 0o4711
        file.set_attributes(ME, Wanted(mode=0o600), Change(), guard=lambda before: before.mode == 0o4711)
        assert file.attributes().mode == 0o600
        assert refused(lambda: file.set_attributes(ME, Wanted(size=OFFSET_MAX + 1), Change())) in {
            errno.EFBIG,
            errno.ENOSPC,
        }
        assert refused(lambda: root_of(exports).set_attributes(ME, Wanted(size=0), Change())) == errno.EISDIR


@each_kind
def test_data_is_read_where_it_was_written(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        file = created(root_of(exports), b"file")
        first = write(file, b"stable", 2, Stable.FILE_SYNC)
        assert (first.octets, first.stable) == (6, Stable.FILE_SYNC)
        later = write(file, b"later", 8, Stable.UNSTABLE)
        assert (later.octets, later.verifier) == (5, first.verifier)
        change, before = Change(), file.attributes()
        assert opened(file, MODIFY).commit(change) == first.verifier
        assert change.after is not None
        assert (change.after.size, change.after.change) == (13, before.change)
        assert file.attributes().change == before.change
        reader = opened(file, READ | MODIFY)
        into = bytearray(b"-" * 20)
        assert reader.read(memoryview(into), 0, at_once=False) == 13
        assert into == b"\0\0stablelater" + b"-" * 7
        assert reader.read(memoryview(into), 13, at_once=False) == 0
        assert reader.read(memoryview(into)[:3], 2, at_once=False) == 3
        assert (reader.handle, reader.attributes().size) == (file.handle, 13)


@each_kind
def test_an_open_file_outlives_its_name(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        file = opened(created(root, b"file", b"data"), READ | MODIFY)
        root.remove(ME, b"file", Change(), is_directory=False)
        into = bytearray(4)
        assert (file.read(memoryview(into), 0, at_once=False), into) == (4, b"data")
        assert file.attributes().links == 0
        with ME.identity:
            assert file.write(b"DATA", 0, Stable.UNSTABLE, Change(), judge=False).octets == 4


@each_kind
def test_names_are_removed_by_kind(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        created(made(root, b"full"), b"file")
        for name in (b"file", b"file2"):
            created(root, name)
        for name in (b"empty", b"empty2"):
            made(root, name)
        for name, is_directory, number in (
            (b"full", False, errno.EISDIR),
            (b"full", True, errno.ENOTEMPTY),
            (b"full", None, errno.ENOTEMPTY),
            (b"file", True, errno.ENOTDIR),
            (b"none", None, errno.ENOENT),
            (b".", False, errno.EACCES),
            (b".", True, errno.EINVAL),
            (b"..", True, errno.EEXIST),
        ):
            change = Change()
            call = lambda: root.remove(ME, name, change, is_directory=is_directory)  # noqa: B023, E731
            assert refused(call) == number, (name, is_directory)
        for name, is_directory in ((b"file", False), (b"empty", True), (b"file2", None), (b"empty2", None)):
            root.remove(ME, name, Change(), is_directory=is_directory)
        assert sorted(names_in(root, 2)) == [b"full"]


@each_kind
def test_names_move_and_replace_others_of_their_kind(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        above = made(root, b"above")
        below = made(above, b"below")
        file = created(root, b"file", b"moved")
        replaced = created(below, b"old", b"replaced").handle
        created(root, b"plain")
        made(root, b"empty")
        left, entered, before = Change(), Change(), file.attributes()
        root.rename(ME, b"file", below, b"old", left, entered)
        assert file.attributes().change != before.change
        assert content(found(below, b"old")) == b"moved"
        assert found(below, b"old").handle == file.handle
        assert refused(lambda: located(exports, replaced, CONTEXT)) == errno.ESTALE
        assert left.after is not None
        assert entered.after is not None
        assert (left.after.number, entered.after.number) == (root.attributes().number, below.attributes().number)
        for old, target, new, number in (
            (b"above", below, b"inside", errno.EINVAL),
            (b"none", root, b"new", errno.ENOENT),
            (b".", root, b"new", errno.EINVAL),
            (b"above", root, b"..", errno.EINVAL),
            (b"above", file, b"new", errno.ENOTDIR),
        ):
            call = lambda: root.rename(ME, old, target, new, Change(), Change())  # noqa: B023, E731
            assert refused(call) == number, (old, new)
        assert refused(lambda: below.rename(ME, b"old", root, b"empty", Change(), Change())) == errno.EISDIR
        assert refused(lambda: above.rename(ME, b"below", below, b"old", Change(), Change())) in {
            errno.EINVAL,
            errno.ENOTDIR,
        }
        below.rename(ME, b"old", below, b"old", Change(), Change())
        assert content(found(root, b"above", b"below", b"old")) == b"moved"
        file.link(ME, root, b"twin", Change())
        root.rename(ME, b"twin", below, b"old", Change(), Change())
        assert found(root, b"twin").attributes().links == 2
        above.rename(ME, b"below", root, b"below", Change(), Change())
        assert found(below, b"..").handle == root.handle


@each_kind
def test_an_object_has_several_names(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        file, directory = created(root, b"file", b"data"), made(root, b"directory")
        change = Change()
        file.link(ME, directory, b"other", change)
        assert change.after is not None
        assert change.after.number == directory.attributes().number
        assert (found(directory, b"other").handle, file.attributes().links) == (file.handle, 2)
        root.remove(ME, b"file", Change(), is_directory=False)
        assert content(found(directory, b"other")) == b"data"
        for call, number in (
            (lambda: file.link(ME, directory, b"other", Change()), errno.EEXIST),
            (lambda: directory.link(ME, root, b"new", Change()), errno.EISDIR),
            (lambda: file.link(ME, file, b"new", Change()), errno.ENOTDIR),
            (lambda: file.link(ME, root, b"..", Change()), errno.EEXIST),
        ):
            assert refused(call) == number
        made(root, b"link", FileKind.SYMLINK, target=b"none").link(ME, root, b"link 2", Change())
        assert found(root, b"link 2").kind is FileKind.SYMLINK


@each_kind
def test_a_listing_goes_on_after_a_name_that_is_removed(kind: str, tmp_path: Path) -> None:
    with exported(kind, tmp_path) as exports:
        root = root_of(exports)
        directory = made(root, b"directory")
        for number in range(9):
            created(directory, b"%d" % number)
        listed = list(directory.entries(ME, 0, detailed=False))
        directory.remove(ME, listed[5].name, Change(), is_directory=False)
        assert names_in(directory, listed[5].cookie) == [entry.name for entry in listed[6:]]
        assert next(iter(directory.entries(ME, 0, detailed=False))).handle is None
        assert refused(lambda: list(created(root, b"file").entries(ME, 0, detailed=False))) == errno.ENOTDIR


@each_filled_kind
def test_a_tree_is_walked_and_read(kind: str, tmp_path: Path) -> None:
    with filled(kind, tmp_path) as exports:
        root = root_of(exports)
        above, file, link = found(root, b"a"), found(root, b"a", b"file"), found(root, b"a", b"link")
        assert (above.kind, file.kind, link.kind) == (FileKind.DIRECTORY, FileKind.FILE, FileKind.SYMLINK)
        assert (content(file), link.read_link(), link.attributes().size) == (b"data", b"file", 4)
        for node in (root, above, file, link):
            same = located(exports, node.handle, CONTEXT)
            assert same is not None
            assert (same.handle, same.kind, same.tree) == (node.handle, node.kind, exports.trees[0])
            assert (same.attributes().number, same.attributes().fsid) == (node.attributes().number, node.tree.fsid)
            assert len(node.handle) <= 64
        assert found(root, b"..").handle == found(root, b"a", b"..").handle == above.parent().handle == root.handle
        assert len({node.attributes().number for node in (root, above, file, link)}) == 4
        assert root.access(ME, READ | LOOKUP) == READ | LOOKUP
        assert file.access(ME, READ) == READ
        assert refused(lambda: opened(above, READ)) == errno.EISDIR
        assert refused(lambda: opened(link, READ)) == refused(file.read_link) == errno.EINVAL
        for name in (b"x", b".", b".."):
            assert refused(lambda name=name: found(file, name)) == errno.ENOTDIR  # type: ignore[misc]
        assert refused(lambda: found(link, b"x")) == errno.ENOTDIR
        assert found(above, b".").handle == above.handle
        assert refused(lambda: found(above, b"none")) == errno.ENOENT
        for name, number in ((b"", errno.EACCES), (b"a/file", errno.EACCES), (b"a\0", errno.EACCES)):
            assert refused(lambda name=name: found(root, name)) == number  # type: ignore[misc]
        assert refused(lambda: found(root, b"n" * 256)) == errno.ENAMETOOLONG
        assert refused(lambda: located(exports, b"strange", CONTEXT)) == BAD_HANDLE
        assert root.path_limits().name_octets == 255
        assert root.space().total >= root.space().available >= 0


@each_filled_kind
def test_a_tree_is_listed_in_one_order_from_each_cookie(kind: str, tmp_path: Path) -> None:
    with filled(kind, tmp_path) as exports:
        many = found(root_of(exports), b"a", b"many")
        entries = many.entries(ME, 0, detailed=True)
        listed = list(entries)
        assert entries.complete
        assert [(entry.cookie, entry.name) for entry in listed[:2]] == [(1, b"."), (2, b"..")]
        assert {entry.name for entry in listed[2:]} == {b"%d" % number for number in range(30)}
        assert [entry.cookie for entry in listed] == sorted({entry.cookie for entry in listed})
        for entry in listed:
            node = found(many, entry.name)
            assert (entry.handle, entry.number) == (node.handle, node.attributes().number)
            assert entry.attributes is not None
            assert (entry.attributes.kind, entry.attributes.change) == (node.kind, node.attributes().change)
        for place, entry in enumerate(listed):
            assert names_in(many, entry.cookie) == [later.name for later in listed[place + 1 :]]


@each_filled_kind
def test_a_method_that_may_not_wait_answers_or_gives_none(kind: str, tmp_path: Path) -> None:
    with filled(kind, tmp_path) as exports:
        file = found(root_of(exports), b"a", b"file")
        same = located(exports, file.handle, AT_ONCE)
        assert same is not None
        reader = same.open(ME, READ, at_once=True) or opened(file, READ)
        buffer = bytearray(4)
        got = reader.read(memoryview(buffer), 0, at_once=True)
        got += reader.read(memoryview(buffer)[got:], got, at_once=False) if got < 4 else 0
        assert (got, buffer) == (4, b"data")
        assert reader.read(memoryview(buffer), 1, at_once=True) == 3
        many = found(root_of(exports), b"a").lookup(ME, b"many", at_once=True)
        assert many is None or many.kind is FileKind.DIRECTORY


def test_a_change_within_a_tick_of_the_clock_is_seen_in_each_export_and_in_listings(tmp_path: Path) -> None:
    with exported("local", tmp_path) as exports:
        assert isinstance(exports, ServerExports)
        file: Any = created(root_of(exports), b"file", b"data")
        directory = exports.trees[0].export.directory
        exports.install(exports.plan([Export(name=name, directory=directory) for name in ("/", "/again")]))
        again = found(exports.trees[1].root, b"file")
        assert again.handle != file.handle
        before = again.attributes()
        with open_object.Changing(file, Change()):
            # The time of a change does not move within a tick.
            pass
        after = again.attributes()
        assert (after.ctime_ns, after.change) == (before.ctime_ns, before.change + 1)
        assert after.change == file.attributes().change
        for tree in exports.trees:
            (listed,) = (each for each in tree.root.entries(ME, 2, detailed=True) if each.name == b"file")
            assert listed.attributes is not None
            assert listed.attributes.change == after.change


def test_a_failed_change_is_counted_if_and_only_if_it_has_changed_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Status:
        """The status of a file within one tick of the clock for changes."""

        st_ctime_ns = 1

        def __init__(self, fd: int) -> None:
            self.status = fstat(fd)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.status, name)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with exported("local", tmp_path) as exports:
        root = root_of(exports)
        file = created(root, b"file")
        fstat = os.fstat
        monkeypatch.setattr(os, "fstat", Status)
        monkeypatch.setattr(local_files, "set_file_times", fail)
        before = file.attributes().change, root.attributes().change
        assert refused(lambda: file.set_attributes(ME, Wanted(mode=0o600, mtime=5), Change())) == errno.ENOSPC
        assert refused(lambda: created(root, b"file")) == errno.EEXIST
        assert file.attributes().mode == 0o600
        assert (file.attributes().change, root.attributes().change) == (before[0] + 1, before[1])


def test_the_counts_of_changes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_object, "NFS_CHANGES_COUNTED_MAX", 5)
    with exported("local", tmp_path) as exports:
        files = [created(root_of(exports), b"%d" % number, b"data") for number in range(20)]
        assert isinstance(exports, ServerExports)
        assert len(exports.parts.changes) == 5
        for file in files:
            before = file.attributes().change
            write(file, b"DATA")
            assert file.attributes().change > before


def test_attributes_of_programs_are_kept_by_name(tmp_path: Path) -> None:
    with exported("local", tmp_path) as exports:
        node: Any = created(root_of(exports), b"file")
        assert node.tree.xattrs
        assert isinstance(node, Extended)
        before, change = node.attributes().change, Change()
        for how in (XattrHow.CREATE, XattrHow.REPLACE, XattrHow.EITHER):
            node.set_xattr(ME, b"name", b"%d" % how, how, change)
            assert node.get_xattr(ME, b"name") == b"%d" % how
        assert change.after is not None
        assert change.after.change == node.attributes().change != before
        node.set_xattr(ME, b"other", b"", XattrHow.CREATE, Change())
        assert sorted(node.list_xattrs(ME)) == [b"name", b"other"]
        node.remove_xattr(ME, b"name", Change())
        assert node.list_xattrs(ME) == [b"other"]
        assert refused(lambda: node.get_xattr(ME, b"name")) == errno.ENODATA
        assert refused(lambda: node.remove_xattr(ME, b"name", Change())) == errno.ENODATA
        assert refused(lambda: node.set_xattr(ME, b"name", b"", XattrHow.REPLACE, Change())) == errno.ENODATA
        assert refused(lambda: node.set_xattr(ME, b"other", b"", XattrHow.CREATE, Change())) == errno.EEXIST
