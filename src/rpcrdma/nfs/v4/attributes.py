"""The attributes of version 4 (RFC 8881 section 5): their values in `fattr4`, from and to those of an exported tree.

A set of attributes is an integer here, with a bit for each number: the words of a bitmap4, the first lowest. Owners are
sent as numbers in decimal, which every client takes (section 5.9). Those that clients set may also be names of this
machine's accounts with a domain.
"""

from __future__ import annotations

import functools
import grp
import pwd
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rpcrdma.errors import DecodeError
from rpcrdma.limits import NFS4_KINDS_OF_CALLS_MAX
from rpcrdma.nfs.export.tree import (
    NAME_OCTETS_MAX,
    OFFSET_MAX,
    SERVER_TIME,
    TRANSFER_OCTETS_MAX,
    Attributes,
    FileKind,
    Node,
    PathLimits,
    Space,
    Time,
    Wanted,
)
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.nfs4 import fattr4, nfs_ftype4, nfsstat4, time_how4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.xdr.codec import Decoder

__all__ = [
    "KINDS",
    "NEED_SPACE",
    "SET_ONLY",
    "SUPPORTED",
    "Described",
    "Shown",
    "bits",
    "bits_of",
    "differing",
    "equal_to",
    "fattr_of",
    "set_on_new",
    "wanted_of",
    "words",
]

_S = nfsstat4
_SECOND = 1_000_000_000
_NO_SPACE: Final = Space(0, 0, 0, 0, 0, 0)
_USUAL_PATHS: Final = PathLimits(1, NAME_OCTETS_MAX)

KINDS: Final = {
    FileKind.FILE: nfs_ftype4.NF4REG,
    FileKind.DIRECTORY: nfs_ftype4.NF4DIR,
    FileKind.BLOCK_DEVICE: nfs_ftype4.NF4BLK,
    FileKind.CHARACTER_DEVICE: nfs_ftype4.NF4CHR,
    FileKind.SYMLINK: nfs_ftype4.NF4LNK,
    FileKind.SOCKET: nfs_ftype4.NF4SOCK,
    FileKind.FIFO: nfs_ftype4.NF4FIFO,
}
"""The type in version 4 for each kind of object of an exported tree."""


@dataclass(slots=True)
class Described:
    """An object, with all that the values of its attributes in version 4 depend on.

    Attributes:
        attributes: its attributes in the exported tree.
        handle: its filehandle.
        lease_s: the lease in seconds, which every object has as an attribute.
        mounted_on: for the root of an export, the inode number of the directory over which it is mounted; else None.
        space: the space of its file system; zeros if no attribute in `NEED_SPACE` is to be encoded.
        paths: the bounds of its file system on names and links; usual values if none in `NEED_SPACE` is to be encoded.
        xattrs: whether its file system has extended attributes; False if none in `NEED_SPACE` is to be encoded.
        error: the status that READDIR reports, as rdattr_error, for an object whose attributes are not available.
    """

    attributes: Attributes
    handle: bytes
    lease_s: int
    mounted_on: int | None = None
    space: Space = _NO_SPACE
    paths: PathLimits = _USUAL_PATHS
    xattrs: bool = False
    error: nfsstat4 = _S.NFS4_OK


def bits(*numbers: int) -> int:
    """Returns the set of attributes with these numbers: an integer with bit n set for attribute number n."""
    return functools.reduce(lambda found, number: found | 1 << number, numbers, 0)


def bits_of(bitmap: Sequence[int]) -> int:
    """Returns the set of attributes in a bitmap4 as an integer with bit n set for attribute number n."""
    found = 0
    for word in reversed(bitmap):
        found = found << 32 | word
    return found


def words(attributes: int) -> list[int]:
    """Returns the bitmap4 of a set of attributes, without words of 0 at its end.

    The set is an integer with bit n set for attribute number n.
    """
    found = []
    while attributes:
        found.append(attributes & 0xFFFFFFFF)
        attributes >>= 32
    return found


