"""The fixtures of tests of commands, which compile the definitions of NFS once."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from rpcrdma.xdr.language import check, parse
from rpcrdma_lab.dissect import rpc_body
from support.commands import command, hang_ups_end_programs, nobody_listens, server, start, start_is_done_once

__all__ = ["command", "hang_ups_end_programs", "nobody_listens", "server", "start", "start_is_done_once"]


@functools.cache
def _checked(source: str, name: str, **options: Any) -> Any:
    return check(parse(source, name), source, name, **options)


def _check(_specification: object, source: str, name: str, **options: Any) -> Any:
    return _checked(source, name, **options)


@pytest.fixture(scope="module", autouse=True)
def _definitions_are_compiled_once() -> Iterator[None]:
    """For each capture the definitions of NFS are compiled, which is most of the time of a command here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rpc_body, "parse", lambda *_: None)
        patch.setattr(rpc_body, "check", _check)
        yield
