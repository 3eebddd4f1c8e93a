"""Linux's client has read delegations of our server: it reads without calls, and is asked for them back."""

from __future__ import annotations

import asyncio

from failures import CheckFailed
from lab import VERSION_4, Lab, check
from nfs41_client import nfs41_session
from our_server import OurServer
from patience import patience

import rpcrdma

__all__ = ["delegations"]

_FILES = 40
_LOOK = (
    "cd /mnt; for try in 1 2 3 4 5 6; do cat {} >/tmp/now; grep -q '{}' /tmp/now && break; sleep 1; done; cat /tmp/now"
)


@check(quick=True, over_roce=True)
def delegations(lab: Lab) -> None:
    """Known files are read again without a call; other clients and local processes have the delegations recalled."""
    with lab.mounted(options=VERSION_4) as server:
        names = [f"known-{number:02}" for number in range(_FILES)]
        server.run(f"for name in {' '.join(names)}; do echo $name >$name; done")
        # The cat of coreutils also asks for the times of access, which the client's own READs have made out of date.
        cat = f"cd /mnt; busybox cat {' '.join(names)}"
        content = "".join(f"{name}\n" for name in names)
        assert lab.client.run(cat).output == content
        before = _calls(lab)
        assert lab.client.run(cat).output == content
        after = _calls(lab)
        if made := {name: (count, before.get(name)) for name, count in after.items() if count != before.get(name)}:
            raise CheckFailed(f"reading {_FILES} known files again has made calls (now, before): {made}")

        server.run(f": >>{names[0]}")
        returned = _calls(lab).get("DELEGRETURN", 0) - after.get("DELEGRETURN", 0)
        if returned != 1:
            raise CheckFailed(f"when a local writer went on, {returned} delegations were back: it was not recalled")
        server.run(f"echo local >>{names[0]}; echo renamed >new; mv new {names[1]}")
        asyncio.run(_change_by_others(lab, server, names[2], names[3]))
        expected = {0: f"{names[0]}\nlocal\n", 1: "renamed\n", 2: "by version 3\n"}
        for number, text in expected.items():
            # The recall after a local renaming is on its way while the client looks for the first time.
            found = lab.client.run(_LOOK.format(names[number], text.split()[-1]))
            assert found.output == text, f"{names[number]} is {found.output}"

        before = _calls(lab, -1)
        lab.client.run(f"cat /mnt/{names[4]}; echo own >>/mnt/{names[4]}; cat /mnt/{names[4]}")
        errors = _calls(lab, -1)
        assert server.run(f"cat {names[4]}") == f"{names[4]}\nown\n"
        if errors != before:
            raise CheckFailed(f"the client's own write was put off (errors before and after): {before}, {errors}")


async def _change_by_others(lab: Lab, server: OurServer, by_version_3: str, by_version_4: str) -> None:
    """Changes delegated files by two other clients on this side, each of which waits for the recall."""
    url = f"tcp://{server.address}:20048" if lab.over_roce else f"rdma://{server.address}:20049"
    async with patience(lab.client, 60.0, "other clients that change delegated files"):
        async with rpcrdma.nfs_open(f"{url}/") as files:
            await files.write_bytes(by_version_3, b"by version 3\n")
        async with nfs41_session(url, owner=b"another client") as client:
            opened = await client.open(by_version_4.encode(), write=True, tries=200)
            if not client.delays:
                raise CheckFailed("an OPEN for writing by another client did not wait for the delegation's return")
            await client.close(opened)


def _calls(lab: Lab, field: int = 1) -> dict[str, int]:
    """A number of each operation of the mount, out of the statistics of the client: calls (1), errors (-1)."""
    lines = lab.client.run("busybox sed -n '/per-op/,$p' /proc/self/mountstats").output.splitlines()[1:]
    rows = [line.split() for line in lines if ":" in line]
    return {row[0].rstrip(":"): int(row[field]) for row in rows if int(row[field])}
