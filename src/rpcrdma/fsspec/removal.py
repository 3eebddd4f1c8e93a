"""The ways to remove what a path names: fsspec says it in one method, NFS in several calls."""

from __future__ import annotations

from rpcrdma.nfs.client import NfsFilesystem

__all__ = ["remove", "remove_name", "unlink"]


async def unlink(fs: NfsFilesystem, at: str) -> None:
    """Removes what is no directory."""
    await fs.unlink(at)


async def remove(fs: NfsFilesystem, at: str) -> None:
    """Removes a directory with everything in it, or what is none.

    Raises:
        OSError: something could not be removed.
    """
    if (await fs.lstat(at)).is_dir():
        (await fs.rmtree(at)).check()
    else:
        await fs.unlink(at)


async def remove_name(fs: NfsFilesystem, at: str) -> None:
    """Removes an empty directory, or what is none."""
    await (fs.rmdir(at) if (await fs.lstat(at)).is_dir() else fs.unlink(at))
