"""Builds the Debian package of the server and the commands: `debian_package.py DIR`, which `make deb` runs.

The package has its dependencies in a folder of its own, since Debian's versions of them are too old. Compiled ones are
those for the Python that builds it: the package depends on that version of Debian's Python. The native module is part
of it; the lab, whose tools are for checkouts, is not. Builds of one commit are equal, octet by octet, with one compiler
and the same versions of the dependencies.
"""

from __future__ import annotations

import email
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rpcrdma import __version__
from rpcrdma.cli.settings.table import OF_EXPORTS, OF_SERVER
from rpcrdma.commands.setting import Setting

__all__ = ["build", "configuration"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARY = Path("usr/lib/rpcrdma")
EXTRAS = "fast,metrics"
"""Parts of the package that a server uses; Kerberos takes python3-gssapi, since an index has no compiled one."""
SHELLS = {
    "bash": "usr/share/bash-completion/completions/rpcrdma",
    "zsh": "usr/share/zsh/vendor-completions/_rpcrdma",
    "fish": "usr/share/fish/vendor_completions.d/rpcrdma.fish",
}

LAUNCHER = """\
#!/usr/bin/python3 -sP
import os
import sys

sys.path.insert(0, "/usr/lib/rpcrdma")
# `rpcrdma demo` starts servers by `python3 -m rpcrdma`.
os.environ["PYTHONPATH"] = "/usr/lib/rpcrdma"
from rpcrdma.__main__ import run

sys.exit(run())
"""

CONFIGURATION_HEAD = """\
# The server of this machine, rpcrdma.service: rpcrdma.toml(5), rpcrdma-serve(8). To change a setting, remove the #
# before its key, and give it a value. Exports stand at the end, or in exports.d/NAME.toml beside this file.
#
#   rpcrdma serve --config /etc/rpcrdma/rpcrdma.toml --check    prints all mistakes
#   systemctl enable --now rpcrdma                              starts the server, now and with the machine
#
# Without `listen` the server answers this machine alone. For all others, by NFS over TCP and RDMA:
# listen = ["tcp://[::]:2049", "tcp://[::]:20048", "rdma://[::]:20049"]
"""
EXPORT_EXAMPLE = """\
# An export has a name, a directory of this machine, and any term of [defaults]:

#[[export]]
#name = "/data"
#directory = "/srv/data"
#access = "ro"
#hosts = ["192.0.2.0/24", "host.example.org"]

# Rules of the export above, in order; the terms of the export itself are for callers whom no rule matches:
#[[export.rule]]
#hosts = ["192.0.2.7"]
#access = "rw"
"""


def configuration() -> str:
    """The configuration file as it is installed: all keys in comments, and no export."""
    server = [_commented(each) for each in OF_SERVER]
    terms = [_commented(each) for each in OF_EXPORTS]
    return "\n".join(
        [
            CONFIGURATION_HEAD,
            *server,
            "# Terms of all exports that have no others:\n\n#[defaults]\n",
            *terms,
            EXPORT_EXAMPLE,
        ]
    )


def _commented(setting: Setting) -> str:
    meaning = textwrap.wrap(
        setting.file_help or setting.whole_help, 116, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join([*(f"# {line}" for line in meaning), f"#{setting.name} = {json.dumps(_value(setting))}\n"])


def _value(setting: Setting) -> Any:
    """The default as the file has it, else an example, else a word that stands for the value."""
    if isinstance(setting.default, str | int | float) or (isinstance(setting.default, tuple) and setting.default):
        return setting.default
    word = setting.choices[0] if setting.choices else setting.metavar
    return setting.example or ([word] if setting.many else word)


def build(directory: Path) -> Path:
    """Builds the package in `directory`, and returns its path.

    Raises:
        subprocess.CalledProcessError: A program failed, which has said why.
    """
    tree = directory / "tree"
    shutil.rmtree(directory, ignore_errors=True)
    tree.mkdir(parents=True)
    seconds = (
        os.environ.get("SOURCE_DATE_EPOCH") or _output("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip()
    )
    os.environ["SOURCE_DATE_EPOCH"] = seconds
    _install_python(tree / LIBRARY)
    _write(tree / "usr/bin/rpcrdma", LAUNCHER, mode=0o755)
    _write(tree / "etc/rpcrdma/rpcrdma.toml", configuration())
    (tree / "etc/rpcrdma/exports.d").mkdir()
    shutil.copytree(ROOT / "packaging" / "systemd", tree / "usr/lib/systemd/system")
    # With the packages of the tree alone.
    alone = (sys.executable, "-S", "-m", "rpcrdma")
    for shell, path in SHELLS.items():
        found = _output(*alone, "completion", shell, PYTHONPATH=str(tree / LIBRARY), PYTHONDONTWRITEBYTECODE="1")
        _write(tree / path, found)
    _make_manual(directory / "manual", tree / "usr/share/man")
    documents = tree / "usr/share/doc/rpcrdma"
    _write(documents / "copyright", _copyright(tree / LIBRARY))
    _write(documents / "changelog.gz", gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))
    _write_control(tree)
    for path in (tree, *tree.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (int(seconds), int(seconds)))
    _run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(directory))
    shutil.rmtree(tree)
    (package,) = directory.glob("*.deb")
    return package


def _install_python(library: Path) -> None:
    """Installs the library, the native module and their dependencies, without the traces of this machine."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    # Of two builds in different folders the debugging information would differ, and with it the number of the build.
    os.environ["CFLAGS"] = "-g0"
    # Nor are objects used again that other flags have made.
    shutil.rmtree(ROOT / "native" / "build", ignore_errors=True)
    _run(*pip, "--target", str(library), f"{ROOT}[{EXTRAS}]", str(ROOT / "native"))
    for folder in ("bin", "lib"):
        # Its launchers name this Python, and the units have their place elsewhere.
        shutil.rmtree(library / folder, ignore_errors=True)
    for record in library.glob("*.dist-info/*"):
        if record.name in {"RECORD", "REQUESTED", "INSTALLER", "direct_url.json"}:
            record.unlink()
    for path in library.rglob("*.so"):
        _run("strip", "--strip-unneeded", str(path))
        path.chmod(0o644)
    for path in [*library.rglob("__pycache__"), *library.rglob("tests")]:
        shutil.rmtree(path)


def _make_manual(work: Path, into: Path) -> None:
    """Makes the manual pages by Sphinx, from the parsers and the table of settings."""
    work.mkdir()
    settings = ("--quiet", "--fail-on-warning", "--builder", "man", "-c", str(ROOT / "docs"), "-D", "root_doc=rpcrdma")
    _run(sys.executable, "-m", "sphinx", *settings, str(work), str(work / "made"))
    for page in (work / "made").glob("*.[1-8]"):
        _write(into / f"man{page.suffix[1:]}" / f"{page.name}.gz", gzip.compress(page.read_bytes(), mtime=0))
    shutil.rmtree(work)


def _copyright(library: Path) -> str:
    parts = [f"rpcrdma {__version__}\nCopyright: the rpcrdma authors\n\n{(ROOT / 'LICENSE').read_text()}"]
    parts.append(
        f"/{LIBRARY} also has these distributions; licenses that they bring are in their folders *.dist-info:\n"
    )
    for metadata in sorted(library.glob("*.dist-info/METADATA")):
        of = email.message_from_bytes(metadata.read_bytes())
        if not of["Name"].startswith("rpcrdma"):
            trove = [
                word.rpartition(" :: ")[2] for word in of.get_all("Classifier", []) if word.startswith("License ::")
            ]
            license_name = of["License-Expression"] or ", ".join(trove) or of["License"]
            parts.append(f"  {of['Name']} {of['Version']}: {license_name}")
    return "\n".join(parts) + "\n"


def _write_control(tree: Path) -> None:
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    sums = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files)
    size = sum(-(-path.stat().st_size // 1024) for path in files)
    version, following = (f"{sys.version_info.major}.{sys.version_info.minor + more}" for more in (0, 1))
    needed = [f"python3 (>= {version})", f"python3 (<< {following})", f"libc6 (>= {_glibc(tree.rglob('*.so'))})"]
    control = (
        (HERE / "control")
        .read_text()
        .format(
            version=__version__,
            architecture=_output("dpkg", "--print-architecture").strip(),
            size=size,
            needed=", ".join(needed),
        )
    )
    _write(tree / "DEBIAN/control", control)
    _write(tree / "DEBIAN/md5sums", sums)
    _write(tree / "DEBIAN/conffiles", "/etc/rpcrdma/rpcrdma.toml\n")
    for name in ("postinst", "prerm", "postrm"):
        _write(tree / "DEBIAN" / name, (HERE / name).read_text(), mode=0o755)


def _glibc(libraries: Iterable[Path]) -> str:
    """The newest version of the C library of which a symbol is used."""
    found = {each for path in libraries for each in re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\0])", path.read_bytes())}
    return ".".join(map(str, max(tuple(map(int, each)) for each in found)))


def _write(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _output(*command: str, **environment: str) -> str:
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ).stdout


def main(words: Sequence[str]) -> int:
    """Prints the path of the package."""
    try:
        print(build(Path(words[0]).resolve()))
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(map(str, error.cmd[:4]))} … failed with status {error.returncode}", file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        print(f"error: {error.filename} is missing\n  hint: apt-get install dpkg binutils gcc git", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
