"""Generated from nfs4.x by `rpcrdma xdr compile`: do not edit."""

# ruff: noqa: A001, A002, A003, ARG001, ARG002, D103, E741, N801, N802, N815, N816, RUF100

from __future__ import annotations

import enum
from collections.abc import Awaitable
from dataclasses import dataclass
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
    "ACCESS4_DELETE",
    "ACCESS4_EXECUTE",
    "ACCESS4_EXTEND",
    "ACCESS4_LOOKUP",
    "ACCESS4_MODIFY",
    "ACCESS4_READ",
    "ACCESS4_XALIST",
    "ACCESS4_XAREAD",
    "ACCESS4_XAWRITE",
    "AUTH_NONE",
    "AUTH_SYS",
    "CB_COMPOUND",
    "CB_NULL",
    "CREATE_SESSION4_FLAG_CONN_BACK_CHAN",
    "CREATE_SESSION4_FLAG_CONN_RDMA",
    "CREATE_SESSION4_FLAG_PERSIST",
    "EXCHGID4_FLAG_BIND_PRINC_STATEID",
    "EXCHGID4_FLAG_CONFIRMED_R",
    "EXCHGID4_FLAG_SUPP_FENCE_OPS",
    "EXCHGID4_FLAG_SUPP_MOVED_MIGR",
    "EXCHGID4_FLAG_SUPP_MOVED_REFER",
    "EXCHGID4_FLAG_UPD_CONFIRMED_REC_A",
    "EXCHGID4_FLAG_USE_NON_PNFS",
    "EXCHGID4_FLAG_USE_PNFS_DS",
    "EXCHGID4_FLAG_USE_PNFS_MDS",
    "FATTR4_ACLSUPPORT",
    "FATTR4_CANSETTIME",
    "FATTR4_CASE_INSENSITIVE",
    "FATTR4_CASE_PRESERVING",
    "FATTR4_CHANGE",
    "FATTR4_CHOWN_RESTRICTED",
    "FATTR4_FH_EXPIRE_TYPE",
    "FATTR4_FILEHANDLE",
    "FATTR4_FILEID",
    "FATTR4_FILES_AVAIL",
    "FATTR4_FILES_FREE",
    "FATTR4_FILES_TOTAL",
    "FATTR4_FSID",
    "FATTR4_HOMOGENEOUS",
    "FATTR4_LEASE_TIME",
    "FATTR4_LINK_SUPPORT",
    "FATTR4_MAXFILESIZE",
    "FATTR4_MAXLINK",
    "FATTR4_MAXNAME",
    "FATTR4_MAXREAD",
    "FATTR4_MAXWRITE",
    "FATTR4_MODE",
    "FATTR4_MOUNTED_ON_FILEID",
    "FATTR4_NAMED_ATTR",
    "FATTR4_NO_TRUNC",
    "FATTR4_NUMLINKS",
    "FATTR4_OWNER",
    "FATTR4_OWNER_GROUP",
    "FATTR4_QUOTA_AVAIL_HARD",
    "FATTR4_QUOTA_AVAIL_SOFT",
    "FATTR4_QUOTA_USED",
    "FATTR4_RAWDEV",
    "FATTR4_RDATTR_ERROR",
    "FATTR4_SIZE",
    "FATTR4_SPACE_AVAIL",
    "FATTR4_SPACE_FREE",
    "FATTR4_SPACE_TOTAL",
    "FATTR4_SPACE_USED",
    "FATTR4_SUPPATTR_EXCLCREAT",
    "FATTR4_SUPPORTED_ATTRS",
    "FATTR4_SYMLINK_SUPPORT",
    "FATTR4_TIME_ACCESS",
    "FATTR4_TIME_ACCESS_SET",
    "FATTR4_TIME_DELTA",
    "FATTR4_TIME_METADATA",
    "FATTR4_TIME_MODIFY",
    "FATTR4_TIME_MODIFY_SET",
    "FATTR4_TYPE",
    "FATTR4_UNIQUE_HANDLES",
    "FATTR4_XATTR_SUPPORT",
    "IO_ADVISE4_WILLNEED",
    "IO_ADVISE4_WILLNEED_OPPORTUNISTIC",
    "NFS4_CB_MAXOPS",
    "NFS4_FHSIZE",
    "NFS4_MAXALGORITHMS",
    "NFS4_MAXATTRIBUTES",
    "NFS4_MAXCONTENTS",
    "NFS4_MAXDATA",
    "NFS4_MAXENTRIES",
    "NFS4_MAXFLAVORS",
    "NFS4_MAXNAMLEN",
    "NFS4_MAXPATHLEN",
    "NFS4_MAXREFERRING",
    "NFS4_MAXSOURCES",
    "NFS4_MAXSTATEIDS",
    "NFS4_MAXWORDS",
    "NFS4_MAXXATTRS",
    "NFS4_OPAQUE_LIMIT",
    "NFS4_OTHER_SIZE",
    "NFS4_SESSIONID_SIZE",
    "NFS4_VERIFIER_SIZE",
    "NFSPROC4_NULL",
    "NFS_CB",
    "NFS_V4",
    "NULL",
    "OPEN4_RESULT_CONFIRM",
    "OPEN4_RESULT_LOCKTYPE_POSIX",
    "OPEN4_RESULT_MAY_NOTIFY_LOCK",
    "OPEN4_RESULT_PRESERVE_UNLINKED",
    "OPEN4_SHARE_ACCESS_BOTH",
    "OPEN4_SHARE_ACCESS_READ",
    "OPEN4_SHARE_ACCESS_WANT_ANY_DELEG",
    "OPEN4_SHARE_ACCESS_WANT_CANCEL",
    "OPEN4_SHARE_ACCESS_WANT_DELEG_MASK",
    "OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS",
    "OPEN4_SHARE_ACCESS_WANT_NO_DELEG",
    "OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE",
    "OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION",
    "OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED",
    "OPEN4_SHARE_ACCESS_WANT_READ_DELEG",
    "OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL",
    "OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG",
    "OPEN4_SHARE_ACCESS_WRITE",
    "OPEN4_SHARE_DENY_BOTH",
    "OPEN4_SHARE_DENY_NONE",
    "OPEN4_SHARE_DENY_READ",
    "OPEN4_SHARE_DENY_WRITE",
    "RPCSEC_GSS",
    "SEQ4_STATUS_ADMIN_STATE_REVOKED",
    "SEQ4_STATUS_BACKCHANNEL_FAULT",
    "SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED",
    "SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING",
    "SEQ4_STATUS_CB_PATH_DOWN",
    "SEQ4_STATUS_CB_PATH_DOWN_SESSION",
    "SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED",
    "SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED",
    "SEQ4_STATUS_LEASE_MOVED",
    "SEQ4_STATUS_RECALLABLE_STATE_REVOKED",
    "SEQ4_STATUS_RESTART_RECLAIM_NEEDED",
    "ACCESS4args",
    "ACCESS4resok",
    "ALLOCATE4args",
    "BACKCHANNEL_CTL4args",
    "BIND_CONN_TO_SESSION4args",
    "BIND_CONN_TO_SESSION4resok",
    "CB_COMPOUND4args",
    "CB_COMPOUND4res",
    "CB_RECALL4args",
    "CB_SEQUENCE4args",
    "CB_SEQUENCE4res",
    "CB_SEQUENCE4resok",
    "CLONE4args",
    "CLOSE4args",
    "COMMIT4args",
    "COMMIT4resok",
    "COPY4args",
    "COPY4resok",
    "CREATE4args",
    "CREATE4resok",
    "CREATE_SESSION4args",
    "CREATE_SESSION4resok",
    "DEALLOCATE4args",
    "DELEGRETURN4args",
    "DESTROY_CLIENTID4args",
    "DESTROY_SESSION4args",
    "EXCHANGE_ID4args",
    "EXCHANGE_ID4resok",
    "FREE_STATEID4args",
    "GETATTR4args",
    "GETATTR4resok",
    "GETFH4resok",
    "GETXATTR4args",
    "GETXATTR4resok",
    "IO_ADVISE4args",
    "IO_ADVISE4resok",
    "LINK4args",
    "LINK4resok",
    "LISTXATTRS4args",
    "LISTXATTRS4resok",
    "LOCK4args",
    "LOCK4denied",
    "LOCK4resok",
    "LOCKT4args",
    "LOCKU4args",
    "LOOKUP4args",
    "NFS_CB_Client",
    "NFS_CB_Service",
    "NFS_CB_SyncClient",
    "NFS_V4_Client",
    "NFS_V4_Service",
    "NFS_V4_SyncClient",
    "OPEN4args",
    "OPEN4resok",
    "OPEN_DOWNGRADE4args",
    "PUTFH4args",
    "READ4args",
    "READ4resok",
    "READDIR4args",
    "READDIR4resok",
    "READLINK4resok",
    "READ_PLUS4args",
    "READ_PLUS4resok",
    "RECLAIM_COMPLETE4args",
    "REMOVE4args",
    "REMOVE4resok",
    "REMOVEXATTR4args",
    "REMOVEXATTR4resok",
    "RENAME4args",
    "RENAME4resok",
    "SECINFO4args",
    "SECINFO4resok",
    "SEEK4args",
    "SEEK4resok",
    "SEQUENCE4args",
    "SEQUENCE4resok",
    "SETATTR4args",
    "SETATTR4resok",
    "SETXATTR4args",
    "SETXATTR4resok",
    "TEST_STATEID4args",
    "TEST_STATEID4resok",
    "VERIFY4args",
    "WRITE4args",
    "WRITE4resok",
    "authsys_parms",
    "bitmap4",
    "callback_sec_parms4",
    "change_info4",
    "changeid4",
    "channel_attrs4",
    "channel_dir_from_client4",
    "channel_dir_from_server4",
    "client_owner4",
    "clientid4",
    "component4",
    "copy_requirements4",
    "count4",
    "createhow4",
    "createmode4",
    "createtype4",
    "creatverfattr",
    "data4",
    "data_content4",
    "data_info4",
    "decode_ACCESS4args",
    "decode_ACCESS4resok",
    "decode_ALLOCATE4args",
    "decode_BACKCHANNEL_CTL4args",
    "decode_BIND_CONN_TO_SESSION4args",
    "decode_BIND_CONN_TO_SESSION4resok",
    "decode_CB_COMPOUND4args",
    "decode_CB_COMPOUND4res",
    "decode_CB_RECALL4args",
    "decode_CB_SEQUENCE4args",
    "decode_CB_SEQUENCE4res",
    "decode_CB_SEQUENCE4resok",
    "decode_CLONE4args",
    "decode_CLOSE4args",
    "decode_COMMIT4args",
    "decode_COMMIT4resok",
    "decode_COPY4args",
    "decode_COPY4resok",
    "decode_CREATE4args",
    "decode_CREATE4resok",
    "decode_CREATE_SESSION4args",
    "decode_CREATE_SESSION4resok",
    "decode_DEALLOCATE4args",
    "decode_DELEGRETURN4args",
    "decode_DESTROY_CLIENTID4args",
    "decode_DESTROY_SESSION4args",
    "decode_EXCHANGE_ID4args",
    "decode_EXCHANGE_ID4resok",
    "decode_FREE_STATEID4args",
    "decode_GETATTR4args",
    "decode_GETATTR4resok",
    "decode_GETFH4resok",
    "decode_GETXATTR4args",
    "decode_GETXATTR4resok",
    "decode_IO_ADVISE4args",
    "decode_IO_ADVISE4resok",
    "decode_LINK4args",
    "decode_LINK4resok",
    "decode_LISTXATTRS4args",
    "decode_LISTXATTRS4resok",
    "decode_LOCK4args",
    "decode_LOCK4denied",
    "decode_LOCK4resok",
    "decode_LOCKT4args",
    "decode_LOCKU4args",
    "decode_LOOKUP4args",
    "decode_OPEN4args",
    "decode_OPEN4resok",
    "decode_OPEN_DOWNGRADE4args",
    "decode_PUTFH4args",
    "decode_READ4args",
    "decode_READ4resok",
    "decode_READDIR4args",
    "decode_READDIR4resok",
    "decode_READLINK4resok",
    "decode_READ_PLUS4args",
    "decode_READ_PLUS4resok",
    "decode_RECLAIM_COMPLETE4args",
    "decode_REMOVE4args",
    "decode_REMOVE4resok",
    "decode_REMOVEXATTR4args",
    "decode_REMOVEXATTR4resok",
    "decode_RENAME4args",
    "decode_RENAME4resok",
    "decode_SECINFO4args",
    "decode_SECINFO4resok",
    "decode_SEEK4args",
    "decode_SEEK4resok",
    "decode_SEQUENCE4args",
    "decode_SEQUENCE4resok",
    "decode_SETATTR4args",
    "decode_SETATTR4resok",
    "decode_SETXATTR4args",
    "decode_SETXATTR4resok",
    "decode_TEST_STATEID4args",
    "decode_TEST_STATEID4resok",
    "decode_VERIFY4args",
    "decode_WRITE4args",
    "decode_WRITE4resok",
    "decode_authsys_parms",
    "decode_bitmap4",
    "decode_callback_sec_parms4",
    "decode_change_info4",
    "decode_changeid4",
    "decode_channel_attrs4",
    "decode_channel_dir_from_client4",
    "decode_channel_dir_from_server4",
    "decode_client_owner4",
    "decode_clientid4",
    "decode_component4",
    "decode_copy_requirements4",
    "decode_count4",
    "decode_createhow4",
    "decode_createmode4",
    "decode_createtype4",
    "decode_creatverfattr",
    "decode_data4",
    "decode_data_content4",
    "decode_data_info4",
    "decode_dirlist4",
    "decode_entry4",
    "decode_exist_lock_owner4",
    "decode_fattr4",
    "decode_gss_cb_handles4",
    "decode_gsshandle4_t",
    "decode_length4",
    "decode_limit_by4",
    "decode_linktext4",
    "decode_locker4",
    "decode_netaddr4",
    "decode_netloc4",
    "decode_netloc_type4",
    "decode_nfs_cb_argop4",
    "decode_nfs_cb_opnum4",
    "decode_nfs_cb_resop4",
    "decode_nfs_cookie4",
    "decode_nfs_fh4",
    "decode_nfs_ftype4",
    "decode_nfs_impl_id4",
    "decode_nfs_lock_type4",
    "decode_nfs_modified_limit4",
    "decode_nfs_opnum4",
    "decode_nfs_space_limit4",
    "decode_nfsace4",
    "decode_nfsstat4",
    "decode_nfstime4",
    "decode_offset4",
    "decode_open_claim4",
    "decode_open_claim_delegate_cur4",
    "decode_open_claim_type4",
    "decode_open_delegation4",
    "decode_open_delegation_type4",
    "decode_open_none_delegation4",
    "decode_open_read_delegation4",
    "decode_open_to_lock_owner4",
    "decode_open_write_delegation4",
    "decode_openflag4",
    "decode_opentype4",
    "decode_read_plus_content",
    "decode_referring_call4",
    "decode_referring_call_list4",
    "decode_rpc_gss_svc_t",
    "decode_rpcsec_gss_info",
    "decode_sec_oid4",
    "decode_secinfo4",
    "decode_secinfo_style4",
    "decode_seqid4",
    "decode_sequenceid4",
    "decode_server_owner4",
    "decode_sessionid4",
    "decode_setxattr_option4",
    "decode_slotid4",
    "decode_specdata4",
    "decode_ssv_sp_parms4",
    "decode_stable_how4",
    "decode_state_owner4",
    "decode_state_protect4_a",
    "decode_state_protect4_r",
    "decode_state_protect_how4",
    "decode_state_protect_ops4",
    "decode_stateid4",
    "decode_time_how4",
    "decode_utf8str_cs",
    "decode_verifier4",
    "decode_why_no_delegation4",
    "decode_write_response4",
    "decode_xattrkey4",
    "decode_xattrvalue4",
    "dirlist4",
    "encode_ACCESS4args",
    "encode_ACCESS4resok",
    "encode_ALLOCATE4args",
    "encode_BACKCHANNEL_CTL4args",
    "encode_BIND_CONN_TO_SESSION4args",
    "encode_BIND_CONN_TO_SESSION4resok",
    "encode_CB_COMPOUND4args",
    "encode_CB_COMPOUND4res",
    "encode_CB_RECALL4args",
    "encode_CB_SEQUENCE4args",
    "encode_CB_SEQUENCE4res",
    "encode_CB_SEQUENCE4resok",
    "encode_CLONE4args",
    "encode_CLOSE4args",
    "encode_COMMIT4args",
    "encode_COMMIT4resok",
    "encode_COPY4args",
    "encode_COPY4resok",
    "encode_CREATE4args",
    "encode_CREATE4resok",
    "encode_CREATE_SESSION4args",
    "encode_CREATE_SESSION4resok",
    "encode_DEALLOCATE4args",
    "encode_DELEGRETURN4args",
    "encode_DESTROY_CLIENTID4args",
    "encode_DESTROY_SESSION4args",
    "encode_EXCHANGE_ID4args",
    "encode_EXCHANGE_ID4resok",
    "encode_FREE_STATEID4args",
    "encode_GETATTR4args",
    "encode_GETATTR4resok",
    "encode_GETFH4resok",
    "encode_GETXATTR4args",
    "encode_GETXATTR4resok",
    "encode_IO_ADVISE4args",
    "encode_IO_ADVISE4resok",
    "encode_LINK4args",
    "encode_LINK4resok",
    "encode_LISTXATTRS4args",
    "encode_LISTXATTRS4resok",
    "encode_LOCK4args",
    "encode_LOCK4denied",
    "encode_LOCK4resok",
    "encode_LOCKT4args",
    "encode_LOCKU4args",
    "encode_LOOKUP4args",
    "encode_OPEN4args",
    "encode_OPEN4resok",
    "encode_OPEN_DOWNGRADE4args",
    "encode_PUTFH4args",
    "encode_READ4args",
    "encode_READ4resok",
    "encode_READDIR4args",
    "encode_READDIR4resok",
    "encode_READLINK4resok",
    "encode_READ_PLUS4args",
    "encode_READ_PLUS4resok",
    "encode_RECLAIM_COMPLETE4args",
    "encode_REMOVE4args",
    "encode_REMOVE4resok",
    "encode_REMOVEXATTR4args",
    "encode_REMOVEXATTR4resok",
    "encode_RENAME4args",
    "encode_RENAME4resok",
    "encode_SECINFO4args",
    "encode_SECINFO4resok",
    "encode_SEEK4args",
    "encode_SEEK4resok",
    "encode_SEQUENCE4args",
    "encode_SEQUENCE4resok",
    "encode_SETATTR4args",
    "encode_SETATTR4resok",
    "encode_SETXATTR4args",
    "encode_SETXATTR4resok",
    "encode_TEST_STATEID4args",
    "encode_TEST_STATEID4resok",
    "encode_VERIFY4args",
    "encode_WRITE4args",
    "encode_WRITE4resok",
    "encode_authsys_parms",
    "encode_bitmap4",
    "encode_callback_sec_parms4",
    "encode_change_info4",
    "encode_changeid4",
    "encode_channel_attrs4",
    "encode_channel_dir_from_client4",
    "encode_channel_dir_from_server4",
    "encode_client_owner4",
    "encode_clientid4",
    "encode_component4",
    "encode_copy_requirements4",
    "encode_count4",
    "encode_createhow4",
    "encode_createmode4",
    "encode_createtype4",
    "encode_creatverfattr",
    "encode_data4",
    "encode_data_content4",
    "encode_data_info4",
    "encode_dirlist4",
    "encode_entry4",
    "encode_exist_lock_owner4",
    "encode_fattr4",
    "encode_gss_cb_handles4",
    "encode_gsshandle4_t",
    "encode_length4",
    "encode_limit_by4",
    "encode_linktext4",
    "encode_locker4",
    "encode_netaddr4",
    "encode_netloc4",
    "encode_netloc_type4",
    "encode_nfs_cb_argop4",
    "encode_nfs_cb_opnum4",
    "encode_nfs_cb_resop4",
    "encode_nfs_cookie4",
    "encode_nfs_fh4",
    "encode_nfs_ftype4",
    "encode_nfs_impl_id4",
    "encode_nfs_lock_type4",
    "encode_nfs_modified_limit4",
    "encode_nfs_opnum4",
    "encode_nfs_space_limit4",
    "encode_nfsace4",
    "encode_nfsstat4",
    "encode_nfstime4",
    "encode_offset4",
    "encode_open_claim4",
    "encode_open_claim_delegate_cur4",
    "encode_open_claim_type4",
    "encode_open_delegation4",
    "encode_open_delegation_type4",
    "encode_open_none_delegation4",
    "encode_open_read_delegation4",
    "encode_open_to_lock_owner4",
    "encode_open_write_delegation4",
    "encode_openflag4",
    "encode_opentype4",
    "encode_read_plus_content",
    "encode_referring_call4",
    "encode_referring_call_list4",
    "encode_rpc_gss_svc_t",
    "encode_rpcsec_gss_info",
    "encode_sec_oid4",
    "encode_secinfo4",
    "encode_secinfo_style4",
    "encode_seqid4",
    "encode_sequenceid4",
    "encode_server_owner4",
    "encode_sessionid4",
    "encode_setxattr_option4",
    "encode_slotid4",
    "encode_specdata4",
    "encode_ssv_sp_parms4",
    "encode_stable_how4",
    "encode_state_owner4",
    "encode_state_protect4_a",
    "encode_state_protect4_r",
    "encode_state_protect_how4",
    "encode_state_protect_ops4",
    "encode_stateid4",
    "encode_time_how4",
    "encode_utf8str_cs",
    "encode_verifier4",
    "encode_why_no_delegation4",
    "encode_write_response4",
    "encode_xattrkey4",
    "encode_xattrvalue4",
    "entry4",
    "exist_lock_owner4",
    "fattr4",
    "gss_cb_handles4",
    "gsshandle4_t",
    "length4",
    "limit_by4",
    "linktext4",
    "locker4",
    "netaddr4",
    "netloc4",
    "netloc_type4",
    "nfs_cb_argop4",
    "nfs_cb_opnum4",
    "nfs_cb_resop4",
    "nfs_cookie4",
    "nfs_fh4",
    "nfs_ftype4",
    "nfs_impl_id4",
    "nfs_lock_type4",
    "nfs_modified_limit4",
    "nfs_opnum4",
    "nfs_space_limit4",
    "nfsace4",
    "nfsstat4",
    "nfstime4",
    "offset4",
    "open_claim4",
    "open_claim_delegate_cur4",
    "open_claim_type4",
    "open_delegation4",
    "open_delegation_type4",
    "open_none_delegation4",
    "open_read_delegation4",
    "open_to_lock_owner4",
    "open_write_delegation4",
    "openflag4",
    "opentype4",
    "read_plus_content",
    "referring_call4",
    "referring_call_list4",
    "rpc_gss_svc_t",
    "rpcsec_gss_info",
    "sec_oid4",
    "secinfo4",
    "secinfo_style4",
    "seqid4",
    "sequenceid4",
    "server_owner4",
    "sessionid4",
    "setxattr_option4",
    "slotid4",
    "specdata4",
    "ssv_sp_parms4",
    "stable_how4",
    "state_owner4",
    "state_protect4_a",
    "state_protect4_r",
    "state_protect_how4",
    "state_protect_ops4",
    "stateid4",
    "time_how4",
    "utf8str_cs",
    "verifier4",
    "why_no_delegation4",
    "write_response4",
    "xattrkey4",
    "xattrvalue4",
]

NFS4_FHSIZE: Final = 128
NFS4_VERIFIER_SIZE: Final = 8
NFS4_OTHER_SIZE: Final = 12
NFS4_SESSIONID_SIZE: Final = 16
NFS4_OPAQUE_LIMIT: Final = 1024
NFS4_MAXDATA: Final = 4194304
NFS4_MAXNAMLEN: Final = 1024
NFS4_MAXPATHLEN: Final = 4096
NFS4_MAXENTRIES: Final = 65536
NFS4_MAXWORDS: Final = 8
NFS4_MAXATTRIBUTES: Final = 65536
NFS4_MAXFLAVORS: Final = 16
NFS4_MAXSTATEIDS: Final = 1024
NFS4_MAXREFERRING: Final = 64
NFS4_MAXXATTRS: Final = 16384
NFS4_MAXCONTENTS: Final = 1024
NFS4_MAXSOURCES: Final = 16
NFS4_MAXALGORITHMS: Final = 16
FATTR4_SUPPORTED_ATTRS: Final = 0
FATTR4_TYPE: Final = 1
FATTR4_FH_EXPIRE_TYPE: Final = 2
FATTR4_CHANGE: Final = 3
FATTR4_SIZE: Final = 4
FATTR4_LINK_SUPPORT: Final = 5
FATTR4_SYMLINK_SUPPORT: Final = 6
FATTR4_NAMED_ATTR: Final = 7
FATTR4_FSID: Final = 8
FATTR4_UNIQUE_HANDLES: Final = 9
FATTR4_LEASE_TIME: Final = 10
FATTR4_RDATTR_ERROR: Final = 11
FATTR4_ACLSUPPORT: Final = 13
FATTR4_CANSETTIME: Final = 15
FATTR4_CASE_INSENSITIVE: Final = 16
FATTR4_CASE_PRESERVING: Final = 17
FATTR4_CHOWN_RESTRICTED: Final = 18
FATTR4_FILEHANDLE: Final = 19
FATTR4_FILEID: Final = 20
FATTR4_FILES_AVAIL: Final = 21
FATTR4_FILES_FREE: Final = 22
FATTR4_FILES_TOTAL: Final = 23
FATTR4_HOMOGENEOUS: Final = 26
FATTR4_MAXFILESIZE: Final = 27
FATTR4_MAXLINK: Final = 28
FATTR4_MAXNAME: Final = 29
FATTR4_MAXREAD: Final = 30
FATTR4_MAXWRITE: Final = 31
FATTR4_MODE: Final = 33
FATTR4_NO_TRUNC: Final = 34
FATTR4_NUMLINKS: Final = 35
FATTR4_OWNER: Final = 36
FATTR4_OWNER_GROUP: Final = 37
FATTR4_QUOTA_AVAIL_HARD: Final = 38
FATTR4_QUOTA_AVAIL_SOFT: Final = 39
FATTR4_QUOTA_USED: Final = 40
FATTR4_RAWDEV: Final = 41
FATTR4_SPACE_AVAIL: Final = 42
FATTR4_SPACE_FREE: Final = 43
FATTR4_SPACE_TOTAL: Final = 44
FATTR4_SPACE_USED: Final = 45
FATTR4_TIME_ACCESS: Final = 47
FATTR4_TIME_ACCESS_SET: Final = 48
FATTR4_TIME_DELTA: Final = 51
FATTR4_TIME_METADATA: Final = 52
FATTR4_TIME_MODIFY: Final = 53
FATTR4_TIME_MODIFY_SET: Final = 54
FATTR4_MOUNTED_ON_FILEID: Final = 55
FATTR4_SUPPATTR_EXCLCREAT: Final = 75
FATTR4_XATTR_SUPPORT: Final = 82
RPCSEC_GSS: Final = 6
ACCESS4_READ: Final = 1
ACCESS4_LOOKUP: Final = 2
ACCESS4_MODIFY: Final = 4
ACCESS4_EXTEND: Final = 8
ACCESS4_DELETE: Final = 16
ACCESS4_EXECUTE: Final = 32
ACCESS4_XAREAD: Final = 64
ACCESS4_XAWRITE: Final = 128
ACCESS4_XALIST: Final = 256
IO_ADVISE4_WILLNEED: Final = 4
IO_ADVISE4_WILLNEED_OPPORTUNISTIC: Final = 5
EXCHGID4_FLAG_SUPP_MOVED_REFER: Final = 1
EXCHGID4_FLAG_SUPP_MOVED_MIGR: Final = 2
EXCHGID4_FLAG_SUPP_FENCE_OPS: Final = 4
EXCHGID4_FLAG_BIND_PRINC_STATEID: Final = 256
EXCHGID4_FLAG_USE_NON_PNFS: Final = 65536
EXCHGID4_FLAG_USE_PNFS_MDS: Final = 131072
EXCHGID4_FLAG_USE_PNFS_DS: Final = 262144
EXCHGID4_FLAG_UPD_CONFIRMED_REC_A: Final = 1073741824
EXCHGID4_FLAG_CONFIRMED_R: Final = 2147483648
CREATE_SESSION4_FLAG_PERSIST: Final = 1
CREATE_SESSION4_FLAG_CONN_BACK_CHAN: Final = 2
CREATE_SESSION4_FLAG_CONN_RDMA: Final = 4
AUTH_NONE: Final = 0
AUTH_SYS: Final = 1
SEQ4_STATUS_CB_PATH_DOWN: Final = 1
SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING: Final = 2
SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED: Final = 4
SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED: Final = 8
SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED: Final = 16
SEQ4_STATUS_ADMIN_STATE_REVOKED: Final = 32
SEQ4_STATUS_RECALLABLE_STATE_REVOKED: Final = 64
SEQ4_STATUS_LEASE_MOVED: Final = 128
SEQ4_STATUS_RESTART_RECLAIM_NEEDED: Final = 256
SEQ4_STATUS_CB_PATH_DOWN_SESSION: Final = 512
SEQ4_STATUS_BACKCHANNEL_FAULT: Final = 1024
OPEN4_SHARE_ACCESS_READ: Final = 1
OPEN4_SHARE_ACCESS_WRITE: Final = 2
OPEN4_SHARE_ACCESS_BOTH: Final = 3
OPEN4_SHARE_DENY_NONE: Final = 0
OPEN4_SHARE_DENY_READ: Final = 1
OPEN4_SHARE_DENY_WRITE: Final = 2
OPEN4_SHARE_DENY_BOTH: Final = 3
OPEN4_SHARE_ACCESS_WANT_DELEG_MASK: Final = 65280
OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE: Final = 0
OPEN4_SHARE_ACCESS_WANT_READ_DELEG: Final = 256
OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG: Final = 512
OPEN4_SHARE_ACCESS_WANT_ANY_DELEG: Final = 768
OPEN4_SHARE_ACCESS_WANT_NO_DELEG: Final = 1024
OPEN4_SHARE_ACCESS_WANT_CANCEL: Final = 1280
OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL: Final = 65536
OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED: Final = 131072
OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS: Final = 1048576
OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION: Final = 2097152
OPEN4_RESULT_CONFIRM: Final = 2
OPEN4_RESULT_LOCKTYPE_POSIX: Final = 4
OPEN4_RESULT_PRESERVE_UNLINKED: Final = 8
OPEN4_RESULT_MAY_NOTIFY_LOCK: Final = 32
NFS4_CB_MAXOPS: Final = 2


