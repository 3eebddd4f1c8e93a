"""Messages, hints and exit statuses of failures."""

from __future__ import annotations

import argparse
import errno
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.host_options import HostAuthentication
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.tcp_server import TcpServerConfig
from rpcrdma.cli.main import build_parser
from rpcrdma.commands import failures
from rpcrdma.commands.console import OPTIONS, ExitStatus, in_options
from rpcrdma.commands.failures import as_json, describe
from rpcrdma.errors import (
    CallTimeout,
    ConnectFailed,
    DecodeError,
    HostAuthenticationFailed,
    LocalProtocolError,
    OutOfMemory,
    ProgramUnavailable,
    RemoteProtocolError,
    RpcError,
    RpcRdmaError,
    TransportClosed,
    UserAuthenticationFailed,
)
from rpcrdma.nfs.server import Export
from rpcrdma.rpc.loaded_interface import LoadedInterface
from support.cases import each_case


@each_case(
    ("error", "status"),
    [
        (ConnectFailed("cannot connect to h:1: refused; start it"), ExitStatus.NOT_CONNECTED),
        (HostAuthenticationFailed("the certificate has expired", cause="expired"), ExitStatus.NOT_CONNECTED),
        (HostAuthenticationFailed("cannot read a.pem", cause="configuration"), ExitStatus.USAGE),
        (UserAuthenticationFailed("no ticket; run kinit"), ExitStatus.NOT_CONNECTED),
        (UserAuthenticationFailed("no package gssapi", cause="configuration"), ExitStatus.USAGE),
        (DecodeError("count", 4, "8 octets", "3"), ExitStatus.PROTOCOL_VIOLATION),
        (RemoteProtocolError("odd", rfc="8166 4.5"), ExitStatus.PROTOCOL_VIOLATION),
        (TransportClosed("the peer went away"), ExitStatus.FAILED),
        (TransportClosed("a bad checksum", protocol_error=True), ExitStatus.PROTOCOL_VIOLATION),
        (CallTimeout("READ: no reply within 3 s"), ExitStatus.FAILED),
        (RpcError("no such program"), ExitStatus.FAILED),
        (LocalProtocolError("no URL"), ExitStatus.USAGE),
        (RpcRdmaError("something"), ExitStatus.FAILED),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), ExitStatus.FAILED),
        (MemoryError(), ExitStatus.FAILED),
        (ValueError("odd"), ExitStatus.FAILED),
    ],
)
def test_each_failure_has_its_status(error: Exception, status: ExitStatus) -> None:
    message, hint, found = describe(error)
    assert found is status
    assert message
    assert "\n" not in message + hint


def test_the_remedy_of_a_failed_connection_is_the_hint() -> None:
    message, hint, _ = describe(ConnectFailed("cannot connect to h:1: refused; check that it runs"))
    assert message == "cannot connect to h:1: refused"
    assert hint == "check that it runs"


def test_a_broken_rule_is_named() -> None:
    message, _, _ = describe(RemoteProtocolError("odd", rfc="8166 4.5"))
    assert message == "the peer broke the protocol: odd (RFC 8166 4.5)"


@each_case(
    "error",
    [RemoteProtocolError("odd"), CallTimeout("odd"), ProgramUnavailable(), OutOfMemory("odd"), TransportClosed("x")],
)
def test_an_error_of_a_call_begins_with_its_url(error: RpcRdmaError) -> None:
    error.found_at("rdma://h:1")
    error.found_at("rdma://h:1/data/x")
    error.found_at("rdma://other:1/data/y")
    assert describe(error)[0].startswith("rdma://h:1/data/x: ")
    assert describe(error)[0].count("rdma://") == 1
    assert as_json(error)["url"] == "rdma://h:1/data/x"


def test_file_errors_name_the_file_and_the_cause() -> None:
    assert describe(OSError(errno.ENOENT, "No such file or directory", "/x"))[0] == "/x: no such file or directory"
    assert describe(OSError(errno.EXDEV, "Cross", "/a", None, "/b"))[0] == "/a -> /b: cross"
    assert describe(OSError(errno.EIO, "I/O error"))[0] == "I/O error"
    assert describe(OSError("plain"))[0] == "plain"


def test_file_errors_may_bring_their_remedy() -> None:
    assert describe(OSError(errno.ENOSPC, "Is full; delete something", "/x"))[:2] == ("/x: is full", "delete something")
    assert describe(OSError("no /proc; mount it"))[:2] == ("no /proc", "mount it")


def test_known_file_errors_have_a_hint() -> None:
    assert "read-only" in describe(OSError(errno.EROFS, "Read-only file system", "/x"))[1]


def test_a_very_long_path_is_shown_by_its_start_and_its_end_and_whole_in_json() -> None:
    path = "/start" + "/d" * 5000 + "/end"
    error = OSError(errno.ELOOP, "Odd", path, None, path)
    message = describe(error)[0]
    assert message.startswith("/start/d/d")
    assert message.endswith("/d/d/end: odd")
    assert len(message) < 1300
    assert as_json(error)["path"] == path
    usual = "/" + "d" * 255 + "/" + "e" * 255
    assert describe(OSError(errno.EIO, "Odd", usual))[0] == f"{usual}: odd"


OWNERS: dict[str, Callable[..., object]] = {
    each.__name__: each
    for each in (
        ConnectOptions,
        Export,
        HostAuthentication,
        RdmaServerConfig,
        TcpServerConfig,
        LoadedInterface.procedure,
    )
}


PACKAGE = Path(failures.__file__).parents[1]
LIBRARY = [
    path.read_text() for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in {"cli", "commands"}
]


def spellings(parser: argparse.ArgumentParser) -> Iterator[str]:
    """All options of a parser and of those below it."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from spellings(below)


@functools.cache
def offered() -> frozenset[str]:
    return frozenset(spellings(build_parser(whole=True)))


@each_case(("named", "option"), OPTIONS.items())
def test_parameters_in_messages_are_told_as_options_that_exist(named: str, option: str) -> None:
    error = ConnectFailed(f"refused; use {named}")
    error.add_note(f"or {named}")
    assert (describe(error)[1], in_options(f"refused: {named}")) == (f"or {option}", f"refused: {option}")
    call = re.match(r"(\w+)\((\w+)=", named)
    assert call is None or call[2] in inspect.signature(OWNERS[call[1]]).parameters
    # The class may be another one's, whose name is put in.
    written = (named if call is None else named.partition("(")[2]).replace('"', r"\"?")
    assert any(re.search(written.replace(".", r"\.").replace("(", r"\(").replace(")", r"\)"), text) for text in LIBRARY)
    name = re.search("--[a-z-]+", option)
    assert name is not None
    assert name[0] in offered()
