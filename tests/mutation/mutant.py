"""One mistake in one module, made as the module is imported, in a process of its own."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path

import pytest

from mutations import apply

__all__ = ["preload", "start"]

_PRELOADED = (
    "_hypothesis_pytestplugin",
    "asyncio",
    "crc32c",
    "hypothesis.strategies",
    "lark",
    "pytest_timeout",
    "rich",
)
"""What tests import besides the package: loaded once, before the processes part."""


def preload() -> None:
    """Loads what every mutant's process needs and no mutant can be in."""
    for name in _PRELOADED:
        importlib.import_module(name)
    assert not any(name.split(".")[0] == "rpcrdma" for name in sys.modules), "a mutant would not be seen"


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the mutant and keeps it to itself: neither source nor byte code is written."""

    number = 0

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(apply(Path(self.path).read_text(), self.number), self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, loader: _Loader) -> None:
        self.name = name
        self.loader = loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.loader.path, loader=self.loader)


def start(name: str, path: Path, number: int, arguments: list[str]) -> int:
    """Starts pytest on the module with its mistake `number`; the process's id, which is that of a group of its own.

    Its exit status is pytest's.
    """
    if pid := os.fork():
        return pid
    status = 70
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        sys.dont_write_bytecode = True
        loader = _Loader(name, str(path))
        loader.number = number
        sys.meta_path.insert(0, _Finder(name, loader))
        status = int(pytest.main(arguments))
    finally:
        os._exit(status)