class nfsstat4(enum.IntEnum):
    """XDR enum `nfsstat4`."""

    NFS4_OK = 0
    NFS4ERR_PERM = 1
    NFS4ERR_NOENT = 2
    NFS4ERR_IO = 5
    NFS4ERR_NXIO = 6
    NFS4ERR_ACCESS = 13
    NFS4ERR_EXIST = 17
    NFS4ERR_XDEV = 18
    NFS4ERR_NOTDIR = 20
    NFS4ERR_ISDIR = 21
    NFS4ERR_INVAL = 22
    NFS4ERR_FBIG = 27
    NFS4ERR_NOSPC = 28
    NFS4ERR_ROFS = 30
    NFS4ERR_MLINK = 31
    NFS4ERR_NAMETOOLONG = 63
    NFS4ERR_NOTEMPTY = 66
    NFS4ERR_DQUOT = 69
    NFS4ERR_STALE = 70
    NFS4ERR_BADHANDLE = 10001
    NFS4ERR_BAD_COOKIE = 10003
    NFS4ERR_NOTSUPP = 10004
    NFS4ERR_TOOSMALL = 10005
    NFS4ERR_SERVERFAULT = 10006
    NFS4ERR_BADTYPE = 10007
    NFS4ERR_DELAY = 10008
    NFS4ERR_SAME = 10009
    NFS4ERR_DENIED = 10010
    NFS4ERR_EXPIRED = 10011
    NFS4ERR_LOCKED = 10012
    NFS4ERR_GRACE = 10013
    NFS4ERR_FHEXPIRED = 10014
    NFS4ERR_SHARE_DENIED = 10015
    NFS4ERR_WRONGSEC = 10016
    NFS4ERR_CLID_INUSE = 10017
    NFS4ERR_MOVED = 10019
    NFS4ERR_NOFILEHANDLE = 10020
    NFS4ERR_MINOR_VERS_MISMATCH = 10021
    NFS4ERR_STALE_CLIENTID = 10022
    NFS4ERR_STALE_STATEID = 10023
    NFS4ERR_OLD_STATEID = 10024
    NFS4ERR_BAD_STATEID = 10025
    NFS4ERR_NOT_SAME = 10027
    NFS4ERR_LOCK_RANGE = 10028
    NFS4ERR_SYMLINK = 10029
    NFS4ERR_RESTOREFH = 10030
    NFS4ERR_ATTRNOTSUPP = 10032
    NFS4ERR_NO_GRACE = 10033
    NFS4ERR_RECLAIM_BAD = 10034
    NFS4ERR_RECLAIM_CONFLICT = 10035
    NFS4ERR_BADXDR = 10036
    NFS4ERR_LOCKS_HELD = 10037
    NFS4ERR_OPENMODE = 10038
    NFS4ERR_BADOWNER = 10039
    NFS4ERR_BADCHAR = 10040
    NFS4ERR_BADNAME = 10041
    NFS4ERR_BAD_RANGE = 10042
    NFS4ERR_LOCK_NOTSUPP = 10043
    NFS4ERR_OP_ILLEGAL = 10044
    NFS4ERR_DEADLOCK = 10045
    NFS4ERR_FILE_OPEN = 10046
    NFS4ERR_ADMIN_REVOKED = 10047
    NFS4ERR_CB_PATH_DOWN = 10048
    NFS4ERR_BADIOMODE = 10049
    NFS4ERR_BADLAYOUT = 10050
    NFS4ERR_BAD_SESSION_DIGEST = 10051
    NFS4ERR_BADSESSION = 10052
    NFS4ERR_BADSLOT = 10053
    NFS4ERR_COMPLETE_ALREADY = 10054
    NFS4ERR_CONN_NOT_BOUND_TO_SESSION = 10055
    NFS4ERR_DELEG_ALREADY_WANTED = 10056
    NFS4ERR_BACK_CHAN_BUSY = 10057
    NFS4ERR_LAYOUTTRYLATER = 10058
    NFS4ERR_LAYOUTUNAVAILABLE = 10059
    NFS4ERR_NOMATCHING_LAYOUT = 10060
    NFS4ERR_RECALLCONFLICT = 10061
    NFS4ERR_UNKNOWN_LAYOUTTYPE = 10062
    NFS4ERR_SEQ_MISORDERED = 10063
    NFS4ERR_SEQUENCE_POS = 10064
    NFS4ERR_REQ_TOO_BIG = 10065
    NFS4ERR_REP_TOO_BIG = 10066
    NFS4ERR_REP_TOO_BIG_TO_CACHE = 10067
    NFS4ERR_RETRY_UNCACHED_REP = 10068
    NFS4ERR_UNSAFE_COMPOUND = 10069
    NFS4ERR_TOO_MANY_OPS = 10070
    NFS4ERR_OP_NOT_IN_SESSION = 10071
    NFS4ERR_HASH_ALG_UNSUPP = 10072
    NFS4ERR_CLIENTID_BUSY = 10074
    NFS4ERR_PNFS_IO_HOLE = 10075
    NFS4ERR_SEQ_FALSE_RETRY = 10076
    NFS4ERR_BAD_HIGH_SLOT = 10077
    NFS4ERR_DEADSESSION = 10078
    NFS4ERR_ENCR_ALG_UNSUPP = 10079
    NFS4ERR_PNFS_NO_LAYOUT = 10080
    NFS4ERR_NOT_ONLY_OP = 10081
    NFS4ERR_WRONG_CRED = 10082
    NFS4ERR_WRONG_TYPE = 10083
    NFS4ERR_DIRDELEG_UNAVAIL = 10084
    NFS4ERR_REJECT_DELEG = 10085
    NFS4ERR_RETURNCONFLICT = 10086
    NFS4ERR_DELEG_REVOKED = 10087
    NFS4ERR_PARTNER_NOTSUPP = 10088
    NFS4ERR_PARTNER_NO_AUTH = 10089
    NFS4ERR_UNION_NOTSUPP = 10090
    NFS4ERR_OFFLOAD_DENIED = 10091
    NFS4ERR_WRONG_LFS = 10092
    NFS4ERR_BADLABEL = 10093
    NFS4ERR_OFFLOAD_NO_REQS = 10094
    NFS4ERR_NOXATTR = 10095
    NFS4ERR_XATTR2BIG = 10096


_nfsstat4_BY_VALUE: Final = {int(member): member for member in nfsstat4}


class nfs_opnum4(enum.IntEnum):
    """XDR enum `nfs_opnum4`."""

    OP_ACCESS = 3
    OP_CLOSE = 4
    OP_COMMIT = 5
    OP_CREATE = 6
    OP_DELEGPURGE = 7
    OP_DELEGRETURN = 8
    OP_GETATTR = 9
    OP_GETFH = 10
    OP_LINK = 11
    OP_LOCK = 12
    OP_LOCKT = 13
    OP_LOCKU = 14
    OP_LOOKUP = 15
    OP_LOOKUPP = 16
    OP_NVERIFY = 17
    OP_OPEN = 18
    OP_OPENATTR = 19
    OP_OPEN_CONFIRM = 20
    OP_OPEN_DOWNGRADE = 21
    OP_PUTFH = 22
    OP_PUTPUBFH = 23
    OP_PUTROOTFH = 24
    OP_READ = 25
    OP_READDIR = 26
    OP_READLINK = 27
    OP_REMOVE = 28
    OP_RENAME = 29
    OP_RENEW = 30
    OP_RESTOREFH = 31
    OP_SAVEFH = 32
    OP_SECINFO = 33
    OP_SETATTR = 34
    OP_SETCLIENTID = 35
    OP_SETCLIENTID_CONFIRM = 36
    OP_VERIFY = 37
    OP_WRITE = 38
    OP_RELEASE_LOCKOWNER = 39
    OP_BACKCHANNEL_CTL = 40
    OP_BIND_CONN_TO_SESSION = 41
    OP_EXCHANGE_ID = 42
    OP_CREATE_SESSION = 43
    OP_DESTROY_SESSION = 44
    OP_FREE_STATEID = 45
    OP_GET_DIR_DELEGATION = 46
    OP_GETDEVICEINFO = 47
    OP_GETDEVICELIST = 48
    OP_LAYOUTCOMMIT = 49
    OP_LAYOUTGET = 50
    OP_LAYOUTRETURN = 51
    OP_SECINFO_NO_NAME = 52
    OP_SEQUENCE = 53
    OP_SET_SSV = 54
    OP_TEST_STATEID = 55
    OP_WANT_DELEGATION = 56
    OP_DESTROY_CLIENTID = 57
    OP_RECLAIM_COMPLETE = 58
    OP_ALLOCATE = 59
    OP_COPY = 60
    OP_COPY_NOTIFY = 61
    OP_DEALLOCATE = 62
    OP_IO_ADVISE = 63
    OP_LAYOUTERROR = 64
    OP_LAYOUTSTATS = 65
    OP_OFFLOAD_CANCEL = 66
    OP_OFFLOAD_STATUS = 67
    OP_READ_PLUS = 68
    OP_SEEK = 69
    OP_WRITE_SAME = 70
    OP_CLONE = 71
    OP_GETXATTR = 72
    OP_SETXATTR = 73
    OP_LISTXATTRS = 74
    OP_REMOVEXATTR = 75
    OP_ILLEGAL = 10044


_nfs_opnum4_BY_VALUE: Final = {int(member): member for member in nfs_opnum4}


class nfs_ftype4(enum.IntEnum):
    """XDR enum `nfs_ftype4`."""

    NF4REG = 1
    NF4DIR = 2
    NF4BLK = 3
    NF4CHR = 4
    NF4LNK = 5
    NF4SOCK = 6
    NF4FIFO = 7
    NF4ATTRDIR = 8
    NF4NAMEDATTR = 9


_nfs_ftype4_BY_VALUE: Final = {int(member): member for member in nfs_ftype4}


class time_how4(enum.IntEnum):
    """XDR enum `time_how4`."""

    SET_TO_SERVER_TIME4 = 0
    SET_TO_CLIENT_TIME4 = 1


_time_how4_BY_VALUE: Final = {int(member): member for member in time_how4}


class rpc_gss_svc_t(enum.IntEnum):
    """XDR enum `rpc_gss_svc_t`."""

    RPC_GSS_SVC_NONE = 1
    RPC_GSS_SVC_INTEGRITY = 2
    RPC_GSS_SVC_PRIVACY = 3


_rpc_gss_svc_t_BY_VALUE: Final = {int(member): member for member in rpc_gss_svc_t}


class secinfo_style4(enum.IntEnum):
    """XDR enum `secinfo_style4`."""

    SECINFO_STYLE4_CURRENT_FH = 0
    SECINFO_STYLE4_PARENT = 1


_secinfo_style4_BY_VALUE: Final = {int(member): member for member in secinfo_style4}


class stable_how4(enum.IntEnum):
    """XDR enum `stable_how4`."""

    UNSTABLE4 = 0
    DATA_SYNC4 = 1
    FILE_SYNC4 = 2


_stable_how4_BY_VALUE: Final = {int(member): member for member in stable_how4}


class data_content4(enum.IntEnum):
    """XDR enum `data_content4`."""

    NFS4_CONTENT_DATA = 0
    NFS4_CONTENT_HOLE = 1


_data_content4_BY_VALUE: Final = {int(member): member for member in data_content4}


class setxattr_option4(enum.IntEnum):
    """XDR enum `setxattr_option4`."""

    SETXATTR4_EITHER = 0
    SETXATTR4_CREATE = 1
    SETXATTR4_REPLACE = 2


_setxattr_option4_BY_VALUE: Final = {int(member): member for member in setxattr_option4}


class netloc_type4(enum.IntEnum):
    """XDR enum `netloc_type4`."""

    NL4_NAME = 1
    NL4_URL = 2
    NL4_NETADDR = 3


_netloc_type4_BY_VALUE: Final = {int(member): member for member in netloc_type4}


class state_protect_how4(enum.IntEnum):
    """XDR enum `state_protect_how4`."""

    SP4_NONE = 0
    SP4_MACH_CRED = 1
    SP4_SSV = 2


_state_protect_how4_BY_VALUE: Final = {int(member): member for member in state_protect_how4}


class channel_dir_from_client4(enum.IntEnum):
    """XDR enum `channel_dir_from_client4`."""

    CDFC4_FORE = 1
    CDFC4_BACK = 2
    CDFC4_FORE_OR_BOTH = 3
    CDFC4_BACK_OR_BOTH = 7


_channel_dir_from_client4_BY_VALUE: Final = {int(member): member for member in channel_dir_from_client4}


class channel_dir_from_server4(enum.IntEnum):
    """XDR enum `channel_dir_from_server4`."""

    CDFS4_FORE = 1
    CDFS4_BACK = 2
    CDFS4_BOTH = 3


_channel_dir_from_server4_BY_VALUE: Final = {int(member): member for member in channel_dir_from_server4}


class opentype4(enum.IntEnum):
    """XDR enum `opentype4`."""

    OPEN4_NOCREATE = 0
    OPEN4_CREATE = 1


_opentype4_BY_VALUE: Final = {int(member): member for member in opentype4}


class createmode4(enum.IntEnum):
    """XDR enum `createmode4`."""

    UNCHECKED4 = 0
    GUARDED4 = 1
    EXCLUSIVE4 = 2
    EXCLUSIVE4_1 = 3


_createmode4_BY_VALUE: Final = {int(member): member for member in createmode4}


class open_delegation_type4(enum.IntEnum):
    """XDR enum `open_delegation_type4`."""

    OPEN_DELEGATE_NONE = 0
    OPEN_DELEGATE_READ = 1
    OPEN_DELEGATE_WRITE = 2
    OPEN_DELEGATE_NONE_EXT = 3


_open_delegation_type4_BY_VALUE: Final = {int(member): member for member in open_delegation_type4}


class open_claim_type4(enum.IntEnum):
    """XDR enum `open_claim_type4`."""

    CLAIM_NULL = 0
    CLAIM_PREVIOUS = 1
    CLAIM_DELEGATE_CUR = 2
    CLAIM_DELEGATE_PREV = 3
    CLAIM_FH = 4
    CLAIM_DELEG_CUR_FH = 5
    CLAIM_DELEG_PREV_FH = 6


_open_claim_type4_BY_VALUE: Final = {int(member): member for member in open_claim_type4}


class limit_by4(enum.IntEnum):
    """XDR enum `limit_by4`."""

    NFS_LIMIT_SIZE = 1
    NFS_LIMIT_BLOCKS = 2


_limit_by4_BY_VALUE: Final = {int(member): member for member in limit_by4}


class why_no_delegation4(enum.IntEnum):
    """XDR enum `why_no_delegation4`."""

    WND4_NOT_WANTED = 0
    WND4_CONTENTION = 1
    WND4_RESOURCE = 2
    WND4_NOT_SUPP_FTYPE = 3
    WND4_WRITE_DELEG_NOT_SUPP_FTYPE = 4
    WND4_NOT_SUPP_UPGRADE = 5
    WND4_NOT_SUPP_DOWNGRADE = 6
    WND4_CANCELLED = 7
    WND4_IS_DIR = 8


_why_no_delegation4_BY_VALUE: Final = {int(member): member for member in why_no_delegation4}


class nfs_lock_type4(enum.IntEnum):
    """XDR enum `nfs_lock_type4`."""

    READ_LT = 1
    WRITE_LT = 2
    READW_LT = 3
    WRITEW_LT = 4


_nfs_lock_type4_BY_VALUE: Final = {int(member): member for member in nfs_lock_type4}


class nfs_cb_opnum4(enum.IntEnum):
    """XDR enum `nfs_cb_opnum4`."""

    OP_CB_RECALL = 4
    OP_CB_SEQUENCE = 11
    OP_CB_ILLEGAL = 10044


_nfs_cb_opnum4_BY_VALUE: Final = {int(member): member for member in nfs_cb_opnum4}


@dataclass(slots=True, repr=False, eq=False)
class nfstime4(Composite):
    """XDR struct `nfstime4`."""

    seconds: int
    nseconds: int


@dataclass(slots=True, repr=False, eq=False)
class fattr4(Composite):
    """XDR struct `fattr4`."""

    attrmask: bitmap4
    attr_vals: bytes


@dataclass(slots=True, repr=False, eq=False)
class specdata4(Composite):
    """XDR struct `specdata4`."""

    specdata1: int
    specdata2: int


@dataclass(slots=True, repr=False, eq=False)
class change_info4(Composite):
    """XDR struct `change_info4`."""

    atomic: bool
    before: changeid4
    after: changeid4


@dataclass(slots=True, repr=False, eq=False)
class stateid4(Composite):
    """XDR struct `stateid4`."""

    seqid: int
    other: bytes


@dataclass(slots=True, repr=False, eq=False)
class state_owner4(Composite):
    """XDR struct `state_owner4`."""

    clientid: clientid4
    owner: bytes


@dataclass(slots=True, repr=False, eq=False)
class PUTFH4args(Composite):
    """XDR struct `PUTFH4args`."""

    object: nfs_fh4


@dataclass(slots=True, repr=False, eq=False)
class GETFH4resok(Composite):
    """XDR struct `GETFH4resok`."""

    object: nfs_fh4


@dataclass(slots=True, repr=False, eq=False)
class LOOKUP4args(Composite):
    """XDR struct `LOOKUP4args`."""

    objname: component4


@dataclass(slots=True, repr=False, eq=False)
class rpcsec_gss_info(Composite):
    """XDR struct `rpcsec_gss_info`."""

    oid: sec_oid4
    qop: int
    service: rpc_gss_svc_t


@dataclass(slots=True, repr=False, eq=False)
class secinfo4(Composite):
    """XDR union `secinfo4`, switched by `flavor`."""

    flavor: int
    value: rpcsec_gss_info | None


@dataclass(slots=True, repr=False, eq=False)
class SECINFO4args(Composite):
    """XDR struct `SECINFO4args`."""

    name: component4


@dataclass(slots=True, repr=False, eq=False)
class SECINFO4resok(Composite):
    """XDR struct `SECINFO4resok`."""

    flavors: list[secinfo4]


@dataclass(slots=True, repr=False, eq=False)
class ACCESS4args(Composite):
    """XDR struct `ACCESS4args`."""

    access: int


@dataclass(slots=True, repr=False, eq=False)
class ACCESS4resok(Composite):
    """XDR struct `ACCESS4resok`."""

    supported: int
    access: int


@dataclass(slots=True, repr=False, eq=False)
class GETATTR4args(Composite):
    """XDR struct `GETATTR4args`."""

    attr_request: bitmap4


@dataclass(slots=True, repr=False, eq=False)
class GETATTR4resok(Composite):
    """XDR struct `GETATTR4resok`."""

    obj_attributes: fattr4


@dataclass(slots=True, repr=False, eq=False)
class SETATTR4args(Composite):
    """XDR struct `SETATTR4args`."""

    stateid: stateid4
    obj_attributes: fattr4


@dataclass(slots=True, repr=False, eq=False)
class SETATTR4resok(Composite):
    """XDR struct `SETATTR4resok`."""

    attrsset: bitmap4


@dataclass(slots=True, repr=False, eq=False)
class VERIFY4args(Composite):
    """XDR struct `VERIFY4args`."""

    obj_attributes: fattr4


@dataclass(slots=True, repr=False, eq=False)
class READLINK4resok(Composite):
    """XDR struct `READLINK4resok`."""

    link: Buffer


@dataclass(slots=True, repr=False, eq=False)
class READDIR4args(Composite):
    """XDR struct `READDIR4args`."""

    cookie: nfs_cookie4
    cookieverf: verifier4
    dircount: count4
    maxcount: count4
    attr_request: bitmap4


@dataclass(slots=True, repr=False, eq=False)
class entry4(Composite):
    """XDR struct `entry4`."""

    cookie: nfs_cookie4
    name: component4
    attrs: fattr4


@dataclass(slots=True, repr=False, eq=False)
class dirlist4(Composite):
    """XDR struct `dirlist4`."""

    entries: list[entry4]
    eof: bool


@dataclass(slots=True, repr=False, eq=False)
class READDIR4resok(Composite):
    """XDR struct `READDIR4resok`."""

    cookieverf: verifier4
    reply: dirlist4


@dataclass(slots=True, repr=False, eq=False)
class READ4args(Composite):
    """XDR struct `READ4args`."""

    stateid: stateid4
    offset: offset4
    count: count4


@dataclass(slots=True, repr=False, eq=False)
class READ4resok(Composite):
    """XDR struct `READ4resok`."""

    eof: bool
    data: Buffer


@dataclass(slots=True, repr=False, eq=False)
class WRITE4args(Composite):
    """XDR struct `WRITE4args`."""

    stateid: stateid4
    offset: offset4
    stable: stable_how4
    data: Buffer


@dataclass(slots=True, repr=False, eq=False)
class WRITE4resok(Composite):
    """XDR struct `WRITE4resok`."""

    count: count4
    committed: stable_how4
    writeverf: verifier4


@dataclass(slots=True, repr=False, eq=False)
class COMMIT4args(Composite):
    """XDR struct `COMMIT4args`."""

    offset: offset4
    count: count4


@dataclass(slots=True, repr=False, eq=False)
class COMMIT4resok(Composite):
    """XDR struct `COMMIT4resok`."""

    writeverf: verifier4


@dataclass(slots=True, repr=False, eq=False)
class SEEK4args(Composite):
    """XDR struct `SEEK4args`."""

    sa_stateid: stateid4
    sa_offset: offset4
    sa_what: int


@dataclass(slots=True, repr=False, eq=False)
class SEEK4resok(Composite):
    """XDR struct `SEEK4resok`."""

    sr_eof: bool
    sr_offset: offset4


@dataclass(slots=True, repr=False, eq=False)
class READ_PLUS4args(Composite):
    """XDR struct `READ_PLUS4args`."""

    rpa_stateid: stateid4
    rpa_offset: offset4
    rpa_count: count4


@dataclass(slots=True, repr=False, eq=False)
class data_info4(Composite):
    """XDR struct `data_info4`."""

    di_offset: offset4
    di_length: length4


@dataclass(slots=True, repr=False, eq=False)
class data4(Composite):
    """XDR struct `data4`."""

    d_offset: offset4
    d_data: bytes


@dataclass(slots=True, repr=False, eq=False)
class read_plus_content(Composite):
    """XDR union `read_plus_content`, switched by `rpc_content`."""

    rpc_content: data_content4
    value: data4 | data_info4


@dataclass(slots=True, repr=False, eq=False)
class READ_PLUS4resok(Composite):
    """XDR struct `READ_PLUS4resok`."""

    rpr_eof: bool
    rpr_contents: list[read_plus_content]


@dataclass(slots=True, repr=False, eq=False)
class ALLOCATE4args(Composite):
    """XDR struct `ALLOCATE4args`."""

    aa_stateid: stateid4
    aa_offset: offset4
    aa_length: length4


@dataclass(slots=True, repr=False, eq=False)
class DEALLOCATE4args(Composite):
    """XDR struct `DEALLOCATE4args`."""

    da_stateid: stateid4
    da_offset: offset4
    da_length: length4


@dataclass(slots=True, repr=False, eq=False)
class IO_ADVISE4args(Composite):
    """XDR struct `IO_ADVISE4args`."""

    iaa_stateid: stateid4
    iaa_offset: offset4
    iaa_count: length4
    iaa_hints: bitmap4


@dataclass(slots=True, repr=False, eq=False)
class IO_ADVISE4resok(Composite):
    """XDR struct `IO_ADVISE4resok`."""

    ior_hints: bitmap4


@dataclass(slots=True, repr=False, eq=False)
class GETXATTR4args(Composite):
    """XDR struct `GETXATTR4args`."""

    gxa_name: xattrkey4


@dataclass(slots=True, repr=False, eq=False)
class GETXATTR4resok(Composite):
    """XDR struct `GETXATTR4resok`."""

    gxr_value: xattrvalue4


@dataclass(slots=True, repr=False, eq=False)
class SETXATTR4args(Composite):
    """XDR struct `SETXATTR4args`."""

    sxa_option: setxattr_option4
    sxa_key: xattrkey4
    sxa_value: xattrvalue4


@dataclass(slots=True, repr=False, eq=False)
class SETXATTR4resok(Composite):
    """XDR struct `SETXATTR4resok`."""

    sxr_info: change_info4


