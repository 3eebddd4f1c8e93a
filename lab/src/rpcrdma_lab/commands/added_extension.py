"""Extensions of version 2 that a Python file of the user defines, as `FILE.py:FUNCTION` names them."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rpcrdma.errors import RpcRdmaError

if TYPE_CHECKING:
    from rpcrdma.extension import Extension

__all__ = ["METAVAR", "AddedExtensionFailed", "extension_maker"]

METAVAR = "FILE.py:FUNCTION"


class AddedExtensionFailed(RpcRdmaError):
    """Raised if a user's file or function makes no extension; the error's text names both, and the line that failed."""


def extension_maker(words: str) -> Callable[[], Extension]:
    """Runs a user's Python file, and returns a function that calls the function that `words`, FILE.py:FUNCTION, names.

    The function in the file has been called once for a trial; each call of the result returns its extension.

    Raises:
        AddedExtensionFailed: there is no such file or function, or one of them raises an exception, or the function
            returns something else than a `rpcrdma.extension.Extension`. The returned function raises it as well.
    """
    file, _, function = words.rpartition(":")
    name = f"rpcrdma_added_{Path(file).stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise _failed(f"{words}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by its name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        found = getattr(module, function)
    except Exception as error:
        raise _failed(f"{words}: {_told(error, file)}") from error
    make = functools.partial(_make, words, file, found)
    make()
    return make


def _make(words: str, file: str, function: Callable[[], object]) -> Extension:
    from rpcrdma.extension import Extension  # noqa: PLC0415

    try:
        made = function()
    except Exception as error:
        raise _failed(f"{words}: {_told(error, file)}") from error
    if not isinstance(made, Extension):
        raise _failed(f"{words} returns {type(made).__name__}, no rpcrdma.extension.Extension")
    return made


def _told(error: Exception, file: str) -> str:
    """Returns the class and text of `error`, with the number of the last line of `file` in its traceback, if any.

    Of an OSError returns the text alone.
    """
    lines, trace = [], error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == Path(file).resolve():
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    where = f" in line {lines[-1]}" if lines else ""
    return str(error) if isinstance(error, OSError) else f"{type(error).__name__}{where}: {error}"


def _failed(message: str) -> AddedExtensionFailed:
    error = AddedExtensionFailed(message)
    error.add_note("name a Python file, and a function in it that returns a rpcrdma.extension.Extension")
    return error
