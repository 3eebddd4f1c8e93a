"""The choice between the native module and Python, and its CRC-32C against the package and a bytewise reference."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import crc32c as package
import pytest

from rpcrdma.wire import checksum
from rpcrdma.wire.native import INTERFACE, find, native

ROOT = Path(__file__).parents[2]
OCTETS = random.Random(44).randbytes(1 << 20)
needs_module = pytest.mark.skipif(native is None, reason="rpcrdma_native is not installed, or turned off")


def module(**names: Any) -> Any:
    return SimpleNamespace(**{"INTERFACE": INTERFACE, "CRC": "table", **names})


def raising(error: Exception) -> Any:
    def load() -> Any:
        raise error

    return load


def test_the_module_is_used_where_it_is_installed() -> None:
    installed = module(CRC="AVX-512")
    for setting in (None, "", "1"):
        assert find(setting, lambda: installed) == (installed, "native, CRC by AVX-512")


def test_the_environment_turns_the_module_off_without_loading_it() -> None:
    assert find("0", raising(AssertionError())) == (None, "Python: RPCRDMA_NATIVE=0")


def test_without_a_module_that_fits_python_does_its_work_and_says_why() -> None:
    for load, sentence in (
        (raising(ModuleNotFoundError("x")), "rpcrdma_native is not installed"),
        (raising(ImportError("undefined symbol: x")), "rpcrdma_native does not load: undefined symbol: x"),
        (lambda: module(INTERFACE=0), f"rpcrdma_native has interface 0, this version of rpcrdma needs {INTERFACE}"),
    ):
        assert find(None, load) == (None, f"Python: {sentence}")


def printed(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.thorough
def test_a_process_that_turns_the_module_off_takes_the_package() -> None:
    program = "import sys, rpcrdma.wire.native as n; from rpcrdma.wire import crc32c; \
        print(n.DATA_PATH, 'rpcrdma_native' in sys.modules, crc32c.__module__)"
    assert printed(program, RPCRDMA_NATIVE="0") == "Python: RPCRDMA_NATIVE=0 False crc32c._crc32c\n"


@pytest.mark.thorough
@needs_module
def test_a_process_that_uses_the_module_does_not_load_the_package() -> None:
    program = "import sys; from rpcrdma.wire import crc32c; print(crc32c.__module__, sorted(sys.modules))"
    function, _, loaded = printed(program).partition(" ")
    assert function == "rpcrdma_native"
    assert "'crc32c" not in loaded


def bytewise(data: bytes, value: int = 0) -> int:
    """The digest by its definition, bit by bit: the polynomial of RFC 3720 section 12.1, reflected."""
    value ^= 0xFFFFFFFF
    for octet in data:
        value ^= octet
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_the_package_computes_what_the_definition_says() -> None:
    for length in (0, 1, 7, 64, 300):
        assert package.crc32c(OCTETS[:length]) == bytewise(OCTETS[:length])


@needs_module
def test_the_module_computes_what_the_package_computes() -> None:
    assert native is not None
    assert checksum.crc32c is native.crc32c
    view = memoryview(OCTETS)
    for length in range(1101):
        start = length % 64
        data = view[start : start + length]
        for value in (0, 1, 0xFFFFFFFF, length * 0x9E3779B1 & 0xFFFFFFFF):
            assert native.crc32c(data, value) == package.crc32c(data, value), (length, value)
    for start in range(64):
        for length in (15, 63, 64, 255, 256, 257, 511, 1024, 4096 + start):
            data = view[start : start + length]
            assert native.crc32c(data) == package.crc32c(data), (start, length)
    for length in (1 << 18, (1 << 18) - 1, 1 << 20):
        assert native.crc32c(view[-length:]) == package.crc32c(view[-length:])


@needs_module
def test_a_digest_takes_octets_and_32_bits() -> None:
    assert native is not None
    for data in (bytearray(b"123456789"), memoryview(b"123456789")):
        assert native.crc32c(data) == 0xE3069283
    wrong: list[tuple[type[Exception], tuple[Any, ...]]] = [
        (TypeError, ()),
        (TypeError, (b"", 0, 0)),
        (TypeError, ("text",)),
        (TypeError, (b"", "0")),
        (OverflowError, (b"", 1 << 32)),
        (OverflowError, (b"", -1)),
        (BufferError, (memoryview(b"1234")[::2],)),
    ]
    for error, arguments in wrong:
        with pytest.raises(error):
            native.crc32c(*arguments)


@needs_module
def test_a_wrong_number_of_types_is_refused() -> None:
    assert native is not None
    for count in (0, 4, 6):
        with pytest.raises(TypeError, match="takes 5 objects"):
            native.use_types(*range(count))


@needs_module
def test_threads_compute_long_digests_side_by_side() -> None:
    """The interpreter's lock is released: memory that another thread reads stays as it is."""
    assert native is not None
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(native.crc32c(OCTETS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [package.crc32c(OCTETS)] * 4


def compiler() -> str | None:
    return shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0])


@pytest.mark.thorough
@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_every_implementation_that_this_processor_can_run_computes_the_definition(tmp_path: Path) -> None:
    program = tmp_path / "digests"
    command = [compiler(), "-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-o", program]
    subprocess.run([*command, ROOT / "native" / "tests" / "digests.c"], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert "table" in done.stdout.split()