@dataclass(slots=True, repr=False, eq=False)
class LISTXATTRS4args(Composite):
    """XDR struct `LISTXATTRS4args`."""

    lxa_cookie: nfs_cookie4
    lxa_maxcount: count4


@dataclass(slots=True, repr=False, eq=False)
class LISTXATTRS4resok(Composite):
    """XDR struct `LISTXATTRS4resok`."""

    lxr_cookie: nfs_cookie4
    lxr_names: list[xattrkey4]
    lxr_eof: bool


@dataclass(slots=True, repr=False, eq=False)
class REMOVEXATTR4args(Composite):
    """XDR struct `REMOVEXATTR4args`."""

    rxa_name: xattrkey4


@dataclass(slots=True, repr=False, eq=False)
class REMOVEXATTR4resok(Composite):
    """XDR struct `REMOVEXATTR4resok`."""

    rxr_info: change_info4


@dataclass(slots=True, repr=False, eq=False)
class netaddr4(Composite):
    """XDR struct `netaddr4`."""

    na_r_netid: bytes
    na_r_addr: bytes


@dataclass(slots=True, repr=False, eq=False)
class netloc4(Composite):
    """XDR union `netloc4`, switched by `nl_type`."""

    nl_type: netloc_type4
    value: utf8str_cs | netaddr4


@dataclass(slots=True, repr=False, eq=False)
class COPY4args(Composite):
    """XDR struct `COPY4args`."""

    ca_src_stateid: stateid4
    ca_dst_stateid: stateid4
    ca_src_offset: offset4
    ca_dst_offset: offset4
    ca_count: length4
    ca_consecutive: bool
    ca_synchronous: bool
    ca_source_server: list[netloc4]


@dataclass(slots=True, repr=False, eq=False)
class write_response4(Composite):
    """XDR struct `write_response4`."""

    wr_callback_id: list[stateid4]
    wr_count: length4
    wr_committed: stable_how4
    wr_writeverf: verifier4


@dataclass(slots=True, repr=False, eq=False)
class copy_requirements4(Composite):
    """XDR struct `copy_requirements4`."""

    cr_consecutive: bool
    cr_synchronous: bool


@dataclass(slots=True, repr=False, eq=False)
class COPY4resok(Composite):
    """XDR struct `COPY4resok`."""

    cr_response: write_response4
    cr_requirements: copy_requirements4


@dataclass(slots=True, repr=False, eq=False)
class CLONE4args(Composite):
    """XDR struct `CLONE4args`."""

    cl_src_stateid: stateid4
    cl_dst_stateid: stateid4
    cl_src_offset: offset4
    cl_dst_offset: offset4
    cl_count: length4


@dataclass(slots=True, repr=False, eq=False)
class createtype4(Composite):
    """XDR union `createtype4`, switched by `type`."""

    type: nfs_ftype4
    value: Buffer | specdata4 | None


@dataclass(slots=True, repr=False, eq=False)
class CREATE4args(Composite):
    """XDR struct `CREATE4args`."""

    objtype: createtype4
    objname: component4
    createattrs: fattr4


@dataclass(slots=True, repr=False, eq=False)
class CREATE4resok(Composite):
    """XDR struct `CREATE4resok`."""

    cinfo: change_info4
    attrset: bitmap4


@dataclass(slots=True, repr=False, eq=False)
class REMOVE4args(Composite):
    """XDR struct `REMOVE4args`."""

    target: component4


@dataclass(slots=True, repr=False, eq=False)
class REMOVE4resok(Composite):
    """XDR struct `REMOVE4resok`."""

    cinfo: change_info4


@dataclass(slots=True, repr=False, eq=False)
class RENAME4args(Composite):
    """XDR struct `RENAME4args`."""

    oldname: component4
    newname: component4


@dataclass(slots=True, repr=False, eq=False)
class RENAME4resok(Composite):
    """XDR struct `RENAME4resok`."""

    source_cinfo: change_info4
    target_cinfo: change_info4


@dataclass(slots=True, repr=False, eq=False)
class LINK4args(Composite):
    """XDR struct `LINK4args`."""

    newname: component4


@dataclass(slots=True, repr=False, eq=False)
class LINK4resok(Composite):
    """XDR struct `LINK4resok`."""

    cinfo: change_info4


@dataclass(slots=True, repr=False, eq=False)
class state_protect_ops4(Composite):
    """XDR struct `state_protect_ops4`."""

    spo_must_enforce: bitmap4
    spo_must_allow: bitmap4


@dataclass(slots=True, repr=False, eq=False)
class ssv_sp_parms4(Composite):
    """XDR struct `ssv_sp_parms4`."""

    ssp_ops: state_protect_ops4
    ssp_hash_algs: list[sec_oid4]
    ssp_encr_algs: list[sec_oid4]
    ssp_window: int
    ssp_num_gss_handles: int


@dataclass(slots=True, repr=False, eq=False)
class state_protect4_a(Composite):
    """XDR union `state_protect4_a`, switched by `spa_how`."""

    spa_how: state_protect_how4
    value: state_protect_ops4 | ssv_sp_parms4 | None


@dataclass(slots=True, repr=False, eq=False)
class state_protect4_r(Composite):
    """XDR union `state_protect4_r`, switched by `spr_how`."""

    spr_how: state_protect_how4
    value: state_protect_ops4 | None


@dataclass(slots=True, repr=False, eq=False)
class client_owner4(Composite):
    """XDR struct `client_owner4`."""

    co_verifier: verifier4
    co_ownerid: bytes


@dataclass(slots=True, repr=False, eq=False)
class server_owner4(Composite):
    """XDR struct `server_owner4`."""

    so_minor_id: int
    so_major_id: bytes


@dataclass(slots=True, repr=False, eq=False)
class nfs_impl_id4(Composite):
    """XDR struct `nfs_impl_id4`."""

    nii_domain: utf8str_cs
    nii_name: utf8str_cs
    nii_date: nfstime4


@dataclass(slots=True, repr=False, eq=False)
class EXCHANGE_ID4args(Composite):
    """XDR struct `EXCHANGE_ID4args`."""

    eia_clientowner: client_owner4
    eia_flags: int
    eia_state_protect: state_protect4_a
    eia_client_impl_id: list[nfs_impl_id4]


@dataclass(slots=True, repr=False, eq=False)
class EXCHANGE_ID4resok(Composite):
    """XDR struct `EXCHANGE_ID4resok`."""

    eir_clientid: clientid4
    eir_sequenceid: sequenceid4
    eir_flags: int
    eir_state_protect: state_protect4_r
    eir_server_owner: server_owner4
    eir_server_scope: bytes
    eir_server_impl_id: list[nfs_impl_id4]


@dataclass(slots=True, repr=False, eq=False)
class channel_attrs4(Composite):
    """XDR struct `channel_attrs4`."""

    ca_headerpadsize: count4
    ca_maxrequestsize: count4
    ca_maxresponsesize: count4
    ca_maxresponsesize_cached: count4
    ca_maxoperations: count4
    ca_maxrequests: count4
    ca_rdma_ird: list[int]


@dataclass(slots=True, repr=False, eq=False)
class authsys_parms(Composite):
    """XDR struct `authsys_parms`."""

    stamp: int
    machinename: str
    uid: int
    gid: int
    gids: list[int]


@dataclass(slots=True, repr=False, eq=False)
class gss_cb_handles4(Composite):
    """XDR struct `gss_cb_handles4`."""

    gcbp_service: rpc_gss_svc_t
    gcbp_handle_from_server: gsshandle4_t
    gcbp_handle_from_client: gsshandle4_t


@dataclass(slots=True, repr=False, eq=False)
class callback_sec_parms4(Composite):
    """XDR union `callback_sec_parms4`, switched by `cb_secflavor`."""

    cb_secflavor: int
    value: authsys_parms | gss_cb_handles4 | None


@dataclass(slots=True, repr=False, eq=False)
class CREATE_SESSION4args(Composite):
    """XDR struct `CREATE_SESSION4args`."""

    csa_clientid: clientid4
    csa_sequence: sequenceid4
    csa_flags: int
    csa_fore_chan_attrs: channel_attrs4
    csa_back_chan_attrs: channel_attrs4
    csa_cb_program: int
    csa_sec_parms: list[callback_sec_parms4]


@dataclass(slots=True, repr=False, eq=False)
class CREATE_SESSION4resok(Composite):
    """XDR struct `CREATE_SESSION4resok`."""

    csr_sessionid: sessionid4
    csr_sequence: sequenceid4
    csr_flags: int
    csr_fore_chan_attrs: channel_attrs4
    csr_back_chan_attrs: channel_attrs4


@dataclass(slots=True, repr=False, eq=False)
class BACKCHANNEL_CTL4args(Composite):
    """XDR struct `BACKCHANNEL_CTL4args`."""

    bca_cb_program: int
    bca_sec_parms: list[callback_sec_parms4]


@dataclass(slots=True, repr=False, eq=False)
class BIND_CONN_TO_SESSION4args(Composite):
    """XDR struct `BIND_CONN_TO_SESSION4args`."""

    bctsa_sessid: sessionid4
    bctsa_dir: channel_dir_from_client4
    bctsa_use_conn_in_rdma_mode: bool


@dataclass(slots=True, repr=False, eq=False)
class BIND_CONN_TO_SESSION4resok(Composite):
    """XDR struct `BIND_CONN_TO_SESSION4resok`."""

    bctsr_sessid: sessionid4
    bctsr_dir: channel_dir_from_server4
    bctsr_use_conn_in_rdma_mode: bool


@dataclass(slots=True, repr=False, eq=False)
class DESTROY_SESSION4args(Composite):
    """XDR struct `DESTROY_SESSION4args`."""

    dsa_sessionid: sessionid4


@dataclass(slots=True, repr=False, eq=False)
class DESTROY_CLIENTID4args(Composite):
    """XDR struct `DESTROY_CLIENTID4args`."""

    dca_clientid: clientid4


@dataclass(slots=True, repr=False, eq=False)
class RECLAIM_COMPLETE4args(Composite):
    """XDR struct `RECLAIM_COMPLETE4args`."""

    rca_one_fs: bool


@dataclass(slots=True, repr=False, eq=False)
class SEQUENCE4args(Composite):
    """XDR struct `SEQUENCE4args`."""

    sa_sessionid: sessionid4
    sa_sequenceid: sequenceid4
    sa_slotid: slotid4
    sa_highest_slotid: slotid4
    sa_cachethis: bool


@dataclass(slots=True, repr=False, eq=False)
class SEQUENCE4resok(Composite):
    """XDR struct `SEQUENCE4resok`."""

    sr_sessionid: sessionid4
    sr_sequenceid: sequenceid4
    sr_slotid: slotid4
    sr_highest_slotid: slotid4
    sr_target_highest_slotid: slotid4
    sr_status_flags: int


@dataclass(slots=True, repr=False, eq=False)
class creatverfattr(Composite):
    """XDR struct `creatverfattr`."""

    cva_verf: verifier4
    cva_attrs: fattr4


@dataclass(slots=True, repr=False, eq=False)
class createhow4(Composite):
    """XDR union `createhow4`, switched by `mode`."""

    mode: createmode4
    value: fattr4 | verifier4 | creatverfattr


@dataclass(slots=True, repr=False, eq=False)
class openflag4(Composite):
    """XDR union `openflag4`, switched by `opentype`."""

    opentype: opentype4
    value: createhow4 | None


@dataclass(slots=True, repr=False, eq=False)
class open_claim_delegate_cur4(Composite):
    """XDR struct `open_claim_delegate_cur4`."""

    delegate_stateid: stateid4
    file: component4


@dataclass(slots=True, repr=False, eq=False)
class open_claim4(Composite):
    """XDR union `open_claim4`, switched by `claim`."""

    claim: open_claim_type4
    value: component4 | open_delegation_type4 | open_claim_delegate_cur4 | stateid4 | None


@dataclass(slots=True, repr=False, eq=False)
class OPEN4args(Composite):
    """XDR struct `OPEN4args`."""

    seqid: seqid4
    share_access: int
    share_deny: int
    owner: state_owner4
    openhow: openflag4
    claim: open_claim4


@dataclass(slots=True, repr=False, eq=False)
class nfsace4(Composite):
    """XDR struct `nfsace4`."""

    type: int
    flag: int
    access_mask: int
    who: utf8str_cs


@dataclass(slots=True, repr=False, eq=False)
class open_read_delegation4(Composite):
    """XDR struct `open_read_delegation4`."""

    stateid: stateid4
    recall: bool
    permissions: nfsace4


@dataclass(slots=True, repr=False, eq=False)
class nfs_modified_limit4(Composite):
    """XDR struct `nfs_modified_limit4`."""

    num_blocks: int
    bytes_per_block: int


@dataclass(slots=True, repr=False, eq=False)
class nfs_space_limit4(Composite):
    """XDR union `nfs_space_limit4`, switched by `limitby`."""

    limitby: limit_by4
    value: int | nfs_modified_limit4


@dataclass(slots=True, repr=False, eq=False)
class open_write_delegation4(Composite):
    """XDR struct `open_write_delegation4`."""

    stateid: stateid4
    recall: bool
    space_limit: nfs_space_limit4
    permissions: nfsace4


@dataclass(slots=True, repr=False, eq=False)
class open_none_delegation4(Composite):
    """XDR union `open_none_delegation4`, switched by `ond_why`."""

    ond_why: why_no_delegation4
    value: bool | None


@dataclass(slots=True, repr=False, eq=False)
class open_delegation4(Composite):
    """XDR union `open_delegation4`, switched by `delegation_type`."""

    delegation_type: open_delegation_type4
    value: open_read_delegation4 | open_write_delegation4 | open_none_delegation4 | None


@dataclass(slots=True, repr=False, eq=False)
class OPEN4resok(Composite):
    """XDR struct `OPEN4resok`."""

    stateid: stateid4
    cinfo: change_info4
    rflags: int
    attrset: bitmap4
    delegation: open_delegation4


@dataclass(slots=True, repr=False, eq=False)
class OPEN_DOWNGRADE4args(Composite):
    """XDR struct `OPEN_DOWNGRADE4args`."""

    open_stateid: stateid4
    seqid: seqid4
    share_access: int
    share_deny: int


@dataclass(slots=True, repr=False, eq=False)
class CLOSE4args(Composite):
    """XDR struct `CLOSE4args`."""

    seqid: seqid4
    open_stateid: stateid4


@dataclass(slots=True, repr=False, eq=False)
class DELEGRETURN4args(Composite):
    """XDR struct `DELEGRETURN4args`."""

    deleg_stateid: stateid4


@dataclass(slots=True, repr=False, eq=False)
class TEST_STATEID4args(Composite):
    """XDR struct `TEST_STATEID4args`."""

    ts_stateids: list[stateid4]


@dataclass(slots=True, repr=False, eq=False)
class TEST_STATEID4resok(Composite):
    """XDR struct `TEST_STATEID4resok`."""

    tsr_status_codes: list[int]


@dataclass(slots=True, repr=False, eq=False)
class FREE_STATEID4args(Composite):
    """XDR struct `FREE_STATEID4args`."""

    fsa_stateid: stateid4


@dataclass(slots=True, repr=False, eq=False)
class open_to_lock_owner4(Composite):
    """XDR struct `open_to_lock_owner4`."""

    open_seqid: seqid4
    open_stateid: stateid4
    lock_seqid: seqid4
    lock_owner: state_owner4


@dataclass(slots=True, repr=False, eq=False)
class exist_lock_owner4(Composite):
    """XDR struct `exist_lock_owner4`."""

    lock_stateid: stateid4
    lock_seqid: seqid4


@dataclass(slots=True, repr=False, eq=False)
class locker4(Composite):
    """XDR union `locker4`, switched by `new_lock_owner`."""

    new_lock_owner: bool
    value: open_to_lock_owner4 | exist_lock_owner4


@dataclass(slots=True, repr=False, eq=False)
class LOCK4args(Composite):
    """XDR struct `LOCK4args`."""

    locktype: nfs_lock_type4
    reclaim: bool
    offset: offset4
    length: length4
    locker: locker4


@dataclass(slots=True, repr=False, eq=False)
class LOCK4resok(Composite):
    """XDR struct `LOCK4resok`."""

    lock_stateid: stateid4


@dataclass(slots=True, repr=False, eq=False)
class LOCK4denied(Composite):
    """XDR struct `LOCK4denied`."""

    offset: offset4
    length: length4
    locktype: nfs_lock_type4
    owner: state_owner4


@dataclass(slots=True, repr=False, eq=False)
class LOCKT4args(Composite):
    """XDR struct `LOCKT4args`."""

    locktype: nfs_lock_type4
    offset: offset4
    length: length4
    owner: state_owner4


@dataclass(slots=True, repr=False, eq=False)
class LOCKU4args(Composite):
    """XDR struct `LOCKU4args`."""

    locktype: nfs_lock_type4
    seqid: seqid4
    lock_stateid: stateid4
    offset: offset4
    length: length4


@dataclass(slots=True, repr=False, eq=False)
class CB_RECALL4args(Composite):
    """XDR struct `CB_RECALL4args`."""

    stateid: stateid4
    truncate: bool
    fh: nfs_fh4


@dataclass(slots=True, repr=False, eq=False)
class referring_call4(Composite):
    """XDR struct `referring_call4`."""

    rc_sequenceid: sequenceid4
    rc_slotid: slotid4


@dataclass(slots=True, repr=False, eq=False)
class referring_call_list4(Composite):
    """XDR struct `referring_call_list4`."""

    rcl_sessionid: sessionid4
    rcl_referring_calls: list[referring_call4]


@dataclass(slots=True, repr=False, eq=False)
class CB_SEQUENCE4args(Composite):
    """XDR struct `CB_SEQUENCE4args`."""

    csa_sessionid: sessionid4
    csa_sequenceid: sequenceid4
    csa_slotid: slotid4
    csa_highest_slotid: slotid4
    csa_cachethis: bool
    csa_referring_call_lists: list[referring_call_list4]


@dataclass(slots=True, repr=False, eq=False)
class CB_SEQUENCE4resok(Composite):
    """XDR struct `CB_SEQUENCE4resok`."""

    csr_sessionid: sessionid4
    csr_sequenceid: sequenceid4
    csr_slotid: slotid4
    csr_highest_slotid: slotid4
    csr_target_highest_slotid: slotid4


@dataclass(slots=True, repr=False, eq=False)
class CB_SEQUENCE4res(Composite):
    """XDR union `CB_SEQUENCE4res`, switched by `csr_status`."""

    csr_status: nfsstat4
    value: CB_SEQUENCE4resok | None


@dataclass(slots=True, repr=False, eq=False)
class nfs_cb_argop4(Composite):
    """XDR union `nfs_cb_argop4`, switched by `argop`."""

    argop: nfs_cb_opnum4
    value: CB_RECALL4args | CB_SEQUENCE4args | None


@dataclass(slots=True, repr=False, eq=False)
class nfs_cb_resop4(Composite):
    """XDR union `nfs_cb_resop4`, switched by `resop`."""

    resop: nfs_cb_opnum4
    value: CB_SEQUENCE4res | nfsstat4


@dataclass(slots=True, repr=False, eq=False)
class CB_COMPOUND4args(Composite):
    """XDR struct `CB_COMPOUND4args`."""

    tag: utf8str_cs
    minorversion: int
    callback_ident: int
    argarray: list[nfs_cb_argop4]


@dataclass(slots=True, repr=False, eq=False)
class CB_COMPOUND4res(Composite):
    """XDR struct `CB_COMPOUND4res`."""

    status: nfsstat4
    tag: utf8str_cs
    resarray: list[nfs_cb_resop4]


nfs_fh4: TypeAlias = bytes
verifier4: TypeAlias = bytes
sessionid4: TypeAlias = bytes
component4: TypeAlias = bytes
linktext4: TypeAlias = bytes
utf8str_cs: TypeAlias = bytes
sec_oid4: TypeAlias = bytes
gsshandle4_t: TypeAlias = bytes
bitmap4: TypeAlias = list[int]
clientid4: TypeAlias = int
seqid4: TypeAlias = int
sequenceid4: TypeAlias = int
slotid4: TypeAlias = int
count4: TypeAlias = int
offset4: TypeAlias = int
length4: TypeAlias = int
changeid4: TypeAlias = int
nfs_cookie4: TypeAlias = int
xattrkey4: TypeAlias = component4
xattrvalue4: TypeAlias = bytes

