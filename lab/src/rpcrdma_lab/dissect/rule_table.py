"""Rules of RPC-over-RDMA on several fields of a message, as a table for `rpcrdma decode` and the Lua dissector.

A message breaks a rule if it has one of the rule's types and all of its facts hold, of which some begin with "not".
Both decoders find the facts in their own ways:

- `payload`: octets follow the header; `call`, `reply`: an RPC message of that kind begins there; `other XID`: one that
  has another XID than the header
- `chunks`, `reads`, `Reply chunk`: the header has any chunk, a Read list, a Reply chunk
- `zero`: a Read segment is at Position Zero
- `foreign handle`: the handle that may be invalidated is in no chunk
- `reserved`, `more`, `response`: flags; `XID`, `credits`: these are not 0
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

__all__ = ["RULES", "Rule", "broken"]


class Rule(NamedTuple):
    """A rule that a message breaks if it has one of the types `kinds` (empty: any type) and all `facts` hold for it.

    `kinds` are names of header types, and `facts` names of facts, such as "payload" and "Reply chunk"; "not " before a
    name negates the fact. `member` is the header field to which the fault is attached. `reason` may contain `{kind}`
    and `{rpc_xid}`. `section` states the rule, and `requirement` is its identifier in the conformance ledger or "".
    """

    kinds: tuple[str, ...]
    facts: tuple[str, ...]
    member: str
    reason: str
    section: str
    requirement: str = ""


def broken(rules: Sequence[Rule], kind: str, facts: Collection[str], rpc_xid: int = 0) -> Iterator[Rule]:
    """Yields the rules that a message breaks, in the order of `rules`, with the placeholders in their reasons replaced.

    Args:
        rules: the rules of the protocol version.
        kind: the name of the header type, such as "RDMA_MSG".
        facts: the names of the facts that hold for the message, such as "payload" (the module's docstring has them).
        rpc_xid: the XID of the RPC message behind the header; 0 if there is none.
    """
    for rule in rules:
        if rule.kinds and kind not in rule.kinds:
            continue
        if all((fact.removeprefix("not ") in facts) is not fact.startswith("not ") for fact in rule.facts):
            yield rule._replace(reason=rule.reason.format(kind=kind, rpc_xid=rpc_xid))


_NO_PART = "no part of an RPC message follows"
_OTHER_XID = "the RPC message has XID {rpc_xid:#010x}"
_REPLY_READS = "a reply has no Read chunks"
_FOREIGN = "none of the header's segments has this handle"

_VERSION_1 = (
    Rule((), ("other XID",), "rdma_xid", _OTHER_XID, "RFC 8166 4.2.1", "V1-38"),
    Rule(("RDMA_MSG",), ("not payload",), "rdma_proc", "no RPC message follows", "RFC 8166 4.2.4"),
    Rule(("RDMA_NOMSG",), ("not chunks",), "rdma_proc", "no chunk holds the RPC message", "RFC 8166 4.5.2", "V1-41"),
    Rule(("RDMA_MSGP",), (), "rdma_proc", "padded messages are never sent", "RFC 8166 4.6.1", "V1-68"),
    Rule(("RDMA_DONE",), (), "rdma_proc", "RDMA_DONE is never sent", "RFC 8166 4.6.2", "V1-71"),
    Rule(("RDMA_MSG", "RDMA_NOMSG", "RDMA_MSGP", "RDMA_DONE"), ("not credits",), "rdma_credit",
         "neither a request nor a grant may be 0", "RFC 8166 3.3.1", "V1-3"),
    Rule((), ("reply", "reads"), "rdma_reads", _REPLY_READS, "RFC 8166 4.3.1", "V1-44"),
)  # fmt: skip

_VERSION_2 = (
    Rule((), ("other XID",), "rdma_xid", _OTHER_XID, "version-two-00 6.3.1"),
    Rule((), ("reserved",), "rdma_flags", "reserved flags are set", "version-two-00 6.3.2", "V2-37"),
    Rule(("RDMA2_NOMSG", "RDMA2_ERROR", "ROPT_XMTREQ", "ROPT_XMTRESP", "ROPT_XMTCONT", "ROPT_REPTERR"), ("more",),
         "rdma_flags", "{kind} does not go on in another message", "version-two-00 6.3.2", "V2-42"),
    Rule(("RDMA2_MSG",), ("more", "chunks"), "rdma_flags", "chunks belong into the last message of a sequence",
         "version-two-00 6.3.2", "V2-43"),
    Rule(("RDMA2_ERROR",), ("not response",), "rdma_flags", "an error has RESPONSE set", "version-two-00 6.3.2",
         "V2-40"),
    Rule((), ("call", "response"), "rdma_flags", "RESPONSE does not fit to a call", "version-two-00 6.3.2", "V2-38"),
    Rule((), ("reply", "not response"), "rdma_flags", "RESPONSE does not fit to a reply", "version-two-00 6.3.2",
         "V2-38"),
    Rule(("RDMA2_MSG",), ("not payload", "not more"), "rdma_htype", _NO_PART, "version-two-00 6.4.1"),
    Rule(("RDMA2_NOMSG",), ("not more", "not chunks", "XID"), "rdma_xid",
         "no chunk holds an RPC message, and a grant has XID 0", "version-two-00 6.4.2", "V2-47"),
    Rule(("RDMA2_NOMSG",), ("not more", "chunks", "not response", "not zero"), "rdma_chunks",
         "no Position-Zero Read chunk holds the RPC call", "version-two-00 6.4.2"),
    Rule(("RDMA2_NOMSG",), ("not more", "chunks", "response", "not Reply chunk"), "rdma_chunks",
         "no Reply chunk holds the RPC reply", "version-two-00 6.4.2"),
    Rule(("RDMA2_MSG",), ("zero",), "rdma_reads", "Position Zero beside a payload", "version-two-00 4.5.4"),
    Rule((), ("foreign handle", "not response"), "rdma_inv_handle", _FOREIGN, "version-two-00 6.3.3", "V2-78"),
    Rule((), ("reply", "reads"), "rdma_reads", _REPLY_READS, "version-two-00 6.3.3"),
)  # fmt: skip

RULES: Mapping[str, tuple[Rule, ...]] = {"1": _VERSION_1, "2": _VERSION_2}
"""The rules of each protocol version, "1" or "2"."""
