"""The identity of the object behind a descriptor: a few octets that no other object of its file system ever gets.

The first octet tells the form of the rest:

    0  the kernel's own handle: its type in one octet, its data
    1  a digest of a kernel handle that is too long to carry
    2  the time of birth, where the file system has no handles
    3  nothing: the inode number has to do
"""

from __future__ import annotations

import errno
import hashlib
import struct

from rpcrdma.nfs.server.file_handle import IDENTITY_MAX
from rpcrdma.nfs.server.linux_calls import birth_and_mount, name_to_handle

__all__ = ["kernel_handle", "object_identity"]

_BIRTH = struct.Struct(">Bq")
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.EOVERFLOW, errno.ENOSYS, errno.EPERM, errno.EINVAL}


def object_identity(fd: int) -> tuple[bytes, int]:
    """(identity, mount) of the object behind `fd`; the mount only serves for comparison with other objects'."""
    try:
        handle = name_to_handle(fd)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        birth, mount = birth_and_mount(fd)
        return (_BIRTH.pack(2, birth) if birth else b"\x03"), mount
    if len(handle.data) > IDENTITY_MAX - 2 or handle.type > 0xFF:
        digest = hashlib.blake2b(handle.data, digest_size=16, salt=struct.pack(">i", handle.type)).digest()
        return b"\x01" + digest, handle.mount
    return bytes((0, handle.type)) + handle.data, handle.mount


def kernel_handle(identity: bytes) -> tuple[int, bytes] | None:
    """(type, data) of the kernel handle in an identity, if it holds one."""
    return (identity[1], identity[2:]) if identity[0] == 0 else None
