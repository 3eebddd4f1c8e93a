"""The pseudo file system above the exports (RFC 8881 section 7.3): clients mount the root and find each export by name.

The names of exports are paths in it. It has a directory for each part of a name that is no export itself, which nobody
can change. The one export "/" is its own root: then there is nothing above. Below an export, a directory that the
export itself has takes the place of such a directory, and an export covers the object at its path there. The module
`handles` applies these two rules, for which the server has to look at files.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn, TypeAlias

from rpcrdma.nfs.export.access_terms import ExportTerms
from rpcrdma.nfs.export.directory_listing import KnownEntries
from rpcrdma.nfs.export.export_limits import NFS_DECISIONS_MAX
from rpcrdma.nfs.export.exports import Exports
from rpcrdma.nfs.export.grant import Grant, ServingUser
from rpcrdma.nfs.export.read_only import ReadOnlyNode
from rpcrdma.nfs.export.tree import (
    EXECUTE,
    LOOKUP,
    READ,
    TRANSFER_OCTETS_MAX,
    Access,
    Attributes,
    Entry,
    FileKind,
    Node,
    OpenFile,
    Refused,
    Tree,
)
from rpcrdma.nfs.v4.server.root_attributes import RootAttributes
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.host_identity import CallOrigin
from rpcrdma.rpc.service import CallContext

__all__ = ["Mounted", "PseudoRoot"]

_Path: TypeAlias = tuple[bytes, ...]

_HANDLE_BEGINS: Final = b"\0pseudo\0"
_FIRST_COOKIE: Final = 3
"""The cookie of the first entry: 0 to 2 are reserved (RFC 8881 section 18.23.3)."""
_NO_INODE: Final = 1 << 63
"""Is part of the number of what is mounted in an export, so that no file there has this number."""


class Mounted(NamedTuple):
    """An export, or a pseudo directory that leads to one, within another export.

    Of the exports "/data" and "/data/disks/a", the second one is mounted in the first one, and so is the pseudo
    directory /data/disks. `path` has all names from the root of all names on. `above` is the root of the other export.
    `names` are the names of `path` between `above` and the last name: () directly below `above`. The other export need
    not have objects of these names, nor of the last one.
    """

    above: Node
    names: tuple[bytes, ...]
    path: _Path


def _path_of(tree: Tree) -> _Path:
    return tuple(part.encode("utf-8", "surrogateescape") for part in tree.export.name.split("/") if part)


class PseudoRoot:
    """The exports of a server of version 4, with a read-only pseudo file system of the directories above them.

    Args:
        exports: the exported trees; those that are not offered by version 4 are left out.
        made_at_ns: the times of the directories, in nanoseconds since 1970.
    """

    def __init__(self, exports: Exports, made_at_ns: int) -> None:
        self._exports = exports
        self.root_attributes = RootAttributes(lambda: [*self._roots.values()])
        """The attributes of the exports' roots in listings of the directories above."""
        self._tree = _PseudoTree(self)
        self._roots: dict[_Path, Tree] = {}
        self._paths: dict[bytes, _Path] = {}
        self._directories: dict[_Path, _Directory] = {}
        self._by_handle: dict[bytes, _Directory] = {}
        self._names: dict[_Path, dict[bytes, bool]] = {}
        """The sorted names below each path to an export, with whether one leads to an export that is not hidden."""
        self._numbers: dict[_Path, int] = {}
        self._mounted: dict[_Path, Mounted] = {}
        self._mounted_names: dict[bytes, dict[bytes, list[Mounted]]] = {}
        """What is mounted in an export, by the filehandle of that export's root and by the last name of the path."""
        self._waits: bytes | None = None
        self._hosts: dict[CallOrigin, bool] = {}
        """Whether some export admits calls of this origin; kept for the calls of the present exports."""
        self.changed_at_ns = made_at_ns
        self.renew(made_at_ns)

    def renew(self, now_ns: int) -> None:
        """Remakes the pseudo directories above the present exports; never blocks.

        To be called when the exports have changed. A path keeps its filehandle and inode number.

        Args:
            now_ns: the time of the change, in nanoseconds since 1970, which becomes that of all directories.
        """
        roots = {_path_of(tree): tree for tree in self._exports.trees if 4 in tree.export.versions}
        above = {(), *(path[:length] for path in roots for length in range(len(path)))} - roots.keys()
        names: dict[_Path, dict[bytes, bool]] = {}
        for path in sorted(roots):
            shown = not roots[path].export.hidden
            for length, name in enumerate(path):
                below = names.setdefault(path[:length], {})
                below[name] = below.get(name, False) or shown
        mounted = {}
        by_name: dict[bytes, dict[bytes, list[Mounted]]] = {}
        for path in (*sorted(above), *roots):
            self._numbers.setdefault(path, len(self._numbers) + 1 | _NO_INODE)
            for length in range(len(path) - 1, -1, -1):
                if path[:length] in roots:
                    root = roots[path[:length]].root
                    mounted[path] = Mounted(root, path[length:-1], path)
                    by_name.setdefault(root.handle, {}).setdefault(path[-1], []).append(mounted[path])
                    break
        present = self._directories
        directories = {path: present.get(path) or _Directory(self, path, self._numbers[path]) for path in above}
        # Calls look at them meanwhile: a root is never found before the directories that lead to it.
        self._directories = present | directories
        self._by_handle = {directory.handle: directory for directory in self._directories.values()}
        self._paths = {tree.root.handle: path for path, tree in roots.items()}
        self._roots = roots
        self._names = names
        divided = any(self._exports.waits_for(tree.root.handle) is not None for tree in roots.values())
        self._waits = _HANDLE_BEGINS if divided else None
        self._mounted, self._mounted_names = mounted, by_name
        self._directories = directories
        self._by_handle = {directory.handle: directory for directory in directories.values()}
        # A thread that looks at the roots before may still add to the old dictionary.
        self._hosts = {}
        self.changed_at_ns = now_ns

    @property
    def trees(self) -> Sequence[Tree]:
        """All exported trees, also those not offered by version 4, in their order, without the pseudo file system."""
        return self._exports.trees

    @property
    def pseudo_tree(self) -> Tree:
        """The pseudo file system, as a tree."""
        return self._tree

    @property
    def root(self) -> Node:
        """The root of all names: a directory of the pseudo file system, or the root of the export "/"."""
        return self.at(())

    def at(self, path: _Path) -> Node:
        """Returns the pseudo directory or export root at `path` (names); raises Refused (ESTALE) if there is none."""
        found = self._roots.get(path)
        if found is not None:
            return found.root
        directory = self._directories.get(path)
        if directory is None:
            raise Refused(errno.ESTALE)
        return directory

    def mounted_in(self, tree: Tree) -> Mapping[bytes, Sequence[Mounted]]:
        """Returns the exports mounted in an export, and the pseudo directories to them, by the last name of each path.

        The caller must not change the result.
        """
        return self._mounted_names.get(tree.root.handle, {}) if self._mounted_names else {}

    def place_of(self, node: Node) -> Mounted | None:
        """Returns the place at which `node`, an export's root or a pseudo directory, lies below another export's root.

        Of several exports above `node`, the place is in the nearest one. Returns None if no export is above `node`, and
        for other objects. Does not look at files.
        """
        path = node.path if isinstance(node, _Directory) else self._paths.get(node.handle)
        return None if path is None else self._mounted.get(path)

    def export_of(self, handle: bytes) -> Tree | None:
        """Returns the export whose root has this filehandle; None if no root has it."""
        path = self._paths.get(handle)
        # A worker thread may ask in the midst of `renew`.
        return None if path is None else self._roots.get(path)

    def is_export(self, node: Node) -> bool:
        """Returns whether an object is the root of an export."""
        return node.handle in self._paths

    def parent(self, node: Node) -> Node | None:
        """Returns the directory above `node`, the root of an export or a directory of the pseudo file system.

        Does not look at files: for a `node` mounted in another export, the result is a pseudo directory even if that
        export has a real directory at the place, which `handles.parent_of` finds. Returns None above the root of all
        names. Raises Refused (ESTALE) if the export has ended, or for other objects.
        """
        path = node.path if isinstance(node, _Directory) else self._paths.get(node.handle)
        if path is None:
            raise Refused(errno.ESTALE)
        return self.at(path[:-1]) if path else None

    def mounted_on(self, node: Node) -> int | None:
        """Returns the inode number of the pseudo directory covered by `node`, an export's root; None for others.

        For an export below another one, this is a number that no file of the other one has.
        """
        path = self._paths.get(node.handle)
        if path is None:
            return None
        return self._numbers[path]

    def names_below(self, path: _Path, *, hidden: bool = True) -> list[bytes]:
        """Returns the sorted names directly below `path`, a tuple of names, that lead to exports; [] if none do.

        `path` is that of a pseudo directory, or of an export in which others are mounted. With `hidden` False, leaves
        out names that lead to hidden exports alone (`ExportTerms.hidden`).
        """
        return [name for name, shown in self._names.get(path, {}).items() if hidden or shown]

    def locate(self, handle: bytes, context: CallContext, *, any_flavor: bool = False) -> tuple[Node, Grant] | None:
        """Returns the object of a filehandle and the caller's rights; None in the event loop if this may block.

        `any_flavor`: whether the call may have any security flavor.

        Raises:
            Refused: BAD_HANDLE: this server did not make the handle; ESTALE: its export or the object is gone; EACCES:
                the export is closed to this call; EAGAIN: a search has to wait; and others.
            CredentialTooWeak: the export asks for another security flavor.
            OSError: the server is not permitted to reach the object, or the system fails.
        """
        found = self._by_handle.get(handle)
        if found is None and handle.startswith(_HANDLE_BEGINS):
            # No export is below it any more.
            raise Refused(errno.ESTALE)
        if found is not None:
            return found, _GRANT
        return self._exports.locate(handle, context, 4, any_flavor=any_flavor)

    def check_host(self, context: CallContext) -> None:
        """Raises Refused (EACCES) if no rule of any export admits a call's host, whoever its user is; never blocks.

        The refusal is logged as that of the first export. Without an export, such as before the file systems are
        mounted, each host passes.
        """
        hosts, roots, origin = self._hosts, self._roots, context.client.origin
        passes = hosts.get(origin)
        if passes is None:
            if len(hosts) >= NFS_DECISIONS_MAX:
                hosts.clear()
            passes = hosts[origin] = not roots or any(tree.export.admitting(origin) for tree in roots.values())
        # Another thread may clear `hosts`, and may have ended all exports since it was filled.
        if roots and not passes:
            next(iter(roots.values())).admit(context, 4)

    def file_of(self, handle: bytes) -> bytes:
        """Returns the key of a filehandle's object in `Claims`, the table of opens and locks: one for each object."""
        return handle if handle in self._by_handle else self._exports.file_of(handle)

    def waits_for(self, handle: bytes) -> bytes | None:
        """Returns octets that identify the file system on which a call with this handle may block, for comparison.

        The pseudo file system counts as one: a call that begins there may block on any export that it lists or enters.
        None: not distinguished, as where all exports are on one file system.
        """
        return self._waits if handle in self._by_handle else self._exports.waits_for(handle)


