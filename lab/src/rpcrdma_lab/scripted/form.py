"""The form of conversations: the fields of each part, and the kinds of their values.

`check_conversation` refuses a malformed conversation before anything is sent. The values of {"given": NAME} and
{"heard": PATH} are unknown then: `rpcrdma_lab.scripted.values` checks them when a step uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from rpcrdma.errors import LocalProtocolError
from rpcrdma_lab.scripted.frames import FRAME_LENGTH_MAX, OPCODES, SEGMENT_MOST, STARTUP_MOST
from rpcrdma_lab.scripted.layouts import LAYOUTS
from rpcrdma_lab.scripted.parts import ATTRIBUTES, COUNTED
from rpcrdma_lab.scripted.values import CONTENT_OCTETS_MAX, UNRESOLVED, in_words, number, octets

__all__ = ["check_conversation", "check_header", "check_message", "names_wanted"]

Form: TypeAlias = Callable[[Any, str], None]
"""Checks a value, whose path is the second argument; raises `LocalProtocolError` if the value is malformed."""

_DEPTH_MAX = 64
"""Levels of values within values: a deeper conversation would exceed the interpreter's limit of recursion."""
_MILLISECONDS_MAX = 86_400_000
_REPEATS_MAX = 1 << 20
"""Repetitions of a step. It and `_MILLISECONDS_MAX` exceed any test of a server: larger numbers would seem to hang."""


def check_conversation(conversation: Any, *, serves: bool = False) -> None:
    """Checks the form of a whole conversation before anything of it is sent; returns nothing.

    Args:
        conversation: the conversation as JSON-like data.
        serves: whether the conversation serves a client, and so may have the steps "serve" and "answer".

    Raises:
        LocalProtocolError: the form is wrong; the error's text has the path, the expected form and the value found.
    """
    _check_depth(conversation, _DEPTH_MAX)
    _fields(_CONVERSATION, needed=("steps",))(conversation, "")
    _listed(_step(conversation.get("version", "1"), serves=serves))(conversation["steps"], "steps")


_OWN_NAMES = frozenset(("xid", "private_data", "startup_flags", "index"))
"""Names for {"given": NAME} that the runner of a conversation defines itself."""


def names_wanted(conversation: Mapping[str, Any]) -> set[str]:
    """Returns the names in {"given": NAME} that the caller of the conversation has to define.

    Names that the conversation itself defines, by "memory" or "as", are left out, and so are "xid" and the others that
    its runner defines.
    """
    found: set[str] = set()
    own = set(conversation.get("memory", {}))

    def look_at(value: Any) -> None:
        if isinstance(value, Mapping):
            if isinstance(value.get("given"), str):
                found.add(value["given"])
            if isinstance(value.get("as"), str):
                own.add(value["as"])
        for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
            look_at(inner)

    look_at(conversation)
    return {name for name in found - _OWN_NAMES if name.partition(".")[0] not in own}


def check_message(version: str, message: Any, where: str) -> None:
    """Checks the form of a message that a step sends, for protocol `version` ("1" or "2"); returns nothing.

    `where` is the path of `message` for error texts, such as "steps[0].say".

    Raises:
        LocalProtocolError: the form is wrong; the error's text has the path, the expected form and the value found.
    """
    _fields(_message(version))(message, where)


def check_header(version: str, header: Any, where: str, kind: int | None = None) -> None:
    """Checks the form of a transport header of protocol `version` ("1" or "2"); returns nothing.

    Args:
        version: the protocol version.
        header: the fields of the header, by name.
        where: the path of `header` for error texts, such as "steps[0].say.header".
        kind: the number of the header type; None allows the fields of all types.

    Raises:
        LocalProtocolError: a field is unknown or has a wrong form; the error's text has its path.
    """
    layout = LAYOUTS[version]
    bodies = layout.bodies.values() if kind is None else [layout.bodies.get(kind, layout.bodies[layout.usual])]
    behind = [field for body in bodies for field in body]
    forms = {name: _BY_KIND[kind] for name, kind in [*layout.prefix, *behind]}
    forms |= {f"{name}_end": _NUMBER for name, _ in behind}
    _fields({**forms, "fields_of": _NUMBER, "numbers": _NUMBERS})(header, where)


def _refuse(where: str, expected: str, found: Any) -> None:
    place = f"{where}: " if where else ""
    raise LocalProtocolError(f"{place}expected {expected}, found {in_words(found)}")


def _check_depth(value: Any, left: int) -> None:
    if not left:
        raise LocalProtocolError(f"expected at most {_DEPTH_MAX} values within each other, found more")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(inner, left - 1)


def _anything(_value: Any, _where: str) -> None:
    pass


