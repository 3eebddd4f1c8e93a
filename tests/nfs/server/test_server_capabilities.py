"""Which promises a server keeps with which capabilities, each set in a process of its own (setpriv)."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.export import local_object
from rpcrdma.nfs.export.object_tree import ObjectTree
from rpcrdma.nfs.server import Export
from rpcrdma.rpc.auth import AuthSys
from served_directory import Server

ROOT, NOBODY = AuthSys(uid=0, gid=0), AuthSys(uid=65534, gid=65534)
ALICE, BOB = AuthSys(uid=1000, gid=1000, gids=(50,)), AuthSys(uid=1001, gid=1001)
FILES = {
    "alices": (1000, 1000, 0o600),
    "roots": (0, 0, 0o600),
    "staffs": (1002, 50, 0o640),
    "readonly": (1000, 1000, 0o444),
    "program": (1000, 1000, 0o711),
    "private/inside": (1000, 1000, 0o600),
}
SWITCH = ("setuid", "setgid")
SEARCH = (*SWITCH, "dac_read_search")
FOUR = (*SEARCH, "dac_override")
EIGHT = (*FOUR, "chown", "fowner", "fsetid", "mknod")
ROOTS_OWN = {"root gives files away", "root sets others' modes", "root makes devices", "root sets set-group-id"}
WITHOUT_SEARCH = {"program is read", "owner writes 0444", "owner lists 0700", "handle after a restart"}
AS_ONE_USER = {
    "own file is read",
    "group's file is read",
    "owner writes 0444",
    "owner lists 0700",
    "new file is its maker's",
    "new name is on the disk",
    "owner sets the mode",
    "root is nobody",
    "handle after a restart",
}

SAYS = {(0, ()): ["[Errno 1] a server that runs as root"], (0, SWITCH): ["this server may not open all that it"]}


class Caller:
    """A server, and what its callers get of the files above."""

    def __init__(self, base: Path, *, squash: bool) -> None:
        self.exports = [Export(name="/", directory=base / "export", root_squash=squash)]
        self.state = base / "state"
        self.server = Server(self.exports, self.state)
        for tree in self.server.services.nfs.exports.trees:
            tree.in_memory = False
        self.root = self.server.mount()
        self.handles = {name: self.handle(name) for name in ("private", *FILES)}

    def handle(self, name: str) -> bytes:
        who = ALICE if "/" in name else NOBODY
        with suppress(AssertionError):
            return self.server.lookup(self.root, *name.split("/"), as_=who)
        return b""

    def reads(self, name: str, *callers: AuthSys) -> set[str]:
        args = v3.READ3args(v3.nfs_fh3(self.handles[name]), 0, 10)
        return {self.server.status("read", args, as_=who) for who in callers}

    def writes(self, name: str, who: AuthSys) -> str:
        return str(self.server.write(self.handles[name], b"x", as_=who).status.name)

    def sets(self, name: str, who: AuthSys, **wanted: Any) -> str:
        guard = v3.sattrguard3(False, None)
        args = v3.SETATTR3args(v3.nfs_fh3(self.handles[name]), self.server.sattr(**wanted), guard)
        return self.server.status("setattr", args, as_=who)

    def lists(self, who: AuthSys) -> Any:
        args = v3.READDIRPLUS3args(v3.nfs_fh3(self.handles["private"]), 0, bytes(8), 4096, 4096)
        reply = self.server.call("readdirplus", args, as_=who)
        if reply.status != v3.nfsstat3.NFS3_OK:
            return str(reply.status.name)
        return {e.name: e.name_attributes.attributes_follow for e in reply.value.reply.entries}.get("inside")

    def makes(self, directory: bytes, name: str, who: AuthSys) -> int:
        self.server.credential = who
        return self.server.attributes(self.server.create(directory, name)).uid

    def makes_device(self) -> str:
        device = v3.mknoddata3(v3.ftype3.NF3CHR, v3.devicedata3(self.server.sattr(), v3.specdata3(1, 3)))
        args = v3.MKNOD3args(self.server.dirop(self.root, "null"), device)
        return self.server.status("mknod", args, as_=ROOT)

    def restarts(self) -> None:
        self.server.close()
        self.server = Server(self.exports, self.state)


def _identity() -> list[str]:
    lines = Path("/proc/thread-self/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("Uid", "Gid", "Groups", "CapEff", "CapPrm"))]


def _synced(into: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    fsync, all_of = os.fsync, ObjectTree.sync_file_system

    def one(fd: int) -> None:
        into.append(os.fstat(fd).st_ino)
        fsync(fd)

    def whole(tree: ObjectTree) -> None:
        into.append("whole")
        all_of(tree)

    monkeypatch.setattr(local_object.os, "fsync", one)
    monkeypatch.setattr(ObjectTree, "sync_file_system", whole)


def judge(base: Path, *, squash: bool) -> tuple[list[str], list[str]]:
    """The promises that this process breaks over the files in `base`, and what it says."""
    logged: list[str] = []
    kept = logging.Handler()
    kept.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("rpcrdma.server").addHandler(kept)
    try:
        caller = Caller(base, squash=squash)
    except PermissionError as error:
        return [], [str(error)]
    before, synced = _identity(), list[object]()
    private = caller.server.attributes(caller.handles["private"]).fileid

    def new_name_is_on_the_disk() -> bool:
        with pytest.MonkeyPatch.context() as patch:
            _synced(synced, patch)
            made = caller.makes(caller.handles["private"], "new", ALICE)
        return made == ALICE.uid and bool({"whole", private} & set(synced))

    def handle_after_a_restart() -> bool:
        caller.restarts()
        return caller.reads("private/inside", ALICE) == {"OK"}

    promises: dict[str, Callable[[], bool]] = {
        "own file is read": lambda: caller.reads("alices", ALICE) == {"OK"},
        "group's file is read": lambda: caller.reads("staffs", ALICE) == {"OK"},
        "another's file is refused": lambda: caller.reads("alices", BOB, NOBODY) == {"ACCES"},
        "root's file is refused": lambda: caller.reads("roots", ALICE, BOB, NOBODY) == {"ACCES"},
        "program is read": lambda: caller.reads("program", BOB) == {"OK"},
        "owner writes 0444": lambda: caller.writes("readonly", ALICE) == "NFS3_OK",
        "others do not write 0444": lambda: caller.writes("readonly", BOB) == "NFS3ERR_ACCES",
        "owner lists 0700": lambda: caller.lists(ALICE) is True,
        "others do not list 0700": lambda: caller.lists(BOB) == "NFS3ERR_ACCES",
        "new file is its maker's": lambda: caller.makes(caller.root, "bobs", BOB) == BOB.uid,
        "new name is on the disk": new_name_is_on_the_disk,
        "owner sets the mode": lambda: caller.sets("alices", ALICE, mode=0o600) == "OK",
        "others do not set the mode": lambda: caller.sets("alices", BOB, mode=0o666) == "PERM",
    }
    if squash:
        promises["root is nobody"] = lambda: (
            caller.reads("roots", ROOT) == {"ACCES"} and caller.makes(caller.root, "roots-new", ROOT) == NOBODY.uid
        )
    else:
        promises |= {
            "root reads all": lambda: caller.reads("roots", ROOT) | caller.reads("alices", ROOT) == {"OK"},
            "root gives files away": lambda: {caller.sets("alices", ROOT, uid=uid) for uid in (1001, 1000)} == {"OK"},
            "root sets others' modes": lambda: caller.sets("alices", ROOT, mode=0o600) == "OK",
            "root makes devices": lambda: caller.makes_device() == "OK",
            "root sets set-group-id": lambda: (
                caller.sets("staffs", ROOT, mode=0o2640) == "OK"
                and caller.server.attributes(caller.handles["staffs"]).mode == 0o2640
            ),
        }
    promises["threads stay as they were"] = lambda: _identity() == before
    promises["handle after a restart"] = handle_after_a_restart
    broken = []
    for title, promise in promises.items():
        with suppress(AssertionError):
            if promise():
                continue
        broken.append(title)
    return broken, logged


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give capabilities to processes")
@pytest.mark.parametrize(
    ("uid", "capabilities", "squash", "broken"),
    [
        pytest.param(0, (), True, set(), id="root-none"),
        pytest.param(0, SWITCH, True, WITHOUT_SEARCH, id="root-switch"),
        pytest.param(0, SEARCH, True, {"owner writes 0444"}, id="root-search"),
        pytest.param(0, FOUR, True, set(), id="root-four"),
        pytest.param(0, FOUR, False, ROOTS_OWN, id="root-four-trusting"),
        pytest.param(0, EIGHT, False, set(), id="root-eight-trusting"),
        pytest.param(997, (), True, AS_ONE_USER | {"program is read"}, id="user-none"),
        pytest.param(997, ("dac_read_search", "dac_override"), True, AS_ONE_USER, id="user-without-switching"),
        pytest.param(997, FOUR, True, set(), id="user-four"),
        pytest.param(997, FOUR, False, ROOTS_OWN, id="user-four-trusting"),
        pytest.param(997, EIGHT, False, set(), id="user-eight-trusting"),
    ],
)
def test_a_server_keeps_the_promises_that_its_capabilities_allow(
    uid: int, capabilities: tuple[str, ...], squash: bool, broken: set[str]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        base.chmod(0o755)
        (base / "export" / "private").mkdir(parents=True)
        (base / "state").mkdir(mode=0o700)
        os.chown(base / "state", uid, uid)
        (base / "export").chmod(0o777)
        for path, (owner, group, mode) in FILES.items():
            file = base / "export" / path
            file.write_bytes(b"data")
            os.chown(file, owner, group)
            file.chmod(mode)
        os.chown(base / "export" / "private", 1000, 1000)
        (base / "export" / "private").chmod(0o700)
        given = ",".join(("-all", *(f"+{each}" for each in capabilities)))
        ran = subprocess.run(
            [
                *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"),
                *(f"--inh-caps={given}", f"--ambient-caps={given}", f"--bounding-set={given}"),
                *(sys.executable, __file__, str(base), str(int(squash))),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
        found, said = json.loads(ran.stdout)
        assert (set(found), [" ".join(line.split()[:8]) for line in said]) == (
            broken,
            SAYS.get((uid, capabilities), []),
        )


if __name__ == "__main__":
    json.dump(judge(Path(sys.argv[1]), squash=sys.argv[2] == "1"), sys.stdout)
