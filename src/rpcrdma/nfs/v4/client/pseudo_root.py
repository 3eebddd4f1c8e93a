"""The exports of a server of NFS version 4, which has them in one tree of names (RFC 8881 section 7).

Directories above exports are of the file system of the root, and each export is of another one. A root that is empty,
or has objects other than directories, is no such directory but exported itself. A directory below it that has such
objects is none either: it is a part of the root's file system, is not listed itself, and is read no further than the
page that shows this, since it may be of any size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from operator import attrgetter
from typing import Any, Final, NamedTuple

from rpcrdma.errors import DecodeError
from rpcrdma.limits import EXPORTS_ASKED_MAX, NFS4_PSEUDO_CALLS_MAX
from rpcrdma.nfs.errors import nfs_error
from rpcrdma.nfs.v3 import nfsstat3
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.attributes import bits, bits_of, words
from rpcrdma.nfs.v4.client.session import Called, ClientSession, OperationRefused, session_with
from rpcrdma.nfs.v4.nfs4 import (
    GETATTR4args,
    PUTFH4args,
    READDIR4args,
    READDIR4resok,
    SECINFO4args,
    SECINFO4resok,
    fattr4,
    nfs_ftype4,
    nfs_opnum4,
    nfsstat4,
    secinfo_style4,
)
from rpcrdma.rpc.gss.flavors import KERBEROS_OID, SecurityFlavor
from rpcrdma.rpc.program import Caller
from rpcrdma.xdr.codec import Decoder

__all__ = ["ExportFound", "exports_at", "find_exports"]

_O, _S = nfs_opnum4, nfsstat4
_FSID: Final = bits(nfs4.FATTR4_FSID)
_WANTED: Final = _FSID | bits(nfs4.FATTR4_TYPE, nfs4.FATTR4_RDATTR_ERROR, nfs4.FATTR4_FILEHANDLE)
_CLOSED: Final = {_S.NFS4ERR_ACCESS, _S.NFS4ERR_PERM}
"""The errors that READDIR reports for an export that this client may not use."""
_PAGE_OCTETS: Final = 32 << 10
_ROOT: Final[Called] = (_O.OP_PUTROOTFH, None)


class ExportFound(NamedTuple):
    """An export of a server: its path from the server's root, and the numbers of its security flavors.

    `flavors` are in the server's order of preference. None: the export is closed to this client (NFS4ERR_ACCESS or
    NFS4ERR_PERM in the listing); empty: not known.
    """

    path: bytes
    flavors: tuple[int, ...] | None


class _Seen(NamedTuple):
    """An export in the listing of the directory above it, or the root as an export.

    `path` begins with "/". `error` is the rdattr_error that READDIR reports for the export, an nfsstat4, else 0. `ask`
    are the operations of a COMPOUND whose last one returns the security flavors. For the root, `_seen` returns an
    element with empty `path` and `ask`, which `find_exports` replaces by one with the path "/" and these operations.
    """

    path: bytes
    error: int
    ask: tuple[Called, ...]


class _Object(NamedTuple):
    """The decoded attributes of an object; fields that the server has not sent have their defaults.

    `kind` is a value of `nfs_ftype4` (0: not sent), `fsid` the major and minor number of the file system, and `error`
    the status (nfsstat4) that READDIR reports instead of attributes, else 0.
    """

    kind: int = 0
    fsid: tuple[int, int] | None = None
    error: int = 0
    handle: bytes = b""


async def exports_at(caller: Caller, timeout_s: float) -> list[ExportFound]:
    """Returns path and security flavors of the exports of a server, found by `find_exports` in a session of its own.

    Raises NfsError (NFS3ERR_ACCES) if the server refuses EXCHANGE_ID with NFS4ERR_PERM, as this library's server does
    if no export is open to the host. Raises OperationRefused or ProgramMismatch if the server refuses otherwise or has
    no version 4, and the errors of `rpcrdma.rpc.Caller.call`.

    Args:
        caller: a connection to the server, which stays open.
        timeout_s: the time limit of each call, in seconds.
    """
    try:
        async with session_with(caller, timeout_s) as session:
            return await find_exports(session)
    except OperationRefused as refused:
        if (refused.operation, refused.status) != ("EXCHANGE_ID", _S.NFS4ERR_PERM.name):
            raise
    closed = nfs_error(nfsstat3.NFS3ERR_ACCES, "/")
    closed.add_note("the server admits this host to no export")
    raise closed


async def find_exports(session: ClientSession) -> list[ExportFound]:
    """Returns path and security flavors of the exports of a server, sorted by path, by READDIR from its root down.

    An export is a directory with another fsid than the root, an entry with an rdattr_error, or the root itself ("/") if
    it is empty or has other objects than directories. The root is the only one if no other is found, or if it refuses
    the flavor of this session (NFS4ERR_WRONGSEC). Exports below other exports are not found, nor those beyond
    `NFS4_PSEUDO_CALLS_MAX` (256) READDIRs, nor, for a directory with other objects than directories, those in its
    directories, or beyond the READDIR that shows the first of these objects. Flavors are asked for the first 256
    exports; they are empty for further ones, and where the server refuses to return them. Raises OperationRefused if
    the root, or a directory above exports, cannot be read, or the server refuses a SEQUENCE, DecodeError for attributes
    that were not asked for, and RpcError, CallTimeout, TransportClosed and others as `rpcrdma.rpc.Caller.call`.
    """
    root = _Seen(b"/", 0, (_ROOT, (_O.OP_SECINFO_NO_NAME, secinfo_style4.SECINFO_STYLE4_CURRENT_FH)))
    try:
        _, shown = await session.run(_ROOT, (_O.OP_GETATTR, GETATTR4args(words(_FSID))))
    except OperationRefused as refused:
        if refused.status != _S.NFS4ERR_WRONGSEC.name:
            raise
        seen = [root]
    else:
        seen = await _seen(session, _object(shown.obj_attributes).fsid) or [root]
        if not seen[0].path:
            seen[0] = root
    found = []
    # A server may list a name twice, with operations that have no order.
    for number, each in enumerate(sorted(seen, key=attrgetter("path"))):
        flavors: tuple[int, ...] | None = ()
        # Any other error says nothing of the client: NFS4ERR_DELAY and NFS4ERR_IO may pass.
        if each.error in _CLOSED:
            flavors = None
        elif number < EXPORTS_ASKED_MAX:
            try:
                flavors = _flavors((await session.run(*each.ask))[-1])
            except OperationRefused as refused:
                if refused.operation in {"SEQUENCE", "COMPOUND"}:
                    raise  # the session fails, not the export
        found.append(ExportFound(each.path, flavors))
    return found


async def _seen(session: ClientSession, fsid: tuple[int, int] | None) -> list[_Seen]:
    """Returns the exports found by READDIR in the root and in directories below it on the root's file system, `fsid`.

    `fsid` is (major, minor), None if the server has not sent it. If the root is an export itself, being empty or with
    other objects than directories, the first element stands for it: `path` and `ask` are empty, `error` is 0. The list
    is empty if no export was found. Raises OperationRefused if a directory may not be read, DecodeError for attributes
    that were not asked for, and the errors of `rpcrdma.rpc.Caller.call`.
    """
    found: list[_Seen] = []
    above: deque[tuple[bytes, Called]] = deque([(b"", _ROOT)])
    calls = NFS4_PSEUDO_CALLS_MAX
    while above and calls > 0:
        path, directory = above.popleft()
        inner: list[tuple[bytes, Called]] = []
        exports: list[_Seen] = []
        has_others = False
        async for page in _pages(session, directory):
            calls -= 1
            for name, entry in page:
                below = path + b"/" + name
                if entry.error or (entry.fsid != fsid and entry.kind == nfs_ftype4.NF4DIR):
                    exports.append(_Seen(below, entry.error, (directory, (_O.OP_SECINFO, SECINFO4args(name)))))
                elif entry.kind == nfs_ftype4.NF4DIR:
                    inner.append((below, (_O.OP_PUTFH, PUTFH4args(entry.handle))))
                else:
                    has_others = True
            if has_others or calls <= 0:
                break
        found += exports
        if not has_others and (inner or exports):
            above += inner
        elif not path:
            found.insert(0, _Seen(b"", 0, ()))
    return found


def _flavors(answer: SECINFO4resok) -> tuple[int, ...]:
    """Returns the flavors in a result of SECINFO, in order, those of RPCSEC_GSS as pseudo-flavors.

    Pseudo-flavors are the numbers of RFC 2623 section 2.3.1. RPCSEC_GSS with a mechanism other than Kerberos, or with a
    service unknown here, is left out.
    """
    by_service = {int(flavor.service): int(flavor) for flavor in SecurityFlavor if flavor.service is not None}
    found = []
    for each in answer.flavors:
        info = each.value
        if info is not None and info.oid != KERBEROS_OID:
            continue
        number = each.flavor if info is None else by_service.get(int(info.service))
        if number is not None:
            found.append(number)
    return tuple(found)


async def _pages(session: ClientSession, directory: Called) -> AsyncIterator[list[tuple[bytes, _Object]]]:
    """Yields for each READDIR of a directory, up to its end, the list of the entries: (name, attributes).

    `directory` is the operation, (number, arguments), that makes the directory the current filehandle. Iteration raises
    OperationRefused if the directory may not be read, DecodeError for attributes that were not asked for, and others as
    `ClientSession.run`.
    """
    cookie, verifier, ends = 0, bytes(nfs4.NFS4_VERIFIER_SIZE), False
    while not ends:
        wanted = READDIR4args(cookie, verifier, _PAGE_OCTETS, _PAGE_OCTETS, words(_WANTED))
        page: READDIR4resok
        _, page = await session.run(directory, (_O.OP_READDIR, wanted))
        verifier, entries, ends = page.cookieverf, page.reply.entries, page.reply.eof
        yield [(entry.name, _object(entry.attrs)) for entry in entries]
        if not entries:
            return
        cookie = entries[-1].cookie


def _object(given: fattr4) -> _Object:
    """Decodes type, fsid, rdattr_error and filehandle, as far as they are present in `given`.

    Raises DecodeError if another attribute is present, or the values are malformed.
    """
    present = bits_of(given.attrmask)
    if present & ~_WANTED:
        raise DecodeError("fattr4.attrmask", 0, "the attributes asked for", f"{present:#x}")
    dec = Decoder(given.attr_vals)
    values: dict[str, Any] = {}
    if present >> nfs4.FATTR4_TYPE & 1:
        values["kind"] = dec.u32("type")
    if present & _FSID:
        values["fsid"] = dec.u64("fsid.major"), dec.u64("fsid.minor")
    if present >> nfs4.FATTR4_RDATTR_ERROR & 1:
        values["error"] = dec.u32("rdattr_error")
    if present >> nfs4.FATTR4_FILEHANDLE & 1:
        values["handle"] = dec.opaque(nfs4.NFS4_FHSIZE, "filehandle")
    dec.done("fattr4")
    return _Object(**values)
