"""Linux's client through a reload of our server, which adds, changes and removes exports below its mounted root."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from failures import CheckFailed
from lab import VERSION_4, Lab, check
from our_server import OurServer
from patience import await_growth
from python_layer import PYTHON

__all__ = ["reload_below_a_mounted_root"]

_WORK = (
    "set -e; i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo line $i >>/mnt/kept/log; "
    "cat /mnt/kept/file >/dev/null; ls /mnt/kept >/dev/null; done; echo $i"
)
_RELOAD_S = 60.0
_LINES_S = 60.0


@check()
def reload_below_a_mounted_root(lab: Lab) -> None:
    """Works in one export while others come, change and go; the file system of one that is gone is unmounted."""
    with _served(lab) as server:
        lab.mount(VERSION_4)
        client, place = lab.client, server.directory
        client.run("rm -f /tmp/enough /tmp/held; set -e; for i in kept gone terms; do cat /mnt/$i/file; done")
        work = client.start(_WORK, 600)
        holder = client.start(f"{PYTHON}python3 /data/lock_holder.py hold /mnt/gone/file 0 10", 600)
        await_growth("lines under the lock", lambda: (place / "gone/file").read_text().count("line"), 3, _LINES_S)
        before = _lines(place)
        server.configure(_config(place, terms='access = "ro"', new=True))
        # Nothing of ours is open there any more.
        subprocess.run(["umount", place / "gone"], check=True)
        await_growth("lines of work that goes on", lambda: _lines(place), before + 3, _LINES_S)
        client.run("set -e; cat /mnt/new/file; cat /mnt/terms/file; ls /mnt | grep new")
        refused = client.run("echo more >>/mnt/terms/file", check=False)
        if not refused.status or "Read-only" not in refused.output:
            raise CheckFailed(f"a write to a read-only export: {refused.output}")
        if client.run("cat /mnt/gone/file", check=False).status == 0:
            raise CheckFailed("a removed export is read")
        # Its lock is revoked, which ends the writes of its holder.
        client.run("rm -f /tmp/held")
        with contextlib.suppress(CheckFailed):
            holder.wait()
        subprocess.run(["mount", "--bind", place / "apart", place / "gone"], check=True)
        server.configure(_config(place, terms="", gone=True))
        # The client remembers for up to a minute that the name was gone.
        client.run("until cat /mnt/gone/file 2>/dev/null; do sleep 1; done", 120)
        client.run("set -e; echo again >>/mnt/gone/file; echo more >>/mnt/terms/file")
        assert (place / "gone/file").read_text().endswith("again\n")
        client.run(f"{PYTHON}python3 /data/lock_holder.py try /mnt/gone/file 0 10")
        client.run("touch /tmp/enough")
        work.wait()
        client.run("umount /mnt")


def _lines(place: Path) -> int:
    log = place / "kept/log"
    return log.read_text().count("\n") if log.exists() else 0


class _Configured(OurServer):
    """Our server with a configuration file in the folder above its exports."""

    def configure(self, text: str) -> None:
        """Replaces the configuration, and awaits the end of the reload."""
        said = "the configuration was read again"
        count = self.log.count(said)
        (self.directory / "c.toml").write_text(text)
        self.hang_up()
        await_growth("reloads", lambda: self.log.count(said), count + 1, _RELOAD_S)


@contextlib.contextmanager
def _served(lab: Lab) -> Iterator[_Configured]:
    with (
        tempfile.TemporaryDirectory(prefix="rpcrdma-served-", dir="/dev/shm") as directory,
        tempfile.TemporaryDirectory(prefix="rpcrdma-state-") as state,
        contextlib.ExitStack() as mounts,
    ):
        place = Path(directory)
        place.chmod(0o755)
        for name in ("kept", "gone", "terms", "new", "apart"):
            (place / name).mkdir()
        # The file system stays while it is unmounted where it is exported.
        for command in (["-t", "tmpfs", "none", place / "apart"], ["--bind", place / "apart", place / "gone"]):
            subprocess.run(["mount", *command], check=True)
            mounts.callback(subprocess.run, ["umount", "--lazy", command[-1]], check=False)
        for name in ("kept", "gone", "terms", "new"):
            (place / name / "file").write_text(f"{name}\n")
            for path in (place / name, place / name / "file"):
                path.chmod(0o777)
        config = place / "c.toml"
        config.write_text(_config(place, terms="", gone=True))
        with _Configured(place, Path(state), "--no-root-squash", "--config", str(config)) as server:
            yield server


def _config(place: Path, *, terms: str, gone: bool = False, new: bool = False) -> str:
    names = ["kept", "terms", *(["gone"] if gone else []), *(["new"] if new else [])]
    return "\n".join(
        f'[[export]]\nname = "/{name}"\ndirectory = "{place / name}"\n{terms if name == "terms" else ""}'
        for name in names
    )
