"""Builds the extension modules: once for Python 3.11 and newer, by the limited API, or for one free-threaded Python.

Free-threaded Pythons have no limited API before 3.15.
"""

import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
FLAGS = ["-std=c11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wconversion"]


class BuildForAnyMachine(build_ext):
    """Builds the modules without a search path for libraries: that of this Python is another folder elsewhere."""

    def build_extensions(self) -> None:
        """Links without the options -rpath that this Python was itself linked with."""
        linker = self.compiler.linker_so
        self.compiler.linker_so = [word for word in linker if not word.startswith(("-Wl,-rpath", "-Wl,-R"))]
        super().build_extensions()


def extension(name: str, folder: str, **more: list[str]) -> Extension:
    """The module `name` of all sources in `folder`."""
    return Extension(
        name,
        sources=sorted(str(path.relative_to(HERE)) for path in HERE.glob(f"{folder}/*.c")),
        depends=sorted(str(path.relative_to(HERE)) for path in HERE.glob(f"{folder}/*.h")),
        extra_compile_args=FLAGS,
        define_macros=[("Py_LIMITED_API", "0x030b0000")] if LIMITED else [],
        py_limited_api=LIMITED,
        **more,
    )


setup(
    cmdclass={"build_ext": BuildForAnyMachine},
    ext_modules=[
        extension("rpcrdma_native", "src"),
        # It opens libibverbs and librdmacm itself, so that neither is needed here.
        extension("rpcrdma_verbs", "verbs", libraries=["dl", "pthread"]),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
