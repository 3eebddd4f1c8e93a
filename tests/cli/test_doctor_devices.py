"""RDMA devices and kernel modules, read from made-up trees, and the doctor's findings."""

from __future__ import annotations

import errno
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.drivers.locked_memory import lock_limit_octets
from rpcrdma.cli.doctor.checks import (
    Finding,
    Mark,
    check_cgroup,
    check_data_path,
    check_devices,
    check_listening,
    check_memory_lock,
    check_modules,
    check_open_files,
    check_route,
    check_verbs,
)
from rpcrdma.cli.doctor.devices import ModuleState, Port, RdmaDevice, cgroup_limits, module_state, rdma_devices
from rpcrdma.cli.doctor.verbs_trial import try_verbs
from rpcrdma.verbs.binding import DeviceAttributes
from support.cases import each_case
from support.device_in_memory import DeviceInMemory

RELEASE = "6.1.0-test"


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


@pytest.fixture
def siw(tmp_path: Path) -> Path:
    """A machine with the kernel's software iWARP on eth0, as Linux 6.1 shows it."""
    write(
        tmp_path,
        {
            "sys/class/infiniband/siw0/node_type": "4: RNIC",
            "sys/class/infiniband/siw0/node_guid": "5054:00ff:fe12:3456",
            "sys/class/infiniband/siw0/ports/1/state": "4: ACTIVE",
            "sys/class/infiniband/siw0/ports/1/link_layer": "Ethernet",
            "sys/class/infiniband/siw0/ports/1/gids/0": "5254:0012:3456:0000:0000:0000:0000:0000",
            "sys/class/net/lo/address": "00:00:00:00:00:00",
            "sys/class/net/eth0/address": "52:54:00:12:34:56",
            "sys/class/net/bond/address": "not known",
            "sys/module/siw/refcnt": "1",
        },
    )
    return tmp_path


@pytest.fixture
def hardware(tmp_path: Path) -> Path:
    """An adapter with an Ethernet port that is down and one that is up."""
    zero = "0000:0000:0000:0000:0000:0000:0000:0000"
    device = "sys/class/infiniband/mlx5_0"
    write(
        tmp_path,
        {
            f"{device}/node_type": "1: CA",
            f"{device}/device/net/ens1/address": "00:11:22:33:44:55",
            f"{device}/ports/1/state": "1: DOWN",
            f"{device}/ports/1/link_layer": "Ethernet",
            f"{device}/ports/2/state": "4: ACTIVE",
            f"{device}/ports/2/link_layer": "Ethernet",
            f"{device}/ports/2/gids/0": "fe80:0000:0000:0000:0211:22ff:fe33:4455",
            f"{device}/ports/2/gids/1": "0000:0000:0000:0000:0000:ffff:c000:0207",
            f"{device}/ports/2/gids/2": zero,
            f"{device}/ports/2/gid_attrs/ndevs/1": "ens2",
            f"{device}/ports/notes": "not a port",
        },
    )
    return tmp_path


def test_software_iwarp_is_found_with_its_interface(siw: Path) -> None:
    (device,) = rdma_devices(siw)
    assert (device.name, device.kind, device.interfaces, device.active) == ("siw0", "iWARP", ("eth0",), True)
    (finding,) = check_devices([device], {})
    assert finding.mark is Mark.OK
    assert finding.text == "iWARP on eth0: port 1 active (Ethernet)"
    assert finding.facts["capabilities"] is None


def test_a_device_tells_its_capabilities(siw: Path) -> None:
    attributes = DeviceInMemory().attributes
    attributes["max_windows"] = 0
    (finding,) = check_devices(rdma_devices(siw), {"siw0": attributes})
    assert finding.text.endswith(
        "; no usable memory windows (memory is registered for each call), RDMA Reads outstanding 16 in and 16 out, "
        "4 scatter entries, messages up to 65.5 kB"
    )
    told = finding.facts["capabilities"]
    assert (told["message_bytes"], told["scatter_entries"], told["registrations"]) == (65536, 4, 1000)
    attributes["max_windows"] = 12
    attributes["max_entries"] = 1
    (finding,) = check_devices(rdma_devices(siw), {"siw0": attributes})
    assert "; 12 memory windows, " in finding.text
    for key in ("iwarp", "type_2_windows"):
        other = DeviceInMemory().attributes
        other[key] = not other[key]
        (unused,) = check_devices(rdma_devices(siw), {"siw0": other})
        assert "; no usable memory windows " in unused.text
    assert ", no scatter lists (data of the round-trip extension is copied once more), " in finding.text


