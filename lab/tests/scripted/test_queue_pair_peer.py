"""A scripted peer over a queue pair whose device does not do its part."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from rpcrdma.errors import ConnectFailed, LocalProtocolError
from rpcrdma.verbs import Completion, Status, Verb
from rpcrdma_lab.limits import RAW_WAITING_MAX
from rpcrdma_lab.scripted import QueuePairPeer
from rpcrdma_lab.scripted import queue_pair_peer as module
from rpcrdma_lab.scripted.values import Names


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


def test_a_link_without_a_queue_pair_is_released_once() -> None:
    link: Any = SimpleNamespace(active=True, provider="verbs", refuse=Mock(), open=Mock(side_effect=ConnectFailed("")))

    async def main(fields: Mapping[str, Any], error: type[Exception]) -> None:
        peer = QueuePairPeer(link, "1", [], Names({"private_data": b""}))
        with pytest.raises(error):
            await peer.start(fields, "startup")
        await peer.close()
        await peer.close()

    asyncio.run(main({"ird": 1}, LocalProtocolError))
    assert link.refuse.call_count == 1
    # The provider has released this one.
    asyncio.run(main({}, OSError))
    assert link.refuse.call_count == 1


def test_messages_that_no_step_hears_get_no_receives() -> None:
    """Where each message had a receive, a peer could fill the memory of the judge."""
    posted: list[Any] = []
    waiting: deque[Completion] = deque()
    queue_pair = SimpleNamespace(post_receive=lambda wr, _: posted.append(wr), completions=waiting, events=[])
    driver = SimpleNamespace(queue_pair=queue_pair, flush=lambda: None)
    link: Any = SimpleNamespace(active=False, open=lambda *_: driver)

    async def main() -> None:
        peer = QueuePairPeer(link, "1", [], Names())
        posted.append(memoryview(bytearray(64)))
        for number in range(RAW_WAITING_MAX + 5):
            waiting.append(Completion(posted[-1], Verb.RECEIVE, Status.SUCCESS, 40))
            peer._turn()
            assert len(posted) == 1 + min(number + 1, RAW_WAITING_MAX)
        await peer.next()
        assert len(posted) == 2 + RAW_WAITING_MAX

    asyncio.run(main())