_GRANT: Final = Grant(ServingUser(), read_only=True)
"""The rights of every caller in the pseudo file system."""


class _PseudoTree:
    """The pseudo file system above the exports as a `tree.Tree`, which every caller may read and nobody change.

    Its security flavors are those of all exports that version 4 serves.
    """

    export = ExportTerms(name="/", read_only=True)
    fsid = 0
    in_memory = True
    always_waits = False
    keeps_removed = True
    transfer_octets = TRANSFER_OCTETS_MAX
    xattrs = False

    def __init__(self, exports: PseudoRoot) -> None:
        self._exports = exports

    @property
    def root(self) -> Node:
        return self._exports.root

    def admit(self, _context: CallContext, _version: int) -> Grant:
        return _GRANT

    admit_mount = admit

    def flavors(self, _context: CallContext) -> Sequence[SecurityFlavor]:
        terms = (tree.export for tree in self._exports.trees)
        rules = (rule for each in terms if 4 in each.versions for rule in each.all_rules)
        return list(dict.fromkeys(flavor for rule in rules for flavor in rule.flavors))


class _Directory(ReadOnlyNode):
    """A directory of the pseudo file system: a `tree.Node` that no call can change.

    Only a listing blocks, for attributes of exports (`RootAttributes`). `path` has its names from the root of all
    names, and `number` is its inode number.
    """

    kind = FileKind.DIRECTORY

    def __init__(self, exports: PseudoRoot, path: _Path, number: int) -> None:
        self._exports = exports
        self.path = path
        self.handle = _HANDLE_BEGINS + hashlib.sha256(b"/".join(path)).digest()[:16]
        self.number = number

    @property
    def tree(self) -> Tree:
        return self._exports.pseudo_tree

    def attributes(self) -> Attributes:
        time = self._exports.changed_at_ns
        return Attributes(
            kind=FileKind.DIRECTORY,
            mode=0o555,
            links=2 + len(self._exports.names_below(self.path, hidden=False)),
            uid=0,
            gid=0,
            size=4096,
            space_used=0,
            device=(0, 0),
            fsid=_PseudoTree.fsid,
            number=self.number,
            atime_ns=time,
            mtime_ns=time,
            ctime_ns=time,
            change=time,
        )

    def access(self, _who: Grant, wanted: Access) -> Access:
        return wanted & (READ | LOOKUP | EXECUTE)

    def lookup(self, _who: Grant, name: bytes, *, at_once: bool) -> Node:  # noqa: ARG002 - it never waits
        if name not in self._exports.names_below(self.path):
            raise Refused(errno.ENOENT)
        return self._exports.at((*self.path, name))

    def parent(self) -> Node:
        return self._exports.parent(self) or self

    def entries(self, _who: Grant, after: int, *, detailed: bool) -> KnownEntries:
        entries = []
        names = self._exports.names_below(self.path)
        shown_names = {*self._exports.names_below(self.path, hidden=False)}
        # A name that is hidden or shown anew changes the cookie of no other one.
        for cookie, name in enumerate(names, _FIRST_COOKIE):
            if cookie > after and name in shown_names:
                # A reload may have ended the export meanwhile.
                with contextlib.suppress(Refused):
                    node = self._exports.at((*self.path, name))
                    shown = (node.handle, self._exports.root_attributes.of(node)) if detailed else (None, None)
                    number = self._exports.mounted_on(node) or node.attributes().number
                    entries.append(Entry(cookie, name, number, *shown))
        return KnownEntries(entries)

    def read_link(self) -> bytes:
        raise Refused(errno.EINVAL)

    def open(self, _who: Grant, _wanted: Access, *, at_once: bool) -> OpenFile | None:  # noqa: ARG002 - no file
        raise Refused(errno.EISDIR)

    def open_to_read(self, _who: Grant, *, at_once: bool) -> NoReturn:  # noqa: ARG002 - no file
        raise Refused(errno.EISDIR)