_U32, _U64, _TWO, _TIME = (struct.Struct(f">{form}").pack for form in ("I", "Q", "2I", "qI"))
_YES, _NO = _U32(1), _U32(0)


def _opaque(octets: bytes) -> bytes:
    return _U32(len(octets)) + octets + bytes(-len(octets) & 3)


def _bitmap(attributes: int) -> bytes:
    found = words(attributes)
    return struct.pack(f">{1 + len(found)}I", len(found), *found)


def _time(nanoseconds: int) -> bytes:
    return _TIME(*divmod(nanoseconds, _SECOND))


_A = nfs4
_Value = Callable[[Described], bytes]
_VALUES: Final[dict[int, _Value]] = {
    _A.FATTR4_SUPPORTED_ATTRS: lambda _: _bitmap(SUPPORTED),
    _A.FATTR4_TYPE: lambda it: _U32(KINDS[it.attributes.kind]),
    # Handles are persistent.
    _A.FATTR4_FH_EXPIRE_TYPE: lambda _: _NO,
    _A.FATTR4_CHANGE: lambda it: _U64(it.attributes.change & 0xFFFFFFFFFFFFFFFF),
    _A.FATTR4_SIZE: lambda it: _U64(it.attributes.size),
    _A.FATTR4_LINK_SUPPORT: lambda _: _YES,
    _A.FATTR4_SYMLINK_SUPPORT: lambda _: _YES,
    _A.FATTR4_NAMED_ATTR: lambda _: _NO,
    _A.FATTR4_FSID: lambda it: _U64(it.attributes.fsid) + _U64(0),
    _A.FATTR4_UNIQUE_HANDLES: lambda _: _YES,
    _A.FATTR4_LEASE_TIME: lambda it: _U32(it.lease_s),
    _A.FATTR4_RDATTR_ERROR: lambda it: _U32(it.error),
    _A.FATTR4_ACLSUPPORT: lambda _: _NO,
    _A.FATTR4_CANSETTIME: lambda _: _YES,
    _A.FATTR4_CASE_INSENSITIVE: lambda _: _NO,
    _A.FATTR4_CASE_PRESERVING: lambda _: _YES,
    _A.FATTR4_CHOWN_RESTRICTED: lambda _: _YES,
    _A.FATTR4_FILEHANDLE: lambda it: _opaque(it.handle),
    _A.FATTR4_FILEID: lambda it: _U64(it.attributes.number),
    _A.FATTR4_FILES_AVAIL: lambda it: _U64(it.space.files_available),
    _A.FATTR4_FILES_FREE: lambda it: _U64(it.space.files_free),
    _A.FATTR4_FILES_TOTAL: lambda it: _U64(it.space.files_total),
    _A.FATTR4_HOMOGENEOUS: lambda _: _YES,
    _A.FATTR4_MAXFILESIZE: lambda _: _U64(OFFSET_MAX),
    _A.FATTR4_MAXLINK: lambda it: _U32(it.paths.links),
    _A.FATTR4_MAXNAME: lambda it: _U32(it.paths.name_octets),
    _A.FATTR4_MAXREAD: lambda _: _U64(TRANSFER_OCTETS_MAX),
    _A.FATTR4_MAXWRITE: lambda _: _U64(TRANSFER_OCTETS_MAX),
    _A.FATTR4_MODE: lambda it: _U32(it.attributes.mode),
    _A.FATTR4_NO_TRUNC: lambda _: _YES,
    _A.FATTR4_NUMLINKS: lambda it: _U32(it.attributes.links),
    _A.FATTR4_OWNER: lambda it: _opaque(b"%d" % it.attributes.uid),
    _A.FATTR4_OWNER_GROUP: lambda it: _opaque(b"%d" % it.attributes.gid),
    # A quota of the directory's project bounds the space that the file system tells of it.
    _A.FATTR4_QUOTA_AVAIL_HARD: lambda it: _U64(it.space.available),
    _A.FATTR4_QUOTA_AVAIL_SOFT: lambda it: _U64(it.space.available),
    _A.FATTR4_QUOTA_USED: lambda it: _U64(it.space.total - it.space.free),
    _A.FATTR4_RAWDEV: lambda it: _TWO(*it.attributes.device),
    _A.FATTR4_SPACE_AVAIL: lambda it: _U64(it.space.available),
    _A.FATTR4_SPACE_FREE: lambda it: _U64(it.space.free),
    _A.FATTR4_SPACE_TOTAL: lambda it: _U64(it.space.total),
    _A.FATTR4_SPACE_USED: lambda it: _U64(it.attributes.space_used),
    _A.FATTR4_TIME_ACCESS: lambda it: _time(it.attributes.atime_ns),
    _A.FATTR4_TIME_DELTA: lambda _: _time(1),
    _A.FATTR4_TIME_METADATA: lambda it: _time(it.attributes.ctime_ns),
    _A.FATTR4_TIME_MODIFY: lambda it: _time(it.attributes.mtime_ns),
    _A.FATTR4_MOUNTED_ON_FILEID: lambda it: _U64(it.attributes.number if it.mounted_on is None else it.mounted_on),
    _A.FATTR4_SUPPATTR_EXCLCREAT: lambda _: _bitmap(_SETTABLE & ~SET_ONLY),
    _A.FATTR4_XATTR_SUPPORT: lambda it: _YES if it.xattrs else _NO,
}

