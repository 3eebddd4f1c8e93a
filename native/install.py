"""Installs the extension module into the environment of this Python, or says in one line why Python does its work.

The exit status is 0 where the module is installed, otherwise 1: `make install` goes on, and tries again next time.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).parent
LOG = HERE / "build" / "install.log"
PIP = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--force-reinstall")


def cause() -> str | None:
    """The program or file that the module cannot be built without, and the way to install it; None if all is there."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler {compiler} (apt-get install gcc)"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        return f"there is no {header} (apt-get install python{version}-dev)"
    return None


def build() -> str | None:
    """Builds and installs the module; returns why that failed, or None."""
    # Objects that other flags have made, such as those of a sanitizer, are not used again.
    shutil.rmtree(LOG.parent, ignore_errors=True)
    LOG.parent.mkdir()
    with LOG.open("w") as log:
        done = subprocess.run([*PIP, str(HERE)], stdout=log, stderr=subprocess.STDOUT, check=False)
    return f"the build failed, see {LOG}" if done.returncode else None


def main() -> int:
    """Prints a line where the module was not installed."""
    failure = cause() or build()
    if failure is not None:
        print(f"the native module is left out, Python does its work: {failure}")
    return failure is not None


if __name__ == "__main__":
    sys.exit(main())
