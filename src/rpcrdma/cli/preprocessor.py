"""Runs the C preprocessor over an interface definition."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rpcrdma.errors import RpcRdmaError

__all__ = ["PreprocessorFailed", "preprocess"]

_COMPLAINT = re.compile(r"^(.*?)(?:fatal )?error: (.*)$", re.MULTILINE)


class PreprocessorFailed(RpcRdmaError):
    """There is no preprocessor, or it has refused the definition; the message is its first complaint."""


def preprocess(file: str, text: str | None, *, defines: Sequence[str], directories: Sequence[str]) -> str:
    """The output of `cpp` for `file`, or for `text` where that is given, with markers of the origin of each line.

    Raises:
        PreprocessorFailed: see there.
    """
    program = shutil.which("cpp")
    if program is None:
        error = PreprocessorFailed("there is no C preprocessor: no program cpp in the PATH")
        error.add_note("apt-get install cpp")
        raise error
    # Names such as `unix` are members' here, not macros; warnings are about apostrophes in lines that begin with %.
    command = [program, "-undef", "-w", *(f"-D{each}" for each in defines), *(f"-I{each}" for each in directories)]
    given = "-" if text is not None else os.path.join(".", file) if file.startswith("-") else file  # noqa: PTH118
    done = subprocess.run(  # noqa: S603 - the program of the PATH, with its user's own arguments
        [*command, given],
        input=None if text is None else text.encode(),
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace")
        found = _COMPLAINT.search(said)
        message = found[1] + found[2] if found else (said.strip().splitlines() or ["no reason given"])[-1]
        raise PreprocessorFailed(f"cpp: {message}")
    try:
        return done.stdout.decode()
    except UnicodeDecodeError:
        raise PreprocessorFailed(f"{Path(file).name}: not UTF-8 text") from None