_LAYOUT_1: Final = Layout.of(">qI", "nfstime4.seconds", "nfstime4.nseconds")
_LAYOUT_2: Final = Layout.of(">II", "specdata4.specdata1", "specdata4.specdata2")
_LAYOUT_3: Final = Layout.of(">IQQ", "change_info4.atomic", "change_info4.before", "change_info4.after")
_LAYOUT_4: Final = Layout.of(">I12s", "stateid4.seqid", "stateid4.other")
_LAYOUT_5: Final = Layout.of(">Q", "state_owner4.clientid")
_LAYOUT_6: Final = Layout.of(">II", "rpcsec_gss_info.qop", "rpcsec_gss_info.service")
_LAYOUT_7: Final = Layout.of(">II", "ACCESS4resok.supported", "ACCESS4resok.access")
_LAYOUT_8: Final = Layout.of(">I12s", "SETATTR4args.stateid.seqid", "SETATTR4args.stateid.other")
_LAYOUT_9: Final = Layout.of(
    ">Q8sII", "READDIR4args.cookie", "READDIR4args.cookieverf", "READDIR4args.dircount", "READDIR4args.maxcount"
)
_LAYOUT_10: Final = Layout.of(">Q", "entry4.cookie")
_LAYOUT_11: Final = Layout.of(
    ">I12sQI", "READ4args.stateid.seqid", "READ4args.stateid.other", "READ4args.offset", "READ4args.count"
)
_LAYOUT_12: Final = Layout.of(
    ">I12sQI", "WRITE4args.stateid.seqid", "WRITE4args.stateid.other", "WRITE4args.offset", "WRITE4args.stable"
)
_LAYOUT_13: Final = Layout.of(">II8s", "WRITE4resok.count", "WRITE4resok.committed", "WRITE4resok.writeverf")
_LAYOUT_14: Final = Layout.of(">QI", "COMMIT4args.offset", "COMMIT4args.count")
_LAYOUT_15: Final = Layout.of(
    ">I12sQI", "SEEK4args.sa_stateid.seqid", "SEEK4args.sa_stateid.other", "SEEK4args.sa_offset", "SEEK4args.sa_what"
)
_LAYOUT_16: Final = Layout.of(">IQ", "SEEK4resok.sr_eof", "SEEK4resok.sr_offset")
_LAYOUT_17: Final = Layout.of(
    ">I12sQI",
    "READ_PLUS4args.rpa_stateid.seqid",
    "READ_PLUS4args.rpa_stateid.other",
    "READ_PLUS4args.rpa_offset",
    "READ_PLUS4args.rpa_count",
)
_LAYOUT_18: Final = Layout.of(">QQ", "data_info4.di_offset", "data_info4.di_length")
_LAYOUT_19: Final = Layout.of(">Q", "data4.d_offset")
_LAYOUT_20: Final = Layout.of(
    ">I12sQQ",
    "ALLOCATE4args.aa_stateid.seqid",
    "ALLOCATE4args.aa_stateid.other",
    "ALLOCATE4args.aa_offset",
    "ALLOCATE4args.aa_length",
)
_LAYOUT_21: Final = Layout.of(
    ">I12sQQ",
    "DEALLOCATE4args.da_stateid.seqid",
    "DEALLOCATE4args.da_stateid.other",
    "DEALLOCATE4args.da_offset",
    "DEALLOCATE4args.da_length",
)
_LAYOUT_22: Final = Layout.of(
    ">I12sQQ",
    "IO_ADVISE4args.iaa_stateid.seqid",
    "IO_ADVISE4args.iaa_stateid.other",
    "IO_ADVISE4args.iaa_offset",
    "IO_ADVISE4args.iaa_count",
)
_LAYOUT_23: Final = Layout.of(
    ">IQQ", "SETXATTR4resok.sxr_info.atomic", "SETXATTR4resok.sxr_info.before", "SETXATTR4resok.sxr_info.after"
)
_LAYOUT_24: Final = Layout.of(">QI", "LISTXATTRS4args.lxa_cookie", "LISTXATTRS4args.lxa_maxcount")
_LAYOUT_25: Final = Layout.of(">Q", "LISTXATTRS4resok.lxr_cookie")
_LAYOUT_26: Final = Layout.of(
    ">IQQ", "REMOVEXATTR4resok.rxr_info.atomic", "REMOVEXATTR4resok.rxr_info.before", "REMOVEXATTR4resok.rxr_info.after"
)
_LAYOUT_27: Final = Layout.of(
    ">I12sI12sQQQII",
    "COPY4args.ca_src_stateid.seqid",
    "COPY4args.ca_src_stateid.other",
    "COPY4args.ca_dst_stateid.seqid",
    "COPY4args.ca_dst_stateid.other",
    "COPY4args.ca_src_offset",
    "COPY4args.ca_dst_offset",
    "COPY4args.ca_count",
    "COPY4args.ca_consecutive",
    "COPY4args.ca_synchronous",
)
_LAYOUT_28: Final = Layout.of(
    ">QI8s", "write_response4.wr_count", "write_response4.wr_committed", "write_response4.wr_writeverf"
)
_LAYOUT_29: Final = Layout.of(">II", "copy_requirements4.cr_consecutive", "copy_requirements4.cr_synchronous")
_LAYOUT_30: Final = Layout.of(
    ">II", "COPY4resok.cr_requirements.cr_consecutive", "COPY4resok.cr_requirements.cr_synchronous"
)
_LAYOUT_31: Final = Layout.of(
    ">I12sI12sQQQ",
    "CLONE4args.cl_src_stateid.seqid",
    "CLONE4args.cl_src_stateid.other",
    "CLONE4args.cl_dst_stateid.seqid",
    "CLONE4args.cl_dst_stateid.other",
    "CLONE4args.cl_src_offset",
    "CLONE4args.cl_dst_offset",
    "CLONE4args.cl_count",
)
_LAYOUT_32: Final = Layout.of(
    ">IQQ", "CREATE4resok.cinfo.atomic", "CREATE4resok.cinfo.before", "CREATE4resok.cinfo.after"
)
_LAYOUT_33: Final = Layout.of(
    ">IQQ", "REMOVE4resok.cinfo.atomic", "REMOVE4resok.cinfo.before", "REMOVE4resok.cinfo.after"
)
_LAYOUT_34: Final = Layout.of(
    ">IQQIQQ",
    "RENAME4resok.source_cinfo.atomic",
    "RENAME4resok.source_cinfo.before",
    "RENAME4resok.source_cinfo.after",
    "RENAME4resok.target_cinfo.atomic",
    "RENAME4resok.target_cinfo.before",
    "RENAME4resok.target_cinfo.after",
)
_LAYOUT_35: Final = Layout.of(">IQQ", "LINK4resok.cinfo.atomic", "LINK4resok.cinfo.before", "LINK4resok.cinfo.after")
_LAYOUT_36: Final = Layout.of(">II", "ssv_sp_parms4.ssp_window", "ssv_sp_parms4.ssp_num_gss_handles")
_LAYOUT_37: Final = Layout.of(">Q", "server_owner4.so_minor_id")
_LAYOUT_38: Final = Layout.of(">qI", "nfs_impl_id4.nii_date.seconds", "nfs_impl_id4.nii_date.nseconds")
_LAYOUT_39: Final = Layout.of(
    ">QII", "EXCHANGE_ID4resok.eir_clientid", "EXCHANGE_ID4resok.eir_sequenceid", "EXCHANGE_ID4resok.eir_flags"
)
_LAYOUT_40: Final = Layout.of(
    ">IIIIII",
    "channel_attrs4.ca_headerpadsize",
    "channel_attrs4.ca_maxrequestsize",
    "channel_attrs4.ca_maxresponsesize",
    "channel_attrs4.ca_maxresponsesize_cached",
    "channel_attrs4.ca_maxoperations",
    "channel_attrs4.ca_maxrequests",
)
_LAYOUT_41: Final = Layout.of(">II", "authsys_parms.uid", "authsys_parms.gid")
_LAYOUT_42: Final = Layout.of(
    ">QII", "CREATE_SESSION4args.csa_clientid", "CREATE_SESSION4args.csa_sequence", "CREATE_SESSION4args.csa_flags"
)
_LAYOUT_43: Final = Layout.of(
    ">16sII",
    "CREATE_SESSION4resok.csr_sessionid",
    "CREATE_SESSION4resok.csr_sequence",
    "CREATE_SESSION4resok.csr_flags",
)
_LAYOUT_44: Final = Layout.of(
    ">16sII",
    "BIND_CONN_TO_SESSION4args.bctsa_sessid",
    "BIND_CONN_TO_SESSION4args.bctsa_dir",
    "BIND_CONN_TO_SESSION4args.bctsa_use_conn_in_rdma_mode",
)
_LAYOUT_45: Final = Layout.of(
    ">16sII",
    "BIND_CONN_TO_SESSION4resok.bctsr_sessid",
    "BIND_CONN_TO_SESSION4resok.bctsr_dir",
    "BIND_CONN_TO_SESSION4resok.bctsr_use_conn_in_rdma_mode",
)
_LAYOUT_46: Final = Layout.of(">Q", "DESTROY_CLIENTID4args.dca_clientid")
_LAYOUT_47: Final = Layout.of(
    ">16sIIII",
    "SEQUENCE4args.sa_sessionid",
    "SEQUENCE4args.sa_sequenceid",
    "SEQUENCE4args.sa_slotid",
    "SEQUENCE4args.sa_highest_slotid",
    "SEQUENCE4args.sa_cachethis",
)
_LAYOUT_48: Final = Layout.of(
    ">16sIIIII",
    "SEQUENCE4resok.sr_sessionid",
    "SEQUENCE4resok.sr_sequenceid",
    "SEQUENCE4resok.sr_slotid",
    "SEQUENCE4resok.sr_highest_slotid",
    "SEQUENCE4resok.sr_target_highest_slotid",
    "SEQUENCE4resok.sr_status_flags",
)
_LAYOUT_49: Final = Layout.of(
    ">I12s", "open_claim_delegate_cur4.delegate_stateid.seqid", "open_claim_delegate_cur4.delegate_stateid.other"
)
_LAYOUT_50: Final = Layout.of(">III", "OPEN4args.seqid", "OPEN4args.share_access", "OPEN4args.share_deny")
_LAYOUT_51: Final = Layout.of(">III", "nfsace4.type", "nfsace4.flag", "nfsace4.access_mask")
_LAYOUT_52: Final = Layout.of(
    ">I12sI",
    "open_read_delegation4.stateid.seqid",
    "open_read_delegation4.stateid.other",
    "open_read_delegation4.recall",
)
_LAYOUT_53: Final = Layout.of(">II", "nfs_modified_limit4.num_blocks", "nfs_modified_limit4.bytes_per_block")
_LAYOUT_54: Final = Layout.of(">Q", "nfs_space_limit4.filesize")
_LAYOUT_55: Final = Layout.of(
    ">I12sI",
    "open_write_delegation4.stateid.seqid",
    "open_write_delegation4.stateid.other",
    "open_write_delegation4.recall",
)
_LAYOUT_56: Final = Layout.of(
    ">I12sIQQI",
    "OPEN4resok.stateid.seqid",
    "OPEN4resok.stateid.other",
    "OPEN4resok.cinfo.atomic",
    "OPEN4resok.cinfo.before",
    "OPEN4resok.cinfo.after",
    "OPEN4resok.rflags",
)
_LAYOUT_57: Final = Layout.of(
    ">I12sIII",
    "OPEN_DOWNGRADE4args.open_stateid.seqid",
    "OPEN_DOWNGRADE4args.open_stateid.other",
    "OPEN_DOWNGRADE4args.seqid",
    "OPEN_DOWNGRADE4args.share_access",
    "OPEN_DOWNGRADE4args.share_deny",
)
_LAYOUT_58: Final = Layout.of(
    ">II12s", "CLOSE4args.seqid", "CLOSE4args.open_stateid.seqid", "CLOSE4args.open_stateid.other"
)
_LAYOUT_59: Final = Layout.of(">I12s", "DELEGRETURN4args.deleg_stateid.seqid", "DELEGRETURN4args.deleg_stateid.other")
_LAYOUT_60: Final = Layout.of(">I12s", "FREE_STATEID4args.fsa_stateid.seqid", "FREE_STATEID4args.fsa_stateid.other")
_LAYOUT_61: Final = Layout.of(
    ">II12sI",
    "open_to_lock_owner4.open_seqid",
    "open_to_lock_owner4.open_stateid.seqid",
    "open_to_lock_owner4.open_stateid.other",
    "open_to_lock_owner4.lock_seqid",
)
_LAYOUT_62: Final = Layout.of(
    ">I12sI",
    "exist_lock_owner4.lock_stateid.seqid",
    "exist_lock_owner4.lock_stateid.other",
    "exist_lock_owner4.lock_seqid",
)
_LAYOUT_63: Final = Layout.of(
    ">IIQQ", "LOCK4args.locktype", "LOCK4args.reclaim", "LOCK4args.offset", "LOCK4args.length"
)
_LAYOUT_64: Final = Layout.of(">I12s", "LOCK4resok.lock_stateid.seqid", "LOCK4resok.lock_stateid.other")
_LAYOUT_65: Final = Layout.of(">QQI", "LOCK4denied.offset", "LOCK4denied.length", "LOCK4denied.locktype")
_LAYOUT_66: Final = Layout.of(">IQQ", "LOCKT4args.locktype", "LOCKT4args.offset", "LOCKT4args.length")
_LAYOUT_67: Final = Layout.of(
    ">III12sQQ",
    "LOCKU4args.locktype",
    "LOCKU4args.seqid",
    "LOCKU4args.lock_stateid.seqid",
    "LOCKU4args.lock_stateid.other",
    "LOCKU4args.offset",
    "LOCKU4args.length",
)
_LAYOUT_68: Final = Layout.of(
    ">I12sI", "CB_RECALL4args.stateid.seqid", "CB_RECALL4args.stateid.other", "CB_RECALL4args.truncate"
)
_LAYOUT_69: Final = Layout.of(">II", "referring_call4.rc_sequenceid", "referring_call4.rc_slotid")
_LAYOUT_70: Final = Layout.of(
    ">16sIIII",
    "CB_SEQUENCE4args.csa_sessionid",
    "CB_SEQUENCE4args.csa_sequenceid",
    "CB_SEQUENCE4args.csa_slotid",
    "CB_SEQUENCE4args.csa_highest_slotid",
    "CB_SEQUENCE4args.csa_cachethis",
)
_LAYOUT_71: Final = Layout.of(
    ">16sIIII",
    "CB_SEQUENCE4resok.csr_sessionid",
    "CB_SEQUENCE4resok.csr_sequenceid",
    "CB_SEQUENCE4resok.csr_slotid",
    "CB_SEQUENCE4resok.csr_highest_slotid",
    "CB_SEQUENCE4resok.csr_target_highest_slotid",
)
_LAYOUT_72: Final = Layout.of(">II", "CB_COMPOUND4args.minorversion", "CB_COMPOUND4args.callback_ident")
_LAYOUT_73: Final = Layout.of(">Q", "clientid4")
_LAYOUT_74: Final = Layout.of(">Q", "offset4")
_LAYOUT_75: Final = Layout.of(">Q", "length4")
_LAYOUT_76: Final = Layout.of(">Q", "changeid4")
_LAYOUT_77: Final = Layout.of(">Q", "nfs_cookie4")


def encode_nfsstat4(enc: Encoder, value: nfsstat4, field: str = "nfsstat4") -> None:
    if value not in _nfsstat4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum nfsstat4")
    enc.u32(value, field)


def decode_nfsstat4(dec: Decoder, field: str = "nfsstat4") -> nfsstat4:
    wire_value = dec.u32(field)
    value = _nfsstat4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum nfsstat4", str(wire_value))
    return value


def encode_nfs_opnum4(enc: Encoder, value: nfs_opnum4, field: str = "nfs_opnum4") -> None:
    if value not in _nfs_opnum4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum nfs_opnum4")
    enc.u32(value, field)


def decode_nfs_opnum4(dec: Decoder, field: str = "nfs_opnum4") -> nfs_opnum4:
    wire_value = dec.u32(field)
    value = _nfs_opnum4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum nfs_opnum4", str(wire_value))
    return value


def encode_nfs_ftype4(enc: Encoder, value: nfs_ftype4, field: str = "nfs_ftype4") -> None:
    if value not in _nfs_ftype4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum nfs_ftype4")
    enc.u32(value, field)


def decode_nfs_ftype4(dec: Decoder, field: str = "nfs_ftype4") -> nfs_ftype4:
    wire_value = dec.u32(field)
    value = _nfs_ftype4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum nfs_ftype4", str(wire_value))
    return value


def encode_time_how4(enc: Encoder, value: time_how4, field: str = "time_how4") -> None:
    if value not in _time_how4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum time_how4")
    enc.u32(value, field)


def decode_time_how4(dec: Decoder, field: str = "time_how4") -> time_how4:
    wire_value = dec.u32(field)
    value = _time_how4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum time_how4", str(wire_value))
    return value


def encode_rpc_gss_svc_t(enc: Encoder, value: rpc_gss_svc_t, field: str = "rpc_gss_svc_t") -> None:
    if value not in _rpc_gss_svc_t_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum rpc_gss_svc_t")
    enc.u32(value, field)


def decode_rpc_gss_svc_t(dec: Decoder, field: str = "rpc_gss_svc_t") -> rpc_gss_svc_t:
    wire_value = dec.u32(field)
    value = _rpc_gss_svc_t_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum rpc_gss_svc_t", str(wire_value))
    return value


def encode_secinfo_style4(enc: Encoder, value: secinfo_style4, field: str = "secinfo_style4") -> None:
    if value not in _secinfo_style4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum secinfo_style4")
    enc.u32(value, field)


def decode_secinfo_style4(dec: Decoder, field: str = "secinfo_style4") -> secinfo_style4:
    wire_value = dec.u32(field)
    value = _secinfo_style4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum secinfo_style4", str(wire_value))
    return value


def encode_stable_how4(enc: Encoder, value: stable_how4, field: str = "stable_how4") -> None:
    if value not in _stable_how4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum stable_how4")
    enc.u32(value, field)


def decode_stable_how4(dec: Decoder, field: str = "stable_how4") -> stable_how4:
    wire_value = dec.u32(field)
    value = _stable_how4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum stable_how4", str(wire_value))
    return value


def encode_data_content4(enc: Encoder, value: data_content4, field: str = "data_content4") -> None:
    if value not in _data_content4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum data_content4")
    enc.u32(value, field)


def decode_data_content4(dec: Decoder, field: str = "data_content4") -> data_content4:
    wire_value = dec.u32(field)
    value = _data_content4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum data_content4", str(wire_value))
    return value


def encode_setxattr_option4(enc: Encoder, value: setxattr_option4, field: str = "setxattr_option4") -> None:
    if value not in _setxattr_option4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum setxattr_option4")
    enc.u32(value, field)


def decode_setxattr_option4(dec: Decoder, field: str = "setxattr_option4") -> setxattr_option4:
    wire_value = dec.u32(field)
    value = _setxattr_option4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum setxattr_option4", str(wire_value))
    return value


def encode_netloc_type4(enc: Encoder, value: netloc_type4, field: str = "netloc_type4") -> None:
    if value not in _netloc_type4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum netloc_type4")
    enc.u32(value, field)


def decode_netloc_type4(dec: Decoder, field: str = "netloc_type4") -> netloc_type4:
    wire_value = dec.u32(field)
    value = _netloc_type4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum netloc_type4", str(wire_value))
    return value


def encode_state_protect_how4(enc: Encoder, value: state_protect_how4, field: str = "state_protect_how4") -> None:
    if value not in _state_protect_how4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum state_protect_how4")
    enc.u32(value, field)


def decode_state_protect_how4(dec: Decoder, field: str = "state_protect_how4") -> state_protect_how4:
    wire_value = dec.u32(field)
    value = _state_protect_how4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum state_protect_how4", str(wire_value))
    return value


def encode_channel_dir_from_client4(
    enc: Encoder, value: channel_dir_from_client4, field: str = "channel_dir_from_client4"
) -> None:
    if value not in _channel_dir_from_client4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum channel_dir_from_client4")
    enc.u32(value, field)


def decode_channel_dir_from_client4(dec: Decoder, field: str = "channel_dir_from_client4") -> channel_dir_from_client4:
    wire_value = dec.u32(field)
    value = _channel_dir_from_client4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum channel_dir_from_client4", str(wire_value))
    return value


def encode_channel_dir_from_server4(
    enc: Encoder, value: channel_dir_from_server4, field: str = "channel_dir_from_server4"
) -> None:
    if value not in _channel_dir_from_server4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum channel_dir_from_server4")
    enc.u32(value, field)


def decode_channel_dir_from_server4(dec: Decoder, field: str = "channel_dir_from_server4") -> channel_dir_from_server4:
    wire_value = dec.u32(field)
    value = _channel_dir_from_server4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum channel_dir_from_server4", str(wire_value))
    return value


def encode_opentype4(enc: Encoder, value: opentype4, field: str = "opentype4") -> None:
    if value not in _opentype4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum opentype4")
    enc.u32(value, field)


def decode_opentype4(dec: Decoder, field: str = "opentype4") -> opentype4:
    wire_value = dec.u32(field)
    value = _opentype4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum opentype4", str(wire_value))
    return value


def encode_createmode4(enc: Encoder, value: createmode4, field: str = "createmode4") -> None:
    if value not in _createmode4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum createmode4")
    enc.u32(value, field)


def decode_createmode4(dec: Decoder, field: str = "createmode4") -> createmode4:
    wire_value = dec.u32(field)
    value = _createmode4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum createmode4", str(wire_value))
    return value


def encode_open_delegation_type4(
    enc: Encoder, value: open_delegation_type4, field: str = "open_delegation_type4"
) -> None:
    if value not in _open_delegation_type4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum open_delegation_type4")
    enc.u32(value, field)


def decode_open_delegation_type4(dec: Decoder, field: str = "open_delegation_type4") -> open_delegation_type4:
    wire_value = dec.u32(field)
    value = _open_delegation_type4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum open_delegation_type4", str(wire_value))
    return value


def encode_open_claim_type4(enc: Encoder, value: open_claim_type4, field: str = "open_claim_type4") -> None:
    if value not in _open_claim_type4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum open_claim_type4")
    enc.u32(value, field)


def decode_open_claim_type4(dec: Decoder, field: str = "open_claim_type4") -> open_claim_type4:
    wire_value = dec.u32(field)
    value = _open_claim_type4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum open_claim_type4", str(wire_value))
    return value


def encode_limit_by4(enc: Encoder, value: limit_by4, field: str = "limit_by4") -> None:
    if value not in _limit_by4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum limit_by4")
    enc.u32(value, field)


def decode_limit_by4(dec: Decoder, field: str = "limit_by4") -> limit_by4:
    wire_value = dec.u32(field)
    value = _limit_by4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum limit_by4", str(wire_value))
    return value


def encode_why_no_delegation4(enc: Encoder, value: why_no_delegation4, field: str = "why_no_delegation4") -> None:
    if value not in _why_no_delegation4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum why_no_delegation4")
    enc.u32(value, field)


def decode_why_no_delegation4(dec: Decoder, field: str = "why_no_delegation4") -> why_no_delegation4:
    wire_value = dec.u32(field)
    value = _why_no_delegation4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum why_no_delegation4", str(wire_value))
    return value


def encode_nfs_lock_type4(enc: Encoder, value: nfs_lock_type4, field: str = "nfs_lock_type4") -> None:
    if value not in _nfs_lock_type4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum nfs_lock_type4")
    enc.u32(value, field)


def decode_nfs_lock_type4(dec: Decoder, field: str = "nfs_lock_type4") -> nfs_lock_type4:
    wire_value = dec.u32(field)
    value = _nfs_lock_type4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum nfs_lock_type4", str(wire_value))
    return value


def encode_nfs_cb_opnum4(enc: Encoder, value: nfs_cb_opnum4, field: str = "nfs_cb_opnum4") -> None:
    if value not in _nfs_cb_opnum4_BY_VALUE:
        raise LocalProtocolError(f"{field}: {value!r} is no value of enum nfs_cb_opnum4")
    enc.u32(value, field)


def decode_nfs_cb_opnum4(dec: Decoder, field: str = "nfs_cb_opnum4") -> nfs_cb_opnum4:
    wire_value = dec.u32(field)
    value = _nfs_cb_opnum4_BY_VALUE.get(wire_value)
    if value is None:
        raise DecodeError(field, dec.pos - dec.start - 4, "a value of enum nfs_cb_opnum4", str(wire_value))
    return value


def encode_nfstime4(enc: Encoder, value: nfstime4) -> None:
    enc.put(_LAYOUT_1, value.seconds, value.nseconds)


def decode_nfstime4(dec: Decoder) -> nfstime4:
    group_values = dec.take(_LAYOUT_1, "nfstime4.seconds..nseconds")
    return nfstime4(group_values[0], group_values[1])


def encode_fattr4(enc: Encoder, value: fattr4) -> None:
    enc.count(len(value.attrmask), 8, "fattr4.attrmask")
    enc.numbers("I", value.attrmask, "fattr4.attrmask")
    enc.opaque(value.attr_vals, 65536, "fattr4.attr_vals")


def decode_fattr4(dec: Decoder) -> fattr4:
    attrmask_ = dec.numbers("I", dec.count(8, "fattr4.attrmask"), "fattr4.attrmask")
    attr_vals_ = dec.opaque(65536, "fattr4.attr_vals")
    return fattr4(attrmask_, attr_vals_)


def encode_specdata4(enc: Encoder, value: specdata4) -> None:
    enc.put(_LAYOUT_2, value.specdata1, value.specdata2)


def decode_specdata4(dec: Decoder) -> specdata4:
    group_values = dec.take(_LAYOUT_2, "specdata4.specdata1..specdata2")
    return specdata4(group_values[0], group_values[1])


def encode_change_info4(enc: Encoder, value: change_info4) -> None:
    if value.atomic not in {0, 1}:
        raise LocalProtocolError(f"change_info4.atomic: {value.atomic!r} is no bool")
    enc.put(_LAYOUT_3, value.atomic, value.before, value.after)


def decode_change_info4(dec: Decoder) -> change_info4:
    group_values = dec.take(_LAYOUT_3, "change_info4.atomic..after")
    if group_values[0] > 1:
        raise DecodeError("change_info4.atomic", dec.pos - dec.start - 20, "0 or 1", str(group_values[0]))
    return change_info4(group_values[0] == 1, group_values[1], group_values[2])


def encode_stateid4(enc: Encoder, value: stateid4) -> None:
    enc.put(_LAYOUT_4, value.seqid, enc.exactly(value.other, 12, "stateid4.other"))


def decode_stateid4(dec: Decoder) -> stateid4:
    group_values = dec.take(_LAYOUT_4, "stateid4.seqid..other")
    return stateid4(group_values[0], group_values[1])


def encode_state_owner4(enc: Encoder, value: state_owner4) -> None:
    enc.put(_LAYOUT_5, value.clientid)
    enc.opaque(value.owner, 1024, "state_owner4.owner")


def decode_state_owner4(dec: Decoder) -> state_owner4:
    clientid_ = dec.u64("state_owner4.clientid")
    owner_ = dec.opaque(1024, "state_owner4.owner")
    return state_owner4(clientid_, owner_)


def encode_PUTFH4args(enc: Encoder, value: PUTFH4args) -> None:
    enc.opaque(value.object, 128, "PUTFH4args.object")


def decode_PUTFH4args(dec: Decoder) -> PUTFH4args:
    object_ = dec.opaque(128, "PUTFH4args.object")
    return PUTFH4args(object_)


def encode_GETFH4resok(enc: Encoder, value: GETFH4resok) -> None:
    enc.opaque(value.object, 128, "GETFH4resok.object")


def decode_GETFH4resok(dec: Decoder) -> GETFH4resok:
    object_ = dec.opaque(128, "GETFH4resok.object")
    return GETFH4resok(object_)


def encode_LOOKUP4args(enc: Encoder, value: LOOKUP4args) -> None:
    enc.opaque(value.objname, 1024, "LOOKUP4args.objname")


def decode_LOOKUP4args(dec: Decoder) -> LOOKUP4args:
    objname_ = dec.opaque(1024, "LOOKUP4args.objname")
    return LOOKUP4args(objname_)


def encode_rpcsec_gss_info(enc: Encoder, value: rpcsec_gss_info) -> None:
    enc.opaque(value.oid, 1024, "rpcsec_gss_info.oid")
    if value.service not in _rpc_gss_svc_t_BY_VALUE:
        raise LocalProtocolError(f"rpcsec_gss_info.service: {value.service!r} is no value of enum rpc_gss_svc_t")
    enc.put(_LAYOUT_6, value.qop, value.service)


def decode_rpcsec_gss_info(dec: Decoder) -> rpcsec_gss_info:
    oid_ = dec.opaque(1024, "rpcsec_gss_info.oid")
    group_values1 = dec.take(_LAYOUT_6, "rpcsec_gss_info.qop..service")
    service_ = _rpc_gss_svc_t_BY_VALUE.get(group_values1[1])
    if service_ is None:
        raise DecodeError(
            "rpcsec_gss_info.service", dec.pos - dec.start - 4, "a value of enum rpc_gss_svc_t", str(group_values1[1])
        )
    return rpcsec_gss_info(oid_, group_values1[0], service_)


def encode_secinfo4(enc: Encoder, value: secinfo4) -> None:
    tag = value.flavor
    arm_value: Any = value.value
    if tag == 6:
        enc.u32(tag, "secinfo4.flavor")
        if not isinstance(arm_value, rpcsec_gss_info):
            raise LocalProtocolError(
                f"secinfo4.flavor_info: {type(arm_value).__name__} given, the arm is rpcsec_gss_info"
            )
        encode_rpcsec_gss_info(enc, arm_value)
        return
    enc.u32(tag, "secinfo4.flavor")
    if arm_value is not None:
        raise LocalProtocolError(f"secinfo4: {type(arm_value).__name__} given, the arm is void")


def decode_secinfo4(dec: Decoder) -> secinfo4:
    tag = dec.u32("secinfo4.flavor")
    if tag == 6:
        return secinfo4(tag, decode_rpcsec_gss_info(dec))
    return secinfo4(tag, None)


def encode_SECINFO4args(enc: Encoder, value: SECINFO4args) -> None:
    enc.opaque(value.name, 1024, "SECINFO4args.name")


def decode_SECINFO4args(dec: Decoder) -> SECINFO4args:
    name_ = dec.opaque(1024, "SECINFO4args.name")
    return SECINFO4args(name_)


def encode_SECINFO4resok(enc: Encoder, value: SECINFO4resok) -> None:
    enc.count(len(value.flavors), 16, "SECINFO4resok.flavors")
    for list_item in value.flavors:
        encode_secinfo4(enc, list_item)


def decode_SECINFO4resok(dec: Decoder) -> SECINFO4resok:
    flavors_ = [decode_secinfo4(dec) for _ in range(dec.count(16, "SECINFO4resok.flavors"))]
    return SECINFO4resok(flavors_)


def encode_ACCESS4args(enc: Encoder, value: ACCESS4args) -> None:
    enc.u32(value.access, "ACCESS4args.access")


def decode_ACCESS4args(dec: Decoder) -> ACCESS4args:
    access_ = dec.u32("ACCESS4args.access")
    return ACCESS4args(access_)


def encode_ACCESS4resok(enc: Encoder, value: ACCESS4resok) -> None:
    enc.put(_LAYOUT_7, value.supported, value.access)


def decode_ACCESS4resok(dec: Decoder) -> ACCESS4resok:
    group_values = dec.take(_LAYOUT_7, "ACCESS4resok.supported..access")
    return ACCESS4resok(group_values[0], group_values[1])


def encode_GETATTR4args(enc: Encoder, value: GETATTR4args) -> None:
    enc.count(len(value.attr_request), 8, "GETATTR4args.attr_request")
    enc.numbers("I", value.attr_request, "GETATTR4args.attr_request")


def decode_GETATTR4args(dec: Decoder) -> GETATTR4args:
    attr_request_ = dec.numbers("I", dec.count(8, "GETATTR4args.attr_request"), "GETATTR4args.attr_request")
    return GETATTR4args(attr_request_)


def encode_GETATTR4resok(enc: Encoder, value: GETATTR4resok) -> None:
    encode_fattr4(enc, value.obj_attributes)


def decode_GETATTR4resok(dec: Decoder) -> GETATTR4resok:
    obj_attributes_ = decode_fattr4(dec)
    return GETATTR4resok(obj_attributes_)


def encode_SETATTR4args(enc: Encoder, value: SETATTR4args) -> None:
    enc.put(_LAYOUT_8, value.stateid.seqid, enc.exactly(value.stateid.other, 12, "SETATTR4args.stateid.other"))
    encode_fattr4(enc, value.obj_attributes)


def decode_SETATTR4args(dec: Decoder) -> SETATTR4args:
    group_values = dec.take(_LAYOUT_8, "SETATTR4args.stateid.seqid..stateid.other")
    obj_attributes_ = decode_fattr4(dec)
    return SETATTR4args(stateid4(group_values[0], group_values[1]), obj_attributes_)


def encode_SETATTR4resok(enc: Encoder, value: SETATTR4resok) -> None:
    enc.count(len(value.attrsset), 8, "SETATTR4resok.attrsset")
    enc.numbers("I", value.attrsset, "SETATTR4resok.attrsset")


def decode_SETATTR4resok(dec: Decoder) -> SETATTR4resok:
    attrsset_ = dec.numbers("I", dec.count(8, "SETATTR4resok.attrsset"), "SETATTR4resok.attrsset")
    return SETATTR4resok(attrsset_)


def encode_VERIFY4args(enc: Encoder, value: VERIFY4args) -> None:
    encode_fattr4(enc, value.obj_attributes)


def decode_VERIFY4args(dec: Decoder) -> VERIFY4args:
    obj_attributes_ = decode_fattr4(dec)
    return VERIFY4args(obj_attributes_)


def encode_READLINK4resok(enc: Encoder, value: READLINK4resok) -> None:
    enc.bulk(value.link, 4096, "READLINK4resok.link")


def decode_READLINK4resok(dec: Decoder) -> READLINK4resok:
    link_ = dec.bulk(4096, "READLINK4resok.link")
    return READLINK4resok(link_)


def encode_READDIR4args(enc: Encoder, value: READDIR4args) -> None:
    enc.put(
        _LAYOUT_9,
        value.cookie,
        enc.exactly(value.cookieverf, 8, "READDIR4args.cookieverf"),
        value.dircount,
        value.maxcount,
    )
    enc.count(len(value.attr_request), 8, "READDIR4args.attr_request")
    enc.numbers("I", value.attr_request, "READDIR4args.attr_request")


