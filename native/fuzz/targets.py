"""The targets of libFuzzer: `targets.py MODULE TARGET OPTIONS...`, where MODULE holds the native module and the driver.

A target takes octets. The sanitizers find wrong accesses of memory, and an exception says that the native module and
its reference disagree.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType


def load(name: str, path: str) -> ModuleType:
    """One of the modules that the library at `path` holds."""
    loader = ExtensionFileLoader(name, path)
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def crc32c(octets: bytes) -> None:
    """The digest in two pieces, against the package."""
    import crc32c as package  # noqa: PLC0415
    import rpcrdma_native  # noqa: PLC0415

    cut = octets[0] % len(octets) if octets else 0
    digest = rpcrdma_native.crc32c(memoryview(octets)[cut:], rpcrdma_native.crc32c(octets[:cut]))
    assert digest == package.crc32c(octets)


def receiver(octets: bytes) -> None:
    """A stream of FPDUs that the octets describe, against the receiver in Python."""
    from support.two_receivers import compare  # noqa: PLC0415

    compare(octets)


TARGETS = {"crc32c": crc32c, "receiver": receiver}


def main() -> None:
    """Runs one target until libFuzzer's options end it."""
    path, target, *options = sys.argv[1:]
    load("rpcrdma_native", path)
    load("driver", path).run([target, *options], TARGETS[target])


if __name__ == "__main__":
    main()
