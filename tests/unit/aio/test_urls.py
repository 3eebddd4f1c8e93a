"""Service URLs."""

from __future__ import annotations

import pytest

from rpcrdma.aio.urls import Url, parse_url
from rpcrdma.errors import LocalProtocolError


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("rdma://server", Url(scheme="rdma", host="server", port=20049)),
        ("tcp://server/", Url(scheme="tcp", host="server", port=2049, path="/")),
        ("rdma://192.0.2.7:0/a/b", Url(scheme="rdma", host="192.0.2.7", port=0, path="/a/b")),
        ("rdma://[2001:db8::1]:7/x", Url(scheme="rdma", host="2001:db8::1", port=7, path="/x")),
        ("tcp://h/with%20space/%C3%A9", Url(scheme="tcp", host="h", port=2049, path="/with space/é")),
        ("tcp://h/what?/a#b", Url(scheme="tcp", host="h", port=2049, path="/what?/a#b")),
        ("tcp://h/%ff", Url(scheme="tcp", host="h", port=2049, path="/\udcff")),
    ],
)
def test_a_service_url_is_taken_apart(text: str, url: Url) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        *("server", "http://server", "rdma://", "rdma:///path", "rdma://user@server", "rdma://h:70000", "tcp://h:x"),
        *("tcp://[::1", "tcp://[x]/"),
    ],
)
def test_what_is_no_service_url_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(LocalProtocolError, match=r"rdma://HOST|port must be"):
        parse_url(text)


def test_a_url_is_shown_as_it_is_written() -> None:
    assert str(parse_url("rdma://[::1]:20049/x")) == "rdma://[::1]:20049/x"