def decode_READDIR4args(dec: Decoder) -> READDIR4args:
    group_values = dec.take(_LAYOUT_9, "READDIR4args.cookie..maxcount")
    attr_request_ = dec.numbers("I", dec.count(8, "READDIR4args.attr_request"), "READDIR4args.attr_request")
    return READDIR4args(group_values[0], group_values[1], group_values[2], group_values[3], attr_request_)


def encode_entry4(enc: Encoder, value: entry4) -> None:
    enc.put(_LAYOUT_10, value.cookie)
    enc.opaque(value.name, 1024, "entry4.name")
    encode_fattr4(enc, value.attrs)


def decode_entry4(dec: Decoder) -> entry4:
    cookie_ = dec.u64("entry4.cookie")
    name_ = dec.opaque(1024, "entry4.name")
    attrs_ = decode_fattr4(dec)
    return entry4(cookie_, name_, attrs_)


def encode_dirlist4(enc: Encoder, value: dirlist4) -> None:
    enc.linked_list(value.entries, encode_entry4, 65536, "dirlist4.entries")
    if value.eof not in {0, 1}:
        raise LocalProtocolError(f"dirlist4.eof: {value.eof!r} is no bool")
    enc.u32(value.eof, "dirlist4.eof")


def decode_dirlist4(dec: Decoder) -> dirlist4:
    entries_ = dec.linked_list(decode_entry4, 65536, "dirlist4.entries")
    eof_ = dec.boolean("dirlist4.eof")
    return dirlist4(entries_, eof_)


def encode_READDIR4resok(enc: Encoder, value: READDIR4resok) -> None:
    enc.fixed(value.cookieverf, 8, "READDIR4resok.cookieverf")
    encode_dirlist4(enc, value.reply)


def decode_READDIR4resok(dec: Decoder) -> READDIR4resok:
    cookieverf_ = dec.fixed(8, "READDIR4resok.cookieverf")
    reply_ = decode_dirlist4(dec)
    return READDIR4resok(cookieverf_, reply_)


def encode_READ4args(enc: Encoder, value: READ4args) -> None:
    enc.put(
        _LAYOUT_11,
        value.stateid.seqid,
        enc.exactly(value.stateid.other, 12, "READ4args.stateid.other"),
        value.offset,
        value.count,
    )


def decode_READ4args(dec: Decoder) -> READ4args:
    group_values = dec.take(_LAYOUT_11, "READ4args.stateid.seqid..count")
    return READ4args(stateid4(group_values[0], group_values[1]), group_values[2], group_values[3])


def encode_READ4resok(enc: Encoder, value: READ4resok) -> None:
    if value.eof not in {0, 1}:
        raise LocalProtocolError(f"READ4resok.eof: {value.eof!r} is no bool")
    enc.u32(value.eof, "READ4resok.eof")
    enc.bulk(value.data, 4194304, "READ4resok.data")


def decode_READ4resok(dec: Decoder) -> READ4resok:
    eof_ = dec.boolean("READ4resok.eof")
    data_ = dec.bulk(4194304, "READ4resok.data")
    return READ4resok(eof_, data_)


def encode_WRITE4args(enc: Encoder, value: WRITE4args) -> None:
    if value.stable not in _stable_how4_BY_VALUE:
        raise LocalProtocolError(f"WRITE4args.stable: {value.stable!r} is no value of enum stable_how4")
    enc.put(
        _LAYOUT_12,
        value.stateid.seqid,
        enc.exactly(value.stateid.other, 12, "WRITE4args.stateid.other"),
        value.offset,
        value.stable,
    )
    enc.bulk(value.data, 4194304, "WRITE4args.data")


def decode_WRITE4args(dec: Decoder) -> WRITE4args:
    group_values = dec.take(_LAYOUT_12, "WRITE4args.stateid.seqid..stable")
    stable_ = _stable_how4_BY_VALUE.get(group_values[3])
    if stable_ is None:
        raise DecodeError(
            "WRITE4args.stable", dec.pos - dec.start - 4, "a value of enum stable_how4", str(group_values[3])
        )
    data_ = dec.bulk(4194304, "WRITE4args.data")
    return WRITE4args(stateid4(group_values[0], group_values[1]), group_values[2], stable_, data_)


def encode_WRITE4resok(enc: Encoder, value: WRITE4resok) -> None:
    if value.committed not in _stable_how4_BY_VALUE:
        raise LocalProtocolError(f"WRITE4resok.committed: {value.committed!r} is no value of enum stable_how4")
    enc.put(_LAYOUT_13, value.count, value.committed, enc.exactly(value.writeverf, 8, "WRITE4resok.writeverf"))


def decode_WRITE4resok(dec: Decoder) -> WRITE4resok:
    group_values = dec.take(_LAYOUT_13, "WRITE4resok.count..writeverf")
    committed_ = _stable_how4_BY_VALUE.get(group_values[1])
    if committed_ is None:
        raise DecodeError(
            "WRITE4resok.committed", dec.pos - dec.start - 12, "a value of enum stable_how4", str(group_values[1])
        )
    return WRITE4resok(group_values[0], committed_, group_values[2])


def encode_COMMIT4args(enc: Encoder, value: COMMIT4args) -> None:
    enc.put(_LAYOUT_14, value.offset, value.count)


def decode_COMMIT4args(dec: Decoder) -> COMMIT4args:
    group_values = dec.take(_LAYOUT_14, "COMMIT4args.offset..count")
    return COMMIT4args(group_values[0], group_values[1])


def encode_COMMIT4resok(enc: Encoder, value: COMMIT4resok) -> None:
    enc.fixed(value.writeverf, 8, "COMMIT4resok.writeverf")


def decode_COMMIT4resok(dec: Decoder) -> COMMIT4resok:
    writeverf_ = dec.fixed(8, "COMMIT4resok.writeverf")
    return COMMIT4resok(writeverf_)


def encode_SEEK4args(enc: Encoder, value: SEEK4args) -> None:
    enc.put(
        _LAYOUT_15,
        value.sa_stateid.seqid,
        enc.exactly(value.sa_stateid.other, 12, "SEEK4args.sa_stateid.other"),
        value.sa_offset,
        value.sa_what,
    )


def decode_SEEK4args(dec: Decoder) -> SEEK4args:
    group_values = dec.take(_LAYOUT_15, "SEEK4args.sa_stateid.seqid..sa_what")
    return SEEK4args(stateid4(group_values[0], group_values[1]), group_values[2], group_values[3])


def encode_SEEK4resok(enc: Encoder, value: SEEK4resok) -> None:
    if value.sr_eof not in {0, 1}:
        raise LocalProtocolError(f"SEEK4resok.sr_eof: {value.sr_eof!r} is no bool")
    enc.put(_LAYOUT_16, value.sr_eof, value.sr_offset)


def decode_SEEK4resok(dec: Decoder) -> SEEK4resok:
    group_values = dec.take(_LAYOUT_16, "SEEK4resok.sr_eof..sr_offset")
    if group_values[0] > 1:
        raise DecodeError("SEEK4resok.sr_eof", dec.pos - dec.start - 12, "0 or 1", str(group_values[0]))
    return SEEK4resok(group_values[0] == 1, group_values[1])


def encode_READ_PLUS4args(enc: Encoder, value: READ_PLUS4args) -> None:
    enc.put(
        _LAYOUT_17,
        value.rpa_stateid.seqid,
        enc.exactly(value.rpa_stateid.other, 12, "READ_PLUS4args.rpa_stateid.other"),
        value.rpa_offset,
        value.rpa_count,
    )


def decode_READ_PLUS4args(dec: Decoder) -> READ_PLUS4args:
    group_values = dec.take(_LAYOUT_17, "READ_PLUS4args.rpa_stateid.seqid..rpa_count")
    return READ_PLUS4args(stateid4(group_values[0], group_values[1]), group_values[2], group_values[3])


def encode_data_info4(enc: Encoder, value: data_info4) -> None:
    enc.put(_LAYOUT_18, value.di_offset, value.di_length)


def decode_data_info4(dec: Decoder) -> data_info4:
    group_values = dec.take(_LAYOUT_18, "data_info4.di_offset..di_length")
    return data_info4(group_values[0], group_values[1])


def encode_data4(enc: Encoder, value: data4) -> None:
    enc.put(_LAYOUT_19, value.d_offset)
    enc.opaque(value.d_data, 4194304, "data4.d_data")


def decode_data4(dec: Decoder) -> data4:
    d_offset_ = dec.u64("data4.d_offset")
    d_data_ = dec.opaque(4194304, "data4.d_data")
    return data4(d_offset_, d_data_)


def encode_read_plus_content(enc: Encoder, value: read_plus_content) -> None:
    tag = value.rpc_content
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, data4):
            raise LocalProtocolError(f"read_plus_content.rpc_data: {type(arm_value).__name__} given, the arm is data4")
        encode_data4(enc, arm_value)
        return
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        if not isinstance(arm_value, data_info4):
            raise LocalProtocolError(
                f"read_plus_content.rpc_hole: {type(arm_value).__name__} given, the arm is data_info4"
            )
        encode_data_info4(enc, arm_value)
        return
    raise LocalProtocolError(f"read_plus_content.rpc_content: {tag!r} is no case of union read_plus_content")


def decode_read_plus_content(dec: Decoder) -> read_plus_content:
    wire_value = dec.u32("read_plus_content.rpc_content")
    tag = _data_content4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "read_plus_content.rpc_content", dec.pos - dec.start - 4, "a value of enum data_content4", str(wire_value)
        )
    if tag == 0:
        return read_plus_content(tag, decode_data4(dec))
    if tag == 1:
        return read_plus_content(tag, decode_data_info4(dec))
    raise DecodeError(
        "read_plus_content.rpc_content", dec.pos - dec.start - 4, "a case of union read_plus_content", str(int(tag))
    )


def encode_READ_PLUS4resok(enc: Encoder, value: READ_PLUS4resok) -> None:
    if value.rpr_eof not in {0, 1}:
        raise LocalProtocolError(f"READ_PLUS4resok.rpr_eof: {value.rpr_eof!r} is no bool")
    enc.u32(value.rpr_eof, "READ_PLUS4resok.rpr_eof")
    enc.count(len(value.rpr_contents), 1024, "READ_PLUS4resok.rpr_contents")
    for list_item in value.rpr_contents:
        encode_read_plus_content(enc, list_item)


def decode_READ_PLUS4resok(dec: Decoder) -> READ_PLUS4resok:
    rpr_eof_ = dec.boolean("READ_PLUS4resok.rpr_eof")
    rpr_contents_ = [decode_read_plus_content(dec) for _ in range(dec.count(1024, "READ_PLUS4resok.rpr_contents"))]
    return READ_PLUS4resok(rpr_eof_, rpr_contents_)


def encode_ALLOCATE4args(enc: Encoder, value: ALLOCATE4args) -> None:
    enc.put(
        _LAYOUT_20,
        value.aa_stateid.seqid,
        enc.exactly(value.aa_stateid.other, 12, "ALLOCATE4args.aa_stateid.other"),
        value.aa_offset,
        value.aa_length,
    )


def decode_ALLOCATE4args(dec: Decoder) -> ALLOCATE4args:
    group_values = dec.take(_LAYOUT_20, "ALLOCATE4args.aa_stateid.seqid..aa_length")
    return ALLOCATE4args(stateid4(group_values[0], group_values[1]), group_values[2], group_values[3])


def encode_DEALLOCATE4args(enc: Encoder, value: DEALLOCATE4args) -> None:
    enc.put(
        _LAYOUT_21,
        value.da_stateid.seqid,
        enc.exactly(value.da_stateid.other, 12, "DEALLOCATE4args.da_stateid.other"),
        value.da_offset,
        value.da_length,
    )


def decode_DEALLOCATE4args(dec: Decoder) -> DEALLOCATE4args:
    group_values = dec.take(_LAYOUT_21, "DEALLOCATE4args.da_stateid.seqid..da_length")
    return DEALLOCATE4args(stateid4(group_values[0], group_values[1]), group_values[2], group_values[3])


def encode_IO_ADVISE4args(enc: Encoder, value: IO_ADVISE4args) -> None:
    enc.put(
        _LAYOUT_22,
        value.iaa_stateid.seqid,
        enc.exactly(value.iaa_stateid.other, 12, "IO_ADVISE4args.iaa_stateid.other"),
        value.iaa_offset,
        value.iaa_count,
    )
    enc.count(len(value.iaa_hints), 8, "IO_ADVISE4args.iaa_hints")
    enc.numbers("I", value.iaa_hints, "IO_ADVISE4args.iaa_hints")


def decode_IO_ADVISE4args(dec: Decoder) -> IO_ADVISE4args:
    group_values = dec.take(_LAYOUT_22, "IO_ADVISE4args.iaa_stateid.seqid..iaa_count")
    iaa_hints_ = dec.numbers("I", dec.count(8, "IO_ADVISE4args.iaa_hints"), "IO_ADVISE4args.iaa_hints")
    return IO_ADVISE4args(stateid4(group_values[0], group_values[1]), group_values[2], group_values[3], iaa_hints_)


def encode_IO_ADVISE4resok(enc: Encoder, value: IO_ADVISE4resok) -> None:
    enc.count(len(value.ior_hints), 8, "IO_ADVISE4resok.ior_hints")
    enc.numbers("I", value.ior_hints, "IO_ADVISE4resok.ior_hints")


def decode_IO_ADVISE4resok(dec: Decoder) -> IO_ADVISE4resok:
    ior_hints_ = dec.numbers("I", dec.count(8, "IO_ADVISE4resok.ior_hints"), "IO_ADVISE4resok.ior_hints")
    return IO_ADVISE4resok(ior_hints_)


def encode_GETXATTR4args(enc: Encoder, value: GETXATTR4args) -> None:
    enc.opaque(value.gxa_name, 1024, "GETXATTR4args.gxa_name")


def decode_GETXATTR4args(dec: Decoder) -> GETXATTR4args:
    gxa_name_ = dec.opaque(1024, "GETXATTR4args.gxa_name")
    return GETXATTR4args(gxa_name_)


def encode_GETXATTR4resok(enc: Encoder, value: GETXATTR4resok) -> None:
    enc.opaque(value.gxr_value, 4194304, "GETXATTR4resok.gxr_value")


def decode_GETXATTR4resok(dec: Decoder) -> GETXATTR4resok:
    gxr_value_ = dec.opaque(4194304, "GETXATTR4resok.gxr_value")
    return GETXATTR4resok(gxr_value_)


def encode_SETXATTR4args(enc: Encoder, value: SETXATTR4args) -> None:
    encode_setxattr_option4(enc, value.sxa_option, "SETXATTR4args.sxa_option")
    enc.opaque(value.sxa_key, 1024, "SETXATTR4args.sxa_key")
    enc.opaque(value.sxa_value, 4194304, "SETXATTR4args.sxa_value")


def decode_SETXATTR4args(dec: Decoder) -> SETXATTR4args:
    wire_value = dec.u32("SETXATTR4args.sxa_option")
    sxa_option_ = _setxattr_option4_BY_VALUE.get(wire_value)
    if sxa_option_ is None:
        raise DecodeError(
            "SETXATTR4args.sxa_option", dec.pos - dec.start - 4, "a value of enum setxattr_option4", str(wire_value)
        )
    sxa_key_ = dec.opaque(1024, "SETXATTR4args.sxa_key")
    sxa_value_ = dec.opaque(4194304, "SETXATTR4args.sxa_value")
    return SETXATTR4args(sxa_option_, sxa_key_, sxa_value_)


def encode_SETXATTR4resok(enc: Encoder, value: SETXATTR4resok) -> None:
    if value.sxr_info.atomic not in {0, 1}:
        raise LocalProtocolError(f"SETXATTR4resok.sxr_info.atomic: {value.sxr_info.atomic!r} is no bool")
    enc.put(_LAYOUT_23, value.sxr_info.atomic, value.sxr_info.before, value.sxr_info.after)


def decode_SETXATTR4resok(dec: Decoder) -> SETXATTR4resok:
    group_values = dec.take(_LAYOUT_23, "SETXATTR4resok.sxr_info.atomic..sxr_info.after")
    if group_values[0] > 1:
        raise DecodeError("SETXATTR4resok.sxr_info.atomic", dec.pos - dec.start - 20, "0 or 1", str(group_values[0]))
    return SETXATTR4resok(change_info4(group_values[0] == 1, group_values[1], group_values[2]))


def encode_LISTXATTRS4args(enc: Encoder, value: LISTXATTRS4args) -> None:
    enc.put(_LAYOUT_24, value.lxa_cookie, value.lxa_maxcount)


def decode_LISTXATTRS4args(dec: Decoder) -> LISTXATTRS4args:
    group_values = dec.take(_LAYOUT_24, "LISTXATTRS4args.lxa_cookie..lxa_maxcount")
    return LISTXATTRS4args(group_values[0], group_values[1])


def encode_LISTXATTRS4resok(enc: Encoder, value: LISTXATTRS4resok) -> None:
    enc.put(_LAYOUT_25, value.lxr_cookie)
    enc.count(len(value.lxr_names), 16384, "LISTXATTRS4resok.lxr_names")
    for list_item in value.lxr_names:
        enc.opaque(list_item, 1024, "LISTXATTRS4resok.lxr_names")
    if value.lxr_eof not in {0, 1}:
        raise LocalProtocolError(f"LISTXATTRS4resok.lxr_eof: {value.lxr_eof!r} is no bool")
    enc.u32(value.lxr_eof, "LISTXATTRS4resok.lxr_eof")


def decode_LISTXATTRS4resok(dec: Decoder) -> LISTXATTRS4resok:
    lxr_cookie_ = dec.u64("LISTXATTRS4resok.lxr_cookie")
    lxr_names_ = [
        dec.opaque(1024, "LISTXATTRS4resok.lxr_names") for _ in range(dec.count(16384, "LISTXATTRS4resok.lxr_names"))
    ]
    lxr_eof_ = dec.boolean("LISTXATTRS4resok.lxr_eof")
    return LISTXATTRS4resok(lxr_cookie_, lxr_names_, lxr_eof_)


def encode_REMOVEXATTR4args(enc: Encoder, value: REMOVEXATTR4args) -> None:
    enc.opaque(value.rxa_name, 1024, "REMOVEXATTR4args.rxa_name")


def decode_REMOVEXATTR4args(dec: Decoder) -> REMOVEXATTR4args:
    rxa_name_ = dec.opaque(1024, "REMOVEXATTR4args.rxa_name")
    return REMOVEXATTR4args(rxa_name_)


def encode_REMOVEXATTR4resok(enc: Encoder, value: REMOVEXATTR4resok) -> None:
    if value.rxr_info.atomic not in {0, 1}:
        raise LocalProtocolError(f"REMOVEXATTR4resok.rxr_info.atomic: {value.rxr_info.atomic!r} is no bool")
    enc.put(_LAYOUT_26, value.rxr_info.atomic, value.rxr_info.before, value.rxr_info.after)


def decode_REMOVEXATTR4resok(dec: Decoder) -> REMOVEXATTR4resok:
    group_values = dec.take(_LAYOUT_26, "REMOVEXATTR4resok.rxr_info.atomic..rxr_info.after")
    if group_values[0] > 1:
        raise DecodeError("REMOVEXATTR4resok.rxr_info.atomic", dec.pos - dec.start - 20, "0 or 1", str(group_values[0]))
    return REMOVEXATTR4resok(change_info4(group_values[0] == 1, group_values[1], group_values[2]))


def encode_netaddr4(enc: Encoder, value: netaddr4) -> None:
    enc.opaque(value.na_r_netid, 1024, "netaddr4.na_r_netid")
    enc.opaque(value.na_r_addr, 1024, "netaddr4.na_r_addr")


def decode_netaddr4(dec: Decoder) -> netaddr4:
    na_r_netid_ = dec.opaque(1024, "netaddr4.na_r_netid")
    na_r_addr_ = dec.opaque(1024, "netaddr4.na_r_addr")
    return netaddr4(na_r_netid_, na_r_addr_)


def encode_netloc4(enc: Encoder, value: netloc4) -> None:
    tag = value.nl_type
    arm_value: Any = value.value
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"netloc4.nl_name: {type(arm_value).__name__} given, the arm is opaque")
        enc.opaque(arm_value, 1024, "netloc4.nl_name")
        return
    if tag == 2:
        enc.reduced += b"\x00\x00\x00\x02"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"netloc4.nl_url: {type(arm_value).__name__} given, the arm is opaque")
        enc.opaque(arm_value, 1024, "netloc4.nl_url")
        return
    if tag == 3:
        enc.reduced += b"\x00\x00\x00\x03"
        if not isinstance(arm_value, netaddr4):
            raise LocalProtocolError(f"netloc4.nl_addr: {type(arm_value).__name__} given, the arm is netaddr4")
        encode_netaddr4(enc, arm_value)
        return
    raise LocalProtocolError(f"netloc4.nl_type: {tag!r} is no case of union netloc4")


def decode_netloc4(dec: Decoder) -> netloc4:
    wire_value = dec.u32("netloc4.nl_type")
    tag = _netloc_type4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("netloc4.nl_type", dec.pos - dec.start - 4, "a value of enum netloc_type4", str(wire_value))
    if tag == 1:
        return netloc4(tag, dec.opaque(1024, "netloc4.nl_name"))
    if tag == 2:
        return netloc4(tag, dec.opaque(1024, "netloc4.nl_url"))
    if tag == 3:
        return netloc4(tag, decode_netaddr4(dec))
    raise DecodeError("netloc4.nl_type", dec.pos - dec.start - 4, "a case of union netloc4", str(int(tag)))


def encode_COPY4args(enc: Encoder, value: COPY4args) -> None:
    if value.ca_consecutive not in {0, 1}:
        raise LocalProtocolError(f"COPY4args.ca_consecutive: {value.ca_consecutive!r} is no bool")
    if value.ca_synchronous not in {0, 1}:
        raise LocalProtocolError(f"COPY4args.ca_synchronous: {value.ca_synchronous!r} is no bool")
    enc.put(
        _LAYOUT_27,
        value.ca_src_stateid.seqid,
        enc.exactly(value.ca_src_stateid.other, 12, "COPY4args.ca_src_stateid.other"),
        value.ca_dst_stateid.seqid,
        enc.exactly(value.ca_dst_stateid.other, 12, "COPY4args.ca_dst_stateid.other"),
        value.ca_src_offset,
        value.ca_dst_offset,
        value.ca_count,
        value.ca_consecutive,
        value.ca_synchronous,
    )
    enc.count(len(value.ca_source_server), 16, "COPY4args.ca_source_server")
    for list_item in value.ca_source_server:
        encode_netloc4(enc, list_item)


def decode_COPY4args(dec: Decoder) -> COPY4args:
    group_values = dec.take(_LAYOUT_27, "COPY4args.ca_src_stateid.seqid..ca_synchronous")
    if group_values[7] > 1:
        raise DecodeError("COPY4args.ca_consecutive", dec.pos - dec.start - 8, "0 or 1", str(group_values[7]))
    if group_values[8] > 1:
        raise DecodeError("COPY4args.ca_synchronous", dec.pos - dec.start - 4, "0 or 1", str(group_values[8]))
    ca_source_server_ = [decode_netloc4(dec) for _ in range(dec.count(16, "COPY4args.ca_source_server"))]
    return COPY4args(
        stateid4(group_values[0], group_values[1]),
        stateid4(group_values[2], group_values[3]),
        group_values[4],
        group_values[5],
        group_values[6],
        group_values[7] == 1,
        group_values[8] == 1,
        ca_source_server_,
    )


def encode_write_response4(enc: Encoder, value: write_response4) -> None:
    enc.count(len(value.wr_callback_id), 1, "write_response4.wr_callback_id")
    for list_item in value.wr_callback_id:
        encode_stateid4(enc, list_item)
    if value.wr_committed not in _stable_how4_BY_VALUE:
        raise LocalProtocolError(
            f"write_response4.wr_committed: {value.wr_committed!r} is no value of enum stable_how4"
        )
    enc.put(
        _LAYOUT_28,
        value.wr_count,
        value.wr_committed,
        enc.exactly(value.wr_writeverf, 8, "write_response4.wr_writeverf"),
    )


def decode_write_response4(dec: Decoder) -> write_response4:
    wr_callback_id_ = [decode_stateid4(dec) for _ in range(dec.count(1, "write_response4.wr_callback_id"))]
    group_values1 = dec.take(_LAYOUT_28, "write_response4.wr_count..wr_writeverf")
    wr_committed_ = _stable_how4_BY_VALUE.get(group_values1[1])
    if wr_committed_ is None:
        raise DecodeError(
            "write_response4.wr_committed",
            dec.pos - dec.start - 12,
            "a value of enum stable_how4",
            str(group_values1[1]),
        )
    return write_response4(wr_callback_id_, group_values1[0], wr_committed_, group_values1[2])


def encode_copy_requirements4(enc: Encoder, value: copy_requirements4) -> None:
    if value.cr_consecutive not in {0, 1}:
        raise LocalProtocolError(f"copy_requirements4.cr_consecutive: {value.cr_consecutive!r} is no bool")
    if value.cr_synchronous not in {0, 1}:
        raise LocalProtocolError(f"copy_requirements4.cr_synchronous: {value.cr_synchronous!r} is no bool")
    enc.put(_LAYOUT_29, value.cr_consecutive, value.cr_synchronous)


def decode_copy_requirements4(dec: Decoder) -> copy_requirements4:
    group_values = dec.take(_LAYOUT_29, "copy_requirements4.cr_consecutive..cr_synchronous")
    if group_values[0] > 1:
        raise DecodeError("copy_requirements4.cr_consecutive", dec.pos - dec.start - 8, "0 or 1", str(group_values[0]))
    if group_values[1] > 1:
        raise DecodeError("copy_requirements4.cr_synchronous", dec.pos - dec.start - 4, "0 or 1", str(group_values[1]))
    return copy_requirements4(group_values[0] == 1, group_values[1] == 1)


def encode_COPY4resok(enc: Encoder, value: COPY4resok) -> None:
    encode_write_response4(enc, value.cr_response)
    if value.cr_requirements.cr_consecutive not in {0, 1}:
        raise LocalProtocolError(
            f"COPY4resok.cr_requirements.cr_consecutive: {value.cr_requirements.cr_consecutive!r} is no bool"
        )
    if value.cr_requirements.cr_synchronous not in {0, 1}:
        raise LocalProtocolError(
            f"COPY4resok.cr_requirements.cr_synchronous: {value.cr_requirements.cr_synchronous!r} is no bool"
        )
    enc.put(_LAYOUT_30, value.cr_requirements.cr_consecutive, value.cr_requirements.cr_synchronous)


def decode_COPY4resok(dec: Decoder) -> COPY4resok:
    cr_response_ = decode_write_response4(dec)
    group_values1 = dec.take(_LAYOUT_30, "COPY4resok.cr_requirements.cr_consecutive..cr_requirements.cr_synchronous")
    if group_values1[0] > 1:
        raise DecodeError(
            "COPY4resok.cr_requirements.cr_consecutive", dec.pos - dec.start - 8, "0 or 1", str(group_values1[0])
        )
    if group_values1[1] > 1:
        raise DecodeError(
            "COPY4resok.cr_requirements.cr_synchronous", dec.pos - dec.start - 4, "0 or 1", str(group_values1[1])
        )
    return COPY4resok(cr_response_, copy_requirements4(group_values1[0] == 1, group_values1[1] == 1))


