"""The fixtures of tests of commands."""

from __future__ import annotations

from support.commands import (
    answering_fixture,
    command,
    hang_ups_end_programs,
    nobody_listens,
    over,
    remote,
    server,
    serving_fixture,
    start,
    start_is_done_once,
)
from support.reloading import file

__all__ = [
    "answering_fixture",
    "command",
    "file",
    "hang_ups_end_programs",
    "nobody_listens",
    "over",
    "remote",
    "server",
    "serving_fixture",
    "start",
    "start_is_done_once",
]
