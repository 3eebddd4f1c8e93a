"""No handle of a call that has ended can be used by the peer, over a device with memory windows and without."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.late_accesses import ATTACKS, late_access

pytestmark = pytest.mark.thorough


@each_case(("call", "target", "verb", "windows"), ATTACKS)
def test_a_late_access_breaks_the_connection_and_changes_nothing(
    call: Any, target: str, verb: str, windows: bool
) -> None:
    device = DeviceInMemory(windows=1000 if windows else 0)
    asyncio.run(late_access(VerbsProvider(device), "127.0.0.1", call, target, verb, windows=windows))
