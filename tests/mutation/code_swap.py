"""A mutant in a process that has imported the package already: its code takes the place of that of live functions."""

from __future__ import annotations

import functools
import gc
import inspect
import types

from mutations import UNCHANGED, apply

__all__ = ["LiveFunctions", "changed_code"]

Pair = tuple[types.CodeType, types.CodeType]


def changed_code(source: str, path: str, number: int) -> list[Pair] | None:
    """The code of each changed function without and with the mistake; None if the module has to be imported with it.

    Statements of modules and classes need that, and functions that share other variables with the mistake.
    """
    pairs: list[Pair] = []
    before, after = (compile(apply(source, each), path, "exec", dont_inherit=True) for each in (UNCHANGED, number))
    return pairs if _collect(before, after, pairs) else None


def _nested(code: types.CodeType) -> list[types.CodeType]:
    return [const for const in code.co_consts if isinstance(const, types.CodeType)]


def _collect(before: types.CodeType, after: types.CodeType, pairs: list[Pair]) -> bool:
    within = list(zip(_nested(before), _nested(after), strict=False))
    if not before.co_flags & inspect.CO_OPTIMIZED:
        # A module or the body of a class: executed once.
        if _alone(before) != _alone(after):
            return False
    elif before != after:
        if before.co_freevars != after.co_freevars:
            return False
        pairs.append((before, after))
    if [code.co_qualname for code, _ in within] != [code.co_qualname for _, code in within]:
        return before.co_flags & inspect.CO_OPTIMIZED != 0
    return all(_collect(inner, changed, pairs) for inner, changed in within)


def _alone(code: types.CodeType) -> types.CodeType:
    """The code without the functions and classes that it defines."""
    return code.replace(
        co_consts=tuple(const.co_name if isinstance(const, types.CodeType) else const for const in code.co_consts)
    )


class LiveFunctions:
    """All functions of a package that exist, by their code."""

    def __init__(self, package: str) -> None:
        # Objects that were left out of garbage collections are not listed.
        gc.unfreeze()
        self._functions: dict[types.CodeType, list[types.FunctionType]] = {}
        self._caches: list[functools._lru_cache_wrapper[object]] = []
        for each in gc.get_objects():
            if isinstance(each, types.FunctionType) and each.__code__.co_filename.startswith(package):
                self._functions.setdefault(each.__code__, []).append(each)
            elif isinstance(each, functools._lru_cache_wrapper):
                self._caches.append(each)
        gc.freeze()

    def swap(self, pairs: list[Pair]) -> bool:
        """Puts the mistake into every function; whether there was one."""
        swapped = False
        for before, after in pairs:
            for function in self._functions.get(before, ()):
                function.__code__ = after
                swapped = True
        for cache in self._caches:
            cache.cache_clear()
        return swapped
