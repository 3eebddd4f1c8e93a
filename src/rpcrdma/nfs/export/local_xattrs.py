"""Extended attributes of local files and directories: see `abilities.Extended`."""

from __future__ import annotations

import errno
import os

from rpcrdma.nfs.export.abilities import XattrHow
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.linux_calls import USER_XATTRS, faccess_as_caller
from rpcrdma.nfs.export.local_object import LocalObject
from rpcrdma.nfs.export.open_object import Changing
from rpcrdma.nfs.export.tree import Change, Refused

__all__ = ["Xattrs"]


class Xattrs(LocalObject):
    """A base class of `LocalNode`, the objects of local directories: the methods of `abilities.Extended`.

    Attributes are those of Linux with the prefix "user.", which names here lack. The kernel checks permissions. Changes
    are synced if the export asks for that.
    """

    __slots__ = ()

    def get_xattr(self, who: Grant, name: bytes) -> bytes:
        with who.identity:
            return os.getxattr(self.proc_path, USER_XATTRS + name)

    def set_xattr(self, who: Grant, name: bytes, value: bytes, how: XattrHow, change: Change) -> None:
        with Changing(self, change), who.identity:
            os.setxattr(self.proc_path, USER_XATTRS + name, value, how)
        self.tree.parts.synchronize(self)

    def list_xattrs(self, who: Grant) -> list[bytes]:
        with who.identity:
            # The kernel would list the names all the same.
            if not faccess_as_caller(self.fd, os.R_OK):
                raise Refused(errno.EACCES)
            names = [os.fsencode(name) for name in os.listxattr(self.proc_path)]
        return [name.removeprefix(USER_XATTRS) for name in names if name.startswith(USER_XATTRS)]

    def remove_xattr(self, who: Grant, name: bytes, change: Change) -> None:
        with Changing(self, change), who.identity:
            os.removexattr(self.proc_path, USER_XATTRS + name)
        self.tree.parts.synchronize(self)
