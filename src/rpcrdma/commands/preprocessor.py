"""Runs the C preprocessor over an interface definition."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rpcrdma.errors import RpcRdmaError
from rpcrdma.file_limits import XDR_DEFINITION_CHARACTERS_MAX, XDR_PREPROCESSOR_S

__all__ = ["PreprocessorFailed", "preprocess"]

_COMPLAINT = re.compile(r"^(.*?)(?:fatal )?error: (.*)$", re.MULTILINE)
_STEP_OCTETS = 1 << 16
_OUTPUT_OCTETS_MAX = 4 * XDR_DEFINITION_CHARACTERS_MAX
"""The compiler takes nothing that is longer."""


class PreprocessorFailed(RpcRdmaError):
    """The C preprocessor is missing, has refused the definition, takes too long or prints too much.

    The message says which.
    """


def preprocess(file: str, text: str | None, *, defines: Sequence[str], directories: Sequence[str]) -> str:
    """Runs the C preprocessor `cpp`, and returns its output, with markers of each line's origin. Blocks.

    Args:
        file: the name of the input file, which is not read if `text` is given.
        text: the input; None: the content of the file.
        defines: macros, NAME or NAME=VALUE.
        directories: further directories in which included files are looked for.

    Raises:
        PreprocessorFailed: there is no `cpp`, it fails, takes more than XDR_PREPROCESSOR_S (20) s, or its output is
            too long or not UTF-8.
    """
    program = shutil.which("cpp")
    if program is None:
        error = PreprocessorFailed("there is no C preprocessor: no program cpp in the PATH")
        error.add_note("apt-get install cpp")
        raise error
    # Names such as `unix` are members' here, not macros; warnings are about apostrophes in lines that begin with %.
    command = [program, "-undef", "-w", *(f"-D{each}" for each in defines), *(f"-I{each}" for each in directories)]
    given = "-" if text is not None else os.path.join(".", file) if file.startswith("-") else file  # noqa: PTH118
    with tempfile.TemporaryFile() as source:
        source.write((text or "").encode())
        source.seek(0)
        with _running([*command, given], source.fileno()) as process:
            out, err = _outputs(process)
            status = process.wait()
    if status:
        said = err.decode(errors="replace")
        found = _COMPLAINT.search(said)
        message = found[1] + found[2] if found else (said.strip().splitlines() or ["no reason given"])[-1]
        raise PreprocessorFailed(f"cpp: {message}")
    try:
        return out.decode()
    except UnicodeDecodeError:
        raise PreprocessorFailed(f"{Path(file).name}: not UTF-8 text") from None


@contextlib.contextmanager
def _running(command: Sequence[str], source: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yields the process of `command`, with the descriptor `source` as input; if it runs at exit, kills its group."""
    with subprocess.Popen(  # noqa: S603 - a program of the PATH, with the arguments that its user has given
        command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _outputs(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Reads the standard output and the standard error of a process to their ends, and returns (output, errors).

    Raises:
        PreprocessorFailed: one is longer than 2 MiB (_OUTPUT_OCTETS_MAX), or they do not end within 20 seconds.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    found = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    end_s = time.monotonic() + XDR_PREPROCESSOR_S
    with selectors.DefaultSelector() as waiting:
        for descriptor in found:
            waiting.register(descriptor, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(0.0, end_s - time.monotonic()))
            if not ready:
                raise _endless(f"cpp: no end after {XDR_PREPROCESSOR_S:g} s")
            for key, _ in ready:
                octets = os.read(key.fd, _STEP_OCTETS)
                found[key.fd] += octets
                if not octets:
                    waiting.unregister(key.fd)
                if len(found[key.fd]) > _OUTPUT_OCTETS_MAX:
                    raise _endless(f"cpp: more than {_OUTPUT_OCTETS_MAX >> 20} MiB of output")
    return bytes(found[process.stdout.fileno()]), bytes(found[process.stderr.fileno()])


def _endless(message: str) -> PreprocessorFailed:
    error = PreprocessorFailed(message)
    error.add_note("do files include each other?")
    return error
