"""Generated from nfs3.x by `rpcrdma xdr compile`: do not edit."""

# ruff: noqa: A001, A002, A003, ARG001, ARG002, D103, E741, N801, N802, N815, N816, RUF100

from __future__ import annotations

import enum
from collections.abc import Awaitable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeAlias

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.rpc import (
    CallContext,
    CallMethod,
    ClientStub,
    OctetsMax,
    Procedure,
    ProcedureUnavailable,
    Program,
    ReplyBound,
    Service,
    SyncClientStub,
    VoidCallMethod,
)
from rpcrdma.xdr import Buffer, Composite, Decoder, Encoder, Layout

__all__ = [
    "ACCESS",
    "ACCESS3_DELETE",
    "ACCESS3_EXECUTE",
    "ACCESS3_EXTEND",
    "ACCESS3_LOOKUP",
    "ACCESS3_MODIFY",
    "ACCESS3_READ",
    "COMMIT",
    "CREATE",
    "FSF3_CANSETTIME",
    "FSF3_HOMOGENEOUS",
    "FSF3_LINK",
    "FSF3_SYMLINK",
    "FSINFO",
    "FSSTAT",
    "GETATTR",
    "LINK",
    "LOOKUP",
    "MKDIR",
    "MKNOD",
    "NFS3_COOKIEVERFSIZE",
    "NFS3_CREATEVERFSIZE",
    "NFS3_FHSIZE",
    "NFS3_MAXDATA",
    "NFS3_MAXENTRIES",
    "NFS3_MAXNAMLEN",
    "NFS3_MAXPATHLEN",
    "NFS3_WRITEVERFSIZE",
    "NFSPROC3_ACCESS",
    "NFSPROC3_COMMIT",
    "NFSPROC3_CREATE",
    "NFSPROC3_FSINFO",
    "NFSPROC3_FSSTAT",
    "NFSPROC3_GETATTR",
    "NFSPROC3_LINK",
    "NFSPROC3_LOOKUP",
    "NFSPROC3_MKDIR",
    "NFSPROC3_MKNOD",
    "NFSPROC3_NULL",
    "NFSPROC3_PATHCONF",
    "NFSPROC3_READ",
    "NFSPROC3_READDIR",
    "NFSPROC3_READDIRPLUS",
    "NFSPROC3_READLINK",
    "NFSPROC3_REMOVE",
    "NFSPROC3_RENAME",
    "NFSPROC3_RMDIR",
    "NFSPROC3_SETATTR",
    "NFSPROC3_SYMLINK",
    "NFSPROC3_WRITE",
    "NFS_V3",
    "NULL",
    "PATHCONF",
    "PROGRAM",
    "READ",
    "READDIR",
    "READDIRPLUS",
    "READLINK",
    "REMOVE",
    "RENAME",
    "RMDIR",
    "SETATTR",
    "SYMLINK",
    "WRITE",
    "ACCESS3args",
    "ACCESS3res",
    "ACCESS3resfail",
    "ACCESS3resok",
    "COMMIT3args",
    "COMMIT3res",
    "COMMIT3resfail",
    "COMMIT3resok",
    "CREATE3args",
    "CREATE3res",
    "CREATE3resfail",
    "CREATE3resok",
    "FSINFO3args",
    "FSINFO3res",
    "FSINFO3resfail",
    "FSINFO3resok",
    "FSSTAT3args",
    "FSSTAT3res",
    "FSSTAT3resfail",
    "FSSTAT3resok",
    "GETATTR3args",
    "GETATTR3res",
    "GETATTR3resok",
    "LINK3args",
    "LINK3res",
    "LINK3resfail",
    "LINK3resok",
    "LOOKUP3args",
    "LOOKUP3res",
    "LOOKUP3resfail",
    "LOOKUP3resok",
    "MKDIR3args",
    "MKDIR3res",
    "MKDIR3resfail",
    "MKDIR3resok",
    "MKNOD3args",
    "MKNOD3res",
    "MKNOD3resfail",
    "MKNOD3resok",
    "NFS_V3_Client",
    "NFS_V3_Service",
    "NFS_V3_SyncClient",
    "PATHCONF3args",
    "PATHCONF3res",
    "PATHCONF3resfail",
    "PATHCONF3resok",
    "READ3args",
    "READ3res",
    "READ3resfail",
    "READ3resok",
    "READDIR3args",
    "READDIR3res",
    "READDIR3resfail",
    "READDIR3resok",
    "READDIRPLUS3args",
    "READDIRPLUS3res",
    "READDIRPLUS3resfail",
    "READDIRPLUS3resok",
    "READLINK3args",
    "READLINK3res",
    "READLINK3resfail",
    "READLINK3resok",
    "REMOVE3args",
    "REMOVE3res",
    "REMOVE3resfail",
    "REMOVE3resok",
    "RENAME3args",
    "RENAME3res",
    "RENAME3resfail",
    "RENAME3resok",
    "RMDIR3args",
    "RMDIR3res",
    "RMDIR3resfail",
    "RMDIR3resok",
    "SETATTR3args",
    "SETATTR3res",
    "SETATTR3resfail",
    "SETATTR3resok",
    "SYMLINK3args",
    "SYMLINK3res",
    "SYMLINK3resfail",
    "SYMLINK3resok",
    "WRITE3args",
    "WRITE3res",
    "WRITE3resfail",
    "WRITE3resok",
    "cookie3",
    "cookieverf3",
    "count3",
    "createhow3",
    "createmode3",
    "createverf3",
    "decode_ACCESS3args",
    "decode_ACCESS3res",
    "decode_ACCESS3resfail",
    "decode_ACCESS3resok",
    "decode_COMMIT3args",
    "decode_COMMIT3res",
    "decode_COMMIT3resfail",
    "decode_COMMIT3resok",
    "decode_CREATE3args",
    "decode_CREATE3res",
    "decode_CREATE3resfail",
    "decode_CREATE3resok",
    "decode_FSINFO3args",
    "decode_FSINFO3res",
    "decode_FSINFO3resfail",
    "decode_FSINFO3resok",
    "decode_FSSTAT3args",
    "decode_FSSTAT3res",
    "decode_FSSTAT3resfail",
    "decode_FSSTAT3resok",
    "decode_GETATTR3args",
    "decode_GETATTR3res",
    "decode_GETATTR3resok",
    "decode_LINK3args",
    "decode_LINK3res",
    "decode_LINK3resfail",
    "decode_LINK3resok",
    "decode_LOOKUP3args",
    "decode_LOOKUP3res",
    "decode_LOOKUP3resfail",
    "decode_LOOKUP3resok",
    "decode_MKDIR3args",
    "decode_MKDIR3res",
    "decode_MKDIR3resfail",
    "decode_MKDIR3resok",
    "decode_MKNOD3args",
    "decode_MKNOD3res",
    "decode_MKNOD3resfail",
    "decode_MKNOD3resok",
    "decode_PATHCONF3args",
    "decode_PATHCONF3res",
    "decode_PATHCONF3resfail",
    "decode_PATHCONF3resok",
    "decode_READ3args",
    "decode_READ3res",
    "decode_READ3resfail",
    "decode_READ3resok",
    "decode_READDIR3args",
    "decode_READDIR3res",
    "decode_READDIR3resfail",
    "decode_READDIR3resok",
    "decode_READDIRPLUS3args",
    "decode_READDIRPLUS3res",
    "decode_READDIRPLUS3resfail",
    "decode_READDIRPLUS3resok",
    "decode_READLINK3args",
    "decode_READLINK3res",
    "decode_READLINK3resfail",
    "decode_READLINK3resok",
    "decode_REMOVE3args",
    "decode_REMOVE3res",
    "decode_REMOVE3resfail",
    "decode_REMOVE3resok",
    "decode_RENAME3args",
    "decode_RENAME3res",
    "decode_RENAME3resfail",
    "decode_RENAME3resok",
    "decode_RMDIR3args",
    "decode_RMDIR3res",
    "decode_RMDIR3resfail",
    "decode_RMDIR3resok",
    "decode_SETATTR3args",
    "decode_SETATTR3res",
    "decode_SETATTR3resfail",
    "decode_SETATTR3resok",
    "decode_SYMLINK3args",
    "decode_SYMLINK3res",
    "decode_SYMLINK3resfail",
    "decode_SYMLINK3resok",
    "decode_WRITE3args",
    "decode_WRITE3res",
    "decode_WRITE3resfail",
    "decode_WRITE3resok",
    "decode_cookie3",
    "decode_cookieverf3",
    "decode_count3",
    "decode_createhow3",
    "decode_createmode3",
    "decode_createverf3",
    "decode_devicedata3",
    "decode_dirlist3",
    "decode_dirlistplus3",
    "decode_diropargs3",
    "decode_entry3",
    "decode_entryplus3",
    "decode_fattr3",
    "decode_fileid3",
    "decode_filename3",
    "decode_ftype3",
    "decode_gid3",
    "decode_mknoddata3",
    "decode_mode3",
    "decode_nfs_fh3",
    "decode_nfspath3",
    "decode_nfsstat3",
    "decode_nfstime3",
    "decode_offset3",
    "decode_post_op_attr",
    "decode_post_op_fh3",
    "decode_pre_op_attr",
    "decode_sattr3",
    "decode_sattrguard3",
    "decode_set_atime",
    "decode_set_gid3",
    "decode_set_mode3",
    "decode_set_mtime",
    "decode_set_size3",
    "decode_set_uid3",
    "decode_size3",
    "decode_specdata3",
    "decode_stable_how",
    "decode_symlinkdata3",
    "decode_time_how",
    "decode_uid3",
    "decode_wcc_attr",
    "decode_wcc_data",
    "decode_writeverf3",
    "devicedata3",
    "dirlist3",
    "dirlistplus3",
    "diropargs3",
    "encode_ACCESS3args",
    "encode_ACCESS3res",
    "encode_ACCESS3resfail",
    "encode_ACCESS3resok",
    "encode_COMMIT3args",
    "encode_COMMIT3res",
    "encode_COMMIT3resfail",
    "encode_COMMIT3resok",
    "encode_CREATE3args",
    "encode_CREATE3res",
    "encode_CREATE3resfail",
    "encode_CREATE3resok",
    "encode_FSINFO3args",
    "encode_FSINFO3res",
    "encode_FSINFO3resfail",
    "encode_FSINFO3resok",
    "encode_FSSTAT3args",
    "encode_FSSTAT3res",
    "encode_FSSTAT3resfail",
    "encode_FSSTAT3resok",
    "encode_GETATTR3args",
    "encode_GETATTR3res",
    "encode_GETATTR3resok",
    "encode_LINK3args",
    "encode_LINK3res",
    "encode_LINK3resfail",
    "encode_LINK3resok",
    "encode_LOOKUP3args",
    "encode_LOOKUP3res",
    "encode_LOOKUP3resfail",
    "encode_LOOKUP3resok",
    "encode_MKDIR3args",
    "encode_MKDIR3res",
    "encode_MKDIR3resfail",
    "encode_MKDIR3resok",
    "encode_MKNOD3args",
    "encode_MKNOD3res",
    "encode_MKNOD3resfail",
    "encode_MKNOD3resok",
    "encode_PATHCONF3args",
    "encode_PATHCONF3res",
    "encode_PATHCONF3resfail",
    "encode_PATHCONF3resok",
    "encode_READ3args",
    "encode_READ3res",
    "encode_READ3resfail",
    "encode_READ3resok",
    "encode_READDIR3args",
    "encode_READDIR3res",
    "encode_READDIR3resfail",
    "encode_READDIR3resok",
    "encode_READDIRPLUS3args",
    "encode_READDIRPLUS3res",
    "encode_READDIRPLUS3resfail",
    "encode_READDIRPLUS3resok",
    "encode_READLINK3args",
    "encode_READLINK3res",
    "encode_READLINK3resfail",
    "encode_READLINK3resok",
    "encode_REMOVE3args",
    "encode_REMOVE3res",
    "encode_REMOVE3resfail",
    "encode_REMOVE3resok",
    "encode_RENAME3args",
    "encode_RENAME3res",
    "encode_RENAME3resfail",
    "encode_RENAME3resok",
    "encode_RMDIR3args",
    "encode_RMDIR3res",
    "encode_RMDIR3resfail",
    "encode_RMDIR3resok",
    "encode_SETATTR3args",
    "encode_SETATTR3res",
    "encode_SETATTR3resfail",
    "encode_SETATTR3resok",
    "encode_SYMLINK3args",
    "encode_SYMLINK3res",
    "encode_SYMLINK3resfail",
    "encode_SYMLINK3resok",
    "encode_WRITE3args",
    "encode_WRITE3res",
    "encode_WRITE3resfail",
    "encode_WRITE3resok",
    "encode_cookie3",
    "encode_cookieverf3",
    "encode_count3",
    "encode_createhow3",
    "encode_createmode3",
    "encode_createverf3",
    "encode_devicedata3",
    "encode_dirlist3",
    "encode_dirlistplus3",
    "encode_diropargs3",
    "encode_entry3",
    "encode_entryplus3",
    "encode_fattr3",
    "encode_fileid3",
    "encode_filename3",
    "encode_ftype3",
    "encode_gid3",
    "encode_mknoddata3",
    "encode_mode3",
    "encode_nfs_fh3",
    "encode_nfspath3",
    "encode_nfsstat3",
    "encode_nfstime3",
    "encode_offset3",
    "encode_post_op_attr",
    "encode_post_op_fh3",
    "encode_pre_op_attr",
    "encode_sattr3",
    "encode_sattrguard3",
    "encode_set_atime",
    "encode_set_gid3",
    "encode_set_mode3",
    "encode_set_mtime",
    "encode_set_size3",
    "encode_set_uid3",
    "encode_size3",
    "encode_specdata3",
    "encode_stable_how",
    "encode_symlinkdata3",
    "encode_time_how",
    "encode_uid3",
    "encode_wcc_attr",
    "encode_wcc_data",
    "encode_writeverf3",
    "entry3",
    "entryplus3",
    "fattr3",
    "fileid3",
    "filename3",
    "ftype3",
    "gid3",
    "mknoddata3",
    "mode3",
    "nfs_fh3",
    "nfspath3",
    "nfsstat3",
    "nfstime3",
    "offset3",
    "post_op_attr",
    "post_op_fh3",
    "pre_op_attr",
    "sattr3",
    "sattrguard3",
    "set_atime",
    "set_gid3",
    "set_mode3",
    "set_mtime",
    "set_size3",
    "set_uid3",
    "size3",
    "specdata3",
    "stable_how",
    "symlinkdata3",
    "time_how",
    "uid3",
    "wcc_attr",
    "wcc_data",
    "writeverf3",
]

NFS3_FHSIZE: Final = 64
NFS3_COOKIEVERFSIZE: Final = 8
NFS3_CREATEVERFSIZE: Final = 8
NFS3_WRITEVERFSIZE: Final = 8
NFS3_MAXDATA: Final = 4194304
NFS3_MAXNAMLEN: Final = 255
NFS3_MAXPATHLEN: Final = 4096
NFS3_MAXENTRIES: Final = 65536
ACCESS3_READ: Final = 1
ACCESS3_LOOKUP: Final = 2
ACCESS3_MODIFY: Final = 4
ACCESS3_EXTEND: Final = 8
ACCESS3_DELETE: Final = 16
ACCESS3_EXECUTE: Final = 32
FSF3_LINK: Final = 1
FSF3_SYMLINK: Final = 2
FSF3_HOMOGENEOUS: Final = 8
FSF3_CANSETTIME: Final = 16


class nfsstat3(enum.IntEnum):
    """XDR enum `nfsstat3`."""

    NFS3_OK = 0
    NFS3ERR_PERM = 1
    NFS3ERR_NOENT = 2
    NFS3ERR_IO = 5
    NFS3ERR_NXIO = 6
    NFS3ERR_ACCES = 13
    NFS3ERR_EXIST = 17
    NFS3ERR_XDEV = 18
    NFS3ERR_NODEV = 19
    NFS3ERR_NOTDIR = 20
    NFS3ERR_ISDIR = 21
    NFS3ERR_INVAL = 22
    NFS3ERR_FBIG = 27
    NFS3ERR_NOSPC = 28
    NFS3ERR_ROFS = 30
    NFS3ERR_MLINK = 31
    NFS3ERR_NAMETOOLONG = 63
    NFS3ERR_NOTEMPTY = 66
    NFS3ERR_DQUOT = 69
    NFS3ERR_STALE = 70
    NFS3ERR_REMOTE = 71
    NFS3ERR_BADHANDLE = 10001
    NFS3ERR_NOT_SYNC = 10002
    NFS3ERR_BAD_COOKIE = 10003
    NFS3ERR_NOTSUPP = 10004
    NFS3ERR_TOOSMALL = 10005
    NFS3ERR_SERVERFAULT = 10006
    NFS3ERR_BADTYPE = 10007
    NFS3ERR_JUKEBOX = 10008


_nfsstat3_BY_VALUE: Final = {int(member): member for member in nfsstat3}


class ftype3(enum.IntEnum):
    """XDR enum `ftype3`."""

    NF3REG = 1
    NF3DIR = 2
    NF3BLK = 3
    NF3CHR = 4
    NF3LNK = 5
    NF3SOCK = 6
    NF3FIFO = 7