SET_ONLY: Final[int] = bits(_A.FATTR4_TIME_ACCESS_SET, _A.FATTR4_TIME_MODIFY_SET)
"""The set of attributes that can be set and not be read."""
_SETTABLE: Final[int] = SET_ONLY | bits(_A.FATTR4_SIZE, _A.FATTR4_MODE, _A.FATTR4_OWNER, _A.FATTR4_OWNER_GROUP)
_OWNERS: Final = bits(_A.FATTR4_OWNER, _A.FATTR4_OWNER_GROUP)
_SIZE: Final = bits(_A.FATTR4_SIZE)
_NEVER_SET: Final = {FileKind.FILE: 0, FileKind.SYMLINK: _SIZE | bits(_A.FATTR4_MODE)}
"""The set of attributes that a new object never gets, by its kind; that of other kinds is `_SIZE`."""
_READABLE: Final = bits(*_VALUES)
SUPPORTED: Final[int] = _READABLE | SET_ONLY
"""The set of all attributes that the server supports."""
NEED_SPACE: Final = bits(
    _A.FATTR4_FILES_AVAIL,
    _A.FATTR4_FILES_FREE,
    _A.FATTR4_FILES_TOTAL,
    _A.FATTR4_MAXLINK,
    _A.FATTR4_MAXNAME,
    _A.FATTR4_QUOTA_AVAIL_HARD,
    _A.FATTR4_QUOTA_AVAIL_SOFT,
    _A.FATTR4_QUOTA_USED,
    _A.FATTR4_SPACE_AVAIL,
    _A.FATTR4_SPACE_FREE,
    _A.FATTR4_SPACE_TOTAL,
    _A.FATTR4_XATTR_SUPPORT,
)
"""The set of attributes of a file system, whose values take a call to it."""
_NOT_OF_THE_STATE: Final = NEED_SPACE | bits(_A.FATTR4_RDATTR_ERROR)
"""The set of attributes whose values can change while the object does not."""
_NOT_COMPARED: Final = SET_ONLY | bits(_A.FATTR4_RDATTR_ERROR)


@functools.lru_cache(NFS4_KINDS_OF_CALLS_MAX)
def _plan(attributes: int) -> tuple[list[int], list[_Value]]:
    """Returns (the bitmap4 of the readable attributes in a set, a function for each of them that encodes its value).

    The set has bit n for attribute number n. The functions take a `Described`, in the order of numbers. Caches results.
    """
    shown = attributes & _READABLE
    return words(shown), [value for number, value in _VALUES.items() if shown >> number & 1]


