"""The extension module for RDMA devices: found or not, and its errors on a machine without a device."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.verbs.binding import INTERFACE, find

MODULE: Any = find()[0]


def raising(error: Exception) -> Any:
    def load() -> Any:
        raise error

    return load


class Older:
    INTERFACE = INTERFACE - 1


def test_a_module_that_is_missing_or_does_not_fit_is_told_with_its_remedy() -> None:
    for load, words in (
        (
            raising(ModuleNotFoundError("No module named 'rpcrdma_verbs'")),
            "is not installed; install it from a checkout",
        ),
        (raising(ImportError("wrong ELF class")), "does not load: wrong ELF class; install it from a checkout"),
        (Older, f"has interface {INTERFACE - 1}, this version of rpcrdma needs {INTERFACE}; install it"),
    ):
        module, reason = find(load)
        assert module is None
        assert words in reason


@pytest.mark.skipif(MODULE is None, reason=find()[1])
def test_errors_name_the_call_that_failed_or_the_library_that_is_missing() -> None:
    try:
        MODULE.devices()
        MODULE.EventChannel()
    except OSError as error:
        found = error
    else:
        pytest.skip(reason="this machine has an RDMA connection manager")
    # Without a name of a call the message is that of the dynamic linker, with the packages to install.
    assert str(found.filename).startswith(("ibv_", "rdma_")) or "install libibverbs1" in str(found)


@pytest.mark.skipif(MODULE is None, reason=find()[1])
def test_objects_of_the_device_come_from_the_connection_manager_alone() -> None:
    for kind in (MODULE.Domain, MODULE.ConnectionIdentifier, MODULE.QueuePair, MODULE.Region, MODULE.MemoryWindow):
        with pytest.raises(TypeError, match="cannot create"):
            kind()
