"""Both kernels in the reverse direction, by NFS version 4.1.

The kernel's server calls our client: it recalls delegations on the connection that we made. The kernel's client is
called by a server of ours that knows nothing but sessions: it does not get mounted, but its back channel works.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import TypeVar

import nfs41
from failures import CheckFailed
from guest import Guest
from kernel_server import EXPORT, PORT
from lab import Lab, check
from network import HOST
from nfs41 import nfs41_cb_argument as cb_argument
from nfs41 import nfs41_cb_operation as cb_op
from nfs41_client import STATUS_DELAY, Nfs41Client, OpenFile, nfs41_session
from nfs41_stub_server import STATUS_SERVER_FAULT, Session, StubServer
from patience import awaiting, patience

import rpcrdma
from rpcrdma.nfs import v3
from rpcrdma.rpc.auth import AuthNone

__all__: list[str] = []

T = TypeVar("T")

_PATIENCE_S = 60.0
"""The time for all of one check, under emulation on a quiet machine."""
_ANSWER_S = 5.0
"""The time for the kernel's answer to one call, likewise."""
_FILES = 12
_CALLERS = 80
"""More at once than the kernel grants credits."""
_LARGE_OCTETS = 2 << 20
_BACK_CALLS = 60
"""At once, and again one by one. Linux's client posts no receive for a call that it takes, but makes up for all of them
with the next reply to a call of its own: 128 credits and 39 more, here, is what it can take until then."""
_BAD_HANDLE = 10001
_STUB_PORT = 20055
_TRIES = 30


@check(quick=True)
def delegation_recalled_by_nfs3_write(lab: Lab) -> None:
    """The kernel answers the write with NFS3ERR_JUKEBOX until the delegation is back."""

    async def touch() -> None:
        async with rpcrdma.nfs_open(f"rdma://{lab.server.address}:{PORT}{EXPORT}") as files:
            await files.write_bytes("by-nfs3", b"after")

    _recall(lab.server, f"rdma://{lab.server.address}:{PORT}", "by-nfs3", touch)


@check(quick=True)
def delegation_recalled_by_nfs41_open(lab: Lab) -> None:
    """Over RDMA and over TCP: the program does not know the difference."""
    for scheme, port in (("rdma", PORT), ("tcp", 2049)):
        url = f"{scheme}://{lab.server.address}:{port}"
        name = f"by-nfs41-{scheme}"

        async def touch(url: str = url, name: str = name) -> None:
            async with nfs41_session(url, owner=b"the other") as other:
                opened = await other.open(name.encode(), write=True, tries=100)
                await other.close(opened)
                _expect("times the open was put off", other.delays, at_least=1)

        _recall(lab.server, url, name, touch)


@check()
def delegations_recalled_by_local_writes(lab: Lab) -> None:
    """Many at once, while bulk data goes the other way on the same connection, in as many calls as it takes."""
    guest = lab.server
    names = [f"local-{index}" for index in range(_FILES)]
    guest.run(f"seq 1 1000000 | head -c {_LARGE_OCTETS} >{EXPORT}/large")
    numbers = "".join(f"{number}\n" for number in range(1, 1000001)).encode()[:_LARGE_OCTETS]

    async def scenario() -> None:
        async with nfs41_session(f"rdma://{guest.address}:{PORT}", owner=b"holder of many") as client:
            for name in names:
                await _delegated(guest, client, name)
            # This server accepts a handle of version 4 in version 3, too.
            large = await client.lookup(b"large")
            writers = " ".join(f"(echo after >>{name}) &" for name in names)
            job = guest.start(f"cd {EXPORT}; {writers} wait; cat {' '.join(names)}")
            async with asyncio.TaskGroup() as tasks:
                returning = tasks.create_task(client.return_recalled(len(names)))
                counts = [tasks.create_task(_read_on(client, large, numbers, returning, n)) for n in range(_CALLERS)]
            reads = sum(count.result() for count in counts)
            with awaiting("the writers in the guest"):
                written = (await asyncio.to_thread(job.wait)).output
            if written != "before\nafter\n" * len(names):
                raise CheckFailed(f"the files hold {written!r}")
            _expect("READ calls meanwhile", reads, at_least=_CALLERS)
            _expect_reverse_calls(client, len(names))

    _run(guest, scenario())


@check()
def recall_that_comes_too_early(lab: Lab) -> None:
    """The kernel calls again when the client does not know the delegation yet."""
    guest = lab.server

    async def scenario() -> None:
        async with nfs41_session(f"rdma://{guest.address}:{PORT}", owner=b"slow holder") as client:
            opened = await _delegated(guest, client, "early")
            callbacks = client.callbacks
            callbacks.held.clear()
            job = guest.start(f"echo after >>{EXPORT}/early")
            with awaiting("the first recall, which is refused"):
                await callbacks.refused.wait()
            assert opened.delegation is not None
            callbacks.held.add(opened.delegation.other)
            await client.return_recalled(1)
            with awaiting("the writer in the guest"):
                await asyncio.to_thread(job.wait)
            _expect_reverse_calls(client, 2)

    _run(guest, scenario())