_ftype3_BY_VALUE: Final = {int(member): member for member in ftype3}


class time_how(enum.IntEnum):
    """XDR enum `time_how`."""

    DONT_CHANGE = 0
    SET_TO_SERVER_TIME = 1
    SET_TO_CLIENT_TIME = 2


_time_how_BY_VALUE: Final = {int(member): member for member in time_how}


class stable_how(enum.IntEnum):
    """XDR enum `stable_how`."""

    UNSTABLE = 0
    DATA_SYNC = 1
    FILE_SYNC = 2


_stable_how_BY_VALUE: Final = {int(member): member for member in stable_how}


class createmode3(enum.IntEnum):
    """XDR enum `createmode3`."""

    UNCHECKED = 0
    GUARDED = 1
    EXCLUSIVE = 2


_createmode3_BY_VALUE: Final = {int(member): member for member in createmode3}


@dataclass(slots=True, repr=False, eq=False)
class specdata3(Composite):
    """XDR struct `specdata3`."""

    specdata1: int
    specdata2: int


@dataclass(slots=True, repr=False, eq=False)
class nfs_fh3(Composite):
    """XDR struct `nfs_fh3`."""

    data: bytes


@dataclass(slots=True, repr=False, eq=False)
class nfstime3(Composite):
    """XDR struct `nfstime3`."""

    seconds: int
    nseconds: int


@dataclass(slots=True, repr=False, eq=False)
class fattr3(Composite):
    """XDR struct `fattr3`."""

    type: ftype3
    mode: mode3
    nlink: int
    uid: uid3
    gid: gid3
    size: size3
    used: size3
    rdev: specdata3
    fsid: int
    fileid: fileid3
    atime: nfstime3
    mtime: nfstime3
    ctime: nfstime3


@dataclass(slots=True, repr=False, eq=False)
class post_op_attr(Composite):
    """XDR union `post_op_attr`, switched by `attributes_follow`."""

    attributes_follow: bool
    value: fattr3 | None


@dataclass(slots=True, repr=False, eq=False)
class wcc_attr(Composite):
    """XDR struct `wcc_attr`."""

    size: size3
    mtime: nfstime3
    ctime: nfstime3


@dataclass(slots=True, repr=False, eq=False)
class pre_op_attr(Composite):
    """XDR union `pre_op_attr`, switched by `attributes_follow`."""

    attributes_follow: bool
    value: wcc_attr | None


@dataclass(slots=True, repr=False, eq=False)
class wcc_data(Composite):
    """XDR struct `wcc_data`."""

    before: pre_op_attr
    after: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class post_op_fh3(Composite):
    """XDR union `post_op_fh3`, switched by `handle_follows`."""

    handle_follows: bool
    value: nfs_fh3 | None


@dataclass(slots=True, repr=False, eq=False)
class set_mode3(Composite):
    """XDR union `set_mode3`, switched by `set_it`."""

    set_it: bool
    value: mode3 | None


@dataclass(slots=True, repr=False, eq=False)
class set_uid3(Composite):
    """XDR union `set_uid3`, switched by `set_it`."""

    set_it: bool
    value: uid3 | None


@dataclass(slots=True, repr=False, eq=False)
class set_gid3(Composite):
    """XDR union `set_gid3`, switched by `set_it`."""

    set_it: bool
    value: gid3 | None


@dataclass(slots=True, repr=False, eq=False)
class set_size3(Composite):
    """XDR union `set_size3`, switched by `set_it`."""

    set_it: bool
    value: size3 | None


@dataclass(slots=True, repr=False, eq=False)
class set_atime(Composite):
    """XDR union `set_atime`, switched by `set_it`."""

    set_it: time_how
    value: nfstime3 | None


@dataclass(slots=True, repr=False, eq=False)
class set_mtime(Composite):
    """XDR union `set_mtime`, switched by `set_it`."""

    set_it: time_how
    value: nfstime3 | None


@dataclass(slots=True, repr=False, eq=False)
class sattr3(Composite):
    """XDR struct `sattr3`."""

    mode: set_mode3
    uid: set_uid3
    gid: set_gid3
    size: set_size3
    atime: set_atime
    mtime: set_mtime


@dataclass(slots=True, repr=False, eq=False)
class diropargs3(Composite):
    """XDR struct `diropargs3`."""

    dir: nfs_fh3
    name: filename3


@dataclass(slots=True, repr=False, eq=False)
class GETATTR3args(Composite):
    """XDR struct `GETATTR3args`."""

    object: nfs_fh3


@dataclass(slots=True, repr=False, eq=False)
class GETATTR3resok(Composite):
    """XDR struct `GETATTR3resok`."""

    obj_attributes: fattr3


@dataclass(slots=True, repr=False, eq=False)
class GETATTR3res(Composite):
    """XDR union `GETATTR3res`, switched by `status`."""

    status: nfsstat3
    value: GETATTR3resok | None


@dataclass(slots=True, repr=False, eq=False)
class sattrguard3(Composite):
    """XDR union `sattrguard3`, switched by `check`."""

    check: bool
    value: nfstime3 | None


@dataclass(slots=True, repr=False, eq=False)
class SETATTR3args(Composite):
    """XDR struct `SETATTR3args`."""

    object: nfs_fh3
    new_attributes: sattr3
    guard: sattrguard3


@dataclass(slots=True, repr=False, eq=False)
class SETATTR3resok(Composite):
    """XDR struct `SETATTR3resok`."""

    obj_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class SETATTR3resfail(Composite):
    """XDR struct `SETATTR3resfail`."""

    obj_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class SETATTR3res(Composite):
    """XDR union `SETATTR3res`, switched by `status`."""

    status: nfsstat3
    value: SETATTR3resok | SETATTR3resfail


@dataclass(slots=True, repr=False, eq=False)
class LOOKUP3args(Composite):
    """XDR struct `LOOKUP3args`."""

    what: diropargs3


@dataclass(slots=True, repr=False, eq=False)
class LOOKUP3resok(Composite):
    """XDR struct `LOOKUP3resok`."""

    object: nfs_fh3
    obj_attributes: post_op_attr
    dir_attributes: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class LOOKUP3resfail(Composite):
    """XDR struct `LOOKUP3resfail`."""

    dir_attributes: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class LOOKUP3res(Composite):
    """XDR union `LOOKUP3res`, switched by `status`."""

    status: nfsstat3
    value: LOOKUP3resok | LOOKUP3resfail


@dataclass(slots=True, repr=False, eq=False)
class ACCESS3args(Composite):
    """XDR struct `ACCESS3args`."""

    object: nfs_fh3
    access: int


@dataclass(slots=True, repr=False, eq=False)
class ACCESS3resok(Composite):
    """XDR struct `ACCESS3resok`."""

    obj_attributes: post_op_attr
    access: int


@dataclass(slots=True, repr=False, eq=False)
class ACCESS3resfail(Composite):
    """XDR struct `ACCESS3resfail`."""

    obj_attributes: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class ACCESS3res(Composite):
    """XDR union `ACCESS3res`, switched by `status`."""

    status: nfsstat3
    value: ACCESS3resok | ACCESS3resfail


@dataclass(slots=True, repr=False, eq=False)
class READLINK3args(Composite):
    """XDR struct `READLINK3args`."""

    symlink: nfs_fh3


@dataclass(slots=True, repr=False, eq=False)
class READLINK3resok(Composite):
    """XDR struct `READLINK3resok`."""

    symlink_attributes: post_op_attr
    data: nfspath3


@dataclass(slots=True, repr=False, eq=False)
class READLINK3resfail(Composite):
    """XDR struct `READLINK3resfail`."""

    symlink_attributes: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class READLINK3res(Composite):
    """XDR union `READLINK3res`, switched by `status`."""

    status: nfsstat3
    value: READLINK3resok | READLINK3resfail


@dataclass(slots=True, repr=False, eq=False)
class READ3args(Composite):
    """XDR struct `READ3args`."""

    file: nfs_fh3
    offset: offset3
    count: count3


@dataclass(slots=True, repr=False, eq=False)
class READ3resok(Composite):
    """XDR struct `READ3resok`."""

    file_attributes: post_op_attr
    count: count3
    eof: bool
    data: Buffer


@dataclass(slots=True, repr=False, eq=False)
class READ3resfail(Composite):
    """XDR struct `READ3resfail`."""

    file_attributes: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class READ3res(Composite):
    """XDR union `READ3res`, switched by `status`."""

    status: nfsstat3
    value: READ3resok | READ3resfail


@dataclass(slots=True, repr=False, eq=False)
class WRITE3args(Composite):
    """XDR struct `WRITE3args`."""

    file: nfs_fh3
    offset: offset3
    count: count3
    stable: stable_how
    data: Buffer


@dataclass(slots=True, repr=False, eq=False)
class WRITE3resok(Composite):
    """XDR struct `WRITE3resok`."""

    file_wcc: wcc_data
    count: count3
    committed: stable_how
    verf: writeverf3


@dataclass(slots=True, repr=False, eq=False)
class WRITE3resfail(Composite):
    """XDR struct `WRITE3resfail`."""

    file_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class WRITE3res(Composite):
    """XDR union `WRITE3res`, switched by `status`."""

    status: nfsstat3
    value: WRITE3resok | WRITE3resfail


@dataclass(slots=True, repr=False, eq=False)
class createhow3(Composite):
    """XDR union `createhow3`, switched by `mode`."""

    mode: createmode3
    value: sattr3 | createverf3


@dataclass(slots=True, repr=False, eq=False)
class CREATE3args(Composite):
    """XDR struct `CREATE3args`."""

    where: diropargs3
    how: createhow3


@dataclass(slots=True, repr=False, eq=False)
class CREATE3resok(Composite):
    """XDR struct `CREATE3resok`."""

    obj: post_op_fh3
    obj_attributes: post_op_attr
    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class CREATE3resfail(Composite):
    """XDR struct `CREATE3resfail`."""

    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class CREATE3res(Composite):
    """XDR union `CREATE3res`, switched by `status`."""

    status: nfsstat3
    value: CREATE3resok | CREATE3resfail


@dataclass(slots=True, repr=False, eq=False)
class MKDIR3args(Composite):
    """XDR struct `MKDIR3args`."""

    where: diropargs3
    attributes: sattr3


@dataclass(slots=True, repr=False, eq=False)
class MKDIR3resok(Composite):
    """XDR struct `MKDIR3resok`."""

    obj: post_op_fh3
    obj_attributes: post_op_attr
    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class MKDIR3resfail(Composite):
    """XDR struct `MKDIR3resfail`."""

    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class MKDIR3res(Composite):
    """XDR union `MKDIR3res`, switched by `status`."""

    status: nfsstat3
    value: MKDIR3resok | MKDIR3resfail


@dataclass(slots=True, repr=False, eq=False)
class symlinkdata3(Composite):
    """XDR struct `symlinkdata3`."""

    symlink_attributes: sattr3
    symlink_data: nfspath3


@dataclass(slots=True, repr=False, eq=False)
class SYMLINK3args(Composite):
    """XDR struct `SYMLINK3args`."""

    where: diropargs3
    symlink: symlinkdata3


@dataclass(slots=True, repr=False, eq=False)
class SYMLINK3resok(Composite):
    """XDR struct `SYMLINK3resok`."""

    obj: post_op_fh3
    obj_attributes: post_op_attr
    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class SYMLINK3resfail(Composite):
    """XDR struct `SYMLINK3resfail`."""

    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class SYMLINK3res(Composite):
    """XDR union `SYMLINK3res`, switched by `status`."""

    status: nfsstat3
    value: SYMLINK3resok | SYMLINK3resfail


@dataclass(slots=True, repr=False, eq=False)
class devicedata3(Composite):
    """XDR struct `devicedata3`."""

    dev_attributes: sattr3
    spec: specdata3


@dataclass(slots=True, repr=False, eq=False)
class mknoddata3(Composite):
    """XDR union `mknoddata3`, switched by `type`."""

    type: ftype3
    value: devicedata3 | sattr3 | None


@dataclass(slots=True, repr=False, eq=False)
class MKNOD3args(Composite):
    """XDR struct `MKNOD3args`."""

    where: diropargs3
    what: mknoddata3


@dataclass(slots=True, repr=False, eq=False)
class MKNOD3resok(Composite):
    """XDR struct `MKNOD3resok`."""

    obj: post_op_fh3
    obj_attributes: post_op_attr
    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class MKNOD3resfail(Composite):
    """XDR struct `MKNOD3resfail`."""

    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class MKNOD3res(Composite):
    """XDR union `MKNOD3res`, switched by `status`."""

    status: nfsstat3
    value: MKNOD3resok | MKNOD3resfail


@dataclass(slots=True, repr=False, eq=False)
class REMOVE3args(Composite):
    """XDR struct `REMOVE3args`."""

    object: diropargs3


@dataclass(slots=True, repr=False, eq=False)
class REMOVE3resok(Composite):
    """XDR struct `REMOVE3resok`."""

    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class REMOVE3resfail(Composite):
    """XDR struct `REMOVE3resfail`."""

    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class REMOVE3res(Composite):
    """XDR union `REMOVE3res`, switched by `status`."""

    status: nfsstat3
    value: REMOVE3resok | REMOVE3resfail


@dataclass(slots=True, repr=False, eq=False)
class RMDIR3args(Composite):
    """XDR struct `RMDIR3args`."""

    object: diropargs3


@dataclass(slots=True, repr=False, eq=False)
class RMDIR3resok(Composite):
    """XDR struct `RMDIR3resok`."""

    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class RMDIR3resfail(Composite):
    """XDR struct `RMDIR3resfail`."""

    dir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class RMDIR3res(Composite):
    """XDR union `RMDIR3res`, switched by `status`."""

    status: nfsstat3
    value: RMDIR3resok | RMDIR3resfail


@dataclass(slots=True, repr=False, eq=False)
class RENAME3args(Composite):
    """XDR struct `RENAME3args`."""

    from_: diropargs3
    to: diropargs3


@dataclass(slots=True, repr=False, eq=False)
class RENAME3resok(Composite):
    """XDR struct `RENAME3resok`."""

    fromdir_wcc: wcc_data
    todir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class RENAME3resfail(Composite):
    """XDR struct `RENAME3resfail`."""

    fromdir_wcc: wcc_data
    todir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class RENAME3res(Composite):
    """XDR union `RENAME3res`, switched by `status`."""

    status: nfsstat3
    value: RENAME3resok | RENAME3resfail


@dataclass(slots=True, repr=False, eq=False)
class LINK3args(Composite):
    """XDR struct `LINK3args`."""

    file: nfs_fh3
    link: diropargs3


@dataclass(slots=True, repr=False, eq=False)
class LINK3resok(Composite):
    """XDR struct `LINK3resok`."""

    file_attributes: post_op_attr
    linkdir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class LINK3resfail(Composite):
    """XDR struct `LINK3resfail`."""

    file_attributes: post_op_attr
    linkdir_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class LINK3res(Composite):
    """XDR union `LINK3res`, switched by `status`."""

    status: nfsstat3
    value: LINK3resok | LINK3resfail


@dataclass(slots=True, repr=False, eq=False)
class READDIR3args(Composite):
    """XDR struct `READDIR3args`."""

    dir: nfs_fh3
    cookie: cookie3
    cookieverf: cookieverf3
    count: count3


@dataclass(slots=True, repr=False, eq=False)
class entry3(Composite):
    """XDR struct `entry3`."""

    fileid: fileid3
    name: filename3
    cookie: cookie3


@dataclass(slots=True, repr=False, eq=False)
class dirlist3(Composite):
    """XDR struct `dirlist3`."""

    entries: list[entry3]
    eof: bool


@dataclass(slots=True, repr=False, eq=False)
class READDIR3resok(Composite):
    """XDR struct `READDIR3resok`."""

    dir_attributes: post_op_attr
    cookieverf: cookieverf3
    reply: dirlist3


@dataclass(slots=True, repr=False, eq=False)
class READDIR3resfail(Composite):
    """XDR struct `READDIR3resfail`."""

    dir_attributes: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class READDIR3res(Composite):
    """XDR union `READDIR3res`, switched by `status`."""

    status: nfsstat3
    value: READDIR3resok | READDIR3resfail


@dataclass(slots=True, repr=False, eq=False)
class READDIRPLUS3args(Composite):
    """XDR struct `READDIRPLUS3args`."""

    dir: nfs_fh3
    cookie: cookie3
    cookieverf: cookieverf3
    dircount: count3
    maxcount: count3


@dataclass(slots=True, repr=False, eq=False)
class entryplus3(Composite):
    """XDR struct `entryplus3`."""

    fileid: fileid3
    name: filename3
    cookie: cookie3
    name_attributes: post_op_attr
    name_handle: post_op_fh3


@dataclass(slots=True, repr=False, eq=False)
class dirlistplus3(Composite):
    """XDR struct `dirlistplus3`."""

    entries: list[entryplus3]
    eof: bool


@dataclass(slots=True, repr=False, eq=False)
class READDIRPLUS3resok(Composite):
    """XDR struct `READDIRPLUS3resok`."""

    dir_attributes: post_op_attr
    cookieverf: cookieverf3
    reply: dirlistplus3


@dataclass(slots=True, repr=False, eq=False)
class READDIRPLUS3resfail(Composite):
    """XDR struct `READDIRPLUS3resfail`."""

    dir_attributes: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class READDIRPLUS3res(Composite):
    """XDR union `READDIRPLUS3res`, switched by `status`."""

    status: nfsstat3
    value: READDIRPLUS3resok | READDIRPLUS3resfail


