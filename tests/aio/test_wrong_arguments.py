"""Arguments that no call can use are refused at once, by the name of the parameter."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

import rpcrdma
import rpcrdma.sync
from rpcrdma.aio.misuse import Opening
from rpcrdma.nfs import FileOptions, v3
from rpcrdma.rpc import Service
from support.cases import each_case

URL = "rdma://127.0.0.1:1"


@each_case(
    ("call", "message"),
    [
        (lambda: rpcrdma.connect(5), "a URL must be a str such as rdma://HOST/PATH, not int"),
        (lambda: rpcrdma.nfs_open(Path("/data")), "a URL must be a str .* not PosixPath"),
        (lambda: rpcrdma.sync.nfs_open(None), "a URL must be a str .* not NoneType"),
        (lambda: rpcrdma.serve([], listen="tcp://127.0.0.1"), r'write \["tcp://127.0.0.1"\]'),
        (
            lambda: rpcrdma.serve([Service]),
            r"services\[0\] must be of type Service, not the class Service: write Service",
        ),
        (lambda: rpcrdma.serve([5]), r"services\[0\] must be of type Service, not int"),
        (lambda: rpcrdma.serve(Service()), r"services must be a list of objects of Service, not Service: write \["),
        (
            lambda: rpcrdma.serve([], options={}),
            r"options must be of type ServeOptions, not dict: write ServeOptions\(",
        ),
        (
            lambda: rpcrdma.ConnectOptions(services=[object]),
            r"services\[0\] must be of type Service, not the class object",
        ),
        (lambda: rpcrdma.ConnectOptions(iwarp={}), r"iwarp must be of type IwarpConfig, not dict"),
        (lambda: rpcrdma.connect(URL, options={}), r"options must be of type ConnectOptions, not dict: write Conn"),
        (lambda: rpcrdma.connect(URL, v3), "program must be of type Program, not the module .*: write .*v3.PROGRAM"),
        (lambda: rpcrdma.sync.nfs_open(URL, options={"call_timeout_s": 3}), "options must be of type ConnectOptions"),
        (lambda: rpcrdma.nfs_open(URL, files={}), r"files must be of type FileOptions, not dict: write FileOptions\("),
        (lambda: rpcrdma.nfs_open(URL, mount_port="9"), "mount_port must be of type int, not str$"),
        (lambda: rpcrdma.buffer("8"), "octets must be of type int, not str"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@each_case(
    ("options", "name", "message"),
    [
        (
            rpcrdma.ConnectOptions,
            "time_out",
            "ConnectOptions has no option 'time_out'; did you mean connect_timeout_s or call_timeout_s?",
        ),
        (rpcrdma.ConnectOptions, "reservedport", r".*; did you mean reserved_port\?"),
        (rpcrdma.ConnectOptions, "credentials", r".*; did you mean credential\?"),
        (rpcrdma.ConnectOptions, "user", "ConnectOptions has no option 'user'; the options are provider, .*, on_call$"),
        (rpcrdma.ServeOptions, "worker", r".*; did you mean workers\?"),
        (rpcrdma.RdmaServerConfig, "idle", r".*; did you mean idle_s\?"),
        (rpcrdma.TcpServerConfig, "connection_max", r".*; did you mean connections_max\?"),
        (FileOptions, "x", "FileOptions has no option 'x'; the options are direct_calls"),
    ],
)
def test_an_unknown_option_is_named_with_similar_ones(options: Any, name: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        options(**{name: 1})
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        options(1)


@each_case(
    ("open_it", "written"),
    [
        (lambda: rpcrdma.connect("rdma://127.0.0.1:1"), "rpcrdma.connect"),
        (lambda: rpcrdma.nfs_open("rdma://127.0.0.1:1"), "rpcrdma.nfs_open"),
        (lambda: rpcrdma.serve([]), "rpcrdma.serve"),
    ],
)
def test_an_object_that_is_not_yet_opened_names_the_remedy(open_it: Callable[[], Any], written: str) -> None:
    unopened = open_it()
    message = rf"{written}\(\.\.\.\) alone opens nothing, and has no 'mkdir': write `async with {written}\(\.\.\.\)"
    with pytest.raises(AttributeError, match=message):
        unopened.mkdir("reports")
    assert not hasattr(unopened, "mkdir"), "programs that look for attributes see none"


class _Numbered(Opening[Any]):
    OPENED_BY = "numbered"

    def __init__(self) -> None:
        self.made: list[Mock] = []

    async def _open(self) -> Any:
        self.made.append(Mock(close=AsyncMock()))
        return self.made[-1]


async def test_uses_of_one_opening_that_overlap_close_each_its_own_object_once() -> None:
    numbered, ends = _Numbered(), asyncio.Event()

    async def use() -> None:
        async with numbered as own:
            await ends.wait()
            own.close.assert_not_called()
        own.close.assert_called_once()

    async with numbered as outer:
        earlier = asyncio.ensure_future(use())
        await asyncio.sleep(0)
        async with numbered as inner:
            later = asyncio.ensure_future(use())
            await asyncio.sleep(0)
        assert [each.close.called for each in numbered.made] == [each is inner for each in numbered.made]
    outer.close.assert_called_once()
    ends.set()
    await asyncio.gather(earlier, later)
    # As the fixture of a test may be entered and left.
    await numbered.__aenter__()
    await asyncio.ensure_future(numbered.__aexit__())
    assert [each.close.call_count for each in numbered.made] == [1] * 5


_OPTIONS = [
    (rpcrdma.ConnectOptions, "call_timeout_s", True),
    (rpcrdma.ConnectOptions, "reconnect_delay_max_s", False),
    (rpcrdma.ServeOptions, "workers", False),
    (rpcrdma.ServeOptions, "calls_per_host", True),
    (rpcrdma.RdmaServerConfig, "idle_s", True),
    (rpcrdma.TcpServerConfig, "connections_max", False),
    (FileOptions, "direct_calls", False),
]


@each_case(("options", "name", "optional"), _OPTIONS)
def test_a_number_of_options_is_at_least_0_finite_and_a_number(options: Any, name: str, optional: bool) -> None:
    for value in (-1, math.nan, math.inf):
        with pytest.raises((ValueError, TypeError), match=name):
            options(**{name: value})
    for value in ("3", True, *(() if optional else (None,))):
        with pytest.raises(TypeError, match=f"{name} must be of type .*{type(value).__name__}"):
            options(**{name: value})
    assert getattr(options(**{name: 3}), name) == 3
    if optional:
        assert getattr(options(**{name: None}), name) is None


def test_an_option_by_which_nothing_would_end_is_refused() -> None:
    for options, names in (
        (FileOptions, ("files_at_once",)),
        (rpcrdma.ServeOptions, ("workers", "calls_per_host", "memory_octets_max")),
        (rpcrdma.TcpServerConfig, ("record_octets_max",)),
        (rpcrdma.ConnectOptions, ("connect_timeout_s", "call_timeout_s", "record_octets_max")),
    ):
        for name in names:
            with pytest.raises(ValueError, match=f"{name} is 0, with which nothing would work; write more"):
                options(**{name: 0})
