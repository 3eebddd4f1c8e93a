"""Debian packages by name: the versions in the archive, fetched and unpacked without being installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from failures import Missing

__all__ = ["archive", "download", "kernel_release", "other_suite", "runtime_packages", "unpack", "versions"]

_RELATIONS = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
_LIBRARY = re.compile(r"z?lib(?!perl|python|.*-perl$|.*-common$|pam|nss-)")
"""Dependencies that programs can load; a guest has no use for maintainer scripts and what they call."""


def other_suite(name: str, directory: Path) -> list[str]:
    """Options of apt for another suite of this machine's Debian archive, with lists of its own, fetched the first time.

    The machine's own sources stay as they are.
    """
    lists = directory / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    sources = directory / "sources.list"
    sources.write_text(f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {archive()} {name} main\n")
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": lists,
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
    }
    suite = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    if not any(lists.glob("*_Packages*")):
        _apt("apt-get", *suite, "-qq", "update")
    return suite


def archive() -> str:
    """The URI of the Debian archive from which this machine has its packages."""
    shown = _apt("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages")
    found = re.search(r"^Debian Debian (\S+)$", shown, re.MULTILINE)
    if found is None:
        raise Missing("apt knows no archive of Debian\n  hint: run apt-get update")
    return found[1]


def kernel_release(suite: list[str]) -> str:
    """The release of the archive's newest kernel, such as 6.1.0-56-amd64: old ones leave the archive."""
    if found := _image_dependency(suite):
        return found
    _apt("apt-get", *suite, "-qq", "update")
    if found := _image_dependency(suite):
        return found
    raise Missing("apt knows no package linux-image-amd64; the guests need Debian's archive and an x86-64 machine")


def _image_dependency(suite: list[str]) -> str | None:
    shown = _apt("apt-cache", *suite, "show", "--no-all-versions", "linux-image-amd64", check=False)
    found = re.search(r"^Depends:.*\blinux-image-(\d[\w.+-]*-amd64)\b", shown, re.MULTILINE)
    return found and found[1]


def runtime_packages(programs: list[str], suite: list[str]) -> list[str]:
    """The named packages and the packages of the libraries that they need."""
    options = [f"--no-{relation}" for relation in _RELATIONS]
    shown = _apt("apt-cache", *suite, "depends", "--recurse", *options, *programs)
    names = {line for line in shown.splitlines() if re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", line)}
    return sorted({*programs, *(name for name in names if _LIBRARY.match(name))})


def versions(names: list[str], suite: list[str]) -> dict[str, str]:
    """The version of each package that would be fetched now."""
    shown = _apt("apt-cache", *suite, "show", "--no-all-versions", *names)
    found = dict(re.findall(r"^Package: (\S+)\n(?:.+\n)*?Version: (\S+)$", shown, re.MULTILINE))
    if missing := sorted(set(names) - set(found)):
        raise Missing(f"apt does not know {', '.join(missing)}\n  hint: run apt-get update")
    return {name: found[name] for name in sorted(names)}


def download(wanted: dict[str, str], into: Path, suite: list[str]) -> dict[str, Path]:
    """The package files of these names and versions, fetched where they are not there yet."""
    into.mkdir(parents=True, exist_ok=True)
    if lacking := [name for name, version in wanted.items() if _package_file(into, name, version) is None]:
        print(f"fetching {len(lacking)} Debian packages", flush=True)
        command = ["apt-get", *suite, "-qq", "download", *(f"{name}={wanted[name]}" for name in lacking)]
        try:
            _apt(*command, cwd=into)
        except Missing:
            # Versions in the local lists may have left the archive since the lists were fetched.
            _apt("apt-get", *suite, "-qq", "update")
            _apt(*command, cwd=into)
    files = {name: _package_file(into, name, version) for name, version in wanted.items()}
    if lost := [name for name, path in files.items() if path is None]:
        raise Missing(f"apt-get download did not bring {', '.join(lost)}")
    for path in files.values():
        if path is not None:
            # The file has the time of the package's making; the time of its last use decides when it is removed.
            path.touch()
    return {name: path for name, path in files.items() if path is not None}


def _package_file(directory: Path, name: str, version: str) -> Path | None:
    # apt writes an epoch's colon as %3a.
    found = sorted(directory.glob(f"{name}_{version.replace(':', '%3a')}_*.deb"))
    return found[0] if found else None


def unpack(package: Path, into: Path) -> None:
    """Lays out the files of a package; none of its scripts runs."""
    if shutil.which("dpkg-deb") is None:
        raise Missing("dpkg-deb is needed to unpack packages")
    into.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg-deb", "-x", package, into], check=True)


def _apt(*command: str, cwd: Path | None = None, check: bool = True) -> str:
    if shutil.which(command[0]) is None:
        raise Missing(f"{command[0]} is needed: the guests are made from Debian packages")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if check and done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        words = " ".join(word for word in command if "::" not in word and word != "-o")
        raise Missing(f"{words[:40]} failed: {said}")
    return done.stdout