def encode_CLONE4args(enc: Encoder, value: CLONE4args) -> None:
    enc.put(
        _LAYOUT_31,
        value.cl_src_stateid.seqid,
        enc.exactly(value.cl_src_stateid.other, 12, "CLONE4args.cl_src_stateid.other"),
        value.cl_dst_stateid.seqid,
        enc.exactly(value.cl_dst_stateid.other, 12, "CLONE4args.cl_dst_stateid.other"),
        value.cl_src_offset,
        value.cl_dst_offset,
        value.cl_count,
    )


def decode_CLONE4args(dec: Decoder) -> CLONE4args:
    group_values = dec.take(_LAYOUT_31, "CLONE4args.cl_src_stateid.seqid..cl_count")
    return CLONE4args(
        stateid4(group_values[0], group_values[1]),
        stateid4(group_values[2], group_values[3]),
        group_values[4],
        group_values[5],
        group_values[6],
    )


def encode_createtype4(enc: Encoder, value: createtype4) -> None:
    tag = value.type
    arm_value: Any = value.value
    if tag == 5:
        enc.reduced += b"\x00\x00\x00\x05"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"createtype4.linkdata: {type(arm_value).__name__} given, the arm is opaque")
        enc.bulk(arm_value, 4096, "createtype4.linkdata")
        return
    if tag in {3, 4}:
        enc.u32(tag, "createtype4.type")
        if not isinstance(arm_value, specdata4):
            raise LocalProtocolError(f"createtype4.devdata: {type(arm_value).__name__} given, the arm is specdata4")
        encode_specdata4(enc, arm_value)
        return
    if tag in {6, 7, 2}:
        enc.u32(tag, "createtype4.type")
        if arm_value is not None:
            raise LocalProtocolError(f"createtype4: {type(arm_value).__name__} given, the arm is void")
        return
    encode_nfs_ftype4(enc, tag, "createtype4.type")
    if arm_value is not None:
        raise LocalProtocolError(f"createtype4: {type(arm_value).__name__} given, the arm is void")


def decode_createtype4(dec: Decoder) -> createtype4:
    wire_value = dec.u32("createtype4.type")
    tag = _nfs_ftype4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("createtype4.type", dec.pos - dec.start - 4, "a value of enum nfs_ftype4", str(wire_value))
    if tag == 5:
        return createtype4(tag, dec.bulk(4096, "createtype4.linkdata"))
    if tag in {3, 4}:
        return createtype4(tag, decode_specdata4(dec))
    if tag in {6, 7, 2}:
        return createtype4(tag, None)
    return createtype4(tag, None)


def encode_CREATE4args(enc: Encoder, value: CREATE4args) -> None:
    encode_createtype4(enc, value.objtype)
    enc.opaque(value.objname, 1024, "CREATE4args.objname")
    encode_fattr4(enc, value.createattrs)


def decode_CREATE4args(dec: Decoder) -> CREATE4args:
    objtype_ = decode_createtype4(dec)
    objname_ = dec.opaque(1024, "CREATE4args.objname")
    createattrs_ = decode_fattr4(dec)
    return CREATE4args(objtype_, objname_, createattrs_)


def encode_CREATE4resok(enc: Encoder, value: CREATE4resok) -> None:
    if value.cinfo.atomic not in {0, 1}:
        raise LocalProtocolError(f"CREATE4resok.cinfo.atomic: {value.cinfo.atomic!r} is no bool")
    enc.put(_LAYOUT_32, value.cinfo.atomic, value.cinfo.before, value.cinfo.after)
    enc.count(len(value.attrset), 8, "CREATE4resok.attrset")
    enc.numbers("I", value.attrset, "CREATE4resok.attrset")


def decode_CREATE4resok(dec: Decoder) -> CREATE4resok:
    group_values = dec.take(_LAYOUT_32, "CREATE4resok.cinfo.atomic..cinfo.after")
    if group_values[0] > 1:
        raise DecodeError("CREATE4resok.cinfo.atomic", dec.pos - dec.start - 20, "0 or 1", str(group_values[0]))
    attrset_ = dec.numbers("I", dec.count(8, "CREATE4resok.attrset"), "CREATE4resok.attrset")
    return CREATE4resok(change_info4(group_values[0] == 1, group_values[1], group_values[2]), attrset_)


def encode_REMOVE4args(enc: Encoder, value: REMOVE4args) -> None:
    enc.opaque(value.target, 1024, "REMOVE4args.target")


def decode_REMOVE4args(dec: Decoder) -> REMOVE4args:
    target_ = dec.opaque(1024, "REMOVE4args.target")
    return REMOVE4args(target_)


def encode_REMOVE4resok(enc: Encoder, value: REMOVE4resok) -> None:
    if value.cinfo.atomic not in {0, 1}:
        raise LocalProtocolError(f"REMOVE4resok.cinfo.atomic: {value.cinfo.atomic!r} is no bool")
    enc.put(_LAYOUT_33, value.cinfo.atomic, value.cinfo.before, value.cinfo.after)


def decode_REMOVE4resok(dec: Decoder) -> REMOVE4resok:
    group_values = dec.take(_LAYOUT_33, "REMOVE4resok.cinfo.atomic..cinfo.after")
    if group_values[0] > 1:
        raise DecodeError("REMOVE4resok.cinfo.atomic", dec.pos - dec.start - 20, "0 or 1", str(group_values[0]))
    return REMOVE4resok(change_info4(group_values[0] == 1, group_values[1], group_values[2]))


def encode_RENAME4args(enc: Encoder, value: RENAME4args) -> None:
    enc.opaque(value.oldname, 1024, "RENAME4args.oldname")
    enc.opaque(value.newname, 1024, "RENAME4args.newname")


def decode_RENAME4args(dec: Decoder) -> RENAME4args:
    oldname_ = dec.opaque(1024, "RENAME4args.oldname")
    newname_ = dec.opaque(1024, "RENAME4args.newname")
    return RENAME4args(oldname_, newname_)


def encode_RENAME4resok(enc: Encoder, value: RENAME4resok) -> None:
    if value.source_cinfo.atomic not in {0, 1}:
        raise LocalProtocolError(f"RENAME4resok.source_cinfo.atomic: {value.source_cinfo.atomic!r} is no bool")
    if value.target_cinfo.atomic not in {0, 1}:
        raise LocalProtocolError(f"RENAME4resok.target_cinfo.atomic: {value.target_cinfo.atomic!r} is no bool")
    enc.put(
        _LAYOUT_34,
        value.source_cinfo.atomic,
        value.source_cinfo.before,
        value.source_cinfo.after,
        value.target_cinfo.atomic,
        value.target_cinfo.before,
        value.target_cinfo.after,
    )


def decode_RENAME4resok(dec: Decoder) -> RENAME4resok:
    group_values = dec.take(_LAYOUT_34, "RENAME4resok.source_cinfo.atomic..target_cinfo.after")
    if group_values[0] > 1:
        raise DecodeError("RENAME4resok.source_cinfo.atomic", dec.pos - dec.start - 40, "0 or 1", str(group_values[0]))
    if group_values[3] > 1:
        raise DecodeError("RENAME4resok.target_cinfo.atomic", dec.pos - dec.start - 20, "0 or 1", str(group_values[3]))
    return RENAME4resok(
        change_info4(group_values[0] == 1, group_values[1], group_values[2]),
        change_info4(group_values[3] == 1, group_values[4], group_values[5]),
    )


def encode_LINK4args(enc: Encoder, value: LINK4args) -> None:
    enc.opaque(value.newname, 1024, "LINK4args.newname")


def decode_LINK4args(dec: Decoder) -> LINK4args:
    newname_ = dec.opaque(1024, "LINK4args.newname")
    return LINK4args(newname_)


def encode_LINK4resok(enc: Encoder, value: LINK4resok) -> None:
    if value.cinfo.atomic not in {0, 1}:
        raise LocalProtocolError(f"LINK4resok.cinfo.atomic: {value.cinfo.atomic!r} is no bool")
    enc.put(_LAYOUT_35, value.cinfo.atomic, value.cinfo.before, value.cinfo.after)


def decode_LINK4resok(dec: Decoder) -> LINK4resok:
    group_values = dec.take(_LAYOUT_35, "LINK4resok.cinfo.atomic..cinfo.after")
    if group_values[0] > 1:
        raise DecodeError("LINK4resok.cinfo.atomic", dec.pos - dec.start - 20, "0 or 1", str(group_values[0]))
    return LINK4resok(change_info4(group_values[0] == 1, group_values[1], group_values[2]))


def encode_state_protect_ops4(enc: Encoder, value: state_protect_ops4) -> None:
    enc.count(len(value.spo_must_enforce), 8, "state_protect_ops4.spo_must_enforce")
    enc.numbers("I", value.spo_must_enforce, "state_protect_ops4.spo_must_enforce")
    enc.count(len(value.spo_must_allow), 8, "state_protect_ops4.spo_must_allow")
    enc.numbers("I", value.spo_must_allow, "state_protect_ops4.spo_must_allow")


def decode_state_protect_ops4(dec: Decoder) -> state_protect_ops4:
    spo_must_enforce_ = dec.numbers(
        "I", dec.count(8, "state_protect_ops4.spo_must_enforce"), "state_protect_ops4.spo_must_enforce"
    )
    spo_must_allow_ = dec.numbers(
        "I", dec.count(8, "state_protect_ops4.spo_must_allow"), "state_protect_ops4.spo_must_allow"
    )
    return state_protect_ops4(spo_must_enforce_, spo_must_allow_)


def encode_ssv_sp_parms4(enc: Encoder, value: ssv_sp_parms4) -> None:
    encode_state_protect_ops4(enc, value.ssp_ops)
    enc.count(len(value.ssp_hash_algs), 16, "ssv_sp_parms4.ssp_hash_algs")
    for list_item in value.ssp_hash_algs:
        enc.opaque(list_item, 1024, "ssv_sp_parms4.ssp_hash_algs")
    enc.count(len(value.ssp_encr_algs), 16, "ssv_sp_parms4.ssp_encr_algs")
    for list_item1 in value.ssp_encr_algs:
        enc.opaque(list_item1, 1024, "ssv_sp_parms4.ssp_encr_algs")
    enc.put(_LAYOUT_36, value.ssp_window, value.ssp_num_gss_handles)


def decode_ssv_sp_parms4(dec: Decoder) -> ssv_sp_parms4:
    ssp_ops_ = decode_state_protect_ops4(dec)
    ssp_hash_algs_ = [
        dec.opaque(1024, "ssv_sp_parms4.ssp_hash_algs") for _ in range(dec.count(16, "ssv_sp_parms4.ssp_hash_algs"))
    ]
    ssp_encr_algs_ = [
        dec.opaque(1024, "ssv_sp_parms4.ssp_encr_algs") for _ in range(dec.count(16, "ssv_sp_parms4.ssp_encr_algs"))
    ]
    group_values3 = dec.take(_LAYOUT_36, "ssv_sp_parms4.ssp_window..ssp_num_gss_handles")
    return ssv_sp_parms4(ssp_ops_, ssp_hash_algs_, ssp_encr_algs_, group_values3[0], group_values3[1])


def encode_state_protect4_a(enc: Encoder, value: state_protect4_a) -> None:
    tag = value.spa_how
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if arm_value is not None:
            raise LocalProtocolError(f"state_protect4_a: {type(arm_value).__name__} given, the arm is void")
        return
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        if not isinstance(arm_value, state_protect_ops4):
            raise LocalProtocolError(
                f"state_protect4_a.spa_mach_ops: {type(arm_value).__name__} given, the arm is state_protect_ops4"
            )
        encode_state_protect_ops4(enc, arm_value)
        return
    if tag == 2:
        enc.reduced += b"\x00\x00\x00\x02"
        if not isinstance(arm_value, ssv_sp_parms4):
            raise LocalProtocolError(
                f"state_protect4_a.spa_ssv_parms: {type(arm_value).__name__} given, the arm is ssv_sp_parms4"
            )
        encode_ssv_sp_parms4(enc, arm_value)
        return
    raise LocalProtocolError(f"state_protect4_a.spa_how: {tag!r} is no case of union state_protect4_a")


def decode_state_protect4_a(dec: Decoder) -> state_protect4_a:
    wire_value = dec.u32("state_protect4_a.spa_how")
    tag = _state_protect_how4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "state_protect4_a.spa_how", dec.pos - dec.start - 4, "a value of enum state_protect_how4", str(wire_value)
        )
    if tag == 0:
        return state_protect4_a(tag, None)
    if tag == 1:
        return state_protect4_a(tag, decode_state_protect_ops4(dec))
    if tag == 2:
        return state_protect4_a(tag, decode_ssv_sp_parms4(dec))
    raise DecodeError(
        "state_protect4_a.spa_how", dec.pos - dec.start - 4, "a case of union state_protect4_a", str(int(tag))
    )


def encode_state_protect4_r(enc: Encoder, value: state_protect4_r) -> None:
    tag = value.spr_how
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if arm_value is not None:
            raise LocalProtocolError(f"state_protect4_r: {type(arm_value).__name__} given, the arm is void")
        return
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        if not isinstance(arm_value, state_protect_ops4):
            raise LocalProtocolError(
                f"state_protect4_r.spr_mach_ops: {type(arm_value).__name__} given, the arm is state_protect_ops4"
            )
        encode_state_protect_ops4(enc, arm_value)
        return
    raise LocalProtocolError(f"state_protect4_r.spr_how: {tag!r} is no case of union state_protect4_r")


def decode_state_protect4_r(dec: Decoder) -> state_protect4_r:
    wire_value = dec.u32("state_protect4_r.spr_how")
    tag = _state_protect_how4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "state_protect4_r.spr_how", dec.pos - dec.start - 4, "a value of enum state_protect_how4", str(wire_value)
        )
    if tag == 0:
        return state_protect4_r(tag, None)
    if tag == 1:
        return state_protect4_r(tag, decode_state_protect_ops4(dec))
    raise DecodeError(
        "state_protect4_r.spr_how", dec.pos - dec.start - 4, "a case of union state_protect4_r", str(int(tag))
    )


def encode_client_owner4(enc: Encoder, value: client_owner4) -> None:
    enc.fixed(value.co_verifier, 8, "client_owner4.co_verifier")
    enc.opaque(value.co_ownerid, 1024, "client_owner4.co_ownerid")


def decode_client_owner4(dec: Decoder) -> client_owner4:
    co_verifier_ = dec.fixed(8, "client_owner4.co_verifier")
    co_ownerid_ = dec.opaque(1024, "client_owner4.co_ownerid")
    return client_owner4(co_verifier_, co_ownerid_)


def encode_server_owner4(enc: Encoder, value: server_owner4) -> None:
    enc.put(_LAYOUT_37, value.so_minor_id)
    enc.opaque(value.so_major_id, 1024, "server_owner4.so_major_id")


def decode_server_owner4(dec: Decoder) -> server_owner4:
    so_minor_id_ = dec.u64("server_owner4.so_minor_id")
    so_major_id_ = dec.opaque(1024, "server_owner4.so_major_id")
    return server_owner4(so_minor_id_, so_major_id_)


def encode_nfs_impl_id4(enc: Encoder, value: nfs_impl_id4) -> None:
    enc.opaque(value.nii_domain, 1024, "nfs_impl_id4.nii_domain")
    enc.opaque(value.nii_name, 1024, "nfs_impl_id4.nii_name")
    enc.put(_LAYOUT_38, value.nii_date.seconds, value.nii_date.nseconds)


def decode_nfs_impl_id4(dec: Decoder) -> nfs_impl_id4:
    nii_domain_ = dec.opaque(1024, "nfs_impl_id4.nii_domain")
    nii_name_ = dec.opaque(1024, "nfs_impl_id4.nii_name")
    group_values2 = dec.take(_LAYOUT_38, "nfs_impl_id4.nii_date.seconds..nii_date.nseconds")
    return nfs_impl_id4(nii_domain_, nii_name_, nfstime4(group_values2[0], group_values2[1]))


def encode_EXCHANGE_ID4args(enc: Encoder, value: EXCHANGE_ID4args) -> None:
    encode_client_owner4(enc, value.eia_clientowner)
    enc.u32(value.eia_flags, "EXCHANGE_ID4args.eia_flags")
    encode_state_protect4_a(enc, value.eia_state_protect)
    enc.count(len(value.eia_client_impl_id), 1, "EXCHANGE_ID4args.eia_client_impl_id")
    for list_item in value.eia_client_impl_id:
        encode_nfs_impl_id4(enc, list_item)


def decode_EXCHANGE_ID4args(dec: Decoder) -> EXCHANGE_ID4args:
    eia_clientowner_ = decode_client_owner4(dec)
    eia_flags_ = dec.u32("EXCHANGE_ID4args.eia_flags")
    eia_state_protect_ = decode_state_protect4_a(dec)
    eia_client_impl_id_ = [decode_nfs_impl_id4(dec) for _ in range(dec.count(1, "EXCHANGE_ID4args.eia_client_impl_id"))]
    return EXCHANGE_ID4args(eia_clientowner_, eia_flags_, eia_state_protect_, eia_client_impl_id_)


def encode_EXCHANGE_ID4resok(enc: Encoder, value: EXCHANGE_ID4resok) -> None:
    enc.put(_LAYOUT_39, value.eir_clientid, value.eir_sequenceid, value.eir_flags)
    encode_state_protect4_r(enc, value.eir_state_protect)
    encode_server_owner4(enc, value.eir_server_owner)
    enc.opaque(value.eir_server_scope, 1024, "EXCHANGE_ID4resok.eir_server_scope")
    enc.count(len(value.eir_server_impl_id), 1, "EXCHANGE_ID4resok.eir_server_impl_id")
    for list_item in value.eir_server_impl_id:
        encode_nfs_impl_id4(enc, list_item)


def decode_EXCHANGE_ID4resok(dec: Decoder) -> EXCHANGE_ID4resok:
    group_values = dec.take(_LAYOUT_39, "EXCHANGE_ID4resok.eir_clientid..eir_flags")
    eir_state_protect_ = decode_state_protect4_r(dec)
    eir_server_owner_ = decode_server_owner4(dec)
    eir_server_scope_ = dec.opaque(1024, "EXCHANGE_ID4resok.eir_server_scope")
    eir_server_impl_id_ = [
        decode_nfs_impl_id4(dec) for _ in range(dec.count(1, "EXCHANGE_ID4resok.eir_server_impl_id"))
    ]
    return EXCHANGE_ID4resok(
        group_values[0],
        group_values[1],
        group_values[2],
        eir_state_protect_,
        eir_server_owner_,
        eir_server_scope_,
        eir_server_impl_id_,
    )


def encode_channel_attrs4(enc: Encoder, value: channel_attrs4) -> None:
    enc.put(
        _LAYOUT_40,
        value.ca_headerpadsize,
        value.ca_maxrequestsize,
        value.ca_maxresponsesize,
        value.ca_maxresponsesize_cached,
        value.ca_maxoperations,
        value.ca_maxrequests,
    )
    enc.count(len(value.ca_rdma_ird), 1, "channel_attrs4.ca_rdma_ird")
    enc.numbers("I", value.ca_rdma_ird, "channel_attrs4.ca_rdma_ird")


def decode_channel_attrs4(dec: Decoder) -> channel_attrs4:
    group_values = dec.take(_LAYOUT_40, "channel_attrs4.ca_headerpadsize..ca_maxrequests")
    ca_rdma_ird_ = dec.numbers("I", dec.count(1, "channel_attrs4.ca_rdma_ird"), "channel_attrs4.ca_rdma_ird")
    return channel_attrs4(
        group_values[0],
        group_values[1],
        group_values[2],
        group_values[3],
        group_values[4],
        group_values[5],
        ca_rdma_ird_,
    )


def encode_authsys_parms(enc: Encoder, value: authsys_parms) -> None:
    enc.u32(value.stamp, "authsys_parms.stamp")
    enc.string(value.machinename, 255, "authsys_parms.machinename")
    enc.put(_LAYOUT_41, value.uid, value.gid)
    enc.count(len(value.gids), 16, "authsys_parms.gids")
    enc.numbers("I", value.gids, "authsys_parms.gids")


def decode_authsys_parms(dec: Decoder) -> authsys_parms:
    stamp_ = dec.u32("authsys_parms.stamp")
    machinename_ = dec.string(255, "authsys_parms.machinename")
    group_values2 = dec.take(_LAYOUT_41, "authsys_parms.uid..gid")
    gids_ = dec.numbers("I", dec.count(16, "authsys_parms.gids"), "authsys_parms.gids")
    return authsys_parms(stamp_, machinename_, group_values2[0], group_values2[1], gids_)


def encode_gss_cb_handles4(enc: Encoder, value: gss_cb_handles4) -> None:
    encode_rpc_gss_svc_t(enc, value.gcbp_service, "gss_cb_handles4.gcbp_service")
    enc.opaque(value.gcbp_handle_from_server, 1024, "gss_cb_handles4.gcbp_handle_from_server")
    enc.opaque(value.gcbp_handle_from_client, 1024, "gss_cb_handles4.gcbp_handle_from_client")


def decode_gss_cb_handles4(dec: Decoder) -> gss_cb_handles4:
    wire_value = dec.u32("gss_cb_handles4.gcbp_service")
    gcbp_service_ = _rpc_gss_svc_t_BY_VALUE.get(wire_value)
    if gcbp_service_ is None:
        raise DecodeError(
            "gss_cb_handles4.gcbp_service", dec.pos - dec.start - 4, "a value of enum rpc_gss_svc_t", str(wire_value)
        )
    gcbp_handle_from_server_ = dec.opaque(1024, "gss_cb_handles4.gcbp_handle_from_server")
    gcbp_handle_from_client_ = dec.opaque(1024, "gss_cb_handles4.gcbp_handle_from_client")
    return gss_cb_handles4(gcbp_service_, gcbp_handle_from_server_, gcbp_handle_from_client_)


def encode_callback_sec_parms4(enc: Encoder, value: callback_sec_parms4) -> None:
    tag = value.cb_secflavor
    arm_value: Any = value.value
    if tag == 0:
        enc.u32(tag, "callback_sec_parms4.cb_secflavor")
        if arm_value is not None:
            raise LocalProtocolError(f"callback_sec_parms4: {type(arm_value).__name__} given, the arm is void")
        return
    if tag == 1:
        enc.u32(tag, "callback_sec_parms4.cb_secflavor")
        if not isinstance(arm_value, authsys_parms):
            raise LocalProtocolError(
                f"callback_sec_parms4.cbsp_sys_cred: {type(arm_value).__name__} given, the arm is authsys_parms"
            )
        encode_authsys_parms(enc, arm_value)
        return
    if tag == 6:
        enc.u32(tag, "callback_sec_parms4.cb_secflavor")
        if not isinstance(arm_value, gss_cb_handles4):
            raise LocalProtocolError(
                f"callback_sec_parms4.cbsp_gss_handles: {type(arm_value).__name__} given, the arm is gss_cb_handles4"
            )
        encode_gss_cb_handles4(enc, arm_value)
        return
    raise LocalProtocolError(f"callback_sec_parms4.cb_secflavor: {tag!r} is no case of union callback_sec_parms4")


def decode_callback_sec_parms4(dec: Decoder) -> callback_sec_parms4:
    tag = dec.u32("callback_sec_parms4.cb_secflavor")
    if tag == 0:
        return callback_sec_parms4(tag, None)
    if tag == 1:
        return callback_sec_parms4(tag, decode_authsys_parms(dec))
    if tag == 6:
        return callback_sec_parms4(tag, decode_gss_cb_handles4(dec))
    raise DecodeError(
        "callback_sec_parms4.cb_secflavor",
        dec.pos - dec.start - 4,
        "a case of union callback_sec_parms4",
        str(int(tag)),
    )


def encode_CREATE_SESSION4args(enc: Encoder, value: CREATE_SESSION4args) -> None:
    enc.put(_LAYOUT_42, value.csa_clientid, value.csa_sequence, value.csa_flags)
    encode_channel_attrs4(enc, value.csa_fore_chan_attrs)
    encode_channel_attrs4(enc, value.csa_back_chan_attrs)
    enc.u32(value.csa_cb_program, "CREATE_SESSION4args.csa_cb_program")
    enc.count(len(value.csa_sec_parms), 16, "CREATE_SESSION4args.csa_sec_parms")
    for list_item in value.csa_sec_parms:
        encode_callback_sec_parms4(enc, list_item)


def decode_CREATE_SESSION4args(dec: Decoder) -> CREATE_SESSION4args:
    group_values = dec.take(_LAYOUT_42, "CREATE_SESSION4args.csa_clientid..csa_flags")
    csa_fore_chan_attrs_ = decode_channel_attrs4(dec)
    csa_back_chan_attrs_ = decode_channel_attrs4(dec)
    csa_cb_program_ = dec.u32("CREATE_SESSION4args.csa_cb_program")
    csa_sec_parms_ = [
        decode_callback_sec_parms4(dec) for _ in range(dec.count(16, "CREATE_SESSION4args.csa_sec_parms"))
    ]
    return CREATE_SESSION4args(
        group_values[0],
        group_values[1],
        group_values[2],
        csa_fore_chan_attrs_,
        csa_back_chan_attrs_,
        csa_cb_program_,
        csa_sec_parms_,
    )


def encode_CREATE_SESSION4resok(enc: Encoder, value: CREATE_SESSION4resok) -> None:
    enc.put(
        _LAYOUT_43,
        enc.exactly(value.csr_sessionid, 16, "CREATE_SESSION4resok.csr_sessionid"),
        value.csr_sequence,
        value.csr_flags,
    )
    encode_channel_attrs4(enc, value.csr_fore_chan_attrs)
    encode_channel_attrs4(enc, value.csr_back_chan_attrs)


def decode_CREATE_SESSION4resok(dec: Decoder) -> CREATE_SESSION4resok:
    group_values = dec.take(_LAYOUT_43, "CREATE_SESSION4resok.csr_sessionid..csr_flags")
    csr_fore_chan_attrs_ = decode_channel_attrs4(dec)
    csr_back_chan_attrs_ = decode_channel_attrs4(dec)
    return CREATE_SESSION4resok(
        group_values[0], group_values[1], group_values[2], csr_fore_chan_attrs_, csr_back_chan_attrs_
    )


def encode_BACKCHANNEL_CTL4args(enc: Encoder, value: BACKCHANNEL_CTL4args) -> None:
    enc.u32(value.bca_cb_program, "BACKCHANNEL_CTL4args.bca_cb_program")
    enc.count(len(value.bca_sec_parms), 16, "BACKCHANNEL_CTL4args.bca_sec_parms")
    for list_item in value.bca_sec_parms:
        encode_callback_sec_parms4(enc, list_item)


def decode_BACKCHANNEL_CTL4args(dec: Decoder) -> BACKCHANNEL_CTL4args:
    bca_cb_program_ = dec.u32("BACKCHANNEL_CTL4args.bca_cb_program")
    bca_sec_parms_ = [
        decode_callback_sec_parms4(dec) for _ in range(dec.count(16, "BACKCHANNEL_CTL4args.bca_sec_parms"))
    ]
    return BACKCHANNEL_CTL4args(bca_cb_program_, bca_sec_parms_)


