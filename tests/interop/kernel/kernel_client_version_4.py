"""Linux's client mounts our server by its default options, which is NFS version 4.2."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time

from failures import CheckFailed
from lab import Lab, check
from network import HOST
from nfs41_client import nfs41_session
from patience import patience
from python_layer import PYTHON

import rpcrdma

__all__ = ["delegations", "files_by_version_4", "mount_by_default_options"]

_AT_NFS_PORT = ("--listen", f"tcp://{HOST}:2049")
_FILES = 40
_LOCK = (
    'import fcntl, sys; file = open(sys.argv[1], "r+b"); fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB); '
    'file.write(b"locked"); file.flush(); fcntl.lockf(file, fcntl.LOCK_UN)'
)

_LOOK = "cat {} >/tmp/now; grep -q '{}' /tmp/now && break; sleep 1; done; cat /tmp/now"


@check(quick=True)
def mount_by_default_options(lab: Lab) -> None:
    """Mounts over RDMA and over TCP with no other option, reads, writes, and changes names."""
    for options in ("rdma", "proto=tcp"):
        with lab.mounted(options=options, serve=_AT_NFS_PORT) as server:
            mounted = lab.client.run("grep ' /mnt ' /proc/mounts").output
            if "vers=4.2" not in mounted or f"proto={options.rpartition('=')[2]}" not in mounted:
                raise CheckFailed(f"mounted otherwise: {mounted}")
            data = os.urandom(8 << 20)
            (server.directory / "large").write_bytes(data)
            small = {f"small-{number:02}": os.urandom(100 * number) for number in range(_FILES)}
            (server.directory / "directory").mkdir()
            for name, content in small.items():
                (server.directory / "directory" / name).write_bytes(content)
            sums = lab.client.run("cd /mnt; md5sum large directory/*").output.split()
            expected = {"large": data} | {f"directory/{name}": content for name, content in small.items()}
            found = dict(zip(sums[1::2], sums[::2], strict=True))
            assert found == {name: hashlib.md5(content).hexdigest() for name, content in expected.items()}
            lab.client.run(
                f"{PYTHON}set -e; cd /mnt; dd if=/dev/zero of=written bs=64k count=40 2>&1; echo more >>written\n"
                "mkdir made; mv written made/moved; ln made/moved linked; ln -s moved made/symbolic; chmod 600 linked\n"
                'rm -r directory; test "$(readlink made/symbolic)" = moved; test ! -e written; df /mnt\n'
                f"python3 -c '{_LOCK}' /mnt/made/moved"
            )
            written = server.directory / "made/moved"
            assert written.read_bytes() == b"locked" + bytes((40 << 16) - 6) + b"more\n"
            assert written.stat().st_mode & 0o777 == 0o600
            assert sorted(each.name for each in server.directory.iterdir()) == ["large", "linked", "made"]


@check()
def files_by_version_4(lab: Lab) -> None:
    """Random operations on files, and a tree of sources unpacked and compared, over RDMA."""
    with lab.mounted(options="rdma"):
        lab.client.run(f"{PYTHON}python3 /data/file_exerciser.py /mnt/file1 1 700", 300)
        lab.client.run(
            "set -e; mkdir /mnt/tree; cd /mnt/tree; tar -xf /data/source.tar; cd /; umount /mnt\n"
            f"mount.nfs {HOST}:/ /mnt -o rdma; cd /mnt/tree; md5sum -c /data/sums >/dev/null; cd /; rm -r /mnt/tree",
            300,
        )


@check(quick=True)
def delegations(lab: Lab) -> None:
    """Known files are read again without a call; other clients and local processes have the delegations recalled."""
    with lab.mounted(options="rdma", serve=_AT_NFS_PORT) as server:
        names = [f"known-{number:02}" for number in range(_FILES)]
        for name in names:
            (server.directory / name).write_text(f"{name}\n")
        # The cat of coreutils also asks for the times of access, which the client's own READs have made out of date.
        cat = f"cd /mnt; busybox cat {' '.join(names)}"
        content = "".join(f"{name}\n" for name in names)
        assert lab.client.run(cat).output == content
        before = _calls(lab)
        assert lab.client.run(cat).output == content
        after = _calls(lab)
        if made := {name: (count, before.get(name)) for name, count in after.items() if count != before.get(name)}:
            raise CheckFailed(f"reading {_FILES} known files again has made calls (now, before): {made}")

        started = time.monotonic()
        with (server.directory / names[0]).open("a") as file:
            waited_s = time.monotonic() - started
            file.write("local\n")
        if waited_s > 30 * lab.client.pace:
            raise CheckFailed(f"a local writer has waited for {waited_s:.0f} s: the delegation was not recalled")
        (server.directory / "new").write_text("renamed\n")
        (server.directory / "new").rename(server.directory / names[1])
        asyncio.run(_change_by_others(lab, names[2], names[3]))
        expected = {0: f"{names[0]}\nlocal\n", 1: "renamed\n", 2: "by version 3\n"}
        for number, text in expected.items():
            # The recall after a local renaming is on its way while the client looks for the first time.
            found = lab.client.run(
                f"cd /mnt; for try in 1 2 3 4 5 6; do {_LOOK.format(names[number], text.split()[-1])}"
            )
            assert found.output == text, f"{names[number]} is {found.output}"

        before = _calls(lab, -1)
        lab.client.run(f"cat /mnt/{names[4]}; echo own >>/mnt/{names[4]}; cat /mnt/{names[4]}")
        errors = _calls(lab, -1)
        assert (server.directory / names[4]).read_text() == f"{names[4]}\nown\n"
        if errors != before:
            raise CheckFailed(f"the client's own write was put off (errors before and after): {before}, {errors}")


async def _change_by_others(lab: Lab, by_version_3: str, by_version_4: str) -> None:
    """Changes delegated files by two other clients, each of which waits for the recall."""
    async with patience(lab.client, 60.0, "other clients that change delegated files"):
        async with rpcrdma.nfs_open(f"rdma://{HOST}:20049/") as files:
            await files.write_bytes(by_version_3, b"by version 3\n")
        async with nfs41_session(f"rdma://{HOST}:20049", owner=b"another client") as client:
            opened = await client.open(by_version_4.encode(), write=True, tries=200)
            if not client.delays:
                raise CheckFailed("an OPEN for writing by another client did not wait for the delegation's return")
            await client.close(opened)


def _calls(lab: Lab, field: int = 1) -> dict[str, int]:
    """A number of each operation of the mount, out of the statistics of the client: calls (1), errors (-1)."""
    lines = lab.client.run("busybox sed -n '/per-op/,$p' /proc/self/mountstats").output.splitlines()[1:]
    rows = [line.split() for line in lines if ":" in line]
    return {row[0].rstrip(":"): int(row[field]) for row in rows if int(row[field])}