class Shown(NamedTuple):
    """Encoded attributes of an object, kept in `Attributes.shown` as long as the object does not change.

    `asked` is the set of attributes that were asked for, with bit n for attribute number n, and `values` has the values
    of the supported ones. `request` is the bitmap4 of the GETATTR that asked, and `encoded` its encoded result; both
    are empty if the attributes were not encoded for a GETATTR.
    """

    asked: int
    values: fattr4
    request: Sequence[int] = ()
    encoded: bytes = b""


def fattr_of(described: Described, attributes: int) -> fattr4:
    """Returns the attributes of the object `described` that are in the set `attributes` and supported, encoded.

    `attributes` has bit n for attribute number n. If all their values change with the object alone, keeps the result in
    `described.attributes.shown`, for later calls with the same set. Raises Refused (NFS4ERR_INVAL) if the set has
    attributes that can only be set.
    """
    shown = described.attributes.shown
    if type(shown) is Shown and shown.asked == attributes:
        return shown.values
    if attributes & SET_ONLY:
        raise Refused(_S.NFS4ERR_INVAL)
    bitmap, values = _plan(attributes)
    found = fattr4(bitmap, b"".join([value(described) for value in values]))
    if not attributes & _NOT_OF_THE_STATE:
        described.attributes.shown = Shown(attributes, found)
    return found


def equal_to(described: Described, expected: fattr4) -> bool:
    """Returns whether the object `described` has the values of all attributes in `expected`, for VERIFY and NVERIFY.

    Compares encoded values: an owner given by name is unequal. Raises Refused (NFS4ERR_ATTRNOTSUPP: an attribute is not
    supported; NFS4ERR_INVAL: an attribute can only be set, or is rdattr_error, which belongs to no object).
    """
    attributes = bits_of(expected.attrmask)
    if attributes & _NOT_COMPARED:
        raise Refused(_S.NFS4ERR_INVAL)
    if attributes & ~SUPPORTED:
        raise Refused(_S.NFS4ERR_ATTRNOTSUPP)
    return fattr_of(described, attributes).attr_vals == expected.attr_vals


def wanted_of(given: fattr4, *, exclusive: bool = False) -> Wanted:
    """Decodes the attributes that a call sets or gives to a new object.

    Looks up names of owners among the accounts of this machine, which may block. Raises Refused (NFS4ERR_ATTRNOTSUPP:
    an attribute is not supported; NFS4ERR_INVAL: an attribute cannot be set, or has no valid value; NFS4ERR_FBIG: no
    file can have this size; NFS4ERR_BADOWNER: an owner that is no number up to 2**32 - 2 and no known name;
    NFS4ERR_BADXDR: the values do not decode, or their number is not that of the attributes).

    Args:
        given: the attributes in the call's arguments.
        exclusive: whether a file is created with a verifier, which is kept in its times, so that times are refused.

    Returns:
        The attributes for a method of an exported tree; those that are not given are None.
    """
    attributes = bits_of(given.attrmask)
    if attributes & ~SUPPORTED:
        raise Refused(_S.NFS4ERR_ATTRNOTSUPP)
    if attributes & ~_SETTABLE or (exclusive and attributes & SET_ONLY):
        raise Refused(_S.NFS4ERR_INVAL)
    dec = Decoder(given.attr_vals)

    def has(number: int) -> bool:
        return bool(attributes >> number & 1)

    try:
        # The order is that of the numbers.
        size = dec.u64("size") if has(_A.FATTR4_SIZE) else None
        mode = dec.u32("mode") if has(_A.FATTR4_MODE) else None
        owner = dec.opaque(nfs4.NFS4_OPAQUE_LIMIT, "owner") if has(_A.FATTR4_OWNER) else None
        group = dec.opaque(nfs4.NFS4_OPAQUE_LIMIT, "owner_group") if has(_A.FATTR4_OWNER_GROUP) else None
        atime = _decode_time(dec) if has(_A.FATTR4_TIME_ACCESS_SET) else None
        mtime = _decode_time(dec) if has(_A.FATTR4_TIME_MODIFY_SET) else None
        dec.done("fattr4")
    except DecodeError:
        raise Refused(_S.NFS4ERR_BADXDR) from None
    if mode is not None and mode > 0o7777:
        raise Refused(_S.NFS4ERR_INVAL)
    if size is not None and size > OFFSET_MAX:
        raise Refused(_S.NFS4ERR_FBIG)
    uid = None if owner is None else _account(owner, _user)
    gid = None if group is None else _account(group, _group)
    return Wanted(mode=mode, uid=uid, gid=gid, size=size, atime=atime, mtime=mtime)