@check(quick=True)
def kernel_client_called_back(lab: Lab) -> None:
    """More calls than credits at once, and calls one by one, with the credential that the client has asked for."""
    guest = lab.client

    async def scenario() -> None:
        for scheme in ("rdma", "tcp"):
            stub = StubServer([], answer_s=_ANSWER_S * guest.pace)
            port = _STUB_PORT + (scheme == "tcp")
            async with rpcrdma.serve([stub], [f"{scheme}://{HOST}:{port}"]):
                options = f"proto={scheme},port={port},vers=4.1"
                patience_s = int(_PATIENCE_S * guest.pace)
                mounting = guest.start(f"timeout {patience_s} mount.nfs {HOST}:/ /mnt -o {options}", _PATIENCE_S)
                with awaiting(f"the client's first call in a session over {scheme}"):
                    session = await stub.first_used
                with awaiting(f"the answers to {_BACK_CALLS} calls of CB_NULL over {scheme}"):
                    async with asyncio.TaskGroup() as tasks:
                        for _ in range(_BACK_CALLS):
                            tasks.create_task(stub.call_null(session))
                with awaiting(f"the answers to CB_SEQUENCE over {scheme}"):
                    await _expect_credential_wanted(stub, session)
                    for _ in range(_BACK_CALLS):
                        await _call_back(stub, session)
                with awaiting(f"the answer to CB_RECALL over {scheme}"):
                    await stub.recall(nfs41.nfs41_stateid(1, b"never given."))
                if stub.answers[0].status != _BAD_HANDLE:
                    raise CheckFailed(f"CB_RECALL over {scheme} was answered with status {stub.answers[0].status}")
                stub.refusal = STATUS_SERVER_FAULT
                with awaiting(f"the end of mount.nfs over {scheme}"):
                    refused = await asyncio.to_thread(mounting.wait, check=False)
                if not refused.status:
                    raise CheckFailed("the client mounted a server that has nothing to offer")

    _run(guest, scenario())


async def _call_back(stub: StubServer, session: Session) -> None:
    """Nothing but CB_SEQUENCE; a client that is still setting itself up puts it off, and its slot stays as it was."""
    args = nfs41.nfs41_cb_sequence_args(session.identifier, session.back_sequence + 1, 0, 0, False, [])
    operations = [cb_argument(cb_op.OP41_CB_SEQUENCE, args)]
    for _ in range(_TRIES):
        answer = await stub.call_back(session, operations)
        if answer.status != STATUS_DELAY:
            break
        await asyncio.sleep(0.2)
    if answer.status:
        raise CheckFailed(f"CB_SEQUENCE was answered with status {answer.status}")
    session.back_sequence += 1


async def _expect_credential_wanted(stub: StubServer, session: Session) -> None:
    session.client.ready(AuthNone())
    try:
        await _call_back(stub, session)
    except rpcrdma.RpcError:
        session.client.ready(session.credential)
    else:
        raise CheckFailed("the client took a call without a credential")


async def _read_on(
    client: Nfs41Client, handle: bytes, content: bytes, returning: asyncio.Task[None], number: int
) -> int:
    """Reads pieces of a file until all delegations are returned; how many they were."""
    program = v3.NFS_V3_Client(client.connection)
    with awaiting("READ calls beside the recalls"):
        for count in itertools.count(1):
            length = 1 + 7919 * (number + count) % 65536
            offset = 104729 * (number + count) % (len(content) - length)
            result = await program.read(v3.READ3args(v3.nfs_fh3(handle), offset, length))
            if not isinstance(result.value, v3.READ3resok) or result.value.data != content[offset : offset + length]:
                raise CheckFailed(f"READ of {length} octets at {offset} returned {result.status!r}, or other data")
            if returning.done():
                break
    return count


def _recall(guest: Guest, url: str, name: str, touch: Callable[[], Awaitable[None]]) -> None:
    """A delegation is got, another touches the file, the delegation is recalled and returned, the other goes on."""

    async def scenario() -> None:
        async with nfs41_session(url, owner=b"holder") as client:
            opened = await _delegated(guest, client, name)
            async with asyncio.TaskGroup() as tasks:
                touching = tasks.create_task(_awaited(f"the other client, which changes {name}", touch()))
                with awaiting(f"the recall of the delegation of {name}"):
                    recall = await client.callbacks.recalls.get()
                if recall.handle != opened.handle:
                    raise CheckFailed("the delegation of another file was recalled")
                if touching.done():
                    raise CheckFailed("the other client did not wait for the delegation's return")
                with awaiting("the answer to DELEGRETURN"):
                    await client.return_delegation(recall.handle, recall.stateid)
            if url.startswith("rdma:"):
                _expect_reverse_calls(client, 1)

    _run(guest, scenario())


async def _awaited(what: str, work: Awaitable[T]) -> T:
    with awaiting(what):
        return await work


async def _delegated(guest: Guest, client: Nfs41Client, name: str) -> OpenFile:
    """Makes, opens and closes a file; the delegation outlasts that.

    A server gives none in its first seconds, and for a while none of files whose handles collide, in a filter of 256
    bits, with those of delegations that were recalled. So each try has another file.
    """
    for _ in range(_TRIES):
        with awaiting(f"a delegation of {name}"):
            await asyncio.to_thread(guest.run, f"cd {EXPORT}; rm -f {name}; echo before >{name}")
            opened = await client.open(name.encode())
            await client.close(opened)
        if opened.delegation is not None:
            return opened
        await asyncio.sleep(0.5)
    raise CheckFailed(f"no delegation of {name}, because of {opened.refusal}")


def _expect_reverse_calls(client: Nfs41Client, at_least: int) -> None:
    statistics = client.connection.statistics
    assert statistics is not None
    _expect("reverse calls", statistics.reverse_calls, at_least=at_least)


def _expect(what: str, count: int, *, at_least: int) -> None:
    if count < at_least:
        raise CheckFailed(f"{what}: {count} counted, at least {at_least} expected")


def _run(guest: Guest, scenario: Awaitable[T]) -> T:
    async def patiently() -> T:
        async with patience(guest, _PATIENCE_S, "the end of the check"):
            return await scenario

    return asyncio.run(patiently())
