"""Errors with a remedy for wrong uses: options; objects of one event loop in another, or in none, or not yet opened."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from rpcrdma.errors import LocalProtocolError

__all__ = [
    "AsynchronousOnly",
    "Opening",
    "all_of",
    "check_loop",
    "check_options",
    "check_type",
    "check_word",
    "known_options",
    "not_seconds",
]

T = TypeVar("T")

_REMEDY = "open it anew there, or use rpcrdma.sync, whose objects work in every thread and with any loop"


def check_loop(own: asyncio.AbstractEventLoop) -> None:
    """Checks that the caller runs in the event loop `own`.

    Raises:
        LocalProtocolError: the caller runs in another event loop or outside of any; the message has the remedy.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        raise LocalProtocolError(
            "this is asynchronous, and was used outside of an event loop; await it in the loop that has opened it, or "
            "use rpcrdma.sync"
        ) from None
    if running is not own:
        raise LocalProtocolError(f"this belongs to the event loop that has opened it, not to this one; {_REMEDY}")


class AsynchronousOnly:
    """A descriptor in place of a special method that only synchronous objects have, such as `__enter__`.

    Looking it up on an instance raises a TypeError, which names `instead`, the right statement; on the class it returns
    the descriptor. A method that raises when it is called would not do: pandas only looks whether its argument has
    `__iter__`, then calls the argument's `read`, which returns a coroutine that pandas cannot use.
    """

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        name = owner.__name__.lstrip("_")
        raise TypeError(f"{name} is asynchronous: write `{self._instead}`, or open it by rpcrdma.sync, which is not")


class _Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


class Opening(ABC, Generic[C]):
    """The result of a function that opens an object asynchronously, such as `connect`.

    `await` opens and returns an object, and `async with` yields one, which it closes at exit; each use opens another
    object. Nothing is opened before. Any other attribute raises an AttributeError, and `with` a TypeError, whose
    message has the remedy.
    """

    OPENED_BY: ClassVar[str]
    """The name of the function as a program writes it, for messages."""

    _opened: tuple[tuple[asyncio.Task[Any] | None, C], ...] = ()
    """What `async with` has opened and not closed, the oldest first, with the tasks that did."""

    # A checker of types reports the missing attribute by itself.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"{self.OPENED_BY}(...) alone opens nothing, and has no {name!r}: write `async with "
                f"{self.OPENED_BY}(...) as opened`, or await it",
                name=name,
                obj=self,
            )

    @abstractmethod
    async def _open(self) -> C:
        """Opens and returns the object; subclasses implement it."""

    def __await__(self) -> Generator[Any, None, C]:
        return self._open().__await__()

    __enter__ = AsynchronousOnly("async with")

    async def __aenter__(self) -> C:
        opened = await self._open()
        self._opened += ((asyncio.current_task(), opened),)
        return opened

    async def __aexit__(self, *error: object) -> None:
        # Statements of several tasks may overlap; but the fixture of a test may exit in another task than it entered.
        task = asyncio.current_task()
        last = ([each for each in self._opened if each[0] is task] or self._opened)[-1]
        self._opened = tuple(each for each in self._opened if each is not last)
        await last[1].close()


def known_options(options: type[T]) -> type[T]:
    """Decorates a dataclass of options: its constructor raises a TypeError for a keyword argument that is no field.

    The message names similar options, or else all of them. Returns `options`, changed.
    """
    construct = options.__init__
    known = [each.name for each in dataclasses.fields(options) if each.init]  # type: ignore[arg-type]

    @functools.wraps(construct)
    def checked(self: T, **values: Any) -> None:
        for name in values:
            if name not in known:
                near = _similar(name, known)
                hint = f"did you mean {' or '.join(near)}?" if near else f"the options are {', '.join(known)}"
                raise TypeError(f"{options.__name__} has no option {name!r}; {hint}")
        construct(self, **values)

    options.__init__ = checked  # type: ignore[method-assign, assignment]
    return options