@dataclass(slots=True, repr=False, eq=False)
class FSSTAT3args(Composite):
    """XDR struct `FSSTAT3args`."""

    fsroot: nfs_fh3


@dataclass(slots=True, repr=False, eq=False)
class FSSTAT3resok(Composite):
    """XDR struct `FSSTAT3resok`."""

    obj_attributes: post_op_attr
    tbytes: size3
    fbytes: size3
    abytes: size3
    tfiles: size3
    ffiles: size3
    afiles: size3
    invarsec: int


@dataclass(slots=True, repr=False, eq=False)
class FSSTAT3resfail(Composite):
    """XDR struct `FSSTAT3resfail`."""

    obj_attributes: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class FSSTAT3res(Composite):
    """XDR union `FSSTAT3res`, switched by `status`."""

    status: nfsstat3
    value: FSSTAT3resok | FSSTAT3resfail


@dataclass(slots=True, repr=False, eq=False)
class FSINFO3args(Composite):
    """XDR struct `FSINFO3args`."""

    fsroot: nfs_fh3


@dataclass(slots=True, repr=False, eq=False)
class FSINFO3resok(Composite):
    """XDR struct `FSINFO3resok`."""

    obj_attributes: post_op_attr
    rtmax: int
    rtpref: int
    rtmult: int
    wtmax: int
    wtpref: int
    wtmult: int
    dtpref: int
    maxfilesize: size3
    time_delta: nfstime3
    properties: int


@dataclass(slots=True, repr=False, eq=False)
class FSINFO3resfail(Composite):
    """XDR struct `FSINFO3resfail`."""

    obj_attributes: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class FSINFO3res(Composite):
    """XDR union `FSINFO3res`, switched by `status`."""

    status: nfsstat3
    value: FSINFO3resok | FSINFO3resfail


@dataclass(slots=True, repr=False, eq=False)
class PATHCONF3args(Composite):
    """XDR struct `PATHCONF3args`."""

    object: nfs_fh3


@dataclass(slots=True, repr=False, eq=False)
class PATHCONF3resok(Composite):
    """XDR struct `PATHCONF3resok`."""

    obj_attributes: post_op_attr
    linkmax: int
    name_max: int
    no_trunc: bool
    chown_restricted: bool
    case_insensitive: bool
    case_preserving: bool


@dataclass(slots=True, repr=False, eq=False)
class PATHCONF3resfail(Composite):
    """XDR struct `PATHCONF3resfail`."""

    obj_attributes: post_op_attr


@dataclass(slots=True, repr=False, eq=False)
class PATHCONF3res(Composite):
    """XDR union `PATHCONF3res`, switched by `status`."""

    status: nfsstat3
    value: PATHCONF3resok | PATHCONF3resfail


@dataclass(slots=True, repr=False, eq=False)
class COMMIT3args(Composite):
    """XDR struct `COMMIT3args`."""

    file: nfs_fh3
    offset: offset3
    count: count3


@dataclass(slots=True, repr=False, eq=False)
class COMMIT3resok(Composite):
    """XDR struct `COMMIT3resok`."""

    file_wcc: wcc_data
    verf: writeverf3


@dataclass(slots=True, repr=False, eq=False)
class COMMIT3resfail(Composite):
    """XDR struct `COMMIT3resfail`."""

    file_wcc: wcc_data


@dataclass(slots=True, repr=False, eq=False)
class COMMIT3res(Composite):
    """XDR union `COMMIT3res`, switched by `status`."""

    status: nfsstat3
    value: COMMIT3resok | COMMIT3resfail


filename3: TypeAlias = str
nfspath3: TypeAlias = str
fileid3: TypeAlias = int
cookie3: TypeAlias = int
cookieverf3: TypeAlias = bytes
createverf3: TypeAlias = bytes
writeverf3: TypeAlias = bytes
uid3: TypeAlias = int
gid3: TypeAlias = int
size3: TypeAlias = int
offset3: TypeAlias = int
mode3: TypeAlias = int
count3: TypeAlias = int

_LAYOUT_1: Final = Layout.of(">II", "specdata3.specdata1", "specdata3.specdata2")
_LAYOUT_2: Final = Layout.of(">II", "nfstime3.seconds", "nfstime3.nseconds")
_LAYOUT_3: Final = Layout.of(
    ">IIIIIQQIIQQIIIIII",
    "fattr3.type",
    "fattr3.mode",
    "fattr3.nlink",
    "fattr3.uid",
    "fattr3.gid",
    "fattr3.size",
    "fattr3.used",
    "fattr3.rdev.specdata1",
    "fattr3.rdev.specdata2",
    "fattr3.fsid",
    "fattr3.fileid",
    "fattr3.atime.seconds",
    "fattr3.atime.nseconds",
    "fattr3.mtime.seconds",
    "fattr3.mtime.nseconds",
    "fattr3.ctime.seconds",
    "fattr3.ctime.nseconds",
)
_LAYOUT_4: Final = Layout.of(
    ">QIIII",
    "wcc_attr.size",
    "wcc_attr.mtime.seconds",
    "wcc_attr.mtime.nseconds",
    "wcc_attr.ctime.seconds",
    "wcc_attr.ctime.nseconds",
)
_LAYOUT_5: Final = Layout.of(">Q", "set_size3.size")
_LAYOUT_6: Final = Layout.of(
    ">IIIIIQQIIQQIIIIII",
    "GETATTR3resok.obj_attributes.type",
    "GETATTR3resok.obj_attributes.mode",
    "GETATTR3resok.obj_attributes.nlink",
    "GETATTR3resok.obj_attributes.uid",
    "GETATTR3resok.obj_attributes.gid",
    "GETATTR3resok.obj_attributes.size",
    "GETATTR3resok.obj_attributes.used",
    "GETATTR3resok.obj_attributes.rdev.specdata1",
    "GETATTR3resok.obj_attributes.rdev.specdata2",
    "GETATTR3resok.obj_attributes.fsid",
    "GETATTR3resok.obj_attributes.fileid",
    "GETATTR3resok.obj_attributes.atime.seconds",
    "GETATTR3resok.obj_attributes.atime.nseconds",
    "GETATTR3resok.obj_attributes.mtime.seconds",
    "GETATTR3resok.obj_attributes.mtime.nseconds",
    "GETATTR3resok.obj_attributes.ctime.seconds",
    "GETATTR3resok.obj_attributes.ctime.nseconds",
)
_LAYOUT_7: Final = Layout.of(">QI", "READ3args.offset", "READ3args.count")
_LAYOUT_8: Final = Layout.of(">II", "READ3resok.count", "READ3resok.eof")
_LAYOUT_9: Final = Layout.of(">QII", "WRITE3args.offset", "WRITE3args.count", "WRITE3args.stable")
_LAYOUT_10: Final = Layout.of(">II8s", "WRITE3resok.count", "WRITE3resok.committed", "WRITE3resok.verf")
_LAYOUT_11: Final = Layout.of(">II", "devicedata3.spec.specdata1", "devicedata3.spec.specdata2")
_LAYOUT_12: Final = Layout.of(">Q8sI", "READDIR3args.cookie", "READDIR3args.cookieverf", "READDIR3args.count")
_LAYOUT_13: Final = Layout.of(">Q", "entry3.fileid")
_LAYOUT_14: Final = Layout.of(">Q", "entry3.cookie")
_LAYOUT_15: Final = Layout.of(
    ">Q8sII",
    "READDIRPLUS3args.cookie",
    "READDIRPLUS3args.cookieverf",
    "READDIRPLUS3args.dircount",
    "READDIRPLUS3args.maxcount",
)
_LAYOUT_16: Final = Layout.of(">Q", "entryplus3.fileid")
_LAYOUT_17: Final = Layout.of(">Q", "entryplus3.cookie")
_LAYOUT_18: Final = Layout.of(
    ">QQQQQQI",
    "FSSTAT3resok.tbytes",
    "FSSTAT3resok.fbytes",
    "FSSTAT3resok.abytes",
    "FSSTAT3resok.tfiles",
    "FSSTAT3resok.ffiles",
    "FSSTAT3resok.afiles",
    "FSSTAT3resok.invarsec",
)
_LAYOUT_19: Final = Layout.of(
    ">IIIIIIIQIII",
    "FSINFO3resok.rtmax",
    "FSINFO3resok.rtpref",
    "FSINFO3resok.rtmult",
    "FSINFO3resok.wtmax",
    "FSINFO3resok.wtpref",
    "FSINFO3resok.wtmult",
    "FSINFO3resok.dtpref",
    "FSINFO3resok.maxfilesize",
    "FSINFO3resok.time_delta.seconds",
    "FSINFO3resok.time_delta.nseconds",
    "FSINFO3resok.properties",
)
_LAYOUT_20: Final = Layout.of(
    ">IIIIII",
    "PATHCONF3resok.linkmax",
    "PATHCONF3resok.name_max",
    "PATHCONF3resok.no_trunc",
    "PATHCONF3resok.chown_restricted",
    "PATHCONF3resok.case_insensitive",
    "PATHCONF3resok.case_preserving",
)
_LAYOUT_21: Final = Layout.of(">QI", "COMMIT3args.offset", "COMMIT3args.count")
_LAYOUT_22: Final = Layout.of(">Q", "fileid3")
_LAYOUT_23: Final = Layout.of(">Q", "cookie3")
_LAYOUT_24: Final = Layout.of(">Q", "size3")
_LAYOUT_25: Final = Layout.of(">Q", "offset3")


def encode_nfsstat3(enc: Encoder, value: nfsstat3, field: str = "nfsstat3") -> None:
    if value not in _nfsstat3_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum nfsstat3")
    enc.u32(value, field)


def decode_nfsstat3(dec: Decoder, field: str = "nfsstat3") -> nfsstat3:
    wire_value = dec.u32(field)
    value = _nfsstat3_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    return value


def encode_ftype3(enc: Encoder, value: ftype3, field: str = "ftype3") -> None:
    if value not in _ftype3_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum ftype3")
    enc.u32(value, field)


def decode_ftype3(dec: Decoder, field: str = "ftype3") -> ftype3:
    wire_value = dec.u32(field)
    value = _ftype3_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum ftype3", str(wire_value))
    return value


def encode_time_how(enc: Encoder, value: time_how, field: str = "time_how") -> None:
    if value not in _time_how_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum time_how")
    enc.u32(value, field)


def decode_time_how(dec: Decoder, field: str = "time_how") -> time_how:
    wire_value = dec.u32(field)
    value = _time_how_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum time_how", str(wire_value))
    return value


def encode_stable_how(enc: Encoder, value: stable_how, field: str = "stable_how") -> None:
    if value not in _stable_how_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum stable_how")
    enc.u32(value, field)


def decode_stable_how(dec: Decoder, field: str = "stable_how") -> stable_how:
    wire_value = dec.u32(field)
    value = _stable_how_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum stable_how", str(wire_value))
    return value


def encode_createmode3(enc: Encoder, value: createmode3, field: str = "createmode3") -> None:
    if value not in _createmode3_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum createmode3")
    enc.u32(value, field)


def decode_createmode3(dec: Decoder, field: str = "createmode3") -> createmode3:
    wire_value = dec.u32(field)
    value = _createmode3_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum createmode3", str(wire_value))
    return value


def encode_specdata3(enc: Encoder, value: specdata3) -> None:
    enc.put(_LAYOUT_1, value.specdata1, value.specdata2)


def decode_specdata3(dec: Decoder) -> specdata3:
    group_values = dec.take(_LAYOUT_1, "specdata3.specdata1..specdata2")
    return specdata3(group_values[0], group_values[1])


def encode_nfs_fh3(enc: Encoder, value: nfs_fh3) -> None:
    enc.opaque(value.data, 64, "nfs_fh3.data")


def decode_nfs_fh3(dec: Decoder) -> nfs_fh3:
    data_ = dec.opaque(64, "nfs_fh3.data")
    return nfs_fh3(data_)


def encode_nfstime3(enc: Encoder, value: nfstime3) -> None:
    enc.put(_LAYOUT_2, value.seconds, value.nseconds)


def decode_nfstime3(dec: Decoder) -> nfstime3:
    group_values = dec.take(_LAYOUT_2, "nfstime3.seconds..nseconds")
    return nfstime3(group_values[0], group_values[1])


def encode_fattr3(enc: Encoder, value: fattr3) -> None:
    if value.type not in _ftype3_BY_VALUE:
        raise LocalProtocolError(f"fattr3.type: {value.type!r} is no value of enum ftype3")
    enc.put(
        _LAYOUT_3,
        value.type,
        value.mode,
        value.nlink,
        value.uid,
        value.gid,
        value.size,
        value.used,
        value.rdev.specdata1,
        value.rdev.specdata2,
        value.fsid,
        value.fileid,
        value.atime.seconds,
        value.atime.nseconds,
        value.mtime.seconds,
        value.mtime.nseconds,
        value.ctime.seconds,
        value.ctime.nseconds,
    )


def decode_fattr3(dec: Decoder) -> fattr3:
    group_values = dec.take(_LAYOUT_3, "fattr3.type..ctime.nseconds")
    type_ = _ftype3_BY_VALUE.get(group_values[0])
    if type_ is None:
        raise DecodeError("fattr3.type", dec.pos - dec.start - 84, "a value of enum ftype3", str(group_values[0]))
    return fattr3(
        type_,
        group_values[1],
        group_values[2],
        group_values[3],
        group_values[4],
        group_values[5],
        group_values[6],
        specdata3(group_values[7], group_values[8]),
        group_values[9],
        group_values[10],
        nfstime3(group_values[11], group_values[12]),
        nfstime3(group_values[13], group_values[14]),
        nfstime3(group_values[15], group_values[16]),
    )


def encode_post_op_attr(enc: Encoder, value: post_op_attr) -> None:
    tag = value.attributes_follow
    arm_value: Any = value.value
    if tag:
        enc.reduced += b"\x00\x00\x00\x01"
        if not isinstance(arm_value, fattr3):
            raise LocalProtocolError(f"post_op_attr.attributes: {type(arm_value).__name__} given, the arm is fattr3")
        encode_fattr3(enc, arm_value)
        return
    enc.reduced += b"\x00\x00\x00\x00"
    if arm_value is not None:
        raise LocalProtocolError(f"post_op_attr: {type(arm_value).__name__} given, the arm is void")


def decode_post_op_attr(dec: Decoder) -> post_op_attr:
    tag = dec.boolean("post_op_attr.attributes_follow")
    if tag:
        return post_op_attr(tag, decode_fattr3(dec))
    return post_op_attr(tag, None)


def encode_wcc_attr(enc: Encoder, value: wcc_attr) -> None:
    enc.put(_LAYOUT_4, value.size, value.mtime.seconds, value.mtime.nseconds, value.ctime.seconds, value.ctime.nseconds)


def decode_wcc_attr(dec: Decoder) -> wcc_attr:
    group_values = dec.take(_LAYOUT_4, "wcc_attr.size..ctime.nseconds")
    return wcc_attr(
        group_values[0], nfstime3(group_values[1], group_values[2]), nfstime3(group_values[3], group_values[4])
    )


def encode_pre_op_attr(enc: Encoder, value: pre_op_attr) -> None:
    tag = value.attributes_follow
    arm_value: Any = value.value
    if tag:
        enc.reduced += b"\x00\x00\x00\x01"
        if not isinstance(arm_value, wcc_attr):
            raise LocalProtocolError(f"pre_op_attr.attributes: {type(arm_value).__name__} given, the arm is wcc_attr")
        encode_wcc_attr(enc, arm_value)
        return
    enc.reduced += b"\x00\x00\x00\x00"
    if arm_value is not None:
        raise LocalProtocolError(f"pre_op_attr: {type(arm_value).__name__} given, the arm is void")


def decode_pre_op_attr(dec: Decoder) -> pre_op_attr:
    tag = dec.boolean("pre_op_attr.attributes_follow")
    if tag:
        return pre_op_attr(tag, decode_wcc_attr(dec))
    return pre_op_attr(tag, None)


def encode_wcc_data(enc: Encoder, value: wcc_data) -> None:
    encode_pre_op_attr(enc, value.before)
    encode_post_op_attr(enc, value.after)


def decode_wcc_data(dec: Decoder) -> wcc_data:
    before_ = decode_pre_op_attr(dec)
    after_ = decode_post_op_attr(dec)
    return wcc_data(before_, after_)


def encode_post_op_fh3(enc: Encoder, value: post_op_fh3) -> None:
    tag = value.handle_follows
    arm_value: Any = value.value
    if tag:
        enc.reduced += b"\x00\x00\x00\x01"
        if not isinstance(arm_value, nfs_fh3):
            raise LocalProtocolError(f"post_op_fh3.handle: {type(arm_value).__name__} given, the arm is nfs_fh3")
        encode_nfs_fh3(enc, arm_value)
        return
    enc.reduced += b"\x00\x00\x00\x00"
    if arm_value is not None:
        raise LocalProtocolError(f"post_op_fh3: {type(arm_value).__name__} given, the arm is void")