def _a_number(least: int = -(1 << 64), most: int = 1 << 64) -> Form:
    def check(value: Any, where: str) -> None:
        number(value, UNRESOLVED, where, least, most)

    return check


def _octets(value: Any, where: str) -> None:
    octets(value, UNRESOLVED, where)


def _text(value: Any, where: str) -> None:
    if not isinstance(value, str):
        _refuse(where, "text", value)


def _flag(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        _refuse(where, "true or false", value)


def _choice(*choices: str) -> Form:
    def check(value: Any, where: str) -> None:
        if value not in choices:
            _refuse(where, f"one of {', '.join(choices)}", value)

    return check


def _or_null(form: Form) -> Form:
    return lambda value, where: None if value is None else form(value, where)


def _or_hex(form: Form) -> Form:
    return lambda value, where: (_octets if isinstance(value, str) else form)(value, where)


def _inner(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _mapping_of(form: Form, names: Form = _text) -> Form:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            _refuse(where, "fields", value)
        for name, inner in value.items():
            names(name, where)
            form(inner, _inner(where, name))

    return check


def _fields(forms: Mapping[str, Form], needed: Iterable[str] = ()) -> Form:
    """Returns a function that checks a mapping: each field is one of `forms`, and none of `needed` is missing.

    `forms` has, by name of a field, the function that checks the field's value. The returned function raises
    LocalProtocolError for any other value.
    """

    def check(value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            _refuse(where, f"fields ({', '.join(sorted(forms))})", value)
        for name in value:
            if name not in forms:
                _refuse(_inner(where, name), f"one of {', '.join(sorted(forms))}" if forms else "no field", name)
        for name in needed:
            if name not in value:
                _refuse(where, f"a field {name!r}", value)
        for name, inner in value.items():
            forms[name](inner, _inner(where, name))

    return check


def _one_of(forms: Mapping[str, Form]) -> Form:
    """Returns a function that checks a mapping with a single field, which is one of `forms`.

    `forms` has, by name of a field, the function that checks the field's value. The returned function raises
    LocalProtocolError for any other value.
    """

    def check(value: Any, where: str) -> None:
        if not isinstance(value, Mapping) or len(value) != 1:
            _refuse(where, f"one field, which is one of {', '.join(forms)}", value)
        _fields(forms)(value, where)

    return check


def _listed(form: Form, least: int = 0) -> Form:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, (list, tuple)) or len(value) < least:
            _refuse(where, "a list with an element or more" if least else "a list", value)
        for index, inner in enumerate(value):
            form(inner, f"{where}[{index}]")

    return check


def _one_or_list(form: Form) -> Form:
    several = _listed(form, 1)
    return lambda value, where: (several if isinstance(value, (list, tuple)) else form)(value, where)


_NUMBER = _a_number()
_NUMBERS = _or_null(_listed(_NUMBER))
_LENGTH = _a_number(0, CONTENT_OCTETS_MAX)
_MILLISECONDS = _a_number(0, _MILLISECONDS_MAX)


def _numbers(names: str) -> dict[str, Form]:
    return dict.fromkeys(names.split(), _NUMBER)


_SEGMENT: Mapping[str, Form] = {**_numbers("handle length offset"), "memory": _text}
_SEGMENTS = _listed(_fields(_SEGMENT))
_COUNTED: Mapping[str, Form] = {"count": _NUMBER, "segments": _SEGMENTS}
_SPREAD = _fields({"present": _NUMBER, **_COUNTED})
_READS = _or_null(_or_hex(_listed(_fields({**_SEGMENT, **_numbers("present position")}))))
_TRANSMISSION = _or_null(_fields(_numbers("xid direction number")))
_ITEM = _fields({**_numbers("position length type offset"), "numbers": _NUMBERS, **_COUNTED}, needed=("type",))
_RESULT = _fields({**_numbers("least type explicit_from"), **_COUNTED}, needed=("type",))
_DIRECTIONS = _fields({**_numbers("begin end count"), "results": _listed(_RESULT)}, needed=("results",))


def _entry(value: Any, where: str) -> None:
    (_SEGMENTS if isinstance(value, (list, tuple)) else _SPREAD)(value, where)


def _property(value: Any, where: str) -> None:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        _refuse(where, "a property as [NUMBER, OCTETS]", value)
    _NUMBER(value[0], f"{where}[0]")
    _octets(value[1], f"{where}[1]")


_BY_KIND: Mapping[str, Form] = {
    "word": _or_null(_NUMBER),
    "half": _or_null(_NUMBER),
    "reads": _READS,
    "writes": _or_null(_or_hex(_listed(_entry))),
    "chunk": _or_null(_or_hex(_entry)),
    "properties": _or_null(_listed(_property)),
    "numbers": _NUMBERS,
    "items": _or_null(_listed(_ITEM)),
    "directions": _or_null(_listed(_DIRECTIONS)),
    "transmission": _TRANSMISSION,
    "lead": _TRANSMISSION,
}
"""The form of a header field's value, by the field's kind in `layouts`."""

_CALL: Mapping[str, Form] = {
    **_numbers("xid direction rpc_version program version procedure"),
    "args": _octets,
    "credential": _octets,
}
_REPLY: Mapping[str, Form] = {**_numbers("xid accepted"), "results": _octets}


def _rpc(value: Any, where: str) -> None:
    is_reply = isinstance(value, Mapping) and "accepted" in value
    _fields(_REPLY if is_reply else _CALL)(value, where)


def _header(version: str) -> Form:
    def check(value: Any, where: str) -> None:
        kind = None
        if isinstance(value, Mapping):
            told = value.get("fields_of", value.get("type", LAYOUTS[version].defaults.get("type", 0)))
            kind = None if isinstance(told, Mapping) else number(told or 0, UNRESOLVED, f"{where}.type")
        check_header(version, value, where, kind)

    return check


def _message(version: str) -> dict[str, Form]:
    return {
        "header": _or_null(_header(version)),
        "rpc": _or_null(_rpc),
        "body": _octets,
        "cut": _NUMBER,
        "append": _octets,
        "put": _mapping_of(_octets, names=_LENGTH),
        "bulk": _fields({"at": _LENGTH, "data": _octets}, needed=("at", "data")),
    }


def _up_to(most: Mapping[str, int]) -> dict[str, Form]:
    return {name: _a_number(0, number) for name, number in most.items()}


def _opcode(value: Any, where: str) -> None:
    if value not in list(OPCODES):
        _a_number(0, SEGMENT_MOST["opcode"])(value, where)


_DDP = _fields({**_up_to(SEGMENT_MOST), "segment_octets": _a_number(1, CONTENT_OCTETS_MAX), "opcode": _opcode})
_FRAME_LENGTH = _a_number(0, FRAME_LENGTH_MAX)
_MPA = _fields({**_numbers("crc marker cut"), "length": _FRAME_LENGTH, "pad": _octets, "pieces": _LENGTH})
_STARTUP = _fields({**_up_to(STARTUP_MOST), "key": _octets, "data": _octets, "enhanced": _NUMBER, "cut": _NUMBER})


def _said(version: str) -> Form:
    message = _fields({**_message(version), "payload": _octets, "ddp": _DDP, "mpa": _MPA})
    stream = _fields({"stream": _octets, "pieces": _LENGTH})
    startup = _fields({"startup": _STARTUP})

    def check(value: Any, where: str) -> None:
        names = value if isinstance(value, Mapping) else ()
        (stream if "stream" in names else startup if "startup" in names else message)(value, where)

    return check


def _value(value: Any, where: str) -> None:
    """Checks the form of a value or of a condition in a pattern , such as {"min": 1} or {"any": [...]}.

    Whether a number or octets are needed is not checked: it depends on the field that arrives later. `where` is the
    path of `value`.

    Raises:
        LocalProtocolError: `value` has a float, or a condition is malformed; the error's text begins with the path.
    """
    if isinstance(value, float):
        _refuse(where, "a number, octets, fields or a condition", value)
    if isinstance(value, list):
        _listed(_value)(value, where)
    elif isinstance(value, Mapping):
        if value.keys() & {"given", "heard"}:
            UNRESOLVED.value(value, where, int)
        elif value and value.keys() <= {"min", "max"}:
            _mapping_of(_NUMBER)(value, where)
        else:
            _mapping_of(_value)({name: inner for name, inner in value.items() if name != "any"}, where)
            if "any" in value:
                _listed(_value, 1)(value["any"], f"{where}.any")


def _found(value: Any, where: str) -> None:
    if not isinstance(value, Mapping):
        _refuse(where, "fields", value)
    _value(value, where)


_PAUSE = _fields({"milliseconds": _MILLISECONDS}, needed=("milliseconds",))
_EVENTS: Mapping[str, Form] = {
    **dict.fromkeys(("startup", "terminate", "end", "refused", "read_request", "read_response"), _found),
    "quiet": _PAUSE,
}
_BESIDE_STEP: Mapping[str, Form] = {"aside": _text, "breaks": _text}
_BESIDE_EVENT: Mapping[str, Form] = {"reading": _text, "unmet": _text, "breaks": _text, "last": _flag}


_FOUND_BESIDE = (
    "octets",
    "header_octets",
    "segments",
    "item",
    "buffer",
    "send_octets",
    "invalidates",
    "startup",
    "broken",
)
_FOUND_IN_MESSAGES = frozenset(("header", "rpc", "body", "parts", *_FOUND_BESIDE))
_FOUND_IN_CALL = ("xid", "direction", "rpc_version", "program", "version", "procedure", "args")
_FOUND_IN_REPLY = ("status", "accepted", "results", "result_status", "same_xid", "broken")
_FOUND_IN_RPC = frozenset((*_FOUND_IN_CALL, *_FOUND_IN_REPLY))
"""The names that `read_rpc` gives to the fields of RPC messages."""


def _part(value: Any, where: str) -> None:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        _refuse(where, "a part as [NAME, KIND]", value)
    name, kind = value
    _text(name, f"{where}[0]")
    if isinstance(kind, int) and not isinstance(kind, bool):
        _LENGTH(kind, f"{where}[1]")
    elif kind not in [*COUNTED, ATTRIBUTES]:
        _refuse(f"{where}[1]", f"{', '.join(COUNTED)}, {ATTRIBUTES} or a number of octets", kind)


def _known(names: frozenset[str], value: Any, where: str) -> None:
    """Checks that the pattern `value` names no other fields than `names`, in its conditions "not" and "any" as well.

    `where` is the path of `value`, such as "steps[1].hear".

    Raises:
        LocalProtocolError: the pattern has another field or is no mapping; the error's text begins with the path.
    """
    _found(value, where)
    for name, inner in value.items():
        if name in {"not", "any"}:
            for each in inner if isinstance(inner, list) else [inner]:
                _known(names, each, f"{where}.{name}")
        elif name not in names:
            _refuse(_inner(where, name), f"one of {', '.join(sorted(names))}" if names else "no field", name)


def _message_pattern(version: str) -> Form:
    layout = LAYOUTS[version]
    in_header = frozenset(name for body in (layout.prefix, *layout.bodies.values()) for name, _ in body)

    def check(value: Any, where: str) -> None:
        _known(_FOUND_IN_MESSAGES, value, where)
        for name, names in (("header", in_header), ("rpc", _FOUND_IN_RPC)):
            if name in value:
                _known(names, value[name], f"{where}.{name}")

    return check


def _pattern(version: str) -> Form:
    of_message = _message_pattern(version)

    def check(value: Any, where: str) -> None:
        of_a_message = isinstance(value, Mapping) and "message" in value
        beside = dict(_BESIDE_EVENT)
        if of_a_message:
            beside |= {"as": _text, "parts": _listed(_part, 1)}
        elif isinstance(value, Mapping) and "read_request" in value:
            beside["as"] = _text
        events = {"message": of_message, **_EVENTS}
        if isinstance(value, Mapping) and len(value.keys() & events.keys()) != 1:
            _refuse(where, f"one of the fields {', '.join(events)}", value)
        _fields({**events, **beside})(value, where)
        if of_a_message and "parts" in value["message"]:
            _known(
                frozenset(name for name, _ in value.get("parts", ())),
                value["message"]["parts"],
                f"{where}.message.parts",
            )

    return check


_CONTENTS = _mapping_of(_fields({"written": _value, "data": _octets, "withdrawn": _flag}))


def _step(version: str, *, serves: bool) -> Form:
    forms: dict[str, Form] = {
        "say": _said(version),
        "hear": _one_or_list(_pattern(version)),
        "quiet": _PAUSE,
        "memory": _CONTENTS,
        "end": _fields({}),
    }
    if serves:
        served = {"each": _one_or_list(_pattern(version)), "until": _found, "header": _header(version)}
        served |= {"most": _LENGTH, "together": _a_number(1, _REPEATS_MAX)}
        forms |= {"serve": _fields(served, needed=("each",))}
        answered = {**_message(version), "header": _header(version), "to": _text, "reply": _octets}
        forms |= {"answer": _fields({**answered, "ddp": _DDP, "mpa": _MPA})}
    one_step = _one_of(forms)
    forms["repeat"] = _fields({"times": _a_number(0, _REPEATS_MAX), "steps": _listed(one_step)}, ("times", "steps"))

    def check(value: Any, where: str) -> None:
        if isinstance(value, Mapping):
            _fields(_BESIDE_STEP)({name: value[name] for name in value if name in _BESIDE_STEP}, where)
            value = {name: inner for name, inner in value.items() if name not in _BESIDE_STEP}
        one_step(value, where)

    return check


_REGION: Mapping[str, Form] = {
    "octets": _LENGTH,
    "content": _octets,
    "may": _choice("read", "write"),
    **_numbers("handle offset"),
    "segment_octets": _a_number(1, CONTENT_OCTETS_MAX),
    "alone_ms": _MILLISECONDS,
    "answered": _flag,
}
_CONVERSATION: Mapping[str, Form] = {
    "title": _text,
    "version": _choice(*LAYOUTS),
    "memory": _mapping_of(_fields(_REGION)),
    "startup": _or_null(_STARTUP),
    "steps": _anything,
}
