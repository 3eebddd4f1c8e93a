"""The examples of `rpcrdma.sync` in docs/python-api.md run unchanged, but for the server's port."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.cases import each_case

if TYPE_CHECKING:
    from conftest import Running

DOCUMENT = (Path(__file__).parents[2] / "docs" / "python-api.md").read_text()
SNIPPETS = [body for body in re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL) if "import sync" in body]


@pytest.mark.thorough
@each_case("snippet", SNIPPETS)
def test_snippets_run(snippet: str, running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    shown = "rdma://127.0.0.1:20049/"
    assert shown in snippet
    exec(compile(snippet.replace(shown, running.url), "python-api.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "prices.csv 21\n" in printed
    assert "[{'name': 'apple', 'price': '3'}]" in printed


def test_there_is_a_snippet() -> None:
    assert SNIPPETS
