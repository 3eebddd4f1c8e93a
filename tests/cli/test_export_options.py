"""The options of one export: read from the end, by name."""

from __future__ import annotations

import argparse
import os
import threading
from pathlib import Path

import pytest

from rpcrdma.cli import export_options
from rpcrdma.cli.export_options import ExportArgument, default_state_dir, parse_export, parse_root
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.settings.effective import effective
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from support.cases import each_case
from support.command_process import HANG_S


def parsed(text: str) -> ExportArgument:
    return parse_export(f"home={text}")


@each_case(
    ("text", "directory", "own"),
    [
        ("/home", "/home", {}),
        ("/home:ro", "/home", {"access": "ro"}),
        ("/home:rw", "/home", {"access": "rw"}),
        ("/home:sec=krb5p", "/home", {"sec": (SecurityFlavor.KRB5P,)}),
        ("/home:sec=krb5p:krb5i", "/home", {"sec": (SecurityFlavor.KRB5P, SecurityFlavor.KRB5I)}),
        (
            "/home:sec=krb5i:krb5:sys:ro",
            "/home",
            {"access": "ro", "sec": tuple(SecurityFlavor[n] for n in ("KRB5I", "KRB5", "SYS"))},
        ),
        ("/home:ro:sec=sys", "/home", {"access": "ro", "sec": (SecurityFlavor.SYS,)}),
        ("/home:squash=all", "/home", {"squash": "all"}),
        ("/home:hosts=h:ro", "/home", {"access": "ro", "hosts": ["h"]}),
        (
            "/a:b:hosts=192.0.2.7,10.0.0.0/8,[2001:db8::]/32",
            "/a:b",
            {"hosts": ["192.0.2.7", "10.0.0.0/8", "2001:db8::/32"]},
        ),
        ("/a:b", "/a:b", {}),
        ("/a:krb5", "/a:krb5", {}),
        ("/a:ro:b:rw", "/a:ro:b", {"access": "rw"}),
        ("/a:other=krb5", "/a:other=krb5", {}),
    ],
)
def test_options_are_read_from_the_end_and_a_directory_keeps_its_colons(
    text: str, directory: str, own: dict[str, object]
) -> None:
    assert parsed(text) == ExportArgument("/home", Path(directory), own)


@each_case(
    ("text", "source", "own", "shown"),
    [
        ("s3://bucket/prefix", "s3://bucket/prefix", {}, "s3://bucket/prefix"),
        ("s3://bucket/prefix:ro", "s3://bucket/prefix", {"access": "ro"}, "s3://bucket/prefix"),
        ("file:///srv/data", "file:///srv/data", {}, "file:///srv/data"),
        (
            "zip::s3://bucket/a.zip:sec=sys",
            "zip::s3://bucket/a.zip",
            {"sec": (SecurityFlavor.SYS,)},
            "zip::s3://bucket/a.zip",
        ),
        ("ftp://me:secret@host:2121/a", "ftp://me:secret@host:2121/a", {}, "ftp://me:...@host:2121/a"),
        ("./s3://a", Path("./s3://a"), {}, str(Path("s3:/a").absolute())),
        ("/s3://a", Path("/s3://a"), {}, "/s3:/a"),
        ("a:b", Path("a:b"), {}, str(Path("a:b").absolute())),
    ],
)
def test_a_url_is_known_by_its_beginning(text: str, source: Path | str, own: dict[str, object], shown: str) -> None:
    export = parsed(text)
    assert export == ExportArgument("/home", source, own)
    args = build_parser().parse_args(["serve", "--export", f"home={text}"])
    assert [each.shown for each in effective(args).exports] == [shown]
    root = parse_root(text.removesuffix(":ro").removesuffix(":sec=sys"))
    assert root == ExportArgument("/", source)


@each_case(
    ("text", "words"),
    [
        ("s3://bucket:rw", "a URL is exported read-only: leave out :rw"),
        ("/home:sec=krb6", "'krb6' is no security flavor: choose from sys, krb5, krb5i, krb5p"),
        ("/home:sec=", "'' is no security flavor"),
        ("/home:sec=krb5:krb5", "twice"),
        ("/home:sec=none", "'none' is no security flavor"),
        ("/home:ro:rw", "two options for one thing"),
        ("/home:squash=some", "'some' squashes nobody: root, all, none"),
        ("/home:hosts=a,,b", "has an empty host: write 192.0.2.7,10"),
        ("~/home", "~ is not expanded here; write the whole path"),
        ("/:hosts=2001:db8::7", "'2001:db8::7' is no list of hosts: write .*2001:db8::]/32"),
        ("/:rx", "there is no option 'rx', and no such directory: use ro, rw, sec="),
        ("/home:sec=sys:ro:sec=krb5", "two options for one thing"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        parsed(text)


def test_a_disk_that_does_not_answer_holds_up_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    monkeypatch.setattr(export_options, "EXPORT_ANSWERS_S", 0)
    monkeypatch.setattr(os.path, "isdir", lambda _: end.wait(HANG_S))
    assert parsed("/:rx") == ExportArgument("/home", Path("/:rx"))
    end.set()


@each_case(
    ("name", "words"),
    [
        ("a/../b", "the name must be a path such as data or home/data"),
        ("a\nb", "'/a\\\\nb' is not a name for an export: remove its control characters"),
        ("x" * 300, "x...' is not a name for an export: shorten the part of 300 octets to 255"),
        ("/".join("x" * 1000), "is not a name for an export: shorten its 2000 octets to 1024"),
    ],
)
def test_a_name_that_no_client_can_mount_is_refused_in_words(name: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        parse_export(f"{name}=/home")


@each_case(
    ("state_home", "directory"),
    [
        ("/var/state", "/var/state/rpcrdma"),
        ("state", "/u/ada/.local/state/rpcrdma"),
        ("", "/u/ada/.local/state/rpcrdma"),
    ],
)
def test_the_state_directory_does_not_depend_on_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, state_home: str, directory: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", state_home)
    monkeypatch.setenv("HOME", "/u/ada")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_state_dir() == Path(directory)