class Unusable(DeviceInMemory):
    """A binding whose library calls fail."""

    def __init__(self, call: str, error: OSError) -> None:
        super().__init__()
        self.call, self.error = call, error

    def devices(self) -> list[DeviceAttributes]:
        if self.call == "devices":
            raise self.error
        return super().devices()

    def EventChannel(self) -> Any:  # noqa: N802 - the module's name
        if self.call == "EventChannel":
            raise self.error
        return super().EventChannel()


class Undriven(Unusable):
    """The kernel has the device, libibverbs has no driver for it."""

    def __init__(self) -> None:
        super().__init__("EventChannel", NO_DEVICE)

    def devices(self) -> list[DeviceAttributes]:
        return []


MISSING = OSError("libibverbs.so.1: cannot open shared object file; install libibverbs1, librdmacm1")
NO_DEVICE = OSError(errno.ENODEV, "No such device", "rdma_create_event_channel")
NOT_ALLOWED = OSError(errno.EACCES, "Permission denied", "ibv_open_device")


@each_case(
    ("found", "cause", "remedy", "known"),
    [
        ((None, "rpcrdma_verbs is not installed; install it with: pip"), "not installed", "install it with: pip", 0),
        ((Unusable("devices", MISSING), ""), "libibverbs.so.1: cannot open", "install libibverbs1, librdmacm1", 0),
        (
            (Unusable("devices", NOT_ALLOWED), ""),
            "ibv_open_device: permission denied",
            "as root: modprobe ib_uverbs",
            0,
        ),
        ((Unusable("EventChannel", NO_DEVICE), ""), "no such device", "as root: modprobe rdma_ucm", 1),
        ((Undriven(), ""), "libibverbs has no driver for memory0; ", "as root: apt-get install ibverbs-providers", 0),
    ],
)
def test_the_reason_for_which_devices_cannot_be_used_is_told_with_its_remedy(
    found: tuple[Any, str], cause: str, remedy: str, known: int
) -> None:
    trial = try_verbs(["memory0"], lambda: found)
    finding = check_verbs(trial)
    assert (finding.mark, finding.facts, len(trial.attributes)) == (Mark.NOTE, {"usable": False}, known)
    assert cause in finding.text
    assert finding.text.endswith("provider auto takes the software RNIC")
    assert finding.remedy.startswith(remedy)


def test_a_device_that_cannot_be_used_beside_others_is_named() -> None:
    finding = check_verbs(try_verbs(["memory0", "odd0"], lambda: (DeviceInMemory(), "")))
    assert (finding.mark, finding.facts) == (Mark.NOTE, {"usable": True})
    assert finding.text.startswith("odd0 cannot be used: libibverbs has no driver for odd0, or does not open it")
    assert "apt-get install ibverbs-providers" in finding.remedy
    assert "/dev/infiniband/uverbs*" in finding.remedy


@each_case("version", [1, 2])
def test_limits_of_control_groups_are_found_up_to_the_root(tmp_path: Path, version: int) -> None:
    mount = "sys/fs/cgroup/rdma" if version == 1 else "sys/fs/cgroup"
    write(
        tmp_path,
        {
            "proc/self/cgroup": "9:memory:/other\n" + ("4:rdma:/a/b" if version == 1 else "0::/a/b"),
            f"{mount}/rdma.max": "siw0 hca_handle=max hca_object=max",
            f"{mount}/a/rdma.max": "siw0 hca_handle=3 hca_object=20\nmlx5_0 hca_handle=1 hca_object=max",
            f"{mount}/a/b/rdma.max": "siw0 hca_handle=max hca_object=5000",
            "sys/fs/rdma.max": "siw0 hca_handle=0 hca_object=0",
        },
    )
    limits = cgroup_limits(tmp_path)
    assert [(each.device, each.handles, each.objects) for each in limits] == [
        ("siw0", None, 5000),
        ("siw0", 3, 20),
        ("mlx5_0", 1, None),
    ]
    finding = check_cgroup(limits)
    assert finding.mark is Mark.NOTE
    assert "of siw0 3 processes and 20 objects, of mlx5_0 1 process and any objects" in finding.text
    assert finding.remedy.endswith(f"echo siw0 hca_handle=max hca_object=max > {tmp_path / mount / 'a/rdma.max'}")
    assert check_cgroup(limits[:1]).mark is Mark.OK
    assert (check_cgroup([]).mark, check_cgroup([]).text) == (Mark.OK, "no limit on RDMA devices")


