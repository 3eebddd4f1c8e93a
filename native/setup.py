"""Builds the extension module: once for Python 3.11 and newer, by the limited API, or for one free-threaded Python.

Free-threaded Pythons have no limited API before 3.15.
"""

import sysconfig
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
FLAGS = ["-std=c11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wconversion"]

setup(
    ext_modules=[
        Extension(
            "rpcrdma_native",
            sources=sorted(str(path.relative_to(HERE)) for path in HERE.glob("src/*.c")),
            depends=sorted(str(path.relative_to(HERE)) for path in HERE.glob("src/*.h")),
            extra_compile_args=FLAGS,
            define_macros=[("Py_LIMITED_API", "0x030b0000")] if LIMITED else [],
            py_limited_api=LIMITED,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
