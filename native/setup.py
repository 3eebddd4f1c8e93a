"""Builds the extension modules: once for Python 3.11 and newer, by the limited API, or for one free-threaded Python.

Free-threaded Pythons have no limited API before 3.15.
"""

import sysconfig
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
FLAGS = ["-std=c11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wconversion"]


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
    ext_modules=[
        extension("rpcrdma_native", "src"),
        # It opens libibverbs and librdmacm itself, so that neither is needed here.
        extension("rpcrdma_verbs", "verbs", libraries=["dl", "pthread"]),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
