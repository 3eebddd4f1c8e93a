"""The images of guests, made of Debian packages and kept: a kernel, a base system, and layers with more programs."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from archive import Archive
from failures import Missing
from linux_kernel import boot_image, build_siw, extract_source, module_closure

import packages

__all__ = ["KERNELS", "Image", "build_image", "cache_directory"]


def _each(folder: str, names: str) -> list[str]:
    return [folder + name for name in names.split()]


PROGRAMS = {
    "busybox-static": ["bin/busybox"],
    "coreutils": [
        *_each("bin/", "cat chmod chown cp date dd df ln ls mkdir mv rm rmdir stat sync touch"),
        *_each("usr/bin/", "cut head md5sum seq sha256sum shuf sort tail tee timeout tr truncate wc"),
    ],
    "dash": ["bin/dash"],
    "findutils": ["usr/bin/find", "usr/bin/xargs"],
    "ibverbs-providers": [],
    "ibverbs-utils": ["usr/bin/ibv_devinfo", "usr/bin/ibv_rc_pingpong"],
    "iproute2": ["sbin/ip", "bin/ip", "sbin/rdma", "usr/bin/rdma", "bin/ss"],
    "libtirpc-common": [],
    "netbase": [],
    "nfs-common": ["sbin/mount.nfs", "sbin/umount.nfs", "usr/sbin/nfsstat", "usr/sbin/showmount"],
    "nfs-kernel-server": ["usr/sbin/exportfs", "usr/sbin/rpc.mountd", "usr/sbin/rpc.nfsd"],
    "rdmacm-utils": ["usr/bin/rping"],
    "rpcbind": ["sbin/rpcbind", "usr/sbin/rpcbind"],
    "tar": ["bin/tar"],
}
"""The base system. A program may stand in either of two places, as Debian moves them from /bin to /usr/bin."""
EXTRA_PROGRAMS = {
    "fio": ["usr/bin/fio"],
    "nfs-common": [
        *_each("usr/sbin/", "rpc.gssd rpc.svcgssd"),
        # Libraries that they load by name: at the end of a thread, and for the user of a principal.
        "lib/x86_64-linux-gnu/libgcc_s.so.1",
        "usr/lib/x86_64-linux-gnu/libnfsidmap/static.so",
    ],
}
"""Programs with many libraries, each in a layer for the guests that use it: each MiB costs time at each boot."""
MODULES = _each(
    "",
    "virtio_pci virtio_net virtio_console virtio_rng virtio_blk ext4 crc32c_generic crc32_generic siw rdma_rxe rpcrdma"
    " ib_uverbs rdma_ucm nfsd nfsv3 nfsv4 rpcsec_gss_krb5 cts",
)
TLS_MODULES = _each("", "tls gcm ccm ctr ghash_generic ghash_clmulni_intel aesni_intel")
SOURCE_FOLDERS = ["drivers/infiniband", "fs/nfs", "fs/nfsd", "fs/lockd", "fs/ext2", "net/sunrpc", "include/trace"]
SIW_FOLDER = "drivers/infiniband/sw/siw"
_TREE_FOLDERS = ["fs/nfs", "fs/lockd", "fs/ext2", "net/sunrpc", "drivers/infiniband/sw", "include/trace"]
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_LOADER = "ld-linux-x86-64.so.2"
_USERS = {"root": 0, "daemon": 1, "_rpc": 101, "statd": 102, "user": 1000, "nobody": 65534}
"""rpcbind and statd do not run without their users `_rpc` and `statd`; `user` is for checks of permissions, and our
server takes the principal of checks with Kerberos for `daemon`."""
_CACHE_VARIABLE = "RPCRDMA_KERNEL_CACHE"


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    """The parts that the images differ in. An empty suite is that of this machine's own sources."""

    kernel_suite: str = ""
    program_suite: str = ""
    programs: dict[str, list[str]]
    modules: list[str]


