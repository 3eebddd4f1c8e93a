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

    Attributes are those of Linux with the prefix "user.", which names here lack. The kernel checks permissions.
    """

    __slots__ = ()

    def get_xattr(self, who: Grant, name: bytes) -> bytes:
        """Returns the value of the attribute `name`, read as the caller `who`.

        Raises OSError: ENODATA: there is no such attribute; EACCES and others.
        """
        with who.identity:
            return os.getxattr(self.proc_path, USER_XATTRS + name)

    def set_xattr(self, who: Grant, name: bytes, value: bytes, how: XattrHow, change: Change) -> None:
        """Creates or replaces the attribute `name` as the caller `who`; syncs the object if the export asks for that.

        `change` gets the object's attributes (`tree.Attributes`) before and after. Raises OSError: EEXIST: `how` is
        CREATE and the attribute exists; ENODATA: `how` is REPLACE and it does not; EACCES, E2BIG, ENOSPC and others.
        """
        with Changing(self, change), who.identity:
            os.setxattr(self.proc_path, USER_XATTRS + name, value, how)
        self.tree.parts.synchronize(self)

    def list_xattrs(self, who: Grant) -> list[bytes]:
        """Returns the names, without "user.", of all user attributes, if the caller `who` may read the object.

        Raises Refused (EACCES) if `who` may not, although the kernel would list the names; or OSError.
        """
        with who.identity:
            if not faccess_as_caller(self.fd, os.R_OK):
                raise Refused(errno.EACCES)
            names = [os.fsencode(name) for name in os.listxattr(self.proc_path)]
        return [name.removeprefix(USER_XATTRS) for name in names if name.startswith(USER_XATTRS)]

    def remove_xattr(self, who: Grant, name: bytes, change: Change) -> None:
        """Removes the attribute `name` as the caller `who`, and syncs the object if the export asks for that.

        `change` gets the object's attributes (`tree.Attributes`) before and after. Raises OSError: ENODATA: no such
        attribute; EACCES and others.
        """
        with Changing(self, change), who.identity:
            os.removexattr(self.proc_path, USER_XATTRS + name)
        self.tree.parts.synchronize(self)
