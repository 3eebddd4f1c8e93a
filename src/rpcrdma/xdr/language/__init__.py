"""The XDR language (RFC 4506) with programs (RFC 5531) and its compiler to typed Python.

Beyond the two RFCs the compiler reads `pragma` lines:

`pragma ddp TYPE.member;`
    The member, an opaque<> or string<>, may be placed directly by RDMA (RFC 8166 section 6.1).
`pragma limit TYPE.member N;`, `pragma limit TYPEDEF N;`
    The most octets or elements of an item that the definition leaves unbounded, or bounds more loosely. On a
    pointer to a linked list: the most entries; without it a list is bounded by its message, since an
    entry takes at least four octets.
`pragma bound RESULT.member ARGUMENTS.member;`
    A member of the arguments bounds a member of the result.
`pragma pairs RESULT.member ARGUMENTS.member;`
    Both members are arrays, and each element of the result belongs to the element of the arguments with its number, as
    in a COMPOUND of NFSv4. A caller can then direct the data of single elements (`rpcrdma.rtr`).

Every variable-length item must have a bound. uint32, int32, uint64 and int64 are known without a typedef, and
`struct T` means T in a declaration, as definitions written for rpcgen have it.

The lenient dialect takes malformed definitions of drafts whose meaning is clear, with a warning each: constants
without "=" or with a type, a missing "{" or final ";", typedefs the wrong way round, repeated member names
and several declarations in an arm of a union, a ";" between type and name, `long`, and an undefined type of
a discriminant whose cases are constants. Of the additions of rpcgen: enumerators without a value, constants that are
texts (left out), `typedef struct T T;`, `string` as an argument or result, names of arguments, and types of C such as
`char`, `bool_t`, `uint8_t`, `rpcprog_t` and `netobj`. Of other compilers: comments after `//`, unions with a default
alone, and `namespace NAME { ... }`, whose name is left out.

Generated functions of types that contain themselves (other than as linked lists) refuse more than 64 nested levels.

Provisional: other releases may change these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcrdma.deferred import deferred
from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.diagnostics import Diagnostic, LanguageError, SourceSpan

if TYPE_CHECKING:
    from rpcrdma.xdr.language.checker import check
    from rpcrdma.xdr.language.compiler import CompiledModule, compile_source
    from rpcrdma.xdr.language.extract import extract
    from rpcrdma.xdr.language.parser import parse

__all__ = [
    "CompiledModule",
    "Diagnostic",
    "LanguageError",
    "SourceSpan",
    "check",
    "compile_source",
    "extract",
    "model",
    "parse",
]

__getattr__, __dir__ = deferred(
    __name__,
    {
        "rpcrdma.xdr.language.checker": ("check",),
        "rpcrdma.xdr.language.compiler": ("CompiledModule", "compile_source"),
        "rpcrdma.xdr.language.extract": ("extract",),
        "rpcrdma.xdr.language.parser": ("parse",),
    },
)