def decode_post_op_fh3(dec: Decoder) -> post_op_fh3:
    tag = dec.boolean("post_op_fh3.handle_follows")
    if tag:
        return post_op_fh3(tag, decode_nfs_fh3(dec))
    return post_op_fh3(tag, None)


def encode_set_mode3(enc: Encoder, value: set_mode3) -> None:
    tag = value.set_it
    arm_value: Any = value.value
    if tag:
        enc.reduced += b"\x00\x00\x00\x01"
        enc.u32(arm_value, "set_mode3.mode")
        return
    if tag not in {0, 1}:
        raise LocalProtocolError(f"set_mode3.set_it: {tag!r} is no bool")
    enc.u32(tag, "set_mode3.set_it")
    if arm_value is not None:
        raise LocalProtocolError(f"set_mode3: {type(arm_value).__name__} given, the arm is void")


def decode_set_mode3(dec: Decoder) -> set_mode3:
    tag = dec.boolean("set_mode3.set_it")
    if tag:
        return set_mode3(tag, dec.u32("set_mode3.mode"))
    return set_mode3(tag, None)


def encode_set_uid3(enc: Encoder, value: set_uid3) -> None:
    tag = value.set_it
    arm_value: Any = value.value
    if tag:
        enc.reduced += b"\x00\x00\x00\x01"
        enc.u32(arm_value, "set_uid3.uid")
        return
    if tag not in {0, 1}:
        raise LocalProtocolError(f"set_uid3.set_it: {tag!r} is no bool")
    enc.u32(tag, "set_uid3.set_it")
    if arm_value is not None:
        raise LocalProtocolError(f"set_uid3: {type(arm_value).__name__} given, the arm is void")


def decode_set_uid3(dec: Decoder) -> set_uid3:
    tag = dec.boolean("set_uid3.set_it")
    if tag:
        return set_uid3(tag, dec.u32("set_uid3.uid"))
    return set_uid3(tag, None)


def encode_set_gid3(enc: Encoder, value: set_gid3) -> None:
    tag = value.set_it
    arm_value: Any = value.value
    if tag:
        enc.reduced += b"\x00\x00\x00\x01"
        enc.u32(arm_value, "set_gid3.gid")
        return
    if tag not in {0, 1}:
        raise LocalProtocolError(f"set_gid3.set_it: {tag!r} is no bool")
    enc.u32(tag, "set_gid3.set_it")
    if arm_value is not None:
        raise LocalProtocolError(f"set_gid3: {type(arm_value).__name__} given, the arm is void")


def decode_set_gid3(dec: Decoder) -> set_gid3:
    tag = dec.boolean("set_gid3.set_it")
    if tag:
        return set_gid3(tag, dec.u32("set_gid3.gid"))
    return set_gid3(tag, None)


def encode_set_size3(enc: Encoder, value: set_size3) -> None:
    tag = value.set_it
    arm_value: Any = value.value
    if tag:
        enc.reduced += b"\x00\x00\x00\x01"
        enc.put(_LAYOUT_5, arm_value)
        return
    if tag not in {0, 1}:
        raise LocalProtocolError(f"set_size3.set_it: {tag!r} is no bool")
    enc.u32(tag, "set_size3.set_it")
    if arm_value is not None:
        raise LocalProtocolError(f"set_size3: {type(arm_value).__name__} given, the arm is void")


def decode_set_size3(dec: Decoder) -> set_size3:
    tag = dec.boolean("set_size3.set_it")
    if tag:
        return set_size3(tag, dec.u64("set_size3.size"))
    return set_size3(tag, None)


def encode_set_atime(enc: Encoder, value: set_atime) -> None:
    tag = value.set_it
    arm_value: Any = value.value
    if tag == 2:
        enc.reduced += b"\x00\x00\x00\x02"
        if not isinstance(arm_value, nfstime3):
            raise LocalProtocolError(f"set_atime.atime: {type(arm_value).__name__} given, the arm is nfstime3")
        encode_nfstime3(enc, arm_value)
        return
    encode_time_how(enc, tag, "set_atime.set_it")
    if arm_value is not None:
        raise LocalProtocolError(f"set_atime: {type(arm_value).__name__} given, the arm is void")


def decode_set_atime(dec: Decoder) -> set_atime:
    wire_value = dec.u32("set_atime.set_it")
    tag = _time_how_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("set_atime.set_it", dec.pos - dec.start - 4, "a value of enum time_how", str(wire_value))
    if tag == 2:
        return set_atime(tag, decode_nfstime3(dec))
    return set_atime(tag, None)


def encode_set_mtime(enc: Encoder, value: set_mtime) -> None:
    tag = value.set_it
    arm_value: Any = value.value
    if tag == 2:
        enc.reduced += b"\x00\x00\x00\x02"
        if not isinstance(arm_value, nfstime3):
            raise LocalProtocolError(f"set_mtime.mtime: {type(arm_value).__name__} given, the arm is nfstime3")
        encode_nfstime3(enc, arm_value)
        return
    encode_time_how(enc, tag, "set_mtime.set_it")
    if arm_value is not None:
        raise LocalProtocolError(f"set_mtime: {type(arm_value).__name__} given, the arm is void")


def decode_set_mtime(dec: Decoder) -> set_mtime:
    wire_value = dec.u32("set_mtime.set_it")
    tag = _time_how_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("set_mtime.set_it", dec.pos - dec.start - 4, "a value of enum time_how", str(wire_value))
    if tag == 2:
        return set_mtime(tag, decode_nfstime3(dec))
    return set_mtime(tag, None)


def encode_sattr3(enc: Encoder, value: sattr3) -> None:
    encode_set_mode3(enc, value.mode)
    encode_set_uid3(enc, value.uid)
    encode_set_gid3(enc, value.gid)
    encode_set_size3(enc, value.size)
    encode_set_atime(enc, value.atime)
    encode_set_mtime(enc, value.mtime)


def decode_sattr3(dec: Decoder) -> sattr3:
    mode_ = decode_set_mode3(dec)
    uid_ = decode_set_uid3(dec)
    gid_ = decode_set_gid3(dec)
    size_ = decode_set_size3(dec)
    atime_ = decode_set_atime(dec)
    mtime_ = decode_set_mtime(dec)
    return sattr3(mode_, uid_, gid_, size_, atime_, mtime_)


def encode_diropargs3(enc: Encoder, value: diropargs3) -> None:
    encode_nfs_fh3(enc, value.dir)
    enc.string(value.name, 255, "diropargs3.name")


def decode_diropargs3(dec: Decoder) -> diropargs3:
    dir_ = decode_nfs_fh3(dec)
    name_ = dec.string(255, "diropargs3.name")
    return diropargs3(dir_, name_)


def encode_GETATTR3args(enc: Encoder, value: GETATTR3args) -> None:
    encode_nfs_fh3(enc, value.object)


def decode_GETATTR3args(dec: Decoder) -> GETATTR3args:
    object_ = decode_nfs_fh3(dec)
    return GETATTR3args(object_)


def encode_GETATTR3resok(enc: Encoder, value: GETATTR3resok) -> None:
    if value.obj_attributes.type not in _ftype3_BY_VALUE:
        raise LocalProtocolError(
            f"GETATTR3resok.obj_attributes.type: {value.obj_attributes.type!r} is no value of enum ftype3"
        )
    enc.put(
        _LAYOUT_6,
        value.obj_attributes.type,
        value.obj_attributes.mode,
        value.obj_attributes.nlink,
        value.obj_attributes.uid,
        value.obj_attributes.gid,
        value.obj_attributes.size,
        value.obj_attributes.used,
        value.obj_attributes.rdev.specdata1,
        value.obj_attributes.rdev.specdata2,
        value.obj_attributes.fsid,
        value.obj_attributes.fileid,
        value.obj_attributes.atime.seconds,
        value.obj_attributes.atime.nseconds,
        value.obj_attributes.mtime.seconds,
        value.obj_attributes.mtime.nseconds,
        value.obj_attributes.ctime.seconds,
        value.obj_attributes.ctime.nseconds,
    )


def decode_GETATTR3resok(dec: Decoder) -> GETATTR3resok:
    group_values = dec.take(_LAYOUT_6, "GETATTR3resok.obj_attributes.type..obj_attributes.ctime.nseconds")
    obj_attributes_type_ = _ftype3_BY_VALUE.get(group_values[0])
    if obj_attributes_type_ is None:
        raise DecodeError(
            "GETATTR3resok.obj_attributes.type",
            dec.pos - dec.start - 84,
            "a value of enum ftype3",
            str(group_values[0]),
        )
    return GETATTR3resok(
        fattr3(
            obj_attributes_type_,
            group_values[1],
            group_values[2],
            group_values[3],
            group_values[4],
            group_values[5],
            group_values[6],
            specdata3(group_values[7], group_values[8]),
            group_values[9],
            group_values[10],
            nfstime3(group_values[11], group_values[12]),
            nfstime3(group_values[13], group_values[14]),
            nfstime3(group_values[15], group_values[16]),
        ),
    )


def encode_GETATTR3res(enc: Encoder, value: GETATTR3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, GETATTR3resok):
            raise LocalProtocolError(f"GETATTR3res.resok: {type(arm_value).__name__} given, the arm is GETATTR3resok")
        encode_GETATTR3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "GETATTR3res.status")
    if arm_value is not None:
        raise LocalProtocolError(f"GETATTR3res: {type(arm_value).__name__} given, the arm is void")


def decode_GETATTR3res(dec: Decoder) -> GETATTR3res:
    wire_value = dec.u32("GETATTR3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("GETATTR3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return GETATTR3res(tag, decode_GETATTR3resok(dec))
    return GETATTR3res(tag, None)


def encode_sattrguard3(enc: Encoder, value: sattrguard3) -> None:
    tag = value.check
    arm_value: Any = value.value
    if tag:
        enc.reduced += b"\x00\x00\x00\x01"
        if not isinstance(arm_value, nfstime3):
            raise LocalProtocolError(f"sattrguard3.obj_ctime: {type(arm_value).__name__} given, the arm is nfstime3")
        encode_nfstime3(enc, arm_value)
        return
    enc.reduced += b"\x00\x00\x00\x00"
    if arm_value is not None:
        raise LocalProtocolError(f"sattrguard3: {type(arm_value).__name__} given, the arm is void")


def decode_sattrguard3(dec: Decoder) -> sattrguard3:
    tag = dec.boolean("sattrguard3.check")
    if tag:
        return sattrguard3(tag, decode_nfstime3(dec))
    return sattrguard3(tag, None)


def encode_SETATTR3args(enc: Encoder, value: SETATTR3args) -> None:
    encode_nfs_fh3(enc, value.object)
    encode_sattr3(enc, value.new_attributes)
    encode_sattrguard3(enc, value.guard)


def decode_SETATTR3args(dec: Decoder) -> SETATTR3args:
    object_ = decode_nfs_fh3(dec)
    new_attributes_ = decode_sattr3(dec)
    guard_ = decode_sattrguard3(dec)
    return SETATTR3args(object_, new_attributes_, guard_)


def encode_SETATTR3resok(enc: Encoder, value: SETATTR3resok) -> None:
    encode_wcc_data(enc, value.obj_wcc)


def decode_SETATTR3resok(dec: Decoder) -> SETATTR3resok:
    obj_wcc_ = decode_wcc_data(dec)
    return SETATTR3resok(obj_wcc_)


def encode_SETATTR3resfail(enc: Encoder, value: SETATTR3resfail) -> None:
    encode_wcc_data(enc, value.obj_wcc)


def decode_SETATTR3resfail(dec: Decoder) -> SETATTR3resfail:
    obj_wcc_ = decode_wcc_data(dec)
    return SETATTR3resfail(obj_wcc_)


def encode_SETATTR3res(enc: Encoder, value: SETATTR3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, SETATTR3resok):
            raise LocalProtocolError(f"SETATTR3res.resok: {type(arm_value).__name__} given, the arm is SETATTR3resok")
        encode_SETATTR3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "SETATTR3res.status")
    if not isinstance(arm_value, SETATTR3resfail):
        raise LocalProtocolError(f"SETATTR3res.resfail: {type(arm_value).__name__} given, the arm is SETATTR3resfail")
    encode_SETATTR3resfail(enc, arm_value)


def decode_SETATTR3res(dec: Decoder) -> SETATTR3res:
    wire_value = dec.u32("SETATTR3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("SETATTR3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return SETATTR3res(tag, decode_SETATTR3resok(dec))
    return SETATTR3res(tag, decode_SETATTR3resfail(dec))


def encode_LOOKUP3args(enc: Encoder, value: LOOKUP3args) -> None:
    encode_diropargs3(enc, value.what)


def decode_LOOKUP3args(dec: Decoder) -> LOOKUP3args:
    what_ = decode_diropargs3(dec)
    return LOOKUP3args(what_)


def encode_LOOKUP3resok(enc: Encoder, value: LOOKUP3resok) -> None:
    encode_nfs_fh3(enc, value.object)
    encode_post_op_attr(enc, value.obj_attributes)
    encode_post_op_attr(enc, value.dir_attributes)


def decode_LOOKUP3resok(dec: Decoder) -> LOOKUP3resok:
    object_ = decode_nfs_fh3(dec)
    obj_attributes_ = decode_post_op_attr(dec)
    dir_attributes_ = decode_post_op_attr(dec)
    return LOOKUP3resok(object_, obj_attributes_, dir_attributes_)


def encode_LOOKUP3resfail(enc: Encoder, value: LOOKUP3resfail) -> None:
    encode_post_op_attr(enc, value.dir_attributes)


def decode_LOOKUP3resfail(dec: Decoder) -> LOOKUP3resfail:
    dir_attributes_ = decode_post_op_attr(dec)
    return LOOKUP3resfail(dir_attributes_)


def encode_LOOKUP3res(enc: Encoder, value: LOOKUP3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, LOOKUP3resok):
            raise LocalProtocolError(f"LOOKUP3res.resok: {type(arm_value).__name__} given, the arm is LOOKUP3resok")
        encode_LOOKUP3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "LOOKUP3res.status")
    if not isinstance(arm_value, LOOKUP3resfail):
        raise LocalProtocolError(f"LOOKUP3res.resfail: {type(arm_value).__name__} given, the arm is LOOKUP3resfail")
    encode_LOOKUP3resfail(enc, arm_value)


def decode_LOOKUP3res(dec: Decoder) -> LOOKUP3res:
    wire_value = dec.u32("LOOKUP3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("LOOKUP3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return LOOKUP3res(tag, decode_LOOKUP3resok(dec))
    return LOOKUP3res(tag, decode_LOOKUP3resfail(dec))


def encode_ACCESS3args(enc: Encoder, value: ACCESS3args) -> None:
    encode_nfs_fh3(enc, value.object)
    enc.u32(value.access, "ACCESS3args.access")


def decode_ACCESS3args(dec: Decoder) -> ACCESS3args:
    object_ = decode_nfs_fh3(dec)
    access_ = dec.u32("ACCESS3args.access")
    return ACCESS3args(object_, access_)


def encode_ACCESS3resok(enc: Encoder, value: ACCESS3resok) -> None:
    encode_post_op_attr(enc, value.obj_attributes)
    enc.u32(value.access, "ACCESS3resok.access")


def decode_ACCESS3resok(dec: Decoder) -> ACCESS3resok:
    obj_attributes_ = decode_post_op_attr(dec)
    access_ = dec.u32("ACCESS3resok.access")
    return ACCESS3resok(obj_attributes_, access_)


def encode_ACCESS3resfail(enc: Encoder, value: ACCESS3resfail) -> None:
    encode_post_op_attr(enc, value.obj_attributes)


def decode_ACCESS3resfail(dec: Decoder) -> ACCESS3resfail:
    obj_attributes_ = decode_post_op_attr(dec)
    return ACCESS3resfail(obj_attributes_)


def encode_ACCESS3res(enc: Encoder, value: ACCESS3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, ACCESS3resok):
            raise LocalProtocolError(f"ACCESS3res.resok: {type(arm_value).__name__} given, the arm is ACCESS3resok")
        encode_ACCESS3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "ACCESS3res.status")
    if not isinstance(arm_value, ACCESS3resfail):
        raise LocalProtocolError(f"ACCESS3res.resfail: {type(arm_value).__name__} given, the arm is ACCESS3resfail")
    encode_ACCESS3resfail(enc, arm_value)


def decode_ACCESS3res(dec: Decoder) -> ACCESS3res:
    wire_value = dec.u32("ACCESS3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("ACCESS3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return ACCESS3res(tag, decode_ACCESS3resok(dec))
    return ACCESS3res(tag, decode_ACCESS3resfail(dec))


def encode_READLINK3args(enc: Encoder, value: READLINK3args) -> None:
    encode_nfs_fh3(enc, value.symlink)


def decode_READLINK3args(dec: Decoder) -> READLINK3args:
    symlink_ = decode_nfs_fh3(dec)
    return READLINK3args(symlink_)


def encode_READLINK3resok(enc: Encoder, value: READLINK3resok) -> None:
    encode_post_op_attr(enc, value.symlink_attributes)
    enc.bulk_string(value.data, 4096, "READLINK3resok.data")


def decode_READLINK3resok(dec: Decoder) -> READLINK3resok:
    symlink_attributes_ = decode_post_op_attr(dec)
    data_ = dec.bulk_string(4096, "READLINK3resok.data")
    return READLINK3resok(symlink_attributes_, data_)


def encode_READLINK3resfail(enc: Encoder, value: READLINK3resfail) -> None:
    encode_post_op_attr(enc, value.symlink_attributes)


def decode_READLINK3resfail(dec: Decoder) -> READLINK3resfail:
    symlink_attributes_ = decode_post_op_attr(dec)
    return READLINK3resfail(symlink_attributes_)


def encode_READLINK3res(enc: Encoder, value: READLINK3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, READLINK3resok):
            raise LocalProtocolError(f"READLINK3res.resok: {type(arm_value).__name__} given, the arm is READLINK3resok")
        encode_READLINK3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "READLINK3res.status")
    if not isinstance(arm_value, READLINK3resfail):
        raise LocalProtocolError(f"READLINK3res.resfail: {type(arm_value).__name__} given, the arm is READLINK3resfail")
    encode_READLINK3resfail(enc, arm_value)


