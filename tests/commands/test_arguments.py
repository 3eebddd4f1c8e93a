"""The arguments of all commands: each text that is no value of theirs is refused in words of their own."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress

from rpcrdma.cli.main import build_parser

_ODD = ("", "\0", "\udcff", "9" * 5000, "1e999", "nan", "²", "=", "a=[", "rdma://[", "http://[::1", "a:" + "9" * 5000)
_OWN_WORDS = (argparse.ArgumentTypeError, SystemExit)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _arguments(command)
        else:
            yield action


def test_no_text_of_an_argument_ends_in_another_error_than_a_refusal() -> None:
    """argparse shows the name of the function for any ValueError: of its own types alone it knows what they take."""
    kinds = {each.type for each in _arguments(build_parser(whole=True)) if callable(each.type)} - {int, float, str}
    assert len(kinds) > 20
    for kind in kinds:
        for text in _ODD:
            with suppress(*_OWN_WORDS):
                kind(text)
