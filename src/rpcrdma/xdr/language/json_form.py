"""Values of an interface definition as JSON documents, by the checked model; docs/cli.md has the mapping.

`JsonReader` makes values of the generated classes from documents, `JsonWriter` documents from values. Each reads the
output of the other.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from rpcrdma.errors import LocalProtocolError
from rpcrdma.wire.buffers import Buffer, as_view
from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.json_shape import NUMBER_WORDS, arm_key, arm_of, discriminant_key, shape
from rpcrdma.xdr.language.names import definition_name

__all__ = ["JsonMismatch", "JsonReader", "JsonWriter", "parse_json"]

_NO_JSON_NUMBER = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SHOWN_CHARACTERS = 40
_QUOTES = "names and strings have double quotes, which single quotes around all of it keep from the shell: '\"words\"'"


class JsonMismatch(LocalProtocolError):
    """A JSON document does not have the expected type.

    Args:
        path: the place in the document, such as "args.name[2]".
        reason: the fault at that place.
        hint: the remedy, which becomes a note of the exception; "" if there is none.
    """

    def __init__(self, path: str, reason: str, hint: str = "") -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        if hint:
            self.add_note(hint)


def parse_json(text: str, path: str) -> Any:
    """Parses a JSON document and returns its value; `path` names the document in errors.

    Raises:
        JsonMismatch: the text is not JSON, has NaN or Infinity, is nested too deeply, or an object in it has a name
            twice.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise JsonMismatch(path, f"an object has {_shown(name)} twice")
            found[name] = value
        return found

    def number(word: str) -> NoReturn:
        raise JsonMismatch(path, f"{word} is no number in JSON", f'write it as a string: "{word}"')

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=number)
    except json.JSONDecodeError as error:
        if not text.strip():
            raise JsonMismatch(path, "not JSON, but empty") from None
        reason = f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise JsonMismatch(path, reason, _QUOTES) from None
    except RecursionError:
        raise JsonMismatch(path, "nested too deeply") from None
    except ValueError as error:
        # A number of thousands of digits.
        raise JsonMismatch(path, f"not JSON: {error}") from None