def decode_READLINK3res(dec: Decoder) -> READLINK3res:
    wire_value = dec.u32("READLINK3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("READLINK3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return READLINK3res(tag, decode_READLINK3resok(dec))
    return READLINK3res(tag, decode_READLINK3resfail(dec))


def encode_READ3args(enc: Encoder, value: READ3args) -> None:
    encode_nfs_fh3(enc, value.file)
    enc.put(_LAYOUT_7, value.offset, value.count)


def decode_READ3args(dec: Decoder) -> READ3args:
    file_ = decode_nfs_fh3(dec)
    group_values1 = dec.take(_LAYOUT_7, "READ3args.offset..count")
    return READ3args(file_, group_values1[0], group_values1[1])


def encode_READ3resok(enc: Encoder, value: READ3resok) -> None:
    encode_post_op_attr(enc, value.file_attributes)
    if value.eof not in {0, 1}:
        raise LocalProtocolError(f"READ3resok.eof: {value.eof!r} is no bool")
    enc.put(_LAYOUT_8, value.count, value.eof)
    enc.bulk(value.data, 4194304, "READ3resok.data")


def decode_READ3resok(dec: Decoder) -> READ3resok:
    file_attributes_ = decode_post_op_attr(dec)
    group_values1 = dec.take(_LAYOUT_8, "READ3resok.count..eof")
    if group_values1[1] > 1:
        raise DecodeError("READ3resok.eof", dec.pos - dec.start - 4, "0 or 1", str(group_values1[1]))
    data_ = dec.bulk(4194304, "READ3resok.data")
    return READ3resok(file_attributes_, group_values1[0], group_values1[1] == 1, data_)


def encode_READ3resfail(enc: Encoder, value: READ3resfail) -> None:
    encode_post_op_attr(enc, value.file_attributes)


def decode_READ3resfail(dec: Decoder) -> READ3resfail:
    file_attributes_ = decode_post_op_attr(dec)
    return READ3resfail(file_attributes_)


def encode_READ3res(enc: Encoder, value: READ3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, READ3resok):
            raise LocalProtocolError(f"READ3res.resok: {type(arm_value).__name__} given, the arm is READ3resok")
        encode_READ3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "READ3res.status")
    if not isinstance(arm_value, READ3resfail):
        raise LocalProtocolError(f"READ3res.resfail: {type(arm_value).__name__} given, the arm is READ3resfail")
    encode_READ3resfail(enc, arm_value)


def decode_READ3res(dec: Decoder) -> READ3res:
    wire_value = dec.u32("READ3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("READ3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return READ3res(tag, decode_READ3resok(dec))
    return READ3res(tag, decode_READ3resfail(dec))


def encode_WRITE3args(enc: Encoder, value: WRITE3args) -> None:
    encode_nfs_fh3(enc, value.file)
    if value.stable not in _stable_how_BY_VALUE:
        raise LocalProtocolError(f"WRITE3args.stable: {value.stable!r} is no value of enum stable_how")
    enc.put(_LAYOUT_9, value.offset, value.count, value.stable)
    enc.bulk(value.data, 4194304, "WRITE3args.data")


def decode_WRITE3args(dec: Decoder) -> WRITE3args:
    file_ = decode_nfs_fh3(dec)
    group_values1 = dec.take(_LAYOUT_9, "WRITE3args.offset..stable")
    stable_ = _stable_how_BY_VALUE.get(group_values1[2])
    if stable_ is None:
        raise DecodeError(
            "WRITE3args.stable", dec.pos - dec.start - 4, "a value of enum stable_how", str(group_values1[2])
        )
    data_ = dec.bulk(4194304, "WRITE3args.data")
    return WRITE3args(file_, group_values1[0], group_values1[1], stable_, data_)


def encode_WRITE3resok(enc: Encoder, value: WRITE3resok) -> None:
    encode_wcc_data(enc, value.file_wcc)
    if value.committed not in _stable_how_BY_VALUE:
        raise LocalProtocolError(f"WRITE3resok.committed: {value.committed!r} is no value of enum stable_how")
    enc.put(_LAYOUT_10, value.count, value.committed, enc.exactly(value.verf, 8, "WRITE3resok.verf"))


def decode_WRITE3resok(dec: Decoder) -> WRITE3resok:
    file_wcc_ = decode_wcc_data(dec)
    group_values1 = dec.take(_LAYOUT_10, "WRITE3resok.count..verf")
    committed_ = _stable_how_BY_VALUE.get(group_values1[1])
    if committed_ is None:
        raise DecodeError(
            "WRITE3resok.committed", dec.pos - dec.start - 12, "a value of enum stable_how", str(group_values1[1])
        )
    return WRITE3resok(file_wcc_, group_values1[0], committed_, group_values1[2])


def encode_WRITE3resfail(enc: Encoder, value: WRITE3resfail) -> None:
    encode_wcc_data(enc, value.file_wcc)


def decode_WRITE3resfail(dec: Decoder) -> WRITE3resfail:
    file_wcc_ = decode_wcc_data(dec)
    return WRITE3resfail(file_wcc_)


def encode_WRITE3res(enc: Encoder, value: WRITE3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, WRITE3resok):
            raise LocalProtocolError(f"WRITE3res.resok: {type(arm_value).__name__} given, the arm is WRITE3resok")
        encode_WRITE3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "WRITE3res.status")
    if not isinstance(arm_value, WRITE3resfail):
        raise LocalProtocolError(f"WRITE3res.resfail: {type(arm_value).__name__} given, the arm is WRITE3resfail")
    encode_WRITE3resfail(enc, arm_value)


def decode_WRITE3res(dec: Decoder) -> WRITE3res:
    wire_value = dec.u32("WRITE3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("WRITE3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return WRITE3res(tag, decode_WRITE3resok(dec))
    return WRITE3res(tag, decode_WRITE3resfail(dec))


def encode_createhow3(enc: Encoder, value: createhow3) -> None:
    tag = value.mode
    arm_value: Any = value.value
    if tag in {0, 1}:
        enc.u32(tag, "createhow3.mode")
        if not isinstance(arm_value, sattr3):
            raise LocalProtocolError(f"createhow3.obj_attributes: {type(arm_value).__name__} given, the arm is sattr3")
        encode_sattr3(enc, arm_value)
        return
    if tag == 2:
        enc.reduced += b"\x00\x00\x00\x02"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"createhow3.verf: {type(arm_value).__name__} given, the arm is opaque")
        enc.fixed(arm_value, 8, "createhow3.verf")
        return
    raise LocalProtocolError(f"createhow3.mode: {tag!r} is no case of union createhow3")


def decode_createhow3(dec: Decoder) -> createhow3:
    wire_value = dec.u32("createhow3.mode")
    tag = _createmode3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("createhow3.mode", dec.pos - dec.start - 4, "a value of enum createmode3", str(wire_value))
    if tag in {0, 1}:
        return createhow3(tag, decode_sattr3(dec))
    if tag == 2:
        return createhow3(tag, dec.fixed(8, "createhow3.verf"))
    raise DecodeError("createhow3.mode", dec.pos - dec.start - 4, "a case of union createhow3", str(int(tag)))


def encode_CREATE3args(enc: Encoder, value: CREATE3args) -> None:
    encode_diropargs3(enc, value.where)
    encode_createhow3(enc, value.how)


def decode_CREATE3args(dec: Decoder) -> CREATE3args:
    where_ = decode_diropargs3(dec)
    how_ = decode_createhow3(dec)
    return CREATE3args(where_, how_)


def encode_CREATE3resok(enc: Encoder, value: CREATE3resok) -> None:
    encode_post_op_fh3(enc, value.obj)
    encode_post_op_attr(enc, value.obj_attributes)
    encode_wcc_data(enc, value.dir_wcc)


def decode_CREATE3resok(dec: Decoder) -> CREATE3resok:
    obj_ = decode_post_op_fh3(dec)
    obj_attributes_ = decode_post_op_attr(dec)
    dir_wcc_ = decode_wcc_data(dec)
    return CREATE3resok(obj_, obj_attributes_, dir_wcc_)


def encode_CREATE3resfail(enc: Encoder, value: CREATE3resfail) -> None:
    encode_wcc_data(enc, value.dir_wcc)


def decode_CREATE3resfail(dec: Decoder) -> CREATE3resfail:
    dir_wcc_ = decode_wcc_data(dec)
    return CREATE3resfail(dir_wcc_)


def encode_CREATE3res(enc: Encoder, value: CREATE3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, CREATE3resok):
            raise LocalProtocolError(f"CREATE3res.resok: {type(arm_value).__name__} given, the arm is CREATE3resok")
        encode_CREATE3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "CREATE3res.status")
    if not isinstance(arm_value, CREATE3resfail):
        raise LocalProtocolError(f"CREATE3res.resfail: {type(arm_value).__name__} given, the arm is CREATE3resfail")
    encode_CREATE3resfail(enc, arm_value)


def decode_CREATE3res(dec: Decoder) -> CREATE3res:
    wire_value = dec.u32("CREATE3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("CREATE3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return CREATE3res(tag, decode_CREATE3resok(dec))
    return CREATE3res(tag, decode_CREATE3resfail(dec))


def encode_MKDIR3args(enc: Encoder, value: MKDIR3args) -> None:
    encode_diropargs3(enc, value.where)
    encode_sattr3(enc, value.attributes)


def decode_MKDIR3args(dec: Decoder) -> MKDIR3args:
    where_ = decode_diropargs3(dec)
    attributes_ = decode_sattr3(dec)
    return MKDIR3args(where_, attributes_)


def encode_MKDIR3resok(enc: Encoder, value: MKDIR3resok) -> None:
    encode_post_op_fh3(enc, value.obj)
    encode_post_op_attr(enc, value.obj_attributes)
    encode_wcc_data(enc, value.dir_wcc)


def decode_MKDIR3resok(dec: Decoder) -> MKDIR3resok:
    obj_ = decode_post_op_fh3(dec)
    obj_attributes_ = decode_post_op_attr(dec)
    dir_wcc_ = decode_wcc_data(dec)
    return MKDIR3resok(obj_, obj_attributes_, dir_wcc_)


def encode_MKDIR3resfail(enc: Encoder, value: MKDIR3resfail) -> None:
    encode_wcc_data(enc, value.dir_wcc)


def decode_MKDIR3resfail(dec: Decoder) -> MKDIR3resfail:
    dir_wcc_ = decode_wcc_data(dec)
    return MKDIR3resfail(dir_wcc_)


def encode_MKDIR3res(enc: Encoder, value: MKDIR3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, MKDIR3resok):
            raise LocalProtocolError(f"MKDIR3res.resok: {type(arm_value).__name__} given, the arm is MKDIR3resok")
        encode_MKDIR3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "MKDIR3res.status")
    if not isinstance(arm_value, MKDIR3resfail):
        raise LocalProtocolError(f"MKDIR3res.resfail: {type(arm_value).__name__} given, the arm is MKDIR3resfail")
    encode_MKDIR3resfail(enc, arm_value)


def decode_MKDIR3res(dec: Decoder) -> MKDIR3res:
    wire_value = dec.u32("MKDIR3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("MKDIR3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return MKDIR3res(tag, decode_MKDIR3resok(dec))
    return MKDIR3res(tag, decode_MKDIR3resfail(dec))


def encode_symlinkdata3(enc: Encoder, value: symlinkdata3) -> None:
    encode_sattr3(enc, value.symlink_attributes)
    enc.bulk_string(value.symlink_data, 4096, "symlinkdata3.symlink_data")


def decode_symlinkdata3(dec: Decoder) -> symlinkdata3:
    symlink_attributes_ = decode_sattr3(dec)
    symlink_data_ = dec.bulk_string(4096, "symlinkdata3.symlink_data")
    return symlinkdata3(symlink_attributes_, symlink_data_)


def encode_SYMLINK3args(enc: Encoder, value: SYMLINK3args) -> None:
    encode_diropargs3(enc, value.where)
    encode_symlinkdata3(enc, value.symlink)


def decode_SYMLINK3args(dec: Decoder) -> SYMLINK3args:
    where_ = decode_diropargs3(dec)
    symlink_ = decode_symlinkdata3(dec)
    return SYMLINK3args(where_, symlink_)


def encode_SYMLINK3resok(enc: Encoder, value: SYMLINK3resok) -> None:
    encode_post_op_fh3(enc, value.obj)
    encode_post_op_attr(enc, value.obj_attributes)
    encode_wcc_data(enc, value.dir_wcc)


def decode_SYMLINK3resok(dec: Decoder) -> SYMLINK3resok:
    obj_ = decode_post_op_fh3(dec)
    obj_attributes_ = decode_post_op_attr(dec)
    dir_wcc_ = decode_wcc_data(dec)
    return SYMLINK3resok(obj_, obj_attributes_, dir_wcc_)


def encode_SYMLINK3resfail(enc: Encoder, value: SYMLINK3resfail) -> None:
    encode_wcc_data(enc, value.dir_wcc)


def decode_SYMLINK3resfail(dec: Decoder) -> SYMLINK3resfail:
    dir_wcc_ = decode_wcc_data(dec)
    return SYMLINK3resfail(dir_wcc_)


def encode_SYMLINK3res(enc: Encoder, value: SYMLINK3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, SYMLINK3resok):
            raise LocalProtocolError(f"SYMLINK3res.resok: {type(arm_value).__name__} given, the arm is SYMLINK3resok")
        encode_SYMLINK3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "SYMLINK3res.status")
    if not isinstance(arm_value, SYMLINK3resfail):
        raise LocalProtocolError(f"SYMLINK3res.resfail: {type(arm_value).__name__} given, the arm is SYMLINK3resfail")
    encode_SYMLINK3resfail(enc, arm_value)


def decode_SYMLINK3res(dec: Decoder) -> SYMLINK3res:
    wire_value = dec.u32("SYMLINK3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("SYMLINK3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return SYMLINK3res(tag, decode_SYMLINK3resok(dec))
    return SYMLINK3res(tag, decode_SYMLINK3resfail(dec))


def encode_devicedata3(enc: Encoder, value: devicedata3) -> None:
    encode_sattr3(enc, value.dev_attributes)
    enc.put(_LAYOUT_11, value.spec.specdata1, value.spec.specdata2)


def decode_devicedata3(dec: Decoder) -> devicedata3:
    dev_attributes_ = decode_sattr3(dec)
    group_values1 = dec.take(_LAYOUT_11, "devicedata3.spec.specdata1..spec.specdata2")
    return devicedata3(dev_attributes_, specdata3(group_values1[0], group_values1[1]))


def encode_mknoddata3(enc: Encoder, value: mknoddata3) -> None:
    tag = value.type
    arm_value: Any = value.value
    if tag in {4, 3}:
        enc.u32(tag, "mknoddata3.type")
        if not isinstance(arm_value, devicedata3):
            raise LocalProtocolError(f"mknoddata3.device: {type(arm_value).__name__} given, the arm is devicedata3")
        encode_devicedata3(enc, arm_value)
        return
    if tag in {6, 7}:
        enc.u32(tag, "mknoddata3.type")
        if not isinstance(arm_value, sattr3):
            raise LocalProtocolError(f"mknoddata3.pipe_attributes: {type(arm_value).__name__} given, the arm is sattr3")
        encode_sattr3(enc, arm_value)
        return
    encode_ftype3(enc, tag, "mknoddata3.type")
    if arm_value is not None:
        raise LocalProtocolError(f"mknoddata3: {type(arm_value).__name__} given, the arm is void")


def decode_mknoddata3(dec: Decoder) -> mknoddata3:
    wire_value = dec.u32("mknoddata3.type")
    tag = _ftype3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("mknoddata3.type", dec.pos - dec.start - 4, "a value of enum ftype3", str(wire_value))
    if tag in {4, 3}:
        return mknoddata3(tag, decode_devicedata3(dec))
    if tag in {6, 7}:
        return mknoddata3(tag, decode_sattr3(dec))
    return mknoddata3(tag, None)


def encode_MKNOD3args(enc: Encoder, value: MKNOD3args) -> None:
    encode_diropargs3(enc, value.where)
    encode_mknoddata3(enc, value.what)


def decode_MKNOD3args(dec: Decoder) -> MKNOD3args:
    where_ = decode_diropargs3(dec)
    what_ = decode_mknoddata3(dec)
    return MKNOD3args(where_, what_)


def encode_MKNOD3resok(enc: Encoder, value: MKNOD3resok) -> None:
    encode_post_op_fh3(enc, value.obj)
    encode_post_op_attr(enc, value.obj_attributes)
    encode_wcc_data(enc, value.dir_wcc)


def decode_MKNOD3resok(dec: Decoder) -> MKNOD3resok:
    obj_ = decode_post_op_fh3(dec)
    obj_attributes_ = decode_post_op_attr(dec)
    dir_wcc_ = decode_wcc_data(dec)
    return MKNOD3resok(obj_, obj_attributes_, dir_wcc_)


def encode_MKNOD3resfail(enc: Encoder, value: MKNOD3resfail) -> None:
    encode_wcc_data(enc, value.dir_wcc)


def decode_MKNOD3resfail(dec: Decoder) -> MKNOD3resfail:
    dir_wcc_ = decode_wcc_data(dec)
    return MKNOD3resfail(dir_wcc_)


def encode_MKNOD3res(enc: Encoder, value: MKNOD3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, MKNOD3resok):
            raise LocalProtocolError(f"MKNOD3res.resok: {type(arm_value).__name__} given, the arm is MKNOD3resok")
        encode_MKNOD3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "MKNOD3res.status")
    if not isinstance(arm_value, MKNOD3resfail):
        raise LocalProtocolError(f"MKNOD3res.resfail: {type(arm_value).__name__} given, the arm is MKNOD3resfail")
    encode_MKNOD3resfail(enc, arm_value)


