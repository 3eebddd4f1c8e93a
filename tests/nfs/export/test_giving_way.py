"""Long work in a thread pauses after each 4 ms of it, and never in the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rpcrdma.nfs.export import giving_way
from rpcrdma.nfs.export.giving_way import give_way


def test_a_thread_pauses_once_it_has_worked_for_4_ms_and_an_event_loop_never(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 0
    pauses: list[int] = []

    def pause(duration_s: float) -> None:
        nonlocal now_ms
        assert duration_s == 50e-6
        pauses.append(now_ms)
        # The other threads take their time.
        now_ms += 100

    monkeypatch.setattr(giving_way, "monotonic", lambda: now_ms / 1000)
    monkeypatch.setattr(giving_way, "sleep", pause)

    def work() -> None:
        nonlocal now_ms
        for _ in range(10):
            give_way()
            now_ms += 1

    for expected in ([4, 108], [214, 318]):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert pauses == expected, "what another thread has worked does not count"
        pauses.clear()

    async def in_the_event_loop() -> None:
        work()

    asyncio.run(in_the_event_loop())
    assert pauses == []
