"""Our client calls every procedure of NFSv3 and MOUNT at the kernel's server; commands in the guest check results."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from guest import Guest
from kernel_export import KEEP, Export, connected_export, equal, ok
from kernel_server import EXPORT
from lab import Lab, check

import rpcrdma
from rpcrdma.aio.client.connect import connect, own_credential
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs import mount, v3
from rpcrdma.nfs.client.mount_client import list_exports
from rpcrdma.nfs.v3 import createhow3, createmode3, ftype3, nfsstat3, stable_how

__all__: list[str] = []

_HOME = f"{EXPORT}/procedures"
_ALL_ACCESS = 0x3F
_NO_GUARD = v3.sattrguard3(False, None)
_KINDS = {
    "regular file": ftype3.NF3REG,
    "directory": ftype3.NF3DIR,
    "symbolic link": ftype3.NF3LNK,
    "fifo": ftype3.NF3FIFO,
}


def said(server: Guest, script: str) -> str:
    """The output of a script that runs in the exported directory."""
    return server.run(f"set -e; cd {_HOME}\n{script}").output.strip()


@check(quick=True)
def every_procedure_of_mount(lab: Lab) -> None:
    asyncio.run(_mount_procedures(lab.server))


async def _mount_procedures(server: Guest) -> None:
    async with await TcpConnection.connect(
        server.address, 20048, own_credential(), timeout_s=10.0 * server.pace
    ) as caller:
        client = mount.MOUNT_V3_Client(caller)
        await client.null()
        equal("exports", [(entry.ex_dir) for entry in await client.export()], [EXPORT])
        mounted = await client.mnt(EXPORT)
        equal("status of MNT", mounted.fhs_status, mount.mountstat3.MNT3_OK)
        refused = await client.mnt("/nothing/here")
        if refused.fhs_status is mount.mountstat3.MNT3_OK:
            equal("status of MNT of nothing", refused.fhs_status, "an error")
        await client.dump()
        await client.umnt(EXPORT)
        await client.umntall()


@check()
def exports_listed_by_version_4(lab: Lab) -> None:
    """The exports of nfsd are found by version 4, since it does not offer MOUNT at the same port."""
    below, terms = f"{EXPORT}/pseudo/below", "/etc/exports.d/below.exports"
    # A root of its own, without files: it is a directory above exports.
    lab.server.run(
        f"set -e; mount -t tmpfs none {EXPORT}; mkdir -p {below} /etc/exports.d; mount -t tmpfs none {below}\n"
        f"echo '{below} *(ro,insecure,no_subtree_check,fsid=25,sec=sys)' >{terms}; exportfs -ra; exportfs -f"
    )
    for url in (f"rdma://{lab.server.address}:20049", f"tcp://{lab.server.address}:2049"):
        found = asyncio.run(list_exports(parse_url(url), rpcrdma.ConnectOptions(connect_timeout_s=60.0)))
        equal(f"exports of {url}", [(each.name, each.clients) for each in found], [("/pseudo/below", None)])
    lab.server.run(f"rm {terms}; exportfs -ra; exportfs -f; umount {below}; umount {EXPORT}; exportfs -f")


@check(quick=True)
def every_procedure_of_nfs3(lab: Lab) -> None:
    asyncio.run(_procedures(lab.server))


async def _procedures(server: Guest) -> None:
    async with connected_export(server, "procedures") as export:
        await export.nfs.null()
        await _files(server, export)
        await _names(server, export)
        await _listings(server, export)
        await _file_system(server, export)


async def _files(server: Guest, export: Export) -> None:
    """CREATE in its three modes, GETATTR, SETATTR, WRITE in its three kinds, COMMIT, READ."""
    nfs = export.nfs
    plain = await export.create("plain")
    with_mode = replace(KEEP, mode=v3.set_mode3(True, 0o640))
    args = v3.CREATE3args(export.at("plain"), createhow3(createmode3.GUARDED, with_mode))
    equal("CREATE of what exists", (await nfs.create(args)).status, nfsstat3.NFS3ERR_EXIST)
    args = v3.CREATE3args(export.at("unchecked"), createhow3(createmode3.UNCHECKED, with_mode))
    ok(await nfs.create(args))
    ok(await nfs.create(args))
    args = v3.CREATE3args(export.at("exclusive"), createhow3(createmode3.EXCLUSIVE, b"verifier"))
    first, again = ok(await nfs.create(args)), ok(await nfs.create(args))
    equal("handle of the second exclusive CREATE", again.obj, first.obj)
    equal("mode", said(server, "stat -c %a unchecked"), "640")

    pieces = [
        (0, b"unstable ", stable_how.UNSTABLE),
        (9, b"data ", stable_how.DATA_SYNC),
        (14, b"file", stable_how.FILE_SYNC),
    ]
    for offset, data, stable in pieces:
        written = ok(await nfs.write(v3.WRITE3args(plain, offset, len(data), stable, data)))
        equal("count of WRITE", written.count, len(data))
        if written.committed < stable:
            equal("stability of WRITE", written.committed, stable)
    committed = ok(await nfs.commit(v3.COMMIT3args(plain, 0, 0)))
    equal("verifier of COMMIT", committed.verf, written.verf)
    equal("content", said(server, "cat plain"), "unstable data file")
    read = ok(await nfs.read(v3.READ3args(plain, 9, 100)))
    equal("READ", (bytes(read.data), read.eof, read.count), (b"data file", True, 9))
    read = ok(await nfs.read(v3.READ3args(plain, 9, 4)))
    equal("READ within", (bytes(read.data), read.eof), (b"data", False))

    changed = v3.sattr3(
        v3.set_mode3(True, 0o4751),
        v3.set_uid3(True, 1000),
        v3.set_gid3(True, 65534),
        v3.set_size3(True, 10),
        v3.set_atime(v3.time_how.SET_TO_SERVER_TIME, None),
        v3.set_mtime(v3.time_how.SET_TO_CLIENT_TIME, v3.nfstime3(981173106, 123456789)),
    )
    ok(await nfs.setattr(v3.SETATTR3args(plain, changed, _NO_GUARD)))
    # Linux takes set-user-id away when the owner changes, so the mode is set again.
    ok(await nfs.setattr(v3.SETATTR3args(plain, replace(KEEP, mode=changed.mode), _NO_GUARD)))
    stale = v3.sattrguard3(True, v3.nfstime3(1, 0))
    equal("guarded SETATTR", (await nfs.setattr(v3.SETATTR3args(plain, KEEP, stale))).status, nfsstat3.NFS3ERR_NOT_SYNC)
    told = ok(await nfs.getattr(v3.GETATTR3args(plain))).obj_attributes
    mine = f"{told.mode:o} {told.nlink} {told.uid} {told.gid} {told.size} {told.fileid} {told.ctime.seconds}"
    equal("attributes", mine, said(server, "stat -c '%a %h %u %g %s %i %Z' plain"))
    equal("mtime", (told.mtime.seconds, told.mtime.nseconds), (981173106, 123456789))


async def _names(server: Guest, export: Export) -> None:
    """LOOKUP, MKDIR, SYMLINK, MKNOD, LINK, RENAME, REMOVE, RMDIR, READLINK, ACCESS."""
    nfs = export.nfs
    mode = replace(KEEP, mode=v3.set_mode3(True, 0o711))
    ok(await nfs.mkdir(v3.MKDIR3args(export.at("below"), mode)))
    target = "über/" + "t" * 300
    ok(await nfs.symlink(v3.SYMLINK3args(export.at("link"), v3.symlinkdata3(KEEP, target))))
    ok(await nfs.mknod(v3.MKNOD3args(export.at("pipe"), v3.mknoddata3(ftype3.NF3FIFO, mode))))
    device = v3.mknoddata3(ftype3.NF3CHR, v3.devicedata3(mode, v3.specdata3(1, 3)))
    ok(await nfs.mknod(v3.MKNOD3args(export.at("null"), device)))
    ok(await nfs.link(v3.LINK3args(await export.lookup("plain"), export.at("second"))))
    ok(await nfs.rename(v3.RENAME3args(export.at("second"), v3.diropargs3(await export.lookup("below"), "third name"))))
    equal("link", said(server, "readlink link"), target)
    equal("READLINK", ok(await nfs.readlink(v3.READLINK3args(await export.lookup("link")))).data, target)
    equal("names", said(server, "stat -c '%F %h' plain below/third*"), "regular file 2\nregular file 2")
    equal(
        "others",
        said(server, "stat -c '%F %t:%T' pipe null; stat -c %a below"),
        "fifo 0:0\ncharacter special file 1:3\n711",
    )

    granted = ok(await nfs.access(v3.ACCESS3args(await export.lookup("below"), _ALL_ACCESS)))
    # root may do everything with a directory, but EXECUTE is not defined for one.
    equal("ACCESS", granted.access, _ALL_ACCESS & ~v3.ACCESS3_EXECUTE)
    equal(
        "RMDIR of what is not empty",
        (await nfs.rmdir(v3.RMDIR3args(export.at("below")))).status,
        nfsstat3.NFS3ERR_NOTEMPTY,
    )
    ok(await nfs.remove(v3.REMOVE3args(v3.diropargs3(await export.lookup("below"), "third name"))))
    ok(await nfs.rmdir(v3.RMDIR3args(export.at("below"))))
    for name in ("link", "pipe", "null", "exclusive"):
        ok(await nfs.remove(v3.REMOVE3args(export.at(name))))
    equal("left", said(server, "ls"), "plain\nunchecked")
    gone = await nfs.lookup(v3.LOOKUP3args(export.at("link")))
    equal("LOOKUP of what is gone", gone.status, nfsstat3.NFS3ERR_NOENT)


async def _listings(server: Guest, export: Export) -> None:
    """READDIR and READDIRPLUS, from one page to the next."""
    said(server, "seq 1 400 | sed s,^,a-name-of-some-length-, | xargs touch; ln -s target link; mkdir -p d; mkfifo p")
    lines = said(server, "ls -a | xargs stat -c '%n/%i/%F'").splitlines()
    truth = {name: (int(number), kind) for name, number, kind in (line.split("/") for line in lines)}
    # The parent of the export's root is outside the export: its file id is the server's choice.
    truth[".."] = (0, "directory")
    plain: dict[str, int] = {}
    cookie, verifier, done, pages = 0, bytes(8), False, 0
    while not done:
        page = ok(await export.nfs.readdir(v3.READDIR3args(export.directory, cookie, verifier, 8192)))
        verifier, done, pages = page.cookieverf, page.reply.eof, pages + 1
        plain |= {entry.name: entry.fileid for entry in page.reply.entries}
        cookie = page.reply.entries[-1].cookie
    equal("pages of READDIR are several", pages > 1, True)
    equal("READDIR", {**plain, "..": 0}, {name: number for name, (number, _) in truth.items()})
    full: dict[str, tuple[int, str]] = {}
    cookie, verifier, done = 0, bytes(8), False
    while not done:
        page = ok(await export.nfs.readdirplus(v3.READDIRPLUS3args(export.directory, cookie, verifier, 8192, 32768)))
        verifier, done = page.cookieverf, page.reply.eof
        for entry in page.reply.entries:
            attributes = entry.name_attributes.value
            if attributes is not None:
                equal("number of an entry", attributes.fileid, entry.fileid)
                kind = next(kind for kind, number in _KINDS.items() if number is attributes.type)
                full[entry.name] = (
                    entry.fileid,
                    "regular empty file" if kind == "regular file" and not attributes.size else kind,
                )
        cookie = page.reply.entries[-1].cookie
    del truth[".."]
    full.pop("..", None)
    equal("READDIRPLUS", full, truth)


async def _file_system(server: Guest, export: Export) -> None:
    """FSSTAT, FSINFO, PATHCONF."""
    stat = ok(await export.nfs.fsstat(v3.FSSTAT3args(export.directory)))
    blocks, block, files = map(int, said(server, "stat -f -c '%b %S %c' .").split())
    equal("FSSTAT", (stat.tbytes, stat.tfiles), (blocks * block, files))
    info = ok(await export.nfs.fsinfo(v3.FSINFO3args(export.directory)))
    equal("FSINFO", (info.rtmax, info.wtmax), (info.rtmax, info.rtmax))
    conf = ok(await export.nfs.pathconf(v3.PATHCONF3args(export.directory)))
    equal("PATHCONF", (conf.name_max, conf.case_preserving), (255, True))


@check(quick=True)
def hundred_connections(lab: Lab) -> None:
    """No first call hangs, although siw may overlook a message that comes before it has taken up the connection."""
    asyncio.run(_connections(lab.server))


async def _connections(server: Guest) -> None:
    for _ in range(100):
        async with connect(f"rdma://{server.address}", v3.NFS_V3) as connection:
            await connection.call(v3.NULL, None, timeout_s=2.0 * server.pace)
