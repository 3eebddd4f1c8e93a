"""`rpcrdma.sync` mirrors the asynchronous API: the same names, with the same arguments."""

from __future__ import annotations

import inspect
import re
from typing import Any

import rpcrdma
from rpcrdma import sync
from rpcrdma.nfs import client
from support.cases import each_case

PAIRS = [
    (client.NfsFilesystem, sync.NfsFilesystem),
    (client.MountedFilesystem, sync.MountedFilesystem),
    (client.NfsFile, sync.NfsFile),
    (rpcrdma.Connection, sync.Connection),
]
LEFT_OUT = {
    # Messages of extensions are sent by functions that belong to the loop, from handlers that run in it.
    "extension",
    # `MountedFilesystem.connection`, which every file system here has.
    "caller",
    # Of files of fsspec, which keep its view between two calls.
    "pread_ahead",
}
# Further attributes of files of the `io` module.
FOR_IO = {"mode", "readall"}
# Parameters of `open`, whose files of text are those of `io`.
FOR_TEXT = {"encoding", "errors", "newline"}
# Parameters that `io.RawIOBase` takes by position alone.
BY_POSITION = {"seek", "read", "readinto", "readline", "readlines", "write", "truncate"}


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def set_at_first(cls: type) -> set[str]:
    """The public attributes that `__init__` gives each object."""
    sources = [inspect.getsource(one.__init__) for one in cls.__mro__ if inspect.isfunction(vars(one).get("__init__"))]
    return set(re.findall(r"^ +self\.([a-z]\w*)(?:: [^=]+)? =", "\n".join(sources), re.MULTILINE))


def public_of(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """(name, kind, default) of each argument."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@each_case(("asynchronous", "waiting"), PAIRS)
def test_both_have_the_same_names_and_arguments(asynchronous: type, waiting: type) -> None:
    own_classes = [cls for cls in waiting.__mro__ if cls.__module__.startswith("rpcrdma")]
    own = {name for cls in own_classes for name in public_of(cls) | set_at_first(cls)}
    names = public(asynchronous) - LEFT_OUT
    assert own - FOR_IO == (names | set_at_first(asynchronous)) - LEFT_OUT
    for name in sorted(names):
        mine, theirs = (inspect.getattr_static(cls, name) for cls in (waiting, asynchronous))
        assert isinstance(mine, property) == isinstance(theirs, property), name
        if isinstance(mine, property):
            continue
        if waiting is sync.NfsFile and name in BY_POSITION:
            assert [p[::2] for p in parameters(mine)] == [p[::2] for p in parameters(theirs)], name
        elif name == "open":
            assert [p for p in parameters(mine) if p[0] not in FOR_TEXT] == parameters(theirs)
        else:
            assert parameters(mine) == parameters(theirs), name
        assert not inspect.iscoroutinefunction(mine), f"{name} would have to be awaited"
        assert not inspect.isasyncgenfunction(mine), f"{name} would have to be iterated over asynchronously"


@each_case("name", ["connect", "nfs_open"])
def test_both_open_with_the_same_arguments(name: str) -> None:
    assert parameters(getattr(sync, name)) == parameters(getattr(rpcrdma, name))


def test_every_coroutine_is_waited_for_by_its_own_name() -> None:
    """`stat = waiting(NfsFilesystem.stat)`: a name on the left that differs from that on the right would lie."""
    for _, waiting in PAIRS:
        for name, value in vars(waiting).items():
            wrapped = getattr(value, "__wrapped__", None)
            assert wrapped is None or wrapped.__name__ == name


def test_what_waits_is_documented() -> None:
    for _, waiting in PAIRS:
        for name in public_of(waiting):
            assert inspect.getdoc(inspect.getattr_static(waiting, name)), f"{waiting.__name__}.{name}"