def test_root_may_lock_memory_beyond_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8 << 20, 8 << 20))
    assert lock_limit_octets(tmp_path) == 8 << 20
    whole, container = "         0          0 4294967295", "         0     100000      65536"
    for rights, identities, limit in (
        ("0000000000004000", whole, None),
        ("000001ffffffffff", whole, None),
        ("0000000000000000", whole, 8 << 20),
        ("000001ffffffffff", container, 8 << 20),
        ("000001ffffffffff", f"{container}\n{whole}", 8 << 20),
    ):
        write(tmp_path, {"proc/self/status": f"Name:\tx\nCapEff:\t{rights}", "proc/self/uid_map": identities})
        assert lock_limit_octets(tmp_path) == limit
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, 0))
    assert lock_limit_octets(tmp_path) is None


def test_hardware_is_found_with_its_ports_and_addresses(hardware: Path) -> None:
    (device,) = rdma_devices(hardware)
    assert (device.kind, device.interfaces) == ("RoCE", ("ens1", "ens2"))
    assert [(port.number, port.state) for port in device.ports] == [(1, "DOWN"), (2, "ACTIVE")]
    assert device.ports[1].addresses == ("192.0.2.7",)
    assert len(device.ports[1].gids) == 2
    (finding,) = check_devices([device], {})
    assert "port 1 down (Ethernet), port 2 active (Ethernet), 192.0.2.7" in finding.text
    assert finding.facts["ports"][1]["addresses"] == ["192.0.2.7"]


def test_infiniband_and_what_is_unknown(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "sys/class/infiniband/ib0/node_type": "1: CA",
            "sys/class/infiniband/ib0/ports/1/link_layer": "InfiniBand",
            "sys/class/infiniband/odd/fw_ver": "1",
        },
    )
    assert [(device.name, device.kind, device.active) for device in rdma_devices(tmp_path)] == [
        ("ib0", "InfiniBand", False),
        ("odd", "unknown", False),
    ]


def test_modules_are_loaded_available_missing_or_not_to_be_seen(siw: Path) -> None:
    assert module_state("siw", RELEASE, siw) is ModuleState.LOADED
    assert module_state("rdma_rxe", RELEASE, siw) is ModuleState.UNKNOWN
    write(
        siw,
        {
            f"lib/modules/{RELEASE}/modules.dep": "kernel/drivers/infiniband/rdma_rxe.ko.xz: kernel/ib_core.ko.xz",
            f"lib/modules/{RELEASE}/modules.builtin": "kernel/net/sunrpc/xprtrdma/rpcrdma.ko",
        },
    )
    assert module_state("rdma_rxe", RELEASE, siw) is ModuleState.AVAILABLE
    assert module_state("rpcrdma", RELEASE, siw) is ModuleState.AVAILABLE
    assert module_state("ib_core", RELEASE, siw) is ModuleState.MISSING


LOADED, AVAILABLE, MISSING_MODULE = ModuleState.LOADED, ModuleState.AVAILABLE, ModuleState.MISSING
PORT = Port(number=1, state="ACTIVE", link_layer="Ethernet", addresses=("192.0.2.7",))
SIW = [RdmaDevice(name="siw0", node_type="RNIC", ports=(PORT,), interfaces=("eth0",))]
DOWN = RdmaDevice(name="siw0", node_type="RNIC", ports=(replace(PORT, state="DOWN"),), interfaces=("eth0",))
GID = "2001:0db8:0000:0000:0000:0000:0000:0007"
ROCE = [RdmaDevice(name="mlx5_0", node_type="CA", ports=(replace(PORT, addresses=(), gids=(GID,)),))]
OK, NOTE, PROBLEM = Mark
NO_LIMIT = resource.RLIM_INFINITY


