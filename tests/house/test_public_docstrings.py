"""Public names are documented whole: each parameter, the result and the errors that are raised.

A public callable's documentation is its docstring and, for a method, the section "Shared by the methods" of its class,
the methods of bases and of an interface that its class "implements", which it overrides, and a name after "see".
"""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fsspec", reason="rpcrdma.fsspec is public, too")
pytestmark = pytest.mark.thorough

MODULES = (
    "rpcrdma",
    *(
        f"rpcrdma.{name}"
        for name in ("errors", "nfs", "sync", "fsspec", "rpc", "xdr", "extension", "provider", "testing")
    ),
    "rpcrdma.testing.virtual",
)
PUBLIC = {
    f"{name}.{each}": getattr(module, each)
    for name in MODULES
    for module in [importlib.import_module(name)]
    for each in module.__all__
}
SHARED = "Shared by the methods"
NO_RESULT = {"None", "NoReturn", "Self"}


def sections(text: str | None) -> dict[str, str]:
    """The paragraphs of a docstring by the header of their section; "" for those before the first."""
    found, header = {"": ""}, ""
    for line in inspect.cleandoc(text or "").splitlines():
        named = re.fullmatch(rf"(Args|Attributes|Returns|Yields|Raises|{SHARED}):(.*)", line)
        header = named[1] if named else header
        found[header] = f"{found.get(header, '')}{named[2] if named else line}\n"
    return found


def items(texts: list[str], *headers: str) -> set[str]:
    """The names before the colons of the items of docstrings."""
    listed = "".join(part for text in texts for header, part in sections(text).items() if header in headers)
    return {
        name.strip("* ")
        for names in re.findall(r"^ +(\*{0,2}\w[\w*., ]*):", listed, re.MULTILINE)
        for name in names.split(",")
    }


@functools.cache
def tree_of(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text())