def encode_BIND_CONN_TO_SESSION4args(enc: Encoder, value: BIND_CONN_TO_SESSION4args) -> None:
    if value.bctsa_dir not in _channel_dir_from_client4_BY_VALUE:
        raise LocalProtocolError(
            f"BIND_CONN_TO_SESSION4args.bctsa_dir: {value.bctsa_dir!r} is no value of enum channel_dir_from_client4"
        )
    if value.bctsa_use_conn_in_rdma_mode not in {0, 1}:
        raise LocalProtocolError(
            f"BIND_CONN_TO_SESSION4args.bctsa_use_conn_in_rdma_mode: {value.bctsa_use_conn_in_rdma_mode!r} is no bool"
        )
    enc.put(
        _LAYOUT_44,
        enc.exactly(value.bctsa_sessid, 16, "BIND_CONN_TO_SESSION4args.bctsa_sessid"),
        value.bctsa_dir,
        value.bctsa_use_conn_in_rdma_mode,
    )


def decode_BIND_CONN_TO_SESSION4args(dec: Decoder) -> BIND_CONN_TO_SESSION4args:
    group_values = dec.take(_LAYOUT_44, "BIND_CONN_TO_SESSION4args.bctsa_sessid..bctsa_use_conn_in_rdma_mode")
    bctsa_dir_ = _channel_dir_from_client4_BY_VALUE.get(group_values[1])
    if bctsa_dir_ is None:
        raise DecodeError(
            "BIND_CONN_TO_SESSION4args.bctsa_dir",
            dec.pos - dec.start - 8,
            "a value of enum channel_dir_from_client4",
            str(group_values[1]),
        )
    if group_values[2] > 1:
        raise DecodeError(
            "BIND_CONN_TO_SESSION4args.bctsa_use_conn_in_rdma_mode",
            dec.pos - dec.start - 4,
            "0 or 1",
            str(group_values[2]),
        )
    return BIND_CONN_TO_SESSION4args(group_values[0], bctsa_dir_, group_values[2] == 1)


def encode_BIND_CONN_TO_SESSION4resok(enc: Encoder, value: BIND_CONN_TO_SESSION4resok) -> None:
    if value.bctsr_dir not in _channel_dir_from_server4_BY_VALUE:
        raise LocalProtocolError(
            f"BIND_CONN_TO_SESSION4resok.bctsr_dir: {value.bctsr_dir!r} is no value of enum channel_dir_from_server4"
        )
    if value.bctsr_use_conn_in_rdma_mode not in {0, 1}:
        raise LocalProtocolError(
            f"BIND_CONN_TO_SESSION4resok.bctsr_use_conn_in_rdma_mode: {value.bctsr_use_conn_in_rdma_mode!r} is no bool"
        )
    enc.put(
        _LAYOUT_45,
        enc.exactly(value.bctsr_sessid, 16, "BIND_CONN_TO_SESSION4resok.bctsr_sessid"),
        value.bctsr_dir,
        value.bctsr_use_conn_in_rdma_mode,
    )


def decode_BIND_CONN_TO_SESSION4resok(dec: Decoder) -> BIND_CONN_TO_SESSION4resok:
    group_values = dec.take(_LAYOUT_45, "BIND_CONN_TO_SESSION4resok.bctsr_sessid..bctsr_use_conn_in_rdma_mode")
    bctsr_dir_ = _channel_dir_from_server4_BY_VALUE.get(group_values[1])
    if bctsr_dir_ is None:
        raise DecodeError(
            "BIND_CONN_TO_SESSION4resok.bctsr_dir",
            dec.pos - dec.start - 8,
            "a value of enum channel_dir_from_server4",
            str(group_values[1]),
        )
    if group_values[2] > 1:
        raise DecodeError(
            "BIND_CONN_TO_SESSION4resok.bctsr_use_conn_in_rdma_mode",
            dec.pos - dec.start - 4,
            "0 or 1",
            str(group_values[2]),
        )
    return BIND_CONN_TO_SESSION4resok(group_values[0], bctsr_dir_, group_values[2] == 1)


def encode_DESTROY_SESSION4args(enc: Encoder, value: DESTROY_SESSION4args) -> None:
    enc.fixed(value.dsa_sessionid, 16, "DESTROY_SESSION4args.dsa_sessionid")


def decode_DESTROY_SESSION4args(dec: Decoder) -> DESTROY_SESSION4args:
    dsa_sessionid_ = dec.fixed(16, "DESTROY_SESSION4args.dsa_sessionid")
    return DESTROY_SESSION4args(dsa_sessionid_)


def encode_DESTROY_CLIENTID4args(enc: Encoder, value: DESTROY_CLIENTID4args) -> None:
    enc.put(_LAYOUT_46, value.dca_clientid)


def decode_DESTROY_CLIENTID4args(dec: Decoder) -> DESTROY_CLIENTID4args:
    dca_clientid_ = dec.u64("DESTROY_CLIENTID4args.dca_clientid")
    return DESTROY_CLIENTID4args(dca_clientid_)


def encode_RECLAIM_COMPLETE4args(enc: Encoder, value: RECLAIM_COMPLETE4args) -> None:
    if value.rca_one_fs not in {0, 1}:
        raise LocalProtocolError(f"RECLAIM_COMPLETE4args.rca_one_fs: {value.rca_one_fs!r} is no bool")
    enc.u32(value.rca_one_fs, "RECLAIM_COMPLETE4args.rca_one_fs")


def decode_RECLAIM_COMPLETE4args(dec: Decoder) -> RECLAIM_COMPLETE4args:
    rca_one_fs_ = dec.boolean("RECLAIM_COMPLETE4args.rca_one_fs")
    return RECLAIM_COMPLETE4args(rca_one_fs_)


def encode_SEQUENCE4args(enc: Encoder, value: SEQUENCE4args) -> None:
    if value.sa_cachethis not in {0, 1}:
        raise LocalProtocolError(f"SEQUENCE4args.sa_cachethis: {value.sa_cachethis!r} is no bool")
    enc.put(
        _LAYOUT_47,
        enc.exactly(value.sa_sessionid, 16, "SEQUENCE4args.sa_sessionid"),
        value.sa_sequenceid,
        value.sa_slotid,
        value.sa_highest_slotid,
        value.sa_cachethis,
    )


def decode_SEQUENCE4args(dec: Decoder) -> SEQUENCE4args:
    group_values = dec.take(_LAYOUT_47, "SEQUENCE4args.sa_sessionid..sa_cachethis")
    if group_values[4] > 1:
        raise DecodeError("SEQUENCE4args.sa_cachethis", dec.pos - dec.start - 4, "0 or 1", str(group_values[4]))
    return SEQUENCE4args(group_values[0], group_values[1], group_values[2], group_values[3], group_values[4] == 1)


def encode_SEQUENCE4resok(enc: Encoder, value: SEQUENCE4resok) -> None:
    enc.put(
        _LAYOUT_48,
        enc.exactly(value.sr_sessionid, 16, "SEQUENCE4resok.sr_sessionid"),
        value.sr_sequenceid,
        value.sr_slotid,
        value.sr_highest_slotid,
        value.sr_target_highest_slotid,
        value.sr_status_flags,
    )


def decode_SEQUENCE4resok(dec: Decoder) -> SEQUENCE4resok:
    group_values = dec.take(_LAYOUT_48, "SEQUENCE4resok.sr_sessionid..sr_status_flags")
    return SEQUENCE4resok(
        group_values[0], group_values[1], group_values[2], group_values[3], group_values[4], group_values[5]
    )


def encode_creatverfattr(enc: Encoder, value: creatverfattr) -> None:
    enc.fixed(value.cva_verf, 8, "creatverfattr.cva_verf")
    encode_fattr4(enc, value.cva_attrs)


def decode_creatverfattr(dec: Decoder) -> creatverfattr:
    cva_verf_ = dec.fixed(8, "creatverfattr.cva_verf")
    cva_attrs_ = decode_fattr4(dec)
    return creatverfattr(cva_verf_, cva_attrs_)


def encode_createhow4(enc: Encoder, value: createhow4) -> None:
    tag = value.mode
    arm_value: Any = value.value
    if tag in {0, 1}:
        enc.u32(tag, "createhow4.mode")
        if not isinstance(arm_value, fattr4):
            raise LocalProtocolError(f"createhow4.createattrs: {type(arm_value).__name__} given, the arm is fattr4")
        encode_fattr4(enc, arm_value)
        return
    if tag == 2:
        enc.reduced += b"\x00\x00\x00\x02"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"createhow4.createverf: {type(arm_value).__name__} given, the arm is opaque")
        enc.fixed(arm_value, 8, "createhow4.createverf")
        return
    if tag == 3:
        enc.reduced += b"\x00\x00\x00\x03"
        if not isinstance(arm_value, creatverfattr):
            raise LocalProtocolError(
                f"createhow4.ch_createboth: {type(arm_value).__name__} given, the arm is creatverfattr"
            )
        encode_creatverfattr(enc, arm_value)
        return
    raise LocalProtocolError(f"createhow4.mode: {tag!r} is no case of union createhow4")


def decode_createhow4(dec: Decoder) -> createhow4:
    wire_value = dec.u32("createhow4.mode")
    tag = _createmode4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("createhow4.mode", dec.pos - dec.start - 4, "a value of enum createmode4", str(wire_value))
    if tag in {0, 1}:
        return createhow4(tag, decode_fattr4(dec))
    if tag == 2:
        return createhow4(tag, dec.fixed(8, "createhow4.createverf"))
    if tag == 3:
        return createhow4(tag, decode_creatverfattr(dec))
    raise DecodeError("createhow4.mode", dec.pos - dec.start - 4, "a case of union createhow4", str(int(tag)))


def encode_openflag4(enc: Encoder, value: openflag4) -> None:
    tag = value.opentype
    arm_value: Any = value.value
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        if not isinstance(arm_value, createhow4):
            raise LocalProtocolError(f"openflag4.how: {type(arm_value).__name__} given, the arm is createhow4")
        encode_createhow4(enc, arm_value)
        return
    encode_opentype4(enc, tag, "openflag4.opentype")
    if arm_value is not None:
        raise LocalProtocolError(f"openflag4: {type(arm_value).__name__} given, the arm is void")


def decode_openflag4(dec: Decoder) -> openflag4:
    wire_value = dec.u32("openflag4.opentype")
    tag = _opentype4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError("openflag4.opentype", dec.pos - dec.start - 4, "a value of enum opentype4", str(wire_value))
    if tag == 1:
        return openflag4(tag, decode_createhow4(dec))
    return openflag4(tag, None)


def encode_open_claim_delegate_cur4(enc: Encoder, value: open_claim_delegate_cur4) -> None:
    enc.put(
        _LAYOUT_49,
        value.delegate_stateid.seqid,
        enc.exactly(value.delegate_stateid.other, 12, "open_claim_delegate_cur4.delegate_stateid.other"),
    )
    enc.opaque(value.file, 1024, "open_claim_delegate_cur4.file")


def decode_open_claim_delegate_cur4(dec: Decoder) -> open_claim_delegate_cur4:
    group_values = dec.take(_LAYOUT_49, "open_claim_delegate_cur4.delegate_stateid.seqid..delegate_stateid.other")
    file_ = dec.opaque(1024, "open_claim_delegate_cur4.file")
    return open_claim_delegate_cur4(stateid4(group_values[0], group_values[1]), file_)


def encode_open_claim4(enc: Encoder, value: open_claim4) -> None:
    tag = value.claim
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(f"open_claim4.file: {type(arm_value).__name__} given, the arm is opaque")
        enc.opaque(arm_value, 1024, "open_claim4.file")
        return
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        encode_open_delegation_type4(enc, arm_value, "open_claim4.delegate_type")
        return
    if tag == 2:
        enc.reduced += b"\x00\x00\x00\x02"
        if not isinstance(arm_value, open_claim_delegate_cur4):
            raise LocalProtocolError(
                f"open_claim4.delegate_cur_info: {type(arm_value).__name__} given, the arm is open_claim_delegate_cur4"
            )
        encode_open_claim_delegate_cur4(enc, arm_value)
        return
    if tag == 3:
        enc.reduced += b"\x00\x00\x00\x03"
        if arm_value is None or isinstance(arm_value, int | float | str | list | Composite):
            raise LocalProtocolError(
                f"open_claim4.file_delegate_prev: {type(arm_value).__name__} given, the arm is opaque"
            )
        enc.opaque(arm_value, 1024, "open_claim4.file_delegate_prev")
        return
    if tag in {4, 6}:
        enc.u32(tag, "open_claim4.claim")
        if arm_value is not None:
            raise LocalProtocolError(f"open_claim4: {type(arm_value).__name__} given, the arm is void")
        return
    if tag == 5:
        enc.reduced += b"\x00\x00\x00\x05"
        if not isinstance(arm_value, stateid4):
            raise LocalProtocolError(
                f"open_claim4.oc_delegate_stateid: {type(arm_value).__name__} given, the arm is stateid4"
            )
        encode_stateid4(enc, arm_value)
        return
    raise LocalProtocolError(f"open_claim4.claim: {tag!r} is no case of union open_claim4")


def decode_open_claim4(dec: Decoder) -> open_claim4:
    wire_value = dec.u32("open_claim4.claim")
    tag = _open_claim_type4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "open_claim4.claim", dec.pos - dec.start - 4, "a value of enum open_claim_type4", str(wire_value)
        )
    if tag == 0:
        return open_claim4(tag, dec.opaque(1024, "open_claim4.file"))
    if tag == 1:
        return open_claim4(tag, decode_open_delegation_type4(dec, "open_claim4.delegate_type"))
    if tag == 2:
        return open_claim4(tag, decode_open_claim_delegate_cur4(dec))
    if tag == 3:
        return open_claim4(tag, dec.opaque(1024, "open_claim4.file_delegate_prev"))
    if tag in {4, 6}:
        return open_claim4(tag, None)
    if tag == 5:
        return open_claim4(tag, decode_stateid4(dec))
    raise DecodeError("open_claim4.claim", dec.pos - dec.start - 4, "a case of union open_claim4", str(int(tag)))


def encode_OPEN4args(enc: Encoder, value: OPEN4args) -> None:
    enc.put(_LAYOUT_50, value.seqid, value.share_access, value.share_deny)
    encode_state_owner4(enc, value.owner)
    encode_openflag4(enc, value.openhow)
    encode_open_claim4(enc, value.claim)


def decode_OPEN4args(dec: Decoder) -> OPEN4args:
    group_values = dec.take(_LAYOUT_50, "OPEN4args.seqid..share_deny")
    owner_ = decode_state_owner4(dec)
    openhow_ = decode_openflag4(dec)
    claim_ = decode_open_claim4(dec)
    return OPEN4args(group_values[0], group_values[1], group_values[2], owner_, openhow_, claim_)


def encode_nfsace4(enc: Encoder, value: nfsace4) -> None:
    enc.put(_LAYOUT_51, value.type, value.flag, value.access_mask)
    enc.opaque(value.who, 1024, "nfsace4.who")


def decode_nfsace4(dec: Decoder) -> nfsace4:
    group_values = dec.take(_LAYOUT_51, "nfsace4.type..access_mask")
    who_ = dec.opaque(1024, "nfsace4.who")
    return nfsace4(group_values[0], group_values[1], group_values[2], who_)


def encode_open_read_delegation4(enc: Encoder, value: open_read_delegation4) -> None:
    if value.recall not in {0, 1}:
        raise LocalProtocolError(f"open_read_delegation4.recall: {value.recall!r} is no bool")
    enc.put(
        _LAYOUT_52,
        value.stateid.seqid,
        enc.exactly(value.stateid.other, 12, "open_read_delegation4.stateid.other"),
        value.recall,
    )
    encode_nfsace4(enc, value.permissions)


def decode_open_read_delegation4(dec: Decoder) -> open_read_delegation4:
    group_values = dec.take(_LAYOUT_52, "open_read_delegation4.stateid.seqid..recall")
    if group_values[2] > 1:
        raise DecodeError("open_read_delegation4.recall", dec.pos - dec.start - 4, "0 or 1", str(group_values[2]))
    permissions_ = decode_nfsace4(dec)
    return open_read_delegation4(stateid4(group_values[0], group_values[1]), group_values[2] == 1, permissions_)


def encode_nfs_modified_limit4(enc: Encoder, value: nfs_modified_limit4) -> None:
    enc.put(_LAYOUT_53, value.num_blocks, value.bytes_per_block)


def decode_nfs_modified_limit4(dec: Decoder) -> nfs_modified_limit4:
    group_values = dec.take(_LAYOUT_53, "nfs_modified_limit4.num_blocks..bytes_per_block")
    return nfs_modified_limit4(group_values[0], group_values[1])


def encode_nfs_space_limit4(enc: Encoder, value: nfs_space_limit4) -> None:
    tag = value.limitby
    arm_value: Any = value.value
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        enc.put(_LAYOUT_54, arm_value)
        return
    if tag == 2:
        enc.reduced += b"\x00\x00\x00\x02"
        if not isinstance(arm_value, nfs_modified_limit4):
            raise LocalProtocolError(
                f"nfs_space_limit4.mod_blocks: {type(arm_value).__name__} given, the arm is nfs_modified_limit4"
            )
        encode_nfs_modified_limit4(enc, arm_value)
        return
    raise LocalProtocolError(f"nfs_space_limit4.limitby: {tag!r} is no case of union nfs_space_limit4")


def decode_nfs_space_limit4(dec: Decoder) -> nfs_space_limit4:
    wire_value = dec.u32("nfs_space_limit4.limitby")
    tag = _limit_by4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "nfs_space_limit4.limitby", dec.pos - dec.start - 4, "a value of enum limit_by4", str(wire_value)
        )
    if tag == 1:
        return nfs_space_limit4(tag, dec.u64("nfs_space_limit4.filesize"))
    if tag == 2:
        return nfs_space_limit4(tag, decode_nfs_modified_limit4(dec))
    raise DecodeError(
        "nfs_space_limit4.limitby", dec.pos - dec.start - 4, "a case of union nfs_space_limit4", str(int(tag))
    )


def encode_open_write_delegation4(enc: Encoder, value: open_write_delegation4) -> None:
    if value.recall not in {0, 1}:
        raise LocalProtocolError(f"open_write_delegation4.recall: {value.recall!r} is no bool")
    enc.put(
        _LAYOUT_55,
        value.stateid.seqid,
        enc.exactly(value.stateid.other, 12, "open_write_delegation4.stateid.other"),
        value.recall,
    )
    encode_nfs_space_limit4(enc, value.space_limit)
    encode_nfsace4(enc, value.permissions)


def decode_open_write_delegation4(dec: Decoder) -> open_write_delegation4:
    group_values = dec.take(_LAYOUT_55, "open_write_delegation4.stateid.seqid..recall")
    if group_values[2] > 1:
        raise DecodeError("open_write_delegation4.recall", dec.pos - dec.start - 4, "0 or 1", str(group_values[2]))
    space_limit_ = decode_nfs_space_limit4(dec)
    permissions_ = decode_nfsace4(dec)
    return open_write_delegation4(
        stateid4(group_values[0], group_values[1]), group_values[2] == 1, space_limit_, permissions_
    )


def encode_open_none_delegation4(enc: Encoder, value: open_none_delegation4) -> None:
    tag = value.ond_why
    arm_value: Any = value.value
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        if arm_value not in {0, 1}:
            raise LocalProtocolError(f"open_none_delegation4.ond_server_will_push_deleg: {arm_value!r} is no bool")
        enc.u32(arm_value, "open_none_delegation4.ond_server_will_push_deleg")
        return
    if tag == 2:
        enc.reduced += b"\x00\x00\x00\x02"
        if arm_value not in {0, 1}:
            raise LocalProtocolError(f"open_none_delegation4.ond_server_will_signal_avail: {arm_value!r} is no bool")
        enc.u32(arm_value, "open_none_delegation4.ond_server_will_signal_avail")
        return
    encode_why_no_delegation4(enc, tag, "open_none_delegation4.ond_why")
    if arm_value is not None:
        raise LocalProtocolError(f"open_none_delegation4: {type(arm_value).__name__} given, the arm is void")


def decode_open_none_delegation4(dec: Decoder) -> open_none_delegation4:
    wire_value = dec.u32("open_none_delegation4.ond_why")
    tag = _why_no_delegation4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "open_none_delegation4.ond_why",
            dec.pos - dec.start - 4,
            "a value of enum why_no_delegation4",
            str(wire_value),
        )
    if tag == 1:
        return open_none_delegation4(tag, dec.boolean("open_none_delegation4.ond_server_will_push_deleg"))
    if tag == 2:
        return open_none_delegation4(tag, dec.boolean("open_none_delegation4.ond_server_will_signal_avail"))
    return open_none_delegation4(tag, None)


def encode_open_delegation4(enc: Encoder, value: open_delegation4) -> None:
    tag = value.delegation_type
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if arm_value is not None:
            raise LocalProtocolError(f"open_delegation4: {type(arm_value).__name__} given, the arm is void")
        return
    if tag == 1:
        enc.reduced += b"\x00\x00\x00\x01"
        if not isinstance(arm_value, open_read_delegation4):
            raise LocalProtocolError(
                f"open_delegation4.read: {type(arm_value).__name__} given, the arm is open_read_delegation4"
            )
        encode_open_read_delegation4(enc, arm_value)
        return
    if tag == 2:
        enc.reduced += b"\x00\x00\x00\x02"
        if not isinstance(arm_value, open_write_delegation4):
            raise LocalProtocolError(
                f"open_delegation4.write: {type(arm_value).__name__} given, the arm is open_write_delegation4"
            )
        encode_open_write_delegation4(enc, arm_value)
        return
    if tag == 3:
        enc.reduced += b"\x00\x00\x00\x03"
        if not isinstance(arm_value, open_none_delegation4):
            raise LocalProtocolError(
                f"open_delegation4.od_whynone: {type(arm_value).__name__} given, the arm is open_none_delegation4"
            )
        encode_open_none_delegation4(enc, arm_value)
        return
    raise LocalProtocolError(f"open_delegation4.delegation_type: {tag!r} is no case of union open_delegation4")


def decode_open_delegation4(dec: Decoder) -> open_delegation4:
    wire_value = dec.u32("open_delegation4.delegation_type")
    tag = _open_delegation_type4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "open_delegation4.delegation_type",
            dec.pos - dec.start - 4,
            "a value of enum open_delegation_type4",
            str(wire_value),
        )
    if tag == 0:
        return open_delegation4(tag, None)
    if tag == 1:
        return open_delegation4(tag, decode_open_read_delegation4(dec))
    if tag == 2:
        return open_delegation4(tag, decode_open_write_delegation4(dec))
    if tag == 3:
        return open_delegation4(tag, decode_open_none_delegation4(dec))
    raise DecodeError(
        "open_delegation4.delegation_type", dec.pos - dec.start - 4, "a case of union open_delegation4", str(int(tag))
    )


def encode_OPEN4resok(enc: Encoder, value: OPEN4resok) -> None:
    if value.cinfo.atomic not in {0, 1}:
        raise LocalProtocolError(f"OPEN4resok.cinfo.atomic: {value.cinfo.atomic!r} is no bool")
    enc.put(
        _LAYOUT_56,
        value.stateid.seqid,
        enc.exactly(value.stateid.other, 12, "OPEN4resok.stateid.other"),
        value.cinfo.atomic,
        value.cinfo.before,
        value.cinfo.after,
        value.rflags,
    )
    enc.count(len(value.attrset), 8, "OPEN4resok.attrset")
    enc.numbers("I", value.attrset, "OPEN4resok.attrset")
    encode_open_delegation4(enc, value.delegation)


def decode_OPEN4resok(dec: Decoder) -> OPEN4resok:
    group_values = dec.take(_LAYOUT_56, "OPEN4resok.stateid.seqid..rflags")
    if group_values[2] > 1:
        raise DecodeError("OPEN4resok.cinfo.atomic", dec.pos - dec.start - 24, "0 or 1", str(group_values[2]))
    attrset_ = dec.numbers("I", dec.count(8, "OPEN4resok.attrset"), "OPEN4resok.attrset")
    delegation_ = decode_open_delegation4(dec)
    return OPEN4resok(
        stateid4(group_values[0], group_values[1]),
        change_info4(group_values[2] == 1, group_values[3], group_values[4]),
        group_values[5],
        attrset_,
        delegation_,
    )


def encode_OPEN_DOWNGRADE4args(enc: Encoder, value: OPEN_DOWNGRADE4args) -> None:
    enc.put(
        _LAYOUT_57,
        value.open_stateid.seqid,
        enc.exactly(value.open_stateid.other, 12, "OPEN_DOWNGRADE4args.open_stateid.other"),
        value.seqid,
        value.share_access,
        value.share_deny,
    )


def decode_OPEN_DOWNGRADE4args(dec: Decoder) -> OPEN_DOWNGRADE4args:
    group_values = dec.take(_LAYOUT_57, "OPEN_DOWNGRADE4args.open_stateid.seqid..share_deny")
    return OPEN_DOWNGRADE4args(
        stateid4(group_values[0], group_values[1]), group_values[2], group_values[3], group_values[4]
    )


def encode_CLOSE4args(enc: Encoder, value: CLOSE4args) -> None:
    enc.put(
        _LAYOUT_58,
        value.seqid,
        value.open_stateid.seqid,
        enc.exactly(value.open_stateid.other, 12, "CLOSE4args.open_stateid.other"),
    )


def decode_CLOSE4args(dec: Decoder) -> CLOSE4args:
    group_values = dec.take(_LAYOUT_58, "CLOSE4args.seqid..open_stateid.other")
    return CLOSE4args(group_values[0], stateid4(group_values[1], group_values[2]))


def encode_DELEGRETURN4args(enc: Encoder, value: DELEGRETURN4args) -> None:
    enc.put(
        _LAYOUT_59,
        value.deleg_stateid.seqid,
        enc.exactly(value.deleg_stateid.other, 12, "DELEGRETURN4args.deleg_stateid.other"),
    )


def decode_DELEGRETURN4args(dec: Decoder) -> DELEGRETURN4args:
    group_values = dec.take(_LAYOUT_59, "DELEGRETURN4args.deleg_stateid.seqid..deleg_stateid.other")
    return DELEGRETURN4args(stateid4(group_values[0], group_values[1]))


def encode_TEST_STATEID4args(enc: Encoder, value: TEST_STATEID4args) -> None:
    enc.count(len(value.ts_stateids), 1024, "TEST_STATEID4args.ts_stateids")
    for list_item in value.ts_stateids:
        encode_stateid4(enc, list_item)


def decode_TEST_STATEID4args(dec: Decoder) -> TEST_STATEID4args:
    ts_stateids_ = [decode_stateid4(dec) for _ in range(dec.count(1024, "TEST_STATEID4args.ts_stateids"))]
    return TEST_STATEID4args(ts_stateids_)


def encode_TEST_STATEID4resok(enc: Encoder, value: TEST_STATEID4resok) -> None:
    enc.count(len(value.tsr_status_codes), 1024, "TEST_STATEID4resok.tsr_status_codes")
    enc.numbers("I", value.tsr_status_codes, "TEST_STATEID4resok.tsr_status_codes")


def decode_TEST_STATEID4resok(dec: Decoder) -> TEST_STATEID4resok:
    tsr_status_codes_ = dec.numbers(
        "I", dec.count(1024, "TEST_STATEID4resok.tsr_status_codes"), "TEST_STATEID4resok.tsr_status_codes"
    )
    return TEST_STATEID4resok(tsr_status_codes_)


def encode_FREE_STATEID4args(enc: Encoder, value: FREE_STATEID4args) -> None:
    enc.put(
        _LAYOUT_60,
        value.fsa_stateid.seqid,
        enc.exactly(value.fsa_stateid.other, 12, "FREE_STATEID4args.fsa_stateid.other"),
    )