def decode_MKNOD3res(dec: Decoder) -> MKNOD3res:
    wire_value = dec.u32("MKNOD3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("MKNOD3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return MKNOD3res(tag, decode_MKNOD3resok(dec))
    return MKNOD3res(tag, decode_MKNOD3resfail(dec))


def encode_REMOVE3args(enc: Encoder, value: REMOVE3args) -> None:
    encode_diropargs3(enc, value.object)


def decode_REMOVE3args(dec: Decoder) -> REMOVE3args:
    object_ = decode_diropargs3(dec)
    return REMOVE3args(object_)


def encode_REMOVE3resok(enc: Encoder, value: REMOVE3resok) -> None:
    encode_wcc_data(enc, value.dir_wcc)


def decode_REMOVE3resok(dec: Decoder) -> REMOVE3resok:
    dir_wcc_ = decode_wcc_data(dec)
    return REMOVE3resok(dir_wcc_)


def encode_REMOVE3resfail(enc: Encoder, value: REMOVE3resfail) -> None:
    encode_wcc_data(enc, value.dir_wcc)


def decode_REMOVE3resfail(dec: Decoder) -> REMOVE3resfail:
    dir_wcc_ = decode_wcc_data(dec)
    return REMOVE3resfail(dir_wcc_)


def encode_REMOVE3res(enc: Encoder, value: REMOVE3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, REMOVE3resok):
            raise LocalProtocolError(f"REMOVE3res.resok: {type(arm_value).__name__} given, the arm is REMOVE3resok")
        encode_REMOVE3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "REMOVE3res.status")
    if not isinstance(arm_value, REMOVE3resfail):
        raise LocalProtocolError(f"REMOVE3res.resfail: {type(arm_value).__name__} given, the arm is REMOVE3resfail")
    encode_REMOVE3resfail(enc, arm_value)


def decode_REMOVE3res(dec: Decoder) -> REMOVE3res:
    wire_value = dec.u32("REMOVE3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("REMOVE3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return REMOVE3res(tag, decode_REMOVE3resok(dec))
    return REMOVE3res(tag, decode_REMOVE3resfail(dec))


def encode_RMDIR3args(enc: Encoder, value: RMDIR3args) -> None:
    encode_diropargs3(enc, value.object)


def decode_RMDIR3args(dec: Decoder) -> RMDIR3args:
    object_ = decode_diropargs3(dec)
    return RMDIR3args(object_)


def encode_RMDIR3resok(enc: Encoder, value: RMDIR3resok) -> None:
    encode_wcc_data(enc, value.dir_wcc)


def decode_RMDIR3resok(dec: Decoder) -> RMDIR3resok:
    dir_wcc_ = decode_wcc_data(dec)
    return RMDIR3resok(dir_wcc_)


def encode_RMDIR3resfail(enc: Encoder, value: RMDIR3resfail) -> None:
    encode_wcc_data(enc, value.dir_wcc)


def decode_RMDIR3resfail(dec: Decoder) -> RMDIR3resfail:
    dir_wcc_ = decode_wcc_data(dec)
    return RMDIR3resfail(dir_wcc_)


def encode_RMDIR3res(enc: Encoder, value: RMDIR3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, RMDIR3resok):
            raise LocalProtocolError(f"RMDIR3res.resok: {type(arm_value).__name__} given, the arm is RMDIR3resok")
        encode_RMDIR3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "RMDIR3res.status")
    if not isinstance(arm_value, RMDIR3resfail):
        raise LocalProtocolError(f"RMDIR3res.resfail: {type(arm_value).__name__} given, the arm is RMDIR3resfail")
    encode_RMDIR3resfail(enc, arm_value)


def decode_RMDIR3res(dec: Decoder) -> RMDIR3res:
    wire_value = dec.u32("RMDIR3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("RMDIR3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return RMDIR3res(tag, decode_RMDIR3resok(dec))
    return RMDIR3res(tag, decode_RMDIR3resfail(dec))


def encode_RENAME3args(enc: Encoder, value: RENAME3args) -> None:
    encode_diropargs3(enc, value.from_)
    encode_diropargs3(enc, value.to)


def decode_RENAME3args(dec: Decoder) -> RENAME3args:
    from__ = decode_diropargs3(dec)
    to_ = decode_diropargs3(dec)
    return RENAME3args(from__, to_)


def encode_RENAME3resok(enc: Encoder, value: RENAME3resok) -> None:
    encode_wcc_data(enc, value.fromdir_wcc)
    encode_wcc_data(enc, value.todir_wcc)


def decode_RENAME3resok(dec: Decoder) -> RENAME3resok:
    fromdir_wcc_ = decode_wcc_data(dec)
    todir_wcc_ = decode_wcc_data(dec)
    return RENAME3resok(fromdir_wcc_, todir_wcc_)


def encode_RENAME3resfail(enc: Encoder, value: RENAME3resfail) -> None:
    encode_wcc_data(enc, value.fromdir_wcc)
    encode_wcc_data(enc, value.todir_wcc)


def decode_RENAME3resfail(dec: Decoder) -> RENAME3resfail:
    fromdir_wcc_ = decode_wcc_data(dec)
    todir_wcc_ = decode_wcc_data(dec)
    return RENAME3resfail(fromdir_wcc_, todir_wcc_)


def encode_RENAME3res(enc: Encoder, value: RENAME3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, RENAME3resok):
            raise LocalProtocolError(f"RENAME3res.resok: {type(arm_value).__name__} given, the arm is RENAME3resok")
        encode_RENAME3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "RENAME3res.status")
    if not isinstance(arm_value, RENAME3resfail):
        raise LocalProtocolError(f"RENAME3res.resfail: {type(arm_value).__name__} given, the arm is RENAME3resfail")
    encode_RENAME3resfail(enc, arm_value)


def decode_RENAME3res(dec: Decoder) -> RENAME3res:
    wire_value = dec.u32("RENAME3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("RENAME3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return RENAME3res(tag, decode_RENAME3resok(dec))
    return RENAME3res(tag, decode_RENAME3resfail(dec))


def encode_LINK3args(enc: Encoder, value: LINK3args) -> None:
    encode_nfs_fh3(enc, value.file)
    encode_diropargs3(enc, value.link)


def decode_LINK3args(dec: Decoder) -> LINK3args:
    file_ = decode_nfs_fh3(dec)
    link_ = decode_diropargs3(dec)
    return LINK3args(file_, link_)


def encode_LINK3resok(enc: Encoder, value: LINK3resok) -> None:
    encode_post_op_attr(enc, value.file_attributes)
    encode_wcc_data(enc, value.linkdir_wcc)


def decode_LINK3resok(dec: Decoder) -> LINK3resok:
    file_attributes_ = decode_post_op_attr(dec)
    linkdir_wcc_ = decode_wcc_data(dec)
    return LINK3resok(file_attributes_, linkdir_wcc_)


def encode_LINK3resfail(enc: Encoder, value: LINK3resfail) -> None:
    encode_post_op_attr(enc, value.file_attributes)
    encode_wcc_data(enc, value.linkdir_wcc)


def decode_LINK3resfail(dec: Decoder) -> LINK3resfail:
    file_attributes_ = decode_post_op_attr(dec)
    linkdir_wcc_ = decode_wcc_data(dec)
    return LINK3resfail(file_attributes_, linkdir_wcc_)


def encode_LINK3res(enc: Encoder, value: LINK3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, LINK3resok):
            raise LocalProtocolError(f"LINK3res.resok: {type(arm_value).__name__} given, the arm is LINK3resok")
        encode_LINK3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "LINK3res.status")
    if not isinstance(arm_value, LINK3resfail):
        raise LocalProtocolError(f"LINK3res.resfail: {type(arm_value).__name__} given, the arm is LINK3resfail")
    encode_LINK3resfail(enc, arm_value)


def decode_LINK3res(dec: Decoder) -> LINK3res:
    wire_value = dec.u32("LINK3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("LINK3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return LINK3res(tag, decode_LINK3resok(dec))
    return LINK3res(tag, decode_LINK3resfail(dec))


def encode_READDIR3args(enc: Encoder, value: READDIR3args) -> None:
    encode_nfs_fh3(enc, value.dir)
    enc.put(_LAYOUT_12, value.cookie, enc.exactly(value.cookieverf, 8, "READDIR3args.cookieverf"), value.count)


def decode_READDIR3args(dec: Decoder) -> READDIR3args:
    dir_ = decode_nfs_fh3(dec)
    group_values1 = dec.take(_LAYOUT_12, "READDIR3args.cookie..count")
    return READDIR3args(dir_, group_values1[0], group_values1[1], group_values1[2])


def encode_entry3(enc: Encoder, value: entry3) -> None:
    enc.put(_LAYOUT_13, value.fileid)
    enc.string(value.name, 255, "entry3.name")
    enc.put(_LAYOUT_14, value.cookie)


def decode_entry3(dec: Decoder) -> entry3:
    fileid_ = dec.u64("entry3.fileid")
    name_ = dec.string(255, "entry3.name")
    cookie_ = dec.u64("entry3.cookie")
    return entry3(fileid_, name_, cookie_)


def encode_dirlist3(enc: Encoder, value: dirlist3) -> None:
    enc.linked_list(value.entries, encode_entry3, 65536, "dirlist3.entries")
    if value.eof not in {0, 1}:
        raise LocalProtocolError(f"dirlist3.eof: {value.eof!r} is no bool")
    enc.u32(value.eof, "dirlist3.eof")


def decode_dirlist3(dec: Decoder) -> dirlist3:
    entries_ = dec.linked_list(decode_entry3, 65536, "dirlist3.entries")
    eof_ = dec.boolean("dirlist3.eof")
    return dirlist3(entries_, eof_)


def encode_READDIR3resok(enc: Encoder, value: READDIR3resok) -> None:
    encode_post_op_attr(enc, value.dir_attributes)
    enc.fixed(value.cookieverf, 8, "READDIR3resok.cookieverf")
    encode_dirlist3(enc, value.reply)


def decode_READDIR3resok(dec: Decoder) -> READDIR3resok:
    dir_attributes_ = decode_post_op_attr(dec)
    cookieverf_ = dec.fixed(8, "READDIR3resok.cookieverf")
    reply_ = decode_dirlist3(dec)
    return READDIR3resok(dir_attributes_, cookieverf_, reply_)


def encode_READDIR3resfail(enc: Encoder, value: READDIR3resfail) -> None:
    encode_post_op_attr(enc, value.dir_attributes)


def decode_READDIR3resfail(dec: Decoder) -> READDIR3resfail:
    dir_attributes_ = decode_post_op_attr(dec)
    return READDIR3resfail(dir_attributes_)


def encode_READDIR3res(enc: Encoder, value: READDIR3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, READDIR3resok):
            raise LocalProtocolError(f"READDIR3res.resok: {type(arm_value).__name__} given, the arm is READDIR3resok")
        encode_READDIR3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "READDIR3res.status")
    if not isinstance(arm_value, READDIR3resfail):
        raise LocalProtocolError(f"READDIR3res.resfail: {type(arm_value).__name__} given, the arm is READDIR3resfail")
    encode_READDIR3resfail(enc, arm_value)


def decode_READDIR3res(dec: Decoder) -> READDIR3res:
    wire_value = dec.u32("READDIR3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("READDIR3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return READDIR3res(tag, decode_READDIR3resok(dec))
    return READDIR3res(tag, decode_READDIR3resfail(dec))


def encode_READDIRPLUS3args(enc: Encoder, value: READDIRPLUS3args) -> None:
    encode_nfs_fh3(enc, value.dir)
    enc.put(
        _LAYOUT_15,
        value.cookie,
        enc.exactly(value.cookieverf, 8, "READDIRPLUS3args.cookieverf"),
        value.dircount,
        value.maxcount,
    )


def decode_READDIRPLUS3args(dec: Decoder) -> READDIRPLUS3args:
    dir_ = decode_nfs_fh3(dec)
    group_values1 = dec.take(_LAYOUT_15, "READDIRPLUS3args.cookie..maxcount")
    return READDIRPLUS3args(dir_, group_values1[0], group_values1[1], group_values1[2], group_values1[3])


def encode_entryplus3(enc: Encoder, value: entryplus3) -> None:
    enc.put(_LAYOUT_16, value.fileid)
    enc.string(value.name, 255, "entryplus3.name")
    enc.put(_LAYOUT_17, value.cookie)
    encode_post_op_attr(enc, value.name_attributes)
    encode_post_op_fh3(enc, value.name_handle)


def decode_entryplus3(dec: Decoder) -> entryplus3:
    fileid_ = dec.u64("entryplus3.fileid")
    name_ = dec.string(255, "entryplus3.name")
    cookie_ = dec.u64("entryplus3.cookie")
    name_attributes_ = decode_post_op_attr(dec)
    name_handle_ = decode_post_op_fh3(dec)
    return entryplus3(fileid_, name_, cookie_, name_attributes_, name_handle_)


def encode_dirlistplus3(enc: Encoder, value: dirlistplus3) -> None:
    enc.linked_list(value.entries, encode_entryplus3, 65536, "dirlistplus3.entries")
    if value.eof not in {0, 1}:
        raise LocalProtocolError(f"dirlistplus3.eof: {value.eof!r} is no bool")
    enc.u32(value.eof, "dirlistplus3.eof")


def decode_dirlistplus3(dec: Decoder) -> dirlistplus3:
    entries_ = dec.linked_list(decode_entryplus3, 65536, "dirlistplus3.entries")
    eof_ = dec.boolean("dirlistplus3.eof")
    return dirlistplus3(entries_, eof_)


def encode_READDIRPLUS3resok(enc: Encoder, value: READDIRPLUS3resok) -> None:
    encode_post_op_attr(enc, value.dir_attributes)
    enc.fixed(value.cookieverf, 8, "READDIRPLUS3resok.cookieverf")
    encode_dirlistplus3(enc, value.reply)


def decode_READDIRPLUS3resok(dec: Decoder) -> READDIRPLUS3resok:
    dir_attributes_ = decode_post_op_attr(dec)
    cookieverf_ = dec.fixed(8, "READDIRPLUS3resok.cookieverf")
    reply_ = decode_dirlistplus3(dec)
    return READDIRPLUS3resok(dir_attributes_, cookieverf_, reply_)


def encode_READDIRPLUS3resfail(enc: Encoder, value: READDIRPLUS3resfail) -> None:
    encode_post_op_attr(enc, value.dir_attributes)


def decode_READDIRPLUS3resfail(dec: Decoder) -> READDIRPLUS3resfail:
    dir_attributes_ = decode_post_op_attr(dec)
    return READDIRPLUS3resfail(dir_attributes_)


def encode_READDIRPLUS3res(enc: Encoder, value: READDIRPLUS3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, READDIRPLUS3resok):
            raise LocalProtocolError(
                f"READDIRPLUS3res.resok: {type(arm_value).__name__} given, the arm is READDIRPLUS3resok"
            )
        encode_READDIRPLUS3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "READDIRPLUS3res.status")
    if not isinstance(arm_value, READDIRPLUS3resfail):
        raise LocalProtocolError(
            f"READDIRPLUS3res.resfail: {type(arm_value).__name__} given, the arm is READDIRPLUS3resfail"
        )
    encode_READDIRPLUS3resfail(enc, arm_value)


def decode_READDIRPLUS3res(dec: Decoder) -> READDIRPLUS3res:
    wire_value = dec.u32("READDIRPLUS3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "READDIRPLUS3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value)
        )
    if tag == 0:
        return READDIRPLUS3res(tag, decode_READDIRPLUS3resok(dec))
    return READDIRPLUS3res(tag, decode_READDIRPLUS3resfail(dec))


def encode_FSSTAT3args(enc: Encoder, value: FSSTAT3args) -> None:
    encode_nfs_fh3(enc, value.fsroot)


def decode_FSSTAT3args(dec: Decoder) -> FSSTAT3args:
    fsroot_ = decode_nfs_fh3(dec)
    return FSSTAT3args(fsroot_)


