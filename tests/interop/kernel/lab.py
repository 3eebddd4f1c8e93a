"""The means of the checks: guests that are started at their first use, our server, and a list of all checks."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from failures import CheckFailed, Missing
from guest import Guest
from image import Image
from kernel_server import start_kernel_server
from our_server import OurServer, ThisSide
from python_layer import build_extras_layer, build_python_layer, build_tests_layer

__all__ = ["CHECKS", "MOUNT_OPTIONS", "UNPACK", "VERSION_4", "Check", "Lab", "check"]

MOUNT_OPTIONS = "rdma,port=20049,vers=3,nolock,mountproto=tcp,mountport=20048"
"""Options with which a Linux client mounts either server. Neither has NLM; no port mapper is asked."""
VERSION_4 = "rdma"
"""Options with which a Linux client mounts our server by version 4.2 over RDMA: all else is the client's default."""
_CLIENT, _SERVER, _DEVICES, _NEWER, _DEVICE_CLIENT, _DEVICE_TESTS, _DEBIAN = 2, 3, 4, 5, 6, 7, 8

_PROGRAMS = {f"data/{name}.py": Path(__file__).with_name(f"{name}.py") for name in ("file_exerciser", "lock_holder")}
"""Programs for guests with Python."""
_DEVICES_OF_GUESTS = {
    "siw": "rdma link add siw0 type siw netdev eth0",
    "rxe": "modprobe crc32_generic; modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0",
}
"""Commands that make a guest's RDMA device. A guest has one, by the name of its kind and 0, and begins with siw."""
UNPACK = (
    "set -e; mkdir -p /data/original; cd /data/original; tar -xf ../source.tar\n"
    "find . -type f | sort | xargs md5sum >/data/sums"
)
"""A shell script that unpacks the source tree, and stores its checksums."""


@dataclass(frozen=True)
class Check:
    """A named function that raises an exception, CheckFailed or any other, when it finds a fault."""

    name: str
    run: Callable[[Lab], None]
    quick: bool
    named: bool
    """It takes long, and runs only where it is named, as `verbs-*`."""
    newer: bool
    """It uses `Lab.newer`."""
    debian: bool
    """It uses `Lab.debian`."""
    options: str = MOUNT_OPTIONS
    """The options with which `Lab.mount` mounts meanwhile, unless it gets others."""
    over_roce: bool = False
    """Client guests have rxe, and our server runs in a guest with rxe: see `Lab.begin`."""


CHECKS: list[Check] = []
"""All checks, in the order in which they were declared."""


def check(
    *,
    quick: bool = False,
    named: bool = False,
    newer: bool = False,
    debian: bool = False,
    by_version_4: bool = False,
    over_roce: bool = False,
) -> Callable[[Callable[[Lab], None]], Callable[[Lab], None]]:
    """Declares a check; its name is the function's. The `quick` ones make up the reduced set.

    `by_version_4` declares another one, NAME-by-version-4, which mounts by `VERSION_4` and is not quick. So does
    `over_roce`, by NAME-over-roce, where the clients and our server are guests with rxe: the check reaches the served
    directory by `OurServer.run` alone, and the server by `OurServer.address`.
    """

    def declare(function: Callable[[Lab], None]) -> Callable[[Lab], None]:
        name = function.__name__.replace("_", "-")
        CHECKS.append(Check(name, function, quick, named, newer, debian))
        if by_version_4:
            CHECKS.append(Check(f"{name}-by-version-4", function, False, named, newer, debian, VERSION_4))
        if over_roce:
            CHECKS.append(Check(f"{name}-over-roce", function, False, named, newer, debian, VERSION_4, over_roce=True))
        return function

    return declare


