"""Small mistakes that can be made in a Python module: found in its syntax tree, and made there one at a time.

Nothing is written to disk. Messages, docstrings, annotations and lists of names are left alone: no test is about those.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["UNCHANGED", "Mutation", "apply", "bound_names", "find"]

UNCHANGED = -1
"""The number of no mistake."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_UNTESTED_NAMES = {"__all__", "__slots__"}
_ANNOTATIONS = {"annotation", "returns", "type_params", "decorator_list"}


@dataclass(frozen=True)
class Mutation:
    """The `number`th mistake of a module, in `line` to `end_line`.

    `scope` is the class and function that it is in, with dots between.
    """

    number: int
    line: int
    end_line: int
    what: str
    scope: str = ""


Change = tuple[str, Callable[[], ast.AST]]
"""What it does, and what takes the node's place."""


def _constant(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield f"{value} -> {not value}", lambda: ast.Constant(not value)
    elif isinstance(value, int):
        yield f"{value} -> {value + 1}", lambda: ast.Constant(value + 1)
        if value > 1:
            yield f"{value} -> {value - 1}", lambda: ast.Constant(value - 1)


def _negated(node: ast.If | ast.While | ast.IfExp) -> Iterator[Change]:
    match node.test:
        case (
            ast.UnaryOp(ast.Not())
            | ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() | ast.In() | ast.NotIn()])
        ):
            # The same as for the test itself.
            return

    def change() -> ast.AST:
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    yield f"negate {ast.unparse(node.test)[:60]}", change


def _compared(node: ast.Compare) -> Iterator[Change]:
    for index, operator in enumerate(node.ops):
        other = _COMPARISONS[type(operator)]

        def change(index: int = index, other: type[ast.cmpop] = other) -> ast.AST:
            node.ops[index] = other()
            return node

        yield f"{type(operator).__name__} -> {other.__name__}", change


def _shortened(node: ast.Dict) -> Iterator[Change]:
    """A table without one of its entries."""
    for index, key in enumerate(node.keys):
        if key is not None and len(node.keys) > 1:

            def change(index: int = index) -> ast.AST:
                return ast.Dict(
                    node.keys[:index] + node.keys[index + 1 :], node.values[:index] + node.values[index + 1 :]
                )

            yield f"no entry {ast.unparse(key)[:60]}", change


def _expression(node: ast.expr) -> Iterator[Change]:
    match node:
        case ast.Constant():
            yield from _constant(node)
        case ast.Compare():
            yield from _compared(node)
        case ast.IfExp():
            yield from _negated(node)
        case ast.Dict():
            yield from _shortened(node)
        case ast.BoolOp():
            other = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield f"{type(node.op).__name__} -> {other.__name__}", lambda: ast.BoolOp(other(), node.values)
        case ast.UnaryOp(ast.Not()):
            yield "not removed", lambda: node.operand
        case ast.BinOp():
            if (swapped := _OPERATORS.get(type(node.op))) is not None:
                yield (
                    f"{type(node.op).__name__} -> {swapped.__name__}",
                    lambda: ast.BinOp(node.left, swapped(), node.right),
                )


def _statement(node: ast.stmt) -> Iterator[Change]:
    match node:
        case ast.Raise():
            yield "raise removed", ast.Pass
        case ast.Continue() | ast.Break():
            yield f"{type(node).__name__.lower()} removed", ast.Pass
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            # Instead of a constant the type checker refuses it, and constants have mistakes of their own.
            yield "return None", lambda: ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete():
            yield f"removed: {ast.unparse(node)[:60]}", ast.Pass
        case ast.Assign(targets) if all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            yield f"removed: {ast.unparse(node)[:60]}", ast.Pass
        case ast.If() | ast.While():
            yield from _negated(node)


def _left_alone(node: ast.AST) -> bool:
    """Whether nothing below it is of interest."""
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id in _UNTESTED_NAMES for target in node.targets)
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom)


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST, Change]]:
    """(parent, field, index in it, node, change) of every mistake below `node`, in the order of the text."""
    for field, value in ast.iter_fields(node):
        if field in _ANNOTATIONS:
            continue
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if not isinstance(child, ast.AST) or _left_alone(child):
                continue
            changes: Iterator[Change] = iter(())
            if isinstance(child, ast.stmt):
                changes = _statement(child)
            elif isinstance(child, ast.expr):
                changes = _expression(child)
            for change in changes:
                yield node, field, index if isinstance(value, list) else None, child, change
            # The words of an error are not tested one by one.
            if not isinstance(child, ast.Raise):
                yield from _places(child)


def _scopes(node: ast.AST, above: tuple[str, ...] = ()) -> Iterator[tuple[ast.stmt, str]]:
    """Definitions with their qualified names, outer ones first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (*above, child.name)
            yield child, ".".join(names)
            yield from _scopes(child, names)
        else:
            yield from _scopes(child, above)


def find(source: str) -> list[Mutation]:
    """All mistakes of a module, numbered from 0."""
    tree = ast.parse(source)
    scope_of_line: dict[int, str] = {}
    for definition, scope in _scopes(tree):
        scope_of_line.update(dict.fromkeys(range(definition.lineno, (definition.end_lineno or 0) + 1), scope))
    return [
        Mutation(
            number,
            node.lineno,  # type: ignore[attr-defined]
            node.end_lineno or node.lineno,  # type: ignore[attr-defined]
            change[0],
            scope_of_line.get(node.lineno, ""),  # type: ignore[attr-defined]
        )
        for number, (_, _, _, node, change) in enumerate(_places(tree))
    ]


def bound_names(tree: ast.Module, line: int) -> set[str]:
    """The names that are defined by the statement of a module, or of a class in it, that `line` is in.

    A function's default values are part of the function's definition.
    """
    body: list[ast.stmt] = tree.body
    while True:
        around = next((each for each in body if each.lineno <= line <= (each.end_lineno or each.lineno)), None)
        match around:
            case ast.ClassDef() | ast.If() | ast.For() | ast.With() | ast.Try() if around.body[0].lineno <= line:
                body = around.body
            case ast.ClassDef(name) | ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                return {name}
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                targets = around.targets if isinstance(around, ast.Assign) else [around.target]
                named = (part for target in targets for part in ast.walk(target))
                return {part.id for part in named if isinstance(part, ast.Name)}
            case _:
                return set()


def apply(source: str, number: int) -> ast.Module:
    """The module with its mistake `number`, or with none if that is UNCHANGED, ready to be compiled."""
    tree = ast.parse(source)
    if number == UNCHANGED:
        return tree
    for at, (parent, field, index, node, (_, make)) in enumerate(_places(tree)):
        if at == number:
            changed = ast.copy_location(make(), node)
            if index is None:
                setattr(parent, field, changed)
            else:
                getattr(parent, field)[index] = changed
            return ast.fix_missing_locations(tree)
    raise ValueError(f"there is no mutation {number}")