_RECIPES = {
    "stable": _Recipe(programs=PROGRAMS, modules=MODULES),
    "newer": _Recipe(
        kernel_suite="bookworm-backports",
        program_suite="trixie",
        programs={**PROGRAMS, "ktls-utils": ["usr/sbin/tlshd"]},
        modules=[*MODULES, *TLS_MODULES],
    ),
}
KERNELS = tuple(_RECIPES)
"""Debian's kernel; and that of its backports, with programs of Debian's next release: bookworm's know no NFS in TLS."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """The files of one build."""

    release: str
    kernel: Path
    system: Path
    """The base system: a root file system whose /init is yet to come."""
    layers: dict[str, Path]
    """Further programs by name, each an archive to be unpacked over the base system."""
    source_tree: Path
    """A tar of some folders of the kernel's source: about a thousand files of all sizes."""
    versions: dict[str, str]


def cache_directory() -> Path:
    """Where packages and builds are kept."""
    if chosen := os.environ.get(_CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rpcrdma-kernel"


def build_image(kernel_choice: str = "stable") -> Image:
    """The image for the archive's present packages, with one of KERNELS; builds it if it is not kept yet.

    Raises:
        Missing: The image cannot be built on this machine.
    """
    if os.uname().machine != "x86_64":
        raise Missing("the guests are built from Debian's x86-64 packages; this machine is of another kind")
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    recipe = _RECIPES[kernel_choice]
    suite, program_suite = (
        packages.other_suite(name, cache / name) if name else [] for name in (recipe.kernel_suite, recipe.program_suite)
    )
    release = packages.kernel_release(suite)
    series = ".".join(release.split(".")[:2])
    programs = packages.runtime_packages([*recipe.programs, *EXTRA_PROGRAMS], program_suite)
    flavour = re.sub(r"amd64$", "common", release)
    # Newer kernels have it for each release.
    kbuild = release.removesuffix("-amd64") if "+" in release else series
    kernel = [
        f"linux-image-{release}",
        f"linux-headers-{release}",
        f"linux-headers-{flavour}",
        f"linux-kbuild-{kbuild}",
        f"linux-source-{series}",
    ]
    program_versions, kernel_versions = packages.versions(programs, program_suite), packages.versions(kernel, suite)
    versions = {**program_versions, **kernel_versions}
    directory = cache / f"image-{_digest(versions)}"
    complete = directory / "complete"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            _forget_old(cache)
            files = packages.download(program_versions, cache / "packages", program_suite)
            files |= packages.download(kernel_versions, cache / "packages", suite)
            print("building the guests' kernel module and file system", flush=True)
            _build(directory, files, release, recipe)
        complete.touch()
    return Image(
        release=release,
        kernel=directory / "vmlinux",
        system=directory / "system.cpio",
        layers={name: directory / f"{name}.cpio" for name in EXTRA_PROGRAMS},
        source_tree=directory / "source.tar",
        versions=versions,
    )


def _digest(versions: dict[str, str]) -> str:
    here = Path(__file__).parent
    builders = [(here / name).read_text() for name in ("image.py", "linux_kernel.py", "archive.py")]
    return hashlib.sha256(json.dumps([versions, builders]).encode()).hexdigest()[:16]


def _forget_old(cache: Path) -> None:
    """Removes images that have not been used for a week, and packages that have not been used for as long."""
    oldest = time.time() - 7 * 24 * 3600
    for path in [*cache.glob("image-*/complete"), *cache.glob("packages/*.deb")]:
        if path.stat().st_mtime < oldest:
            shutil.rmtree(path.parent) if path.name == "complete" else path.unlink()


def _build(directory: Path, files: dict[str, Path], release: str, recipe: _Recipe) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    work = directory / "work"
    tree = work / "tree"
    for path in files.values():
        packages.unpack(path, tree)
    source = extract_source(tree, work / "source", SOURCE_FOLDERS)
    command = ["tar", "-cf", directory / "source.tar", "--sort=name", "--owner=0", "--group=0", *_TREE_FOLDERS]
    subprocess.run(command, cwd=source, check=True)
    modules = [tree / "lib/modules", build_siw(source, tree, release).parent]
    boot_image(tree / f"boot/vmlinuz-{release}", directory / "vmlinux")
    libraries = {path.name: path for path in sorted(tree.rglob("*.so*")) if not path.is_dir()}
    with Archive(directory / "system.cpio") as system:
        for merged in ("bin", "sbin", "lib", "lib64"):
            system.link(merged, f"usr/{merged}")
        for name in ("dev", "proc", "sys", "run", "tmp", "mnt", "srv", "root", "etc", "applets", "var/lib/nfs"):
            system.directory(name)
        _add_programs(system, recipe.programs, tree, libraries)
        # busybox has a shell, too, but that prefers its own programs to those of the packages.
        system.link("usr/bin/sh", "dash")
        # The kernel itself runs /usr/sbin/modprobe.
        system.link("usr/sbin/modprobe", "../bin/busybox")
        _add_library(system, _LOADER, libraries, f"usr/lib64/{_LOADER}")
        for driver in sorted((tree / "etc/libibverbs.d").glob("*.driver")):
            system.file(f"etc/libibverbs.d/{driver.name}", driver)
        for provider in sorted((tree / _LIBRARIES / "libibverbs").glob("lib*.so")):
            _add_binary(system, provider, f"{_LIBRARIES}/libibverbs/{provider.name}", libraries)
        for name in ("netconfig", "protocols", "services"):
            system.file(f"etc/{name}", tree / "etc" / name)
        users = "".join(f"{name}:x:{number}:{number}::/root:/usr/bin/sh\n" for name, number in _USERS.items())
        system.file("etc/passwd", users.encode())
        system.file("etc/group", "".join(f"{name}:x:{number}:\n" for name, number in _USERS.items()).encode())
        _add_modules(system, release, recipe.modules, modules)
    for name, paths in EXTRA_PROGRAMS.items():
        with Archive(directory / f"{name}.cpio", over=system) as layer:
            _add_programs(layer, {name: paths}, tree, libraries)
    shutil.rmtree(work)


def _add_programs(to: Archive, programs: dict[str, list[str]], tree: Path, libraries: dict[str, Path]) -> None:
    for package, paths in programs.items():
        # Newer packages have the files of /bin in /usr.
        there = [path for name in paths for path in (name, f"usr/{name}") if (tree / path).is_file()]
        if paths and not there:
            raise Missing(f"the package {package} no longer holds {paths[0]}")
        for path in there:
            _add_binary(to, tree / path, f"usr/{path.removeprefix('usr/')}", libraries)


def _add_binary(to: Archive, path: Path, name: str, libraries: dict[str, Path]) -> None:
    """A program or library, and all libraries that it loads."""
    to.file(name, path.resolve(), executable=True)
    shown = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, env={"LC_ALL": "C"}, check=True)
    for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", shown.stdout):
        _add_library(to, needed, libraries, f"{_LIBRARIES}/{needed}")


