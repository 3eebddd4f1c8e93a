"""Opens of files and their stateids: OPEN, CLOSE, OPEN_DOWNGRADE (RFC 8881 section 9).

An open belongs to an open owner of a client and to a file. A second OPEN by that owner widens it. It keeps a share
reservation, and the file open, so that READ and WRITE by its stateid are not judged again, also after the file has lost
its last name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from rpcrdma.nfs.export import tree
from rpcrdma.nfs.export.claims import READ, WRITE, Claims
from rpcrdma.nfs.export.tree import Change, Create, CreateHow, FileKind, Node, OpenFile, Wanted, check_changeable
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.attributes import SET_ONLY, bits_of, set_on_new, wanted_of, words
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.client_identity import principal_of
from rpcrdma.nfs.v4.server.clients import Client, Delegation, Held
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.delegations import (
    check_delegations,
    delegate,
    lease_for,
    wait_for_delegations,
    without_delegations,
)
from rpcrdma.nfs.v4.server.handles import (
    check_not_covered,
    checked_directory,
    checked_name,
    existing_object,
    object_named,
)
from rpcrdma.nfs.v4.server.held_states import ANONYMOUS, BYPASS, CURRENT, INVALID, bump
from rpcrdma.nfs.v4.server.state import State, state_of
from rpcrdma.rpc.auth import Credential

__all__ = [
    "Open",
    "check_file",
    "check_regular",
    "close",
    "find",
    "io_file",
    "open_downgrade",
    "open_file",
    "resolved",
]

H = TypeVar("H", bound=Held)
_S, _CLAIM, _MODE = nfs4.nfsstat4, nfs4.open_claim_type4, nfs4.createmode4
_ACCESS_BITS: Final = (
    nfs4.OPEN4_SHARE_ACCESS_BOTH
    | nfs4.OPEN4_SHARE_ACCESS_WANT_DELEG_MASK
    | nfs4.OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL
    | nfs4.OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED
    | nfs4.OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS
    | nfs4.OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION
)
_RIGHTS: Final = {READ: tree.READ, WRITE: tree.MODIFY, READ | WRITE: tree.READ | tree.MODIFY}
"""The rights with which a file is opened, by the bits of share access."""
_TIMES: Final = SET_ONLY
"""The set of attributes in which an exclusive creation keeps its verifier: the client sets them afterwards."""
_WITHOUT_OPEN: Final = frozenset({ANONYMOUS, BYPASS})
_UNCHANGED: Final = nfs4.change_info4(True, 0, 0)


class Open(Held):
    """An open of an open owner on a file, with its share reservation; its `parts` are the lock states made with it.

    `access`, `deny`: bits READ and WRITE of `claims`; `reader`, `writer`: the file open for READ, for WRITE, or None;
    `other`: the stateid's 12 octets; `owner`: the open owner's name; `file`: the file's key in `Claims`.
    """

    COUNTED_AS = "opens"
    __slots__ = ("access", "deny", "node", "reader", "reads_as", "shares", "writer", "writes_as")

    def __init__(self, client: Client, other: bytes, owner: bytes, handle: bytes, file: bytes) -> None:
        super().__init__(client, other, owner, handle, file)
        self.access = 0
        self.deny = 0
        self.shares = 0
        """The OPENs that OPEN_DOWNGRADE may return to: bit `access << 2 | deny` for each pair of bits."""
        self.node: Node | None = None
        """The file, which the client may use by its filehandle also without a name; None once revoked."""
        self.reader: OpenFile | None = None
        self.writer: OpenFile | None = None
        self.reads_as: Credential | None = None
        """The credential of the call that last opened `reader`, which gives rights to no other caller."""
        self.writes_as: Credential | None = None
        """The credential of the call that last opened `writer`, which gives rights to no other caller."""

    def release(self, claims: Claims[Any, Any]) -> None:
        """Removes the share reservation from `claims`, whose lock the caller holds."""
        claims.unshare(self.file, self)

    def take_files(self) -> object:
        """Takes the open files out of a revoked open; they close with the last reference to the result."""
        files, self.node, self.reader, self.writer = (self.node, self.reader, self.writer), None, None, None
        return files

    def io_file(self, access: int) -> OpenFile | None:
        """Returns the file as it is open for `access`, `claims.READ` or `WRITE`; None if it is not open for this."""
        return self.reader if access == READ else self.writer

    def opener(self, access: int) -> Credential:
        """Returns the credential of the call that last opened the file of `io_file(access)`, which must not be None."""
        found = self.reads_as if access == READ else self.writes_as
        assert found is not None
        return found


class _Before(NamedTuple):
    """The attributes of an `Open` before an OPEN, to which `_cut` returns if the OPEN fails."""

    access: int
    deny: int
    shares: int
    reads_as: Credential | None
    writes_as: Credential | None


class _Target(NamedTuple):
    """The file of an OPEN, and the parts of the result that come from finding or creating it.

    `change` is that of its directory, `created` says whether the file is new, and `attributes_set` is the set of
    attributes that were set, with bit n for attribute n.
    """

    node: Node
    change: nfs4.change_info4 = _UNCHANGED
    attributes_set: int = 0
    created: bool = False
    cut: bool = False
    """Whether the file existed, and is to be truncated to no octets."""


def find(compound: Compound, stateid: nfs4.stateid4, kind: type[H]) -> H:
    """Returns the state of the class `kind` (`Open` or `LockState`) on the current file that `stateid` names.

    The caller holds the lock of the `State`. Raises Refused: NFS4ERR_BAD_STATEID (unknown or another client's, of
    another class, or of another file), NFS4ERR_OLD_STATEID, NFS4ERR_ADMIN_REVOKED or NFS4ERR_DELEG_REVOKED.
    """
    held = state_of(compound).find(compound.client, resolved(compound, stateid))
    if not isinstance(held, kind) or held.handle != compound.node.handle:
        raise Refused(_S.NFS4ERR_BAD_STATEID)
    return held


def resolved(compound: Compound, stateid: nfs4.stateid4, *, saved: bool = False) -> nfs4.stateid4:
    """Returns `stateid`, or, in place of the special stateid `CURRENT`, the current stateid of the COMPOUND.

    With `saved`, `CURRENT` stands for the saved stateid. Raises Refused (NFS4ERR_BAD_STATEID) if that stateid is unset.
    """
    if (stateid.seqid, stateid.other) != CURRENT:
        return stateid
    current = compound.saved_stateid if saved else compound.stateid
    if current is None:
        raise Refused(_S.NFS4ERR_BAD_STATEID)
    return current


def io_file(compound: Compound, stateid: nfs4.stateid4, access: int, *, saved: bool = False) -> OpenFile | None:
    """Returns the open file for READ, WRITE or SETATTR of the size, by a stateid of the caller.

    Ends clients whose lease has passed if they alone deny `access`. Raises Refused (NFS4ERR_BAD_STATEID and others of
    the RFC; NFS4ERR_OPENMODE: not open for writing; NFS4ERR_LOCKED: an open denies `access`; NFS4ERR_GRACE;
    NFS4ERR_DELAY: delegations are recalled, or such a client is ending) or WorkerNeeded (run again in a worker thread).

    Args:
        compound: the COMPOUND; the current object is a regular file.
        stateid: the stateid of an open, of locks or of a delegation, or a special one.
        access: `claims.READ` or `claims.WRITE`.
        saved: whether the file is the saved object, a regular file, in place of the current one.

    Returns:
        The file; None if the caller's rights have to be checked now: for a special stateid, for READ by an open for
            writing, or by the stateid of another principal.
    """
    state: State = compound.server.state
    node = compound.saved if saved else compound.current
    assert node is not None
    key = stateid.seqid, stateid.other
    if key == CURRENT:
        stateid = resolved(compound, stateid, saved=saved)
        key = stateid.seqid, stateid.other
    if key in _WITHOUT_OPEN:
        if state.claims.in_grace:
            raise Refused(_S.NFS4ERR_GRACE)
        if not (key == BYPASS and access == READ):
            _check_denials(compound, state, compound.file_of(node), access)
        if access == WRITE:
            wait_for_delegations(compound, node)
        return None
    with state.lock:
        held = state.find(compound.client, stateid)
        if held.handle != node.handle:
            raise Refused(_S.NFS4ERR_BAD_STATEID)
        file = held.io_file(access)
        opener = None if file is None else held.opener(access)
    if opener is not None:
        if opener is not compound.context.credential and not _gives_rights(compound, held, opener, access):
            return None
    else:
        if access == WRITE:
            raise Refused(_S.NFS4ERR_OPENMODE)
        # READ is let pass, but not past what other opens deny (RFC 8881 section 9.1.2).
        _check_denials(compound, state, held.file, READ, getattr(held, "opened", held))
    return file


def _check_denials(compound: Compound, state: State, file: bytes, access: int, own: Held | None = None) -> None:
    """Raises Refused (NFS4ERR_LOCKED) if opens other than `own` deny `access`, and one of their clients has a lease.

    Ends these clients if the leases of all have passed: raises WorkerNeeded for that in the event loop, and Refused
    (NFS4ERR_DELAY) if one of the clients is ending already. `file` is the file's key (`Exports.file_of`).
    """

    def check() -> None:
        conflicts = state.claims.share_conflicts(file, own, access, 0)
        if conflicts:
            state.clients.in_the_way([each.client for each in conflicts], compound.now_s)
            raise Refused(_S.NFS4ERR_LOCKED)

    if state.claims.denials:
        state.settle(check, compound.wait)


def _gives_rights(compound: Compound, held: Held, opener: Credential, access: int) -> bool:
    """Returns whether the state `held` lets the caller read or write (`access`) without a check of its own rights.

    True if the caller is `opener`, who last opened its file for `access`, or the machine that SP4_MACH_CRED gives this
    right.
    """
    who, client = principal_of(compound.credential), held.client.introduction
    operation = nfs4.nfs_opnum4.OP_READ if access == READ else nfs4.nfs_opnum4.OP_WRITE
    allowed = client.allowed is not None and client.allowed >> operation & 1
    return who == principal_of(opener) or bool(allowed and who == client.principal)


# OPEN


def open_file(compound: Compound, args: nfs4.OPEN4args) -> nfs4.OPEN4resok:
    """Runs OPEN (RFC 8881 section 18.16): opens a file, which it may create or truncate; may give a read delegation.

    The file becomes the current object. Ends clients whose lease has passed if they alone are in the way. Raises
    WorkerNeeded (run again in a worker thread), Refused, CredentialTooWeak, tree.Refused or OSError, such as
    NFS4ERR_SHARE_DENIED, NFS4ERR_GRACE, NFS4ERR_DELAY or ENOENT.
    """
    access, deny = args.share_access & nfs4.OPEN4_SHARE_ACCESS_BOTH, args.share_deny
    if not access or args.share_access & ~_ACCESS_BITS or deny & ~nfs4.OPEN4_SHARE_DENY_BOTH:
        raise Refused(_S.NFS4ERR_INVAL)
    state = state_of(compound)
    client: Client = compound.client
    claim = args.claim.claim
    if claim not in _TARGETS:
        raise Refused(_S.NFS4ERR_NOTSUPP)
    reclaims = claim is _CLAIM.CLAIM_PREVIOUS
    with state.lock:
        if reclaims:
            state.check_reclaim(client, compound.now_s)
        else:
            state.check_new(client)
        state.check_room(client)
    target = _TARGETS[claim](compound, args)
    node = target.node
    check_regular(node)
    if access & WRITE or target.cut:
        check_changeable(compound.caller)
    if not target.created and not reclaims:
        _check_access(compound, node, access)
    changes = bool(access & WRITE or deny & READ or target.cut)
    if changes:
        # Before the kernel sees the file opened for writing, which breaks a lease.
        wait_for_delegations(compound, node)
    wish = args.share_access & nfs4.OPEN4_SHARE_ACCESS_WANT_DELEG_MASK
    # A reclaim names the delegation that the client had.
    refused = changes or (reclaims and args.claim.value is not nfs4.open_delegation_type4.OPEN_DELEGATE_READ)
    lease = None if refused else lease_for(compound, node, wish, access)
    opened = compound.or_wait(node.open(compound.caller, _RIGHTS[access], at_once=compound.at_once))
    file = compound.file_of(node)

    def claimed() -> tuple[Open, nfs4.stateid4, _Before]:
        if reclaims:
            # The right to reclaim may have ended since, and others have claimed the file meanwhile.
            state.check_reclaim(client, compound.now_s)
        owner, handle = args.owner.owner, node.handle
        mine = client.held.get((Open, owner, handle))
        # That of the same owner counts as any other one (RFC 8881 section 18.16.3), unless it is reclaimed again.
        own = mine if reclaims else None
        if target.cut and mine in state.cutting:
            # Whichever of two fails first could not be undone.
            raise Refused(_S.NFS4ERR_DELAY)
        conflicts = state.claims.share_conflicts(file, own, access | target.cut * WRITE, deny)
        if conflicts:
            state.clients.in_the_way([each.client for each in conflicts], compound.now_s)
            raise Refused(_S.NFS4ERR_RECLAIM_CONFLICT if reclaims else _S.NFS4ERR_SHARE_DENIED)
        if changes:
            check_delegations(state, client, file, compound.now_s)
        if isinstance(mine, Open):
            stateid = bump(mine)
        else:
            mine = Open(client, state.new_other(client), owner, handle, file)
            state.add(mine)
            stateid = nfs4.stateid4(mine.seqid, mine.other)
        before = _Before(mine.access, mine.deny, mine.shares, mine.reads_as, mine.writes_as)
        mine.node = node
        # The ints of the table are shared by all opens.
        mine.shares = mine.shares | _share_bit(access, deny) if mine.shares else _share_bit(access, deny)
        if access & READ:
            mine.reader, mine.reads_as = opened, compound.credential
        if access & WRITE:
            mine.writer, mine.writes_as = opened, compound.credential
        _share(state, mine, mine.access | access, mine.deny | deny)
        if target.cut:
            state.cutting.add(mine)
        return mine, stateid, before

    mine, stateid, before = state.settle(claimed, compound.wait)
    if target.cut:
        _cut(compound, node, mine, stateid, before)
    compound.set_current(node)
    compound.stateid = stateid
    return nfs4.OPEN4resok(
        stateid,
        target.change,
        nfs4.OPEN4_RESULT_LOCKTYPE_POSIX | (nfs4.OPEN4_RESULT_PRESERVE_UNLINKED if node.tree.keeps_removed else 0),
        words(target.attributes_set),
        delegate(compound, wish, opened, lease),
    )


def check_regular(node: Node) -> None:
    """Raises Refused unless `node` is a regular file: NFS4ERR_ISDIR, NFS4ERR_SYMLINK or NFS4ERR_WRONG_TYPE."""
    if node.kind is not FileKind.FILE:
        statuses = {FileKind.DIRECTORY: _S.NFS4ERR_ISDIR, FileKind.SYMLINK: _S.NFS4ERR_SYMLINK}
        raise Refused(statuses.get(node.kind, _S.NFS4ERR_WRONG_TYPE))


def check_file(node: Node) -> None:
    """Raises Refused (NFS4ERR_WRONG_TYPE) unless `node` is a regular file, for operations of version 4.2 on data."""
    if node.kind is not FileKind.FILE:
        raise Refused(_S.NFS4ERR_WRONG_TYPE)


def _check_access(compound: Compound, node: Node, access: int) -> None:
    """Raises Refused (NFS4ERR_ACCESS) if a caller, even an owner, lacks a right of `access`; execute counts as READ."""
    rights = node.access(compound.caller, tree.READ | tree.MODIFY | tree.EXECUTE)
    if (access & READ and not rights & (tree.READ | tree.EXECUTE)) or (access & WRITE and not rights & tree.MODIFY):
        raise Refused(_S.NFS4ERR_ACCESS)


def _share(state: State, mine: Open, access: int, deny: int) -> None:
    mine.access, mine.deny = access, deny
    if not access & READ:
        mine.reader = None
    if not access & WRITE:
        mine.writer = None
    state.claims.share(mine.file, mine, access, deny)


def _cut(compound: Compound, node: Node, mine: Open, stateid: nfs4.stateid4, before: _Before) -> None:
    """Truncates an existing file for an OPEN; if that fails, undoes the OPEN; raises Refused, tree.Refused or OSError.

    The open `mine` gets back the attributes `before`, which it had before the OPEN; if `before.access` is 0, it was new
    and is dropped. Its seqid stays as the OPEN has raised it. Nothing is undone if `mine` has ended or was revoked
    meanwhile, or another call has changed it since the OPEN gave `stateid`.
    """
    try:
        # The open itself, if it is for reading, keeps no other client from a delegation.
        with without_delegations(compound, node):
            node.set_attributes(compound.caller, Wanted(size=0), Change())
    except BaseException:
        state = state_of(compound)
        with state.locked(), contextlib.suppress(Refused):
            state.find(mine.client, stateid)
            access, deny, mine.shares, mine.reads_as, mine.writes_as = before
            if access:
                _share(state, mine, access, deny)
            else:
                state.drop(mine)
        raise
    finally:
        state_of(compound).cutting.discard(mine)


def _named(compound: Compound, args: nfs4.OPEN4args) -> _Target:
    """Returns the `_Target` of an OPEN by name (CLAIM_NULL), which may create the file.

    Raises WorkerNeeded (run again in a worker thread), Refused, CredentialTooWeak, tree.Refused or OSError.
    """
    name = args.claim.value
    assert isinstance(name, bytes)
    directory, name = checked_directory(compound.node), checked_name(name)
    if args.openhow.opentype is nfs4.opentype4.OPEN4_CREATE and args.openhow.value is not None:
        return _created(compound, directory, name, args.openhow.value)
    node = object_named(compound, directory, name)
    change = directory.attributes().change
    return _Target(node, nfs4.change_info4(False, change, change))


def _created(compound: Compound, directory: Node, name: bytes, how: nfs4.createhow4) -> _Target:
    """Returns the `_Target` of an OPEN that creates `name`: a new file or, if `how` allows it, the existing one.

    Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or OSError, such as EEXIST.
    """
    compound.wait()
    check_changeable(compound.caller)
    mode, value = how.mode, how.value
    verifier, later = b"", Wanted()
    if isinstance(value, nfs4.creatverfattr):
        verifier, given = value.cva_verf, value.cva_attrs
        later = wanted_of(given, exclusive=True)
        if later.size == 0:
            # It is empty anyway, and to cut it would set the time that keeps the verifier.
            later = dataclasses.replace(later, size=None)
        create, asked = Create(CreateHow.EXCLUSIVE, Wanted(), verifier), bits_of(given.attrmask) | _TIMES
    elif isinstance(value, nfs4.fattr4):
        asked, wanted = bits_of(value.attrmask), wanted_of(value)
        create = Create(CreateHow.GUARDED, wanted)
    else:
        create, asked = Create(CreateHow.EXCLUSIVE, Wanted(), value), _TIMES
    unchecked, change_of_directory = mode is _MODE.UNCHECKED4, Change()
    check_not_covered(compound, directory, name, _S.NFS4ERR_ISDIR if unchecked else _S.NFS4ERR_EXIST)
    found = existing_object(compound, directory, name) if unchecked else None
    if found is None:
        # Before the file is there: the repeat of an OPEN that is put off would find it.
        state = state_of(compound)
        state.settle(lambda: state.check_recorded(compound.client), compound.wait)
        try:
            made = directory.create(compound.caller, name, create, change_of_directory)
        except (tree.Refused, OSError) as error:
            # Another has made it meanwhile.
            found = existing_object(compound, directory, name) if unchecked and error.errno == errno.EEXIST else None
            if found is None:
                raise
    if found is not None:
        change, cut = directory.attributes().change, create.wanted.size == 0
        asked &= 1 << nfs4.FATTR4_SIZE if cut else 0
        return _Target(found, nfs4.change_info4(False, change, change), asked, cut=cut)
    if isinstance(value, nfs4.fattr4):
        asked = set_on_new(value, create.wanted, made)
    if later != Wanted():
        made.set_attributes(compound.caller, later, Change())
    before, after = change_of_directory.before, change_of_directory.after
    change_info = nfs4.change_info4(True, before.change, after.change) if before and after else _UNCHANGED
    return _Target(made, change_info, asked, created=True)


def _current(compound: Compound, args: nfs4.OPEN4args) -> _Target:
    """Returns the current file, for CLAIM_FH or CLAIM_PREVIOUS; raises Refused (NFS4ERR_INVAL) if the OPEN creates."""
    if args.openhow.opentype is nfs4.opentype4.OPEN4_CREATE:
        raise Refused(_S.NFS4ERR_INVAL)
    return _Target(compound.node)


def _delegated(compound: Compound, args: nfs4.OPEN4args) -> _Target:
    """Returns a `_Target` with the delegated file alone, for an OPEN with CLAIM_DELEG_CUR_FH or CLAIM_DELEGATE_CUR.

    Raises Refused: NFS4ERR_BAD_STATEID: the stateid is not that of the client's delegation on the file; and others.
    """
    claim = args.claim.value
    if args.openhow.opentype is nfs4.opentype4.OPEN4_CREATE:
        raise Refused(_S.NFS4ERR_INVAL)
    if isinstance(claim, nfs4.open_claim_delegate_cur4):
        directory, name = checked_directory(compound.node), checked_name(claim.file)
        node, stateid = object_named(compound, directory, name), claim.delegate_stateid
    else:
        assert isinstance(claim, nfs4.stateid4)
        node, stateid = compound.node, claim
    state = state_of(compound)
    with state.lock:
        held = state.find(compound.client, stateid)
    if not isinstance(held, Delegation) or held.handle != node.handle:
        raise Refused(_S.NFS4ERR_BAD_STATEID)
    return _Target(node)


_TARGETS: Final[dict[nfs4.open_claim_type4, Callable[[Compound, nfs4.OPEN4args], _Target]]] = {
    _CLAIM.CLAIM_NULL: _named,
    _CLAIM.CLAIM_FH: _current,
    _CLAIM.CLAIM_PREVIOUS: _current,
    _CLAIM.CLAIM_DELEGATE_CUR: _delegated,
    _CLAIM.CLAIM_DELEG_CUR_FH: _delegated,
}


# The other operations


def close(compound: Compound, args: nfs4.CLOSE4args) -> nfs4.stateid4:
    """Runs CLOSE (RFC 8881 section 18.2): ends an open with its lock states, and returns the invalid special stateid.

    Raises WorkerNeeded (run again in a worker thread, for an open with many lock states) or Refused: NFS4ERR_LOCKS_HELD
    while a range is locked, or a status of `find`, such as NFS4ERR_BAD_STATEID.
    """
    state_of(compound).drop_unlocked(lambda: find(compound, args.open_stateid, Open), compound.wait)
    compound.stateid = nfs4.stateid4(*INVALID)
    return compound.stateid


def open_downgrade(compound: Compound, args: nfs4.OPEN_DOWNGRADE4args) -> nfs4.stateid4:
    """Runs OPEN_DOWNGRADE (RFC 8881 section 18.18): reduces the share access and deny of an open to those in `args`.

    Returns the open's new stateid. Raises Refused, such as NFS4ERR_BAD_STATEID, or NFS4ERR_INVAL for bits that are no
    union of those of earlier OPENs.
    """
    access, deny = args.share_access & nfs4.OPEN4_SHARE_ACCESS_BOTH, args.share_deny
    if not access or args.share_access & ~_ACCESS_BITS or deny & ~nfs4.OPEN4_SHARE_DENY_BOTH:
        raise Refused(_S.NFS4ERR_INVAL)
    state = state_of(compound)
    with state.locked():
        opened = find(compound, args.open_stateid, Open)
        kept = [
            each
            for each in itertools.product(range(access + 1), range(deny + 1))
            if not each[0] & ~access and not each[1] & ~deny and opened.shares & _share_bit(*each)
        ]
        if (_union(each[0] for each in kept), _union(each[1] for each in kept)) != (access, deny):
            raise Refused(_S.NFS4ERR_INVAL)
        opened.shares = _union(_share_bit(*each) for each in kept)
        _share(state, opened, access, deny)
        compound.stateid = bump(opened)
    return compound.stateid


_SHARE_BITS: Final = tuple(1 << number for number in range(16))


def _share_bit(access: int, deny: int) -> int:
    return _SHARE_BITS[access << 2 | deny]


def _union(sets: Iterable[int]) -> int:
    return functools.reduce(operator.or_, sets, 0)
