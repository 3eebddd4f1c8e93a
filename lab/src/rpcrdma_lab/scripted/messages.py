"""Encodes and decodes transport headers and RPC headers by named fields.

docs/send.md has the fields, also those of deliberate mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rpcrdma_lab.scripted.form import check_header, check_message
from rpcrdma_lab.scripted.header_fields import MAKERS, READERS, Short, make_word, word_at
from rpcrdma_lab.scripted.layouts import LAYOUTS, version_of_first
from rpcrdma_lab.scripted.peer_interface import Heard, ScriptedPeer
from rpcrdma_lab.scripted.placement_fields import (
    PLACEMENT_MAKERS,
    PLACEMENT_READERS,
    RECEIVE_STRUCTURE,
    buffer_segments,
)
from rpcrdma_lab.scripted.values import CONTENT_OCTETS_MAX, Names, number, octets

__all__ = [
    "UNKNOWN",
    "heard_message",
    "kind_words",
    "make_message",
    "message_words",
    "read_message",
    "read_rpc",
]

_NFS = (100003, 3)
_READ, _WRITE = (*_NFS, 6), (*_NFS, 7)
_SEND_SIZE, _RECEIVE_SIZE = 1, 2
_SEND_OCTETS = 4096
"""The Maximum Send Size in octets of an end that states none."""
_MAKERS = {**MAKERS, **PLACEMENT_MAKERS}
_READERS = {**READERS, **PLACEMENT_READERS}


def make_message(version: str, message: Mapping[str, Any], names: Names, where: str = "message") -> bytes:
    """Encodes a message from its named fields, which may be deliberately wrong.

    Args:
        version: the protocol version, "1" or "2".
        message: "header" (None: no header), "rpc", "body", "bulk", "append", "put" and "cut"; docs/send.md has them.
        names: resolves references in values, such as {"given": NAME}.
        where: the path of `message` for error texts.

    Raises:
        LocalProtocolError: a field is unknown or its value is not valid; the error's text begins with its path.
    """
    check_message(version, message, where)
    header = message.get("header", {})
    payload = b""
    if message.get("rpc") is not None:
        payload = _rpc(message["rpc"], header or {}, names, f"{where}.rpc")
    if "body" in message:
        payload += octets(message["body"], names, f"{where}.body")
    made = b"" if header is None else _header(version, header, len(payload), names, f"{where}.header")
    made += payload
    if "bulk" in message:
        at = number(message["bulk"]["at"], names, f"{where}.bulk.at", 0, CONTENT_OCTETS_MAX)
        made = made.ljust(at, b"\0")
        made += octets(message["bulk"]["data"], names, f"{where}.bulk.data")
    if "append" in message:
        made += octets(message["append"], names, f"{where}.append")
    for place, value in message.get("put", {}).items():
        at = number(place, names, f"{where}.put", 0, len(made))
        over = octets(value, names, f"{where}.put.{place}")
        made = made[:at] + over + made[at + len(over) :]
    if "cut" in message:
        made = made[: number(message["cut"], names, f"{where}.cut")]
    return made


def _header(version: str, given: Mapping[str, Any], payload_octets: int, names: Names, where: str) -> bytes:
    layout = LAYOUTS[version]
    values: dict[str, Any] = {"xid": {"given": "xid"}, "payload_octets": payload_octets, **layout.defaults, **given}
    # A header may have a type and, deliberately, the fields of another.
    kind = number(values.get("fields_of", values.get("type", 0)) or 0, names, f"{where}.type")
    check_header(version, given, where, kind)
    body = layout.bodies.get(kind, layout.bodies[layout.usual])
    fields = [*layout.prefix, *body]
    return b"".join(
        _MAKERS[sort](values.get(name), values.get(f"{name}_end", 0), names, f"{where}.{name}") for name, sort in fields
    )


def _rpc(given: Mapping[str, Any], header: Mapping[str, Any], names: Names, where: str) -> bytes:
    """Encodes an RPC message (RFC 5531 section 9): an accepted reply if "accepted" is given, otherwise a call.

    A call has the credential in "credential", or AUTH_NONE.

    Args:
        given: the fields of the RPC message (docs/send.md).
        header: the fields of the transport header, whose "xid" is the default of that in `given`.
        names: resolves references in values, such as {"given": NAME}.
        where: the path of `given` for error texts.

    Raises:
        LocalProtocolError: a value is not valid.
    """
    xid = make_word(given.get("xid", header.get("xid", {"given": "xid"})), 0, names, f"{where}.xid")
    if "accepted" in given:
        status = make_word(given["accepted"], 0, names, f"{where}.accepted")
        return (
            xid + bytes([0, 0, 0, 1]) + bytes(12) + status + octets(given.get("results", ""), names, f"{where}.results")
        )
    program = given.get("program", names.given.get("program", _NFS[0]))
    version = given.get("version", names.given.get("program_version", _NFS[1]))
    words = (given.get("direction", 0), given.get("rpc_version", 2), program, version, given.get("procedure", 0))
    made = xid + b"".join(make_word(word, 0, names, where) for word in words)
    made += octets(given["credential"], names, f"{where}.credential") if "credential" in given else bytes(8)
    return made + bytes(8) + octets(given.get("args", ""), names, f"{where}.args")


def read_message(version: str, data: bytes) -> dict[str, Any]:
    """Decodes a received message of protocol `version` ("1" or "2") to its parts by name.

    "header" has the fields of the transport header, and "body" the octets after it. "rpc" has the result of `read_rpc`,
    with "same_xid" (0 or 1: the XID is that of the header), if "body" has 8 octets or more. "octets" is the length of
    the message, "header_octets" that of its header, and "segments" the number of segments in all chunks. "item"
    compares the chunk of an NFSv3 READ or WRITE with the count in its arguments (None for other messages): "unaligned"
    is the count modulo 4, and "spare" the chunk's octets beyond the count.

    If there are transport properties, "send_octets" is the Maximum Send Size: 4096, unless it has a value of 4 octets.
    If these have a Receive Buffer Structure, "buffer" is the result of `buffer_segments` for it. If they also state a
    Maximum Receive Size, "agrees" in "buffer" says whether "receive_octets" there equals that size (0 or 1).

    If the header type is unknown or the header does not decode, "broken" is the cause as text, "header" has the fields
    decoded before, "body" is empty, and of the other keys only "octets" is present.
    """
    layout = LAYOUTS[version]
    header: dict[str, Any] = {}
    found: dict[str, Any] = {"header": header, "body": b"", "octets": len(data)}
    try:
        at = _read_fields(layout.prefix, data, 0, header)
        body = layout.bodies.get(header["type"])
        if body is None:
            found["broken"] = f"header type {header['type']} is none of version {version}"
            return found
        at = _read_fields(body, data, at, header)
    except Short as error:
        found["broken"] = str(error)
        return found
    found["body"] = data[at:]
    found["header_octets"] = at
    found["segments"] = _count_segments(header)
    properties = header.get("properties", {})
    if "properties" in header:
        told = properties.get(_SEND_SIZE, b"")
        found["send_octets"] = int.from_bytes(told) if len(told) == 4 else _SEND_OCTETS
    if RECEIVE_STRUCTURE in properties:
        found["buffer"] = buffer_segments(properties[RECEIVE_STRUCTURE])
        told = properties.get(_RECEIVE_SIZE)
        if found["buffer"] and told:
            found["buffer"]["agrees"] = int(int.from_bytes(told) == found["buffer"]["receive_octets"])
    if len(found["body"]) >= 8:
        found["rpc"] = read_rpc(found["body"])
        found["rpc"]["same_xid"] = int(found["rpc"]["xid"] == header["xid"])
        found["item"] = _item(header, found["rpc"])
    return found


def _item(header: Mapping[str, Any], rpc: Mapping[str, Any]) -> dict[str, int] | None:
    procedure = rpc.get("program"), rpc.get("version"), rpc.get("procedure")
    chunk: list[dict[str, int]] = []
    if procedure == _READ and header.get("writes"):
        chunk = header["writes"][0]
    elif procedure == _WRITE:
        chunk = header.get("reads") or []
    if not chunk or len(rpc.get("args", b"")) < 4:
        return None
    # The data of a WRITE is not there, so that its count is at the end as well.
    count = int.from_bytes(rpc["args"][-4:])
    return {"unaligned": count % 4, "spare": sum(segment["length"] for segment in chunk) - count}


def _count_segments(header: Mapping[str, Any]) -> int:
    lists = [header.get("reads"), header.get("reply"), *(header.get("writes") or [])]
    lists += [item.get("segments") for item in header.get("items") or []]
    lists += [result.get("segments") for each in header.get("directions") or [] for result in each["results"]]
    return sum(len(each or []) for each in lists)


def _read_fields(fields: tuple[tuple[str, str], ...], data: bytes, at: int, into: dict[str, Any]) -> int:
    for name, sort in fields:
        into[name], at = _READERS[sort](data, at, name)
    return at


def read_rpc(data: bytes) -> dict[str, Any]:
    """Decodes an RPC message to its fields by name: "xid" and "direction", and those of a call or of a reply.

    A call has "rpc_version", "program", "version", "procedure" and "args"; a reply has "status" and, if it is accepted,
    "accepted", "results" and "result_status" (the first word of the results). A message that ends within a field has
    {"broken": True} and the fields before it.
    """
    found: dict[str, Any] = {}
    try:
        found["xid"] = word_at(data, 0, "xid")
        found["direction"] = word_at(data, 4, "direction")
        if found["direction"] == 0:
            names = ("rpc_version", "program", "version", "procedure")
            found |= {name: word_at(data, 8 + 4 * index, name) for index, name in enumerate(names)}
            at = 24
            for _ in ("credential", "verifier"):
                at += 8 + (word_at(data, at + 4, "length") + 3 & ~3)
            found["args"] = data[at:]
        elif found["direction"] == 1:
            found["status"] = word_at(data, 8, "status")
            if found["status"] == 0:
                at = 20 + (word_at(data, 16, "length") + 3 & ~3)
                found["accepted"] = word_at(data, at, "accepted")
                found["results"] = data[at + 4 :]
                if len(found["results"]) >= 4:
                    found["result_status"] = word_at(data, at + 4, "result status")
    except Short:
        found["broken"] = True
    return found


UNKNOWN = "a message"
"""The words of `kind_words` for a message of which neither the header type nor the RPC message is known."""
_ACCEPTED = ("successful", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR")
_ERRORS: Mapping[str, Mapping[int, str]] = {"1": {1: "ERR_VERS", 2: "ERR_CHUNK"}}


def kind_words(version: str, header: Mapping[str, Any], rpc: Mapping[str, Any], caller: str) -> str:
    """Returns a noun phrase for a message or a pattern, such as "a call of the server" or "RDMA_ERROR with ERR_CHUNK".

    Args:
        version: the protocol version, "1" or "2".
        header: fields of the transport header: "type" and "error" are mentioned if they are there as numbers.
        rpc: fields of the RPC message, as `read_rpc` names them; empty if there is none.
        caller: the noun for the end that makes calls, such as "client".
    """
    kind, error, accepted = header.get("type"), header.get("error"), rpc.get("accepted")
    named = LAYOUTS[version].names.get(kind, f"type {kind}") if isinstance(kind, int) else ""
    if isinstance(error, int):
        return f"{named or 'an error'} with {_ERRORS.get(version, {}).get(error, f'the code {error}')}"
    words = UNKNOWN
    if rpc.get("direction") == 0 or "procedure" in rpc:
        words = f"a call of the {caller}"
    elif rpc.get("status") == 1:
        words = "a denied reply"
    elif accepted == 0:
        status = rpc.get("result_status")
        words = "a successful reply" if not isinstance(status, int) or not status else f"a reply with status {status}"
    elif isinstance(accepted, int):
        words = f"the refusal {_ACCEPTED[accepted] if accepted < len(_ACCEPTED) else accepted}"
    elif named:
        return named
    return f"{words} in {named}" if named else words


def heard_message(peer: ScriptedPeer, note: Callable[..., None], payload: bytes, invalidates: int | None) -> Heard:
    """Returns the event of a Send that `peer` has received, and logs it by `note`, the `PassageLog.note` of the peer.

    Sets the version of `peer` if it `takes_version`. `invalidates` is the handle that the Send invalidates, or None.
    """
    if peer.takes_version:
        peer.version, peer.takes_version = version_of_first(payload), False
    fields = read_message(peer.version, payload) | {"invalidates": invalidates}
    how = "Send" if invalidates is None else f"Send with Invalidate of {invalidates:#x}"
    note(f"{how}, {len(payload)} octets: {message_words(peer.version, fields)}", payload, ours=False)
    return Heard("message", fields)


def message_words(version: str, fields: Mapping[str, Any]) -> str:
    """Returns one line of text about a message that `read_message` has decoded: its header fields and call or reply.

    `version` is the protocol version, "1" or "2", and `fields` is the result of `read_message`.
    """
    layout = LAYOUTS[version]
    header = fields["header"]
    if "type" not in header:
        return f"{fields['octets']} octets that are no message"
    words = [layout.names.get(header["type"], f"type {header['type']}"), f"xid {header['xid']:#010x}"]
    if header["version"] != layout.defaults["version"]:
        words.append(f"version {header['version']}")
    words += [f"{name} {header[name]}" for name in ("credit", "give") if name in header]
    if "error" in header:
        words.append(f"error {header['error']} {header.get('numbers') or ''}".rstrip())
    for name in ("reads", "writes"):
        if header.get(name):
            words.append(f"{name} {len(header[name])}")
    if header.get("reply") is not None:
        words.append("reply chunk")
    rpc = fields.get("rpc")
    if rpc and "procedure" in rpc:
        words.append(f"call {rpc['program']}.{rpc['version']}.{rpc['procedure']}")
    elif rpc and "accepted" in rpc:
        words.append(f"reply accepted {rpc['accepted']}")
    return ", ".join(words) + (f" ({fields['broken']})" if "broken" in fields else "")