@functools.cache
def functions_of(path: str) -> dict[int, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module by the line on which they begin, decorators included."""
    found = [each for each in ast.walk(tree_of(path)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {min([node.lineno, *(each.lineno for each in node.decorator_list)]): node for node in found}


def node_of(function: Callable[..., Any]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    code = inspect.unwrap(function).__code__
    return functions_of(code.co_filename)[code.co_firstlineno]


def raised(node: ast.AST) -> Iterator[str]:
    """The classes of the errors that the body of a function raises itself."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.Raise) and child.exc is not None:
            name = ast.unparse(child.exc.func if isinstance(child.exc, ast.Call) else child.exc).rpartition(".")[2]
            if name[0].isupper():
                yield name
        yield from raised(child)


def function_of(member: Any) -> Any:
    """The function of a method, class method or property; None for other members."""
    for name in ("__func__", "fget", "func"):
        member = getattr(member, name, member)
    return member if inspect.isfunction(member) else None


def own_classes(cls: type) -> list[type]:
    return [each for each in cls.__mro__ if each.__module__.startswith("rpcrdma")]


def interfaces(cls: type) -> Iterator[type]:
    """The classes that the docstrings of a class and its bases say it implements."""
    for each in own_classes(cls):
        yield from (PUBLIC[name] for name in re.findall(r"implements `([\w.]+)`", each.__doc__ or ""))


def overridden(cls: type, name: str) -> Iterator[str]:
    """The docstrings of a method in its class, its bases and the interfaces; those of other packages stand for all."""
    for each in (*cls.__mro__, *interfaces(cls)):
        if name in vars(each):
            yield (function_of(vars(each)[name]).__doc__ if function_of(vars(each)[name]) else None) or ""


def elsewhere(text: str) -> Iterator[str]:
    """The docstrings of the public names that a docstring refers to."""
    for name in re.findall(r"[Ss]ee `(rpcrdma\.[\w.]+)`", text):
        owner, _, member = name.rpartition(".")
        found = PUBLIC.get(name) or function_of(inspect.getattr_static(PUBLIC[owner], member))
        yield found.__doc__ or ""


def faults_of_function(function: Any, texts: list[str], shared: list[str], label: str) -> Iterator[str]:
    if not texts or not texts[0]:
        yield f"{label}: no docstring"
        return
    texts += [more for text in texts for more in elsewhere(text)]
    whole = "\n".join(texts)
    named = items(texts, "Args") | items(shared, SHARED)
    lacking = [name for name in inspect.signature(function).parameters if name not in {"self", "cls", *named}]
    if lacking:
        yield f"{label}: Args lacks {', '.join(lacking)}"
    node = node_of(function)
    result = ast.unparse(node.returns or ast.Constant(None))
    first = texts[0].lstrip().partition(" ")[0]
    if (
        result not in NO_RESULT
        and first not in {"Returns", "Yields"}
        and not re.search(r"\b[Rr]eturns|Returns:|Yields:", whole)
    ):
        yield f"{label}: no Returns ({result})"
    errors = items(texts, "Raises") | items(shared, SHARED)
    known = {name.rpartition(".")[2] for name in errors}
    yield from (f"{label}: Raises lacks {name}" for name in sorted({*raised(node)} - known))


@functools.cache
def described_fields(cls: type) -> list[str]:
    """The fields with a docstring below them, in a class and its bases."""
    found = []
    for each in own_classes(cls):
        for node in ast.walk(tree_of(inspect.getsourcefile(each) or "")):
            if isinstance(node, ast.ClassDef) and node.name == each.__name__:
                for field, after in zip(node.body, node.body[1:], strict=False):
                    if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                        found.append(ast.unparse(field.target))
    return found


def faults_of_class(cls: type, label: str) -> Iterator[str]:
    if not cls.__doc__ or cls.__doc__.startswith(f"{cls.__name__}("):
        yield f"{label}: no docstring"
        return
    if issubclass(cls, enum.Enum):
        return
    shared = [each.__doc__ or "" for each in (*own_classes(cls), *interfaces(cls))]
    shared += [more for text in shared for more in elsewhere(text)]
    maker = next((each for each in cls.__mro__ if "__init__" in vars(each)), object)
    fields: Any = getattr(cls, "_fields", ())
    if maker.__module__.startswith("rpcrdma") and not getattr(cls, "_is_protocol", False):
        fields = [name for name in inspect.signature(maker.__init__).parameters if name != "self"]
    named = items([each.__doc__ or "" for each in own_classes(cls)], "Args", "Attributes")
    lacking = [name for name in fields if name not in {*named, *described_fields(cls)}]
    if lacking:
        yield f"{label}: Args lacks {', '.join(lacking)}"
    for name in dir(cls):
        owner = next((each for each in cls.__mro__ if name in vars(each)), None)
        if name.startswith("_") or owner is None or not owner.__module__.startswith("rpcrdma"):
            continue
        member, function = vars(owner)[name], function_of(vars(owner)[name])
        foreign = any(name in vars(each) for each in cls.__mro__ if not each.__module__.startswith("rpcrdma"))
        if function is None or foreign:
            continue
        texts = [text for text in overridden(cls, name) if text]
        if isinstance(member, property | functools.cached_property):
            yield from () if texts else (f"{label}.{name}: no docstring",)
        else:
            yield from faults_of_function(function, texts, shared, f"{label}.{name}")


def describes(path: str, name: str) -> bool:
    """Whether a docstring stands below the assignment of a name in a module."""
    body = tree_of(path).body
    return any(
        isinstance(after, ast.Expr)
        and name in {ast.unparse(each) for each in ast.walk(node) if isinstance(each, ast.Name)}
        for node, after in itertools.pairwise(body)
        if isinstance(node, ast.Assign | ast.AnnAssign)
    )


def test_public_values_have_a_docstring_below_their_assignment() -> None:
    values = {
        (label, name): value
        for label, value in PUBLIC.items()
        for name in [label.rpartition(".")[2]]
        if not (inspect.isclass(value) or inspect.isroutine(value) or hasattr(value, "__wrapped__"))
    }
    found = {
        label
        for module in [module for name, module in sys.modules.items() if name.startswith("rpcrdma.")]
        for (label, name), value in values.items()
        if vars(module).get(name) is value and module.__file__ and describes(module.__file__, name)
    }
    assert sorted({label for label, _ in values} - found) == []


def test_public_names_have_all_their_parameters_results_and_errors_described() -> None:
    found = set()
    for label, value in PUBLIC.items():
        if inspect.isclass(value):
            found |= {*faults_of_class(value, label)}
        elif inspect.isfunction(value):
            found |= {*faults_of_function(value, [value.__doc__ or ""], [], label)}
    assert sorted(found) == []