class Lab:
    """Guests stay up from one check to the next, and are replaced when a check has failed in them."""

    def __init__(self, image: Image, newer_image: Image | None = None, debian_disk: Path | None = None) -> None:
        """`newer_image` and `debian_disk` are for checks that use the guests `newer` and `debian`."""
        self.image = image
        self._debian_disk = debian_disk
        self._newer_image = newer_image
        self.options = MOUNT_OPTIONS
        """The options of mounts that name none: those of the check that runs."""
        self.over_roce = False
        """Whether the check that runs is one over RoCE."""
        self._guests: dict[str, Guest] = {}
        self._devices: dict[str, str] = {}
        self._directory = tempfile.TemporaryDirectory(prefix="rpcrdma-lab-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close_guests()
        self._directory.cleanup()

    def begin(self, check: Check) -> None:
        """Makes ready for a check, and measures the guests' pace, which its deadlines follow.

        For a check over RoCE the guests that mount get rxe in the place of siw when it asks for them, and our server
        runs in `device_client`.
        """
        self.options = check.options
        self.over_roce = check.over_roce
        for guest in self._guests.values():
            guest.measure_pace()

    @property
    def machine(self) -> Guest | ThisSide:
        """Where our server runs."""
        return self.device_client if self.over_roce else ThisSide()

    @property
    def client(self) -> Guest:
        """A guest that mounts; the source tree is unpacked in /data/original, its checksums are in /data/sums."""
        if "client" not in self._guests:
            layers = (self.image.layers["fio"], self.python_layer)
            files = _PROGRAMS | {"data/source.tar": self.image.source_tree}
            guest = Guest(self.image, _CLIENT, name="client", layers=layers, files=files, memory_mib=1280)
            self._guests["client"] = guest
            guest.run(UNPACK)
        return self._with_device("client", "rxe" if self.over_roce else "siw")

    @property
    def devices(self) -> Guest:
        """A guest whose RDMA device is rxe0 (RoCE), with Python for the provider `verbs`."""
        return self._with_rxe("devices", _DEVICES)

    @property
    def device_client(self) -> Guest:
        """Another one, where our server also runs in checks over RoCE, with all extras."""
        path = Path(self._directory.name, "extras.cpio")
        if not path.exists():
            build_extras_layer(path)
        return self._with_rxe("device-client", _DEVICE_CLIENT, path)

    @property
    def device_tests(self) -> Guest:
        """Another one, with pytest; the tests over each provider are in /data/tests."""
        path = Path(self._directory.name, "tests.cpio")
        if not path.exists():
            build_tests_layer(path)
        return self._with_rxe("device-tests", _DEVICE_TESTS, path)

    def _with_rxe(self, name: str, number: int, *layers: Path) -> Guest:
        if name not in self._guests:
            here = Path(__file__)
            programs = ("device_suite", "device_cost", "device_memory")
            files = {f"data/{program}.py": here.with_name(f"{program}.py") for program in programs}
            files |= _PROGRAMS | {"data/source.tar": self.image.source_tree}
            for shared in ("__init__", "device_pairs", "late_accesses", "waiting"):
                files[f"data/support/{shared}.py"] = here.parents[2] / "support" / f"{shared}.py"
            guest = Guest(self.image, number, name=name, layers=(self.python_layer, *layers), files=files)
            self._guests[name] = guest
        return self._with_device(name, "rxe")

    def _with_device(self, name: str, kind: str) -> Guest:
        """The guest, whose RDMA device is one of a kind of `_DEVICES_OF_GUESTS`."""
        guest, present = self._guests[name], self._devices.get(name, "siw")
        if kind != present:
            guest.run(f"set -e; rdma link delete {present}0 || true; {_DEVICES_OF_GUESTS[kind]}")
            self._devices[name] = kind
        return guest

    @property
    def newer(self) -> Guest:
        """A guest with a newer kernel, which has TLS for NFS, with Python, tlshd and the daemons of Kerberos."""
        if "newer" not in self._guests:
            assert self._newer_image is not None, "it is built before the network is left"
            layers = (self._newer_image.layers["nfs-common"], self.python_layer)
            self._guests["newer"] = Guest(self._newer_image, _NEWER, name="newer", layers=layers, files=_PROGRAMS)
        return self._with_device("newer", "rxe" if self.over_roce else "siw")

    @property
    def debian(self) -> Guest:
        """A guest with Debian, whose first process is systemd; /data/rpcrdma.deb is the package of `make deb`."""
        if "debian" not in self._guests:
            assert self._debian_disk is not None, "it is built before the network is left"
            built = sorted((Path(__file__).parents[3] / "build" / "deb").glob("rpcrdma_*.deb"))
            if not built:
                raise Missing("there is no package of the server in build/deb\n  hint: make deb")
            files = {"data/rpcrdma.deb": built[-1]}
            self._guests["debian"] = Guest(self.image, _DEBIAN, name="debian", files=files, disk=self._debian_disk)
        return self._guests["debian"]

    @property
    def python_layer(self) -> Path:
        """This interpreter and this package, for a guest."""
        path = Path(self._directory.name, "python.cpio")
        if not path.exists():
            build_python_layer(path)
        return path

    @property
    def server(self) -> Guest:
        """A guest whose kernel serves /srv, with the daemons of Kerberos."""
        if "server" not in self._guests:
            guest = Guest(self.image, _SERVER, name="server", layers=(self.image.layers["nfs-common"],))
            self._guests["server"] = guest
            start_kernel_server(guest)
        return self._with_device("server", "rxe" if self.over_roce else "siw")

    @contextlib.contextmanager
    def our_server(self, *options: str, name: str = "") -> Iterator[OurServer]:
        """Our server, with an empty directory in memory, exported as /`name`."""
        with (
            self.folder() as directory,
            self.folder() as state,
            OurServer(directory, state, "--no-root-squash", *options, name=name, machine=self.machine) as server,
        ):
            server.run("chmod 777 .")
            yield server

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """An empty directory in memory where our server runs."""
        if isinstance(self.machine, ThisSide):
            with tempfile.TemporaryDirectory(prefix="rpcrdma-served-", dir="/dev/shm") as name:
                yield Path(name)
        else:
            # After a failure the guest ends.
            path = self.machine.run("mktemp -d /run/served-XXXXXX").output.strip()
            yield Path(path)
            self.machine.run(f"rm -r {path}")

    @contextlib.contextmanager
    def mounted(
        self, *, options: str = "", serve: tuple[str, ...] = (), name: str = "", interrupted: bool = False
    ) -> Iterator[OurServer]:
        """Our server, whose root is mounted at /mnt in the client, and unmounted at the end.

        Unless the server is `interrupted`, the client must not have had to connect a second time: that would hide
        the error.
        """
        with self.our_server(*serve, name=name) as server:
            self.mount(options)
            yield server
            connected = self.client.run(
                "busybox awk '/xprt:/ && $2 == \"rdma\" { print $5 }' /proc/self/mountstats"
            ).output
            if not interrupted and connected.split() not in ([], ["1"]):
                raise CheckFailed(f"the client connected {connected} times; our server said\n{server.log[-2000:]}")
            self.client.run("umount /mnt")

    def mount(self, options: str = "", *, host: str = "", path: str = "/") -> None:
        """Mounts a server, by default ours, at /mnt in the client, by the options of the check if it gets none."""
        at = host or self.machine.address
        self.client.run(f"mount.nfs {at}:{path} /mnt -o {options or self.options}", 100)

    def remount(self, options: str = "") -> None:
        """Mounts anew, so that nothing comes from the client's cache."""
        self.client.run("umount /mnt")
        self.mount(options)

    def check_kernels(self) -> None:
        """Checks that no guest's kernel has complained.

        Raises:
            CheckFailed: It did.
        """
        for guest in self._guests.values():
            if said := guest.new_trouble():
                raise CheckFailed(f"the {guest.name}'s kernel said\n{said}")

    def close_guests(self) -> None:
        """Ends them; the next check gets new ones."""
        for guest in self._guests.values():
            guest.close()
        self._guests.clear()
        self._devices.clear()