def differing(wanted: Wanted, present: Attributes) -> int:
    """Returns the set of the attributes in `wanted`, except times, that have another value in `present`.

    The set has bit n for attribute number n, and lacks attributes that are None in `wanted`.
    """
    values = {
        _A.FATTR4_SIZE: (wanted.size, present.size),
        _A.FATTR4_MODE: (wanted.mode, present.mode),
        _A.FATTR4_OWNER: (wanted.uid, present.uid),
        _A.FATTR4_OWNER_GROUP: (wanted.gid, present.gid),
    }
    return bits(*(number for number, (value, found) in values.items() if value not in {None, found}))


def set_on_new(given: fattr4, wanted: Wanted, node: Node) -> int:
    """Returns the set of the attributes in `given` that the new object `node` has got: bit n for attribute number n.

    `wanted` is `given`, decoded. A tree ignores an owner that the caller may not set, the mode of a symbolic link, and
    the size of an object other than a regular file. Raises OSError if the object's owners cannot be read.
    """
    attributes = bits_of(given.attrmask) & ~_NEVER_SET.get(node.kind, _SIZE)
    if attributes & _OWNERS:
        attributes &= ~(differing(wanted, node.attributes()) & _OWNERS)
    return attributes


def _decode_time(dec: Decoder) -> Time:
    """Decodes a settime4 (RFC 8881 section 3.3.2); returns nanoseconds since 1970, or `SERVER_TIME`.

    Raises Refused (NFS4ERR_INVAL) if the nanoseconds reach a second, DecodeError if the octets are malformed.
    """
    if nfs4.decode_time_how4(dec) is time_how4.SET_TO_SERVER_TIME4:
        return SERVER_TIME
    time = nfs4.decode_nfstime4(dec)
    if time.nseconds >= _SECOND:
        raise Refused(_S.NFS4ERR_INVAL)
    return time.seconds * _SECOND + time.nseconds


def _user(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


def _group(name: str) -> int:
    return grp.getgrnam(name).gr_gid


_ID_MAX = 0xFFFFFFFF - 1
"""The highest UID or GID: the system calls take the one above it for "no change"."""


def _account(text: bytes, number_of: Callable[[str], int]) -> int:
    """Returns the UID or GID, 0 to 2**32 - 2, of an owner or owner_group attribute (RFC 8881 section 5.9).

    `text` is a number, or a name with "@" and a domain that is ignored; `number_of` maps the name to an id, or raises
    KeyError. Raises Refused: NFS4ERR_INVAL if the text is not UTF-8, NFS4ERR_BADOWNER for an unknown account, other
    text, or a higher number.
    """
    try:
        name = text.decode()
    except UnicodeDecodeError:
        raise Refused(_S.NFS4ERR_INVAL) from None
    if name.isascii() and name.isdigit() and len(name) <= len(str(_ID_MAX)):
        number = int(name)
        if number <= _ID_MAX:
            return number
    account, at, _domain = name.partition("@")
    if not at or not account or "\0" in account:
        raise Refused(_S.NFS4ERR_BADOWNER)
    try:
        return number_of(account)
    except (KeyError, ValueError):
        raise Refused(_S.NFS4ERR_BADOWNER) from None