def _add_library(to: Archive, soname: str, libraries: dict[str, Path], name: str) -> None:
    if name in to or (soname == _LOADER and name != f"usr/lib64/{_LOADER}"):
        return
    if soname not in libraries:
        raise Missing(f"no package brought the library {soname}")
    _add_binary(to, libraries[soname], name, libraries)


def _add_modules(system: Archive, release: str, names: list[str], directories: list[Path]) -> None:
    """The modules with the lists by which modprobe finds them."""
    home = f"usr/lib/modules/{release}"
    modules = module_closure(names, directories)
    by_name = {module.name: module for module in modules}
    needs: list[str] = []
    for module in modules:
        system.file(f"{home}/{module.name}.ko", module.content)
        # modprobe loads from the last to the first.
        everything = [name for name in by_name if name in _needed(module.name, by_name)]
        needs.append(f"{module.name}.ko: " + " ".join(f"{name}.ko" for name in reversed(everything)) + "\n")
    aliases = [f"alias {alias} {module.name}\n" for module in modules for alias in module.aliases]
    system.file(f"{home}/modules.dep", "".join(needs).encode())
    system.file(f"{home}/modules.alias", "".join(aliases).encode())


def _needed(name: str, modules: dict[str, object]) -> set[str]:
    found: set[str] = set()
    for needed in getattr(modules[name], "needs", []):
        if needed in modules:
            found |= {needed} | _needed(needed, modules)
    return found