def decode_FREE_STATEID4args(dec: Decoder) -> FREE_STATEID4args:
    group_values = dec.take(_LAYOUT_60, "FREE_STATEID4args.fsa_stateid.seqid..fsa_stateid.other")
    return FREE_STATEID4args(stateid4(group_values[0], group_values[1]))


def encode_open_to_lock_owner4(enc: Encoder, value: open_to_lock_owner4) -> None:
    enc.put(
        _LAYOUT_61,
        value.open_seqid,
        value.open_stateid.seqid,
        enc.exactly(value.open_stateid.other, 12, "open_to_lock_owner4.open_stateid.other"),
        value.lock_seqid,
    )
    encode_state_owner4(enc, value.lock_owner)


def decode_open_to_lock_owner4(dec: Decoder) -> open_to_lock_owner4:
    group_values = dec.take(_LAYOUT_61, "open_to_lock_owner4.open_seqid..lock_seqid")
    lock_owner_ = decode_state_owner4(dec)
    return open_to_lock_owner4(
        group_values[0], stateid4(group_values[1], group_values[2]), group_values[3], lock_owner_
    )


def encode_exist_lock_owner4(enc: Encoder, value: exist_lock_owner4) -> None:
    enc.put(
        _LAYOUT_62,
        value.lock_stateid.seqid,
        enc.exactly(value.lock_stateid.other, 12, "exist_lock_owner4.lock_stateid.other"),
        value.lock_seqid,
    )


def decode_exist_lock_owner4(dec: Decoder) -> exist_lock_owner4:
    group_values = dec.take(_LAYOUT_62, "exist_lock_owner4.lock_stateid.seqid..lock_seqid")
    return exist_lock_owner4(stateid4(group_values[0], group_values[1]), group_values[2])


def encode_locker4(enc: Encoder, value: locker4) -> None:
    tag = value.new_lock_owner
    arm_value: Any = value.value
    if tag:
        enc.reduced += b"\x00\x00\x00\x01"
        if not isinstance(arm_value, open_to_lock_owner4):
            raise LocalProtocolError(
                f"locker4.open_owner: {type(arm_value).__name__} given, the arm is open_to_lock_owner4"
            )
        encode_open_to_lock_owner4(enc, arm_value)
        return
    enc.reduced += b"\x00\x00\x00\x00"
    if not isinstance(arm_value, exist_lock_owner4):
        raise LocalProtocolError(f"locker4.lock_owner: {type(arm_value).__name__} given, the arm is exist_lock_owner4")
    encode_exist_lock_owner4(enc, arm_value)


def decode_locker4(dec: Decoder) -> locker4:
    tag = dec.boolean("locker4.new_lock_owner")
    if tag:
        return locker4(tag, decode_open_to_lock_owner4(dec))
    return locker4(tag, decode_exist_lock_owner4(dec))


def encode_LOCK4args(enc: Encoder, value: LOCK4args) -> None:
    if value.locktype not in _nfs_lock_type4_BY_VALUE:
        raise LocalProtocolError(f"LOCK4args.locktype: {value.locktype!r} is no value of enum nfs_lock_type4")
    if value.reclaim not in {0, 1}:
        raise LocalProtocolError(f"LOCK4args.reclaim: {value.reclaim!r} is no bool")
    enc.put(_LAYOUT_63, value.locktype, value.reclaim, value.offset, value.length)
    encode_locker4(enc, value.locker)


def decode_LOCK4args(dec: Decoder) -> LOCK4args:
    group_values = dec.take(_LAYOUT_63, "LOCK4args.locktype..length")
    locktype_ = _nfs_lock_type4_BY_VALUE.get(group_values[0])
    if locktype_ is None:
        raise DecodeError(
            "LOCK4args.locktype", dec.pos - dec.start - 24, "a value of enum nfs_lock_type4", str(group_values[0])
        )
    if group_values[1] > 1:
        raise DecodeError("LOCK4args.reclaim", dec.pos - dec.start - 20, "0 or 1", str(group_values[1]))
    locker_ = decode_locker4(dec)
    return LOCK4args(locktype_, group_values[1] == 1, group_values[2], group_values[3], locker_)


def encode_LOCK4resok(enc: Encoder, value: LOCK4resok) -> None:
    enc.put(
        _LAYOUT_64, value.lock_stateid.seqid, enc.exactly(value.lock_stateid.other, 12, "LOCK4resok.lock_stateid.other")
    )


def decode_LOCK4resok(dec: Decoder) -> LOCK4resok:
    group_values = dec.take(_LAYOUT_64, "LOCK4resok.lock_stateid.seqid..lock_stateid.other")
    return LOCK4resok(stateid4(group_values[0], group_values[1]))


def encode_LOCK4denied(enc: Encoder, value: LOCK4denied) -> None:
    if value.locktype not in _nfs_lock_type4_BY_VALUE:
        raise LocalProtocolError(f"LOCK4denied.locktype: {value.locktype!r} is no value of enum nfs_lock_type4")
    enc.put(_LAYOUT_65, value.offset, value.length, value.locktype)
    encode_state_owner4(enc, value.owner)


def decode_LOCK4denied(dec: Decoder) -> LOCK4denied:
    group_values = dec.take(_LAYOUT_65, "LOCK4denied.offset..locktype")
    locktype_ = _nfs_lock_type4_BY_VALUE.get(group_values[2])
    if locktype_ is None:
        raise DecodeError(
            "LOCK4denied.locktype", dec.pos - dec.start - 4, "a value of enum nfs_lock_type4", str(group_values[2])
        )
    owner_ = decode_state_owner4(dec)
    return LOCK4denied(group_values[0], group_values[1], locktype_, owner_)


def encode_LOCKT4args(enc: Encoder, value: LOCKT4args) -> None:
    if value.locktype not in _nfs_lock_type4_BY_VALUE:
        raise LocalProtocolError(f"LOCKT4args.locktype: {value.locktype!r} is no value of enum nfs_lock_type4")
    enc.put(_LAYOUT_66, value.locktype, value.offset, value.length)
    encode_state_owner4(enc, value.owner)


def decode_LOCKT4args(dec: Decoder) -> LOCKT4args:
    group_values = dec.take(_LAYOUT_66, "LOCKT4args.locktype..length")
    locktype_ = _nfs_lock_type4_BY_VALUE.get(group_values[0])
    if locktype_ is None:
        raise DecodeError(
            "LOCKT4args.locktype", dec.pos - dec.start - 20, "a value of enum nfs_lock_type4", str(group_values[0])
        )
    owner_ = decode_state_owner4(dec)
    return LOCKT4args(locktype_, group_values[1], group_values[2], owner_)


def encode_LOCKU4args(enc: Encoder, value: LOCKU4args) -> None:
    if value.locktype not in _nfs_lock_type4_BY_VALUE:
        raise LocalProtocolError(f"LOCKU4args.locktype: {value.locktype!r} is no value of enum nfs_lock_type4")
    enc.put(
        _LAYOUT_67,
        value.locktype,
        value.seqid,
        value.lock_stateid.seqid,
        enc.exactly(value.lock_stateid.other, 12, "LOCKU4args.lock_stateid.other"),
        value.offset,
        value.length,
    )


def decode_LOCKU4args(dec: Decoder) -> LOCKU4args:
    group_values = dec.take(_LAYOUT_67, "LOCKU4args.locktype..length")
    locktype_ = _nfs_lock_type4_BY_VALUE.get(group_values[0])
    if locktype_ is None:
        raise DecodeError(
            "LOCKU4args.locktype", dec.pos - dec.start - 40, "a value of enum nfs_lock_type4", str(group_values[0])
        )
    return LOCKU4args(
        locktype_, group_values[1], stateid4(group_values[2], group_values[3]), group_values[4], group_values[5]
    )


def encode_CB_RECALL4args(enc: Encoder, value: CB_RECALL4args) -> None:
    if value.truncate not in {0, 1}:
        raise LocalProtocolError(f"CB_RECALL4args.truncate: {value.truncate!r} is no bool")
    enc.put(
        _LAYOUT_68,
        value.stateid.seqid,
        enc.exactly(value.stateid.other, 12, "CB_RECALL4args.stateid.other"),
        value.truncate,
    )
    enc.opaque(value.fh, 128, "CB_RECALL4args.fh")


def decode_CB_RECALL4args(dec: Decoder) -> CB_RECALL4args:
    group_values = dec.take(_LAYOUT_68, "CB_RECALL4args.stateid.seqid..truncate")
    if group_values[2] > 1:
        raise DecodeError("CB_RECALL4args.truncate", dec.pos - dec.start - 4, "0 or 1", str(group_values[2]))
    fh_ = dec.opaque(128, "CB_RECALL4args.fh")
    return CB_RECALL4args(stateid4(group_values[0], group_values[1]), group_values[2] == 1, fh_)


def encode_referring_call4(enc: Encoder, value: referring_call4) -> None:
    enc.put(_LAYOUT_69, value.rc_sequenceid, value.rc_slotid)


def decode_referring_call4(dec: Decoder) -> referring_call4:
    group_values = dec.take(_LAYOUT_69, "referring_call4.rc_sequenceid..rc_slotid")
    return referring_call4(group_values[0], group_values[1])


def encode_referring_call_list4(enc: Encoder, value: referring_call_list4) -> None:
    enc.fixed(value.rcl_sessionid, 16, "referring_call_list4.rcl_sessionid")
    enc.count(len(value.rcl_referring_calls), 64, "referring_call_list4.rcl_referring_calls")
    for list_item in value.rcl_referring_calls:
        encode_referring_call4(enc, list_item)


def decode_referring_call_list4(dec: Decoder) -> referring_call_list4:
    rcl_sessionid_ = dec.fixed(16, "referring_call_list4.rcl_sessionid")
    rcl_referring_calls_ = [
        decode_referring_call4(dec) for _ in range(dec.count(64, "referring_call_list4.rcl_referring_calls"))
    ]
    return referring_call_list4(rcl_sessionid_, rcl_referring_calls_)


def encode_CB_SEQUENCE4args(enc: Encoder, value: CB_SEQUENCE4args) -> None:
    if value.csa_cachethis not in {0, 1}:
        raise LocalProtocolError(f"CB_SEQUENCE4args.csa_cachethis: {value.csa_cachethis!r} is no bool")
    enc.put(
        _LAYOUT_70,
        enc.exactly(value.csa_sessionid, 16, "CB_SEQUENCE4args.csa_sessionid"),
        value.csa_sequenceid,
        value.csa_slotid,
        value.csa_highest_slotid,
        value.csa_cachethis,
    )
    enc.count(len(value.csa_referring_call_lists), 64, "CB_SEQUENCE4args.csa_referring_call_lists")
    for list_item in value.csa_referring_call_lists:
        encode_referring_call_list4(enc, list_item)


def decode_CB_SEQUENCE4args(dec: Decoder) -> CB_SEQUENCE4args:
    group_values = dec.take(_LAYOUT_70, "CB_SEQUENCE4args.csa_sessionid..csa_cachethis")
    if group_values[4] > 1:
        raise DecodeError("CB_SEQUENCE4args.csa_cachethis", dec.pos - dec.start - 4, "0 or 1", str(group_values[4]))
    csa_referring_call_lists_ = [
        decode_referring_call_list4(dec) for _ in range(dec.count(64, "CB_SEQUENCE4args.csa_referring_call_lists"))
    ]
    return CB_SEQUENCE4args(
        group_values[0],
        group_values[1],
        group_values[2],
        group_values[3],
        group_values[4] == 1,
        csa_referring_call_lists_,
    )


def encode_CB_SEQUENCE4resok(enc: Encoder, value: CB_SEQUENCE4resok) -> None:
    enc.put(
        _LAYOUT_71,
        enc.exactly(value.csr_sessionid, 16, "CB_SEQUENCE4resok.csr_sessionid"),
        value.csr_sequenceid,
        value.csr_slotid,
        value.csr_highest_slotid,
        value.csr_target_highest_slotid,
    )


def decode_CB_SEQUENCE4resok(dec: Decoder) -> CB_SEQUENCE4resok:
    group_values = dec.take(_LAYOUT_71, "CB_SEQUENCE4resok.csr_sessionid..csr_target_highest_slotid")
    return CB_SEQUENCE4resok(group_values[0], group_values[1], group_values[2], group_values[3], group_values[4])


def encode_CB_SEQUENCE4res(enc: Encoder, value: CB_SEQUENCE4res) -> None:
    tag = value.csr_status
    arm_value: Any = value.value
    if tag == 0:
        enc.reduced += b"\x00\x00\x00\x00"
        if not isinstance(arm_value, CB_SEQUENCE4resok):
            raise LocalProtocolError(
                f"CB_SEQUENCE4res.csr_resok4: {type(arm_value).__name__} given, the arm is CB_SEQUENCE4resok"
            )
        encode_CB_SEQUENCE4resok(enc, arm_value)
        return
    encode_nfsstat4(enc, tag, "CB_SEQUENCE4res.csr_status")
    if arm_value is not None:
        raise LocalProtocolError(f"CB_SEQUENCE4res: {type(arm_value).__name__} given, the arm is void")


def decode_CB_SEQUENCE4res(dec: Decoder) -> CB_SEQUENCE4res:
    wire_value = dec.u32("CB_SEQUENCE4res.csr_status")
    tag = _nfsstat4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "CB_SEQUENCE4res.csr_status", dec.pos - dec.start - 4, "a value of enum nfsstat4", str(wire_value)
        )
    if tag == 0:
        return CB_SEQUENCE4res(tag, decode_CB_SEQUENCE4resok(dec))
    return CB_SEQUENCE4res(tag, None)


def encode_nfs_cb_argop4(enc: Encoder, value: nfs_cb_argop4) -> None:
    tag = value.argop
    arm_value: Any = value.value
    if tag == 4:
        enc.reduced += b"\x00\x00\x00\x04"
        if not isinstance(arm_value, CB_RECALL4args):
            raise LocalProtocolError(
                f"nfs_cb_argop4.opcbrecall: {type(arm_value).__name__} given, the arm is CB_RECALL4args"
            )
        encode_CB_RECALL4args(enc, arm_value)
        return
    if tag == 11:
        enc.reduced += b"\x00\x00\x00\x0b"
        if not isinstance(arm_value, CB_SEQUENCE4args):
            raise LocalProtocolError(
                f"nfs_cb_argop4.opcbsequence: {type(arm_value).__name__} given, the arm is CB_SEQUENCE4args"
            )
        encode_CB_SEQUENCE4args(enc, arm_value)
        return
    if tag == 10044:
        enc.reduced += b"\x00\x00\x27\x3c"
        if arm_value is not None:
            raise LocalProtocolError(f"nfs_cb_argop4: {type(arm_value).__name__} given, the arm is void")
        return
    raise LocalProtocolError(f"nfs_cb_argop4.argop: {tag!r} is no case of union nfs_cb_argop4")


def decode_nfs_cb_argop4(dec: Decoder) -> nfs_cb_argop4:
    wire_value = dec.u32("nfs_cb_argop4.argop")
    tag = _nfs_cb_opnum4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "nfs_cb_argop4.argop", dec.pos - dec.start - 4, "a value of enum nfs_cb_opnum4", str(wire_value)
        )
    if tag == 4:
        return nfs_cb_argop4(tag, decode_CB_RECALL4args(dec))
    if tag == 11:
        return nfs_cb_argop4(tag, decode_CB_SEQUENCE4args(dec))
    if tag == 10044:
        return nfs_cb_argop4(tag, None)
    raise DecodeError("nfs_cb_argop4.argop", dec.pos - dec.start - 4, "a case of union nfs_cb_argop4", str(int(tag)))


def encode_nfs_cb_resop4(enc: Encoder, value: nfs_cb_resop4) -> None:
    tag = value.resop
    arm_value: Any = value.value
    if tag == 11:
        enc.reduced += b"\x00\x00\x00\x0b"
        if not isinstance(arm_value, CB_SEQUENCE4res):
            raise LocalProtocolError(
                f"nfs_cb_resop4.opcbsequence: {type(arm_value).__name__} given, the arm is CB_SEQUENCE4res"
            )
        encode_CB_SEQUENCE4res(enc, arm_value)
        return
    if tag in {4, 10044}:
        enc.u32(tag, "nfs_cb_resop4.resop")
        encode_nfsstat4(enc, arm_value, "nfs_cb_resop4.status")
        return
    raise LocalProtocolError(f"nfs_cb_resop4.resop: {tag!r} is no case of union nfs_cb_resop4")


def decode_nfs_cb_resop4(dec: Decoder) -> nfs_cb_resop4:
    wire_value = dec.u32("nfs_cb_resop4.resop")
    tag = _nfs_cb_opnum4_BY_VALUE.get(wire_value)
    if tag is None:
        raise DecodeError(
            "nfs_cb_resop4.resop", dec.pos - dec.start - 4, "a value of enum nfs_cb_opnum4", str(wire_value)
        )
    if tag == 11:
        return nfs_cb_resop4(tag, decode_CB_SEQUENCE4res(dec))
    if tag in {4, 10044}:
        return nfs_cb_resop4(tag, decode_nfsstat4(dec, "nfs_cb_resop4.status"))
    raise DecodeError("nfs_cb_resop4.resop", dec.pos - dec.start - 4, "a case of union nfs_cb_resop4", str(int(tag)))


def encode_CB_COMPOUND4args(enc: Encoder, value: CB_COMPOUND4args) -> None:
    enc.opaque(value.tag, 1024, "CB_COMPOUND4args.tag")
    enc.put(_LAYOUT_72, value.minorversion, value.callback_ident)
    enc.count(len(value.argarray), 2, "CB_COMPOUND4args.argarray")
    for list_item in value.argarray:
        encode_nfs_cb_argop4(enc, list_item)


def decode_CB_COMPOUND4args(dec: Decoder) -> CB_COMPOUND4args:
    tag_ = dec.opaque(1024, "CB_COMPOUND4args.tag")
    group_values1 = dec.take(_LAYOUT_72, "CB_COMPOUND4args.minorversion..callback_ident")
    argarray_ = [decode_nfs_cb_argop4(dec) for _ in range(dec.count(2, "CB_COMPOUND4args.argarray"))]
    return CB_COMPOUND4args(tag_, group_values1[0], group_values1[1], argarray_)


def encode_CB_COMPOUND4res(enc: Encoder, value: CB_COMPOUND4res) -> None:
    encode_nfsstat4(enc, value.status, "CB_COMPOUND4res.status")
    enc.opaque(value.tag, 1024, "CB_COMPOUND4res.tag")
    enc.count(len(value.resarray), 2, "CB_COMPOUND4res.resarray")
    for list_item in value.resarray:
        encode_nfs_cb_resop4(enc, list_item)


def decode_CB_COMPOUND4res(dec: Decoder) -> CB_COMPOUND4res:
    wire_value = dec.u32("CB_COMPOUND4res.status")
    status_ = _nfsstat4_BY_VALUE.get(wire_value)
    if status_ is None:
        raise DecodeError(
            "CB_COMPOUND4res.status", dec.pos - dec.start - 4, "a value of enum nfsstat4", str(wire_value)
        )
    tag_ = dec.opaque(1024, "CB_COMPOUND4res.tag")
    resarray_ = [decode_nfs_cb_resop4(dec) for _ in range(dec.count(2, "CB_COMPOUND4res.resarray"))]
    return CB_COMPOUND4res(status_, tag_, resarray_)


def encode_nfs_fh4(enc: Encoder, value: nfs_fh4) -> None:
    enc.opaque(value, 128, "nfs_fh4")


def decode_nfs_fh4(dec: Decoder) -> nfs_fh4:
    return dec.opaque(128, "nfs_fh4")


def encode_verifier4(enc: Encoder, value: verifier4) -> None:
    enc.fixed(value, 8, "verifier4")


def decode_verifier4(dec: Decoder) -> verifier4:
    return dec.fixed(8, "verifier4")


def encode_sessionid4(enc: Encoder, value: sessionid4) -> None:
    enc.fixed(value, 16, "sessionid4")


def decode_sessionid4(dec: Decoder) -> sessionid4:
    return dec.fixed(16, "sessionid4")


def encode_component4(enc: Encoder, value: component4) -> None:
    enc.opaque(value, 1024, "component4")


def decode_component4(dec: Decoder) -> component4:
    return dec.opaque(1024, "component4")


def encode_linktext4(enc: Encoder, value: linktext4) -> None:
    enc.opaque(value, 4096, "linktext4")


def decode_linktext4(dec: Decoder) -> linktext4:
    return dec.opaque(4096, "linktext4")


def encode_utf8str_cs(enc: Encoder, value: utf8str_cs) -> None:
    enc.opaque(value, 1024, "utf8str_cs")


def decode_utf8str_cs(dec: Decoder) -> utf8str_cs:
    return dec.opaque(1024, "utf8str_cs")


def encode_sec_oid4(enc: Encoder, value: sec_oid4) -> None:
    enc.opaque(value, 1024, "sec_oid4")


def decode_sec_oid4(dec: Decoder) -> sec_oid4:
    return dec.opaque(1024, "sec_oid4")


def encode_gsshandle4_t(enc: Encoder, value: gsshandle4_t) -> None:
    enc.opaque(value, 1024, "gsshandle4_t")


def decode_gsshandle4_t(dec: Decoder) -> gsshandle4_t:
    return dec.opaque(1024, "gsshandle4_t")


def encode_bitmap4(enc: Encoder, value: bitmap4) -> None:
    enc.count(len(value), 8, "bitmap4")
    enc.numbers("I", value, "bitmap4")


def decode_bitmap4(dec: Decoder) -> bitmap4:
    value: bitmap4 = dec.numbers("I", dec.count(8, "bitmap4"), "bitmap4")
    return value


def encode_clientid4(enc: Encoder, value: clientid4) -> None:
    enc.put(_LAYOUT_73, value)


def decode_clientid4(dec: Decoder) -> clientid4:
    return dec.u64("clientid4")


def encode_seqid4(enc: Encoder, value: seqid4) -> None:
    enc.u32(value, "seqid4")


def decode_seqid4(dec: Decoder) -> seqid4:
    return dec.u32("seqid4")


def encode_sequenceid4(enc: Encoder, value: sequenceid4) -> None:
    enc.u32(value, "sequenceid4")


def decode_sequenceid4(dec: Decoder) -> sequenceid4:
    return dec.u32("sequenceid4")


def encode_slotid4(enc: Encoder, value: slotid4) -> None:
    enc.u32(value, "slotid4")


def decode_slotid4(dec: Decoder) -> slotid4:
    return dec.u32("slotid4")


def encode_count4(enc: Encoder, value: count4) -> None:
    enc.u32(value, "count4")


def decode_count4(dec: Decoder) -> count4:
    return dec.u32("count4")


def encode_offset4(enc: Encoder, value: offset4) -> None:
    enc.put(_LAYOUT_74, value)


def decode_offset4(dec: Decoder) -> offset4:
    return dec.u64("offset4")


def encode_length4(enc: Encoder, value: length4) -> None:
    enc.put(_LAYOUT_75, value)


def decode_length4(dec: Decoder) -> length4:
    return dec.u64("length4")


def encode_changeid4(enc: Encoder, value: changeid4) -> None:
    enc.put(_LAYOUT_76, value)


def decode_changeid4(dec: Decoder) -> changeid4:
    return dec.u64("changeid4")


def encode_nfs_cookie4(enc: Encoder, value: nfs_cookie4) -> None:
    enc.put(_LAYOUT_77, value)


def decode_nfs_cookie4(dec: Decoder) -> nfs_cookie4:
    return dec.u64("nfs_cookie4")


def encode_xattrkey4(enc: Encoder, value: xattrkey4) -> None:
    enc.opaque(value, 1024, "xattrkey4")


def decode_xattrkey4(dec: Decoder) -> xattrkey4:
    return dec.opaque(1024, "xattrkey4")


def encode_xattrvalue4(enc: Encoder, value: xattrvalue4) -> None:
    enc.opaque(value, 4194304, "xattrvalue4")


def decode_xattrvalue4(dec: Decoder) -> xattrvalue4:
    return dec.opaque(4194304, "xattrvalue4")


def _encode_void(_enc: Encoder, _value: None) -> None:
    """Void: nothing to write."""


def _decode_void(_dec: Decoder) -> None:
    """Void: nothing to read."""


NFSPROC4_NULL: Final[Procedure[None, None]] = Procedure(
    program=100003,
    version=4,
    number=0,
    name="NFSPROC4_NULL",
    method="null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
NULL: Final = NFSPROC4_NULL

NFS_V4: Final = Program(
    number=100003,
    version=4,
    name="NFS_V4",
    procedures={
        0: NFSPROC4_NULL,
    },
)


class _NFS_V4_Methods:
    null = VoidCallMethod(NFSPROC4_NULL)


class NFS_V4_Client(_NFS_V4_Methods, ClientStub):
    """Calls the procedures of NFS4_PROGRAM version 4 through a `Caller`, and awaits them."""


class NFS_V4_SyncClient(_NFS_V4_Methods, SyncClientStub):
    """Calls the procedures of NFS4_PROGRAM version 4 through a connection of `rpcrdma.sync`."""


class NFS_V4_Service(Service):
    """Base of services for NFS4_PROGRAM version 4: override the procedures to offer."""

    PROGRAM = NFS_V4

    def null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers NFSPROC4_NULL."""
        return None


CB_NULL: Final[Procedure[None, None]] = Procedure(
    program=1073741824,
    version=1,
    number=0,
    name="CB_NULL",
    method="cb_null",
    encode_args=_encode_void,
    decode_args=_decode_void,
    encode_result=_encode_void,
    decode_result=_decode_void,
    bound=ReplyBound(0),
    octets_max=OctetsMax(0, 0, 0),
)
CB_COMPOUND: Final[Procedure[CB_COMPOUND4args, CB_COMPOUND4res]] = Procedure(
    program=1073741824,
    version=1,
    number=1,
    name="CB_COMPOUND",
    method="cb_compound",
    encode_args=encode_CB_COMPOUND4args,
    decode_args=decode_CB_COMPOUND4args,
    encode_result=encode_CB_COMPOUND4res,
    decode_result=decode_CB_COMPOUND4res,
    bound=ReplyBound(1116),
    octets_max=OctetsMax(69216, 0, 1116),
)

NFS_CB: Final = Program(
    number=1073741824,
    version=1,
    name="NFS_CB",
    procedures={
        0: CB_NULL,
        1: CB_COMPOUND,
    },
)


class _NFS_CB_Methods:
    cb_null = VoidCallMethod(CB_NULL)
    cb_compound = CallMethod(CB_COMPOUND)


class NFS_CB_Client(_NFS_CB_Methods, ClientStub):
    """Calls the procedures of NFS4_CALLBACK version 1 through a `Caller`, and awaits them."""


class NFS_CB_SyncClient(_NFS_CB_Methods, SyncClientStub):
    """Calls the procedures of NFS4_CALLBACK version 1 through a connection of `rpcrdma.sync`."""


class NFS_CB_Service(Service):
    """Base of services for NFS4_CALLBACK version 1: override the procedures to offer."""

    PROGRAM = NFS_CB

    def cb_null(self, args: None, context: CallContext) -> Awaitable[None] | None:
        """Answers CB_NULL."""
        return None

    def cb_compound(self, args: CB_COMPOUND4args, context: CallContext) -> Awaitable[CB_COMPOUND4res] | CB_COMPOUND4res:
        """Answers CB_COMPOUND."""
        raise ProcedureUnavailable("CB_COMPOUND")
