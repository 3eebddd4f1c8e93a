"""The signatures and docstrings of the public modules as pages: one for each module, and an index of all names."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from ledger_pages import Table

__all__ = ["MODULES", "api_pages"]

MODULES = (
    "rpcrdma",
    "rpcrdma.nfs",
    "rpcrdma.sync",
    "rpcrdma.fsspec",
    "rpcrdma.rpc",
    "rpcrdma.xdr",
    "rpcrdma.extension",
    "rpcrdma.provider",
    "rpcrdma.testing",
    "rpcrdma.testing.virtual",
    "rpcrdma.errors",
    "rpcrdma.commands",
    "rpcrdma.commands.console",
    "rpcrdma.xdr.language",
    "rpcrdma.xdr.language.model",
)
"""In this order; a name of several modules is described at the first of them."""

_FOREIGN = (
    "object, int, tuple, Generic, Protocol, Enum, IntEnum, IntFlag, BaseException, Exception, OSError, MemoryError,"
    " Struct, RawIOBase, TextIOWrapper, BytesIO, BaseEventLoop, AsyncFileSystem, AbstractBufferedFile"
)
"""Classes of other packages, whose members are left out; those of private bases in this package are described."""


def api_pages(table: Table) -> dict[str, str]:
    """The pages by their file names; `index.md` leads to the others and has a row for each name."""
    modules = {name: importlib.import_module(name) for name in MODULES}
    home: dict[int, str] = {}
    for name, module in modules.items():
        for exported in module.__all__:
            home.setdefault(id(getattr(module, exported)), name)
    pages: dict[str, str] = {}
    index = [
        "# Python signatures\n",
        (
            "All public names, by module. Each links to its signature and docstring."
            " [The Python interface](../../python-api.md) explains how the parts fit together.\n"
        ),
        "```{toctree}",
        ":hidden:\n",
        *MODULES,
        "```\n",
    ]
    for name, module in modules.items():
        own = [exported for exported in module.__all__ if home[id(getattr(module, exported))] == name]
        pages[f"{name}.md"] = _page(name, {exported: getattr(module, exported) for exported in own})
        links = {
            exported: f"{{py:obj}}`{exported} <{home[id(getattr(module, exported))]}.{exported}>`"
            for exported in module.__all__
        }
        if elsewhere := [link for exported, link in links.items() if exported not in own]:
            pages[f"{name}.md"] += f"\nAlso exported, and described on other pages: {', '.join(elsewhere)}.\n"
        rows = [
            (link, _first_line(_docstring(exported, getattr(module, exported)))) for exported, link in links.items()
        ]
        index += [
            f"## [{name}]({name}.md)\n",
            f"{_first_line(inspect.getdoc(module) or '')}\n",
            table(("name", "meaning"), rows),
        ]
    return pages | {"index.md": "\n".join(index)}


def _page(module: str, exported: Mapping[str, object]) -> str:
    """Signatures and docstrings; those of values, which autodoc does not see, are those below their assignments."""
    described = ", ".join(name for name, value in exported.items() if not _is_value(value))
    values = [
        f"\n.. py:data:: {name}\n   :module: {module}\n   :value: {_shown(value)}\n\n"
        + textwrap.indent(_docstring(name, value), "   ")
        for name, value in exported.items()
        if _is_value(value)
    ]
    # Inherited members are those of private bases, as of ObjectCalls. The option takes all names of a module that are
    # not excluded.
    others = [
        name for name in importlib.import_module(module).__all__ if name not in exported or _is_value(exported[name])
    ]
    lines = [
        f"# {module}\n",
        "```{eval-rst}",
        f".. automodule:: {module}",
        f"   :members: {described}",
        f"   :inherited-members: {_FOREIGN}",
        f"   :exclude-members: {', '.join(others)}",
    ]
    return "\n".join([*lines, *values, "```\n"])


def _shown(value: object) -> str:
    """A value in one line of at most 100 characters, without addresses."""
    text = re.sub(r" at 0x\w+", "", repr(value))
    return text if len(text) <= 100 else f"{text[:100]}..."


def _is_value(exported: object) -> bool:
    return not (inspect.isclass(exported) or inspect.isroutine(exported) or inspect.ismodule(exported))


def _docstring(name: str, exported: object) -> str:
    """The docstring of a function or class, or the one below the assignment of a value in the module that makes it."""
    if not _is_value(exported):
        return inspect.getdoc(exported) or ""
    for module in [module for name, module in sys.modules.items() if name.startswith("rpcrdma.")]:
        if vars(module).get(name) is exported and module.__file__:
            for node, after in itertools.pairwise(ast.parse(Path(module.__file__).read_text()).body):
                targets = {
                    ast.unparse(target)
                    for target in getattr(node, "targets", [getattr(node, "target", None)])
                    if target
                }
                if name in targets and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    return inspect.cleandoc(str(after.value.value))
    return ""


def _first_line(text: str) -> str:
    return text.partition("\n")[0].replace("*", "\\*")
