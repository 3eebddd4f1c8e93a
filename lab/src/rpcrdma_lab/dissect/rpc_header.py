"""The header of an RPC call or reply as annotated fields, with the names of programs and procedures that are known."""

from __future__ import annotations

from dataclasses import dataclass

from rpcrdma.rpc import AuthFlavor
from rpcrdma_lab.dissect.definitions import Note, definition
from rpcrdma_lab.dissect.fields import Field, FieldFault
from rpcrdma_lab.dissect.protection import Protection, protection_of
from rpcrdma_lab.dissect.rpc_body import Called, Interfaces
from rpcrdma_lab.dissect.xdr_walk import Walk

__all__ = ["RpcHeader", "walk_rpc_header"]

_RPC_VERSION = 2
_CALL, _REPLY = 0, 1
_CREDENTIALS: dict[tuple[str, int | None], str] = {
    ("cred", AuthFlavor.AUTH_SYS): "authsys_parms",
    ("verf", AuthFlavor.AUTH_SYS): "authsys_parms",
    ("cred", AuthFlavor.RPCSEC_GSS): "gss_credential",
}
"""The XDR structures in the bodies of credentials and verifiers; a verifier of RPCSEC_GSS is a checksum."""


@dataclass(slots=True)
class RpcHeader:
    """A decoded RPC header, as far as it could be decoded.

    `group` has its annotated fields, `size` is its length in octets, and `faults` are the reason why the decoding ended
    early and the rules that the header breaks. `xid` and `is_call` (whether it is a call) are None if unknown.
    `procedure` is the name of a call's procedure, and `called` has the call's numbers of program, version and
    procedure. `outcome` is the status of a reply, such as "SUCCESS". `protection` is that by a call's credential; None
    for a reply, and if the credential cannot be decoded.
    """

    group: Field
    faults: list[FieldFault]
    size: int
    xid: int | None
    is_call: bool | None
    procedure: str = ""
    outcome: str = ""
    called: Called | None = None
    protection: Protection | None = None


def walk_rpc_header(data: bytes, interfaces: Interfaces) -> RpcHeader:
    """Decodes the RPC header at the start of `data` as far as possible; `faults` of the result say what is wrong.

    `interfaces` has the names of programs and procedures.

    Raises:
        LanguageError: a definition in `interfaces` cannot be compiled.
    """
    walk = Walk(definition("rpc"), data)
    group = walk.structure("rpc_msg", "RPC")
    kind = group.number("body", "mtype")
    header = RpcHeader(group, walk.faults, walk.pos, group.number("xid"), None)
    if kind in {_CALL, _REPLY}:
        header.is_call = kind == _CALL
    if header.is_call:
        _finish_call(header, interfaces)
    elif header.is_call is not None:
        stats = [one for one in group.walk() if one.name in {"stat", "reason"} and one.shown]
        header.outcome = stats[-1].shown.partition("(")[2].partition(":")[0] if stats else ""
    for auth in [one for one in group.walk() if one.name in {"cred", "verf"}]:
        _add_credential(auth)
    credential = group.member("body", "cbody", "cred")
    header.protection = None if credential is None else protection_of(credential)
    return header


def _finish_call(header: RpcHeader, interfaces: Interfaces) -> None:
    body = header.group.member("body", "cbody")
    assert body is not None
    version = body.member("rpcvers")
    if version is not None and version.value not in {None, _RPC_VERSION}:
        version.faults.append(f"{_RPC_VERSION} is needed")
        header.faults.append(FieldFault("rpcvers", version.offset, f"{_RPC_VERSION} is needed", version.section))
    program, program_version, procedure = (body.number(name) for name in ("prog", "vers", "proc"))
    if program is not None and program_version is not None and procedure is not None:
        header.called = program, program_version, procedure
        header.procedure = interfaces.name(*header.called)
        shown = body.member("proc")
        assert shown is not None
        shown.shown = f"{procedure} ({header.procedure})"


def _add_credential(auth: Field) -> None:
    """Decodes the body of `auth`, a credential "cred" or verifier "verf"; adds fields and faults to its field "body".

    The message itself gets no fault. Only the bodies of AUTH_SYS, and of a credential of RPCSEC_GSS, are decoded.
    """
    body = auth.member("body")
    structure = _CREDENTIALS.get((auth.name, auth.number("flavor")))
    if structure is None or body is None or not isinstance(body.value, bytes):
        return
    walk = Walk(definition("rpc"), body.value)
    credential = walk.structure(structure)
    walk.done(structure, Note("", credential.section))
    for one in credential.walk():
        one.offset += body.offset + 4
    body.fields = credential.fields
    body.faults += [fault.reason for fault in walk.faults if fault.reason not in body.faults]
