"""RDMA devices, kernel modules and limits, as the kernel shows them in its files.

Everything is read below a root directory, so that a made-up tree can stand for a machine.
"""

from __future__ import annotations

import contextlib
import enum
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CgroupLimit", "ModuleState", "Port", "RdmaDevice", "cgroup_limits", "module_state", "rdma_devices"]

_MAPPED = 0xFFFF << 32
"""Where an IPv4 address in the form of an IPv6 address starts: ::ffff:0.0.0.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of an RDMA device, as sysfs shows it.

    `state` is the kernel's word ("ACTIVE"). `gids` are those in use; `addresses` are the IPv4 addresses in these.
    """

    number: int
    state: str
    link_layer: str
    gids: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def active(self) -> bool:
        """Whether the port is in the state ACTIVE, in which it carries data."""
        return self.state == "ACTIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaDevice:
    """An RDMA device below /sys/class/infiniband; `interfaces` are the names of its network interfaces.

    `node_type` is the kernel's word, as "CA" or "RNIC".
    """

    name: str
    node_type: str
    ports: tuple[Port, ...] = ()
    interfaces: tuple[str, ...] = ()

    @property
    def active(self) -> bool:
        """Whether at least one port is active."""
        return any(port.active for port in self.ports)

    @property
    def kind(self) -> str:
        """The device's RDMA protocol: "InfiniBand", "RoCE" or "iWARP"; the node type if it is none of these."""
        if self.node_type == "RNIC":
            return "iWARP"
        if any(port.link_layer == "InfiniBand" for port in self.ports):
            return "InfiniBand"
        return "RoCE" if self.node_type == "CA" else self.node_type


class ModuleState(enum.StrEnum):
    """Whether a kernel module is loaded, or could be."""

    LOADED = "loaded"
    AVAILABLE = "available"
    """The module can be loaded, or is built into the kernel."""
    MISSING = "missing"
    """This kernel was delivered without the module."""
    UNKNOWN = "unknown"
    """The files of the kernel's modules are not visible, as in a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimit:
    """The limits of one control group on one RDMA device (rdma controller); None: no limit. They are set in `file`."""

    device: str
    handles: int | None
    """Contexts of the device that the group's processes may open: each process takes one."""
    objects: int | None
    """Queue pairs, completion queues, protection domains and registrations of these processes."""
    file: Path


def cgroup_limits(root: Path = Path("/")) -> list[CgroupLimit]:
    """Returns the limits on RDMA devices of this process's control group and of the groups that contain it.

    There is one for each device and group with a limit, those of the own group first; none if the files cannot be read.
    `root` is the directory below which /proc and /sys are read.
    """
    found: list[CgroupLimit] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        # The single hierarchy of version 2 names no controllers.
        if controllers in ("", "rdma"):
            mount = root / "sys/fs/cgroup" / controllers
            place = mount / group.lstrip("/")
            for directory in (place, *place.parents):
                if directory == mount.parent:
                    break
                found += _limits_in(directory / "rdma.max")
    return found


def _limits_in(file: Path) -> Iterator[CgroupLimit]:
    for line in _text(file).splitlines():
        device, *words = line.split()
        values = dict(word.split("=", 1) for word in words if "=" in word)
        handles, objects = (
            int(text) if (text := values.get(key, "")).isdigit() else None for key in ("hca_handle", "hca_object")
        )
        if handles is not None or objects is not None:
            yield CgroupLimit(device=device, handles=handles, objects=objects, file=file)


def rdma_devices(root: Path = Path("/")) -> list[RdmaDevice]:
    """Returns the RDMA devices that sysfs shows to this process, sorted by name; [] if there are none, or no sysfs.

    `root` is the directory below which /sys is read.
    """
    directory = root / "sys/class/infiniband"
    hardware = dict(_hardware_addresses(root))
    return [_device(path, hardware) for path in _entries(directory)]


def module_state(name: str, release: str, root: Path = Path("/")) -> ModuleState:
    """Returns the state of the module `name` (with underscores) in the running kernel, of the release `release`.

    `root` is the directory below which /sys and /lib/modules are read. UNKNOWN: the module is not loaded, and `root`
    has no modules of the release.
    """
    if (root / "sys/module" / name).is_dir():
        return ModuleState.LOADED
    modules = root / "lib/modules" / release
    if not modules.is_dir():
        return ModuleState.UNKNOWN
    for index in ("modules.dep", "modules.builtin"):
        for line in _text(modules / index).splitlines():
            file = line.partition(":")[0].rpartition("/")[2]
            if file.partition(".ko")[0].replace("-", "_") == name:
                return ModuleState.AVAILABLE
    return ModuleState.MISSING


def _device(path: Path, hardware: dict[str, str]) -> RdmaDevice:
    interfaces = {entry.name for entry in _entries(path / "device/net")}
    ports = []
    for entry in _entries(path / "ports"):
        if not entry.name.isdigit():
            continue
        interfaces |= {_text(index) for index in _entries(entry / "gid_attrs/ndevs")} - {""}
        gids = tuple(gid for gid in map(_text, _entries(entry / "gids")) if gid.strip("0:"))
        ports.append(
            Port(
                number=int(entry.name),
                state=_word(entry / "state"),
                link_layer=_text(entry / "link_layer") or "unknown",
                gids=gids,
                addresses=tuple(_addresses(gids)),
            )
        )
    if not interfaces:
        # Software devices of iWARP name no interface, but make their identity of its hardware address.
        interfaces = {hardware[guid] for guid in [_text(path / "node_guid")] if guid in hardware}
    return RdmaDevice(
        name=path.name,
        node_type=_word(path / "node_type"),
        ports=tuple(sorted(ports, key=lambda port: port.number)),
        interfaces=tuple(sorted(interfaces)),
    )


def _hardware_addresses(root: Path) -> Iterator[tuple[str, str]]:
    """Yields (node GUID, interface name) twice for each network interface with a hardware address of 48 bits.

    The GUID is that address as EUI-64 ("0011:22ff:fe33:4455"), with the universal/local bit inverted and as it is.
    `root` is the directory below which /sys is read.
    """
    for interface in _entries(root / "sys/class/net"):
        with contextlib.suppress(ValueError):
            address = bytes.fromhex(_text(interface / "address").replace(":", ""))
            if len(address) == 6 and any(address):
                for first in (address[0] ^ 2, address[0]):
                    digits = bytes([first, *address[1:3], 0xFF, 0xFE, *address[3:]]).hex()
                    yield ":".join(digits[at : at + 4] for at in range(0, 16, 4)), interface.name


def _addresses(gids: tuple[str, ...]) -> Iterator[str]:
    for gid in gids:
        with contextlib.suppress(ValueError):
            number = int(ipaddress.IPv6Address(gid))
            if number & ~0xFFFFFFFF == _MAPPED:
                yield str(ipaddress.IPv4Address(number & 0xFFFFFFFF))


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    """Returns the content of a text file without white space around it; "" if it cannot be read, as for unused GIDs."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _word(path: Path) -> str:
    """Returns the word of a state file of sysfs, "ACTIVE" for "4: ACTIVE"; "unknown" if there is no word or no file."""
    return _text(path).partition(":")[2].strip() or "unknown"
