"""Messages, hints and exit statuses of failures."""

from __future__ import annotations

import argparse
import errno
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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
from rpcrdma.nfs.errors import nfs_error
from rpcrdma.nfs.server import Export
from rpcrdma.nfs.v3 import nfsstat3
from rpcrdma.rpc.loaded_interface import LoadedInterface
from support.cases import each_case

NOT_CONNECTED, USAGE, FAILED = ExitStatus.NOT_CONNECTED, ExitStatus.USAGE, ExitStatus.FAILED
VIOLATION = ExitStatus.PROTOCOL_VIOLATION
BROKE = "the peer broke the protocol: "


@each_case(
    ("error", "told", "hint", "status"),
    [
        (ConnectFailed("cannot connect: refused; start it"), "cannot connect: refused", "start it", NOT_CONNECTED),
        (HostAuthenticationFailed("it has expired", cause="expired"), "it has expired", "", NOT_CONNECTED),
        (HostAuthenticationFailed("no a.pem", cause="configuration"), "no a.pem", "", USAGE),
        (UserAuthenticationFailed("no ticket; run kinit"), "no ticket", "run kinit", NOT_CONNECTED),
        (UserAuthenticationFailed("no gssapi", cause="configuration"), "no gssapi", "", USAGE),
        (DecodeError("count", 4, "8 octets", "3"), BROKE + "count at offset 4: need 8 octets, have 3", "", VIOLATION),
        (RemoteProtocolError("odd", rfc="8166 4.5"), BROKE + "odd (RFC 8166 4.5)", "", VIOLATION),
        (TransportClosed("gone"), "the connection ended: gone", "whether the last calls took", FAILED),
        (
            TransportClosed("a bad checksum", protocol_error=True),
            "one side broke the protocol: a bad checksum",
            "",
            VIOLATION,
        ),
        (CallTimeout("no reply within 3 s"), "no reply within 3 s", "the server may be overloaded; --timeout", FAILED),
        (RpcError("no"), "the server refused the call: no", "", FAILED),
        (LocalProtocolError("no URL"), "no URL", "", USAGE),
        (RpcRdmaError("something"), "something", "", FAILED),
        (MemoryError(), "out of memory", "", FAILED),
        (ValueError("odd"), "internal error: ValueError: odd", "set RPCRDMA_TRACEBACK=1", FAILED),
        (OSError(errno.ENOENT, "No such file", "/x"), "/x: no such file", "", FAILED),
        (OSError(errno.EXDEV, "Cross", "/a", None, "/b"), "/a -> /b: cross", "", FAILED),
        (OSError(errno.EIO, "I/O error"), "I/O error", "", FAILED),
        (OSError("no /proc; mount it"), "no /proc", "mount it", FAILED),
        (OSError(errno.ENOSPC, "Is full; delete something", "/x"), "/x: is full", "delete something", FAILED),
        (OSError(errno.EROFS, "Read-only file system", "/x"), "/x: read-only file system", "the export is", FAILED),
    ],
)
def test_each_failure_has_its_message_its_hint_and_its_status(
    error: Exception, told: str, hint: str, status: ExitStatus
) -> None:
    message, found_hint, found = describe(error)
    assert (message, found) == (told, status)
    assert found_hint.startswith(hint)
    assert bool(found_hint) == bool(hint)


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


@each_case("error", [MemoryError(), OutOfMemory("odd")])
def test_lack_of_memory_is_of_one_kind_whoever_notices_it(error: Exception) -> None:
    assert as_json(error)["kind"] == "out_of_memory"


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


@each_case("status", [nfsstat3.NFS3ERR_PERM, nfsstat3.NFS3ERR_ACCES])
def test_the_hint_for_root_names_all_causes_that_a_client_cannot_tell_apart(
    monkeypatch: pytest.MonkeyPatch, status: nfsstat3
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    hint = describe(nfs_error(status, "/x"))[1]
    assert "the user nobody" in hint
    assert "--reserved-port" in hint


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