def encode_FSSTAT3resok(enc: Encoder, value: FSSTAT3resok) -> None:
    encode_post_op_attr(enc, value.obj_attributes)
    enc.put(
        _LAYOUT_18, value.tbytes, value.fbytes, value.abytes, value.tfiles, value.ffiles, value.afiles, value.invarsec
    )


def decode_FSSTAT3resok(dec: Decoder) -> FSSTAT3resok:
    obj_attributes_ = decode_post_op_attr(dec)
    group_values1 = dec.take(_LAYOUT_18, "FSSTAT3resok.tbytes..invarsec")
    return FSSTAT3resok(
        obj_attributes_,
        group_values1[0],
        group_values1[1],
        group_values1[2],
        group_values1[3],
        group_values1[4],
        group_values1[5],
        group_values1[6],
    )


def encode_FSSTAT3resfail(enc: Encoder, value: FSSTAT3resfail) -> None:
    encode_post_op_attr(enc, value.obj_attributes)


def decode_FSSTAT3resfail(dec: Decoder) -> FSSTAT3resfail:
    obj_attributes_ = decode_post_op_attr(dec)
    return FSSTAT3resfail(obj_attributes_)


def encode_FSSTAT3res(enc: Encoder, value: FSSTAT3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, FSSTAT3resok):
            raise LocalProtocolError(f"FSSTAT3res.resok: {type(arm_value).__name__} given, the arm is FSSTAT3resok")
        encode_FSSTAT3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "FSSTAT3res.status")
    if not isinstance(arm_value, FSSTAT3resfail):
        raise LocalProtocolError(f"FSSTAT3res.resfail: {type(arm_value).__name__} given, the arm is FSSTAT3resfail")
    encode_FSSTAT3resfail(enc, arm_value)


def decode_FSSTAT3res(dec: Decoder) -> FSSTAT3res:
    wire_value = dec.u32("FSSTAT3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("FSSTAT3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return FSSTAT3res(tag, decode_FSSTAT3resok(dec))
    return FSSTAT3res(tag, decode_FSSTAT3resfail(dec))


def encode_FSINFO3args(enc: Encoder, value: FSINFO3args) -> None:
    encode_nfs_fh3(enc, value.fsroot)


def decode_FSINFO3args(dec: Decoder) -> FSINFO3args:
    fsroot_ = decode_nfs_fh3(dec)
    return FSINFO3args(fsroot_)


def encode_FSINFO3resok(enc: Encoder, value: FSINFO3resok) -> None:
    encode_post_op_attr(enc, value.obj_attributes)
    enc.put(
        _LAYOUT_19,
        value.rtmax,
        value.rtpref,
        value.rtmult,
        value.wtmax,
        value.wtpref,
        value.wtmult,
        value.dtpref,
        value.maxfilesize,
        value.time_delta.seconds,
        value.time_delta.nseconds,
        value.properties,
    )


def decode_FSINFO3resok(dec: Decoder) -> FSINFO3resok:
    obj_attributes_ = decode_post_op_attr(dec)
    group_values1 = dec.take(_LAYOUT_19, "FSINFO3resok.rtmax..properties")
    return FSINFO3resok(
        obj_attributes_,
        group_values1[0],
        group_values1[1],
        group_values1[2],
        group_values1[3],
        group_values1[4],
        group_values1[5],
        group_values1[6],
        group_values1[7],
        nfstime3(group_values1[8], group_values1[9]),
        group_values1[10],
    )


def encode_FSINFO3resfail(enc: Encoder, value: FSINFO3resfail) -> None:
    encode_post_op_attr(enc, value.obj_attributes)


def decode_FSINFO3resfail(dec: Decoder) -> FSINFO3resfail:
    obj_attributes_ = decode_post_op_attr(dec)
    return FSINFO3resfail(obj_attributes_)


def encode_FSINFO3res(enc: Encoder, value: FSINFO3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, FSINFO3resok):
            raise LocalProtocolError(f"FSINFO3res.resok: {type(arm_value).__name__} given, the arm is FSINFO3resok")
        encode_FSINFO3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "FSINFO3res.status")
    if not isinstance(arm_value, FSINFO3resfail):
        raise LocalProtocolError(f"FSINFO3res.resfail: {type(arm_value).__name__} given, the arm is FSINFO3resfail")
    encode_FSINFO3resfail(enc, arm_value)


def decode_FSINFO3res(dec: Decoder) -> FSINFO3res:
    wire_value = dec.u32("FSINFO3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("FSINFO3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return FSINFO3res(tag, decode_FSINFO3resok(dec))
    return FSINFO3res(tag, decode_FSINFO3resfail(dec))


def encode_PATHCONF3args(enc: Encoder, value: PATHCONF3args) -> None:
    encode_nfs_fh3(enc, value.object)


def decode_PATHCONF3args(dec: Decoder) -> PATHCONF3args:
    object_ = decode_nfs_fh3(dec)
    return PATHCONF3args(object_)


def encode_PATHCONF3resok(enc: Encoder, value: PATHCONF3resok) -> None:
    encode_post_op_attr(enc, value.obj_attributes)
    if value.no_trunc not in {0, 1}:
        raise LocalProtocolError(f"PATHCONF3resok.no_trunc: {value.no_trunc!r} is no bool")
    if value.chown_restricted not in {0, 1}:
        raise LocalProtocolError(f"PATHCONF3resok.chown_restricted: {value.chown_restricted!r} is no bool")
    if value.case_insensitive not in {0, 1}:
        raise LocalProtocolError(f"PATHCONF3resok.case_insensitive: {value.case_insensitive!r} is no bool")
    if value.case_preserving not in {0, 1}:
        raise LocalProtocolError(f"PATHCONF3resok.case_preserving: {value.case_preserving!r} is no bool")
    enc.put(
        _LAYOUT_20,
        value.linkmax,
        value.name_max,
        value.no_trunc,
        value.chown_restricted,
        value.case_insensitive,
        value.case_preserving,
    )


def decode_PATHCONF3resok(dec: Decoder) -> PATHCONF3resok:
    obj_attributes_ = decode_post_op_attr(dec)
    group_values1 = dec.take(_LAYOUT_20, "PATHCONF3resok.linkmax..case_preserving")
    if group_values1[2] > 1:
        raise DecodeError("PATHCONF3resok.no_trunc", dec.pos - dec.start - 16, "0 or 1", str(group_values1[2]))
    if group_values1[3] > 1:
        raise DecodeError("PATHCONF3resok.chown_restricted", dec.pos - dec.start - 12, "0 or 1", str(group_values1[3]))
    if group_values1[4] > 1:
        raise DecodeError("PATHCONF3resok.case_insensitive", dec.pos - dec.start - 8, "0 or 1", str(group_values1[4]))
    if group_values1[5] > 1:
        raise DecodeError("PATHCONF3resok.case_preserving", dec.pos - dec.start - 4, "0 or 1", str(group_values1[5]))
    return PATHCONF3resok(
        obj_attributes_,
        group_values1[0],
        group_values1[1],
        group_values1[2] == 1,
        group_values1[3] == 1,
        group_values1[4] == 1,
        group_values1[5] == 1,
    )


def encode_PATHCONF3resfail(enc: Encoder, value: PATHCONF3resfail) -> None:
    encode_post_op_attr(enc, value.obj_attributes)


def decode_PATHCONF3resfail(dec: Decoder) -> PATHCONF3resfail:
    obj_attributes_ = decode_post_op_attr(dec)
    return PATHCONF3resfail(obj_attributes_)


def encode_PATHCONF3res(enc: Encoder, value: PATHCONF3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, PATHCONF3resok):
            raise LocalProtocolError(f"PATHCONF3res.resok: {type(arm_value).__name__} given, the arm is PATHCONF3resok")
        encode_PATHCONF3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "PATHCONF3res.status")
    if not isinstance(arm_value, PATHCONF3resfail):
        raise LocalProtocolError(f"PATHCONF3res.resfail: {type(arm_value).__name__} given, the arm is PATHCONF3resfail")
    encode_PATHCONF3resfail(enc, arm_value)


def decode_PATHCONF3res(dec: Decoder) -> PATHCONF3res:
    wire_value = dec.u32("PATHCONF3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("PATHCONF3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return PATHCONF3res(tag, decode_PATHCONF3resok(dec))
    return PATHCONF3res(tag, decode_PATHCONF3resfail(dec))


def encode_COMMIT3args(enc: Encoder, value: COMMIT3args) -> None:
    encode_nfs_fh3(enc, value.file)
    enc.put(_LAYOUT_21, value.offset, value.count)


def decode_COMMIT3args(dec: Decoder) -> COMMIT3args:
    file_ = decode_nfs_fh3(dec)
    group_values1 = dec.take(_LAYOUT_21, "COMMIT3args.offset..count")
    return COMMIT3args(file_, group_values1[0], group_values1[1])


def encode_COMMIT3resok(enc: Encoder, value: COMMIT3resok) -> None:
    encode_wcc_data(enc, value.file_wcc)
    enc.fixed(value.verf, 8, "COMMIT3resok.verf")


def decode_COMMIT3resok(dec: Decoder) -> COMMIT3resok:
    file_wcc_ = decode_wcc_data(dec)
    verf_ = dec.fixed(8, "COMMIT3resok.verf")
    return COMMIT3resok(file_wcc_, verf_)


def encode_COMMIT3resfail(enc: Encoder, value: COMMIT3resfail) -> None:
    encode_wcc_data(enc, value.file_wcc)


def decode_COMMIT3resfail(dec: Decoder) -> COMMIT3resfail:
    file_wcc_ = decode_wcc_data(dec)
    return COMMIT3resfail(file_wcc_)


def encode_COMMIT3res(enc: Encoder, value: COMMIT3res) -> None:
    tag = value.status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, COMMIT3resok):
            raise LocalProtocolError(f"COMMIT3res.resok: {type(arm_value).__name__} given, the arm is COMMIT3resok")
        encode_COMMIT3resok(enc, arm_value)
        return
    encode_nfsstat3(enc, tag, "COMMIT3res.status")
    if not isinstance(arm_value, COMMIT3resfail):
        raise LocalProtocolError(f"COMMIT3res.resfail: {type(arm_value).__name__} given, the arm is COMMIT3resfail")
    encode_COMMIT3resfail(enc, arm_value)


def decode_COMMIT3res(dec: Decoder) -> COMMIT3res:
    wire_value = dec.u32("COMMIT3res.status")
    tag = _nfsstat3_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("COMMIT3res.status", dec.pos - dec.start - 4, "a value of enum nfsstat3", str(wire_value))
    if tag == 0:
        return COMMIT3res(tag, decode_COMMIT3resok(dec))
    return COMMIT3res(tag, decode_COMMIT3resfail(dec))


def encode_filename3(enc: Encoder, value: filename3) -> None:
    enc.string(value, 255, "filename3")


def decode_filename3(dec: Decoder) -> filename3:
    return dec.string(255, "filename3")


def encode_nfspath3(enc: Encoder, value: nfspath3) -> None:
    enc.string(value, 4096, "nfspath3")


def decode_nfspath3(dec: Decoder) -> nfspath3:
    return dec.string(4096, "nfspath3")


def encode_fileid3(enc: Encoder, value: fileid3) -> None:
    enc.put(_LAYOUT_22, value)


def decode_fileid3(dec: Decoder) -> fileid3:
    return dec.u64("fileid3")


def encode_cookie3(enc: Encoder, value: cookie3) -> None:
    enc.put(_LAYOUT_23, value)


def decode_cookie3(dec: Decoder) -> cookie3:
    return dec.u64("cookie3")


def encode_cookieverf3(enc: Encoder, value: cookieverf3) -> None:
    enc.fixed(value, 8, "cookieverf3")


def decode_cookieverf3(dec: Decoder) -> cookieverf3:
    return dec.fixed(8, "cookieverf3")


def encode_createverf3(enc: Encoder, value: createverf3) -> None:
    enc.fixed(value, 8, "createverf3")


def decode_createverf3(dec: Decoder) -> createverf3:
    return dec.fixed(8, "createverf3")


def encode_writeverf3(enc: Encoder, value: writeverf3) -> None:
    enc.fixed(value, 8, "writeverf3")


def decode_writeverf3(dec: Decoder) -> writeverf3:
    return dec.fixed(8, "writeverf3")


def encode_uid3(enc: Encoder, value: uid3) -> None:
    enc.u32(value, "uid3")


def decode_uid3(dec: Decoder) -> uid3:
    return dec.u32("uid3")


def encode_gid3(enc: Encoder, value: gid3) -> None:
    enc.u32(value, "gid3")


def decode_gid3(dec: Decoder) -> gid3:
    return dec.u32("gid3")


def encode_size3(enc: Encoder, value: size3) -> None:
    enc.put(_LAYOUT_24, value)


def decode_size3(dec: Decoder) -> size3:
    return dec.u64("size3")


def encode_offset3(enc: Encoder, value: offset3) -> None:
    enc.put(_LAYOUT_25, value)


def decode_offset3(dec: Decoder) -> offset3:
    return dec.u64("offset3")


def encode_mode3(enc: Encoder, value: mode3) -> None:
    enc.u32(value, "mode3")


def decode_mode3(dec: Decoder) -> mode3:
    return dec.u32("mode3")


def encode_count3(enc: Encoder, value: count3) -> None:
    enc.u32(value, "count3")


def decode_count3(dec: Decoder) -> count3:
    return dec.u32("count3")


def _encode_void(_enc: Encoder, _value: None) -> None:
    """Void: nothing to write."""


def _decode_void(_dec: Decoder) -> None:
    """Void: nothing to read."""


def _bound_nfsproc3_read(args: READ3args) -> ReplyBound:
    return ReplyBound(104, (min(args.count, 4194304),))


def _bound_nfsproc3_readdir(args: READDIR3args) -> ReplyBound:
    return ReplyBound(108 + min(args.count, 18350080))


def _bound_nfsproc3_readdirplus(args: READDIRPLUS3args) -> ReplyBound:
    return ReplyBound(108 + min(args.maxcount, 28835840))


