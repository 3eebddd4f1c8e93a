"""Service URLs."""

from __future__ import annotations

import re

import pytest

from rpcrdma.aio.urls import Url, parse_url, url_form
from rpcrdma.errors import LocalProtocolError
from support.cases import each_case


@each_case(
    ("text", "url"),
    [
        ("rdma://server", Url(scheme="rdma", host="server", port=20049)),
        ("tcp://server/", Url(scheme="tcp", host="server", port=2049, path="/")),
        ("rdma://192.0.2.7:0/a/b", Url(scheme="rdma", host="192.0.2.7", port=0, path="/a/b")),
        ("rdma://[2001:db8::1]:7/x", Url(scheme="rdma", host="2001:db8::1", port=7, path="/x")),
        ("tcp://h/with%20space/%C3%A9", Url(scheme="tcp", host="h", port=2049, path="/with space/é")),
        ("tcp://h/what?/a#b", Url(scheme="tcp", host="h", port=2049, path="/what?/a#b")),
        ("rdma://h/d?mountport=7", Url(scheme="rdma", host="h", port=20049, path="/d", mount_port=7)),
        ("tcp://h:1?mountport=65535", Url(scheme="tcp", host="h", port=1, mount_port=65535)),
        ("rdma://h:1+7/d", Url(scheme="rdma", host="h", port=1, path="/d", mount_port=7)),
        ("rdma://h+7", Url(scheme="rdma", host="h", port=20049, mount_port=7)),
        ("rdma://[::1]+7/a+8/b", Url(scheme="rdma", host="::1", port=20049, path="/a+8/b", mount_port=7)),
        ("tcp://h/d%3Fmountport=7", Url(scheme="tcp", host="h", port=2049, path="/d?mountport=7")),
        ("tcp://h/why?", Url(scheme="tcp", host="h", port=2049, path="/why?")),
        ("tcp://h/%ff", Url(scheme="tcp", host="h", port=2049, path="/\udcff")),
        ("tcp://h/a\tb\r\nc", Url(scheme="tcp", host="h", port=2049, path="/a\tb\r\nc")),
    ],
)
def test_a_service_url_is_taken_apart(text: str, url: Url) -> None:
    assert parse_url(text) == url


@each_case("host", ["server", "192.0.2.1", "[::1]"])
def test_a_place_as_mount_takes_it_is_refused_with_its_url(host: str) -> None:
    with pytest.raises(LocalProtocolError, match=re.escape(f"write rdma://{host}/data or tcp://{host}/data")):
        parse_url(f"{host}:/data")


@each_case(
    "text",
    [
        *("server", "http://server", "rdma://", "rdma:///path", "rdma://h:70000", "tcp://h:x"),
        *("tcp://[::1", "tcp://[x]/"),
    ],
)
def test_what_is_no_service_url_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(LocalProtocolError, match=r"rdma://HOST|port must be"):
        parse_url(text)


@each_case("where", ["127.0.0.1:1/", "[::1]:20049/x", "h/a@b"])
def test_a_user_in_a_url_is_refused_and_no_password_is_shown(where: str) -> None:
    with pytest.raises(LocalProtocolError, match="names a user") as refused:
        parse_url(f"rdma://user:secret@{where}")
    assert "secret" not in str(refused.value)
    assert f"***@{where}" in str(refused.value)


@each_case(
    ("text", "url"),
    [
        ("host:/a/b", "write rdma://host/a/b or tcp://host/a/b"),
        ("127.0.0.1:20049:/a", "write rdma://127.0.0.1:20049/a or tcp://127.0.0.1:20049/a"),
        ("[::1]:20049:/a", "write rdma://[::1]:20049/a or tcp://[::1]:20049/a"),
        ("rdma:/host/x", "write rdma://host/x"),
    ],
)
def test_what_is_nearly_a_url_gets_its_url(text: str, url: str) -> None:
    assert url_form(text) == url


@each_case(
    ("text", "said"),
    [
        ("rdma://h/d?nfsport=7", r"'nfsport' means nothing in a URL.*\?mountport=PORT; write %3F"),
        ("rdma://h/d?mountport=7&x=y", "mountport must be a number"),
        ("rdma://h/d?mountport=", "mountport must be a number from 1 to 65535"),
        ("rdma://h:1+/d", "mountport must be a number from 1 to 65535"),
        ("rdma://fd00::1/x", r"an IPv6 address stands in brackets, as in rdma://\[::1\]"),
        ("tcp://::1", r"an IPv6 address stands in brackets, as in tcp://\[::1\]"),
        ("rdma://h/a%00b", "no name has a null character"),
        ("rdma://127.0.0.1\0h/a", "no name has a null character"),
        ("rdma://h+x/d", "mountport must be a number from 1 to 65535"),
        ("rdma://h+7/d?mountport=7", r"the port of MOUNT is named twice, behind '\+' and as mountport"),
        ("rdma://h/d?mountport=65536", "mountport must be a number from 1 to 65535"),
    ],
)
def test_a_query_that_means_nothing_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(LocalProtocolError, match=said):
        parse_url(text)


@each_case(
    "text",
    [
        *("rdma://[::1]:20049/x", "rdma://h:7/d?mountport=9", "tcp://h:7/a%25b%3Fc=d", "tcp://h:7/what?/a#b"),
        *("tcp://h:7/caf%FF%FE", "tcp://h:7/é x", "tcp://h:7/a\nb"),
    ],
)
def test_a_url_is_shown_as_it_is_written(text: str) -> None:
    assert str(parse_url(text)) == text


def test_a_url_to_listen_at_may_choose_the_provider() -> None:
    url = parse_url("rdma://h:1?provider=verbs", listens=True)
    assert (url.provider, str(url)) == ("verbs", "rdma://h:1?provider=verbs")
    assert parse_url("rdma://h:1", listens=True).provider is None


def test_a_provider_in_another_url_is_refused() -> None:
    for text, listens, said in (
        ("rdma://h?provider=verbs", False, r"'provider' means nothing in a URL"),
        ("rdma://h?provider=roce", True, "provider= is for rdma:// and one of auto, iwarp, verbs"),
        ("tcp://h?provider=verbs", True, "provider= is for rdma://"),
    ):
        with pytest.raises(LocalProtocolError, match=said):
            parse_url(text, listens=listens)


def test_a_url_knows_whether_its_port_is_the_default_one() -> None:
    assert [parse_url(text).port_given for text in ("tcp://h", "tcp://h:2049", "rdma://[::1]/x")] == [
        False,
        True,
        False,
    ]
    assert parse_url("tcp://h") == parse_url("tcp://h:2049")
