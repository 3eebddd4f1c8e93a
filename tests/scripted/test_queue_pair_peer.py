"""A scripted peer over a queue pair whose device does not do its part."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.scripted import QueuePairPeer
from rpcrdma.scripted import queue_pair_peer as module
from rpcrdma.scripted.values import Names


def test_a_device_that_tells_no_end_holds_no_conversation_up(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    queue_pair = SimpleNamespace(abort=told.append)
    driver = SimpleNamespace(queue_pair=queue_pair, close=lambda: told.append("closed"))
    link: Any = SimpleNamespace(active=False, open=lambda *_: driver)
    monkeypatch.setattr(module, "_END_S", 0)

    async def main() -> None:
        await QueuePairPeer(link, "1", [], Names()).close()

    asyncio.run(main())
    assert told == ["the conversation is over", "closed"]
