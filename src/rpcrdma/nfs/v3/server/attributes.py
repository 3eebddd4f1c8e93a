"""Names, times and attributes of exported trees in the types of version 3."""

from __future__ import annotations

import errno
from typing import TypeAlias

from rpcrdma.nfs import v3
from rpcrdma.nfs.export.tree import SERVER_TIME, Attributes, Change, FileKind, Node, Refused, Time, Wanted

__all__ = ["fattr3_of", "name_of", "nfs_time", "post_op", "post_op_of", "text_of", "wanted_of", "wcc"]

_KINDS = {
    FileKind.FILE: v3.ftype3.NF3REG,
    FileKind.DIRECTORY: v3.ftype3.NF3DIR,
    FileKind.BLOCK_DEVICE: v3.ftype3.NF3BLK,
    FileKind.CHARACTER_DEVICE: v3.ftype3.NF3CHR,
    FileKind.SYMLINK: v3.ftype3.NF3LNK,
    FileKind.SOCKET: v3.ftype3.NF3SOCK,
    FileKind.FIFO: v3.ftype3.NF3FIFO,
}
_U32 = 0xFFFFFFFF
_SECOND = 1_000_000_000
_NO_DEVICE = v3.specdata3(0, 0)

_How: TypeAlias = v3.set_atime | v3.set_mtime


def name_of(text: str) -> bytes:
    """Returns the octets of a name or path, which the XDR codec has decoded as UTF-8 with surrogate escapes."""
    return text.encode("utf-8", "surrogateescape")


def text_of(name: bytes) -> str:
    """Returns a name or path as text, as the XDR codec takes it: octets that are not UTF-8 become surrogate escapes."""
    return name.decode("utf-8", "surrogateescape")


def nfs_time(nanoseconds: int) -> v3.nfstime3:
    """Converts nanoseconds since 1970 to nfstime3; times before 1970 become 0.

    Times after 2106, too large for nfstime3, get its last second, and keep their nanoseconds.
    """
    seconds = nanoseconds // _SECOND
    if 0 <= seconds <= _U32:
        return v3.nfstime3(seconds, nanoseconds - seconds * _SECOND)
    return v3.nfstime3(0, 0) if seconds < 0 else v3.nfstime3(_U32, nanoseconds % _SECOND)


def fattr3_of(attributes: Attributes) -> v3.fattr3:
    """Converts the attributes of an object in an exported tree to fattr3 (RFC 1813 section 2.6)."""
    links, device = attributes.links, attributes.device
    return v3.fattr3(
        _KINDS[attributes.kind],
        attributes.mode,
        min(links, _U32),
        attributes.uid,
        attributes.gid,
        attributes.size,
        attributes.space_used,
        v3.specdata3(*device) if device != (0, 0) else _NO_DEVICE,
        attributes.fsid,
        attributes.number,
        nfs_time(attributes.atime_ns),
        nfs_time(attributes.mtime_ns),
        nfs_time(attributes.ctime_ns),
    )


def post_op_of(attributes: Attributes) -> v3.post_op_attr:
    """Returns `attributes` as post_op_attr; stores the result in `attributes.shown`, which later calls return."""
    shown = attributes.shown
    if type(shown) is v3.post_op_attr:
        return shown
    made = attributes.shown = v3.post_op_attr(True, fattr3_of(attributes))
    return made


def post_op(node: Node | None) -> v3.post_op_attr:
    """Returns the current attributes of `node` as post_op_attr; empty if `node` is None or they cannot be read."""
    if node is not None:
        try:
            return post_op_of(node.attributes())
        except OSError:
            pass
    return v3.post_op_attr(False, None)


def wcc(node: Node | None, change: Change) -> v3.wcc_data:
    """Returns weak cache consistency data (RFC 1813 section 2.6) for a reply.

    `change` has the attributes of `node` before and after a change. If `change.before` or `change.after` is None, the
    result has no pre_op_attr, and the present attributes of `node` as post_op_attr, which is empty if `node` is None or
    they cannot be read.
    """
    before, after = change.before, change.after
    if before is None or after is None:
        return v3.wcc_data(v3.pre_op_attr(False, None), post_op(node))
    shown = before.shown.value if type(before.shown) is v3.post_op_attr else None
    if shown is not None:
        then = v3.wcc_attr(before.size, shown.mtime, shown.ctime)
    else:
        then = v3.wcc_attr(before.size, nfs_time(before.mtime_ns), nfs_time(before.ctime_ns))
    return v3.wcc_data(v3.pre_op_attr(True, then), post_op_of(after))


def wanted_of(attributes: v3.sattr3) -> Wanted:
    """Converts an sattr3, the attributes that SETATTR or a creation sets; attributes that it does not set become None.

    Times become nanoseconds since 1970, or `SERVER_TIME` for the server's present time.

    Raises:
        Refused: EINVAL: a time has 10**9 nanoseconds or more.
    """
    return Wanted(
        mode=attributes.mode.value,
        uid=attributes.uid.value,
        gid=attributes.gid.value,
        size=attributes.size.value,
        atime=_time(attributes.atime),
        mtime=_time(attributes.mtime),
    )


def _time(how: _How) -> Time:
    time = how.value
    if time is not None:
        if time.nseconds >= _SECOND:
            raise Refused(errno.EINVAL)
        return time.seconds * _SECOND + time.nseconds
    return SERVER_TIME if how.set_it == v3.time_how.SET_TO_SERVER_TIME else None
