"""The guests' kernel: the boot image, the modules with their dependencies, and siw, which Debian does not build."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
from pathlib import Path

from failures import Missing

__all__ = ["Module", "boot_image", "build_siw", "extract_source", "module_closure"]

_XZ = b"\xfd7zXZ\x00"
_ELF = b"\x7fELF"


class Module:
    """A kernel module's file, and the text of its .modinfo section."""

    def __init__(self, path: Path) -> None:
        self.name = path.name.split(".ko")[0].replace("-", "_")
        self.content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        self.needs = [
            name.decode().replace("-", "_") for name in self._info(b"depends") for name in name.split(b",") if name
        ]
        self.aliases = [alias.decode() for alias in self._info(b"alias")]
        """Patterns by which the kernel asks for it."""

    def _info(self, key: bytes) -> list[bytes]:
        return re.findall(rb"\0%s=([^\0]*)\0" % key, self.content.replace(b"\0", b"\0\0"))


def module_closure(names: list[str], directories: list[Path]) -> list[Module]:
    """The named modules and all that they depend on, each after those it needs, without those built into the kernel."""
    files = {path.name.split(".ko")[0].replace("-", "_"): path for root in directories for path in root.rglob("*.ko*")}
    ordered: dict[str, Module] = {}

    def add(name: str) -> None:
        if name in ordered or name not in files:
            return
        module = Module(files[name])
        for needed in module.needs:
            add(needed)
        ordered[name] = module

    for name in names:
        add(name)
    return list(ordered.values())


def boot_image(vmlinuz: Path, into: Path) -> None:
    """Unpacks the kernel's self-extracting file: a guest, which is emulated, would need longer for it than to boot."""
    data = vmlinuz.read_bytes()
    start = data.find(_XZ)
    while start >= 0:
        try:
            kernel = lzma.LZMADecompressor().decompress(data[start:])
        except lzma.LZMAError:
            kernel = b""
        if kernel.startswith(_ELF):
            into.write_bytes(kernel)
            return
        start = data.find(_XZ, start + 1)
    # Packed differently: it boots all the same, more slowly.
    shutil.copyfile(vmlinuz, into)


def extract_source(tree: Path, into: Path, paths: list[str]) -> Path:
    """Unpacks folders of the kernel's source, which the linux-source package holds as an archive; gives their root."""
    archives = sorted((tree / "usr/src").glob("linux-source-*.tar.xz"))
    if not archives:
        raise Missing("the linux-source package holds no archive of the source")
    name = archives[0].name.removesuffix(".tar.xz")
    into.mkdir(parents=True, exist_ok=True)
    command = ["tar", "-xf", archives[0], "--use-compress-program=xz -T0", *(f"{name}/{path}" for path in paths)]
    _run([str(word) for word in command], into, "the kernel's source could not be unpacked")
    return into / name


def build_siw(source: Path, tree: Path, release: str) -> Path:
    """Builds siw.ko from its unmodified source against the unpacked headers."""
    for program, package in (("make", "make"), ("gcc", "gcc"), ("xz", "xz-utils")):
        if shutil.which(program) is None:
            raise Missing(f"{program} is needed to build the kernel's siw module\n  hint: apt-get install {package}")
    headers = tree / f"usr/src/linux-headers-{release}"
    makefile = headers / "Makefile"
    # The headers name the place where they would be installed.
    makefile.write_text(makefile.read_text().replace(" /usr/src/", f" {tree}/usr/src/"))
    # The compiler that built the kernel, if it is installed: another may lack options that the kernel was built with.
    wanted = (
        re.search(r"gcc-\d+", (headers / ".kernelvariables").read_text())
        if (headers / ".kernelvariables").exists()
        else None
    )
    compiler = wanted[0] if wanted and shutil.which(wanted[0]) else "gcc"
    siw = source / "drivers/infiniband/sw/siw"
    jobs = f"-j{os.cpu_count() or 1}"
    command = ["make", jobs, "-C", str(headers), f"M={siw}", f"CC={compiler}", "CONFIG_RDMA_SIW=m"]
    # Type information for BPF takes pahole, and no guest asks for it.
    command += ["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]
    _run(command, siw, "the kernel's siw module could not be built")
    return siw / "siw.ko"


def _run(command: list[str], cwd: Path, failure: str) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join("  " + line for line in done.stderr.strip().splitlines()[-8:])
        raise Missing(f"{failure}: {command[0]} said\n{last}")