NFSPROC3_NULL: Final[Procedure[None, None]] = Procedure(
    program=100003,
    version=3,
    number=0,
    name="NFSPROC3_NULL",
    method="null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
NFSPROC3_GETATTR: Final[Procedure[GETATTR3args, GETATTR3res]] = Procedure(
    program=100003,
    version=3,
    number=1,
    name="NFSPROC3_GETATTR",
    method="getattr",
    encode_args=encode_GETATTR3args,
    decode_args=decode_GETATTR3args,
    encode_result=encode_GETATTR3res,
    decode_result=decode_GETATTR3res,
    bound=ReplyBound(88),
    octets_max=OctetsMax(68, 0, 88),
    status=attrgetter("status"),
)
NFSPROC3_SETATTR: Final[Procedure[SETATTR3args, SETATTR3res]] = Procedure(
    program=100003,
    version=3,
    number=2,
    name="NFSPROC3_SETATTR",
    method="setattr",
    encode_args=encode_SETATTR3args,
    decode_args=decode_SETATTR3args,
    encode_result=encode_SETATTR3res,
    decode_result=decode_SETATTR3res,
    bound=ReplyBound(120),
    octets_max=OctetsMax(140, 0, 120),
    status=attrgetter("status"),
)
NFSPROC3_LOOKUP: Final[Procedure[LOOKUP3args, LOOKUP3res]] = Procedure(
    program=100003,
    version=3,
    number=3,
    name="NFSPROC3_LOOKUP",
    method="lookup",
    encode_args=encode_LOOKUP3args,
    decode_args=decode_LOOKUP3args,
    encode_result=encode_LOOKUP3res,
    decode_result=decode_LOOKUP3res,
    bound=ReplyBound(248),
    octets_max=OctetsMax(328, 0, 248),
    status=attrgetter("status"),
)
NFSPROC3_ACCESS: Final[Procedure[ACCESS3args, ACCESS3res]] = Procedure(
    program=100003,
    version=3,
    number=4,
    name="NFSPROC3_ACCESS",
    method="access",
    encode_args=encode_ACCESS3args,
    decode_args=decode_ACCESS3args,
    encode_result=encode_ACCESS3res,
    decode_result=decode_ACCESS3res,
    bound=ReplyBound(96),
    octets_max=OctetsMax(72, 0, 96),
    status=attrgetter("status"),
)
NFSPROC3_READLINK: Final[Procedure[READLINK3args, READLINK3res]] = Procedure(
    program=100003,
    version=3,
    number=5,
    name="NFSPROC3_READLINK",
    method="readlink",
    encode_args=encode_READLINK3args,
    decode_args=decode_READLINK3args,
    encode_result=encode_READLINK3res,
    decode_result=decode_READLINK3res,
    bound=ReplyBound(96, (4096,)),
    octets_max=OctetsMax(68, 0, 4192),
    status=attrgetter("status"),
)
NFSPROC3_READ: Final[Procedure[READ3args, READ3res]] = Procedure(
    program=100003,
    version=3,
    number=6,
    name="NFSPROC3_READ",
    method="read",
    encode_args=encode_READ3args,
    decode_args=decode_READ3args,
    encode_result=encode_READ3res,
    decode_result=decode_READ3res,
    bound=_bound_nfsproc3_read,
    octets_max=OctetsMax(80, 0, 4194408),
    status=attrgetter("status"),
)
NFSPROC3_WRITE: Final[Procedure[WRITE3args, WRITE3res]] = Procedure(
    program=100003,
    version=3,
    number=7,
    name="NFSPROC3_WRITE",
    method="write",
    encode_args=encode_WRITE3args,
    decode_args=decode_WRITE3args,
    encode_result=encode_WRITE3res,
    decode_result=decode_WRITE3res,
    bound=ReplyBound(136),
    octets_max=OctetsMax(4194392, 4194304, 136),
    status=attrgetter("status"),
)
NFSPROC3_CREATE: Final[Procedure[CREATE3args, CREATE3res]] = Procedure(
    program=100003,
    version=3,
    number=8,
    name="NFSPROC3_CREATE",
    method="create",
    encode_args=encode_CREATE3args,
    decode_args=decode_CREATE3args,
    encode_result=encode_CREATE3res,
    decode_result=decode_CREATE3res,
    bound=ReplyBound(280),
    octets_max=OctetsMax(392, 0, 280),
    status=attrgetter("status"),
)
NFSPROC3_MKDIR: Final[Procedure[MKDIR3args, MKDIR3res]] = Procedure(
    program=100003,
    version=3,
    number=9,
    name="NFSPROC3_MKDIR",
    method="mkdir",
    encode_args=encode_MKDIR3args,
    decode_args=decode_MKDIR3args,
    encode_result=encode_MKDIR3res,
    decode_result=decode_MKDIR3res,
    bound=ReplyBound(280),
    octets_max=OctetsMax(388, 0, 280),
    status=attrgetter("status"),
)
NFSPROC3_SYMLINK: Final[Procedure[SYMLINK3args, SYMLINK3res]] = Procedure(
    program=100003,
    version=3,
    number=10,
    name="NFSPROC3_SYMLINK",
    method="symlink",
    encode_args=encode_SYMLINK3args,
    decode_args=decode_SYMLINK3args,
    encode_result=encode_SYMLINK3res,
    decode_result=decode_SYMLINK3res,
    bound=ReplyBound(280),
    octets_max=OctetsMax(4488, 4096, 280),
    status=attrgetter("status"),
)
NFSPROC3_MKNOD: Final[Procedure[MKNOD3args, MKNOD3res]] = Procedure(
    program=100003,
    version=3,
    number=11,
    name="NFSPROC3_MKNOD",
    method="mknod",
    encode_args=encode_MKNOD3args,
    decode_args=decode_MKNOD3args,
    encode_result=encode_MKNOD3res,
    decode_result=decode_MKNOD3res,
    bound=ReplyBound(280),
    octets_max=OctetsMax(400, 0, 280),
    status=attrgetter("status"),
)
NFSPROC3_REMOVE: Final[Procedure[REMOVE3args, REMOVE3res]] = Procedure(
    program=100003,
    version=3,
    number=12,
    name="NFSPROC3_REMOVE",
    method="remove",
    encode_args=encode_REMOVE3args,
    decode_args=decode_REMOVE3args,
    encode_result=encode_REMOVE3res,
    decode_result=decode_REMOVE3res,
    bound=ReplyBound(120),
    octets_max=OctetsMax(328, 0, 120),
    status=attrgetter("status"),
)
NFSPROC3_RMDIR: Final[Procedure[RMDIR3args, RMDIR3res]] = Procedure(
    program=100003,
    version=3,
    number=13,
    name="NFSPROC3_RMDIR",
    method="rmdir",
    encode_args=encode_RMDIR3args,
    decode_args=decode_RMDIR3args,
    encode_result=encode_RMDIR3res,
    decode_result=decode_RMDIR3res,
    bound=ReplyBound(120),
    octets_max=OctetsMax(328, 0, 120),
    status=attrgetter("status"),
)
NFSPROC3_RENAME: Final[Procedure[RENAME3args, RENAME3res]] = Procedure(
    program=100003,
    version=3,
    number=14,
    name="NFSPROC3_RENAME",
    method="rename",
    encode_args=encode_RENAME3args,
    decode_args=decode_RENAME3args,
    encode_result=encode_RENAME3res,
    decode_result=decode_RENAME3res,
    bound=ReplyBound(236),
    octets_max=OctetsMax(656, 0, 236),
    status=attrgetter("status"),
)
NFSPROC3_LINK: Final[Procedure[LINK3args, LINK3res]] = Procedure(
    program=100003,
    version=3,
    number=15,
    name="NFSPROC3_LINK",
    method="link",
    encode_args=encode_LINK3args,
    decode_args=decode_LINK3args,
    encode_result=encode_LINK3res,
    decode_result=decode_LINK3res,
    bound=ReplyBound(208),
    octets_max=OctetsMax(396, 0, 208),
    status=attrgetter("status"),
)
NFSPROC3_READDIR: Final[Procedure[READDIR3args, READDIR3res]] = Procedure(
    program=100003,
    version=3,
    number=16,
    name="NFSPROC3_READDIR",
    method="readdir",
    encode_args=encode_READDIR3args,
    decode_args=decode_READDIR3args,
    encode_result=encode_READDIR3res,
    decode_result=decode_READDIR3res,
    bound=_bound_nfsproc3_readdir,
    octets_max=OctetsMax(88, 0, 18350188),
    status=attrgetter("status"),
)
NFSPROC3_READDIRPLUS: Final[Procedure[READDIRPLUS3args, READDIRPLUS3res]] = Procedure(
    program=100003,
    version=3,
    number=17,
    name="NFSPROC3_READDIRPLUS",
    method="readdirplus",
    encode_args=encode_READDIRPLUS3args,
    decode_args=decode_READDIRPLUS3args,
    encode_result=encode_READDIRPLUS3res,
    decode_result=decode_READDIRPLUS3res,
    bound=_bound_nfsproc3_readdirplus,
    octets_max=OctetsMax(92, 0, 28835948),
    status=attrgetter("status"),
)
NFSPROC3_FSSTAT: Final[Procedure[FSSTAT3args, FSSTAT3res]] = Procedure(
    program=100003,
    version=3,
    number=18,
    name="NFSPROC3_FSSTAT",
    method="fsstat",
    encode_args=encode_FSSTAT3args,
    decode_args=decode_FSSTAT3args,
    encode_result=encode_FSSTAT3res,
    decode_result=decode_FSSTAT3res,
    bound=ReplyBound(144),
    octets_max=OctetsMax(68, 0, 144),
    status=attrgetter("status"),
)
NFSPROC3_FSINFO: Final[Procedure[FSINFO3args, FSINFO3res]] = Procedure(
    program=100003,
    version=3,
    number=19,
    name="NFSPROC3_FSINFO",
    method="fsinfo",
    encode_args=encode_FSINFO3args,
    decode_args=decode_FSINFO3args,
    encode_result=encode_FSINFO3res,
    decode_result=decode_FSINFO3res,
    bound=ReplyBound(140),
    octets_max=OctetsMax(68, 0, 140),
    status=attrgetter("status"),
)
NFSPROC3_PATHCONF: Final[Procedure[PATHCONF3args, PATHCONF3res]] = Procedure(
    program=100003,
    version=3,
    number=20,
    name="NFSPROC3_PATHCONF",
    method="pathconf",
    encode_args=encode_PATHCONF3args,
    decode_args=decode_PATHCONF3args,
    encode_result=encode_PATHCONF3res,
    decode_result=decode_PATHCONF3res,
    bound=ReplyBound(116),
    octets_max=OctetsMax(68, 0, 116),
    status=attrgetter("status"),
)
NFSPROC3_COMMIT: Final[Procedure[COMMIT3args, COMMIT3res]] = Procedure(
    program=100003,
    version=3,
    number=21,
    name="NFSPROC3_COMMIT",
    method="commit",
    encode_args=encode_COMMIT3args,
    decode_args=decode_COMMIT3args,
    encode_result=encode_COMMIT3res,
    decode_result=decode_COMMIT3res,
    bound=ReplyBound(128),
    octets_max=OctetsMax(80, 0, 128),
    status=attrgetter("status"),
)
NULL: Final = NFSPROC3_NULL
GETATTR: Final = NFSPROC3_GETATTR
SETATTR: Final = NFSPROC3_SETATTR
LOOKUP: Final = NFSPROC3_LOOKUP
ACCESS: Final = NFSPROC3_ACCESS
READLINK: Final = NFSPROC3_READLINK
READ: Final = NFSPROC3_READ
WRITE: Final = NFSPROC3_WRITE
CREATE: Final = NFSPROC3_CREATE
MKDIR: Final = NFSPROC3_MKDIR
SYMLINK: Final = NFSPROC3_SYMLINK
MKNOD: Final = NFSPROC3_MKNOD
REMOVE: Final = NFSPROC3_REMOVE
RMDIR: Final = NFSPROC3_RMDIR
RENAME: Final = NFSPROC3_RENAME
LINK: Final = NFSPROC3_LINK
READDIR: Final = NFSPROC3_READDIR
READDIRPLUS: Final = NFSPROC3_READDIRPLUS
FSSTAT: Final = NFSPROC3_FSSTAT
FSINFO: Final = NFSPROC3_FSINFO
PATHCONF: Final = NFSPROC3_PATHCONF
COMMIT: Final = NFSPROC3_COMMIT

NFS_V3: Final = Program(
    number=100003,
    version=3,
    name="NFS_V3",
    procedures={
        0: NFSPROC3_NULL,
        1: NFSPROC3_GETATTR,
        2: NFSPROC3_SETATTR,
        3: NFSPROC3_LOOKUP,
        4: NFSPROC3_ACCESS,
        5: NFSPROC3_READLINK,
        6: NFSPROC3_READ,
        7: NFSPROC3_WRITE,
        8: NFSPROC3_CREATE,
        9: NFSPROC3_MKDIR,
        10: NFSPROC3_SYMLINK,
        11: NFSPROC3_MKNOD,
        12: NFSPROC3_REMOVE,
        13: NFSPROC3_RMDIR,
        14: NFSPROC3_RENAME,
        15: NFSPROC3_LINK,
        16: NFSPROC3_READDIR,
        17: NFSPROC3_READDIRPLUS,
        18: NFSPROC3_FSSTAT,
        19: NFSPROC3_FSINFO,
        20: NFSPROC3_PATHCONF,
        21: NFSPROC3_COMMIT,
    },
)


class _NFS_V3_Methods:
    null = VoidCallMethod(NFSPROC3_NULL)
    getattr = CallMethod(NFSPROC3_GETATTR)
    setattr = CallMethod(NFSPROC3_SETATTR)
    lookup = CallMethod(NFSPROC3_LOOKUP)
    access = CallMethod(NFSPROC3_ACCESS)
    readlink = CallMethod(NFSPROC3_READLINK)
    read = CallMethod(NFSPROC3_READ)
    write = CallMethod(NFSPROC3_WRITE)
    create = CallMethod(NFSPROC3_CREATE)
    mkdir = CallMethod(NFSPROC3_MKDIR)
    symlink = CallMethod(NFSPROC3_SYMLINK)
    mknod = CallMethod(NFSPROC3_MKNOD)
    remove = CallMethod(NFSPROC3_REMOVE)
    rmdir = CallMethod(NFSPROC3_RMDIR)
    rename = CallMethod(NFSPROC3_RENAME)
    link = CallMethod(NFSPROC3_LINK)
    readdir = CallMethod(NFSPROC3_READDIR)
    readdirplus = CallMethod(NFSPROC3_READDIRPLUS)
    fsstat = CallMethod(NFSPROC3_FSSTAT)
    fsinfo = CallMethod(NFSPROC3_FSINFO)
    pathconf = CallMethod(NFSPROC3_PATHCONF)
    commit = CallMethod(NFSPROC3_COMMIT)


class NFS_V3_Client(_NFS_V3_Methods, ClientStub):
    """Calls the procedures of NFS_PROGRAM version 3 through a `Caller`, and awaits them."""


class NFS_V3_SyncClient(_NFS_V3_Methods, SyncClientStub):
    """Calls the procedures of NFS_PROGRAM version 3 through a connection of `rpcrdma.sync`."""


class NFS_V3_Service(Service):
    """Base of services for NFS_PROGRAM version 3: override the procedures to offer."""

    PROGRAM = NFS_V3

    def null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers NFSPROC3_NULL."""
        return None

    def getattr(self, args: GETATTR3args, context: CallContext) -> Awaitable[GETATTR3res] | GETATTR3res:
        """Answers NFSPROC3_GETATTR."""
        raise ProcedureUnavailable("NFSPROC3_GETATTR")

    def setattr(self, args: SETATTR3args, context: CallContext) -> Awaitable[SETATTR3res] | SETATTR3res:
        """Answers NFSPROC3_SETATTR."""
        raise ProcedureUnavailable("NFSPROC3_SETATTR")

    def lookup(self, args: LOOKUP3args, context: CallContext) -> Awaitable[LOOKUP3res] | LOOKUP3res:
        """Answers NFSPROC3_LOOKUP."""
        raise ProcedureUnavailable("NFSPROC3_LOOKUP")

    def access(self, args: ACCESS3args, context: CallContext) -> Awaitable[ACCESS3res] | ACCESS3res:
        """Answers NFSPROC3_ACCESS."""
        raise ProcedureUnavailable("NFSPROC3_ACCESS")

    def readlink(self, args: READLINK3args, context: CallContext) -> Awaitable[READLINK3res] | READLINK3res:
        """Answers NFSPROC3_READLINK."""
        raise ProcedureUnavailable("NFSPROC3_READLINK")

    def read(self, args: READ3args, context: CallContext) -> Awaitable[READ3res] | READ3res:
        """Answers NFSPROC3_READ."""
        raise ProcedureUnavailable("NFSPROC3_READ")

    def write(self, args: WRITE3args, context: CallContext) -> Awaitable[WRITE3res] | WRITE3res:
        """Answers NFSPROC3_WRITE."""
        raise ProcedureUnavailable("NFSPROC3_WRITE")

    def create(self, args: CREATE3args, context: CallContext) -> Awaitable[CREATE3res] | CREATE3res:
        """Answers NFSPROC3_CREATE."""
        raise ProcedureUnavailable("NFSPROC3_CREATE")

    def mkdir(self, args: MKDIR3args, context: CallContext) -> Awaitable[MKDIR3res] | MKDIR3res:
        """Answers NFSPROC3_MKDIR."""
        raise ProcedureUnavailable("NFSPROC3_MKDIR")

    def symlink(self, args: SYMLINK3args, context: CallContext) -> Awaitable[SYMLINK3res] | SYMLINK3res:
        """Answers NFSPROC3_SYMLINK."""
        raise ProcedureUnavailable("NFSPROC3_SYMLINK")

    def mknod(self, args: MKNOD3args, context: CallContext) -> Awaitable[MKNOD3res] | MKNOD3res:
        """Answers NFSPROC3_MKNOD."""
        raise ProcedureUnavailable("NFSPROC3_MKNOD")

    def remove(self, args: REMOVE3args, context: CallContext) -> Awaitable[REMOVE3res] | REMOVE3res:
        """Answers NFSPROC3_REMOVE."""
        raise ProcedureUnavailable("NFSPROC3_REMOVE")

    def rmdir(self, args: RMDIR3args, context: CallContext) -> Awaitable[RMDIR3res] | RMDIR3res:
        """Answers NFSPROC3_RMDIR."""
        raise ProcedureUnavailable("NFSPROC3_RMDIR")

    def rename(self, args: RENAME3args, context: CallContext) -> Awaitable[RENAME3res] | RENAME3res:
        """Answers NFSPROC3_RENAME."""
        raise ProcedureUnavailable("NFSPROC3_RENAME")

    def link(self, args: LINK3args, context: CallContext) -> Awaitable[LINK3res] | LINK3res:
        """Answers NFSPROC3_LINK."""
        raise ProcedureUnavailable("NFSPROC3_LINK")

    def readdir(self, args: READDIR3args, context: CallContext) -> Awaitable[READDIR3res] | READDIR3res:
        """Answers NFSPROC3_READDIR."""
        raise ProcedureUnavailable("NFSPROC3_READDIR")

    def readdirplus(self, args: READDIRPLUS3args, context: CallContext) -> Awaitable[READDIRPLUS3res] | READDIRPLUS3res:
        """Answers NFSPROC3_READDIRPLUS."""
        raise ProcedureUnavailable("NFSPROC3_READDIRPLUS")

    def fsstat(self, args: FSSTAT3args, context: CallContext) -> Awaitable[FSSTAT3res] | FSSTAT3res:
        """Answers NFSPROC3_FSSTAT."""
        raise ProcedureUnavailable("NFSPROC3_FSSTAT")

    def fsinfo(self, args: FSINFO3args, context: CallContext) -> Awaitable[FSINFO3res] | FSINFO3res:
        """Answers NFSPROC3_FSINFO."""
        raise ProcedureUnavailable("NFSPROC3_FSINFO")

    def pathconf(self, args: PATHCONF3args, context: CallContext) -> Awaitable[PATHCONF3res] | PATHCONF3res:
        """Answers NFSPROC3_PATHCONF."""
        raise ProcedureUnavailable("NFSPROC3_PATHCONF")

    def commit(self, args: COMMIT3args, context: CallContext) -> Awaitable[COMMIT3res] | COMMIT3res:
        """Answers NFSPROC3_COMMIT."""
        raise ProcedureUnavailable("NFSPROC3_COMMIT")


PROGRAM: Final = NFS_V3
