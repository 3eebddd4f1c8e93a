"""The definition of COMPOUND for tools has every operation, with the types of the codecs."""

from __future__ import annotations

from rpcrdma.commands.definition import own_definition_text
from rpcrdma.nfs.v4.compounds import encode_operation_result
from rpcrdma.nfs.v4.nfs4 import LOCK4denied, SETATTR4resok, nfs_lock_type4, nfs_opnum4, nfsstat4, state_owner4
from rpcrdma.nfs.v4.operations import OPERATIONS
from rpcrdma.xdr.codec import Encoder
from rpcrdma_lab.dissect.rpc_body import Interfaces, Part

COMPOUND = (100003, 4, 1)


def known() -> Interfaces:
    interfaces = Interfaces()
    interfaces.add(own_definition_text("nfs4.x"), "nfs4.x")
    return interfaces


def test_results_are_read_with_the_values_of_failures() -> None:
    denied = LOCK4denied(1, 2, nfs_lock_type4.WRITE_LT, state_owner4(3, b"owner"))
    results = [
        (nfs_opnum4.OP_PUTFH, nfsstat4.NFS4_OK, None),
        (nfs_opnum4.OP_LOCK, nfsstat4.NFS4ERR_DENIED, denied),
        (nfs_opnum4.OP_SETATTR, nfsstat4.NFS4ERR_INVAL, SETATTR4resok([5])),
        (nfs_opnum4.OP_WRITE_SAME, nfsstat4.NFS4ERR_NOTSUPP, None),
    ]
    enc = Encoder()
    enc.reduced += nfsstat4.NFS4ERR_NOTSUPP.to_bytes(4, "big") + bytes(4) + len(results).to_bytes(4, "big")
    for number, status, value in results:
        encode_operation_result(enc, OPERATIONS[2][number], status, value)
    body = known().body(COMPOUND, Part.RESULTS, bytes(enc.reduced), 0, (), whole=True)
    assert body is not None
    assert body.remark == ""
    shown = [each.shown for each in body.group.walk() if each.name == "status"]
    assert shown == [
        "10004 (NFS4ERR_NOTSUPP)",
        "0 (NFS4_OK)",
        "10010 (NFS4ERR_DENIED)",
        "22 (NFS4ERR_INVAL)",
        "10004 (NFS4ERR_NOTSUPP)",
    ]
