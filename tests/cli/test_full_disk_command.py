"""`get` into a file system that is too small for all of a tree."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.commands import Served

pytestmark = pytest.mark.thorough

MIB = 1 << 20
FILES, FILE_OCTETS, ROOM = 10, 4 * MIB, 13 * MIB


def namespace_with_mounts() -> bool:
    try:
        return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not namespace_with_mounts(), reason="takes root and unshare, to mount a small file system")
@pytest.mark.parametrize("scheme", ["rdma", "tcp"])
def test_get_into_a_full_disk_keeps_the_files_that_fit(server: Served, scheme: str, tmp_path: Path) -> None:
    source = server.root / f"larger-than-the-disk-{scheme}"
    source.mkdir()
    for number in range(FILES):
        (source / f"{number:02}").write_bytes(os.urandom(FILE_OCTETS))
    (target := tmp_path / "small").mkdir()
    port = server.urls["tcp"].rpartition(":")[2]
    get = [sys.executable, "-m", "rpcrdma", "--mount-port", port, "get", "--json"]
    get += [f"{server.urls[scheme]}/{source.name}", str(target / "copy")]
    script = f"""
        mount -t tmpfs -o size={ROOM} none {shlex.quote(str(target))} || exit 99
        {shlex.join(get)}
        echo $?
        cd {shlex.quote(str(target / "copy"))}
        for name in * .[!.]*; do cmp "$name" {shlex.quote(str(source))}/"$name" && echo "$name"; done
    """
    ran = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    facts, status, *kept = ran.stdout.splitlines()
    assert status == "1", ran.stderr
    # Three fit; each is whole, and nothing else is left.
    assert 2 <= len(kept) <= 3
    assert ".[!.]*" not in kept
    assert json.loads(facts)["files"] == len(kept)
    assert json.loads(facts)["bytes"] == len(kept) * FILE_OCTETS
    told = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert len(told) == FILES - len(kept)
    assert all("no space left on device" in line for line in told)
