"""An XID that comes again with another call: the server answers the new call, and not from memory."""

from __future__ import annotations

import random
import secrets
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.nfs import mount, v3
from rpcrdma.nfs.server import Export, build_services, open_state
from rpcrdma.rpc.auth import AuthNone, AuthSys, Credential

pytestmark = pytest.mark.thorough

SIZE = 40_001
FIRST = random.Random(1).randbytes(SIZE)
XID = 0x0D15EA5E


@pytest.mark.parametrize("scheme", ["rdma", "tcp"])
@pytest.mark.parametrize(
    ("credential", "changed"),
    [
        (AuthNone(), 5000),
        (AuthNone(), SIZE // 2),
        (AuthNone(), SIZE - 1),
        # As `rpcrdma.connect` makes them: the ends of the data are looked at.
        (AuthSys(stamp=7, uid=0, gid=0), 0),
        (AuthSys(stamp=7, uid=0, gid=0), SIZE - 1),
    ],
)
async def test_a_write_with_a_used_xid_and_other_data_is_carried_out(
    tmp_path: Path, scheme: str, credential: Credential, changed: int
) -> None:
    """Same client, XID, file, offset and length, from another connection; one octet differs."""
    top = tmp_path / "export"
    top.mkdir()
    (top / "file").touch()
    second = bytearray(FIRST)
    second[changed] ^= 0xFF
    state = open_state(tmp_path / "state", secrets.token_bytes)
    export = Export(name="/", directory=top, root_squash=False, synchronous=False)
    services = build_services([export], state=state)
    async with serve(services, [f"{scheme}://127.0.0.1:0", "tcp://127.0.0.1:0"]) as server:
        async with connect(server.listening[1], mount.PROGRAM) as connection:
            root = (await connection.call(mount.MNT, "/")).value.fhandle
        # The user of this process may write to its files, whether it is root or not.
        options = ConnectOptions(credential=credential, reconnect=False)
        (top / "file").chmod(0o666)
        top.chmod(0o777)

        async def put(data: bytes | bytearray) -> v3.WRITE3res:
            async with connect(server.listening[0], v3.PROGRAM, options=options) as connection:
                where = v3.diropargs3(dir=v3.nfs_fh3(data=root), name="file")
                found = await connection.call(v3.LOOKUP, v3.LOOKUP3args(what=where))
                args = v3.WRITE3args(found.value.object, 0, SIZE, v3.stable_how.FILE_SYNC, data)
                line: Any = connection._present
                result: v3.WRITE3res = await line.call(v3.WRITE, args, xid=XID)
                return result

        for data in (FIRST, second):
            written = await put(data)
            assert written.status == v3.nfsstat3.NFS3_OK
            assert (top / "file").read_bytes() == data
        # A call that is equal in everything is a repeat, and answered from memory.
        (top / "file").write_bytes(b"")
        assert (await put(second)).status == v3.nfsstat3.NFS3_OK
        assert (top / "file").read_bytes() == b""
    services.nfs.close()
    state.close()