@each_case(
    ("found", "mark", "words", "remedy"),
    [
        (check_devices([], {})[0], OK, "none on this machine; none is needed", ""),
        (check_devices([DOWN], {})[0], NOTE, "port 1 down", "ip link set eth0 up"),
        (check_verbs(try_verbs(["memory0"], lambda: (DeviceInMemory(), ""))), OK, "provider auto uses a device", ""),
        (check_cgroup([]), OK, "no limit on RDMA devices", ""),
        (
            check_modules({"siw": AVAILABLE, "rdma_rxe": MISSING_MODULE}, []),
            NOTE,
            "siw: there to be loaded; rdma_rxe: not part of this kernel (",
            "rdma link add siw0 type siw",
        ),
        (check_modules({"siw": AVAILABLE}, SIW), OK, "siw: there to be loaded", ""),
        (
            check_modules({"siw": MISSING_MODULE, "rdma_rxe": AVAILABLE}, []),
            NOTE,
            "",
            "modprobe -a crc32_generic rdma_rxe rdma_ucm; rdma link add rxe0",
        ),
        (
            check_modules({"ib_uverbs": LOADED, "rdma_ucm": AVAILABLE}, SIW),
            NOTE,
            "ib_uverbs: loaded; rdma_ucm: there",
            "for programs that use the devices: as root, modprobe -a rdma_ucm",
        ),
        (check_modules({"ib_uverbs": LOADED, "rdma_ucm": LOADED}, SIW), OK, "", ""),
        (check_memory_lock(8 << 20, []), OK, "8.4 MB", ""),
        (check_memory_lock(8 << 20, SIW), NOTE, "8.4 MB of memory", "ulimit -l unlimited in the shell"),
        (check_memory_lock(64 << 20, SIW), OK, "67.1 MB", ""),
        (check_memory_lock(None, SIW), OK, "no limit of memory", ""),
        (check_open_files(1024, 4096), OK, "1024 at a time", ""),
        (check_open_files(NO_LIMIT, NO_LIMIT), OK, "no limit", ""),
        (check_open_files(256, 4096), NOTE, "", "ulimit -n 1024 before serving many clients"),
        (check_open_files(256, 256), NOTE, "", "as root, ulimit -n 1024 before serving many clients"),
        (check_listening(20049, lambda _port: ""), OK, "free: rpcrdma serve can listen there", ""),
        (
            check_listening(20049, lambda port: f"{port} in use"),
            NOTE,
            "on: 20049 in use",
            "at another port with --listen",
        ),
        (check_route("192.0.2.1", "eth0", SIW), OK, "through eth0, which has siw0 (iWARP, active): provider auto", ""),
        (check_route("192.0.2.1", "eth1", SIW), OK, "through eth1, without an RDMA device: by the software RNIC", ""),
        (check_route("192.0.2.7", "lo", SIW), OK, "192.0.2.7 is an address of this machine, of siw0 (iWARP", ""),
        (check_route("2001:db8::7", "lo", ROCE), OK, "2001:db8::7 is an address of this machine, of mlx5_0 (RoCE", ""),
        (check_route("2001:db8::8", "lo", ROCE), OK, "2001:db8::8 is reached through lo, without an RDMA device", ""),
        (check_route("192.0.2.1", None, SIW), PROBLEM, "no route to 192.0.2.1", "ip route"),
        (check_data_path("P", native=False, turned_off=False), NOTE, "P", "pip install ./native"),
        (check_data_path("P", native=False, turned_off=True), NOTE, "P", "unset RPCRDMA_NATIVE"),
        (check_data_path("P", native=True, turned_off=False), OK, "P", ""),
    ],
)
def test_each_finding_has_its_mark_and_a_remedy_unless_all_is_well(
    found: Finding, mark: Mark, words: str, remedy: str
) -> None:
    assert (found.mark, bool(found.remedy)) == (mark, bool(remedy))
    assert words in found.text
    assert remedy in found.remedy


def test_findings_have_facts_for_programs() -> None:
    assert [
        check_modules({"siw": AVAILABLE}, []).facts,
        check_memory_lock(8 << 20, SIW).facts,
        check_memory_lock(None, SIW).facts,
        check_open_files(NO_LIMIT, NO_LIMIT).facts,
        check_listening(20049, lambda _port: "").facts,
        check_route("192.0.2.7", "lo", SIW).facts,
        check_route("192.0.2.1", "eth0", SIW).facts,
    ] == [
        {"modules": {"siw": "available"}},
        {"limit_bytes": 8 << 20},
        {"limit_bytes": None},
        {"limit": None},
        {"port": 20049, "free": True},
        {"address": "192.0.2.7", "interface": "lo", "devices": ["siw0"]},
        {"address": "192.0.2.1", "interface": "eth0", "devices": ["siw0"]},
    ]
