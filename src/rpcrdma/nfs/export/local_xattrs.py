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
    """The part of the class of local nodes that has extended attributes; the kernel checks the caller's permissions."""

    __slots__ = ()

    def get_xattr(self, who: Grant, name: bytes) -> bytes:
        """Returns the value of attribute `name` (without "user."); raises OSError: ENODATA: there is none; EACCES."""
        with who.identity:
            return os.getxattr(self.proc_path, USER_XATTRS + name)

    def set_xattr(self, who: Grant, name: bytes, value: bytes, how: XattrHow, change: Change) -> None:
        """Creates or replaces the attribute `name`, as `how` allows, and syncs the object if the export asks for it.

        `change` gets the object's attributes (`tree.Attributes`) before and after. Raises OSError: EEXIST: `how` is
        CREATE and the attribute exists; ENODATA: `how` is REPLACE and it does not; EACCES, E2BIG, ENOSPC and others.
        """
        with Changing(self, change), who.identity:
            os.setxattr(self.proc_path, USER_XATTRS + name, value, how)
        self.tree.parts.synchronize(self)

    def list_xattrs(self, who: Grant) -> list[bytes]:
        """Returns the names, without "user.", of all user attributes, if the caller `who` may read the object.

        Raises Refused (EACCES) for other callers, to whom the kernel itself would list them, or OSError.
        """
        with who.identity:
            if not faccess_as_caller(self.fd, os.R_OK):
                raise Refused(errno.EACCES)
            names = [os.fsencode(name) for name in os.listxattr(self.proc_path)]
        return [name.removeprefix(USER_XATTRS) for name in names if name.startswith(USER_XATTRS)]

    def remove_xattr(self, who: Grant, name: bytes, change: Change) -> None:
        """Removes the attribute `name`, and syncs the object if the export asks for it.

        `change` gets the object's attributes before and after. Raises OSError: ENODATA: there is none; EACCES and
        others.
        """
        with Changing(self, change), who.identity:
            os.removexattr(self.proc_path, USER_XATTRS + name)
        self.tree.parts.synchronize(self)