class JsonReader:
    """Makes values of generated classes from JSON documents; docs/cli.md has the mapping.

    Args:
        module: the checked model of the definition.
        classes: the generated classes by name.
        read_file: returns the octets of a file for "@NAME" in place of opaque data; None: "@NAME" is an error.
    """

    def __init__(
        self,
        module: model.Module,
        classes: Mapping[str, Any],
        *,
        read_file: Callable[[str], Buffer] | None = None,
    ) -> None:
        self._module = module
        self._classes = classes
        self._read_file = read_file
        self._enums = {item.name: dict(item.members) for item in module.enums}

    def read(self, kind: model.Type | None, document: Any, path: str) -> Any:
        """Converts a document to a value.

        Args:
            kind: the type of the value; None: void.
            document: the parsed JSON; for void, None or {}.
            path: the name of the document in errors.

        Returns:
            The value; None for void.

        Raises:
            JsonMismatch: the document is not of that type, or `read_file` raised a ValueError for an "@NAME".
            OSError: the function `read_file` failed for an "@NAME" in the document.
        """
        if kind is None:
            if document not in (None, {}):
                raise JsonMismatch(path, f"{_shown(document)} given where nothing is taken")
            return None
        try:
            return self._value(kind, document, path)
        except RecursionError:
            raise JsonMismatch(path, "nested too deeply") from None

    def _value(self, kind: model.Type, document: Any, path: str) -> Any:
        match model.strip(kind):
            case model.Number(code):
                return _float(code, document, path) if code in "fd" else _integer(code, document, path)
            case model.Boolean():
                if not isinstance(document, bool):
                    raise JsonMismatch(path, f"{_shown(document)} is neither true nor false")
                return document
            case model.EnumRef(name):
                return self._enumerator(name, document, path)
            case model.FixedOpaque(length):
                data = self._data(document, path)
                if len(data) != length:
                    raise JsonMismatch(path, f"{len(data)} octets given, the type has {length}")
                return data
            case model.VariableOpaque(limit):
                return _at_most(self._data(document, path), limit, "octets", path)
            case model.Text(limit):
                return self._text(document, limit, path)
            case model.ClassRef(name):
                return self._class(name, document, path)
            case model.Optional(element):
                return None if document is None else self._value(element, document, path)
            case model.FixedArray(element, length):
                if len(self._list(kind, document, path)) != length:
                    raise JsonMismatch(path, f"{len(document)} elements given, the type has {length}")
                return self._elements(element, document, path)
            case model.VariableArray(element, limit):
                items = _at_most(self._list(kind, document, path), limit, "elements", path)
                return self._elements(element, items, path)
            case model.LinkedList(entry, limit, filled):
                items = self._list(kind, document, path)
                if limit is not None:
                    _at_most(items, limit, "entries", path)
                if filled and not items:
                    raise JsonMismatch(path, "no entries given, the type has at least one")
                return self._elements(model.ClassRef(entry), items, path)
            case other:
                raise AssertionError(other)

    def _elements(self, element: model.Type, document: list[Any], path: str) -> list[Any]:
        return [self._value(element, item, f"{path}[{index}]") for index, item in enumerate(document)]

    def _list(self, kind: model.Type, document: Any, path: str) -> list[Any]:
        if not isinstance(document, list):
            raise JsonMismatch(path, f"{_shown(document)} is not an array", self._like(kind))
        return document

    def _like(self, kind: model.Type) -> str:
        seen = shape(self._module, kind)
        return f"it is {seen if isinstance(seen, str) else json.dumps(seen)}"

    def _enumerator(self, name: str, document: Any, path: str) -> Any:
        members = self._enums[name]
        number = members.get(document) if isinstance(document, str) else document
        if type(number) is not int or number not in members.values():
            spelt = {member.lower(): member for member in members}
            close = difflib.get_close_matches(str(document).lower(), spelt, 1, 0.6)
            hint = f"did you mean {spelt[close[0]]}?" if close else f"one of {_some(members)}"
            raise JsonMismatch(path, f"{_shown(document)} is no value of enum {name}", hint)
        return self._classes[name](number)

    def _data(self, document: Any, path: str) -> Buffer:
        if not isinstance(document, str):
            raise JsonMismatch(path, f"{_shown(document)} is not octets", _DATA_FORMS)
        if document.startswith("@"):
            if self._read_file is None:
                raise JsonMismatch(path, "no files are read here", _DATA_FORMS)
            try:
                data = self._read_file(document[1:])
            except ValueError:
                raise JsonMismatch(path, f"{_shown(document)}: no file can have this name") from None
            return data if type(data) is bytes else as_view(data, path)
        form, colon, rest = document.partition(":")
        try:
            if form == "hex" and colon:
                return bytes.fromhex(rest)
            if form == "text" and colon:
                return rest.encode("utf-8", "surrogateescape")
            return base64.b64decode(document, validate=True)
        except (ValueError, binascii.Error):
            raise JsonMismatch(path, f"{_shown(document)} is not octets in Base64", _DATA_FORMS) from None

    def _text(self, document: Any, limit: int, path: str) -> str:
        if isinstance(document, dict) and list(document) == ["base64"]:
            try:
                data = base64.b64decode(document["base64"], validate=True)
            except (TypeError, ValueError):
                raise JsonMismatch(path, f"{_shown(document['base64'])} is not Base64") from None
            _at_most(data, limit, "octets", path)
            return data.decode("utf-8", "surrogateescape")
        if not isinstance(document, str):
            raise JsonMismatch(path, f"{_shown(document)} is not a string")
        try:
            data = document.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise JsonMismatch(path, f"{_shown(document)} has characters that have no octets") from None
        _at_most(data, limit, "octets", path)
        return document

    def _class(self, name: str, document: Any, path: str) -> Any:
        if not isinstance(document, dict):
            reason = f"{_shown(document)} is not an object, as {name} is"
            raise JsonMismatch(path, reason, self._like(model.ClassRef(name)))
        item = self._module.classes[name]
        if isinstance(item, model.Union):
            return self._union(item, document, path)
        kinds = {definition_name(member.name): member.type for member in item.members}
        _check_names(document, kinds, path)
        values = {}
        for member, (key, kind) in zip(item.members, kinds.items(), strict=True):
            values[member.name] = self._member(kind, document, key, path)
        return self._classes[name](**values)

    def _union(self, item: model.Union, document: dict[str, Any], path: str) -> Any:
        key = discriminant_key(item)
        tag = self._member(item.discriminant.type, document, key, path)
        arm = arm_of(item, int(tag))
        if arm is None:
            raise JsonMismatch(f"{path}.{key}", f"{_shown(document[key])} is no case of union {item.name}")
        if arm.type is None:
            _check_names(document, [key], path)
            return self._classes[item.name](tag, None)
        of_arm = arm_key(item, arm)
        _check_names(document, [key, of_arm], path)
        return self._classes[item.name](tag, self._member(arm.type, document, of_arm, path))

    def _member(self, kind: model.Type, document: dict[str, Any], key: str, path: str) -> Any:
        if key not in document:
            if isinstance(model.strip(kind), model.Optional):
                return None
            raise JsonMismatch(f"{path}.{key}", "missing", self._like(kind))
        return self._value(kind, document[key], f"{path}.{key}")


