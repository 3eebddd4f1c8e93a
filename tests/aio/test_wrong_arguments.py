"""Arguments that no call can use are refused at once, by the name of the parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rpcrdma
import rpcrdma.sync
from rpcrdma.nfs import FileOptions
from rpcrdma.rpc import Service
from support.cases import each_case


@each_case(
    ("call", "message"),
    [
        (lambda: rpcrdma.connect(5), "a URL must be a str such as rdma://HOST/PATH, not int"),
        (lambda: rpcrdma.nfs_open(Path("/data")), "a URL must be a str .* not PosixPath"),
        (lambda: rpcrdma.sync.nfs_open(None), "a URL must be a str .* not NoneType"),
        (lambda: rpcrdma.serve([], listen="tcp://127.0.0.1"), r'write \["tcp://127.0.0.1"\]'),
        (lambda: rpcrdma.serve([Service]), "subclasses of Service, not the class Service"),
        (lambda: rpcrdma.serve([5]), "subclasses of Service, not int"),
        (lambda: rpcrdma.buffer("8"), "octets must be of type int, not str"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


_OPTIONS = [
    (rpcrdma.ConnectOptions, "call_timeout_s", True),
    (rpcrdma.ConnectOptions, "reconnect_delay_max_s", False),
    (rpcrdma.ServeOptions, "workers", False),
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
