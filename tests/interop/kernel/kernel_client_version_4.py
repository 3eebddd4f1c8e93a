"""Linux's client mounts our server by its default options, which is NFS version 4.2."""

from __future__ import annotations

import hashlib
import os

from failures import CheckFailed
from lab import Lab, check
from network import HOST
from python_layer import PYTHON

__all__ = ["mount_by_default_options"]

_AT_NFS_PORT = ("--listen", f"tcp://{HOST}:2049")
_FILES = 40
_LOCK = (
    'import fcntl, sys; file = open(sys.argv[1], "r+b"); fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB); '
    'file.write(b"locked"); file.flush(); fcntl.lockf(file, fcntl.LOCK_UN)'
)

_XATTRS = (
    'import os; name = "user.of program"; os.setxattr("/mnt", name, bytes(3000), os.XATTR_CREATE); '
    'assert (os.listxattr("/mnt"), os.getxattr("/mnt", name)) == ([name], bytes(3000)); '
    'os.setxattr("/mnt", name, b"new", os.XATTR_REPLACE); os.setxattr("/mnt", "user.gone", b""); '
    'os.removexattr("/mnt", "user.gone")'
)


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
    """Random operations on files, extended attributes, and a tree of sources unpacked and compared, over RDMA."""
    with lab.mounted(options="rdma") as server:
        lab.client.run(f"{PYTHON}python3 -c '{_XATTRS}'")
        assert os.listxattr(server.directory) == ["user.of program"]
        assert os.getxattr(server.directory, "user.of program") == b"new"
        lab.client.run(f"{PYTHON}python3 /data/file_exerciser.py /mnt/file1 1 700", 300)
        lab.client.run(
            "set -e; mkdir /mnt/tree; cd /mnt/tree; tar -xf /data/source.tar; cd /; umount /mnt\n"
            f"mount.nfs {HOST}:/ /mnt -o rdma; cd /mnt/tree; md5sum -c /data/sums >/dev/null; cd /; rm -r /mnt/tree",
            300,
        )