class JsonWriter:
    """Makes JSON documents from values of generated classes; docs/cli.md has the mapping.

    Args:
        module: the checked model of the definition.
        hexadecimal: whether opaque data is written in hexadecimal instead of Base64.
        keep: called with the path and octets of each opaque item; returns the item's document, such as "@NAME" for a
            file NAME with the octets, or None for the usual one. None: always the usual one.
    """

    def __init__(
        self,
        module: model.Module,
        *,
        hexadecimal: bool = False,
        keep: Callable[[str, Buffer], str | None] | None = None,
    ) -> None:
        self._module = module
        self._hexadecimal = hexadecimal
        self._keep = keep
        self._names = {item.name: {number: name for name, number in reversed(item.members)} for item in module.enums}

    def write(self, kind: model.Type | None, value: Any, path: str) -> Any:
        """Converts a value to a document.

        Args:
            kind: the type of the value; None: void.
            value: the value, valid for the type.
            path: the name of the value; the paths of opaque items, which the function `keep` gets, begin with it.

        Returns:
            The document, for `json.dumps`; None for void.
        """
        if kind is None:
            return None
        match model.strip(kind):
            case model.Number(code):
                return value if code not in "fd" or math.isfinite(value) else _unlike_json(value)
            case model.EnumRef(name):
                return self._names[name][int(value)]
            case model.FixedOpaque() | model.VariableOpaque():
                return self._data(value, path)
            case model.Text():
                return _text_document(value)
            case model.ClassRef(name):
                return self._class(name, value, path)
            case model.Optional(element):
                return None if value is None else self.write(element, value, path)
            case model.FixedArray(element) | model.VariableArray(element):
                return self._elements(element, value, path)
            case model.LinkedList(entry):
                return self._elements(model.ClassRef(entry), value, path)
            case _:
                return value

    def _elements(self, element: model.Type, value: list[Any], path: str) -> list[Any]:
        return [self.write(element, item, f"{path}[{index}]") for index, item in enumerate(value)]

    def _data(self, data: Buffer, path: str) -> str:
        kept = None if self._keep is None else self._keep(path, data)
        if kept is not None:
            return kept
        return f"hex:{bytes(data).hex()}" if self._hexadecimal else base64.b64encode(data).decode()

    def _class(self, name: str, value: Any, path: str) -> dict[str, Any]:
        item = self._module.classes[name]
        written: dict[str, Any] = {}
        if isinstance(item, model.Struct):
            for member in item.members:
                key = definition_name(member.name)
                written[key] = self.write(member.type, getattr(value, member.name), f"{path}.{key}")
            return written
        key = discriminant_key(item)
        tag = getattr(value, item.discriminant.name)
        written[key] = self.write(item.discriminant.type, tag, f"{path}.{key}")
        arm = arm_of(item, int(tag))
        assert arm is not None, "the codec has let it pass"
        if arm.type is not None:
            of_arm = arm_key(item, arm)
            written[of_arm] = self.write(arm.type, value.value, f"{path}.{of_arm}")
        return written


_DATA_FORMS = 'octets are Base64, or "hex:00ff", "text:words" or "@FILE"'


def _check_names(document: Iterable[str], known: Iterable[str], path: str) -> None:
    names = dict.fromkeys(known)
    for key in document:
        if key not in names:
            close = difflib.get_close_matches(key, names, 1, 0.6)
            hint = f"did you mean {close[0]}?" if close else f"there is {_some(names) or 'nothing'}"
            raise JsonMismatch(f"{path}.{key}", "unknown", hint)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - 8
    return ", ".join(listed[:8]) + (f" and {more} more" if more > 0 else "")


def _shown(document: Any) -> str:
    text = json.dumps(document)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _at_most(value: Any, limit: int, what: str, path: str) -> Any:
    if len(value) > limit:
        raise JsonMismatch(path, f"{len(value)} {what} given, the limit is {limit}")
    return value


def _integer(code: str, document: Any, path: str) -> int:
    bits = 64 if code in "qQ" else 32
    low, high = (0, (1 << bits) - 1) if code.isupper() else (-(1 << bits - 1), (1 << bits - 1) - 1)
    number = document
    if isinstance(document, str) and len(document) <= _SHOWN_CHARACTERS:
        try:
            number = int(document, 0)
        except ValueError:
            number = None
    if type(number) is not int or not low <= number <= high:
        raise JsonMismatch(path, f"{_shown(document)} is not {NUMBER_WORDS[code]}: {low} to {high}")
    return number


def _float(code: str, document: Any, path: str) -> float:
    if isinstance(document, str) and document in _NO_JSON_NUMBER:
        return _NO_JSON_NUMBER[document]
    if isinstance(document, bool) or not isinstance(document, int | float):
        raise JsonMismatch(path, f"{_shown(document)} is not a number", f"or one of {_some(_NO_JSON_NUMBER)}")
    try:
        number = float(document)
        struct.pack(f">{code}", number)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise JsonMismatch(path, f"{_shown(document)} is too large for a {'float' if code == 'f' else 'double'}")
    return number


def _unlike_json(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text_document(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"base64": base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()}
    return text
