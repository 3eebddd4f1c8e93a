"""Exported file systems of fsspec whose libraries answer wrongly, without end, or with errors."""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fsspec_rig import ME, Store, content, exported, found, names_in, refused
from rpcrdma.nfs.export import fsspec_store
from rpcrdma.nfs.export.fsspec_store import errno_of
from support.cases import each_case


@pytest.fixture(autouse=True)
def _one_file() -> Iterator[None]:
    """bucket/x."""
    Store.clear()
    Store(skip_instance_cache=True).pipe("/bucket/x", b"12345")
    yield
    Store.clear()


ODD_NAMES: list[Any] = [
    "/bucket/a/b",
    "/bucket/..",
    "/bucket/.",
    "/bucket/",
    "/bucket/a\0b",
    "/bucket/" + "n" * 256,
    "/bucket/" + "\u00e9" * 128,
    "/bucket/\ud800",
    "/bucket/good",
    "/bucket/good",
    "/bucket/../other/secret",
    "/elsewhere",
    "/bucket/\udcff",
    "",
    None,
    7,
    b"/bucket/octets",
]


def test_a_listing_with_names_that_nfs_cannot_carry_shows_the_others_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entries = [{"name": name, "type": "file", "size": 1} for name in ODD_NAMES] + [None, [], {"type": "file"}]
    Store.answers["ls"] = lambda path, **_: entries
    with exported(tmp_path) as exports:
        for detailed in (False, True):
            names = [entry.name for entry in found(exports).entries(ME, 2, detailed=detailed)]
            assert sorted(names) == [b"elsewhere", b"good", b"\xff"]
    assert len([record for record in caplog.records if "left out" in record.getMessage()]) == 1


@each_case(
    "answer",
    [
        lambda path, **_: None,
        lambda path, **_: 7,
        lambda path, **_: itertools.repeat({"name": "/bucket/x", "type": "file", "size": 1}),
        lambda path, **_: ({"name": f"/bucket/{n}", "type": "file", "size": 1} for n in itertools.count()),
        lambda path, **_: itertools.repeat(None),
        lambda path, **_: 1 / 0,
    ],
)
def test_a_listing_that_never_ends_or_is_none_is_an_error_with_its_cause_in_the_log(
    answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fsspec_store, "NFS_FSSPEC_LISTED_MAX", 1000)
    Store.answers["ls"] = answer
    with exported(tmp_path) as exports:
        assert refused(lambda: names_in(found(exports))) == errno.EIO
        # Others go on.
        assert content(found(exports, b"x")) == b"12345"
    assert "clients get EIO" in caplog.text


@each_case(
    ("info", "number"),
    [
        (None, errno.ENOENT),
        ("text", errno.ENOENT),
        ({}, errno.ENOENT),
        ({"type": "file", "size": -1}, errno.ENOENT),
        ({"type": "file", "size": 1 << 63}, errno.ENOENT),
        ({"type": "file"}, errno.EIO),
        ({"type": "file", "size": None, "name": 5}, errno.EIO),
    ],
)
def test_an_object_with_a_wrong_info_is_refused(info: Any, number: int, tmp_path: Path) -> None:
    Store.answers.clear()
    with exported(tmp_path) as exports:
        Store.answers["info"] = lambda path, **_: info
        assert refused(lambda: found(exports, b"x")) == number


@each_case("data", [b"", b"123", b"123456", None, "12345", 5])
def test_a_file_whose_octets_are_not_as_its_size_says_is_an_error(data: Any, tmp_path: Path) -> None:
    Store.answers["cat_file"] = lambda path, **_: data
    with exported(tmp_path) as exports:
        assert refused(lambda: content(found(exports, b"x"))) == errno.EIO


class NoCredentialsError(Exception):
    pass


class ClientResponseError(Exception):
    status = 403


class HttpError(Exception):
    code = 503


class EndpointConnectionError(Exception):
    pass


@each_case(
    ("error", "number"),
    [
        (FileNotFoundError("x"), errno.ENOENT),
        (PermissionError("x"), errno.EACCES),
        (OSError(errno.EPERM, "x"), errno.EACCES),
        (TimeoutError(), errno.EAGAIN),
        (ConnectionResetError(), errno.EAGAIN),
        (OSError(errno.EHOSTUNREACH, "x"), errno.EAGAIN),
        (OSError(errno.EBUSY, "slow down"), errno.EAGAIN),
        (OSError(errno.ENOSPC, "x"), errno.EIO),
        (OSError("no number"), errno.EIO),
        (NoCredentialsError("Unable to locate credentials"), errno.EACCES),
        (ClientResponseError(), errno.EACCES),
        (HttpError(), errno.EAGAIN),
        (asyncio.CancelledError(), errno.EAGAIN),
        (EndpointConnectionError(), errno.EAGAIN),
        (KeyError("x"), errno.EIO),
        (LookupError(), errno.EIO),
    ],
)
def test_errors_of_libraries_have_the_nearest_number_and_their_cause_is_logged(
    error: BaseException, number: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert errno_of(error) == number
    Store.answers.clear()

    def fail(path: str, **_: Any) -> None:
        raise error

    with exported(tmp_path) as exports:
        file = found(exports, b"x")
        Store.answers.update(ls=fail, cat_file=fail, info=fail)
        # The root stays when all below it is gone.
        assert number == errno.ENOENT or refused(lambda: names_in(found(exports))) == number
        assert refused(lambda: content(file)) == (errno.ESTALE if number == errno.ENOENT else number)
        assert refused(lambda: found(exports, b"y")) == number
        if number != errno.ENOENT:
            with pytest.raises(OSError, match="cannot export"), exported(tmp_path):
                pass
    cause = str(error) if str(error).startswith("[Errno") else type(error).__name__
    logged = [record for record in caplog.records if cause in record.getMessage()]
    assert (len(logged) > 0) == (number != errno.ENOENT)


def test_faults_of_a_store_do_not_flood_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with exported(tmp_path) as exports:
        Store.answers["info"] = lambda path, **_: 1 / 0
        for number in range(50):
            assert refused(lambda number=number: found(exports, b"%d" % number)) == errno.EIO  # type: ignore[misc]
        assert len(caplog.records) == 1
    assert "49 more like it" in caplog.text
