"""The drop-in of `rpcrdma.service` for the settings of a server: its mounts, the paths that it writes, its rights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from rpcrdma.cli.settings.effective import DEFAULT, Effective
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.cli.settings.mount_units import mount_points, mount_unit

__all__ = ["drop_in"]

_HOMES: Final = (Path("/home"), Path("/root"), Path("/run/user"))
"""The directories that `ProtectHome=yes` hides: systemd.exec(5)."""
_TEMPORARY: Final = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - nothing is made there
"""The directories that `PrivateTmp=yes` replaces: systemd.exec(5)."""
_OF_ROOT: Final = "CAP_CHOWN CAP_FOWNER CAP_FSETID CAP_MKNOD"
"""The capabilities that a caller with the rights of root uses, beyond those of the unit."""
_MAKES_DEVICES: Final = ("PrivateDevices=no", "DevicePolicy=closed", "DeviceAllow=char-* m", "DeviceAllow=block-* m")
"""What CAP_MKNOD takes: `PrivateDevices=yes` takes it away again, and the devices are to be made and not used."""
_WRITTEN: Final = ("state-dir", "admin", "access-log")
"""The settings with paths that the server writes, beside the exports."""
_FILES: Final = ("tls-cert", "tls-key", "tls-ca", "keytab")


def drop_in(found: Effective, config: Path | None) -> tuple[str, list[Mistake]]:
    """Returns (text of a systemd drop-in for `rpcrdma.service` that fits a server's settings, mistakes in them).

    The drop-in has the mounts that the unit needs, the paths that the server may write or only read, and rights beyond
    the unit's. The unit requires the mounts of exports with `missing` "fail" and of the files that the server writes;
    it starts after the mounts of other exports, also if one of these fails. An export within another one has no path of
    its own: systemd would make a mount point for it within the outer export, and clients do not enter mount points.

    There is an error for each directory with a character that no unit can have; the text lacks it. There is a warning
    for an export of a mount point if the server may start without the mount, and then serve the directory below it.

    Args:
        found: the settings in effect.
        config: the configuration file, which the server reads; None: there is none.
    """
    writable: dict[Path, bool] = {}
    required: set[Path] = set()
    wanted: set[Path] = set()
    mounted = mount_points()
    faults: list[Mistake] = []

    def expressible(directory: Path, origin: str) -> bool:
        if str(directory).isprintable() and not set(str(directory)) & set("\"'\\"):
            return True
        text = f"{str(directory)!r} has a character that a unit cannot have; rename the directory"
        faults.append(Mistake(origin, text))
        return False

    for export in found.exports:
        if not isinstance(export.source, Path):
            continue
        directory = Path(os.path.realpath(export.source))
        if expressible(directory, export.origins[""]):
            writable[directory] = writable.get(directory, False) or not export.is_read_only
            if export.missing == "fail":
                required.add(directory)
                continue
            wanted |= mounted & {directory, *directory.parents}
            if directory in mounted and not export.mount_point:
                text = (
                    f"{export.name} is a mount point, and the server starts without the mount; set mount-point = true, "
                    "lest clients change what lies below it"
                )
                faults.append(Mistake(export.origins[""], text, is_warning=True))
    roots = {
        root: any(may_write for path, may_write in writable.items() if path.is_relative_to(root))
        for root in sorted(writable)
        if not any(above in writable for above in root.parents)
    }
    own: list[Path] = []
    for name in _WRITTEN:
        setting = found.server[name]
        if setting.origin == DEFAULT or not isinstance(setting.value, Path):
            continue
        # A socket and a log that logrotate renames are made anew: their directory is written.
        directory = Path(os.path.realpath(setting.value if name == "state-dir" else setting.value.parent))
        covered = any(roots[root] and directory.is_relative_to(root) for root in roots)
        if not covered and directory not in own and expressible(directory, setting.origin):
            own.append(directory)
    files = (config, *(found.server[name].value for name in _FILES))
    read = [path.absolute() for path in files if isinstance(path, Path)]
    # The empty value takes away /srv, which may lie within an export.
    service = ["ReadWritePaths="]
    service += [f"ReadWritePaths={_word(path, '-')}" for path in (*(root for root in roots if roots[root]), *own)]
    service += [f"ReadOnlyPaths={_word(root, '-')}" for root in roots if not roots[root]]
    used = (*roots, *own, *read)
    if _meet(used, _HOMES):
        service.append("ProtectHome=no")
    if _meet(used, _TEMPORARY):
        service.append("PrivateTmp=no")
    if any(rule.squash == "none" for export in found.exports for rule in export.admitting):
        service += [f"CapabilityBoundingSet={_OF_ROOT}", *_MAKES_DEVICES]
    mounts = [f"RequiresMountsFor={_word(path)}" for path in (*sorted(required), *own)]
    # A mount that is required and fails keeps the unit from its start, and one that is unmounted stops it.
    mounts += [f"{order}={mount_unit(point)}" for point in sorted(wanted) for order in ("Wants", "After")]
    return "\n".join(["[Unit]", *mounts, "", "[Service]", *service, ""]), faults


def _word(path: Path, prefix: str = "") -> str:
    """Returns `prefix` and a path as the value of a unit's setting, quoted if it has spaces, with "%" doubled.

    The prefix "-" lets systemd ignore a path that is absent.
    """
    text = prefix + str(path).replace("%", "%%")
    return f'"{text}"' if " " in text else text


def _meet(paths: tuple[Path, ...], others: tuple[Path, ...]) -> bool:
    """Returns whether one of `paths` is one of `others`, lies within it, or contains it."""
    return any(path.is_relative_to(other) or other.is_relative_to(path) for path in paths for other in others)
