"""The options of one export: read from the end, by name."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from rpcrdma.cli.export_options import Exported, parse_export, parse_root
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from support.cases import each_case


def parsed(text: str) -> Exported:
    return parse_export(f"home={text}")


@each_case(
    ("text", "directory", "read_only", "security"),
    [
        ("/home", "/home", None, None),
        ("/home:ro", "/home", True, None),
        ("/home:rw", "/home", False, None),
        ("/home:sec=krb5p", "/home", None, (SecurityFlavor.KRB5P,)),
        ("/home:sec=krb5p:krb5i", "/home", None, (SecurityFlavor.KRB5P, SecurityFlavor.KRB5I)),
        ("/home:sec=krb5i:krb5:sys:ro", "/home", True, tuple(SecurityFlavor[n] for n in ("KRB5I", "KRB5", "SYS"))),
        ("/home:ro:sec=sys", "/home", True, (SecurityFlavor.SYS,)),
        ("/a:b", "/a:b", None, None),
        ("/a:krb5", "/a:krb5", None, None),
        ("/a:ro:b:rw", "/a:ro:b", False, None),
        ("/a:other=krb5", "/a:other=krb5", None, None),
    ],
)
def test_options_are_read_from_the_end_and_a_directory_keeps_its_colons(
    text: str, directory: str, read_only: bool | None, security: tuple[SecurityFlavor, ...] | None
) -> None:
    export = Exported(name="/home", source=Path(directory), read_only=read_only, security=security)
    assert parsed(text) == export


@each_case(
    ("text", "source", "read_only", "shown"),
    [
        ("s3://bucket/prefix", "s3://bucket/prefix", None, "s3://bucket/prefix"),
        ("s3://bucket/prefix:ro", "s3://bucket/prefix", True, "s3://bucket/prefix"),
        ("file:///srv/data", "file:///srv/data", None, "file:///srv/data"),
        ("zip::s3://bucket/a.zip:sec=sys", "zip::s3://bucket/a.zip", None, "zip::s3://bucket/a.zip"),
        ("ftp://me:secret@host:2121/a", "ftp://me:secret@host:2121/a", None, "ftp://me:...@host:2121/a"),
        ("./s3://a", Path("./s3://a"), None, str(Path("s3:/a").absolute())),
        ("/s3://a", Path("/s3://a"), None, "/s3:/a"),
        ("a:b", Path("a:b"), None, str(Path("a:b").absolute())),
    ],
)
def test_a_url_is_known_by_its_beginning(text: str, source: Path | str, read_only: bool | None, shown: str) -> None:
    export = parsed(text)
    assert (export.source, export.read_only, export.shown) == (source, read_only, shown)
    root = parse_root(text.removesuffix(":ro").removesuffix(":sec=sys"))
    assert (root.name, root.source) == ("/", source)


@each_case(
    ("text", "words"),
    [
        ("s3://bucket:rw", "a URL is exported read-only: leave out :rw"),
        ("/home:sec=krb6", "'krb6' is no security flavor: choose from sys, krb5, krb5i, krb5p"),
        ("/home:sec=", "'' is no security flavor"),
        ("/home:sec=krb5:krb5", "twice"),
        ("/home:sec=none", "'none' is no security flavor"),
        ("/home:ro:rw", "two options for one thing"),
        ("/home:sec=sys:ro:sec=krb5", "two options for one thing"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        parsed(text)
