"""NFS file handles: their content, and the seal that only this server's key makes.

    octet 0       layout, 1
    octets 1-4    the export: digest of its name
    octets 5-12   inode number
    octets 13-    the object's identity, 1 to 35 octets
    last 16       keyed BLAKE2b of all octets before

A handle names an object, not a path: it stays valid when the object is renamed and when the server restarts, and goes
stale when the object is deleted, even if its inode number is used again. For that it carries the object's identity, a
few octets that no other object of the file system ever gets. Their first octet tells the form of the rest:

    0  the kernel's own handle: its type in one octet, its data
    1  a digest of a kernel handle that is too long to carry
    2  the time of birth, where the file system has no handles
    3  nothing, where the file system keeps no time of birth either: the inode number alone identifies the object
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import struct
from typing import Final, NamedTuple

from rpcrdma.nfs.export.linux_calls import birth_and_mount, name_to_handle

__all__ = [
    "IDENTITY_MAX",
    "OBJECT_IN_HANDLE",
    "HandleSeal",
    "OpenedHandle",
    "export_identity",
    "kernel_handle",
    "object_identity",
]

_HANDLE_OCTETS_MAX = 64
"""The most octets of a handle in NFSv3; NFSv4 allows 128."""
_LAYOUT = 1
_HEAD = struct.Struct(">B4sQ")
_SEAL_OCTETS = 16
IDENTITY_MAX = _HANDLE_OCTETS_MAX - _HEAD.size - _SEAL_OCTETS
"""The most octets of an object's identity."""
OBJECT_IN_HANDLE: Final = slice(5, -_SEAL_OCTETS)
"""The octets of inode number and identity in a handle."""
_BIRTH = struct.Struct(">Bq")
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.EOVERFLOW, errno.ENOSYS, errno.EPERM, errno.EINVAL}


class OpenedHandle(NamedTuple):
    """The content of an NFS file handle of this server.

    `export` is a result of `export_identity`, and `identity` one of `object_identity`.
    """

    export: bytes
    inode: int
    identity: bytes


def export_identity(name: str) -> bytes:
    """Returns four octets that stand for an export: a digest of its name, the same in each run of the server."""
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=4, person=b"nfs-export").digest()


def object_identity(fd: int) -> tuple[bytes, int]:
    """Returns (identity, mount) of the object behind the descriptor `fd`.

    No other object of the file system ever gets the identity, as far as the file system can ensure that; it has at most
    `IDENTITY_MAX` octets. `mount` is the number of the mount through which the object was opened, which is only good
    for comparison. Raises OSError if `fd` cannot be examined.
    """
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
    """Returns (type, data) of the kernel's file handle in a result of `object_identity`; None if it holds none."""
    return (identity[1], identity[2:]) if identity[0] == 0 else None


class HandleSeal:
    """Makes NFS file handles, with a keyed digest at their end by which it recognises its own.

    The key has 16 to 64 octets; raises ValueError for others.
    """

    __slots__ = ("_keyed",)

    def __init__(self, key: bytes) -> None:
        if not 16 <= len(key) <= 64:
            raise ValueError(f"the handle key has {len(key)} octets: use 16 to 64")
        self._keyed = hashlib.blake2b(key=key, digest_size=_SEAL_OCTETS, person=b"nfs-handle")

    def close(self, export: bytes, inode: int, identity: bytes) -> bytes:
        """Returns the NFS file handle of an object: its content in the clear, then a digest of it by the key.

        `export` is a result of `export_identity`, `identity` one of `object_identity`. The handle has at most 64 octets
        if `identity` has at most `IDENTITY_MAX`, which is not checked.
        """
        body = _HEAD.pack(_LAYOUT, export, inode) + identity
        return body + self._mac(body)

    def open(self, handle: bytes) -> OpenedHandle | None:
        """Returns the content of a handle (any octets); None if its digest is by another key or its layout not 1."""
        if not _HEAD.size + _SEAL_OCTETS < len(handle) <= _HANDLE_OCTETS_MAX:
            return None
        body = handle[:-_SEAL_OCTETS]
        if not hmac.compare_digest(self._mac(body), handle[-_SEAL_OCTETS:]):
            return None
        layout, export, inode = _HEAD.unpack_from(body)
        return OpenedHandle(export, inode, body[_HEAD.size :]) if layout == _LAYOUT else None

    @staticmethod
    def export_in(handle: bytes) -> bytes:
        """Returns the four octets of `export_identity` in a handle, which may be forged: the digest is not checked."""
        return handle[1:5]

    @staticmethod
    def object_in(handle: bytes) -> bytes:
        """Returns the octets of inode number and identity in a handle, the same in all exports of the file system.

        The digest is not checked.
        """
        return handle[OBJECT_IN_HANDLE]

    @staticmethod
    def identity_in(handle: bytes) -> bytes:
        """Returns the object's identity in a handle, as `object_identity` makes it; the digest is not checked."""
        return handle[_HEAD.size : -_SEAL_OCTETS]

    def _mac(self, body: bytes) -> bytes:
        mac = self._keyed.copy()
        mac.update(body)
        return mac.digest()