def _similar(name: str, known: list[str]) -> list[str]:
    import difflib  # noqa: PLC0415 - few programs need it

    plain = name.replace("_", "").lower()
    holding = [each for each in known if plain in each.replace("_", "")] if len(plain) > 2 else []
    return holding[:3] or difflib.get_close_matches(name.lower(), known, 1, 0.7)


def check_type(name: str, value: object, kind: type, *, optional: bool = False) -> None:
    """Checks that `value`, the argument with the name `name`, is an instance of `kind`, or None if `optional` is set.

    Raises:
        TypeError: `value` is another object; the message has `name` and, where one is known, a remedy: if `value` is a
            module, the instances of `kind` in it.
    """
    if isinstance(value, kind) or (optional and value is None):
        return
    hint = "" if kind.__module__ == "builtins" else f"{kind.__name__}(...)"
    given = type(value).__name__
    if isinstance(value, ModuleType):
        given = f"the module {value.__name__}"
        hint = " or ".join(f"{value.__name__}.{each}" for each, own in vars(value).items() if isinstance(own, kind))
    elif isinstance(value, type):
        given = f"the class {value.__name__}"
        hint = f"{value.__name__}(...)" if issubclass(value, kind) else hint
    raise TypeError(f"{name} must be of type {kind.__name__}, not {given}" + (f": write {hint}" if hint else ""))


def all_of(name: str, values: Iterable[T], kind: type[T]) -> tuple[T, ...]:
    """Returns the elements of `values` as a tuple, after checking that they are instances of `kind`.

    Raises:
        TypeError: `values` is not iterable, or has another object; the message calls the argument `name`.
    """
    if isinstance(values, type) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name} must be a list of objects of {kind.__name__}, not {type(values).__name__}: write [...]"
        )
    elements = tuple(values)
    for number, each in enumerate(elements):
        check_type(f"{name}[{number}]", each, kind)
    return elements


def check_word(name: str, value: object, words: Collection[str]) -> None:
    """Checks that `value`, the argument with the name `name`, is one of `words`.

    Raises:
        ValueError: it is none of them; the message has `name` and all `words`.
    """
    if value not in words:
        raise ValueError(f"{name} is {value!r}, not one of {', '.join(words)}")


def not_seconds(timeout_s: object) -> TypeError:
    """Returns, without raising it, the TypeError for an argument `timeout_s` that is no number; it names the type."""
    return TypeError(f"timeout_s must be a number of seconds, not {type(timeout_s).__name__}")


def check_options(options: Any, *above_0: str) -> None:
    """Checks the types of options, and that each number among them is finite and at least 0, or above 0.

    Checks two kinds of fields: those annotated with `int` or `float`, perhaps "| None"; and those whose default factory
    is a class, of which the value must be an instance.

    Args:
        options: an instance of a dataclass whose annotations are strings.
        above_0: the names of numbers with which nothing would work if they were 0.

    Raises:
        TypeError: a field has a value of another type; the message names the field.
        ValueError: a number is negative, infinite or NaN, or is 0 and in `above_0`; the message names the field.
    """
    for field in dataclasses.fields(options):
        if isinstance(field.default_factory, type):
            check_type(field.name, getattr(options, field.name), field.default_factory)
        kind, _, other = str(field.type).partition(" | ")
        if kind not in {"int", "float"} or other not in {"", "None"}:
            continue
        value = getattr(options, field.name)
        if value is None and other:
            continue
        # NumPy's numbers are numbers as well.
        if isinstance(value, bool) or not (
            hasattr(value, "__index__") or (kind == "float" and hasattr(value, "__float__"))
        ):
            alternative = " or None" if other else ""
            raise TypeError(f"{field.name} must be of type {kind}{alternative}, not {type(value).__name__}")
        if not 0 <= value < math.inf:
            raise ValueError(f"{field.name} is {value}, but it must be a finite number from 0 up")
        if not value and field.name in above_0:
            raise ValueError(
                f"{field.name} is 0, with which nothing would work; write more{', or None' if other else ''}"
            )
