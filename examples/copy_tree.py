"""Copies a directory tree to or from an NFS server, without mounting anything and without privileges.

python examples/copy_tree.py rdma://server/export/data ./data
python examples/copy_tree.py ./data rdma://server/export/data --mount-port 20048
"""

import argparse
import asyncio
import sys

from rpcrdma import nfs_open
from rpcrdma.nfs import CopyReport


def show(files: int, octets: int) -> None:
    """Progress, on one line."""
    print(f"\r{files} files, {octets / 1e6:.1f} MB", end="", file=sys.stderr)


async def copy(source: str, target: str, mount_port: int | None) -> CopyReport:
    """The argument that is a URL names a directory of the server, which a copy to it makes where it is missing."""
    if "://" in source:
        async with nfs_open(source, mount_port=mount_port) as fs:
            return await fs.download_tree(".", target, progress=show)
    name = "."
    try:
        fs = await nfs_open(target, mount_port=mount_port)
    except FileNotFoundError:
        above, _, name = target.rstrip("/").rpartition("/")
        fs = await nfs_open(above, mount_port=mount_port)
    async with fs:
        return await fs.upload_tree(source, name, progress=show)


def main() -> int:
    """The command; its exit status is 1 if anything could not be copied."""
    parser = argparse.ArgumentParser(description="Copy a directory tree to or from an NFS server.")
    parser.add_argument("source", help="a directory or rdma://HOST/EXPORT/PATH")
    parser.add_argument("target", help="likewise; one of the two is at a server")
    parser.add_argument(
        "--mount-port", type=int, help="TCP port of the server's MOUNT service, if it is an unusual one"
    )
    arguments = parser.parse_args()
    report = asyncio.run(copy(arguments.source, arguments.target, arguments.mount_port))
    print(file=sys.stderr)
    for failure in report.failures:
        print(f"not copied: {failure.path}: {failure.error}", file=sys.stderr)
    print(f"{report.files} files, {report.directories} directories, {report.symlinks} links, {report.octets} octets")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
