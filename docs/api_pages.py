"""The signatures and docstrings of the public modules as pages: one for each module, and an index of all names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence

from ledger_pages import Table

__all__ = ["MODULES", "api_pages"]

MODULES = (
    "rpcrdma",
    "rpcrdma.sync",
    "rpcrdma.nfs.client",
    "rpcrdma.rpc.service",
    "rpcrdma.transport",
    "rpcrdma.errors",
    "rpcrdma.rpc.errors",
)


def api_pages(table: Table) -> dict[str, str]:
    """The pages by their file names; `index.md` leads to the others and has a row for each name."""
    modules = {name: importlib.import_module(name) for name in MODULES}
    home: dict[int, str] = {}
    # An object that `rpcrdma` takes from another public module is described there.
    for name in (*MODULES[1:], MODULES[0]):
        for exported in modules[name].__all__:
            home.setdefault(id(getattr(modules[name], exported)), name)
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
        values = [exported for exported in own if _is_value(getattr(module, exported))]
        pages[f"{name}.md"] = _page(name, [exported for exported in own if exported not in values], values)
        links = {
            exported: f"{{py:obj}}`{exported} <{home[id(getattr(module, exported))]}.{exported}>`"
            for exported in module.__all__
        }
        if elsewhere := [link for exported, link in links.items() if exported not in own]:
            pages[f"{name}.md"] += f"\nAlso exported, and described on other pages: {', '.join(elsewhere)}.\n"
        rows = [(link, _summary(getattr(module, exported))) for exported, link in links.items()]
        index += [
            f"## [{name}]({name}.md)\n",
            f"{_first_line(inspect.getdoc(module))}\n",
            table(("name", "meaning"), rows),
        ]
    return pages | {"index.md": "\n".join(index)}


def _page(module: str, names: Sequence[str], values: Sequence[str]) -> str:
    # Members that an exception inherits from Python's own are left out, those of our own bases are not. A value has no
    # docstring, so that `members` alone would leave it out.
    return "\n".join(
        [
            f"# {module}\n",
            "```{eval-rst}",
            f".. automodule:: {module}",
            f"   :members: {', '.join(names)}",
            *(["   :inherited-members: Exception"] if module == "rpcrdma.nfs.client" else []),
            *(f"\n.. autodata:: {module}.{value}" for value in values),
            "```\n",
        ]
    )


def _is_value(exported: object) -> bool:
    return not (inspect.isclass(exported) or inspect.isroutine(exported) or inspect.ismodule(exported))


def _summary(exported: object) -> str:
    """The first line of a docstring; nothing for a value, which has none."""
    return "" if _is_value(exported) else _first_line(inspect.getdoc(exported))


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0].replace("*", "\\*")
